"""Families of motions that are linear in their coefficients, with rest at the ends built in.

    q_i(t) = anchor_i + Phi(t) x_i,     v_i = Phi'(t) x_i,     a_i = Phi''(t) x_i

so that limits of position, velocity and acceleration are linear in the coefficients x, and a
gradient by q, v, a becomes one by x through a product with Phi. Coefficients are scaled such that
numbers of the size of 1 spread the acceleration evenly over the frequencies.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from scipy.linalg import null_space

from bodysense.errors import TrajectoryError, unknown_name
from bodysense.excitation.fourier import FourierTrajectory
from bodysense.excitation.trajectory import SplineTrajectory, Trajectory, clamped_spline, positive
from bodysense.spatial.arrays import Array

_FAMILIES = ("fourier", "spline")


@dataclass(frozen=True)
class MotionFamily(ABC):
    """Motions of one duration; they end where they start, so that they can be repeated.

    Attributes:
        duration: of the motion [s].
        anchored: whether the motion starts at the anchor; otherwise its first coefficient moves
            the whole motion, and the anchor is only where coefficients of zero hold the robot.
    """

    duration: float
    anchored: bool

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of coefficients per axis."""

    @property
    @abstractmethod
    def highest_frequency(self) -> float:
        """Highest frequency of the motion [Hz]."""

    @abstractmethod
    def basis(self, t: Array) -> tuple[Array, Array, Array]:
        """Phi, Phi', Phi'' at times t (n_t,), each (n_t, size)."""

    @abstractmethod
    def trajectory(self, x: Array, anchor: Array) -> Trajectory:
        """The motion of coefficients x (n_axes, size) about the anchor (n_axes,)."""

    def scaled(self, x: Array, scale: float | Array) -> Array:
        """Coefficients x (…, size) of a motion scaled about its centre, which stays."""
        first = int(not self.anchored)
        result = x.copy()
        result[..., first:] *= np.asarray(scale)[..., np.newaxis]
        return result


@dataclass(frozen=True)
class FourierFamily(MotionFamily):
    """Finite Fourier series (`FourierTrajectory`) whose first instant is at rest.

    Rest is sum_k a_k = 0 (velocity) and sum_k k b_k = 0 (acceleration). The coefficients run
    over orthonormal bases of what is left of a_k = z_k / k and b_k = z_k / k, as
    `FourierTrajectory.random` draws them.
    """

    harmonics: int

    def __post_init__(self) -> None:
        if self.harmonics < 3:
            raise TrajectoryError(
                f"harmonics is {self.harmonics}: give at least 3, fewer leave nothing to choose "
                "once the start is at rest."
            )

    @property
    def size(self) -> int:
        """Number of coefficients per axis: 2 (H - 1), and the mean unless anchored."""
        return 2 * (self.harmonics - 1) + int(not self.anchored)

    @property
    def highest_frequency(self) -> float:
        return self.harmonics / self.duration

    def basis(self, t: Array) -> tuple[Array, Array, Array]:
        kw, A, B = self._coefficients()
        cosine, sine = np.cos(np.outer(t, kw)), np.sin(np.outer(t, kw))
        q = np.hstack([(sine / kw) @ A, -(cosine / kw) @ B])
        v = np.hstack([cosine @ A, sine @ B])
        a = np.hstack([-(sine * kw) @ A, (cosine * kw) @ B])
        if self.anchored:
            return q + np.hstack([0.0 * kw @ A, (1.0 / kw) @ B]), v, a
        zero = np.zeros((t.size, 1))
        return np.hstack([zero + 1.0, q]), np.hstack([zero, v]), np.hstack([zero, a])

    def trajectory(self, x: Array, anchor: Array) -> FourierTrajectory:
        kw, A, B = self._coefficients()
        rest = x if self.anchored else x[:, 1:]
        a, b = rest[:, : A.shape[1]] @ A.T, rest[:, A.shape[1] :] @ B.T
        # q(0) = q0 - sum b / kw
        mean = anchor + (b / kw).sum(axis=1) if self.anchored else anchor + x[:, 0]
        return FourierTrajectory(self.duration, a, b, mean)

    def _coefficients(self) -> tuple[Array, Array, Array]:
        """Return k w (H,), and a_k and b_k by the free coefficients, (H, H - 1) each."""
        k = np.arange(1.0, self.harmonics + 1.0)
        at_rest = null_space((1.0 / k)[np.newaxis])
        steady = null_space(np.ones((1, self.harmonics)))
        kw = 2.0 * np.pi / self.duration * k
        return kw, at_rest / k[:, np.newaxis], steady / k[:, np.newaxis]


@dataclass(frozen=True)
class SplineFamily(MotionFamily):
    """Clamped quintic B-splines (`SplineTrajectory`) by the control points that move.

    The three control points at either end are the pose at start and end; those between count
    from there.
    """

    knots: int

    def __post_init__(self) -> None:
        if self.knots < 4:
            raise TrajectoryError(
                f"knots is {self.knots}: give at least 4 control points between start and end."
            )

    @property
    def size(self) -> int:
        """Number of coefficients per axis: control points that move, and the pose unless anchored.

        The pose moves all of them.
        """
        return self.knots + int(not self.anchored)

    @property
    def highest_frequency(self) -> float:
        """Half the number of knot intervals per second [Hz]: up and down takes two of them."""
        return 0.5 * (self.knots + 1) / self.duration

    def basis(self, t: Array) -> tuple[Array, Array, Array]:
        spline = clamped_spline(self.duration, np.eye(self.knots + 6))
        inside = np.clip(t, 0.0, self.duration)
        parts = []
        for order in range(3):
            values = np.asarray(spline(inside, nu=order), dtype=np.float64)
            first = np.full((t.size, 0 if self.anchored else 1), 1.0 if order == 0 else 0.0)
            parts.append(np.hstack([first, values[:, 3:-3]]))
        return parts[0], parts[1], parts[2]

    def trajectory(self, x: Array, anchor: Array) -> SplineTrajectory:
        pose = anchor if self.anchored else anchor + x[:, 0]
        free = x if self.anchored else x[:, 1:]
        points = np.tile(pose, (self.knots + 6, 1))
        points[3:-3] += free.T
        return SplineTrajectory(self.duration, points)


def motion_family(
    name: str,
    duration: float,
    harmonics: int | None,
    knots: int | None,
    rate: float,
    *,
    anchored: bool,
) -> MotionFamily:
    """Make a family by name, with defaults as `design_motion` describes them.

    The rate of the recording [Hz] must be ten times the highest frequency at least.
    """
    duration = positive(duration, "duration", "s")
    if name not in _FAMILIES:
        raise unknown_name("family", name, _FAMILIES)
    family: MotionFamily
    if name == "fourier":
        count = int(np.clip(round(2.0 * duration), 5, 20)) if harmonics is None else harmonics
        family = FourierFamily(duration, anchored, count)
    else:
        count = int(np.clip(round(4.0 * duration), 10, 40)) if knots is None else knots
        family = SplineFamily(duration, anchored, count)
    if family.highest_frequency > 0.1 * rate:
        shortest = family.highest_frequency * duration / (0.1 * rate)
        raise TrajectoryError(
            f"duration is {duration:g} s, too short to leave rest and come back to it with "
            f"{family.highest_frequency:.3g} Hz as the highest frequency at a rate of {rate:g} Hz: "
            f"give at least {shortest:.3g} s."
        )
    return family
