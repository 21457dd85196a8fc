"""The report of a load: its mass, centre and inertia, and what their uncertainty consists of."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy.stats import chi2

from bodysense.identification.payload.experiment import LoadExperiment
from bodysense.identification.payload.payload import Payload
from bodysense.report.figures import Axis, ellipsoid, round_step
from bodysense.report.load_page import LOAD_SECTIONS, load_content, load_verdict
from bodysense.report.page import BAND, NOTHING, Section, number, percent, tile, write_page
from bodysense.spatial.arrays import Array

_AXES = "xyz"
_VIEWS = ((0, 1), (0, 2), (1, 2))

_SIZE = 300.0  # of a view, in its own units
_MARGIN = 34.0  # of a view, for the labels of its axes
_CHI = float(np.sqrt(chi2.ppf(0.95, 2)))  # sigmas that hold two coordinates at once
_BODY_REACH = 2.0  # times the distance of the centre: no more of a large body is shown
_NAME_LENGTH = 24  # letters of a recording's name in a drawing; its end tells it from others
_DOMINANT = 2.0  # times the other part, from which one part of an interval decides


def write_payload_page(
    path: str | os.PathLike[str],
    payload: Payload,
    experiment: LoadExperiment,
    *,
    title: str | None = None,
    command: str | None = None,
) -> Path:
    """Write the report of a load and return its path.

    Args:
        path: the HTML file to write; its folder must exist.
        payload: the load.
        experiment: it is from.
        title: heading of the page; by default names the robot that holds it.
        command: by which the run can be repeated, to be shown and copied.
    """
    sections = {"verdict": "Verdict", "mass": "Mass", "body": "Body", **LOAD_SECTIONS}
    if not payload.status.ok:  # there is nothing to show
        del sections["body"]
    return write_page(
        path,
        "load",
        title=title or f"Payload of {experiment.robot.name}",
        kicker="Payload report",
        sections=sections,
        verdict=_verdict(payload, experiment),
        body=_body(payload),
        view_size=_SIZE,
        view_margin=_MARGIN,
        **load_content(experiment, payload.losses, payload.provenance, command),
    )


def _verdict(payload: Payload, experiment: LoadExperiment) -> Section:
    low, high = payload.mass_interval()
    advice = []
    if payload.sigma_mass_gains > _DOMINANT * payload.sigma_mass_data:
        advice.append(
            "Most of the interval comes from the drive gains. A load of known mass calibrates them "
            "(`bodysense gains`); state what you know of them in --gain-uncertainty."
        )
    return load_verdict(
        payload.status,
        experiment,
        f"{payload.link} holds {payload.mass:.3f} kg; 95 % interval {low:.3f} to {high:.3f} kg"
        + ("." if experiment.unloaded else ", with the arm as its file describes it."),
        advice,
        _payload_tiles(payload, experiment) if payload.status.ok else (),
    )


def _payload_tiles(payload: Payload, experiment: LoadExperiment) -> tuple[Section, ...]:
    low, high = payload.mass_interval()
    com, reach = (
        ", ".join(f"{1e3 * x:.0f}".replace("-", "\N{MINUS SIGN}") for x in values)
        for values in (payload.com, BAND * payload.sigma_com)
    )
    lost = experiment.problem.n_losses > 0
    consistent = payload.consistency.consistent
    return (
        tile("Mass", f"{payload.mass:.3f} kg", f"95 %: {low:.3f} to {high:.3f} kg"),
        tile(
            "From the recordings",
            f"± {BAND * payload.sigma_mass_data:.3f} kg",
            "95 %: their noise, correlated in time",
        ),
        tile(
            "From the gains",
            f"± {BAND * payload.sigma_mass_gains:.3f} kg",
            f"95 %: a gain uncertainty of {100.0 * payload.gain_uncertainty:g} %, which no "
            "recording shows",
        ),
        tile("Centre of mass", com, f"mm in {payload.link}; 95 %: ± {reach} mm"),
        tile(
            "Lost in the gears",
            percent(float(payload.losses.max(initial=0.0))) if lost else "nothing",
            "of the torque at most, as friction that grows with the load"
            if lost
            else "no friction that grows with the load was observed",
        ),
        tile(
            "Physics",
            "consistent" if consistent else "not consistent",
            "mass, centre and inertia are those of a rigid body"
            if consistent
            else payload.consistency.reason,
            "fine" if consistent else "bad",
        ),
    )


# The body: its mass on an axis, its centre in three views, its inertia in numbers.


def _body(payload: Payload) -> Section:
    sigma_com, sigma_inertia = payload.sigma_com.tolist(), payload.sigma_inertia.tolist()
    return {
        "frame": payload.link,
        "views": _views(payload) if np.isfinite(payload.com_covariance).all() else [],
        "mass": _mass(payload),
        "com": [
            (axis, _mm(x), _mm(s), f"{_mm(x - BAND * s)} to {_mm(x + BAND * s)}")
            for axis, x, s in zip(_AXES, payload.com.tolist(), sigma_com, strict=True)
        ],
        "inertia": [
            [(_grams(v), _grams(s)) for v, s in zip(row, sigma, strict=True)]
            for row, sigma in zip(payload.inertia.tolist(), sigma_inertia, strict=True)
        ],
        "shares": _shares(payload),
        "moments": ", ".join(_grams(x) for x in np.linalg.eigvalsh(payload.inertia).tolist())
        if np.isfinite(payload.inertia).all()
        else NOTHING,
        "parts": [
            (part.name, number(part.mass), number(part.sigma, 3), part.centre or NOTHING)
            if part.known
            else (part.name, NOTHING, NOTHING, NOTHING)
            for part in payload.parts
        ],
    }


def _views(payload: Payload) -> list[Section]:
    """The body seen along each axis of the frame: outline, and the centre with 95 % confidence."""
    com, covariance = payload.com, payload.com_covariance
    outline = ellipsoid(payload.pi)
    body = np.zeros((3, 3)) if outline is None else outline[1]
    half = np.linalg.norm(body, axis=1)
    reach = np.maximum(_CHI * payload.sigma_com, half)
    far = max(_BODY_REACH * float(np.linalg.norm(com)), 1e-3)
    corners = np.stack([np.zeros(3), com - np.minimum(reach, far), com + np.minimum(reach, far)])
    low, high = corners.min(axis=0), corners.max(axis=0)
    middle, span = 0.5 * (low + high), 1.15 * float((high - low).max())
    scale = (_SIZE - _MARGIN) / span
    arrow = round_step(0.15 * span)

    def made(a: int, b: int) -> Section:
        across = Axis(middle[a] - span / 2, middle[a] + span / 2, _MARGIN, _SIZE)
        up = Axis(middle[b] - span / 2, middle[b] + span / 2, _SIZE - _MARGIN, 0.0)
        origin = across.place(0.0), up.place(0.0)
        centre = across.place(com[a]), up.place(com[b])
        which = np.ix_([a, b], [a, b])
        error = _CHI**2 * covariance[which]
        even = (body @ body.T)[which]
        return {
            "across": _AXES[a],
            "up": _AXES[b],
            "origin": origin,
            "ends": ((across.place(arrow), origin[1]), (origin[0], up.place(arrow))),
            "error": _ellipse(centre, error, scale),
            "even": _ellipse(centre, even, scale),
            "across_ticks": _millimetre_ticks(across),
            "up_ticks": _millimetre_ticks(up),
        }

    return [made(a, b) for a, b in _VIEWS]


def _ellipse(place: tuple[float, float], matrix: Array, scale: float) -> Section:
    """The outline x with (x - place)ᵀ matrix⁻¹ (x - place) = 1; a view's second axis points up."""
    values, V = np.linalg.eigh(matrix)
    a, b = scale * np.sqrt(np.maximum(values[::-1], 0.0))
    angle = -float(np.degrees(np.arctan2(V[1, 1], V[0, 1])))
    size = {"a": round(float(a), 2), "b": round(float(b), 2)}
    return {"x": place[0], "y": place[1], **size, "angle": round(angle, 1)}


