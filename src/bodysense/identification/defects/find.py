"""What is wrong with a log, by name: the defect that explains most first, then the next.

A defect (see `columns`) is named if

1. it is larger than what is plausible, and no chance, by some of its standard deviations,
2. torques that were left out are predicted better with it,
3. and of all that are, it does so best: causes come before their symptoms.

The log is then corrected for it, and its size estimated again until it has converged: columns hold
for small defects alone. Whatever still stands out of the corrected log is named next.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bodysense.identification.defects.against_file import (
    contradicts_the_file,
    gravity_is_doubtful,
    longer_or_slower,
    more_plausible_gravity,
)
from bodysense.identification.defects.columns import (
    LINEAR,
    TILTS,
    DefectCandidate,
    across,
    candidates_of,
    corrected_motion,
    gravity_of,
)
from bodysense.identification.defects.defect import (
    Defect,
    defect_of,
    gravity_defect,
    offset_defect,
    time_defect,
)
from bodysense.identification.defects.estimates import (
    Estimates,
    estimate_defects,
    ridge_theta,
    through_the_log,
)
from bodysense.identification.regression import Regression
from bodysense.logs.filtering import STILL_SPEED
from bodysense.robot.mounting import under_gravity
from bodysense.spatial.arrays import Array

_LEAST = {
    "zero": 0.02,
    "zero-drift": 0.03,
    "position-scale": 0.03,
    "torque-scale": 0.1,
    "delay": 4e-3,
    "joint-delay": 6e-3,
    "low-pass": 0.5,
    "time": 0.05,
    "tilt": 0.05,
    "torque-drift": 0.2,
    "scale-drift": 0.15,
    "friction-drift": 0.2,
    "load-drift": 0.03,
}
"""Sizes up to which a defect is plausible in a sound log: zeros [rad or m] as calibration leaves
them, and belts that give way; gears are known better than 3 %, drive gains to 10 %; delays [s] that
elastic gears imitate, those of one joint more than those of all; half of what torques have at high
frequencies, where models err most; time to 5 %; gravity to 0.05 rad, as bases are levelled;
friction changes by a fifth while it warms up, gains by a bit less, and torques by as much of their
r.m.s.; 3 % of the robot's mass is no load."""

_OFFSET = 0.25  # plausible constant part of a torque, of its r.m.s.: friction differs by direction
_MOVING_SHARE = 0.1  # of the samples that a joint moves to either side, or it tells no offset
_LEAST_MOVING = 2  # joints that move, or nothing tells where gravity points, and
_LEAST_FOR_TIME = 3  # … whether time is right
_SIGNIFICANT = 3.5  # standard deviations from which a size is none by chance
_BEYOND = 2.0  # standard deviations beyond what is plausible from which it is named
_FOLLOWED = 2.0  # standard deviations from which a size is followed up: columns are for small ones
_RIVAL = 0.9  # of what a zero explains, from which that of another joint may be off as well
_LEAST_GAIN = 0.02  # share of the held-out squared error that a defect must explain at least
_MOST_LEAST_GAIN = 0.3  # in a fit that is as poor as can be
_MOST_DEFECTS = 4  # that are named
_COMPARED = 3  # candidates that are followed up to their converged size
_ITERATIONS = 8  # of the size of a defect
_CONVERGED = 0.2  # standard deviations by which it may still change
_LARGEST_STEP = {
    "zero": 0.6,
    "position-scale": 0.5,
    "torque-scale": 1e4,
    "scale-drift": 0.9,
    "delay": 0.05,
    "joint-delay": 0.05,
    "time": 0.5,
    "tilt": 0.5,
}
"""Of an iteration, in the units of the sizes: columns tell the direction from further away."""

_MOST = {
    "zero": 2.0 * np.pi,
    "position-scale": 100.0,
    "torque-scale": 2000.0,
    "delay": 1.0,
    "joint-delay": 1.0,
}
"""Sizes that logs have: a torque in mN·m is 1000 times too large. Beyond, a correction takes the
channel away instead of correcting it."""

