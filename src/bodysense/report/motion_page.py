"""One HTML page that shows a motion: facts, curves over time, and the robot moving.

The page is complete in itself: styles, script, curves (SVG) and the animation's data are in
the file, and its content security policy forbids the browser to fetch anything.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bodysense.errors import ShapeError, unknown_name
from bodysense.files import write_atomically
from bodysense.report.rendering import environment
from bodysense.spatial.arrays import Array, as_array

# What keeps the page below a megabyte, whatever the length of the recording: a point of a curve
# takes about 9 bytes, a coordinate of the animation about 5.
_POINTS_PER_CURVE = 600
_POINTS_IN_ALL = 50_000
_FRAMES = 600
_BODY_POSITIONS_IN_ALL = 12_000
# Curves live in a box of whole numbers that the browser stretches to the width of the window.
_WIDTH, _HEIGHT = 2000, 1000
_POSITION_STEPS = 1000  # of the radius of the scene
# A simulation that diverges passes through such values on its way to infinity.
_BEYOND_DRAWING = 1e150

# Light and dark variants; neighbours differ in hue and in lightness.
_COLOURS = (
    ("#1f6fd6", "#5aa2ff"),
    ("#d9541e", "#ff8a57"),
    ("#128a5b", "#3ecf95"),
    ("#8b3fc4", "#c08bf0"),
    ("#b8860b", "#e8bd4a"),
    ("#0f8fa8", "#45cbe2"),
    ("#c2306f", "#f57fb0"),
    ("#5b6472", "#a9b3c1"),
    ("#6b8e1f", "#a9d04e"),
    ("#8a4b2a", "#d19a78"),
)


@dataclass(frozen=True)
class _Curve:
    name: str
    colour: int
    path: str
    reference: str | None


@dataclass(frozen=True)
class _Chart:
    title: str
    curves: Sequence[_Curve]
    low: float
    high: float
    decimals: int
    ticks: Sequence[tuple[float, str]]  # per cent from the bottom, label


def write_motion_page(
    path: str | os.PathLike[str],
    *,
    title: str,
    facts: Mapping[str, str],
    t: ArrayLike,
    series: Mapping[str, Mapping[str, ArrayLike]],
    references: Mapping[str, Mapping[str, ArrayLike]] | None = None,
    bodies: ArrayLike | None = None,
    parents: Sequence[int] | None = None,
) -> Path:
    """Write the page and return its path.

    Args:
        path: the HTML file to write; its folder must exist.
        title: heading of the page.
        facts: what the table beside the animation says, in this order.
        t: (n_t,) time [s], increasing.
        series: one chart for each quantity, named with its unit, e.g. "torque [N m]", holding
            one curve (n_t,) for each name, e.g. of a joint. The same name has the same colour
            in all charts. Where a value is not finite the curve has a gap.
        references: curves to draw dashed under those of the same quantity and name, e.g. what
            was commanded where `series` holds what was measured.
        bodies: (n_frames, n_bodies, 3) positions of the joints' origins in the world [m], z up.
            The frames are those at `t` if there are as many, else evenly spaced from the first
            to the last time.
        parents: (n_bodies,) index of the body that each hangs on, -1 for a base.

    Raises:
        ShapeError: arrays that do not fit together.
        UnknownNameError: a reference to a curve that is not there.
        FileWriteError: the file cannot be written.
    """
    times = as_array(t, (None,), "t")
    if times.size < 2 or not (np.diff(times) > 0.0).all():
        raise ShapeError(
            f"t holds {times.size} times, which must be at least 2 and increase: sort the samples "
            "and drop repeated ones."
        )
    references = references or {}
    for quantity, curves in references.items():
        if quantity not in series:
            raise unknown_name("quantity", quantity, series, "Give its curves in `series`.")
        for name in curves:
            if name not in series[quantity]:
                raise unknown_name(f"curve of {quantity!r}", name, series[quantity])
    n_curves = sum(map(len, series.values())) + sum(map(len, references.values()))
    most = min(_POINTS_PER_CURVE, max(_POINTS_IN_ALL // max(n_curves, 1), 2))
    # Keys keep the order of first appearance; a set would not.
    colours = {name: 0 for curves in series.values() for name in curves}
    colours = {name: k for k, name in enumerate(colours)}
    charts = [
        _chart(quantity, curves, references.get(quantity, {}), times, most, colours)
        for quantity, curves in series.items()
    ]
    start, end = float(times[0]), float(times[-1])
    page = (
        environment()
        .get_template("motion.html.j2")
        .render(
            title=title,
            facts=facts,
            charts=charts,
            colours=[_colour(k) for k in range(len(colours))],
            time_ticks=_ticks(start, end, 10)[0],
            label_length=max(
                (len(label) for chart in charts for _, label in chart.ticks), default=1
            ),
            width=_WIDTH,
            height=_HEIGHT,
            data={"start": start, "end": end, "scene": _scene(times, bodies, parents)},
        )
    )
    # Lone surrogates, which no UTF-8 file can hold, become question marks.
    return write_atomically(path, page.encode("utf-8", "replace"))


def _chart(
    title: str,
    curves: Mapping[str, ArrayLike],
    references: Mapping[str, ArrayLike],
    t: Array,
    most: int,
    colours: Mapping[str, int],
) -> _Chart:
    values = {name: _values(curve, t, title, name) for name, curve in curves.items()}
    dashed = {name: _values(curve, t, title, name) for name, curve in references.items()}
    low, high = _value_range([*values.values(), *dashed.values()])
    ticks, decimals = _ticks(low, high, 8)

    def path(y: Array) -> str:
        keep = _decimated(y, most)
        x = (t[keep] - t[0]) * (_WIDTH / (t[-1] - t[0]))
        return _path(x, (high - y[keep]) * (_HEIGHT / (high - low)))

    return _Chart(
        title,
        [
            _Curve(name, colours[name], path(y), path(dashed[name]) if name in dashed else None)
            for name, y in values.items()
        ],
        low,
        high,
        decimals,
        ticks,
    )


def _values(curve: ArrayLike, t: Array, quantity: str, name: str) -> Array:
    """Return the curve (n_t,), NaN where it cannot be drawn."""
    try:
        y = np.array(curve, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ShapeError(f"{quantity!r}, {name!r} must be an array of numbers: {error}") from error
    if y.shape != t.shape:
        raise ShapeError(
            f"{quantity!r}, {name!r} has shape {y.shape}: give one value for each of the {t.size} "
            "times in t."
        )
    y[~(np.abs(y) < _BEYOND_DRAWING)] = np.nan
    return y


def _value_range(curves: Iterable[Array]) -> tuple[float, float]:
    """Return the range of a chart's axis: that of its curves and 5 % more to either side."""
    finite = [y[np.isfinite(y)] for y in curves]
    finite = [y for y in finite if y.size]
    if not finite:
        return -1.0, 1.0
    low, high = min(float(y.min()) for y in finite), max(float(y.max()) for y in finite)
    largest = max(abs(low), abs(high))
    if largest < 1.0 / _BEYOND_DRAWING:
        return -1.0, 1.0
    # A constant must not have its rounding errors magnified to the height of the chart.
    constant = high - low < 1e-9 * largest
    margin = 0.1 * largest if constant else 0.05 * (high - low)
    return low - margin, high + margin


