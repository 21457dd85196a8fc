"""Links as ellipsoids in the posture of a recording: before and after the identification.

Mass, centre of mass and inertia of a link are those of exactly one ellipsoid of even density. With
the second moments of its mass about its centre, Sigma_c = V diag(lambda) Vᵀ, it has the semi-axes
sqrt(5 lambda / m) along V.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pinocchio as pin

from bodysense.identification.identification import Identification
from bodysense.identification.run import IdentificationRun
from bodysense.report.rendering import NOTHING, number, place
from bodysense.report.rollout_page import stick_figure
from bodysense.spatial.arrays import Array
from bodysense.spatial.pseudo_inertia import pseudo_inertia_from_pi

State = Literal["inside", "border", "impossible"]
_BORDER = 1e-3  # margin below which a link lies at the border, as for the verdict
_MOST_ENLARGED = 2.0  # times the radius of the joints
_WORDS = {
    "inside": "can exist",
    "border": "at the border",
    "impossible": "cannot exist",
}


@dataclass(frozen=True)
class LinkRow:
    """One link in numbers: kg, mm, and how far it is from what cannot exist."""

    name: str
    mass_prior: str
    mass: str
    mass_sigma: str
    mass_label: str
    com_prior: str
    com: str
    shift: str
    margin: str
    state: State
    words: str
    reason: str
    sort_mass: float | None
    sort_margin: float | None


@dataclass(frozen=True)
class LinkSection:
    """Rows of the table, and the scene for the page's script."""

    rows: tuple[LinkRow, ...]
    total: tuple[str, str]
    scene: dict[str, object]

    @classmethod
    def of(cls, run: IdentificationRun) -> LinkSection:
        """The section of a run."""
        result = run.identification
        pi_prior, pi = (_pi(result, theta) for theta in (result.prior.theta, result.theta))
        rows = tuple(_row(result, k, pi_prior[k], pi[k]) for k in range(len(pi)))
        total = number(float(pi_prior[:, 0].sum())), number(float(pi[:, 0].sum()))
        return cls(rows, total, _scene(run, pi_prior, pi))


def link_states(result: Identification) -> list[State]:
    """Of each link whether it can exist, lies at the border of that, or cannot."""
    return [
        "impossible" if not c.consistent else "border" if c.margin < _BORDER else "inside"
        for c in result.consistency
    ]


def ellipsoid(pi: Array) -> tuple[Array, Array] | None:
    """Centre (3,) and semi-axes, the columns of (3, 3), of a link in its own frame [m].

    Second moments below zero, of a link that cannot exist, count as zero; without mass: `None`.
    """
    if not (np.isfinite(pi).all() and pi[0] > 0.0):
        return None
    P = pseudo_inertia_from_pi(pi)
    centre = pi[1:4] / pi[0]
    moments, V = np.linalg.eigh(P[:3, :3] / pi[0] - np.outer(centre, centre))
    return centre, V * np.sqrt(5.0 * np.clip(moments, 0.0, None))


def _pi(result: Identification, theta: Array) -> Array:
    return theta[result.prior.layout.inertial].reshape(-1, 10)


def _row(result: Identification, k: int, before: Array, after: Array) -> LinkRow:
    check, state = result.consistency[k], link_states(result)[k]
    centres = [pi[1:4] / pi[0] if pi[0] != 0.0 else np.full(3, np.nan) for pi in (before, after)]
    shift = float(np.linalg.norm(centres[1] - centres[0]))
    start = result.prior.layout.link(k).start
    return LinkRow(
        name=result.prior.link_names[k],
        mass_prior=number(before[0], 3),
        mass=number(after[0], 3),
        mass_sigma=number(result.sigma[start], 2),
        mass_label=result.labels[start],
        com_prior=_millimetres(centres[0]),
        com=_millimetres(centres[1]),
        shift=f"{1e3 * shift:.0f}" if np.isfinite(shift) else NOTHING,
        margin=number(check.margin, 2),
        state=state,
        words=_WORDS[state],
        reason=check.reason,
        sort_mass=place(float(after[0])),
        sort_margin=place(check.margin),
    )


def _millimetres(point: Array) -> str:
    if not np.isfinite(point).all():
        return NOTHING
    return ", ".join(f"{round(1e3 * x)}".replace("-", "\N{MINUS SIGN}") for x in point.tolist())


def _scene(run: IdentificationRun, pi_prior: Array, pi: Array) -> dict[str, object]:
    result = run.identification
    robot = result.prior
    q = run.problem.motions[0].q[:1]
    points, parents = stick_figure(robot, q)
    data = robot.model.createData()
    pin.forwardKinematics(robot.model, data, q[0])
    drawn = points[0]
    links: list[dict[str, Any]] = []
    for k, state in enumerate(link_states(result)):
        pose = data.oMi[k + 1]
        links.append(
            {
                "name": robot.link_names[k],
                "state": state,
                "prior": _placed(pi_prior[k], pose),
                "identified": _placed(pi[k], pose),
            }
        )
    centre, radius = _surroundings(drawn, links)
    return {
        "links": links,
        "points": drawn.round(5).tolist(),
        "parents": [int(p) for p in parents],
        "centre": centre.round(5).tolist(),
        "radius": round(radius, 5),
    }


def _surroundings(joints: Array, links: list[dict[str, Any]]) -> tuple[Array, float]:
    """Centre (3,) and radius [m] of a ball around joints (n, 3) and bodies.

    A body that is absurdly large must not hide all others: beyond twice the reach of the joints,
    bodies are cut off.
    """
    middle = 0.5 * (joints.min(axis=0) + joints.max(axis=0))
    far = _MOST_ENLARGED * (float(np.linalg.norm(joints - middle, axis=1).max()) or 1.0)
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
    result = ellipsoid(pi)
    if result is None:
        return None
    centre, axes = result
    return {
        "centre": pose.act(centre).round(5).tolist(),
        "axes": (pose.rotation @ axes).T.round(5).tolist(),
    }
