"""What the reports of a load and of drive gains have in common.

They look like the report of an identification, and are as complete in themselves: style and script
are in the file, and its content security policy names their digests.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from markupsafe import Markup

from bodysense.files import write_atomically
from bodysense.identification.payload.experiment import LoadExperiment
from bodysense.report.rendering import environment, source_digest, template_text
from bodysense.report.sections.findings import findings_of
from bodysense.report.sections.provenance import ProvenanceSection

_SHARED = {"findings": "Recordings", "provenance": "Provenance"}
_OF_IDENTIFICATION = ("verdict", *_SHARED)  # templates that the report of an identification has


def written_load_page(
    path: str | os.PathLike[str],
    experiment: LoadExperiment,
    *,
    title: str,
    kicker: str,
    sections: Mapping[str, str],
    provenance: Mapping[str, Any],
    command: str | None,
    **content: object,
) -> Path:
    """Write a page.

    Args:
        path: the HTML file to write.
        experiment: what the recordings are from.
        title: heading of the page.
        kicker: kind of the report, above the heading.
        sections: titles of the page's own sections, by name.
        provenance: of the result.
        command: by which the run can be repeated.
        content: what the templates of the sections need, by name.
    """
    style = template_text("identification/style.css", "load/style.css")
    script = '"use strict";\n(() => {\n'
    script += template_text("load/start.js", "identification/page.js") + "})();\n"
    shown = {**sections, **_SHARED}
    page = (
        environment()
        .get_template("load.html.j2")
        .render(
            title=title,
            kicker=kicker,
            style=Markup(style),
            script=Markup(script),
            style_digest=source_digest(style),
            script_digest=source_digest(script),
            sections=shown,
            templates=[
                f"{'identification' if key in _OF_IDENTIFICATION else 'load'}/{key}.html.j2"
                for key in shown
            ],
            findings=findings_of(
                {"with the load": experiment.loaded, "without it": experiment.unloaded}
            ),
            provenance=ProvenanceSection.of_origin(
                provenance, command, {"with the load": "loaded", "without it": "unloaded"}
            ),
            data={},
            **content,
        )
    )
    # Lone surrogates, which no UTF-8 file can hold, become question marks.
    return write_atomically(path, page.encode("utf-8", "replace"))
