"""Linear methods: weights of the rows and a solver, composed.

rows  →  weights  →  ‖A theta_base - z‖²  →  solver  →  estimate and covariance

Rows are weighted all alike, by noise, or robustly against outliers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bodysense.identification.identification import Identification, Iteration, Status
from bodysense.identification.identifier import Identifier, require_settings
from bodysense.identification.linear.least_squares import (
    LeastSquares,
    Solve,
    Solver,
    Weights,
    least_squares,
)
from bodysense.identification.prior import Prior
from bodysense.identification.reduced import Stack
from bodysense.identification.regression import Regression
from bodysense.identification.solution import (
    PriorTerm,
    Solution,
    WeightedSolution,
    noise_levels,
    rounding_levels,
)
from bodysense.identification.uncertainty import base_uncertainty, identification_with
from bodysense.spatial.arrays import Array, read_only

_ROWS_PER_PARAMETER = 5
"""Rows that each parameter needs before the noise of every joint and log can be told apart. With
fewer, one joint's rows can be fitted exactly: it would look free of noise, and outweigh all."""

_FEW_ROWS = (
    "There are too few rows to tell the noise of the joints apart, so all count alike: record for "
    "longer."
)

_LOAD_FITS = 9  # to find the load of load-dependent friction, at most
_LOAD_TOLERANCE = 0.01  # change of predictions, in standard deviations, at which the load is known
_LOAD_ROUNDING = 1e-9  # the same as a share of predictions, where there is hardly any noise

_HUBER = 1.345  # standard deviations: 95 % efficiency on Gaussian noise
_WINDOW = (2.0, 4.0)  # standard deviations: full weight, and none; a cosine in between
_MAD = 1.4826  # standard deviation of Gaussian noise in units of its median absolute deviation
_SLOPE_STEP = 1e-4  # of the difference of the influence function, in standard deviations


@dataclass(frozen=True)
class EqualWeights(Weights):
    """All rows alike, Σ = σ² 1; sigma is their common standard deviation."""

    def fit(self, problem: Regression, prior: Prior, solve: Solve) -> WeightedSolution:
        shape = (problem.n_logs, problem.n_joints)
        stack = problem.stack(np.ones(shape))
        sigma = np.sqrt(max(stack.rest, 0.0) / max(stack.rows - problem.size, 1))
        level = np.full(shape, max(float(sigma), rounding_levels(problem).min()))
        stack = problem.stack(level)
        return solve(stack).weighted(level, stack)


@dataclass(frozen=True)
class NoiseWeights(Weights):
    """Rows divided by the standard deviation of their log's and joint's residuals, eq (17).

    Eq (17) takes the residuals of ordinary least squares; here they are taken again from the
    weighted estimate until they converge. The residuals are those of the unconstrained problem, so
    that a constraint does not look like noise. With few rows all count alike, see `few_rows`.

    Attributes:
        tolerance: relative change of the standard deviations at which they have converged.
        iterations: updates of the standard deviations, at most.
    """

    tolerance: float = 1e-3
    iterations: int = 20

    def fit(self, problem: Regression, prior: Prior, solve: Solve) -> WeightedSolution:
        if few_rows(problem):
            return replace(EqualWeights().fit(problem, prior, solve), note=_FEW_ROWS)
        first = EqualWeights().fit(problem, prior, lambda stack: least_squares(prior, stack))
        theta_base, trace = prior.to_base(first.theta), list[Iteration]()
        sigma, change = first.sigma, np.inf
        for _ in range(self.iterations):
            new = noise_levels(problem, theta_base)
            change = float(np.abs(new / sigma - 1.0).max())
            sigma = new
            stack = problem.stack(sigma)
            theta_base = prior.to_base(least_squares(prior, stack).theta)
            trace.append(Iteration(stack.rest, change))
            if change < self.tolerance:
                break
        stack = problem.stack(sigma)
        return replace(
            solve(stack).weighted(sigma, stack),
            trace=tuple(trace),
            converged=change < self.tolerance,
        )


def fit_noise_weights(problem: Regression, prior: Prior) -> WeightedSolution:
    """Weighted least squares, for methods that need noise levels or a first estimate."""
    return NoiseWeights().fit(problem, prior, lambda stack: least_squares(prior, stack))


