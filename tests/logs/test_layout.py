import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bodysense.errors import BodysenseError, FileReadError, MismatchError, UnknownNameError
from bodysense.logs import ChannelColumn, LogLayout, MotorSide, parse_layout, read_layout
from bodysense.schema import Schema

TEXT = """
joints: [a, b]
time: {column: stamp, unit: ms}
channels:
  q: {columns: [2, 3], unit: [deg, mm]}
  v: {columns: {b: omega}, gain: 2}
  i: [4, 5]
  tau: {columns: [4, 5], gain: {b: 10.5, a: 11}, offset: [0, 1e-1]}
frames:
  tool0: {force: [6, 7, 8], moment: {columns: [9, 10, 11], unit: mNm, file: ft.csv}}
  base: {quat: [w, x, y, z]}
other: {temperature: {column: 12, unit: °C}, count: 13, height: {column: h, unit: mm}}
rows: {"run_1*": [10, 900], "run_2*": {first: 5}}
separator: semicolon
decimal: ","
header: 3
topic: /joint_states
"""


def test_everything_a_layout_can_say(tmp_path):
    path = tmp_path / "layout.yaml"
    path.write_text(TEXT, encoding="utf-8")
    layout = read_layout(path)
    degree = np.pi / 180
    assert layout.channels == (
        ChannelColumn("q.a", 2, "rad", degree),
        ChannelColumn("q.b", 3, "m", 1e-3),
        ChannelColumn("v.b", "omega", "rad/s", gain=2.0),
        ChannelColumn("i.a", 4, "A"),
        ChannelColumn("i.b", 5, "A"),
        ChannelColumn("tau.a", 4, "N·m", gain=11.0),
        ChannelColumn("tau.b", 5, "N·m", gain=10.5, offset=0.1),
        ChannelColumn("wrench.tool0.fx", 6, "N"),
        ChannelColumn("wrench.tool0.fy", 7, "N"),
        ChannelColumn("wrench.tool0.fz", 8, "N"),
        ChannelColumn("wrench.tool0.mx", 9, "N·m", 1e-3, file="ft.csv"),
        ChannelColumn("wrench.tool0.my", 10, "N·m", 1e-3, file="ft.csv"),
        ChannelColumn("wrench.tool0.mz", 11, "N·m", 1e-3, file="ft.csv"),
        ChannelColumn("quat.base.w", "w", ""),
        ChannelColumn("quat.base.x", "x", ""),
        ChannelColumn("quat.base.y", "y", ""),
        ChannelColumn("quat.base.z", "z", ""),
        ChannelColumn("temperature", 12, "°C"),
        ChannelColumn("count", 13, ""),
        ChannelColumn("height", "h", "m", 1e-3),
    )
    assert layout.joints == ("a", "b")
    assert layout.time == ChannelColumn("t", "stamp", "s", 1e-3)
    assert layout.rows == {"run_1*": (10, 900), "run_2*": (5, None)}
    assert (layout.separator, layout.decimal, layout.header) == (";", ",", 3)
    assert layout.topic == "/joint_states"
    assert layout.rate is None
    assert layout.motors is None
    assert repr(layout) == f"<LogLayout {path}: 20 channels>"


def test_the_first_pattern_that_fits_counts():
    layout = parse_layout({"rows": {"run_1*": [10, 900], "run*": [2, 3]}})
    assert layout.rows_of("run_12.csv") == (10, 900)
    assert layout.rows_of("run_2.csv") == (2, 3)
    assert layout.rows_of("walk.csv") == (1, None)
    assert parse_layout({"rows": {"last": 7}}).rows_of("any.csv") == (1, 7)


def test_motors():
    layout = parse_layout(
        {
            "joints": ["a", "b"],
            "motors": {
                "gear_ratio": [10, -20],
                "coupling": [{"motor": 2, "joint": "a", "ratio": 0.5}],
                "zero": {"a": "pi", "b": "-pi/2"},
            },
        }
    )
    assert layout.motors is not None
    np.testing.assert_array_equal(layout.motors.ratio, [[10, 0], [-10, -20]])
    np.testing.assert_allclose(layout.motors.zero, [np.pi, -np.pi / 2])


def test_power_is_the_same_at_motors_and_joints(rng):
    motors = MotorSide(rng.normal(size=(3, 3)) + 5 * np.eye(3), rng.normal(size=3))
    q, v, a, tau = rng.normal(size=(4, 7, 3))
    joint_v, joint_tau = motors.to_joints("v", v), motors.to_joints("tau", tau)
    np.testing.assert_allclose(np.sum(joint_v * joint_tau, axis=1), np.sum(v * tau, axis=1))
    joint_q = motors.to_joints("q", q)
    np.testing.assert_allclose((joint_q - motors.zero) @ motors.ratio.T, q)
    np.testing.assert_allclose(motors.to_joints("a", a) @ motors.ratio.T, a)
    np.testing.assert_array_equal(motors.to_joints("i", q), q)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("pi", np.pi),
        ("-pi/2", -np.pi / 2),
        ("3*pi/4", 3 * np.pi / 4),
        ("+0.5 pi", np.pi / 2),
        ("1e-3", 1e-3),
        (2, 2.0),
    ],
)
def test_numbers(value, expected):
    assert Schema().number(value, "here") == pytest.approx(expected, rel=1e-15)


