"""Is a result plausible: against the robot's file, and as bodies that can be?

Torques that are predicted well do not tell whether the file is that of the recorded robot, nor
whether torques are torques. What gravity does tells more, for only masses and lengths are in it:

    factor = Σ g_file · g / Σ g_file · g_file,        likeness = Σ g_file · g / (‖g_file‖ ‖g‖)

over the recorded postures, with g the joint torques that hold the identified robot and g_file
those of the file. A gain of all torques changes the factor alone, a load at the hand both. Both are
judged for what the data determine: base parameters alone are in them, whatever the prior made of
single masses.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bodysense.errors import listing
from bodysense.identification.identification import Identification
from bodysense.identification.identifier import Identifier
from bodysense.identification.knowledge import Knowledge
from bodysense.identification.regression import Regression
from bodysense.identification.scores import Prediction
from bodysense.logs.log import Log
from bodysense.robot.dynamics import drive_loads
from bodysense.spatial.arrays import Array

_MOST_GRAVITY = 1.7  # times that of the file: more than rough masses and a rated load make of it
_LEAST_LIKENESS = 0.95  # of the torques of gravity; loads at the hand leave 0.97
_PROPORTIONAL = 0.995  # likeness from which all torques of gravity are in the file's proportions
_MOST_GAIN = 1.25  # times the file's, then: more than masses or gains of all joints are off
_WEIGHS = 0.05  # share of gravity in the torques, from which it is looked at
_MOST_MASS = 2.0  # times a mass of the file, or a part of it as small, that is questioned
_ROWS_PER_UNKNOWN = 5.0  # fewer tell nothing about physical consistency
_HARDLY = 0.01  # of a joint's torque, that consistency must cost to be worth a word, and
_INFEASIBLE = 0.15  # growth of the squared error that physical consistency may cost
_POSTURES = 400  # that are looked at
_WINDOW = 0.25  # duration in which a burst of residuals is looked for [s]
_BURST_WINDOWS = 3  # that follow each other; friction reverses within one
_BURST = 4.0  # times the median window's residual, from which it is one, and
_BURST_SHARE = 0.3  # of the joint's r.m.s. torque: what nobody takes for noise
_CONTRADICTION = 0.1  # growth of the squared error from which knowledge contradicts data
_LEAST_PART = 1.0  # s of a recording that are worth keeping between two of them
_MOST_BURSTS = 0.2  # of the windows; in more, the model is wrong


def implausibilities(problem: Regression, result: Identification) -> list[str]:
    """Sentences on what is implausible about a result; none if nothing is."""
    found = [*_gravity(problem, result), *_infeasible(problem, result)]
    return found or _mass(problem, result)


def _gravity(problem: Regression, result: Identification) -> list[str]:
    every = 1 + sum(motion.t.size for motion in problem.motions) // _POSTURES
    q = np.concatenate([motion.q[::every] for motion in problem.motions])
    tau = np.concatenate([motion.tau[::every] for motion in problem.motions])
    if not tau.any():
        return []
    still = np.zeros_like(q)

    def held(theta: Array) -> Array:
        return drive_loads(problem.robot, q, still, still, theta=theta)

    slides = np.array(problem.robot.joint_types) == "prismatic"  # N and N·m do not add up
    size = np.sqrt([np.mean(tau[:, slides == own] ** 2) for own in slides])
    size = np.maximum(size, np.finfo(float).tiny)
    given, made, tau = held(problem.robot.theta) / size, held(result.theta) / size, tau / size
    weight = float((given * given).sum())
    if not weight > _WEIGHS**2 * float((tau * tau).sum()):
        return []
    common = float((given * made).sum())
    factor, likeness = common / weight, common / np.sqrt(weight * float((made * made).sum()))
    if likeness < _LEAST_LIKENESS:
        return [
            "Gravity torques of the identified robot are unlike those of the robot's file "
            f"(correlation {likeness:.2f}): is it the recording of another robot, are zeros and "
            "signs of the joints those of the file, and is the robot mounted as the file says?"
        ]
    if factor > _MOST_GRAVITY:
        return [
            f"Gravity torques are {factor:.2g} times those of the robot's file: is "
            "it the recording of another robot (a larger one of the same family), or of one with "
            "a load that is not in the file?"
        ]
    if factor < 1.0 / _MOST_GRAVITY:
        return [
            f"Gravity torques are {factor:.2g} times those of the robot's file: are the torques "
            "currents or motor torques, without drive gains or gear ratios, are masses in the "
            "file in another unit, or is it the recording of another robot?"
        ]
    if likeness > _PROPORTIONAL and not 1.0 / _MOST_GAIN < factor < _MOST_GAIN:
        return [
            f"Gravity torques are {factor:.2g} times those of the robot's file, for all joints "
            "alike: torques do not tell whether drive gains or the unit of torques are wrong, or "
            "masses of the file, or whether there is a load. Check the gains, or give a mass that "
            "was weighed (--total-mass)."
        ]
    return []


def bursts(
    names: Sequence[str], predictions: Sequence[Prediction], logs: Sequence[Log]
) -> list[str]:
    """Sentences on short times in which torques are unlike all the others: something touches.

    The r.m.s. residual of a joint while it moves fast, in a window of time, is held against its
    median over all windows in which it does: slow motion is left to friction.
    """
    by_log: dict[int, list[tuple[float, float, NDArray[np.bool_]]]] = {}
    for p in predictions:
        by_log.setdefault(p.log, []).extend(_unlike_the_rest(p))
    made = []
    for number, found in by_log.items():
        if found:
            log, parts = logs[number], []
            zero = log.zero_time
            for first, end, joints in found:
                own = listing([name for name, large in zip(names, joints, strict=True) if large])
                parts.append(f"{own} between {_time(first - zero)} and {_time(end - zero)} s")
            made.append(
                f"Torques of {'; of '.join(parts)} are unlike the rest of {log.source}: did "
                "something touch the robot, or was a drive saturated? Leave this out: give the "
                f"recording in parts ({_remaining(log, [(b, e) for b, e, _ in found])})."
            )
    return made


def _remaining(log: Log, left_out: Sequence[tuple[float, float]]) -> str:
    """What is left of a recording without some times [s], as the command line takes it."""
    zero, finite = log.zero_time, log.t[np.isfinite(log.t)]
    whole = log.zero is None
    first, last = float(finite[0]) - zero, float(finite[-1]) - zero
    edges = [first, *(x - zero for span in left_out for x in span), last]
    pairs = [(b, e) for b, e in zip(edges[::2], edges[1::2], strict=True) if e - b > _LEAST_PART]
    return " ".join(
        f"LOG@{'' if whole and b == first else _time(b)}:{'' if whole and e == last else _time(e)}"
        for b, e in pairs
    )


def _time(x: float) -> str:
    """In seconds, to the hundredth."""
    return f"{x:.2f}".rstrip("0").rstrip(".")


def _unlike_the_rest(p: Prediction) -> list[tuple[float, float, NDArray[np.bool_]]]:
    """Begin and end [s] of each burst in a piece of a recording, and (n,) the joints that show it.

    None where so much of it has large residuals that the model is wrong rather than a short time.
    """
    from scipy.ndimage import binary_opening, label

    window = ((p.t - p.t[0]) / _WINDOW).astype(int)
    squares, count = np.zeros((2, int(window[-1]) + 1, p.fast.shape[1]))
    np.add.at(squares, window, np.where(p.fast, p.filtered - p.identified_filtered, 0.0) ** 2)
    np.add.at(count, window, p.fast)
    level = np.sqrt(squares / np.maximum(count, 1.0))
    usual = [np.median(own[own > 0.0]) if own.any() else np.inf for own in level.T]
    size = np.sqrt((p.filtered**2).mean(axis=0))
    least = np.maximum(_BURST * np.array(usual), _BURST_SHARE * size)
    large = binary_opening(level > least, np.ones((_BURST_WINDOWS, 1), dtype=bool))
    if not large.any(axis=1).sum() <= _MOST_BURSTS * len(level):
        return []
    numbers, runs = label(large.any(axis=1))
    made = []
    for run in range(1, runs + 1):
        at = np.flatnonzero(numbers == run)
        first, end = float(p.t[0]) + _WINDOW * at[[0, -1]] + np.array([0.0, _WINDOW])
        joints: NDArray[np.bool_] = np.any(large[at], axis=0)
        made.append((float(first), float(end), joints))
    return made


def _mass(problem: Regression, result: Identification) -> list[str]:
    """Masses unlike the file's: of all links together, or of those whose mass the data tell."""
    layout = problem.robot.layout
    before, after = (
        np.array([robot.pi(k)[0] for k in range(layout.n_links)])
        for robot in (problem.robot, result.robot)
    )
    if _unlike(float(after.sum()), float(before.sum())):
        return [
            f"The links weigh {after.sum():.3g} kg together, in the robot's file "
            f"{before.sum():.3g} kg: check the unit of time, drive gains and the masses of the "
            "file, or give the total mass (--total-mass)."
        ]
    off = [
        f"{name} ({own:.3g} kg for {given:.3g} kg)"
        for k, (name, own, given) in enumerate(
            zip(problem.robot.link_names, after, before, strict=True)
        )
        if result.labels[layout.link(k).start] == "identified" and _unlike(own, given)
    ]
    if not off:
        return []
    return [
        f"Masses came out unlike those of the robot's file: {listing(off)}. Check drive gains and "
        "zeros of the joints before these links, and the masses of the file."
    ]


