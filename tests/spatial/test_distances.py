from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest
from scipy.linalg import eigvalsh, fractional_matrix_power, sqrtm

from bodysense.errors import InconsistentInertiaError, ShapeError
from bodysense.spatial.arrays import Array
from bodysense.spatial.distances import (
    affine_invariant_distance,
    entropic_divergence,
    entropic_gradient,
    geodesic,
    pullback_distance,
    pullback_metric,
    robot_distance,
)
from bodysense.spatial.pseudo_inertia import (
    physical_consistency,
    pi_from_pseudo_inertia,
    pseudo_inertia_from_pi,
    random_pi,
    transform_pi,
)

Pair = tuple[Array, Array]


@pytest.fixture
def pair(rng: np.random.Generator) -> Pair:
    bodies = random_pi(rng, 20)
    return bodies[:10], bodies[10:]


def test_distance_is_the_one_of_the_generalised_eigenvalues(pair: Pair) -> None:
    for pi_1, pi_2 in zip(*pair, strict=True):
        ratios = eigvalsh(pseudo_inertia_from_pi(pi_2), pseudo_inertia_from_pi(pi_1))
        expected = np.sqrt((np.log(ratios) ** 2).sum())
        assert affine_invariant_distance(pi_1, pi_2) == pytest.approx(expected, rel=1e-11)


def test_distance_is_a_metric(pair: Pair, rng: np.random.Generator) -> None:
    pi_1, pi_2 = pair
    pi_3 = random_pi(rng, 10)
    d_12 = affine_invariant_distance(pi_1, pi_2)
    np.testing.assert_allclose(affine_invariant_distance(pi_2, pi_1), d_12, rtol=1e-12)
    np.testing.assert_allclose(affine_invariant_distance(pi_1, pi_1), 0.0, atol=1e-12)
    assert (d_12 > 0.1).all()
    detour = affine_invariant_distance(pi_1, pi_3) + affine_invariant_distance(pi_3, pi_2)
    assert (d_12 <= detour * (1 + 1e-12)).all()


def test_doubling_a_body_is_two_log_two(pair: Pair) -> None:
    np.testing.assert_allclose(
        affine_invariant_distance(pair[0], 2.0 * pair[0]), 2.0 * np.log(2.0), rtol=1e-12
    )


def test_nothing_depends_on_the_frame(pair: Pair, rng: np.random.Generator) -> None:
    pi_1, pi_2 = pair
    T = pin.SE3(pin.exp3(rng.uniform(-1, 1, 3)), rng.uniform(-0.5, 0.5, 3)).homogeneous
    moved_1, moved_2 = transform_pi(pi_1, T), transform_pi(pi_2, T)
    for measure in (affine_invariant_distance, entropic_divergence):
        np.testing.assert_allclose(measure(moved_1, moved_2), measure(pi_1, pi_2), rtol=1e-9)
    np.testing.assert_allclose(
        pullback_distance(moved_1, moved_2, moved_1),
        pullback_distance(pi_1, pi_2, pi_1),
        rtol=1e-9,
    )
    np.testing.assert_allclose(
        geodesic(moved_1, moved_2, 0.3), transform_pi(geodesic(pi_1, pi_2, 0.3), T), atol=1e-11
    )


def test_nothing_depends_on_units(pair: Pair) -> None:
    pi_1, pi_2 = pair
    grams_and_millimetres = 1e3 * np.array([1.0, *3 * [1e3], *6 * [1e6]])
    for measure in (affine_invariant_distance, entropic_divergence):
        np.testing.assert_allclose(
            measure(pi_1 * grams_and_millimetres, pi_2 * grams_and_millimetres),
            measure(pi_1, pi_2),
            rtol=1e-11,
        )


