"""The report of an identification: one HTML file that says whether to trust it, and why."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bodysense.identification.run import IdentificationRun
from bodysense.identification.scores import DataScores, Prediction, score
from bodysense.report.figures import WIDTH, Stretches, TracePool, float_bytes, runs
from bodysense.report.identified_parameters import link_section, link_states, parameter_section
from bodysense.report.page import (
    NOTHING,
    Section,
    count,
    effort_unit,
    findings_section,
    number,
    percent,
    provenance_section,
    tile,
    write_page,
)
from bodysense.report.preprocessing import preprocessing_section
from bodysense.spatial.arrays import Array

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
_KINDS = {
    "validation": "Validation",
    "held-out": "Held-out blocks",
    "training": "Training fit",
}  # kinds of data in words, the most telling first

_TRACES = ("raw", "measured", "identified", "prior", "residual")
_POINTS_PER_TRACE = 2000
_POINTS_IN_ALL = 1_200_000  # 2.7 bytes each in the page
_FEWEST_POINTS = 100


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
    torques, links, preprocessing = _torques(run), link_section(run), preprocessing_section(run)
    return write_page(
        path,
        "identification",
        title=title,
        default_title=f"Identification of {run.identification.prior.name}",
        kicker="Identification report",
        sections=_SECTIONS,
        verdict=_verdict(run),
        joints=run.identification.prior.joint_names,
        torques=torques,
        scores=sorted(run.scores, key=lambda s: list(_KINDS).index(s.kind)),
        kinds=_KINDS,
        units=torques["units"],
        parameters=parameter_section(run),
        whisker_width=WIDTH,
        links=links,
        findings=findings_section({"identification": run.diagnoses, "validation": run.validation}),
        preprocessing=preprocessing,
        provenance=provenance_section(
            run.identification.provenance, command, {"log": "logs", "validation log": "validation"}
        ),
        data={"torques": torques, "links": links["scene"], "curves": preprocessing["data"]},
    )


# The verdict, and the numbers behind it.


def _verdict(run: IdentificationRun) -> Section:
    summary = run.verdict.summary
    return {
        "grade": run.verdict.grade,
        "sentence": summary[:1].upper() + summary[1:],
        "advice": run.verdict.advice,
        "tiles": (*_errors(run), _reach(run), _physics(run)),
        "facts": _facts(run),
    }


def _errors(run: IdentificationRun) -> tuple[Section, ...]:
    held_out = [s for s in run.scores if s.kind == "held-out"]
    validation = [s for s in run.scores if s.kind == "validation"]
    judged = validation or held_out or list(run.scores)
    floor = (held_out or judged)[0].noise_floor_d_tau if judged else float("nan")
    return (
        tile(
            "Held-out error",
            percent(_mean(held_out)),
            "of moving joints, on blocks left out of the fit"
            if held_out
            else "the recordings are too short to leave blocks out",
        ),
        tile(
            "Validation error",
            percent(_mean(validation)),
            f"of moving joints, on {count(len(validation), 'recording')} never fitted"
            if validation
            else "no recording was kept for validation",
        ),
        tile("Error before", percent(_mean(judged, prior=True)), "of the robot's file, same data"),
        tile("Noise floor", percent(floor), "of the raw torque, which no model predicts"),
    )


def _mean(scores: list[DataScores], *, prior: bool = False) -> float:
    errors = [(s.prior if prior else s.identified).moving.mean_relative_error for s in scores]
    finite = [error for error in errors if np.isfinite(error)]
    return float(np.mean(finite)) if finite else float("nan")


def _reach(run: IdentificationRun) -> Section:
    labels = run.identification.base_labels
    return tile(
        "Identified",
        f"{labels.count('identified')} of {len(labels)}",
        f"base parameters; {labels.count('driven by the prior')} are driven by the prior, "
        f"{labels.count('not identifiable')} not identifiable",
    )


def _physics(run: IdentificationRun) -> Section:
    states = link_states(run.identification)
    inconsistent, boundary = states.count("inconsistent"), states.count("boundary")
    drives = len(run.identification.negative_drives)
    if not run.identification.consistent:
        parts = [count(inconsistent, "inconsistent link")] if inconsistent else []
        parts += [count(drives, "negative drive parameter")] if drives else []
        return tile("Physics", "not consistent", ", ".join(parts) or "see the links", "bad")
    remark = (
        f"{count(boundary, 'link')} at the boundary" if boundary else "every link is consistent"
    )
    return tile("Physics", "consistent", remark, "fine")


def _facts(run: IdentificationRun) -> list[tuple[str, Sequence[str]]]:
    result, cutoff, knowledge = run.identification, run.settings.cutoff, run.problem.knowledge
    friction = result.prior.friction.model
    reasons = () if run.method_choice is None else run.method_choice.reasons
    known = [("Known exactly", (knowledge.summary(), *knowledge.notes))]
    seconds = sum(d.duration for d in run.diagnoses)
    return [
        ("Robot", (result.prior.summary(),)),
        ("Method", (f"{result.method}. {result.status.message}", *reasons)),
        ("Friction law", (f"{friction.name} ({', '.join(friction.terms) or 'none'})",)),
        *(known if knowledge.any else []),
        ("Identified from", tuple(d.source for d in run.diagnoses) or (NOTHING,)),
        ("Validated on", tuple(d.source for d in run.validation) or (NOTHING,)),
        (
            "Data",
            (
                f"{number(seconds, 3)} s used, low-pass "
                f"{number(cutoff if cutoff is not None else float('nan'), 3)} Hz",
            ),
        ),
    ]


# Measured against predicted torques, joint by joint and recording by recording.


def _torques(run: IdentificationRun) -> Section:
    """Curves for the page's script, and what can be chosen."""
    robot = run.identification.prior
    groups = group_recordings(run.predictions)
    n_traces = max(1, len(groups) * robot.n_joints * len(_TRACES))
    most = max(_FEWEST_POINTS, min(_POINTS_PER_TRACE, _POINTS_IN_ALL // n_traces))
    pool = TracePool()
    return {
        "joints": list(robot.joint_names),
        "units": [effort_unit(kind) for kind in robot.joint_types],
        "recordings": [_recording(label, pieces, most, pool) for label, pieces in groups],
        "traces": pool.traces,
    }


def group_recordings(predictions: Sequence[Prediction]) -> list[tuple[str, list[Prediction]]]:
    """Pieces of the same recording together with a label, validation first.

    Two recordings of the same name are distinguished by their times, which must ascend.
    """
    groups: list[list[Prediction]] = []
    for p in predictions:
        if groups and _follows(groups[-1][-1], p):
            groups[-1].append(p)
        else:
            groups.append([p])
    groups.sort(key=lambda pieces: list(_KINDS).index(pieces[0].kind))
    labels: list[str] = []
    for pieces in groups:
        label = f"{_KINDS[pieces[0].kind]}: {pieces[0].source}"
        same = sum(other == label or other.startswith(f"{label} (") for other in labels)
        labels.append(f"{label} ({same + 1})" if same else label)
    return list(zip(labels, groups, strict=True))


def _follows(last: Prediction, p: Prediction) -> bool:
    return (last.kind, last.source) == (p.kind, p.source) and bool(p.t[0] > last.t[-1])


def _recording(label: str, pieces: Sequence[Prediction], most: int, pool: TracePool) -> Section:
    stretches = Stretches.of([p.t.size for p in pieces], most)
    start = float(pieces[0].t[0])
    with np.errstate(all="ignore"):  # of a prediction that diverged
        errors = score(pieces).identified
        curves = [_curves(p) for p in pieces]
    points = {name: stretches.values([curve[name] for curve in curves]) for name in _TRACES}
    still = ~stretches.any([p.moving for p in pieces])
    moving, everywhere = errors.moving.relative_error, errors.all.relative_error
    return {
        "label": label,
        "start": start,
        "time": float_bytes(stretches.times([p.t - start for p in pieces])),
        "pieces": stretches.starts,
        "joints": [
            {name: pool.add(points[name][:, j]) for name in _TRACES}
            | {
                "still": runs(still[:, j], stretches.starts),
                "error": percent(moving[j])
                if np.isfinite(moving[j])
                else f"{percent(everywhere[j])}, still",
            }
            for j in range(still.shape[1])
        ],
    }


def _curves(p: Prediction) -> dict[str, Array]:
    return {
        "raw": p.raw,
        "measured": p.filtered,
        "identified": p.identified_filtered,
        "prior": p.prior_filtered,
        "residual": p.filtered - p.identified_filtered,
    }
