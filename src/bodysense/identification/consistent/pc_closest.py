"""The closest consistent robot to an estimate of base parameters, thesis eq (62)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from bodysense.errors import ShapeError
from bodysense.identification.consistent.projection import nearest_consistent
from bodysense.identification.consistent.relaxation import Relaxation
from bodysense.identification.factors import Stack
from bodysense.identification.linear.least_squares import OLS, Solution, least_squares
from bodysense.identification.prior import Prior
from bodysense.identification.regression import Regression
from bodysense.spatial.arrays import Array, as_array

_STRENGTHS = (1e6, 1e5, 1e4, 1e3, 1e2)
"""Of the estimate over the prior, at the middle of the metric's directions: the prior decides no
more than what no base parameter holds. A solver fails on estimates that are senseless and strong at
once; then weaker."""

_SILENT = 1e-9  # of the strongest direction: what the metric does not see


def closest_consistent(prior: Prior, theta_base: Array, metric: Array | None = None) -> Solution:
    """All parameters of a robot that can exist, with base parameters as near as can be.

        minimise |M (B theta - theta_base)|    over consistent theta

    Anybody's estimate will do, for example one from a paper. In print M is one, which adds
    kilograms to kg·m²; here each base parameter counts in units of its plausible size. An estimate
    with a covariance says more: M with MᵀM its inverse weighs what it is sure of, which is eq (63).

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
    seen = int((s > _SILENT * s.max(initial=0.0)).sum())
    if seen == 0:
        raise ShapeError("the metric is zero: every robot would be as close as any other.")
    away = U[:, :seen].T @ (M @ (estimate - prior.mapping @ theta_0))
    theta_free = theta_0 + D @ (Vt[:seen].T @ (away / s[:seen]))
    solution = Solution(theta_free)
    middle = float(np.median(s[:seen]))
    for strength in _STRENGTHS:
        # Directions that the estimate speaks of count by it alone, the others by the prior alone.
        root = np.ones(D.shape[1])
        root[:seen] = strength * s[:seen] / middle
        solution = nearest_consistent(prior, theta_free, (D @ Vt.T) / root)
        if not solution.failure:
            break
    return solution


@dataclass(frozen=True)
class ClosestConsistent(OLS):
    """Ordinary least squares first, then the closest consistent robot, thesis eq (62).

    The second step does not know what the data are sure of, so that the result fits them worse than
    one step over consistent robots (eq (63), `ConsistentOLS`): it is here for comparison, and
    `closest_consistent` for estimates whose data are not at hand.
    """

    name: ClassVar[str] = "pc-closest"
    about: ClassVar[str] = "least squares, then the closest physical robot (eq 62)"
    needs: ClassVar[str] = "nothing more"
    cost: ClassVar[str] = "one regression, one semidefinite program"
    when: ClassVar[str] = "for comparison, or (in Python) estimates whose data are not at hand"
    consistent: ClassVar[bool] = True

    def solve(self, problem: Regression, prior: Prior, stack: Stack) -> Solution:
        """Unconstrained, then projected."""
        free = least_squares(problem, prior, stack)
        closest = closest_consistent(prior, prior.mapping @ free.theta)
        return replace(closest, unseen=free.unseen)
