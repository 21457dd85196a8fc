"""The joint controller that a robot comes with: PD or PID in front of the drives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from bodysense.errors import ShapeError
from bodysense.spatial.arrays import Array, one_each, read_only


@dataclass(frozen=True, eq=False)
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
        """Build a controller from numbers or one value per joint."""
        if not (np.isfinite(rate) and rate > 0.0):
            raise ShapeError(f"the control rate is {rate}: give a positive number of Hz.")
        return cls(
            kp=read_only(one_each(kp, n_joints, "kp")),
            kd=read_only(one_each(kd, n_joints, "kd")),
            ki=read_only(one_each(ki, n_joints, "ki")),
            rate=float(rate),
        )
