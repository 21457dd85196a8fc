"""Recursive least squares as a batch method: ridge without forgetting, the present with it."""

from __future__ import annotations

import numpy as np
import pytest

from bodysense.errors import ShapeError
from bodysense.identification import Motion, Regression, identifier
from bodysense.robot import inverse_dynamics, with_payload


def test_without_forgetting_it_is_ridge(simulate):
    problem = simulate([[0.1, 0.5, 0.2], [0.3, 0.1, 0.4]], logs=2).problem
    recursive, ridge = (
        identifier("rls", spread=0.3).fit(problem),
        identifier("ridge", spread=0.3).fit(problem),
    )
    np.testing.assert_allclose(recursive.theta, ridge.theta, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(recursive.covariance, ridge.covariance, rtol=1e-6, atol=1e-14)
    np.testing.assert_allclose(recursive.sigma, ridge.sigma, rtol=1e-6)
    np.testing.assert_array_equal(recursive.noise.round(9), ridge.noise.round(9))


def test_with_a_weak_prior_it_is_weighted_least_squares(simulate):
    problem = simulate(0.3).problem
    recursive, wls = identifier("rls", spread=1e4).fit(problem), identifier("wls").fit(problem)
    assert (np.abs(recursive.theta_base - wls.theta_base) < 1e-5 * wls.sigma_base).all()


@pytest.fixture(scope="module")
def changing(tx40, base_of, sines):
    """The robot takes 2 kg up in the middle of a recording."""
    loaded = with_payload(tx40, 2.0, com=(0.0, 0.0, 0.1))
    _, q, v, a = sines(6, 0, 8000, 200.0, slowest=0.1)
    tau = inverse_dynamics(tx40, q, v, a)
    tau[4000:] = inverse_dynamics(loaded, q[4000:], v[4000:], a[4000:])
    tau += 0.1 * np.random.default_rng(0).normal(size=tau.shape)
    problem = Regression.from_samples(tx40, q, v, a, tau, rate=200.0, base=base_of(tx40))
    return problem, *(problem.base.to_base(robot.theta) for robot in (tx40, loaded))


def test_with_forgetting_it_follows_a_payload(changing):
    problem, before, after = changing
    changed = np.abs(after - before) > 0.1  # kg, kg·m or kg·m²
    assert changed.sum() >= 3
    keeps, forgets = (
        identifier("rls").fit(problem),
        identifier("rls", forgetting=0.997).fit(problem),
    )
    # Both halves have their say in the one, the second half alone in the other.
    share = (keeps.theta_base - before)[changed] / (after - before)[changed]
    assert (np.abs(share - 0.5) < 0.3).all()
    assert (np.abs(forgets.theta_base - after) < 5.0 * forgets.sigma_base).all()
    share = (forgets.theta_base - before)[changed] / (after - before)[changed]
    assert (np.abs(share - 1.0) < 0.1).all()
    # The last second is predicted to its noise, or is not.
    motion = problem.motions[0]
    last = slice(-200, None)
    for found, good in ((keeps, False), (forgets, True)):
        error = motion.tau[last] - inverse_dynamics(
            problem.robot, motion.q[last], motion.v[last], motion.a[last], theta=found.theta
        )
        level = np.sqrt(np.mean(error**2))
        assert (level < 0.12) == good


def test_before_the_payload_it_knows_nothing_of_it(changing):
    problem, before, _ = changing
    motion = problem.motions[0]
    first = Motion(
        *(x[:4000] for x in (motion.t, motion.q, motion.v, motion.a, motion.tau, motion.tau)),
        motion.rate,
    )
    early = Regression.of(problem.robot, (first,), problem.settings, problem.base)
    found = identifier("rls", forgetting=0.997).fit(early)
    assert (np.abs(found.theta_base - before) < 5.0 * found.sigma_base).all()


def test_forgetting_costs_certainty(simulate):
    """Some 1 / (1 - λ) instants are remembered of 2000: intervals widen by the root of that."""
    problem = simulate(0.3, n_t=2000).problem
    all_of_it, some = (
        identifier("rls", spread=10.0).fit(problem),
        identifier("rls", forgetting=0.995, spread=10.0).fit(problem),
    )
    ratio = np.median(some.sigma_base / all_of_it.sigma_base)
    assert 0.6 * np.sqrt(10.0) < ratio < 1.8 * np.sqrt(10.0)


def test_intervals_of_a_method_that_forgets_hold_the_truth(simulate):
    inside = []
    for seed in range(20):
        simulated = simulate(0.3, n_t=1200, seed=seed)
        low, high = identifier("rls", forgetting=0.995).fit(simulated.problem).interval()
        inside.append((low <= simulated.truth) & (simulated.truth <= high))
    assert 0.9 < np.mean(inside) < 0.99


@pytest.mark.parametrize(("setting", "value"), [("forgetting", 1.5), ("spread", 0.0)])
def test_settings_that_cannot_be_meant(setting, value):
    with pytest.raises(ShapeError, match=f"{setting} is {value:g}"):
        identifier("rls", **{setting: value})