_LAST = ("time", "length", "load-drift")
"""Kinds after which nothing is named: what else shows may belong to another robot or load."""

_TOWARDS_THE_FILE = ("zero", "position-scale", "torque-scale", "delay", "joint-delay")
"""Kinds after whose correction parameters are nearer to the file's."""

_SCALES = ("position-scale", "torque-scale", "time")  # which multiply; the others add up


@dataclass(frozen=True, eq=False)
class _Corrected:
    """A problem corrected for defects.

    Attributes:
        original: as it was logged.
        sizes: of the defects that it is corrected for.
        gravity: (3,) in the base's frame.
    """

    original: Regression
    sizes: Mapping[DefectCandidate, float]
    gravity: Array

    @cached_property
    def problem(self) -> Regression:
        """As it would have been logged without the defects."""
        problem, motions = self.original, list(self.original.motions)
        for candidate, x in self.sizes.items():
            motions = [
                corrected_motion(motion, candidate, x, through_the_log(problem, motion))
                for motion in motions
            ]
        if not np.array_equal(self.gravity, gravity_of(problem.robot)):
            turned = under_gravity(problem.robot, self.gravity)  # other parameters may show
            return Regression.of(turned, motions, problem.settings)
        if not self.sizes:
            return problem
        return Regression.of(problem.robot, motions, problem.settings, problem.base)

    @cached_property
    def theta(self) -> Array:
        """(p,) parameters of the corrected problem, at which columns are taken."""
        return ridge_theta(self.problem)

    def moved(self, steps: Mapping[DefectCandidate, float]) -> _Corrected:
        """Corrected for more; each size on top of what it is corrected for already."""
        sizes, turn = dict(self.sizes), np.zeros(3)
        for candidate, x in steps.items():
            if candidate.kind in LINEAR:
                continue
            x = float(np.clip(x, -_LARGEST_STEP[candidate.kind], _LARGEST_STEP[candidate.kind]))
            if candidate.kind == "tilt":
                turn += x * across(self.gravity)[candidate.at]
            elif candidate.kind in _SCALES:
                sizes[candidate] = (1.0 + sizes.get(candidate, 0.0)) * (1.0 + x) - 1.0
            else:
                sizes[candidate] = sizes.get(candidate, 0.0) + x
        size = float(np.linalg.norm(self.gravity))
        turned = self.gravity + size * turn
        if turn.any():
            turned *= size / np.linalg.norm(turned)
        return _Corrected(self.original, sizes, turned)

    def size(self, candidate: DefectCandidate) -> float:
        """Of a defect that the problem was corrected for."""
        if candidate.kind == "tilt":
            before = gravity_of(self.original.robot)
            size = max(float(np.linalg.norm(x)) for x in (before, self.gravity))
            return float(np.linalg.norm(self.gravity - before)) / max(size, 1e-300)
        return self.sizes.get(candidate, 0.0)


def find_defects(problem: Regression, *, uneven: bool = False) -> tuple[Defect, ...]:
    """Name what is wrong with the logs of a problem, causes first; nothing for sound ones.

    Where time stamps are known to be `uneven`, smooth torques are no defect but follow from them.
    """
    state = _Corrected(problem, {}, gravity_of(problem.robot))
    offsets: tuple[Defect, ...] = ()
    named: list[_Trial] = []
    while True:
        known = named[-1].estimates.candidates if named else ()
        rest = [s for s in _tellable(state.problem, uneven) if s not in known]
        beside = [s for s in known if s.kind in LINEAR]
        estimates = estimate_defects(state.problem, rest, beside=beside, theta=state.theta)
        if estimates is None:
            break
        offsets = _offsets(state.problem, estimates)
        best = _best(state, estimates, known) if len(named) < _MOST_DEFECTS else None
        if best is None:
            break
        state = best.state
        named.append(best)
    last = named[-1] if named else None
    made = [_described(trial, last) for trial in named if last and last.names(trial.candidates)]
    for k, defect in enumerate(made):
        if defect.kind in _LAST:
            return tuple(made[: k + 1])
    return (*made, *offsets)


