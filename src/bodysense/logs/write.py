"""Writing logs, so that reading them back gives the same numbers to the last bit."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from os import PathLike
from pathlib import Path

from bodysense.errors import FileWriteError
from bodysense.files import write_atomically
from bodysense.logs.channels import join_unit, units_of
from bodysense.logs.log import Log, require_log

_SEPARATORS = {".csv": ",", ".tsv": "\t"}
_PARQUET = (".parquet", ".pq")


def write_log(path: str | PathLike[str], log: Log) -> Path:
    """Write a log as CSV (.csv), tab-separated text (.tsv) or Parquet (.parquet, .pq).

    The first column is the time, ``t [s]``, the others are the channels. Units stand behind the
    names of the columns of a text table, and in the metadata of those of Parquet, key ``unit``.

    Returns:
        The path that was written, links resolved.

    Raises:
        FileWriteError: the suffix or a channel's name has no place in a file, or the system
            refuses.
    """
    require_log(log)
    suffix = Path(path).suffix.lower()
    if suffix not in (*_SEPARATORS, *_PARQUET):
        raise FileWriteError(
            f"cannot write {path}: a log is written as .csv, .tsv or .parquet; name it so."
        )
    units = {name: log.units[name] or next(iter(units_of(name)), "") for name in log.channels}
    for name, unit in units.items():
        _refuse_unwritable(name, unit)
    data = _parquet(log, units) if suffix in _PARQUET else _text(log, units, _SEPARATORS[suffix])
    return write_atomically(path, data)


def _refuse_unwritable(name: str, unit: str) -> None:
    if name == "t":
        raise FileWriteError("cannot write channel 't': it is the name of the time; rename it.")
    if not name or name != name.strip() or not name.isprintable():
        raise FileWriteError(
            f"cannot write channel {name!r}: a name must be visible, without line breaks and "
            "without spaces at its ends; rename it."
        )
    if unit != unit.strip() or "[" in unit or "]" in unit or not unit.isprintable():
        raise FileWriteError(
            f"cannot write the unit {unit!r} of {name!r}: it holds brackets, line breaks or spaces "
            "at its ends; rename it."
        )


def _text(log: Log, units: Mapping[str, str], separator: str) -> bytes:
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    header = io.StringIO()
    titles = [join_unit("t", "s"), *(join_unit(name, unit) for name, unit in units.items())]
    csv.writer(header, delimiter=separator, lineterminator="\n").writerow(titles)
    columns = [log.t, *log.channels.values()]
    table = pa.table({str(k): column for k, column in enumerate(columns)})
    stream = io.BytesIO()
    stream.write(header.getvalue().encode("utf-8"))
    options = arrow_csv.WriteOptions(include_header=False, delimiter=separator)
    arrow_csv.write_csv(table, stream, options)
    return stream.getvalue()


def _parquet(log: Log, units: Mapping[str, str]) -> bytes:
    import pyarrow as pa
    from pyarrow import parquet

    fields = [
        pa.field(name, pa.float64(), nullable=False, metadata={"unit": unit})
        for name, unit in (("t", "s"), *units.items())
    ]
    columns = [pa.array(column) for column in (log.t, *log.channels.values())]
    stream = io.BytesIO()
    parquet.write_table(pa.Table.from_arrays(columns, schema=pa.schema(fields)), stream)
    return stream.getvalue()
