"""Units and order of positions and velocities: what the robot could have done at all."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bodysense.doctor.diagnosis import Finding, LogSamples, Mask, Outcome, Severity
from bodysense.doctor.torque_fit import Condensed, condensed
from bodysense.robot.robot import Robot
from bodysense.spatial.arrays import Array

_DEGREES = 180.0 / np.pi
# Limits in robot files are rough, and motions may overshoot: three times a limit is suspicious,
# ten times is impossible. Motions in degrees are mostly 10 to 50 times beyond.
_SUSPICIOUS, _IMPOSSIBLE = 3.0, 10.0
# What counts as fitting once the unit has been corrected.
_FITS = 1.5
# Where a limit is not known: no arm turns further or faster.
_ANY_ANGLE, _ANY_SPEED = 8.0 * np.pi, 30.0
# Beyond the limits by a twentieth of the room between them: a wrong zero or wrong limits.
_BEYOND = 0.05
# Recorded and differentiated velocities agree to some per cent if both are right.
_SAME = 0.9
_SCALE_OFF, _SCALE_WRONG = 1.25, 2.0
# To compare at all: half a second of samples, and a motion that is no noise.
_LEAST_SAMPLES, _LEAST_RANGE = 50, 0.05
# Usual wrong units of velocity (rad/s a unit) and what to write; q in degrees shows as 57.3.
_FACTORS = (
    (_DEGREES, "q", "unit: deg"),
    (1.0 / _DEGREES, "v", "unit: deg/s"),
    (2.0 * np.pi, "v", "unit: rev/s"),
    (2.0 * np.pi / 60.0, "v", "unit: rpm"),
)
_FACTOR_TOLERANCE = 1.15


def position_units(robot: Robot, samples: LogSamples) -> Outcome:
    """Compare positions and speeds with the robot's limits."""
    short = condensed(samples)
    if short.n < _LEAST_SAMPLES or not np.isfinite(short.v).all():
        return Outcome(samples, _huge(samples))
    joints = samples.joints_of(robot)
    lower, upper = robot.position_limits[0][joints], robot.position_limits[1][joints]
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
        return Outcome(samples, _beyond_limits(samples, short, lower, upper))
    worst = int(np.argmax(ratio))
    seen = (
        f"{samples.joint_names[worst]} gets to {furthest[worst]:.3g} rad at "
        f"{fastest[worst]:.3g} rad/s, its limits are {bound[worst]:.3g} rad and "
        f"{limit[worst]:.3g} rad/s"
    )
    in_degrees = beyond & ~slides & (ratio / _DEGREES <= _FITS)
    most = np.count_nonzero(in_degrees) >= 0.5 * max(1, int(np.count_nonzero(~slides)))
    findings = []
    if in_degrees.any():
        names = [n for j, n in enumerate(samples.joint_names) if in_degrees[j] or most]
        certain = bool(most or ratio[in_degrees].max() > _IMPOSSIBLE)
        findings.append(_degrees(names, seen, bool(most), certain))
    for j in np.flatnonzero(beyond & ~in_degrees):
        severity: Severity = "error" if ratio[j] > _IMPOSSIBLE else "warning"
        name = samples.joint_names[j]
        findings.append(
            Finding(
                "wrong-scale",
                severity,
                f"q.{name}",
                f"{ratio[j]:.3g} times beyond what the robot can do ({furthest[j]:.3g} at "
                f"{fastest[j]:.3g} a second; limits {bound[j]:.3g} and {limit[j]:.3g})",
                f"write the right `unit:` or `gain:` for q.{name} into the layout file",
            )
        )
    return Outcome(samples, findings)


def _degrees(names: list[str], seen: str, most: bool, certain: bool) -> Finding:
    edit = "`q: {unit: deg}`" if most else f"`unit: deg` for {_channels('q', names)}"
    return Finding(
        "degrees",
        "error" if certain else "warning",
        _channels("q", names),
        f"read as radians, the robot could not do this: {seen}; in degrees it could",
        f"write {edit} into the layout file (with `v: {{unit: deg/s}}` if velocities are "
        "alike); if these are motor angles, give gear ratios there",
    )


def recorded_velocities(robot: Robot, samples: LogSamples) -> Outcome:
    """Compare recorded velocities with those of the positions; drop them if they differ."""
    if samples.v is None:
        return Outcome(samples, [])
    short = condensed(samples)
    recorded = short.v_recorded
    if recorded is None or short.n < _LEAST_SAMPLES:
        return Outcome(samples, [])
    if not (np.isfinite(short.v).all() and np.isfinite(recorded).all()):
        return Outcome(replace(samples, v=None), [])
    moved = np.ptp(short.q, axis=0) > _LEAST_RANGE
    likeness = _correlation(short.v, recorded)
    findings = _swapped(samples, likeness, moved)
    if not findings:
        findings = _scaled(samples, short.v, recorded, likeness, moved)
    return Outcome(replace(samples, v=None) if findings else samples, findings)


def _beyond_limits(
    samples: LogSamples, short: Condensed, lower: Array, upper: Array
) -> list[Finding]:
    findings = []
    room = _BEYOND * (upper - lower)
    low, high = np.percentile(short.q, (0.5, 99.5), axis=0)
    for j in np.flatnonzero((low < lower - room) | (high > upper + room)):
        name = samples.joint_names[j]
        findings.append(
            Finding(
                "beyond-limits",
                "warning",
                f"q.{name}",
                f"it goes from {low[j]:.4g} to {high[j]:.4g}, the robot's limits are "
                f"{lower[j]:.4g} and {upper[j]:.4g}",
                "check the zero (`offset:`) and sign (`gain: -1`) of the position in the layout "
                "file, or the limits of the robot",
            )
        )
    return findings


