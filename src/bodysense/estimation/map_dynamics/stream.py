"""`EstimatorStream`: the estimator in a control loop, a sample at a time.

A loop goes on whatever its sensors do. Positions and velocities that do not come are predicted, and
what is not known of them widens the estimates; readings that are absurd, spikes or contradicted by
all others count for less or not at all (see `gating`); constant errors are followed
(`online_bias`), sensors that stop working are named (`sensor_health`), and all channels may pass
one low-pass (`causal`). Samples that come late are left out or used as told. All of it is counted,
and what comes out is finite, always.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from bodysense.errors import MismatchError, ShapeError, unknown_name
from bodysense.estimation.map_dynamics.causal import CausalFilter
from bodysense.estimation.map_dynamics.estimator import Detail, MapDynamics
from bodysense.estimation.map_dynamics.gating import ABSURD, COUNTED, Gate
from bodysense.estimation.map_dynamics.online_bias import OnlineBiases
from bodysense.estimation.map_dynamics.sensor_health import HealthWatch, SensorHealth
from bodysense.estimation.map_dynamics.solution import Samples, flat
from bodysense.estimation.map_dynamics.uncertain_state import UncertainState
from bodysense.estimation.posterior import NamedRows, Posterior
from bodysense.spatial.arrays import Array

_PAUSE = 0.5
"""s, and periods of the samples, after which nothing is predicted from the sample before."""

_PAUSE_PERIODS = 10.0

_SET_BACK = 5
"""Late samples in a row, each later than the one before: the clock was set back."""

_LOOK = 16
"""Samples between two looks at how fast the base changes its twist."""

_HEALTH = 0.15
"""s between two looks at the health of the sensors: rare enough for 99 of 100 steps at 1 kHz."""

_Late = Literal["ignore", "use"]


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
        counts: what happened so far, by name: "samples"; "late"; "pauses"; "clock set back";
            positions and velocities of joints that were predicted, and base twists; states and
            readings that were not accepted ("implausible states", "absurd", "outliers");
            samples that were "solved again" without the sensor that all others contradict; and
            those where the result was "not finite".
        absent: by sensor, how many samples came without a reading of it.
        cutoff: [Hz] of the low-pass that all channels pass, or `None`.
        delay: [s] of the estimates behind the samples, that of the filter.
    """

    def __init__(
        self,
        problem: MapDynamics,
        *,
        gravity: ArrayLike | None = None,
        late: _Late = "ignore",
        detail: Detail = "variances",
        robust: bool = True,
        cutoff: float | None = None,
        rate: float | None = None,
        encoder_std: ArrayLike | None = None,
    ) -> None:
        """Lay out what every step needs, and compile.

        Args:
            problem: the estimator.
            gravity: (3,) in the frame of a root that is held.
            late: what to do with samples that are older than the last: "ignore" them, returning
                the last posterior, or "use" them as if they were on time.
            detail: "means" or "variances".
            robust: whether readings and states that do not fit what came before, or what all other
                sensors say, count for less; readings that cannot be are absent in any case.
            cutoff: [Hz] of the low-pass that all channels pass; by default none does.
            rate: [Hz] of the samples, which the low-pass needs.
            encoder_std: [rad or m] of the positions whose differences the velocities are: of one
                joint or each. The noise of joint accelerations that the low-pass derives follows
                from it; by default it is estimated from the velocities.
        """
        if late not in ("ignore", "use"):
            raise unknown_name("policy for late samples", str(late), ("ignore", "use"))
        if detail not in ("means", "variances"):
            raise unknown_name("detail of a stream", str(detail), ("means", "variances"))
        if cutoff is not None and rate is None:
            raise ShapeError("a low-pass needs the rate of the samples: give rate in Hz.")
        self.problem, self.cutoff = problem, cutoff
        names = "samples", "late", "pauses", "clock set back", "base twists predicted"
        self.counts = dict.fromkeys((*names, *COUNTED, "solved again", "not finite"), 0)
        n, layout = problem.robot.n_joints, problem.layout
        self._late, self._detail, self._n = late, detail, n
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
        self._samples = problem.samples(
            np.zeros(n), np.zeros(n), self._constant, base_twist=np.zeros(6), gravity=gravity
        )
        self._gate = Gate(problem, self._samples, robust=robust, derive=cutoff is not None)
        self._filter = None
        if cutoff is not None and rate is not None:
            self._filter = CausalFilter(
                problem, self._gate, cutoff=cutoff, rate=rate, encoder_std=encoder_std
            )
        self._doubt = UncertainState(problem, self._samples)
        self._biases = OnlineBiases(problem, self._gate, self._samples)
        self._health = HealthWatch(tuple(self._sensors), self._gate)
        self._twist, self._twist_rate, self._s_twist = np.zeros((3, 6))
        self._held_twist, self._since_health = False, 0.0
        self._at_rest: tuple[str, ...] = ()
        if problem.tree.floating:
            self._at_rest = (f"no base_twist: {problem.tree.names[0]} is taken to keep its own",)
        self._last: Posterior | None = None
        self._t, self._t_late = -np.inf, -np.inf
        self._period, self._lates = np.inf, 0
        self._found = problem.solve(self._samples, detail)  # compiles, and is written to again

    @property
    def absent(self) -> dict[str, int]:
        """By sensor, how many samples came without a reading of it."""
        return dict(zip(self._sensors, self._absent.tolist(), strict=True))

    @property
    def delay(self) -> float:
        """Of the estimates behind the samples [s]: that of the low-pass, if there is one."""
        return 0.0 if self._filter is None else self._filter.delay

    @property
    def taken(self) -> Samples:
        """What the solver took of the last sample, for those who only read it."""
        return self._samples

    @property
    def biases(self) -> dict[str, Array]:
        """By sensor with `bias_sigma`, the constant errors of its readings as they are known."""
        slices = self.problem.layout.slices
        return {
            name: self._gate.watch.bias[slices[name]].copy()
            for name, sensor in self._sensors.items()
            if sensor.bias_sigma is not None
        }

    def health(self) -> dict[str, SensorHealth]:
        """By sensor, whether it works, and what is wrong if not."""
        return self._health.all()

    def restart(self) -> None:
        """Forget the time of the last sample, as after a clock was set back."""
        self._t, self._period, self._lates = -np.inf, np.inf, 0
        if self._filter is not None:
            self._filter.restart()

    def step(self, sample: Sample) -> Posterior:
        """Posterior at the time of the sample, less `delay`.

        Raises:
            UnknownNameError: readings of a sensor that the estimator does not have.
            ShapeError: another number of joints or readings.
            MismatchError: positions of a joint have never arrived.
        """
        self.counts["samples"] += 1
        if not sample.t > self._t and self._is_late(sample.t):
            last = self._last
            if last is not None:
                note = f"the sample of {sample.t:g} s is late: this is of {self._t:g} s"
                return replace(last, notes=(note,))
        dt = self._elapsed(sample.t)
        notes = self._take_state(sample, dt)
        self._take_readings(sample.readings)
        self._gate.take(dt)
        if self._gate.uncertain:
            notes += self._predicted()
        posterior = self._solved(dt, notes)
        self._last = posterior
        self._t = max(self._t, sample.t) if sample.t == sample.t else self._t
        return posterior

    def _is_late(self, t: float) -> bool:
        """Whether a sample is to be left out; notes when the clock was set back."""
        self.counts["late"] += 1
        self._lates = self._lates + 1 if t > self._t_late else 1
        self._t_late = t if t == t else -np.inf
        if self._lates >= _SET_BACK and self._late == "ignore":
            self.counts["clock set back"] += 1
            self.restart()
            return False
        return self._late == "ignore" and self._last is not None

    def _elapsed(self, t: float) -> float:
        """Time since the last sample; negative where it says nothing about this one."""
        dt = t - self._t
        if not 0.0 < dt < np.inf:
            return -1.0
        self._lates = 0
        if dt > max(_PAUSE, _PAUSE_PERIODS * self._period) and self._period < np.inf:
            self.counts["pauses"] += 1
            return -1.0
        self._period = dt if self._period == np.inf else self._period + 0.05 * (dt - self._period)
        return dt

    def _take_state(self, sample: Sample, dt: float) -> tuple[str, ...]:
        inputs = self._gate.inputs
        if np.shape(sample.q) != (self._n,) or np.shape(sample.dq) != (self._n,):
            raise ShapeError(
                f"q has shape {np.shape(sample.q)} and dq {np.shape(sample.dq)}: give {self._n} "
                f"numbers each, in the order {', '.join(self.problem.robot.joint_names)}; NaN "
                "where one is missing."
            )
        inputs.q[:], inputs.dq[:] = sample.q, sample.dq
        lacking = self._gate.lacking()
        if lacking:
            names = ", ".join(self.problem.robot.joint_names[j] for j in lacking)
            raise MismatchError(
                f"no position of {names} has arrived so far: start with a sample that has all of "
                "them."
            )
        if sample.base_twist is None:
            return self._at_rest
        return self._take_twist(np.asarray(sample.base_twist, dtype=np.float64), dt)

    def _take_twist(self, twist: Array, dt: float) -> tuple[str, ...]:
        """Twist of the base; what is missing stays as it was, with less and less certainty."""
        if twist.shape != (6,):
            raise ShapeError(f"base_twist has shape {twist.shape}, expected (6,).")
        notes: tuple[str, ...] = ()
        if float(twist @ twist) < ABSURD**2:  # NaN is not
            if self._held_twist or (dt > 0.0 and self.counts["samples"] % _LOOK == 0):
                self._follow_twist(twist, dt)
            self._twist[:] = twist
        else:
            self._held_twist = True
            known = np.abs(twist) < ABSURD
            self.counts["base twists predicted"] += 1
            notes = ("missing components of the base twist are kept as they were",)
            self._twist[known], self._s_twist[known] = twist[known], 0.0
            grown = self._s_twist + max(dt, 0.0) * np.sqrt(self._twist_rate)
            self._s_twist[~known] = grown[~known]
        filtered = self._twist if self._filter is None else self._filter.base_twist(self._twist)
        self._samples.twist[0] = filtered
        return notes

    def _follow_twist(self, twist: Array, dt: float) -> None:
        """Learn how fast the twist changes, now and then."""
        if dt > 0.0 and not self._held_twist:
            rate = (twist - self._twist) / dt
            self._twist_rate += 0.1 * (rate * rate - self._twist_rate)
        self._s_twist[:], self._held_twist = 0.0, False

    def _take_readings(self, readings: Mapping[str, ArrayLike] | Array) -> None:
        """Put readings where the gate looks for them."""
        y = self._gate.inputs.y
        if not isinstance(readings, Mapping):
            if np.shape(readings) != y.shape:
                layout = self.problem.layout
                raise ShapeError(
                    f"readings have shape {np.shape(readings)}, expected {y.shape}: those of "
                    f"{', '.join(list(layout.slices)[:8])} …, NaN where there is none."
                )
            y[:] = readings
            return
        y[:] = self._constant
        for name, value in readings.items():
            place = self._plain.get(name)
            if place is not None and np.shape(value) == place[1]:
                y[place[0]] = value
                continue
            sensor = self._sensors.get(name)
            if sensor is None:
                raise unknown_name("sensor", name, self._sensors)
            # names what is wrong
            y[self.problem.layout.slices[name]] = sensor.reading(np.ravel(value))

    def _predicted(self) -> tuple[str, ...]:
        """Say which joints are predicted."""
        names, watch = self.problem.robot.joint_names, self._gate.watch
        q = [names[j] for j in np.flatnonzero(watch.s_q > 0.0)]
        dq = [names[j] for j in np.flatnonzero(watch.s_dq > 0.0)]
        notes = [f"positions of {', '.join(q)} are missing and predicted"] if q else []
        notes += [f"velocities of {', '.join(dq)} are missing and predicted"] if dq else []
        return tuple(notes)

    def _solved(self, dt: float, notes: tuple[str, ...]) -> Posterior:
        problem, gate, found = self.problem, self._gate, self._found
        if problem.under_load:
            problem.take_load_friction(gate.watch.dq[None], gate.watch.y[None])
        (gate if self._filter is None else self._filter).hand_on()
        problem.solve_into(self._samples, found)
        gate.residual[problem.layout.order] = found.residual[0]
        odd = gate.look_back()
        if odd >= 0:
            self.counts["solved again"] += 1
            gate.widen(odd)
            problem.solve_into(self._samples, found)
            gate.residual[problem.layout.order] = found.residual[0]
        mean = np.array(flat(problem.tree, found.d)[0])
        variance = None
        if self._detail == "variances":
            variance = np.array(flat(problem.tree, found.variance)[0])
        if variance is not None and (gate.uncertain or self._held_twist):
            watch = gate.watch
            spread = watch.s_q, watch.s_dq, self._s_twist
            variance += self._doubt.added_variance(mean, *spread)
        gate.tally(self.counts)
        absent = gate.absent()
        if absent:
            self._absent += gate.watch.missing
        if not (_finite(mean) and (variance is None or _finite(variance))):
            return self._as_before(notes, absent)
        if self._biases:
            self._biases.learn(dt, gate.residual, mean, variance)
        self._since_health += max(dt, 0.0)
        if self._since_health >= _HEALTH:
            self._since_health = 0.0
            notes += self._health.follow(self._period)
        rows = gate.residual.copy()
        return Posterior(
            problem.variables,
            mean,
            variance,
            residual=NamedRows(problem.layout.slices, rows),
            absent=absent,
            notes=notes,
        )

    def _as_before(self, notes: tuple[str, ...], absent: Mapping[str, int]) -> Posterior:
        """What is returned where the numbers of a sample are not finite."""
        self.counts["not finite"] += 1
        note = "the readings cannot be reconciled in numbers: this is what was known before"
        if self._last is not None:
            return replace(self._last, notes=(*notes, note))
        gravity = None if self.problem.tree.floating else -self._samples.a0[0, :3]
        state = self._samples.q[0], self._samples.dq[0], np.zeros(0)
        twist = self._samples.twist[0]
        blind = self.problem.blind.estimate(*state, base_twist=twist, gravity=gravity)
        return replace(blind, absent=absent, notes=(*notes, note))


def _finite(values: Array) -> bool:
    return math.isfinite(float(values @ values))
