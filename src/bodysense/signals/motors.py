"""From motors to joints, for logs that were recorded before the gears.

With the gear ratios N and the coupling C of motors to joints (`bodysense.robot.Actuators`):

    R = diag(N) C,   q = q_zero + R⁻¹ q_motor,   v = R⁻¹ v_motor,   tau = Rᵀ tau_motor
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bodysense.spatial.arrays import Array

_POSITIONS, _MOTIONS, _TORQUES = ("q", "q_des"), ("v", "v_des", "a", "a_des"), ("tau", "tau_des")
CONVERTED = (*_POSITIONS, *_MOTIONS, *_TORQUES)
"""Quantities that differ between motors and joints."""


@dataclass(frozen=True, eq=False)
class MotorSide:
    """What lies between the motors, where the log was recorded, and the joints.

    Attributes:
        ratio: (n, n) R above, motor turns a joint turn.
        zero: (n,) positions of the joints where all motors are at zero [rad, or m if they slide].
    """

    ratio: Array
    zero: Array

    def to_joints(self, quantity: str, values: Array) -> Array:
        """(n_t, n) values of joints from (n_t, n) values of motors."""
        if quantity in _POSITIONS:
            return np.asarray(np.linalg.solve(self.ratio, values.T).T + self.zero)
        if quantity in _MOTIONS:
            return np.asarray(np.linalg.solve(self.ratio, values.T).T)
        if quantity in _TORQUES:
            return np.asarray(values @ self.ratio)
        return values
