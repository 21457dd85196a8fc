"""Compiled rigid-body kernels on plain arrays: what runs thousands of times in a row."""
