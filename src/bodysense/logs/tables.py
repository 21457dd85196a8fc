"""Text and Parquet tables, read by columns.

Text is read in blocks: fast where all rows are whole, row by row where one is broken.
"""

from __future__ import annotations

import codecs
import csv
import math
import re
from collections.abc import Iterator, Sequence
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bodysense.errors import FileReadError
from bodysense.logs.channels import split_unit
from bodysense.logs.csv_format import COMMENTS, CsvFormat, find_format
from bodysense.logs.log import LogFile, LogTable, RowFault
from bodysense.spatial.arrays import Array

_BLOCK = 2**22  # bytes read at a time: memory beside the values themselves is a few of these
_PIECE = 2**17  # bytes that are read row by row for the sake of one broken row
_LONGEST_LINE = 2**26  # bytes
_NOTHING = frozenset(
    (b"", b"nan", b"-nan", b"na", b"n/a", b"null", b"none", b"nan(ind)", b"-nan(ind)")
)
_COMMENTS = tuple(mark.encode() for mark in COMMENTS)


def open_csv(
    path: str | PathLike[str],
    *,
    separator: str | None = None,
    decimal: str | None = None,
    header: bool | int | None = None,
) -> LogFile:
    """Look at the start of a text table; see `find_format`."""
    form = find_format(path, separator=separator, decimal=decimal, header=header)
    return LogFile(Path(path).name, form.names, form.units, partial(_read_csv, Path(path), form))


def _read_csv(
    path: Path, form: CsvFormat, required: Sequence[int], optional: Sequence[int]
) -> LogTable:
    wanted = (*required, *optional)
    pieces: dict[int, list[Array]] = {k: [] for k in wanted}
    rows: list[NDArray[np.int64]] = []
    faults: list[RowFault] = []
    wordy = set[int]()  # optional columns that hold text
    for start, block in _blocks(path, form):
        whole = _read_whole(block, form, wanted, wordy)
        if whole is None and len(wordy) < len(optional):
            maybe_wordy = set(optional)
            whole = _read_whole(block, form, wanted, maybe_wordy)
            wordy |= maybe_wordy if whole is not None else set()
        for line, part in [(start, block)] if whole is not None else _parts(start, block):
            columns = _read_whole(part, form, wanted, wordy) if whole is None else whole
            if columns is not None:
                numbers = np.arange(line, line + columns[0].size, dtype=np.int64)
            else:
                columns, numbers = _read_rows(part, line, form, required, optional, faults)
            rows.append(numbers)
            for k, column in zip(wanted, columns, strict=True):
                pieces[k].append(column)
    numbers = np.concatenate(rows) if rows else np.zeros(0, dtype=np.int64)
    if not numbers.size:
        why = f": line {faults[0].row} has {faults[0].reason}" if faults else ""
        raise FileReadError(
            f"{path} has no row that can be used{why}. If it is a table of numbers, state its "
            "separator and header in a layout."
        )
    # Column by column, so that only one of them exists twice at a time.
    joined = {k: np.concatenate(pieces.pop(k)) for k in wanted}
    return LogTable(_with_numbers(joined, required), numbers, tuple(faults))


def _with_numbers(columns: dict[int, Array], required: Sequence[int]) -> dict[int, Array]:
    """The columns without optional ones that never hold a number."""
    kept = frozenset(required)
    return {k: x for k, x in columns.items() if k in kept or not np.isnan(x).all()}


def _read_rows(
    block: bytes,
    line: int,
    form: CsvFormat,
    required: Sequence[int],
    optional: Sequence[int],
    faults: list[RowFault],
) -> tuple[list[Array], NDArray[np.int64]]:
    """Rows one by one; those that are broken go to `faults`."""
    separator, n = form.separator.encode(), len(form.units)
    wanted, loose = (*required, *optional), frozenset(optional)
    values: list[list[float]] = []
    numbers: list[int] = []
    for row, text in enumerate(block.split(b"\n"), start=line):
        content = text.strip(b" \r") if separator == b"\t" else text.strip()
        if not content or content.startswith(_COMMENTS):
            continue
        if form.decimal == ",":
            content = content.replace(b",", b".")
        cells = _cells(content, separator)
        if len(cells) != n:
            faults.append(RowFault(row, _miscount(cells, n)))
            continue
        try:
            if b"_" in content:  # float() takes 1_000 for a number
                raise ValueError
            values.append([float(cells[k]) for k in wanted])
        except ValueError:
            loosely = [_number(cells[k], loose=k in loose) for k in wanted]
            if None in loosely:
                k = wanted[loosely.index(None)]
                title = str(k + 1) if form.names is None else repr(form.names[k])
                faults.append(RowFault(row, f"{_shown(cells[k])} in column {title}"))
                continue
            values.append([x for x in loosely if x is not None])
        numbers.append(row)
    table = np.array(values, dtype=np.float64).reshape(len(values), len(wanted))
    return list(np.ascontiguousarray(table.T)), np.array(numbers, dtype=np.int64)


