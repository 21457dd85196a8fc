"""Ranges of recordings: ``run.csv@10:40``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bodysense.errors import FileReadError, ShapeError
from bodysense.logs.log import Log, RowFault
from bodysense.logs.read import read_log, split_range
from bodysense.logs.write import write_log

START = 1000.0


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("ranges")
    t = START + 0.5 * np.arange(41)
    write_log(folder / "run.csv", Log.of(t, {"q.a": t - START}))
    return folder


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [("@5:10", 5.0, 10.0), ("@5:", 5.0, 20.0), ("@:0.5", 0.0, 0.5), ("@-1:1e9", 0.0, 20.0)],
)
def test_times_count_from_the_first_sample(text, first, last, folder):
    log = read_log(f"{folder / 'run.csv'}{text}")
    assert (log.t[0], log.t[-1]) == (START + first, START + last)
    np.testing.assert_array_equal(log.channels["q.a"], log.t - START)
    assert log.rows[0] == 2 + 2 * first  # lines of the file, below its header
    assert log.source.startswith("run.csv@")
    assert log.digest == read_log(folder / "run.csv").digest


@given(st.floats(0.0, 10.0), st.floats(0.0, 10.0))
def test_two_ranges_share_no_sample_but_the_border(cut, more):
    t = np.linspace(3.0, 13.0, 57)
    log = Log.of(t, {"q.a": t})
    parts = [log.between(None, cut), log.between(cut, None)]
    border = int(np.isin(cut, t - t[0]))
    assert parts[0].t.size + parts[1].t.size == t.size + border
    inner = log.between(None, max(cut, more)).between(None, min(cut, more))
    np.testing.assert_array_equal(inner.t, log.between(None, min(cut, more)).t)


def test_faults_of_other_rows_are_left_out():
    t = np.arange(5.0)
    log = Log.of(t, {"q.a": t})
    faults, rows = (RowFault(2, "x"), RowFault(5, "y")), np.array([1, 3, 4, 6, 7])
    faulty = Log(log.t, log.channels, log.units, rows, faults)
    assert faulty.between(2.0, 4.0).faults == (RowFault(5, "y"),)


def test_a_file_of_such_a_name_is_taken_as_it_is(folder):
    path = folder / "run@1:2"
    path.write_bytes((folder / "run.csv").read_bytes())
    assert split_range(path) == (path, None)
    assert read_log(path).t.size == 41
    assert read_log(f"{path}@1:2").t.size == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("@30:40", r"run.csv: no sample lies in @30:40 \[s\]; the recording lasts 20 s"),
        ("@9:3", "must end after it starts"),
        ("@3:3", "must end after it starts"),
        (f"{300 * 'x'}@1:2", "cannot read"),
        ("@a:3", "a range is written FILE@FROM:TO in seconds"),
        ("@3", "cannot read"),
    ],
)
def test_bad_ranges(text, message, folder):
    with pytest.raises(FileReadError, match=message):
        read_log(f"{folder / 'run.csv'}{text}")


def test_ranges_are_seconds(folder):
    log = read_log(folder / "run.csv")
    for start, end in (("a", 3), (0, "b"), ([1], None)):
        with pytest.raises(ShapeError, match="expected seconds or None"):
            log.between(start, end)
    assert log.between(np.int64(0), np.float32(3.0)).t.size == 7
