"""The linear equations of one sample as matrices with names, D d + b_D = 0 and y = Y d + b_Y."""

from bodysense.estimation.map_dynamics.equations.dense_roots import DenseRoots
from bodysense.estimation.map_dynamics.equations.equations import Equations, Variables

__all__ = ["DenseRoots", "Equations", "Variables"]
