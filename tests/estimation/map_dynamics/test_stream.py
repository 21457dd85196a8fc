"""The estimator in a loop: the same numbers, whatever arrives or not."""

from __future__ import annotations

import time

import numpy as np
import pytest
import yaml
from pushed_arm import ARM, SENSORS

from bodysense.errors import MismatchError, ShapeError, UnknownNameError
from bodysense.estimation import EstimatorStream, MapDynamics, Sample, parse_estimation
from bodysense.robot import load_robot

Q, DQ = np.array([0.1, -0.4, 0.7]), np.array([1.0, 0.5, -2.0])


@pytest.fixture(scope="module")
def problem() -> MapDynamics:
    robot = load_robot(ARM)
    return parse_estimation(yaml.safe_load(SENSORS), robot, "s.yaml").problem(robot)


@pytest.fixture
def y(problem, rng):
    return rng.normal(size=problem.layout.size)


@pytest.fixture
def stream(problem) -> EstimatorStream:
    """Readings are drawn at random, and do not fit each other."""
    return EstimatorStream(problem, robust=False)


def by_name(problem: MapDynamics, y: np.ndarray) -> dict:
    return {name: y[where] for name, where in problem.layout.slices.items()}


def same(found, expected) -> None:
    np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found.variance, expected.variance, rtol=1e-12)
    for name, residual in expected.residual.items():
        np.testing.assert_allclose(found.residual[name], residual, rtol=1e-9, atol=1e-12)


def test_a_step_is_an_estimate(problem, stream, y):
    expected = problem.estimate(Q, DQ, y)
    same(stream.step(Sample(0.0, Q, DQ, y)), expected)
    found = stream.step(Sample(0.1, list(Q), list(DQ), by_name(problem, y)))
    same(found, expected)
    assert (found.notes, dict(found.absent)) == ((), {})
    assert stream.counts.pop("samples") == 2
    assert not any(stream.counts.values())


def test_steps_do_not_write_over_what_they_returned(problem, stream, y):
    first = stream.step(Sample(0.0, Q, DQ, y))
    kept, residual = first.mean.copy(), first.residual["wrist"].copy()
    stream.step(Sample(0.1, -Q, DQ, -y))
    np.testing.assert_array_equal(first.mean, kept)
    np.testing.assert_array_equal(first.residual["wrist"], residual)


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e30])
def test_bad_readings_are_absent_and_counted(problem, stream, y, value):
    bad = y.copy()
    bad[problem.layout.slices["wrist"].start + 2] = value
    gone = y.copy()
    gone[problem.layout.slices["wrist"]] = np.nan
    found = stream.step(Sample(0.0, Q, DQ, bad))
    same(found, problem.estimate(Q, DQ, gone))
    assert dict(found.absent) == {"wrist": 1}
    assert stream.absent["wrist"] == 1
    assert stream.absent["acc"] == 0
    assert stream.counts["absurd"] == (0 if np.isnan(value) else 1)


def test_sensors_that_have_not_arrived_are_absent(problem, stream, y):
    some = by_name(problem, y)
    del some["acc"], some["torque.pan"]
    gone = y.copy()
    gone[problem.layout.slices["acc"]] = gone[problem.layout.slices["torque.pan"]] = np.nan
    found = stream.step(Sample(0.0, Q, DQ, some))
    same(found, problem.estimate(Q, DQ, gone))
    assert set(found.absent) == {"acc", "torque.pan"}
    empty = stream.step(Sample(0.1, Q, DQ, {}))
    assert np.isfinite(empty.mean).all()
    assert len(empty.absent) == len(problem.sensors)


def test_constants_need_not_arrive():
    robot = load_robot(ARM)
    text = "sensors: {still: {kind: joint_acceleration, joint: all, constant: 2, std: 0.1}}"
    problem = parse_estimation(yaml.safe_load(text), robot, "s.yaml").problem(robot)
    found = EstimatorStream(problem).step(Sample(0.0, Q, DQ, {}))
    assert found["ddq.elbow"][0] == pytest.approx(2.0, abs=1e-6)
    assert dict(found.absent) == {}


def test_missing_base_twists_stay_as_they_were(robot_of, rng):
    solo = robot_of("example:solo12")
    problem = MapDynamics(solo, ())
    q, dq = rng.normal(size=(2, solo.n_joints))
    stream, twist = EstimatorStream(problem), np.array([0.1, 0.2, 0.3, 1.0, 2.0, 3.0])
    before = stream.step(Sample(0.0, q, dq, {}, twist))
    assert before.notes == ()
    twist[3] = np.nan
    found = stream.step(Sample(0.1, q, dq, {}, twist))
    np.testing.assert_array_equal(found.mean, before.mean)
    assert "base twist" in found.notes[0]
    assert stream.counts["base twists predicted"] == 1


