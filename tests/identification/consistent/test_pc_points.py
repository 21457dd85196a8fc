"""Point masses: inside their shapes, as good as another solver's, and what is known of them."""

from __future__ import annotations

from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest

from bodysense.errors import ShapeError
from bodysense.identification import identifier
from bodysense.identification.consistent.point_masses import (
    PointMasses,
    _grid_points,
    _parameters_of_points,
    _point_mass_least_squares,
    link_shapes,
)
from bodysense.identification.knowledge import EqualLinks, Knowledge
from bodysense.identification.prior import Prior
from bodysense.robot.shapes.hull import Hull


def test_parameters_of_points_are_sums_over_points(rng):
    points, masses = rng.uniform(-1.0, 1.0, (7, 3)), rng.uniform(0.1, 2.0, 7)
    pi = _parameters_of_points(points) @ masses
    inertia = sum(
        m * (p @ p * np.eye(3) - np.outer(p, p)) for m, p in zip(masses, points, strict=True)
    )
    assert pi[0] == pytest.approx(masses.sum())
    np.testing.assert_allclose(pi[1:4], masses @ points)
    np.testing.assert_allclose(pi[4:], inertia[[0, 0, 1, 0, 1, 2], [0, 1, 1, 2, 2, 2]])


@pytest.mark.parametrize("most", [20, 50, 200, 400])
def test_grids_lie_inside_and_reach_the_corners(most, rng):
    for hull in (
        Hull.from_box([-0.1, 0.0, 0.2], [0.5, 0.05, 0.3]),
        Hull.from_points(rng.normal(size=(15, 3))),
    ):
        points = _grid_points(hull, most)
        assert 4 <= points.shape[0] <= most
        assert hull.contains(points, margin=-1e-9).all()
        spread = np.linalg.eigvalsh(np.cov(points.T))
        assert spread[0] > 0.0


def solved_by_cvxpy(case, clouds, least) -> np.ndarray:
    prior = case.prior
    x = cp.Variable(prior.size.size)
    theta = cp.multiply(prior.size, x)
    constraints = [x[prior.positive] >= 0.0]
    for link, cloud, mass, low in zip(case.links, clouds, prior.link_mass, least, strict=True):
        Q = _parameters_of_points(cloud)
        share = cp.Variable(cloud.shape[0], nonneg=True)
        constraints.append(theta[link] == mass * (Q @ share + low * Q.mean(axis=1)))
    fit = cp.sum_squares(case.A @ theta - case.z) + cp.sum_squares(x - prior.theta / prior.size)
    cp.Problem(cp.Minimize(fit), constraints).solve(
        solver=cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11
    )
    return theta.value


def test_another_solver_finds_the_same_masses(case):
    shapes = link_shapes(case.problem.robot, case.prior, {}, 2.0)
    clouds = [_grid_points(hull, 60) for hull in shapes]
    expected = solved_by_cvxpy(case, clouds, [1e-6] * 3)
    solution = _point_mass_least_squares(case.prior, case.stack, shapes, 60)
    assert not solution.failure
    assert case.cost(solution.theta) <= case.cost(expected) * (1.0 + 1e-7)
    np.testing.assert_allclose(
        solution.theta / case.prior.size, expected / case.prior.size, atol=1e-4
    )


def test_links_stay_inside_their_shapes(case):
    """Centres of mass, and radii of gyration: what a semidefinite constraint does not bound."""
    half = 0.08
    inside = dict.fromkeys(case.prior.link_names, Hull.from_box([-half] * 3, [half] * 3))
    problem = replace(case.problem, knowledge=Knowledge(com_inside=inside))
    found = identifier("pc-points").fit(problem)
    assert found.status.ok
    assert found.consistent
    for link in case.links:
        pi = found.theta[link]
        assert (np.abs(pi[1:4]) <= pi[0] * half * (1.0 + 1e-9)).all()
        assert (pi[[4, 6, 9]] <= pi[0] * 2.0 * half**2 * (1.0 + 1e-9)).all()


def test_equalities_are_kept(case):
    known = Knowledge(total_mass=2.5, equal=(EqualLinks("link1", "link2"),))
    shape = dict.fromkeys(("link1", "link2"), Hull.from_box([-0.3] * 3, [0.3] * 3))
    problem = replace(case.problem, knowledge=replace(known, com_inside=shape))
    theta = PointMasses().solve(problem, Prior.of(problem), case.stack).theta
    assert sum(theta[link][0] for link in case.links) == pytest.approx(2.5, rel=1e-7)
    np.testing.assert_allclose(
        theta[case.links[0]] / case.prior.size[case.links[0]],
        theta[case.links[1]] / case.prior.size[case.links[0]],
        atol=1e-6,
    )


def test_shapes_come_from_what_is_known_or_from_inertia(case):
    own = Hull.from_box([0.0] * 3, [0.1] * 3)
    name = case.prior.link_names[0]
    shapes = link_shapes(case.problem.robot, case.prior, {name: own}, 2.0)
    assert shapes[0] is own
    # A box of even density has the inertia that it stands for.
    pi = case.prior.theta[case.links[1]]
    tight, wide = (link_shapes(case.problem.robot, case.prior, {}, m)[1] for m in (1.0, 2.0))
    fine = _parameters_of_points(_grid_points(tight, 20_000)[8:])
    np.testing.assert_allclose(
        pi[0] * fine.mean(axis=1) / case.prior.size[case.links[1]],
        pi / case.prior.size[case.links[1]],
        atol=0.02,
    )
    assert wide.contains(tight.vertices).all()


@pytest.mark.parametrize(
    ("settings", "said"), [({"points": 10}, "20 or more"), ({"margin": 0.0}, "positive number")]
)
def test_settings_that_make_no_sense_are_refused(settings, said):
    with pytest.raises(ShapeError, match=said):
        PointMasses(**settings)
