"""Solvers over physically consistent robots: semidefinite program, square roots, distance.

Links have positive definite pseudo-inertias and drives dissipate, thesis eqs (62)-(64).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bodysense.errors import ShapeError, unknown_name
from bodysense.identification.consistent.evidence import (
    choose_relaxation,
    excitation_of,
    possible_kinds,
)
from bodysense.identification.consistent.projection import (
    consistent_least_squares,
    nearest_consistent,
)
from bodysense.identification.consistent.relaxation import RELAXATIONS, Relaxation
from bodysense.identification.consistent.sqp import Centred, square_root_least_squares
from bodysense.identification.linear.least_squares import Solve, Solver, least_squares
from bodysense.identification.prior import Prior
from bodysense.identification.reduced import Stack
from bodysense.identification.regression import Regression
from bodysense.identification.solution import PriorTerm, Solution
from bodysense.spatial.arrays import Array, as_array

AUTO = "auto"  # of a relaxation: chosen by the data

_ESTIMATE_STRENGTHS = (1e6, 1e5, 1e4, 1e3, 1e2)
"""Of the estimate over the prior, at the middle of the metric's directions: the prior decides no
more than what no base parameter holds. A solver fails on estimates that are senseless and strong at
once; then weaker."""

_UNMEASURED = 1e-9  # share of the strongest direction that a metric does not measure


@dataclass(frozen=True)
class Conic(Solver):
    """Least squares over physically consistent robots, by a semidefinite program, eqs (63)-(64).

    Attributes:
        relaxation: distance to the robot file that is added to the squared error: ``euclidean``
            (in plausible sizes of the parameters), ``pullback`` (of links, whatever their units
            and frames) or ``entropic`` (the same, and no link becomes a plate, a rod or a point).
            ``auto`` takes one of the first two where the motion leaves directions to the prior.
        relaxation_weight: weight of the distance to the robot file: with 1 the file counts like
            one measurement with a standard deviation of a plausible size; ``auto`` (`None` in
            Python) takes the one that explains the data best. With both on ``auto``, and a motion
            that excites every direction, it is 1, of the Euclidean distance: next to nothing.
        trusted: whether intervals take the weight of the relaxation for the uncertainty of the
            robot file. With a weight that was chosen they never do: a file that helps to predict
            may still be off by a plausible size.
    """

    relaxation: str = AUTO
    relaxation_weight: float | None = None
    trusted: bool = True

    def __post_init__(self) -> None:
        if self.relaxation not in (AUTO, *RELAXATIONS):
            raise unknown_name("relaxation", self.relaxation, (AUTO, *RELAXATIONS))
        self._relaxation()  # refuses invalid weights

    @property
    def consistent(self) -> bool:
        return True

    def _relaxation(self) -> Relaxation:
        """As given; where that is open, the one that leaves all to data that can tell."""
        weight = self.relaxation_weight
        kind = Relaxation.kind if self.relaxation == AUTO else self.relaxation
        return Relaxation(kind, Relaxation.weight if weight is None else weight)

    def chosen(self, problem: Regression, prior: Prior) -> tuple[Solver, str]:
        """The same with kind and weight of its relaxation chosen, if they are open."""
        kind, weight = self.relaxation, self.relaxation_weight
        if kind != AUTO and weight is not None:
            return self, ""
        everything = kind == AUTO and weight is None
        data = excitation_of(problem, prior, always=not everything)
        if data is None or (everything and not data.weak):
            given = self._relaxation()
            return replace(self, relaxation=given.kind, relaxation_weight=given.weight), ""
        kinds = possible_kinds(prior) if kind == AUTO else (kind,)
        best = choose_relaxation(prior, data, kinds, weight)
        chosen = replace(self, relaxation=best.kind, relaxation_weight=best.weight)
        by_data = ", chosen by the data" if weight is None else ""
        leaves = f"The motion leaves {data.weak} of {problem.size} directions to the prior. "
        return replace(chosen, trusted=self.trusted and weight is not None), (
            f"{leaves if data.weak else ''}Relaxed towards the prior "
            f"({best.kind}, weight {best.weight:.3g}{by_data})."
        )

    def prior_term(self, prior: Prior) -> PriorTerm:
        """That of the relaxation, without spread where constraints hold parameters."""
        relaxation = self._relaxation()
        spread = float(1.0 / np.sqrt(relaxation.weight))
        # A weight that was chosen says nothing about the file, which may be off by its size.
        error_factor = None if self.trusted else prior.constrained_factor(np.diag(prior.size))
        if relaxation.kind == "euclidean" and not prior.constraints.e.size and self.trusted:
            return PriorTerm(spread)
        if relaxation.kind == "entropic":  # which to second order is the pullback
            relaxation = replace(relaxation, kind="pullback")
        return PriorTerm(spread, prior.constrained_factor(relaxation.factor(prior)), error_factor)

    def solve(self, problem: Regression, prior: Prior, stack: Stack) -> Solution:
        return consistent_least_squares(prior, stack, self._relaxation())


@dataclass(frozen=True)
class SQP(Conic):
    """The same minimum by sequential quadratic programming over square roots, eqs (174)-(179)."""

    def reduced_solver(self, problem: Regression, prior: Prior) -> Solve:
        """Each problem starts from the solution of the one before, eqs (177)-(179)."""
        last: Centred | None = None

        def solve(stack: Stack) -> Solution:
            nonlocal last
            solution, last = square_root_least_squares(prior, stack, self._relaxation(), last)
            return solution

        return solve

    def solve(self, problem: Regression, prior: Prior, stack: Stack) -> Solution:
        return square_root_least_squares(prior, stack, self._relaxation())[0]


@dataclass(frozen=True)
class ClosestRobot(Solver):
    """Unconstrained least squares, then the closest physically consistent robot, thesis eq (62).

    The second step does not know the covariance of the first, so that the result fits the data
    worse than one step over consistent robots (eq (63), `Conic`): it is here for comparison, and
    `closest_consistent` for estimates whose data are not at hand.
    """

    @property
    def consistent(self) -> bool:
        return True

    def solve(self, problem: Regression, prior: Prior, stack: Stack) -> Solution:
        free = least_squares(prior, stack)
        closest = closest_consistent(prior, prior.mapping @ free.theta)
        return replace(closest, unexcited=free.unexcited)


def closest_consistent(prior: Prior, theta_base: Array, metric: Array | None = None) -> Solution:
    """All parameters of the physically consistent robot with the nearest base parameters, eq (62).

        minimise |M (B theta - theta_base)|    over consistent theta

    Anybody's estimate will do, for example one from a paper. In print M is one, which adds
    kilograms to kg·m²; here each base parameter counts in units of its plausible size. An estimate
    with a covariance says more: M with MᵀM its inverse is eq (63).

    Args:
        prior: links, sizes, and what is known of them; parameters without effect stay as near to it
            as consistency lets them.
        theta_base: (b,) the estimate.
        metric: (m, b) M.

    Raises:
        ShapeError: arrays that do not fit the robot.
    """
    estimate = as_array(theta_base, prior.theta_base.shape, "theta_base")
    if metric is None:
        M = np.diag(1.0 / prior.size_base)
    else:
        M = as_array(metric, (None, estimate.size), "metric")
    theta_0, D = prior.constraints.free_directions(prior.theta, Relaxation().factor(prior))
    U, s, Vt = np.linalg.svd(M @ prior.mapping @ D)
    measured = int((s > _UNMEASURED * s.max(initial=0.0)).sum())
    if measured == 0:
        raise ShapeError("the metric is zero: every robot would be as close as any other.")
    away = U[:, :measured].T @ (M @ (estimate - prior.mapping @ theta_0))
    theta_free = theta_0 + D @ (Vt[:measured].T @ (away / s[:measured]))
    solution = Solution(theta_free)
    middle = float(np.median(s[:measured]))
    for strength in _ESTIMATE_STRENGTHS:
        # Directions that the estimate speaks of count by it alone, the others by the prior alone.
        root = np.ones(D.shape[1])
        root[:measured] = strength * s[:measured] / middle
        solution = nearest_consistent(prior, theta_free, (D @ Vt.T) / root)
        if not solution.failure:
            break
    return solution
