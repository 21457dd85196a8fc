"""Motors, gears, what couples them to the joints, and the joint controller in front of them.

Reduced motor coordinates are motor angles divided by the gear ratio. Motors may move more than
one joint (a wrist whose last motor sits before the fifth joint): with the coupling matrix C,

    q_reduced = C q,        tau = Cᵀ tau_reduced,

the second following from the first since both sides carry the same power. Raw motor quantities:

    q_motor = diag(gear_ratio) C (q - q_zero),      tau = Cᵀ diag(gear_ratio) tau_motor
    tau_reduced = diag(drive_gain) i

A motor k whose row c of C has more than one entry adds to the joint torques

    Iam (c cᵀ - diag(c cᵀ)) a + Fvm (c cᵀ - diag(c cᵀ)) v + Fcm c s(cᵀ v)

What of its inertia and viscous friction falls on the joints' own axes is counted in their Ia and
Fv: the usual lumped form, so that the published TX40 values can be used as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from bodysense.errors import BodysenseError, MismatchError, ShapeError, unknown_name
from bodysense.spatial.arrays import Array, as_array, one_each, read_only

if TYPE_CHECKING:
    from bodysense.robot.robot import Robot

COUPLED_TERMS = ("Iam", "Fvm", "Fcm")
"""Prefixes of the parameters that a coupled motor can have: inertia, viscous, Coulomb."""

_SINGULAR = 1e-9
"""Least singular value of motors that move each other's joints, in scaled rows and columns."""


@dataclass(frozen=True, eq=False)
class Actuators:
    """The drives of a robot, one motor per joint.

    Attributes:
        gear_ratio: (n,) motor turns per joint turn, negative where the motor turns the other way.
        drive_gain: (n,) torque at the joint per unit of drive signal, N·m/A or the log's own unit.
        coupling: (n, n) C above, ones on its diagonal, read-only.
        coupled_terms: which parameters a coupled motor has, out of `COUPLED_TERMS`.
    """

    gear_ratio: Array
    drive_gain: Array
    coupling: Array
    coupled_terms: tuple[str, ...] = ()

    @classmethod
    def from_values(
        cls,
        n_joints: int,
        *,
        gear_ratio: ArrayLike = 1.0,
        drive_gain: ArrayLike = 1.0,
        coupling: ArrayLike | None = None,
        coupled_terms: tuple[str, ...] = ("Fvm", "Fcm"),
    ) -> Actuators:
        """Build the drives of `n_joints` joints from numbers or one value per joint."""
        ratio = _nonzero(
            gear_ratio, n_joints, "gear_ratio", "motor turns per joint turn, 1 for a direct drive"
        )
        gain = _nonzero(
            drive_gain,
            n_joints,
            "drive_gain",
            "torque per unit of drive signal, 1 if the signal is a torque",
        )
        matrix = np.eye(n_joints) if coupling is None else coupling
        matrix = as_array(matrix, (n_joints, n_joints), "coupling")
        if (np.diag(matrix) != 1.0).any():
            raise BodysenseError(
                "coupling must have ones on its diagonal: rows are motors in reduced "
                "coordinates, put the gear ratio into gear_ratio."
            )
        if _singular(matrix):
            raise BodysenseError("coupling is singular: every joint needs a motor that moves it.")
        for term in coupled_terms:
            if term not in COUPLED_TERMS:
                raise unknown_name("coupled term", term, COUPLED_TERMS)
        terms = tuple(term for term in COUPLED_TERMS if term in coupled_terms)
        uncoupled = np.array_equal(matrix, np.eye(n_joints))
        return cls(read_only(ratio), read_only(gain), read_only(matrix), () if uncoupled else terms)

    @property
    def n_joints(self) -> int:
        return int(self.gear_ratio.size)

    @property
    def coupled_motors(self) -> tuple[int, ...]:
        """Motors (0-based) that move more than one joint."""
        return tuple(k for k, row in enumerate(self.coupling) if np.count_nonzero(row) > 1)

    @property
    def coupled(self) -> tuple[tuple[str, int], ...]:
        """Prefix and motor of every coupling parameter, in the order of theta."""
        return tuple((term, k) for k in self.coupled_motors for term in self.coupled_terms)

    @property
    def motor_from_joint(self) -> Array:
        """(n, n) R of ``q_motor = R (q - q_zero)``; joint torques are ``tau = Rᵀ tau_motor``."""
        return self.gear_ratio[:, None] * self.coupling

    def joint_positions(self, q_motor: ArrayLike, q_zero: ArrayLike = 0.0) -> Array:
        """(n_t, n) joint angles from (n_t, n) motor angles: ``q_zero + R⁻¹ q_motor``."""
        q = as_array(q_motor, (None, self.n_joints), "q_motor")
        zero = one_each(q_zero, self.n_joints, "q_zero")
        joint: Array = np.linalg.solve(self.motor_from_joint, q.T).T + zero
        return joint

    def joint_torques(self, tau_motor: ArrayLike) -> Array:
        """(n_t, n) joint torques from (n_t, n) torques at the motor shafts: ``Rᵀ tau_motor``."""
        tau = as_array(tau_motor, (None, self.n_joints), "tau_motor")
        joint: Array = tau @ self.motor_from_joint
        return joint

    def drive_torques(self, signal: ArrayLike) -> Array:
        """(n_t, n) joint torques from (n_t, n) drive signals: ``Cᵀ diag(drive_gain) i``."""
        i = as_array(signal, (None, self.n_joints), "drive signal")
        joint: Array = (i * self.drive_gain) @ self.coupling
        return joint


def _singular(coupling: Array) -> bool:
    """Whether a coupling of unit diagonal is singular to rounding, whatever its units.

    Motors and joints in the right order make it block triangular, and what lies beside the blocks,
    however large, does not count: a determinant of the whole would lose a one among it.
    """
    reach = coupling != 0.0
    for _ in range(len(coupling).bit_length()):
        reach = reach @ reach
    for block_of in np.unique(reach & reach.T, axis=0):
        block = coupling[np.ix_(block_of, block_of)]
        block = block / np.abs(block).max(axis=1, keepdims=True)
        block = block / np.abs(block).max(axis=0)
        if np.linalg.svd(block, compute_uv=False)[-1] < _SINGULAR:
            return True
    return False


def _nonzero(value: ArrayLike, n: int, name: str, meaning: str) -> Array:
    values = one_each(value, n, name)
    if (values == 0.0).any():
        joint = int(np.argmin(np.abs(values))) + 1
        raise ShapeError(f"{name} of joint {joint} is zero: give {meaning}.")
    return values


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
    exceeds the rate. Bandwidth of the position loop and control rate are in Hz. It holds a
    simulated robot on a fixed base; it is not meant for a real one.
    """
    from bodysense.robot.robot import require_robot  # which imports this module

    require_robot(robot)
    from bodysense.robot.dynamics import mass_matrix  # which needs robots, as this does not

    if robot.floating_base or robot.n_joints == 0:
        raise MismatchError(
            f"{robot.name!r} has no fixed base with joints: load it with floating_base=False."
        )
    if not 0.0 < bandwidth <= rate / 20.0:
        raise ShapeError(
            f"a bandwidth of {bandwidth:g} Hz at a control rate of {rate:g} Hz is not stable: give "
            "a positive one, at most a twentieth of the rate."
        )
    lower, upper = robot.position_range
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
