"""The reports of a load and of drive gains: values, their uncertainty, and what they depend on."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import chi2

from bodysense.identification.payload.drive_gains import DriveGains
from bodysense.identification.payload.experiment import LoadExperiment
from bodysense.identification.payload.payload import Payload
from bodysense.report.figures import WIDTH, Axis, ellipsoid, round_step
from bodysense.report.page import (
    NOTHING,
    Section,
    findings_section,
    number,
    percent,
    provenance_section,
    setup_facts,
    tile,
    write_page,
)
from bodysense.spatial.arrays import Array
from bodysense.status import BAND, Status

_SECTIONS = {"losses": "Losses", "findings": "Recordings", "provenance": "Provenance"}
"""Titles of the sections that both reports have, by name."""

_AXES = "xyz"
_VIEWS = ((0, 1), (0, 2), (1, 2))

_SIZE = 300.0  # of a view, in its own units
_MARGIN = 34.0  # of a view, for the labels of its axes
_CHI = float(np.sqrt(chi2.ppf(0.95, 2)))  # sigmas that hold two coordinates at once
_BODY_REACH = 2.0  # times the distance of the centre: no more of a large body is shown
_NAME_LENGTH = 24  # letters of a recording's name in a drawing; its end tells it from others
_DOMINANT = 2.0  # times the other part, from which one part of an interval decides


# The report of a load.


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
    sections = {"verdict": "Verdict", "mass": "Mass", "body": "Body", **_SECTIONS}
    if not payload.status.ok:  # there is nothing to show
        del sections["body"]
    return write_page(
        path,
        "load",
        title=title or f"Payload of {experiment.robot.name}",
        kicker="Payload report",
        sections=sections,
        verdict=_payload_verdict(payload, experiment),
        body=_body(payload),
        view_size=_SIZE,
        view_margin=_MARGIN,
        **_content(experiment, payload.losses, payload.provenance, command),
    )


def _payload_verdict(payload: Payload, experiment: LoadExperiment) -> Section:
    low, high = payload.mass_interval()
    advice = []
    if payload.sigma_mass_gains > _DOMINANT * payload.sigma_mass_data:
        advice.append(
            "Most of the interval comes from the drive gains. A load of known mass calibrates them "
            "(`bodysense gains`); state what you know of them in --gain-uncertainty."
        )
    return _verdict(
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
    known = bool(np.isfinite(payload.inertia).all())
    return {
        "of": payload,
        "views": _views(payload) if np.isfinite(payload.com_covariance).all() else [],
        "mass": _mass(payload),
        "moments": np.linalg.eigvalsh(payload.inertia).tolist() if known else [],
        "band": BAND,
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


# The report of drive gains: torque per logged unit, its uncertainty, and what it depends on.


def write_gains_page(
    path: str | os.PathLike[str],
    gains: DriveGains,
    experiment: LoadExperiment,
    *,
    line: str | None = None,
    title: str | None = None,
    command: str | None = None,
) -> Path:
    """Write the report of drive gains and return its path.

    Args:
        path: the HTML file to write; its folder must exist.
        gains: the gains.
        experiment: they are from.
        line: to be pasted into the file that the nominal gains are in; by default that of a layout
            file.
        title: heading of the page; by default names the robot.
        command: by which the run can be repeated, to be shown and copied.
    """
    if not gains.status.ok:
        line = ""  # the gains are of no use
    return write_page(
        path,
        "load",
        title=title or f"Drive gains of {experiment.robot.name}",
        kicker="Drive gain report",
        sections={"verdict": "Verdict", "gains": "Gains", "load": "Load", **_SECTIONS},
        verdict=_gains_verdict(gains, experiment),
        gains=_gains(gains, gains.layout_line() if line is None else line),
        gain_width=WIDTH,
        **_content(experiment, gains.losses, gains.provenance, command),
    )


def _gains_verdict(gains: DriveGains, experiment: LoadExperiment) -> Section:
    advice = (
        "Write the gains into the layout file, then identify arm and loads with it. Give "
        f"--gain-uncertainty {gains.gain_uncertainty:.2g} for the loads: it covers noise and how "
        "far the parts of the recordings differ. It is for the load as given; where its mass is "
        "uncertain, by 1 % say, add that."
    )
    sentence = (
        f"With nominal gains, a load of {gains.load_mass:g} kg is identified as "
        f"{gains.load_before:.3f} kg. With these gains it has its mass."
    )
    return _verdict(gains.status, experiment, sentence, [advice], _gains_tiles(gains))


def _gains_tiles(gains: DriveGains) -> tuple[Section, ...]:
    change = gains.factors - 1.0
    most, worst = int(np.argmax(np.abs(change))), int(np.argmax(gains.sigma / gains.factors))
    after = gains.load_after[np.isfinite(gains.load_after)]
    off = float(np.abs(after - gains.load_mass).mean()) if after.size else float("nan")
    return (
        tile("Load, as weighed", f"{gains.load_mass:g} kg", f"held by {gains.link}"),
        tile(
            "With nominal gains",
            f"{gains.load_before:.3f} kg",
            f"{_signed(gains.load_before / gains.load_mass - 1.0)} off",
        ),
        tile(
            "On held-out blocks",
            f"{off:.3f} kg" if after.size else NOTHING,
            "mean error, with gains of the other blocks",
        ),
        tile("Largest change", _signed(float(change[most])), f"of a gain: {gains.joints[most]}"),
        tile(
            "Largest uncertainty",
            f"± {percent(BAND * float(gains.sigma[worst] / gains.factors[worst]))}",
            f"95 %: {gains.joints[worst]}",
        ),
        tile(
            "Torque error",
            percent(float(gains.errors_after.mean())),
            f"mean of joints on held-out blocks; {percent(float(gains.errors_before.mean()))} with "
            "nominal gains",
        ),
    )


def _signed(fraction: float) -> str:
    return ("+" if fraction >= 0.0 else "") + percent(fraction)


def _gains(gains: DriveGains, line: str) -> Section:
    """Gains beside the nominal ones, the load [kg] as they measure it, and what they depend on."""
    reach = BAND * gains.sigma
    factors = [1.0, *(gains.factors - reach), *(gains.factors + reach)]
    after = [float(mass) for mass in gains.load_after if np.isfinite(mass)]
    masses = [gains.load_mass, gains.load_before, *after]
    return {
        "line": line,
        "of": gains,
        "reach": reach,
        "reach_gain": BAND * gains.sigma_gains,
        "axis": Axis.around(factors, 4.0, WIDTH - 4),
        "load_axis": Axis.around(masses, 12.0, 408.0),
        "after": after,
    }


# What both have in common.


def _content(
    experiment: LoadExperiment, losses: Array, provenance: Mapping[str, Any], command: str | None
) -> dict[str, Any]:
    """What the sections `_SECTIONS` show; `losses` (n,) are shares of the joints' torques."""
    roles = {"with the load": "loaded", "without it": "unloaded"}
    return {
        "losses": {
            "kept": experiment.problem.n_losses > 0,
            "joints": experiment.robot.joint_names,
            "shares": losses,
            "most": float(losses.max(initial=0.0)) or 1.0,
            "joint_errors": experiment.joint_errors,
            "errors": experiment.errors,
        },
        "findings": findings_section(
            {role: getattr(experiment, name) for role, name in roles.items()}
        ),
        "provenance": provenance_section(provenance, command, roles),
    }


def _verdict(
    status: Status,
    experiment: LoadExperiment,
    sentence: str,
    advice: list[str],
    tiles: tuple[Section, ...],
) -> Section:
    """What to think of a result; `sentence` and further `advice` are for one that is of use."""
    recordings = (*experiment.loaded, *experiment.unloaded)
    noted = [*status.notes] + [
        f"{diagnosis.source}, {finding.where}: {finding.message}; {finding.action}."
        for diagnosis in recordings
        for severity in ("error", "warning")
        for finding in diagnosis.of(severity)
    ]
    return {
        "grade": "failed" if not status.ok else "fair" if noted else "good",
        "sentence": sentence if status.ok else status.failure,
        "advice": noted + advice if status.ok else noted,
        "tiles": tiles,
        "facts": [
            *setup_facts(experiment.robot, recordings, experiment.problem.settings.cutoff),
            ("With the load", [d.source for d in experiment.loaded]),
            (
                "Without it",
                [d.source for d in experiment.unloaded] or ["none: the arm was taken as known"],
            ),
        ],
    }
