"""Torques against the robot's model: signs, order and units.

The model may be rough (masses from a drawing, no friction, an unknown load in the gripper), so only
what no such roughness can explain is called wrong. The numbers below were set on recordings of two
real arms and on simulated ones with loads beyond what these arms can carry.

Joints may have each other's torques or positions, torques or positions the opposite sign, or both,
and gravity another direction. Each of these causes has symptoms that look like the others': what is
reported is the one that leaves the least unexplained, over all joints. Units of the robot's file
come first: what is wrong there looks like wrong torques.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bodysense.doctor.explained_torque import (
    FLOOR,
    Explained,
    explain,
    link_torques,
    loaded_torques,
    unexplained,
    weigh,
)
from bodysense.doctor.gravity import gravity_finding
from bodysense.doctor.motion import CondensedMotion, condense
from bodysense.doctor.samples import (
    LogSamples,
    Mask,
    channel_list,
    exchange_names,
    layout_edit,
    unit_edit,
)
from bodysense.errors import listing
from bodysense.robot.checks.units import unit_findings
from bodysense.robot.robot import Robot
from bodysense.spatial.arrays import Array
from bodysense.status import Finding, Severity

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
# Exchanged positions are looked for where a joint explains less than this of its torque.
_POOR = 0.6
# Positions are blamed instead of torques if that explains all joints better, in total, by this.
_RATHER_POSITION = 0.5
# Joints are mirrored if that explains all of them better, in total, by this; two causes are as good
# as each other if they differ by less.
_BETTER, _AS_GOOD = 1.0, 1.0
# Scale: judged where links weigh something. Loads beyond what an arm can carry make a heavy joint
# look up to 5 times too strong; wrong units are 10 times off or more.
_HEAVY, _SHARE = 0.2, 0.5
_SUSPICIOUS, _IMPOSSIBLE = 5.0, 10.0
# No machine gives this torque [N·m], in whatever unit.
_NO_TORQUE = 1e9


def torque_model(robot: Robot, samples: LogSamples) -> LogSamples:
    """Compare torques with what the robot's links, rotors and friction could need."""
    if robot.floating_base:
        text = "the robot floats, and the motion of its base is not among the joints"
        action = "torques are not compared with the robot's model"
        return samples.report("floating-base", "note", "tau", text, action)
    motion = condense(samples)
    if motion.n < _LEAST_SAMPLES or not all(np.isfinite(x).all() for x in motion[:4]):
        return samples
    every = 1 + motion.n // _MOST
    q, v, a, tau = (np.ascontiguousarray(x[::every]) for x in motion[:4])
    motion = CondensedMotion(q, v, a, tau, None)
    for j in np.flatnonzero(np.abs(tau).max(axis=0) > _NO_TORQUE):
        where, text = f"tau.{robot.joint_names[j]}", f"beyond {_NO_TORQUE:.0e}: no torques"
        edit = "name the right column in the layout file or in the header"
        samples = samples.report("wrong-scale", "error", where, text, edit)
    if units := [_of_the_file(finding) for finding in unit_findings(robot)]:
        return samples.with_findings(units)
    moved = np.ptp(q, axis=0) > _LEAST_RANGE
    if not moved.any() or np.abs(tau).max() > _NO_TORQUE:
        return samples
    m = link_torques(robot, motion)
    fit = explain(robot, motion, m)
    if not (np.isfinite(m).all() and np.isfinite(fit.plain).all()):
        return samples
    # Each channel, as it is, has the benefit of a load that the robot may have held.
    loaded = loaded_torques(robot, motion, m)
    own = np.maximum(np.diag(fit.plain), np.diag(explain(robot, motion, loaded).plain))
    np.fill_diagonal(fit.plain, own)
    causes = [
        _swapped(robot, motion, fit, moved),
        _signs(robot, motion, fit, moved),
        gravity_finding(robot, motion, own, moved),
    ]
    if np.isfinite([left for left, _ in causes]).any() or own[moved].min() < _NOT_PLAIN:
        mirrored = _mirrors(robot, motion, own, moved)
        causes.append((mirrored[0] + _BETTER, mirrored[1]))  # which may change more than the others
        gravity, by_gravity = causes[2]
        if by_gravity and np.isfinite(mirrored[0]) and abs(mirrored[0] - gravity) < _AS_GOOD:
            other = mirrored[1][0]  # mirrored arms look like arms on a ceiling
            action = f"{by_gravity[0].action}; or {other.where}: {other.action}"
            causes = [(gravity, [replace(by_gravity[0], action=action)])]
    _, findings = min(causes, key=lambda cause: cause[0])
    return samples.with_findings(findings or _scales(robot, motion, m, loaded, moved))