def _infeasible(problem: Regression, result: Identification) -> list[str]:
    """Whether consistent bodies explain the torques far worse than links of any parameters do.

    Friction is the result's for both: that of a law which is not quite right may be none that
    dissipates, and says nothing of bodies.
    """
    if not result.consistent or problem.knowledge.any:
        return []
    mine, count = problem.squares(result.theta_base)
    rows, size = float(count.sum()), problem.size
    if rows < _ROWS_PER_UNKNOWN * size:
        return []
    stack = problem.stack(np.maximum(result.noise, np.finfo(float).tiny))
    links = problem.base.independent < problem.base.layout.rotor.stop
    free = np.array(result.theta_base)
    rest = stack.z - stack.A[:, ~links] @ free[~links]
    free[links] = np.linalg.lstsq(stack.A[:, links], rest, rcond=None)[0]
    best = problem.squares(free)[0]
    more = np.sqrt(np.maximum(mine - best, 0.0) / np.maximum(count, 1.0))
    if not (more > _HARDLY * np.maximum(problem.torque_size, np.finfo(float).tiny)).any():
        return []
    # Parameters without constraints follow the noise as well.
    freedom = rows / (rows - size)
    ratio = float((mine / result.noise**2).sum() / (best / result.noise**2).sum()) / freedom
    if not ratio > 1.0 + _INFEASIBLE:
        return []
    return [
        "No physically consistent robot of this geometry explains the torques: the squared error "
        f"is {ratio:.3g} times that of unconstrained parameters. Check the unit of time, "
        "the zeros of the joints, and whether the file is that of this robot, link lengths "
        "included."
    ]


