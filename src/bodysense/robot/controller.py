"""The joint controller: PD or PID in front of the drives, as it comes with a robot or suggested."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from bodysense.errors import MismatchError, ShapeError
from bodysense.spatial.arrays import Array, one_each, read_only

if TYPE_CHECKING:
    from bodysense.robot.robot import Robot


@dataclass(frozen=True, eq=False)
class Controller:
    """tau = K (Kp (q_d - q) + Kd (v_d - v) + Ki ∫(q_d - q) dt), thesis eq (12) plus an integral.

    K is the drive gain of the robot's actuators.

    Attributes:
        kp: (n,) position gains, drive signal per rad.
        kd: (n,) velocity gains, drive signal per rad/s.
        ki: (n,) integral gains, drive signal per rad·s.
        rate: control rate [Hz].
    """

    kp: Array
    kd: Array
    ki: Array
    rate: float

    @classmethod
    def from_gains(
        cls, n_joints: int, *, kp: ArrayLike, kd: ArrayLike, ki: ArrayLike = 0.0, rate: float
    ) -> Controller:
        """Build a controller from numbers or one value per joint."""
        if not (np.isfinite(rate) and rate > 0.0):
            raise ShapeError(f"the control rate is {rate}: give a positive number of Hz.")
        return cls(
            kp=read_only(one_each(kp, n_joints, "kp")),
            kd=read_only(one_each(kd, n_joints, "kd")),
            ki=read_only(one_each(ki, n_joints, "ki")),
            rate=float(rate),
        )


def suggested_controller(
    robot: Robot, *, bandwidth: float = 10.0, rate: float = 5000.0
) -> Controller:
    """PD gains that place each joint, taken alone, at critical damping.

        K Kd = d = min(2 w m, c rate e),      K Kp = d² / (4 m),      w = 2π bandwidth

    with K the drive gain and, over a set of postures, m the joint's largest inertia and e its
    smallest one while all joints are free, 1 / (M⁻¹)_jj. The second bound keeps the sampled loop
    stable where light links hang on heavy ones: c is such that no eigenvalue of M⁻¹ diag(d)
    exceeds the rate. It holds a simulated robot; it is not meant for a real one.

    Args:
        robot: a fixed-base robot.
        bandwidth: of the position loop [Hz], well below the control rate.
        rate: control rate [Hz].
    """
    from bodysense.robot.dynamics.dynamics import (
        mass_matrix,  # which needs robots, as this does not
    )

    if robot.floating_base or robot.n_joints == 0:
        raise MismatchError(
            f"{robot.name!r} has no fixed base with joints: load it with floating_base=False."
        )
    if not 0.0 < bandwidth <= rate / 20.0:
        raise ShapeError(
            f"a bandwidth of {bandwidth:g} Hz at a control rate of {rate:g} Hz is not stable: give "
            "a positive one, at most a twentieth of the rate."
        )
    lower, upper = robot.position_limits
    lower, upper = np.maximum(lower, -np.pi), np.minimum(upper, np.pi)
    q = np.random.default_rng(0).uniform(lower, upper, (64, robot.nq))
    C_inverse = np.linalg.inv(robot.actuators.coupling)  # the controller sees motors
    M = C_inverse.T @ mass_matrix(robot, q) @ C_inverse
    if not (np.linalg.eigvalsh(M) > 0.0).all():
        raise MismatchError(
            f"the mass matrix of {robot.name!r} is not positive: give its massless links a mass, "
            "or their joints a rotor inertia (Ia)."
        )
    largest = np.diagonal(M, axis1=1, axis2=2).max(axis=0)
    inverse = np.linalg.inv(M)
    free = 1.0 / np.diagonal(inverse, axis1=1, axis2=2).max(axis=0)
    # Eigenvalues of M⁻¹ diag(free), from the symmetric matrix that is similar to it.
    fastest = np.linalg.eigvalsh(inverse * np.sqrt(np.outer(free, free))).max()
    damping = np.minimum(4.0 * np.pi * bandwidth * largest, rate * free / fastest)
    gain = robot.actuators.drive_gain
    stiffness = damping**2 / (4.0 * largest)
    return Controller.from_gains(robot.n_joints, kp=stiffness / gain, kd=damping / gain, rate=rate)