def _tellable(problem: Regression, uneven: bool) -> list[DefectCandidate]:
    """Defects that the motion can tell.

    One joint alone cannot tell gravity from its links, nor two whether inertia and gravity belong
    to the same bodies, as time does that is off.
    """
    moves = _moves_both_ways(problem)
    moving = np.count_nonzero(moves)
    never = {"tilt"} if moving < _LEAST_MOVING else set()
    never |= {"time"} if moving < _LEAST_FOR_TIME else set()
    never |= {"low-pass"} if uneven else set()
    candidates = (s for s in candidates_of(problem.robot) if s.kind not in never)
    return [s for s in candidates if s.kind != "torque-drift" or moves[s.at]]


@dataclass(frozen=True, eq=False)
class _Trial:
    """A log corrected for one defect more.

    Attributes:
        candidates: what it is made of: gravity has two tilts.
        state: the log without it, with all sizes converged.
        estimates: of what is left of all defects that the log was corrected for.
        gain: share of the held-out squared error that this one explains.
        rivals: zeros of other joints that explain about as much instead.
    """

    candidates: tuple[DefectCandidate, ...]
    state: _Corrected
    estimates: Estimates
    gain: float
    rivals: tuple[DefectCandidate, ...] = ()

    def std(self, candidate: DefectCandidate) -> float:
        """Standard deviation of a defect's size."""
        return float(self.estimates.std[self.estimates.candidates.index(candidate)])

    def size(self, candidate: DefectCandidate) -> float:
        """Of a defect, what the log was corrected for and what is left."""
        if candidate.kind in LINEAR:
            return float(self.estimates.sizes[self.estimates.candidates.index(candidate)])
        return self.state.size(candidate)

    def names(self, candidates: tuple[DefectCandidate, ...]) -> bool:
        """Whether a defect, this or an earlier one, is no chance and of a size that logs have."""
        if candidates == TILTS and not self.state.gravity.any():
            return True  # which has no size that could be compared
        first, std = candidates[0], max(self.std(candidate) for candidate in candidates)
        size = abs(self.size(first))
        least = _plausible(first, self.size(first))
        certain = size > _SIGNIFICANT * std and size - least > _BEYOND * std
        return certain and size < _MOST.get(first.kind, np.inf)


def _plausible(candidate: DefectCandidate, size: float) -> float:
    """Up to where a size like this is plausible in a sound log."""
    if candidate.kind == "low-pass" and size < 0.0:
        return np.inf  # elastic gears; and filters do not show in what filtered positions predict
    return _LEAST[candidate.kind]


def _best(
    state: _Corrected, estimates: Estimates, known: tuple[DefectCandidate, ...]
) -> _Trial | None:
    """The defect that explains most of what is left."""
    table = zip(estimates.candidates, estimates.sizes, estimates.std, estimates.gains, strict=True)
    found = sorted(
        (-gain, place, candidate, size)
        for place, (candidate, size, std, gain) in enumerate(table)
        if gain > _LEAST_GAIN and abs(size) > max(_FOLLOWED * std, _plausible(candidate, size))
    )
    # The more else is wrong, the more a defect must explain: r.m.s. of relative errors.
    least = max(_LEAST_GAIN, min(float(np.exp(0.5 * estimates.error)), _MOST_LEAST_GAIN))
    trials: list[_Trial | None] = []
    for _, _, candidate, size in found[:_COMPARED]:
        start, parts = state.moved({candidate: size}), TILTS if candidate in TILTS else (candidate,)
        trials.append(_trial(state.problem, start, parts, known, estimates.error, least))
    told = np.count_nonzero(_moves_both_ways(state.problem)) >= _LEAST_MOVING
    doubtful = told and (found or gravity_is_doubtful(state.problem, estimates, state.theta))
    if doubtful and not set(known) & set(TILTS):
        gravity = more_plausible_gravity(state.problem)
        if gravity is not None:
            turned = replace(state, gravity=gravity)
            trials.append(_trial(state.problem, turned, TILTS, known, estimates.error, least))
    made = [trial for trial in trials if trial is not None]
    best = max(made, key=lambda trial: trial.gain, default=None)
    if best is None or best.candidates[0].kind != "zero":
        return best
    others = [trial for trial in made if trial.candidates[0].kind == "zero" and trial is not best]
    rivals = [t.candidates[0] for t in others if t.gain > _RIVAL * best.gain]
    return replace(best, rivals=tuple(rivals))


