"""Recordings of ROS 2, written by other people's libraries and read by ours."""

from __future__ import annotations

import sqlite3
import sys
from pathlib import Path
from types import SimpleNamespace as Made

import numpy as np
import pytest

from bodysense.errors import FileReadError, MissingDependencyError, UnknownNameError
from bodysense.logs import RowFault, parse_layout, read_log
from bodysense.logs.ros import DecodingError, decode

rosbag2 = pytest.importorskip("rosbags.rosbag2")
typesys = pytest.importorskip("rosbags.typesys")
mcap_ros2 = pytest.importorskip("mcap_ros2.writer")

JOINT_STATE = "sensor_msgs/msg/JointState"
WRENCH = "geometry_msgs/msg/WrenchStamped"
IMU = "sensor_msgs/msg/Imu"
STORE = typesys.get_typestore(typesys.Stores.ROS2_HUMBLE)
START = 1_700_000_000_123_456_789  # ns
KINDS = ("mcap", "bag-mcap", "bag-sqlite3", "db3")


def header(time, frame=""):
    return Made(stamp=Made(sec=time // 10**9, nanosec=time % 10**9), frame_id=frame)


def joints(time, names, q=(), v=(), tau=()):
    position, velocity, effort = ([float(x) for x in values] for values in (q, v, tau))
    return JOINT_STATE, Made(
        header=header(time), name=list(names), position=position, velocity=velocity, effort=effort
    )


def wrench(time, values, frame="tool0"):
    x = dict(zip(("fx", "fy", "fz", "mx", "my", "mz"), values, strict=True))
    force, torque = Made(x=x["fx"], y=x["fy"], z=x["fz"]), Made(x=x["mx"], y=x["my"], z=x["mz"])
    return WRENCH, Made(header=header(time, frame), wrench=Made(force=force, torque=torque))


def imu(time, wxyz=(1, 0, 0, 0), gyro=(0, 0, 0), acc=(0, 0, 0), measured=True, frame="imu"):
    w, x, y, z = wxyz
    nothing = [0.0] * 9
    return IMU, Made(
        header=header(time, frame),
        orientation=Made(x=x, y=y, z=z, w=w),
        orientation_covariance=nothing if measured else [-1.0, *nothing[1:]],
        angular_velocity=Made(x=gyro[0], y=gyro[1], z=gyro[2]),
        angular_velocity_covariance=nothing,
        linear_acceleration=Made(x=acc[0], y=acc[1], z=acc[2]),
        linear_acceleration_covariance=nothing,
    )


def typed(kind, message):
    """The same message in the types of rosbags."""

    def build(name, value):
        made = STORE.types[name]
        fields = {}
        for field, (node, detail) in STORE.get_msgdef(name).fields:
            given = getattr(value, field)
            if int(node) == 2:  # a message
                fields[field] = build(detail, given)
            elif int(node) in (3, 4) and detail[0][1][0] == "float64":
                fields[field] = np.asarray(given, dtype=np.float64)
            elif int(node) == 1 and detail[0] == "float64":
                fields[field] = float(given)
            else:
                fields[field] = given
        return made(**fields)

    return build(kind, message)


def encoded(kind, message):
    return bytes(STORE.serialize_cdr(typed(kind, message), kind))


def record(folder: Path, kind: str, messages) -> Path:
    """Write (topic, time of recording, (type, message)) in one of `KINDS`."""
    if kind == "mcap":
        path = folder / "log.mcap"
        with path.open("wb") as stream:
            writer = mcap_ros2.Writer(stream, chunk_size=2000)
            schemas = {}
            for topic, time, (name, message) in messages:
                if name not in schemas:
                    definition, _ = STORE.generate_msgdef(name, ros_version=2)
                    schemas[name] = writer.register_msgdef(name, definition)
                writer.write_message(topic, schemas[name], message, log_time=time)
            writer.finish()
        return path
    path = folder / "bag"
    storage = rosbag2.StoragePlugin.MCAP if kind == "bag-mcap" else rosbag2.StoragePlugin.SQLITE3
    with rosbag2.Writer(path, version=9, storage_plugin=storage) as writer:
        connections = {}
        for topic, time, (name, message) in messages:
            if topic not in connections:
                connections[topic] = writer.add_connection(topic, name, typestore=STORE)
            writer.write(connections[topic], time, encoded(name, message))
    return next(path.glob("*.db3")) if kind == "db3" else path


def walk(n=40, period=10_000_000):
    """Joint states, with a delay of recording of 3 ms."""
    rng = np.random.default_rng(5)
    q, v, tau = rng.normal(size=(3, n, 2))
    times = START + period * np.arange(n)
    return (
        times,
        q,
        v,
        tau,
        [
            ("/joint_states", int(t) + 3_000_000, joints(int(t), "ab", q[k], v[k], tau[k]))
            for k, t in enumerate(times)
        ],
    )


@pytest.mark.parametrize("kind", KINDS)
def test_joint_states(tmp_path, kind):
    times, q, v, tau, messages = walk()
    log = read_log(record(tmp_path, kind, messages))
    assert list(log.channels) == ["q.a", "q.b", "v.a", "v.b", "tau.a", "tau.b"]
    assert log.units["tau.b"] == "N·m"
    np.testing.assert_array_equal(np.stack([log.channels["q.a"], log.channels["q.b"]], 1), q)
    np.testing.assert_array_equal(np.stack([log.channels["v.a"], log.channels["v.b"]], 1), v)
    np.testing.assert_array_equal(np.stack([log.channels["tau.a"], log.channels["tau.b"]], 1), tau)
    np.testing.assert_allclose(log.t - log.t[0], (times - times[0]) * 1e-9, atol=3e-7)
    assert log.t[0] == pytest.approx(START * 1e-9, abs=3e-7)
    assert log.rows.tolist() == list(range(1, 41))
    assert (log.faults, log.notes) == ((), ())
    assert len(log.digest) == 64


@pytest.mark.parametrize("kind", KINDS)
def test_other_topics_are_brought_to_the_joint_states(tmp_path, kind):
    times, *_, messages = walk()
    slope = np.array([1.0, -2.0, 3.0, 0.1, 0.2, -0.3])
    for t in range(int(times[3]) + 1_000_000, int(times[30]), 4_000_000):
        seconds = (t - int(times[0])) * 1e-9
        messages.append(("/ft", t + 3_000_000, wrench(t, slope * seconds)))
        messages.append(("/imu", t + 3_000_000, imu(t, gyro=(seconds, 0, 0), acc=(0, 0, 9.81))))
    messages.sort(key=lambda entry: entry[1])
    log = read_log(record(tmp_path, kind, messages))
    seconds = (times - times[0]) * 1e-9
    for name, rate in zip(("fx", "fy", "fz", "mx", "my", "mz"), slope, strict=True):
        found = log.channels[f"wrench.tool0.{name}"]
        np.testing.assert_allclose(found[4:30], rate * seconds[4:30], atol=1e-12)
        assert np.isnan(found[:4]).all()  # nothing was measured before
        assert np.isnan(found[31:]).all()
    np.testing.assert_allclose(log.channels["gyro.imu.x"][4:30], seconds[4:30], atol=1e-12)
    np.testing.assert_allclose(log.channels["acc.imu.z"][4:30], 9.81)
    assert log.units["wrench.tool0.mx"] == "N·m"
    assert log.units["acc.imu.z"] == "m/s²"


def test_no_value_in_a_gap(tmp_path):
    times, *_, messages = walk()
    for t in [*times[:10], *times[25:]]:
        messages.append(("/ft", int(t), wrench(int(t), [1.0] * 6)))
    log = read_log(record(tmp_path, "mcap", messages))
    held = np.isnan(log.channels["wrench.tool0.fx"])
    np.testing.assert_array_equal(held, (np.arange(40) >= 10) & (np.arange(40) < 25))


def test_orientations_turn_the_short_way(tmp_path):
    times, *_, messages = walk(6)
    angle = 0.3 * np.arange(-1, 7)
    for k, half in enumerate(angle / 2):
        t = int(times[0]) + 10_000_000 * (k - 1) + 5_000_000
        sign = (-1) ** k  # the same orientations
        messages.append(
            ("/imu", t, imu(t, wxyz=sign * np.array([np.cos(half), 0, 0, np.sin(half)])))
        )
    log = read_log(record(tmp_path, "bag-mcap", messages))
    w, z = log.channels["quat.imu.w"], log.channels["quat.imu.z"]
    np.testing.assert_allclose(w**2 + z**2, 1.0, atol=1e-12)
    found = 2 * np.arctan2(z * np.sign(w), np.abs(w))
    np.testing.assert_allclose(found, (angle[:6] + angle[1:7]) / 2, atol=1e-3)


def test_an_imu_without_orientation(tmp_path):
    times, *_, messages = walk(5)
    messages += [("/imu", int(t), imu(int(t), measured=False)) for t in times]
    log = read_log(record(tmp_path, "db3", messages))
    assert not any(name.startswith("quat.") for name in log.channels)
    assert "gyro.imu.x" in log.channels


def test_two_sensors_in_one_frame_are_named_by_topic(tmp_path):
    times, *_, messages = walk(5)
    for t in times:
        messages.append(("/left/ft", int(t), wrench(int(t), [1.0] * 6)))
        messages.append(("/right/ft", int(t), wrench(int(t), [2.0] * 6)))
        messages.append(("/other", int(t), wrench(int(t), [3.0] * 6, frame="")))
    log = read_log(record(tmp_path, "mcap", messages))
    assert log.channels["wrench.left_ft.fx"][0] == 1.0
    assert log.channels["wrench.right_ft.fx"][0] == 2.0
    assert log.channels["wrench.other.fx"][0] == 3.0


def test_without_stamps_time_is_that_of_recording(tmp_path):
    times, *_, messages = walk(5)
    stampless = [(topic, t, joints(0, "ab", [1.0, 2.0])) for topic, t, _ in messages]
    log = read_log(record(tmp_path, "mcap", stampless))
    np.testing.assert_allclose(log.t, (times + 3_000_000) * 1e-9, atol=3e-7)
    (note,) = log.notes
    assert "time is that of recording, as /joint_states" in note


def test_joints_that_come_apart(tmp_path):
    messages = []
    for k in range(50):
        t = START + 10_000_000 * k
        messages.append(
            ("/js", t, joints(t, "ab" if k % 2 else "ba", [k, 100 + k][:: 1 if k % 2 else -1]))
        )
        if k % 5 == 0:
            messages.append(("/js", t + 1, joints(t, "g", [10.0 * k])))
    log = read_log(record(tmp_path, "mcap", messages))
    np.testing.assert_array_equal(log.channels["q.a"], np.arange(50))
    np.testing.assert_array_equal(log.channels["q.b"], 100 + np.arange(50))
    np.testing.assert_allclose(log.channels["q.g"][:46], 10.0 * np.arange(46), atol=1e-9)
    assert log.rows[:3].tolist() == [1, 3, 4]


def test_a_message_with_too_few_values_is_a_fault(tmp_path):
    *_, messages = walk(5)
    topic, t, _ = messages[2]
    messages[2] = (topic, t, joints(START, "ab", [1.0, 2.0], tau=[1.0]))
    log = read_log(record(tmp_path, "mcap", messages))
    assert log.faults == (RowFault(3, "1 values of tau for 2 joints"),)
    assert log.rows.tolist() == [1, 2, 4, 5]


def test_one_topic_is_chosen(tmp_path):
    *_, messages = walk(5)
    messages += [("/other", t, joints(t, "c", [7.0])) for _, t, _ in messages]
    path = record(tmp_path, "bag-sqlite3", messages)
    with pytest.raises(FileReadError, match=r"several topics: /joint_states, /other\. Choose one"):
        read_log(path)
    assert list(read_log(path, parse_layout({"topic": "/other"})).channels) == ["q.c"]
    with pytest.raises(UnknownNameError, match="unknown topic of joint states '/othr'"):
        read_log(path, parse_layout({"topic": "/othr"}))


def test_a_layout_can_scale_what_messages_say(tmp_path):
    *_, tau, messages = walk(5)
    layout = parse_layout(
        {
            "joints": ["a", "b"],
            "channels": {
                "i": ["tau.a", "tau.b"],
                "tau": {"columns": ["tau.a", "tau.b"], "gain": 9},
            },
        }
    )
    log = read_log(record(tmp_path, "mcap", messages), layout)
    np.testing.assert_allclose(log.channels["tau.a"], 9 * tau[:, 0])
    np.testing.assert_array_equal(log.channels["i.b"], tau[:, 1])


def test_no_joint_states(tmp_path):
    path = record(tmp_path, "mcap", [("/ft", START, wrench(START, [1.0] * 6))])
    with pytest.raises(FileReadError, match=r"no topic of type sensor_msgs.*it has /ft \(geom"):
        read_log(path)


def test_a_recording_that_was_cut_off(tmp_path):
    *_, messages = walk(200)
    path = record(tmp_path, "mcap", messages)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    log = read_log(path)
    assert 20 < log.t.size < 190
    assert "was cut off after" in log.notes[0]
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(FileReadError, match=r"as MCAP.*is it complete"):
        read_log(path)


@pytest.mark.parametrize("content", [b"", b"no database", b"SQLite format 3\0" + bytes(200)])
def test_what_is_no_bag(tmp_path, content):
    path = tmp_path / "log.db3"
    path.write_bytes(content)
    with pytest.raises(FileReadError, match="as a ROS 2 bag"):
        read_log(path)


def test_a_database_that_is_no_bag(tmp_path):
    with sqlite3.connect(tmp_path / "log.db3") as database:
        database.execute("CREATE TABLE shopping (item TEXT)")
    database.close()
    with pytest.raises(FileReadError, match="no such table: topics"):
        read_log(tmp_path / "log.db3")


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ("a: 1", "lists no files"),
        ("rosbag2_bagfile_information: {relative_file_paths: [../x.db3]}", "no file of the bag"),
        ("rosbag2_bagfile_information: {relative_file_paths: [x.db3]}", "x.db3: no such file"),
        (
            "rosbag2_bagfile_information: {relative_file_paths: [x], compression_mode: file}",
            "ros2 bag convert",
        ),
    ],
)
def test_folders_that_are_no_bags(tmp_path, metadata, message):
    (tmp_path / "metadata.yaml").write_text(metadata)
    with pytest.raises(FileReadError, match=message):
        read_log(tmp_path)


