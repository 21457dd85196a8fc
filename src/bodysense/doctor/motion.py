"""Motion: where joints move, standing still before, after and throughout, and smooth motions."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bodysense.doctor.samples import LogSamples, Mask
from bodysense.errors import count, listing
from bodysense.logs.filtering import LEAST_RANGE, LEAST_TRAVEL
from bodysense.robot.frames import carried_mass
from bodysense.robot.layout import position_unit
from bodysense.robot.robot import Robot
from bodysense.spatial.arrays import Array

# A joint moves if it gets 1 mrad (1 mm) further within 0.2 s: 5 mrad/s, where drives hardly
# hold a steady speed and friction is in its presliding range anyway.
_WINDOW = 0.2  # s
_LEAST_MOVE = 1.0e-3
# … and if that is more than 8 standard deviations of what noise does to averages of 50 ms,
# but a move of 10 mrad is one in any case.
_AVERAGED = 0.05  # s
_SIGMAS, _CERTAIN_MOVE = 8.0, 1.0e-2
# Joints that carry next to nothing of the robot, as fingers, may well hold.
_LIGHT = 0.005
# A robot whose joints all stay within a degree (2 cm) has not been moved, but pushed.
_LEAST_RANGE = 0.02
# Standstill at the ends is cut if it lasts; two seconds of it stay.
_IDLE, _MARGIN = 3.0, 2.0  # s: a standing robot shows its gravity, but one pose says it all
# A rest that is worth telling, at the ends and in between.
_WORTH_TELLING = 1.0  # s
_REST = 2.0  # s
_KEPT = "kept; errors are reported separately for moving and standing joints"
# Torque that changes by a tenth of the limit while nothing moves comes from outside.
_PUSH = 0.1


def moving_mask(samples: LogSamples) -> Mask:
    """(n, n_joints) where a joint moves, from positions alone."""
    from scipy.ndimage import uniform_filter1d

    moving = np.zeros(samples.q.shape, dtype=bool)
    period = samples.period
    if not np.isfinite(period) or period <= 0.0:
        return moving
    width = _samples_in(_AVERAGED, period)
    half = _samples_in(0.5 * _WINDOW, period)
    for part in samples.slices():
        q = samples.q[part]
        n = q.shape[0]
        if n < 3:
            continue
        smooth = uniform_filter1d(q, min(width, n), axis=0, mode="nearest")
        first = np.maximum(np.arange(n) - half, 0)
        last = np.minimum(np.arange(n) + half, n - 1)
        move = np.abs(smooth[last] - smooth[first])
        # At the ends the window is cut: compare speeds, not distances.
        move *= (2.0 * half / np.maximum(last - first, 1))[:, np.newaxis]
        noise = np.median(np.abs(np.diff(q, 2, axis=0)), axis=0) * (1.4826 / np.sqrt(6.0))
        noise *= _SIGMAS * np.sqrt(2.0 / width)
        moving[part] = move > np.clip(noise, _LEAST_MOVE, _CERTAIN_MOVE)
    return moving


def standstill(robot: Robot, samples: LogSamples) -> LogSamples:
    """Cut long standstill at both ends, and report joints that never move."""
    if samples.n < 3 or not np.isfinite(samples.period):
        return samples
    reach = _ranges(samples)
    if not (reach >= _LEAST_RANGE).any():
        return _pushed(robot, _all_still(samples, reach))
    busy = np.flatnonzero(moving_mask(samples).any(axis=1))
    if busy.size:
        samples = _trimmed(samples, int(busy[0]), int(busy[-1]))
    enough = samples.steps.sum() > _IDLE  # in less, a slow joint does not get far
    carried = carried_mass(robot)
    slides = np.array(robot.joint_types) == "prismatic"
    held = reach < np.where(slides, LEAST_RANGE, LEAST_TRAVEL)
    for j, name in enumerate(samples.joint_names):
        if enough and held[j] and np.ptp(samples.q[:, j]) > 0.0:
            unit = position_unit(robot.joint_types[j])
            samples = samples.report(
                "still-joint",
                "note" if carried[j] < _LIGHT * carried.max() else "warning",
                name,
                f"it stays within {reach[j]:.2g} {unit} while others move",
                "its own inertia and friction cannot be identified from this recording: move it "
                "too",
            )
    return samples


def _trimmed(samples: LogSamples, first: int, last: int) -> LogSamples:
    t = samples.t
    keep = np.ones(samples.n, dtype=bool)
    # Times of a clock that was set back do not compare with each other: each end looks at its
    # own piece alone.
    head = np.flatnonzero(samples.piece == samples.piece[first])
    tail = np.flatnonzero(samples.piece == samples.piece[last])
    before, after = t[first] - t[head[0]], t[tail[-1]] - t[last]
    if before > _IDLE:
        keep[: head[0]] = False
        keep[head] &= t[head] >= t[first] - _MARGIN
    if after > _IDLE:
        keep[tail[-1] + 1 :] = False
        keep[tail] &= t[tail] <= t[last] + _MARGIN
    trimmed = samples.kept(keep)
    for idle, end, part in (
        (before, "start", slice(None, first)),
        (after, "end", slice(last, None)),
    ):
        rows = samples.rows[part][~keep[part]]
        text = f"nothing moves for {idle:.3g} s at the {end}"
        if rows.size:
            where = f"{end}, rows {rows.min()}-{rows.max()}"
            action = f"{count(rows.size, 'row')} left out, {_MARGIN:g} s of it kept"
            trimmed = trimmed.report("standstill", "note", where, text, action)
        elif idle > _WORTH_TELLING:
            trimmed = trimmed.report("standstill", "note", end, text, _KEPT)
    return trimmed


def rests(robot: Robot, samples: LogSamples) -> LogSamples:
    """Report long rests in between, which are kept."""
    if not (_ranges(samples) >= _LEAST_RANGE).any():
        return samples  # reported already
    moving = np.asarray(moving_mask(samples).any(axis=1))
    starts, durations = [], []
    for part in samples.slices():
        t = samples.t[part][moving[part]]
        long = np.flatnonzero(np.diff(t) > _REST)
        starts += t[long].tolist()
        durations += np.diff(t)[long].tolist()
    if not starts:
        return samples
    return samples.report(
        "standstill",
        "note",
        f"from t = {starts[0]:.6g} s",
        f"nothing moves for {sum(durations):.3g} s in {count(len(starts), 'rest')} between motions",
        _KEPT,
    )


def _ranges(samples: LogSamples) -> Array:
    """(n_joints,) how far each joint gets, single odd values apart."""
    low, high = np.percentile(samples.q, (0.1, 99.9), axis=0)
    return np.asarray(high - low, dtype=np.float64)


def _all_still(samples: LogSamples, reach: Array) -> LogSamples:
    j = int(np.argmax(reach))
    return samples.report(
        "all-still",
        "error",
        "all joints",
        f"nothing moves: no joint gets further than {reach[j]:.2g} rad ({samples.joint_names[j]})",
        "identify from a recording of motions; the torques that hold this one posture tell of "
        "gravity, together with those of many others (--allow-unusable)",
    )


def _pushed(robot: Robot, samples: LogSamples) -> LogSamples:
    if samples.current:
        return samples
    from scipy.ndimage import uniform_filter1d

    width = min(_samples_in(_AVERAGED, samples.period), samples.n)
    change = np.ptp(uniform_filter1d(samples.tau, width, axis=0, mode="nearest"), axis=0)
    pushed = np.flatnonzero(change > _PUSH * robot.effort_limit)
    if not pushed.size:
        return samples
    where = listing(f"{samples.joint_names[j]} ({change[j]:.3g} N·m)" for j in pushed)
    text = "torque changes that much while the robot stands still: somebody pushes it"
    action = "do not use the recording to find masses"
    return samples.report("external-force", "warning", where, text, action)


def _samples_in(time: float, period: float) -> int:
    return round(min(max(1.0, time / period), 1e7))


# A short and smooth version of the samples, for checks that need velocities and accelerations.
#
# Positions and torques pass the same filter, so that what it takes from the one it takes from the
# other: averages of 10 ms, then a Gaussian of 20 ms.

_STEP = 0.01  # s: 100 Hz shows all that an arm does
_SIGMA = 2.0  # steps
_LEAST = 30  # steps in a piece
# Checks of units need thousands of samples, not a day of them.
_MOST = 20_000


class CondensedMotion(NamedTuple):
    """Even, smooth samples (n, n_joints) of all pieces, one after the other.

    Velocities v and accelerations a are those of the positions; `v_recorded` are the recorded
    velocities, if there are any. Torques are (n, 0) where they are not examined.
    """

    q: Array
    v: Array
    a: Array
    tau: Array
    v_recorded: Array | None

    @property
    def n(self) -> int:
        return int(self.q.shape[0])


def condense(samples: LogSamples) -> CondensedMotion:
    """Average, resample, smooth and differentiate; pieces that are too short are left out."""
    width = max(_STEP, samples.period)
    blocks = [samples.q, samples.tau, *([] if samples.v is None else [samples.v])]
    parts: list[list[Array]] = []
    for part in samples.slices():
        result = _even(samples.t[part], [values[part] for values in blocks], width)
        if result is not None:
            q = result[0]
            v = np.gradient(q, width, axis=0)
            a = np.gradient(v, width, axis=0)
            parts.append([q, v, a, *result[1:]])
    if not parts:
        empty = np.zeros((0, len(samples.joint_names)))
        return CondensedMotion(empty, empty, empty, empty, None if samples.v is None else empty)
    whole = [np.concatenate(group) for group in zip(*parts, strict=True)]
    every = 1 + whole[0].shape[0] // _MOST
    whole = [np.ascontiguousarray(values[::every]) for values in whole]
    q, v, a, tau = whole[:4]
    return CondensedMotion(q, v, a, tau, whole[4] if len(whole) > 4 else None)


def _even(t: Array, blocks: list[Array], width: float) -> list[Array] | None:
    """The blocks at even times `width` apart, smoothed; nothing where that is impossible."""
    from scipy.ndimage import gaussian_filter1d

    if t.size < _LEAST or not np.isfinite(width):
        return None
    place = np.floor((t - t[0]) / width)
    # A piece has no long gaps: more steps than samples by far are no time axis.
    if not place[-1] < 10.0 * t.size or place[-1] < _LEAST:
        return None
    first = np.concatenate([[0], np.flatnonzero(np.diff(place)) + 1])
    count = np.diff(np.append(first, t.size))
    # From the first time, for sums of large times would lose the small steps.
    mean = np.add.reduceat(t - t[0], first) / count
    even = np.arange(mean[0], mean[-1], width)
    if even.size < _LEAST:
        return None
    results = []
    for values in blocks:
        columns = np.add.reduceat(values, first, axis=0) / count[:, np.newaxis]
        grid = np.empty((even.size, values.shape[1]))
        for j, x in enumerate(columns.T):
            grid[:, j] = np.interp(even, mean, x)
        results.append(gaussian_filter1d(grid, _SIGMA, axis=0, mode="nearest"))
    # The ends lean on values that are not there.
    inner = slice(int(2 * _SIGMA), even.size - int(2 * _SIGMA))
    return [values[inner] for values in results]


def unit_columns(x: Array) -> Array:
    """The columns of x (n, k) without their means, of length one, or zero if constant."""
    x = x - x.mean(axis=0)
    norm = np.linalg.norm(x, axis=0)
    return np.asarray(x / np.where(norm > 0.0, norm, np.inf))
