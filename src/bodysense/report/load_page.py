"""What the reports of a load and of drive gains have in common."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bodysense.identification.payload.drive_gains import DriveGains
from bodysense.identification.payload.experiment import LoadExperiment
from bodysense.report.figures import WIDTH, Axis
from bodysense.report.page import (
    BAND,
    NOTHING,
    Section,
    findings_section,
    percent,
    provenance_section,
    setup_facts,
    tile,
    write_page,
)
from bodysense.spatial.arrays import Array
from bodysense.status import Status

LOAD_SECTIONS = {"losses": "Losses", "findings": "Recordings", "provenance": "Provenance"}
"""Titles of the sections that both reports have, by name."""


def load_content(
    experiment: LoadExperiment, losses: Array, provenance: Mapping[str, Any], command: str | None
) -> dict[str, Any]:
    """What the sections `LOAD_SECTIONS` show; `losses` (n,) are shares of the joints' torques."""
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


def load_verdict(
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
        sections={"verdict": "Verdict", "gains": "Gains", "load": "Load", **LOAD_SECTIONS},
        verdict=_verdict(gains, experiment),
        gains=_gains(gains, gains.layout_line() if line is None else line),
        gain_width=WIDTH,
        **load_content(experiment, gains.losses, gains.provenance, command),
    )


def _verdict(gains: DriveGains, experiment: LoadExperiment) -> Section:
    advice = (
        "Write the gains into the layout file, then identify arm and loads with it. Give "
        f"--gain-uncertainty {gains.gain_uncertainty:.2g} for the loads: it covers noise and the "
        "uncertainty due to losses. It is for the load as given; where its mass is uncertain, by "
        "1 % say, add that."
    )
    sentence = (
        f"With nominal gains, a load of {gains.load_mass:g} kg is identified as "
        f"{gains.load_before:.3f} kg. With these gains it has its mass."
    )
    return load_verdict(gains.status, experiment, sentence, [advice], _gains_tiles(gains))


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
        "words": _words(gains),
    }


def _words(gains: DriveGains) -> tuple[str, ...]:
    lost = bool(gains.losses.any())
    physical = float(np.abs(gains.total_least_squares / gains.factors - 1.0).max())
    return (
        "1 % more load makes every gain 1 % larger: the scale of all gains is the load's mass, "
        "exactly, and the intervals are for the load as given.",
        f"Without friction that grows with the load, which takes up to "
        f"{percent(float(gains.losses.max()))} of the torque, a gain would change by up to "
        f"{percent(gains.model_sensitivity)}."
        if lost
        else "Friction that grows with the load was not observed, and is not modelled.",
        "Without the constraint of physical consistency (total least squares), a gain would change "
        f"by up to {percent(physical)}.",
        "Errors of predicted torque say little about gains: wrong gains predict the torques that "
        "they define as well as right ones.",
    )
