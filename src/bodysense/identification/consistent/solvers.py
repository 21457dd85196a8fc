"""Solvers over physically consistent robots: semidefinite program, square roots, distance.

Links have positive definite pseudo-inertias and drives dissipate, thesis eqs (62)-(64).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bodysense.errors import ShapeError
from bodysense.identification.consistent.projection import (
    consistent_least_squares,
    nearest_consistent,
)
from bodysense.identification.consistent.relaxation import Relaxation
from bodysense.identification.consistent.sqp import Centred, square_root_least_squares
from bodysense.identification.linear.least_squares import Solve, Solver, least_squares
from bodysense.identification.linear.method import fit_noise_weights
from bodysense.identification.preprocessing import FOLDS
from bodysense.identification.prior import Prior
from bodysense.identification.reduced import Stack
from bodysense.identification.regression import Regression
from bodysense.identification.solution import PriorTerm, Solution
from bodysense.spatial.arrays import Array, as_array

_WEIGHT_GRID = tuple(10.0**power for power in range(-2, 7))
"""Weights of the relaxation that are compared on blocks left out."""

_ERROR_TOLERANCE = 0.005
"""Relative difference of held-out errors that does not count: the stronger weight is taken, which
keeps links further from the border."""

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
        relaxation_weight: weight of the distance to the robot file: with 1 the file counts like
            one measurement with a standard deviation of a plausible size; ``auto`` (`None` in
            Python) chooses it on blocks left out of the fit.
        trusted: whether intervals take the weight of the relaxation for the uncertainty of the
            robot file. With a weight that was chosen they never do: a file that helps to predict
            may still be off by a plausible size.
    """

    relaxation: str = "euclidean"
    relaxation_weight: float | None = 1.0
    trusted: bool = True

    def __post_init__(self) -> None:
        self._relaxation()  # refuses invalid settings

    @property
    def consistent(self) -> bool:
        return True

    def _relaxation(self) -> Relaxation:
        weight = self.relaxation_weight
        return Relaxation(self.relaxation, 1.0 if weight is None else weight)

    def chosen(self, problem: Regression, prior: Prior) -> tuple[Solver, str]:
        """The same with its weight chosen, if that is open."""
        if self.relaxation_weight is not None:
            return self, ""
        weight = _choose_weight(problem, prior, self.relaxation)
        remark = f"Relaxation weight {weight:.3g}, chosen on blocks left out."
        return replace(self, relaxation_weight=weight, trusted=False), remark

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


def _choose_weight(problem: Regression, prior: Prior, kind: str) -> float:
    """The largest weight whose held-out error is as good as any, within half a per cent.

    Folds are left out in turn, one more where the problem has left one out already. Errors count
    in units of the noise of each log and joint.
    """
    sigma = fit_noise_weights(problem, prior).sigma
    errors = {
        weight: _held_out(problem, prior, sigma, Relaxation(kind, weight))
        for weight in _WEIGHT_GRID
    }
    best = min(errors.values())
    if not np.isfinite(best):  # no weight has a solution: none is better than the default
        return 1.0
    return max(
        weight for weight, error in errors.items() if error <= (1.0 + _ERROR_TOLERANCE) * best
    )


def _held_out(problem: Regression, prior: Prior, sigma: Array, relaxation: Relaxation) -> float:
    def solve(rest: Stack) -> Array:
        solution = consistent_least_squares(prior, rest, relaxation)
        return prior.to_base(solution.theta) * (np.nan if solution.failure else 1.0)

    total = 0.0
    for fold in range(FOLDS):
        if fold != problem.held_out:
            total += float(problem.held_out_squares(fold, sigma, solve)[0].sum())
    return total if np.isfinite(total) else np.inf


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
