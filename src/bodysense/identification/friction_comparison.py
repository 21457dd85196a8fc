"""Data-driven choice of the friction law: laws compared on held-out blocks.

Every law is fitted without one fold and scored on that fold, in turn, by samples that can tell laws
apart (see `Comparison`). Drives have viscous and Coulomb friction: that is the law unless the data
say otherwise. A richer one must reduce the error by 1 % and by more than chance; viscous friction
alone must be shown to lose less than 1 %. A comparison that tells nothing changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import block_diag

from bodysense.identification.friction_fit import StribeckFit, fit_stribeck
from bodysense.identification.given_friction import RICHEST, parsed_friction
from bodysense.identification.held_out import Candidate, Comparison, HeldOutErrors
from bodysense.identification.preprocessing import FOLDS
from bodysense.identification.regression import Regression
from bodysense.robot.base_parameters import BaseParameters
from bodysense.robot.robot import Robot
from bodysense.spatial.arrays import Array

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
_QUANTILE = 1.959964  # standard errors by which it must be lower: an interval of 95 %
_LOSS_SIZE = 0.1  # plausible coefficient of load-dependent friction


@dataclass(frozen=True)
class FrictionTrial:
    """One law that was tried.

    Attributes:
        name: of the law; with ``, fitted`` where its shape was fitted too.
        error: held-out mean squared error in units of the noise's variance.
        coefficients: number of friction coefficients of all joints, fitted shapes included.
        standard_error: of the difference between its error and that of the chosen law.
    """

    name: str
    error: float
    coefficients: int
    standard_error: float = 0.0


@dataclass(frozen=True)
class LoadDependence:
    """What load-dependent Coulomb friction would add to the chosen law.

    No built-in law has it (see `_LoadRows`), so that it is reported and never chosen.

    Attributes:
        error: held-out mean squared error of the chosen law with this term.
        gain: by which share the term lowers the chosen law's error; negative where it harms.
        coefficients: Fl of each joint: friction per load, without unit.
    """

    error: float
    gain: float
    coefficients: tuple[float, ...]


@dataclass(frozen=True)
class FrictionChoice:
    """The friction law that predicts held-out blocks best.

    Attributes:
        law: the chosen one.
        trials: all that were tried, simple ones first; none where they could not be compared.
        load: what a dependence on load would add; `None` where it was not computed.
        shape: shape parameters of the chosen law by name, one value per joint; empty where they
            were not fitted.
        reason: why this law was chosen, in words; empty if it was given.
    """

    law: str
    trials: tuple[FrictionTrial, ...]
    load: LoadDependence | None = None
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
    problem: Regression, name: str, progress: Callable[[str], None]
) -> tuple[Regression, FrictionChoice | None]:
    """Choose or fit the law; returns the problem with it, and how it was chosen."""
    _, choose, fit = parsed_friction(problem.robot, name)
    if not (choose or fit):
        return problem, None
    progress("choosing the friction law" if choose else "fitting the friction law")
    choice = choose_friction(problem) if choose else fit_shape(problem)
    if choice.law == problem.robot.friction.model.name and not choice.shape:
        return problem, choice
    robot, known = choice.applied_to(problem.robot), problem.knowledge
    return Regression.of(robot, problem.motions, problem.settings, knowledge=known), choice


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
    load = _load_dependence(comparison, candidates[law], errors[law])
    sizes, shape = {law: _size(problem.robot, law) for law in _LAWS}, {}
    curved = _worth_fitting(errors, law)
    if curved:
        own = problem
        if curved != RICHEST:
            own = _with_robot(problem, problem.robot.with_friction(curved))
        name = _fitted_name(curved)
        fit, errors[name] = _fitted(own, comparison)
        sizes[name] = sizes[curved] + len(fit.fitted) * problem.n_joints
        if _is_better(errors[name], errors[law]):
            law, shape = curved, fit.shapes
    chosen = _fitted_name(law) if shape else law
    trials = tuple(_trial(name, errors[name], errors[chosen], sizes[name]) for name in errors)
    return FrictionChoice(law, trials, load, shape, _reason(errors, chosen))


def _best(errors: Mapping[str, HeldOutErrors]) -> str:
    """The law that held-out errors speak for."""
    best = _DEFAULT
    for law in _LAWS:
        if len(_DROPPED[law]) < len(_DROPPED[_DEFAULT]) and _is_better(errors[law], errors[best]):
            best = law
    if best != _DEFAULT:
        return best
    gain, error = errors[_DEFAULT].gain_over(errors["viscous"])
    return "viscous" if gain + _QUANTILE * error < _MIN_IMPROVEMENT else _DEFAULT


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
    gain, error = errors[chosen].gain_over(errors[_DEFAULT])
    if chosen == "viscous":
        gain, error = errors[_DEFAULT].gain_over(errors[chosen])
        return f"Coulomb friction lowers the error on held-out motion by {_percent(gain, error)}."
    return f"It lowers the error of {_DEFAULT} on held-out motion by {_percent(gain, error)}."


def _is_better(one: HeldOutErrors, other: HeldOutErrors) -> bool:
    """Whether an error is lower by a percent, and by more than chance."""
    gain, error = one.gain_over(other)
    return gain > max(_MIN_IMPROVEMENT, _QUANTILE * error)


def _percent(gain: float, error: float) -> str:
    return f"{100.0 * gain:.1f} ± {100.0 * error:.1f} %"


def _trial(name: str, errors: HeldOutErrors, chosen: HeldOutErrors, size: int) -> FrictionTrial:
    _, deviation = errors.gain_over(chosen)
    return FrictionTrial(name, errors.mean, size, deviation * chosen.mean)


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
    fit, errors = _fitted(problem, comparison)
    law = problem.robot.friction.model
    size = problem.n_joints * len(law.terms)
    (before,) = comparison.errors(fixed)
    trials = (
        _trial(law.name, before, errors, size),
        _trial(_fitted_name(law.name), errors, errors, size + problem.n_joints * len(fit.fitted)),
    )
    return FrictionChoice(law.name, trials, shape=fit.shapes)


def _fitted(problem: Regression, comparison: Comparison) -> tuple[StribeckFit, HeldOutErrors]:
    """The fitted shape of the robot's own law, and held-out errors of such a shape."""
    # From the same start as the whole: another would have seen the fold.
    robots = [fit_stribeck(problem.without(fold)).robot for fold in range(FOLDS)]
    candidates = [Candidate.of(_with_robot(problem, robot)) for robot in robots]
    return fit_stribeck(problem), comparison.errors_by_fold(candidates)