def test_positions_that_never_arrived_are_named(stream, y):
    with pytest.raises(MismatchError, match="no position of pan"):
        stream.step(Sample(0.0, [np.nan, 0.0, 0.0], DQ, y))


def test_late_samples_are_left_out_or_used(problem, y):
    ignoring = EstimatorStream(problem, robust=False)
    using = EstimatorStream(problem, late="use", robust=False)
    for stream in (ignoring, using):
        stream.step(Sample(1.0, Q, DQ, y))
    for t in (0.5, 1.0, np.nan):
        kept = ignoring.step(Sample(t, -Q, DQ, y))
        same(kept, problem.estimate(Q, DQ, y))
        assert "late" in kept.notes[0]
        same(using.step(Sample(t, -Q, DQ, y)), problem.estimate(-Q, DQ, y))
    assert ignoring.counts["late"] == using.counts["late"] == 3
    assert ignoring.step(Sample(1.1, Q, DQ, y)).notes == ()
    ignoring.restart()
    assert ignoring.step(Sample(0.1, Q, DQ, y)).notes == ()


def test_what_cannot_be_computed_is_not_returned(problem, stream, y, monkeypatch):
    before = stream.step(Sample(0.0, Q, DQ, y))
    solve_into = problem.solve_into

    def broken(samples, found):
        solve_into(samples, found)
        found.d[:] = np.nan

    monkeypatch.setattr(problem, "solve_into", broken)
    found = stream.step(Sample(0.1, Q, DQ, y))
    np.testing.assert_array_equal(found.mean, before.mean)
    assert "before" in found.notes[-1]
    assert stream.counts["not finite"] == 1
    first = EstimatorStream(problem).step(Sample(0.0, Q, DQ, y))
    assert np.isfinite(first.mean).all()


def test_a_root_that_is_held_or_floats(robot_of, rng):
    icub = robot_of("example:icub")
    held = MapDynamics(icub, (), base="r_ankle_2", fixed=True)
    q, dq = rng.normal(size=(2, icub.n_joints))
    gravity = np.array([0.0, 1.0, -9.7])
    found = EstimatorStream(held, gravity=gravity, detail="means").step(Sample(0.0, q, dq, {}))
    np.testing.assert_allclose(
        found.mean, held.estimate(q, dq, np.zeros(0), gravity=gravity).mean, atol=1e-9
    )
    assert found.variance is None
    free = MapDynamics(icub, ())
    twist = rng.normal(size=6)
    found = EstimatorStream(free).step(Sample(0.0, q, dq, {}, base_twist=twist))
    np.testing.assert_allclose(
        found.mean, free.estimate(q, dq, np.zeros(0), base_twist=twist).mean, atol=1e-9
    )


@pytest.mark.parametrize(
    ("sample", "error", "word"),
    [
        (Sample(0.0, Q[:2], DQ, {}), ShapeError, "pan, lift, elbow"),
        (Sample(0.0, Q, DQ, {"wrst": np.zeros(6)}), UnknownNameError, "wrist"),
        (Sample(0.0, Q, DQ, {"wrist": np.zeros(5)}), ShapeError, "wrist"),
        (Sample(0.0, Q, DQ, np.zeros(3)), ShapeError, "readings have shape"),
        (Sample(0.0, Q, DQ, {}, base_twist=np.zeros(3)), ShapeError, "base_twist"),
    ],
)
def test_wrong_samples_are_named(stream, sample, error, word):
    with pytest.raises(error, match=word):
        stream.step(sample)


def test_wrong_policies_are_named(problem):
    with pytest.raises(UnknownNameError, match="late"):
        EstimatorStream(problem, late="queue")
    with pytest.raises(UnknownNameError, match="detail"):
        EstimatorStream(problem, detail="blocks")


def test_a_step_costs_little_beside_the_kernel(problem, stream, y):
    def best(call) -> float:
        times = []
        for _ in range(300):
            start = time.perf_counter()
            call()
            times.append(time.perf_counter() - start)
        return min(times)

    clock = iter(range(1000))
    step = best(lambda: stream.step(Sample(float(next(clock)), Q, DQ, y)))
    samples = problem.samples(Q, DQ, y)
    alone = best(lambda: problem.solve(samples))
    assert step - alone < 150e-6  # measured: 25 to 45 µs on a quiet machine
