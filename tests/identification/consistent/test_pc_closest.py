"""The closest consistent robot to base parameters, against the same program written for cvxpy."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

from bodysense.errors import ShapeError
from bodysense.identification import identifier
from bodysense.identification.consistent.relaxation import MARGIN
from bodysense.identification.consistent.solvers import closest_consistent


def directly(case, pseudo_inertia, theta_base, M) -> float:
    """The smallest |M (B theta - theta_base)| over consistent theta."""
    prior = case.prior
    x = cp.Variable(prior.size.size)
    theta = cp.multiply(prior.size, x)
    constraints = [x[prior.positive] >= 0.0]
    for link, unit in zip(case.links, case.units, strict=True):
        scaled = cp.diag(unit) @ pseudo_inertia(theta[link], cp.bmat) @ cp.diag(unit)
        constraints.append((scaled + scaled.T) / 2.0 >> MARGIN * np.eye(4))
    away = cp.norm(M @ (prior.mapping @ theta - theta_base))
    program = cp.Problem(cp.Minimize(away), constraints)
    # A thousandth of what is compared below: where the metric is a random one, the last digits of
    # Clarabel's own 1e-8 are not to be had in every arithmetic.
    tolerance = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-6)
    return float(program.solve(solver=cp.CLARABEL, **tolerance))


@pytest.mark.parametrize("with_metric", [False, True])
def test_no_other_robot_is_closer(with_metric, case, pseudo_inertia, rng):
    base = case.prior.mapping @ identifier("ols").theta(case.problem)
    b = base.size
    metric = rng.normal(size=(b, b)) / case.prior.size_base if with_metric else None
    M = metric if with_metric else np.diag(1.0 / case.prior.size_base)
    solution = closest_consistent(case.prior, base, metric)
    assert not solution.failure
    assert case.smallest(solution.theta) >= 0.5 * MARGIN
    found = np.linalg.norm(M @ (case.prior.mapping @ solution.theta - base))
    best = directly(case, pseudo_inertia, base, M)
    assert best > 1e-3
    assert found == pytest.approx(best, rel=1e-3)


def test_base_parameters_that_can_exist_are_kept(case):
    theta = case.prior.theta * 1.1
    solution = closest_consistent(case.prior, case.prior.mapping @ theta)
    np.testing.assert_allclose(case.prior.mapping @ solution.theta, case.prior.mapping @ theta)


def test_two_steps_fit_worse_than_one(case):
    """Eq (62) is decoupled from the data."""
    two, one = (m.theta(case.problem) for m in (identifier("pc-closest"), identifier("pc-ols")))
    base = [case.prior.mapping @ theta for theta in (two, one)]
    squares = [case.problem.squares(b)[0].sum() for b in base]
    assert squares[0] > squares[1]


def test_arrays_must_fit(case):
    b = case.prior.theta_base.size
    with pytest.raises(ShapeError, match="theta_base"):
        closest_consistent(case.prior, np.zeros(b - 1))
    with pytest.raises(ShapeError, match="metric"):
        closest_consistent(case.prior, np.zeros(b), np.eye(b - 1))
    with pytest.raises(ShapeError, match="metric is zero"):
        closest_consistent(case.prior, np.zeros(b), np.zeros((b, b)))
