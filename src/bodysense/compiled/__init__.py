"""What makes compiled kernels: decorators, cache, lanes. Knows no robot."""
