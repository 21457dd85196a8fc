"""The report of an identification: one HTML file that says whether to trust it, and why."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pinocchio as pin

from bodysense.errors import require_type
from bodysense.identification.identification import Identification
from bodysense.identification.run import IdentificationRun
from bodysense.identification.scores import Prediction, mean_noise, score
from bodysense.logs.filtering import Stretches
from bodysense.report.figures import (
    WIDTH,
    TracePool,
    ellipsoid,
    float_bytes,
    runs,
    stick_figure,
)
from bodysense.report.page import (
    NOTHING,
    Section,
    count,
    findings_section,
    number,
    percent,
    provenance_section,
    setup_facts,
    tile,
    write_page,
)
from bodysense.report.parameters import parameter_section
from bodysense.report.preprocessing import preprocessing_section
from bodysense.robot.layout import effort_unit
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

_SCENE_REACH = 2.0  # times the radius of the joints: larger bodies are cut off


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
    """
    require_type(run, IdentificationRun, "an IdentificationRun", "identify(…) returns one")
    torques, links, preprocessing = _torques(run), _links(run), preprocessing_section(run)
    return write_page(
        path,
        "identification",
        title=title or f"Identification of {run.identification.prior.name}",
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
        "caution": run.verdict.caution,
        "tiles": (*_errors(run), _reach(run), _physics(run)),
        "facts": _facts(run),
    }


def _errors(run: IdentificationRun) -> tuple[Section, ...]:
    """The numbers of the verdict's sentence, and the error of held-out blocks beside them."""
    held_out = [s for s in run.scores if s.kind == "held-out"]
    validation = [s for s in run.scores if s.kind == "validation"]
    judged, verdict = validation or held_out or list(run.scores), run.verdict
    where = {
        "validation": f"on {count(len(validation), 'recording')} never fitted",
        "held-out": "on blocks left out of the fit",
        "training": "on the data of the fit: too short to leave blocks out",
    }[judged[0].kind]
    return (
        tile("Error", percent(verdict.error), f"of moving joints on average, {where}"),
        tile("Worst joint", percent(verdict.worst), f"{verdict.worst_joint or NOTHING}, same data"),
        tile("Error before", percent(verdict.before), "of the robot's file, same data"),
        tile(
            "Noise floor",
            percent(mean_noise(judged)),
            "of the raw torque, which no model predicts, same data",
        ),
    )


def _reach(run: IdentificationRun) -> Section:
    labels = run.identification.base_labels
    return tile(
        "Identified",
        f"{labels.count('identified')} of {len(labels)}",
        f"base parameters; {run.identification.unidentified()}",
    )


def _physics(run: IdentificationRun) -> Section:
    states = _link_states(run.identification)
    inconsistent, boundary = states.count("inconsistent"), states.count("boundary")
    drives = len(run.identification.negative_drives)
    if not run.identification.consistent:
        parts = [count(inconsistent, "inconsistent link")] if inconsistent else []
        parts += [count(drives, "negative drive parameter")] if drives else []
        return tile("Physics", "not consistent", ", ".join(parts) or "see the links", "bad")
    if boundary:
        return tile("Physics", "at the border", f"{count(boundary, 'link')} at the boundary")
    return tile("Physics", "consistent", "every link is consistent", "fine")


def _facts(run: IdentificationRun) -> list[tuple[str, Sequence[str]]]:
    result, knowledge = run.identification, run.problem.knowledge
    reasons = () if run.method_choice is None else run.method_choice.reasons
    known = [("Known exactly", (knowledge.summary(), *knowledge.notes))]
    return [
        *setup_facts(result.prior, run.diagnoses, run.settings.cutoff),
        ("Method", (f"{result.method}. {result.status.message}", *reasons)),
        *(known if knowledge.any else []),
        ("Identified from", tuple(d.source for d in run.diagnoses) or (NOTHING,)),
        ("Validated on", tuple(d.source for d in run.validation) or (NOTHING,)),
    ]


# Measured against predicted torques, joint by joint and recording by recording.


