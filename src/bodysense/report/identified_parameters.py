"""Identified parameters beside the prior, as tables with error bars and as bodies.

Masses, inertias and friction have nothing in common to be compared by, but each has a plausible
size by which the prior may well be off. In these sizes,

    change = (value - prior) / size,        half an error bar = 1.96 sigma / size,

a parameter at 0 is as in the robot's file, one beyond 1 is a surprise, and an error bar as long as
1 says that the data know no more than the prior did.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pinocchio as pin

from bodysense.identification.identification import LABELS, Identification, Label
from bodysense.identification.prior import Prior
from bodysense.identification.run import IdentificationRun
from bodysense.report.figures import WhiskerScale, ellipsoid, stick_figure
from bodysense.report.page import (
    BAND,
    NOTHING,
    Section,
    number,
    parameter_row,
    parameter_terms,
    parameter_units,
)
from bodysense.spatial.arrays import Array

_LinkState = Literal["consistent", "boundary", "inconsistent"]
_BOUNDARY = 1e-3  # margin below which a link lies at the boundary, as for the verdict
_SCENE_REACH = 2.0  # times the radius of the joints: larger bodies are cut off


def parameter_section(run: IdentificationRun) -> Section:
    """Tables of base parameters and of standard parameters, and what their names mean."""
    result, prior = run.identification, Prior.of(run.problem)
    layout, base = result.prior.layout, result.base
    names, units = layout.names, parameter_units(layout, result.prior.joint_types)
    independent = [int(k) for k in base.independent]
    base_table = _table(
        "base",
        "Base parameters",
        [(names[k], base.names[k_base], units[k]) for k_base, k in enumerate(independent)],
        [layout.describe(names[k]) for k in independent],
        (result.theta_base, result.sigma_base, prior.theta_base, prior.size_base),
        result.base_labels,
    )
    full_table = _table(
        "standard",
        "Standard parameters",
        [(name, name, unit) for name, unit in zip(names, units, strict=True)],
        [layout.describe(name) for name in names],
        (result.theta, result.sigma, prior.theta, prior.size),
        result.labels,
    )
    return {"tables": (base_table, full_table), "terms": parameter_terms(names)}


def _table(
    key: str,
    title: str,
    names: Sequence[tuple[str, str, str]],
    words: Sequence[str],
    arrays: tuple[Array, Array, Array, Array],
    labels: Sequence[Label],
) -> Section:
    """A table of name, combination and unit of each parameter, with the axis of its drawings."""
    theta, sigma, before, size = arrays
    with np.errstate(all="ignore"):
        change, reach = (theta - before) / size, BAND * sigma / size
    scale = WhiskerScale.of(change, reach)
    rows = [
        {
            **parameter_row(name, combination, words[k], unit, k),
            "prior": float(before[k]),
            "value": float(theta[k]),
            "text": _to(theta[k], sigma[k]),
            "sigma": float(sigma[k]),
            "label": labels[k],
            "slug": _slug(labels[k]),
            "whisker": scale.whisker(float(change[k]), float(reach[k])),
            "change": float(change[k]),
        }
        for k, (name, combination, unit) in enumerate(names)
    ]
    counts = [
        (label, _slug(label), list(labels).count(label))
        for label in LABELS
        if label != "known" or label in labels  # seldom there at all
    ]
    return {"key": key, "title": title, "rows": rows, "counts": counts, "scale": scale}


def _slug(label: Label) -> str:
    return f"label-{LABELS.index(label)}"


def _to(value: float, sigma: float) -> str:
    """A value with as many digits as its error leaves, and one more."""
    if not (np.isfinite(value) and np.isfinite(sigma)):
        return number(value) if np.isfinite(value) else NOTHING
    if value == 0.0 or sigma <= 0.0:
        return number(value)
    if abs(value) < 1e-3 * sigma:  # rounding, where the prior is zero
        return "0"
    digits = int(np.floor(np.log10(abs(value))) - np.floor(np.log10(sigma))) + 2
    return number(value, min(max(digits, 2), 7))


# Links as bodies of uniform density in the robot's first posture, before and after.


def link_section(run: IdentificationRun) -> Section:
    """Rows of the table: kg, mm, consistency margin; and the scene for the page's script."""
    result = run.identification
    pi_prior, pi = (_pi(result, theta) for theta in (result.prior.theta, result.theta))
    return {
        "rows": [_link(result, k, pi_prior[k], pi[k]) for k in range(len(pi))],
        "total": (number(float(pi_prior[:, 0].sum())), number(float(pi[:, 0].sum()))),
        "scene": _scene(run, pi_prior, pi),
    }


def link_states(result: Identification) -> list[_LinkState]:
    """Whether each link is physically consistent, at the boundary of that, or inconsistent."""
    return [
        "inconsistent" if not c.consistent else "boundary" if c.margin < _BOUNDARY else "consistent"
        for c in result.consistency
    ]


def _pi(result: Identification, theta: Array) -> Array:
    return theta[result.prior.layout.inertial].reshape(-1, 10)


def _link(result: Identification, k: int, before: Array, after: Array) -> Section:
    check, state = result.consistency[k], link_states(result)[k]
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
    links: list[dict[str, Any]] = [
        {
            "name": robot.link_names[k],
            "state": state,
            "prior": _placed(pi_prior[k], data.oMi[k + 1]),
            "identified": _placed(pi[k], data.oMi[k + 1]),
        }
        for k, state in enumerate(link_states(result))
    ]
    centre, radius = _surroundings(points[0], links)
    return {
        "links": links,
        "points": points[0].round(5).tolist(),
        "parents": parents,
        "centre": centre.round(5).tolist(),
        "radius": round(radius, 5),
    }


def _surroundings(joints: Array, links: list[dict[str, Any]]) -> tuple[Array, float]:
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


def _placed(pi: Array, pose: pin.SE3) -> dict[str, Any] | None:
    """Centre and semi-axes in the world."""
    body = ellipsoid(pi)
    if body is None:
        return None
    centre, axes = body
    return {
        "centre": pose.act(centre).round(5).tolist(),
        "axes": (pose.rotation @ axes).T.round(5).tolist(),
    }
