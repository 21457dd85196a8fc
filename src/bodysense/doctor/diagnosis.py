"""`Diagnosis`: findings of the doctor, and the clean pieces of the recording."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bodysense.logs.log import Log
from bodysense.robot.robot import Robot
from bodysense.spatial.arrays import Array

Severity = Literal["note", "warning", "error"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")
"""From bad to harmless."""


@dataclass(frozen=True)
class Finding:
    """One thing that is not as it should be.

    Attributes:
        kind: what it is, a stable word such as ``garbage-rows``.
        severity: ``note`` (dealt with and harmless), ``warning`` (deserves a look) or ``error``
            (the recording cannot be used as it is).
        where: the channel, joint or rows.
        message: what was observed, with numbers.
        action: what bodysense does about it, or what the user should do.
    """

    kind: str
    severity: Severity
    where: str
    message: str
    action: str

    def __str__(self) -> str:
        return f"{self.severity}: {self.kind}: {self.where}: {self.message}; {self.action}"


@dataclass(frozen=True, eq=False, repr=False)
class Diagnosis:
    """The state of a recording, and what can be used of it.

    Attributes:
        source: name of the recording.
        digest: SHA-256 of the files behind it, hexadecimal; empty if there are none.
        joint_names: of the robot it was held against.
        findings: errors first, then warnings and notes.
        segments: clean pieces, in the order of the recording: finite, time ascending, without
            long gaps; each with ``q.<joint>`` and ``tau.<joint>`` of all joints, and with
            ``v.<joint>`` where velocities were recorded and can be trusted. A recording that is
            not usable may still have some, for a look at them.
        moving: for each segment, (n_t, n_joints), where a joint moves.
        n_samples: samples of the recording, rows that could not be read included.
        rate: samples per second, on average within segments [Hz], NaN where it is unknown.
        places: for each segment, (n_t,), index of its samples in the recording.
        left_out: rows of the recording that are in no segment, by reason.
    """

    source: str
    digest: str
    joint_names: tuple[str, ...]
    findings: tuple[Finding, ...]
    segments: tuple[Log, ...]
    moving: tuple[NDArray[np.bool_], ...]
    n_samples: int
    rate: float
    places: tuple[NDArray[np.int64], ...] = ()
    left_out: Mapping[str, int] = field(default_factory=dict)

    @property
    def usable(self) -> bool:
        """Whether there are segments, and nothing is wrong with them."""
        return bool(self.segments) and not self.of("error")

    @property
    def n_kept(self) -> int:
        """Samples in the segments."""
        return sum(segment.t.size for segment in self.segments)

    @property
    def duration(self) -> float:
        """Length of the segments together [s]."""
        return float(sum(segment.t[-1] - segment.t[0] for segment in self.segments))

    @property
    def moving_fraction(self) -> dict[str, float]:
        """Part of the kept samples in which each joint moves, 0 to 1."""
        if not self.n_kept:
            return dict.fromkeys(self.joint_names, 0.0)
        share = sum(mask.sum(axis=0) for mask in self.moving) / self.n_kept
        return {name: float(x) for name, x in zip(self.joint_names, share, strict=True)}

    def of(self, severity: Severity) -> tuple[Finding, ...]:
        """The findings of one severity."""
        return tuple(finding for finding in self.findings if finding.severity == severity)

    def __repr__(self) -> str:
        return f"<Diagnosis: {self.verdict()}>"

    def verdict(self) -> str:
        """The result in a line."""
        counts = [count(len(self.of(s)), s) for s in SEVERITIES if self.of(s)]
        text = ", ".join(counts) or "nothing found"
        if not self.usable:
            return f"{self.source}: NOT usable ({text})"
        rate = f" at {self.rate:.4g} Hz" if math.isfinite(self.rate) else ""
        return (
            f"{self.source}: usable ({text}): {self.n_kept} of {self.n_samples} samples{rate}, "
            f"{self.duration:.4g} s in {count(len(self.segments), 'segment')}"
        )

    def summary(self) -> str:
        """The result in words, one line per finding."""
        return "\n".join([self.verdict(), *(f"  {finding}" for finding in self.findings)])

    def to_dict(self) -> dict[str, object]:
        """The result for JSON, without the samples themselves."""
        return {
            "source": self.source,
            "digest": self.digest,
            "usable": self.usable,
            "n_samples": self.n_samples,
            "n_kept": self.n_kept,
            "rate": self.rate if math.isfinite(self.rate) else None,
            "duration": self.duration,
            "moving_fraction": self.moving_fraction,
            "segments": [
                {
                    "start": float(segment.t[0]),
                    "end": float(segment.t[-1]),
                    "n_samples": int(segment.t.size),
                    "channels": list(segment.channels),
                }
                for segment in self.segments
            ],
            "findings": [asdict(finding) for finding in self.findings],
        }


def count(n: int, noun: str) -> str:
    """A number with its noun: ``1 row``, ``2 rows``."""
    return f"{n} {noun}" + ("" if n == 1 else "s")


# The samples that the checks look at and hand on, and how rows are named.

Mask = NDArray[np.bool_]


class BridgingRules(NamedTuple):
    """Up to where missing samples are interpolated; beyond, the recording is split.

    Attributes:
        gap_steps: longest gap between rows, in usual steps, and
        gap_time: in seconds: the longer of the two counts.
        missing_samples: most values in a row that may be missing from a channel, and
        missing_time: for how long [s]: the shorter of the two counts.
        least_samples: between gaps; fewer are left out.
    """

    gap_steps: float
    gap_time: float
    missing_samples: float
    missing_time: float
    least_samples: int


@dataclass(frozen=True, eq=False)
class LogSamples:
    """What is left of the recording, in the order of the robot's joints.

    Attributes:
        t: (n,) times [s].
        q: (n, n_joints) positions.
        tau: (n, n_joints) torques, or drive signals as long as `current` says so; (n, 0) where
            they are not examined.
        v: (n, n_joints) velocities, if recorded and trusted.
        reference: (n, n_joints) reference positions of the controller, if recorded and trusted.
        rows: (n,) row of the source.
        place: (n,) index in the recording.
        piece: (n,) number of the piece that a sample belongs to, not descending. Nothing is
            ever computed across the border of two pieces.
        current: whether `tau` still holds drive signals.
        joint_names: those joints of the robot whose positions were recorded.
        rules: which gaps are bridged.
    """

    t: Array
    q: Array
    tau: Array
    v: Array | None
    reference: Array | None
    rows: NDArray[np.int64]
    place: NDArray[np.int64]
    piece: NDArray[np.int64]
    current: bool
    joint_names: tuple[str, ...]
    rules: BridgingRules

    @property
    def n(self) -> int:
        """Number of samples."""
        return int(self.t.size)

    @property
    def blocks(self) -> tuple[tuple[str, Array], ...]:
        """Quantity and values of all that is there: q, tau (or i) and v."""
        named = (("q", self.q), ("i" if self.current else "tau", self.tau), ("v", self.v))
        return tuple((quantity, x) for quantity, x in named if x is not None and x.shape[1])

    def joints_of(self, robot: Robot) -> NDArray[np.int64]:
        """(n_joints,) index of each joint in the robot."""
        return np.array([robot.joint_names.index(name) for name in self.joint_names], dtype=int)

    @property
    def steps(self) -> Array:
        """(m,) times between neighbours within pieces [s]."""
        steps: Array = np.diff(self.t)[np.diff(self.piece) == 0]
        return steps

    @property
    def period(self) -> float:
        """Usual time between samples [s]; NaN where it is unknown."""
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

    def kept(self, mask: Mask) -> LogSamples:
        """The samples where the mask is true."""
        return self if mask.all() else replace(self._taken(mask), piece=self.piece[mask])

    def sorted_by_time(self) -> LogSamples:
        """The samples in the order of their times, pieces as they are."""
        return self._taken(np.argsort(self.t, kind="stable"))

    def _taken(self, which: Mask | NDArray[np.intp]) -> LogSamples:
        """Some of the samples, in whatever order; pieces are left to the caller."""
        return replace(
            self,
            t=self.t[which],
            q=self.q[which],
            tau=self.tau[which],
            v=None if self.v is None else self.v[which],
            reference=None if self.reference is None else self.reference[which],
            rows=self.rows[which],
            place=self.place[which],
        )

    def split(self, before: NDArray[np.intp]) -> LogSamples:
        """The same samples with new pieces that start at the given places."""
        start = np.zeros(self.n, dtype=np.int64)
        start[1:] = np.diff(self.piece) != 0
        start[before] = 1
        return replace(self, piece=np.cumsum(start))


class Outcome(NamedTuple):
    """What a check hands on: the samples, cleaned or not, and what it found."""

    samples: LogSamples
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
