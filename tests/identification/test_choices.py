"""What the data choose: a cut-off between motion and noise."""

from __future__ import annotations

import numpy as np
import pytest

from bodysense.excitation import FourierTrajectory
from bodysense.identification import Preprocessing, Regression, choices, motions
from bodysense.identification.choices import choose_cutoff
from bodysense.logs import Log
from bodysense.robot import inverse_dynamics
from bodysense.simulation import rollout

RATE = 500.0
FASTEST = 5 * 0.4  # Hz, of the motion


def recorded(
    robot, sines, *, position_noise, torque_noise, seed=0, n_t=6000, rate=RATE, slowest=0.4
) -> Log:
    """A motion up to 2 Hz with white noise of positions and torques."""
    t, q, v, a = sines(robot.n_joints, seed, n_t, rate, slowest=slowest)
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
    quiet, noisy = cutoff_of(1e-6).cutoff, cutoff_of((1e-6, 1e-6, 1e-3)).cutoff
    assert FASTEST < noisy < 0.5 * quiet


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
    assert found[0] >= found[1]
    assert 2.0 < found[1] < 40.0  # the motion's 20 harmonics of 0.1 Hz, and what follows from them


def test_the_choice_tells_what_was_tried(cutoff_of):
    choice = cutoff_of(1e-5, slowest=0.1)
    assert choice.cutoff in choice.tried
    assert list(choice.tried) == sorted(choice.tried)
    assert len(choice.errors) == len(choice.uncertainties) == len(choice.tried) > 2
    best = int(np.argmin(choice.errors))
    assert choice.uncertainties[best] == 0.0
    at = choice.tried.index(choice.cutoff)
    assert at >= best
    assert choice.errors[at] <= choice.errors[best] + 3.0 * choice.uncertainties[at]
    assert not choice.warning


@pytest.fixture(scope="module")
def trials_of(small_arm, sines, base_of):
    """Trials at 8, 5, 3 and 2 Hz with given squared errors (4, blocks, joints)."""
    log = recorded(small_arm, sines, position_noise=1e-5, torque_noise=0.1)
    settings = Preprocessing().settled(small_arm, 8.0)
    reference = Regression.of(
        small_arm, motions(small_arm, [[log]], settings), settings, base_of(small_arm)
    )

    def trials(squares):
        made = choices._Trials(reference)
        made.cutoffs, made.squares = [8.0, 5.0, 3.0, 2.0], list(squares)
        return made

    return trials


def test_the_highest_cutoff_is_taken_where_errors_differ_by_chance(trials_of, rng):
    common = rng.chisquare(5, (1, 18, 3))
    squares = common * np.exp(0.2 * rng.normal(size=(4, 18, 3)))
    choice = trials_of(squares).choice()
    assert choice.cutoff == 8.0
    assert min(choice.errors) < choice.errors[-1]  # though another one looks better


@pytest.mark.parametrize(("factors", "cutoff"), [((1.5, 1.2, 1.0, 1.4), 3.0), ((1, 2, 3, 4), 8.0)])
def test_a_small_difference_counts_where_all_blocks_agree(trials_of, rng, factors, cutoff):
    squares = np.array(factors)[:, None, None] * rng.chisquare(5, (1, 18, 3))
    choice = trials_of(squares).choice()
    assert choice.cutoff == cutoff
    assert not choice.warning
    np.testing.assert_allclose(choice.uncertainties, 0.0, atol=1e-6)


def test_what_one_block_alone_says_does_not_count(trials_of, rng):
    squares = np.ones((4, 18, 3))
    squares[:3, 7] = 30.0
    assert trials_of(squares).choice().cutoff == 8.0


def test_a_choice_at_the_lower_edge_is_said(trials_of):
    squares = np.array([4.0, 3.0, 2.0, 1.0])[:, None, None] * np.ones((4, 18, 3))
    trials = trials_of(squares)
    assert trials.falling  # one more is tried, if there are rows enough
    assert "lowest that was tried" in trials.choice().warning


def test_unmodelled_torque_of_a_slow_motion_leaves_no_few_rows(small_arm, sines, base_of):
    """What no parameter explains is smaller at low cut-offs, with little left to fit."""
    t, q, v, a = sines(3, 1, 5000, 100.0, slowest=0.04)
    rng = np.random.default_rng(1)
    ripple = 2.0 * np.sin(23.0 * q + rng.uniform(0.0, 6.0, 3))
    tau = inverse_dynamics(small_arm, q, v, a) + ripple + 0.1 * rng.normal(size=q.shape)
    q = q + 1e-6 * rng.normal(size=q.shape)
    names = small_arm.joint_names
    channels = {
        f"{x}.{n}": y[:, k] for x, y in (("q", q), ("tau", tau)) for k, n in enumerate(names)
    }
    choice = choose_cutoff(small_arm, [[Log.of(t, channels)]], Preprocessing(), base_of(small_arm))
    assert choice.cutoff > 10 * 0.2  # Hz, the fastest harmonic
    assert choice.cutoff == max(choice.tried)


@pytest.mark.parametrize("seconds", [4.0, 14.0])
def test_a_short_log_gets_a_cutoff_with_rows_enough(small_arm, sines, base_of, seconds):
    """Low cut-offs leave fewer rows than unknowns there: they are not tried, and no error."""
    t, q, v, a = sines(3, 0, int(100 * seconds), 100.0, slowest=0.1)
    tau = inverse_dynamics(small_arm, q, v, a)
    q = q + 1e-5 * np.random.default_rng(0).normal(size=q.shape)
    names = small_arm.joint_names
    channels = {
        f"{x}.{n}": y[:, k] for x, y in (("q", q), ("tau", tau)) for k, n in enumerate(names)
    }
    pieces, base = [[Log.of(t, channels)]], base_of(small_arm)
    choice = choose_cutoff(small_arm, pieces, Preprocessing(), base)
    settings = Preprocessing().settled(small_arm, choice.cutoff)
    problem = Regression.of(small_arm, motions(small_arm, pieces, settings), settings, base)
    assert problem.n_samples * 3 > 5 * base.size


def test_a_log_too_short_for_any_gets_the_highest_cutoff(cutoff_of):
    choice = cutoff_of(1e-4, n_t=20, rate=20.0)
    assert choice.cutoff == pytest.approx(4.0)
    assert choice.tried == (choice.cutoff,)
    assert "Too few rows" in choice.warning