def _with_robot(problem: Regression, robot: Robot) -> Regression:
    """The same motions and folds, of a robot with another friction law or shape."""
    same = robot.layout == problem.robot.layout  # shapes do not change the base parameters
    return Regression.of(robot, problem.motions, problem.settings, problem.base if same else None)


def _constraint(problem: Regression, law: str) -> Array:
    """(b, c) basis of the base parameters that a simpler law allows."""
    names = [problem.base.layout.names[k] for k in problem.base.independent]
    place = {name: k for k, name in enumerate(names)}
    Z = np.eye(problem.size)
    kept = np.ones(problem.size, dtype=bool)
    for name, k in place.items():
        term, joint = name[:2], name[2:]
        if term in _DROPPED[law] and joint.isdigit():
            kept[k] = False
            if term == "Fs" and "Fc" not in _DROPPED[law]:
                Z[k, place["Fc" + joint]] = 1.0
    return Z[:, kept]


def _load_dependence(
    comparison: Comparison, candidate: Candidate, errors: HeldOutErrors
) -> LoadDependence:
    """Held-out error with a column of the load for every joint, and its coefficients."""
    problem = candidate.rows
    # The load hardly depends on which fold is left out: that of the whole fit does for all.
    link_theta = at_the_links(problem.base, comparison.solution(candidate))
    with_load = _with_load(candidate, link_theta)
    (better,) = comparison.errors(with_load)
    gain, _ = better.gain_over(errors)
    Fl = comparison.solution(with_load)[problem.size :]
    return LoadDependence(better.mean, gain, tuple(map(float, Fl)))


def _with_load(candidate: Candidate, link_theta: Array) -> Candidate:
    """A candidate with a column of the load for every joint."""
    n = candidate.rows.n_joints
    # A joint that carries next to nothing would get any coefficient: zero, give or take a tenth.
    return Candidate(
        candidate.rows.recast(_LoadRows, link_theta=link_theta),
        block_diag(candidate.basis, np.eye(n)),
        block_diag(candidate.held, np.eye(n) / _LOSS_SIZE),
        np.append(candidate.held_at, np.zeros(n)),
    )


def _fitted_name(law: str) -> str:
    return f"{law}, fitted"


# Rows with one more column per joint: load-dependent Coulomb friction.
#
# Gears and bearings have more friction under load (as harmonic drives do):
#
#     tau_f = (Fc + Fl |tau_link|) s(v),
#
# with the torque tau_link that the joint passes on to its link, without friction and rotor. It is
# the one that an estimate of the other parameters predicts; given that, the term is linear in Fl.
# (Measured torque would not do: it holds the friction that is to be explained, and where that is
# most of it, |tau| s(v) is the torque itself.) A term that depends on the other parameters is no
# friction law that a `Robot` can have: it serves for comparison, and for identifying loads.


@dataclass(frozen=True, eq=False)
class _LoadRows(Regression):
    """A regression whose unknowns are theta_base and Fl of each joint, in this order.

    Attributes:
        link_theta: (b,) base parameters that predict the torque at the links.
    """

    link_theta: Array = field(default_factory=lambda: np.zeros(0))

    @property
    def size(self) -> int:
        return self.base.size + self.n_joints

    @cached_property
    def columns(self) -> tuple[NDArray[np.int64], ...]:
        """For each joint the unknowns that its torque can depend on, its own Fl last."""
        return tuple(
            np.append(places, self.base.size + j) for j, places in enumerate(super().columns)
        )

    def widened(self, Y: Array, v: Array, log: int) -> Array:
        return np.concatenate([Y, loss_columns(self.robot, Y, v, self.link_theta)], axis=2)


def at_the_links(base: BaseParameters, theta_base: Array) -> Array:
    """(b,) the part of theta_base that makes torque at the links: neither friction nor rotors."""
    names = (base.layout.names[k] for k in base.independent)
    rigid: Array = theta_base * np.array([not name.startswith(("F", "Ia")) for name in names])
    return rigid


def loss_columns(robot: Robot, Y: Array, v: Array, link_theta: Array) -> Array:
    """(m, n, n) columns of Fl: for joint j, |tau_link_j| s(v_j) in its own row and column.

    The robot's friction law defines the width of s(v); link_theta is from `at_the_links`.
    """
    names = robot.friction.model.shape
    width = robot.friction.shape[:, names.index("width")] if "width" in names else np.zeros(1)
    smooth = np.tanh(v / np.where(width > 0.0, width, 1.0))
    sign = np.where(width > 0.0, smooth, np.sign(v))
    columns = np.zeros((*v.shape, v.shape[1]))
    joints = np.arange(v.shape[1])
    columns[:, joints, joints] = np.abs(Y @ link_theta) * sign
    return columns
