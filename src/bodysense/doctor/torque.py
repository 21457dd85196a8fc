"""Torques against the robot's model: signs, order and units.

The model may be rough (masses from a drawing, no friction, an unknown load in the gripper), so only
what no such roughness can explain is called wrong. The numbers below were set on recordings of two
real arms and on simulated ones with loads beyond what these arms can carry.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bodysense.doctor.diagnosis import Finding, LogSamples, Mask, Outcome
from bodysense.doctor.torque_fit import (
    Condensed,
    Fit,
    Weight,
    condensed,
    explained,
    link_torques,
    loaded_torques,
    weight,
)
from bodysense.robot.robot import Robot
from bodysense.spatial.arrays import Array

# Two seconds of motion, and a joint that moves by more than 5 degrees.
_LEAST_SAMPLES, _LEAST_RANGE = 200, 0.1
# Hypotheses are tried on this many samples at most.
_MOST = 4000
# Sign: right ones explain 60 to 99 % of real channels, and below 15 % of the opposite.
_FLIPPED, _NOT_PLAIN = 0.6, 0.3
_MAYBE_FLIPPED, _HARDLY_PLAIN = 0.3, 0.05
# Order: the other channel must leave a fifth of what its own leaves unexplained. Neighbouring
# joints of an arm lift the same load, so that 94 % of one may be explained by the other.
_OTHER, _TIMES_BETTER, _EACH_BETTER = 0.8, 5.0, 2.0
# No fit is trusted to be better than this: all clean ones would differ endlessly.
_FLOOR = 0.005
# Exchanged positions are looked for where a joint explains less than this of its torque.
_POOR = 0.6
# Positions are blamed instead of torques if that explains all joints better, in total, by this.
_RATHER_POSITION = 0.5
# Scale: judged where links weigh something. Loads beyond what an arm can carry make a heavy joint
# look up to 5 times too strong; wrong units are 10 times off or more.
_HEAVY, _SHARE = 0.2, 0.5
_SUSPICIOUS, _IMPOSSIBLE = 5.0, 10.0
# No machine gives this torque [N·m], in whatever unit.
_NO_TORQUE = 1e9


def torque_model(robot: Robot, samples: LogSamples) -> Outcome:
    """Compare torques with what the robot's links, rotors and friction could need."""
    if robot.floating_base:
        return Outcome(samples, [_floating()])
    motion = condensed(samples)
    if motion.n < _LEAST_SAMPLES or not all(np.isfinite(x).all() for x in motion[:4]):
        return Outcome(samples, [])
    every = 1 + motion.n // _MOST
    q, v, a, tau = (np.ascontiguousarray(x[::every]) for x in motion[:4])
    motion = Condensed(q, v, a, tau, None)
    huge = np.abs(motion.tau).max(axis=0) > _NO_TORQUE
    if huge.any():
        return Outcome(samples, [_no_torque(name) for name in np.array(robot.joint_names)[huge]])
    moved = np.ptp(motion.q, axis=0) > _LEAST_RANGE
    if not moved.any():
        return Outcome(samples, [])
    m = link_torques(robot, motion)
    fit = explained(robot, motion, m)
    if not (np.isfinite(m).all() and np.isfinite(fit.plain).all()):
        return Outcome(samples, [])
    loaded = loaded_torques(robot, motion, m)
    fit = _in_favour(fit, explained(robot, motion, loaded))
    findings = _swapped(robot, motion, fit, moved)
    if not findings:
        findings = _signs(robot, motion, fit, moved)
    if not findings:
        scale = weight(robot, motion, m), weight(robot, motion, loaded)
        findings = _scales(robot, motion, *scale, moved)
    return Outcome(samples, findings)


def _no_torque(name: str) -> Finding:
    return Finding(
        "wrong-scale",
        "error",
        f"tau.{name}",
        f"values beyond {_NO_TORQUE:.0e} are no torques",
        "name the right column in the layout file",
    )


def _in_favour(fit: Fit, loaded: Fit) -> Fit:
    """Give each channel, as it is, the benefit of a load that the robot may have held."""
    plain = fit.plain.copy()
    np.fill_diagonal(plain, np.maximum(np.diag(fit.plain), np.diag(loaded.plain)))
    return Fit(plain, fit.opposite)


def _floating() -> Finding:
    return Finding(
        "floating-base",
        "note",
        "tau",
        "the robot floats, and the motion of its base is not among the joints",
        "torques are not compared with the robot's model",
    )


# -- order ---------------------------------------------------------------------------------


