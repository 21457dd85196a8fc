from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from bodysense.errors import FileWriteError, MismatchError, TrajectoryError
from bodysense.excitation import FourierTrajectory, SampledTrajectory
from bodysense.excitation.trajectory_file import (
    read_trajectory,
    write_poses,
    write_trajectory,
)
from bodysense.logs.layout import ChannelColumn, LogLayout
from bodysense.logs.read import read_log

JOINTS = ("hip", "knee")


def table(folder: Path, text: str) -> Path:
    path = folder / "motion.csv"
    path.write_text(text)
    return path


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_written_motion_comes_back(suffix, tmp_path, rng):
    limits = {"lower": -1.0, "upper": 1.0, "velocity": 3.0, "acceleration": 20.0}
    motion = FourierTrajectory.random(2, duration=2.0, harmonics=4, rng=rng, **limits)
    path = write_trajectory(tmp_path / f"motion{suffix}", motion, JOINTS, 200.0)
    again = read_trajectory(path, JOINTS)
    t = np.linspace(0.0, 2.0, 999)
    assert again.duration == motion.duration
    for mine, theirs, within in zip(again(t), motion(t), (1e-8, 1e-5, 1e-3), strict=True):
        np.testing.assert_allclose(mine, theirs, atol=within)


def test_columns_go_by_name_and_time_starts_at_the_first_row(tmp_path):
    rows = "t,tau.hip,q.knee,q.hip\n10,7,3,1\n11,7,4,2\n12,7,5,3\n"
    motion = read_trajectory(table(tmp_path, rows), JOINTS)
    q, v, _ = motion([0.0, 1.0, 2.0])
    np.testing.assert_allclose(q, [[1.0, 3.0], [2.0, 4.0], [3.0, 5.0]], atol=1e-12)
    np.testing.assert_allclose(v[[0, 2]], 0.0, atol=1e-12)
    assert motion.duration == 2.0


def test_a_piece_of_a_running_motion_keeps_its_speed_at_the_ends(tmp_path):
    rows = "t,q.hip,q.knee\n" + "".join(f"{k},{2 * k},{-k}\n" for k in range(8))
    motion = read_trajectory(table(tmp_path, rows), JOINTS, at_rest=False)
    np.testing.assert_allclose(motion([0.0, 7.0])[1], [[2.0, -1.0]] * 2, atol=1e-9)


def test_degrees_that_say_so_are_turned_into_radians(tmp_path):
    motion = read_trajectory(table(tmp_path, "t,q.hip [deg],q.knee\n0,0,0\n1,90,1\n"), JOINTS)
    np.testing.assert_allclose(motion([1.0])[0], [[np.pi / 2, 1.0]])


def test_a_file_whose_columns_have_no_names(tmp_path):
    layout = LogLayout(
        channels=(ChannelColumn("q.knee", 1, "rad"), ChannelColumn("q.hip", 2, "rad")), rate=2.0
    )
    motion = read_trajectory(table(tmp_path, "1,3\n2,4\n3,5\n"), JOINTS, layout=layout)
    np.testing.assert_allclose(motion([0.0, 1.0])[0], [[3.0, 1.0], [5.0, 3.0]])


def test_a_file_with_more_joints(tmp_path):
    path = table(tmp_path, "t,q.hip,q.knee,q.ankle,v.ankle\n0,1,2,3,0\n1,2,3,4,0\n")
    with pytest.raises(MismatchError, match=r"also has q\.ankle, which the robot has not"):
        read_trajectory(path, JOINTS)


def test_the_file_of_another_robot(tmp_path):
    path = table(tmp_path, "t,q.hip,q.ankle\n0,1,2\n1,2,3\n")
    with pytest.raises(MismatchError, match=r"has no column q\.knee; it has q\.hip, q\.ankle"):
        read_trajectory(path, JOINTS)


@pytest.mark.parametrize("value", ["nan", "inf"])
def test_values_that_are_no_numbers(value, tmp_path):
    path = table(tmp_path, f"t,q.hip,q.knee\n0,1,2\n1,{value},3\n2,1,2\n")
    with pytest.raises(TrajectoryError, match=r"row 3"):
        read_trajectory(path, JOINTS)


def test_rows_that_are_cut_short(tmp_path):
    path = table(tmp_path, "t,q.hip,q.knee\n0,1,2\n1,2\n2,1,2\n")
    with pytest.raises(TrajectoryError, match=r"row 3"):
        read_trajectory(path, JOINTS)


@pytest.mark.parametrize("time", ["0.5", "1"])
def test_time_that_does_not_ascend(time, tmp_path):
    path = table(tmp_path, f"t,q.hip,q.knee\n0,1,2\n1,2,3\n{time},1,2\n")
    with pytest.raises(TrajectoryError, match=r"row 4: t = .* s after 1 s .*sort the rows"):
        read_trajectory(path, JOINTS)


def test_a_single_row(tmp_path):
    with pytest.raises(TrajectoryError, match="through 1 points"):
        read_trajectory(table(tmp_path, "t,q.hip,q.knee\n0,1,2\n"), JOINTS)