def test_mcap_is_not_installed(tmp_path, monkeypatch):
    path = record(tmp_path, "mcap", walk(3)[-1])
    for name in [name for name in sys.modules if name.partition(".")[0] == "mcap"]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingDependencyError, match=r'pip install "bodysense\[ros\]"'):
        read_log(path)


def test_messages_in_either_byte_order():
    kind, message = joints(START, ["elbow", "x"], [1.0, 2.0], [], [3.0, 4.0])
    little = decode(kind, encoded(kind, message))
    big = decode(kind, bytes(STORE.serialize_cdr(typed(kind, message), kind, little_endian=False)))
    assert little == big
    assert little.stamp == START
    assert little.joints == ("elbow", "x")
    assert little.values == {"q": (1.0, 2.0), "tau": (3.0, 4.0)}


def test_every_cut_of_a_message_is_refused():
    kind, message = joints(START, ["elbow", "x"], [1.0, 2.0], [5.0, 6.0], [3.0, 4.0])
    data = encoded(kind, message)
    for end in range(len(data)):
        with pytest.raises(DecodingError):
            decode(kind, data[:end])
    with pytest.raises(DecodingError, match="plain CDR"):
        decode(kind, b"\0\7" + data[2:])
    with pytest.raises(DecodingError, match="named twice"):
        decode(*(kind, encoded(*joints(START, "aa", [1.0, 2.0]))))
