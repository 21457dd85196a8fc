"""Rows that are no measurement: uninitialised memory, spikes of an encoder, missing values."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bodysense.doctor.diagnosis import (
    BridgingRules,
    Finding,
    LogSamples,
    Mask,
    Outcome,
    Severity,
    row_ranges,
    spread,
)
from bodysense.robot.robot import Robot
from bodysense.spatial.arrays import Array

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


def garbage_rows(robot: Robot, samples: LogSamples) -> Outcome:
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
        return Outcome(samples, [])
    example = int(np.argmax(bad))
    seen = f"time {samples.t[example]:.6g} s in row {samples.rows[example]}"
    if garbage:
        channel, (first, value) = next(iter(garbage.items()))
        seen += f", {channel} = {value:.6g} in row {samples.rows[first]}"
    finding = Finding(
        "garbage-rows",
        _severity(count / samples.n),
        row_ranges(samples.rows[bad]),
        f"{count} of {samples.n} rows hold numbers that are no measurement, as uninitialised "
        f"memory does ({seen})",
        "left out",
    )
    return Outcome(samples.kept(~bad), [finding])


def spikes(robot: Robot, samples: LogSamples) -> Outcome:
    """Interpolate single positions that jump away and come back; report those that stay away."""
    period = samples.period
    if samples.n < 10 or not np.isfinite(period):
        return Outcome(samples, [])
    from scipy.ndimage import median_filter

    findings = []
    q = samples.q
    joined = np.diff(samples.piece) == 0
    jumps = np.zeros(0, dtype=np.intp)
    limits = robot.velocity_limit[samples.joints_of(robot)]
    for j, name in enumerate(samples.joint_names):
        x = q[:, j]
        step = np.abs(np.diff(x))
        limit = limits[j]
        # Times of different pieces do not compare: nothing is a spike across their border.
        step_time = np.where(joined, np.diff(samples.t), np.inf)
        reach = (limit if np.isfinite(limit) else _ANY_SPEED) * step_time
        great = _STEPS * float(np.percentile(step, 99.0)) + reach
        if not (joined & (step > great)).any():
            continue
        distance = np.abs(x - median_filter(x, 5, mode="nearest"))
        away = distance > np.append(great, great[-1])
        if away.any():
            findings.append(
                Finding(
                    "spike",
                    _severity(np.count_nonzero(away) / samples.n),
                    f"q.{name}, {row_ranges(samples.rows[away])}",
                    f"the position jumps away and back by up to {distance[away].max():.4g}",
                    "interpolated",
                )
            )
            q = q.copy() if q is samples.q else q
            q[away, j] = np.interp(np.flatnonzero(away), np.flatnonzero(~away), x[~away])
        left = np.flatnonzero((np.abs(np.diff(q[:, j])) > great) & joined)
        if left.size:
            jumps = np.union1d(jumps, left + 1)
            findings.append(
                Finding(
                    "jump",
                    "warning",
                    f"q.{name}, {row_ranges(samples.rows[left + 1])}",
                    f"the position jumps by {np.abs(np.diff(q[:, j]))[left].max():.4g} in a sample "
                    "and stays there: rows are missing, or the encoder was set anew",
                    "the recording is split there; make sure that the zero is the same on both "
                    "sides",
                )
            )
    cleaned = samples if q is samples.q else replace(samples, q=q)
    return Outcome(cleaned.split(jumps) if jumps.size else cleaned, findings)


def missing_values(robot: Robot, samples: LogSamples) -> Outcome:
    """Interpolate short runs of missing values and drop the rows of long ones."""
    findings: list[Finding] = []
    samples = _without_empty_velocity(samples, findings)
    period = samples.period
    most = samples.rules.missing_samples
    if np.isfinite(period) and period > 0.0:
        most = int(min(most, max(1.0, samples.rules.missing_time / period)))
    # A clock that was set back ascends piece by piece only, and `np.interp` needs one that does.
    clock = np.where(np.diff(samples.piece) == 0, np.diff(samples.t), 0.0)
    clock = np.concatenate([np.zeros(min(samples.n, 1)), np.cumsum(clock)])
    drop = np.zeros(samples.n, dtype=bool)
    parts: dict[str, Array] = {}
    counts = {"bridged": 0, "dropped": 0}
    named: list[str] = []
    missing = np.zeros(samples.n, dtype=bool)
    for quantity, values in samples.blocks:
        part = values
        for j, name in enumerate(samples.joint_names):
            bad = ~np.isfinite(values[:, j])
            if not bad.any():
                continue
            channel = f"{quantity}.{name}"
            if bad.all():
                findings.append(_empty(channel))
            named.append(channel)
            missing |= bad
            short = _short_runs(bad, samples.piece, most)
            if short.any():
                part = part.copy() if part is values else part
                good = ~bad
                part[short, j] = np.interp(clock[short], clock[good], values[good, j])
                counts["bridged"] += int(np.count_nonzero(short))
            drop |= bad & ~short
        parts[quantity] = part
    counts["dropped"] = int(np.count_nonzero(drop))
    if named and not any(finding.severity == "error" for finding in findings):
        findings.append(_holes(samples, named, missing, counts))
    tau = parts.get("i" if samples.current else "tau", samples.tau)
    samples = replace(samples, q=parts.get("q", samples.q), tau=tau, v=parts.get("v"))
    return Outcome(samples.kept(~drop), findings)


def _holes(samples: LogSamples, named: list[str], missing: Mask, counts: dict[str, int]) -> Finding:
    deeds = []
    if counts["bridged"]:
        deeds.append(f"{counts['bridged']} interpolated, in gaps {_extent(samples.rules)}")
    if counts["dropped"]:
        deeds.append(f"{counts['dropped']} rows left out")
    return Finding(
        "nan",
        _severity(counts["dropped"] / max(1, samples.n)),
        f"{', '.join(named[:4])}{' and others' if len(named) > 4 else ''}, "
        f"{row_ranges(samples.rows[missing])}",
        f"values are missing or not finite in {np.count_nonzero(missing)} of {samples.n} rows",
        " and ".join(deeds),
    )


def _extent(rules: BridgingRules) -> str:
    if np.isfinite(rules.missing_samples):
        return f"of at most {rules.missing_samples:g} values"
    return f"of at most {rules.missing_time:g} s"


def _empty(channel: str) -> Finding:
    return Finding(
        "dead-channel",
        "error",
        channel,
        "it holds no finite value at all",
        "record the channel, or name the right column in the layout file",
    )


def _without_empty_velocity(samples: LogSamples, findings: list[Finding]) -> LogSamples:
    """Velocities that are mostly missing are not worth losing rows for."""
    if samples.v is None or not samples.n:
        return samples
    missing = (~np.isfinite(samples.v)).mean(axis=0)
    worst = int(np.argmax(missing))
    if missing[worst] <= _FEW:
        return samples
    findings.append(
        Finding(
            "nan",
            "warning",
            f"v.{samples.joint_names[worst]}",
            f"{100.0 * missing[worst]:.3g} % of its values are missing or not finite",
            "recorded velocities only serve as a check; positions are differentiated",
        )
    )
    return replace(samples, v=None)


def _severity(share: float) -> Severity:
    return "note" if share <= _FEW else "warning" if share <= _MOST else "error"


def _floors(robot: Robot, quantity: str) -> Array:
    """(n_joints,) distance from the middle of a channel that the robot itself may well reach."""
    lower, upper = robot.position_limits
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
    block = np.zeros(good.size, dtype=np.int64)
    block[edges] = 1
    block = np.cumsum(block)
    sizes = np.bincount(block)
    large = (sizes >= max(10.0, _SMALL_BLOCK * good.size))[block]
    if not large.any():
        return bad
    low, high = float(times[large].min()), float(times[large].max())
    room = max(high - low, usual * good.size)
    outliers = ~large & ((times < low - room) | (times > high + room))
    bad[good[outliers]] = True
    return bad


def _short_runs(bad: Mask, piece: NDArray[np.int64], most: float) -> Mask:
    """Runs of missing values that are short and lie between values of the same piece."""
    edges = np.diff(np.concatenate([[False], bad, [False]]).astype(np.int8))
    first, last = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1) - 1
    inside = (first > 0) & (last < bad.size - 1)
    inside &= (last - first + 1) <= most
    inside &= piece[np.maximum(first - 1, 0)] == piece[np.minimum(last + 1, bad.size - 1)]
    change = np.zeros(bad.size + 1, dtype=np.int64)
    change[first[inside]] += 1
    change[last[inside] + 1] -= 1
    short: Mask = np.cumsum(change[:-1]) > 0
    return short
