"""What turns a linear identifier into one over robots that can physically exist."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from bodysense.identification.consistent.projection import consistent_least_squares
from bodysense.identification.consistent.relaxation import Relaxation
from bodysense.identification.consistent.sqp import Centred, square_root_least_squares
from bodysense.identification.factors import Stack
from bodysense.identification.identification import Identification, Status
from bodysense.identification.linear.irls import IRLS
from bodysense.identification.linear.least_squares import (
    OLS,
    WLS,
    LinearIdentifier,
    Solution,
    Weighing,
)
from bodysense.identification.preprocessing import FOLDS
from bodysense.identification.prior import Prior
from bodysense.identification.regression import Regression
from bodysense.spatial.arrays import Array

# How strongly to lean on the prior: the weight that predicts best what the fit has not seen.

_GRID = tuple(10.0**power for power in range(-2, 7))
_AS_GOOD = 0.005
"""Relative difference of held-out errors that does not count: the stronger weight is taken, which
keeps links further from the border."""


def choose_weight(problem: Regression, prior: Prior, kind: str) -> float:
    """The largest weight whose held-out error is as good as any, within half a per cent.

    Folds are left out in turn, one more where the problem has left one out already. Errors count
    in units of the noise of each log and joint.
    """
    sigma = WLS().estimate(problem, prior).sigma
    errors = {
        weight: _held_out(problem, prior, sigma, Relaxation(kind, weight)) for weight in _GRID
    }
    best = min(errors.values())
    if not np.isfinite(best):  # no weight has a solution: none is better than the default
        return 1.0
    return max(weight for weight, error in errors.items() if error <= (1.0 + _AS_GOOD) * best)


def _held_out(
    problem: Regression, prior: Prior, sigma: np.ndarray, relaxation: Relaxation
) -> float:
    total = 0.0
    for fold in range(FOLDS):
        if fold == problem.held_out:
            continue
        train = {key: factor for key, factor in problem.factors.items() if key[1] != fold}
        stack = problem.stack(sigma, factors=train)
        solution = consistent_least_squares(prior, stack, relaxation)
        if solution.failure:
            return float("inf")
        squares, _ = problem.squares(prior.to_base(solution.theta), fold)
        total += float((squares / sigma**2).sum())
    return total


@dataclass(frozen=True)
class Physical(LinearIdentifier):
    """Solves over links that can exist and drives that dissipate, thesis eqs (62)-(64).

    Attributes:
        relaxation: distance to the robot file that is added to the squared error: ``euclidean``
            (in plausible sizes of the parameters), ``pullback`` (of links, whatever their units
            and frames) or ``entropic`` (the same, and no link becomes a plate, a rod or a point).
        relaxation_weight: weight of the distance to the robot file: with 1 the file counts like
            one measurement that is off by a plausible size; ``auto`` (`None` in Python) chooses it
            on blocks left out of the fit.
        trusted: whether intervals take the weight of the relaxation for how sure the robot file
            is. With a weight that was chosen they never do: a file that helps to predict may still
            be off by a plausible size.
    """

    relaxation: str = "euclidean"
    relaxation_weight: float | None = 1.0
    trusted: bool = True

    consistent: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self._relaxation()  # refuses what it does not know
        others = getattr(super(), "__post_init__", None)
        if others is not None:  # of the method whose weights are used
            others()

    def _relaxation(self) -> Relaxation:
        weight = self.relaxation_weight
        return Relaxation(self.relaxation, 1.0 if weight is None else weight)

    @property
    def prior_spread(self) -> float:
        """That of the relaxation."""
        return float(1.0 / np.sqrt(self._relaxation().weight))

    def prior_factor(self, prior: Prior) -> Array | None:
        """That of the relaxation, without spread where constraints hold parameters."""
        relaxation = self._relaxation()
        if relaxation.kind == "euclidean" and not prior.constraints.e.size and self.trusted:
            return None
        if relaxation.kind == "entropic":  # which to second order is the pullback
            relaxation = replace(relaxation, kind="pullback")
        return prior.constrained_factor(relaxation.factor(prior))

    def prior_doubt(self, prior: Prior) -> Array | None:
        """Plausible sizes, where the weight was chosen."""
        return None if self.trusted else prior.constrained_factor(np.diag(prior.size))

    def settled(self, problem: Regression, prior: Prior) -> Physical:
        """The same with its weight chosen."""
        if self.relaxation_weight is not None:
            return self
        weight = choose_weight(problem, prior, self.relaxation)
        return replace(self, relaxation_weight=weight, trusted=False)

    def estimate(
        self, problem: Regression, prior: Prior, rng: np.random.Generator | None = None
    ) -> Weighing:
        """Choose the weight if it is open; then weigh and solve."""
        if self.relaxation_weight is None:
            return self.settled(problem, prior).estimate(problem, prior, rng)
        return super().estimate(problem, prior, rng)

    def fit(self, problem: Regression, *, rng: np.random.Generator | None = None) -> Identification:
        """Identify, with the weight chosen if it is open."""
        if self.relaxation_weight is not None:
            return super().fit(problem, rng=rng)
        chosen = self.settled(self.rows(problem), Prior.of(problem))
        result = chosen.fit(problem, rng=rng)
        note = f"Relaxation weight {chosen.relaxation_weight:.3g}, chosen on blocks left out."
        return replace(result, status=Status(result.status.ok, f"{note} {result.status.message}"))

    def solve(self, problem: Regression, prior: Prior, stack: Stack) -> Solution:
        """By a semidefinite program."""
        return consistent_least_squares(prior, stack, self._relaxation())


# What turns a linear identifier into one over factors of robots that can physically exist.


@dataclass(frozen=True)
class PhysicalSQP(Physical):
    """As `Physical`, by sequential quadratic programming over square roots, eqs (174)-(179)."""

    def estimate(
        self, rows: Regression, prior: Prior, rng: np.random.Generator | None = None
    ) -> Weighing:
        """Weigh and solve, each problem from the solution of the one before, eqs (177)-(179)."""
        if self.relaxation_weight is None:
            return super().estimate(rows, prior, rng)
        last: Centred | None = None

        def solve(stack: Stack) -> Solution:
            nonlocal last
            solution, last = square_root_least_squares(prior, stack, self._relaxation(), last)
            return replace(solution, theta=prior.untouched(solution.theta))

        return self.weigh(rows, prior, solve)

    def solve(self, problem: Regression, prior: Prior, stack: Stack) -> Solution:
        """By sequential quadratic programming, from the prior."""
        return square_root_least_squares(prior, stack, self._relaxation())[0]


# Physically consistent ordinary least squares.


@dataclass(frozen=True)
class ConsistentOLS(Physical, OLS):
    """Rows weighed as by `OLS`, solved over robots that can exist."""

    name: ClassVar[str] = "pc-ols"
    about: ClassVar[str] = "ordinary least squares over physical robots"
    needs: ClassVar[str] = "nothing more"
    cost: ClassVar[str] = "one regression, one semidefinite program"
    when: ClassVar[str] = "joints of equal noise, or too few rows to tell their noise apart"


# Physically consistent weighted least squares.


@dataclass(frozen=True)
class ConsistentWLS(Physical, WLS):
    """Rows weighed as by `WLS`, solved over robots that can exist."""

    name: ClassVar[str] = "pc-wls"
    about: ClassVar[str] = "weighted least squares over physical robots (the default)"
    needs: ClassVar[str] = "noise levels: taken from the log"
    cost: ClassVar[str] = "one regression, one semidefinite program"
    when: ClassVar[str] = "nearly always: links that can exist, also where the motion is poor"


# Physically consistent iteratively reweighted least squares.


@dataclass(frozen=True)
class ConsistentIRLS(Physical, IRLS):
    """Rows weighed as by `IRLS`, solved over robots that can exist."""

    name: ClassVar[str] = "pc-irls"
    about: ClassVar[str] = "robust least squares over physical robots"
    needs: ClassVar[str] = "noise levels: taken from the log"
    cost: ClassVar[str] = "one regression, one semidefinite program an iteration"
    when: ClassVar[str] = "recordings with outliers: knocks, contacts, samples that are wrong"


# Physically consistent ordinary least squares, by sequential quadratic programming.


@dataclass(frozen=True)
class ConsistentSQPOLS(PhysicalSQP, OLS):
    """Rows weighed as by `OLS`, solved over square roots of robots that can exist."""

    name: ClassVar[str] = "pc-sqp-ols"
    about: ClassVar[str] = "ordinary least squares over physical robots, by quadratic programs"
    needs: ClassVar[str] = "nothing more"
    cost: ClassVar[str] = "one regression, a few quadratic programs"
    when: ClassVar[str] = "as pc-ols, of which it is an independent check"


# Physically consistent weighted least squares, by sequential quadratic programming.


@dataclass(frozen=True)
class ConsistentSQPWLS(PhysicalSQP, WLS):
    """Rows weighed as by `WLS`, solved over square roots of robots that can exist."""

    name: ClassVar[str] = "pc-sqp-wls"
    about: ClassVar[str] = "weighted least squares over physical robots, by quadratic programs"
    needs: ClassVar[str] = "noise levels: taken from the log"
    cost: ClassVar[str] = "one regression, a few quadratic programs"
    when: ClassVar[str] = "as pc-wls, of which it is an independent check"


# Physically consistent, robust least squares, by sequential quadratic programming.


@dataclass(frozen=True)
class ConsistentSQPIRLS(PhysicalSQP, IRLS):
    """Rows weighed as by `IRLS`, solved over square roots of robots that can exist."""

    name: ClassVar[str] = "pc-sqp-irls"
    about: ClassVar[str] = "robust least squares over physical robots, by quadratic programs"
    needs: ClassVar[str] = "noise levels: taken from the log"
    cost: ClassVar[str] = "one regression, a few quadratic programs an iteration"
    when: ClassVar[str] = "as pc-irls, of which it is an independent check"
