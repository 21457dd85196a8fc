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
    number,
    percent,
    provenance_section,
    tile,
    write_page,
)
from bodysense.spatial.arrays import Array
from bodysense.status import Status


def write_load_page(
    path: str | os.PathLike[str],
    experiment: LoadExperiment,
    *,
    title: str | None,
    default_title: str,
    kicker: str,
    sections: Mapping[str, str],
    provenance: Mapping[str, Any],
    command: str | None,
    losses: Array,
    **content: Any,
) -> Path:
    """Write a page; see `write_page`.

    Args:
        path: the HTML file to write.
        experiment: what the recordings are from.
        title: heading of the page.
        default_title: heading if `title` is None.
        kicker: kind of the report, above the heading.
        sections: titles of the page's own sections, by name.
        provenance: of the result.
        command: by which the run can be repeated.
        losses: (n,) share of each joint's torque that is lost.
        content: what the sections show, by name.
    """
    return write_page(
        path,
        "load",
        title=title,
        default_title=default_title,
        kicker=kicker,
        sections={
            **sections,
            "losses": "Losses",
            "findings": "Recordings",
            "provenance": "Provenance",
        },
        losses=_losses(experiment, losses),
        findings=findings_section(
            {"with the load": experiment.loaded, "without it": experiment.unloaded}
        ),
        provenance=provenance_section(
            provenance, command, {"with the load": "loaded", "without it": "unloaded"}
        ),
        **content,
    )


def load_verdict(
    status: Status,
    experiment: LoadExperiment,
    sentence: str,
    advice: list[str],
    tiles: tuple[Section, ...],
) -> Section:
    """What to think of a result; `sentence` and further `advice` are for one that is of use."""
    noted = [*status.notes] + [
        f"{diagnosis.source}, {finding.where}: {finding.message}; {finding.action}."
        for diagnosis in (*experiment.loaded, *experiment.unloaded)
        for severity in ("error", "warning")
        for finding in diagnosis.of(severity)
    ]
    return {
        "grade": "failed" if not status.ok else "fair" if noted else "good",
        "sentence": sentence if status.ok else status.failure,
        "advice": noted + advice if status.ok else noted,
        "tiles": tiles,
        "facts": _facts(experiment),
    }


def _facts(experiment: LoadExperiment) -> tuple[tuple[str, tuple[str, ...]], ...]:
    friction, cutoff = experiment.robot.friction.model, experiment.problem.settings.cutoff
    seconds = sum(d.duration for d in (*experiment.loaded, *experiment.unloaded))
    return (
        ("Robot", (experiment.robot.summary(),)),
        ("Friction law", (f"{friction.name} ({', '.join(friction.terms) or 'none'})",)),
        ("With the load", tuple(d.source for d in experiment.loaded)),
        (
            "Without it",
            tuple(d.source for d in experiment.unloaded) or ("none: the arm was taken as known",),
        ),
        (
            "Data",
            (
                f"{number(seconds, 3)} s used, low-pass "
                f"{number(cutoff if cutoff is not None else float('nan'), 3)} Hz",
            ),
        ),
    )


def _losses(experiment: LoadExperiment, losses: Array) -> Section:
    """Friction that grows with the load, joint by joint, and how much it explains."""
    kept = experiment.problem.n_losses > 0
    return {
        "kept": kept,
        "most": float(losses.max(initial=0.0)) or 1.0,
        "rows": [
            {
                "joint": joint,
                "share": percent(losses[j]) if kept else NOTHING,
                "loss": float(losses[j]),
                "without": number(experiment.joint_errors[0, j], 3),
                "with": number(experiment.joint_errors[1, j], 3),
            }
            for j, joint in enumerate(experiment.robot.joint_names)
        ],
        "all": [number(error, 3) for error in experiment.errors],
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

    Raises:
        FileWriteError: the file cannot be written.
    """
    if not gains.status.ok:
        line = ""  # the gains are of no use
    return write_load_page(
        path,
        experiment,
        title=title,
        default_title=f"Drive gains of {experiment.robot.name}",
        kicker="Drive gain report",
        sections={"verdict": "Verdict", "gains": "Gains", "load": "Load"},
        provenance=gains.provenance,
        command=command,
        verdict=_verdict(gains, experiment),
        gains=_gains(gains, gains.layout_line() if line is None else line),
        gain_width=WIDTH,
        losses=gains.losses,
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
    """Gains beside the nominal ones, the load as they measure it, and what they depend on."""
    reach = BAND * gains.sigma
    ends = [1.0, *(gains.factors - reach), *(gains.factors + reach)]
    axis = Axis.around(ends, 4.0, WIDTH - 4)
    return {
        "line": line,
        "rows": [_row(gains, axis, j) for j in range(len(gains.joints))],
        "one": axis.place(1.0),
        "ticks": axis.ticks(4),
        "load": _load(gains),
        "words": _words(gains),
        "means": [percent(float(e.mean())) for e in (gains.errors_before, gains.errors_after)],
    }


def _row(gains: DriveGains, axis: Axis, j: int) -> Section:
    reach, reach_gain = BAND * gains.sigma[j], BAND * gains.sigma_gains[j]
    return {
        "joint": gains.joints[j],
        "nominal": number(gains.nominal[j]),
        "gain": number(gains.gains[j]),
        "interval": f"{number(gains.gains[j] - reach_gain)} to "
        f"{number(gains.gains[j] + reach_gain)}",
        "factor": number(gains.factors[j]),
        "other": (number(gains.total_least_squares[j]), number(gains.without_losses[j])),
        "at": axis.place(gains.factors[j]),
        "low": axis.place(gains.factors[j] - reach),
        "high": axis.place(gains.factors[j] + reach),
        "before": percent(gains.errors_before[j]),
        "after": percent(gains.errors_after[j]),
        "better": bool(gains.errors_after[j] < gains.errors_before[j]),
    }


def _load(gains: DriveGains) -> Section:
    """The load [kg] on an axis: as weighed, with nominal gains, and on held-out blocks."""
    after = [float(m) for m in gains.load_after if np.isfinite(m)]
    axis = Axis.around([gains.load_mass, gains.load_before, *after], 12.0, 408.0)
    return {
        "given": axis.place(gains.load_mass),
        "nominal": axis.place(gains.load_before),
        "after": [(axis.place(m), number(m)) for m in after],
        "ticks": axis.ticks(),
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
