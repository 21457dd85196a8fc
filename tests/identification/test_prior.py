"""What is known before: sizes in their units, and the completion of base parameters."""

from __future__ import annotations

import numpy as np
import pytest

from bodysense.identification import Motion, Regression
from bodysense.identification.prior import Prior
from bodysense.robot import load_robot


@pytest.fixture(scope="module")
def problem(simulate) -> Regression:
    return simulate(0.1, logs=2).problem


@pytest.fixture(scope="module")
def prior(problem) -> Prior:
    return Prior.of(problem)


def test_sizes_of_a_link_are_its_mass_and_radius_of_gyration(problem, prior):
    robot = problem.robot
    total = sum(robot.pi(k)[0] for k in range(3))
    radius = [
        np.sqrt((robot.pi(k)[4] + robot.pi(k)[6] + robot.pi(k)[9]) / 2.0 / robot.pi(k)[0])
        for k in range(3)
    ]
    for k in range(3):
        pi = robot.pi(k)
        assert pi[0] > 0.01 * total  # no link of this arm is next to nothing
        mass, length = pi[0], max(radius[k], 0.1 * max(radius))
        size = prior.size[robot.layout.link(k)]
        np.testing.assert_allclose(size[0], mass)
        np.testing.assert_allclose(size[1:4], mass * length)
        np.testing.assert_allclose(size[4:], mass * length**2)
        assert prior.link_mass[k] == pytest.approx(mass)
        assert prior.link_length[k] == pytest.approx(length)


def test_sizes_of_drives_would_explain_all_of_the_torque(problem, prior):
    layout = problem.robot.layout
    for j in range(3):
        tau, v, a = (
            np.sqrt(np.mean(np.concatenate([getattr(m, x)[:, j] for m in problem.motions]) ** 2))
            for x in ("tau", "v", "a")
        )
        assert prior.size[layout.rotor][j] == pytest.approx(tau / a)
        assert prior.size[layout.friction("Fv")][j] == pytest.approx(tau / v)
        assert prior.size[layout.friction("Fc")][j] == pytest.approx(tau)


def test_coupled_drives_have_the_size_of_their_motor(sines):
    robot = load_robot("tx40-coupled")
    _, q, v, a = sines(6, 0, 100, 100.0)
    prior = Prior.of(Regression.from_samples(robot, q, v, a, 10.0 + v))
    layout = robot.layout
    for k, (prefix, motor) in zip(
        range(layout.coupling.start, layout.coupling.stop), layout.coupled, strict=True
    ):
        assert prior.size[k] == prior.size[layout.places(prefix[:-1])[motor]]


def test_a_joint_that_never_moves_and_links_without_mass_still_have_sizes(small_arm, base_of):
    theta = small_arm.theta.copy()
    theta[small_arm.layout.inertial] = 0.0
    empty = small_arm.with_parameters(theta)
    still = np.zeros((50, 3))
    motion = Motion(np.arange(50.0), still, still, still, still, still, 1.0)
    problem = Regression.from_samples(
        empty, motion.q, motion.v, motion.a, motion.tau, base=base_of(small_arm)
    )
    size = Prior.of(problem).size
    assert np.isfinite(size).all()
    assert (size > 0.0).all()


def test_completion_has_the_base_parameters_and_is_nearest_to_the_prior(prior, rng):
    theta_base = prior.theta_base + prior.size_base * rng.normal(size=prior.size_base.size)
    theta = prior.complete(theta_base)
    np.testing.assert_allclose(prior.mapping @ theta, theta_base, atol=1e-9)
    # The shortest solution of B (theta - theta_0) = difference, measured in sizes.
    step = np.linalg.lstsq(prior.mapping * prior.size, theta_base - prior.theta_base, rcond=None)[0]
    np.testing.assert_allclose((theta - prior.theta) / prior.size, step, atol=1e-9)
    np.testing.assert_allclose(prior.complete(prior.theta_base), prior.theta, atol=1e-12)


def test_the_covariance_of_base_parameters_before_the_data(prior):
    wanted = prior.mapping @ np.diag(prior.size**2) @ prior.mapping.T
    L = prior.base_factor
    np.testing.assert_allclose(L @ L.T, wanted, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(np.triu(L, 1), 0.0)
    np.testing.assert_allclose(prior.size_base**2, np.diag(wanted), rtol=1e-12)
