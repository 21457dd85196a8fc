"""`Gate`: what of a sample is plausible, and how much it counts.

A loop gets readings that are missing, absurd or spikes. Three things are looked at, in this order:

    size     beyond what the robot can do: the reading is absent
    change   more than 3 standard deviations z of its usual change since the last accepted one: its
             noise counts as z / 3 times as large (Huber's weights), unless that has gone on for
             more than 3 samples: a contact stays, a spike does not
    residual more than 5 standard deviations between reading and estimate: the noise of the worst
             sensor counts as larger, and the sample is solved once more

Joints whose position or velocity does not come are predicted, with a standard deviation that grows
to their usual velocity; `UncertainState` says what it makes of the estimates.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from bodysense.compiled.views import Table, zeros_of
from bodysense.estimation._kernels.watch import deliver, prepare, review
from bodysense.estimation._kernels.watch_memory import (
    DT,
    HELD_DQ,
    HELD_Q,
    IMPLAUSIBLE,
    ODD_SENSOR,
    ODD_STATE,
    OUTLIER,
    OUTLIERS,
    OVERSPEED,
    ROBUST,
    UNCERTAIN,
    USUAL,
    WORST,
    Channels,
    Inputs,
    Outputs,
    Residuals,
    Watch,
)
from bodysense.estimation.map_dynamics.estimator import MapDynamics
from bodysense.estimation.map_dynamics.plausible_sizes import PlausibleSizes
from bodysense.estimation.map_dynamics.solution import Samples
from bodysense.sensors import Accelerometer, Gyroscope, JointAcceleration, JointTorque, Sensor

ABSURD = 1e9
"""Readings beyond this in SI units are no measurement; they are taken for absent."""

_OVERLOAD = 5.0
"""Times the limit of a joint's effort: gears stand peaks of three times their rated torque, and
files hold rated ones."""

_FASTEST = 1e3  # m/s² and rad/s: beyond ± 100 g, the widest gyroscopes and any joint
_STRONGEST = 1e6  # N and N·m of wrenches
_JERKIEST = 1e5  # rad/s² of a joint's acceleration


class Gate:
    """Looks at the samples of one stream, before and after they are solved.

    Attributes:
        watch: what is known of joints and sensors, see `Watch`.
        channels: what does not change, see `Channels`.
        inputs: what arrived, for the caller to fill in.
        counts: what happened at this sample, see `Watch`.
    """

    def __init__(
        self, problem: MapDynamics, samples: Samples, *, robust: bool = True, derive: bool = False
    ) -> None:
        """Allocate for an estimator, whose samples are written to (the first of them).

        Args:
            problem: the estimator.
            samples: what its solver takes.
            robust: whether readings that do not fit count for less.
            derive: whether joint accelerations are derived where they do not come.
        """
        layout, n = problem.layout, problem.robot.n_joints
        self._problem, self._tree = problem, problem._problem[1]
        self._missing_words: Mapping[str, int] = {}
        self.channels = _channels(problem, derive)
        sizes = {
            "m": layout.size,
            "sensors": len(problem.sensors),
            "joints": n,
            "terms": problem.drive.shape[1],
        }
        self.watch: Watch = zeros_of(Watch, **sizes)
        self.watch.now[ROBUST] = robust
        self.watch.doubt[:] = self.watch.scale[:] = 1.0
        self.inputs = Inputs(np.zeros(n), np.zeros(n), np.zeros(layout.size))
        self.residual = np.full(layout.order.size, np.nan)
        outputs = Outputs(samples.q[0], samples.dq[0], samples.y[0], samples.weight[0])
        bundles = self.channels, self.watch, self.inputs, outputs, Residuals(self.residual)
        self._tables = [Table(bundle) for bundle in bundles]
        self._channels, self._watch, self._inputs, self._outputs, self._residuals = (
            table.address for table in self._tables
        )
        self._robot = self._tree.address
        self._weight, self._names = samples.weight[0], tuple(s.name for s in problem.sensors)
        self._lacks_position = np.ones(n, dtype=np.bool_)
        self._all_known = False

    @property
    def addresses(self) -> tuple[int, int, int, int]:
        """Of the robot's tree, channels, watch and outputs, for further kernels."""
        return self._robot, self._channels, self._watch, self._outputs

    @property
    def counts(self) -> NDArray[np.int64]:
        return self.watch.counts

    def lacking(self) -> list[int]:
        """Joints whose position has never arrived, once the inputs are filled in."""
        if self._all_known:
            return []
        self._lacks_position &= ~np.isfinite(self.inputs.q)
        self._all_known = not self._lacks_position.any()
        return [int(j) for j in np.flatnonzero(self._lacks_position)]

    def take(self, dt: float) -> None:
        """Take the inputs in, dt after those before; negative: there is nothing to go by."""
        self.watch.now[DT] = dt
        prepare(self._robot, self._channels, self._watch, self._inputs)

    def hand_on(self) -> None:
        """Write what was made of the inputs to where the solver takes it."""
        deliver(self._channels, self._watch, self._outputs)

    def look_back(self) -> int:
        """Take `residual` in; the sensor that the estimate contradicts most, or -1."""
        review(self._channels, self._watch, self._residuals)
        now = self.watch.now
        return int(self.counts[ODD_SENSOR]) if now[WORST] > OUTLIER and now[ROBUST] else -1

    def widen(self, sensor: int) -> None:
        """Let the noise of a sensor be as large as its residual asks for."""
        watch = self.watch
        larger = watch.now[WORST] / USUAL
        watch.scale[sensor] *= larger
        watch.doubt[sensor] = max(watch.doubt[sensor], 1.0) * larger
        watch.outliers[sensor] += 1
        self._weight[self.channels.block[sensor]] = 1.0 / watch.scale[sensor]

    def absent(self) -> Mapping[str, int]:
        """1 by name for sensors without a reading at this sample."""
        missing = self.watch.missing
        if not missing.any():
            return {}
        return {self._names[k]: 1 for k in np.flatnonzero(missing)}

    @property
    def uncertain(self) -> bool:
        """Whether the state of any joint is predicted."""
        return bool(self.counts[UNCERTAIN])

    def tally(self, counts: dict[str, int]) -> None:
        """Add what happened at this sample to counts by name."""
        here = self.counts
        for name, place in _COUNTED:
            counts[name] += int(here[place])