@pytest.mark.parametrize(
    "value", [True, None, "x", "pi/0", "1.2.3", float("nan"), float("inf"), 10**400, [1], "2*e"]
)
def test_what_is_no_number(value):
    with pytest.raises(FileReadError, match="here: expected a finite number"):
        Schema().number(value, "here")


def table(**changes):
    return {"joints": ["a", "b"], "channels": {"q": [1, 2]}, **changes}


@pytest.mark.parametrize(
    ("content", "kind", "message"),
    [
        (table(chanels={}), UnknownNameError, "unknown key 'chanels': did you mean 'channels'"),
        (table(joints=[]), FileReadError, "joints: expected a list of names"),
        (table(joints=["a", "a"]), FileReadError, "'a' occurs twice"),
        (table(joints=["a", 3]), FileReadError, "joints: expected text, got 3"),
        ({"channels": {"q": [1]}}, FileReadError, "List the joints"),
        (table(channels={"tua": [1, 2]}), UnknownNameError, "unknown key 'tua'.*'tau'"),
        (table(channels={"q": [1, 2, 3]}), MismatchError, r"3 values for 2 \(a, b\)"),
        (table(channels={"q": 1}), FileReadError, "expected a list of columns for a, b; got 1"),
        (table(channels={"q": {"c": 1}}), UnknownNameError, "unknown key 'c'"),
        (table(channels={"q": {"columns": {"c": 1}}}), UnknownNameError, "unknown name 'c'"),
        (table(channels={"q": {}}), FileReadError, "q: columns missing"),
        (table(channels={"q": {"file": "b.csv"}}), FileReadError, "q: columns missing"),
        ({"channels": {"q": {"gain": [1, -1]}}}, FileReadError, "whose"),
        (table(channels={"q": {"gain": [1]}}), MismatchError, "1 values for 2"),
        ({"channels": {"q": {"gain": {"a": 0}}}}, FileReadError, "q, a, gain: zero"),
        ({"channels": {"q": {"gain": {1: 2}}}}, FileReadError, "q, gain: expected a mapping"),
        ({"channels": {"tau": {"unit": "deg"}}}, FileReadError, "no unit of it"),
        ({"time": {"unit": "m"}}, FileReadError, "no unit of it"),
        ({"time": {"unit": "ms"}, "rate": 10}, FileReadError, "exclude each other"),
        (table(channels={"q": [0, 1]}), FileReadError, "whole number from 1, got 0"),
        (table(channels={"q": [1.5, 1]}), FileReadError, "whole number from 1, got 1.5"),
        (table(channels={"q": [True, 1]}), FileReadError, "whole number from 1, got True"),
        (table(channels={"q": ["", 1]}), FileReadError, "expected text"),
        (table(channels={"q": [1, 1]}), FileReadError, "column 1 is 'q.a' and 'q.b' at once"),
        (table(channels={"q": [1, 2], "v": [2, 3]}), FileReadError, "'q.b' and 'v.a' at once"),
        (table(time=2), FileReadError, "column 2 is 'q.b' and 't' at once"),
        (
            table(channels={"q": {"columns": [1, 2], "unit": "furlong"}}),
            UnknownNameError,
            "unknown unit 'furlong'",
        ),
        (
            table(channels={"q": {"columns": [1, 2], "unit": "Nm"}}),
            FileReadError,
            "q, a: 'Nm' is no unit of it; give one that turns into rad or m",
        ),
        (
            table(channels={"q": {"columns": [1, 2], "unit": ["rad"]}}),
            MismatchError,
            "unit: 1 values for 2",
        ),
        (
            table(channels={"q": {"columns": [1, 2], "gain": [1, 0]}}),
            FileReadError,
            "q, b, gain: zero",
        ),
        (
            table(channels={"q": {"columns": [1, 2], "gain": {"a": 1}}}),
            MismatchError,
            "gain: b missing",
        ),
        (
            table(channels={"q": {"columns": [1, 2], "offset": "x"}}),
            FileReadError,
            "offset: expected a finite number",
        ),
        (
            table(channels={"q": {"columns": [1, 2], "file": "/etc/passwd"}}),
            FileReadError,
            "not beside the log",
        ),
        (
            table(channels={"q": {"columns": [1, 2], "file": "../x.csv"}}),
            FileReadError,
            "not beside the log",
        ),
        (table(time={"column": 9, "unit": "rad"}), FileReadError, "turns into s"),
        (table(time=9, rate=100), FileReadError, "time and rate exclude each other"),
        (table(rate=0), FileReadError, "rate: 0 rows per second"),
        (table(rate="fast"), FileReadError, "rate: expected a finite number"),
        (table(rows={"first": 5, "last": 4}), FileReadError, "last row, 4, comes before"),
        (table(rows={"*": [1, 2, 3]}), FileReadError, r"expected \[first, last\]"),
        (table(rows=[1, 2]), FileReadError, "rows: expected a mapping"),
        (table(separator="dash"), UnknownNameError, "unknown separator 'dash'"),
        (table(decimal=";"), FileReadError, "decimal: expected"),
        (table(header=0), FileReadError, "header: expected a whole number"),
        (table(topic=5), FileReadError, "topic: expected text"),
        (table(frames={"tool": {"torque": [5, 6, 7]}}), UnknownNameError, "unknown key 'torque'"),
        (
            table(frames={"tool": {"force": [5, 6]}}),
            MismatchError,
            r"2 values for 3 \(fx, fy, fz\)",
        ),
        (
            table(frames={"imu": {"quat": {"columns": [5, 6, 7, 8], "unit": "rad"}}}),
            FileReadError,
            "a quaternion has none",
        ),
        (table(other={"q.c": 5}), FileReadError, "put it under time, channels or frames"),
        (table(other={"t": 5}), FileReadError, "put it under time"),
        (table(motors={"ratio": 5}), UnknownNameError, "unknown key 'ratio'"),
        (table(motors={"gear_ratio": [1]}), MismatchError, "gear_ratio: 1 values for 2"),
        (table(motors={"gear_ratio": {"c": 2}}), UnknownNameError, "unknown joint 'c'"),
        (table(motors={"gear_ratio": [1, 0]}), FileReadError, "zero for 'b'"),
        (table(motors={"coupling": {"motor": 1}}), FileReadError, "expected a list"),
        (table(motors={"coupling": [{"motor": 1}]}), FileReadError, "joint, ratio missing"),
        (
            table(motors={"coupling": [{"motor": 3, "joint": 1, "ratio": 1}]}),
            UnknownNameError,
            "unknown joint '3'",
        ),
        (
            table(motors={"coupling": [{"motor": 1, "joint": 1, "ratio": 1}]}),
            FileReadError,
            "motor 'a' moves 'a' already",
        ),
        (
            table(
                motors={
                    "coupling": [
                        {"motor": 1, "joint": 2, "ratio": 1},
                        {"motor": 2, "joint": 1, "ratio": 1},
                    ]
                }
            ),
            FileReadError,
            "singular",
        ),
        ({"motors": {"gear_ratio": 5}}, FileReadError, "of which joints"),
    ],
)
def test_bad_layouts_are_refused(content, kind, message):
    with pytest.raises(kind, match=message):
        parse_layout(content, "my.yaml")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty"),
        ("[1, 2]", "it must be a YAML mapping"),
        ("1: 2", "with names as keys"),
        ("joints: [a", "line 1, column"),
        ("rate: 5\nrate: 6", "line 2: the key 'rate' occurs twice"),
        ("channels:\n  q: [1]\n  q: [2]", "line 3: the key 'q' occurs twice"),
        ("joints: &x [a]\nrows: *x", r"the alias \*x is not supported"),
        ("joints: !!python/object/apply:os.system [echo]", "not valid YAML|could not determine"),
        ("rate: \0", "not valid YAML"),
    ],
)
def test_bad_files_are_refused(tmp_path, content, message):
    path = tmp_path / "layout.yaml"
    path.write_text(content)
    with pytest.raises(FileReadError, match=message):
        read_layout(path)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(FileReadError, match="No such file"):
        read_layout(tmp_path / "absent.yaml")
    (tmp_path / "big.yaml").write_bytes(b"# " + b"x" * 2**22)
    with pytest.raises(FileReadError, match="too large for a layout"):
        read_layout(tmp_path / "big.yaml")
    with pytest.raises(BodysenseError, match="null"):
        read_layout("a\0b")


leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 30),
    st.floats(),
    st.text(max_size=3),
    st.sampled_from(["a", "b", "rad", "Nm", "pi", "auto", "first"]),
)
keys = st.sampled_from(
    [
        *("joints", "time", "rate", "channels", "frames", "other", "rows", "motors", "header"),
        *("q", "tau", "i", "columns", "column", "unit", "gain", "file", "a", "b", "force", "quat"),
        *("gear_ratio", "coupling", "zero", "motor", "joint", "ratio", "first", "last", "topic"),
    ]
)
anything = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=300)
@given(content=st.dictionaries(keys, anything, max_size=5), named=st.booleans())
def test_whatever_a_layout_holds_the_answer_is_a_layout_or_an_error_of_ours(content, named):
    try:
        layout = parse_layout({**content, "joints": ["a", "b"]} if named else content, "my.yaml")
    except BodysenseError as error:
        layout, answer = LogLayout(), str(error)
    else:
        answer = repr(layout)
    assert "my.yaml" in answer
    assert len({entry.channel for entry in layout.channels}) == len(layout.channels)
