"""Units and order of positions, velocities and readings: what the robot could have done at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from bodysense.doctor.motion import condense, unit_columns
from bodysense.doctor.samples import (
    VELOCITIES_ARE_A_CHECK,
    LogSamples,
    Mask,
    channel_list,
    layout_edit,
    time_edit,
    unit_edit,
)
from bodysense.errors import listing
from bodysense.robot.robot import Robot
from bodysense.sensors.motion_sensors import Accelerometer, JointTorque
from bodysense.sensors.sensor import Sensor
from bodysense.spatial.arrays import Array
from bodysense.status import Finding

_DEGREES = 180.0 / np.pi
# Limits in robot files are rough, and motions may overshoot: three times a limit is suspicious,
# ten times is impossible. Motions in degrees are mostly 10 to 50 times beyond.
_SUSPICIOUS, _IMPOSSIBLE = 3.0, 10.0
# What counts as fitting once the unit has been corrected, and beside others that fit so; and what
# share of their travel a joint must make to be in degrees as well.
_FITS, _FITS_BESIDE, _AS_FAR = 1.5, 3.0, 0.1
# Where a limit is not known: no arm turns further or faster.
_ANY_ANGLE, _ANY_SPEED = 8.0 * np.pi, 30.0
# Beyond the limits by a twentieth of the room between them: a wrong zero or wrong limits.
_BEYOND = 0.05
# Recorded and differentiated velocities agree to some per cent if both are right.
_SAME = 0.9
_SCALE_OFF, _SCALE_WRONG = 1.25, 2.0
# To compare at all: half a second of samples, and a motion that is no noise.
_LEAST_SAMPLES, _LEAST_RANGE = 50, 0.05
# Usual wrong units of velocity (rad/s a unit); q in degrees shows as 57.3.
_FACTORS = (
    (_DEGREES, "q", "deg"),
    (1.0 / _DEGREES, "v", "deg/s"),
    (2.0 * np.pi, "v", "rev/s"),
    (2.0 * np.pi / 60.0, "v", "rpm"),
)
_FACTOR_TOLERANCE = 1.15
# Factors of all joints that agree so well are that of time, from where it is off and is wrong.
_LEAST_JOINTS, _AGREE, _TIME_OFF, _TIME_WRONG = 2, 1.05, 1.1, 1.5


def position_units(robot: Robot, samples: LogSamples) -> LogSamples:
    """Compare positions and speeds with the robot's limits."""
    short = condense(samples)
    if short.n < _LEAST_SAMPLES or not np.isfinite(short.v).all():
        return _huge(samples)
    joints = samples.joints_of(robot)
    lower, upper = (limit[joints] for limit in robot.position_range)
    bound = np.maximum(np.abs(lower), np.abs(upper))
    bound = np.where(np.isfinite(bound), bound, _ANY_ANGLE)
    limit = robot.velocity_limit[joints]
    limit = np.where(np.isfinite(limit), limit, _ANY_SPEED)
    furthest = np.percentile(np.abs(short.q), 99.0, axis=0)
    fastest = np.percentile(np.abs(short.v), 99.0, axis=0)
    ratio = np.maximum(furthest / bound, fastest / limit)
    slides = np.array([robot.joint_types[j] == "prismatic" for j in joints])
    beyond = ratio > _SUSPICIOUS
    if not beyond.any():
        return _beyond_limits(samples, short.q, lower, upper)
    in_degrees = beyond & ~slides & (ratio / _DEGREES <= _FITS)
    if in_degrees.any():
        # Beside these, others are rather in degrees and too fast than of any other gain.
        in_degrees |= beyond & ~slides & (ratio / _DEGREES <= _FITS_BESIDE)
        most = np.count_nonzero(in_degrees) >= 0.5 * max(1, int(np.count_nonzero(~slides)))
        certain = bool(most or ratio[in_degrees].max() > _IMPOSSIBLE)
        travel = np.ptp(short.q, axis=0)
        in_radians = (travel > _LEAST_RANGE) & (travel < _AS_FAR * np.median(travel[in_degrees]))
        turning = in_degrees | (most & ~slides & ~in_radians)
        names = [samples.joint_names[j] for j in np.flatnonzero(turning)]
        units = dict.fromkeys(_named(samples, "q", names), "deg")
        also = {**units, **dict.fromkeys(_named(samples, "v", names), "deg/s")}
        worst = int(np.argmax(ratio))
        samples = samples.report(
            "degrees",
            "error" if certain else "warning",
            channel_list("q", names),
            f"read as radians, the robot could not do this: {samples.joint_names[worst]} gets to "
            f"{furthest[worst]:.3g} rad at {fastest[worst]:.3g} rad/s, its limits are "
            f"{bound[worst]:.3g} rad and {limit[worst]:.3g} rad/s; in degrees it could",
            f"write {unit_edit(units, f'q.{names[0]}')}"
            + (
                ""
                if samples.v is None
                else f"; if velocities are alike, {layout_edit('unit', also)}"
            )
            + "; if these are motor angles, give gear ratios (`motors:` of the layout)",
        )
    for j in np.flatnonzero(beyond & ~in_degrees):
        name = samples.joint_names[j]
        samples = samples.report(
            "wrong-scale",
            "error" if ratio[j] > _IMPOSSIBLE else "warning",
            f"q.{name}",
            f"{ratio[j]:.3g} times beyond what the robot can do ({furthest[j]:.3g} at "
            f"{fastest[j]:.3g} a second; limits {bound[j]:.3g} and {limit[j]:.3g})",
            f"write the right unit or gain, as in {layout_edit('gain', {f'q.{name}': 0.01})}",
        )
    return samples


