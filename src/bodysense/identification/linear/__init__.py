"""Linear least squares in its variants: ordinary, weighted, robust, total, and with a prior."""
