"""The report of drive gains: what the currents mean, how sure that is, and what it depends on."""

from __future__ import annotations

import os
from pathlib import Path

from bodysense.identification.payload.drive_gains import DriveGains
from bodysense.identification.payload.experiment import LoadExperiment
from bodysense.report.load_page import written_load_page
from bodysense.report.sections.gains import WIDTH, GainSection
from bodysense.report.sections.load_losses import LossSection
from bodysense.report.sections.load_verdict import gains_verdict


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
        title: heading of the page; by default says whose gains they are.
        command: by which the run can be repeated, to be shown and copied.

    Raises:
        FileWriteError: the file cannot be written.
    """
    return written_load_page(
        path,
        experiment,
        title=title if title is not None else f"Drive gains of {experiment.robot.name}",
        kicker="Drive gain report",
        sections={"verdict": "Verdict", "gains": "Gains", "load": "Load", "losses": "Losses"},
        provenance=gains.provenance,
        command=command,
        verdict=gains_verdict(gains, experiment),
        gains=GainSection.of(gains, _line(gains, line)),
        gain_width=WIDTH,
        losses=LossSection.of(experiment, gains.losses),
    )


def _line(gains: DriveGains, line: str | None) -> str:
    """The line to paste; empty where the gains are of no use."""
    if not gains.status.ok:
        return ""
    return gains.layout_line() if line is None else line
