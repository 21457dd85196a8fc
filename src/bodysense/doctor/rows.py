"""Rows that are no measurement: uninitialised memory, spikes of an encoder, missing values."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bodysense.doctor.samples import (
    VELOCITIES_ARE_A_CHECK,
    BridgingRules,
    LogSamples,
    Mask,
    row_ranges,
    runs,
    spread,
)
from bodysense.errors import listing
from bodysense.robot.layout import effort_unit
from bodysense.robot.robot import Robot
from bodysense.spatial.arrays import Array
from bodysense.status import Severity

# An outlier is this many usual ranges away, on top of what the robot could do at all.
# Ten: a motion that is idle most of the time has peaks a few times its usual range.
_RANGES = 10.0
# Where the robot's limits are unknown: no arm turns faster, and few joints are stronger.
_ANY_SPEED = 30.0  # rad/s
_ANY_EFFORT = 1000.0  # N·m
# Garbage is rare. What happens in more than one row of twenty is another kind of trouble, which
# other checks name.
_RARE = 0.05
# Rows that go missing: below one in a hundred nobody will notice, above half of them are gone.
_FEW, _MOST = 0.01, 0.5
# A block of rows with other times is an outlier if it is this small a part of the recording.
_SMALL_BLOCK = 0.01
# A spike stands out of its neighbours by this many of the largest usual steps. White noise
# stays below 4, and the fastest true motion makes the largest usual step itself.
_STEPS = 20.0
_USUAL_STEP = 95.0  # percentile of the steps of torques that counts as a usual one


def garbage_rows(robot: Robot, samples: LogSamples) -> LogSamples:
    """Drop rows whose time or values belong to nothing that this robot has done."""
    bad = _outlier_times(samples.t)
    garbage: dict[str, tuple[int, float]] = {}
    for quantity, values in samples.blocks:
        floor = _floors(robot, quantity)[samples.joints_of(robot)]
        for j, name in enumerate(samples.joint_names):
            out = _outlier_values(values[:, j], float(floor[j]))
            if 0 < np.count_nonzero(out) <= max(1.0, _RARE * samples.n):
                first = int(np.argmax(out))
                garbage[f"{quantity}.{name}"] = (first, float(values[first, j]))
                bad |= out
    count = np.count_nonzero(bad)
    if not count:
        return samples
    example = int(np.argmax(bad))
    seen = f"time {samples.t[example]:.6g} s in row {samples.rows[example]}"
    if garbage:
        channel, (first, value) = next(iter(garbage.items()))
        seen += f", {channel} = {value:.6g} in row {samples.rows[first]}"
    return samples.kept(~bad).report(
        "garbage-rows",
        _severity(count / samples.n),
        row_ranges(samples.rows[bad]),
        f"{count} of {samples.n} rows hold numbers that are no measurement, as uninitialised "
        f"memory does ({seen})",
        "left out",
    )


def spikes(robot: Robot, samples: LogSamples) -> LogSamples:
    """Interpolate single positions that jump away and come back; report those that stay away."""
    period = samples.period
    if samples.n < 10 or not np.isfinite(period):
        return samples
    from scipy.ndimage import median_filter

    q, joined = samples.q.copy(), samples.joined
    jumps = np.zeros(0, dtype=np.intp)
    limits = robot.velocity_limit[samples.joints_of(robot)]
    for j, name in enumerate(samples.joint_names):
        x = samples.q[:, j]
        step, limit = np.abs(np.diff(x)), limits[j]
        # Times of different pieces do not compare: nothing is a spike across their border.
        step_time = np.where(joined, np.diff(samples.t), np.inf)
        reach = (limit if np.isfinite(limit) else _ANY_SPEED) * step_time
        great = _STEPS * float(np.percentile(step, 99.0)) + reach
        if not (joined & (step > great)).any():
            continue
        distance = np.abs(x - median_filter(x, 5, mode="nearest"))
        away = distance > np.append(great, great[-1])
        if away.any():
            samples = samples.report(
                "spike",
                _severity(np.count_nonzero(away) / samples.n),
                f"q.{name}, {row_ranges(samples.rows[away])}",
                f"the position jumps away and back by up to {distance[away].max():.4g}",
                "interpolated",
            )
            q[away, j] = _bridged(x, away)
        left = np.flatnonzero((np.abs(np.diff(q[:, j])) > great) & joined)
        if left.size:
            jumps = np.union1d(jumps, left + 1)
            samples = samples.report(
                "jump",
                "warning",
                f"q.{name}, {row_ranges(samples.rows[left + 1])}",
                f"the position jumps by {np.abs(np.diff(q[:, j]))[left].max():.4g} in a sample "
                "and stays there: rows are missing, or the encoder was set anew",
                "the recording is split there; make sure that the zero is the same on both sides",
            )
    return replace(samples, q=q).split(jumps)


def torque_spikes(robot: Robot, samples: LogSamples) -> LogSamples:
    """Interpolate single torques that jump away and come back."""
    if samples.n < 10:
        return samples
    from scipy.ndimage import median_filter

    tau = samples.tau.copy()
    for j, name in enumerate(samples.joint_names):
        x = samples.tau[:, j]
        usual = float(np.percentile(np.abs(np.diff(x)), _USUAL_STEP))
        great = max(_STEPS * usual, spread(x))
        if not great > 0.0 or not (np.abs(np.diff(x)) > great).any():
            continue
        distance = np.abs(x - median_filter(x, 5, mode="nearest"))
        away = distance > great
        if 0 < np.count_nonzero(away) <= _RARE * samples.n:
            samples = samples.report(
                "torque-spike",
                _severity(np.count_nonzero(away) / samples.n),
                f"tau.{name}, {row_ranges(samples.rows[away])}",
                f"the torque jumps away and back by up to {distance[away].max():.4g} "
                f"{effort_unit(robot.joint_types[j])}",
                "interpolated",
            )
            tau[away, j] = _bridged(x, away)
    return replace(samples, tau=tau)


def _bridged(x: Array, away: Mask) -> Array:
    """Values in place of those that are away, interpolated between their neighbours."""
    return np.interp(np.flatnonzero(away), np.flatnonzero(~away), x[~away])


def missing_values(robot: Robot, samples: LogSamples) -> LogSamples:
    """Interpolate short runs of missing values and drop the rows of long ones."""
    samples = _without_empty_velocity(samples)
    period, rules = samples.period, samples.rules
    most = rules.missing_samples
    if np.isfinite(period) and period > 0.0:
        most = int(min(most, max(1.0, rules.missing_time / period)))
    # A clock that was set back ascends piece by piece only, and `np.interp` needs one that does.
    clock = np.where(samples.joined, np.diff(samples.t), 0.0)
    clock = np.concatenate([np.zeros(min(samples.n, 1)), np.cumsum(clock)])
    drop, missing = np.zeros((2, samples.n), dtype=bool)
    blocks = {quantity: values.copy() for quantity, values in samples.blocks}
    bridged, channels, empty = 0, list[str](), list[str]()
    for quantity, values in blocks.items():
        for x, name in zip(values.T, samples.joint_names, strict=True):
            bad = ~np.isfinite(x)
            if not bad.any():
                continue
            channels.append(f"{quantity}.{name}")
            empty += channels[-1:] if bad.all() else []
            missing |= bad
            short = _short_runs(bad, samples.piece, most)
            if short.any():
                x[short] = np.interp(clock[short], clock[~bad], x[~bad])
            bridged += int(np.count_nonzero(short))
            drop |= bad & ~short
    tau = blocks.get("i" if samples.current else "tau", samples.tau)
    cleaned = replace(samples, q=blocks.get("q", samples.q), tau=tau, v=blocks.get("v"))
    for channel in empty:
        text = "no finite value at all"
        action = "record the channel, or name the right column in the layout file"
        cleaned = cleaned.report("dead-channel", "error", channel, text, action)
    if channels and not empty:
        n_dropped = int(np.count_nonzero(drop))
        cleaned = cleaned.report(
            "nan",
            _severity(n_dropped / max(1, samples.n)),
            f"{listing(channels, 4)}, {row_ranges(samples.rows[missing])}",
            f"values are missing or not finite in {np.count_nonzero(missing)} of {samples.n} rows",
            _treatment(rules, bridged, n_dropped),
        )
    return cleaned.kept(~drop)


def _treatment(rules: BridgingRules, bridged: int, dropped: int) -> str:
    """What is done about missing values, in words."""
    extent = f"{rules.missing_time:g} s"
    if np.isfinite(rules.missing_samples):
        extent = f"{rules.missing_samples:g} values"
    parts = [f"{bridged} interpolated, in gaps of at most {extent}"] if bridged else []
    return " and ".join(parts + ([f"{dropped} rows left out"] if dropped else []))


def _without_empty_velocity(samples: LogSamples) -> LogSamples:
    """Velocities that are mostly missing are not worth losing rows for."""
    if samples.v is None or not samples.n:
        return samples
    missing = (~np.isfinite(samples.v)).mean(axis=0)
    worst = int(np.argmax(missing))
    if missing[worst] <= _FEW:
        return samples
    where = f"v.{samples.joint_names[worst]}"
    text = f"{100.0 * missing[worst]:.3g} % of its values are missing or not finite"
    samples = replace(samples, v=None)
    return samples.report("nan", "warning", where, text, VELOCITIES_ARE_A_CHECK)


def _severity(share: float) -> Severity:
    return "note" if share <= _FEW else "warning" if share <= _MOST else "error"


def _floors(robot: Robot, quantity: str) -> Array:
    """(n_joints,) distance from the middle of a channel that the robot itself may well reach."""
    lower, upper = robot.position_range
    if quantity == "q":
        room = upper - lower
        return np.where(np.isfinite(room), np.maximum(room, 2.0 * np.pi), 4.0 * np.pi)
    if quantity == "v":
        limit = robot.velocity_limit
        return 3.0 * np.where(np.isfinite(limit), limit, _ANY_SPEED)
    effort = np.where(np.isfinite(robot.effort_limit), robot.effort_limit, _ANY_EFFORT)
    scale = np.abs(robot.actuators.drive_gain) if quantity == "i" else 1.0
    floors: Array = 3.0 * effort / scale
    return floors


def _outlier_values(x: Array, floor: float) -> Mask:
    finite = np.isfinite(x)
    if not finite.any():
        return np.zeros(x.size, dtype=bool)
    middle = float(np.median(x[finite]))
    outliers: Mask = np.isinf(x) | (np.abs(x - middle) > _RANGES * spread(x) + floor)
    return outliers


def _outlier_times(t: Array) -> Mask:
    """Times that are no numbers, or that are far from nearly all others."""
    bad = ~np.isfinite(t)
    good = np.flatnonzero(~bad)
    if good.size < 10:
        return bad
    times = t[good]
    step = np.diff(times)
    forward = step[step > 0.0]
    if not forward.size:
        return bad
    usual = float(np.median(forward))
    edges = np.flatnonzero((step < 0.0) | (step > 100.0 * usual)) + 1
    if not edges.size:
        return bad
    block = np.searchsorted(edges, np.arange(good.size), side="right")
    large = (np.bincount(block) >= max(10.0, _SMALL_BLOCK * good.size))[block]
    if not large.any():
        return bad
    low, high = float(times[large].min()), float(times[large].max())
    room = max(high - low, usual * good.size)
    outliers = ~large & ((times < low - room) | (times > high + room))
    bad[good[outliers]] = True
    return bad


def _short_runs(bad: Mask, piece: NDArray[np.int64], most: float) -> Mask:
    """Runs of missing values that are short and lie between values of the same piece."""
    first, end = runs(bad)
    inside = (first > 0) & (end < bad.size) & (end - first <= most)
    inside &= piece[np.maximum(first - 1, 0)] == piece[np.minimum(end, bad.size - 1)]
    change = np.zeros(bad.size + 1, dtype=np.int64)
    change[first[inside]] += 1
    change[end[inside]] -= 1
    short: Mask = np.cumsum(change[:-1]) > 0
    return short
