from __future__ import annotations

import math

import numpy as np
import pytest

from bodysense.errors import BodysenseError, ShapeError, UnknownNameError
from bodysense.robot import (
    Actuators,
    Friction,
    friction_model,
    friction_models,
    inverse_dynamics,
    register_friction_model,
    torque_regressor,
)
from bodysense.robot import friction as registry


@pytest.fixture
def own_registry(monkeypatch):
    """Whatever a test registers is forgotten after it."""
    monkeypatch.setattr(registry, "_REGISTRY", dict(registry._REGISTRY))


def test_stribeck_curve_by_hand():
    model = friction_model("stribeck-offset")
    phi, dphi = model.basis([0.2, -0.2], np.array([0.0, 0.1, 2.0]))
    e = math.exp(-4.0)
    np.testing.assert_allclose(phi[0], [0.2, 1.0 - e, e, 1.0], rtol=1e-15)
    np.testing.assert_allclose(phi[1], [-0.2, e - 1.0, -e, 1.0], rtol=1e-15)
    np.testing.assert_allclose(dphi[0], [1.0, 40.0 * e, -40.0 * e, 0.0], rtol=1e-14)
    # From Fs near standstill to Fc far away, both with their signs.
    phi, _ = model.basis([1e-9, 10.0], np.array([0.0, 0.1, 2.0]))
    np.testing.assert_allclose(phi[:, 1:3], [[0.0, 1.0], [1.0, 0.0]], atol=1e-15)


def test_coulomb_by_hand():
    model = friction_model("coulomb")
    phi, dphi = model.basis([-2.0, 0.0, 3.0], np.array([0.0]))
    np.testing.assert_array_equal(phi, [[-2, -1], [0, 0], [3, 1]])
    np.testing.assert_array_equal(dphi, [[1, 0], [1, 0], [1, 0]])
    phi, dphi = model.basis([0.02], np.array([0.04]))
    np.testing.assert_allclose(phi, [[0.02, math.tanh(0.5)]], rtol=1e-15)
    np.testing.assert_allclose(dphi, [[1.0, 25.0 / math.cosh(0.5) ** 2]], rtol=1e-14)


def test_lugre_stands_for_stribeck_at_steady_state(rng):
    v = rng.normal(size=20)
    row = np.array([0.0, 0.1, 1.7])
    stribeck, _ = friction_model("stribeck").basis(v, row)
    lugre, _ = friction_model("lugre").basis(v, np.array([*row, 1e4, 1e2]))
    np.testing.assert_array_equal(stribeck, lugre)
    assert friction_model("lugre").has_state
    assert not friction_model("stribeck").has_state


def test_shape_of_each_joint():
    friction = Friction.from_model("stribeck", 3, vs=[0.1, 0.2, 0.3], width=0.01)
    assert friction.model is friction_model("stribeck")
    np.testing.assert_array_equal(friction.shape, [[0.01, vs, 2.0] for vs in (0.1, 0.2, 0.3)])
    with pytest.raises(ValueError, match="read-only"):
        friction.shape[0, 0] = 1.0
    assert Friction.from_model(friction_model("viscous"), 4).shape.shape == (4, 0)
    assert Friction.from_model("coulomb", 0).shape.shape == (0, 1)


def test_shape_is_copied():
    widths = np.array([0.1, 0.2])
    friction = Friction.from_model("coulomb", 2, width=widths)
    widths[0] = 5.0
    assert friction.shape[0, 0] == 0.1


@pytest.mark.parametrize(
    ("name", "shape", "message"),
    [
        (
            "coulomb",
            {"width": [0.1, 0.2]},
            r"width has shape \(2,\): give one number, or 3",
        ),
        ("coulomb", {"width": -0.1}, "width of joint 1 is -0.1: it must be zero or positive"),
        ("coulomb", {"width": [0.1, 0.1, -0.2]}, "width of joint 3 is -0.2"),
        ("coulomb", {"width": np.nan}, r"width holds nan"),
        ("stribeck", {"vs": [0.1, 0.0, 0.1]}, "vs of joint 2 is 0: it must be positive"),
        ("stribeck", {"delta": -1.0}, "delta of joint 1 is -1: it must be positive"),
        ("lugre", {"sigma0": 0.0}, "sigma0 of joint 1 is 0: it must be positive"),
        ("lugre", {"sigma1": -1.0}, "sigma1 of joint 1 is -1: it must be zero or positive"),
        ("lugre", {"sigma0": np.inf}, "holds inf"),
    ],
)
def test_bad_shape_values(name, shape, message):
    with pytest.raises(ShapeError, match=message):
        Friction.from_model(name, 3, **shape)


def test_lugre_without_bristle_damping():
    assert Friction.from_model("lugre", 1, sigma1=0.0).shape[0, 4] == 0.0


def test_unknown_names():
    with pytest.raises(UnknownNameError, match=r"did you mean 'stribeck'.*register_friction_model"):
        friction_model("stribek")
    with pytest.raises(
        UnknownNameError, match=r"shape parameter of friction 'coulomb' 'vs'.*width"
    ):
        Friction.from_model("coulomb", 2, vs=0.1)
    with pytest.raises(UnknownNameError, match="'viscous' 'width': there are none"):
        Friction.from_model("viscous", 2, width=0.1)


def test_bad_velocities():
    with pytest.raises(ShapeError, match="v has shape"):
        friction_model("coulomb").basis([[1.0]], np.array([0.0]))
    with pytest.raises(ShapeError, match="v holds nan"):
        friction_model("coulomb").basis([np.nan], np.array([0.0]))


