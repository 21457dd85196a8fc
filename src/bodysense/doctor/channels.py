"""Which channels are there: positions, torques or currents, and velocities of every joint."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from bodysense.doctor.samples import (
    VELOCITIES_ARE_A_CHECK,
    BridgingRules,
    LogSamples,
    channel_list,
    layout_edit,
    row_ranges,
)
from bodysense.errors import count, listing
from bodysense.logs.log import Log
from bodysense.robot.robot import Robot
from bodysense.spatial.arrays import Array

# Beyond one row in a hundred, lost rows say more about the recorder than about a stumble.
_FEW = 0.01
# No time, angle or torque in whatever unit is larger; squares and sums of it stay finite.
_NO_NUMBER = 1e100
_SHORT_ROW = re.compile(r"(\d+) of (\d+) values")
_DEGREES = ("deg", "°", "degree", "degrees", "deg/s", "°/s")


def take_channels(robot: Robot, log: Log, rules: BridgingRules) -> LogSamples:
    """Pick the channels of the robot's joints; no samples where positions or torques lack."""
    names, n = robot.joint_names, log.t.size
    channels = _sound_channels(log)
    samples = _samples(log, names, np.zeros((n, len(names))), rules)
    for name in log.channels:
        if name not in channels:
            text = f"it is not one number per sample ({n} samples)"
            action = "ignored; check how the recording was read"
            samples = samples.report("malformed-channel", "warning", name, text, action)
    samples = _report_degrees(samples, log, [f"{x}.{name}" for x in ("q", "v") for name in names])
    q, tau, v = (_stacked(channels, quantity, names) for quantity in ("q", "tau", "v"))
    if q is None:
        samples = _report_missing_positions(samples, _joints_with(channels, "q"))
    current = tau is None and bool(names)
    if current:
        tau = _stacked(channels, "i", names)
        if tau is None:
            samples = _report_no_torque(samples, channels)
        else:
            samples = _report_currents(samples, robot.actuators.drive_gain)
    velocities = [name for name in _joints_with(channels, "v") if name in names]
    if v is None and velocities:
        where = channel_list("v", [name for name in names if name not in velocities])
        text = f"velocities were recorded of {len(velocities)} of {len(names)} joints"
        samples = samples.report("partial-velocity", "note", where, text, VELOCITIES_ARE_A_CHECK)
    if q is None or tau is None:
        return samples.kept(np.zeros(n, dtype=bool))
    reference = _stacked(channels, "q_des", names)
    return replace(samples, q=q, tau=tau, v=v, reference=reference, current=current)


def take_positions(
    robot: Robot, log: Log, positions: Mapping[str, str], rules: BridgingRules
) -> LogSamples:
    """Pick times and positions alone; `positions` are channels by joint."""
    names = tuple(name for name in robot.joint_names if name in positions)
    columns = [np.asarray(log.channels[positions[name]], dtype=np.float64) for name in names]
    q = np.stack(columns, axis=1) if columns else np.zeros((log.t.size, 0))
    samples = _samples(log, names, _bounded(q), rules)
    return _report_degrees(samples, log, [positions[name] for name in names])


def recorded_speeds(log: Log, samples: LogSamples) -> Array | None:
    """(n, n_joints) velocities at the samples, if those of all joints were recorded."""
    speeds = _stacked(_sound_channels(log), "v", samples.joint_names)
    return None if speeds is None else speeds[samples.place]


def _samples(log: Log, names: tuple[str, ...], q: Array, rules: BridgingRules) -> LogSamples:
    """All samples as one piece, with positions (n_t, n) alone, and what reading them led to."""
    n = log.t.size
    rows = np.asarray(log.rows)
    samples = LogSamples(
        t=_bounded(np.asarray(log.t, dtype=np.float64)),
        q=q,
        tau=np.zeros((n, 0)),
        v=None,
        reference=None,
        rows=(rows if rows.shape == (n,) else np.arange(1, n + 1)).astype(np.int64),
        place=np.arange(n),
        piece=np.zeros(n, dtype=np.int64),
        current=False,
        joint_names=names,
        rules=rules,
    )
    for note in log.notes:
        text = note.rstrip(".")
        if "cut off" in note:
            action = "record it again if what is missing matters"
            samples = samples.report("truncated-file", "warning", log.source, text, action)
        else:
            samples = samples.report("reader", "note", log.source, text, "taken as it is")
    short = [fault for fault in log.faults if _is_short(fault.reason)]
    other = [fault for fault in log.faults if not _is_short(fault.reason)]
    for kind, faults in (("truncated-rows", short), ("unreadable-rows", other)):
        if faults:
            many = len(faults) > max(1.0, _FEW * (n + len(log.faults)))
            where = row_ranges(np.array([fault.row for fault in faults]))
            text = f"{count(len(faults), 'row')} cannot be read in full, "
            text += f"the first: {faults[0].reason}"
            samples = samples.report(kind, "warning" if many else "note", where, text, "left out")
    return samples


