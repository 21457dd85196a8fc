"""Friction at uncertain velocities, against Monte Carlo of laws that are written here."""

from __future__ import annotations

import numpy as np
import pytest

from bodysense.estimation.friction_spread import coulomb_friction, friction_spread
from bodysense.robot import Robot, load_robot
from bodysense.robot.friction import friction_models

Fv, Fc, Fs, Fo, Fl, VS, DELTA = 3.0, 5.0, 8.0, 1.5, 0.08, 0.05, 2.0
LAWS = [name for name in friction_models() if name != "none"]
LOAD = 20.0  # N·m
DRAWS = 200_000


def law_of(name: str, width: float = 0.0):
    """Friction at velocities, from its formula."""

    def friction(v: np.ndarray, load: float) -> np.ndarray:
        s = np.tanh(v / width) if width else np.sign(v)
        e = np.exp(-((np.abs(v) / VS) ** DELTA))
        F = Fv * v
        if "stribeck" in name or name == "lugre":
            F = F + s * (Fc * (1.0 - e) + Fs * e)
        elif name != "viscous":
            F = F + s * Fc
        F = F + (Fo if "offset" in name else 0.0)
        return F + (Fl * load * s if name.endswith("-load") else 0.0)

    return friction


def robot_with(name: str, width: float = 0.0) -> Robot:
    values = {"Fv": Fv, "Fc": Fc, "Fs": Fs, "Fo": Fo, "Fl": Fl}
    model = friction_models()[name]
    shape = {"width": width, "vs": VS, "delta": DELTA}
    some = {key: value for key, value in shape.items() if key in model.shape}
    return load_robot("tx40").with_friction(
        name, coefficients={term: values[term] for term in model.terms}, **some
    )


def spread_at(robot: Robot, v: np.ndarray, sigma: float, **options):
    """Mean and standard deviation of the first joint's friction at velocities (T,)."""
    T, n = v.size, robot.n_joints
    full = np.tile(v[:, None], (1, n))
    load = np.full((T, n), LOAD)
    result = friction_spread(robot, full, np.full((T, n), sigma), load, **options)
    return result.mean[:, 0], result.std[:, 0]


@pytest.mark.parametrize("width", [0.0, 0.02])
@pytest.mark.parametrize("name", LAWS)
def test_mean_and_spread_are_those_of_many_draws(rng, name, width):
    sigma = 0.02
    v = np.array([0.0, 0.005, -0.02, 0.04, -0.3, 1.0])
    mean, std = spread_at(robot_with(name, width), v, sigma)
    for k, at in enumerate(v):
        F = law_of(name, width)(at + sigma * rng.standard_normal(DRAWS), LOAD)
        size = F.std() + 0.01
        assert mean[k] == pytest.approx(F.mean(), abs=0.08 * size)
        assert std[k] == pytest.approx(F.std(), rel=0.08, abs=0.02)


