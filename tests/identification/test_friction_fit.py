"""Shapes of Stribeck curves: those of a simulation are found, and derivatives are right."""

from __future__ import annotations

import numpy as np
import pytest

from bodysense.errors import MismatchError, UnknownNameError
from bodysense.identification import Preprocessing, Regression, identifier
from bodysense.identification import friction_fit as module
from bodysense.identification.friction_fit import SHAPES, fit_stribeck
from bodysense.identification.preprocessing import Plan
from bodysense.identification.prior import Prior
from bodysense.robot import inverse_dynamics, load_robot

VS = np.array([0.15, 0.2, 0.12, 0.25, 0.18, 0.3])


def curved(tx40, **shape):
    Fc = tx40.theta[tx40.layout.friction("Fc")]
    return tx40.with_friction("stribeck", coefficients={"Fs": 1.5 * Fc}, **shape)


def problem_of(truth, base_of, sines, *, noise=0.0, n_t=4000, start=None) -> Regression:
    """Samples of the truth for a prior with other shapes."""
    _, q, v, a = sines(6, 0, n_t, 300.0, slowest=0.1)
    tau = inverse_dynamics(truth, q, v, a)
    tau += noise * np.random.default_rng(0).normal(size=tau.shape)
    prior = truth.with_friction("stribeck", **(start or {"vs": 0.1}))
    return Regression.from_samples(prior, q, v, a, tau, rate=300.0, base=base_of(prior))


def test_stribeck_speeds_come_back_from_data_without_noise(tx40, base_of, sines):
    truth = curved(tx40, width=0.02, vs=VS)
    found = fit_stribeck(problem_of(truth, base_of, sines))
    np.testing.assert_allclose(found.shape[:, 1], VS, rtol=1e-4)
    assert found.fitted == ("vs",)
    np.testing.assert_array_equal(found.shape[:, [0, 2]], truth.friction.shape[:, [0, 2]])
    assert found.evaluations < 60
    assert found.error[1] < 1e-3 * found.error[0]
    np.testing.assert_array_equal(found.robot.friction.shape, found.shape)
    assert found.shapes["vs"] == tuple(found.shape[:, 1])


def test_all_shapes_come_back_from_data_without_noise(tx40, base_of, sines):
    shape = {
        "width": np.array([0.03, 0.015, 0.025, 0.02, 0.03, 0.015]),
        "vs": VS,
        "delta": np.array([1.5, 2.5, 1.8, 2.2, 1.6, 2.0]),
    }
    truth = curved(tx40, **shape)
    start = {"width": 0.02, "vs": 0.1, "delta": 2.0}
    found = fit_stribeck(problem_of(truth, base_of, sines, start=start), SHAPES)
    np.testing.assert_allclose(found.shape, truth.friction.shape, rtol=1e-4)


def test_shapes_are_found_through_the_filter_of_the_rows(tx40, base_of, sines):
    """Decimated rows of a motion with the parallel filter, as in a real run."""
    truth = curved(tx40, width=0.02, vs=VS)
    whole = problem_of(truth, base_of, sines, n_t=9000)
    settings = Preprocessing(cutoff=12.0).settled(whole.robot, 12.0)
    problem = Regression.of(whole.robot, whole.motions, settings, whole.base)
    assert Plan.of(problem.motions[0], settings).step > 1
    np.testing.assert_allclose(fit_stribeck(problem).shape[:, 1], VS, rtol=1e-4)


def test_noise_leaves_shapes_where_they_are(tx40, base_of, sines):
    truth = curved(tx40, width=0.02, vs=VS)
    found = fit_stribeck(problem_of(truth, base_of, sines, noise=0.1))
    np.testing.assert_allclose(found.shape[:, 1], VS, rtol=0.1)


def test_rows_may_be_thinned_out(tx40, base_of, sines, monkeypatch):
    truth = curved(tx40, width=0.02, vs=VS)
    monkeypatch.setattr(module, "_MOST_ROWS", 1500)
    found = fit_stribeck(problem_of(truth, base_of, sines))
    np.testing.assert_allclose(found.shape[:, 1], VS, rtol=1e-4)


