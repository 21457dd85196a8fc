"""How likely the readings are.

Elimination factors the density of all rows, those of the sensors, of further priors and of the
balance of a floating root, a row of zero, into whitened residuals e and factors with diagonals l:

    log p(rows) = -m/2 log 2π - Σ log l - Σ e²/2

Of the sensors' readings alone it is that, less what priors and balance are without any sensor:

    log p(y | priors, balance) = log p(y, priors, balance) - log p(priors, balance)
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from bodysense.estimation._kernels.solve import Found
from bodysense.estimation.map_dynamics.solution import Samples
from bodysense.spatial.arrays import Array

if TYPE_CHECKING:
    from bodysense.estimation.map_dynamics.estimator import MapDynamics


def log_density(problem: MapDynamics, found: Found) -> Array:
    """(T,) log density of all rows together, up to the constant of a floating root's balance."""
    sizes = np.diff(problem.layout.arrays.first)
    constants = -0.5 * math.log(2.0 * math.pi) * (found.present @ sizes)
    density: Array = constants + found.score[:, 0] - 0.5 * found.score[:, 1]
    return density


def log_likelihood(problem: MapDynamics, samples: Samples, found: Found | None = None) -> Array:
    """(T,) log density of the sensors' readings; absent ones are left out of it.

    Args:
        problem: the estimator.
        samples: of `problem.samples`.
        found: what `problem.solve` made of them, if it is known already.
    """
    density = log_density(problem, problem.solve(samples, "means") if found is None else found)
    if not (problem.tree.floating or problem.assumptions.others):
        return density
    blind = problem.blind
    rows = blind.layout.sorted_rows(np.zeros((samples.size, 0)))
    return density - log_density(blind, blind.solve(samples._replace(y=rows), "means"))
