"""What a method and its uncertainty exchange: the solution, its prior and the noise of its rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bodysense.identification.identification import Iteration
from bodysense.identification.reduced import Stack
from bodysense.identification.regression import Regression
from bodysense.spatial.arrays import Array

LEAST_FREEDOM = 0.1
"""Share of the rows that counts as degrees of freedom at least."""


@dataclass(frozen=True, eq=False)
class Solution:
    """Solution of a reduced problem.

    Attributes:
        theta: (p,) all parameters.
        unexcited: base parameters that the data do not reach.
        failure: why there is no solution, with advice; empty if there is one.
    """

    theta: Array
    unexcited: tuple[str, ...] = ()
    failure: str = ""

    def weighted(self, sigma: Array, stack: Stack) -> WeightedSolution:
        """The same as the solution of rows that were divided by sigma and reduced to the stack."""
        return WeightedSolution(self.theta, self.unexcited, self.failure, sigma=sigma, stack=stack)


@dataclass(frozen=True, eq=False, kw_only=True)
class WeightedSolution(Solution):
    """Solution of rows whose weights have been chosen.

    Attributes:
        sigma: (n_logs, n) standard deviations that rows are divided by.
        stack: the weighted problem.
        weights: (m, n) of each block, by which rows are multiplied; `None` for the blocks' own.
        trace: the iterations.
        converged: whether the iteration ended by itself.
        bread: curvature of the cost at the solution, where it is not that of `stack`.
        note: remark on the weights; empty if there is none.
        rows: the rows that were solved for, where they are not those of the problem.
        at_bound: (b,) base parameters that a bound about the prior holds; `None` for none.
    """

    sigma: Array
    stack: Stack
    weights: tuple[Array, ...] | None = None
    trace: tuple[Iteration, ...] = ()
    converged: bool = True
    bread: Stack | None = None
    note: str = ""
    rows: Regression | None = None
    at_bound: NDArray[np.bool_] | None = None


class PriorTerm(NamedTuple):
    """The prior that a solver uses, as `base_uncertainty` takes it.

    Attributes:
        spread: standard deviation in plausible sizes of the parameters; infinite for no prior.
        factor: (b, k) L of the prior N(0, L Lᵀ), where it is not one of plausible sizes.
        error_factor: (b, k) such a factor of the prior's actual error, where that is larger.
    """

    spread: float = np.inf
    factor: Array | None = None
    error_factor: Array | None = None


def noise_levels(problem: Regression, theta_base: Array) -> Array:
    """(n_logs, n) standard deviations of residuals, corrected for the fitted parameters."""
    squares, rows = problem.squares(theta_base)
    used = problem.size / max(float((rows > 0).sum()), 1.0)  # parameters per log and joint
    freedom = np.maximum(rows - used, LEAST_FREEDOM * rows)
    with np.errstate(invalid="ignore", divide="ignore"):
        sigma = np.sqrt(squares / freedom)
    floor = rounding_levels(problem)
    return np.where(rows > 0, np.maximum(sigma, floor), 1.0)


def rounding_levels(problem: Regression) -> Array:
    """(n,) residuals that are rounding: noise-free data must not divide by zero."""
    size = problem.torque_size
    if not size.any():  # no torque to compare with: that of 1 N·m, or squares of rows overflow
        size = np.ones_like(size)
    return np.maximum(problem.finest * size, 1e-300)
