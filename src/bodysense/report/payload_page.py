"""The report of a load: what is held, how sure that is, and why."""

from __future__ import annotations

import os
from pathlib import Path

from bodysense.identification.payload.experiment import LoadExperiment
from bodysense.identification.payload.payload import Payload
from bodysense.report.load_page import written_load_page
from bodysense.report.sections.held_body import MARGIN, SIZE, BodySection
from bodysense.report.sections.load_losses import LossSection
from bodysense.report.sections.load_verdict import payload_verdict


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
        title: heading of the page; by default says who holds it.
        command: by which the run can be repeated, to be shown and copied.

    Raises:
        FileWriteError: the file cannot be written.
    """
    sections = {"verdict": "Verdict", "mass": "Mass", "body": "Body", "losses": "Losses"}
    if not payload.status.ok:  # there is nothing to show
        del sections["body"]
    return written_load_page(
        path,
        experiment,
        title=title if title is not None else f"What {experiment.robot.name} holds",
        kicker="Payload report",
        sections=sections,
        provenance=payload.provenance,
        command=command,
        verdict=payload_verdict(payload, experiment),
        body=BodySection.of(payload),
        view_size=SIZE,
        view_margin=MARGIN,
        losses=LossSection.of(experiment, payload.losses),
    )
