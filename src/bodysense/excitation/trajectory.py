"""What a trajectory is, and the plain ones: standing still, and splines by points."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import cast

import numpy as np
from numpy.typing import ArrayLike
from scipy.interpolate import BSpline, make_interp_spline

from bodysense.errors import ShapeError, TrajectoryError
from bodysense.spatial.arrays import Array, as_array, read_only


class Trajectory(ABC):
    """A motion of all axes over time, t -> q, v, a, with t in seconds from 0 to `duration`.

    Units follow the axis: rad, rad/s, rad/s^2 for a revolute one, m, m/s, m/s^2 for a
    prismatic one. `v` is the time derivative of `q`, and `a` that of `v`.
    """

    @property
    @abstractmethod
    def n_axes(self) -> int:
        """Number of axes that move."""

    @property
    @abstractmethod
    def duration(self) -> float:
        """Length of the motion [s]."""

    @abstractmethod
    def __call__(self, t: ArrayLike) -> tuple[Array, Array, Array]:
        """Return q, v, a at the times `t` (n_t,), each of shape (n_t, n_axes)."""

    def sample(self, rate: float) -> tuple[Array, Array, Array, Array]:
        """Return t (n_t,) and q, v, a (n_t, n_axes) at t = k / rate, from 0 to `duration`.

        The arrays are read-only: they are kept for the next call at the same rate.

        Args:
            rate: samples per second [Hz]. Where `duration * rate` is not a whole number, the
                last sample is the last one before the end.
        """
        rate = positive(rate, "rate", "Hz")
        # Trajectories do not change, and simulations ask for the same samples again and again.
        last = self.__dict__.get("_last_sample")
        if last is not None and last[0] == rate:
            return cast(tuple[Array, Array, Array, Array], last[1])
        # A hair is added because 0.29 * 100 is 28.999… in floating point, and means 29.
        n_steps = math.floor(self.duration * rate * (1.0 + 1e-12) + 1e-12)
        t = np.minimum(np.arange(n_steps + 1) / rate, self.duration)
        q, v, a = self(t)
        samples = (read_only(t), read_only(q), read_only(v), read_only(a))
        self.__dict__["_last_sample"] = (rate, samples)
        return samples

    def sample_to_end(self, rate: float) -> tuple[Array, Array, Array, Array]:
        """The samples at `rate` [Hz], and the end where it is none of them: t (n_t,), q, v, a.

        A robot that is sent these points arrives. Where `duration * rate` is not a whole number,
        the last step is shorter than others, or up to a tenth longer.
        """
        samples = self.sample(rate)
        left = self.duration - float(samples[0][-1])
        if left * rate < 1e-6:
            return samples
        kept = samples[0].size - int(left * rate < 0.1 and samples[0].size > 1)
        end = np.array([self.duration])
        parts = (end, *self(end))
        t, q, v, a = (np.concatenate([x[:kept], y]) for x, y in zip(samples, parts, strict=True))
        return t, q, v, a


class HoldTrajectory(Trajectory):
    """Stand still at `q` (n_axes,) for `duration` seconds, and before and after as well."""

    def __init__(self, q: ArrayLike, duration: float) -> None:
        self._q = read_only(as_array(q, (None,), "q"))
        self._duration = positive(duration, "duration", "s")

    @property
    def n_axes(self) -> int:
        return int(self._q.size)

    @property
    def duration(self) -> float:
        return self._duration

    def __call__(self, t: ArrayLike) -> tuple[Array, Array, Array]:
        shape = (as_array(t, (None,), "t").size, self.n_axes)
        return np.broadcast_to(self._q, shape).copy(), np.zeros(shape), np.zeros(shape)


class _Quintic(Trajectory):
    """A quintic spline: jerk and snap are continuous too.

    Before the start and after the end the axes stand still, for a spline continued beyond its
    points runs away.
    """

    def __init__(self, q: BSpline, duration: float) -> None:
        self._q = q
        self._v: BSpline = q.derivative(1)
        self._a: BSpline = q.derivative(2)
        self._duration = duration

    @property
    def n_axes(self) -> int:
        return int(self._q.c.shape[1])

    @property
    def duration(self) -> float:
        return self._duration

    def __call__(self, t: ArrayLike) -> tuple[Array, Array, Array]:
        times = as_array(t, (None,), "t")
        inside = np.clip(times, 0.0, self._duration)
        moving = (inside == times)[:, np.newaxis]
        q = np.asarray(self._q(inside), dtype=np.float64)
        return q, np.where(moving, self._v(inside), 0.0), np.where(moving, self._a(inside), 0.0)


class SampledTrajectory(_Quintic):
    """Pass through given points on a quintic spline; time counts from the first point."""

    def __init__(self, t: ArrayLike, q: ArrayLike, *, at_rest: bool = True) -> None:
        """Fit the spline.

        Args:
            t: times of the points (n_points,) [s], increasing.
            q: positions at these times (n_points, n_axes).
            at_rest: start and end with zero velocity and acceleration, as a robot that has to
                track the motion needs it. Otherwise the ends follow the points alone (the
                not-a-knot condition), which suits a piece cut out of a running recording.
        """
        times = as_array(t, (None,), "t")
        points = as_array(q, (times.size, None), "q")
        least = 2 if at_rest else 6
        if times.size < least:
            raise TrajectoryError(
                f"a trajectory through {times.size} points with at_rest={at_rest} is not "
                f"defined: give at least {least} points"
                + (", or a HoldTrajectory to stand still." if at_rest else ", or at_rest=True.")
            )
        steps = np.diff(times)
        if not (steps > 0.0).all():
            k = int(np.flatnonzero(~(steps > 0.0))[0])
            raise TrajectoryError(
                f"the times of the points must increase, but t[{k}] = {times[k]} is followed by "
                f"t[{k + 1}] = {times[k + 1]}: sort the points and drop repeated ones."
            )
        still = [(1, np.zeros(points.shape[1])), (2, np.zeros(points.shape[1]))]
        spline: BSpline = make_interp_spline(
            times - times[0],
            points,
            k=5,
            # scipy documents lists of (order, value) here; its stubs do not know them.
            bc_type=(still, still) if at_rest else None,  # type: ignore[arg-type]
        )
        super().__init__(spline, float(times[-1] - times[0]))


_LEAST = 7
"""Control points: three equal ones at either end, and one that moves."""


class SplineTrajectory(_Quintic):
    """A clamped quintic B-spline with equally spaced knots, by its control points.

        q(t) = sum_k B_k(t) points_k,        0 <= t <= duration

    Velocity and acceleration vanish at both ends because the first three and the last three
    control points are equal. Where a Fourier series spreads over its whole period, a control point
    moves a short stretch of the motion alone.

    Attributes:
        points: (n_points, n_axes) control points [rad or m], read-only.
    """

    def __init__(self, duration: float, points: ArrayLike) -> None:
        """Check and keep duration [s] and control points (n_points, n_axes) [rad or m]."""
        duration = positive(duration, "duration", "s")
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
        self.points = read_only(table)
        super().__init__(_clamped_spline(duration, self.points), duration)

    def __repr__(self) -> str:
        return (
            f"<SplineTrajectory: {self.n_axes} axes, {self.points.shape[0]} control points, "
            f"{self.duration:g} s>"
        )


def _clamped_spline(duration: float, points: Array) -> BSpline:
    """The quintic B-spline of control points (n_points, n): knots equally spaced, ends repeated."""
    inner = np.linspace(0.0, duration, points.shape[0] - 4)
    knots = np.concatenate([np.zeros(5), inner, np.full(5, duration)])
    return BSpline(knots, points, 5)


def positive(value: float, name: str, unit: str) -> float:
    """Return `value` as a float that is finite and above zero, or raise."""
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise ShapeError(f"{name} must be one number in {unit}, not {value!r}.") from error
    if not (math.isfinite(number) and number > 0.0):
        raise TrajectoryError(f"{name} is {number} {unit}: give a finite number above zero.")
    return number
