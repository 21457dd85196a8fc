"""`NamedSlices`: names of parts of a vector; `NamedRows`: its parts by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Self

from bodysense.errors import unknown_name
from bodysense.spatial.arrays import Array


@dataclass(frozen=True, eq=False)
class NamedSlices:
    """Names ↔ slices of a vector, without gaps.

    Attributes:
        kind: what is named, for messages.
        slices: in the order of the vector.
    """

    kind: str
    slices: Mapping[str, slice]

    @classmethod
    def of(cls, kind: str, sizes: Iterable[tuple[str, int]]) -> Self:
        """Lay out names with their sizes one after the other."""
        slices, at = {}, 0
        for name, size in sizes:
            slices[name] = slice(at, at + size)
            at += size
        return cls(kind, slices)

    def __getitem__(self, name: str) -> slice:
        if name not in self.slices:
            raise unknown_name(self.kind, name, self.slices)
        return self.slices[name]

    def __contains__(self, name: object) -> bool:
        return name in self.slices

    def __iter__(self) -> Iterator[str]:
        return iter(self.slices)

    def __len__(self) -> int:
        return len(self.slices)

    @property
    def size(self) -> int:
        """Length of the vector."""
        return max((where.stop for where in self.slices.values()), default=0)

    @property
    def labels(self) -> tuple[str, ...]:
        """A name for every number: ``f.knee[2]``, or the bare name where it has one alone."""
        return tuple(
            name if where.stop - where.start == 1 else f"{name}[{k}]"
            for name, where in self.slices.items()
            for k in range(where.stop - where.start)
        )


@dataclass(frozen=True, eq=False)
class NamedRows(Mapping[str, Array]):
    """Parts of an array (…, size) by name, cut out when they are asked for.

    Attributes:
        slices: by name.
        rows: (…, size).
    """

    slices: Mapping[str, slice]
    rows: Array

    def __getitem__(self, name: str) -> Array:
        return self.rows[..., self.slices[name]]

    def __iter__(self) -> Iterator[str]:
        return iter(self.slices)

    def __len__(self) -> int:
        return len(self.slices)
