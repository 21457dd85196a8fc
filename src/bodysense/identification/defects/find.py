"""What is wrong with a log, by name: the defect that explains most first, then the next.

A defect (see `columns`) is named if

1. it is larger than what is plausible, and no chance, by some of its standard deviations,
2. torques that were left out are predicted better with it,
3. and of all that are, it does so best: causes come before their symptoms.

The log is then freed of it, and its size estimated again until it has converged: columns hold for
small defects alone. Whatever still stands out of the freed log is named next.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bodysense.identification.defects.columns import (
    LINEAR,
    TILTS,
    Suspect,
    across,
    freed_motion,
    gravity_of,
    suspects_of,
)
from bodysense.identification.defects.defect import (
    Defect,
    defect_of,
    gravity_defect,
    offset_defect,
    time_defect,
)
from bodysense.identification.defects.estimates import Estimates, estimate_defects, ridge_theta
from bodysense.identification.defects.plausible import (
    gravity_is_doubtful,
    longer_or_slower,
    more_plausible_gravity,
)
from bodysense.identification.regression import Regression
from bodysense.logs.filtering import STILL_SPEED
from bodysense.robot.mounting import under_gravity
from bodysense.spatial.arrays import Array

_LEAST = {
    "zero": 0.02,
    "position-scale": 0.03,
    "torque-scale": 0.1,
    "delay": 4e-3,
    "low-pass": 2e-4,
    "time": 0.05,
    "tilt": 0.05,
    "torque-drift": 0.2,
    "friction-drift": 0.2,
    "load-drift": 0.03,
}
"""Sizes up to which a defect is plausible in a sound log: zeros [rad or m] as calibration leaves
them; gears are known better than 3 %, drive gains to 10 %; delays [s] that elastic gears imitate;
filters [s²] of torques or currents with a corner from 11 Hz on; time to 5 %; gravity to 0.05 rad,
as bases are levelled; friction changes by a fifth while it warms up, and torques by as much of
their r.m.s.; 3 % of the robot's mass is no load."""

_OFFSET = 0.25  # plausible constant part of a torque, of its r.m.s.: friction differs by direction
_MOVING_SHARE = 0.1  # of the samples that a joint moves to either side, or it tells no offset
_LEAST_MOVING = 2  # joints that move, or nothing tells where gravity points, and
_LEAST_FOR_TIME = 3  # … whether time is right
_SIGNIFICANT = 3.5  # standard deviations from which a size is none by chance
_BEYOND = 2.0  # standard deviations beyond what is plausible from which it is named
_FOLLOWED = 2.0  # standard deviations from which a size is followed up: columns are for small ones
_LEAST_GAIN = 0.02  # share of the held-out squared error that a defect must explain at least
_MOST_LEAST_GAIN = 0.3  # in a fit that is as poor as can be
_MOST_DEFECTS = 4  # that are named
_COMPARED = 3  # suspects that are followed up to their converged size
_ITERATIONS = 6  # of the size of a defect
_CONVERGED = 0.2  # standard deviations by which it may still change
_LARGEST_STEP = {
    "zero": 0.6,
    "position-scale": 0.5,
    "torque-scale": 1e4,
    "delay": 0.05,
    "time": 0.5,
    "tilt": 0.5,
}
"""Of an iteration, in the units of the sizes: columns tell the direction from further away."""

_LAST = ("time", "length", "load-drift")
"""Kinds after which nothing is named: what else shows may belong to another robot or load."""

_SCALES = ("position-scale", "torque-scale", "time")  # which multiply; the others add up


