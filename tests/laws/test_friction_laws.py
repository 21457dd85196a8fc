"""Laws that every registered friction model obeys, and one registered by a user."""

from __future__ import annotations

import math

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bodysense.robot import (
    Friction,
    FrictionModel,
    friction_model,
    friction_models,
    inverse_dynamics,
    load_robot,
    register_friction_model,
    torque_regressor,
)
from bodysense.robot import friction as registry
from bodysense.robot._kernels.friction import friction_basis
from bodysense.robot.dynamics import drive_loads
from bodysense.robot.model import kernel_tree

CUSTOM = "tests-own-law"
# Smooth and narrow enough that both sides of a curve are seen.
SHAPE = {
    "width": np.array([0.03, 0.05, 0.1, 0.2, 0.05, 0.07]),
    "vs": np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6]),
    "delta": np.array([1.0, 1.5, 2.0, 2.5, 3.0, 0.7]),
    "sigma0": np.full(6, 1e4),
    "sigma1": np.full(6, 50.0),
    "w": np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6]),
    "power": np.array([1.5, 2.0, 2.5, 3.0, 3.5, 4.0]),
}
# On both sides of every kink and far away from it.
SPEEDS = np.array([-3.0, -0.8, -0.31, -0.07, -0.011, 0.011, 0.07, 0.31, 0.8, 3.0])


def own_law(v, shape, phi, dphi):
    """Two odd, dissipative terms with two shape parameters."""
    phi[0] = math.atan(v / shape[0])
    dphi[0] = shape[0] / (shape[0] ** 2 + v * v)
    phi[1] = v * abs(v) ** (shape[1] - 1.0)
    dphi[1] = shape[1] * abs(v) ** (shape[1] - 1.0)


@numba.njit
def kernel_basis(tree, j, v, phi, dphi):
    friction_basis(tree, j, v, phi, dphi)


