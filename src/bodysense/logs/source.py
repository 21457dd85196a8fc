"""What every file format looks like to the rest: columns by number, rows, rows that are broken."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from bodysense.logs.log import RowFault
from bodysense.spatial.arrays import Array


@dataclass(frozen=True, eq=False)
class LogTable:
    """Columns of a file.

    Attributes:
        columns: (n,) values by number of the column, from 0; NaN where there is none.
        rows: (n,) rows of the file behind the values, counted from 1, ascending.
        faults: rows that hold something else.
    """

    columns: Mapping[int, Array]
    rows: NDArray[np.int64]
    faults: tuple[RowFault, ...] = ()


class LogFile(Protocol):
    """A file whose columns are known and whose values have not been read yet."""

    @property
    def name(self) -> str:
        """Name of the file, for messages."""

    @property
    def names(self) -> tuple[str, ...] | None:
        """Names of the columns without their units; `None` if the file has none."""

    @property
    def units(self) -> tuple[str, ...]:
        """Units as the file states them, "" where it does not."""

    @property
    def n_columns(self) -> int:
        """How many columns there are."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What the reader decided on its own."""

    def read(self, required: Sequence[int], optional: Sequence[int] = ()) -> LogTable:
        """Read columns.

        Args:
            required: columns, from 0, that must hold numbers or nothing; a row with anything
                else in one of them is broken.
            optional: columns, from 0, in which anything else than a number counts as nothing; one
                that never holds a number is left out.
        """
