from __future__ import annotations

import re

import numpy as np
import pinocchio as pin
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from bodysense.errors import InconsistentInertiaError, ShapeError
from bodysense.spatial.arrays import Array
from bodysense.spatial.pseudo_inertia import (
    PI_DUAL_BASIS,
    PSEUDO_INERTIA_BASIS,
    inertia_at_com,
    physical_consistency,
    pi_from_mass_com_inertia,
    pi_from_pseudo_inertia,
    pseudo_inertia_from_pi,
    random_pi,
    require_consistent,
    transform_pi,
)

BALL = pi_from_mass_com_inertia(2.0, [0.1, 0.0, -0.3], 0.05 * np.eye(3))


def random_motion(rng: np.random.Generator) -> pin.SE3:
    return pin.SE3(pin.exp3(rng.uniform(-1.5, 1.5, 3)), rng.uniform(-1.0, 1.0, 3))


def test_pseudo_inertia_equals_pinocchio(rng: np.random.Generator) -> None:
    for pi in random_pi(rng, 20):
        expected = pin.PseudoInertia.FromDynamicParameters(pi).toMatrix()
        np.testing.assert_allclose(pseudo_inertia_from_pi(pi), expected, rtol=0, atol=1e-15)


@given(pi=arrays(np.float64, 10, elements=st.floats(-1e3, 1e3)))
def test_the_two_directions_invert_each_other_for_any_numbers(pi: Array) -> None:
    back = pi_from_pseudo_inertia(pseudo_inertia_from_pi(pi))
    np.testing.assert_allclose(back, pi, rtol=0, atol=1e-15 * max(1.0, np.abs(pi).max()) * 4)


def test_constant_maps_are_dual_and_locked() -> None:
    gram = np.einsum("kij,lij->kl", PI_DUAL_BASIS, PSEUDO_INERTIA_BASIS)
    np.testing.assert_array_equal(gram, np.eye(10))
    with pytest.raises(ValueError, match="read-only"):
        PSEUDO_INERTIA_BASIS[0, 0, 0] = 1.0


def test_a_matrix_that_is_not_symmetric_counts_by_its_symmetric_part(
    rng: np.random.Generator,
) -> None:
    P = rng.normal(size=(4, 4))
    np.testing.assert_allclose(
        pi_from_pseudo_inertia(P), pi_from_pseudo_inertia((P + P.T) / 2), atol=1e-15
    )


def test_mass_com_and_inertia_equal_pinocchio(rng: np.random.Generator) -> None:
    bodies = random_pi(rng, 20)
    for pi in bodies:
        inertia = pin.Inertia.FromDynamicParameters(pi)
        np.testing.assert_allclose(inertia_at_com(pi), inertia.inertia, rtol=0, atol=1e-15)
        back = pi_from_mass_com_inertia(inertia.mass, inertia.lever, inertia.inertia)
        np.testing.assert_allclose(back, inertia.toDynamicParameters(), rtol=0, atol=1e-15)
    stacked = pi_from_mass_com_inertia(
        bodies[:, 0], bodies[:, 1:4] / bodies[:, :1], inertia_at_com(bodies)
    )
    np.testing.assert_allclose(stacked, bodies, rtol=0, atol=1e-15)


def test_change_of_frame_equals_pinocchio_and_composes(rng: np.random.Generator) -> None:
    T_b_a, T_c_b = random_motion(rng), random_motion(rng)
    bodies = random_pi(rng, 10)
    in_b = transform_pi(bodies, T_b_a.homogeneous)
    for pi, moved in zip(bodies, in_b, strict=True):
        expected = T_b_a.act(pin.Inertia.FromDynamicParameters(pi)).toDynamicParameters()
        np.testing.assert_allclose(moved, expected, rtol=0, atol=1e-14 * np.abs(expected).max())
    direct = transform_pi(bodies, (T_c_b * T_b_a).homogeneous)
    np.testing.assert_allclose(transform_pi(in_b, T_c_b.homogeneous), direct, rtol=0, atol=1e-12)


