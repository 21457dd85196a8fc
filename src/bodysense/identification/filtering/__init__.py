"""Filters that estimate motion and parameters together: Kalman filters, and particles."""
