"""What all linear identifiers share: reduce, weigh, solve, judge.

They differ in two things: in the weights of the rows (`weigh`) and in what they do with the reduced
problem ‖A theta_base - z‖² (`solve`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from bodysense.identification.factors import Stack
from bodysense.identification.identification import Identification, Identifier, Iteration, Status
from bodysense.identification.prior import Prior
from bodysense.identification.regression import Regression
from bodysense.identification.uncertainty import base_uncertainty, full_uncertainty
from bodysense.spatial.arrays import Array, read_only

_SINGULAR = 1e-9
"""Directions whose effect is this much smaller than the strongest one's are left to the prior."""

_ROWS_A_PARAMETER = 5
"""Rows that each parameter needs before the noise of every joint and log can be told apart. With
fewer, one joint's rows can be fitted exactly: it would look free of noise, and outweigh all."""

_FEW_ROWS = (
    "There are too few rows to tell the noise of the joints apart, so all count alike: record for "
    "longer."
)


@dataclass(frozen=True, eq=False)
class Solution:
    """What a solver returns for a reduced problem.

    Attributes:
        theta: (p,) all parameters.
        unseen: base parameters that the data do not reach.
        failure: why there is no solution, with advice; empty if there is one.
    """

    theta: Array
    unseen: tuple[str, ...] = ()
    failure: str = ""


Solver = Callable[[Stack], Solution]


@dataclass(frozen=True, eq=False)
class Weighing:
    """Weighted rows and the solution they lead to.

    Attributes:
        sigma: (n_logs, n) standard deviations that rows are divided by.
        solution: of the weighted problem.
        stack: the weighted problem.
        weights: (m, n) of each block, by which rows are multiplied; `None` for the blocks' own.
        trace: the iterations.
        converged: whether the iteration ended by itself.
        bread: curvature of the cost at the solution, where it is not that of `stack`.
        note: what to say about the weights; empty if there is nothing.
        rows: the rows that were solved for, where they depend on the estimate.
    """

    sigma: Array
    solution: Solution
    stack: Stack
    weights: tuple[Array, ...] | None = None
    trace: tuple[Iteration, ...] = ()
    converged: bool = True
    bread: Stack | None = None
    note: str = ""
    rows: Regression | None = None


class LinearIdentifier(Identifier):
    """Base of the linear identifiers."""

    @property
    def prior_spread(self) -> float:
        """Standard deviation of the prior that is used, in parameter sizes; infinite for none."""
        return np.inf

    def prior_factor(self, prior: Prior) -> Array | None:
        """(b, k) L of the prior N(0, L Lᵀ) that is used where it is not one of parameter sizes."""
        return None

    def prior_doubt(self, prior: Prior) -> Array | None:
        """(b, k) such a factor of how far the prior may really be off, if not as far as that."""
        return None

    def rows(self, problem: Regression) -> Regression:
        """The rows that the method fits; by default those of the torques."""
        return problem

    @abstractmethod
    def weigh(self, problem: Regression, prior: Prior, solve: Solver) -> Weighing:
        """Choose weights of such rows and solve."""

    def solve(self, problem: Regression, prior: Prior, stack: Stack) -> Solution:
        """Solve the reduced problem; by default unconstrained least squares."""
        return least_squares(problem, prior, stack)

    def estimate(
        self, rows: Regression, prior: Prior, rng: np.random.Generator | None = None
    ) -> Weighing:
        """Weigh and solve, without asking how sure the result is; random methods take the rng."""
        return self.weigh(rows, prior, self.solver(rows, prior))

    def solver(self, rows: Regression, prior: Prior) -> Solver:
        """What `weigh` is given to solve reduced problems with."""

        def solve(stack: Stack) -> Solution:
            solution = self.solve(rows, prior, stack)
            return replace(solution, theta=prior.untouched(solution.theta))

        return solve

    def theta(self, problem: Regression, *, rng: np.random.Generator | None = None) -> Array:
        """(p,) the estimate alone."""
        return self.estimate(self.rows(problem), Prior.of(problem), rng).solution.theta

    def fit(self, problem: Regression, *, rng: np.random.Generator | None = None) -> Identification:
        """Identify."""
        prior = Prior.of(problem)
        rows = self.rows(problem)
        weighing = self.estimate(rows, prior, rng)
        solution, sigma = weighing.solution, weighing.sigma
        theta_base = prior.to_base(solution.theta)
        uncertainty = base_uncertainty(
            rows if weighing.rows is None else weighing.rows,
            prior,
            theta_base,
            sigma,
            weighing.weights,
            weighing.bread if weighing.bread is not None else weighing.stack,
            spread=self.prior_spread,
            factor=self.prior_factor(prior),
            doubt=self.prior_doubt(prior),
        )
        spread, resolution, base_resolution = full_uncertainty(prior, uncertainty)
        return Identification(
            method=self.name,
            prior=problem.robot,
            base=problem.base,
            theta=read_only(solution.theta),
            covariance=read_only(uncertainty.covariance),
            sigma=read_only(spread),
            resolution=read_only(resolution),
            base_resolution=read_only(base_resolution),
            noise=read_only(noise_levels(problem, theta_base)),
            correlation_time=read_only(uncertainty.correlation_time),
            status=_status(weighing),
            trace=weighing.trace,
        )


