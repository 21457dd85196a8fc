"""`Recording`: a log as an estimator takes it, sample by sample.

The doctor examines the log first: it puts times in order, finds gaps, and refuses units that cannot
be right. Positions and readings then pass one low-pass filter without phase (see `signals`), and
positions are differentiated twice, as for identification. Where there is no reading, it is NaN,
which estimators take for absent. Where the state is estimated nothing is filtered, and a row
without any position is as good as others. Everything that is left out is counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bodysense.doctor import (
    Diagnosis,
    Finding,
    examine_readings,
    require_clean,
)
from bodysense.errors import MismatchError, ShapeError, UnusableLogError, listing
from bodysense.estimation.map_dynamics.base_motion import StandingFeet
from bodysense.estimation.map_dynamics.estimator import MapDynamics
from bodysense.estimation.map_dynamics.log.reading_noise import ReadingNoise
from bodysense.estimation.map_dynamics.log.sensor_findings import (
    base_twist,
    broken_quaternions,
    mounting_findings,
    speed_findings,
    unit_findings,
)
from bodysense.estimation.map_dynamics.log.signals import (
    BORDER,
    SignalFilter,
    chosen_cutoff,
)
from bodysense.logs.channels import units_of
from bodysense.logs.filtering import usable_cutoff
from bodysense.logs.log import Log
from bodysense.robot.robot import Robot
from bodysense.sensors.motion_sensors import (
    Encoder,
    JointAcceleration,
)
from bodysense.sensors.sensor import Sensor
from bodysense.spatial.arrays import Array

_LEAST_INNER = 3  # samples of a stretch that are left once its ends are cut
_SHORTEST = 8  # samples that differences and their filter need
_NAMES = 12  # of channels or joints in a message
_TELLING = ("reader", "nan", "spike", "backward-time")
"""Findings of the doctor that are worth a note even where they are harmless: rows that are left out
are counted anyway."""


def position_channels(robot: Robot, sensors: Iterable[Sensor]) -> dict[str, str]:
    """Channel of the position by joint: that of its encoder, else ``q.<joint>``."""
    channel = {joint: f"q.{joint}" for joint in robot.joint_names}
    for sensor in sensors:
        if isinstance(sensor, Encoder) and sensor.channels:
            channel[sensor.joint] = sensor.channels[0]
    return channel


def with_constant_positions(log: Log, sensors: Iterable[Sensor]) -> Log:
    """The log with positions of joints that an encoder states as constants."""
    known = {
        f"q.{s.joint}": np.full(log.t.size, float(s.reading(np.zeros(0))[0]))
        for s in sensors
        if isinstance(s, Encoder) and not s.channels
    }
    return replace(log, channels={**log.channels, **known}) if known else log


@dataclass(frozen=True, eq=False)
class Recording:
    """Samples of a log.

    Attributes:
        t: (T,) times [s], ascending.
        q: (T, n_joints) positions, filtered.
        dq: (T, n_joints) velocities.
        readings: (T, m) in the order of the estimator's sensors, NaN where there is none.
        base_twist: (T, 6) of a floating root, or `None`.
        starts: where pieces begin: there are gaps before them.
        counts: how many rows were left out, by reason.
        notes: what the user should know, e.g. of units that cannot be right.
        noise: of the readings, by sensor; `None`: as their covariances say.
    """

    t: Array
    q: Array
    dq: Array
    readings: Array
    base_twist: Array | None
    starts: tuple[int, ...]
    counts: Mapping[str, int]
    notes: tuple[str, ...]
    noise: ReadingNoise | None = None

    @classmethod
    def from_log(
        cls,
        problem: MapDynamics,
        log: Log,
        *,
        cutoff: float | None = None,
        gravity: Array | None = None,
        feet: StandingFeet | None = None,
        biases: Mapping[str, float] | None = None,
    ) -> Recording:
        """Filter, differentiate and collect what an estimator needs of a log.

        The log has positions of all joints, and channels of all sensors but joint accelerations,
        which come from positions where it has none. `cutoff` is of the low-pass on positions and
        readings [Hz]; by default it is chosen from the positions. `gravity` is that of a root that
        is held, `feet` are those that stand while the root floats, `biases` root mean squares of
        the biases by sensor, which are among the noise of the estimator.

        Raises:
            MismatchError: channels are missing or in other units, as in the log of another robot.
            UnusableLogError: the doctor finds errors, or nothing is left of the log.
        """
        if cutoff is not None and not (np.isfinite(cutoff) and cutoff > 0.0):
            raise ShapeError(f"the cut-off is {cutoff:g} Hz: give a positive one.")
        diagnosis = examine_readings(problem.robot, log, _require_positions(problem, log))
        require_clean(diagnosis, purpose="estimated")
        limit = chosen_cutoff(diagnosis.segments) if cutoff is None else cutoff
        signals = SignalFilter(problem, limit, _derived(problem, log), biases)
        pieces = [
            signals.piece(
                rows,
                segment.t,
                segment.joints("q", problem.robot.joint_names),
                sensor_readings(problem, log, rows),
            )
            for rows, segment in zip(diagnosis.places, diagnosis.segments, strict=True)
            if rows.size >= _SHORTEST
        ]
        pieces = [piece for piece in pieces if piece.rows.size >= _LEAST_INNER]
        sizes = [piece.rows.size for piece in pieces]
        counts = _counts(diagnosis, log, sum(sizes))
        if not pieces:
            raise UnusableLogError(
                f"{log.source}: no stretch of it is longer than {2.0 * BORDER / limit:.2g} s and "
                f"has times that ascend and positions of all joints ({_reasons(counts)}): record "
                "for longer, raise the cut-off, or check the layout."
            )
        used = np.concatenate([piece.rows for piece in pieces])
        q, dq, ddq = (np.concatenate(x) for x in zip(*(p.motion for p in pieces), strict=True))
        readings = np.concatenate([piece.readings for piece in pieces])
        twist, notes = base_twist(problem, q, dq, readings, feet)
        findings = unit_findings(problem, readings) + speed_findings(problem, q, dq, readings)
        findings += mounting_findings(problem, log.t[used], (q, dq, ddq), readings, twist, gravity)
        notes += [*_notes(findings), *_slow(log.t[used], limit if cutoff is not None else 0.0)]
        return cls(
            t=log.t[used],
            q=q,
            dq=dq,
            readings=readings,
            base_twist=twist,
            starts=tuple(int(k) for k in np.cumsum([0, *sizes[:-1]])),
            counts=counts,
            notes=(*_notes(diagnosis.findings), *notes),
            noise=signals.noise(gravity),
        )

    @classmethod
    def with_state(cls, problem: MapDynamics, log: Log) -> Recording:
        """Collect readings; positions are those of encoders, NaN elsewhere, velocities all NaN.

        It raises what `from_log` raises.
        """
        robot = problem.robot
        encoders = [sensor for sensor in problem.sensors if isinstance(sensor, Encoder)]
        channels = {
            s.joint: s.channels[0] for s in encoders if s.channels and s.channels[0] in log.channels
        }
        diagnosis = examine_readings(robot, log, channels, complete=False)
        if diagnosis.of("error"):
            require_clean(diagnosis, purpose="estimated")
        rows = np.concatenate([np.zeros(0, dtype=np.int64), *diagnosis.places])
        readings = sensor_readings(problem, log, rows)
        if not np.isfinite(readings).any():
            raise UnusableLogError(
                f"{log.source}: no two rows have times that ascend and readings of the sensors: "
                "check the layout."
            )
        q = np.full((rows.size, robot.n_joints), np.nan)
        for sensor in encoders:
            q[:, sensor.joint_index(robot)] = readings[:, problem.layout.slices[sensor.name].start]
        findings = unit_findings(problem, readings)
        findings += broken_quaternions(problem, log, rows, readings)
        sizes = [places.size for places in diagnosis.places]
        return cls(
            t=log.t[rows],
            q=q,
            dq=np.full_like(q, np.nan),
            readings=readings,
            base_twist=None,
            starts=tuple(int(k) for k in np.cumsum([0, *sizes[:-1]])),
            counts=_counts(diagnosis, log, rows.size),
            notes=_notes((*diagnosis.findings, *findings)),
        )

    @property
    def left_out(self) -> str:
        return _reasons(self.counts)


def _reasons(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{n} rows {reason}" for reason, n in counts.items() if n)


def _counts(diagnosis: Diagnosis, log: Log, used: int) -> dict[str, int]:
    counts = dict(diagnosis.left_out)
    beside = log.t.size + len(log.faults) - sum(counts.values()) - used
    return {**counts, "near an end or a gap": beside} if beside else counts


def _notes(findings: Sequence[Finding]) -> tuple[str, ...]:
    """Warnings of the doctor, and what it changed or decided, a sentence each."""
    return tuple(
        f.message if f.kind == "reader" else f"{f.where}: {f.message}; {f.action}"
        for f in findings
        if f.severity != "note" or f.kind in _TELLING
    )


def _slow(t: Array, cutoff: float) -> list[str]:
    """Whether samples are too rare for the cut-off, as those of a time in milliseconds are."""
    rate = 1.0 / float(np.median(np.diff(t))) if t.size > 1 else np.inf
    limit = usable_cutoff(cutoff, rate)
    if limit == cutoff:
        return []
    return [
        f"{rate:.3g} samples per second are too few for a cut-off of {cutoff:g} Hz: positions are "
        f"filtered at {limit:.2g} Hz. Is the time in seconds?"
    ]


def _derived(problem: MapDynamics, log: Log) -> list[JointAcceleration]:
    """Sensors of accelerations that the log has no channel of: they come from positions."""
    return [
        sensor
        for sensor in problem.sensors
        if isinstance(sensor, JointAcceleration)
        and not all(name in log.channels for name in sensor.channels)
    ]


def _require_positions(problem: MapDynamics, log: Log) -> dict[str, str]:
    """Channel of the position of every joint; a log of another robot is refused."""
    channel = position_channels(problem.robot, problem.sensors)
    missing = [joint for joint, name in channel.items() if name not in log.channels]
    if missing:
        there = [name.removeprefix("q.") for name in log.channels if name.startswith("q.")]
        raise MismatchError(
            f"{log.source} has no positions of {listing(missing, _NAMES)}; it has them of "
            f"{listing(there, _NAMES) or 'none'}. Is it the log of another robot? Otherwise name "
            "the channels q.<joint> in the layout file, or give encoders with `channels:` in the "
            "sensors file."
        )
    return channel


def sensor_readings(problem: MapDynamics, log: Log, rows: NDArray[np.int64]) -> Array:
    """(T, m) readings of all sensors at rows (T,) of a log; NaN of accelerations it has not."""
    _require_channels(problem, log)
    readings = np.full((rows.size, problem.layout.size), np.nan)
    for sensor in problem.sensors:
        where = problem.layout.slices[sensor.name]
        known = all(name in log.channels for name in sensor.channels)
        if isinstance(sensor, JointAcceleration) and not known:
            continue
        _require_units(problem, sensor, log)
        columns = [log.channels[name][rows] for name in sensor.channels]
        values = np.stack(columns, axis=1) if columns else np.zeros((rows.size, 0))
        readings[:, where] = sensor.reading(np.where(np.isfinite(values), values, np.nan))
    return readings


def _require_channels(problem: MapDynamics, log: Log) -> None:
    missing = [
        f"{channel} of {sensor.name}"
        for sensor in problem.sensors
        if not isinstance(sensor, JointAcceleration)
        for channel in sensor.channels
        if channel not in log.channels
    ]
    if missing:
        raise MismatchError(
            f"{log.source} lacks channels of sensors: {listing(missing, _NAMES)}. It has "
            f"{listing(log.channels, _NAMES)}. Name them in the layout file, say "
            "`channels:` in the sensors file, leave the sensors out, or lock joints that nobody "
            "recorded (--lock)."
        )


def _require_units(problem: MapDynamics, sensor: Sensor, log: Log) -> None:
    """Refuse channels of another unit; one without a unit is taken to be right.

    A log that states none has the usual unit of a channel, which is that of a joint that turns.
    """
    wanted = sensor.channel_units(problem.robot)
    for channel, unit in zip(sensor.channels, wanted, strict=True):
        result, known = log.units.get(channel, ""), units_of(channel)
        usual = unit in known and result == known[0]
        if result and unit and result != unit and not usual:
            raise MismatchError(
                f"channel {channel!r} of {log.source} is in {result}, and {sensor.who} reads "
                f"{unit}: is it the right channel? Otherwise correct its unit in the layout file."
            )
