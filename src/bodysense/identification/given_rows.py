"""Rows that a method has made itself, such as whitened or linearised ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bodysense.identification.regression import Block, Regression
from bodysense.spatial.arrays import Array


@dataclass(frozen=True, eq=False)
class GivenRows(Regression):
    """A regression whose blocks are given, of the same robot and unknowns as another one.

    Attributes:
        given: all blocks, those of a fold that is left out included.
    """

    given: tuple[Block, ...] = ()

    @classmethod
    def by(cls, problem: Regression, blocks: Iterable[Block]) -> GivenRows:
        """The blocks as a regression for the unknowns of a problem, with the same fold left out."""
        kept = {f.name: getattr(problem, f.name) for f in fields(Regression) if f.init}
        return cls(**kept, given=tuple(blocks))

    @cached_property
    def n_samples(self) -> int:
        """Number of samples."""
        return sum(block.t.size for block in self.given)

    @cached_property
    def columns(self) -> tuple[NDArray[np.int64], ...]:
        """All places in theta_base: any row may depend on any parameter."""
        return (np.arange(self.size, dtype=np.int64),) * self.n_joints

    @cached_property
    def torque_size(self) -> Array:
        """(n,) r.m.s. of the rows' right-hand sides, in their units."""
        squares = sum((np.square(block.y).sum(axis=0) for block in self.given), np.zeros(1))
        size: Array = np.sqrt(squares / max(self.n_samples, 1))
        return size

    def _all_blocks(self) -> Iterator[Block]:
        yield from self.given
