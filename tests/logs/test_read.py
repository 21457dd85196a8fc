import hashlib
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bodysense.errors import (
    BodysenseError,
    FileReadError,
    MismatchError,
    ShapeError,
    UnknownNameError,
)
from bodysense.logs import (
    ChannelColumn,
    Log,
    LogLayout,
    RowFault,
    parse_layout,
    read_layout,
    read_log,
    write_log,
)

LAYOUTS = Path(__file__).parents[2] / "examples" / "layouts"
UR10E = (
    "shoulder_pan_joint",
    "shoulder_lift_joint",
    "elbow_joint",
    "wrist_1_joint",
    "wrist_2_joint",
    "wrist_3_joint",
)


@pytest.fixture
def file(tmp_path):
    def write(content, name="log.csv"):
        path = tmp_path / name
        path.write_text(content, encoding="utf-8")
        return path

    return write


def stack(log, quantity, joints):
    return np.stack([log.channels[f"{quantity}.{joint}"] for joint in joints], axis=1)


def test_columns_name_the_channels(file):
    path = file("t [ms],q.a [deg],i.a [%],wrench.tool.fx [kN],state,x [V]\n0,180,5,1,idle,7\n")
    log = read_log(path)
    assert log.units == {"q.a": "rad", "i.a": "%", "wrench.tool.fx": "N", "x": "V"}
    assert [float(x[0]) for x in log.channels.values()] == pytest.approx([np.pi, 5, 1000, 7])
    assert log.digest == hashlib.sha256(path.read_bytes()).hexdigest()
    assert log.source == "log.csv"
    assert log.rows.tolist() == [2]
    with pytest.raises(ValueError, match="read-only"):
        log.channels["q.a"][0] = 0.0


def test_gains_units_and_offsets(file):
    path = file("1000,90,2\n2000,180,4\n")
    layout = parse_layout(
        {
            "joints": ["a"],
            "time": {"column": 1, "unit": "us", "offset": -500},
            "channels": {
                "q": {"columns": [2], "unit": "deg", "gain": 2, "offset": 10},
                "i": [3],
                "tau": {"columns": [3], "gain": 11.5, "unit": "mNm"},
            },
        }
    )
    log = read_log(path, layout)
    np.testing.assert_allclose(log.t, [5e-4, 1.5e-3])
    np.testing.assert_allclose(log.channels["q.a"], np.radians([190, 370]))
    np.testing.assert_array_equal(log.channels["i.a"], [2, 4])
    np.testing.assert_allclose(log.channels["tau.a"], [0.023, 0.046])


def test_a_layout_scales_columns_that_the_file_names_itself(file):
    path = file("time [us],q.a [rad],q.b,tau.a,tau.b,temperature\n1000,90,180,1,2,30\n")
    layout = {
        "time": {"unit": "ms"},
        "channels": {"q": {"unit": "deg"}, "tau": {"gain": {"b": -2}}},
    }
    log = read_log(path, parse_layout(layout))
    assert list(log.channels) == ["q.a", "q.b", "tau.a", "tau.b", "temperature"]
    assert {name: x[0] for name, x in log.channels.items() if name[0] == "t"} == {
        "tau.a": 1.0,
        "tau.b": -4.0,
        "temperature": 30.0,
    }
    np.testing.assert_allclose([log.t[0], *stack(log, "q", "ab")[0]], [1.0, np.pi / 2, np.pi])
    assert log.units["q.a"] == "rad"


def test_the_header_keeps_its_unit_beside_a_gain_of_the_layout(file):
    path = file("t [ms],q.a [deg],q.b [deg]\n0,90,90\n")
    layout = {"joints": ["b", "a"], "channels": {"q": {"gain": [1, -1], "offset": {"b": 90}}}}
    log = read_log(path, parse_layout(layout))
    np.testing.assert_allclose(stack(log, "q", "ab"), [[-np.pi / 2, np.pi]])


def test_named_and_numbered_columns_in_one_layout(file):
    path = file("t,x,tau.a,tau.b\n0,1,2,3\n")
    layout = {"joints": ["a"], "channels": {"q": ["x"], "tau": {"gain": -1}}}
    log = read_log(path, parse_layout(layout))
    assert {name: x[0] for name, x in log.channels.items()} == {
        "q.a": 1.0,
        "tau.a": -2.0,
        "tau.b": -3.0,
    }


