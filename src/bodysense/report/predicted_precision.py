"""Predicted standard deviations of base parameters, and why some are not identifiable.

Each is compared with the plausible size of its parameter: sigma / size below 1 says that the motion
tells more than a guess. With M the information, two things make sigma large: the parameter's own
torque is small, 1/√M_kk, or it is correlated with that of others, σ_k √M_kk.
"""

from __future__ import annotations

import numpy as np

from bodysense.excitation.design import Design
from bodysense.report.figures import WIDTH
from bodysense.report.page import Section, count, number, parameter_row, parameter_units, percent
from bodysense.robot.frames import supporting_joints
from bodysense.robot.robot import Robot
from bodysense.spatial.arrays import Array

LABELS = ("well", "poorly", "not identifiable")
"""Of a base parameter: sigma below a quarter of its plausible size, below it, above it."""

_WELL_KNOWN = 0.25  # sigma / size below which a parameter is well identified
_BAR_ENDS = (1e-3, 10.0)  # of the axis of sigma / size
_NO_TORQUE = (
    "no motion of these joints makes a torque of it, as the mass of a link turning on the base"
)


def precision_section(design: Design, robot: Robot) -> Section:
    """All base parameters, which are not identifiable, and which only in combination."""
    base, labels = design.base, precision_labels(design)
    names, units = base.layout.names, parameter_units(base.layout, robot.joint_types)
    with np.errstate(all="ignore"):
        ratios = design.sigma / design.sizes
    rows = []
    for k, kept in enumerate(base.independent.tolist()):
        rows.append(
            {
                **parameter_row(
                    names[kept],
                    base.names[k],
                    base.layout.describe(names[kept]),
                    units[kept],
                    k,
                ),
                "value": float(design.theta_base[k]),
                "sigma": float(design.sigma[k]),
                "size": float(design.sizes[k]),
                "ratio": float(ratios[k]),
                "bar": bar_place(float(ratios[k])),
                "label": labels[k],
                "slug": _slug(labels[k]),
            }
        )
    return {
        "rows": rows,
        "counts": [(label, _slug(label), labels.count(label)) for label in LABELS],
        "marks": [(bar_place(share), f"{100.0 * share:g} %") for share in (0.01, 0.1, 1.0)],
        "poor": _poor(design, labels),
        "unidentifiable": _unidentifiable(design, robot),
        "regrouped": _regrouped(design),
    }


def precision_labels(design: Design) -> list[str]:
    """A label of `LABELS` for every base parameter."""
    ratio = design.sigma / design.sizes
    return [LABELS[0] if r < _WELL_KNOWN else LABELS[1] if r < 1.0 else LABELS[2] for r in ratio]


def bar_place(ratio: float) -> float:
    """Where sigma / size stands on a logarithmic axis, from 0 to `WIDTH`."""
    lowest, highest = _BAR_ENDS
    if not np.isfinite(ratio):
        return WIDTH
    share = np.log(max(ratio, lowest) / lowest) / np.log(highest / lowest)
    return round(WIDTH * float(min(1.0, share)), 1)


def _poor(design: Design, labels: list[str]) -> list[tuple[str, str]]:
    R: Array = design.information
    M = R.T @ R
    norms = np.sqrt(np.maximum(np.diag(M), np.finfo(float).tiny))
    names = [design.base.layout.names[k] for k in design.base.independent]
    with np.errstate(all="ignore"):
        scaled = np.linalg.pinv(M / np.outer(norms, norms), hermitian=True)
        sigma = np.sqrt(np.diag(scaled))
        correlation = scaled / np.outer(sigma, sigma)
    reasons = []
    for k, label in enumerate(labels):
        if label != LABELS[2]:
            continue
        alone = 1.0 / norms[k] / design.sizes[k]
        others = np.abs(correlation[k])
        others[k] = 0.0
        partner = int(np.argmax(others))
        if alone >= _WELL_KNOWN:
            why = (
                "its torque is lost in the noise: known to "
                f"{percent(float(alone))} of its plausible size even if all else were known"
            )
        else:
            why = (
                f"alone it would be known to {percent(float(alone))} of its plausible size, but it "
                f"cannot be separated from others, most of all {names[partner]} (correlation "
                f"{number(float(correlation[k, partner]), 2)})"
            )
        reasons.append((design.base.names[k], why))
    return reasons


def _unidentifiable(design: Design, robot: Robot) -> list[tuple[str, str]]:
    layout, moving = design.base.layout, set(design.joints)
    moves = supporting_joints(robot)
    reasons: dict[str, list[str]] = {}
    for name in design.base.unidentifiable:
        k = layout.index(name)
        if k < layout.n_inertial:
            movers = {robot.joint_names[j] for j in np.flatnonzero(moves[k // 10 + 1])}
            held = not movers & moving
            why = "no joint that moves carries the link" if held else _NO_TORQUE
        else:
            joint = layout.joint_names[(k - layout.n_inertial) % layout.n_joints]
            why = (
                _NO_TORQUE
                if joint in moving or k >= layout.coupling.start
                else "the joint does not move"
            )
        reasons.setdefault(why, []).append(name)
    return [(why, " ".join(names)) for why, names in reasons.items()]


def _regrouped(design: Design) -> list[tuple[str, str]]:
    base = design.base
    names = base.layout.names
    kept = [names[k] for k in base.independent]
    column = {names[k]: j for j, k in enumerate(base.dependent)}
    rows = []
    for name in base.regrouped:
        inside = [kept[i] for i in np.flatnonzero(np.abs(base.K[:, column[name]]) > 1e-5)]
        shown = ", ".join(inside[:6])
        rows.append(
            (name, shown if len(inside) <= 6 else f"{shown} and {count(len(inside) - 6, 'other')}")
        )
    return rows


def _slug(label: str) -> str:
    return f"label-{LABELS.index(label)}"
