"""Which channels are there: positions, torques or currents, and velocities of every joint."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from bodysense.doctor.diagnosis import BridgingRules, Finding, LogSamples, count, row_ranges
from bodysense.logs.log import RawLog, RowFault
from bodysense.robot.robot import Robot
from bodysense.spatial.arrays import Array

# Beyond one row in a hundred, lost rows say more about the recorder than about a stumble.
_FEW = 0.01
# No time, angle or torque in whatever unit is larger; squares and sums of it stay finite.
_NO_NUMBER = 1e100
_SHORT_ROW = re.compile(r"(\d+) of (\d+) values")
_DEGREES = ("deg", "°", "degree", "degrees", "deg/s", "°/s")


def unreadable_rows(raw: RawLog) -> list[Finding]:
    """Report the rows that the reader had to leave out."""
    short = [fault for fault in raw.faults if _is_short(fault)]
    other = [fault for fault in raw.faults if not _is_short(fault)]
    findings = []
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


def take_channels(
    robot: Robot, raw: RawLog, rules: BridgingRules
) -> tuple[LogSamples | None, list[Finding]]:
    """Pick the channels of the robot's joints; no samples where positions or torques lack."""
    names = robot.joint_names
    findings: list[Finding] = []
    channels = _sound_channels(raw, findings)
    findings += _declared_degrees(raw, [f"{x}.{name}" for x in ("q", "v") for name in names])
    q = _stacked(channels, "q", names)
    if q is None or not names:
        findings.append(_missing_positions(channels, names))
    tau, current = _torque(robot, channels, findings)
    v = _velocity(channels, names, findings)
    if q is None or tau is None or not names:
        return None, findings
    samples = replace(
        _samples(raw, names, q, rules),
        tau=tau,
        v=v,
        reference=_stacked(channels, "q_des", names),
        current=current,
    )
    return samples, findings


def take_positions(
    robot: Robot, raw: RawLog, positions: Mapping[str, str], rules: BridgingRules
) -> tuple[LogSamples, list[Finding]]:
    """Pick times and positions alone; `positions` are channels by joint."""
    names = tuple(name for name in robot.joint_names if name in positions)
    findings = _declared_degrees(raw, [positions[name] for name in names])
    columns = [np.asarray(raw.channels[positions[name]], dtype=np.float64) for name in names]
    q = np.stack(columns, axis=1) if columns else np.zeros((raw.t.size, 0))
    return _samples(raw, names, _bounded(q), rules), findings


def recorded_speeds(raw: RawLog, names: Sequence[str]) -> Array | None:
    """(n_t, n) velocities of these joints, if all of them were recorded."""
    return _stacked(_sound_channels(raw, []), "v", names)


def _samples(raw: RawLog, names: tuple[str, ...], q: Array, rules: BridgingRules) -> LogSamples:
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


def _is_short(fault: RowFault) -> bool:
    result = _SHORT_ROW.search(fault.reason)
    return result is not None and int(result[1]) < int(result[2])


def _sound_channels(raw: RawLog, findings: list[Finding]) -> dict[str, Array]:
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


def _declared_degrees(raw: RawLog, channels: Sequence[str]) -> list[Finding]:
    """Report units that the source itself declares and nobody has converted."""
    declared = [name for name in channels if raw.units.get(name, "").strip() in _DEGREES]
    if not declared:
        return []
    return [
        Finding(
            "degrees",
            "error",
            ", ".join(declared),
            "the source says that these are in degrees",
            "write `unit: deg` (`deg/s`) for them in the layout file",
        )
    ]


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
    result = _joints_with(channels, "q")
    missing = [name for name in names if name not in result]
    others = [name for name in result if name not in names]
    text = f"there is no position of {', '.join(missing)}"
    if not result:
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
        ", ".join(f"q.{name}" for name in missing),
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
        ", ".join(f"tau.{name}" for name in missing),
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
    result = [name for name in _joints_with(channels, "v") if name in names]
    if v is None and result:
        missing = [name for name in names if name not in result]
        findings.append(
            Finding(
                "partial-velocity",
                "note",
                ", ".join(f"v.{name}" for name in missing),
                f"velocities were recorded of {len(result)} of {len(names)} joints",
                "recorded velocities only serve as a check; positions are differentiated",
            )
        )
    return v
