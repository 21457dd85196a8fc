"""How strongly to lean on the prior: the weight that predicts best what the fit has not seen."""

from __future__ import annotations

import numpy as np

from bodysense.identification.consistent.projection import consistent_least_squares
from bodysense.identification.consistent.relaxation import Relaxation
from bodysense.identification.linear.wls import WLS
from bodysense.identification.plan import FOLDS
from bodysense.identification.prior import Prior
from bodysense.identification.regression import Regression

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
