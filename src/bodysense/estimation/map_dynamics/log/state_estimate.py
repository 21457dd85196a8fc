"""`StateLogEstimate`: a log of which positions and velocities are estimated as well.

From the first sample of every stretch to its last, with the readings up to each sample
(`StateTracker`), or with all readings of a window and of some samples behind it (`StateSmoother`).
After a pause the joints are initialised again; biases and parameters keep their estimates.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike
from threadpoolctl import threadpool_limits

from bodysense.estimation.map_dynamics.consistency import stated_consistency
from bodysense.estimation.map_dynamics.estimator import Detail, MapDynamics
from bodysense.estimation.map_dynamics.log.estimate import LogChunk, LogEstimate
from bodysense.estimation.map_dynamics.setup import QUANTITIES, StateSetup
from bodysense.estimation.map_dynamics.state.linearisation import Linearisation
from bodysense.estimation.map_dynamics.state.prior import Nuisances, StatePrior
from bodysense.estimation.map_dynamics.state.tracking import StateSmoother, StateTracker
from bodysense.estimation.posterior import NamedSlices, Posterior
from bodysense.sensors.motion_sensors import Encoder
from bodysense.spatial.arrays import Array

_CHUNK = 200
"""Samples between progress updates: a second of an arm, some seconds of a humanoid."""

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
        joints = ", ".join(self.unmeasured) or "all joints, with their encoders"
        how = {"track": "readings up to each sample", "smooth": "all readings of a window"}
        how_estimated = f"positions are estimated, of {joints}, from {how[self.state.method]}"
        return (*self.setup.notes, how_estimated, *self.decided, *self.recording.notes)

    @property
    def considers_parameters(self) -> bool:
        return self.covariance is not None

    @cached_property
    def variables(self) -> NamedSlices:
        """Names ↔ slices of what is estimated: of the dynamics, then of the state and biases."""
        nuisances = Nuisances.of(self.problem, self.covariance)
        return Linearisation(self.problem, nuisances, 3).variables

    @cached_property
    def log_problem(self) -> MapDynamics:
        """The same: biases are estimated with the state."""
        return self.problem

    def chunks(
        self, samples: int = _CHUNK, *, detail: Detail = "variances", judge: bool = False
    ) -> Iterator[LogChunk]:
        """Solve the log from its beginning on.

        Smoothing takes its windows instead of so many samples; covariances are computed always;
        `judge` holds residuals against the noise that sensors are said to have.
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
        t, y = self.t[piece], self.recording.readings[piece]
        prior = _initial_prior(self.problem, self.state, t, y, before)
        given = set() if before is not None else set(self.state.priors)
        joints = tuple(joint for joint in self.unmeasured if f"q.{joint}" not in given)
        with threadpool_limits(1, "blas"):
            return _best_start(
                self.problem, prior, joints, t, y, jerk=self.state.jerk, gravity=self.setup.gravity
            )

    def _solver(self, prior: StatePrior) -> StateTracker | StateSmoother:
        kind = StateSmoother if self.state.method == "smooth" else StateTracker
        return kind(self.problem, prior, jerk=self.state.jerk, parameter_covariance=self.covariance)

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
        names, tree = self.problem.robot.joint_names, self.problem.tree
        t = self.t[first : first + found.mean.shape[0]]
        q, dq = (
            np.concatenate([found[f"{what}.{name}"] for name in names], axis=1)
            for what in ("q", "dq")
        )
        twist = None
        if tree.floating:
            twist = np.zeros((t.size, 6))
            twist[:, 3:] = found[f"omega.{tree.names[0]}"]
        judged = stated_consistency(self.problem.sensors, found.residual) if judge else None
        return LogChunk(first, t, q, dq, twist, found, judged, troubles)


# The initial state of a stretch.
#
# Joints with encoders: where a parabola through their first readings begins, widely. The others:
# anywhere between their limits, or after a pause about where they were, at no speed in particular.
# The priors are wide, so that the readings they come from do not count twice; what the user says
# counts before them.

_FIRST_READINGS = 0.3  # s, that the parabola goes through
_PARABOLA = 5  # readings that it needs
_ENCODER_STD = (0.1, 1.0, 10.0)  # rad, rad/s, rad/s²: of a joint whose encoder was read
_NO_ENCODER_STD = (1.5, 1.0, 10.0)  # of others, whose position may be anywhere
_RANGE_STD = 0.25  # standard deviation of these over the range of the joint, if it is limited


