"""The examination: one check after the other, each handing on what is left."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bodysense.doctor.channels import (
    recorded_speeds,
    take_channels,
    take_positions,
    unreadable_rows,
)
from bodysense.doctor.diagnosis import (
    SEVERITIES,
    BridgingRules,
    Diagnosis,
    Finding,
    LogSamples,
    Mask,
    Outcome,
    row_ranges,
    spread,
)
from bodysense.doctor.motion import moving_mask, rests, standstill
from bodysense.doctor.resolution import clipped_channels, dead_channels, quantised_channels
from bodysense.doctor.rows import garbage_rows, missing_values, spikes
from bodysense.doctor.timing import evenness, gaps, length, time_order
from bodysense.doctor.torque import torque_model
from bodysense.doctor.units import position_units, recorded_velocities
from bodysense.errors import UnusableLogError
from bodysense.logs.log import Log, RawLog
from bodysense.robot.robot import Robot

# Which gaps are bridged. Identification: little of what an arm does is faster than 25 Hz, and
# filters need some room at either end of a piece. Estimation: within a tenth of a second an arm can
# hardly begin something new, and a split costs a period of the low-pass on both sides.
_IDENTIFICATION = BridgingRules(
    gap_steps=5.0, gap_time=0.02, missing_samples=3, missing_time=0.05, least_samples=20
)
_ESTIMATION = BridgingRules(
    gap_steps=5.0, gap_time=0.1, missing_samples=np.inf, missing_time=0.1, least_samples=1
)

# The controller's reference: methods that simulate the controller rely on it.

_REFERENCE_ERROR = 0.2
"""Median distance from the reference, as a share of the joint's range, beyond which the joint did
not follow it."""

_REFERENCE_NOISE = 1e-3  # rad or m: closer than this, the joint followed
_NO_REFERENCE = "it is left out: methods that simulate the controller follow the measured motion"


def _recorded_reference(robot: Robot, samples: LogSamples) -> Outcome:
    """Leave out references with gaps, or that joints did not follow."""
    reference = samples.reference
    if reference is None or not samples.n:
        return Outcome(samples, [])
    bad = ~np.isfinite(reference).all(axis=1)
    if bad.any():
        finding = Finding(
            "reference",
            "note",
            "q_des",
            f"no number in {row_ranges(samples.rows[bad])}",
            _NO_REFERENCE,
        )
        return Outcome(replace(samples, reference=None), [finding])
    far = [
        name
        for j, name in enumerate(samples.joint_names)
        if np.median(np.abs(reference[:, j] - samples.q[:, j]))
        > max(_REFERENCE_ERROR * spread(samples.q[:, j]), _REFERENCE_NOISE)
    ]
    if not far:
        return Outcome(samples, [])
    finding = Finding(
        "reference",
        "note",
        ", ".join(f"q_des.{name}" for name in far),
        "the joint is far from its reference: another unit, joint or time?",
        _NO_REFERENCE,
    )
    return Outcome(replace(samples, reference=None), [finding])


_Check = Callable[[Robot, LogSamples], Outcome]


def _joint_torques(robot: Robot, samples: LogSamples) -> Outcome:
    """Turn drive signals into joint torques; the note about it was written with the channels."""
    if not samples.current or not samples.n:
        return Outcome(replace(samples, current=False), [])
    tau = robot.actuators.drive_torques(samples.tau)
    return Outcome(replace(samples, tau=tau, current=False), [])


# In this order: what is no measurement goes first, then time is put in order, then channels are
# looked at one by one, and only what is left is held against the robot.
_CHECKS: tuple[_Check, ...] = (
    garbage_rows,
    time_order,
    missing_values,
    gaps,
    spikes,
    _joint_torques,
    evenness,
    standstill,
    dead_channels,
    rests,
    length,
    clipped_channels,
    quantised_channels,
    position_units,
    recorded_velocities,
)
# Estimation bears standstill, short logs and missing readings. Where positions are estimated too,
# those that are recorded are readings like all others, and stay as they are.
_READING_CHECKS: tuple[_Check, ...] = (
    garbage_rows,
    time_order,
    missing_values,
    gaps,
    spikes,
    evenness,
)
_STATE_CHECKS: tuple[_Check, ...] = (garbage_rows, time_order, gaps, evenness)
# Why rows are left out by a check.
_REASONS: Mapping[_Check, str] = {
    garbage_rows: "with invalid timestamps or values",
    time_order: "late or repeated",
    missing_values: "with missing positions",
    gaps: "in fragments between gaps",
}
# What makes a comparison with the robot's model pointless.
_SPOILERS = frozenset(
    {"degrees", "wrong-scale", "time-unit", "all-still", "too-short", "swapped-joints"}
)


def examine(robot: Robot, log: Log | RawLog) -> Diagnosis:
    """Look for everything that can be wrong with a recording, and keep what is good of it.

    Whatever the recording holds, the answer is a `Diagnosis`, never an exception.

    Args:
        robot: that was recorded; its limits, drives and model are what the recording is held
            against. The model may be rough: only what is beyond any doubt is called an error.
        log: the recording as it was read.
    """
    raw = _raw(log)
    findings = [*_reader_notes(raw), *unreadable_rows(raw)]
    left_out: dict[str, int] = {}
    # Numbers near the end of the float range overflow in differences: that is garbage, which the
    # checks tell by its not being finite.
    with np.errstate(all="ignore"):
        samples, result = take_channels(robot, raw, _IDENTIFICATION)
        findings += result
        if samples is not None:
            samples = _checked(robot, samples, _CHECKS, findings, left_out)
            if not any(f.severity == "error" and f.kind in _SPOILERS for f in findings):
                samples, result = torque_model(robot, samples)
                findings += result
            samples, result = _recorded_reference(robot, samples)
            if not any(f.severity != "note" for f in findings):  # which explain it otherwise
                findings += result
        return _diagnosis(raw, samples, robot.joint_names, findings, left_out)


def examine_readings(
    robot: Robot, log: Log | RawLog, positions: Mapping[str, str], *, complete: bool = True
) -> Diagnosis:
    """Examine a recording for estimation: times, positions and velocities, as far as there are any.

    Torques are not held against the robot's model, for a contact may explain any of them.

    Args:
        robot: that was recorded.
        log: the recording as it was read.
        positions: channel of the position by joint, of joints that have one.
        complete: whether rows need all of these positions: then missing ones are interpolated,
            spikes removed, and the segments hold them. Otherwise segments hold times alone.
    """
    raw = _raw(log)
    findings = [*_reader_notes(raw), *unreadable_rows(raw)]
    left_out = {"that cannot be read": len(raw.faults)} if raw.faults else {}
    with np.errstate(all="ignore"):
        samples, result = take_positions(robot, raw, positions, _ESTIMATION)
        findings += result
        checks = _READING_CHECKS if complete else _STATE_CHECKS
        samples = _checked(robot, samples, checks, findings, left_out)
        if samples.n and samples.joint_names and not _has_kind(findings, "time-unit"):
            speeds = recorded_speeds(raw, samples.joint_names)
            moved = replace(samples, v=None if speeds is None else speeds[samples.place])
            moved, _ = missing_values(robot, moved)
            for check in (position_units, recorded_velocities):
                findings += check(robot, moved).findings
        if not complete:
            samples = replace(samples, q=samples.q[:, :0], joint_names=())
        return _diagnosis(raw, samples, samples.joint_names, findings, left_out)


def _raw(log: Log | RawLog) -> RawLog:
    return log if isinstance(log, RawLog) else RawLog.of(log)


def _has_kind(findings: Sequence[Finding], kind: str) -> bool:
    return any(finding.kind == kind for finding in findings)


def _checked(
    robot: Robot,
    samples: LogSamples,
    checks: Sequence[_Check],
    findings: list[Finding],
    left_out: dict[str, int],
) -> LogSamples:
    """What the checks leave of the samples; findings and rows left out are added to the lists."""
    for check in checks:
        before = samples.n
        samples, result = check(robot, samples)
        findings += result
        if samples.n < before:
            reason = _REASONS.get(check, "left out by other checks")
            left_out[reason] = left_out.get(reason, 0) + before - samples.n
        # Whatever else takes time into account would only say so once more.
        if not samples.n or _has_kind(result, "time-unit"):
            break
    return samples


def _diagnosis(
    raw: RawLog,
    samples: LogSamples | None,
    joint_names: tuple[str, ...],
    findings: list[Finding],
    left_out: Mapping[str, int],
) -> Diagnosis:
    n_samples = raw.t.size + len(raw.faults)
    nothing = samples is not None and not samples.n
    if nothing and not any(finding.severity == "error" for finding in findings):
        findings.append(_nothing_left(n_samples))
    segments, moving, places = _segments(samples)
    order = {severity: k for k, severity in enumerate(SEVERITIES)}
    return Diagnosis(
        source=raw.source,
        digest=raw.digest,
        joint_names=joint_names,
        findings=tuple(sorted(findings, key=lambda finding: order[finding.severity])),
        segments=segments,
        moving=moving,
        n_samples=n_samples,
        rate=_rate(samples),
        places=places,
        left_out=left_out,
    )


def _reader_notes(raw: RawLog) -> list[Finding]:
    """What the reader had to decide, or could not read to the end."""
    result = []
    for note in raw.notes:
        cut = "cut off" in note
        result.append(
            Finding(
                "truncated-file" if cut else "reader",
                "warning" if cut else "note",
                raw.source,
                note.rstrip("."),
                "record it again if what is missing matters" if cut else "taken as it is",
            )
        )
    return result


def _rate(samples: LogSamples | None) -> float:
    """Samples per second, on average within the pieces [Hz]."""
    steps = samples.steps if samples is not None else np.zeros(0)
    return float(1.0 / steps.mean()) if steps.size else float("nan")


def _nothing_left(n_samples: int) -> Finding:
    return Finding(
        "too-short",
        "error",
        "t",
        f"none of the {n_samples} samples can be used",
        "check how the recording was made and read",
    )


def _segments(
    samples: LogSamples | None,
) -> tuple[tuple[Log, ...], tuple[Mask, ...], tuple[NDArray[np.int64], ...]]:
    """Clean logs, where joints move in them, and where in the recording they are."""
    if samples is None:
        return (), (), ()
    mask = moving_mask(samples)
    logs, masks, places = [], [], []
    for part in samples.slices():
        if part.stop - part.start < 2:
            continue
        channels = {
            f"{quantity}.{name}": values[part, j]
            for quantity, values in samples.blocks
            for j, name in enumerate(samples.joint_names)
        }
        if samples.reference is not None:
            reference = samples.reference[part]
            channels |= {
                f"q_des.{name}": reference[:, j] for j, name in enumerate(samples.joint_names)
            }
        logs.append(Log.of(samples.t[part], channels))
        mask[part].flags.writeable = False
        masks.append(mask[part])
        places.append(samples.place[part])
    return tuple(logs), tuple(masks), tuple(places)


def require_clean(
    diagnosis: Diagnosis, *, purpose: str = "identified", allow_unusable: bool = False
) -> Diagnosis:
    """Return the diagnosis of a log that can be used.

    Args:
        diagnosis: what the doctor found.
        purpose: what the log is for, in a message.
        allow_unusable: go on in spite of errors, if anything of the log is left.

    Raises:
        UnusableLogError: the doctor has found errors; the message names them with their remedies.
    """
    if not diagnosis.usable and not (allow_unusable and diagnosis.segments):
        errors = diagnosis.of("error")
        what = "; ".join(f"{f.kind}, {f.where}: {f.message}; {f.action}" for f in errors[:3])
        more = f" (and {len(errors) - 3} more)" if len(errors) > 3 else ""
        raise UnusableLogError(
            f"{diagnosis.source} cannot be {purpose} from: "
            f"{what or 'nothing of it is left'}{more}. "
            "See `bodysense doctor` for all findings."
        )
    return diagnosis
