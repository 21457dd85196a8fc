"""What the reports of a load and of drive gains have in common."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bodysense.identification.payload.experiment import LoadExperiment
from bodysense.report.page import Section, findings_section, provenance_section, write_page
from bodysense.report.rendering import NOTHING, number, percent
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
