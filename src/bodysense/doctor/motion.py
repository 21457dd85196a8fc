"""Motion: where joints move, and standing still before, after and throughout."""

from __future__ import annotations

import numpy as np

from bodysense.doctor.diagnosis import Finding, LogSamples, Mask, Outcome, count
from bodysense.robot.frames import carried_mass
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
# A joint that stays within a degree has not been moved, but pushed.
_LEAST_RANGE = 0.02
# Standstill at the ends is cut if it lasts; two seconds of it stay.
_IDLE, _MARGIN = 3.0, 2.0  # s: a standing robot shows its gravity, but one pose says it all
# A rest that is worth telling, at the ends and in between.
_WORTH_TELLING = 1.0  # s
_REST = 2.0  # s
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


def standstill(robot: Robot, samples: LogSamples) -> Outcome:
    """Cut long standstill at both ends, and report joints that never move."""
    if samples.n < 3 or not np.isfinite(samples.period):
        return Outcome(samples, [])
    reach = _ranges(samples)
    if not (reach >= _LEAST_RANGE).any():
        return Outcome(samples, [*_all_still(samples, reach), *_pushed(robot, samples)])
    findings: list[Finding] = []
    busy = np.flatnonzero(moving_mask(samples).any(axis=1))
    if busy.size:
        samples, findings = _trimmed(samples, int(busy[0]), int(busy[-1]))
    enough = samples.steps.sum() > _IDLE  # in less, a slow joint does not get far
    carried = carried_mass(robot)
    for j, name in enumerate(samples.joint_names):
        if enough and reach[j] < _LEAST_RANGE and np.ptp(samples.q[:, j]) > 0.0:
            unit = "m" if robot.joint_types[j] == "prismatic" else "rad"
            light = carried[j] < _LIGHT * carried.max()
            findings.append(
                Finding(
                    "still-joint",
                    "note" if light else "warning",
                    f"joint {name}",
                    f"it stays within {reach[j]:.2g} {unit} while others move",
                    "its own inertia and friction cannot be identified from this recording: move "
                    "it too",
                )
            )
    return Outcome(samples, findings)


def _trimmed(samples: LogSamples, first: int, last: int) -> tuple[LogSamples, list[Finding]]:
    t = samples.t
    findings: list[Finding] = []
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
    for idle, end, cut in (
        (before, "start", ~keep[:first]),
        (after, "end", ~keep[last:]),
    ):
        n_cut = int(np.count_nonzero(cut))
        if n_cut:
            rows = samples.rows[:first][cut] if end == "start" else samples.rows[last:][cut]
            findings.append(
                Finding(
                    "standstill",
                    "note",
                    f"{end}, rows {rows.min()}-{rows.max()}",
                    f"nothing moves for {idle:.3g} s at the {end}",
                    f"{count(n_cut, 'row')} left out, {_MARGIN:g} s of it kept",
                )
            )
        elif idle > _WORTH_TELLING:
            findings.append(
                Finding(
                    "standstill",
                    "note",
                    end,
                    f"nothing moves for {idle:.3g} s at the {end}",
                    "kept; errors are reported separately for moving and standing joints",
                )
            )
    return samples.kept(keep), findings


def rests(robot: Robot, samples: LogSamples) -> Outcome:
    """Report long rests in between, which are kept."""
    if not (_ranges(samples) >= _LEAST_RANGE).any():
        return Outcome(samples, [])  # reported already
    moving = np.asarray(moving_mask(samples).any(axis=1))
    result = []
    for part in samples.slices():
        busy = np.flatnonzero(moving[part]) + part.start
        if busy.size < 2:
            continue
        rest = np.diff(samples.t[busy])
        result += [(samples.t[busy[k]], rest[k]) for k in np.flatnonzero(rest > _REST)]
    if not result:
        return Outcome(samples, [])
    total = sum(rest for _, rest in result)
    finding = Finding(
        "standstill",
        "note",
        f"from t = {result[0][0]:.6g} s",
        f"nothing moves for {total:.3g} s in {count(len(result), 'rest')} between motions",
        "kept; errors are reported separately for moving and standing joints",
    )
    return Outcome(samples, [finding])


def _ranges(samples: LogSamples) -> Array:
    """(n_joints,) how far each joint gets, single odd values apart."""
    low, high = np.percentile(samples.q, (0.1, 99.9), axis=0)
    return np.asarray(high - low, dtype=np.float64)


def _all_still(samples: LogSamples, reach: Array) -> list[Finding]:
    j = int(np.argmax(reach))
    return [
        Finding(
            "all-still",
            "error",
            "all joints",
            f"nothing moves: no joint gets further than {reach[j]:.2g} rad "
            f"({samples.joint_names[j]})",
            "identify from a recording of motions; the torques that hold this one posture tell of "
            "gravity, together with those of many others (--allow-unusable)",
        )
    ]


def _pushed(robot: Robot, samples: LogSamples) -> list[Finding]:
    if samples.current:
        return []
    from scipy.ndimage import uniform_filter1d

    width = min(_samples_in(_AVERAGED, samples.period), samples.n)
    smooth = uniform_filter1d(samples.tau, width, axis=0, mode="nearest")
    change = np.ptp(smooth, axis=0)
    pushed = change > _PUSH * robot.effort_limit
    if not pushed.any():
        return []
    names = ", ".join(
        f"{name} ({change[j]:.3g} N·m)" for j, name in enumerate(samples.joint_names) if pushed[j]
    )
    return [
        Finding(
            "external-force",
            "warning",
            names,
            "torque changes that much while the robot stands still: somebody pushes it",
            "do not use the recording to find masses",
        )
    ]


def _samples_in(time: float, period: float) -> int:
    return round(min(max(1.0, time / period), 1e7))
