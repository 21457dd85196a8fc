"""`Diagnosis`: findings of the doctor, and the clean pieces of the recording.

The examination is one check after the other, each handing on what is left.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from bodysense.doctor.channels import recorded_speeds, take_channels, take_positions
from bodysense.doctor.motion import moving_mask, rests, standstill
from bodysense.doctor.resolution import (
    clipped_channels,
    dead_bands,
    dead_channels,
    quantised_channels,
)
from bodysense.doctor.rows import garbage_rows, missing_values, spikes, torque_spikes
from bodysense.doctor.samples import BridgingRules, LogSamples, channel_list, row_ranges, spread
from bodysense.doctor.timing import evenness, gaps, length, sampling_times, time_order
from bodysense.doctor.torque import torque_model
from bodysense.doctor.units import position_units, recorded_velocities
from bodysense.errors import UnusableLogError, count, listing
from bodysense.logs.log import Log, require_log
from bodysense.robot.robot import Robot, require_robot
from bodysense.status import SEVERITIES, Finding, Severity


@dataclass(frozen=True, eq=False, repr=False)
class Diagnosis:
    """The state of a recording, and what can be used of it.

    Attributes:
        source: name of the recording.
        digest: SHA-256 of the files behind it, hexadecimal; empty if there are none.
        joint_names: of the robot it was held against.
        findings: errors first, then warnings and notes.
        segments: clean pieces, in the order of the recording: finite, time ascending, without
            long gaps; each with ``q.<joint>`` and ``tau.<joint>`` of all joints, and with
            ``v.<joint>`` where velocities were recorded and can be trusted. A recording that is
            not usable may still have some, for a look at them.
        moving: for each segment, (n_t, n_joints), where a joint moves.
        n_samples: samples of the recording, rows that could not be read included.
        rate: samples per second, on average within segments [Hz], NaN where it is unknown.
        places: for each segment, (n_t,), index of its samples in the recording.
        left_out: rows of the recording that are in no segment, by reason.
    """

    source: str
    digest: str
    joint_names: tuple[str, ...]
    findings: tuple[Finding, ...]
    segments: tuple[Log, ...]
    moving: tuple[NDArray[np.bool_], ...]
    n_samples: int
    rate: float
    places: tuple[NDArray[np.int64], ...] = ()
    left_out: Mapping[str, int] = field(default_factory=dict)

    @property
    def usable(self) -> bool:
        """Whether there are segments, and nothing is wrong with them."""
        return bool(self.segments) and not self.of("error")

    @property
    def n_kept(self) -> int:
        """Samples in the segments."""
        return sum(segment.t.size for segment in self.segments)

    @property
    def duration(self) -> float:
        """Length of the segments together [s]."""
        return float(sum(segment.t[-1] - segment.t[0] for segment in self.segments))

    @property
    def moving_fraction(self) -> dict[str, float]:
        """Part of the kept samples in which each joint moves, 0 to 1."""
        if not self.n_kept:
            return dict.fromkeys(self.joint_names, 0.0)
        share = sum(mask.sum(axis=0) for mask in self.moving) / self.n_kept
        return {name: float(x) for name, x in zip(self.joint_names, share, strict=True)}

    def of(self, severity: Severity) -> tuple[Finding, ...]:
        """The findings of one severity."""
        return tuple(finding for finding in self.findings if finding.severity == severity)

    def __repr__(self) -> str:
        return f"<Diagnosis: {self.verdict()}>"

    def verdict(self) -> str:
        """The result in a line."""
        counts = [count(len(self.of(s)), s) for s in SEVERITIES if self.of(s)]
        text = ", ".join(counts) or "nothing found"
        if not self.usable:
            return f"{self.source}: NOT usable ({text})"
        rate = f" at {self.rate:.4g} Hz" if math.isfinite(self.rate) else ""
        return (
            f"{self.source}: usable ({text}): {self.n_kept} of {self.n_samples} samples{rate}, "
            f"{self.duration:.4g} s in {count(len(self.segments), 'segment')}"
        )

    def summary(self) -> str:
        """The result in words, one line per finding."""
        return "\n".join([self.verdict(), *(f"  {finding}" for finding in self.findings)])

    def to_dict(self) -> dict[str, object]:
        """The result for JSON, without the samples themselves."""
        return {
            "source": self.source,
            "digest": self.digest,
            "usable": self.usable,
            "n_samples": self.n_samples,
            "n_kept": self.n_kept,
            "rate": self.rate if math.isfinite(self.rate) else None,
            "duration": self.duration,
            "moving_fraction": self.moving_fraction,
            "segments": [
                {
                    "start": float(segment.t[0]),
                    "end": float(segment.t[-1]),
                    "n_samples": int(segment.t.size),
                    "channels": list(segment.channels),
                }
                for segment in self.segments
            ],
            "findings": [asdict(finding) for finding in self.findings],
        }


# Which gaps are bridged. Identification: little of what an arm does is faster than 25 Hz, and
# filters need some room at either end of a piece. Estimation: within a tenth of a second an arm can
# hardly begin something new, and a split costs a period of the low-pass on both sides.
_IDENTIFICATION = BridgingRules(
    gap_steps=5.0, gap_time=0.02, missing_samples=3, missing_time=0.05, least_samples=20
)
_ESTIMATION = BridgingRules(
    gap_steps=5.0, gap_time=0.1, missing_samples=np.inf, missing_time=0.1, least_samples=1
)


def _joint_torques(robot: Robot, samples: LogSamples) -> LogSamples:
    """Turn drive signals into joint torques; the note about it was written with the channels."""
    if not samples.current or not samples.n:
        return replace(samples, current=False)
    return replace(samples, tau=robot.actuators.drive_torques(samples.tau), current=False)


# The controller's reference: methods that simulate the controller rely on it.

_REFERENCE_ERROR = 0.2
"""Median distance from the reference, as a share of the joint's range, beyond which the joint did
not follow it."""

_REFERENCE_NOISE = 1e-3  # rad or m: closer than this, the joint followed


def _recorded_reference(samples: LogSamples) -> LogSamples:
    """Leave out references with gaps, or that joints did not follow."""
    reference = samples.reference
    if reference is None or not samples.n:
        return samples
    bad = ~np.isfinite(reference).all(axis=1)
    far = [
        name
        for j, name in enumerate(samples.joint_names)
        if np.median(np.abs(reference[:, j] - samples.q[:, j]))
        > max(_REFERENCE_ERROR * spread(samples.q[:, j]), _REFERENCE_NOISE)
    ]
    if bad.any():
        channels, text = "q_des", f"no number in {row_ranges(samples.rows[bad])}"
    elif far:
        channels = channel_list("q_des", far)
        text = "the joint is far from its reference: another unit, joint or time?"
    else:
        return samples
    samples = replace(samples, reference=None)
    if any(finding.severity != "note" for finding in samples.findings):  # which explain it
        return samples
    action = "it is left out: methods that simulate the controller follow the measured motion"
    return samples.report("reference", "note", channels, text, action)


_MOST_PLACES = 12  # of one finding

_Check = Callable[[Robot, LogSamples], LogSamples]


# In this order: what is no measurement goes first, then time is put in order, then channels are
# looked at one by one, and only what is left is held against the robot.
_CHECKS: tuple[_Check, ...] = (
    garbage_rows,
    time_order,
    missing_values,
    gaps,
    spikes,
    _joint_torques,
    torque_spikes,
    evenness,
    sampling_times,
    standstill,
    dead_bands,
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
LEFT_OUT = frozenset({"nan", "gap", "garbage-rows", "fragment"})
"""Kinds of findings about rows that are left out: what remains of the recording is sound."""

# What makes a comparison with the robot's model pointless.
_SPOILERS = frozenset(
    {"degrees", "wrong-scale", "time-unit", "all-still", "too-short", "swapped-joints"}
)


def examine(robot: Robot, log: Log) -> Diagnosis:
    """Look for everything that can be wrong with a recording, and keep what is good of it.

    Whatever the recording holds, the answer is a `Diagnosis`, never an exception.

    Args:
        robot: that was recorded; its limits, drives and model are what the recording is held
            against. The model may be rough: only what is beyond any doubt is called an error.
        log: the recording as it was read.
    """
    require_robot(robot)
    require_log(log)
    left_out: dict[str, int] = {}
    # Numbers near the end of the float range overflow in differences: that is garbage, which the
    # checks tell by its not being finite.
    with np.errstate(all="ignore"):
        samples = take_channels(robot, log, _IDENTIFICATION)
        if samples.n:
            samples = _checked(robot, samples, _CHECKS, left_out)
            if not any(f.severity == "error" and f.kind in _SPOILERS for f in samples.findings):
                samples = torque_model(robot, samples)
            samples = _recorded_reference(samples)
        return _diagnosis(log, samples, robot.joint_names, left_out)


def examine_readings(
    robot: Robot, log: Log, positions: Mapping[str, str], *, complete: bool = True
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
    require_robot(robot)
    require_log(log)
    left_out = {"that cannot be read": len(log.faults)} if log.faults else {}
    with np.errstate(all="ignore"):
        samples = take_positions(robot, log, positions, _ESTIMATION)
        checks = _READING_CHECKS if complete else _STATE_CHECKS
        samples = _checked(robot, samples, checks, left_out)
        if samples.n and samples.joint_names and not _has_wrong_time_unit(samples):
            moved = missing_values(robot, replace(samples, v=recorded_speeds(log, samples)))
            moved = replace(moved, findings=samples.findings)
            moved = recorded_velocities(robot, position_units(robot, moved))
            samples = replace(samples, findings=moved.findings)
        if not complete:
            samples = replace(samples, q=samples.q[:, :0], joint_names=())
        return _diagnosis(log, samples, samples.joint_names, left_out)


def _checked(
    robot: Robot, samples: LogSamples, checks: Sequence[_Check], left_out: dict[str, int]
) -> LogSamples:
    """What the checks leave of the samples; rows left out are counted in `left_out`."""
    for check in checks:
        before = samples.n
        samples = check(robot, samples)
        if samples.n < before:
            reason = _REASONS.get(check, "left out by other checks")
            left_out[reason] = left_out.get(reason, 0) + before - samples.n
        # Whatever else takes time into account would only say so once more.
        if not samples.n or _has_wrong_time_unit(samples):
            break
    return samples


def _has_wrong_time_unit(samples: LogSamples) -> bool:
    return any(finding.kind == "time-unit" for finding in samples.findings)


def _diagnosis(
    log: Log, samples: LogSamples, joint_names: tuple[str, ...], left_out: Mapping[str, int]
) -> Diagnosis:
    n_samples = log.t.size + len(log.faults)
    if not samples.n and not any(finding.severity == "error" for finding in samples.findings):
        text = f"none of the {n_samples} samples can be used"
        action = "check how the recording was made and read"
        samples = samples.report("too-short", "error", "t", text, action)
    mask = moving_mask(samples)
    mask.flags.writeable = False
    parts = [part for part in samples.slices() if part.stop - part.start > 1]
    steps = samples.steps
    return Diagnosis(
        source=log.source,
        digest=log.digest,
        joint_names=joint_names,
        findings=_merged(sorted(samples.findings, key=lambda f: SEVERITIES.index(f.severity))),
        segments=tuple(_segment(samples, part) for part in parts),
        moving=tuple(mask[part] for part in parts),
        n_samples=n_samples,
        rate=float(1.0 / steps.mean()) if steps.size else float("nan"),
        places=tuple(samples.place[part] for part in parts),
        left_out=left_out,
    )


def _merged(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Findings with the same remedy as one, with all places: what differs is that of the first."""
    groups: dict[tuple[str, Severity, str], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.kind, finding.severity, finding.action), []).append(finding)
    return tuple(map(_one, groups.values()))


def _one(alike: Sequence[Finding]) -> Finding:
    first = alike[0]
    differ = any(finding.message != first.message for finding in alike)
    where = listing(dict.fromkeys(finding.where for finding in alike), _MOST_PLACES)
    rest = f" ({first.where}; the others likewise)" if differ else ""
    return replace(first, where=where, message=first.message + rest)


def _segment(samples: LogSamples, part: slice) -> Log:
    blocks = samples.blocks
    if samples.reference is not None:
        blocks = (*blocks, ("q_des", samples.reference))
    channels = {
        f"{quantity}.{name}": values[part, j]
        for quantity, values in blocks
        for j, name in enumerate(samples.joint_names)
    }
    return Log.of(samples.t[part], channels)


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