def under_load(problem: Regression) -> Regression:
    """The problem with the load that its own weighted least-squares estimate leads to.

    Given the load of load-dependent friction, torques are linear in all parameters, and the load
    follows from these: fit without load, take the load of the fit, fit again, until predictions no
    longer change. An error of the load comes back times Fl, a few per cent, so that few fits do.
    """
    prior = Prior.of(problem)
    theta = np.zeros(prior.theta.size)
    for _ in range(_LOAD_FITS):
        problem = replace(problem, load_theta=theta)
        fit = fit_noise_weights(problem, prior)
        step, whole = (
            fit.stack.change(prior.to_base(change)) for change in (fit.theta - theta, fit.theta)
        )
        if step < max(_LOAD_TOLERANCE, _LOAD_ROUNDING * whole):
            break
        theta = fit.theta
    return problem


def few_rows(problem: Regression) -> bool:
    """Whether there are too few rows for noise levels of their own for joints and logs."""
    rows = sum(factor.rows for factor in problem.factors.values())
    return rows < _ROWS_PER_PARAMETER * problem.size


@dataclass(frozen=True)
class RobustWeights(Weights):
    """Noise weights times another weight υ(residual), thesis eqs (18)-(20).

    ``huber`` minimises Huber's cost: rows beyond 1.345 σ pull with a constant force. ``window`` is
    the thesis' form: a weight function Λ that falls from one to zero, and weights that only ever
    shrink, υ_i = min(υ_{i-1}, Λ(ε_i)), so that an outlier is never let in again.

    Attributes:
        weighting: ``huber`` (rows that do not fit pull with a constant force) or ``window``
            (their weight falls to nothing, and never rises again).
        tolerance: change of predictions, in standard deviations of the residual, at which to stop.
        iterations: updates of the weights, at most.
    """

    weighting: Literal["huber", "window"] = "huber"
    tolerance: float = 1e-3
    iterations: int = 20

    def __post_init__(self) -> None:
        require_settings(self, weighting=("huber", "window"))

    def fit(self, problem: Regression, prior: Prior, solve: Solve) -> WeightedSolution:
        """Weigh, solve, and weigh again until predictions no longer change."""
        start = NoiseWeights(tolerance=1e-2, iterations=5).fit(problem, prior, solve)
        if start.note:  # noise levels are not known well enough to call any row an outlier
            return start
        solution: Solution = start
        stack, sigma = start.stack, start.sigma
        weights = tuple(block.use for block in problem.blocks())
        theta_base = prior.to_base(solution.theta)
        trace: list[Iteration] = []
        change, factors = np.inf, problem.factors
        for _ in range(self.iterations):
            residuals = list(_residuals(problem, theta_base))
            sigma = _robust_levels(problem, residuals, sigma)
            new = tuple(
                block.use * self._row_factor(e / sigma[block.log])
                for block, e in zip(problem.blocks(), residuals, strict=True)
            )
            if self.weighting == "window":
                new = tuple(np.minimum(a, b) for a, b in zip(weights, new, strict=True))
            weights = new
            factors = problem.weighted_factors(weights)
            stack = problem.stack(sigma, factors=factors)
            solution = solve(stack)
            step = prior.to_base(solution.theta) - theta_base
            theta_base = theta_base + step
            change = stack.change(step)  # of predictions: parameters have no common size
            trace.append(Iteration(stack.rest, change))
            if change < self.tolerance or solution.failure:
                break
        slopes = self._slopes(problem, theta_base, sigma, weights)
        return replace(
            solution.weighted(sigma, stack),
            weights=weights,
            trace=tuple(trace),
            converged=change < self.tolerance,
            bread=problem.stack(sigma / np.sqrt(slopes), factors=factors),
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
            u, h = e / sigma[block.log], _SLOPE_STEP
            ahead, behind = (self._row_factor(u + d) ** 2 * (u + d) for d in (h, -h))
            slopes[block.log] += (block.use * (ahead - behind)).sum(axis=0) / (2.0 * h)
            squares[block.log] += (weight**2).sum(axis=0)
        share: Array = np.clip(slopes / np.maximum(squares, 1e-300), 0.1, 1.0)
        return share

    def _row_factor(self, u: Array) -> Array:
        """Factor on rows with residuals u, in standard deviations: the root of their weight."""
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


_RESOLUTION_AT_BOUND = 0.5  # at most: that of a parameter driven by the prior


@dataclass(frozen=True)
class LinearMethod(Identifier):
    """A linear identifier.

    Attributes:
        name: of the method.
        weights: how rows are weighted.
        solver: of the weighted problem.
        fixed: parts whose settings are not settings of the method.
    """

    name: str
    weights: Weights = field(default_factory=NoiseWeights)
    solver: Solver = field(default_factory=LeastSquares)
    fixed: tuple[str, ...] = ()

    @property
    def consistent(self) -> bool:
        return self.solver.consistent

    def estimate(
        self, problem: Regression, prior: Prior, rng: np.random.Generator | None = None
    ) -> WeightedSolution:
        """Weigh and solve, without the uncertainty; random methods take the rng."""
        rows = self.weights.regression(problem)
        solver, _ = self.solver.chosen(rows, prior)
        return self._solve(solver, rows, prior, rng)

    def _solve(
        self, solver: Solver, rows: Regression, prior: Prior, rng: np.random.Generator | None
    ) -> WeightedSolution:
        reduced = solver.reduced_solver(rows, prior)

        def solve(stack: Stack) -> Solution:
            solution = reduced(stack)
            return replace(solution, theta=prior.untouched(solution.theta))

        return solver.refined(rows, prior, self.weights.fit(rows, prior, solve), rng)

    def theta(self, problem: Regression, *, rng: np.random.Generator | None = None) -> Array:
        return self.estimate(problem, Prior.of(problem), rng).theta

    def fit(self, problem: Regression, *, rng: np.random.Generator | None = None) -> Identification:
        prior, rows = Prior.of(problem), self.weights.regression(problem)
        solver, remark = self.solver.chosen(rows, prior)
        solution = self._solve(solver, rows, prior, rng)
        result = identification_from(self.name, problem, prior, solution, solver.prior_term(prior))
        if not remark:
            return result
        return replace(result, status=Status(result.status.ok, f"{remark} {result.status.message}"))


def identification_from(
    name: str, problem: Regression, prior: Prior, fit: WeightedSolution, term: PriorTerm
) -> Identification:
    """The result with its uncertainty, from residuals that are correlated in time.

    The prior term is the one that the solver used.
    """
    rows = problem if fit.rows is None else fit.rows
    uncertainty = base_uncertainty(rows, prior, prior.to_base(fit.theta), fit, term)
    result = identification_with(
        name, problem, prior, fit.theta, uncertainty, _status(fit), fit.trace
    )
    if fit.at_bound is None or not fit.at_bound.any():
        return result
    # The data push a parameter to its bound, but it is the prior that holds it there.
    part = np.asarray(prior.mapping[fit.at_bound].any(axis=0))

    def bounded(resolution: Array, where: NDArray[np.bool_]) -> Array:
        most = np.minimum(resolution, _RESOLUTION_AT_BOUND)
        return read_only(np.where(where, most, resolution))

    return replace(
        result,
        resolution=bounded(result.resolution, part),
        base_resolution=bounded(result.base_resolution, fit.at_bound),
    )


def _status(fit: WeightedSolution) -> Status:
    remarks = []
    if fit.failure:
        return Status(False, fit.failure)
    if fit.unexcited:
        remarks.append(
            f"The motion does not excite {len(fit.unexcited)} combination(s), which keep the "
            f"prior's value: {_some(fit.unexcited)}. Move more joints, further and faster."
        )
    elif not fit.converged:
        remarks.append(
            "The iteration had not converged when it ended; more iterations, or data, would help."
        )
    if fit.note:
        remarks.append(fit.note)
    return Status(True, " ".join(remarks) if remarks else "Solved.")


def _some(names: tuple[str, ...], most: int = 4) -> str:
    return "; ".join(names[:most]) + ("; …" if len(names) > most else "")
