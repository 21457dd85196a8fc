"""`StateLogEstimate`: a log of which positions and velocities are estimated as well.

From the first sample of every stretch to its last, with the readings up to each sample
(`StateTracker`), or with all readings of a window and of some samples behind it (`StateSmoother`).
After a pause the joints are looked for anew; biases and parameters stay as they were found.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
from threadpoolctl import threadpool_limits

from bodysense.estimation.map_dynamics.consistency import SensorConsistency, exact_error, noisy
from bodysense.estimation.map_dynamics.estimator import Detail, MapDynamics
from bodysense.estimation.map_dynamics.log.estimate import LogChunk, LogEstimate, RecordedMotion
from bodysense.estimation.map_dynamics.log.first_state import first_state, searched
from bodysense.estimation.map_dynamics.setup import StateSetup
from bodysense.estimation.map_dynamics.state.layout import StateLayout
from bodysense.estimation.map_dynamics.state.nuisances import Nuisances
from bodysense.estimation.map_dynamics.state.orientation_rows import OrientationRows
from bodysense.estimation.map_dynamics.state.prior import StatePrior
from bodysense.estimation.map_dynamics.state.smoothing import StateSmoother
from bodysense.estimation.map_dynamics.state.tracker import JERK, StateTracker
from bodysense.estimation.posterior import NamedSlices, Posterior
from bodysense.spatial.arrays import Array

CHUNK = 200
"""Samples between two signs of life: a second of an arm, some seconds of a humanoid."""

_AHEAD = 0.25  # of a window: samples behind it that are read as well
_Troubles = tuple[tuple[float, str], ...]
_Part = tuple[int, Posterior, _Troubles]


@dataclass(frozen=True, eq=False, repr=False)
class StateLogEstimate(LogEstimate):
    """The estimates of a log, state included, computed as they are asked for.

    Attributes:
        state: how.
        unmeasured: joints without recorded positions.
        covariance: (p, p) of the robot's parameters, which are then estimated as well.
        decided: notes about the sensors.
    """

    state: StateSetup = field(default_factory=StateSetup)
    unmeasured: tuple[str, ...] = ()
    covariance: Array | None = None
    decided: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know."""
        joints = ", ".join(self.unmeasured) or "all joints, with their encoders"
        how = {"track": "readings up to each sample", "smooth": "all readings of a window"}
        told = f"positions are estimated, of {joints}, from {how[self.state.method]}"
        return (*self.setup.notes, told, *self.decided, *self.recording.notes)

    @property
    def considers_parameters(self) -> bool:
        """Whether errors of the robot's parameters widen the bands."""
        return self.covariance is not None

    @cached_property
    def variables(self) -> NamedSlices:
        """Names ↔ slices of what is estimated: of the dynamics, then of the state and biases."""
        nuisances, tree = Nuisances.of(self.problem, self.covariance), self.problem.tree
        turned = OrientationRows(self.problem).turned
        n = self.problem.robot.n_joints
        layout = StateLayout(n, 3, tree.floating, turned, nuisances.size)
        extra, _ = layout.named(tree, nuisances.biased)
        parts = [*self.problem.variables.slices.items(), *extra.slices.items()]
        return NamedSlices.of("quantity", [(name, w.stop - w.start) for name, w in parts])

    @cached_property
    def log_problem(self) -> MapDynamics:
        """The same: biases are estimated with the state."""
        return self.problem

    def chunks(
        self, samples: int = CHUNK, *, detail: Detail = "variances", judge: bool = False
    ) -> Iterator[LogChunk]:
        """Solve the log from its beginning on.

        Args:
            samples: in a chunk; smoothing takes its windows instead.
            detail: how much to keep: covariances are computed in any case.
            judge: whether to hold residuals against the noise that sensors are said to have.
        """
        solver: StateTracker | StateSmoother | None = None
        for begin, end in pairwise([*self.recording.starts, self.t.size]):
            piece = slice(begin, end)
            before = None if solver is None else solver.joints
            prior = self._first(piece, before)
            if solver is None:
                solver = self._solver(prior)
            else:
                solver.restart(prior)
            parts = (
                self._tracked(solver, piece, samples)
                if isinstance(solver, StateTracker)
                else self._smoothed(solver, piece)
            )
            for first, posterior, troubles in parts:
                yield self._chunk(first, posterior, troubles, detail, judge)

    def posterior(self, *, detail: Detail = "variances") -> Posterior:
        """All samples at once: for logs that fit into memory."""
        return Posterior.joined([chunk.posterior for chunk in self.chunks(detail=detail)])

    def _first(self, piece: slice, before: StatePrior | None) -> StatePrior:
        """What is believed when a stretch begins."""
        t, y = self.t[piece], self.recording.readings[piece]
        prior = first_state(self.problem, self.state, t, y, before)
        told = set() if before is not None else set(self.state.priors)
        joints = tuple(joint for joint in self.unmeasured if f"q.{joint}" not in told)
        with threadpool_limits(1, "blas"):
            return searched(
                self.problem, prior, joints, t, y, jerk=self._jerk, gravity=self.setup.gravity
            )

    @property
    def _jerk(self) -> Array | float:
        return JERK if self.state.jerk is None else self.state.jerk

    def _solver(self, prior: StatePrior) -> StateTracker | StateSmoother:
        kind = StateSmoother if self.state.method == "smooth" else StateTracker
        return kind(self.problem, prior, jerk=self._jerk, parameter_covariance=self.covariance)

    def _tracked(self, tracker: StateTracker, piece: slice, samples: int) -> Iterator[_Part]:
        t, y = self.t, self.recording.readings
        for first in range(piece.start, piece.stop, samples):
            here = range(first, min(first + samples, piece.stop))
            with threadpool_limits(1, "blas"):  # matrices so small that threads only wait
                result = [tracker.step(t[k], y[k], gravity=self.setup.gravity) for k in here]
            notes = [(float(t[k]), n) for k, p in zip(here, result, strict=True) for n in p.notes]
            yield first, Posterior.joined(result), tuple(notes)

    def _smoothed(self, smoother: StateSmoother, piece: slice) -> Iterator[_Part]:
        t, y, window = self.t, self.recording.readings, self.state.window
        for first in range(piece.start, piece.stop, window):
            last = min(first + window, piece.stop)
            read = slice(first, min(last + max(1, int(_AHEAD * window)), piece.stop))
            with threadpool_limits(1, "blas"):
                result = smoother.step(
                    t[read], y[read], ahead=read.stop - last, gravity=self.setup.gravity
                )
            notes = tuple((float(t[first]), note) for note in result.notes)
            yield first, result.part(slice(0, last - first)), notes

    def _chunk(
        self, first: int, found: Posterior, troubles: _Troubles, detail: Detail, judge: bool
    ) -> LogChunk:
        if detail in ("means", "variances"):
            found = replace(found, blocks={})
        t = self.t[first : first + found.mean.shape[0]]
        judged = self._judged(found) if judge else None
        return LogChunk(first, t, found, judged, self._motion(found), troubles)

    def _motion(self, found: Posterior) -> RecordedMotion:
        names, tree = self.problem.robot.joint_names, self.problem.tree
        q, dq = (
            np.concatenate([found[f"{what}.{name}"] for name in names], axis=1)
            for what in ("q", "dq")
        )
        twist = None
        if tree.floating:
            twist = np.zeros((len(q), 6))
            twist[:, 3:] = found[f"omega.{tree.names[0]}"]
        return RecordedMotion(q, dq, twist)

    def _judged(self, found: Posterior) -> SensorConsistency:
        """Residuals over the noise that sensors are said to have.

        The estimate follows readings, the state as well, so that residuals of sensors that are as
        good as they are said to be are no larger than that, and mostly smaller.
        """
        normalised, square, freedom, off = {}, {}, {}, {}
        for sensor in self.problem.sensors:
            r, Sigma = found.residual[sensor.name], sensor.covariance
            sigma = np.sqrt(np.diag(Sigma))
            normalised[sensor.name] = r / np.where(sigma > 0.0, sigma, np.nan)
            values, vectors = np.linalg.eigh(Sigma)
            some = noisy(values)
            white = (r @ vectors[:, some]) / np.sqrt(values[some])
            present = np.isfinite(r).all(axis=1)
            square[sensor.name] = np.where(present, (white**2).sum(axis=1), np.nan)
            freedom[sensor.name] = np.where(present, float(some.sum()), 0.0)
            error = exact_error(Sigma, r)
            if error is not None:
                off[sensor.name] = error
        return SensorConsistency(normalised, square, freedom, off=off)