def test_the_registry_cannot_be_changed_from_outside():
    friction_models().clear()  # type: ignore[attr-defined]
    assert "coulomb" in friction_models()


def cubic(v, shape, phi, dphi):
    phi[0] = shape[0] * v**3
    dphi[0] = 3.0 * shape[0] * v**2


def without_shape(v, shape, phi, dphi):
    phi[0] = v
    dphi[0] = 1.0


def test_a_custom_law_in_a_robot(own_registry, robot_of, states_of, rng):
    model = register_friction_model("cubic", cubic, terms=("Fq",), shape={"scale": 2})
    assert friction_model("cubic") is model
    assert model.shape == ("scale",)
    assert not model.has_state
    scale = rng.uniform(1.0, 2.0, 12)
    robot = robot_of("floating").with_friction("cubic", coefficients={"Fq": 0.3}, scale=scale)
    assert "Fq12" in robot.layout.names
    q, v, a = states_of(robot, rng, 5)
    plain = robot.with_parameter_values({f"Fq{j}": 0.0 for j in range(1, 13)})
    difference = inverse_dynamics(robot, q, v, a) - inverse_dynamics(plain, q, v, a)
    expected = 0.3 * scale * v[:, 6:] ** 3
    np.testing.assert_allclose(difference[:, 6:], expected, rtol=0, atol=1e-10)
    np.testing.assert_array_equal(difference[:, :6], 0.0)


@pytest.mark.parametrize("basis", [cubic, without_shape], ids=["shape", "no-shape"])
def test_a_custom_law_beside_coupled_motors(basis, own_registry, robot_of, states_of, rng):
    """The Coulomb friction of a coupled motor is sharp where the law has no width of its own."""
    shape = {"scale": 3.0} if basis is cubic else {}
    register_friction_model("own", basis, terms=("Fq",), shape=shape)
    robot = robot_of("tx40-coupled").with_friction("own", coefficients={})
    q, v, a = states_of(robot, rng, 5)
    Y = torque_regressor(robot, q, v, a)
    sign = np.sign(v[:, 4] + v[:, 5])
    np.testing.assert_array_equal(Y[:, 4:, robot.layout.index("Fcm6")], np.stack([sign, sign], 1))


def test_a_custom_law_with_a_width_beside_coupled_motors(own_registry, robot_of, states_of, rng):
    register_friction_model("own", cubic, terms=("Fq",), shape={"scale": 3.0, "width": 0.1})
    robot = robot_of("tx40").with_friction("own", coefficients={}, width=0.5)
    coupling = np.eye(6)
    coupling[5, 4] = 1.0
    robot = robot.with_actuators(Actuators.from_values(6, coupling=coupling))
    q, v, a = states_of(robot, rng, 5)
    column = torque_regressor(robot, q, v, a)[:, 4, robot.layout.index("Fcm6")]
    np.testing.assert_allclose(column, np.tanh((v[:, 4] + v[:, 5]) / 0.5), rtol=1e-14)


def uncompilable(v, shape, phi, dphi):
    phi[0] = {"a": v}["b"] + open("x").read()  # noqa: SIM115


def raising(v, shape, phi, dphi):
    raise ValueError("not today")


def unset_slope(v, shape, phi, dphi):
    phi[0] = v


def unset_at_rest(v, shape, phi, dphi):
    if v != 0.0:
        phi[0] = v
        dphi[0] = 1.0


def infinite(v, shape, phi, dphi):
    phi[0] = math.inf
    dphi[0] = 0.0


def one_term_too_many(v, shape, phi, dphi):
    for k in range(2):
        phi[k] = v
        dphi[k] = 1.0


def one_shape_too_many(v, shape, phi, dphi):
    phi[0] = v * shape[1]
    dphi[0] = shape[1]


@pytest.mark.parametrize(
    ("basis", "message"),
    [
        (uncompilable, "numba cannot compile or run .* Use arithmetic and math functions only"),
        (raising, "not today"),
        (lambda v: v, "numba cannot compile or run"),
        (unset_slope, r"left terms unset .* write phi\[k\] and dphi\[k\] for all 1 terms"),
        (unset_at_rest, "at v = 0 basis left terms unset"),
        (infinite, "not finite"),
        (one_term_too_many, "out of bounds"),
        (one_shape_too_many, "out of bounds"),
    ],
)
def test_bad_custom_laws(basis, message, own_registry):
    with pytest.raises(BodysenseError, match=f"friction model 'bad': .*{message}"):
        register_friction_model("bad", basis, terms=("Fq",), shape={"scale": 1.0})
    assert "bad" not in friction_models()


@pytest.mark.parametrize(
    "terms", [(), ("MX",), ("Fq", "Ia"), ("Fq", "Fq"), ("Iam",), ("Fvm",), ("Fcm",), ("F1",), ("",)]
)
def test_bad_terms(terms, own_registry):
    with pytest.raises(BodysenseError, match=r"distinct prefixes .* other than .*Fvm, Ia, "):
        register_friction_model("bad", cubic, terms=terms, shape={"scale": 1.0})


def test_names_are_taken_once(own_registry):
    with pytest.raises(BodysenseError, match="'coulomb' exists already: choose another name"):
        register_friction_model("coulomb", cubic, terms=("Fq",), shape={"scale": 1.0})