def test_change_of_frame_takes_rigid_motions_only() -> None:
    with pytest.raises(ShapeError, match="not a rotation"):
        transform_pi(BALL, np.diag([1.0, 1.0, 2.0, 1.0]))
    with pytest.raises(ShapeError, match="last row"):
        transform_pi(BALL, np.eye(4) + np.eye(4)[[3, 0, 1, 2]] * [[0], [0], [0], [1]])


def test_random_bodies_are_consistent_and_repeatable() -> None:
    bodies = random_pi(np.random.default_rng(3), 500)
    assert bodies.shape == (500, 10)
    assert min(physical_consistency(pi).margin for pi in bodies) > 1e-3
    np.testing.assert_array_equal(bodies, random_pi(np.random.default_rng(3), 500))


def test_verdict_on_a_body_that_can_be_computed_by_hand() -> None:
    verdict = physical_consistency(pi_from_mass_com_inertia(4.0, [1, 2, 3], np.diag([3, 4, 5])))
    # second moments (3, 2, 1) about the centre of mass, mean 2
    assert verdict.consistent
    assert verdict.reason == ""
    assert verdict.mass == 4.0
    np.testing.assert_allclose(verdict.com, [1.0, 2.0, 3.0])
    assert verdict.smallest_moment == pytest.approx(3.0, rel=1e-13)
    assert verdict.margin == pytest.approx(0.5, rel=1e-13)
    assert not verdict.com.flags.writeable


@given(
    scale=st.floats(1e-6, 1e6),
    length=st.floats(1e-3, 1e3),
    turn=arrays(np.float64, 3, elements=st.floats(-2.0, 2.0)),
)
def test_margin_is_free_of_units_and_frame(scale: float, length: float, turn: Array) -> None:
    pi = random_pi(np.random.default_rng(0), 1)[0]
    units = scale * np.array([1.0, *3 * [length], *6 * [length**2]])
    moved = transform_pi(pi, pin.SE3(pin.exp3(turn), turn / 10.0).homogeneous)
    expected = physical_consistency(pi).margin
    assert physical_consistency(units * moved).margin == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("mass", [1e-3, 1.0, 1e3, 1e200, 1e-200])
def test_a_ball_has_margin_one_whatever_it_weighs(mass: float) -> None:
    assert physical_consistency(mass * BALL).margin == pytest.approx(1.0, rel=1e-12)


IMPOSSIBLE = [
    ([0.0] * 10, 0.0, "massless"),
    ([-0.5, 0, 0, 0, 1, 0, 1, 0, 0, 1], -1.0, r"mass is -0.5 kg, it must be positive"),
    ([0, 0.2, 0, 0, 0, 0, 0, 0, 0, 0], -1.0, r"mass is zero but the first moment m c is 0.2 kg m"),
    ([0, 0, 0, 0, 1, 0, 1, 0, 0, 1], 0.0, "mass is zero but the inertia is not"),
    ([0, 0, 0, 0, 1, 0, 1, 0, 0, 3], -3 / 7, "mass is zero but the inertia is not"),
    ([1, 0, 0, 0, 1, 0, 1, 0, 0, 3], -3 / 7, r"are 1, 1, 3 kg m\^2: the triangle .* by 1 kg m"),
    ([1, 0, 0, 0, -1, 0, 1, 0, 0, 1], -0.6, "the smallest is negative"),
    ([1, 0, 0, 0, 1, 0, 1, 0, 0, 2], 0.0, "no volume"),
    ([3, 0, 0, 0, 0, 0, 0, 0, 0, 0], 0.0, "no volume"),
    ([1e-300, 1e10, 0, 0, 1, 0, 1, 0, 0, 1], -np.inf, "double precision"),
    ([1e308] * 10, -np.inf, "double precision"),
]


