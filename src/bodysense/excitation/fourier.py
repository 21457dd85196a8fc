"""Finite Fourier series, the classical exciting trajectory.

Swevers, Ganseman, Tükel, De Schutter, Van Brussel: "Optimal robot excitation and
identification", IEEE Transactions on Robotics and Automation 13(5), 1997.
Periodic, so that runs can be averaged; band-limited, so that it can be filtered exactly;
differentiated in closed form.
"""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from bodysense.errors import ShapeError, TrajectoryError
from bodysense.excitation.trajectory import Trajectory, positive
from bodysense.robot.robot import Robot, require_robot
from bodysense.spatial.arrays import Array, as_array, one_each, read_only

_SAMPLES_PER_HARMONIC = 64
# Robot files write "no limit" as infinity, 1e9 or the largest float; no axis goes that far.
_UNLIMITED = 1e6


@dataclass(frozen=True, eq=False)
class MotionBounds:
    """Range of position and greatest absolute velocity and acceleration, each (n_axes,)."""

    lower: Array
    upper: Array
    velocity: Array
    acceleration: Array


@dataclass(frozen=True, eq=False, repr=False)
class FourierTrajectory(Trajectory):
    """A finite Fourier series with harmonics k = 1 … H of w = 2 pi / period.

        q_i(t) = q0_i + sum_k  a_ik / (k w) sin(k w t) - b_ik / (k w) cos(k w t)
        v_i(t) =        sum_k  a_ik cos(k w t) + b_ik sin(k w t)
        a_i(t) =        sum_k  k w (b_ik cos(k w t) - a_ik sin(k w t))

    It lasts one period; evaluated beyond, it repeats.

    Attributes:
        period: length of the base period, and of the motion [s].
        a: (n_axes, H) cosine coefficients of the velocity [rad/s or m/s].
        b: (n_axes, H) sine coefficients of the velocity [rad/s or m/s].
        q0: (n_axes,) position averaged over the period [rad or m].
    """

    period: float
    a: Array
    b: Array
    q0: Array

    def __post_init__(self) -> None:
        q0 = as_array(self.q0, (None,), "q0")
        a = as_array(self.a, (q0.size, None), "a")
        b = as_array(self.b, a.shape, "b")
        if a.size == 0:
            raise ShapeError(f"a has shape {a.shape}: give at least one axis and one harmonic.")
        object.__setattr__(self, "period", positive(self.period, "period", "s"))
        for name, array in (("a", a), ("b", b), ("q0", q0)):
            object.__setattr__(self, name, read_only(array))

    @classmethod
    def random(
        cls,
        n_axes: int,
        *,
        duration: float,
        harmonics: int,
        lower: ArrayLike,
        upper: ArrayLike,
        velocity: ArrayLike,
        acceleration: ArrayLike,
        rng: np.random.Generator,
        fraction: float = 0.8,
        centre: ArrayLike | None = None,
    ) -> FourierTrajectory:
        """Draw a motion that starts and ends at rest and keeps the limits at every instant.

        The velocity coefficients of harmonic k are normal with standard deviation 1/k, which
        makes the acceleration's spectrum flat, under the condition that velocity and
        acceleration vanish at t = 0. Each axis is then scaled until the tightest of its limits
        is used up to `fraction`. The limits are scalars or (n_axes,) arrays.

        Args:
            n_axes: number of axes.
            duration: length of the motion, one period [s].
            harmonics: number of harmonics, at least 3; harmonic k has frequency k / duration.
            lower: lowest position, or -inf along with upper = inf for an axis without limits,
                which then sweeps pi to either side at most, times `fraction`.
            upper: highest position.
            velocity: greatest absolute velocity, may be infinite.
            acceleration: greatest absolute acceleration, may be infinite.
            rng: source of the random numbers.
            fraction: part of the limits to use, above 0 and up to 1.
            centre: middle of the range that each axis sweeps; by default the middle between
                its limits, 0 without limits.
        """
        n_axes = _whole(n_axes, "n_axes", 1, "give the number of axes of the robot.")
        harmonics = _whole(
            harmonics, "harmonics", 3, "fewer leave nothing to choose once the start is at rest."
        )
        if not 0.0 < fraction <= 1.0:
            raise TrajectoryError(f"fraction is {fraction}: give a number above 0 and up to 1.")
        limits = _checked_limits(n_axes, lower, upper, velocity, acceleration)
        middle, room = _middle_and_room(limits, centre)

        draws = rng.standard_normal((2, n_axes, harmonics)) / np.arange(1, harmonics + 1)
        shape = cls(duration, draws[0], draws[1], np.zeros(n_axes)).at_rest()
        swept = shape.bounds()
        scale = fraction * np.minimum(
            2.0 * room / (swept.upper - swept.lower),
            np.minimum(limits.velocity / swept.velocity, limits.acceleration / swept.acceleration),
        )
        return cls(
            duration,
            scale[:, np.newaxis] * shape.a,
            scale[:, np.newaxis] * shape.b,
            middle - 0.5 * scale * (swept.upper + swept.lower),
        )

    def __repr__(self) -> str:
        return (
            f"<FourierTrajectory: {self.n_axes} axes, {self.n_harmonics} harmonics, "
            f"{self.period:g} s>"
        )

    @classmethod
    def for_robot(
        cls,
        robot: Robot,
        *,
        rng: np.random.Generator,
        duration: float = 10.0,
        harmonics: int = 20,
        fraction: float = 0.8,
    ) -> FourierTrajectory:
        """Draw a random series within the limits of a robot: see `random`.

        Speeds without a limit are kept below 2 rad/s or m/s, accelerations below 10.
        """
        require_robot(robot)
        lower, upper = robot.position_limits
        velocity, acceleration = robot.velocity_limit, robot.acceleration_limit
        return cls.random(
            robot.n_joints,
            duration=duration,
            harmonics=harmonics,
            lower=lower,
            upper=upper,
            velocity=np.where(velocity > _UNLIMITED, 2.0, velocity),
            acceleration=np.where(acceleration > _UNLIMITED, 10.0, acceleration),
            rng=rng,
            fraction=fraction,
        )

    @property
    def n_axes(self) -> int:
        return int(self.q0.size)

    @property
    def n_harmonics(self) -> int:
        return int(self.a.shape[1])

    @property
    def duration(self) -> float:
        return self.period

    def __call__(self, t: ArrayLike) -> tuple[Array, Array, Array]:
        kw = self._angular_frequencies()
        # e^(i k w t) as powers of the first: a product a harmonic instead of two functions.
        wave = np.empty((as_array(t, (None,), "t").size, self.n_harmonics), dtype=np.complex128)
        wave[:, 0] = np.exp(1j * kw[0] * as_array(t, (None,), "t"))
        for k in range(1, self.n_harmonics):
            np.multiply(wave[:, k - 1], wave[:, 0], out=wave[:, k])
        # Columns cos, sin of each harmonic; q, v, a of all axes are one product with them.
        by_cosine = np.concatenate([-self.b / kw, self.a, self.b * kw])
        by_sine = np.concatenate([self.a / kw, self.b, -self.a * kw])
        coefficients = np.stack([by_cosine, by_sine], axis=-1).reshape(3 * self.n_axes, -1)
        motion = wave.view(np.float64) @ coefficients.T
        q, v, a = (np.ascontiguousarray(part) for part in np.split(motion, 3, axis=1))
        return self.q0 + q, v, a

    def at_rest(self) -> FourierTrajectory:
        """Return the series projected onto those with v(0) = 0 and a(0) = 0.

        These are one linear condition c'x = 0 on the coefficients x of each kind and axis:
        c_k = 1 for a (velocity) and c_k = k for b (acceleration). The projection
        x - S c (c'S c)^-1 c'x with S = diag(1/k^2) spreads the change as `random` spreads the
        coefficients; drawn from N(0, S), x becomes a draw under the condition. The plain
        projection (S = 1) would put most of the change into the highest harmonics.
        """
        k = np.arange(1.0, self.n_harmonics + 1.0)

        def projected(x: Array, c: Array) -> Array:
            spread = c / k**2
            return x - np.outer(x @ c, spread / (c @ spread))

        a, b = projected(self.a, np.ones_like(k)), projected(self.b, k)
        return FourierTrajectory(self.period, a, b, self.q0)

    def bounds(self) -> MotionBounds:
        """Enclose the motion: never left at any instant, and at most 0.13 % too wide.

        A trigonometric polynomial of degree H falls off from its greatest absolute value no
        faster than cos(H w dt) (M. Riesz, 1914). If it is at most m at M equally spaced points
        of its period, it therefore stays within m / cos(pi H / M) between them (Ehlich and
        Zeller, Mathematische Zeitschrift 86, 1964); here M = 64 H.
        """
        n_samples = _SAMPLES_PER_HARMONIC * self.n_harmonics
        between = 1.0 / math.cos(math.pi / _SAMPLES_PER_HARMONIC)
        q, v, a = self(np.arange(n_samples) * (self.period / n_samples))
        middle = 0.5 * (q.max(axis=0) + q.min(axis=0))
        half = 0.5 * (q.max(axis=0) - q.min(axis=0)) * between
        return MotionBounds(
            middle - half,
            middle + half,
            np.abs(v).max(axis=0) * between,
            np.abs(a).max(axis=0) * between,
        )

    def peak_ratio(
        self, *, lower: ArrayLike, upper: ArrayLike, velocity: ArrayLike, acceleration: ArrayLike
    ) -> Array:
        """(n_axes,) how much of its tightest limit each axis uses; above 1 breaks it.

        Position counts from the middle between its limits; infinite limits are not used at all.
        """
        limits = _checked_limits(self.n_axes, lower, upper, velocity, acceleration)
        swept = self.bounds()
        middle, room = _middle_and_room(limits, None)
        room[np.isinf(limits.upper)] = np.inf
        position = np.maximum(swept.upper - middle, middle - swept.lower) / room
        ratios: Array = np.maximum(
            position,
            np.maximum(swept.velocity / limits.velocity, swept.acceleration / limits.acceleration),
        )
        return ratios

    def _angular_frequencies(self) -> Array:
        """Return k w (H,) [rad/s]."""
        return np.arange(1.0, self.n_harmonics + 1.0) * (2.0 * math.pi / self.period)


