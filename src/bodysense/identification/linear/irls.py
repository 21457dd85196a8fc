"""Iteratively reweighted least squares: rows that do not fit lose weight."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from bodysense.errors import unknown_name
from bodysense.identification.identification import Iteration
from bodysense.identification.linear.least_squares import (
    LinearIdentifier,
    Solver,
    Weighing,
    rounding_levels,
    weighted,
)
from bodysense.identification.prior import Prior
from bodysense.identification.regression import Regression
from bodysense.spatial.arrays import Array

_HUBER = 1.345
"""Where Huber's cost turns linear, in sigmas: 95 % efficiency on Gaussian noise."""

_WINDOW = (2.0, 4.0)
"""Full weight up to the first, none from the second on, in sigmas; a cosine in between."""

_MAD = 1.4826
"""Standard deviation of Gaussian noise in units of its median absolute deviation."""


@dataclass(frozen=True)
class IRLS(LinearIdentifier):
    """Weighted least squares whose rows carry another weight υ(residual), thesis eqs (18)-(20).

    ``huber`` minimises Huber's cost: rows beyond 1.345 σ pull with a constant force. ``window`` is
    the thesis' form: a weight function Λ that falls from one to zero, and weights that only ever
    shrink, υ_i = min(υ_{i-1}, Λ(ε_i)), so that an outlier is never let in again.

    Attributes:
        weighting: ``huber`` (rows that do not fit pull with a constant force) or ``window``
            (their weight falls to nothing, and never rises again).
        tolerance: change of predictions, in standard deviations of the residual, at which to stop.
        iterations: how often rows are weighed anew, at most.
    """

    weighting: Literal["huber", "window"] = "huber"
    tolerance: float = 1e-3
    iterations: int = 20

    name: ClassVar[str] = "irls"
    about: ClassVar[str] = "robust least squares: rows that do not fit lose weight"
    needs: ClassVar[str] = "noise levels: taken from the log"
    cost: ClassVar[str] = "one regression, a pass over all rows an iteration"
    when: ClassVar[str] = "recordings with outliers: knocks, contacts, samples that are wrong"

    def __post_init__(self) -> None:
        if self.weighting not in ("huber", "window"):
            raise unknown_name("weighting", self.weighting, ("huber", "window"))

    def weigh(self, problem: Regression, prior: Prior, solve: Solver) -> Weighing:
        """Weigh, solve, and weigh again until nothing moves."""
        start = weighted(problem, prior, solve, tolerance=1e-2, most=5)
        if start.note:  # noise levels are not known well enough to call any row an outlier
            return start
        solution, stack, sigma = start.solution, start.stack, start.sigma
        weights = tuple(block.use for block in problem.blocks())
        theta_base = prior.to_base(solution.theta)
        trace: list[Iteration] = []
        change, factors = np.inf, problem.factors
        for _ in range(self.iterations):
            residuals = list(_residuals(problem, theta_base))
            sigma = _robust_levels(problem, residuals, sigma)
            new = tuple(
                block.use * self._weight(e / sigma[block.log])
                for block, e in zip(problem.blocks(), residuals, strict=True)
            )
            if self.weighting == "window":
                new = tuple(np.minimum(a, b) for a, b in zip(weights, new, strict=True))
            weights = new
            factors = problem.weighted_factors(weights)
            stack = problem.stack(sigma, factors=factors)
            solution = solve(stack)
            moved = prior.to_base(solution.theta) - theta_base
            theta_base = theta_base + moved
            # How far predictions moved, in sigmas: parameters have no common size.
            change = float(np.linalg.norm(stack.A @ moved) / np.sqrt(max(stack.rows, 1)))
            trace.append(Iteration(stack.rest, change))
            if change < self.tolerance or solution.failure:
                break
        return Weighing(
            sigma,
            solution,
            stack,
            weights,
            tuple(trace),
            converged=change < self.tolerance,
            bread=problem.stack(
                sigma / np.sqrt(self._slopes(problem, theta_base, sigma, weights)),
                factors=factors,
            ),
        )

    def _slopes(
        self, problem: Regression, theta_base: Array, sigma: Array, weights: tuple[Array, ...]
    ) -> Array:
        """(n_logs, n) mean slope of the influence ψ(u) = υ² u, in units of the mean weight υ².

        The cost's curvature has the first where the fit has the second.
        """
        slopes, squares = np.zeros((2, *sigma.shape))
        for block, e, weight in zip(
            problem.blocks(), _residuals(problem, theta_base), weights, strict=True
        ):
            u = e / sigma[block.log]
            step = 1e-4
            ahead, behind = (self._weight(u + d) ** 2 * (u + d) for d in (step, -step))
            slopes[block.log] += (block.use * (ahead - behind)).sum(axis=0) / (2.0 * step)
            squares[block.log] += (weight**2).sum(axis=0)
        share: Array = np.clip(slopes / np.maximum(squares, 1e-300), 0.1, 1.0)
        return share

    def _weight(self, u: Array) -> Array:
        """By which rows with residuals u, in sigmas, are multiplied: the root of their weight."""
        size = np.abs(u)
        if self.weighting == "huber":
            return np.sqrt(_HUBER / np.maximum(size, _HUBER))
        inner, outer = _WINDOW
        inside: Array = 0.5 + 0.5 * np.cos(np.pi * np.clip((size - inner) / (outer - inner), 0, 1))
        return inside


def _residuals(problem: Regression, theta_base: Array) -> Iterator[Array]:
    for block in problem.blocks():
        yield block.y - block.Y @ theta_base


def _robust_levels(problem: Regression, residuals: list[Array], before: Array) -> Array:
    """(n_logs, n) standard deviations from medians, which outliers do not move."""
    sigma, floor = before.copy(), rounding_levels(problem)
    for log in range(problem.n_logs):
        mine = [
            (b.use, e) for b, e in zip(problem.blocks(), residuals, strict=True) if b.log == log
        ]
        if not mine:
            continue
        use, e = (np.concatenate(parts) for parts in zip(*mine, strict=True))
        for j in range(problem.n_joints):
            rows = e[use[:, j] > 0.0, j]
            if rows.size:
                level = _MAD * float(np.median(np.abs(rows)))
                sigma[log, j] = max(level, floor[j])
    return sigma
