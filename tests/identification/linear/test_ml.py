"""Maximum likelihood: the cost that it minimises, and what noise of the motion does to it."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from bodysense.errors import ShapeError
from bodysense.identification import Motion, Preprocessing, Regression, identifier, motions
from bodysense.identification.linear import likelihood
from bodysense.identification.linear.likelihood import (
    _motion_variances,
    _propagated,
    _row_slopes,
)
from bodysense.identification.prior import Prior
from bodysense.logs.log import Log
from bodysense.robot import inverse_dynamics

RATE = 500.0
NOISY = 2e-3


@pytest.fixture(scope="module")
def recorded(small_arm, base_of, sines):
    """Make logs of the small arm with white noise of positions and torques."""

    def make(
        sigma_q: float,
        noise: float = 0.05,
        *,
        seed: int = 0,
        n_t: int = 4000,
        logs: int = 1,
        off: float = 0.15,
        still: bool = False,
        width: float = 0.02,
        decimate: bool = True,
    ) -> tuple[Regression, np.ndarray]:
        robot = small_arm.with_friction("coulomb", width=width)
        rng = np.random.default_rng(seed)
        pieces = []
        for log in range(logs):
            t, q, v, a = sines(3, log, n_t, RATE, slowest=0.2)
            if still:  # joint 2 stops in the middle, as robots do
                hold = slice(n_t // 3, n_t // 2)
                q[hold, 1], v[hold, 1], a[hold, 1] = q[n_t // 3, 1], 0.0, 0.0
            tau = inverse_dynamics(robot, q, v, a) + noise * rng.normal(size=q.shape)
            q = q + sigma_q * rng.normal(size=q.shape)
            channels = {f"q.{name}": q[:, j] for j, name in enumerate(robot.joint_names)}
            channels |= {f"tau.{name}": tau[:, j] for j, name in enumerate(robot.joint_names)}
            pieces.append([Log.of(t, channels, {})])
        settings = Preprocessing(decimate=decimate).settled(robot, 20.0)
        prior_rng = np.random.default_rng(1)
        theta = robot.theta * np.exp(off * prior_rng.normal(size=robot.layout.size))
        problem = Regression.of(
            robot.with_parameters(theta),
            motions(robot, pieces, settings),
            settings,
            base_of(robot),
        )
        return problem, base_of(robot).to_base(robot.theta)

    return make


def errors(found, truth: np.ndarray, problem: Regression) -> np.ndarray:
    return (found.theta_base - truth) / Prior.of(problem).size_base


# -- without noise of the motion it is weighted least squares ----------------------------------


@pytest.mark.parametrize("corrected", [True, False])
def test_exact_positions_make_it_weighted_least_squares(corrected, simulate):
    problem = simulate([[0.1, 0.3, 0.05]]).problem
    found, expected = (
        identifier("ml", corrected=corrected).fit(problem),
        identifier("wls").fit(problem),
    )
    np.testing.assert_array_equal(found.theta, expected.theta)
    np.testing.assert_array_equal(found.covariance, expected.covariance)
    assert "as by wls" in found.status.message


def test_data_without_noise_give_the_truth(simulate):
    simulated = simulate(0.0)
    found = identifier("ml").fit(simulated.problem)
    error = np.abs(found.theta_base - simulated.truth)
    assert (error < 1e-6 * Prior.of(simulated.problem).size_base).all()
    assert set(found.base_labels) == {"identified"}


def test_next_to_no_noise_is_next_to_weighted_least_squares(recorded):
    problem, _ = recorded(1e-9)
    found, expected = (
        identifier("ml", tolerance=1e-9).fit(problem),
        identifier("wls", tolerance=1e-9).fit(problem),
    )
    shift = np.abs(found.theta_base - expected.theta_base)
    assert (shift < 0.02 * expected.sigma_base).all()
    np.testing.assert_allclose(found.sigma_base, expected.sigma_base, rtol=0.01)


# -- what it minimises -------------------------------------------------------------------------


def cost(problem: Regression, theta_base: np.ndarray, levels: np.ndarray) -> float:
    """Eq (32) with the exponent -1, as it is written, row by row."""
    prior, variances = Prior.of(problem), _motion_variances(problem)
    theta, total = prior.complete(theta_base), 0.0
    for block in problem.blocks():
        G = _row_slopes(problem, theta, block)
        S = _propagated(G, variances[block.piece]) + np.diag(levels[block.log])
        for k, epsilon in enumerate(block.y - block.Y @ theta_base):
            rows = np.flatnonzero(block.use[k])
            inner = np.linalg.inv(S[k][np.ix_(rows, rows)])
            total += 0.5 * epsilon[rows] @ inner @ epsilon[rows]
    return total


@pytest.fixture
def watched(monkeypatch):
    """The variances of the torques that the last step has used."""
    seen = []
    variances = likelihood._torque_variances

    def watch(*arguments):
        seen.append(variances(*arguments))
        return seen[-1]

    monkeypatch.setattr(likelihood, "_torque_variances", watch)
    return seen


def test_the_estimate_is_where_the_cost_is_flat(recorded, watched):
    """The derivative of eq (32), by differences, G's dependence on the parameters included."""
    problem, _ = recorded(NOISY, n_t=800, width=0.3, decimate=False)
    slopes = {}
    for corrected in (True, False):
        method = identifier("ml", corrected=corrected, tolerance=1e-10, iterations=200)
        weighing = method.estimate(problem, Prior.of(problem))
        at, levels = problem.base.to_base(weighing.theta), watched[-1]
        unit = 1.0 / np.linalg.norm(weighing.stack.A, axis=0)  # one standard error
        slopes[corrected] = [
            (cost(problem, at + d, levels) - cost(problem, at - d, levels)) / 0.02
            for d in 0.01 * np.diag(unit)
        ]
    # In standard errors, of which the estimate may be off by less than a few hundredths.
    assert np.abs(slopes[True]).max() < 0.1
    assert np.abs(slopes[False]).max() > 10.0 * np.abs(slopes[True]).max()