def test_the_derivative_is_that_of_the_cost(tx40, base_of, sines):
    """Where the linear part has settled, Jᵀ r is the gradient of ‖r‖² / 2 exactly."""
    problem = problem_of(curved(tx40, width=0.02, vs=VS), base_of, sines, noise=0.1, n_t=1500)
    prior = Prior.of(problem)
    sigma = identifier("wls").estimate(problem, prior).sigma
    search = module._Search(problem, prior, sigma, problem.robot.friction.shape, SHAPES)
    x = search.start + 0.2 * np.random.default_rng(0).normal(size=search.start.size)
    gradient = search.jacobian(x).T @ search.residual(x)
    expected = []
    for h in 1e-5 * np.eye(x.size):
        ahead, behind = search.residual(x + h), search.residual(x - h)
        expected.append((ahead @ ahead - behind @ behind) / 4e-5)
    np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())


def test_the_cost_is_that_of_the_whole_regression(tx40, base_of, sines):
    """Against the weighted least squares of a robot that has these shapes."""
    problem = problem_of(curved(tx40, width=0.02, vs=VS), base_of, sines, noise=0.1, n_t=1500)
    prior = Prior.of(problem)
    sigma = (
        1e-3 * identifier("wls").estimate(problem, prior).sigma
    )  # so that the prior does not count
    search = module._Search(problem, prior, sigma, problem.robot.friction.shape, ("vs",))
    x = np.log(VS)
    other = problem.robot.with_friction("stribeck", vs=VS)
    own = Regression.of(other, problem.motions, problem.settings, problem.base)
    assert search.error(x) == pytest.approx(own.stack(sigma).rest / (6 * 1500), rel=1e-5)


def test_a_joint_that_stands_keeps_its_shape(tx40, base_of, sines):
    truth = curved(tx40, width=0.02, vs=VS)
    _, q, v, a = sines(6, 0, 3000, 300.0, slowest=0.1)
    q[:, 2], v[:, 2], a[:, 2] = 0.3, 0.0, 0.0
    prior = truth.with_friction("stribeck", vs=0.1)
    tau = inverse_dynamics(truth, q, v, a)
    problem = Regression.from_samples(prior, q, v, a, tau, rate=300.0, base=base_of(prior))
    vs = fit_stribeck(problem).shape[:, 1]
    assert vs[2] == 0.1
    np.testing.assert_allclose(np.delete(vs, 2), np.delete(VS, 2), rtol=1e-4)


def test_a_held_out_fold_is_not_looked_at(tx40, base_of, sines):
    truth = curved(tx40, width=0.02, vs=VS)
    problem = problem_of(truth, base_of, sines)
    motion = problem.motions[0]
    motion.tau[problem.folds(motion) == 0] = 1e3
    np.testing.assert_allclose(fit_stribeck(problem.without(0)).shape[:, 1], VS, rtol=1e-4)


def test_widths_of_coupled_motors_are_kept(sines, base_of):
    robot = load_robot("tx40-coupled").with_friction("stribeck", width=0.02, vs=0.2)
    _, q, v, a = sines(6, 0, 800, 100.0, slowest=0.2)
    tau = inverse_dynamics(robot, q, v, a)
    problem = Regression.from_samples(robot, q, v, a, tau, rate=100.0, base=base_of(robot))
    has_coulomb = any(prefix == "Fcm" for prefix, _ in robot.layout.coupled)
    assert ("width" in fit_stribeck(problem, ("width", "vs")).fitted) == (not has_coulomb)
    assert has_coulomb


def test_a_law_without_a_curve(tx40, base_of, sines):
    _, q, v, a = sines(6, 0, 100, 100.0)
    tau = inverse_dynamics(tx40, q, v, a)
    problem = Regression.from_samples(tx40, q, v, a, tau, rate=100.0, base=base_of(tx40))
    with pytest.raises(MismatchError, match="'coulomb' has no Stribeck curve to fit: take"):
        fit_stribeck(problem)


def test_a_shape_that_does_not_exist(tx40, base_of, sines):
    problem = problem_of(curved(tx40, width=0.02, vs=VS), base_of, sines, n_t=100)
    with pytest.raises(UnknownNameError, match=r"'sigma0'.*width, vs, delta"):
        fit_stribeck(problem, ("sigma0",))
