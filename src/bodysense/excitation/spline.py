"""Motions on a quintic B-spline that start and end at rest, the second classical family.

Where a Fourier series spreads over its whole period, a control point of a spline moves a short
stretch of the motion alone.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.interpolate import BSpline

from bodysense.errors import TrajectoryError
from bodysense.excitation.trajectory import Trajectory, positive
from bodysense.spatial.arrays import Array, as_array, read_only

DEGREE = 5
_LEAST = 7
"""Three equal control points at either end, and one that moves."""


class SplineTrajectory(Trajectory):
    """A clamped quintic B-spline with equally spaced knots, by its control points.

        q(t) = sum_k B_k(t) points_k,        0 <= t <= duration

    Velocity and acceleration vanish at both ends because the first three and the last three
    control points are equal. Before the start and after the end the axes stand still.
    """

    def __init__(self, duration: float, points: ArrayLike) -> None:
        """Check and keep duration [s] and control points (n_points, n_axes) [rad or m]."""
        self._duration = positive(duration, "duration", "s")
        table = as_array(points, (None, None), "points")
        if table.shape[0] < _LEAST or table.shape[1] == 0:
            raise TrajectoryError(
                f"points has shape {table.shape}: give at least {_LEAST} control points, the first "
                "and the last three equal, of at least one axis."
            )
        for end, three in (("first", table[:3]), ("last", table[-3:])):
            if not (three == three[1]).all():
                raise TrajectoryError(
                    f"the {end} three control points differ: make them equal, or the motion is "
                    "not at rest there."
                )
        self._points = read_only(table)
        self._q = BSpline(clamped_knots(self._duration, table.shape[0]), self._points, DEGREE)
        self._v: BSpline = self._q.derivative(1)
        self._a: BSpline = self._q.derivative(2)

    def __repr__(self) -> str:
        return (
            f"<SplineTrajectory: {self.n_axes} axes, {self._points.shape[0]} control points, "
            f"{self._duration:g} s>"
        )

    @property
    def points(self) -> Array:
        """(n_points, n_axes) control points, read-only."""
        return self._points

    @property
    def n_axes(self) -> int:
        """Number of axes."""
        return int(self._points.shape[1])

    @property
    def duration(self) -> float:
        """Length of the motion [s]."""
        return self._duration

    def __call__(self, t: ArrayLike) -> tuple[Array, Array, Array]:
        """Return q, v, a at the times `t` (n_t,), each of shape (n_t, n_axes)."""
        times = as_array(t, (None,), "t")
        inside = np.clip(times, 0.0, self._duration)
        moving = (inside == times)[:, np.newaxis]
        q = np.asarray(self._q(inside), dtype=np.float64)
        return q, np.where(moving, self._v(inside), 0.0), np.where(moving, self._a(inside), 0.0)


def clamped_knots(duration: float, n_points: int) -> Array:
    """(n_points + 6,) knots: the ends six times, equally spaced between them."""
    inner = np.linspace(0.0, duration, n_points - DEGREE + 1)
    ends = np.ones(DEGREE)
    return np.concatenate([0.0 * ends, inner, duration * ends])
