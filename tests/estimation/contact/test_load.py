"""A load or a push that lasts: the regressor of Pinocchio, loads and pushes in several postures."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest

from bodysense.estimation.contact.evidence import Evidence, prior_root
from bodysense.estimation.contact.load import CarriedLoad, fit_load, is_load, load_regressor
from bodysense.spatial import exp_so3, random_pi
from bodysense.spatial.arrays import Array
from bodysense.spatial.pseudo_inertia import pi_from_mass_com_inertia

ROOT = prior_root(np.diag([50.0] * 3 + [5.0] * 3) ** 2)
NOISE = np.array([0.5] * 3 + [0.05] * 3)  # N, N·m: of a wrench at a sample
LOAD = pi_from_mass_com_inertia(2.0, np.array([0.02, -0.03, 0.1]), 0.004 * np.eye(3))


def evidence_of(wrench: Array, rng: np.random.Generator) -> Evidence:
    """Of wrenches (T, 6) that are measured with noise."""
    T = len(wrench)
    y = wrench + NOISE * rng.standard_normal((T, 6))
    J = np.diag(NOISE**-2.0)
    A = np.broadcast_to(ROOT.T @ J @ ROOT, (T, 6, 6))
    return Evidence(np.arange(T), {"tool": ROOT}, {"tool": y @ J @ ROOT}, {"tool": A})


def at_rest(T: int, turn: float, rng: np.random.Generator) -> tuple[Array, Array]:
    """(T, 6) proper accelerations and twists of a link that stands in postures `turn` apart."""
    a = np.zeros((T, 6))
    for k in range(T):
        a[k, :3] = exp_so3(turn * rng.normal(size=3)).T @ np.array([0.0, 0.0, 9.81])
    return a, np.zeros((T, 6))


def weight(pi: Array, a: Array, v: Array) -> Array:
    """(T, 6) wrenches of a body on the link that carries it, by Pinocchio."""
    body = pin.Inertia.FromDynamicParameters(pi)
    forces = [
        body * pin.Motion(x) + pin.Motion(w).cross(body * pin.Motion(w))
        for x, w in zip(a, v, strict=True)
    ]
    return -np.array([f.vector for f in forces])


def test_regressor_is_that_of_pinocchio(rng):
    a, v = rng.normal(size=(2, 20, 6))
    Y = load_regressor(a, v)
    for k in range(20):
        expected = pin.bodyRegressor(pin.Motion(v[k]), pin.Motion(a[k]))
        np.testing.assert_allclose(Y[k], expected, atol=1e-12)
    pi = random_pi(rng, 1)[0]
    np.testing.assert_allclose(Y @ pi, -weight(pi, a, v), atol=1e-10)


def test_a_load_in_several_postures_is_weighed_and_told(rng):
    a, v = at_rest(300, 1.0, rng)
    load = fit_load(evidence_of(weight(LOAD, a, v), rng), "tool", a, v)
    assert is_load(load)
    assert load.told
    assert load.explained > 0.95
    assert load.mass == pytest.approx(2.0, abs=4.0 * load.mass_std)
    assert load.mass_std < 0.02
    assert (np.abs(load.com - [0.02, -0.03, 0.1]) < 4.0 * load.com_std).all()
    assert "2 ± 0.0" in load.summary()
    assert "steady push" not in load.summary()


def test_standard_deviations_of_a_load_are_those_of_its_errors(rng):
    a, v = at_rest(60, 1.0, rng)
    wrench = weight(LOAD, a, v)
    fits = [fit_load(evidence_of(wrench, rng), "tool", a, v) for _ in range(200)]
    mass = np.array([(fit.mass - 2.0) / fit.mass_std for fit in fits])
    com = np.array([(fit.com - [0.02, -0.03, 0.1]) / fit.com_std for fit in fits])
    assert mass.std() == pytest.approx(1.0, abs=0.2)
    assert com.std() == pytest.approx(1.0, abs=0.15)


def test_a_motion_tells_inertia_too(rng):
    a, v = at_rest(400, 1.0, rng)
    a[:, 3:], v[:, 3:] = rng.normal(scale=5.0, size=(400, 3)), rng.normal(scale=2.0, size=(400, 3))
    load = fit_load(evidence_of(weight(LOAD, a, v), rng), "tool", a, v)
    np.testing.assert_allclose(load.pi, LOAD, atol=0.02)


def test_one_posture_cannot_tell_a_load_from_a_push(rng):
    a, v = at_rest(300, 0.0, rng)
    load = fit_load(evidence_of(weight(LOAD, a, v), rng), "tool", a, v)
    assert is_load(load)
    assert not load.told
    assert "one posture cannot tell" in load.summary()


def test_a_push_in_several_postures_is_no_load(rng):
    a, v = at_rest(300, 1.0, rng)
    push = np.tile([12.0, -8.0, 5.0, 0.3, 0.2, -0.1], (300, 1))
    load = fit_load(evidence_of(push, rng), "tool", a, v)
    assert not (is_load(load) and load.told)
    assert load.explained < 0.5


def test_noise_is_no_load(rng):
    a, v = at_rest(300, 1.0, rng)
    assert not is_load(fit_load(evidence_of(np.zeros((300, 6)), rng), "tool", a, v))


def test_a_load_goes_into_a_file(rng):
    a, v = at_rest(100, 1.0, rng)
    load: CarriedLoad = fit_load(evidence_of(weight(LOAD, a, v), rng), "tool", a, v)
    told = load.to_dict()
    assert told["mass"] == load.mass
    assert told["com"] == load.com.tolist()
    assert told["summary"] == load.summary()