def _torques(run: IdentificationRun) -> Section:
    """Curves for the page's script, and what can be chosen."""
    robot = run.identification.prior
    groups = _group_recordings(run.predictions)
    n_traces = max(1, len(groups) * robot.n_joints * len(_TRACES))
    most = max(_FEWEST_POINTS, min(_POINTS_PER_TRACE, _POINTS_IN_ALL // n_traces))
    pool = TracePool()
    return {
        "joints": list(robot.joint_names),
        "units": [effort_unit(kind) for kind in robot.joint_types],
        "recordings": [_recording(label, pieces, most, pool) for label, pieces in groups],
        "traces": pool.traces,
    }


def _group_recordings(predictions: Sequence[Prediction]) -> list[tuple[str, list[Prediction]]]:
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


# Links as bodies of uniform density in the robot's first posture, before and after.


def _links(run: IdentificationRun) -> Section:
    """Rows of the table: kg, mm, consistency margin; and the scene for the page's script."""
    result = run.identification
    inertial = result.prior.layout.inertial
    pi_prior, pi = (x[inertial].reshape(-1, 10) for x in (result.prior.theta, result.theta))
    return {
        "rows": [_link(result, k, pi_prior[k], pi[k]) for k in range(len(pi))],
        "total": (number(float(pi_prior[:, 0].sum())), number(float(pi[:, 0].sum()))),
        "scene": _scene(run, pi_prior, pi),
    }


def _link_states(result: Identification) -> list[str]:
    """Whether each link is physically consistent, at the boundary of that, or inconsistent."""
    return [
        "inconsistent"
        if not c.consistent
        else "boundary"
        if name in result.border
        else "consistent"
        for name, c in zip(result.prior.link_names, result.consistency, strict=True)
    ]


def _link(result: Identification, k: int, before: Array, after: Array) -> Section:
    check, state = result.consistency[k], _link_states(result)[k]
    centres = [pi[1:4] / pi[0] if pi[0] != 0.0 else np.full(3, np.nan) for pi in (before, after)]
    shift = float(np.linalg.norm(centres[1] - centres[0]))
    start = result.prior.layout.link(k).start
    return {
        "name": result.prior.link_names[k],
        "mass_prior": number(before[0], 3),
        "mass": number(after[0], 3),
        "mass_sigma": number(result.sigma[start], 2),
        "mass_label": result.labels[start],
        "com_prior": _millimetres(centres[0]),
        "com": _millimetres(centres[1]),
        "shift": f"{1e3 * shift:.0f}" if np.isfinite(shift) else NOTHING,
        "margin": number(check.margin, 2),
        "state": state,
        "reason": check.reason,
    }


def _millimetres(point: Array) -> str:
    if not np.isfinite(point).all():
        return NOTHING
    return ", ".join(f"{round(1e3 * x)}".replace("-", "\N{MINUS SIGN}") for x in point.tolist())


def _scene(run: IdentificationRun, pi_prior: Array, pi: Array) -> Section:
    result = run.identification
    robot = result.prior
    q = run.problem.motions[0].q[:1]
    points, parents = stick_figure(robot, q)
    data = robot.model.createData()
    pin.forwardKinematics(robot.model, data, q[0])
    links: list[Section] = [
        {
            "name": robot.link_names[k],
            "state": state,
            "prior": _placed(pi_prior[k], data.oMi[k + 1]),
            "identified": _placed(pi[k], data.oMi[k + 1]),
        }
        for k, state in enumerate(_link_states(result))
    ]
    centre, radius = _surroundings(points[0], links)
    return {
        "links": links,
        "points": points[0].round(5).tolist(),
        "parents": parents,
        "centre": centre.round(5).tolist(),
        "radius": round(radius, 5),
    }


def _surroundings(joints: Array, links: list[Section]) -> tuple[Array, float]:
    """Centre (3,) and radius [m] of a ball around joints (n, 3) and bodies.

    A body that is absurdly large must not hide all others: beyond twice the reach of the joints,
    bodies are cut off.
    """
    middle = 0.5 * (joints.min(axis=0) + joints.max(axis=0))
    far = _SCENE_REACH * (float(np.linalg.norm(joints - middle, axis=1).max()) or 1.0)
    corners = [joints]
    for body in (link[key] for link in links for key in ("prior", "identified")):
        if body is not None:
            half = np.linalg.norm(body["axes"], axis=0)  # of the box around an ellipsoid
            corners.append(np.array([body["centre"] - half, body["centre"] + half]))
    points = np.clip(np.concatenate(corners), middle - far, middle + far)
    centre = 0.5 * (points.min(axis=0) + points.max(axis=0))
    return centre, float(np.linalg.norm(points - centre, axis=1).max()) or 1.0


def _placed(pi: Array, pose: pin.SE3) -> Section | None:
    """Centre and semi-axes in the world."""
    body = ellipsoid(pi)
    if body is None:
        return None
    centre, axes = body
    return {
        "centre": pose.act(centre).round(5).tolist(),
        "axes": (pose.rotation @ axes).T.round(5).tolist(),
    }
