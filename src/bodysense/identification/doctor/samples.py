"""The samples that the checks look at and hand on, and how rows are named."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bodysense.identification.doctor.diagnosis import Finding
from bodysense.spatial.arrays import Array

Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Samples:
    """What is left of the recording, in the order of the robot's joints.

    Attributes:
        t: (n,) times [s].
        q: (n, n_joints) positions.
        tau: (n, n_joints) torques, or drive signals as long as `current` says so.
        v: (n, n_joints) velocities, if recorded and trusted.
        reference: (n, n_joints) positions that the controller was told, if recorded and trusted.
        rows: (n,) row of the source.
        piece: (n,) number of the piece that a sample belongs to, not descending. Nothing is
            ever computed across the border of two pieces.
        current: whether `tau` still holds drive signals.
        joint_names: of the robot.
    """

    t: Array
    q: Array
    tau: Array
    v: Array | None
    reference: Array | None
    rows: NDArray[np.int64]
    piece: NDArray[np.int64]
    current: bool
    joint_names: tuple[str, ...]

    @property
    def n(self) -> int:
        """Number of samples."""
        return int(self.t.size)

    @property
    def blocks(self) -> tuple[tuple[str, Array], ...]:
        """Quantity and values of all that is there: q, tau (or i) and v."""
        found = [("q", self.q), ("i" if self.current else "tau", self.tau)]
        return (*found, ("v", self.v)) if self.v is not None else tuple(found)

    @property
    def steps(self) -> Array:
        """(m,) times between neighbours within pieces [s]."""
        steps: Array = np.diff(self.t)[np.diff(self.piece) == 0]
        return steps

    @property
    def period(self) -> float:
        """Usual time between samples [s]; NaN where it cannot be told."""
        steps = self.steps
        steps = steps[steps > 0.0]
        return float(np.median(steps)) if steps.size else float("nan")

    def slices(self) -> list[slice]:
        """Where each piece is."""
        if not self.n:
            return []
        edges = np.flatnonzero(np.diff(self.piece)) + 1
        bounds = [0, *edges.tolist(), self.n]
        return [slice(a, b) for a, b in pairwise(bounds)]

    def kept(self, mask: Mask) -> Samples:
        """The samples where the mask is true."""
        if mask.all():
            return self
        return replace(
            self,
            t=self.t[mask],
            q=self.q[mask],
            tau=self.tau[mask],
            v=None if self.v is None else self.v[mask],
            reference=None if self.reference is None else self.reference[mask],
            rows=self.rows[mask],
            piece=self.piece[mask],
        )

    def split(self, before: NDArray[np.intp]) -> Samples:
        """The same samples with new pieces that start at the given places."""
        start = np.zeros(self.n, dtype=np.int64)
        start[1:] = np.diff(self.piece) != 0
        start[before] = 1
        return replace(self, piece=np.cumsum(start))


class Outcome(NamedTuple):
    """What a check hands on: the samples, mended or not, and what it found."""

    samples: Samples
    findings: list[Finding]


def row_ranges(rows: NDArray[np.int64], most: int = 4) -> str:
    """Rows in words: ``rows 2-10, 17 and 3 more ranges``."""
    rows = np.unique(rows)
    if not rows.size:
        return "no rows"
    breaks = np.flatnonzero(np.diff(rows) != 1) + 1
    first = rows[np.r_[0, breaks]]
    last = rows[np.r_[breaks - 1, rows.size - 1]]
    shown = [f"{a}" if a == b else f"{a}-{b}" for a, b in zip(first, last, strict=True)][:most]
    more = f" and {first.size - most} more places" if first.size > most else ""
    return f"{'row' if rows.size == 1 else 'rows'} {', '.join(shown)}{more}"


def spread(x: Array) -> float:
    """Width of the middle 98 % of the finite values: the range without the odd ones."""
    finite = x[np.isfinite(x)]
    if not finite.size:
        return 0.0
    low, high = np.percentile(finite, (1.0, 99.0))
    return float(high - low)
