"""Channels that are dead, cut out around zero, clipped, held or coarsely quantised."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bodysense.doctor.motion import moving_mask
from bodysense.doctor.samples import (
    VELOCITIES_ARE_A_CHECK,
    LogSamples,
    Mask,
    channel_list,
    row_ranges,
    runs,
)
from bodysense.robot.layout import effort_unit, position_unit
from bodysense.robot.robot import Robot
from bodysense.spatial.arrays import Array

# A channel that repeats one value for a quarter of a second and 20 samples while its joint moves
# is not measuring: torque changes with every posture.
_FROZEN_TIME, _FROZEN_SAMPLES = 0.25, 20
# … if it does so ten times as long as it ever does otherwise: coarse steps repeat as well.
_UNUSUAL = 10.0
# A position that stops within a sample at this speed [rad/s or m/s] and this deceleration [/s²], or
# starts so: no joint does, an encoder that hangs does.
_HALT_SPEED, _HALT = 0.05, 20.0
# A torque that is exactly zero so often while its joint moves, and otherwise hardly ever the same
# twice, is cut out where it is small; beyond half of the samples there is too little left.
_CUT_OUT, _MOSTLY_CUT_OUT = 0.1, 0.5
# Clipped: this many samples at the very same extreme, and more of them than in the next twentieth
# of the range and the next three levels. A smooth peak, however coarse, has its neighbours.
_CLIPPED, _BELOW, _NEIGHBOURS = 10, 0.05, 3
# Values that are multiples of one step: within this tolerance 4 % of arbitrary numbers would be.
_ON_GRID, _GRID_TOLERANCE = 0.5, 0.02
_REPEATING = 0.95
# Closer values are one level and the last digit of a float.
_SAME_LEVEL = 1e-9
# A position step matters if it makes one per cent of the usual speed when differentiated from
# sample to sample; a channel with fewer than 100 levels is coarse.
_SHOWS, _LEVELS = 0.01, 100
# Half of the samples repeat the one before: the channel is updated at half the rate or less.
_HELD = 0.5


def dead_channels(robot: Robot, samples: LogSamples) -> LogSamples:
    """Report channels that never change; drop rows where a torque stops changing for a while."""
    if samples.n < _FROZEN_SAMPLES:
        return samples
    moving = moving_mask(samples)
    frozen = np.zeros(samples.n, dtype=bool)
    for quantity, values in samples.blocks:
        for j, name in enumerate(samples.joint_names):
            x = values[:, j]
            channel = f"{quantity}.{name}"
            if x.min() == x.max():
                if (moving if quantity == "q" else moving[:, j]).any():
                    samples = _dead(samples, quantity, channel, float(x[0]), robot.joint_types[j])
            elif not _is_cut_out(samples, channel):
                stuck = _hung(samples, x) if quantity == "q" else _stuck(samples, x, moving[:, j])
                if stuck.any():
                    moved = "although it was moving" if quantity == "q" else "while the joint moves"
                    samples = samples.report(
                        "dead-channel",
                        "warning",
                        f"{channel}, {row_ranges(samples.rows[stuck])}",
                        f"it repeats one value over {np.count_nonzero(stuck)} rows {moved}",
                        "these rows left out" + ("; check the encoder" * (quantity == "q")),
                    )
                    frozen |= stuck
    end = runs(frozen)[1]
    return samples.split(end[end < samples.n]).kept(~frozen) if frozen.any() else samples


def dead_bands(robot: Robot, samples: LogSamples) -> LogSamples:
    """Report torques that are zero wherever they are small."""
    moving = moving_mask(samples)
    for j, name in enumerate(samples.joint_names):
        own = moving[:, j]
        x = samples.tau[own, j]
        zero = x == 0.0
        share = float(zero.mean()) if x.size else 0.0
        if not _CUT_OUT < share < 1.0:
            continue
        rest = np.abs(x[~zero])
        repeated = np.mean((np.diff(samples.tau[:, j]) == 0.0)[own[1:] & (samples.tau[1:, j] != 0)])
        if repeated > 1.0 - _REPEATING or np.unique(rest).size < _CLIPPED:
            continue  # held, or coarse steps
        samples = samples.report(
            "dead-band",
            "error" if share > _MOSTLY_CUT_OUT else "warning",
            f"tau.{name}",
            f"it is exactly 0 in {100.0 * share:.0f} % of the samples while the joint moves, and "
            f"{rest.min():.3g} {effort_unit(robot.joint_types[j])} or more otherwise: a dead band "
            "cuts small torques out",
            "switch the dead band of drive or recorder off: what it cuts out is lost",
        )
    return samples


def _is_cut_out(samples: LogSamples, channel: str) -> bool:
    return any(f.kind == "dead-band" and f.where == channel for f in samples.findings)


def _is_cut(samples: LogSamples, channel: str) -> bool:
    """Whether small or large values are cut off, so that the same ones repeat."""
    clipped = (f for f in samples.findings if f.kind == "saturated-channel")
    return _is_cut_out(samples, channel) or any(f.where.startswith(f"{channel},") for f in clipped)


def clipped_channels(robot: Robot, samples: LogSamples) -> LogSamples:
    """Report torques that end flat at a limit."""
    moving = moving_mask(samples)
    for j, name in enumerate(samples.joint_names):
        x = samples.tau[moving[:, j], j]
        if x.size < _CLIPPED or x.min() == x.max() or _is_cut_out(samples, f"tau.{name}"):
            continue
        levels = np.unique(x)
        near, few = _BELOW * (levels[-1] - levels[0]), min(_NEIGHBOURS, levels.size - 1)
        for extreme, inside in (
            (levels[-1], x >= min(levels[-1] - near, levels[-1 - few])),
            (levels[0], x <= max(levels[0] + near, levels[few])),
        ):
            at = np.count_nonzero(x == extreme)
            if at >= _CLIPPED and at > np.count_nonzero(inside) - at:
                rows = samples.rows[moving[:, j] & (samples.tau[:, j] == extreme)]
                samples = samples.report(
                    "saturated-channel",
                    "warning",
                    f"tau.{name}, {row_ranges(rows)}",
                    f"{at} samples end flat at {extreme:.4g} "
                    f"{effort_unit(robot.joint_types[j])}: the drive or the sensor is at its limit",
                    "move more slowly if the sensor clips; what the motor truly gave is not known "
                    "there",
                )
    return samples


def quantised_channels(robot: Robot, samples: LogSamples) -> LogSamples:
    """Report steps in positions and torques that are large enough to matter."""
    moving = moving_mask(samples)
    for quantity, values in (("q", samples.q), ("tau", samples.tau)):
        steps: dict[str, float] = {}
        coarse = False
        for j, name in enumerate(samples.joint_names):
            own = moving[:, j]
            x = values[own, j]
            if x.size < _LEVELS or _is_cut(samples, f"{quantity}.{name}"):
                continue
            held = _held(samples, values[:, j], own)
            if held is not None:
                samples = samples.report(
                    "held-channel",
                    "warning",
                    f"{quantity}.{name}",
                    f"it changes every {held:.3g} samples only, "
                    f"{1.0 / samples.period / held:.3g} times per second",
                    "record at that rate, or all channels at the same: held values lag behind",
                )
                continue
            levels = np.unique(x)
            # An even motion has even distances too, but hardly ever the same value twice.
            step = _grid_step(levels) if levels.size < _REPEATING * x.size else None
            if step is not None and _matters(quantity, step, values[:, j], own):
                steps[name] = step
                coarse = coarse or levels.size < _LEVELS
        if steps:
            samples = _quantised(robot, samples, quantity, steps, coarse)
    return samples


def _matters(quantity: str, step: float, x: Array, moving: Mask) -> bool:
    """Whether a step of a channel (n,) is large beside what the channel does."""
    if quantity != "q":
        return step > _SHOWS * float(x[moving].std())
    usual = float(np.median(np.abs(np.diff(x))[moving[1:]]))
    # A held value looks like a slow motion: the step itself is the least.
    return step > _SHOWS * max(usual, 0.1 * step)


def _quantised(
    robot: Robot, samples: LogSamples, quantity: str, steps: dict[str, float], coarse: bool
) -> LogSamples:
    unit_of = position_unit if quantity == "q" else effort_unit
    types = (robot.joint_types[samples.joint_names.index(name)] for name in steps)
    unit = " or ".join(sorted({unit_of(joint_type) for joint_type in types}))
    smallest, largest = f"{min(steps.values()):.2g}", f"{max(steps.values()):.2g}"
    size = smallest if smallest == largest else f"{smallest} to {largest}"
    text = f"{quantity} comes in steps of {size} {unit}"
    if quantity == "q":
        speed = max(steps.values()) / samples.period
        text += f": {speed:.2g} {unit}/s when differentiated from sample to sample"
    every = len(steps) == len(samples.joint_names)
    return samples.report(
        "quantised",
        "warning" if coarse else "note",
        f"{quantity} (all joints)" if every else channel_list(quantity, steps),
        text,
        "smoothed by the filter; " + ("record with more digits" if coarse else "harmless"),
    )


def _dead(
    samples: LogSamples, quantity: str, channel: str, value: float, joint_type: str
) -> LogSamples:
    kind, text = "dead-channel", f"stays at {value:.6g}"
    if quantity == "q":
        text += f" {position_unit(joint_type)} exactly while other joints move"
        action = "check the encoder; a joint that stands still cannot be identified"
        return samples.report(kind, "warning", channel, text, action)
    if quantity == "v":
        text += f" {position_unit(joint_type)}/s while the joint moves"
        samples = replace(samples, v=None)
        return samples.report(kind, "warning", channel, text, VELOCITIES_ARE_A_CHECK)
    text += " while the joint moves"
    action = "name the right column in the layout file, or record the torque"
    return samples.report(kind, "error", channel, text, action)


def _hung(samples: LogSamples, x: Array) -> Mask:
    """Where a position (n,) repeats one value for long after a stop, or before a start, at once."""
    first, length = _constant_runs(samples, x)
    long = (length >= _FROZEN_SAMPLES) & (length * samples.period >= _FROZEN_TIME)
    if not long.any():
        return np.zeros(x.size, dtype=bool)
    # Speed before each sample, a step or two away from the one that starts or ends the run.
    speed = np.abs(np.diff(x)) / samples.period
    fast = max(_HALT_SPEED, _HALT * samples.period)
    before = np.array([_least(speed[max(0, k - 4) : k - 1]) for k in first])
    after = np.array([_least(speed[k : k + 3]) for k in first + length])
    return np.repeat(long & (np.maximum(before, after) > fast), length)


def _least(speeds: Array) -> float:
    return float(speeds.min()) if speeds.size == 3 else 0.0


def _constant_runs(samples: LogSamples, x: Array) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """First place and length of every run of one value."""
    new = np.ones(x.size, dtype=bool)
    new[1:] = (np.diff(x) != 0.0) | ~samples.joined
    first = np.flatnonzero(new)
    return first, np.diff(np.append(first, x.size))


def _stuck(samples: LogSamples, x: Array, moving: Mask) -> Mask:
    """Where a channel repeats one value for long while its joint moves."""
    first, length = _constant_runs(samples, x)
    busy = np.add.reduceat(moving.astype(np.int64), first)
    long = (busy >= _FROZEN_SAMPLES) & (busy * samples.period >= _FROZEN_TIME)
    long &= length > _UNUSUAL * np.percentile(length, 99.0)
    # At its limits a channel is clipped, which is another matter.
    long &= (x[first] != x.max()) & (x[first] != x.min())
    return np.repeat(long, length)


def _held(samples: LogSamples, x: Array, moving: Mask) -> float | None:
    """Usual number of samples between changes, where most samples only repeat the one before."""
    inside = moving[1:] & samples.joined
    step = np.abs(np.diff(x))[inside]
    changes = step[step > 0.0]
    if not changes.size or 1.0 - changes.size / step.size < _HELD:
        return None
    levels = np.unique(x[moving])
    grid = _grid_step(levels)
    if grid is not None and np.median(changes) < 3.0 * grid:
        return None  # slow motion on a coarse grid, not a slow channel
    return float(step.size / changes.size)


def _grid_step(levels: Array) -> float | None:
    """The step that most distances between the levels are multiples of, if there is one."""
    distance = np.diff(levels)
    distance = distance[distance > _SAME_LEVEL * (levels[-1] - levels[0])]
    if distance.size < 2:
        return None
    # A recorder with five significant digits has finer steps near zero: the usual one counts.
    for step in np.percentile(distance, (1.0, 10.0, 30.0)):
        multiple = distance / step
        if np.mean(np.abs(multiple - np.rint(multiple)) < _GRID_TOLERANCE) > _ON_GRID:
            return float(step)
    return None
