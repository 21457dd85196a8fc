"""Text tables, read in blocks: fast where all rows are whole, row by row where one is broken."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bodysense.errors import FileReadError
from bodysense.logs.csv_format import COMMENTS, CsvFormat, find_format
from bodysense.logs.log import LogTable, RowFault
from bodysense.spatial.arrays import Array

_BLOCK = 2**22  # bytes read at a time: memory beside the values themselves is a few of these
_PIECE = 2**17  # bytes that are read row by row for the sake of one broken row
_LONGEST_LINE = 2**26  # bytes
_NOTHING = frozenset(
    (b"", b"nan", b"-nan", b"na", b"n/a", b"null", b"none", b"nan(ind)", b"-nan(ind)")
)
_COMMENTS = tuple(mark.encode() for mark in COMMENTS)


@dataclass(frozen=True)
class CsvSource:
    """A text table; see `Source`."""

    path: Path
    format: CsvFormat
    notes: tuple[str, ...] = ()

    @classmethod
    def open(
        cls,
        path: str | PathLike[str],
        *,
        separator: str | None = None,
        decimal: str | None = None,
        header: bool | int | None = None,
    ) -> CsvSource:
        """Look at a file; see `find_format`."""
        result = find_format(path, separator=separator, decimal=decimal, header=header)
        return cls(Path(path), result)

    @property
    def name(self) -> str:
        """Name of the file."""
        return self.path.name

    @property
    def names(self) -> tuple[str, ...] | None:
        """Names of the columns."""
        return self.format.names

    @property
    def units(self) -> tuple[str, ...]:
        """Units out of the header."""
        return self.format.units

    @property
    def n_columns(self) -> int:
        """How many cells a row has."""
        return self.format.n_columns

    def read(self, required: Sequence[int], optional: Sequence[int] = ()) -> LogTable:
        """Read columns; see `Source.read`."""
        wanted = (*required, *optional)
        pieces: dict[int, list[Array]] = {k: [] for k in wanted}
        rows: list[NDArray[np.int64]] = []
        faults: list[RowFault] = []
        wordy = set[int]()  # optional columns that have been seen to hold text
        for start, block in _blocks(self.path, self.format):
            whole = _read_whole(block, self.format, wanted, wordy)
            if whole is None and len(wordy) < len(optional):
                found_words = set(optional)
                whole = _read_whole(block, self.format, wanted, found_words)
                wordy |= found_words if whole is not None else set()
            for line, part in [(start, block)] if whole is not None else _parts(start, block):
                columns = _read_whole(part, self.format, wanted, wordy) if whole is None else whole
                if columns is not None:
                    result = np.arange(line, line + columns[0].size, dtype=np.int64)
                else:
                    columns, result = self._read_rows(part, line, required, optional, faults)
                rows.append(result)
                for k, column in zip(wanted, columns, strict=True):
                    pieces[k].append(column)
        numbers = np.concatenate(rows) if rows else np.zeros(0, dtype=np.int64)
        if not numbers.size:
            why = f": line {faults[0].row} has {faults[0].reason}" if faults else ""
            raise FileReadError(
                f"{self.path} has no row that can be used{why}. If it is a table of numbers, "
                "state its separator and header in a layout."
            )
        # Column by column, so that only one of them exists twice at a time.
        joined = {k: np.concatenate(pieces.pop(k)) for k in wanted}
        kept = {k: x for k, x in joined.items() if k in required or not np.isnan(x).all()}
        return LogTable(kept, numbers, tuple(faults))

    def _read_rows(
        self,
        block: bytes,
        line: int,
        required: Sequence[int],
        optional: Sequence[int],
        faults: list[RowFault],
    ) -> tuple[list[Array], NDArray[np.int64]]:
        """Rows one by one; those that are broken go to `faults`."""
        separator = self.format.separator.encode()
        n, wanted, loose = self.n_columns, (*required, *optional), frozenset(optional)
        values: list[list[float]] = []
        numbers: list[int] = []
        for row, text in enumerate(block.split(b"\n"), start=line):
            content = text.strip(b" \r") if separator == b"\t" else text.strip()
            if not content or content.startswith(_COMMENTS):
                continue
            if self.format.decimal == ",":
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
                    faults.append(RowFault(row, f"{_shown(cells[k])} in column {self._title(k)}"))
                    continue
                values.append([x for x in loosely if x is not None])
            numbers.append(row)
        table = np.array(values, dtype=np.float64).reshape(len(values), len(wanted))
        return list(np.ascontiguousarray(table.T)), np.array(numbers, dtype=np.int64)

    def _title(self, column: int) -> str:
        return str(column + 1) if self.names is None else repr(self.names[column])


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
    names = [str(k) for k in range(form.n_columns)]
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
