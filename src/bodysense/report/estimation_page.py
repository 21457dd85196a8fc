"""The report of estimates from a log: what touched the robot, how sure, and who disagrees.

The page is complete in itself, as that of an identification: its content security policy names the
digests of its own style and script, nothing else can run in it, and nothing can be fetched.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from bodysense.estimation import (
    EstimatedCurves,
    LogEstimate,
    LogTotals,
    Observability,
    StateTotals,
)
from bodysense.files import versions, write_atomically
from bodysense.report.rendering import environment, ready_for_json, source_digest, template_text
from bodysense.report.sections.estimated_curves import curve_data
from bodysense.report.sections.estimated_state import StateSection
from bodysense.report.sections.estimation_summary import EstimationSummary
from bodysense.report.sections.provenance import ProvenanceSection
from bodysense.report.sections.sensor_consistency import ConsistencySection
from bodysense.robot.io.source import robot_origin

_SECTIONS = {
    "summary": "Summary",
    "wrenches": "Wrenches",
    "torques": "Torques",
    "positions": "Positions",
    "sensors": "Sensors",
    "seen": "What is seen",
    "provenance": "Provenance",
}
_STYLES = ("identification/style.css", "estimation/style.css")
_SCRIPTS = ("identification/plot.js", "estimation/bands.js", "identification/page.js")


def write_estimation_page(
    path: str | os.PathLike[str],
    estimate: LogEstimate,
    totals: LogTotals,
    curves: EstimatedCurves,
    seen: Observability,
    *,
    state: StateTotals | None = None,
    notes: Sequence[str] | None = None,
    source: str = "log",
    title: str | None = None,
    command: str | None = None,
    provenance: Mapping[str, Any] | None = None,
) -> Path:
    """Write the report of a log and return its path.

    Args:
        path: the HTML file to write; its folder must exist.
        estimate: of the log.
        totals: of all its chunks.
        curves: of all its chunks.
        seen: what the sensors can see at its positions.
        state: of all its chunks, where positions are estimated.
        notes: what the user should know; by default those of the estimate.
        source: name of the recording.
        title: heading of the page; by default the robot's name.
        command: by which it can be repeated, to be shown and copied.
        provenance: digests and settings, beside versions and the robot.

    Raises:
        FileWriteError: the file cannot be written.
    """
    robot = estimate.problem.robot
    stretches: dict[str, list[list[float]]] = {}
    for contact in totals.contacts():
        stretches.setdefault(contact.link, []).append([contact.start, contact.end])
    style = template_text(*_STYLES)
    script = '"use strict";\n(() => {\n' + template_text(*_SCRIPTS) + "})();\n"
    origin = {"versions": versions(), "robot": robot_origin(robot), **(provenance or {})}
    page = (
        environment()
        .get_template("estimation.html.j2")
        .render(
            title=title if title is not None else f"What {robot.name} felt",
            style=Markup(style),
            script=Markup(script),
            style_digest=source_digest(style),
            script_digest=source_digest(script),
            sections={k: v for k, v in _SECTIONS.items() if state or k != "positions"},
            summary=EstimationSummary.of(
                estimate, totals, seen, source, estimate.notes if notes is None else notes
            ),
            state=None if state is None else StateSection.of(state),
            positions=curves.positions,
            links=curves.links,
            joints=curves.joints,
            tables=ConsistencySection.of(totals, seen),
            provenance=ProvenanceSection.of_origin(
                origin, command, {"log": "logs", "sensors": "sensors"}
            ),
            data=ready_for_json({"estimates": curve_data(curves, stretches)}),
        )
    )
    # Lone surrogates, which no UTF-8 file can hold, become question marks.
    return write_atomically(path, page.encode("utf-8", "replace"))