@pytest.fixture(scope="module", autouse=True)
def registered():
    """Register the law above for this module only."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "_REGISTRY", dict(registry._REGISTRY))
        register_friction_model(CUSTOM, own_law, terms=("Ft", "Fp"), shape={"w": 0.2, "power": 2.0})
        yield
    assert CUSTOM not in friction_models()


every_law = pytest.mark.parametrize("name", [*friction_models(), CUSTOM])


def shape_of(model: FrictionModel):
    return {name: SHAPE[name] for name in model.shape}


@every_law
def test_is_listed_under_its_own_name(name):
    model = friction_models()[name]
    assert model is friction_model(name)
    assert model.name == name
    assert len(set(model.terms)) == len(model.terms)
    assert len(model.defaults) == len(model.shape)
    assert Friction.from_model(name, 3).shape.tolist() == [list(model.defaults)] * 3
    assert model.description or name == CUSTOM


@every_law
def test_slope_is_the_derivative(name):
    model = friction_model(name)
    friction = Friction.from_model(name, 6, **shape_of(model))
    h = 1e-4
    for row in friction.shape:
        _, slope = model.basis(SPEEDS, row)
        far, near = (
            (model.basis(SPEEDS + k * h, row)[0] - model.basis(SPEEDS - k * h, row)[0])
            / (2 * k * h)
            for k in (2, 1)
        )
        fourth_order = (4.0 * near - far) / 3.0
        np.testing.assert_allclose(slope, fourth_order, rtol=1e-7, atol=1e-8)


@every_law
def test_kernel_and_numpy_agree(name):
    model = friction_model(name)
    robot = load_robot("tx40").with_friction(name, coefficients={}, **shape_of(model))
    speeds = np.concatenate([SPEEDS, [0.0, -0.0, 1e-300, 100.0]])
    v = np.tile(speeds[:, None], (1, 6))
    Y = torque_regressor(robot, v, v, v)
    load = np.abs(drive_loads(robot, v, v, v)) if model.depends_on_load else None
    n_terms = len(model.terms)
    for j in range(6):
        phi, dphi = model.basis(speeds, robot.friction.shape[j])
        assert phi.shape == dphi.shape == (speeds.size, n_terms)
        for k, term in enumerate(model.terms):
            place = robot.layout.friction(term).start + j
            per_load = load[:, j] if term == "Fl" else 1.0
            expected = phi[:, k] * per_load
            np.testing.assert_allclose(Y[:, j, place], expected, rtol=1e-14, atol=1e-300)
        for i, speed in enumerate(speeds):
            one, slope = np.full((2, max(1, n_terms)), np.nan)
            kernel_basis(robot.tree, j, speed, one, slope)
            np.testing.assert_allclose(one[:n_terms], phi[i], rtol=1e-14, atol=1e-300)
            np.testing.assert_allclose(slope[:n_terms], dphi[i], rtol=1e-12, atol=1e-12)


@every_law
def test_adds_to_the_inverse_dynamics(name, rng):
    model = friction_model(name)
    frictionless = load_robot("rv2sq").with_friction("none", coefficients={})
    F = {term: rng.uniform(0.5, 2.0, 6) for term in model.terms}
    robot = frictionless.with_friction(name, coefficients=F, **shape_of(model))
    q, v, a = rng.normal(size=(3, 5, 6))
    load = inverse_dynamics(frictionless, q, v, a)
    difference = inverse_dynamics(robot, q, v, a) - load
    for j in range(6):
        phi, _ = model.basis(v[:, j], robot.friction.shape[j])
        if model.depends_on_load:
            phi[:, -1] *= np.abs(load[:, j])
        expected = phi @ np.array([F[term][j] for term in model.terms])
        np.testing.assert_allclose(difference[:, j], expected, rtol=0, atol=1e-12)


@every_law
def test_takes_no_load_or_one_as_its_last_term(name):
    model = friction_model(name)
    assert model.depends_on_load == name.endswith("-load") == (model.terms[-1:] == ("Fl",))
    plain = model.without_load
    assert not plain.depends_on_load
    assert plain.terms == model.terms[: len(model.terms) - model.depends_on_load]
    assert plain.shape == model.shape


@every_law
@given(v=st.floats(-100.0, 100.0), joint=st.integers(0, 5), data=st.data())
def test_takes_energy_and_is_odd(name, v, joint, data):
    model = friction_model(name)
    row = Friction.from_model(name, 6, **shape_of(model)).shape[joint]
    phi, dphi = model.basis([v, -v], row)
    assert np.isfinite(phi).all()
    assert np.isfinite(dphi).all()
    odd = [k for k, term in enumerate(model.terms) if term != "Fo"]
    F = np.array([data.draw(st.floats(0.0, 10.0)) for _ in odd])
    assert v * (phi[0, odd] @ F) >= 0.0
    np.testing.assert_array_equal(phi[1, odd], -phi[0, odd])
    np.testing.assert_array_equal(dphi[1, odd], dphi[0, odd])


@every_law
def test_nothing_but_an_offset_acts_at_rest(name):
    model = friction_model(name)
    phi, _ = model.basis([0.0], Friction.from_model(name, 1).shape[0])
    np.testing.assert_array_equal(phi[0], [1.0 if term == "Fo" else 0.0 for term in model.terms])


@pytest.mark.parametrize("name", [n for n, m in friction_models().items() if "width" in m.shape])
def test_smoothing_vanishes_with_its_width(name):
    model = friction_model(name)
    place = model.shape.index("width")
    row = np.array(model.defaults)
    assert row[place] == 0.0
    sharp, _ = model.basis(SPEEDS, row)
    last = np.inf
    for width in (0.1, 0.01, 0.001):
        row[place] = width
        smooth, _ = model.basis(SPEEDS, row)
        # 1 - tanh(x) < 2 exp(-2x), on every factor s(v)
        bound = 2.0 * np.exp(-2.0 * np.abs(SPEEDS) / width)[:, None] + 1e-15
        assert (np.abs(smooth - sharp) <= bound).all()
        error = np.abs(smooth - sharp).max()
        assert error < last
        last = error
    assert last < 1e-9


@every_law
def test_the_tree_holds_one_row_of_shape_a_joint(name):
    model = friction_model(name)
    robot = load_robot("tx40")
    friction = Friction.from_model(name, 6, **shape_of(model))
    tree = kernel_tree(robot.model, friction, robot.actuators)
    assert tree.shape.shape[0] == 6
    assert tree.shape.dtype == np.float64
    assert (tree.custom != 0) == (name == CUSTOM)
    assert tree.bristles == (name == "lugre")