def recorded_velocities(robot: Robot, samples: LogSamples) -> LogSamples:
    """Compare recorded velocities with those of the positions; drop them if they differ."""
    if samples.v is None:
        return samples
    short = condense(samples)
    recorded = short.v_recorded
    if recorded is None or short.n < _LEAST_SAMPLES:
        return samples
    if not (np.isfinite(short.v).all() and np.isfinite(recorded).all()):
        return replace(samples, v=None)
    moved = np.ptp(short.q, axis=0) > _LEAST_RANGE
    likeness = unit_columns(short.v).T @ unit_columns(recorded)  # correlations; 0 for still joints
    judged = _swapped(samples, likeness, moved)
    if judged is samples:
        judged = _scaled(samples, short.v, recorded, np.diag(likeness), moved)
    return judged if judged is samples else replace(judged, v=None)


def _beyond_limits(samples: LogSamples, q: Array, lower: Array, upper: Array) -> LogSamples:
    room = _BEYOND * (upper - lower)
    low, high = np.percentile(q, (0.5, 99.5), axis=0)
    beyond = np.flatnonzero((low < lower - room) | (high > upper + room))
    if not beyond.size:
        return samples
    names = [f"q.{samples.joint_names[j]}" for j in beyond]
    reached = [
        f"from {low[j]:.4g} to {high[j]:.4g}, the robot's limits are {lower[j]:.4g} and "
        f"{upper[j]:.4g}"
        for j in beyond
    ]
    gains, checks = layout_edit("gain", dict.fromkeys(names, -1)), "(`offset:` in the same place)"
    if len(names) == 1:
        text = f"it goes {reached[0]}"
        action = f"check its sign ({gains}), its zero {checks}, or the limits of the robot"
    else:
        text = "; ".join(f"{name} goes {way}" for name, way in zip(names, reached, strict=True))
        action = "is it the recording of another robot? Otherwise check their signs "
        action += f"({gains}), their zeros {checks}, or the limits of the robot"
    return samples.report("beyond-limits", "warning", listing(names), text, action)


def _huge(samples: LogSamples) -> LogSamples:
    """Positions too large to differentiate."""
    largest = np.abs(samples.q).max(axis=0, initial=0.0)
    for j in np.flatnonzero(largest > 1e9):
        where = f"q.{samples.joint_names[j]}"
        text = f"positions of up to {largest[j]:.3g} are no angles"
        action = "name the right column in the layout file or in the header"
        samples = samples.report("wrong-scale", "error", where, text, action)
    return samples


def _swapped(samples: LogSamples, likeness: Array, moved: Mask) -> LogSamples:
    names = samples.joint_names
    size, best = np.abs(likeness), np.abs(likeness).argmax(axis=1)
    other = moved & (size.max(axis=1) > _SAME) & (np.diag(size) < _SAME)
    pairs = [(j, best[j]) for j in np.flatnonzero(other)]
    if not pairs:
        return samples
    return samples.report(
        "swapped-joints",
        "error",
        listing(names[j] for j, _ in pairs),
        listing(
            (
                f"v.{names[k]} is the velocity of q.{names[j]} (correlation "
                f"{likeness[j, k]:.3f}, that of v.{names[j]} is {likeness[j, j]:.3f})"
                for j, k in pairs
            ),
            separator="; ",
        ),
        "exchange their names in the header, or their columns in the layout file, for v or for q, "
        "whichever is wrong",
    )