def _blocks(path: Path, form: CsvFormat) -> Iterator[tuple[int, bytes]]:
    """Whole lines with the number of the first of them."""
    line, rest = form.first_line, b""
    try:
        with path.open("rb") as stream:
            stream.seek(form.first_byte)
            while chunk := stream.read(_BLOCK):
                data = rest + (chunk.replace(b"\r", b"\n") if form.line_end == "\r" else chunk)
                end = data.rfind(b"\n") + 1
                if end:
                    yield line, data[:end]
                    line += data.count(b"\n", 0, end)
                rest = data[end:]
                if len(rest) > _LONGEST_LINE:
                    raise FileReadError(
                        f"{path}: line {line} is longer than {_LONGEST_LINE} bytes: is it a text "
                        "table?"
                    )
            if rest:
                yield line, rest
    except OSError as error:
        raise FileReadError(f"cannot read {path}: {error.strerror}; check the disk.") from error


def _parts(line: int, block: bytes) -> Iterator[tuple[int, bytes]]:
    """Smaller blocks of whole lines, so that a broken row slows down few others."""
    start = 0
    while start < len(block):
        end = block.find(b"\n", start + _PIECE) + 1 or len(block)
        yield line, block[start:end]
        line += block.count(b"\n", start, end)
        start = end


def _read_whole(
    block: bytes, form: CsvFormat, wanted: Sequence[int], wordy: set[int]
) -> list[Array] | None:
    """All rows of a block at once, or `None` if any line of it is something else than a row.

    Args:
        block: whole lines.
        form: how they are written.
        wanted: columns, from 0.
        wordy: those of them that may hold text; those that turn out not to are removed.
    """
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    if not wanted or any(mark in block for mark in _COMMENTS):
        return None
    n_lines = block.count(b"\n") + (not block.endswith(b"\n"))
    separator = form.separator or "\x1f"  # one column: a separator that does not occur
    if separator == " ":
        block = re.sub(rb"[ \t]*\r?\n[ \t]*", b"\n", block).strip(b" \t")
        block = re.sub(rb"[ \t]+", b" ", block)
    names = [str(k) for k in range(len(form.units))]
    types = {names[k]: pa.binary() if k in wordy else pa.float64() for k in wanted}
    try:
        table = arrow_csv.read_csv(
            pa.BufferReader(block),
            read_options=arrow_csv.ReadOptions(column_names=names, block_size=len(block) + 1),
            parse_options=arrow_csv.ParseOptions(delimiter=separator, quote_char=False),
            convert_options=arrow_csv.ConvertOptions(
                column_types=types,
                include_columns=list(types),
                null_values=[word.decode() for word in _NOTHING],
                decimal_point=form.decimal,
            ),
        )
    except pa.ArrowInvalid:
        return None
    if table.num_rows != n_lines:  # blank lines, or line ends within a line
        return None
    columns = []
    for k in wanted:
        column = table.column(names[k])
        if k not in wordy:
            columns.append(np.array(column, dtype=np.float64))
            continue
        cells = column.to_pylist()
        if form.decimal == ",":
            cells = [cell.replace(b",", b".") for cell in cells]
        columns.append(np.array([_number(cell, loose=True) for cell in cells], dtype=np.float64))
        if all(_number(cell, loose=False) is not None for cell in cells):
            wordy.discard(k)
    return columns


def _cells(content: bytes, separator: bytes) -> list[bytes]:
    if not separator:
        return [content]
    if separator == b" ":
        return content.split()
    if b'"' in content:  # a separator between quotes is none
        text = content.decode("latin-1")
        return [
            cell.encode("latin-1")
            for cell in next(csv.reader([text], delimiter=separator.decode()))
        ]
    return content.split(separator)


def _number(cell: bytes, *, loose: bool) -> float | None:
    bare = cell.strip().strip(b'"').strip()
    if bare.lower() in _NOTHING:
        return math.nan
    try:
        return None if b"_" in bare else float(bare)
    except ValueError:
        return math.nan if loose else None


def _miscount(cells: Sequence[bytes], n: int) -> str:
    count = len(cells)
    if count > n:
        return f"{count} values where {n} belong"
    if not cells[-1].strip():  # cut right behind a separator
        count -= 1
    return f"{count} of {n} values"


def _shown(cell: bytes) -> str:
    return repr(cell[:20].decode("utf-8", "replace").strip())


