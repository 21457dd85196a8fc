"""What is wrong with a robot file before anything is computed with it."""