def _of_the_file(finding: Finding) -> Finding:
    """A wrong unit in the robot's file; inertias, without weight, are identified from any log."""
    severity: Severity = "warning" if finding.kind == "unit-of-inertia" else finding.severity
    return replace(finding, where=f"the robot's file, {finding.where}", severity=severity)


_Cause = tuple[float, list[Finding]]  # what it leaves unexplained; infinity where there is none


def _swapped(robot: Robot, motion: CondensedMotion, fit: Explained, moved: Mask) -> _Cause:
    """Torques that belong to other joints, or positions that do."""
    rest = np.maximum(1.0 - fit.plain, FLOOR)
    channel = _best_channels(rest, moved)
    by_torque = np.diag(fit.plain[:, channel])
    away = channel != np.arange(robot.n_joints)
    torques = away.any() and _much_better(np.diag(fit.plain), by_torque, away)
    pair = _swapped_positions(robot, motion, fit, moved)
    if pair is None and not torques:
        return np.inf, []
    names = robot.joint_names
    left_by_torque = unexplained(by_torque, moved) if torques else np.inf
    if pair is not None:
        by_position = _own(robot, _exchanged(motion, *pair))
        by_pair = unexplained(by_position, moved)
        if by_pair < left_by_torque - _RATHER_POSITION:
            return by_pair, [_position_swap(names, pair, np.diag(fit.plain), by_position)]
    swapped = [names[j] for j in np.flatnonzero(away)]
    pairs = [
        f"tau.{names[channel[j]]} fits the motion of q.{names[j]} "
        f"({_percent(by_torque[j])} explained, {_percent(fit.plain[j, j])} of tau.{names[j]})"
        for j in np.flatnonzero(away)
    ]
    text, edit = listing(pairs, separator="; "), exchange_names(channel_list("tau", swapped))
    return left_by_torque, [Finding("swapped-joints", "error", listing(swapped), text, edit)]


def _best_channels(rest: Array, moved: Mask) -> NDArray[np.intp]:
    """(n_joints,) torque channel of each joint that leaves the least unexplained in total."""
    from scipy.optimize import linear_sum_assignment

    cost = rest.copy()
    cost[~moved, :] = cost[:, ~moved] = 1.0
    np.fill_diagonal(cost, np.where(moved, np.diag(rest), FLOOR))  # still ones stay
    return np.asarray(linear_sum_assignment(np.log(cost))[1])


def _much_better(before: Array, after: Array, chosen: Mask) -> bool:
    """Whether a change explains all of the chosen joints, and far better than before."""
    left = np.maximum(1.0 - after[chosen], FLOOR)
    times = np.maximum(1.0 - before[chosen], FLOOR) / left
    return bool(
        (times > _EACH_BETTER).all()
        and (after[chosen] > _OTHER).all()
        and np.exp(np.log(times).mean()) > _TIMES_BETTER
    )


def _swapped_positions(
    robot: Robot, motion: CondensedMotion, fit: Explained, moved: Mask
) -> tuple[int, int] | None:
    """The pair of joints whose exchange explains both far better, and all together best."""
    before = np.diag(fit.plain)
    poor = np.flatnonzero(moved & (before < _POOR))
    best, least = None, unexplained(before, moved)
    for j in poor:
        for k in np.flatnonzero(moved):
            if k == j or (k < j and k in poor):
                continue
            after = _own(robot, _exchanged(motion, int(j), int(k)))
            both = np.isin(np.arange(robot.n_joints), (j, k))
            left = unexplained(after, moved)
            if left < least and _much_better(before, after, both):
                best, least = (int(min(j, k)), int(max(j, k))), left
    return best


def _exchanged(motion: CondensedMotion, j: int, k: int) -> CondensedMotion:
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
    text = f"with their positions exchanged, the model explains {parts}"
    action = exchange_names(f"q.{one}, q.{other} (and of v alike)")
    return Finding("swapped-joints", "error", f"{one}, {other}", text, action)


def _own(robot: Robot, motion: CondensedMotion) -> Array:
    """(n_joints,) what each joint explains of its own channel."""
    return explain(robot, motion, link_torques(robot, motion), own=True).plain.diagonal()