def least_squares(problem: Regression, prior: Prior, stack: Stack) -> Solution:
    """Unconstrained: directions that the data do not reach keep the prior's value."""
    d = prior.size_base
    U, s, Vt = np.linalg.svd(stack.A * d)
    strong = s > _SINGULAR * s[0] if s.size and s[0] > 0.0 else np.zeros(s.size, dtype=bool)
    step = U.T @ (stack.z - stack.A @ prior.theta_base)
    x = Vt[strong].T @ (step[strong] / s[strong])
    return Solution(prior.complete(prior.theta_base + d * x), unseen_names(prior, Vt[~strong]))


def unseen_names(prior: Prior, weak: Array) -> tuple[str, ...]:
    """Base parameters with a notable share in directions (k, b) that the data do not reach."""
    weight = (weak**2).sum(axis=0)
    return tuple(prior.base_names[j] for j in np.flatnonzero(weight > 0.1))


def ordinary(problem: Regression, solve: Solver) -> Weighing:
    """All rows alike; sigma is their common standard deviation."""
    shape = (problem.n_logs, problem.n_joints)
    stack = problem.stack(np.ones(shape))
    sigma = np.sqrt(max(stack.rest, 0.0) / max(stack.rows - problem.size, 1))
    level = np.full(shape, max(float(sigma), rounding_levels(problem).min()))
    stack = problem.stack(level)
    return Weighing(level, solve(stack), stack)


def weighted(
    problem: Regression, prior: Prior, solve: Solver, *, tolerance: float, most: int
) -> Weighing:
    """Rows divided by the standard deviation of their log's and joint's residuals, eq (17).

    Eq (17) takes the residuals of ordinary least squares; here they are taken again from the
    weighted estimate until they settle. The residuals are those of the unconstrained problem, so
    that a constraint does not look like noise. With few rows all count alike, see `few_rows`.
    """
    if few_rows(problem):
        return replace(ordinary(problem, solve), note=_FEW_ROWS)
    first = ordinary(problem, lambda stack: least_squares(problem, prior, stack))
    theta_base, trace = prior.to_base(first.solution.theta), []
    sigma, change = first.sigma, np.inf
    for _ in range(most):
        new = noise_levels(problem, theta_base)
        change = float(np.abs(new / sigma - 1.0).max())
        sigma = new
        stack = problem.stack(sigma)
        theta_base = prior.to_base(least_squares(problem, prior, stack).theta)
        trace.append(Iteration(stack.rest, change))
        if change < tolerance:
            break
    stack = problem.stack(sigma)
    return Weighing(sigma, solve(stack), stack, trace=tuple(trace), converged=change < tolerance)


def few_rows(problem: Regression) -> bool:
    """Whether there are too few rows for noise levels of their own for joints and logs."""
    rows = sum(factor.rows for factor in problem.factors.values())
    return rows < _ROWS_A_PARAMETER * problem.size


def noise_levels(problem: Regression, theta_base: Array) -> Array:
    """(n_logs, n) standard deviations of residuals, counting what the fit has used up."""
    squares, rows = problem.squares(theta_base)
    used = problem.size / max(float((rows > 0).sum()), 1.0)  # parameters a log and joint
    freedom = np.maximum(rows - used, 0.1 * rows)
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


