"""Solvers of the reduced problem, and what weights and solvers of a linear method exchange.

A linear method chooses weights of its rows (`Weights`) and solves the reduced problem
‖A theta_base - z‖² that they lead to (`Solver`); `LinearMethod` composes the two.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bodysense.identification.identifier import require_settings
from bodysense.identification.prior import Prior
from bodysense.identification.reduced import Stack
from bodysense.identification.regression import Regression
from bodysense.identification.solution import PriorTerm, Solution, WeightedSolution
from bodysense.spatial.arrays import Array

_SINGULAR = 1e-9  # effect, relative to the strongest, below which a direction keeps the prior's
_UNEXCITED_SHARE = 0.1  # squared share in unexcited directions from which one is named
_LAST_SINGULAR = 1e-12  # entry of the singular vector below which there is no solution


Solve = Callable[[Stack], Solution]


class Weights(ABC):
    """How rows are weighted. Implementations are frozen dataclasses."""

    def regression(self, problem: Regression) -> Regression:
        """The rows that are weighted, and that the solver gets: by default the problem's own."""
        return problem

    @abstractmethod
    def fit(self, problem: Regression, prior: Prior, solve: Solve) -> WeightedSolution:
        """Choose weights of rows as `regression` makes them, and solve."""


class Solver(ABC):
    """How a weighted problem is solved. Implementations are frozen dataclasses."""

    @property
    def consistent(self) -> bool:
        """Whether its solutions are physically consistent."""
        return False

    def chosen(self, problem: Regression, prior: Prior) -> tuple[Solver, str]:
        """The solver with settings that the data choose, and a remark on them."""
        return self, ""

    def reduced_solver(self, problem: Regression, prior: Prior) -> Solve:
        """The solver of a sequence of reduced problems of these rows."""
        return lambda stack: self.solve(problem, prior, stack)

    @abstractmethod
    def solve(self, problem: Regression, prior: Prior, stack: Stack) -> Solution:
        """Solve a reduced problem."""

    def refined(
        self,
        problem: Regression,
        prior: Prior,
        fit: WeightedSolution,
        rng: np.random.Generator | None,
    ) -> WeightedSolution:
        """The fit after a pass over the rows themselves, for solvers that make one."""
        return fit

    def prior_term(self, prior: Prior) -> PriorTerm:
        """The prior that is used beside the data."""
        return PriorTerm()


def least_squares(prior: Prior, stack: Stack) -> Solution:
    """Unconstrained: directions that the data do not reach keep the prior's value."""
    d = prior.size_base
    U, s, Vt = np.linalg.svd(stack.A * d)
    strong = s > _SINGULAR * s[0] if s.size and s[0] > 0.0 else np.zeros(s.size, dtype=bool)
    step = U.T @ (stack.z - stack.A @ prior.theta_base)
    x = Vt[strong].T @ (step[strong] / s[strong])
    return Solution(prior.complete(prior.theta_base + d * x), unexcited_names(prior, Vt[~strong]))


def unexcited_names(prior: Prior, weak: Array) -> tuple[str, ...]:
    """Base parameters with a notable share in directions (k, b) that the data do not reach."""
    weight = (weak**2).sum(axis=0)
    return tuple(prior.base_names[j] for j in np.flatnonzero(weight > _UNEXCITED_SHARE))


@dataclass(frozen=True)
class LeastSquares(Solver):
    """Unconstrained least squares, thesis eq (16)."""

    def solve(self, problem: Regression, prior: Prior, stack: Stack) -> Solution:
        return least_squares(prior, stack)


@dataclass(frozen=True)
class TotalLeastSquares(Solver):
    """Smallest change of [Y y] that makes it singular: its last right singular vector.

    The singular vectors of the triangle are those of all rows.
    """

    def solve(self, problem: Regression, prior: Prior, stack: Stack) -> Solution:
        fallback = least_squares(prior, stack)
        if fallback.unexcited:  # a second small singular value: the last vector means nothing
            return fallback
        b = problem.size
        whole = np.zeros((b + 1, b + 1))
        whole[:b, :b], whole[:b, b], whole[b, b] = stack.A, stack.z, np.sqrt(max(stack.rest, 0.0))
        last = np.linalg.svd(whole)[2][-1]
        if abs(last[b]) < _LAST_SINGULAR:
            return Solution(
                fallback.theta,
                failure="Total least squares has no solution here: the regressor alone is nearly "
                "singular. Use wls, or a motion that excites more.",
            )
        return Solution(prior.complete(-last[:b] / last[b]))


@dataclass(frozen=True)
class Ridge(Solver):
    """Minimise ‖A theta_base - z‖² + Σ ((theta - theta_prior) / (spread · size))².

    The Bayesian mean for a prior whose standard deviation is a fraction of each parameter's
    plausible size.

    Attributes:
        spread: standard deviation of the robot file's values, in plausible sizes of the
            parameters.
    """

    spread: float = 0.3

    def __post_init__(self) -> None:
        require_settings(self, positive=("spread",))

    def prior_term(self, prior: Prior) -> PriorTerm:
        return PriorTerm(self.spread)

    def solve(self, problem: Regression, prior: Prior, stack: Stack) -> Solution:
        """One least-squares problem over all parameters, in units of their prior's spread."""
        d = self.spread * prior.size
        A = np.vstack([stack.A @ (prior.mapping * d), np.eye(d.size)])
        rest = stack.z - stack.A @ prior.theta_base
        x = np.linalg.lstsq(A, np.concatenate([rest, np.zeros(d.size)]), rcond=None)[0]
        return Solution(prior.theta + d * x)
