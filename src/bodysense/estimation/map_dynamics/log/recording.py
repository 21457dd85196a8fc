"""`Recording`: a log as an estimator takes it, sample by sample.

Positions pass a low-pass filter without phase and are differentiated twice, as for identification.
Readings stay as they were recorded; where there is none, it is NaN, which estimators take for
absent. Everything that is left out is counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import make_interp_spline

from bodysense.errors import MismatchError, ShapeError, UnusableLogError
from bodysense.estimation.map_dynamics.estimator import MapDynamics
from bodysense.estimation.map_dynamics.log.plausibility import doubtful_units
from bodysense.logs.channels import units_of
from bodysense.logs.filtering import SmoothMotion, is_even, smooth_motion, usable_cutoff
from bodysense.logs.log import Log, RawLog
from bodysense.sensors.inertial_sensors import Gyroscope
from bodysense.sensors.joint_sensors import Encoder, JointAcceleration
from bodysense.sensors.sensor import Sensor
from bodysense.spatial.arrays import Array

# Which rows of a recording can be used, and where it is interrupted.

Mask = NDArray[np.bool_]

BRIDGE = 0.1
"""s: positions that are missing for less are interpolated, and longer pauses interrupt a recording:
within a tenth of a second an arm can hardly begin something new."""

_PAUSE = 5.0  # usual periods that make a pause as well
_STRAY = 10.0  # spans of nearly all times, beyond which a time belongs to another age


def usable_times(t: Array) -> tuple[Mask, dict[str, int]]:
    """(n_t,) rows whose times are numbers and ascend, and how many do not, by reason."""
    finite = np.isfinite(t)
    stray = ~finite
    if finite.any():
        low, middle, high = np.percentile(t[finite], (1.0, 50.0, 99.0))
        reach = _STRAY * (high - low) + 1.0
        stray = ~finite | (np.abs(np.where(finite, t, middle) - middle) > reach)
    best = np.maximum.accumulate(np.where(stray, -np.inf, t))
    before = np.concatenate([[-np.inf], best[:-1]])
    late = ~stray & (t <= before)
    counts = {"with times that are none": int(stray.sum()), "late or repeated": int(late.sum())}
    return ~(stray | late), counts


def bridged(t: Array, q: Array, kept: Mask) -> tuple[Array, Mask]:
    """Positions (n_t, n) with short gaps interpolated, and kept rows (n_t,) that still lack one."""
    full, holes = q.copy(), np.zeros(t.size, dtype=bool)
    for j in range(q.shape[1]):
        good = np.flatnonzero(kept & np.isfinite(q[:, j]))
        bad = np.flatnonzero(kept & ~np.isfinite(q[:, j]))
        if not bad.size:
            continue
        after = np.searchsorted(good, bad)
        inside = (after > 0) & (after < good.size)
        left = good[np.clip(after - 1, 0, max(good.size - 1, 0))] if good.size else bad
        right = good[np.clip(after, 0, max(good.size - 1, 0))] if good.size else bad
        short = inside & (t[right] - t[left] <= BRIDGE)
        if short.any():
            full[bad[short], j] = np.interp(t[bad[short]], t[good], q[good, j])
        holes[bad[~short]] = True
    return full, holes


def pieces(t: Array) -> list[slice]:
    """Stretches of times (n,) without a pause."""
    if t.size < 2:
        return []
    steps = np.diff(t)
    pause = max(BRIDGE, _PAUSE * float(np.median(steps)))
    edges = np.flatnonzero(steps > pause) + 1
    return [slice(a, b) for a, b in pairwise([0, *edges.tolist(), t.size])]


# `listing`: names in a message, not too many of them.


def listing(names: Sequence[str], most: int = 6) -> str:
    """``a, b, c and 4 more``; ``none`` where there are none."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more if names else "none"


# Which channels of a log hold positions of joints, and readings of sensors.

_SHOWN = 12  # names in a message