def _scaled(
    samples: LogSamples, v: Array, recorded: Array, likeness: Array, moved: Mask
) -> LogSamples:
    """Recorded velocities (n, n_joints) that are multiples of v, or are not like it at all."""
    names = samples.joint_names
    factor = np.einsum("tj,tj->j", v, recorded) / np.einsum("tj,tj->j", recorded, recorded)
    alike = np.abs(likeness) > _SAME
    tested, mismatched = np.flatnonzero(moved & alike), np.flatnonzero(moved & ~alike)
    if mismatched.size:
        where = channel_list("v", [names[j] for j in mismatched])
        least = float(np.abs(likeness[mismatched]).min())
        text = f"not the velocity of the positions: correlation {least:.2f}"
        samples = samples.report(
            "velocity-mismatch", "warning", where, text, VELOCITIES_ARE_A_CHECK
        )
    unit = _common_time_unit(factor[tested])
    if unit:
        common = float(np.median(factor[tested]))
        text = f"all positions change {common:.3g} times as fast as the recorded velocities say"
        edit = f"write {time_edit(unit)}"
        return samples.report("time-unit", "error", "t", text, edit)
    common = _common_factor(factor[tested])
    if common and not _named_factor(common)[1]:
        times = f"{max(common, 1.0 / common):.3g}"
        samples = samples.report(
            "time-scale",
            "error" if max(common, 1.0 / common) > _TIME_WRONG else "warning",
            "t",
            f"all positions change {common:.3g} times as fast as the recorded velocities say: time "
            f"runs {times} times too {'fast' if common > 1.0 else 'slowly'}, or velocities are off",
            "check the rate and whether samples were lost or repeated (`rate: …` [Hz] or the unit "
            "of time in the layout); if time is right, check the unit of the velocities",
        )
        return samples
    opposite = [names[j] for j in tested if factor[j] < 0.0]
    if opposite:
        whose = _named(samples, "v", opposite)
        edit = f"write {layout_edit('gain', dict.fromkeys(whose, -1))}, or the same for q if "
        edit += "that one is wrong"
        text = "velocities have the opposite sign of what positions do"
        where = channel_list("v", opposite)
        samples = samples.report("velocity-sign", "error", where, text, edit)
    groups: dict[tuple[str, str], list[int]] = {}
    for j in tested:
        if factor[j] > 0.0 and max(factor[j], 1.0 / factor[j]) > _SCALE_OFF:
            groups.setdefault(_named_factor(factor[j]), []).append(int(j))
    for named, joints in groups.items():
        factors = factor[joints]
        samples = _wrong_factor(samples, [names[j] for j in joints], factors, *named)
    return samples