def open_transposed(
    path: str | PathLike[str], *, separator: str | None = None, decimal: str | None = None
) -> LogFile:
    """A text table with a row per channel, which may begin with its name: rows become columns.

    Raises:
        FileReadError: the file cannot be read, or its rows differ in length.
    """
    form = find_format(path, separator=separator, decimal=decimal, header=False)
    try:
        content = Path(path).read_bytes().removeprefix(codecs.BOM_UTF8)
    except OSError as error:
        raise FileReadError(f"cannot read {path}: {error.strerror}; check the disk.") from error
    lines = [(k, line.strip()) for k, line in enumerate(content.splitlines(), start=1)]
    lines = [(k, line) for k, line in lines if line and not line.startswith(_COMMENTS)]
    cells = [_cells(line, form.separator.encode()) for _, line in lines]
    if form.separator and all(not row[-1].strip() for row in cells):
        cells = [row[:-1] for row in cells]  # rows end with a separator
    if form.decimal == ",":
        cells = [[cell.replace(b",", b".") for cell in row] for row in cells]
    pairs = None
    if all(row and _number(row[0], loose=False) is None for row in cells):
        pairs = [split_unit(row.pop(0).decode("utf-8", "replace").strip(' "')) for row in cells]
    counts = {len(row) for row in cells} or {0}
    if counts == {0}:
        raise FileReadError(f"{path} holds no rows of numbers: is it the right file?")
    if len(counts) != 1:
        raise FileReadError(
            f"{path}: rows of a transposed table have {min(counts)} to {max(counts)} values; they "
            "must have the same number, one per sample."
        )
    names, units = zip(*pairs, strict=True) if pairs else (None, ("",) * len(cells))
    read = partial(_read_transposed, str(path), cells, [k for k, _ in lines])
    return LogFile(Path(path).name, names, units, read, series="row")


def _read_transposed(
    path: str,
    cells: Sequence[Sequence[bytes]],
    lines: Sequence[int],
    required: Sequence[int],
    optional: Sequence[int],
) -> LogTable:
    columns = {}
    for k in (*required, *optional):
        values = [_number(cell, loose=k in optional) for cell in cells[k]]
        if None in values:
            wrong = cells[k][values.index(None)]
            raise FileReadError(f"{path}, line {lines[k]}: {_shown(wrong)} is no number.")
        columns[k] = np.array(values, dtype=np.float64)
    return LogTable(_with_numbers(columns, required), np.arange(1, len(cells[0]) + 1))


# Parquet tables. Units stand in the metadata of the columns, key ``unit``.

_TICKS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


def open_parquet(path: str | PathLike[str]) -> LogFile:
    """Look at the schema of a file.

    Raises:
        FileReadError: the file is missing or not Parquet.
    """
    import pyarrow as pa
    from pyarrow import parquet

    try:
        with Path(path).open("rb") as stream:
            fields = list(parquet.read_schema(stream))
    except (OSError, ValueError, pa.ArrowException) as error:
        raise _unreadable(path, error) from error
    names, units = zip(*map(_name_and_unit, fields), strict=True) if fields else ((), ())
    return LogFile(Path(path).name, names, units, partial(_read_parquet, Path(path), fields))


def _read_parquet(
    path: Path, fields: Sequence[Any], required: Sequence[int], optional: Sequence[int]
) -> LogTable:
    import pyarrow as pa
    from pyarrow import parquet

    for k in required:
        if not _is_numeric(fields[k].type):
            raise FileReadError(
                f"{path}: column {_name_and_unit(fields[k])[0]!r} holds {fields[k].type}, not "
                "numbers; write one column of numbers per channel."
            )
    columns = {}
    try:
        with parquet.ParquetFile(path) as file:
            n = file.metadata.num_rows
            # One column at a time, so that memory stays small.
            for k in [*required, *(k for k in optional if _is_numeric(fields[k].type))]:
                title = fields[k].name
                twins = [field.name for field in fields[:k]].count(title)
                # A selection by name also brings columns whose names start with it and a dot.
                table = file.read(columns=[title])
                columns[k] = _floats(table.column(table.schema.get_all_field_indices(title)[twins]))
    except (OSError, ValueError, KeyError, pa.ArrowException) as error:
        raise _unreadable(path, error) from error
    if not n:
        raise FileReadError(f"{path} has no rows: is the recording complete?")
    return LogTable(_with_numbers(columns, required), np.arange(1, n + 1, dtype=np.int64))


def _name_and_unit(field: Any) -> tuple[str, str]:
    metadata = field.metadata or {}
    stored = metadata.get(b"unit", metadata.get(b"units"))
    if stored is not None:
        return str(field.name), stored.decode("utf-8", "replace")
    return split_unit(str(field.name))


def _is_numeric(kind: Any) -> bool:
    from pyarrow import types

    return bool(
        types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_decimal(kind)
        or types.is_boolean(kind)
        or types.is_timestamp(kind)
        or types.is_duration(kind)
        or types.is_null(kind)
    )


def _floats(column: Any) -> Array:
    """Values of a column, NaN where there are none; times in seconds."""
    import pyarrow as pa
    from pyarrow import types

    factor = 1.0
    if types.is_timestamp(column.type) or types.is_duration(column.type):
        factor = _TICKS[column.type.unit]
        column = column.cast(pa.int64())
    if not types.is_float64(column.type):
        column = column.cast(pa.float64(), safe=False)
    values = np.array(column, dtype=np.float64)
    return values if factor == 1.0 else values * factor


def _unreadable(path: str | PathLike[str], error: Exception) -> FileReadError:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else error
    return FileReadError(f"cannot read {path} as Parquet: {reason}; check the path and the file.")
