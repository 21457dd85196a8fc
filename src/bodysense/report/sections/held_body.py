"""The body that is held: its mass on an axis, its centre in three views, its inertia in numbers."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import chi2

from bodysense.identification.payload.payload import Payload
from bodysense.report.rendering import BAND, NOTHING, number
from bodysense.report.sections.axis import Axis, round_step
from bodysense.report.sections.links import ellipsoid
from bodysense.spatial.arrays import Array

SIZE = 300.0
"""Of a view, in its own units."""

MARGIN = 34.0
"""Of a view, for the labels of its axes."""

_AXES = "xyz"
_VIEWS = ((0, 1), (0, 2), (1, 2))
_JOINTLY = float(np.sqrt(chi2.ppf(0.95, 2)))  # sigmas of two coordinates at once
_LONGEST = 24  # letters of a recording's name in a drawing; its end tells it from others
_MOST_BODY = 2.0  # times the distance of the centre: no more of a large body is shown


@dataclass(frozen=True)
class Ellipse:
    """Centre, semi-axes and angle [degrees] of an ellipse in a view."""

    x: float
    y: float
    a: float
    b: float
    angle: float


@dataclass(frozen=True)
class BodyView:
    """The body seen along one axis of the frame.

    Attributes:
        across, up: names of the axes that are seen.
        origin: of the frame.
        ends: of the frame's two axes, x and y of each.
        error: where the centre of mass is, with 95 % certainty.
        even: outline of the body of even density with this inertia.
        across_ticks, up_ticks: places and labels [mm].
    """

    across: str
    up: str
    origin: tuple[float, float]
    ends: tuple[tuple[float, float], tuple[float, float]]
    error: Ellipse
    even: Ellipse
    across_ticks: tuple[tuple[float, str], ...]
    up_ticks: tuple[tuple[float, str], ...]


@dataclass(frozen=True)
class MassDrawing:
    """The mass [kg] on an axis: places of its interval, and of parts of the recordings.

    Attributes:
        value: of the mass.
        total: ends of the 95 % interval.
        noise: ends of the part that is noise of the recordings.
        parts: place and label of the mass from each part of the recordings that says something.
        ticks: places and labels.
    """

    value: float
    total: tuple[float, float]
    noise: tuple[float, float]
    parts: tuple[tuple[float, str], ...]
    ticks: tuple[tuple[float, str], ...]


@dataclass(frozen=True)
class BodySection:
    """What is held, drawn and in numbers.

    Attributes:
        frame: name of the frame that holds it.
        views: along the axes of the frame.
        mass: on its axis.
        com: axis, value, deviation and ends of the interval [mm].
        inertia: rows of values and deviations [g·m²].
        shares: what the mass's uncertainty is made of: name, deviation [kg], share of the variance.
        moments: principal moments of inertia [g·m²].
        parts: name, mass and deviation [kg], and centre [mm] of each part of the recordings.
    """

    frame: str
    views: tuple[BodyView, ...]
    mass: MassDrawing
    com: tuple[tuple[str, str, str, str], ...]
    inertia: tuple[tuple[tuple[str, str], ...], ...]
    shares: tuple[tuple[str, str, str], ...]
    moments: str
    parts: tuple[tuple[str, str, str, str], ...]

    @classmethod
    def of(cls, payload: Payload) -> BodySection:
        """The section of a load."""
        return cls(
            frame=payload.link,
            views=_views(payload) if np.isfinite(payload.com_covariance).all() else (),
            mass=_mass(payload),
            com=tuple(
                (axis, _mm(x), _mm(s), f"{_mm(x - BAND * s)} to {_mm(x + BAND * s)}")
                for axis, x, s in zip(
                    _AXES, payload.com.tolist(), payload.sigma_com.tolist(), strict=True
                )
            ),
            inertia=tuple(
                tuple((_grams(v), _grams(s)) for v, s in zip(row, sigma, strict=True))
                for row, sigma in zip(
                    payload.inertia.tolist(), payload.sigma_inertia.tolist(), strict=True
                )
            ),
            shares=_shares(payload),
            moments=", ".join(_grams(x) for x in np.linalg.eigvalsh(payload.inertia).tolist())
            if np.isfinite(payload.inertia).all()
            else NOTHING,
            parts=tuple(
                (part.name, number(part.mass), number(part.sigma, 3), part.centre or NOTHING)
                if part.known
                else (part.name, NOTHING, NOTHING, NOTHING)
                for part in payload.parts
            ),
        )


def _views(payload: Payload) -> tuple[BodyView, ...]:
    com, covariance = payload.com, payload.com_covariance
    result = ellipsoid(payload.pi)
    body = np.zeros((3, 3)) if result is None else result[1]
    half = np.linalg.norm(body, axis=1)
    reach = np.maximum(_JOINTLY * payload.sigma_com, half)
    far = max(_MOST_BODY * float(np.linalg.norm(com)), 1e-3)
    corners = np.stack([np.zeros(3), com - np.minimum(reach, far), com + np.minimum(reach, far)])
    low, high = corners.min(axis=0), corners.max(axis=0)
    middle, span = 0.5 * (low + high), 1.15 * float((high - low).max())
    scale = (SIZE - MARGIN) / span
    arrow = round_step(0.15 * span)

    def made(a: int, b: int) -> BodyView:
        across = Axis(middle[a] - span / 2, middle[a] + span / 2, MARGIN, SIZE)
        up = Axis(middle[b] - span / 2, middle[b] + span / 2, SIZE - MARGIN, 0.0)
        origin = across.place(0.0), up.place(0.0)
        place = across.place(com[a]), up.place(com[b])
        which = np.ix_([a, b], [a, b])
        error = _JOINTLY**2 * covariance[which]
        even = (body @ body.T)[which]
        return BodyView(
            across=_AXES[a],
            up=_AXES[b],
            origin=origin,
            ends=((across.place(arrow), origin[1]), (origin[0], up.place(arrow))),
            error=_ellipse(place, error, scale),
            even=_ellipse(place, even, scale),
            across_ticks=_millimetre_ticks(across),
            up_ticks=_millimetre_ticks(up),
        )

    return tuple(made(a, b) for a, b in _VIEWS)


def _ellipse(place: tuple[float, float], matrix: Array, scale: float) -> Ellipse:
    """The outline x with (x - place)ᵀ matrix⁻¹ (x - place) = 1; a view's second axis points up."""
    values, V = np.linalg.eigh(matrix)
    a, b = scale * np.sqrt(np.maximum(values[::-1], 0.0))
    angle = -float(np.degrees(np.arctan2(V[1, 1], V[0, 1])))
    return Ellipse(*place, round(float(a), 2), round(float(b), 2), round(angle, 1))