def _swapped(robot: Robot, motion: Condensed, fit: Fit, moved: Mask) -> list[Finding]:
    """Torques that belong to other joints, or positions that do."""
    rest = np.maximum(1.0 - fit.plain, _FLOOR)
    channel = _best_channels(rest, moved)
    by_torque = np.diag(fit.plain[:, channel])
    away = channel != np.arange(robot.n_joints)
    torques = away.any() and _much_better(np.diag(fit.plain), by_torque, away)
    pair = _swapped_positions(robot, motion, fit, moved)
    if pair is None and not torques:
        return []
    names = robot.joint_names
    if pair is not None:
        by_position = _own(robot, _exchanged(motion, *pair)).plain.diagonal()
        left = _unexplained(by_torque, moved) if torques else np.inf
        if _unexplained(by_position, moved) < left - _RATHER_POSITION:
            return [_position_swap(names, pair, np.diag(fit.plain), by_position)]
    places = np.flatnonzero(away)
    pairs = "; ".join(
        f"tau.{names[channel[j]]} fits the motion of q.{names[j]} "
        f"({_percent(by_torque[j])} explained, {_percent(fit.plain[j, j])} of tau.{names[j]})"
        for j in places
    )
    columns = ", ".join(f"tau.{names[j]}" for j in places)
    return [
        Finding(
            "swapped-joints",
            "error",
            ", ".join(names[j] for j in places),
            pairs,
            f"exchange the columns of {columns} in the layout file",
        )
    ]


def _best_channels(rest: Array, moved: Mask) -> NDArray[np.intp]:
    """(n_joints,) torque channel of each joint that leaves the least unexplained in total."""
    from scipy.optimize import linear_sum_assignment

    cost = rest.copy()
    cost[~moved, :] = cost[:, ~moved] = 1.0
    np.fill_diagonal(cost, np.where(moved, np.diag(rest), _FLOOR))  # still ones stay
    return np.asarray(linear_sum_assignment(np.log(cost))[1])


def _much_better(before: Array, after: Array, chosen: Mask) -> bool:
    """Whether a change explains all of the chosen joints, and far better than before."""
    left = np.maximum(1.0 - after[chosen], _FLOOR)
    times = np.maximum(1.0 - before[chosen], _FLOOR) / left
    return bool(
        (times > _EACH_BETTER).all()
        and (after[chosen] > _OTHER).all()
        and np.exp(np.log(times).mean()) > _TIMES_BETTER
    )


def _swapped_positions(
    robot: Robot, motion: Condensed, fit: Fit, moved: Mask
) -> tuple[int, int] | None:
    """The pair of joints whose exchange explains both far better, and all together best."""
    before = np.diag(fit.plain)
    poor = np.flatnonzero(moved & (before < _POOR))
    best, least = None, _unexplained(before, moved)
    for j in poor:
        for k in np.flatnonzero(moved):
            if k == j or (k < j and k in poor):
                continue
            after = np.diag(_own(robot, _exchanged(motion, int(j), int(k))).plain)
            both = np.isin(np.arange(robot.n_joints), (j, k))
            left = _unexplained(after, moved)
            if left < least and _much_better(before, after, both):
                best, least = (int(min(j, k)), int(max(j, k))), left
    return best


def _exchanged(motion: Condensed, j: int, k: int) -> Condensed:
    order = np.arange(motion.q.shape[1])
    order[[j, k]] = order[[k, j]]
    q, v, a = (np.ascontiguousarray(x[:, order]) for x in (motion.q, motion.v, motion.a))
    return motion._replace(q=q, v=v, a=a)


def _position_swap(
    names: tuple[str, ...], pair: tuple[int, int], before: Array, after: Array
) -> Finding:
    one, other = (names[j] for j in pair)
    parts = " and ".join(
        f"{_percent(after[j])} of tau.{names[j]} instead of {_percent(before[j])}" for j in pair
    )
    return Finding(
        "swapped-joints",
        "error",
        f"{one}, {other}",
        f"with their positions exchanged, the model explains {parts}",
        f"exchange the columns of q.{one}, q.{other} (and of v alike) in the layout file",
    )


def _own(robot: Robot, motion: Condensed) -> Fit:
    return explained(robot, motion, link_torques(robot, motion), own=True)


def _unexplained(plain: Array, moved: Mask) -> float:
    """How much is left unexplained, all joints together: the sum of logarithms."""
    return float(np.log(np.maximum(1.0 - plain[moved], _FLOOR)).sum())


# -- signs ---------------------------------------------------------------------------------


def _signs(robot: Robot, motion: Condensed, fit: Fit, moved: Mask) -> list[Finding]:
    plain, opposite = np.diag(fit.plain), np.diag(fit.opposite)
    certain = moved & (opposite > _FLIPPED) & (plain < _NOT_PLAIN)
    certain &= (1.0 - plain) > _EACH_BETTER * (1.0 - opposite)
    maybe = moved & ~certain & (opposite > _MAYBE_FLIPPED) & (plain < _HARDLY_PLAIN)
    names = robot.joint_names
    if certain.any() and (certain | maybe)[moved].all() and np.count_nonzero(moved) > 1:
        gains = "`tau: {gain: -1}`"
        return [_sign_finding(list(names), plain, opposite, certain, gains, "error", "tau")]
    findings = []
    for j in np.flatnonzero(certain | maybe):
        here = np.arange(robot.n_joints) == j
        guilty = "q" if _mirrored(robot, motion, fit, moved, int(j)) else "tau"
        edit = f"`gain: -1`, or its present gain times -1, for {guilty}.{names[j]}"
        severity = "error" if certain[j] else "warning"
        findings.append(_sign_finding([names[j]], plain, opposite, here, edit, severity, guilty))
    return findings