def _huge(samples: LogSamples) -> list[Finding]:
    """Positions too large to differentiate."""
    largest = np.abs(samples.q).max(axis=0) if samples.n else np.zeros(0)
    return [
        Finding(
            "wrong-scale",
            "error",
            f"q.{samples.joint_names[j]}",
            f"positions of up to {largest[j]:.3g} are no angles",
            "name the right column in the layout file",
        )
        for j in np.flatnonzero(largest > 1e9)
    ]


def _swapped(samples: LogSamples, likeness: Array, moved: Mask) -> list[Finding]:
    pairs = []
    for j in np.flatnonzero(moved):
        k = int(np.argmax(np.abs(likeness[j])))
        if k != j and abs(likeness[j, k]) > _SAME and abs(likeness[j, j]) < _SAME:
            pairs.append((int(j), k))
    if not pairs:
        return []
    names = samples.joint_names
    return [
        Finding(
            "swapped-joints",
            "error",
            ", ".join(names[j] for j, _ in pairs),
            "; ".join(
                f"v.{names[k]} is the velocity of q.{names[j]} (correlation "
                f"{likeness[j, k]:.3f}, that of v.{names[j]} is {likeness[j, j]:.3f})"
                for j, k in pairs
            ),
            "exchange their columns in the layout file, for v or for q, whichever is wrong",
        )
    ]


def _scaled(
    samples: LogSamples, v: Array, recorded: Array, likeness: Array, moved: Mask
) -> list[Finding]:
    findings = []
    names = samples.joint_names
    factor = np.einsum("tj,tj->j", v, recorded) / np.einsum("tj,tj->j", recorded, recorded)
    tested = np.flatnonzero(moved & (np.abs(np.diag(likeness)) > _SAME))
    mismatched = np.flatnonzero(moved & ~(np.abs(np.diag(likeness)) > _SAME))
    if mismatched.size:
        least = float(np.abs(np.diag(likeness)[mismatched]).min())
        findings.append(
            Finding(
                "velocity-mismatch",
                "warning",
                _channels("v", [names[j] for j in mismatched]),
                f"not the velocity of the positions: correlation {least:.2f}",
                "recorded velocities only serve as a check; positions are differentiated",
            )
        )
    unit = _common_time_unit(factor[tested])
    if unit:
        return [*findings, _time_unit(float(np.median(factor[tested])), unit)]
    groups: dict[str, list[int]] = {}
    for j in tested:
        off = factor[j] if factor[j] > 0.0 else -factor[j]
        if factor[j] < 0.0:
            findings.append(_backward(names[j], float(factor[j])))
        elif max(off, 1.0 / off) > _SCALE_OFF:
            groups.setdefault(_named_factor(off), []).append(int(j))
    for edit, joints in groups.items():
        findings.append(_wrong_factor([names[j] for j in joints], factor[joints], edit))
    return findings


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


def _named_factor(factor: float) -> str:
    """The channel and layout edit that a factor is known for, or nothing."""
    for known, channel, edit in _FACTORS:
        if abs(np.log(factor / known)) < np.log(_FACTOR_TOLERANCE):
            return f"{channel}: {{{edit}}}"
    return ""


def _wrong_factor(names: list[str], factor: Array, edit: str) -> Finding:
    value = float(np.median(factor))
    certain = max(value, 1.0 / value) > _SCALE_WRONG
    degrees = "deg" in edit
    channel = "q" if edit.startswith("q") else "v"
    written = f"`{edit}`" if edit else f"`gain: {value:.3g}` for {_channels('v', names)}"
    return Finding(
        "degrees" if degrees else "wrong-scale",
        "error" if certain else "warning",
        _channels(channel, names),
        f"positions change {value:.4g} times as fast as the recorded velocities say",
        f"write {written} into the layout file{_or_else(edit)}"
        + ("" if certain else "; recorded velocities only serve as a check"),
    )


def _or_else(edit: str) -> str:
    """The other way to make the two agree, where nobody can tell which of them is wrong."""
    if "deg/s" in edit:
        return ", or `q: {unit: rad}` if positions are radians already"
    if "unit: deg" in edit:
        return ", or `v: {unit: rad/s}` if it is velocities that are converted twice"
    return ""


def _backward(name: str, factor: float) -> Finding:
    return Finding(
        "velocity-sign",
        "error",
        f"v.{name}",
        f"it has the opposite sign of what q.{name} does (factor {factor:.3g})",
        f"write `gain: -1` for v.{name}, or for q.{name} if that one is wrong, into the layout "
        "file",
    )


def _time_unit(factor: float, unit: str) -> Finding:
    return Finding(
        "time-unit",
        "error",
        "t",
        f"all positions change {factor:.3g} times as fast as the recorded velocities say",
        f"write `time: {{unit: {unit}}}` into the layout file",
    )


def _correlation(x: Array, y: Array) -> Array:
    """(n_joints, n_joints) correlation of every column of x with every column of y; 0 for still."""

    def normalised(z: Array) -> Array:
        z = z - z.mean(axis=0)
        norm = np.linalg.norm(z, axis=0)
        return np.asarray(z / np.where(norm > 0.0, norm, np.inf))

    return np.asarray(normalised(x).T @ normalised(y))


def _channels(quantity: str, names: list[str]) -> str:
    return ", ".join(f"{quantity}.{name}" for name in names)
