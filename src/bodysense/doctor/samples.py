"""`LogSamples`: the samples that the checks look at and hand on, with what they found so far."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bodysense.errors import listing
from bodysense.logs.channels import FRAME_QUANTITIES, JOINT_QUANTITIES, units_of
from bodysense.robot.robot import Robot
from bodysense.spatial.arrays import Array
from bodysense.status import Finding, Severity

Mask = NDArray[np.bool_]

VELOCITIES_ARE_A_CHECK = "recorded velocities only serve as a check; positions are differentiated"
"""Action where recorded velocities cannot be used."""


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
        findings: of all checks so far.
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
    findings: tuple[Finding, ...] = ()

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
    def joined(self) -> Mask:
        """(n - 1,) whether a sample and the next one are of the same piece."""
        joined: Mask = np.diff(self.piece) == 0
        return joined

    @property
    def steps(self) -> Array:
        """(m,) times between neighbours within pieces [s]."""
        steps: Array = np.diff(self.t)[self.joined]
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
        bounds = [0, *(np.flatnonzero(~self.joined) + 1).tolist(), self.n]
        return [slice(a, b) for a, b in pairwise(bounds)]

    def report(
        self, kind: str, severity: Severity, where: str, message: str, action: str
    ) -> LogSamples:
        """The same samples with one more finding."""
        return self.with_findings([Finding(kind, severity, where, message, action)])

    def with_findings(self, findings: Iterable[Finding]) -> LogSamples:
        """The same samples with more findings."""
        return replace(self, findings=(*self.findings, *findings))

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
        start[1:] = ~self.joined
        start[before] = 1
        return replace(self, piece=np.cumsum(start))


# How rows, channels and runs of samples are named and counted.


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


def channel_list(quantity: str, names: Iterable[str]) -> str:
    """Channels of a quantity in words: ``q.shoulder, q.elbow``, not all if there are many."""
    return listing(f"{quantity}.{name}" for name in names)


_MOST_EDITS = 8  # in one finding; the rest is shown when these are done


def layout_edit(key: str, values: Mapping[str, object]) -> str:
    """What to write into a layout file: ```channels: {q: {unit: deg}}` into the layout file``.

    Args:
        key: ``unit`` or ``gain``.
        values: by channel; "q" stands for the positions of all joints.
    """
    import yaml

    content: dict[str, dict[str, dict[str, object]]] = {}
    for channel, value in list(values.items())[:_MOST_EDITS]:
        quantity, _, rest = channel.partition(".")
        if quantity in JOINT_QUANTITIES:
            entry = content.setdefault("channels", {}).setdefault(quantity, {})
            of_joints = entry.setdefault(key, {} if rest else value)
            if isinstance(of_joints, dict):
                of_joints[rest] = value
        elif units_of(channel):
            frame, _, component = rest.rpartition(".")
            vector = next(
                name
                for name, (start, components, _) in FRAME_QUANTITIES.items()
                if start == quantity and component in components
            )
            content.setdefault("frames", {}).setdefault(frame, {})[vector] = {key: value}
        else:
            content.setdefault("other", {})[channel] = {key: value}
    text = yaml.safe_dump(
        content, default_flow_style=True, allow_unicode=True, sort_keys=False, width=10**9
    )
    more = len(values) - _MOST_EDITS
    likewise = f" (and likewise for {more} more)" if more > 0 else ""
    return f"`{text.strip()[1:-1]}`{likewise} into the layout file"


def unit_edit(units: Mapping[str, str], example: str) -> str:
    """A `layout_edit` of units, or the same in the header, shown for the channel `example`."""
    unit = units.get(example) or units[example.partition(".")[0]]
    return f"{layout_edit('unit', units)}, or the unit into the header: `{example} [{unit}]`"


def exchange_names(channels: str) -> str:
    """What to do about channels that belong to each other's joints."""
    return f"exchange the names of {channels} in the header, or their columns in the layout file"


def time_edit(unit: str) -> str:
    """The unit of time in a layout file, or in the header."""
    return f"`time: {{unit: {unit}}}` into the layout file, or `t [{unit}]` into the header"


def runs(mask: Mask) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """First place of every run of true values, and the place behind its last."""
    edges = np.diff(np.concatenate([[False], mask, [False]]).astype(np.int8))
    return np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