def _checked_limits(
    n_axes: int, lower: ArrayLike, upper: ArrayLike, velocity: ArrayLike, acceleration: ArrayLike
) -> MotionBounds:
    """Return the limits as (n_axes,) arrays, "no limit" as infinity; refuse those without room."""
    low, high = (
        one_each(lower, n_axes, "lower", infinite=True),
        one_each(upper, n_axes, "upper", infinite=True),
    )
    low = np.where(low < -_UNLIMITED, -np.inf, low)
    high = np.where(high > _UNLIMITED, np.inf, high)
    for i in range(n_axes):
        where = f"axis {i}: lower = {low[i]:g}, upper = {high[i]:g}"
        if low[i] > high[i]:
            raise TrajectoryError(f"{where}: the limits are swapped; give lower < upper.")
        if low[i] == high[i]:
            raise TrajectoryError(
                f"{where}: there is no room to move; widen the limits or leave the axis out."
            )
        if np.isfinite(low[i]) != np.isfinite(high[i]):
            raise TrajectoryError(
                f"{where}: limited on one side only; limit both sides, or neither with -inf, inf."
            )
    greatest = {"velocity": velocity, "acceleration": acceleration}
    checked = {
        name: one_each(value, n_axes, name, infinite=True) for name, value in greatest.items()
    }
    for name, values in checked.items():
        if not (values > 0.0).all():
            i = int(np.flatnonzero(~(values > 0.0))[0])
            raise TrajectoryError(
                f"axis {i}: the limit of {name} is {values[i]:g}, which leaves no room to move; "
                "give a number above zero, or inf for no limit."
            )
    return MotionBounds(low, high, checked["velocity"], checked["acceleration"])