@dataclass(frozen=True, eq=False)
class _Freed:
    """A problem freed of defects.

    Attributes:
        original: as it was logged.
        sizes: of the defects that it is freed of.
        gravity: (3,) in the base's frame.
    """

    original: Regression
    sizes: Mapping[Suspect, float]
    gravity: Array

    @cached_property
    def problem(self) -> Regression:
        """As it would have been logged without the defects."""
        problem, motions = self.original, list(self.original.motions)
        for suspect, x in self.sizes.items():
            motions = [freed_motion(motion, suspect, x) for motion in motions]
        if not np.array_equal(self.gravity, gravity_of(problem.robot)):
            turned = under_gravity(problem.robot, self.gravity)  # other parameters may show
            return Regression.of(turned, motions, problem.settings)
        if not self.sizes:
            return problem
        return Regression.of(problem.robot, motions, problem.settings, problem.base)

    @cached_property
    def theta(self) -> Array:
        """(p,) parameters of the freed problem, at which columns are taken."""
        return ridge_theta(self.problem)

    def moved(self, steps: Mapping[Suspect, float]) -> _Freed:
        """Freed of more; each size on top of what it is freed of already."""
        sizes, turn = dict(self.sizes), np.zeros(3)
        for suspect, x in steps.items():
            if suspect.kind in LINEAR:
                continue
            x = float(np.clip(x, -_LARGEST_STEP[suspect.kind], _LARGEST_STEP[suspect.kind]))
            if suspect.kind == "tilt":
                turn += x * across(self.gravity)[suspect.at]
            elif suspect.kind in _SCALES:
                sizes[suspect] = (1.0 + sizes.get(suspect, 0.0)) * (1.0 + x) - 1.0
            else:
                sizes[suspect] = sizes.get(suspect, 0.0) + x
        size = float(np.linalg.norm(self.gravity))
        turned = self.gravity + size * turn
        if turn.any():
            turned *= size / np.linalg.norm(turned)
        return _Freed(self.original, sizes, turned)

    def size(self, suspect: Suspect) -> float:
        """Of a defect that the problem was freed of."""
        if suspect.kind == "tilt":
            before = gravity_of(self.original.robot)
            size = max(float(np.linalg.norm(x)) for x in (before, self.gravity))
            return float(np.linalg.norm(self.gravity - before)) / max(size, 1e-300)
        return self.sizes.get(suspect, 0.0)


def find_defects(problem: Regression, *, uneven: bool = False) -> tuple[Defect, ...]:
    """Name what is wrong with the logs of a problem, causes first; nothing for sound ones.

    Where time stamps are known to be `uneven`, smooth torques are no defect but follow from them.
    """
    state = _Freed(problem, {}, gravity_of(problem.robot))
    offsets: tuple[Defect, ...] = ()
    named: list[_Trial] = []
    while True:
        known = named[-1].estimates.suspects if named else ()
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
    made = [_described(trial, named[-1]) for trial in named]
    for k, defect in enumerate(made):
        if defect.kind in _LAST:
            return tuple(made[: k + 1])
    return (*made, *offsets)


def _tellable(problem: Regression, uneven: bool) -> list[Suspect]:
    """Defects that the motion can tell.

    One joint alone cannot tell gravity from its links, nor two whether inertia and gravity belong
    to the same bodies, as time does that is off.
    """
    moves = _moves_both_ways(problem)
    moving = np.count_nonzero(moves)
    never = {"tilt"} if moving < _LEAST_MOVING else set()
    never |= {"time"} if moving < _LEAST_FOR_TIME else set()
    never |= {"low-pass"} if uneven else set()
    suspects = (s for s in suspects_of(problem.robot) if s.kind not in never)
    return [s for s in suspects if s.kind != "torque-drift" or moves[s.at]]


@dataclass(frozen=True, eq=False)
class _Trial:
    """A log freed of one defect more.

    Attributes:
        suspects: what it is made of: gravity has two tilts.
        state: the log without it, with all sizes converged.
        estimates: of what is left of all defects that the log was freed of.
        gain: share of the held-out squared error that this one explains.
    """

    suspects: tuple[Suspect, ...]
    state: _Freed
    estimates: Estimates
    gain: float

    def std(self, suspect: Suspect) -> float:
        """Standard deviation of a defect's size."""
        return float(self.estimates.std[self.estimates.suspects.index(suspect)])

    def size(self, suspect: Suspect) -> float:
        """Of a defect, what the log was freed of and what is left."""
        if suspect.kind in LINEAR:
            return float(self.estimates.sizes[self.estimates.suspects.index(suspect)])
        return self.state.size(suspect)

    @property
    def certain(self) -> bool:
        """Whether its defect is no chance, and larger than what is plausible."""
        first, std = self.suspects[0], max(self.std(suspect) for suspect in self.suspects)
        size = abs(self.size(first))
        least = _plausible(first, self.size(first))
        return size > _SIGNIFICANT * std and size - least > _BEYOND * std