@pytest.mark.parametrize("name", ["viscous", "coulomb", "offset-load", "stribeck"])
def test_fast_shaking_is_averaged(rng, name):
    """Halfway between friction with and without it, of which the halves are a doubt."""
    sigma, shaken = 0.005, 0.03
    v = np.array([0.0, 0.02, 0.05, -0.4])
    robot, law = robot_with(name), law_of(name)
    mean, std = spread_at(robot, v, sigma, shaking=np.full(robot.n_joints, shaken))
    fine = np.linspace(-4.0, 4.0, 81)
    weights = np.exp(-0.5 * fine**2)
    weights /= weights.sum()
    draws = shaken * rng.standard_normal(DRAWS // 10)
    for k, at in enumerate(v):
        around = at + sigma * fine
        soft = np.array([law(x + draws, LOAD).mean() for x in around])
        both = 0.5 * (law(around, LOAD) + soft)
        doubt = 0.5 * (law(around, LOAD) - soft) @ weights
        centre = both @ weights
        expected = np.sqrt(((both - centre) ** 2) @ weights + doubt**2)
        assert mean[k] == pytest.approx(centre, abs=0.15)
        assert std[k] == pytest.approx(expected, rel=0.1, abs=0.1)


def test_shaking_does_not_change_a_linear_law():
    robot = robot_with("viscous")
    v = np.linspace(-1.0, 1.0, 21)
    shaken = spread_at(robot, v, 0.01, shaking=np.full(robot.n_joints, 0.2))
    np.testing.assert_allclose(shaken, spread_at(robot, v, 0.01), atol=1e-9)


@pytest.mark.parametrize("name", ["coulomb", "stribeck", "coulomb-load"])
def test_a_joint_that_stands_holds_with_any_friction(name):
    robot = robot_with(name)
    v = np.zeros(4)
    standing = np.zeros((4, robot.n_joints), dtype=bool)
    standing[2:] = True
    _, std = spread_at(robot, v + 1.0, 1e-6, standing=standing)
    static = {"coulomb": Fc, "stribeck": Fs, "coulomb-load": Fc + Fl * LOAD}[name]
    assert std[3] == pytest.approx(static / np.sqrt(3.0), rel=0.01)
    assert std[0] < 1e-3


def test_coulomb_friction_is_half_the_jump():
    assert coulomb_friction(robot_with("coulomb"))[0] == pytest.approx(Fc, rel=0.01)
    assert coulomb_friction(robot_with("stribeck-offset"))[0] == pytest.approx(Fs, rel=0.01)
    assert coulomb_friction(robot_with("viscous"))[0] == pytest.approx(0.0, abs=0.01)
    assert coulomb_friction(robot_with("coulomb", 0.03))[0] == pytest.approx(Fc, rel=0.1)


def test_joints_without_friction_have_no_spread():
    robot = load_robot("tx40").with_friction("none")
    mean, std = spread_at(robot, np.linspace(-1.0, 1.0, 5), 0.1)
    assert not mean.any()
    assert not std.any()


def test_fast_loads_are_averaged(rng):
    """Halfway between friction with and without them, of which the halves are a doubt."""
    robot, sigma = robot_with("coulomb-load"), 30.0
    v = np.array([0.5, -0.5])
    plain, none = spread_at(robot, v, 1e-9)
    mean, std = spread_at(robot, v, 1e-9, load_std=np.full(robot.n_joints, sigma))
    more = np.abs(LOAD + sigma * rng.standard_normal(DRAWS)).mean() - LOAD
    np.testing.assert_allclose(mean - plain, 0.5 * Fl * more * np.sign(v), rtol=0.02)
    np.testing.assert_allclose(std, 0.5 * Fl * more, rtol=0.02)
    assert none.max() < 1e-6


def test_bristles_that_bend_after_a_reversal_are_within_the_spread():
    """The law's state, integrated from one that is bent any way, sigma_1 aside."""
    robot = load_robot("tx40").with_friction(
        "lugre", coefficients={"Fv": 0.0, "Fc": Fc, "Fs": Fc}, sigma0=2000.0, sigma1=1e-3
    )
    distance = np.linspace(0.0, 0.02, 2001)
    T, n = distance.size, robot.n_joints
    travelled = np.tile(distance[:, None], (1, n))
    v = np.full(T, 0.2)
    mean, std = spread_at(robot, v, 1e-9, travelled=travelled)
    for start in (-1.0, -0.3, 0.5, 1.0):
        F, z = np.empty(T), start * Fc / 2000.0
        for k in range(T):
            F[k] = 2000.0 * z
            z += (distance[1] - distance[0]) * (1.0 - 2000.0 * z / Fc)
        assert (np.abs(F - mean) < 1.8 * std + 0.02 * Fc).all()
    assert std[0] == pytest.approx(Fc / np.sqrt(3.0), rel=0.01)
    assert std[-1] < 0.01 * Fc
