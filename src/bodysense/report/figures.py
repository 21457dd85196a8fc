"""Figures of all reports: axes, error bars, curves in little space, bodies.

A long recording is cut into stretches of equal length, and each is represented by its lowest and
highest value in the order in which they occur: a curve drawn through them looks like the whole one.
Curves of one recording share their stretches, hence their times. `templates/figures.js` draws them.
"""

from __future__ import annotations

import base64
import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pinocchio as pin
from numpy.typing import NDArray

from bodysense.robot.robot import Robot
from bodysense.spatial.arrays import Array
from bodysense.spatial.pseudo_inertia import pseudo_inertia_from_pi

WIDTH = 220.0
"""Of a drawing in a table row, in its own units."""

_ROOM = 0.08  # of an axis' range, left free beyond the outermost values
_WHISKER_LINEAR = 0.1  # changes below are shown in proportion, larger ones ever more compressed
_WHISKER_RANGE = (1.5, 100.0)  # smallest and largest end of a whisker axis
_WHISKER_MARKS = (0.1, 1.0, 10.0, 100.0)
_STEPS = 32767  # of a 16-bit trace to either side of its middle
_MISSING = -32768  # in a trace: no value


@dataclass(frozen=True)
class Axis:
    """Numbers from `low` to `high` stand from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float

    @classmethod
    def around(cls, values: Iterable[float], start: float, end: float) -> Axis:
        """The axis that shows all finite values, with some room."""
        finite = [float(value) for value in values if math.isfinite(value)]
        low, high = (min(finite), max(finite)) if finite else (0.0, 1.0)
        room = _ROOM * (high - low) or 0.1 * abs(high) or 1.0
        return cls(low - room, high + room, start, end)

    def place(self, value: float) -> float:
        """Where a number stands; beyond the axis at its ends."""
        share = (value - self.low) / (self.high - self.low)
        return round(self.start + (self.end - self.start) * min(max(share, 0.0), 1.0), 1)

    def ticks(self, most: int = 6) -> tuple[tuple[float, str], ...]:
        """Places and labels of round numbers."""
        step = round_step((self.high - self.low) / most)
        digits = max(0, -math.floor(math.log10(step) + 1e-9))
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return tuple(
            (self.place(k * step), f"{k * step:.{digits}f}".replace("-", "\N{MINUS SIGN}"))
            for k in range(first, last + 1)
        )


def round_step(rough: float) -> float:
    """The smallest of 1, 2 and 5 times a power of ten that is not smaller."""
    power = 10.0 ** math.floor(math.log10(rough))
    return float(power * next(f for f in (1.0, 2.0, 5.0, 10.0) if f * power >= rough * (1 - 1e-9)))


@dataclass(frozen=True)
class WhiskerScale:
    """An axis from -most to most that compresses large numbers: x ∝ asinh(u / 0.1)."""

    most: float

    @classmethod
    def of(cls, values: Array, reach: Array) -> WhiskerScale:
        """The axis that shows these values (n,) with half the bars (n,)."""
        far = np.abs(values) + np.minimum(reach, 2.0)
        far = far[np.isfinite(far)]
        largest = float(far.max()) if far.size else 0.0
        return cls(float(np.clip(1.1 * largest, *_WHISKER_RANGE)))

    def place(self, value: float) -> float:
        """Where a value stands, from 0 to `WIDTH`; values beyond the axis at its ends."""
        share = np.arcsinh(value / _WHISKER_LINEAR) / np.arcsinh(self.most / _WHISKER_LINEAR)
        return round(0.5 * WIDTH * (1.0 + float(np.clip(share, -1.0, 1.0))), 1)

    @property
    def marks(self) -> tuple[tuple[float, str], ...]:
        """Places and labels of the axis."""
        # Labels need room: from each other, and from the ends.
        near, far = 0.5 * WIDTH + 14.0, WIDTH - 10.0
        inside = [m for m in _WHISKER_MARKS if near < self.place(m) < far]
        values = [-m for m in reversed(inside)] + [0.0] + inside
        return tuple((self.place(v), f"{v:g}".replace("-", "\N{MINUS SIGN}")) for v in values)

    @property
    def plausible(self) -> tuple[float, float]:
        """Where -1 and 1 stand."""
        return self.place(-1.0), self.place(1.0)

    def whisker(self, value: float, reach: float) -> dict[str, Any]:
        """Places of a value and the ends of its bar; `outside` if the value is beyond the axis.

        A value that is not finite stands in the middle with the longest bar.
        """
        if not np.isfinite(value):
            return {"at": self.place(0.0), "low": 0.0, "high": WIDTH, "outside": True}
        reach = reach if np.isfinite(reach) else 2.0 * self.most
        return {
            "at": self.place(value),
            "low": self.place(value - reach),
            "high": self.place(value + reach),
            "outside": abs(value) > self.most,
        }


def runs(mask: NDArray[np.bool_], starts: Sequence[int]) -> list[list[int]]:
    """First and last place of each run of true ones in (n,); runs end where pieces do."""
    edges = np.flatnonzero(np.diff(mask.astype(np.int8))) + 1
    cuts = sorted({0, *edges.tolist(), *starts, mask.size})
    return [[begin, end - 1] for begin, end in itertools.pairwise(cuts) if mask[begin]]


def float_bytes(values: Array) -> str:
    """Numbers as 32-bit floats, little end first, in base 64."""
    return base64.b64encode(values.astype("<f4").tobytes()).decode("ascii")


@dataclass
class TracePool:
    """Encoded curves, each kept once: training and held-out blocks share the measured torque.

    Attributes:
        traces: for each its middle, its step, and 16-bit multiples of the step in base 64;
            -32768 stands for nothing.
    """

    traces: list[tuple[float, float, str]] = field(default_factory=list)
    _places: dict[tuple[float, float, str], int] = field(default_factory=dict)

    def add(self, y: Array) -> int:
        """Keep a curve (n,) and return its number."""
        known = np.isfinite(y)
        low, high = (float(y[known].min()), float(y[known].max())) if known.any() else (0.0, 0.0)
        middle, step = 0.5 * (low + high), max(0.5 * (high - low), 1e-300) / _STEPS
        scaled = np.where(known, np.rint((np.where(known, y, middle) - middle) / step), _MISSING)
        packed = np.clip(scaled, _MISSING, _STEPS).astype("<i2").tobytes()
        trace = (middle, step, base64.b64encode(packed).decode("ascii"))
        if trace not in self._places:
            self._places[trace] = len(self.traces)
            self.traces.append(trace)
        return self._places[trace]


def stick_figure(robot: Robot, q: Array) -> tuple[Array, list[int]]:
    """Points of a robot (n_t, n_points, 3) and the point before each: origin, joints, tips.

    A last link has no joint at its end: it is drawn to its centre of mass.
    """
    model, data = robot.model, robot.model.createData()
    parents = [-1, *(int(parent) for parent in model.parents[1:])]
    tips = [joint for joint in range(1, model.njoints) if joint not in parents]
    points = np.zeros((len(q), model.njoints + len(tips), 3))
    for k, q_k in enumerate(q):
        pin.forwardKinematics(model, data, q_k)
        points[k, : model.njoints] = [pose.translation for pose in data.oMi]
        points[k, model.njoints :] = [data.oMi[i].act(model.inertias[i].lever) for i in tips]
    return points, parents + tips


def ellipsoid(pi: Array) -> tuple[Array, Array] | None:
    """Centre (3,) and semi-axes, the columns of (3, 3), of a link in its own frame [m].

    Mass, centre of mass and inertia are those of exactly one ellipsoid of uniform density. With the
    second moments of mass about the centre, Sigma_c = V diag(lambda) Vᵀ, it has the semi-axes
    sqrt(5 lambda / m) along V. Negative second moments, of a link that is not physically
    consistent, count as zero; without mass: `None`.
    """
    if not (np.isfinite(pi).all() and pi[0] > 0.0):
        return None
    P = pseudo_inertia_from_pi(pi)
    centre = pi[1:4] / pi[0]
    moments, V = np.linalg.eigh(P[:3, :3] / pi[0] - np.outer(centre, centre))
    return centre, V * np.sqrt(5.0 * np.clip(moments, 0.0, None))
