"""`estimate_log`: from a log and a setup to an `EstimationRun`.

`prepare_log` examines the log and chooses the estimator; `estimate_log` then solves it chunk by
chunk, in bounded memory, and keeps what is to be said of the whole log.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from bodysense.errors import listing
from bodysense.estimation.contact.detector import DetectionSettings
from bodysense.estimation.map_dynamics.log.contacts import ContactInterval
from bodysense.estimation.map_dynamics.log.estimate import LogChunk, LogEstimate
from bodysense.estimation.map_dynamics.log.files import EstimatedCurves, LogFiles
from bodysense.estimation.map_dynamics.log.prepare import EstimationMethod, prepare_log
from bodysense.estimation.map_dynamics.log.state_estimate import StateLogEstimate
from bodysense.estimation.map_dynamics.log.totals import LogTotals, SensorScore, StateTotals
from bodysense.estimation.map_dynamics.observability import Observability, observability
from bodysense.estimation.map_dynamics.setup import EstimationSetup, StateSetup
from bodysense.files import write_atomically
from bodysense.logs.log import Log
from bodysense.robot.robot import Robot, require_robot
from bodysense.sensors.motion_sensors import JointAcceleration
from bodysense.sensors.sensor import variances
from bodysense.spatial.arrays import Array

_SUMMARY = "summary.json"
"""What `EstimationRun.save` calls the summary."""

_OBSERVABILITY_SAMPLES = 3  # of a log, at which observability is computed


@dataclass(frozen=True, eq=False, repr=False)
class EstimationRun:
    """Everything that one call of `estimate_log` led to.

    Estimates themselves are not kept: `estimate.chunks` and `estimate.posterior` compute them, and
    `save` writes them.

    Attributes:
        estimate: sensors, estimator and recording.
        source: name of the log.
        totals: contacts and agreement of sensors.
        state: of estimated positions and biases; `None` if they are taken as recorded.
        curves: for the report.
        observability: at some samples of the log.
        samples: that were solved, from the beginning of the log.
        folder: that estimates were written into on the way; `None`: nowhere.
    """

    estimate: LogEstimate
    source: str
    totals: LogTotals
    state: StateTotals | None
    curves: EstimatedCurves
    observability: Observability
    samples: int
    folder: Path | None = None

    @property
    def interrupted(self) -> bool:
        return self.samples < self.estimate.t.size

    @property
    def contacts(self) -> tuple[ContactInterval, ...]:
        return self.totals.contacts()

    @property
    def sensors(self) -> tuple[SensorScore, ...]:
        return self.totals.scores()

    @property
    def notes(self) -> tuple[str, ...]:
        notes = list(self.estimate.notes)
        if self.state is not None:
            notes += self.state.notes
        if self.interrupted:
            notes.append(
                f"interrupted: these are the first {self.samples} of {self.estimate.t.size} samples"
            )
        return tuple(notes)

    def __repr__(self) -> str:
        return f"<EstimationRun: {self.summary()}>"

    def summary(self) -> str:
        """The log, contacts and sensors, in words."""
        contacts, disagreeing = self.contacts, [s.name for s in self.sensors if s.disagrees]
        links = listing(dict.fromkeys(contact.link for contact in contacts), 3)
        listed = f"{len(contacts)} contacts, on {links}" if contacts else "no contact"
        agree = f"{listing(disagreeing, 3)} disagree" if disagreeing else "all sensors agree"
        return f"{self.estimate.summary()}; {listed}; {agree}."

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        estimate, r = self.estimate, self.estimate.recording
        summary = {
            "robot": estimate.problem.robot.name,
            "log": self.source,
            "samples": self.samples,
            "duration": float(r.t[self.samples - 1] - r.t[0]),
            "pieces": sum(start < self.samples for start in r.starts),
            "left_out": dict(r.counts),
            "unknowns": estimate.variables.size,
            "readings": estimate.problem.layout.size,
            "parameters_considered": estimate.considers_parameters,
            **self.totals.to_dict(),
            "observability": self.observability.summary(),
            "external_wrenches": self.observability.external_summary(),
            "notes": list(self.notes),
        }
        return summary if self.state is None else {**summary, "state": self.state.to_dict()}

    def save(self, folder: str | PathLike[str]) -> None:
        """Write summary.json, estimates.parquet and sensors.parquet into a folder.

        Estimates that were not written into this folder on the way are computed again.
        """
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        if self.folder is None or place.resolve() != self.folder.resolve():
            with LogFiles(place, self.estimate) as files:
                for chunk in self.estimate.chunks():
                    if chunk.first < self.samples:
                        files.add(chunk)
        text = json.dumps(self.to_dict(), indent=2, allow_nan=False)
        write_atomically(place / _SUMMARY, text)


def estimate_log(
    setup: EstimationSetup,
    robot: Robot,
    log: Log,
    *,
    cutoff: float | None = None,
    parameter_directions: Array | None = None,
    state: StateSetup | None = None,
    detection: DetectionSettings | None = None,
    method: EstimationMethod = "map",
    folder: str | PathLike[str] | None = None,
    progress: Callable[[int, int], None] = lambda done, samples: None,
) -> EstimationRun:
    """Estimate the dynamics during a log, and keep what is to be said of it; see `prepare_log`.

    Ctrl-C keeps the chunks that are done: the run is then `interrupted`. A `folder`, which exists,
    gets estimates.parquet and sensors.parquet as the log is solved; `progress` is called with the
    samples that are done and those of the log.

    Raises:
        MismatchError: see `prepare_log`.
        UnusableLogError: the doctor finds errors in the log, or nothing is left of it.
        KeyboardInterrupt: interrupted before the first chunk was done.
    """
    require_robot(robot)
    estimate = prepare_log(
        setup,
        robot,
        log,
        cutoff=cutoff,
        parameter_directions=parameter_directions,
        state=state,
        detection=detection,
        method=method,
    )
    source = log.source
    return solve_log(estimate, source=source, folder=folder, progress=progress)


def solve_log(
    estimate: LogEstimate,
    *,
    source: str = "log",
    folder: str | PathLike[str] | None = None,
    progress: Callable[[int, int], None] = lambda done, samples: None,
) -> EstimationRun:
    """Solve a log that `prepare_log` has prepared; see `estimate_log`."""
    totals = LogTotals(estimate)
    curves = EstimatedCurves(estimate, totals.links)
    sampler = _ObservabilitySampler(estimate)
    state = StateTotals(estimate) if isinstance(estimate, StateLogEstimate) else None
    samples, size = 0, estimate.t.size
    with ExitStack() as stack:
        takers = [totals.add, curves.add, sampler.add]
        if folder is not None:
            takers.append(stack.enter_context(LogFiles(folder, estimate)).add)
        if state is not None:
            takers.append(state.add)
        chunks = estimate.chunks(detail="blocks", judge=True)
        progress(0, size)
        while True:
            try:
                chunk = next(chunks, None)
            except KeyboardInterrupt:
                if not samples:
                    raise
                break
            if chunk is None:
                break
            for take in takers:
                take(chunk)
            samples += chunk.t.size
            progress(samples, size)
    return EstimationRun(
        estimate=estimate,
        source=source,
        totals=totals,
        state=state,
        curves=curves,
        observability=sampler.observability(),
        samples=samples,
        folder=None if folder is None else Path(folder),
    )


class _ObservabilitySampler:
    """Observability of the dynamics at some samples of a log; `add` its chunks in their order.

    Where the state is estimated, accelerations of the joints are known as far as their bands say,
    which counts as a reading of each.
    """

    def __init__(self, estimate: LogEstimate) -> None:
        last = estimate.t.size - 1
        self._estimate = estimate
        self._wanted = np.unique(np.linspace(0, last, _OBSERVABILITY_SAMPLES).astype(int))
        self._motions: list[tuple[Array, ...]] = []
        self._stds: list[Array] = []

    def add(self, chunk: LogChunk) -> None:
        """Keep the wanted samples of a chunk."""
        here = [k - chunk.first for k in self._wanted if 0 <= k - chunk.first < chunk.t.size]
        motion = chunk.q, chunk.dq, *([] if chunk.base_twist is None else [chunk.base_twist])
        self._motions.append(tuple(rows[here] for rows in motion))
        if isinstance(self._estimate, StateLogEstimate):
            names = self._estimate.problem.robot.joint_names
            stds = [chunk.posterior.sigma(f"ddq.{name}")[here] for name in names]
            self._stds.append(np.concatenate([np.zeros((len(here), 0)), *stds], axis=1))

    def observability(self) -> Observability:
        q, dq, *twist = (np.concatenate(parts) for parts in zip(*self._motions, strict=True))
        problem = self._estimate.problem
        if self._stds:
            std = np.median(np.concatenate(self._stds), axis=0)
            taken = {sensor.name for sensor in problem.sensors}
            known = [
                JointAcceleration(name=f"ddq.{name}", joint=name, covariance=variances(s, 1))
                for name, s in zip(problem.robot.joint_names, std, strict=True)
                if f"ddq.{name}" not in taken
            ]
            problem = problem.with_sensors([*problem.sensors, *known])
        gravity = self._estimate.setup.gravity
        return observability(
            problem, q, dq, base_twist=twist[0] if twist else None, gravity=gravity
        )