def _plausible(suspect: Suspect, size: float) -> float:
    """Up to where a size like this is plausible in a sound log."""
    if suspect.kind == "low-pass" and size < 0.0:
        return np.inf  # elastic gears; and filters do not show in what filtered positions predict
    return _LEAST[suspect.kind]


def _best(state: _Freed, estimates: Estimates, known: tuple[Suspect, ...]) -> _Trial | None:
    """The defect that explains most of what is left."""
    table = zip(estimates.suspects, estimates.sizes, estimates.std, estimates.gains, strict=True)
    found = sorted(
        (-gain, place, suspect, size)
        for place, (suspect, size, std, gain) in enumerate(table)
        if gain > _LEAST_GAIN and abs(size) > max(_FOLLOWED * std, _plausible(suspect, size))
    )
    # The more else is wrong, the more a defect must explain: r.m.s. of relative errors.
    least = max(_LEAST_GAIN, min(float(np.exp(0.5 * estimates.error)), _MOST_LEAST_GAIN))
    trials = []
    for _, _, suspect, size in found[:_COMPARED]:
        start, parts = state.moved({suspect: size}), TILTS if suspect in TILTS else (suspect,)
        trials.append(_trial(start, parts, known, estimates.error, least))
    told = np.count_nonzero(_moves_both_ways(state.problem)) >= _LEAST_MOVING
    doubtful = told and (found or gravity_is_doubtful(state.problem, estimates, state.theta))
    if doubtful and not set(known) & set(TILTS):
        gravity = more_plausible_gravity(state.problem)
        if gravity is not None:
            turned = replace(state, gravity=gravity)
            trials.append(_trial(turned, TILTS, known, estimates.error, least))
    made = [trial for trial in trials if trial is not None]
    return max(made, key=lambda trial: trial.gain, default=None)


def _trial(
    state: _Freed,
    suspects: tuple[Suspect, ...],
    known: tuple[Suspect, ...],
    error: float,
    least: float,
) -> _Trial | None:
    """Free the log of what is estimated until nothing more is (Gauss-Newton).

    Returns `None` for what is not certain, or explains less than the least share of the error.
    """
    free = (*known, *suspects)
    curved = np.array([suspect.kind not in LINEAR for suspect in free])
    made = estimate_defects(state.problem, free, together=True, theta=state.theta)
    for _ in range(_ITERATIONS):
        if made is None:
            return None
        still = np.abs(made.sizes) < _CONVERGED * made.std
        if still[curved].all() or (suspects == TILTS and not state.gravity.any()):
            break
        state = state.moved(dict(zip(free, made.sizes, strict=True)))
        made = estimate_defects(state.problem, free, together=True, theta=state.theta)
    if made is None:
        return None
    trial = _Trial(suspects, state, made, 1.0 - float(np.exp(made.errors[0] - error)))
    if suspects == TILTS and not state.gravity.any():
        decent = trial.gain > -_LEAST_GAIN and made.errors[0] < 2.0 * np.log(_MOST_LEAST_GAIN)
        return trial if decent else None
    return trial if trial.gain > least and trial.certain else None


def _described(trial: _Trial, last: _Trial) -> Defect:
    """A defect with the size and the standard deviation that it has at last."""
    robot, first = last.state.original.robot, trial.suspects[0]
    if trial.suspects == TILTS:
        std = max(last.std(suspect) for suspect in TILTS)
        return gravity_defect(robot, last.state.gravity, std, trial.gain)
    size, std = last.size(first), last.std(first)
    if first.kind == "time":
        return time_defect(size, std, trial.gain, longer_or_slower(last.state.original, size))
    return defect_of(last.state.original, first, size, std, trial.gain)


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
