"""Reading logs: one function for all formats."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from bodysense.errors import FileReadError
from bodysense.logs.assembly import assemble
from bodysense.logs.channels import split_unit
from bodysense.logs.csv_source import CsvSource
from bodysense.logs.layout import LogLayout
from bodysense.logs.layout_file import read_layout
from bodysense.logs.log import Log, LogFile, LogTable
from bodysense.spatial.arrays import Array

# Parquet tables.

_TICKS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


@dataclass(frozen=True)
class ParquetSource:
    """A Parquet table; see `Source`. Units stand in the metadata of its columns, key ``unit``."""

    path: Path
    names: tuple[str, ...]
    units: tuple[str, ...]
    types: tuple[Any, ...]  # pyarrow.DataType, whose package ships no types
    notes: tuple[str, ...] = ()

    @classmethod
    def open(cls, path: str | PathLike[str]) -> ParquetSource:
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
        pairs = [_name_and_unit(field) for field in fields]
        return cls(
            Path(path),
            names=tuple(name for name, _ in pairs),
            units=tuple(unit for _, unit in pairs),
            types=tuple(field.type for field in fields),
        )

    @property
    def name(self) -> str:
        """Name of the file."""
        return self.path.name

    @property
    def n_columns(self) -> int:
        """How many columns there are."""
        return len(self.names)

    def read(self, required: Sequence[int], optional: Sequence[int] = ()) -> LogTable:
        """Read columns; see `Source.read`.

        Raises:
            FileReadError: a required column holds no numbers, or the file is damaged.
        """
        import pyarrow as pa
        from pyarrow import parquet

        for k in required:
            if not _is_numeric(self.types[k]):
                raise FileReadError(
                    f"{self.path}: column {self.names[k]!r} holds {self.types[k]}, not numbers; "
                    "write one column of numbers per channel."
                )
        wanted = [*required, *(k for k in optional if _is_numeric(self.types[k]))]
        columns = {}
        try:
            with parquet.ParquetFile(self.path) as file:
                n = file.metadata.num_rows
                for k in wanted:  # one column at a time, so that memory stays small
                    title = file.schema_arrow.names[k]
                    twins = file.schema_arrow.names[:k].count(title)
                    # A selection by name also brings columns whose names start with it and a dot.
                    table = file.read(columns=[title])
                    columns[k] = _floats(
                        table.column(table.schema.get_all_field_indices(title)[twins])
                    )
        except (OSError, ValueError, KeyError, pa.ArrowException) as error:
            raise _unreadable(self.path, error) from error
        if not n:
            raise FileReadError(f"{self.path} has no rows: is the recording complete?")
        kept = {k: x for k, x in columns.items() if k in required or not np.isnan(x).all()}
        return LogTable(kept, np.arange(1, n + 1, dtype=np.int64))


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


_SUFFIXES = {
    ".csv": "text",
    ".tsv": "text",
    ".txt": "text",
    ".dat": "text",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".mcap": "mcap",
    ".db3": "bag",
}
_SIGNATURES = {b"PAR1": "parquet", b"\x89MCAP0\r\n": "mcap", b"SQLite format 3\0": "bag"}


def read_log(
    path: str | PathLike[str], layout: LogLayout | str | PathLike[str] | None = None
) -> Log:
    """Read a recording as it is, with all its faults.

    Args:
        path: CSV or other text table (.csv, .tsv, .txt, .dat), Parquet (.parquet, .pq), MCAP
            (.mcap), or a ROS 2 bag (its folder, or .db3); other suffixes are told by their content.
        layout: where the channels are, or the path of a layout file that says so. Without one the
            columns name the channels: ``t``, ``q.<joint>``, ``tau.<joint>``, …, and may end with a
            unit, ``q.elbow [deg]``.

    Raises:
        FileReadError: the file cannot be read, or holds nothing that can be used.
        UnknownNameError: a column that is not there.
        MissingDependencyError: the format needs a package that is not installed.
    """
    path = Path(path)
    if layout is None:
        layout = LogLayout(source="no layout")
    elif not isinstance(layout, LogLayout):
        layout = read_layout(layout)
    kind = _kind(path)
    source: LogFile
    files: list[Path]
    if kind in ("mcap", "bag"):
        from bodysense.logs.ros_source import open_recording

        source, files = open_recording(path, layout.topic)
    else:
        source, files = _open_table(path, kind, layout), [path]
    beside = sorted({entry.file for entry in layout.channels} - {""})
    files = [*files, *(path.parent / name for name in beside)]
    return assemble(source, layout, _opener(path.parent, layout), _digest(files))


def _opener(folder: Path, layout: LogLayout) -> Callable[[str], LogFile]:
    def open_beside(name: str) -> LogFile:
        return _open_table(folder / name, _kind(folder / name), layout)

    return open_beside


def _open_table(path: Path, kind: str, layout: LogLayout) -> LogFile:
    if kind == "parquet":
        return ParquetSource.open(path)
    if kind != "text":
        raise FileReadError(f"{path} is no table: tables beside a log are text or Parquet.")
    return CsvSource.open(
        path, separator=layout.separator, decimal=layout.decimal, header=layout.header
    )


def _kind(path: Path) -> str:
    try:
        if path.is_dir():
            if (path / "metadata.yaml").is_file():
                return "bag"
            raise FileReadError(
                f"{path} is a folder and no ROS 2 bag, as it has no metadata.yaml: give the path "
                "of a file in it."
            )
        if path.suffix.lower() == ".bag":
            raise FileReadError(
                f"{path} is a bag of ROS 1: turn it into one of ROS 2 with `rosbags-convert`."
            )
        with path.open("rb") as stream:
            start = stream.read(16)
    except (OSError, ValueError) as error:  # ValueError: a null character in the path
        reason = error.strerror if isinstance(error, OSError) else error
        raise FileReadError(f"cannot read {path}: {reason}; check the path.") from error
    stated = _SUFFIXES.get(path.suffix.lower())
    if stated is not None:
        return stated
    return next((kind for sign, kind in _SIGNATURES.items() if start.startswith(sign)), "text")


def _digest(files: Sequence[Path]) -> str:
    """SHA-256 of a file; of several, the SHA-256 of their digests, one per line."""
    digests = []
    for path in files:
        try:
            with path.open("rb") as stream:
                digests.append(hashlib.file_digest(stream, "sha256").hexdigest())
        except OSError as error:
            raise FileReadError(
                f"cannot read {path}: {error.strerror}; check the path, and `file:` of the layout."
            ) from error
    if len(digests) == 1:
        return digests[0]
    return hashlib.sha256("".join(f"{digest}\n" for digest in digests).encode()).hexdigest()
