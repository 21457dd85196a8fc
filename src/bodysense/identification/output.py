"""The files of an identification: robot, parameters, scores and configuration."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import Any

from bodysense.errors import BodysenseError
from bodysense.files import plain, write_atomically, write_configuration
from bodysense.identification.identification import Identification
from bodysense.identification.methods import DEFAULT, consistent_alternative
from bodysense.identification.run import IdentificationRun
from bodysense.robot.io.actuator_writer import write_actuators
from bodysense.robot.io.joint_values import write_joint_values
from bodysense.robot.io.mjcf_writer import write_mjcf
from bodysense.robot.io.urdf import write_urdf
from bodysense.robot.mounting import gravity_notes
from bodysense.status import BAND

_PARAMETER_COLUMNS = (
    "kind",
    "name",
    "description",
    "value",
    "sigma",
    "lower_95",
    "upper_95",
    "prior",
    "resolution",
    "label",
)

OUTPUT_FILES = (
    "config.yaml",
    "identification.json",
    "identification.npz",
    "identified.actuators.yaml",
    "identified.joints.yaml",
    "identified.urdf",
    "identified.xml",
    "parameters.csv",
    "report.html",
    "scores.json",
)
"""Everything that an identification can write."""


def write_run(
    folder: str | PathLike[str],
    run: IdentificationRun,
    configuration: Mapping[str, Any] | None = None,
) -> tuple[str, ...]:
    """Write everything but the report into an existing folder.

    Args:
        folder: where to.
        run: what `identify` returned.
        configuration: options of `bodysense identify --config` that reproduce it, by name; without
            them there is no ``config.yaml``.

    Returns:
        Notes on files that could not be written, e.g. because a link is not physical.
    """
    target, robot = Path(folder), run.robot
    notes = [f"identified.urdf: {note}" for note in gravity_notes(robot)]
    for name, write in (
        ("identified.urdf", write_urdf),
        ("identified.xml", write_mjcf),
        ("identified.actuators.yaml", write_actuators),
        ("identified.joints.yaml", write_joint_values),
    ):
        try:
            write(robot, target / name)
        except BodysenseError as error:
            notes.append(f"{name} is not written: {_with_remedy(error, run.identification)}")
    write_atomically(target / "parameters.csv", _parameter_table(run.identification))
    write_atomically(target / "scores.json", json.dumps(scores(run), indent=2, allow_nan=False))
    write_configuration(target, "identify", configuration)
    run.identification.save(target)
    return tuple(notes)


def _with_remedy(error: BodysenseError, result: Identification) -> str:
    """Why a robot cannot be written, with the method to take instead of the one that was."""
    if result.consistent:
        return str(error)
    method = consistent_alternative(result.method)
    # Writers do not know the method, and name the default.
    message = str(error).replace(f"({DEFAULT})", f"({method})")
    return f"{message} A consistent method, such as {method}, gives a physically consistent robot."


def scores(run: IdentificationRun) -> dict[str, Any]:
    """Verdict and scores, ready for JSON."""
    return {
        "verdict": {
            "grade": run.verdict.grade,
            "summary": run.verdict.summary,
            "advice": list(run.verdict.advice),
            "intervals_hold": run.verdict.intervals_hold,
            "error": plain(run.verdict.error),
            "worst_error": plain(run.verdict.worst),
            "worst_joint": run.verdict.worst_joint,
        },
        "defects": [plain(asdict(defect)) for defect in run.defects],
        "joints": list(run.problem.robot.joint_names),
        "locked": run.problem.robot.origin.get("locked", {}),
        "method": run.identification.method,
        "friction": run.problem.robot.friction.model.name,
        "cutoff_hz": plain(run.settings.cutoff),
        "score_cutoff_hz": run.settings.score_cutoff,
        "consistent": run.identification.consistent,
        "identified": {
            "base": run.identification.base_labels.count("identified"),
            "of": run.identification.base.size,
        },
        "data": [data.to_dict() for data in run.scores],
        "notes": "relative errors and d_tau are fractions, not per cent",
    }


def _parameter_table(identification: Identification) -> str:
    """All parameters as CSV: base parameters first, then the standard ones they stand for."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_PARAMETER_COLUMNS)
    writer.writerows(_base_rows(identification))
    writer.writerows(_standard_rows(identification))
    return text.getvalue()


def _base_rows(result: Identification) -> Iterator[tuple[object, ...]]:
    layout, base = result.prior.layout, result.base
    prior = base.to_base(result.prior.theta)
    for k, place in enumerate(base.independent):
        yield (
            "base",
            base.names[k],
            layout.describe(layout.names[place]),
            *_numbers(result.theta_base[k], result.sigma_base[k], prior[k]),
            float(result.base_resolution[k]),
            result.base_labels[k],
        )


def _standard_rows(result: Identification) -> Iterator[tuple[object, ...]]:
    layout = result.prior.layout
    for k, name in enumerate(layout.names):
        yield (
            "standard",
            name,
            layout.describe(name),
            *_numbers(result.theta[k], result.sigma[k], result.prior.theta[k]),
            float(result.resolution[k]),
            result.labels[k],
        )


def _numbers(value: float, sigma: float, prior: float) -> tuple[float, ...]:
    reach = BAND * float(sigma)
    return float(value), float(sigma), float(value) - reach, float(value) + reach, float(prior)
