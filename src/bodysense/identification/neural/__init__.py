"""Least squares by networks of neurons: Adaline's and that of Hopfield and Tank."""