def _trial(
    before: Regression,
    state: _Corrected,
    candidates: tuple[DefectCandidate, ...],
    known: tuple[DefectCandidate, ...],
    error: float,
    least: float,
) -> _Trial | None:
    """Free the log of what is estimated until nothing more is (Gauss-Newton).

    Returns `None` for what does not converge, is not certain, explains less than the least share
    of the error, or leads away from the robot's file, where the problem was `before`.
    """
    free = (*known, *candidates)
    curved = np.array([candidate.kind not in LINEAR for candidate in free])
    made = estimate_defects(state.problem, free, together=True, theta=state.theta)
    for _ in range(_ITERATIONS):
        if made is None:
            return None
        still = np.abs(made.sizes) < _CONVERGED * made.std
        if still[curved].all() or (candidates == TILTS and not state.gravity.any()):
            break
        state = state.moved(dict(zip(free, made.sizes, strict=True)))
        made = estimate_defects(state.problem, free, together=True, theta=state.theta)
    else:
        return None  # it has not converged
    trial = _Trial(candidates, state, made, 1.0 - float(np.exp(made.errors[0] - error)))
    if candidates == TILTS and not state.gravity.any():
        decent = trial.gain > -_LEAST_GAIN and made.errors[0] < 2.0 * np.log(_MOST_LEAST_GAIN)
        return trial if decent else None
    if not (trial.gain > least and trial.names(candidates)):
        return None
    towards = candidates[0].kind in _TOWARDS_THE_FILE
    away = towards and contradicts_the_file(before, state.problem, trial.gain)
    return None if away else trial


def _described(trial: _Trial, last: _Trial) -> Defect:
    """A defect with the size and the standard deviation that it has at last."""
    robot, first = last.state.original.robot, trial.candidates[0]
    if trial.candidates == TILTS:
        std = max(last.std(candidate) for candidate in TILTS)
        return gravity_defect(robot, last.state.gravity, std, trial.gain)
    size, std = last.size(first), last.std(first)
    if first.kind == "time":
        return time_defect(size, std, trial.gain, longer_or_slower(last.state.original, size))
    rivals = [robot.joint_names[rival.at] for rival in trial.rivals]
    return defect_of(last.state.original, first, size, std, trial.gain, rivals)


def _offsets(problem: Regression, estimates: Estimates) -> tuple[Defect, ...]:
    """Constant torques that are larger than what differs between the directions of friction."""
    made = []
    table = zip(problem.robot.joint_names, estimates.offsets, estimates.offsets_std, strict=True)
    moves = _moves_both_ways(problem)
    for (joint, x, std), size, moving in zip(table, problem.torque_size, moves, strict=True):
        if moving and abs(x) > _SIGNIFICANT * std and abs(x) - _OFFSET * size > _BEYOND * std:
            made.append(offset_defect(problem.robot, joint, float(x), float(std)))
    return tuple(made)


def _moves_both_ways(problem: Regression) -> NDArray[np.bool_]:
    """(n,) joints that move to and fro: one that stands holds with any torque, by friction."""
    v = np.concatenate([motion.v for motion in problem.motions])
    shares = ((v > STILL_SPEED).mean(axis=0), (v < -STILL_SPEED).mean(axis=0))
    both: NDArray[np.bool_] = np.minimum(*shares) > _MOVING_SHARE
    return both