def _initial_prior(
    problem: MapDynamics,
    setup: StateSetup,
    t: Array,
    readings: Array,
    before: StatePrior | None = None,
) -> StatePrior:
    """The prior about (q, q̇, q̈) at the first of samples t (T,) with readings (T, m).

    After a pause that state `before` counts, and the user's priors no more.
    """
    robot = problem.robot
    n = robot.n_joints
    mean, std = np.zeros((3, n)), np.tile(np.array(_NO_ENCODER_STD)[:, None], (1, n))
    mean[0], std[0] = _anywhere(*robot.position_range)
    if before is not None:
        mean[0] = before.mean[0]
    for sensor in problem.sensors:
        if isinstance(sensor, Encoder):
            y = readings[:, problem.layout.slices[sensor.name].start]
            j = sensor.joint_index(robot)
            result = _parabola(t, y)
            if result is not None:
                mean[:, j], std[:, j] = result, _ENCODER_STD
    if before is None:
        for name, prior in setup.priors.items():
            quantity, _, joint = name.partition(".")
            k, j = QUANTITIES.index(quantity), robot.joint_names.index(joint)
            mean[k, j] = prior.mean[0]
            std[k, j] = np.sqrt(prior.covariance[0, 0])
    return StatePrior.of(*mean, q_std=std[0], dq_std=std[1], ddq_std=std[2])


def _anywhere(lower: Array, upper: Array) -> tuple[Array, Array]:
    """Middle and standard deviation of joints between limits."""
    limited = np.isfinite(lower) & np.isfinite(upper) & (upper - lower < 2.0 * np.pi)
    low, high = np.where(limited, lower, 0.0), np.where(limited, upper, 0.0)
    return 0.5 * (low + high), np.where(
        limited, np.minimum(_RANGE_STD * (high - low), 1.5), _NO_ENCODER_STD[0]
    )


def _parabola(t: Array, y: Array) -> Array | None:
    """(3,) position, velocity and acceleration where the first readings begin."""
    near = np.flatnonzero((t - t[0] <= _FIRST_READINGS) & np.isfinite(y))
    if not near.size:
        return None
    if near.size < _PARABOLA:
        return np.array([y[near[0]], 0.0, 0.0])
    c = np.polynomial.polynomial.polyfit(t[near] - t[0], y[near], 2)
    return np.array([c[0], c[1], 2.0 * c[2]])


# Where joints without encoders begin: several places are tried over the first samples.
#
# One sample fits several states: an accelerometer cannot tell gravity from a swing, and an elbow
# may be bent either way. A tenth of a second later only one of them still explains the readings. So
# every joint begins in turn at places all over its prior, and the one stays from which tracking
# the first samples has the least chi-square,
#
#     Σ_t chi²_t  +  (place - mean)² / variance.

_TRACKED_SAMPLES = 15  # from each place
_SPAN = 0.3  # s that they are spread over, if readings come faster
_SPACING = 0.7  # rad or m between places
_PLACE_STD = 0.5  # rad or m, of a place: neighbours overlap
_REACH = 2.0  # standard deviations of the prior within which places lie


def _best_start(
    problem: MapDynamics,
    prior: StatePrior,
    joints: tuple[str, ...],
    t: Array,
    readings: Array,
    *,
    jerk: ArrayLike,
    gravity: ArrayLike | None,
) -> StatePrior:
    """The prior with the positions of these joints at the best of several places."""
    some = _first_samples(t)
    tracker = StateTracker(problem, prior, jerk=jerk)

    def chi_square(start: StatePrior) -> float:
        tracker.reset()
        tracker.restart(start)
        steps = (tracker.step(t[k], readings[k], gravity=gravity) for k in some)
        return float(sum(step.cost for step in steps))

    for joint in joints:
        j = problem.robot.joint_names.index(joint)
        places = _places(prior, j)
        if len(places) > 1:
            mean, variance = prior.mean[0, j], prior.covariance[j, j]
            costs = [
                chi_square(start) + (start.mean[0, j] - mean) ** 2 / variance for start in places
            ]
            prior = places[int(np.argmin(costs))]
    return prior


def _first_samples(t: Array) -> list[int]:
    """Samples at the beginning, not closer than a few of them need to be apart."""
    some = [0]
    for k in range(1, t.size):
        if len(some) == _TRACKED_SAMPLES:
            break
        if t[k] - t[some[-1]] >= 0.99 * _SPAN / _TRACKED_SAMPLES or k == t.size - 1:
            some.append(k)
    return some


def _places(prior: StatePrior, j: int) -> list[StatePrior]:
    mean, std = prior.mean[0, j], float(np.sqrt(prior.covariance[j, j]))
    n = int(_REACH * std / _SPACING)
    if std <= _PLACE_STD or n == 0:
        return [prior]
    places = []
    for k in sorted(range(-n, n + 1), key=abs):
        moved, covariance = prior.mean.copy(), prior.covariance.copy()
        moved[0, j], covariance[j, j] = mean + k * _SPACING, _PLACE_STD**2
        places.append(replace(prior, mean=moved, covariance=covariance))
    return places
