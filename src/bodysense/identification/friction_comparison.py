"""Data-driven choice of the friction law: laws compared on held-out blocks.

Every law is fitted without one fold and scored on that fold, in turn, by samples that can tell laws
apart (see `Comparison`). Drives have viscous and Coulomb friction: that is the law unless the data
say otherwise. A richer one must reduce the error by 1 % and by more than chance; viscous friction
alone must be shown to lose less than 1 %. A comparison that tells nothing changes nothing. Friction
that grows with the load is tried last, beside the law that was best without.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike

from bodysense.identification.friction_fit import StribeckFit, fit_stribeck
from bodysense.identification.given_friction import RICHEST, parsed_friction, with_widths_for
from bodysense.identification.held_out import Candidate, Comparison, HeldOutErrors
from bodysense.identification.preprocessing import FOLDS
from bodysense.identification.regression import Regression
from bodysense.robot.base_parameters import base_parameters
from bodysense.robot.checks.joints import given_friction, unmeasured_friction
from bodysense.robot.friction import FrictionModel, friction_model
from bodysense.robot.robot import Robot
from bodysense.spatial.arrays import Array
from bodysense.status import BAND

_LAWS = ("viscous", "coulomb", "offset", "stribeck", RICHEST)
"""The laws that are compared, simple ones first."""

_DROPPED = {
    "viscous": ("Fc", "Fs", "Fo"),
    "coulomb": ("Fs", "Fo"),
    "offset": ("Fs",),
    "stribeck": ("Fo",),
    RICHEST: (),
}
_DEFAULT = "coulomb"  # what drives have, where the data do not say otherwise
_WITH_CURVE = {"coulomb": "stribeck", "offset": RICHEST}  # what a Stribeck curve makes of a law
_MIN_IMPROVEMENT = 0.01  # relative reduction of the held-out error that a richer law must bring


@dataclass(frozen=True)
class FrictionTrial:
    """One law that was tried.

    Attributes:
        name: of the law; with ``, fitted`` where its shape was fitted too.
        error: held-out mean squared error in units of the noise's variance.
        coefficients: number of friction coefficients of all joints, fitted shapes included.
        gain: mean share over held-out stretches by which its error is smaller than the chosen
            law's; negative where it is larger.
        standard_error: of the gain.
    """

    name: str
    error: float
    coefficients: int
    gain: float = 0.0
    standard_error: float = 0.0


@dataclass(frozen=True)
class FrictionChoice:
    """The friction law that predicts held-out blocks best.

    Attributes:
        law: the chosen one.
        trials: all that were tried, simple ones first; none where they could not be compared.
        shape: shape parameters of the chosen law by name, one value per joint; empty where they
            were not fitted.
        reason: why this law was chosen, in words; empty if it was given.
    """

    law: str
    trials: tuple[FrictionTrial, ...]
    shape: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    reason: str = ""

    @property
    def tried(self) -> tuple[str, ...]:
        return tuple(trial.name for trial in self.trials)

    @property
    def name(self) -> str:
        """The chosen trial's name."""
        return _fitted_name(self.law) if self.shape else self.law

    def applied_to(self, robot: Robot) -> Robot:
        """The robot with the chosen law, and with its shape where it was fitted."""
        shape: dict[str, ArrayLike] = dict(self.shape)
        return robot.with_friction(self.law, coefficients=None, **shape)


def settle_friction(
    problem: Regression, given: Robot, name: str, progress: Callable[[str], None]
) -> tuple[Regression, FrictionChoice | None]:
    """Choose or fit the law; returns the problem with it, and how it was chosen.

    The problem's robot has the law that the given one starts with, see `start_friction`.
    """
    _, choose, fit = parsed_friction(given, name)
    v = np.concatenate([motion.v for motion in problem.motions])
    suited = with_widths_for(problem.robot, given, v)
    if suited is not problem.robot:
        problem = replace(_with_robot(problem, suited), knowledge=problem.knowledge)
    if not (choose or fit):
        return problem, None
    progress("choosing the friction law" if choose else "fitting the friction law")
    if choose:
        choice = choose_friction(problem)
        choice = replace(choice, reason=f"{_unused(given)}{choice.reason}")
    else:
        choice = fit_shape(problem)
    if choice.law == problem.robot.friction.model.name and not choice.shape:
        return problem, choice
    robot, known = choice.applied_to(problem.robot), problem.knowledge
    return Regression.of(robot, problem.motions, problem.settings, knowledge=known), choice