def test_robot_distance_sums_squares_over_links(pair: Pair) -> None:
    squares = [float(affine_invariant_distance(a, b)) ** 2 for a, b in zip(*pair, strict=True)]
    assert robot_distance(*pair) == pytest.approx(np.sqrt(sum(squares)), rel=1e-13)
    with pytest.raises(ShapeError, match="same order"):
        robot_distance(pair[0], pair[1][:3])
    with pytest.raises(ShapeError, match=r"\(links, 10\)"):
        robot_distance(pair[0][0], pair[1][0])


def test_geodesic_is_the_one_of_the_thesis(pair: Pair) -> None:
    for pi_1, pi_2 in zip(*pair, strict=True):
        P_1, P_2 = pseudo_inertia_from_pi(pi_1), pseudo_inertia_from_pi(pi_2)
        root = sqrtm(P_1)
        inverse_root = np.linalg.inv(root)
        inner = fractional_matrix_power(inverse_root @ P_2 @ inverse_root, 0.3)
        expected = pi_from_pseudo_inertia(root @ inner @ root)
        found = geodesic(pi_1, pi_2, 0.3)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * np.abs(expected).max())


def test_geodesic_has_its_ends_its_length_and_constant_speed(pair: Pair) -> None:
    pi_1, pi_2 = pair
    t = np.linspace(0.0, 1.0, 9)
    path = geodesic(pi_1, pi_2, t)
    assert path.shape == (10, 9, 10)
    np.testing.assert_allclose(path[:, 0], pi_1, rtol=0, atol=1e-13)
    np.testing.assert_allclose(path[:, -1], pi_2, rtol=0, atol=1e-12)
    length = affine_invariant_distance(pi_1, pi_2)
    np.testing.assert_allclose(
        affine_invariant_distance(path[:, :-1], path[:, 1:]),
        np.repeat(length[:, None] / 8, 8, axis=1),
        rtol=1e-9,
    )
    half = geodesic(pi_1, pi_2, 0.5)
    np.testing.assert_allclose(affine_invariant_distance(pi_1, half), length / 2, rtol=1e-10)
    np.testing.assert_allclose(affine_invariant_distance(half, pi_2), length / 2, rtol=1e-10)
    np.testing.assert_allclose(half, geodesic(pi_2, pi_1, 0.5), rtol=0, atol=1e-12)


def test_geodesic_never_leaves_the_possible_bodies(pair: Pair) -> None:
    for pi_1, pi_2 in zip(*pair, strict=True):
        for pi in geodesic(pi_1, pi_2, np.linspace(-0.5, 1.5, 21)):
            assert physical_consistency(pi).consistent
    with pytest.raises(ShapeError, match="number or a vector"):
        geodesic(pair[0][0], pair[1][0], np.zeros((2, 2)))


def test_entropic_divergence_is_its_formula_and_vanishes_only_for_equals(pair: Pair) -> None:
    for pi_1, pi_2 in zip(*pair, strict=True):
        ratio = pseudo_inertia_from_pi(pi_1) @ np.linalg.inv(pseudo_inertia_from_pi(pi_2))
        expected = np.trace(ratio) - np.linalg.slogdet(ratio)[1] - 4.0
        assert entropic_divergence(pi_1, pi_2) == pytest.approx(expected, rel=1e-10)
    assert (entropic_divergence(*pair) > 0.01).all()
    np.testing.assert_allclose(entropic_divergence(pair[0], pair[0]), 0.0, atol=1e-20)


def test_entropic_gradient_equals_finite_differences(pair: Pair) -> None:
    pi_1, pi_2 = pair
    gradient = entropic_gradient(pi_1, pi_2)
    for direction in geodesic(pi_1, pi_2, np.array([-0.1, 0.1, 0.2])).swapaxes(0, 1) - pi_1:
        step = 1e-3
        values = [entropic_divergence(pi_1 + k * step * direction, pi_2) for k in (-2, -1, 1, 2)]
        numeric = (values[0] - 8 * values[1] + 8 * values[2] - values[3]) / (12 * step)
        analytic = (gradient * direction).sum(axis=-1)
        np.testing.assert_allclose(numeric, analytic, rtol=1e-7, atol=1e-9)
    scale = np.abs(entropic_gradient(pi_1, 2.0 * pi_1))
    assert (np.abs(entropic_gradient(pi_1, pi_1)) <= 1e-12 * scale.max()).all()


