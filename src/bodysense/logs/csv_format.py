"""How a text table is written: separator, decimal sign, header; stated or detected."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from bodysense.errors import FileReadError, unknown_name
from bodysense.logs.channels import split_unit
from bodysense.logs.motors import SCHEMA

SEPARATORS = {"comma": ",", "semicolon": ";", "tab": "\t", "space": " "}
"""Separators by name; "space" is any number of spaces and tabs."""

COMMENTS = ("#", "%", "//")
"""Lines that start with one of these hold no data."""

_SAMPLE = 2**18  # bytes that are looked at
_TYPICAL = 100  # lines that are looked at
_CONTROL = 0.05  # share of control characters above which a file is binary
_WITH_POINT = re.compile(r"(?<![\w.])[+-]?\d+\.\d")
_WITH_COMMA = re.compile(r"(?<![\w,])[+-]?\d+,\d")


@dataclass(frozen=True)
class CsvFormat:
    """How a text table is written.

    Attributes:
        separator: between cells, as in `SEPARATORS`; "" if there is one column alone.
        decimal: "." or ",".
        line_end: line feed, also where a carriage return comes before it; or that one alone.
        names: of the columns without units; `None` if the file has no header.
        units: of the columns as the header states them, "" where it does not.
        first_line: line at which the data starts, counted from 1.
        first_byte: where that line starts in the file.
    """

    separator: str
    decimal: str
    line_end: str
    names: tuple[str, ...] | None
    units: tuple[str, ...]
    first_line: int
    first_byte: int


def find_format(
    path: str | PathLike[str],
    *,
    separator: str | None = None,
    decimal: str | None = None,
    header: bool | int | None = None,
) -> CsvFormat:
    """Look at the start of a text table.

    Args:
        path: the file.
        separator: one of the values of `SEPARATORS`; `None` detects it.
        decimal: "." or ","; `None` detects it.
        header: whether there is one, or in which line it stands, counted from 1. `None` detects it:
            the first line is a header if fewer than half of its cells are numbers; so is a comment
            right before the data that has as many cells.

    Raises:
        FileReadError: the file is missing, empty, binary, or not in a byte-sized encoding.
    """
    start = _FileStart.read(path)
    lines = start.lines
    stated = header if isinstance(header, int) and not isinstance(header, bool) else None
    data = _data_lines(lines, stated, path)
    typical = [lines[k] for k in data[:_TYPICAL]]
    between = _separator(typical) if separator is None else separator
    point = _decimal(typical, between) if decimal is None else decimal
    title = _header(lines, data[0], header, between, point)
    first = data[0] if title is None else title + 1
    body = [lines[k] for k in data[:_TYPICAL] if k != title]
    names, units = _columns(None if title is None else lines[title], body, between)
    return CsvFormat(
        separator=between,
        decimal=point,
        line_end=start.line_end,
        names=names,
        units=units,
        first_line=first + 1,
        first_byte=start.byte_of(first),
    )


@dataclass(frozen=True)
class _FileStart:
    """The first lines of a file: as bytes, as text, and what ends them."""

    pieces: list[bytes]
    lines: list[str]
    line_end: str
    mark: int  # bytes before the first line, of a byte-order mark

    @classmethod
    def read(cls, path: str | PathLike[str]) -> _FileStart:
        sample, complete = _sample(path)
        mark = 3 if sample.startswith(b"\xef\xbb\xbf") else 0
        line_end = "\r" if b"\n" not in sample and b"\r" in sample else "\n"
        pieces = sample[mark:].split(line_end.encode())
        if not complete and len(pieces) > 1:
            pieces.pop()  # cut somewhere
        return cls(pieces, [_text(piece) for piece in pieces], line_end, mark)

    def byte_of(self, line: int) -> int:
        """Where a line starts in the file."""
        return self.mark + sum(len(piece) + 1 for piece in self.pieces[:line])


def _data_lines(lines: Sequence[str], header: int | None, path: str | PathLike[str]) -> list[int]:
    """Which lines are neither empty nor comments, from a stated line of the header on."""
    if header is not None and not 1 <= header <= len(lines):
        raise FileReadError(
            f"{path}: there is no header in line {header}; its start has {len(lines)} lines."
        )
    first = 0 if header is None else header
    data = [k for k, line in enumerate(lines) if line.strip() and not _is_comment(line)]
    data = [k for k in data if k >= first]
    if not data:
        raise FileReadError(f"{path} holds no rows of numbers: is it the right file?")
    return data


def _columns(
    header: str | None, body: Sequence[str], separator: str
) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
    """Names of the columns, if there is a header, and their units."""
    counts = Counter(len(_split_cells(line, separator)) for line in body)
    n_columns = counts.most_common(1)[0][0] if counts else 0
    if header is None:
        return None, ("",) * n_columns
    titles = _titles(header, separator)
    if n_columns == len(titles) + 1 and not _split_cells(body[0], separator)[-1].strip():
        titles.append("")  # rows end with a separator, the header does not
    pairs = [split_unit(cell) for cell in titles]
    return tuple(name for name, _ in pairs), tuple(unit for _, unit in pairs)


def _split_cells(line: str, separator: str) -> list[str]:
    """Cells of a row."""
    if not separator:
        return [line]
    return line.split() if separator == " " else line.split(separator)


def _sample(path: str | PathLike[str]) -> tuple[bytes, bool]:
    try:
        with Path(path).open("rb") as stream:
            sample = stream.read(_SAMPLE)
            complete = not stream.read(1)
    except (OSError, ValueError) as error:  # ValueError: a null character in the path
        reason = error.strerror if isinstance(error, OSError) else error
        raise FileReadError(f"cannot read {path}: {reason}; check the path.") from error
    if not sample.strip():
        raise FileReadError(f"{path} is empty: is the recording complete?")
    if sample.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise FileReadError(f"{path} is UTF-16 text: save it as UTF-8.")
    start = sample[:4096]
    if sum(byte < 32 and byte not in b"\t\r\n" for byte in start) > _CONTROL * len(start):
        raise FileReadError(
            f"{path} is a binary file, not a text table: give it the suffix of its format, "
            ".parquet, .mcap or .db3, or export it as CSV."
        )
    return sample, complete


def _text(line: bytes) -> str:
    try:
        return line.decode("utf-8").rstrip("\r")
    except UnicodeDecodeError:
        return line.decode("latin-1").rstrip("\r")


def _is_comment(line: str) -> bool:
    return line.lstrip().startswith(COMMENTS)


def _separator(lines: Sequence[str]) -> str:
    for candidate in ("\t", ";", ","):
        if 2 * sum(candidate in line.strip() for line in lines) > len(lines):
            return " " if candidate == "\t" and _ragged_tabs(lines) else candidate
    return " " if 2 * sum(len(line.split()) > 1 for line in lines) > len(lines) else ""


def _ragged_tabs(lines: Sequence[str]) -> bool:
    """Whether tabs only align columns, together with spaces or in differing numbers."""
    return len({len(line.split("\t")) for line in lines}) > 1 and (
        len({len(line.split()) for line in lines}) == 1
    )


def _decimal(lines: Sequence[str], separator: str) -> str:
    if separator == "," or any(_WITH_POINT.search(line) for line in lines):
        return "."
    return "," if any(_WITH_COMMA.search(line) for line in lines) else "."


def _header(
    lines: Sequence[str], first: int, stated: bool | int | None, separator: str, decimal: str
) -> int | None:
    """Position of the header among the lines."""
    if stated is False:
        return None
    if stated is True:
        return first
    if stated is not None:
        return stated - 1
    cells = _split_cells(lines[first], separator)
    if _is_mostly_text(cells, decimal):
        return first
    before = first - 1
    if before >= 0 and _is_comment(lines[before]):
        titles = _titles(lines[before], separator)
        if len(titles) == len(cells) and _is_mostly_text(titles, decimal):
            return before
    return None


def _is_mostly_text(cells: Sequence[str], decimal: str) -> bool:
    filled = [cell.strip(' "').replace(decimal, ".") for cell in cells if cell.strip(' "')]
    return 2 * sum(_is_number(cell) for cell in filled) < len(filled)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _titles(line: str, separator: str) -> list[str]:
    text = line.strip() if separator in ("", " ") else line.strip(" ")
    if _is_comment(text):
        text = text.lstrip("#%/").lstrip(" ")
    if separator == " ":
        return [cell.strip('"') for cell in text.split()]
    if not separator:
        return [text.strip('"')]
    row = next(csv.reader([text], delimiter=separator, skipinitialspace=True), [])
    return [cell.strip() for cell in row]


# What a layout file states of it.

_COLUMN_RANGE = re.compile(r"(?P<first>\d{1,9})\s*-\s*(?P<last>\d{1,9})")
_MOST_COLUMNS = 100_000  # of a range
_WIDE = 1000  # columns: more look like the samples of a table with a row per channel


def layout_example(n_columns: int) -> str:
    """What a layout file says of a table without a header that has so many columns."""
    if n_columns == 1:
        return "of one value per line `rate: 1000` and `channels: {q: {file: [q1.txt, q2.txt, …]}}`"
    if n_columns > _WIDE:
        return f"with `transposed: true` if its {n_columns} columns are samples, a row per channel"
    channels = "`channels: {q: {columns: 2-4}}`"
    return f"of {n_columns} columns e.g. `joints: […]`, `time: 1`, {channels}"


def column_numbers(columns: object, where: str) -> object:
    """``2-8`` as the list of its numbers, anything else as it is."""
    found = _COLUMN_RANGE.fullmatch(columns) if isinstance(columns, str) else None
    if found is None:
        return columns
    first, last = int(found["first"]), int(found["last"])
    if last < first:
        raise FileReadError(
            f"{where}: columns {columns} end before they start; e.g. {last}-{first}."
        )
    return list(range(first, min(last, first + _MOST_COLUMNS) + 1))


def stated_separator(value: object, where: str) -> str | None:
    """The separator of a layout file."""
    if value is None or value in SEPARATORS.values():
        return None if value is None else str(value)
    if not isinstance(value, str) or value not in SEPARATORS:
        raise unknown_name("separator", str(value), ("auto", *SEPARATORS), f"({where})")
    return SEPARATORS[value]


def stated_decimal(value: object, where: str) -> str | None:
    """The decimal sign of a layout file."""
    if value is not None and value not in (".", ","):
        raise FileReadError(f'{where}: expected "." or ",", got {value!r:.60}.')
    return None if value is None else str(value)


def stated_header(value: object, where: str) -> bool | int | None:
    """The header of a layout file: whether there is one, or its line."""
    return value if value is None or isinstance(value, bool) else SCHEMA.whole(value, where)