@pytest.mark.parametrize(
    ("channels", "name"),
    [({"v": {"unit": "deg/s"}}, "v.<joint>"), ({"q": {"gain": {"c": -1}}}, "q.c")],
)
def test_scaled_columns_that_are_not_there(file, channels, name):
    with pytest.raises(UnknownNameError, match=rf"unknown column '{name}'.*say where it is"):
        read_log(file("t,q.a\n0,1\n"), parse_layout({"channels": channels}))


def test_a_lost_row_leaves_a_gap_in_time_at_a_rate(file):
    layout = parse_layout({"joints": ["a", "b"], "rate": 100, "channels": {"q": [1, 2]}})
    log = read_log(file("1,2\n3\n\n5,6\n"), layout)
    np.testing.assert_allclose(log.t, [0, 0.02])
    assert log.rows.tolist() == [1, 4]
    assert log.faults == (RowFault(2, "1 of 2 values"),)


def test_a_row_without_time_is_a_fault(file):
    log = read_log(file("t,q.a\n0,1\n,2\n0.2,nan\n"))
    np.testing.assert_array_equal(log.t, [0, 0.2])
    np.testing.assert_array_equal(log.channels["q.a"], [1, np.nan])
    assert log.faults == (RowFault(3, "no time"),)


def test_time_may_run_backward_or_repeat(file):
    assert read_log(file("t,q.a\n1,1\n0,2\n0,3\n")).t.tolist() == [1, 0, 0]


def test_rows_are_lines_of_the_file(file):
    path = file("# x\nt,q.a\n0,1\n1,2\n2\n3,4\n4\n5,6\n")
    log = read_log(path, parse_layout({"rows": {"first": 4, "last": 6}}))
    np.testing.assert_array_equal(log.t, [1, 3])
    assert log.rows.tolist() == [4, 6]
    assert log.faults == (RowFault(5, "1 of 2 values"),)
    with pytest.raises(FileReadError, match=r"no usable row from 9 to its end; it has rows 3 to 8"):
        read_log(path, parse_layout({"rows": {"first": 9}}))


def test_two_tables_of_one_recording(file):
    path = file("q1,q2\n1,2\n3,4\n5\n7,8\n9,10\n", "position.csv")
    other = file("# torques\ntau1;tau2\n10;20\n\nx;40\n50;60\n70;80\n90;100\n", "torque.csv")
    layout = parse_layout(
        {
            "joints": ["a", "b"],
            "rate": 10,
            "channels": {
                "q": ["q1", "q2"],
                "tau": {"columns": ["tau1", "tau2"], "file": "torque.csv"},
            },
        }
    )
    log = read_log(path, layout)
    np.testing.assert_array_equal(stack(log, "q", "ab"), [[1, 2], [7, 8], [9, 10]])
    np.testing.assert_array_equal(stack(log, "tau", "ab"), [[10, 20], [70, 80], [90, 100]])
    np.testing.assert_allclose(log.t, [0, 0.3, 0.4])
    assert log.rows.tolist() == [2, 5, 6]
    assert log.faults == (
        RowFault(3, "torque.csv, row 5: 'x' in column 'tau1'"),
        RowFault(4, "1 of 2 values"),
    )
    digests = [hashlib.sha256(p.read_bytes()).hexdigest() for p in (path, other)]
    assert log.digest == hashlib.sha256("".join(f"{d}\n" for d in digests).encode()).hexdigest()
    file("tau1;tau2\n10;20\n", "torque.csv")
    with pytest.raises(MismatchError, match=r"position.csv has 5 rows and torque.csv has 1"):
        read_log(path, layout)
    other.unlink()
    with pytest.raises(FileReadError, match=r"torque.csv: No such file"):
        read_log(path, layout)


def test_time_in_a_table_of_its_own(file):
    file("clock\n0\n0.5\n", "time.csv")
    time = ChannelColumn("t", "clock", "s", file="time.csv")
    layout = LogLayout(time=time, channels=(ChannelColumn("q.a", 1, "rad"),))
    log = read_log(file("q1\n1\n2\n"), layout)
    np.testing.assert_array_equal(log.t, [0.0, 0.5])
    np.testing.assert_array_equal(log.channels["q.a"], [1.0, 2.0])