def contradicted_knowledge(
    method: Identifier, problem: Regression, result: Identification
) -> list[str]:
    """Whether what is known for certain contradicts the data, or the robot's file."""
    knowledge, concerns = problem.knowledge, []
    if not knowledge.any:
        return []
    free = problem.base.to_base(method.theta(problem.knowing(Knowledge())))
    without, with_it = (
        float((problem.squares(theta)[0] / result.noise**2).sum())
        for theta in (free, result.theta_base)
    )
    if with_it > (1.0 + _CONTRADICTION) * without:
        concerns.append(
            f"What is known for certain ({knowledge.summary()}) makes the squared error of the fit "
            f"{with_it / without:.3g} times as large: check it."
        )
    robot = problem.robot
    own = {name: float(robot.pi(k)[0]) for k, name in enumerate(robot.link_names)}
    mass, total = sum(own.values()), knowledge.total_mass
    off = [
        f"{name} ({given:g} kg for {own[name]:.3g} kg)"
        for name, given in knowledge.masses.items()
        if _unlike(given, own[name])
    ]
    if off:
        concerns.append(
            f"Masses were given that are unlike those of the robot's file: {listing(off)}. Check "
            "them: is it this link alone, and in kg?"
        )
    if total is not None and _unlike(total, mass):
        concerns.append(
            f"The total mass was given as {total:g} kg, and the links that move have {mass:.3g} kg "
            "in the robot's file: give the mass of these links alone, in kg."
        )
    return concerns


def _unlike(given: float, own: float) -> bool:
    """Whether a mass is far from that of the robot's file, which may have none."""
    return own > 0.0 and not own / _MOST_MASS < given < own * _MOST_MASS