def _status(weighing: Weighing) -> Status:
    solution, said = weighing.solution, []
    if solution.failure:
        return Status(False, solution.failure)
    if solution.unseen:
        said.append(
            f"The motion does not excite {len(solution.unseen)} combination(s), which keep the "
            f"prior's value: {_some(solution.unseen)}. Move more joints, further and faster."
        )
    elif not weighing.converged:
        said.append(
            "The iteration had not settled when it ended; more iterations, or data, would help."
        )
    if weighing.note:
        said.append(weighing.note)
    return Status(True, " ".join(said) if said else "Solved.")


def _some(names: tuple[str, ...], most: int = 4) -> str:
    return "; ".join(names[:most]) + ("; …" if len(names) > most else "")


# Ordinary least squares: every row counts alike.


@dataclass(frozen=True)
class OLS(LinearIdentifier):
    """Minimise Σ (y - Y theta_base)² over all rows, thesis eq (16) with Σ = σ² I."""

    name: ClassVar[str] = "ols"
    about: ClassVar[str] = "ordinary least squares"
    needs: ClassVar[str] = "nothing more"
    cost: ClassVar[str] = "one regression"
    when: ClassVar[str] = "a first look, or joints of equal noise"

    def weigh(self, problem: Regression, prior: Prior, solve: Solver) -> Weighing:
        """All rows alike."""
        return ordinary(problem, solve)


# Weighted least squares: rows count by the noise of their log and joint.


@dataclass(frozen=True)
class WLS(LinearIdentifier):
    """Minimise Σ ((y - Y theta_base) / σ)² with σ of each log and joint, thesis eqs (16)-(17).

    Attributes:
        tolerance: relative change of the standard deviations at which they have settled.
        iterations: how often the standard deviations are taken anew, at most.
    """

    tolerance: float = 1e-3
    iterations: int = 20

    name: ClassVar[str] = "wls"
    about: ClassVar[str] = "least squares weighted by the noise of each log and joint"
    needs: ClassVar[str] = "noise levels: taken from the log"
    cost: ClassVar[str] = "one regression, weighed a few times over"
    when: ClassVar[str] = "torques are all that matters: links may come out as impossible bodies"

    def weigh(self, problem: Regression, prior: Prior, solve: Solver) -> Weighing:
        """Divide rows by the residual's standard deviation."""
        return weighted(problem, prior, solve, tolerance=self.tolerance, most=self.iterations)


# Total least squares: noise in the regressor as well as in the torques.


@dataclass(frozen=True)
class TLS(LinearIdentifier):
    """Smallest change of [Y y] that makes it singular: its last right singular vector.

    All columns are taken to be equally noisy, which is rarely so: accelerations are noisy, friction
    columns are not. It is here for comparison.
    """

    name: ClassVar[str] = "tls"
    about: ClassVar[str] = "total least squares: noise in the regressor too"
    needs: ClassVar[str] = "nothing more"
    cost: ClassVar[str] = "one regression"
    when: ClassVar[str] = (
        "for comparison: it takes every column of the regressor to be equally noisy"
    )

    def weigh(self, problem: Regression, prior: Prior, solve: Solver) -> Weighing:
        """All rows alike."""
        return ordinary(problem, solve)

    def solve(self, problem: Regression, prior: Prior, stack: Stack) -> Solution:
        """From the singular vectors of the triangle, which are those of the whole."""
        fallback = least_squares(problem, prior, stack)
        if fallback.unseen:  # a second small singular value: the last vector means nothing
            return fallback
        b = problem.size
        whole = np.zeros((b + 1, b + 1))
        whole[:b, :b], whole[:b, b], whole[b, b] = stack.A, stack.z, np.sqrt(max(stack.rest, 0.0))
        last = np.linalg.svd(whole)[2][-1]
        if abs(last[b]) < 1e-12:
            return Solution(
                fallback.theta,
                failure="Total least squares has no solution here: the regressor alone is nearly "
                "singular. Use wls, or a motion that excites more.",
            )
        return Solution(prior.complete(-last[:b] / last[b]))
