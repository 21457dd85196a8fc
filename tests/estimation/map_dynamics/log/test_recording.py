"""From a log to samples: what is filtered, interpolated, left out and refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import yaml
from pushed_arm import SENSORS, Pushed, pushed_arm

from bodysense.errors import BodysenseError, MismatchError, ShapeError, UnusableLogError
from bodysense.estimation import MapDynamics, parse_estimation
from bodysense.estimation.map_dynamics.log.recording import Recording
from bodysense.logs.filtering import lowpass
from bodysense.logs.log import Log, RowFault
from bodysense.sensors import JointVelocity, variances


@pytest.fixture(scope="module")
def pushed() -> Pushed:
    return pushed_arm(np.random.default_rng(1))


@pytest.fixture(scope="module")
def problem(pushed: Pushed) -> MapDynamics:
    table = yaml.safe_load(SENSORS)
    return parse_estimation(table, pushed.robot, "s.yaml").problem(pushed.robot)


def raw(pushed: Pushed, **changes) -> Log:
    """The log with some channels replaced, or left out (None)."""
    log = replace(pushed.log, source="run.csv")
    channels = {**log.channels, **changes}
    return replace(log, channels={k: v for k, v in channels.items() if v is not None})


def scaled(pushed: Pushed, factor: float, *names: str) -> Log:
    return raw(pushed, **{name: factor * pushed.log.channels[name] for name in names})


def test_motion_and_readings_come_out(pushed, problem):
    r = Recording.from_log(problem, pushed.log)
    used = slice(10, -10)  # a period of the cut-off is left out at each end
    np.testing.assert_allclose(
        r.q, pushed.log.joints("q", ("pan", "lift", "elbow"))[used], atol=1e-3
    )
    at = problem.layout.slices["motion.elbow"]
    np.testing.assert_allclose(r.readings[:, at][:, 0], pushed.ddq[used, 2], atol=0.5)
    wrist = problem.layout.slices["wrist"]
    fz = lowpass(pushed.log.channels["wrist.fz"][:, None], 100.0, r.noise.cutoff)[used, 0]
    np.testing.assert_allclose(r.readings[:, wrist][:, 2], fz, atol=1e-9)
    assert r.counts == {"near an end or a gap": 20}
    assert (r.notes, r.starts, r.base_twist) == ((), (0,), None)


def test_a_channel_of_accelerations_counts_before_differences(pushed, problem):
    log = raw(pushed, **{"a.elbow": np.full(pushed.log.t.size, 7.0)})
    r = Recording.from_log(problem, log)
    read = r.readings[:, problem.layout.slices["motion.elbow"]]
    np.testing.assert_allclose(read, 7.0, atol=1e-6)


def test_uneven_times_give_the_same_motion(pushed, problem, rng):
    t = pushed.log.t + rng.uniform(-2e-3, 2e-3, pushed.log.t.size)
    w, phase = np.array([2.0, 3.0, 4.0]), np.array([0.3, 1.0, 2.0])
    q = 0.6 * np.sin(np.outer(t, w) + phase)
    log = replace(
        raw(pushed, **{f"q.{n}": q[:, j] for j, n in enumerate(("pan", "lift", "elbow"))}), t=t
    )
    r = Recording.from_log(problem, log)
    assert np.isin(r.t, t).all()
    assert r.t.size >= 379
    v = 0.6 * w * np.cos(np.outer(r.t, w) + phase)
    np.testing.assert_allclose(r.dq[10:-10], v[10:-10], atol=5e-3)


def test_short_gaps_are_bridged_and_long_ones_counted(pushed, problem):
    q = np.array(pushed.log.channels["q.lift"])
    q[50:53] = np.nan
    q[200:240] = np.nan
    r = Recording.from_log(problem, raw(pushed, **{"q.lift": q}))
    assert r.counts == {"with missing positions": 40, "near an end or a gap": 40}
    assert r.starts == (0, 180)
    assert r.t.size == 321
    np.testing.assert_allclose(r.q[40:43, 1], pushed.log.channels["q.lift"][50:53], atol=1e-3)
    assert "40 rows with missing positions" in r.left_out
    assert any("3 interpolated, in gaps of at most 0.1 s" in note for note in r.notes)
    assert not any("interpolated" in note for note in Recording.from_log(problem, pushed.log).notes)


def test_samples_that_are_too_rare_are_told(pushed, problem):
    log = raw(pushed)
    slow = Recording.from_log(problem, replace(log, t=6.0 * log.t), cutoff=10.0)
    assert any("samples per second are too few" in note for note in slow.notes)
    with pytest.raises(UnusableLogError, match=r"time-unit.*time: \{unit: ms\}"):
        Recording.from_log(problem, replace(log, t=1000.0 * log.t))
    assert not any("samples" in note for note in Recording.from_log(problem, log).notes)
    many = Recording.from_log(problem, log, cutoff=5000.0)
    assert any("too few for a cut-off of 5000 Hz" in note for note in many.notes)


def test_a_log_that_states_no_units_may_have_joints_that_slide(robot_of):
    """The usual unit of a channel, which a reader then takes, is that of a joint that turns."""
    robot = robot_of("example:panda")
    table = {"sensors": {"motors": {"kind": "joint_torque", "joint": "all", "std": 0.1}}}
    problem = parse_estimation(table, robot, "s.yaml").problem(robot)
    t = np.arange(0.0, 2.0, 0.01)
    names = [f"{x}.{joint}" for x in ("q", "tau") for joint in robot.joint_names]
    log = replace(Log.of(t, {name: 0.03 * np.sin(t) for name in names}), source="run.csv")
    usual = {name: "rad" if name.startswith("q") else "N·m" for name in names}
    r = Recording.from_log(problem, replace(log, units=usual))
    assert np.isfinite(r.readings).all()
    wrong = {**usual, f"tau.{robot.joint_names[0]}": "N"}  # it turns
    with pytest.raises(MismatchError, match="is in N, and"):
        Recording.from_log(problem, replace(log, units=wrong))


def test_missing_readings_are_absent(pushed, problem):
    tau = np.array(pushed.log.channels["tau.pan"])
    tau[30], tau[31] = np.nan, np.inf
    r = Recording.from_log(problem, raw(pushed, **{"tau.pan": tau}))
    at = problem.layout.slices["torque.pan"]
    assert np.isnan(r.readings[20:22, at]).all()
    assert np.isfinite(r.readings[22:, at]).all()


def test_invalid_times_and_late_rows_are_left_out(pushed, problem):
    t = np.array(pushed.log.t)
    t[5], t[9], t[100] = np.nan, 1e12, t[99]
    r = Recording.from_log(problem, replace(raw(pushed), t=t))
    del r.counts["near an end or a gap"]
    assert r.counts == {"with invalid timestamps or values": 2, "late or repeated": 1}
    assert (np.diff(r.t) > 0).all()


def test_what_the_reader_noticed_is_passed_on(pushed, problem):
    log = replace(raw(pushed), faults=(RowFault(7, "too few values"),), notes=("a note",))
    r = Recording.from_log(problem, log)
    assert r.counts["that cannot be read"] == 1
    assert r.notes == ("a note",)


def test_rows_of_a_recording(pushed, problem):
    """Late rows are left out and a pause splits; what is missing for longer is not interpolated."""
    log = raw(pushed)
    t = np.array(log.t)
    t[200:] += 5.0
    t[300] = t[280]
    q = np.array(pushed.log.channels["q.pan"])
    q[100:109] = np.nan  # 0.1 s from good to good
    q[150:162] = np.nan
    r = Recording.from_log(problem, replace(raw(pushed, **{"q.pan": q}), t=t))
    assert r.counts["late or repeated"] == 1
    assert r.counts["with missing positions"] == 12
    assert (np.diff(r.t) > 0).all()
    assert [r.t[k] for k in r.starts] == pytest.approx([0.1, 1.72, 7.1], abs=0.015)
    assert np.isin(t[100:109], r.t).all()


# -- what is refused ---------------------------------------------------------------------------


def test_a_log_of_another_robot_is_named(pushed, problem):
    names = {f"q.{n}": None for n in ("pan", "lift", "elbow")}
    other = raw(pushed, **names, **{"q.joint1": pushed.log.channels["q.pan"]})
    with pytest.raises(
        MismatchError, match=r"no positions of pan, lift, elbow.*joint1.*another robot"
    ):
        Recording.from_log(problem, other)


def test_missing_channels_are_named(pushed, problem):
    with pytest.raises(MismatchError, match=r"wrist.fz of wrist.*layout file"):
        Recording.from_log(problem, raw(pushed, **{"wrist.fz": None}))


def test_a_channel_of_another_unit_is_refused(pushed, problem):
    log = raw(pushed)
    units = {**log.units, "acc.x": "rad/s"}
    with pytest.raises(MismatchError, match=r"acc.x.*rad/s.*reads m/s²"):
        Recording.from_log(problem, replace(log, units=units))


def test_positions_in_degrees_are_refused(pushed, problem):
    names = [f"q.{name}" for name in pushed.robot.joint_names]
    with pytest.raises(UnusableLogError, match=r"run.csv cannot be estimated from: degrees, q.pan"):
        Recording.from_log(problem, scaled(pushed, 180 / np.pi, *names))
    log = raw(pushed)
    declared = replace(log, units={**log.units, "q.pan": "deg"})
    with pytest.raises(UnusableLogError, match=r"degrees, q.pan: the source says"):
        Recording.from_log(problem, declared)


def test_velocities_of_other_joints_are_refused(pushed, problem):
    t, names = pushed.log.t, ("pan", "lift", "elbow")
    v = [np.gradient(pushed.log.channels[f"q.{name}"], t) for name in names]
    right = {f"v.{name}": x for name, x in zip(names, v, strict=True)}
    assert Recording.from_log(problem, raw(pushed, **right)).notes == ()
    wrong = {**right, "v.pan": v[1], "v.lift": v[0]}
    with pytest.raises(UnusableLogError, match=r"swapped-joints, pan, lift"):
        Recording.from_log(problem, raw(pushed, **wrong))


def test_a_spike_of_an_encoder_is_interpolated(pushed, problem):
    q = np.array(pushed.log.channels["q.lift"])
    q[200] += 20.0
    r = Recording.from_log(problem, raw(pushed, **{"q.lift": q}))
    clean = Recording.from_log(problem, pushed.log)
    np.testing.assert_allclose(r.q, clean.q[np.isin(clean.t, r.t)], atol=1e-3)


@pytest.mark.parametrize("cutoff", [0.0, -1.0, np.nan, np.inf])
def test_a_cutoff_is_positive(pushed, problem, cutoff):
    with pytest.raises(ShapeError, match="cut-off"):
        Recording.from_log(problem, pushed.log, cutoff=cutoff)


def test_nothing_left_is_said(pushed, problem):
    nothing = np.full(pushed.log.t.size, np.nan)
    with pytest.raises(UnusableLogError, match=r"dead-channel, q.pan: no finite value"):
        Recording.from_log(problem, raw(pushed, **{"q.pan": nothing}))
    few = Log.of(pushed.log.t[:15], {k: x[:15] for k, x in pushed.log.channels.items()})
    with pytest.raises(UnusableLogError, match=r"longer than 0\.2 s"):
        Recording.from_log(problem, few)
    empty = Log.of([], {name: [] for name in pushed.log.channels})
    with pytest.raises(BodysenseError):
        Recording.from_log(problem, empty)


# -- units that cannot be right ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("factor", "names", "words"),
    [
        (1 / 9.81, ("acc.x", "acc.y", "acc.z"), ("'acc'", "in g:", "unit: g")),
        (100.0, ("acc.x", "acc.y", "acc.z"), ("'acc'", "cm/s²")),
        (1000.0, ("acc.x", "acc.y", "acc.z"), ("'acc'", "mm/s²")),
        (180 / np.pi, ("gyro.x", "gyro.y", "gyro.z"), ("'gyro'", "deg/s")),
        (1000.0, ("tau.lift",), ("'torque.lift'", "times the effort limit of the joint")),
    ],
)
def test_doubtful_units_are_named(pushed, problem, factor, names, words):
    notes = Recording.from_log(problem, scaled(pushed, factor, *names)).notes
    assert any(all(word in note for word in words) for note in notes), notes


def test_velocities_are_held_against_the_motion(pushed):
    sensor = JointVelocity(name="v", joint="pan", covariance=variances(0.1, 1))
    problem = MapDynamics(pushed.robot, [sensor])
    v = 60.0 / (2.0 * np.pi) * np.gradient(pushed.log.channels["q.pan"], pushed.log.t)
    (note,) = Recording.from_log(problem, raw(pushed, **{"v.pan": v})).notes
    assert "rpm" in note


def test_a_dead_channel_is_named(pushed, problem):
    log = raw(pushed, **{"tau.pan": np.full(pushed.log.t.size, np.nan)})
    assert any("no reading at all" in note for note in Recording.from_log(problem, log).notes)


def test_a_channel_that_speaks_rarely_is_not_dead(pushed, problem):
    tau = np.array(pushed.log.channels["tau.pan"])
    tau[np.arange(tau.size) != 205] = np.nan
    rarely = Recording.from_log(problem, raw(pushed, **{"tau.pan": tau}))
    assert np.isfinite(rarely.readings[:, 0]).sum() == 1
    seen = np.linspace(0, rarely.t.size - 1, 200).astype(int)
    assert not np.isfinite(rarely.readings[seen, 0]).any()  # thinned first, it would look dead
    assert not any("no reading" in note for note in rarely.notes)
