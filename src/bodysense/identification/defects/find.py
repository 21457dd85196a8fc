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

from bodysense.identification.defects.columns import (
    TILTS,
    Suspect,
    across,
    freed_motion,
    gravity_of,
    suspects_of,
    with_gravity,
)
from bodysense.identification.defects.defect import Defect, defect_of, gravity_defect
from bodysense.identification.defects.estimates import Estimates, estimate_defects
from bodysense.identification.defects.gravity import gravity_is_doubtful, more_plausible_gravity
from bodysense.identification.regression import Regression
from bodysense.spatial.arrays import Array

_LEAST = {"zero": 0.02, "delay": 4e-3, "time": 0.05, "scale": 0.1, "tilt": 0.05}
"""Sizes up to which a defect is plausible in a sound log: zeros [rad or m] as calibration leaves
them; delays [s] that elastic gears imitate; time by 5 %, torques by 10 %, as drive gains are known;
gravity by 0.05 rad, as bases are levelled."""

_SIGNIFICANT = 3.5  # standard deviations from which a size is none by chance
_BEYOND = 2.0  # standard deviations beyond what is plausible from which it is named
_LEAST_GAIN = 0.02  # share of the held-out squared error that a defect must explain
_MOST_DEFECTS = 4  # that are named
_COMPARED = 3  # suspects that are followed up to their converged size
_ITERATIONS = 6  # of the size of a defect
_CONVERGED = 0.2  # standard deviations by which it may still change
_LARGEST_STEP = {"zero": 0.6, "delay": 0.05, "time": 0.5, "scale": 3.0, "tilt": 0.5}
"""Of an iteration, in the units of the sizes: columns tell the direction from further away."""


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
            turned = with_gravity(problem.robot, self.gravity)  # other parameters may show
            return Regression.of(turned, motions, problem.settings)
        if not self.sizes:
            return problem
        return Regression.of(problem.robot, motions, problem.settings, problem.base)

    def moved(self, steps: Mapping[Suspect, float]) -> _Freed:
        """Freed of more; each size on top of what it is freed of already."""
        sizes, turn = dict(self.sizes), np.zeros(3)
        for suspect, x in steps.items():
            x = float(np.clip(x, -_LARGEST_STEP[suspect.kind], _LARGEST_STEP[suspect.kind]))
            if suspect.kind == "tilt":
                turn += x * across(self.gravity)[suspect.at]
            elif suspect.kind in ("time", "scale"):
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
            return float(np.linalg.norm(self.gravity - before) / np.linalg.norm(before))
        return self.sizes.get(suspect, 0.0)


def find_defects(problem: Regression) -> tuple[Defect, ...]:
    """Name what is wrong with the logs of a problem, causes first; nothing for sound ones."""
    state = _Freed(problem, {}, gravity_of(problem.robot))
    named: list[_Trial] = []
    for _ in range(_MOST_DEFECTS):
        known = named[-1].estimates.suspects if named else ()
        rest = [s for s in suspects_of(state.problem.robot) if s not in known]
        estimates = estimate_defects(state.problem, rest)
        best = None if estimates is None else _best(state, estimates, known)
        if best is None:
            break
        state = best.state
        named.append(best)
    return tuple(_described(trial, named[-1]) for trial in named)


@dataclass(frozen=True, eq=False)
class _Trial:
    """A log freed of one defect more.

    Attributes:
        suspects: what it is made of: gravity has two tilts, and none where there is no gravity.
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


def _certain(kind: str, size: float, std: float) -> bool:
    beyond = abs(size) - _LEAST[kind]
    return bool(abs(size) > _SIGNIFICANT * std and beyond > _BEYOND * std)


def _best(state: _Freed, estimates: Estimates, known: tuple[Suspect, ...]) -> _Trial | None:
    """The defect that explains most of what is left."""
    table = zip(estimates.suspects, estimates.sizes, estimates.std, estimates.gains, strict=True)
    found = sorted(
        (-gain, place, suspect, size)
        for place, (suspect, size, std, gain) in enumerate(table)
        if gain > _LEAST_GAIN and _certain(suspect.kind, size, std)
    )
    trials = []
    for _, _, suspect, size in found[:_COMPARED]:
        start, parts = state.moved({suspect: size}), (suspect,)
        trials.append(_trial(start, TILTS if suspect in TILTS else parts, known, estimates.error))
    if not set(known) & set(TILTS) and (found or gravity_is_doubtful(state.problem, estimates)):
        gravity = more_plausible_gravity(state.problem)
        if gravity is not None:
            turned = replace(state, gravity=gravity)
            trials.append(_trial(turned, TILTS, known, estimates.error))
    made = [trial for trial in trials if trial is not None]
    return max(made, key=lambda trial: trial.gain, default=None)


def _trial(
    state: _Freed, suspects: tuple[Suspect, ...], known: tuple[Suspect, ...], error: float
) -> _Trial | None:
    """Free the log of what is estimated until nothing more is (Gauss-Newton)."""
    free = (*known, *suspects)
    made = estimate_defects(state.problem, free, together=True)
    for _ in range(_ITERATIONS):
        if made is None:
            return None
        if (np.abs(made.sizes) < _CONVERGED * made.std).all() or not state.gravity.any():
            break
        state = state.moved(dict(zip(free, made.sizes, strict=True)))
        made = estimate_defects(state.problem, free, together=True)
    if made is None:
        return None
    trial = _Trial(suspects, state, made, 1.0 - float(np.exp(made.error - error)))
    if suspects == TILTS and not state.gravity.any():
        return trial if trial.gain > -_LEAST_GAIN else None
    first = suspects[0]
    std = max(trial.std(suspect) for suspect in suspects)
    named = trial.gain > _LEAST_GAIN and _certain(first.kind, state.size(first), std)
    return trial if named else None


def _described(trial: _Trial, last: _Trial) -> Defect:
    """A defect with the size and the standard deviation that it has at last."""
    robot, first = last.state.original.robot, trial.suspects[0]
    if trial.suspects == TILTS:
        std = max(last.std(suspect) for suspect in TILTS)
        return gravity_defect(robot, last.state.gravity, std, trial.gain)
    return defect_of(robot, first, last.state.size(first), last.std(first), trial.gain)
