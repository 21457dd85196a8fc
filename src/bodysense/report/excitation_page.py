"""The report of a designed motion: curves within limits, and what the motion will tell.

The page is complete in itself, as that of an identification: its content security policy names the
digests of its own style and script, nothing else can run in it, and nothing can be fetched.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from markupsafe import Markup

from bodysense.excitation.design import Design
from bodysense.excitation.limits import MotionLimits
from bodysense.files import versions, write_atomically
from bodysense.report.rendering import environment, ready_for_json, source_digest, template_text
from bodysense.report.sections.designed_motion import ClearanceSection, MotionSection
from bodysense.report.sections.excitation_summary import ExcitationSummary
from bodysense.report.sections.limit_use import QUANTITIES, limit_rows
from bodysense.report.sections.predicted_precision import WIDTH, PrecisionSection
from bodysense.report.sections.provenance import ProvenanceSection
from bodysense.robot.io.source import robot_origin
from bodysense.robot.robot import Robot
from bodysense.robot.shapes.collisions import Collisions

_SECTIONS = {
    "summary": "Summary",
    "motion": "Motion",
    "limits": "Limits",
    "clearance": "Clearance",
    "parameters": "Parameters",
    "search": "Search",
    "provenance": "Provenance",
}
_STYLES = ("identification/style.css", "excitation/style.css")
_SCRIPTS = (
    "identification/plot.js",
    "excitation/motion.js",
    "excitation/search.js",
    "identification/page.js",
)


def write_excitation_page(
    path: str | os.PathLike[str],
    design: Design,
    robot: Robot,
    limits: MotionLimits,
    *,
    collisions: Collisions | None = None,
    title: str | None = None,
    command: str | None = None,
    seed: int | None = None,
) -> Path:
    """Write the report of a designed motion and return its path.

    Args:
        path: the HTML file to write; its folder must exist.
        design: what `design_motion` returned.
        robot: that it was designed for.
        limits: that it was designed within.
        collisions: pairs that were kept apart; their distances are not shown if None.
        title: heading of the page; by default the robot's name.
        command: by which the design can be repeated, to be shown and copied.
        seed: of the random starts.

    Raises:
        FileWriteError: the file cannot be written.
    """
    motion = MotionSection.of(design, robot, limits)
    clearance = ClearanceSection.of(design, collisions)
    style = template_text(*_STYLES)
    script = '"use strict";\n(() => {\n' + template_text(*_SCRIPTS) + "})();\n"
    page = (
        environment()
        .get_template("excitation.html.j2")
        .render(
            title=title if title is not None else f"Exciting motion for {robot.name}",
            style=Markup(style),
            script=Markup(script),
            style_digest=source_digest(style),
            script_digest=source_digest(script),
            sections=_SECTIONS,
            summary=ExcitationSummary.of(design, robot, collisions),
            motion=motion,
            quantities=QUANTITIES,
            limits=limit_rows(design, robot, limits),
            rate=f"{design.rate:g}",
            clearance=clearance,
            precision=PrecisionSection.of(design, robot),
            bar_width=WIDTH,
            provenance=_provenance(design, robot, command, seed),
            data=ready_for_json(
                {
                    "motion": motion.data,
                    "clearance": clearance.data,
                    "search": {
                        "seconds": [at for at, _ in design.history],
                        "values": [value for _, value in design.history],
                        "start": design.start_value,
                        "criterion": design.criterion,
                        "total": design.seconds,
                    },
                }
            ),
        )
    )
    # Lone surrogates, which no UTF-8 file can hold, become question marks.
    return write_atomically(path, page.encode("utf-8", "replace"))


def _provenance(
    design: Design, robot: Robot, command: str | None, seed: int | None
) -> ProvenanceSection:
    origin, result = robot_origin(robot), versions()
    everything = {
        "versions": result,
        "robot": origin,
        "joints": design.joints,
        "criterion": design.criterion,
        "torque_noise": design.noise.tolist(),
        "duration": [motion.duration for motion in design.trajectories],
        "seconds": design.seconds,
        "status": design.status,
        "seed": seed,
        "command": command,
    }
    return ProvenanceSection(
        command=command,
        inputs=(("robot", str(origin.get("file", robot.name)), str(origin.get("sha256", ""))),),
        versions=tuple(result.items()),
        seed="" if seed is None else str(seed),
        configuration=json.dumps(
            ready_for_json(everything), indent=2, ensure_ascii=False, allow_nan=False
        ),
    )
