import math
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bodysense.errors import FileReadError
from bodysense.logs import RowFault, read_log, tables
from bodysense.logs.tables import open_csv


def read(tmp_path, content, required=None, optional=(), **options):
    path = tmp_path / "log.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    source = open_csv(path, **options)
    return source.read(range(len(source.units)) if required is None else required, optional)


def matrix(table):
    return np.stack([table.columns[k] for k in sorted(table.columns)], axis=1)


@pytest.mark.parametrize(
    "content",
    [
        "1,2.5\n3,-4e-1\n",
        "1;2,5\n3;-4e-1\n",
        "1;2.5\n3;-4e-1\n",
        "1\t2.5\n3\t-4e-1\n",
        "  1 2.5  \n3   -4e-1",
        "1 ,  2.5\r\n3,-4e-1\r\n",
        "1,2.5\r3,-4e-1\r",
        "# words\n1,2.5\n\n# more, words\n3,-4e-1\n\n",
        '"1","2.5"\n"3","-4e-1"\n',
        "a,b\n1,2.5\n3,-4e-1",
        b"\xef\xbb\xbfa,b\n1,2.5\n3,-4e-1\n",
    ],
)
def test_ways_to_write_the_same_table(tmp_path, content):
    table = read(tmp_path, content)
    np.testing.assert_array_equal(matrix(table), [[1.0, 2.5], [3.0, -0.4]])
    assert table.faults == ()


def test_broken_rows_are_left_out_and_named(tmp_path):
    content = "a,b,c\n1,2,3\n4,5\n6,7,8,9\n1,x,2\n\n10,11,12\n1_0,2,3\n4,5,\0\n13,14,15\n16,17,"
    table = read(tmp_path, content)
    np.testing.assert_array_equal(matrix(table)[:3], [[1, 2, 3], [10, 11, 12], [13, 14, 15]])
    assert table.rows.tolist() == [2, 7, 10, 11]
    assert math.isnan(matrix(table)[3, 2])
    assert table.faults[:4] == (
        RowFault(3, "2 of 3 values"),
        RowFault(4, "4 values where 3 belong"),
        RowFault(5, "'x' in column 'b'"),
        RowFault(8, "'1_0' in column 'a'"),
    )
    assert [fault.row for fault in table.faults] == [3, 4, 5, 8, 9]


def test_a_last_row_cut_behind_a_separator(tmp_path):
    table = read(tmp_path, "1,2,3\n4,5,6\n7,")
    assert table.faults == (RowFault(3, "1 of 3 values"),)


@pytest.mark.parametrize("word", ["", "nan", "NaN", "NA", "n/a", "NULL", "None", " ", "-nan(ind)"])
@pytest.mark.parametrize("broken", ["", "8\n"])  # fast, and row by row
def test_words_for_nothing(tmp_path, word, broken):
    table = read(tmp_path, f"1,2\n3,{word}\n5,6\n{broken}")
    np.testing.assert_array_equal(matrix(table), [[1, 2], [3, np.nan], [5, 6]])


def test_text_outside_the_wanted_columns_does_no_harm(tmp_path):
    content = "t,state,q\n1,idle,2\n3,run,4\n"
    table = read(tmp_path, content, required=[0, 2])
    np.testing.assert_array_equal(matrix(table), [[1, 2], [3, 4]])
    assert table.faults == ()


def test_optional_columns_without_a_number_are_left_out(tmp_path):
    content = "t,state,x\n1,idle,2\n3,run,-\n"
    table = read(tmp_path, content, required=[0], optional=[1, 2])
    np.testing.assert_array_equal(matrix(table), [[1, 2], [3, np.nan]])
    assert sorted(table.columns) == [0, 2]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("t,q\n", "no rows of numbers|no row that can be used"),
        ("a,b\nx,y\nz,w\n", "line 2 has 'x'"),
    ],
)
def test_no_usable_row(tmp_path, content, message):
    with pytest.raises(FileReadError, match=message):
        read(tmp_path, content)


def test_a_line_without_end(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "_BLOCK", 64)
    monkeypatch.setattr(tables, "_LONGEST_LINE", 256)
    with pytest.raises(FileReadError, match="line 2 is longer than 256 bytes"):
        read(tmp_path, "1,2\n" + "3" * 1000)


@pytest.mark.parametrize("block", [1, 7, 50, 2**22])
def test_blocks_of_any_size_give_the_same(tmp_path, monkeypatch, rng, block):
    values = rng.normal(size=(60, 3))
    lines = [",".join(repr(float(x)) for x in row) for row in values]
    lines[20] += ",1"
    lines.insert(40, "")
    monkeypatch.setattr(tables, "_BLOCK", block)
    monkeypatch.setattr(tables, "_PIECE", 30)
    table = read(tmp_path, "a,b,c\n" + "\n".join(lines))
    np.testing.assert_array_equal(matrix(table), np.delete(values, 20, axis=0))
    expected = [k + 2 + (k >= 40) for k in range(60) if k != 20]
    assert table.rows.tolist() == expected
    assert table.faults == (RowFault(22, "4 values where 3 belong"),)


cells = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.integers(-(10**20), 10**20).map(str),
    st.sampled_from(["", "x", "nan", "1e999", "-", "0x1", "1_0", "+3", ".5", "5.", '"7"', "#"]),
)


@settings(max_examples=150)
@given(
    rows=st.lists(st.lists(cells, min_size=1, max_size=4), min_size=1, max_size=12),
    optional=st.sampled_from([(), (1,), (0, 2)]),
)
def test_the_fast_way_agrees_with_row_by_row(tmp_path_factory, rows, optional):
    folder = tmp_path_factory.mktemp("csv")
    content = "1,2,3\n" * 13 + "\n".join(",".join(row) for row in rows) + "\n"
    required = [k for k in range(3) if k not in optional]
    table = read(folder, content, required, optional, header=False, separator=",")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "_read_whole", lambda *_: None)
        slowly = read(folder, content, required, optional, header=False, separator=",")
    np.testing.assert_array_equal(matrix(table), matrix(slowly))
    np.testing.assert_array_equal(table.rows, slowly.rows)
    assert table.faults == slowly.faults


def test_time_grows_with_the_number_of_columns_and_not_with_its_square(tmp_path):
    def seconds(n: int) -> float:
        path = tmp_path / f"{n}.csv"
        path.write_text(
            f"{','.join(['t', *(f'q.j{k}' for k in range(n))])}\n" + f"0{',1' * n}\n" * 2
        )
        start = time.process_time()
        read_log(path)
        return time.process_time() - start

    seconds(100)
    assert seconds(16_000) < 8.0 * seconds(4_000) + 0.2