def _millimetre_ticks(axis: Axis) -> tuple[tuple[float, str], ...]:
    scaled = Axis(1e3 * axis.low, 1e3 * axis.high, axis.start, axis.end)
    return scaled.ticks(5)


def _mass(payload: Payload) -> MassDrawing:
    low, high = payload.mass_interval()
    reach = BAND * payload.sigma_mass_data
    parts = [part for part in payload.parts if part.known]
    axis = Axis.around([low, high, *(part.mass for part in parts)], 12.0, 408.0)
    axis = replace(axis, low=max(axis.low, 0.0))  # no mass is negative
    return MassDrawing(
        value=axis.place(payload.mass),
        total=(axis.place(low), axis.place(high)),
        noise=(axis.place(payload.mass - reach), axis.place(payload.mass + reach)),
        parts=tuple(
            (axis.place(part.mass), f"{_short(part.name)}: {number(part.mass)} kg")
            for part in parts
        ),
        ticks=axis.ticks(),
    )


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else f"…{name[1 - _LONGEST :]}"


def _shares(payload: Payload) -> tuple[tuple[str, str, str], ...]:
    total = payload.sigma_mass**2 or 1.0
    rows = (
        ("noise of the recordings, correlated in time", payload.sigma_mass_data),
        (
            f"drive gains that may be off by {100.0 * payload.gain_uncertainty:g} %",
            payload.sigma_mass_gains,
        ),
        ("together", payload.sigma_mass),
    )
    return tuple(
        (name, number(sigma, 3), f"{100.0 * sigma**2 / total:.0f} %") for name, sigma in rows
    )


def _mm(metres: float) -> str:
    return f"{1e3 * metres:.1f}".replace("-", "\N{MINUS SIGN}")


def _grams(inertia: float) -> str:
    return number(1e3 * inertia, 3)