def test_motors_need_all_joints(file):
    layout = parse_layout(
        {
            "joints": ["a", "b"],
            "rate": 10,
            "channels": {"q": {"columns": {"a": 1}}},
            "motors": {"gear_ratio": 5},
        }
    )
    with pytest.raises(MismatchError, match=r"q\.b missing"):
        read_log(file("1,2\n3,4\n"), layout)


@pytest.mark.parametrize(
    ("columns", "kind", "message"),
    [
        (["q3", "q2"], UnknownNameError, "unknown column 'q3': valid: q1, q2, x"),
        ([1, 4], UnknownNameError, r"q\.b in column 4: the file log.csv has 3 columns"),
        (["twice", "q1"], FileReadError, "columns 3, 4 are all named 'twice'; give the number"),
        (["q1", 1], FileReadError, "column 1 is 'q.a' and 'q.b' at once"),
    ],
)
def test_columns_that_are_not_there(file, columns, kind, message):
    names = "q1,q2,twice,twice" if "twice" in columns else "q1,q2,x"
    layout = parse_layout({"joints": ["a", "b"], "rate": 10, "channels": {"q": columns}})
    with pytest.raises(kind, match=message):
        read_log(file(f"{names}\n" + ",".join("1" * (names.count(",") + 1)) + "\n"), layout)


@pytest.mark.parametrize(
    ("content", "kind", "message"),
    [
        ("1,2\n3,4\n", FileReadError, r"name its columns: .*a layout file \(--layout FILE"),
        ("q.a,tau.a\n1,2\n", UnknownNameError, "unknown column 't'.*`rate: …`"),
        ("t,q.a,q.a\n1,2,3\n", FileReadError, "column 'q.a' is there twice"),
        ("t,q.a [N]\n1,2\n", FileReadError, "'q.a' is in 'N', which is no unit of it.*rad or m"),
        ("t,q.a [x]\n1,2\n", FileReadError, "'q.a' is in 'x'"),
        ("t,q.a\n", FileReadError, "no row that can be used"),
        ("", FileReadError, "is empty"),
    ],
)
def test_files_that_do_not_say_enough(file, content, kind, message):
    with pytest.raises(kind, match=message):
        read_log(file(content))


def test_names_without_a_header(file):
    layout = parse_layout({"joints": ["a"], "rate": 10, "channels": {"q": ["q1"]}})
    with pytest.raises(FileReadError, match="no header, so it has no column 'q1'"):
        read_log(file("1,2\n3,4\n"), layout)


@pytest.mark.parametrize("path", [None, 5, b"run.csv"])
def test_what_is_no_path_at_all(path):
    with pytest.raises(ShapeError, match="expected the path of a recording"):
        read_log(path)


def test_paths_that_are_no_logs(tmp_path):
    with pytest.raises(FileReadError, match="No such file"):
        read_log(tmp_path / "absent.csv")
    with pytest.raises(FileReadError, match="folder and no ROS 2 bag"):
        read_log(tmp_path)
    (tmp_path / "log.bag").write_bytes(b"#ROSBAG V2.0")
    with pytest.raises(FileReadError, match="bag of ROS 1"):
        read_log(tmp_path / "log.bag")
    (tmp_path / "log.bin").write_bytes(bytes(100))
    with pytest.raises(FileReadError, match="binary file"):
        read_log(tmp_path / "log.bin")


def test_a_format_is_told_by_its_content(tmp_path):
    log = Log.of([0.0, 1.0], {"q.a": [1.0, 2.0]})
    write_log(tmp_path / "log.parquet", log)
    (tmp_path / "log.parquet").rename(tmp_path / "log")
    assert read_log(tmp_path / "log").channels["q.a"].tolist() == [1, 2]


def numbers(path):
    """All rows that have 31 values, and their lines, without our reader."""
    lines = path.read_text().split("\n")
    rows = [k for k, line in enumerate(lines, start=1) if line.count(",") == 30]
    return np.array(rows), np.array([[float(x) for x in lines[k - 1].split(",")] for k in rows])


