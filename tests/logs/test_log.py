import numpy as np
import pytest

from bodysense.doctor import examine
from bodysense.errors import MismatchError, ShapeError
from bodysense.excitation import FourierTrajectory
from bodysense.logs import Log, read_log, write_log
from bodysense.robot import load_robot
from bodysense.simulation import rollout

T = np.array([0.0, 0.1, 0.25])


def test_channels_come_back_in_the_order_of_the_joints():
    log = Log.of(T, {"q.b": [1, 2, 3], "q.a": [4, 5, 6], "tau.a": [7, 8, 9]}, {"tau.a": "mN·m"})
    np.testing.assert_array_equal(log.joints("q", ("a", "b")), [[4, 1], [5, 2], [6, 3]])
    assert log.units == {"q.b": "rad", "q.a": "rad", "tau.a": "mN·m"}
    assert repr(log) == "<Log log: 3 channels, 3 samples over 0.25 s>"
    assert log.joints("q", ()).shape == (3, 0)


def test_a_log_cannot_be_changed():
    values = np.ones(3)
    log = Log.of(T, {"q.a": values})
    values[0] = 5.0
    assert log.channels["q.a"][0] == 1.0
    with pytest.raises(ValueError, match="read-only"):
        log.channels["q.a"][0] = 2.0
    with pytest.raises(TypeError):
        log.channels["q.b"] = values


def test_nan_is_no_reading_as_an_empty_cell_is(tmp_path):
    """A log with NaN equals that of a table with empty cells, and the doctor judges both alike."""
    robot = load_robot("tx40")
    motion = FourierTrajectory.for_robot(
        robot, duration=2.0, harmonics=5, rng=np.random.default_rng(0)
    )
    whole = rollout(robot, motion, sampling_rate=200.0).log()
    channels = {name: values.copy() for name, values in whole.channels.items()}
    channels["q.joint2"][100:110] = np.nan
    channels["tau.joint5"][200] = np.nan
    log = Log.of(whole.t, channels, whole.units)
    path = tmp_path / "gaps.csv"
    write_log(path, log)
    path.write_text(path.read_text().replace("nan", ""))
    read = read_log(path)
    assert set(read.channels) == set(log.channels)
    for name, values in log.channels.items():
        np.testing.assert_array_equal(read.channels[name], values)
    ours, theirs = examine(robot, log), examine(robot, read)
    for found in (ours, theirs):
        finding = next(f for f in found.findings if f.kind == "nan")
        assert "in 11 of 401 rows" in finding.message
        assert "1 interpolated" in finding.action
    assert ours.left_out == theirs.left_out
    assert sum(ours.left_out.values()) == 10
    assert sum(segment.t.size for segment in ours.segments) == whole.t.size - 10
    for mine, other in zip(ours.segments, theirs.segments, strict=True):
        assert all(np.isfinite(values).all() for values in mine.channels.values())
        np.testing.assert_array_equal(mine.t, other.t)


def test_a_channel_without_any_reading_is_kept():
    log = Log.of(T, {"q.a": [1, 2, 3], "imu.x": [None, np.nan, None]})
    assert np.isnan(log.channels["imu.x"]).all()
    assert np.isnan(log.between(0.05, None).channels["imu.x"]).all()


def test_a_log_of_another_robot_is_refused():
    robot = load_robot("tx40")
    motion = FourierTrajectory.for_robot(
        robot, duration=0.2, harmonics=5, rng=np.random.default_rng(0)
    )
    log = rollout(robot, motion, sampling_rate=100.0).log()
    assert log.joints("q", robot.joint_names).shape == (21, 6)
    other = load_robot("example:ur5")
    with pytest.raises(MismatchError, match=r"no 'q' of joints shoulder_pan_joint.*another robot"):
        log.joints("q", other.joint_names)
    with pytest.raises(MismatchError, match=r"no 'i' of joints joint1.*it has it of none"):
        log.joints("i", robot.joint_names)


def test_the_log_of_a_run_is_what_was_measured():
    robot = load_robot("tx40")
    motion = FourierTrajectory.for_robot(
        robot, duration=0.2, harmonics=5, rng=np.random.default_rng(0)
    )
    run = rollout(
        robot,
        motion,
        runs=2,
        position_noise=1e-4,
        torque_noise=0.1,
        rng=np.random.default_rng(1),
    )
    log = run.log(1)
    np.testing.assert_array_equal(log.joints("q", robot.joint_names), run.q_measured[1])
    np.testing.assert_array_equal(log.joints("tau", robot.joint_names), run.tau_measured[1])
    with pytest.raises(ShapeError, match="run is 2: there are 2"):
        run.log(2)


@pytest.mark.parametrize(
    ("t", "channels", "message"),
    [
        ([0.0, 0.2, 0.1], {"q.a": [1, 2, 3]}, r"t\[1\] = 0.2 is followed by 0.1"),
        ([0.0, 0.0, 0.1], {"q.a": [1, 2, 3]}, "does not ascend"),
        ([0.0, np.nan, 0.1], {"q.a": [1, 2, 3]}, "t holds nan"),
        (T, {"q.a": [1, 2]}, r"q.a has shape \(2,\), expected \(3\)"),
        (T, {"q.a": [1, np.inf, 2]}, "q.a holds inf"),
        (T, {"q.a": ["x", "y", "z"]}, "q.a must be an array of numbers"),
    ],
)
def test_bad_recordings_are_refused(t, channels, message):
    with pytest.raises(ShapeError, match=message):
        Log.of(t, channels)


def test_a_unit_of_no_channel():
    with pytest.raises(MismatchError, match=r"unit of 'q\.x'"):
        Log.of(T, {"q.a": [1, 2, 3]}, {"q.x": "deg"})
