"""Parquet tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from bodysense.errors import FileReadError
from bodysense.logs.channels import split_unit
from bodysense.logs.source import LogTable
from bodysense.spatial.arrays import Array

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
