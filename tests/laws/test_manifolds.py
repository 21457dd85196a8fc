"""Laws that every inertia manifold obeys."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from bodysense.errors import InconsistentInertiaError, ShapeError
from bodysense.spatial import (
    MANIFOLDS,
    Array,
    InertiaManifold,
    physical_consistency,
    random_pi,
)

every_manifold = pytest.mark.parametrize("manifold", MANIFOLDS, ids=lambda m: m.name)
thetas = arrays(np.float64, 10, elements=st.floats(-2.0, 2.0))
# Away from the singular border of the square root, where only epsilon is left to invert.
regular_thetas = arrays(
    np.float64, 10, elements=st.one_of(st.floats(0.05, 2.0), st.floats(-2.0, -0.05))
)

# A theta of ordinary size that is regular in each chart, to be made singular below.
REGULAR = np.array([0.9, 0.4, -0.7, 0.6, 0.3, 0.8, -0.5, 0.2, 0.5, 1.1])


def changed(**entries: float) -> Array:
    theta = REGULAR.copy()
    for key, value in entries.items():
        theta[int(key[1:])] = value
    return theta


def turned_by(angle: float, axis: Array, theta: Array = REGULAR) -> Array:
    theta = theta.copy()
    theta[4:7] = angle * np.asarray(axis) / np.linalg.norm(axis)
    return theta


GENERIC_AXIS = np.array([0.3, 0.8, -0.5])
SINGULAR = [
    ("exponential-eigenvalue", changed(_8=0.2), 9, "axisymmetric"),
    ("exponential-eigenvalue", changed(_7=0.5), 9, "axisymmetric"),
    ("exponential-eigenvalue", changed(_7=1.1), 9, "axisymmetric"),
    ("exponential-eigenvalue", changed(_7=0.5, _9=0.5), 7, "sphere"),
    ("exponential-eigenvalue", turned_by(2 * np.pi, GENERIC_AXIS), 8, "2 pi"),
    ("exponential-eigenvalue", turned_by(4 * np.pi, GENERIC_AXIS), 8, "2 pi"),
    (
        "exponential-eigenvalue",
        turned_by(2 * np.pi, np.array([0, 0, 1]), changed(_8=0.2)),
        7,
        "axisymmetric",
    ),
    ("square-root", changed(_0=0.0), 7, "C11"),
    ("square-root", changed(_2=0.0), 8, "C22"),
    ("square-root", changed(_5=0.0), 9, "C33"),
    ("square-root", changed(_9=0.0), 9, "C44"),
    ("square-root", np.zeros(10), 0, "C11, C22, C33, C44"),
]


def natural_units(pi: Array) -> Array:
    """Size of mass, first moments and inertia of each body, to measure errors in, (..., 10)."""
    mass = pi[..., 0]
    inertia = pi[..., [4, 6, 9]].sum(axis=-1)
    units = np.empty_like(pi)
    units[..., 0] = mass
    units[..., 1:4] = np.sqrt(mass * inertia)[..., None]
    units[..., 4:] = inertia[..., None]
    return units


def numeric_jacobian(manifold: InertiaManifold, theta: Array) -> Array:
    """Central differences of fourth order; error about 1e-11."""
    step = 5e-3
    columns = []
    for d in step * np.eye(10):
        far = manifold.to_pi(theta + 2 * d) - manifold.to_pi(theta - 2 * d)
        near = manifold.to_pi(theta + d) - manifold.to_pi(theta - d)
        columns.append((8.0 * near - far) / (12.0 * step))
    return np.stack(columns, axis=-1)


@every_manifold
def test_round_trip(manifold: InertiaManifold) -> None:
    pi = random_pi(np.random.default_rng(1), 500)
    error = np.abs(manifold.to_pi(manifold.from_pi(pi)) - pi)
    assert (error <= 1e-13 * natural_units(pi)).all()


@every_manifold
def test_round_trip_from_a_milligram_to_a_kiloton(manifold: InertiaManifold) -> None:
    pi = random_pi(np.random.default_rng(2), 20)
    for mass, length in ((1e-3, 0.1), (1e6, 100.0)):
        scaled = pi * mass * np.array([1.0, *3 * [length], *6 * [length**2]])
        error = np.abs(manifold.to_pi(manifold.from_pi(scaled)) - scaled)
        assert (error <= 1e-13 * natural_units(scaled)).all()


@every_manifold
@given(theta=thetas)
def test_every_theta_is_a_possible_body(manifold: InertiaManifold, theta: Array) -> None:
    verdict = physical_consistency(manifold.to_pi(theta))
    assert verdict.consistent, verdict.reason


@every_manifold
@given(theta=regular_thetas)
def test_coordinates_of_a_body_give_the_body_back(manifold: InertiaManifold, theta: Array) -> None:
    pi = manifold.to_pi(theta)
    back = manifold.to_pi(manifold.from_pi(pi))
    assert (np.abs(back - pi) <= 1e-12 * natural_units(pi)).all()


@every_manifold
@given(theta=thetas)
def test_jacobian_equals_finite_differences(manifold: InertiaManifold, theta: Array) -> None:
    jacobian = manifold.jacobian(theta)
    scale = np.abs(jacobian).max() + np.abs(manifold.to_pi(theta)).max()
    np.testing.assert_allclose(
        jacobian, numeric_jacobian(manifold, theta), rtol=0, atol=1e-7 * scale
    )


@every_manifold
def test_jacobian_equals_finite_differences_on_bodies_of_robot_size(
    manifold: InertiaManifold,
) -> None:
    for theta in manifold.from_pi(random_pi(np.random.default_rng(3), 20)):
        jacobian, numeric = manifold.jacobian(theta), numeric_jacobian(manifold, theta)
        column = np.abs(jacobian).max(axis=0)
        assert (np.abs(jacobian - numeric) <= 1e-7 * column).all()


@every_manifold
def test_jacobian_has_full_rank_in_general(manifold: InertiaManifold) -> None:
    for theta in (REGULAR, *manifold.from_pi(random_pi(np.random.default_rng(4), 50))):
        assert manifold.rank(theta) == 10
        assert manifold.singular_reason(theta) is None
    assert np.linalg.cond(manifold.jacobian(REGULAR)) < 1e4


@pytest.mark.parametrize(("name", "theta", "rank", "word"), SINGULAR)
def test_rank_drops_where_documented(name: str, theta: Array, rank: int, word: str) -> None:
    manifold = next(m for m in MANIFOLDS if m.name == name)
    singular_values = np.linalg.svd(manifold.jacobian(theta), compute_uv=False)
    assert (singular_values > 1e-6).sum() == rank
    assert (singular_values[rank:] < 1e-14).all()
    assert manifold.rank(theta) == rank
    reason = manifold.singular_reason(theta)
    assert reason is not None
    assert reason.startswith(f"rank {rank} of 10")
    assert word in reason


@every_manifold
@given(theta=thetas)
def test_rank_and_reason_agree(manifold: InertiaManifold, theta: Array) -> None:
    assert 0 <= manifold.rank(theta) <= 10
    assert (manifold.rank(theta) == 10) == (manifold.singular_reason(theta) is None)


@every_manifold
def test_stacks_equal_single_calls(manifold: InertiaManifold) -> None:
    pi = random_pi(np.random.default_rng(5), 6).reshape(2, 3, 10)
    theta = manifold.from_pi(pi)
    jacobian = manifold.jacobian(theta)
    assert theta.shape == (2, 3, 10)
    assert jacobian.shape == (2, 3, 10, 10)
    np.testing.assert_allclose(manifold.from_pi(pi[1, 2]), theta[1, 2], rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(manifold.to_pi(theta)[1, 2], manifold.to_pi(theta[1, 2]), rtol=1e-13)
    np.testing.assert_allclose(manifold.jacobian(theta[1, 2]), jacobian[1, 2], atol=1e-14)
    assert manifold.to_pi(theta[:0]).shape == (0, 3, 10)


def test_every_manifold_has_a_name_of_its_own() -> None:
    assert len({manifold.name for manifold in MANIFOLDS}) == len(MANIFOLDS)


@every_manifold
@pytest.mark.parametrize(
    ("pi", "message"),
    [
        ([-1, 0, 0, 0, 1, 0, 1, 0, 0, 1], "mass is -1 kg"),
        ([1, 0, 0, 0, 1, 0, 1, 0, 0, 3], "triangle inequality fails by 1 kg"),
        ([1, 0, 0, 0, 1, 0, 1, 0, 0, 2], "no volume"),
        ([0] * 10, "massless"),
        ([1, 0, 0, 2, 1, 0, 1, 0, 0, 1], r"negative.*about the link origin"),
    ],
)
def test_impossible_bodies_are_refused_with_a_reason(
    manifold: InertiaManifold, pi: list[float], message: str
) -> None:
    with pytest.raises(InconsistentInertiaError, match=message):
        manifold.from_pi(pi)
    stack = random_pi(np.random.default_rng(6), 3)
    stack[1] = pi
    with pytest.raises(InconsistentInertiaError, match=r"pi\[1\]"):
        manifold.from_pi(stack)


@every_manifold
def test_numbers_out_of_range_are_refused(manifold: InertiaManifold) -> None:
    for huge in (1e200, -1e200, 800.0 if manifold.name != "square-root" else 1e160):
        with pytest.raises(InconsistentInertiaError, match="out of the range"):
            manifold.to_pi(np.full(10, huge))
    with pytest.raises(InconsistentInertiaError, match="out of the range"):
        manifold.jacobian(np.full(10, 1e308 if manifold.name == "square-root" else 800.0))


@every_manifold
@pytest.mark.parametrize("method", ["to_pi", "from_pi", "jacobian", "rank", "singular_reason"])
def test_bad_arrays_are_refused(manifold: InertiaManifold, method: str) -> None:
    function = getattr(manifold, method)
    for wrong in (np.zeros(9), np.zeros((10, 3)), 1.0, "text", [[1.0], [1.0, 2.0]]):
        with pytest.raises(ShapeError, match=r"(pi|theta) (has shape|must be)"):
            function(wrong)
    for value in (np.nan, np.inf):
        with pytest.raises(ShapeError, match=r"holds (nan|inf) at index \(3,\)"):
            function(np.where(np.arange(10) == 3, value, 1.0))