_COUNTED = (
    ("positions predicted", HELD_Q),
    ("velocities predicted", HELD_DQ),
    ("implausible states", ODD_STATE),
    ("absurd", IMPLAUSIBLE),
    ("outliers", OUTLIERS),
)
"""Names of the counts of `Watch`, per joint, reading and sensor."""

COUNTED = tuple(name for name, _ in _COUNTED)


def _channels(problem: MapDynamics, derive: bool) -> Channels:
    robot, layout = problem.robot, problem.layout
    rows, m, largest = layout.arrays, layout.size, np.full(layout.size, ABSURD)
    sigma, place = np.zeros(m), np.argsort(layout.order)
    for sensor in problem.sensors:
        where = layout.slices[sensor.name]
        largest[where] = _largest(sensor, problem)
        sigma[where] = np.sqrt(np.diag(sensor.covariance))
    on = np.concatenate([rows.on_alpha, rows.on_wrench, rows.on_external], axis=1)
    says = np.asarray(np.abs(on).max(axis=1, initial=0.0) > 0.0)
    orientation = np.zeros(m, dtype=np.int64)
    orientation[layout.orientations] = 1
    velocity = np.asarray(robot.velocity_limit, dtype=np.float64)
    return Channels(
        largest=largest,
        sigma=sigma,
        counts=says[place][:m].astype(np.int64),
        friction=np.ascontiguousarray(rows.friction[place][:m]),
        begin=np.array([*(w.start for w in layout.slices.values()), m], dtype=np.int64),
        constant=np.array([_constancy(s, derive) for s in problem.sensors], dtype=np.int64),
        speed=np.where(velocity > 0.0, np.minimum(OVERSPEED * velocity, _FASTEST), _FASTEST),
        drive=np.ascontiguousarray(problem.drive),
        block=np.array([layout.block_of[s.name] for s in problem.sensors], dtype=np.int64),
        order=layout.order,
        fixed=np.where(np.isfinite(layout.constants), layout.constants, 0.0),
        orientation=orientation,
    )


def _constancy(sensor: Sensor, derive: bool) -> int:
    if not sensor.channels:
        return 1
    return 2 if derive and isinstance(sensor, JointAcceleration) else 0


def _largest(sensor: Sensor, problem: MapDynamics) -> float:
    """What a reading of this sensor can be at most."""
    if not sensor.channels:
        return ABSURD
    if isinstance(sensor, JointTorque):
        limit = problem.robot.effort_limit[problem.robot.joint_names.index(sensor.joint)]
        if not 0.0 < limit < np.inf:
            return _STRONGEST
        # Limits in robot files are placeholders at times: what the links may need counts too.
        return max(_OVERLOAD * float(limit), PlausibleSizes.of(problem.robot).moment)
    if isinstance(sensor, JointAcceleration):
        return _JERKIEST
    return _FASTEST if isinstance(sensor, (Accelerometer, Gyroscope)) else _STRONGEST