def _signs(robot: Robot, motion: CondensedMotion, fit: Explained, moved: Mask) -> _Cause:
    """Torques or positions with the opposite sign; all torques are one finding."""
    plain, opposite = np.diag(fit.plain), np.diag(fit.opposite)
    certain = moved & (opposite > _FLIPPED) & (plain < _NOT_PLAIN)
    certain &= (1.0 - plain) > _EACH_BETTER * (1.0 - opposite)
    maybe = moved & ~certain & (opposite > _MAYBE_FLIPPED) & (plain < _HARDLY_PLAIN)
    wrong = certain | maybe
    if not wrong.any():
        return np.inf, []
    # Where most joints are wrong for certain, those that cannot tell are wrong as well.
    most = np.count_nonzero(certain) > 0.5 * np.count_nonzero(moved)
    if certain.any() and (wrong | (most & (opposite > plain)))[moved].all() and moved.sum() > 1:
        shares = opposite[certain].min(), plain[certain].max()
        edit = f"write {layout_edit('gain', {'tau': -1})}"
        finding = _sign_finding("tau", robot.joint_names, "error", shares, edit)
        finding = replace(finding, message=f"all torques have the opposite sign: {finding.message}")
        return unexplained(opposite, moved), [finding]
    groups: dict[tuple[str, Severity], list[int]] = {}
    for j in np.flatnonzero(wrong):
        quantity = "q" if _mirrored(robot, motion, fit, moved, int(j)) else "tau"
        groups.setdefault((quantity, "error" if certain[j] else "warning"), []).append(int(j))
    findings = []
    for (quantity, severity), joints in groups.items():
        names = [robot.joint_names[j] for j in joints]
        gains = {f"{quantity}.{name}": -1 for name in names}
        edit = f"write {layout_edit('gain', gains)} (or its present gain times -1)"
        shares = opposite[joints].min(), plain[joints].max()
        findings.append(_sign_finding(quantity, names, severity, shares, edit))
    return unexplained(np.where(wrong, opposite, plain), moved), findings


# What else is to be done, or may be, where a channel has the opposite sign.
_ALSO = {"q": ", and for v alike", "tau": "; or for q and v if the joint is mirrored"}


def _sign_finding(
    wrong: str, names: Sequence[str], severity: Severity, shares: tuple[float, float], edit: str
) -> Finding:
    """Of q or tau, with what the opposite and the present sign explain."""
    return Finding(
        "torque-sign" if wrong == "tau" else "position-sign",
        severity,
        channel_list(wrong, names),
        "lifting the links and overcoming friction would take the opposite torque: that would "
        f"explain {_percent(shares[0])} of it, this sign {_percent(shares[1])}",
        f"{edit}{_ALSO[wrong]}",
    )


def _mirrored(robot: Robot, motion: CondensedMotion, fit: Explained, moved: Mask, j: int) -> bool:
    """Whether turning the position of a joint around explains all joints better."""
    sign = np.where(np.arange(robot.n_joints) == j, -1.0, 1.0)
    turned = motion._replace(q=motion.q * sign, v=motion.v * sign, a=motion.a * sign)
    by_position = _own(robot, turned)
    by_torque = np.where(sign < 0.0, np.diag(fit.opposite), np.diag(fit.plain))
    return unexplained(by_position, moved) < unexplained(by_torque, moved) - _RATHER_POSITION


def _mirrors(robot: Robot, motion: CondensedMotion, own: Array, moved: Mask) -> _Cause:
    """Joints that are counted the other way round altogether, or positions alone.

    One joint after the other is turned around in the way that helps most, beginning with none of
    them and with all; and back again where that hardly matters.
    """
    turns = [np.array(turn) for turn in ((-1.0, -1.0), (-1.0, 1.0), (1.0, -1.0))]  # of q, of tau
    joints = np.flatnonzero(moved).tolist()

    def left_with(sign: Array) -> float:
        q, v, a = (x * sign[0] for x in motion[:3])
        turned = motion._replace(q=q, v=v, a=a, tau=motion.tau * sign[1])
        return unexplained(_own(robot, turned), moved)

    def with_joint(sign: Array, j: int, turn: Array) -> Array:
        other = sign.copy()
        other[:, j] = turn
        return other

    best, least = np.ones((2, robot.n_joints)), unexplained(own, moved)
    for start in (best, np.where(moved, -1.0, best)):
        sign, left = start, left_with(start)
        while True:
            tried = [with_joint(sign, j, sign[:, j] * turn) for j in joints for turn in turns]
            costs = [left_with(x) for x in tried]
            if not min(costs) < left - _RATHER_POSITION:
                break
            sign, left = tried[int(np.argmin(costs))], min(costs)
        for j in [j for j in joints if (sign[:, j] < 0.0).any()]:
            plain = with_joint(sign, j, np.ones(2))
            if (cost := left_with(plain)) < left + _RATHER_POSITION:
                sign, left = plain, cost
        if left < least - _BETTER:
            best, least = sign, left
    if (best[0] > 0.0).all():
        return np.inf, []
    for turn in turns:  # where most are, those that cannot tell are turned around as well
        every = np.repeat(turn[:, np.newaxis], robot.n_joints, axis=1)
        most = np.count_nonzero((turn == best.T).all(axis=1)) > 0.5 * len(joints)
        if most and left_with(every) < least + _RATHER_POSITION:
            best = every
    for j in [j for j in joints if (best[:, j] == turns[1]).all()]:  # torques, where as likely
        other = with_joint(best, j, turns[2])
        best = other if left_with(other) < least + _RATHER_POSITION else best
    return least, [_turned(robot, best, turn) for turn in turns if (turn == best.T).all(1).any()]


