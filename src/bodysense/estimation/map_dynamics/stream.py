"""`EstimatorStream`: the estimator in a control loop, a sample at a time.

A loop goes on whatever its sensors do: readings that are missing, not finite or absurd are absent,
positions that are missing stay as they were, samples that come late are left out or used as told,
and all of it is counted. What comes out is finite, always.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bodysense.errors import MismatchError, ShapeError, unknown_name
from bodysense.estimation.map_dynamics.estimator import Detail, MapDynamics
from bodysense.estimation.map_dynamics.solution import flat
from bodysense.estimation.posterior import NamedRows, Posterior
from bodysense.spatial.arrays import Array

_ABSURD = 1e9
"""Readings beyond this in SI units are no measurement; they are taken for absent."""

_Late = Literal["ignore", "use"]
_Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False, slots=True)
class Sample:
    """What arrives at a sample.

    Attributes:
        t: time [s].
        q: (n_joints,) positions; NaN where they are missing.
        dq: (n_joints,) velocities; NaN where they are missing.
        readings: channels of sensors by name, of those that have arrived; or (m,) all readings in
            the order of the estimator's `layout.slices`, NaN where there is none.
        base_twist: (6,) of a floating root in its frame.
    """

    t: float
    q: ArrayLike
    dq: ArrayLike
    readings: Mapping[str, ArrayLike] | Array
    base_twist: ArrayLike | None = None


class EstimatorStream:
    """An estimator with its memory, for one sample after the other.

    Attributes:
        problem: the estimator.
        counts: what happened so far: samples, late, positions held, base
            twists held, absurd, not finite.
        absent: by sensor, how many samples came without a reading of it.
    """

    def __init__(
        self,
        problem: MapDynamics,
        *,
        gravity: ArrayLike | None = None,
        late: _Late = "ignore",
        detail: Detail = "variances",
    ) -> None:
        """Lay out what every step needs, and compile.

        Args:
            problem: the estimator.
            gravity: (3,) in the frame of a root that is held.
            late: what to do with samples that are older than the last: "ignore" them, returning
                the last posterior, or "use" them as if they were on time.
            detail: "means" or "variances".
        """
        if late not in ("ignore", "use"):
            raise unknown_name("policy for late samples", str(late), ("ignore", "use"))
        if detail not in ("means", "variances"):
            raise unknown_name("detail of a stream", str(detail), ("means", "variances"))
        self.problem = problem
        self.counts = dict.fromkeys(
            ("samples", "late", "positions held", "base twists held", "absurd", "not finite"), 0
        )
        n, layout = problem.robot.n_joints, problem.layout
        self._late, self._detail = late, detail
        self._n = n
        self._absent = np.zeros(len(problem.sensors), dtype=np.int64)
        self._constant = np.full(layout.size, np.nan)
        for sensor in problem.sensors:
            if not sensor.channels and sensor.size == len(sensor.labels):
                self._constant[layout.slices[sensor.name]] = sensor.reading(np.zeros(0))
        self._sensors = {sensor.name: sensor for sensor in problem.sensors}
        self._plain = {  # readings that are taken as they come
            name: (layout.slices[name], (sensor.size,))
            for name, sensor in self._sensors.items()
            if sensor.constant is None and sensor.size == len(sensor.labels)
        }
        self._starts = np.array([w.start for w in layout.slices.values()], dtype=np.int64)
        self._samples = problem.samples(
            np.zeros(n), np.zeros(n), self._constant, base_twist=np.zeros(6), gravity=gravity
        )
        self._rows = layout.constants.copy()
        self._y = self._rows[: layout.size]
        self._some_orientations = bool(layout.orientations.size)
        self._q = np.full(n, np.nan)
        self._last: Posterior | None = None
        self._t = -np.inf
        self._found = problem.solve(self._samples, detail)  # compiles, and is written to again

    @property
    def absent(self) -> dict[str, int]:
        """By sensor, how many samples came without a reading of it."""
        return dict(zip(self._sensors, self._absent.tolist(), strict=True))

    def restart(self) -> None:
        """Forget the time of the last sample, as after a clock was set back."""
        self._t = -np.inf

    def step(self, sample: Sample) -> Posterior:
        """Posterior at the time of the sample.

        Raises:
            UnknownNameError: readings of a sensor that the estimator does not have.
            ShapeError: another number of joints or readings.
            MismatchError: positions of a joint have never arrived.
        """
        self.counts["samples"] += 1
        if not sample.t > self._t:  # NaN too
            self.counts["late"] += 1
            if self._late == "ignore" and self._last is not None:
                note = f"the sample of {sample.t:g} s is late: this is of {self._t:g} s"
                return replace(self._last, notes=(note,))
        notes = self._take_state(sample)
        missing = self._take_readings(sample.readings)
        posterior = self._solved(missing, notes)
        self._last = posterior
        self._t = max(self._t, sample.t) if sample.t == sample.t else self._t
        return posterior

    def _take_state(self, sample: Sample) -> tuple[str, ...]:
        q = np.asarray(sample.q, dtype=np.float64)
        dq = np.asarray(sample.dq, dtype=np.float64)
        if q.shape != (self._n,) or dq.shape != (self._n,):
            raise ShapeError(
                f"q has shape {q.shape} and dq {dq.shape}: give {self._n} numbers each, in the "
                f"order {', '.join(self.problem.robot.joint_names)}; NaN where one is missing."
            )
        notes: tuple[str, ...] = ()
        if sample.base_twist is not None:
            twist = np.asarray(sample.base_twist, dtype=np.float64)
            if twist.shape != (6,):
                raise ShapeError(f"base_twist has shape {twist.shape}, expected (6,).")
            known = np.abs(twist) < _ABSURD
            self._samples.twist[0, known] = twist[known]
            if not known.all():
                self.counts["base twists held"] += 1
                notes += ("missing components of the base twist are kept as they were",)
        lost = ~(np.abs(q) < _ABSURD)  # NaN and infinity too
        slow = ~(np.abs(dq) < _ABSURD)
        self._samples.dq[0] = dq
        self._samples.dq[0, slow] = 0.0
        if not lost.any():
            self._q[:] = q
            self._samples.q[0] = q
            return (*notes, "missing velocities count as zero") if slow.any() else notes
        self.counts["positions held"] += 1
        self._q[~lost] = q[~lost]
        names = [self.problem.robot.joint_names[j] for j in np.flatnonzero(lost)]
        if np.isnan(self._q).any():
            raise MismatchError(
                f"no position of {', '.join(names)} has arrived so far: start with a sample that "
                "has all of them."
            )
        self._samples.q[0] = self._q
        self._samples.dq[0, lost] = 0.0
        return (*notes, f"positions of {', '.join(names)} are missing and kept as they were")

    def _take_readings(self, readings: Mapping[str, ArrayLike] | Array) -> _Mask | None:
        """Put readings into the rows of the kernels; returns which sensors have none, if any."""
        layout, y = self.problem.layout, self._y
        if isinstance(readings, Mapping):
            y[:] = self._constant
            for name, value in readings.items():
                place = self._plain.get(name)
                if place is not None and np.shape(value) == place[1]:
                    y[place[0]] = value
                    continue
                sensor = self._sensors.get(name)
                if sensor is None:
                    raise unknown_name("sensor", name, self._sensors)
                y[layout.slices[name]] = sensor.reading(np.ravel(value))  # names what is wrong
        else:
            given = np.asarray(readings, dtype=np.float64)
            if given.shape != y.shape:
                raise ShapeError(
                    f"readings have shape {given.shape}, expected {y.shape}: those of "
                    f"{', '.join(list(layout.slices)[:8])} …, NaN where there is none."
                )
            y[:] = given
        bad = ~(np.abs(y) < _ABSURD)  # NaN and infinity too
        missing: _Mask | None = None
        if bad.any():
            absurd = int(np.count_nonzero(bad & ~np.isnan(y)))
            self.counts["absurd"] += absurd
            y[bad] = np.nan
            missing = np.logical_or.reduceat(bad, self._starts)
            self._absent += missing
        if self._some_orientations:
            y[layout.orientations] = np.nan
        self.problem.take_load_friction(self._samples.dq, y[None])
        np.take(self._rows, layout.order, out=self._samples.y[0])
        return missing

    def _named(self, missing: _Mask | None) -> dict[str, int]:
        if missing is None:
            return {}
        return {name: 1 for name, gone in zip(self._sensors, missing, strict=True) if gone}

    def _solved(self, missing: _Mask | None, notes: tuple[str, ...]) -> Posterior:
        problem, result = self.problem, self._found
        problem.solve_into(self._samples, result)
        mean = _copied(problem, result.d)
        variance = _copied(problem, result.variance) if self._detail == "variances" else None
        if not (_finite(mean) and (variance is None or _finite(variance))):
            self.counts["not finite"] += 1
            note = "the readings cannot be reconciled in numbers: this is what was known before"
            if self._last is not None:
                return replace(self._last, notes=(*notes, note))
            blind = problem.blind.estimate(
                self._samples.q[0],
                self._samples.dq[0],
                np.zeros(0),
                base_twist=self._samples.twist[0],
                gravity=None if problem.tree.floating else -self._samples.a0[0, :3],
            )
            return replace(blind, notes=(*notes, note))
        rows = np.empty(problem.layout.order.size)
        rows[problem.layout.order] = result.residual[0]
        return Posterior(
            problem.variables,
            mean,
            variance,
            residual=NamedRows(problem.layout.slices, rows),
            absent=self._named(missing),
            notes=notes,
        )


def _copied(problem: MapDynamics, d: Array) -> Array:
    """(size,) numbers of the first sample, apart from what the next step writes to."""
    return np.array(flat(problem.tree, d)[0])


def _finite(values: Array) -> bool:
    return math.isfinite(float(values @ values))
