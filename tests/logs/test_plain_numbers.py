"""Tables of bare numbers: a file per channel, many columns without names, a row per channel."""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bodysense.errors import BodysenseError, FileReadError, MismatchError, UnknownNameError
from bodysense.logs import parse_layout, read_log

JOINTS = ["a", "b", "c"]


@pytest.fixture(scope="module")
def values() -> np.ndarray:
    return np.random.default_rng(3).normal(size=(6, 50))  # q of three joints, then tau


def channels(layout: str, path: Path) -> np.ndarray:
    (path.parent / "layout.yaml").write_text(layout)
    log = read_log(path, path.parent / "layout.yaml")
    names = [f"{x}.{joint}" for x in ("q", "tau") for joint in JOINTS]
    return np.array([log.channels[name] for name in names])


def test_a_file_per_channel_with_one_value_per_line(values, tmp_path):
    for name, column in zip(("q1", "q2", "q3", "t1", "t2", "t3"), values, strict=True):
        np.savetxt(tmp_path / f"{name}.txt", column, fmt="%.17g")
    np.savetxt(tmp_path / "time.txt", 2.0 * np.arange(50), fmt="%.17g")
    layout = """
joints: [a, b, c]
time: {file: time.txt, unit: ms}
channels:
  q: {file: [q1.txt, q2.txt, q3.txt]}
  tau: {file: {c: t3.txt, a: t1.txt, b: t2.txt}}
"""
    np.testing.assert_array_equal(channels(layout, tmp_path / "q1.txt"), values)
    log = read_log(tmp_path / "time.txt", tmp_path / "layout.yaml")
    np.testing.assert_allclose(log.t, 2e-3 * np.arange(50))
    assert channels(
        layout.replace("time: {file: time.txt, unit: ms}", "rate: 500"), tmp_path / "q1.txt"
    ).shape == (6, 50)


@pytest.mark.parametrize("separator", [" ", ",", ";", "\t", "   "])
@pytest.mark.parametrize("transposed", [False, True])
def test_columns_or_rows_without_names(separator, transposed, values, tmp_path):
    table = np.vstack([0.5 * np.arange(50), values])
    table = table if transposed else table.T
    np.savetxt(tmp_path / "wide.txt", table, fmt="%.17g", delimiter=separator)
    layout = "joints: [a, b, c]\ntime: 1\nchannels: {q: {columns: 2-4}, tau: {columns: 5 - 7}}\n"
    layout += "transposed: true\n" if transposed else ""
    np.testing.assert_array_equal(channels(layout, tmp_path / "wide.txt"), values)


def test_columns_of_frames_are_ranges_too(tmp_path):
    np.savetxt(tmp_path / "wrench.txt", np.arange(40.0).reshape(10, 4))
    layout = parse_layout({"time": 1, "frames": {"tool": {"force": {"columns": "2-4"}}}})
    log = read_log(tmp_path / "wrench.txt", layout)
    np.testing.assert_array_equal(log.channels["wrench.tool.fz"], np.arange(3.0, 40.0, 4.0))


def test_rows_that_begin_with_their_names(values, tmp_path):
    titles = ["t [ms]", "q.a", "q.b [deg]", "q.c", "tau.a", "tau.b", "tau.c"]
    rows = zip(titles, np.vstack([np.arange(50.0), values]), strict=True)
    text = "# recorded on a Monday\n"
    text += "\n".join(f"{title}, {', '.join(map(repr, row.tolist()))}" for title, row in rows)
    (tmp_path / "rows.csv").write_text(text + "\n")
    log = read_log(tmp_path / "rows.csv", parse_layout({"transposed": True}))
    np.testing.assert_allclose(log.t, 1e-3 * np.arange(50))
    np.testing.assert_allclose(log.channels["q.b"], np.radians(values[1]))
    np.testing.assert_array_equal(log.channels["tau.c"], values[5])