def test_near_a_body_all_three_measures_agree_to_second_order(pair: Pair) -> None:
    pi_0, other = pair
    direction = other - pi_0
    direction /= pullback_distance(other, pi_0, pi_0)[:, None]
    errors = []
    for step in (1e-2, 1e-3):
        near = pi_0 + step * direction
        squared = step**2
        np.testing.assert_allclose(pullback_distance(near, pi_0, pi_0) ** 2, squared, rtol=1e-10)
        d2 = affine_invariant_distance(near, pi_0) ** 2 / squared
        D2 = 2.0 * entropic_divergence(near, pi_0) / squared
        np.testing.assert_allclose(d2, 1.0, atol=1.5 * step)
        np.testing.assert_allclose(D2, 1.0, atol=1.5 * step)
        errors.append(np.abs(d2 - 1.0).max())
    # the remainder is of third order: ten times closer is ten times more alike
    assert errors[0] / errors[1] == pytest.approx(10.0, rel=0.05)


def test_equation_167_as_printed_is_another_thing(pair: Pair) -> None:
    pi_0, other = pair[0][0], pair[1][0]
    near = pi_0 + 1e-6 * (other - pi_0)
    dP = pseudo_inertia_from_pi(near - pi_0)
    inverse = np.linalg.inv(pseudo_inertia_from_pi(pi_0))
    true = float(affine_invariant_distance(near, pi_0)) ** 2
    assert np.trace(inverse @ dP @ inverse @ dP) == pytest.approx(true, rel=1e-3)
    assert np.trace(inverse @ dP @ dP) != pytest.approx(true, rel=0.5)
    assert np.trace(inverse @ dP @ dP) / 2 != pytest.approx(true, rel=0.5)


def test_pullback_metric_is_symmetric_positive_and_stacks(pair: Pair) -> None:
    metric = pullback_metric(pair[0])
    assert metric.shape == (10, 10, 10)
    np.testing.assert_array_equal(metric[3], pullback_metric(pair[0][3]))
    for G in metric:
        np.testing.assert_allclose(G, G.T, rtol=1e-13)
        assert (np.linalg.eigvalsh(G) > 0.0).all()
    outside = -pair[0]
    squared = np.einsum("ki,kij,kj->k", 2 * outside, metric, 2 * outside)
    np.testing.assert_allclose(pullback_distance(outside, pair[0], pair[0]) ** 2, squared)
    np.testing.assert_allclose(squared, 16.0, rtol=1e-10)


def test_impossible_bodies_are_refused_by_name(pair: Pair) -> None:
    for measure in (
        affine_invariant_distance,
        entropic_divergence,
        entropic_gradient,
        robot_distance,
    ):
        with pytest.raises(InconsistentInertiaError, match=r"pi_[12]\[0\].*mass is -"):
            measure(pair[0], -pair[1])
        with pytest.raises(ShapeError, match="pi_1"):
            measure(pair[0][:, :9], pair[1])
    with pytest.raises(InconsistentInertiaError, match=r"pi_0 is not .*massless"):
        pullback_metric(np.zeros(10))


def test_one_body_against_many(pair: Pair) -> None:
    one, many = pair[0][0], pair[1]
    for measure in (affine_invariant_distance, entropic_divergence, entropic_gradient):
        for k, found in enumerate(measure(one, many)):
            np.testing.assert_allclose(found, measure(one, many[k]), rtol=1e-11)
        with pytest.raises(ShapeError, match=r"pi_1 \(10,\), pi_2 \(3,\)"):
            measure(pair[0], many[:3])
    assert geodesic(one, many, [0.1, 0.2]).shape == (10, 2, 10)
    with pytest.raises(ShapeError, match=r"pi_0 \(3,\)"):
        pullback_distance(many, one, many[:3])
