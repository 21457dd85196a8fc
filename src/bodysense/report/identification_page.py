"""The report of an identification: one HTML file that says whether to trust it, and why.

The page is complete in itself: styles, script and curves are in the file. Its content security
policy names the digests of its own style and script: nothing else can run in it, and nothing can
be fetched.
"""

from __future__ import annotations

import os
from pathlib import Path

from markupsafe import Markup

from bodysense.files import write_atomically
from bodysense.identification.run import IdentificationRun
from bodysense.report.rendering import (
    environment,
    ready_for_json,
    source_digest,
    template_text,
)
from bodysense.report.sections.findings import log_findings
from bodysense.report.sections.links import LinkSection
from bodysense.report.sections.parameters import ParameterSection
from bodysense.report.sections.preprocessing import PreprocessingSection
from bodysense.report.sections.provenance import ProvenanceSection
from bodysense.report.sections.scores import score_tables
from bodysense.report.sections.torques import TorqueSection
from bodysense.report.sections.verdict import VerdictSection
from bodysense.report.sections.whiskers import WIDTH

_SECTIONS = {
    "verdict": "Verdict",
    "torques": "Torques",
    "scores": "Scores",
    "parameters": "Parameters",
    "links": "Links",
    "findings": "Recordings",
    "preprocessing": "Pre-processing",
    "provenance": "Provenance",
}
_SCRIPTS = ("plot.js", "torques.js", "links.js", "curves.js", "page.js")


def write_identification_page(
    path: str | os.PathLike[str],
    run: IdentificationRun,
    *,
    title: str | None = None,
    command: str | None = None,
) -> Path:
    """Write the report of an identification and return its path.

    Args:
        path: the HTML file to write; its folder must exist.
        run: what `identify` returned.
        title: heading of the page; by default the robot's name.
        command: by which the run can be repeated, to be shown and copied.

    Raises:
        FileWriteError: the file cannot be written.
    """
    torques, links = TorqueSection.of(run), LinkSection.of(run)
    preprocessing = PreprocessingSection.of(run)
    style = template_text("identification/style.css")
    script = '"use strict";\n(() => {\n'
    script += template_text(*(f"identification/{name}" for name in _SCRIPTS)) + "})();\n"
    page = (
        environment()
        .get_template("identification.html.j2")
        .render(
            title=title
            if title is not None
            else f"Identification of {run.identification.prior.name}",
            style=Markup(style),
            script=Markup(script),
            style_digest=source_digest(style),
            script_digest=source_digest(script),
            sections=_SECTIONS,
            verdict=VerdictSection.of(run),
            torques=torques,
            scores=score_tables(run),
            parameters=ParameterSection.of(run),
            whisker_width=WIDTH,
            links=links,
            findings=log_findings(run),
            preprocessing=preprocessing,
            provenance=ProvenanceSection.of(run, command),
            data=ready_for_json(
                {"torques": torques.data, "links": links.scene, "curves": preprocessing.data}
            ),
        )
    )
    # Lone surrogates, which no UTF-8 file can hold, become question marks.
    return write_atomically(path, page.encode("utf-8", "replace"))