@pytest.mark.parametrize(
    ("rows", "channel", "kind", "message"),
    [
        ("1,2\n3,4\n5,6\n", 5, UnknownNameError, "q.a in row 5: the file rows.csv has 3 rows"),
        ("1,2\n3,4\n", "x", FileReadError, r"no row 'x': give the numbers of its rows\.$"),
        ("q.b,2\nq.c,4\n", "x", UnknownNameError, "unknown row 'x': valid: q.b, q.c"),
    ],
)
def test_rows_that_are_not_there(rows, channel, kind, message, tmp_path):
    (tmp_path / "rows.csv").write_text(rows)
    layout = {"transposed": True, "joints": ["a"], "channels": {"q": [channel]}, "rate": 10}
    with pytest.raises(kind, match=message):
        read_log(tmp_path / "rows.csv", parse_layout(layout))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(
    n=st.integers(1, 4),
    rows=st.integers(2, 30),
    comma=st.booleans(),
    seed=st.integers(0, 100),
)
def test_transposing_a_table_changes_nothing(n, rows, comma, seed, tmp_path):
    table = np.random.default_rng(seed).normal(size=(rows, n))
    logs = []
    for transposed in (False, True):
        text = "\n".join(
            ";".join(map(repr, row.tolist())) for row in (table.T if transposed else table)
        )
        (tmp_path / "x.csv").write_text(text.replace(".", ",") if comma else text)
        layout = {
            "joints": JOINTS[:n] if n < 4 else [*JOINTS, "d"],
            "rate": 10,
            "channels": {"q": {"columns": list(range(1, n + 1))}},
            "transposed": transposed,
            "separator": "semicolon",
            "decimal": "," if comma else ".",
        }
        logs.append(read_log(tmp_path / "x.csv", parse_layout(layout)))
    for name, column in logs[0].channels.items():
        np.testing.assert_array_equal(logs[1].channels[name], column)
    np.testing.assert_array_equal(logs[0].t, logs[1].t)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("1\n2\n3\n", r"`channels: \{q: \{file: \[q1.txt, q2.txt, …\]\}\}`"),
        ("1 2 3\n4 5 6\n", r"of 3 columns e.g. `joints: \[…\]`, `time: 1`"),
        ("\n".join([" ".join(["1.5"] * 1500)] * 3), "`transposed: true` if its 1500 columns"),
    ],
)
def test_messages_show_how(text, hint, tmp_path):
    (tmp_path / "x.txt").write_text(text)
    with pytest.raises(FileReadError, match=hint):
        read_log(tmp_path / "x.txt")


@pytest.mark.parametrize(
    ("text", "layout", "message"),
    [
        ("1 2 3\n4 5\n", {"transposed": True, "time": 1}, "2 to 3 values"),
        ("1 2 x\n4 5 6\n", {"transposed": True, "rate": 1, "other": {"x": 1}}, "line 1: 'x' is no"),
        ("1 2\n", {"transposed": "yes"}, "transposed: 'yes' is neither true nor false"),
        (
            "1\n",
            {"joints": ["a", "b"], "channels": {"q": {"file": ["a.txt"]}}},
            "1 values for 2",
        ),
        (
            "1\n",
            {"joints": ["a"], "rate": 1, "channels": {"q": {"file": ["../a.txt"]}}},
            "not beside the log",
        ),
        (
            "1 2\n",
            {"joints": ["a", "b"], "rate": 1, "channels": {"q": {"columns": "1-9"}}},
            "9 values for 2",
        ),
        (
            "1 2\n",
            {"joints": ["a", "b"], "rate": 1, "channels": {"q": {"columns": "4-2"}}},
            r"columns 4-2 end before they start; e.g. 2-4",
        ),
        (
            "1 2\n",
            {"joints": ["a"], "rate": 1, "channels": {"q": {"file": "x.txt"}}},
            "columns missing",
        ),
    ],
)
def test_what_cannot_be_read_is_said(text, layout, message, tmp_path):
    (tmp_path / "x.txt").write_text(text)
    with pytest.raises((FileReadError, MismatchError), match=message):
        read_log(tmp_path / "x.txt", parse_layout(layout))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(content=st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(content, tmp_path):
    (tmp_path / "x.txt").write_bytes(content)
    layout = {"transposed": True, "rate": 1.0, "other": {"x": 1}}
    with contextlib.suppress(BodysenseError):
        assert read_log(tmp_path / "x.txt", parse_layout(layout)).t.size