@pytest.mark.parametrize(("pi", "margin", "reason"), IMPOSSIBLE)
def test_impossible_bodies_get_a_reason(pi: list[float], margin: float, reason: str) -> None:
    verdict = physical_consistency(pi)
    assert not verdict.consistent
    assert verdict.margin == pytest.approx(margin, rel=1e-13)
    assert re.search(reason, verdict.reason)
    with pytest.raises(InconsistentInertiaError, match=reason):
        require_consistent(pi)


def test_inertia_given_about_the_com_by_mistake_is_seen() -> None:
    light = pi_from_mass_com_inertia(2.0, [0.0, 0.0, 0.3], np.diag([0.01, 0.01, 0.01]))
    light[[4, 6, 9]] = 0.01
    verdict = physical_consistency(light)
    assert verdict.smallest_moment == pytest.approx(0.01 - 2.0 * 0.3**2)
    assert "the smallest is negative" in verdict.reason


def test_a_plate_stays_on_the_border_in_every_frame(rng: np.random.Generator) -> None:
    plate = pi_from_mass_com_inertia(3.0, [0.2, -0.1, 0.4], np.diag([0.02, 0.03, 0.05]))
    for _ in range(50):
        verdict = physical_consistency(transform_pi(plate, random_motion(rng).homogeneous))
        assert verdict.margin == 0.0
        assert "no volume" in verdict.reason


@given(pi=arrays(np.float64, 10, elements=st.floats(allow_nan=False, allow_infinity=False)))
def test_any_finite_numbers_get_a_verdict(pi: Array) -> None:
    verdict = physical_consistency(pi)
    assert verdict.consistent == (verdict.reason == "") == (verdict.margin > 0.0)


@given(
    pi=arrays(np.float64, 10, elements=st.floats(-1.0, 1.0, width=16)),
    mass=st.sampled_from([0.25, 1.0, 4.0]),
)
def test_verdict_agrees_with_the_eigenvalues_of_the_pseudo_inertia(pi: Array, mass: float) -> None:
    pi[0] = mass
    pi[[4, 6, 9]] += 1.0
    smallest = np.linalg.eigvalsh(pin.PseudoInertia.FromDynamicParameters(pi).toMatrix())[0]
    if abs(smallest) > 1e-12:
        assert physical_consistency(pi).consistent == (smallest > 0.0)


def test_require_consistent_names_the_body_and_the_remedy(rng: np.random.Generator) -> None:
    bodies = random_pi(rng, 6).reshape(2, 3, 10)
    np.testing.assert_array_equal(require_consistent(bodies), bodies)
    bodies[1, 2, 0] = -1.0
    with pytest.raises(InconsistentInertiaError, match=r"links\[1, 2\] is not .* mass is -1 kg"):
        require_consistent(bodies, "links")
    with pytest.raises(InconsistentInertiaError, match=r"m, mcx.*about the link origin"):
        require_consistent(bodies[1, 2])


def test_bad_arrays_are_refused() -> None:
    with pytest.raises(ShapeError, match=r"pi has shape \(9,\)"):
        physical_consistency(np.ones(9))
    with pytest.raises(ShapeError, match="nan"):
        pseudo_inertia_from_pi([np.nan] * 10)
    with pytest.raises(ShapeError, match="not symmetric"):
        pi_from_mass_com_inertia(1.0, np.zeros(3), np.eye(3) + np.eye(3, k=1))
    with pytest.raises(ShapeError, match=r"com \(2,\)"):
        pi_from_mass_com_inertia(np.ones(3), np.zeros((2, 3)), np.eye(3))
    with pytest.raises(ShapeError, match=r"T_new_old \(2,\)"):
        transform_pi(np.ones((3, 10)), np.tile(np.eye(4), (2, 1, 1)))
    with pytest.raises(InconsistentInertiaError, match="no centre of mass"):
        inertia_at_com(np.zeros(10))
