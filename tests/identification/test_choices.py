"""What the data choose: a cut-off between motion and noise."""

from __future__ import annotations

import numpy as np
import pytest

from bodysense.excitation import FourierTrajectory
from bodysense.identification import Preprocessing, choices
from bodysense.identification.choices import choose_cutoff
from bodysense.logs import Log
from bodysense.robot import inverse_dynamics
from bodysense.simulation import rollout

RATE = 500.0
FASTEST = 5 * 0.4  # Hz, of the motion


def recorded(robot, sines, *, position_noise, torque_noise, seed=0, n_t=6000, rate=RATE) -> Log:
    """A motion up to 2 Hz with white noise of positions and torques."""
    t, q, v, a = sines(robot.n_joints, seed, n_t, rate, slowest=0.4)
    rng = np.random.default_rng(seed)
    tau = inverse_dynamics(robot, q, v, a) + torque_noise * rng.normal(size=q.shape)
    q = q + np.asarray(position_noise) * rng.normal(size=q.shape)
    channels = {f"q.{name}": q[:, k] for k, name in enumerate(robot.joint_names)}
    return Log.of(t, channels | {f"tau.{n}": tau[:, k] for k, n in enumerate(robot.joint_names)})


@pytest.fixture(scope="module")
def cutoff_of(small_arm, base_of, sines):
    def choose(position_noise, torque_noise: float = 0.1, **more):
        log = recorded(
            small_arm, sines, position_noise=position_noise, torque_noise=torque_noise, **more
        )
        return choose_cutoff(small_arm, [[log]], Preprocessing(), base_of(small_arm))

    return choose


@pytest.mark.parametrize("noise", [1e-5, 1e-4, 1e-3])
def test_the_cutoff_lies_between_motion_and_noise(cutoff_of, noise):
    choice = cutoff_of(noise)
    assert FASTEST < choice.cutoff < 0.2 * RATE
    # Acceleration's noise below the cut-off f: sigma sqrt(2 / rate) (2 pi)² f^2.5 / sqrt(5).
    let_in = noise * np.sqrt(2.0 / RATE) * (2.0 * np.pi) ** 2 * choice.cutoff**2.5 / np.sqrt(5.0)
    size = (2.0 * np.pi * FASTEST) ** 2 / 5.0  # of the fastest harmonic
    assert let_in < 0.3 * size


def test_more_noise_means_a_lower_cutoff(cutoff_of):
    found = [cutoff_of(noise).cutoff for noise in (1e-6, 1e-4, 1e-3)]
    assert found[0] > 2.0 * found[2]
    assert found[0] >= found[1] >= found[2]


def test_one_noisy_joint_lowers_the_cutoff(cutoff_of):
    quiet, noisy = cutoff_of(1e-6).cutoff, cutoff_of((1e-6, 1e-6, 1e-3))
    assert FASTEST < noisy.cutoff < 0.5 * quiet
    highest = dict(zip(noisy.tried, noisy.errors, strict=True))[max(noisy.tried)]
    assert highest > 2.0 * min(noisy.errors)


def test_noise_that_the_controller_answers_is_not_taken_for_motion(tx40, base_of):
    """Encoder noise in the loop: torques follow it, so that their prediction does not tell."""
    rng = np.random.default_rng(0)
    plan = FourierTrajectory.for_robot(tx40, duration=10.0, rng=rng)
    found = []
    for noise in (1.75e-6, 1.75e-4):
        run = rollout(
            tx40, plan, sampling_rate=1000.0, position_noise=noise, torque_noise=0.1, rng=rng
        )
        choice = choose_cutoff(tx40, [[run.log()]], Preprocessing(), base_of(tx40))
        found.append(choice.cutoff)
    assert found[0] > 2.0 * found[1]
    assert 2.0 < found[1] < 40.0  # the motion's 20 harmonics of 0.1 Hz, and what follows from them


def test_the_choice_tells_what_was_tried(cutoff_of):
    choice = cutoff_of(1e-3)
    assert choice.cutoff in choice.tried
    assert list(choice.tried) == sorted(choice.tried)
    assert len(choice.errors) == len(choice.tried)
    error = dict(zip(choice.tried, choice.errors, strict=True))
    # Errors are compared as means of log squares over joints, hence not quite those shown.
    assert error[choice.cutoff] < 1.05 * min(choice.errors)
    # One cut-off loses motion or lets noise in.
    assert max(choice.errors) > 1.2 * min(choice.errors)


@pytest.mark.parametrize("best", [3.0, 10.0, 40.0, 1e3])
def test_few_cutoffs_are_tried_and_each_once(cutoff_of, monkeypatch, best):
    """The highest of those as good as the best, of an error that grows slowly beyond it."""
    tried: list[float] = []

    def error(robot, pieces, settings, base, cutoff):
        tried.append(cutoff)
        off = np.log(cutoff / best)
        log_error = max(-2.0 * off, 0.01 * off)
        return log_error, np.exp(0.5 * log_error)

    monkeypatch.setattr(choices, "_prediction_error", error)
    choice = cutoff_of(1e-8)
    assert len(tried) == len(set(tried))
    assert tuple(sorted(tried)) == choice.tried
    good = [
        k for k, e in zip(choice.tried, choice.errors, strict=True) if e < 1.01 * min(choice.errors)
    ]
    assert choice.cutoff == max(good)


def test_a_short_log_gets_the_highest_cutoff(cutoff_of):
    choice = cutoff_of(1e-4, n_t=20, rate=20.0)
    assert choice.cutoff == pytest.approx(4.0)
    assert choice.tried == (choice.cutoff,)