def _turned(robot: Robot, sign: Array, turn: Array) -> Finding:
    """What is said of the joints that are turned around in one way."""
    chosen = (turn == sign.T).all(axis=1)
    names = [name for name, own in zip(robot.joint_names, chosen, strict=True) if own]
    channels = [x for x, way in zip(("q", "tau"), turn, strict=True) if way < 0.0]
    gains = {f"{x}.{name}": -1 for x in channels for name in names}
    if chosen.all():
        gains = dict.fromkeys(channels, -1)
    of_one = "position-sign" if "q" in channels else "torque-sign"
    kind = of_one if len(channels) == 1 else "mirrored-joint"
    text = f"with {' and '.join(channels)} counted the other way round, the model explains far more"
    axis = "does the axis point the other way? " if len(channels) > 1 else ""
    edit = f"{axis}write {layout_edit('gain', gains)}{_ALSO[channels[0]]}"
    where = channel_list(channels[0], names) if len(channels) == 1 else f"joints {listing(names)}"
    return Finding(kind, "error", where, text, edit)


def _scales(
    robot: Robot, motion: CondensedMotion, m: Array, loaded: Array, moved: Mask
) -> list[Finding]:
    """Channels that are multiples of the link torques (n_t, n_joints), with and without a load."""
    factor, share = weigh(robot, motion, m)
    with_load, _ = weigh(robot, motion, loaded)
    size = np.sqrt(np.mean(m * m, axis=0))
    weighed = moved & (share > _SHARE) & (factor > 0.0)
    heavy = weighed & (size > _HEAVY * size[moved].max()) & (with_load > 0.0)
    # Off with and without a load in the hand.
    off = np.minimum(np.maximum(factor, 1.0 / factor), np.maximum(with_load, 1.0 / with_load))
    wrong = heavy & (off > _SUSPICIOUS)
    peak = np.percentile(np.abs(motion.tau), 99.0, axis=0) / robot.effort_limit
    names = robot.joint_names
    if wrong.any() and np.count_nonzero(weighed) > 1 and _are_alike(factor[weighed]):
        common = float(np.exp(np.log(factor[wrong]).mean()))
        return [_scale_finding("tau", common, names[0])]
    findings = [
        _scale_finding(f"tau.{names[j]}", float(factor[j]), names[j]) for j in np.flatnonzero(wrong)
    ]
    for j in np.flatnonzero(~wrong & (peak > _SUSPICIOUS)):
        findings.append(
            Finding(
                "wrong-scale",
                "error" if peak[j] > _IMPOSSIBLE else "warning",
                f"tau.{names[j]}",
                f"it reaches {peak[j]:.3g} times the effort limit of {robot.effort_limit[j]:.4g}",
                "write the right unit or gain, as in "
                f"{layout_edit('gain', {f'tau.{names[j]}': 0.001})}, or correct the limit",
            )
        )
    return findings


def _are_alike(factor: Array) -> bool:
    return bool(np.ptp(np.log(factor)) < np.log(2.5))


def _edit(factor: float, channel: str, joint: str) -> str:
    """The layout edit that undoes a factor."""
    for known, unit in ((1000.0, "mN·m"), (0.001, "kN·m")):
        if 0.5 < factor / known < 2.0:
            return unit_edit({channel: unit}, f"tau.{joint}")
    return layout_edit("gain", {channel: float(f"{1.0 / factor:.2g}")})


def _scale_finding(channel: str, factor: float, joint: str) -> Finding:
    small = factor < 1.0
    off = 1.0 / factor if small else factor
    hint = "are these currents or motor torques? " if small else ""
    return Finding(
        "wrong-scale",
        "error" if off > _IMPOSSIBLE else "warning",
        "tau (all joints)" if channel == "tau" else channel,
        f"torques are about {off:.3g} times as {'small' if small else 'large'} as the robot's "
        "links need",
        f"{hint}write {_edit(factor, channel, joint)}",
    )


def _percent(part: float) -> str:
    return f"{100.0 * max(part, 0.0):.0f} %"