def test_levels_of_the_torques_are_found_below_the_noise_of_the_motion(recorded, watched):
    """Where both are of the same size: a tenth of the larger one is lost in chance."""
    problem, _ = recorded(5e-4, 1.0, n_t=8000)
    identifier("ml").estimate(problem, Prior.of(problem))
    exact, _ = recorded(0.0, 1.0, n_t=8000)
    expected = identifier("wls").estimate(exact, Prior.of(exact)).sigma
    np.testing.assert_allclose(np.sqrt(watched[-1]), expected, rtol=0.15)
    noisy = identifier("wls").estimate(problem, Prior.of(problem)).sigma
    assert (noisy > 1.1 * expected).any()


def test_standing_joints_do_not_count(recorded):
    """The rows of a joint that stands may hold anything."""
    problem, _ = recorded(1e-4, still=True, width=0.0)
    blocks = list(problem.blocks())
    assert sum((block.use == 0.0).sum() for block in blocks) > 100
    first = identifier("ml").fit(problem)
    for block in blocks:
        block.y[block.use == 0.0] += 1e6
    assert problem._kept.blocks is not None  # the very same ones
    again = identifier("ml").fit(problem)
    np.testing.assert_allclose(again.theta_base, first.theta_base, rtol=0, atol=1e-9)
    np.testing.assert_allclose(again.covariance, first.covariance, rtol=1e-6)


# -- what it is for ----------------------------------------------------------------------------


def test_noise_of_the_motion_does_not_shrink_inertias(recorded):
    """Least squares does not get better by more data; this does."""
    runs = [recorded(NOISY, seed=seed) for seed in range(6)]
    methods = {
        "wls": identifier("wls"),
        "weights": identifier("ml", corrected=False),
        "ml": identifier("ml"),
    }
    wrong, inside = {}, {}
    for name, method in methods.items():
        found = [method.fit(problem) for problem, _ in runs]
        wrong[name] = np.mean(
            [errors(f, truth, p) for f, (p, truth) in zip(found, runs, strict=True)], axis=0
        )
        inside[name] = np.mean(
            [
                np.abs(f.theta_base - truth) < 1.96 * f.sigma_base
                for f, (_, truth) in zip(found, runs, strict=True)
            ]
        )
    size = {name: np.linalg.norm(bias) for name, bias in wrong.items()}
    assert size["ml"] < 0.4 * size["wls"]
    assert size["ml"] < 0.5 * size["weights"]
    assert inside["ml"] > 0.88
    assert inside["ml"] > inside["wls"]