def test_names_and_axes_that_do_not_match(tmp_path, rng):
    limits = {"lower": -1.0, "upper": 1.0, "velocity": 3.0, "acceleration": 20.0}
    motion = FourierTrajectory.random(2, duration=2.0, harmonics=4, rng=rng, **limits)
    with pytest.raises(MismatchError, match="1 joint names"):
        write_trajectory(tmp_path / "motion.csv", motion, ["hip"], 100.0)
    assert not list(tmp_path.iterdir())


@pytest.fixture
def motion(rng) -> FourierTrajectory:
    limits = {"lower": -1.0, "upper": 1.0, "velocity": 3.0, "acceleration": 20.0}
    return FourierTrajectory.random(2, duration=2.3, harmonics=4, rng=rng, **limits)


def test_a_message_holds_the_samples_to_the_last_bit(tmp_path, motion):
    path = write_trajectory(tmp_path / "m.yaml", motion, JOINTS, 30.0)
    message = yaml.safe_load(path.read_text("utf-8"))
    t, q, v, a = motion.sample(30.0)
    assert list(message) == ["joint_names", "points"]
    assert message["joint_names"] == list(JOINTS)
    for key, values in (("positions", q), ("velocities", v), ("accelerations", a)):
        np.testing.assert_array_equal([point[key] for point in message["points"]], values)
    times = [point["time_from_start"] for point in message["points"]]
    assert all(type(part) is int for stamp in times for part in stamp.values())
    seconds = [stamp["sec"] + 1e-9 * stamp["nanosec"] for stamp in times]
    np.testing.assert_allclose(seconds, t, atol=1e-9)
    assert all(0 <= stamp["nanosec"] < 10**9 for stamp in times)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_number_is_read_as_a_number(value):
    from bodysense.excitation.trajectory_file import _number

    read = yaml.safe_load(_number(value))
    assert isinstance(read, float)
    assert read == value


@pytest.mark.parametrize("name", ["on", "1", 'a"b', "x: y", "[", "#", "关节", "\\n", "~"])
def test_names_stay_names(name, tmp_path, motion):
    path = write_trajectory(tmp_path / "m.yaml", motion, (name, "knee"), 10.0)
    assert yaml.safe_load(path.read_text("utf-8"))["joint_names"] == [name, "knee"]


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_tables_can_be_followed(suffix, tmp_path, motion):
    path = write_trajectory(tmp_path / f"m{suffix}", motion, JOINTS, 200.0, sliding=("knee",))
    again = read_trajectory(path, JOINTS)
    t = np.linspace(0.0, 2.3, 200)
    np.testing.assert_allclose(again(t)[0], motion(t)[0], atol=1e-7)
    units = read_log(path).units
    assert (units["q.hip"], units["q.knee"], units["a.knee"]) == ("rad", "m", "m/s²")


@pytest.mark.parametrize("suffix", [".yaml", ".YML"])
def test_messages_by_suffix(suffix, tmp_path, motion):
    path = write_trajectory(tmp_path / f"m{suffix}", motion, JOINTS, 10.0)
    assert "points" in yaml.safe_load(path.read_text("utf-8"))


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_poses_come_back(suffix, tmp_path, rng):
    q = rng.normal(size=(5, 2))
    log = read_log(write_poses(tmp_path / f"p{suffix}", q, JOINTS, sliding=("hip",)))
    np.testing.assert_array_equal(np.stack([log.channels[f"q.{n}"] for n in JOINTS], axis=1), q)
    np.testing.assert_array_equal(log.t, np.arange(5.0))
    assert log.units["q.hip"] == "m"


def test_unknown_suffix(tmp_path, motion):
    with pytest.raises(FileWriteError, match=r"m\.xlsx: a motion is written as \.csv"):
        write_trajectory(tmp_path / "m.xlsx", motion, JOINTS, 10.0)


@pytest.mark.parametrize("name", ["m.yaml", "m.csv"])
def test_too_few_names(name, tmp_path, motion):
    with pytest.raises(MismatchError, match="1 joint names"):
        write_trajectory(tmp_path / name, motion, JOINTS[:1], 10.0)
    assert list(Path(tmp_path).iterdir()) == []


def test_too_few_names_for_poses(tmp_path):
    with pytest.raises(MismatchError, match="1 joint names"):
        write_poses(tmp_path / "p.csv", np.zeros((2, 2)), JOINTS[:1])


def test_a_duration_that_the_rate_does_not_divide(tmp_path):
    motion = SampledTrajectory([0.0, 0.5, 1.05], [[0.0], [1.0], [0.0]])
    path = write_trajectory(tmp_path / "m.yaml", motion, ("hip",), 10.0)
    points = yaml.safe_load(path.read_text("utf-8"))["points"]
    assert points[-2]["time_from_start"] == {"sec": 1, "nanosec": 0}
    assert points[-1]["time_from_start"] == {"sec": 1, "nanosec": 50_000_000}
    assert points[-1]["velocities"] == pytest.approx([0.0], abs=1e-9)
    table = write_trajectory(tmp_path / "m.csv", motion, ("hip",), 10.0)
    again = read_trajectory(table, ("hip",))
    assert again.duration == pytest.approx(1.05)
    assert again([1.05])[0] == pytest.approx(0.0, abs=1e-12)