def _ticks(low: float, high: float, most: int) -> tuple[list[tuple[float, str]], int]:
    """Return ticks at multiples of 1, 2 or 5 times a power of ten, and decimals to read at.

    Each tick is its place in per cent of the range and its label.
    """
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(f * power for f in (1.0, 2.0, 5.0, 10.0) if f * power >= rough * (1 - 1e-9))
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    largest = max(abs(low), abs(high))
    plain = decimals <= 4 and largest < 1e6
    digits = max(1, math.ceil(math.log10(largest / step)) + 1)  # enough to tell ticks apart

    def label(value: float) -> str:
        text = f"{value:.{decimals}f}" if plain else f"{value:.{digits}g}"
        return text.replace("-", "\N{MINUS SIGN}")

    marks = (k * step for k in range(first, last + 1))
    return [(round(100 * (mark - low) / (high - low), 3), label(mark)) for mark in marks], decimals


def _decimated(y: Array, most: int) -> NDArray[np.intp]:
    """Return at most about `most` indices that keep the curve's look: peaks and gaps stay.

    Every stretch of samples is represented by its lowest and highest, not by an arbitrary one.
    """
    if y.size <= most:
        return np.arange(y.size)
    keep = {0, y.size - 1}
    edges = np.linspace(0, y.size, most // 2 + 1).astype(np.intp)
    for begin, end in itertools.pairwise(edges.tolist()):
        stretch = y[begin:end]
        finite = np.isfinite(stretch)
        if finite.any():
            keep.add(begin + int(np.argmin(np.where(finite, stretch, np.inf))))
            keep.add(begin + int(np.argmax(np.where(finite, stretch, -np.inf))))
        if not finite.all():
            keep.add(begin + int(np.argmin(finite)))
    return np.array(sorted(keep), dtype=np.intp)


def _path(x: Array, y: Array) -> str:
    """Return SVG path data with one subpath, "Mx,y x,y …", for each run without gaps."""
    runs: list[list[str]] = [[]]
    for x_k, y_k in zip(x.tolist(), y.tolist(), strict=True):
        if math.isfinite(y_k):
            runs[-1].append(f"{round(x_k)},{round(y_k)}")
        elif runs[-1]:
            runs.append([])
    # A subpath of one point would not be painted; one that returns to itself is a dot.
    return "".join("M" + " ".join(run if len(run) > 1 else run * 2) for run in runs if run)


def _colour(k: int) -> tuple[str, str]:
    """Return the k-th colour on light and on dark ground."""
    if k < len(_COLOURS):
        return _COLOURS[k]
    hue = round(k * 137.508) % 360  # the golden angle: no two hues come close for long
    return f"hsl({hue} 65% 40%)", f"hsl({hue} 70% 68%)"


def _scene(
    t: Array, bodies: ArrayLike | None, parents: Sequence[int] | None
) -> dict[str, object] | None:
    """Return what the animation needs: few frames, positions as whole numbers."""
    if bodies is None and parents is None:
        return None
    if bodies is None or parents is None:
        raise ShapeError("bodies and parents belong together: give both, or neither.")
    positions = as_array(bodies, (None, None, 3), "bodies")
    n_frames, n_bodies, _ = positions.shape
    if n_frames == 0 or n_bodies == 0:
        raise ShapeError(f"bodies has shape {positions.shape}: leave it out if there are none.")
    tree = [int(parent) for parent in parents]
    if len(tree) != n_bodies or not all(
        -1 <= parent < n_bodies and parent != k for k, parent in enumerate(tree)
    ):
        raise ShapeError(
            f"parents is {tree}: give for each of the {n_bodies} bodies the index of another one, "
            "or -1 for a base."
        )
    frame_times = t if n_frames == t.size else np.linspace(t[0], t[-1], n_frames)
    n_kept = min(n_frames, _FRAMES, max(_BODY_POSITIONS_IN_ALL // n_bodies, 2))
    keep = np.linspace(0, n_frames - 1, n_kept).round().astype(np.intp)
    lowest, highest = positions.min(axis=(0, 1)), positions.max(axis=(0, 1))
    centre = 0.5 * lowest + 0.5 * highest
    radius = float(np.linalg.norm(positions - centre, axis=2).max()) or 1.0
    scaled = (positions[keep] - centre) * (_POSITION_STEPS / radius)
    return {
        "times": [round(time, 4) for time in frame_times[keep].tolist()],
        "positions": scaled.round().astype(np.int64).ravel().tolist(),
        "steps": _POSITION_STEPS,
        "parents": tree,
        "centre": centre.tolist(),
        "radius": radius,
    }
