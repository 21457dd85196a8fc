"""`Recording`: a log as an estimator takes it, moment by moment.

Positions pass a low-pass filter without phase and are differentiated twice, as for identification.
Readings stay as they were recorded; where there is none, it is NaN, which estimators take for
absent. Everything that is left out is counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import make_interp_spline

from bodysense.errors import ShapeError, UnusableLogError
from bodysense.estimation.map_dynamics.estimator import MapDynamics
from bodysense.estimation.map_dynamics.log.channels import joint_positions, sensor_readings
from bodysense.estimation.map_dynamics.log.plausibility import doubtful_units
from bodysense.estimation.map_dynamics.log.recorded_times import bridged, pieces, usable_times
from bodysense.robot.sensors.gyroscope import Gyroscope
from bodysense.signals.joint_motion import SmoothMotion, smooth_motion, usable_cutoff
from bodysense.signals.log import Log
from bodysense.signals.raw_log import RawLog
from bodysense.signals.resampling import is_even
from bodysense.spatial.arrays import Array

CUTOFF = 10.0
"""Hz of the low-pass on positions: arms and legs seldom move faster on purpose, and noise of
positions grows with its square in accelerations."""

_SHORTEST = 8  # samples that differences and their filter need
_BORDER = 1.0  # periods of the cut-off at each end in which a filter sees too little


@dataclass(frozen=True, eq=False)
class Recording:
    """Moments of a log.

    Attributes:
        t: (T,) times [s], ascending.
        q: (T, n_joints) positions, filtered.
        dq: (T, n_joints) velocities.
        readings: (T, m) in the order of the estimator's sensors, NaN where there is none.
        base_twist: (T, 6) of a floating root, or `None`.
        starts: where pieces begin: there are gaps before them.
        counts: how many rows were left out, by reason.
        notes: what the user should know, e.g. of units that cannot be right.
    """

    t: Array
    q: Array
    dq: Array
    readings: Array
    base_twist: Array | None
    starts: tuple[int, ...]
    counts: Mapping[str, int]
    notes: tuple[str, ...]

    @classmethod
    def of(cls, problem: MapDynamics, log: Log | RawLog, *, cutoff: float = CUTOFF) -> Recording:
        """Filter, differentiate and collect what an estimator needs of a log.

        Args:
            problem: the estimator.
            log: with positions of all joints, and channels of all sensors but joint accelerations,
                which come from the positions where the log has none.
            cutoff: of the low-pass on positions [Hz].

        Raises:
            MismatchError: channels are missing or in other units, as in the log of another robot.
            UnusableLogError: nothing is left of the log.
        """
        if not (np.isfinite(cutoff) and cutoff > 0.0):
            raise ShapeError(f"the cut-off is {cutoff:g} Hz: give a positive one.")
        raw = log if isinstance(log, RawLog) else RawLog.of(log)
        q_raw = joint_positions(problem, raw)
        kept, counts = usable_times(raw.t)
        q_full, holes = bridged(raw.t, q_raw, kept)
        counts["positions missing"] = int(holes.sum())
        counts["that cannot be read"] = len(raw.faults)
        rows = np.flatnonzero(kept & ~holes)
        parts = [_motion(rows[c], raw.t, q_full, cutoff) for c in pieces(raw.t[rows])]
        parts = [part for part in parts if part.rows.size]
        sizes = [part.rows.size for part in parts]
        counts["beside an end or a gap"] = rows.size - sum(sizes)
        if not parts:
            raise UnusableLogError(
                f"{raw.source}: no stretch of it is longer than {2.0 * _BORDER / cutoff:.2g} s and "
                f"has times that ascend and positions of all joints ({_reasons(counts)}): record "
                "for longer, raise the cut-off, or check the layout."
            )
        used = np.concatenate([part.rows for part in parts])
        q, dq, ddq = (np.concatenate(x) for x in zip(*(p.motion for p in parts), strict=True))
        readings = sensor_readings(problem, raw, used, ddq)
        twist, notes = _base_twist(problem, readings)
        notes += doubtful_units(problem, q, dq, readings)
        notes += _filled(q_raw[kept & ~holes]) + _slow(raw.t[used], cutoff)
        return cls(
            t=raw.t[used],
            q=q,
            dq=dq,
            readings=readings,
            base_twist=twist,
            starts=tuple(int(k) for k in np.cumsum([0, *sizes[:-1]])),
            counts={reason: n for reason, n in counts.items() if n},
            notes=(*raw.notes, *notes),
        )

    @property
    def left_out(self) -> str:
        """What was left out, in words; empty if nothing was."""
        return _reasons(self.counts)


def _reasons(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{n} rows {reason}" for reason, n in counts.items() if n)


def _filled(q: Array) -> list[str]:
    """What was interpolated of the positions (n, n_joints) at moments that are used."""
    missing = int(np.isnan(q).any(axis=1).sum())
    return [f"{missing} rows lack a position for a short time, which is interpolated"] * (
        missing > 0
    )


def _slow(t: Array, cutoff: float) -> list[str]:
    """Whether samples are too rare for the cut-off, as those of a time in milliseconds are."""
    rate = 1.0 / float(np.median(np.diff(t))) if t.size > 1 else np.inf
    limit = usable_cutoff(cutoff, rate)
    if limit == cutoff:
        return []
    return [
        f"{rate:.3g} samples a second are too few for a cut-off of {cutoff:g} Hz: positions are "
        f"filtered at {limit:.2g} Hz. Is the time in seconds?"
    ]


class _Part(NamedTuple):
    """Rows of a log that follow each other, and the motion there."""

    rows: NDArray[np.int64]
    motion: SmoothMotion


def _motion(rows: NDArray[np.int64], times: Array, positions: Array, cutoff: float) -> _Part:
    """The smooth motion at some rows, less those at the ends, where filters see too little.

    Uneven times go by way of an even grid.
    """
    t, q = times[rows], positions[rows]
    nothing = SmoothMotion(*np.zeros((3, 0, q.shape[1])))
    if t.size < _SHORTEST:
        return _Part(rows[:0], nothing)
    rate = float((t.size - 1) / (t[-1] - t[0]))
    limit = usable_cutoff(cutoff, rate)
    if is_even(t):
        motion = smooth_motion(q, rate, limit)
    else:
        grid = np.linspace(t[0], t[-1], t.size)
        even = smooth_motion(make_interp_spline(t, q, k=3)(grid), rate, limit)
        motion = SmoothMotion(*(make_interp_spline(grid, x, k=3)(t) for x in even))
    border = _BORDER / limit
    inner = np.flatnonzero((t - t[0] >= border) & (t[-1] - t >= border))
    return _Part(rows[inner], SmoothMotion(*(x[inner] for x in motion)))


def _base_twist(problem: MapDynamics, readings: Array) -> tuple[Array | None, list[str]]:
    """Twist of a floating root by a gyroscope on it, (T, 6)."""
    if not problem.tree.floating:
        return None, []
    root = problem.tree.names[0]
    twist = np.zeros((readings.shape[0], 6))
    for sensor in problem.sensors:
        if isinstance(sensor, Gyroscope):
            place = sensor.mounted(problem.robot)
            if place.link == root:
                twist[:, 3:] = _held(readings[:, problem.layout.slices[sensor.name]]) @ place.R.T
                return twist, []
    return twist, [
        f"no gyroscope sits on {root}, whose angular velocity is taken for zero: where it turns, "
        "centripetal accelerations are missed. Choose a base with a gyroscope (base: in the "
        "sensors file)."
    ]


def _held(values: Array) -> Array:
    """The same with missing rows as they were before, zero at first."""
    good = np.isfinite(values).all(axis=1)
    last = np.maximum.accumulate(np.where(good, np.arange(good.size), -1))
    return np.where(last[:, None] >= 0, values[np.maximum(last, 0)], 0.0)