def _common_time_unit(factor: Array) -> str:
    """The unit of time that explains the factors of all joints, or nothing."""
    if not factor.size or not (factor > 0.0).all():
        return ""
    common = float(np.median(factor))
    tolerance = np.log(_FACTOR_TOLERANCE)
    if not np.all(np.abs(np.log(factor / common)) < tolerance):
        return ""
    for unit, size in (("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9)):
        if abs(np.log(common / size)) < tolerance:
            return unit
    return ""


def _common_factor(factor: Array) -> float:
    """The factor of all joints, if there are several and they agree; zero if not, or if near 1."""
    if factor.size < _LEAST_JOINTS or not (factor > 0.0).all():
        return 0.0
    common = float(np.median(factor))
    alike = np.abs(np.log(factor / common)).max() < np.log(_AGREE)
    return common if alike and abs(np.log(common)) > np.log(_TIME_OFF) else 0.0


def _named_factor(factor: float) -> tuple[str, str]:
    """The quantity and the unit that a factor is known for, or no unit."""
    for size, quantity, unit in _FACTORS:
        if abs(np.log(factor / size)) < np.log(_FACTOR_TOLERANCE):
            return quantity, unit
    return "v", ""


def _wrong_factor(
    samples: LogSamples, names: list[str], factor: Array, quantity: str, unit: str
) -> LogSamples:
    value = float(np.median(factor))
    certain = max(value, 1.0 / value) > _SCALE_WRONG
    if unit:
        units = dict.fromkeys(_named(samples, quantity, names), unit)
        edit = unit_edit(units, f"{quantity}.{names[0]}")
    else:
        gains = dict.fromkeys(_named(samples, "v", names), float(f"{value:.3g}"))
        edit = layout_edit("gain", gains)
    return samples.report(
        "degrees" if "deg" in unit else "wrong-scale",
        "error" if certain else "warning",
        channel_list(quantity, names),
        f"positions change {value:.4g} times as fast as the recorded velocities say",
        f"write {edit}{_or_else(unit)}"
        + ("" if certain else "; recorded velocities only serve as a check"),
    )


def _named(samples: LogSamples, quantity: str, names: Sequence[str]) -> list[str]:
    """The channels of these joints for a `layout_edit`; the quantity where they are all."""
    every = len(names) == len(samples.joint_names)
    return [quantity] if every else [f"{quantity}.{name}" for name in names]


def _or_else(unit: str) -> str:
    """The other way to make the two agree, where nobody can tell which of them is wrong."""
    if unit == "deg/s":
        return "; or `channels: {q: {unit: rad}}` if positions are radians already"
    if unit == "deg":
        return "; or `channels: {v: {unit: rad/s}}` if it is velocities that are converted twice"
    return ""


# Readings of sensors in another unit, as the readings themselves show.
#
# An accelerometer at rest reads 9.81 m/s² whatever its direction, joints stay below their efforts,
# and a gyroscope of a robot on a fixed base turns as the joints do. A reading that is off by the
# ratio of two usual units is most likely in the other one. None of this is certain enough to refuse
# a recording: all findings are warnings.

_GRAVITY = 9.81  # m/s²
# What a reading is in another unit, as a multiple of what it is in the right one.
_ACCELERATIONS = {"g": 1.0 / _GRAVITY, "cm/s²": 100.0, "mm/s²": 1000.0}
_SPEEDS = {"deg/s": 180.0 / np.pi, "rpm": 60.0 / (2.0 * np.pi), "rev/s": 1.0 / (2.0 * np.pi)}
_UNIT_TOLERANCE = 1.25  # factor within which a ratio is that of another unit
_MOST_EFFORT = 10.0  # times the effort limit of a joint, beyond which no torque is in N·m
_LEAST_SPEED = 0.02  # rad/s, rms: below, there is nothing to compare with
_SAMPLES = 200  # that are looked at: enough to see a unit
_MOST_BROKEN = 0.01  # share of quaternions that may be invalid without a finding


def sensor_findings(
    robot: Robot, sensors: Sequence[Sensor], readings: Mapping[str, Array]
) -> list[Finding]:
    """Sensors without any reading, or in another unit.

    Args:
        robot: that carries them.
        sensors: to look at.
        readings: (T, m) by sensor, NaN where there is none.
    """
    findings = []
    for sensor in sensors:
        y = readings[sensor.name]
        y = y[np.isfinite(y).all(axis=1)]
        if not len(y):
            text = "it has no reading at all in this recording"
            action = "check its channels in the layout file or in the header"
            findings.append(Finding("dead-channel", "warning", sensor.who, text, action))
            continue
        y = y[some_samples(len(y))]
        if isinstance(sensor, Accelerometer):
            ratio = float(np.median(np.linalg.norm(y, axis=1))) / _GRAVITY
            text = f"its median is {ratio * _GRAVITY:.3g}, where 9.81 m/s² is expected"
            findings += _other_unit(sensor, ratio, _ACCELERATIONS, text)
        elif isinstance(sensor, JointTorque):
            findings += _beyond_effort(robot, sensor, y)
    return findings


def speed_findings(sensor: Sensor, read: Array, expected: Array) -> list[Finding]:
    """A gyroscope or a joint velocity against what the joints do, (T, m) each."""
    good = np.isfinite(read - expected).all(axis=1)
    read, expected = read[good], expected[good]
    size = float(np.sqrt(np.mean(expected**2))) if expected.size else 0.0
    if size < _LEAST_SPEED:
        return []
    ratio = float(np.sum(read * expected) / np.sum(expected**2))
    return _other_unit(sensor, ratio, _SPEEDS, f"it reads {ratio:.3g} times what the joints do")


def quaternion_findings(sensor: Sensor, recorded: int, valid: int, rows: int) -> list[Finding]:
    """Recorded quaternions of which many are no rotation."""
    if not valid or recorded - valid <= _MOST_BROKEN * rows:
        return []
    return [
        Finding(
            "invalid-quaternion",
            "warning",
            sensor.who,
            f"{recorded - valid} quaternions have a length far from 1",
            "left out; check that its channels are x, y, z, w",
        )
    ]


def some_samples(T: int) -> Array:
    """Indices of a few of T samples, all over the recording."""
    return np.unique(np.linspace(0, T - 1, min(T, _SAMPLES)).astype(np.int64))


def _beyond_effort(robot: Robot, sensor: JointTorque, y: Array) -> list[Finding]:
    limit = float(robot.effort_limit[sensor.joint_index(robot)])
    most = float(np.percentile(np.abs(y), 99.0))
    if not np.isfinite(limit) or limit <= 0.0 or most <= _MOST_EFFORT * limit:
        return []
    return [
        Finding(
            "wrong-scale",
            "warning",
            sensor.who,
            f"it reads up to {most:.4g}, {most / limit:.3g} times the effort limit of the joint",
            f"write the right unit or gain, as in "
            f"{layout_edit('gain', dict.fromkeys(sensor.channels, 0.001))}",
        )
    ]


def _other_unit(
    sensor: Sensor, ratio: float, units: Mapping[str, float], text: str
) -> list[Finding]:
    return [
        Finding(
            "sensor-unit",
            "warning",
            sensor.who,
            f"it looks as if it were in {unit}: {text}",
            f"write {layout_edit('unit', dict.fromkeys(sensor.channels, unit))}",
        )
        for unit, factor in units.items()
        if factor / _UNIT_TOLERANCE < ratio < factor * _UNIT_TOLERANCE
    ]
