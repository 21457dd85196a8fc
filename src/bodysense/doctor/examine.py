"""The examination: one check after the other, each handing on what is left."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from bodysense.doctor.channels import take_channels, unreadable_rows
from bodysense.doctor.diagnosis import (
    SEVERITIES,
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

# Whether what the controller was told can be believed: methods that simulate it lean on it.

_FAR = 0.2
"""Share of a joint's range from which on it did not do what it was told."""

_LEAST = 1e-3  # rad or m: below it no joint was told anything
_LEFT_OUT = "it is left out: methods that simulate the controller follow the measured motion"


def recorded_reference(robot: Robot, samples: LogSamples) -> Outcome:
    """Leave out references with gaps, or that joints did not follow."""
    told = samples.reference
    if told is None or not samples.n:
        return Outcome(samples, [])
    bad = ~np.isfinite(told).all(axis=1)
    if bad.any():
        finding = Finding(
            "reference",
            "note",
            "q_des",
            f"no number in {row_ranges(samples.rows[bad])}",
            _LEFT_OUT,
        )
        return Outcome(replace(samples, reference=None), [finding])
    far = [
        name
        for j, name in enumerate(samples.joint_names)
        if np.median(np.abs(told[:, j] - samples.q[:, j]))
        > max(_FAR * spread(samples.q[:, j]), _LEAST)
    ]
    if not far:
        return Outcome(samples, [])
    finding = Finding(
        "reference",
        "note",
        ", ".join(f"q_des.{name}" for name in far),
        "the joint is far from what it was told: another unit, joint or time?",
        _LEFT_OUT,
    )
    return Outcome(replace(samples, reference=None), [finding])


Check = Callable[[Robot, LogSamples], Outcome]


def joint_torques(robot: Robot, samples: LogSamples) -> Outcome:
    """Turn drive signals into joint torques; the note about it was written with the channels."""
    if not samples.current or not samples.n:
        return Outcome(replace(samples, current=False), [])
    tau = robot.actuators.drive_torques(samples.tau)
    return Outcome(replace(samples, tau=tau, current=False), [])


# In this order: what is no measurement goes first, then time is put in order, then channels are
# looked at one by one, and only what is left is held against the robot.
CHECKS: tuple[Check, ...] = (
    garbage_rows,
    time_order,
    missing_values,
    gaps,
    spikes,
    joint_torques,
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
# What makes a comparison with the robot's model pointless.
_SPOILERS = frozenset(
    {"degrees", "wrong-scale", "time-unit", "all-still", "too-short", "swapped-joints"}
)


def examine(robot: Robot, raw: RawLog) -> Diagnosis:
    """Look for everything that can be wrong with a recording, and keep what is good of it.

    Whatever the recording holds, the answer is a `Diagnosis`, never an exception.

    Args:
        robot: that was recorded; its limits, drives and model are what the recording is held
            against. The model may be rough: only what is beyond any doubt is called an error.
        raw: the recording as it was read.
    """
    n_samples = raw.t.size + len(raw.faults)
    findings = [*_reader_notes(raw), *unreadable_rows(raw)]
    samples: LogSamples | None
    # Numbers near the end of the float range overflow in differences: that is garbage, which the
    # checks tell by its not being finite.
    with np.errstate(all="ignore"):
        samples, result = take_channels(robot, raw)
        findings += result
        if samples is not None:
            for check in CHECKS:
                samples, result = check(robot, samples)
                findings += result
                # Whatever else takes time into account would only say so once more.
                if not samples.n or any(finding.kind == "time-unit" for finding in result):
                    break
            if not any(f.severity == "error" and f.kind in _SPOILERS for f in findings):
                samples, result = torque_model(robot, samples)
                findings += result
            samples, result = recorded_reference(robot, samples)
            if not any(f.severity != "note" for f in findings):  # which explain it otherwise
                findings += result
            if not samples.n and not any(f.severity == "error" for f in findings):
                findings.append(_nothing_left(n_samples))
        segments, moving = _segments(samples)
        rate = _rate(samples)
    order = {severity: k for k, severity in enumerate(SEVERITIES)}
    return Diagnosis(
        source=raw.source,
        digest=raw.digest,
        joint_names=robot.joint_names,
        findings=tuple(sorted(findings, key=lambda finding: order[finding.severity])),
        segments=segments,
        moving=moving,
        n_samples=n_samples,
        rate=rate,
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
    """Samples a second, on average within the pieces [Hz]."""
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


def _segments(samples: LogSamples | None) -> tuple[tuple[Log, ...], tuple[Mask, ...]]:
    if samples is None:
        return (), ()
    mask = moving_mask(samples)
    logs, masks = [], []
    for part in samples.slices():
        if part.stop - part.start < 2:
            continue
        channels = {
            f"{quantity}.{name}": values[part, j]
            for quantity, values in samples.blocks
            for j, name in enumerate(samples.joint_names)
        }
        if samples.reference is not None:
            told = samples.reference[part]
            channels |= {f"q_des.{name}": told[:, j] for j, name in enumerate(samples.joint_names)}
        logs.append(Log.of(samples.t[part], channels))
        mask[part].flags.writeable = False
        masks.append(mask[part])
    return tuple(logs), tuple(masks)


# Only what can be identified from: a diagnosis, or an error that says what is wrong with a log.


def usable(robot: Robot, log: Log | RawLog, *, allow_unusable: bool = False) -> Diagnosis:
    """Examine a log.

    Args:
        robot: whose log it is.
        log: the recording.
        allow_unusable: go on in spite of errors, if anything of the log is left.

    Raises:
        UnusableLogError: the doctor has found errors.
    """
    diagnosis = examine(robot, log if isinstance(log, RawLog) else RawLog.of(log))
    if not diagnosis.usable and not (allow_unusable and diagnosis.segments):
        errors = [f for f in diagnosis.findings if f.severity == "error"]
        what = "; ".join(f"{f.kind}, {f.where}: {f.message}; {f.action}" for f in errors[:3])
        more = f" (and {len(errors) - 3} more)" if len(errors) > 3 else ""
        raise UnusableLogError(
            f"{diagnosis.source} cannot be identified from: "
            f"{what or 'nothing of it is left'}{more}. "
            "See `bodysense doctor` for all findings."
        )
    return diagnosis
