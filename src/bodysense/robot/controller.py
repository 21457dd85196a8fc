"""The joint controller that a robot comes with: PD or PID in front of the drives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from bodysense.errors import ShapeError
from bodysense.spatial.arrays import Array, as_array, read_only


@dataclass(frozen=True)
class Controller:
    """tau = K (Kp (q_d - q) + Kd (v_d - v) + Ki ∫(q_d - q) dt), thesis eq (12) plus an integral.

    K is the drive gain of the robot's actuators.

    Attributes:
        kp: (n,) position gains, drive signal a rad.
        kd: (n,) velocity gains, drive signal a rad/s.
        ki: (n,) integral gains, drive signal a rad·s.
        rate: control rate [Hz].
    """

    kp: Array
    kd: Array
    ki: Array
    rate: float

    @classmethod
    def of(
        cls, n_joints: int, *, kp: ArrayLike, kd: ArrayLike, ki: ArrayLike = 0.0, rate: float
    ) -> Controller:
        """Build a controller from numbers or one value a joint."""
        gains = []
        for name, value in (("kp", kp), ("kd", kd), ("ki", ki)):
            array = np.asarray(value, dtype=np.float64)
            array = np.full(n_joints, float(array)) if array.shape == () else array
            gains.append(read_only(as_array(array, (n_joints,), name)))
        if not (np.isfinite(rate) and rate > 0.0):
            raise ShapeError(f"the control rate is {rate}: give a positive number of Hz.")
        return cls(gains[0], gains[1], gains[2], float(rate))
