"""Maximum-a-posteriori dynamics: every acceleration, wrench and torque from redundant sensors."""

from bodysense.estimation.map_dynamics.body_tree import BodyTree
from bodysense.estimation.map_dynamics.equations import Equations, Variables
from bodysense.estimation.map_dynamics.estimator import MapDynamics
from bodysense.estimation.map_dynamics.priors import Assumptions, GaussianPrior

__all__ = [
    "Assumptions",
    "BodyTree",
    "Equations",
    "GaussianPrior",
    "MapDynamics",
    "Variables",
]