def _is_short(reason: str) -> bool:
    numbers = _SHORT_ROW.search(reason)
    return numbers is not None and int(numbers[1]) < int(numbers[2])


def _sound_channels(log: Log) -> dict[str, Array]:
    """Channels that are rows of numbers, one per sample."""
    sound: dict[str, Array] = {}
    for name, values in log.channels.items():
        try:
            array = np.asarray(values, dtype=np.float64)
        except (TypeError, ValueError):
            continue
        if array.shape == (log.t.size,):
            sound[name] = array
    return sound


def _stacked(channels: Mapping[str, Array], quantity: str, names: Sequence[str]) -> Array | None:
    keys = [f"{quantity}.{name}" for name in names]
    if not all(key in channels for key in keys):
        return None
    return _bounded(np.stack([channels[key] for key in keys], axis=1)) if keys else None


def _bounded(x: Array) -> Array:
    """Numbers that nothing can be computed with count as not finite."""
    return np.where(np.abs(x) > _NO_NUMBER, np.inf, x)


def _joints_with(channels: Mapping[str, Array], quantity: str) -> list[str]:
    prefix = f"{quantity}."
    return [name.removeprefix(prefix) for name in channels if name.startswith(prefix)]


def _report_degrees(samples: LogSamples, log: Log, channels: Sequence[str]) -> LogSamples:
    """Report units that the source itself declares and nobody has converted."""
    declared = [name for name in channels if log.units.get(name, "").strip() in _DEGREES]
    if not declared:
        return samples
    text = "the source says that these are in degrees"
    units = {name: "deg/s" if log.units[name].endswith("/s") else "deg" for name in declared}
    action = f"write {layout_edit('unit', units)}"
    return samples.report("degrees", "error", listing(declared), text, action)


def _report_missing_positions(samples: LogSamples, recorded: Sequence[str]) -> LogSamples:
    names, kind = samples.joint_names, "missing-joint"
    if not names:
        text = "the robot has no joints"
        return samples.report(kind, "error", "robot", text, "load another robot")
    missing = [name for name in names if name not in recorded]
    others = [name for name in recorded if name not in names]
    text = f"there is no position of {listing(missing)}"
    if not recorded:
        text += "; no channel is named q.<joint>"
        action = "say in a layout file (`joints:` and `channels:`) or in the header which column "
        action += f"is which: q.{names[0]}, …"
        return samples.report(kind, "error", "q", text, action)
    if others:
        text += f"; there is one of {listing(others)}, which the robot does not have"
    if len(missing) == len(names):
        action = "is it the recording of another robot? Otherwise give its columns the robot's "
        action += (
            f"joint names in the header, q.{names[0]}, …, or under `joints:` of the layout file"
        )
    else:
        which = "it, or lock it" if len(missing) == 1 else "them, or lock them"
        action = f"the log lacks {listing(missing)}: record {which} where it stood"
        action += f", --lock {missing[0]}=POSITION"
    return samples.report(kind, "error", channel_list("q", missing), text, action)


def _report_no_torque(samples: LogSamples, channels: Mapping[str, Array]) -> LogSamples:
    recorded = _joints_with(channels, "tau") or _joints_with(channels, "i")
    missing = [name for name in samples.joint_names if name not in recorded]
    text = f"there is neither torque nor current of {listing(missing)}"
    action = "record them: without torque, no mass and no friction can be identified"
    if len(missing) < len(samples.joint_names):
        action = f"record it, or lock joints that hardly move, --lock {missing[0]}=POSITION"
    else:
        text = "there are neither torques (tau.<joint>) nor currents (i.<joint>)"
        if recorded:
            action = (
                f"those of {listing(recorded)} are there: give channels the robot's joint names"
            )
    return samples.report("no-torque", "error", channel_list("tau", missing), text, action)


def _report_currents(samples: LogSamples, gains: Array) -> LogSamples:
    text = "there are currents but no torques"
    if (gains == 1.0).all():
        text += ", and the robot's drive gains are all 1 N·m/A"
        action = "give the gains in an actuator file (`drive_gain:`)"
        action += ": as it is, all masses come out in wrong units"
        return samples.report("unknown-gain", "warning", "i", text, action)
    values = listing(f"{gain:g}" for gain in gains)
    action = f"torque = current times the robot's drive gains, {values} N·m/A"
    return samples.report("current", "note", "i", text, action)