def _unused(given: Robot) -> str:
    """A sentence on friction coefficients that are given and not used; empty if there are none."""
    why = unmeasured_friction(given)
    if not why or not given_friction(given):
        return ""
    return f"The friction of the robot's files is not used: {why}. "


def choose_friction(problem: Regression) -> FrictionChoice:
    """Compare friction laws on held-out blocks; the robot must have the richest one.

    With Fs = Fc the Stribeck curve is Coulomb's, and without Fo there is no offset: simpler laws
    are linear constraints on the richest one's coefficients. Where a law with a Stribeck curve is
    chosen, its shape is fitted as well, and taken if it predicts better by as much.
    """
    candidates = {law: Candidate.of(problem, _constraint(problem, law)) for law in _LAWS}
    comparison = Comparison.of(candidates[RICHEST])
    if comparison.void:
        reason = f"Drives have it, and these recordings cannot tell laws apart: {comparison.void}."
        return FrictionChoice(_DEFAULT, (), reason=reason)
    errors = dict(zip(_LAWS, comparison.errors(*candidates.values()), strict=True))
    law = _best(errors)
    arm = problem.base.join(comparison.solution(candidates[law]))
    sizes, shape = {law: _size(problem.robot, law) for law in _LAWS}, {}
    by_fold = [problem.robot]  # whose shape of the law is that of all folds, or of each
    curved = _worth_fitting(errors, law)
    if curved:
        own = problem
        if curved != RICHEST:
            own = _with_robot(problem, problem.robot.with_friction(curved))
        name = _fitted_name(curved)
        fit, robots, errors[name] = _fitted(own, comparison)
        sizes[name] = sizes[curved] + len(fit.fitted) * problem.n_joints
        if _is_better(errors[name], errors[law]):
            law, shape, by_fold = curved, fit.shapes, robots
    chosen = _fitted_name(law) if shape else law
    loaded = friction_model(law).with_load
    if loaded is not None:
        name = _fitted_name(loaded.name) if shape else loaded.name
        under_load = [_under_load(problem, loaded, robot, arm) for robot in by_fold]
        if shape:
            errors[name] = comparison.errors_by_fold(under_load)
        else:
            (errors[name],) = comparison.errors(*under_load)
        sizes[name] = sizes[chosen] + problem.n_joints
        if _is_better(errors[name], errors[chosen]):
            law, chosen = loaded.name, name
    trials = tuple(_trial(name, errors[name], errors[chosen], sizes[name]) for name in errors)
    return FrictionChoice(law, trials, shape, _reason(errors, chosen))


def _best(errors: Mapping[str, HeldOutErrors]) -> str:
    """The law that held-out errors speak for."""
    best = _DEFAULT
    for law in _LAWS:
        if len(_DROPPED[law]) < len(_DROPPED[_DEFAULT]) and _is_better(errors[law], errors[best]):
            best = law
    if best != _DEFAULT:
        return best
    gain, error = errors[_DEFAULT].gain_over(errors["viscous"])
    return "viscous" if gain + BAND * error < _MIN_IMPROVEMENT else _DEFAULT


def _worth_fitting(errors: Mapping[str, HeldOutErrors], law: str) -> str:
    """The law whose curve is worth fitting; empty if none is.

    The usual curve need only seem to predict better: it may have the wrong shape.
    """
    curved = law if law.startswith("stribeck") else _WITH_CURVE.get(law, "")
    if not curved or curved == law:
        return curved
    gain, _ = errors[curved].gain_over(errors[law])
    return curved if gain > _MIN_IMPROVEMENT else ""


def _reason(errors: Mapping[str, HeldOutErrors], chosen: str) -> str:
    """Why a law was chosen, as a sentence."""
    if chosen == _DEFAULT:
        return "No other law is shown to predict held-out motion better."
    if chosen == "viscous":
        return "Coulomb friction beside it lowers the error on held-out motion by less than 1 %."
    gain, error = errors[chosen].gain_over(errors[_DEFAULT])
    return f"It lowers the error of {_DEFAULT} on held-out motion by {_percent(gain, error)}."


