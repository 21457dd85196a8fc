"""`Blocks`: a sparse matrix and an offset, put together from named blocks."""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_array, csr_array

from bodysense.estimation.named_slices import NamedSlices
from bodysense.spatial.arrays import Array, read_only


class Blocks:
    """Collects A and b of A d + b, block by block, by the names of rows and columns."""

    def __init__(self, rows: NamedSlices, columns: NamedSlices) -> None:
        self._rows, self._columns = rows, columns
        self._blocks: dict[tuple[str, str], Array] = {}
        self._b = np.zeros(rows.size)

    def put(self, row: str, column: str, block: Array) -> None:
        """Add a block to A."""
        there = self._blocks.get((row, column))
        self._blocks[row, column] = block if there is None else there + block

    def add(self, row: str, offset: Array) -> None:
        """Add to b."""
        self._b[self._rows[row]] += offset

    def shift(self, column: str, by: Array) -> None:
        """Measure an unknown from elsewhere: b += A by."""
        for (row, other), block in self._blocks.items():
            if other == column:
                self.add(row, block @ by)

    def built(self) -> tuple[csr_array, Array]:
        """A and b; entries of A that are zero are not stored."""
        at, to, values = [np.zeros(0, int)], [np.zeros(0, int)], [np.zeros(0)]
        for (row, column), block in self._blocks.items():
            i, j = np.nonzero(block)
            at.append(i + self._rows[row].start)
            to.append(j + self._columns[column].start)
            values.append(block[i, j])
        shape = (self._rows.size, self._columns.size)
        places = (np.concatenate(at), np.concatenate(to))
        return csr_array(coo_array((np.concatenate(values), places), shape=shape)), read_only(
            self._b
        )
