"""Families of motions that are linear in their coefficients, with rest at the ends built in.

    q_i(t) = anchor_i + Phi(t) x_i,     v_i = Phi'(t) x_i,     a_i = Phi''(t) x_i

so that limits of position, velocity and acceleration are linear in the coefficients x, and a
gradient by q, v, a becomes one by x through a product with Phi. Coefficients are scaled such that
numbers of the size of 1 spread the acceleration evenly over the frequencies.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import null_space

from bodysense.errors import TrajectoryError, unknown_name
from bodysense.excitation.fourier import FourierTrajectory
from bodysense.excitation.trajectory import SplineTrajectory, Trajectory, positive
from bodysense.spatial.arrays import Array


@dataclass(frozen=True)
class MotionFamily:
    """Motions of one duration; they end where they start, so that they can be repeated.

    A ``fourier`` family has series (`FourierTrajectory`) whose first instant is at rest:
    sum_k a_k = 0 (velocity) and sum_k k b_k = 0 (acceleration). Its coefficients run over
    orthonormal bases of what is left of a_k = z_k / k and b_k = z_k / k, as
    `FourierTrajectory.random` draws them.

    A ``spline`` family has clamped quintic B-splines (`SplineTrajectory`). The three control points
    at either end are the pose at start and end; its coefficients are those between, counted from
    there.

    Attributes:
        name: ``fourier`` or ``spline``.
        duration: of the motion [s].
        anchored: whether the motion starts at the anchor; otherwise a first coefficient moves the
            whole motion, and the anchor is only where coefficients of zero hold the robot.
        count: of harmonics, or of control points that move.
    """

    name: str
    duration: float
    anchored: bool
    count: int

    def __post_init__(self) -> None:
        if self.name not in ("fourier", "spline"):
            raise unknown_name("family", self.name, ("fourier", "spline"))
        if self.name == "fourier" and self.count < 3:
            raise TrajectoryError(
                f"harmonics is {self.count}: give at least 3, fewer leave nothing to choose once "
                "the start is at rest."
            )
        if self.count < 4 and self.name == "spline":
            raise TrajectoryError(
                f"knots is {self.count}: give at least 4 control points between start and end."
            )

    @classmethod
    def from_settings(
        cls,
        name: str,
        duration: float,
        harmonics: int | None,
        knots: int | None,
        rate: float,
        *,
        anchored: bool,
    ) -> MotionFamily:
        """Make a family with defaults as `design_motion` describes them.

        The rate of the recording [Hz] must be ten times the highest frequency at least.
        """
        duration = positive(duration, "duration", "s")
        if name == "fourier":
            count = int(np.clip(round(2.0 * duration), 5, 20)) if harmonics is None else harmonics
        else:
            count = int(np.clip(round(4.0 * duration), 10, 40)) if knots is None else knots
        family = cls(name, duration, anchored, count)
        highest = family.highest_frequency
        if highest > 0.1 * rate:
            raise TrajectoryError(
                f"duration is {duration:g} s, too short to leave rest and come back to it with "
                f"{highest:.3g} Hz as the highest frequency at a rate of {rate:g} Hz: give at "
                f"least {highest * duration / (0.1 * rate):.3g} s."
            )
        return family

    @property
    def size(self) -> int:
        """Number of coefficients per axis."""
        moving = 2 * (self.count - 1) if self.name == "fourier" else self.count
        return moving + int(not self.anchored)

    @property
    def highest_frequency(self) -> float:
        """Highest frequency [Hz]; up and down takes a spline two knot intervals."""
        periods = self.count if self.name == "fourier" else 0.5 * (self.count + 1)
        return periods / self.duration

    def basis(self, t: Array) -> tuple[Array, Array, Array]:
        """Phi, Phi', Phi'' at times t (n_t,), each (n_t, size): motions of one coefficient each."""
        return self.trajectory(np.eye(self.size), np.zeros(self.size))(t)

    def trajectory(self, x: Array, anchor: Array) -> Trajectory:
        """The motion of coefficients x (n_axes, size) about the anchor (n_axes,)."""
        pose, free = (anchor, x) if self.anchored else (anchor + x[:, 0], x[:, 1:])
        if self.name == "spline":
            points = np.tile(pose, (self.count + 6, 1))
            points[3:-3] += free.T
            return SplineTrajectory(self.duration, points)
        k = np.arange(1.0, self.count + 1.0)
        at_rest = null_space((1.0 / k)[np.newaxis]) / k[:, np.newaxis]
        steady = null_space(np.ones((1, self.count))) / k[:, np.newaxis]
        a, b = free[:, : self.count - 1] @ at_rest.T, free[:, self.count - 1 :] @ steady.T
        if self.anchored:  # q(0) = q0 - sum b / kw
            pose = pose + (b / (2.0 * np.pi / self.duration * k)).sum(axis=1)
        return FourierTrajectory(self.duration, a, b, pose)

    def scaled(self, x: Array, scale: float | Array) -> Array:
        """Coefficients x (…, size) of a motion scaled about its centre, which stays."""
        result = x.copy()
        result[..., int(not self.anchored) :] *= np.asarray(scale)[..., np.newaxis]
        return result
