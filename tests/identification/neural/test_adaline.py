"""Adaline: how near it comes to least squares, and that it says so when it does not."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from bodysense.errors import ShapeError, UnknownNameError
from bodysense.identification import Regression, identifier, neural
from bodysense.identification._kernels.adaline import descend, learn_instants
from bodysense.identification.identifier import _with_settings
from bodysense.identification.neural import Adaline
from bodysense.identification.prior import Prior
from bodysense.robot import inverse_dynamics

BOTH = [identifier("adaline"), identifier("adaline", learning="batch")]
both = pytest.mark.parametrize("method", BOTH, ids=lambda m: m.solver.learning)


# -- the rules ----------------------------------------------------------------------------------


@pytest.mark.parametrize("backward", [False, True])
def test_an_epoch_is_the_rule_row_by_row(backward, rng):
    Y, y, order = rng.normal(size=(20, 3, 7)), rng.normal(size=(20, 3)), rng.permutation(20)
    span = np.array([[0, 7], [1, 7], [2, 6]])
    for j, (first, last) in enumerate(span):
        Y[:, j, :first] = Y[:, j, last:] = 0.0
    Y[4, 1] = y[4, 1] = 0.0
    x, rate = np.zeros(7), 0.1
    learn_instants(Y, y, np.sum(Y**2, axis=2), span, order, backward, rate, x)
    expected = np.zeros(7)
    rows = [(t, j) for t in order for j in range(3)]
    for t, j in reversed(rows) if backward else rows:
        row = Y[t, j]
        expected += rate / (1.0 + rate * row @ row) * row * (y[t, j] - row @ expected)
    np.testing.assert_allclose(x, expected, rtol=1e-12, atol=1e-14)


def test_gradients_lead_to_least_squares(rng):
    A, z = np.triu(rng.normal(size=(9, 9))) + 2.0 * np.eye(9), rng.normal(size=9)
    x = np.zeros(9)
    count = descend(A, z, 1.0 / np.linalg.norm(A, 2) ** 2, 1e-12, 100_000, x)
    assert 0 < count < 100_000
    np.testing.assert_allclose(x, np.linalg.solve(A, z), rtol=1e-8, atol=1e-10)
    x = np.zeros(9)
    assert descend(A, z, 1.0 / np.linalg.norm(A, 2) ** 2, 1e-12, 60, x) == -1
    assert np.linalg.norm(A @ x - z) < np.linalg.norm(z)


# -- least squares ------------------------------------------------------------------------------


@both
def test_data_without_noise_give_the_truth(method, simulate):
    simulated = simulate(0.0)
    found = method.fit(simulated.problem)
    error = np.abs(found.theta_base - simulated.truth)
    # Slow sines excite some directions weakly, which takes more epochs than there are.
    share = 1e-6 if method.solver.learning == "batch" else 5e-3
    assert (error < share * Prior.of(simulated.problem).size_base).all()
    assert found.status.ok
    assert set(found.base_labels) == {"identified"}


@both
@pytest.mark.parametrize("name", ["tx40", "rv2sq", "serial"])
def test_random_states_without_noise_give_the_truth(method, name, robot_of, states_of, base_of):
    robot, rng = robot_of(name), np.random.default_rng(20)
    q, v, a = states_of(robot, rng, 400)
    tau = inverse_dynamics(robot, q, v, a)
    prior = robot.with_parameters(robot.theta * np.exp(0.15 * rng.normal(size=robot.layout.size)))
    problem = Regression.from_samples(prior, q, v, a, tau, rate=100.0, base=base_of(robot))
    found = method.fit(problem, rng=rng)
    error = np.abs(found.theta_base - base_of(robot).to_base(robot.theta))
    slow = name == "serial" and method.solver.learning == "stochastic"
    assert (error < (1e-2 if slow else 1e-6) * Prior.of(problem).size_base).all()
    assert ("Learning ended" in found.status.message) == slow


@both
@pytest.mark.parametrize(("n_t", "noise"), [(400, 0.3), (400, 0.02), (1500, 0.1)])
def test_it_comes_near_weighted_least_squares(method, n_t, noise, tx40, base_of, states_of):
    """As near as the docstring says."""
    rng = np.random.default_rng(n_t)
    q, v, a = states_of(tx40, rng, n_t)
    tau = inverse_dynamics(tx40, q, v, a) + noise * rng.normal(size=q.shape)
    prior = tx40.with_parameters(tx40.theta * np.exp(0.15 * rng.normal(size=tx40.layout.size)))
    problem = Regression.from_samples(prior, q, v, a, tau, rate=100.0, base=base_of(tx40))
    found, expected = method.fit(problem, rng=rng), identifier("wls").fit(problem)
    shift = np.abs(found.theta_base - expected.theta_base) / expected.sigma_base
    assert shift.max() < (1e-4 if method.solver.learning == "batch" else 0.15)
    assert found.status.message == "Solved."
    np.testing.assert_allclose(found.sigma_base, expected.sigma_base, rtol=0.02)
    np.testing.assert_allclose(found.noise, noise, rtol=0.15)


@both
def test_learning_that_ends_early_says_how_far_it_is(method, simulate):
    problem = simulate(0.05).problem
    found = _with_settings(method, {"epochs": 2}).fit(problem)
    assert found.status.ok
    assert "standard errors (r.m.s.) from the least-squares estimate" in found.status.message
    assert "raise epochs" in found.status.message
    advised = "or set learning to batch." in found.status.message
    assert advised == (method.solver.learning == "stochastic")
    prior, weighing = Prior.of(problem), identifier("wls").estimate(problem, Prior.of(problem))
    off = found.theta_base - prior.to_base(weighing.theta)
    distance = np.linalg.norm(weighing.stack.A @ off) / np.sqrt(problem.size)
    assert f"{distance:.2g}" in found.status.message


def test_more_epochs_come_nearer(simulate):
    problem = simulate(0.05).problem
    prior = Prior.of(problem)
    weighing = identifier("wls").estimate(problem, prior)
    distance = [
        np.linalg.norm(weighing.stack.A @ prior.to_base(a.theta(problem) - weighing.theta))
        for a in (identifier("adaline", epochs=k) for k in (5, 50, 800))
    ]
    assert distance[2] < 0.3 * distance[1] < 0.09 * distance[0]


# -- repeatability ------------------------------------------------------------------------------


@both
def test_the_same_seed_gives_the_same_bits(method, simulate):
    problem = simulate(0.1).problem
    first, again, other = (
        method.fit(problem, rng=np.random.default_rng(seed)) for seed in (5, 5, 6)
    )
    for name in ("theta", "covariance", "sigma", "resolution"):
        np.testing.assert_array_equal(getattr(first, name), getattr(again, name))
    assert first.trace == again.trace
    assert np.array_equal(first.theta, other.theta) == (method.solver.learning == "batch")
    theta = method.theta(problem, rng=np.random.default_rng(5))
    np.testing.assert_array_equal(theta, first.theta)
    np.testing.assert_array_equal(method.fit(problem).theta, method.theta(problem))
    shifted = _with_settings(method, {"seed": 7}).theta(problem)
    assert np.array_equal(shifted, method.theta(problem)) == (method.solver.learning == "batch")


def test_long_recordings_are_learnt_by_batch(simulate, monkeypatch):
    problem = simulate(0.1).problem
    monkeypatch.setattr(neural, "_MOST_BYTES", 1e3)
    found = identifier("adaline").fit(problem)
    assert "kept in memory" in found.status.message
    np.testing.assert_array_equal(
        found.theta, identifier("adaline", learning="batch").fit(problem).theta
    )


def test_the_more_instants_the_fewer_epochs():
    assert [Adaline()._epochs(n) for n in (10, 400, 2000, 10**6)] == [
        1000,
        500,
        100,
        50,
    ]
    assert Adaline(epochs=7)._epochs(10) == 7


# -- poor data ----------------------------------------------------------------------------------


@both
def test_standing_joints_do_not_count_and_what_is_not_seen_keeps_the_prior(
    method, small_arm, sines
):
    _, q, v, a = sines(3, 0, 400, 100.0)
    q[:, 1], v[:, 1], a[:, 1] = 0.2, 0.0, 0.0
    robot = small_arm.with_friction("coulomb", width=0.0)
    tau = inverse_dynamics(robot, q, v, a) + 0.05 * np.random.default_rng(0).normal(size=q.shape)
    tau[:, 1] += 1e3  # friction holds with anything
    prior = robot.with_parameters(1.1 * robot.theta)
    problem = Regression.from_samples(prior, q, v, a, tau, rate=100.0, still_speed=0.02)
    found, expected = method.fit(problem), identifier("wls").fit(problem)
    for name in ("Fv2", "Fc2", "Ia2"):
        k = robot.layout.names.index(name)
        assert found.theta[k] == pytest.approx(prior.theta[k], rel=1e-6)
        assert found.labels[k] == "not identifiable"
    assert "does not excite" in found.status.message
    # Also where parameters show in sums alone: shared out by plausible sizes, as there.
    shift = np.abs(found.theta_base - expected.theta_base)
    assert (shift < 0.3 * expected.sigma_base).all()


@both
@pytest.mark.parametrize("n_t", [7, 12, 400])
def test_results_are_sound_whatever_the_rows(method, n_t, simulate):
    simulated = simulate(0.3, n_t=n_t)
    found = method.fit(simulated.problem)
    assert found.status.ok
    C = found.covariance
    assert np.isfinite(C).all()
    assert np.isfinite(found.theta).all()
    size = np.sqrt(np.diag(C))
    assert np.linalg.eigvalsh(C / size / size[:, None])[0] > -1e-9
    if n_t == 400:
        inside = np.abs(found.theta_base - simulated.truth) < 1.96 * found.sigma_base
        assert inside.mean() > 0.8
    else:
        assert "too few rows" in found.status.message


@both
def test_a_robot_that_stands_tells_its_weight_alone(method, small_arm, rng):
    still = np.zeros((60, 3))
    tau = inverse_dynamics(small_arm, still, still, still) + 0.1 * rng.normal(size=still.shape)
    prior = small_arm.with_parameters(1.1 * small_arm.theta)
    problem = Regression.from_samples(prior, still, still, still, tau, rate=100.0)
    found, expected = method.fit(problem), identifier("wls").fit(problem)
    assert np.isfinite(found.covariance).all()
    shift = np.abs(found.theta_base - expected.theta_base)
    assert (shift < 0.1 * expected.sigma_base).all()


def test_nothing_that_goes_in_is_changed(simulate):
    problem = simulate(0.1).problem
    before = [(block.Y.copy(), block.y.copy()) for block in problem.blocks()]
    for method in BOTH:
        method.fit(problem)
    for block, (Y, y) in zip(problem.blocks(), before, strict=True):
        np.testing.assert_array_equal(block.Y, Y)
        np.testing.assert_array_equal(block.y, y)


@pytest.mark.parametrize(
    "settings", [{"epochs": 0}, {"tolerance": np.nan}, {"tolerance": -1.0}, {"seed": -1}], ids=str
)
def test_settings_that_cannot_be_meant_are_refused(settings):
    with pytest.raises(ShapeError, match=next(iter(settings))):
        identifier("adaline", **settings)
    with pytest.raises(UnknownNameError, match="'batch'"):
        identifier("adaline", learning="batsh")
    json.dumps(dataclasses.asdict(identifier("adaline")), allow_nan=False)