def _middle_and_room(limits: MotionBounds, centre: ArrayLike | None) -> tuple[Array, Array]:
    """Return where each axis moves about, and how far to either side, each (n_axes,)."""
    limited = np.isfinite(limits.upper)
    low, high = np.where(limited, limits.lower, -np.pi), np.where(limited, limits.upper, np.pi)
    if centre is None:
        return 0.5 * low + 0.5 * high, 0.5 * high - 0.5 * low
    middle = one_each(centre, low.size, "centre", infinite=True)
    room = np.where(limited, np.minimum(high - middle, middle - low), np.pi)
    if not (np.isfinite(middle) & (room > 0.0)).all():
        i = int(np.flatnonzero(~(np.isfinite(middle) & (room > 0.0)))[0])
        raise TrajectoryError(
            f"axis {i}: centre = {middle[i]:g} leaves no room to move; give one between "
            f"lower = {limits.lower[i]:g} and upper = {limits.upper[i]:g}."
        )
    return middle, room


def _whole(value: int, name: str, least: int, why: str) -> int:
    try:
        number = operator.index(value)
    except TypeError as error:
        raise ShapeError(f"{name} must be a whole number, not {value!r}.") from error
    if number < least:
        raise TrajectoryError(f"{name} is {number}, at least {least} is needed: {why}")
    return number
