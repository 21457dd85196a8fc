"""Which channels are there: positions, torques or currents, and velocities of every joint."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from bodysense.doctor.samples import (
    VELOCITIES_ARE_A_CHECK,
    BridgingRules,
    Finding,
    LogSamples,
    channel_list,
    count,
    row_ranges,
)
from bodysense.logs.log import Log
from bodysense.robot.robot import Robot
from bodysense.spatial.arrays import Array

# Beyond one row in a hundred, lost rows say more about the recorder than about a stumble.
_FEW = 0.01
# No time, angle or torque in whatever unit is larger; squares and sums of it stay finite.
_NO_NUMBER = 1e100
_SHORT_ROW = re.compile(r"(\d+) of (\d+) values")
_DEGREES = ("deg", "°", "degree", "degrees", "deg/s", "°/s")


def take_channels(robot: Robot, raw: Log, rules: BridgingRules) -> LogSamples:
    """Pick the channels of the robot's joints; no samples where positions or torques lack."""
    names = robot.joint_names
    findings = _reading_faults(raw)
    channels = _sound_channels(raw, findings)
    findings += _declared_degrees(raw, [f"{x}.{name}" for x in ("q", "v") for name in names])
    q = _stacked(channels, "q", names)
    if q is None:
        findings.append(_missing_positions(channels, names))
    tau, current = _torque(robot, channels, findings)
    v = _velocity(channels, names, findings)
    if q is None or tau is None:
        nothing = _samples(raw, names, np.zeros((raw.t.size, len(names))), rules)
        return nothing.kept(np.zeros(raw.t.size, dtype=bool)).with_findings(findings)
    reference = _stacked(channels, "q_des", names)
    samples = replace(
        _samples(raw, names, q, rules), tau=tau, v=v, reference=reference, current=current
    )
    return samples.with_findings(findings)


def take_positions(
    robot: Robot, raw: Log, positions: Mapping[str, str], rules: BridgingRules
) -> LogSamples:
    """Pick times and positions alone; `positions` are channels by joint."""
    names = tuple(name for name in robot.joint_names if name in positions)
    columns = [np.asarray(raw.channels[positions[name]], dtype=np.float64) for name in names]
    q = np.stack(columns, axis=1) if columns else np.zeros((raw.t.size, 0))
    findings = _declared_degrees(raw, [positions[name] for name in names])
    return _samples(raw, names, _bounded(q), rules).with_findings(
        [*_reading_faults(raw), *findings]
    )


def recorded_speeds(raw: Log, samples: LogSamples) -> Array | None:
    """(n, n_joints) velocities at the samples, if those of all joints were recorded."""
    speeds = _stacked(_sound_channels(raw, []), "v", samples.joint_names)
    return None if speeds is None else speeds[samples.place]


def _reading_faults(raw: Log) -> list[Finding]:
    """What the reader had to decide, could not read to the end, or had to leave out."""
    findings = []
    for note in raw.notes:
        cut = "cut off" in note
        findings.append(
            Finding(
                "truncated-file" if cut else "reader",
                "warning" if cut else "note",
                raw.source,
                note.rstrip("."),
                "record it again if what is missing matters" if cut else "taken as it is",
            )
        )
    short = [fault for fault in raw.faults if _is_short(fault.reason)]
    other = [fault for fault in raw.faults if not _is_short(fault.reason)]
    for kind, faults in (("truncated-rows", short), ("unreadable-rows", other)):
        if faults:
            many = len(faults) > max(1.0, _FEW * (raw.t.size + len(raw.faults)))
            findings.append(
                Finding(
                    kind,
                    "warning" if many else "note",
                    row_ranges(np.array([fault.row for fault in faults])),
                    f"{count(len(faults), 'row')} cannot be read in full, the first: "
                    f"{faults[0].reason}",
                    "left out",
                )
            )
    return findings


def _is_short(reason: str) -> bool:
    numbers = _SHORT_ROW.search(reason)
    return numbers is not None and int(numbers[1]) < int(numbers[2])


def _samples(raw: Log, names: tuple[str, ...], q: Array, rules: BridgingRules) -> LogSamples:
    """All samples of a recording as one piece, with positions (n_t, n) alone."""
    n = raw.t.size
    rows = np.asarray(raw.rows)
    if rows.shape != (n,):
        rows = np.arange(1, n + 1)
    return LogSamples(
        t=_bounded(np.asarray(raw.t, dtype=np.float64)),
        q=q,
        tau=np.zeros((n, 0)),
        v=None,
        reference=None,
        rows=rows.astype(np.int64),
        place=np.arange(n),
        piece=np.zeros(n, dtype=np.int64),
        current=False,
        joint_names=names,
        rules=rules,
    )


