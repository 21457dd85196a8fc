import datetime

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from bodysense.errors import FileReadError
from bodysense.logs import read_log
from bodysense.logs.tables import open_parquet


def write(path, columns, units=None):
    table = pa.table(columns)
    fields = [
        field.with_metadata({"unit": units[field.name]}) if field.name in (units or {}) else field
        for field in table.schema
    ]
    parquet.write_table(table.cast(pa.schema(fields)), path)
    return path


def test_numbers_of_all_kinds(tmp_path):
    path = write(
        tmp_path / "log.parquet",
        {
            "t": pa.array([0, 1, 2], pa.int32()),
            "q.a": pa.array([1.5, None, 3.0], pa.float32()),
            "flag": pa.array([True, False, None]),
            "word": pa.array(["x", "y", "z"]),
            "nested": pa.array([[1.0], [2.0], [3.0]]),
        },
    )
    log = read_log(path)
    assert list(log.channels) == ["q.a", "flag"]
    np.testing.assert_array_equal(log.t, [0, 1, 2])
    np.testing.assert_array_equal(log.channels["q.a"], [1.5, np.nan, 3.0])
    np.testing.assert_array_equal(log.channels["flag"], [1, 0, np.nan])
    assert log.rows.tolist() == [1, 2, 3]


def test_units_in_the_metadata_and_in_names(tmp_path):
    path = write(
        tmp_path / "log.parquet",
        {"t": [0.0, 500.0], "q.a": [180.0, 90.0], "tau.a [mN·m]": [1000.0, 500.0]},
        {"t": "ms", "q.a": "deg"},
    )
    log = read_log(path)
    np.testing.assert_allclose(log.t, [0, 0.5])
    np.testing.assert_allclose(log.channels["q.a"], [np.pi, np.pi / 2])
    np.testing.assert_allclose(log.channels["tau.a"], [1, 0.5])
    assert log.units == {"q.a": "rad", "tau.a": "N·m"}


def test_times_as_timestamps(tmp_path):
    start = datetime.datetime(2024, 5, 1, tzinfo=datetime.UTC)
    stamps = [start, start + datetime.timedelta(milliseconds=10)]
    path = write(tmp_path / "log.parquet", {"t": stamps, "q.a": [1.0, 2.0]})
    log = read_log(path)
    np.testing.assert_allclose(log.t, [s.timestamp() for s in stamps], rtol=1e-15)


def test_names_that_begin_alike(tmp_path):
    columns = {"t": [0.0, 1.0], "q.a": [1.0, 2.0], "q.a.b": [3.0, 4.0], "q": [5.0, 6.0]}
    log = read_log(write(tmp_path / "log.parquet", columns))
    assert {name: x.tolist() for name, x in log.channels.items()} == {
        name: x for name, x in columns.items() if name != "t"
    }


@pytest.mark.parametrize("values", [["x", "y"], [[1.0], [2.0]]])
def test_a_channel_that_holds_no_numbers(tmp_path, values):
    path = write(tmp_path / "log.parquet", {"t": [0.0, 1.0], "q.a": values})
    with pytest.raises(FileReadError, match=r"column 'q\.a' holds (string|list<.*>), not numbers"):
        read_log(path)


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" + bytes(50) + b"PAR1", b"t,q.a\n1,2\n"])
def test_what_is_no_parquet(tmp_path, content):
    path = tmp_path / "log.parquet"
    path.write_bytes(content)
    with pytest.raises(FileReadError, match=r"log\.parquet as Parquet"):
        open_parquet(path)


def test_a_damaged_column(tmp_path):
    path = write(tmp_path / "log.parquet", {"t": np.arange(9000.0), "q.a": np.arange(9000.0)})
    data = bytearray(path.read_bytes())
    data[4:3000] = bytes(2996)
    path.write_bytes(data)
    with pytest.raises(FileReadError, match="as Parquet"):
        read_log(path)


def test_no_rows(tmp_path):
    path = write(tmp_path / "log.parquet", {"t": pa.array([], pa.float64())})
    with pytest.raises(FileReadError, match="has no rows"):
        read_log(path)