def _sign_finding(
    names: list[str],
    plain: Array,
    opposite: Array,
    chosen: Mask,
    edit: str,
    severity: str,
    guilty: str,
) -> Finding:
    also = " (and for v alike)" if guilty == "q" else ", or to q and v if the joint is mirrored"
    return Finding(
        "torque-sign" if guilty == "tau" else "position-sign",
        "error" if severity == "error" else "warning",
        ", ".join(f"{guilty}.{name}" for name in names),
        "lifting the links and overcoming friction would take the opposite torque: that would "
        f"explain {_percent(opposite[chosen].min())} of it, this sign "
        f"{_percent(plain[chosen].max())}",
        f"write {edit} into the layout file{also}",
    )


def _mirrored(robot: Robot, motion: Condensed, fit: Fit, moved: Mask, j: int) -> bool:
    """Whether turning the position of a joint around explains all joints better."""
    sign = np.where(np.arange(robot.n_joints) == j, -1.0, 1.0)
    turned = motion._replace(q=motion.q * sign, v=motion.v * sign, a=motion.a * sign)
    by_position = np.diag(_own(robot, turned).plain)
    by_torque = np.where(sign < 0.0, np.diag(fit.opposite), np.diag(fit.plain))
    return _unexplained(by_position, moved) < _unexplained(by_torque, moved) - _RATHER_POSITION


# -- scale ---------------------------------------------------------------------------------


def _scales(
    robot: Robot, motion: Condensed, found: Weight, loaded: Weight, moved: Mask
) -> list[Finding]:
    heavy = moved & (found.size > _HEAVY * found.size[moved].max()) & (found.share > _SHARE)
    heavy &= (found.factor > 0.0) & (loaded.factor > 0.0)
    factor = np.where(heavy, found.factor, 1.0)
    other = np.where(heavy, loaded.factor, 1.0)
    # Off with and without a load in the hand.
    off = np.minimum(np.maximum(factor, 1.0 / factor), np.maximum(other, 1.0 / other))
    peak = np.percentile(np.abs(motion.tau), 99.0, axis=0) / robot.effort_limit
    names = robot.joint_names
    wrong = off > _SUSPICIOUS
    findings = []
    weighed = moved & (found.share > _SHARE) & (found.factor > 0.0)
    if wrong.any() and np.count_nonzero(weighed) > 1 and _alike(found.factor[weighed]):
        common = float(np.exp(np.log(found.factor[wrong]).mean()))
        return [_scale_finding("tau (all joints)", common, f"tau: {{{_edit(common)}}}")]
    for j in np.flatnonzero(wrong):
        edit = f"{_edit(factor[j])} for tau.{names[j]}"
        findings.append(_scale_finding(f"tau.{names[j]}", float(factor[j]), edit))
    for j in np.flatnonzero(~wrong & (peak > _SUSPICIOUS)):
        findings.append(
            Finding(
                "wrong-scale",
                "error" if peak[j] > _IMPOSSIBLE else "warning",
                f"tau.{names[j]}",
                f"it reaches {peak[j]:.3g} times the effort limit of {robot.effort_limit[j]:.4g}",
                f"write the right `unit:` or `gain:` for tau.{names[j]} into the layout file, or "
                "correct the limit",
            )
        )
    return findings


def _alike(factor: Array) -> bool:
    return bool(np.ptp(np.log(factor)) < np.log(2.5))


def _edit(factor: float) -> str:
    """The layout edit that undoes a factor."""
    for known, unit in ((1000.0, "mN·m"), (0.001, "kN·m")):
        if 0.5 < factor / known < 2.0:
            return f"unit: {unit}"
    return f"gain: {1.0 / factor:.2g}"


def _scale_finding(where: str, factor: float, edit: str) -> Finding:
    small = factor < 1.0
    off = 1.0 / factor if small else factor
    hint = "are these currents or motor torques? " if small else ""
    return Finding(
        "wrong-scale",
        "error" if off > _IMPOSSIBLE else "warning",
        where,
        f"torques are about {off:.3g} times as {'small' if small else 'large'} as the robot's "
        "links need",
        f"{hint}write `{edit}` into the layout file",
    )


def _percent(part: float) -> str:
    return f"{100.0 * max(part, 0.0):.0f} %"