def _millimetre_ticks(axis: Axis) -> tuple[tuple[float, str], ...]:
    scaled = Axis(1e3 * axis.low, 1e3 * axis.high, axis.start, axis.end)
    return scaled.ticks(5)


def _mass(payload: Payload) -> Section:
    """The mass [kg] on an axis: its interval, the part due to noise, and single recordings."""
    low, high = payload.mass_interval()
    reach = BAND * payload.sigma_mass_data
    parts = [part for part in payload.parts if part.known]
    axis = Axis.around([low, high, *(part.mass for part in parts)], 12.0, 408.0)
    axis = replace(axis, low=max(axis.low, 0.0))  # no mass is negative
    return {
        "value": axis.place(payload.mass),
        "total": (axis.place(low), axis.place(high)),
        "noise": (axis.place(payload.mass - reach), axis.place(payload.mass + reach)),
        "parts": [
            (axis.place(part.mass), f"{_short(part.name)}: {number(part.mass)} kg")
            for part in parts
        ],
        "ticks": axis.ticks(),
    }


def _short(name: str) -> str:
    return name if len(name) <= _NAME_LENGTH else f"…{name[1 - _NAME_LENGTH :]}"


def _shares(payload: Payload) -> list[tuple[str, str, str]]:
    total = payload.sigma_mass**2 or 1.0
    rows = (
        ("noise of the recordings, correlated in time", payload.sigma_mass_data),
        (
            f"drive gains that may be off by {100.0 * payload.gain_uncertainty:g} %",
            payload.sigma_mass_gains,
        ),
        ("together", payload.sigma_mass),
    )
    return [(name, number(sigma, 3), f"{100.0 * sigma**2 / total:.0f} %") for name, sigma in rows]


def _mm(metres: float) -> str:
    return f"{1e3 * metres:.1f}".replace("-", "\N{MINUS SIGN}")


def _grams(inertia: float) -> str:
    return number(1e3 * inertia, 3)