@pytest.mark.parametrize("robot", ["ur10e", "tx40"])
def test_layouts_name_the_joints_as_the_robot_does(recordings, robot):
    tree = ElementTree.parse(recordings / robot / f"{robot}.urdf")
    moving = [j.get("name") for j in tree.getroot().findall("joint") if j.get("type") == "revolute"]
    assert list(read_layout(LAYOUTS / f"{robot}.yaml").joints) == moving


def test_all_recordings_of_the_ur10e(recordings):
    gains = np.array([11.98, 11.976, 9.839, 10.763, 10.764, 10.76])
    ranges = {
        "ur-20_02_12-50sec_12harm.csv": (355, 5090),
        "ur-20_02_12-40sec_12harm.csv": (500, 4460),
        "ur-20_02_10-30sec_12harm.csv": (635, 3510),
        "ur-20_02_05-20sec_8harm.csv": (320, 2310),
    }
    torn = "ur-20_02_19_15harm50secLoad.csv"
    paths = sorted((recordings / "ur10e").glob("*.csv"))
    assert {*ranges, torn} <= {path.name for path in paths}
    for path in paths:
        log = read_log(path, LAYOUTS / "ur10e.yaml")
        rows, table = numbers(path)
        first, last = ranges.get(path.name, (1, rows[-1]))
        kept = (rows >= first) & (rows <= last)
        np.testing.assert_array_equal(log.rows, rows[kept])
        np.testing.assert_array_equal(log.t, table[kept, 0])
        np.testing.assert_array_equal(stack(log, "q", UR10E), table[kept, 1:7])
        np.testing.assert_array_equal(stack(log, "v", UR10E), table[kept, 7:13])
        np.testing.assert_array_equal(stack(log, "i", UR10E), table[kept, 13:19])
        np.testing.assert_allclose(stack(log, "tau", UR10E), table[kept, 13:19] * gains)
        np.testing.assert_array_equal(stack(log, "i_des", UR10E), table[kept, 19:25])
        np.testing.assert_array_equal(stack(log, "tau_des", UR10E), table[kept, 25:31])
        assert log.faults == ((RowFault(6107, "19 of 31 values"),) if path.name == torn else ())


def test_the_recording_of_the_tx40(recordings):
    path = recordings / "tx40" / "motor_position.csv"
    log = read_log(path, LAYOUTS / "tx40.yaml")
    joints = [f"joint_{k}" for k in range(1, 7)]
    q_motor = np.loadtxt(path, delimiter=",", skiprows=1)
    tau_motor = np.loadtxt(path.with_name("motor_torque.csv"), delimiter=",", skiprows=1)
    # Motor 6 turns by as much as joint 5 and joint 6 together.
    q = q_motor / [32, 32, 45, -48, 45, 32]
    q[:, 5] -= q[:, 4]
    q += [0, -np.pi / 2, np.pi / 2, 0, 0, 0]
    tau = tau_motor * [32, 32, 45, -48, 45, 32]
    tau[:, 4] += tau[:, 5]
    np.testing.assert_allclose(stack(log, "q", joints), q, atol=1e-12)
    np.testing.assert_allclose(stack(log, "tau", joints), tau, atol=1e-12)
    assert log.t.size == 45_000
    assert log.t[-1] == pytest.approx(8.9998)
    # The arm starts at zero: so the zero positions are right.
    np.testing.assert_allclose(stack(log, "q", joints)[0], np.zeros(6), atol=1e-3)


@settings(max_examples=200)
@given(
    start=st.sampled_from([b"", b"t,q.a\n", b"PAR1", b"\x89MCAP0\r\n", b"SQLite format 3\0"]),
    rest=st.binary(max_size=200),
    suffix=st.sampled_from([".csv", ".parquet", ".mcap", ".db3", ""]),
)
def test_whatever_a_file_holds_the_answer_is_an_error_of_ours(
    tmp_path_factory, start, rest, suffix
):
    path = tmp_path_factory.mktemp("log") / f"log{suffix}"
    path.write_bytes(start + rest)
    try:
        answer = repr(read_log(path))
    except BodysenseError as error:
        answer = str(error)
    assert path.name in answer