def _is_better(one: HeldOutErrors, other: HeldOutErrors) -> bool:
    """Whether an error is lower by a percent, and by more than chance."""
    gain, error = one.gain_over(other)
    return one.mean < other.mean and gain > max(_MIN_IMPROVEMENT, BAND * error)


def _percent(gain: float, error: float) -> str:
    return f"{100.0 * gain:.1f} ± {100.0 * error:.1f} %"


def _trial(name: str, errors: HeldOutErrors, chosen: HeldOutErrors, size: int) -> FrictionTrial:
    return FrictionTrial(name, errors.mean, size, *errors.gain_over(chosen))


def _size(robot: Robot, law: str) -> int:
    """Number of friction coefficients of all joints."""
    return robot.n_joints * (len(robot.friction.model.terms) - len(_DROPPED[law]))


def fit_shape(problem: Regression, comparison: Comparison | None = None) -> FrictionChoice:
    """Fit the Stribeck shape of the robot's own law, and compare it with the shape it has.

    On each fold the shape that was fitted without that fold is scored. The fitted shape is taken
    whatever the comparison says: it was asked for. Samples and noise are those of the comparison,
    by default what the robot's own shape makes of them.
    """
    fixed = Candidate.of(problem)
    comparison = Comparison.of(fixed) if comparison is None else comparison
    fit, _, errors = _fitted(problem, comparison)
    law = problem.robot.friction.model
    size = problem.n_joints * len(law.terms)
    (before,) = comparison.errors(fixed)
    trials = (
        _trial(law.name, before, errors, size),
        _trial(_fitted_name(law.name), errors, errors, size + problem.n_joints * len(fit.fitted)),
    )
    return FrictionChoice(law.name, trials, shape=fit.shapes)


def _fitted(
    problem: Regression, comparison: Comparison
) -> tuple[StribeckFit, list[Robot], HeldOutErrors]:
    """The fitted shape of the robot's own law, the robots without each fold, held-out errors."""
    # From the same start as the whole: another would have seen the fold.
    robots = [fit_stribeck(problem.without(fold)).robot for fold in range(FOLDS)]
    candidates = [Candidate.of(_with_robot(problem, robot)) for robot in robots]
    return fit_stribeck(problem), robots, comparison.errors_by_fold(candidates)


def _with_robot(problem: Regression, robot: Robot) -> Regression:
    """The same motions and folds, of a robot with another friction law or shape."""
    same = robot.layout == problem.robot.layout  # shapes do not change the base parameters
    return Regression.of(robot, problem.motions, problem.settings, problem.base if same else None)


def _constraint(problem: Regression, law: str) -> Array:
    """(b, c) basis of the base parameters that a simpler law allows.

    A base parameter of the offset of a vertical slide holds the weight of its links as well, which
    every law allows.
    """
    names = [problem.base.layout.names[k] for k in problem.base.independent]
    place = {name: k for k, name in enumerate(names)}
    Z = np.eye(problem.size)
    kept = np.ones(problem.size, dtype=bool)
    for name, k in place.items():
        term, joint = name[:2], name[2:]
        if term in _DROPPED[law] and joint.isdigit() and name in problem.base.alone:
            kept[k] = False
            if term == "Fs" and "Fc" not in _DROPPED[law]:
                Z[k, place["Fc" + joint]] = 1.0
    return Z[:, kept]


def _under_load(problem: Regression, law: FrictionModel, like: Robot, theta: Array) -> Candidate:
    """A law, in the shape of that of a robot, whose load follows from parameters theta (p,).

    The load hardly depends on which fold is left out: that of the whole fit does for all.
    """
    shape = dict(zip(like.friction.model.shape, like.friction.shape.T, strict=True))
    shapes: dict[str, ArrayLike] = {name: x for name, x in shape.items() if name in law.shape}
    robot = problem.robot.with_friction(law, coefficients=None, **shapes)
    known = dict(zip(problem.robot.layout.names, theta, strict=True))
    load_theta = np.array([known.get(name, 0.0) for name in robot.layout.names])
    base = base_parameters(robot)
    return Candidate.of(replace(problem, robot=robot, base=base, load_theta=load_theta))


def _fitted_name(law: str) -> str:
    return f"{law}, fitted"
