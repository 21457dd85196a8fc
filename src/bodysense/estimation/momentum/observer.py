"""`MomentumObserver`: external joint torques with covariance, without accelerations.

From positions, velocities and torques of the joints, by the generalised momentum p = M(q) v of
links and rotors (De Luca and Mattone 2005; as a Kalman filter, Wahrburg et al. 2018):

    dp/dt = tau_drive - friction(v) + C(q, v)ᵀ v - g(q) + tau_ext

The filter, and what its bandwidth means, are described in `_kernels.momentum_filter`. The
covariance is that of the error under a constant external torque, which noise of torques and
velocities, friction of a direction that is not known, positions that had to be predicted, and a
direction of gravity that is not exact bring about. An estimate that changes is late by
1 / (2π bandwidth); this lag is estimated from the change itself, and counted in the variances of
posteriors, not in those of scores: a contact must not hide behind the change that it causes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from bodysense.compiled.views import Table
from bodysense.errors import MismatchError, ShapeError, unknown_name
from bodysense.estimation._kernels.momentum_filter import Settings
from bodysense.estimation.momentum.estimate import MomentumEstimate
from bodysense.estimation.momentum.stream import MomentumStream
from bodysense.estimation.posterior import NamedSlices
from bodysense.robot import Robot
from bodysense.robot.layout import effort_unit
from bodysense.robot.robot import require_robot
from bodysense.sensors.sensor import deviations
from bodysense.spatial.arrays import Array, one_each, read_only

BANDWIDTH = 10.0
"""Hz, at which the estimate follows an external torque with -3 dB: a push of a hand rises in 0.1 s;
ten times as much lets three times the noise through."""
START_STD = 1e2
"""Standard deviation of an external torque before the first sample [N·m]: more than a person's push
makes at a metre; the second sample replaces it."""
LONGEST_STEP = 0.1
"""Seconds between samples beyond which the observer starts anew: what a drive did meanwhile is not
known, and a robot goes from standing to moving within it."""
_SIDES = ("drive", "joint")


class MomentumObserver:
    """The observer of one robot; immutable, `stream` gives it a memory.

    Attributes:
        robot: the robot.
        torque_std: (n_joints,) of the torques, new with every sample.
        velocity_std: (nv,) of the velocities, a base's twist first, new with every sample.
        bandwidth: (nv,) at which the estimates have -3 dB [Hz].
        sides: by joint, "drive" if its torque is that of the motor, with friction and rotor behind
            it, "joint" if it is measured behind the gear.
        variables: names ↔ slices of what is estimated: for a floating base first
            ``fx_total.<base link>`` (6), the external wrench on the whole robot about the base's
            origin in its axes, then ``tau_ext.<joint>``.
    """

    def __init__(
        self,
        robot: Robot,
        *,
        torque_std: ArrayLike,
        velocity_std: ArrayLike,
        base_twist_std: ArrayLike | None = None,
        bandwidth: ArrayLike = BANDWIDTH,
        side: str | Sequence[str] = "drive",
        friction_error: ArrayLike = 0.0,
        gravity_std: float = 0.0,
        start_std: float = START_STD,
        longest_step: float = LONGEST_STEP,
    ) -> None:
        """Lay the observer out.

        Args:
            robot: with the friction law and the rotor inertias of its drives.
            torque_std: standard deviations of the torques, positive, one or one per joint [N·m].
            velocity_std: of the velocities of the joints, positive [rad/s].
            base_twist_std: (6,) of the twist of a floating base, positive, linear first.
            bandwidth: one number, or one for each velocity (a base's six first) [Hz].
            side: of the torques, for all joints or for each.
            friction_error: standard deviation of the friction law per unit of friction, one number
                or one per joint: 0.1 for a law that holds within ten per cent.
            gravity_std: of each component of gravity in the axes of the base [m/s²]; of an IMU that
                errs by 0.01 rad it is 0.1.
            start_std: standard deviation of the external torques before the first sample.
            longest_step: seconds between samples beyond which the observer starts anew.

        Raises:
            ShapeError: numbers that are no standard deviations or bandwidths.
            MismatchError: a floating base without base_twist_std, sides that differ among joints
                that share motors, or friction under load that locks a drive.
        """
        require_robot(robot)
        self.robot = robot
        n, base = robot.n_joints, robot.nv - robot.n_joints
        self.torque_std = read_only(_positive(torque_std, n, "torque_std"))
        self.velocity_std = read_only(self._velocities(velocity_std, base_twist_std))
        self.bandwidth = read_only(_positive(bandwidth, robot.nv, "bandwidth"))
        self.sides = _sides(side, robot)
        none = np.zeros(base)
        error = deviations(friction_error, n, "friction_error")
        start = _positive(start_std, robot.nv, "start_std")
        self._settings = Settings(
            theta=self._parameters(),
            omega=2.0 * np.pi * self.bandwidth,
            velocity=self.velocity_std**2,
            torque=np.concatenate([none, self.torque_std**2]),
            friction=np.concatenate([none, error]),
            start=start**2,
            gravity=float(deviations(gravity_std, 1, "gravity_std")[0]) ** 2,
            longest=float(_positive(longest_step, 1, "longest_step")[0]),
        )
        names = [(f"tau_ext.{joint}", 1) for joint in robot.joint_names]
        if robot.floating_base:
            names.insert(0, (f"fx_total.{robot.link_names[0]}", 6))
        self.variables = NamedSlices.from_sizes("quantity", names)

    def __repr__(self) -> str:
        low, high = self.bandwidth.min(), self.bandwidth.max()
        band = f"{low:g}" if low == high else f"{low:g} to {high:g}"
        return f"<MomentumObserver: {self.robot.name}, bandwidth {band} Hz>"

    @property
    def units(self) -> Mapping[str, str]:
        """Unit by quantity; that of a wrench is of its force, N."""
        types = zip(self.robot.joint_names, self.robot.joint_types, strict=True)
        units = {f"tau_ext.{joint}": effort_unit(kind) for joint, kind in types}
        return {name: units.get(name, "N") for name in self.variables}

    def stream(self) -> MomentumStream:
        """A new memory of this observer."""
        return MomentumStream(self)

    def estimate(
        self,
        t: ArrayLike,
        q: ArrayLike,
        dq: ArrayLike,
        tau: ArrayLike,
        *,
        base_twist: ArrayLike | None = None,
        gravity: ArrayLike | None = None,
    ) -> MomentumEstimate:
        """External torques of a recording, in one call; see `MomentumStream.run`."""
        return self.stream().run(t, q, dq, tau, base_twist=base_twist, gravity=gravity)

    def _velocities(self, velocity_std: ArrayLike, base_twist_std: ArrayLike | None) -> Array:
        joints = _positive(velocity_std, self.robot.n_joints, "velocity_std")
        if not self.robot.floating_base:
            return joints
        if base_twist_std is None:
            raise MismatchError(
                f"{self.robot.name!r} floats: give base_twist_std, six standard deviations of its "
                "base's twist, linear first [m/s, rad/s]."
            )
        return np.concatenate([_positive(base_twist_std, 6, "base_twist_std"), joints])

    def _parameters(self) -> Array:
        """(p,) theta without rotors and friction that are not behind the torques."""
        robot, theta = self.robot, np.array(self.robot.theta)
        layout = robot.layout
        behind = np.array([side == "joint" for side in self.sides])
        for term in layout.friction_terms:
            theta[layout.friction(term)][behind] = 0.0
        theta[layout.rotor][behind] = 0.0
        if layout.coupled and behind.any():
            if not behind.all():
                raise MismatchError(
                    f"motors of {robot.name!r} move several joints each: give one side for all."
                )
            theta[layout.coupling] = 0.0
        if robot.friction.model.depends_on_load:
            share = np.abs(theta[layout.friction("Fl")])
            if (share >= 1.0).any():
                joint = robot.joint_names[int(share.argmax())]
                raise MismatchError(
                    f"friction under load of joint {joint!r} is {share.max():g} of the load, so "
                    "that its drive locks itself: give less than 1."
                )
        return theta

    @cached_property
    def tables(self) -> tuple[Table, Table]:
        """Tree and settings, as kernels take them."""
        return Table(self.robot.tree), Table(self._settings)


def _positive(value: ArrayLike, n: int, name: str) -> Array:
    values = one_each(value, n, name)
    if not (values > 0.0).all():
        raise ShapeError(f"{name} holds {values.min():g}: give positive numbers.")
    return values


def _sides(side: str | Sequence[str], robot: Robot) -> tuple[str, ...]:
    sides = (side,) * robot.n_joints if isinstance(side, str) else tuple(side)
    if len(sides) != robot.n_joints:
        raise ShapeError(f"{len(sides)} sides are given for {robot.n_joints} joints: one for each.")
    for name in sides:
        if name not in _SIDES:
            raise unknown_name("side", name, _SIDES)
    return sides
