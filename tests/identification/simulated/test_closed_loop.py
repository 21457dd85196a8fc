"""Recordings, simulated again: the truth comes back, and nothing of a recording is left out."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bodysense.identification import Motion, Preprocessing, Regression
from bodysense.identification.simulated.closed_loop import _FOLLOWS_MEASURED, ClosedLoop
from bodysense.logs.filtering import standing
from bodysense.robot import Controller, Robot
from bodysense.simulation.sensitivities import backend

PLAIN = Preprocessing(cutoff=1e6, band=1e6, border=0.0, still_speed=0.0, decimate=False)


def slow_motion(n_t: int, rate: float, *, first: float = 0.0, log: int = 0, told=True) -> Motion:
    """Samples of a slow motion of two joints; torques do not matter."""
    t = np.arange(n_t) / rate
    w = np.array([0.5, 0.8])
    q, v, a = (
        0.3 * np.sin(np.outer(t, w)),
        0.3 * w * np.cos(np.outer(t, w)),
        -0.3 * w**2 * np.sin(np.outer(t, w)),
    )
    return Motion(first + t, q, v, a, 0.0 * q, 0.0 * q, rate, log, reference=q if told else None)


def loop_of(robot: Robot, *motions: Motion, settings: Preprocessing = PLAIN) -> ClosedLoop:
    problem = Regression.of(robot, motions, settings)
    return ClosedLoop.of(problem, backend("threads"), integrator="rk2", differentiate=True)


def distance(recorded, loop: ClosedLoop, theta) -> float:
    """Largest distance of simulated positions from recorded ones."""
    made = loop.simulated(theta[None])[0]
    assert made is not None
    return float(np.abs(made.motions[0].q - recorded.run.q[0]).max())


# -- the truth reproduces the recording --------------------------------------------------------


@pytest.mark.parametrize("n", [2, 3])
def test_the_truth_does_what_was_recorded(n, arm, record):
    recorded = record(arm(n), rate=500.0)
    made = recorded.loop().simulated(recorded.robot.theta[None])[0]
    motion, run = made.motions[0], recorded.run
    np.testing.assert_allclose(motion.q, run.q[0], atol=1e-8)
    np.testing.assert_allclose(motion.v, run.v[0], atol=1e-6)
    np.testing.assert_allclose(motion.a, run.a[0], atol=1e-4 * np.abs(run.a).max())
    assert motion.tau is recorded.problem.motions[0].tau_raw
    tau = recorded.loop().runs(recorded.robot.theta[None], "tau", [1])[0][0]
    np.testing.assert_allclose(tau, run.tau[0], atol=1e-4 * np.abs(run.tau).max())


def test_other_parameters_do_something_else(record):
    recorded = record(rate=500.0)
    loop = recorded.loop()
    truth = distance(recorded, loop, recorded.robot.theta)
    assert distance(recorded, loop, recorded.problem.robot.theta) > 1e4 * truth


def test_so_does_a_controller_that_sees_velocities(record):
    recorded = record(rate=500.0)
    theta = recorded.robot.theta
    seen = distance(recorded, recorded.loop(differentiate=False), theta)
    assert seen > 100.0 * distance(recorded, recorded.loop(), theta)


@pytest.mark.parametrize("rate", [250.0, 1000.0])
def test_without_a_reference_the_truth_follows_the_measured_motion(rate, record):
    recorded = record(rate=rate, told=False)
    loop = recorded.loop()
    assert _FOLLOWS_MEASURED in loop.notes
    truth = distance(recorded, loop, recorded.robot.theta)
    wrong = distance(recorded, loop, recorded.problem.robot.theta)
    assert truth < 2e-3 * (250.0 / rate) ** 2
    assert wrong > 5.0 * truth
    # A robot without mass or friction would follow best, if nothing else drove it.
    light = 0.05 * recorded.robot.theta
    follows = loop.simulated(light[None])[0]
    assert follows is None or loop.misfit(follows) > 5.0 * loop.misfit(
        loop.simulated(recorded.robot.theta[None])[0]
    )


def test_without_a_reference_the_controller_sees_velocities(record):
    """It is a simulated one: differences would only add a delay."""
    for leg in record(told=False).loop(differentiate=True).legs:
        assert not leg.experiment.differentiate
    for leg in record().loop(differentiate=True).legs:
        assert leg.experiment.differentiate
        assert leg.experiment.feed_forward is None


def test_sharp_friction(arm, record):
    recorded = record(arm(width=0.0), rate=500.0)
    assert distance(recorded, recorded.loop(), recorded.robot.theta) < 1e-4


def test_one_motion_without_reference_and_all_follow_the_measured_one(arm):
    loop = loop_of(arm(), slow_motion(40, 20.0), slow_motion(40, 20.0, told=False))
    assert _FOLLOWS_MEASURED in loop.notes
    assert all(leg.experiment.feed_forward is not None for leg in loop.legs)


# -- legs --------------------------------------------------------------------------------------


@given(
    rate=st.floats(0.05, 3000.0),
    control=st.sampled_from([200.0, 1000.0, 4000.0, 5000.0]),
    n_t=st.integers(8, 400),
    first=st.sampled_from([0.0, 12.34, 1.7e9]),
    stride=st.integers(1, 5),
    told=st.booleans(),
)
@example(rate=94.0, control=5000.0, n_t=57, first=1.7e9, stride=1, told=False)
@example(rate=1000.0 / 3.0, control=5000.0, n_t=300, first=1.7e9, stride=2, told=True)
@example(rate=99.7, control=5000.0, n_t=301, first=0.0, stride=3, told=True)
@example(rate=0.1, control=200.0, n_t=40, first=0.0, stride=1, told=True)
def test_samples_lie_on_control_steps_whatever_the_rates(
    arm, rate, control, n_t, first, stride, told
):
    robot = arm().with_controller(replace(arm().controller, rate=min(control, 2e4 * rate / n_t)))
    motion = slow_motion(n_t, rate, first=first, told=told)
    loop = loop_of(robot, motion)
    count = np.zeros(n_t, dtype=int)
    for leg in loop.legs:
        count[leg.span] += 1
        experiment = leg.every(stride)
        steps = experiment.controller.rate / leg.experiment.sampling_rate
        assert steps == pytest.approx(round(steps), rel=1e-12)
        # As near to the rate that is known as whole steps allow.
        assert abs(experiment.controller.rate - robot.controller.rate) <= max(
            0.5 * rate, rate - robot.controller.rate
        ) * (1.0 + 1e-9)
        run = backend("threads").rollouts(experiment, robot.theta[None])
        t = (np.arange(n_t) / rate)[leg.span][::stride]
        np.testing.assert_allclose(run.t, t - t[0], rtol=1e-9, atol=1e-12)
    assert (count == 1).all()


@pytest.mark.parametrize(("seconds", "legs"), [(5.0, 1), (29.0, 1), (31.0, 2), (65.0, 3)])
def test_long_recordings_are_cut(seconds, legs, arm):
    motion = slow_motion(int(20 * seconds), 20.0)
    loop = loop_of(arm(rate=200.0), motion)
    assert len(loop.legs) == legs
    spans = [leg.span for leg in loop.legs]
    assert spans[0].start == 0
    assert spans[-1].stop == motion.t.size
    assert all(a.stop == b.start for a, b in pairwise(spans))
    for leg in loop.legs:
        assert leg.experiment.trajectory.duration <= 30.0
        q, v = leg.experiment.start
        np.testing.assert_array_equal(q, motion.q[leg.span.start])
        np.testing.assert_array_equal(v, motion.v[leg.span.start])


def test_legs_together_are_the_recording(arm, record, monkeypatch):
    """Cut into three, each from the measured state at its start."""
    recorded = record(rate=500.0, told=False)
    whole = recorded.loop().simulated(recorded.robot.theta[None])[0].motions[0].q
    monkeypatch.setattr("bodysense.identification.simulated.closed_loop._LEG_DURATION", 1.0)
    cut = recorded.loop()
    assert len(cut.legs) == 3
    made = cut.simulated(recorded.robot.theta[None])[0].motions[0].q
    np.testing.assert_allclose(made, whole, atol=1e-3)
    np.testing.assert_array_equal(made[1000], recorded.run.q[0, 1000])
    parts = cut.runs(recorded.robot.theta[None], "q", [1])[0]
    np.testing.assert_array_equal(np.concatenate(parts), made)


def test_several_logs_and_pieces(arm):
    motions = (
        slow_motion(60, 20.0),
        slow_motion(80, 50.0, first=100.0),
        slow_motion(900, 20.0, log=1),
        slow_motion(30, 94.0, log=2),
    )
    loop = loop_of(arm(), *motions)
    assert [leg.motion for leg in loop.legs] == [0, 1, 2, 2, 3]
    theta = arm().theta * np.array([[1.0], [1.02]])
    for run in loop.simulated(theta):
        assert [m.q.shape for m in run.motions] == [m.q.shape for m in motions]
        assert [m.log for m in run.motions] == [0, 0, 1, 2]
        for made, motion in zip(run.motions, motions, strict=True):
            assert np.isfinite([made.q, made.v, made.a]).all()
            np.testing.assert_array_equal(made.t, motion.t)
            np.testing.assert_array_equal(made.q[0], motion.q[0])
    strided = loop.runs(theta, "q", [1, 3, 2, 1])
    full = loop.runs(theta, "q", [1] * 4)
    for r in range(2):
        for leg, few, every in zip(loop.legs, strided[r], full[r], strict=True):
            np.testing.assert_array_equal(few, every[:: [1, 3, 2, 1][leg.motion]])


def test_motions_too_short_to_simulate_stay_as_they_were_recorded(arm):
    short = slow_motion(6, 20.0)
    loop = loop_of(arm(), short, slow_motion(40, 20.0))
    assert [leg.motion for leg in loop.legs] == [1]
    made = loop.simulated(arm().theta[None])[0]
    np.testing.assert_array_equal(made.motions[0].q, short.q)
    np.testing.assert_array_equal(made.motions[0].a, short.a)
    alone = replace(loop, legs=())
    assert alone.simulated(arm().theta[None]) == [None]


# -- gains, losses, standstill -----------------------------------------------------------------


def test_with_higher_gains(arm):
    own = Controller.from_gains(2, kp=[100.0, 50.0], kd=[9.0, 4.0], ki=[3.0, 1.0], rate=1000.0)
    loop = loop_of(arm().with_controller(own), slow_motion(40, 94.0))
    other = loop.with_higher_gains()
    for controller in (other.controller, *(leg.experiment.controller for leg in other.legs)):
        np.testing.assert_allclose(controller.kp, [110.0, 55.0])
        np.testing.assert_allclose(controller.kd, [9.9, 4.4])
        np.testing.assert_allclose(controller.ki, [3.3, 1.1])
    for a, b in zip(loop.legs, other.legs, strict=True):
        assert a.experiment.controller.rate == b.experiment.controller.rate
        assert a.experiment.trajectory is b.experiment.trajectory
        np.testing.assert_array_equal(a.experiment.controller.kp, own.kp)
    assert loop.gains_known
    assert not loop.notes


def test_runs_that_are_lost_or_astray_are_none(record):
    recorded = record()
    loop, robot = recorded.loop(), recorded.robot
    backwards, adrift = robot.theta.copy(), robot.theta.copy()
    backwards[robot.layout.rotor] = -5.0  # pushed one way, it goes the other
    adrift[robot.layout.inertial] *= 1000.0  # too heavy for its motors
    made = loop.simulated(np.stack([backwards, robot.theta, adrift]))
    assert [run is None for run in made] == [True, False, True]
    runs = loop.runs(np.stack([backwards, robot.theta, adrift]), "tau", [1])
    assert [run is None for run in runs] == [True, False, True]
    assert loop.tangent(loop.legs[0], backwards, "q", 1) is None
    q, dq = loop.tangent(loop.legs[0], robot.theta, "q", 2)
    assert dq.shape == (*q.shape, recorded.problem.size)
    np.testing.assert_allclose(q, runs_of_q(loop, robot)[::2], atol=1e-12)


def runs_of_q(loop: ClosedLoop, robot: Robot):
    return loop.runs(robot.theta[None], "q", [1])[0][0]


def test_misfit_is_in_shares_of_the_motion(record):
    recorded = record()
    loop, problem = recorded.loop(), recorded.problem
    motion = problem.motions[0]
    shifted = replace(motion, q=motion.q + 0.1 * motion.q.std(axis=0))
    assert loop.misfit(problem) == 0.0
    assert loop.misfit(replace(problem, motions=(shifted,))) == pytest.approx(0.1)


@pytest.mark.parametrize("told", [True, False])
def test_joints_stand_where_the_recorded_ones_did(told, arm, record):
    recorded = record(arm(width=0.0), told=told, still_speed=0.02)
    still = standing(recorded.run.v[0], 0.02)
    assert 0 < still.sum() < still.size / 2
    wrong = recorded.problem.robot.theta
    made = recorded.loop().simulated(wrong[None])[0]
    assert not np.array_equal(standing(made.motions[0].v, 0.02), still)
    np.testing.assert_array_equal(made.motions[0].still, still)
    for mine, theirs in zip(recorded.problem.blocks(), made.blocks(), strict=True):
        np.testing.assert_array_equal(mine.use, theirs.use)
        np.testing.assert_array_equal(mine.use, ~still)


def test_what_was_said_of_standstill_is_kept(record):
    recorded = record(still_speed=0.02)
    said = np.zeros((recorded.run.t.size, 2), dtype=bool)
    said[10:20, 1] = True
    motion = replace(recorded.problem.motions[0], still=said)
    told = replace(recorded, problem=replace(recorded.problem, motions=(motion,)))
    made = told.loop().simulated(recorded.robot.theta[None])[0]
    np.testing.assert_array_equal(made.motions[0].still, said)
    assert record().loop().simulated(recorded.robot.theta[None])[0].motions[0].still is None