def test_the_result_is_sound_and_the_same_every_time(recorded):
    problem, _ = recorded(NOISY, logs=2)
    found = identifier("ml").fit(problem)
    assert found.status.ok
    assert found.status.message == "Solved."
    assert found.noise.shape == (2, 3)
    assert np.linalg.eigvalsh(found.covariance)[0] > 0.0
    assert len(found.trace) < 20
    again = identifier("ml").fit(problem, rng=np.random.default_rng(3))
    np.testing.assert_array_equal(again.theta, found.theta)
    np.testing.assert_array_equal(again.covariance, found.covariance)
    part = identifier("ml").fit(problem.without(1))
    assert np.isfinite(part.theta).all()
    assert (np.diag(part.covariance) > np.diag(found.covariance)).mean() > 0.8


def test_logs_of_more_noise_count_less(recorded, small_arm):
    quiet, truth = recorded(1e-4, seed=1)
    loud = recorded(2e-2, seed=2)[0].motions[0]
    both = dataclasses.replace(
        quiet, motions=(quiet.motions[0], dataclasses.replace(loud, log=1)), n_logs=2
    )
    one, two = identifier("ml").fit(quiet), identifier("ml").fit(both)
    assert np.linalg.norm(errors(two, truth, both)) < 1.5 * np.linalg.norm(
        errors(one, truth, quiet)
    )


def test_noise_beyond_all_measure_gives_numbers(recorded):
    problem, _ = recorded(0.3, off=0.0)
    found = identifier("ml").fit(problem)
    assert found.status.ok
    for values in (found.theta, found.covariance, found.sigma):
        assert np.isfinite(values).all()


def test_a_correction_that_does_not_settle_is_left_out(recorded):
    problem, _ = recorded(NOISY)
    found = identifier("ml", iterations=1).fit(problem)
    assert "left out" in found.status.message
    plain = identifier("ml", iterations=1, corrected=False).fit(problem)
    np.testing.assert_array_equal(found.theta, plain.theta)


def test_few_rows_count_alike(recorded):
    problem, _ = recorded(1e-4, n_t=260)
    assert problem.n_samples * 3 < 5 * problem.size
    found = identifier("ml").fit(problem)
    assert np.isfinite(found.covariance).all()
    assert "too few rows" in found.status.message


def test_nothing_that_goes_in_is_changed(recorded):
    problem, _ = recorded(NOISY)
    before = [(block.Y.copy(), block.y.copy(), block.use.copy()) for block in problem.blocks()]
    motion = problem.motions[0]
    kept = {
        f.name: getattr(motion, f.name).copy()
        for f in dataclasses.fields(Motion)
        if isinstance(getattr(motion, f.name), np.ndarray)
    }
    identifier("ml").fit(problem)
    for block, (Y, y, use) in zip(problem.blocks(), before, strict=True):
        np.testing.assert_array_equal(block.Y, Y)
        np.testing.assert_array_equal(block.y, y)
        np.testing.assert_array_equal(block.use, use)
    for name, values in kept.items():
        np.testing.assert_array_equal(getattr(motion, name), values)


@pytest.mark.parametrize(
    "settings", [{"tolerance": 0.0}, {"tolerance": np.nan}, {"iterations": 0}], ids=str
)
def test_settings_that_cannot_be_meant_are_refused(settings):
    with pytest.raises(ShapeError, match=next(iter(settings))):
        identifier("ml", **settings)
    json.dumps(dataclasses.asdict(identifier("ml")), allow_nan=False)