def _sound_channels(raw: Log, findings: list[Finding]) -> dict[str, Array]:
    """Channels that are rows of numbers, one per sample."""
    sound: dict[str, Array] = {}
    for name, values in raw.channels.items():
        try:
            array = np.asarray(values, dtype=np.float64)
        except (TypeError, ValueError):
            array = np.zeros((0, 0))
        if array.shape == (raw.t.size,):
            sound[name] = array
        else:
            findings.append(
                Finding(
                    "malformed-channel",
                    "warning",
                    name,
                    f"it is not one number per sample ({raw.t.size} samples)",
                    "ignored; check how the recording was read",
                )
            )
    return sound


def _declared_degrees(raw: Log, channels: Sequence[str]) -> list[Finding]:
    """Report units that the source itself declares and nobody has converted."""
    declared = [name for name in channels if raw.units.get(name, "").strip() in _DEGREES]
    text = "the source says that these are in degrees"
    edit = "write `unit: deg` (`deg/s`) for them in the layout file"
    return [Finding("degrees", "error", ", ".join(declared), text, edit)] if declared else []


def _stacked(channels: dict[str, Array], quantity: str, names: Sequence[str]) -> Array | None:
    keys = [f"{quantity}.{name}" for name in names]
    if not all(key in channels for key in keys):
        return None
    return _bounded(np.stack([channels[key] for key in keys], axis=1)) if keys else None


def _bounded(x: Array) -> Array:
    """Numbers that nothing can be computed with count as not finite."""
    return np.where(np.abs(x) > _NO_NUMBER, np.inf, x)


def _joints_with(channels: dict[str, Array], quantity: str) -> list[str]:
    prefix = f"{quantity}."
    return [name.removeprefix(prefix) for name in channels if name.startswith(prefix)]


def _missing_positions(channels: dict[str, Array], names: Sequence[str]) -> Finding:
    if not names:
        return Finding(
            "missing-joint", "error", "robot", "the robot has no joints", "load another robot"
        )
    recorded = _joints_with(channels, "q")
    missing = [name for name in names if name not in recorded]
    others = [name for name in recorded if name not in names]
    text = f"there is no position of {', '.join(missing)}"
    if not recorded:
        return Finding(
            "missing-joint",
            "error",
            "q",
            f"{text}; no channel is named q.<joint>",
            f"name the columns in a layout file, `joints: [{', '.join(names)}]`, or in the file",
        )
    listed = f"; there is one of {', '.join(others)}, which the robot does not have"
    return Finding(
        "missing-joint",
        "error",
        channel_list("q", missing),
        text + (listed if others else ""),
        "is it the recording of another robot? Otherwise write the robot's joint names into the "
        f"layout file: `joints: [{', '.join(names)}]`",
    )


def _torque(
    robot: Robot, channels: dict[str, Array], findings: list[Finding]
) -> tuple[Array | None, bool]:
    """Torques where there are any, else drive signals and True."""
    names = robot.joint_names
    tau = _stacked(channels, "tau", names)
    if tau is not None or not names:
        return tau, False
    current = _stacked(channels, "i", names)
    if current is None:
        findings.append(_no_torque(channels, names))
        return None, False
    findings.append(_currents(robot))
    return current, True


def _no_torque(channels: dict[str, Array], names: Sequence[str]) -> Finding:
    recorded = _joints_with(channels, "tau") or _joints_with(channels, "i")
    missing = [name for name in names if name not in recorded]
    some = len(missing) < len(names)
    return Finding(
        "no-torque",
        "error",
        channel_list("tau", missing),
        f"there is neither torque nor current of {', '.join(missing)}"
        if some
        else "there are neither torques (tau.<joint>) nor currents (i.<joint>)",
        f"those of {', '.join(recorded)} are there: give channels the robot's joint names"
        if recorded and not some
        else "record them: without torque, no mass and no friction can be identified",
    )


def _currents(robot: Robot) -> Finding:
    gains = robot.actuators.drive_gain
    if (gains == 1.0).all():
        return Finding(
            "unknown-gain",
            "warning",
            "i",
            "there are currents but no torques, and the robot's drive gains are all 1 N·m/A",
            "give the gains in an actuator file (`drive_gain:`): as it is, all masses come "
            "out in wrong units",
        )
    text = ", ".join(f"{gain:g}" for gain in gains)
    return Finding(
        "current",
        "note",
        "i",
        "there are currents but no torques",
        f"torque = current times the robot's drive gains, {text} N·m/A",
    )


def _velocity(
    channels: dict[str, Array], names: Sequence[str], findings: list[Finding]
) -> Array | None:
    v = _stacked(channels, "v", names)
    recorded = [name for name in _joints_with(channels, "v") if name in names]
    if v is None and recorded:
        missing = [name for name in names if name not in recorded]
        findings.append(
            Finding(
                "partial-velocity",
                "note",
                channel_list("v", missing),
                f"velocities were recorded of {len(recorded)} of {len(names)} joints",
                VELOCITIES_ARE_A_CHECK,
            )
        )
    return v