def joint_positions(problem: MapDynamics, log: RawLog) -> Array:
    """(n_t, n_joints) as recorded: of encoders among the sensors, else of channels q.<joint>.

    Raises:
        MismatchError: joints without a position, as in the log of another robot.
    """
    names = problem.robot.joint_names
    channel = {name: f"q.{name}" for name in names}
    for sensor in problem.sensors:
        if isinstance(sensor, Encoder) and sensor.channels:
            channel[sensor.joint] = sensor.channels[0]
    missing = [name for name in names if channel[name] not in log.channels]
    if missing:
        there = [name.removeprefix("q.") for name in log.channels if name.startswith("q.")]
        raise MismatchError(
            f"{log.source} has no positions of {listing(missing, _SHOWN)}; it has them of "
            f"{listing(there, _SHOWN)}. Is it the log of another robot? Otherwise name the "
            "channels q.<joint> in the layout file, or give encoders with `channels:` in the "
            "sensors file."
        )
    q = [np.where(np.isfinite(x), x, np.nan) for x in (log.channels[channel[n]] for n in names)]
    return np.stack(q, axis=1) if q else np.zeros((log.t.size, 0))


def sensor_readings(
    problem: MapDynamics, log: RawLog, rows: NDArray[np.int64], ddq: Array
) -> Array:
    """(T, m) readings of all sensors at some rows of a log.

    Args:
        problem: the estimator.
        log: the recording.
        rows: (T,) of it.
        ddq: (T, n_joints) accelerations of joints by differentiation, for sensors of these that
            have no channel.

    Raises:
        MismatchError: channels that are missing, or in other units.
    """
    absent = {
        sensor.name: [name for name in sensor.channels if name not in log.channels]
        for sensor in problem.sensors
        if not isinstance(sensor, JointAcceleration)
    }
    missing = [f"{channel} of {name}" for name, names in absent.items() for channel in names]
    if missing:
        raise MismatchError(
            f"{log.source} lacks channels of sensors: {listing(missing, _SHOWN)}. It has "
            f"{listing(list(log.channels), _SHOWN)}. Name them in the layout file, say "
            "`channels:` in the sensors file, or leave the sensors out."
        )
    readings = np.full((rows.size, problem.layout.size), np.nan)
    for sensor in problem.sensors:
        where = problem.layout.slices[sensor.name]
        known = all(name in log.channels for name in sensor.channels)
        if isinstance(sensor, JointAcceleration) and not known:
            readings[:, where] = ddq[:, [sensor.joint_index(problem.robot)]]
            continue
        _require_units(problem, sensor, log)
        columns = [log.channels[name][rows] for name in sensor.channels]
        values = np.stack(columns, axis=1) if columns else np.zeros((rows.size, 0))
        readings[:, where] = sensor.reading(np.where(np.isfinite(values), values, np.nan))
    return readings


def _require_units(problem: MapDynamics, sensor: Sensor, log: RawLog) -> None:
    """Refuse channels of another unit; one without a unit is taken to be right.

    A log that states none has the usual unit of a channel, which is that of a joint that turns.
    """
    wanted = sensor.channel_units(problem.robot)
    for channel, unit in zip(sensor.channels, wanted, strict=True):
        result, known = log.units.get(channel, ""), units_of(channel)
        usual = unit in known and result == known[0]
        if result and unit and result != unit and not usual:
            raise MismatchError(
                f"channel {channel!r} of {log.source} is in {result}, and {sensor.who} reads "
                f"{unit}: is it the right channel? Otherwise correct its unit in the layout file."
            )


CUTOFF = 10.0
"""Hz of the low-pass on positions: arms and legs seldom move faster on purpose, and noise of
positions grows with its square in accelerations."""

_SHORTEST = 8  # samples that differences and their filter need
_BORDER = 1.0  # periods of the cut-off at each end in which a filter sees too little


@dataclass(frozen=True, eq=False)
class Recording:
    """Samples of a log.

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
    """What was interpolated of the positions (n, n_joints) at samples that are used."""
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
        f"{rate:.3g} samples per second are too few for a cut-off of {cutoff:g} Hz: positions are "
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
            place = sensor.placement(problem.robot)
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
