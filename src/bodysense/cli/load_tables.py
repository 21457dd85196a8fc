"""What `bodysense identify` prints about a load and about drive gains."""

from __future__ import annotations

import math

import numpy as np

from bodysense.cli.tables import Page
from bodysense.identification.payload.drive_gains import DriveGains
from bodysense.identification.payload.experiment import LoadExperiment
from bodysense.identification.payload.payload import LoadStatus, Payload
from bodysense.report.rendering import BAND
from bodysense.spatial.arrays import Array


def payload_text(payload: Payload, experiment: LoadExperiment) -> str:
    """A load as text."""
    page = Page()
    low, high = payload.mass_interval()
    if not payload.status.ok:
        page.line(f"FAILED: no load identified at {payload.link}", style="bold red")
    else:
        known = "" if experiment.unloaded else ", with the arm as its file describes it"
        page.line(
            f"{payload.link} holds {payload.mass:.3f} kg (95 %: {low:.3f} to {high:.3f} kg){known}",
            style="bold",
        )
    _recordings(page, experiment)
    if not payload.status.ok:
        _parts(page, payload)
        _end(page, payload.status)
        return page.text()
    page.line(
        f"standard deviation of the mass {payload.sigma_mass:.3f} kg: "
        f"{payload.sigma_mass_data:.3f} from the recordings"
        f"{'' if experiment.unloaded else ' and the arm'}, {payload.sigma_mass_gains:.3f} from "
        "drive gains that may be off by "
        f"{100.0 * payload.gain_uncertainty:g} %"
    )
    _parts(page, payload)
    table = page.table(
        f"In the frame of {payload.link}; ± is one standard deviation", "", "x", "y", "z", text=(0,)
    )
    table.add_row("centre of mass [mm]", *_pairs(1e3 * payload.com, 1e3 * payload.sigma_com, 1))
    for axis, row, sigma in zip("xyz", payload.inertia, payload.sigma_inertia, strict=True):
        table.add_row(f"inertia about it, {axis} [g·m²]", *_pairs(1e3 * row, 1e3 * sigma, 1))
    page.show(table)
    _losses(page, experiment, payload.losses)
    _end(page, payload.status)
    return page.text()


def gains_text(gains: DriveGains, experiment: LoadExperiment, line: str) -> str:
    """Drive gains as text.

    Args:
        gains: the gains.
        experiment: they are from.
        line: to be pasted into the file that the nominal gains are in.
    """
    page = Page()
    page.line(
        f"drive gains from a load of {gains.load_mass:g} kg at {gains.link}, which the nominal "
        f"gains see as {gains.load_before:.3f} kg",
        style="bold",
    )
    _recordings(page, experiment)
    table = page.table(
        "Gains with 95 % intervals, and the error of predicted torque on blocks left out [%]",
        "joint",
        "nominal",
        "identified",
        "95 %",
        "factor",
        "error before",
        "after",
        text=(0,),
    )
    for j, joint in enumerate(gains.joints):
        reach = BAND * gains.sigma_gains[j]
        table.add_row(
            joint,
            f"{gains.nominal[j]:.5g}",
            f"{gains.gains[j]:.5g}",
            f"{gains.gains[j] - reach:.4g} to {gains.gains[j] + reach:.4g}",
            f"{gains.factors[j]:.4f}",
            f"{100.0 * gains.errors_before[j]:.1f}",
            f"{100.0 * gains.errors_after[j]:.1f}",
        )
    page.show(table)
    page.line(f"the load on blocks left out, with gains of the others: {_masses(gains.load_after)}")
    rest = (
        "; if friction did not grow with the load, they would change by up to "
        f"{100.0 * gains.model_sensitivity:.1f} %"
    )
    lost = bool(gains.losses.any())
    page.line(f"1 % more load makes every gain 1 % larger{rest if lost else ''}")
    if gains.status.ok:  # others are not to be pasted
        page.line("")
        page.line(line, wrap=False)
    _end(page, gains.status)
    return page.text()


def _parts(page: Page, payload: Payload) -> None:
    page.line(
        "mass and centre from parts of the recordings with the load, ± one standard deviation:"
    )
    for part in payload.parts:
        page.line(f"  {part}{' at ' if part.centre else ''}{part.centre}")


def _recordings(page: Page, experiment: LoadExperiment) -> None:
    for role, diagnoses in (("loaded", experiment.loaded), ("unloaded", experiment.unloaded)):
        for diagnosis in diagnoses:
            page.line(f"{role}: {diagnosis.verdict()}", wrap=False)
            for finding in (*diagnosis.of("error"), *diagnosis.of("warning")):
                page.line(f"  {finding}")
    settings, law = experiment.problem.settings, experiment.robot.friction.model.name
    page.line(
        f"cut-off {settings.cutoff or math.nan:.3g} Hz, friction law {law!r}, "
        f"{sum(f.rows for f in experiment.problem.factors.values())} rows"
    )


def _losses(page: Page, experiment: LoadExperiment, losses: Array) -> None:
    kept = experiment.problem.n_losses > 0
    table = page.table(
        "Friction that grows with the load, and squared error on blocks left out, over the noise's",
        "joint",
        "share of the torque [%]",
        "error without",
        "with",
        text=(0,),
    )
    for j, joint in enumerate(experiment.robot.joint_names):
        table.add_row(
            joint,
            f"{100.0 * losses[j]:.1f}" if kept else "-",
            *(f"{error:.2f}" for error in experiment.joint_errors[:, j]),
        )
    table.add_row("all", "", *(f"{error:.2f}" for error in experiment.errors))
    page.show(table)
    if not kept:
        page.line("it does not predict blocks left out any better, and was left out")


def _end(page: Page, status: LoadStatus) -> None:
    page.line("")
    if not status.ok:
        page.line(f"FAILED: {status.failure}", style="bold red")
    else:
        page.line("SOLVED", style="bold green")
    for note in status.notes:
        page.line(f"- {note}")


def _pairs(values: Array, sigma: Array, digits: int) -> list[str]:
    whole = np.round(values, digits) + 0.0  # no minus before zero
    return [f"{v:.{digits}f} ± {s:.{digits}f}" for v, s in zip(whole, sigma, strict=True)]


def _masses(masses: Array) -> str:
    known = [f"{m:.3f}" if math.isfinite(m) else "-" for m in masses]
    return f"{', '.join(known)} kg"
