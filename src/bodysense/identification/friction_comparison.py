"""Data-driven choice of the friction law: laws compared on held-out blocks.

Every law is fitted without one fold and scored on that fold, in turn. A richer law must reduce the
error of the best simpler one by 1 %, or it is not worth its coefficients.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bodysense.errors import unknown_name
from bodysense.identification.friction_fit import fit_stribeck, require_stribeck
from bodysense.identification.linear.method import fit_noise_weights
from bodysense.identification.preprocessing import FOLDS
from bodysense.identification.prior import Prior
from bodysense.identification.reduced import Stack
from bodysense.identification.regression import Regression
from bodysense.robot.base_parameters import BaseParameters
from bodysense.robot.friction import friction_models
from bodysense.robot.robot import Robot
from bodysense.spatial.arrays import Array

WIDTH = 0.02
"""rad/s: over which friction reverses, by default. Measured on a UR10e and a TX40: sharper and the
noise of the velocity decides its sign, wider and reversals are no longer fitted."""

_STRIBECK_SPEED = 0.1  # rad/s: where the Stribeck curve has come down, by default
_RICHEST = "stribeck-offset"  # contains all laws that are compared

_LAWS = ("viscous", "coulomb", "offset", "stribeck", _RICHEST)
"""The laws that are compared, simple ones first."""

FRICTION_CHOICES = ("auto", "own", "choose")
"""Ways to choose a law, where a law could be named."""

_DROPPED = {
    "viscous": ("Fc", "Fs", "Fo"),
    "coulomb": ("Fs", "Fo"),
    "offset": ("Fs",),
    "stribeck": ("Fo",),
    _RICHEST: (),
}
_MIN_IMPROVEMENT = 0.01  # relative reduction of the held-out error that a richer law must bring
_LOSS_SIZE = 0.1  # plausible coefficient of load-dependent friction


@dataclass(frozen=True)
class FrictionTrial:
    """One law that was tried.

    Attributes:
        name: of the law; with ``, fitted`` where its shape was fitted too.
        error: held-out mean squared error in units of the noise's variance.
        coefficients: number of friction coefficients of all joints, fitted shapes included.
    """

    name: str
    error: float
    coefficients: int


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
        trials: all that were tried, simple ones first.
        load: what a dependence on load would add; `None` where it was not computed.
        shape: shape parameters of the chosen law by name, one value per joint; empty where they
            were not fitted.
    """

    law: str
    trials: tuple[FrictionTrial, ...]
    load: LoadDependence | None = None
    shape: Mapping[str, tuple[float, ...]] = field(default_factory=dict)

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


def friction_unknown(robot: Robot) -> bool:
    """Whether all friction coefficients of the robot are zero, with a law of the library."""
    return not robot.theta[robot.layout.rotor.stop :].any() and not robot.friction.model.custom


def with_richest(robot: Robot) -> Robot:
    """The robot with the law that contains all that are compared, of the usual shape."""
    return robot.with_friction(_RICHEST, width=WIDTH, vs=_STRIBECK_SPEED)


def with_law(robot: Robot, law: str) -> Robot:
    """The robot with another friction law, smooth where its own is sharp.

    Raises:
        UnknownNameError: neither a law nor a way to choose one.
    """
    laws = friction_models()
    if law not in laws:
        raise unknown_name("friction", law, (*FRICTION_CHOICES, *laws))
    own = dict(zip(robot.friction.model.shape, robot.friction.shape.T, strict=True))
    shape: dict[str, ArrayLike] = {}
    if "width" in laws[law].shape and not np.any(own.get("width", 0.0)):
        shape["width"] = WIDTH
    if "vs" in laws[law].shape and "vs" not in own:
        shape["vs"] = _STRIBECK_SPEED
    return robot.with_friction(law, coefficients=None, **shape)


def _parsed(robot: Robot, name: str) -> tuple[str | None, bool, bool]:
    """The law that is named, whether the data choose one, and whether its shape is fitted."""
    wanted = name.removesuffix(":fit")
    if wanted != name and wanted in ("auto", "choose"):  # which fit where it is worth it
        raise unknown_name("friction", name, (*FRICTION_CHOICES, "own:fit", "stribeck:fit"))
    choose = wanted == "choose" or (wanted == "auto" and friction_unknown(robot))
    return None if wanted in FRICTION_CHOICES else wanted, choose, wanted != name


def start_friction(robot: Robot, name: str) -> Robot:
    """The robot with the law that its regression is built for.

    The name is ``auto``, ``own``, ``choose`` or a law, the latter and ``own`` also with ``:fit``.

    Raises:
        UnknownNameError: no such law, or a choice that cannot be fitted.
        MismatchError: a law without a Stribeck curve that could be fitted.
    """
    law, choose, fit = _parsed(robot, name)
    if choose:
        return with_richest(robot)
    robot = robot if law is None else with_law(robot, law)
    if fit:
        require_stribeck(robot)
    return robot


def settle_friction(
    problem: Regression, name: str, progress: Callable[[str], None]
) -> tuple[Regression, FrictionChoice | None]:
    """Choose or fit the law; returns the problem with it, and how it was chosen."""
    _, choose, fit = _parsed(problem.robot, name)
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
    sigma = fit_noise_weights(problem, Prior.of(problem)).sigma
    n = problem.n_joints
    bases = {law: _constraint(problem, law) for law in _LAWS}
    terms = len(problem.robot.friction.model.terms)
    trials = [
        FrictionTrial(
            law, _held_out_error(problem, sigma, bases[law]), n * (terms - len(_DROPPED[law]))
        )
        for law in _LAWS
    ]
    best = trials[0]
    for trial in trials[1:]:
        if trial.error < (1.0 - _MIN_IMPROVEMENT) * best.error:
            best = trial
    load = _load_dependence(problem, sigma, bases[best.name], best.error)
    choice = FrictionChoice(best.name, tuple(trials), load)
    if not best.name.startswith("stribeck"):
        return choice
    own = problem
    if best.name != _RICHEST:
        own = _with_robot(problem, problem.robot.with_friction(best.name))
    fitted = fit_shape(own, sigma)
    trial = fitted.trials[-1]
    worth = trial.error < (1.0 - _MIN_IMPROVEMENT) * best.error
    return replace(
        choice, trials=(*choice.trials, trial), shape=fitted.shape if worth else choice.shape
    )


def fit_shape(problem: Regression, sigma: Array | None = None) -> FrictionChoice:
    """Fit the Stribeck shape of the robot's own law, and compare it with the shape it has.

    On each fold the shape that was fitted without that fold is scored. The fitted shape is taken
    whatever the comparison says: it was asked for. Errors are divided by sigma (n_logs, n), by
    default that of weighted least squares with the robot's own shape.
    """
    result = fit_stribeck(problem)
    if sigma is None:
        sigma = fit_noise_weights(problem, Prior.of(problem)).sigma
    law, n = problem.robot.friction.model, problem.n_joints
    fixed = _held_out_error(problem, sigma)
    total = rows = 0.0
    for fold in range(FOLDS):
        # From the same start as the whole: another would have seen the fold.
        rest = fit_stribeck(problem.without(fold))
        again = _with_robot(problem, rest.robot)
        squares, count = again.held_out_squares(fold, sigma, _fit)
        total, rows = total + float(squares.sum()), rows + float(count.sum())
    linear = n * len(law.terms)
    trials = (
        FrictionTrial(law.name, fixed, linear),
        FrictionTrial(
            _fitted_name(law.name), total / max(rows, 1.0), linear + n * len(result.fitted)
        ),
    )
    return FrictionChoice(law.name, trials, shape=result.shapes)


def _held_out_error(
    problem: Regression, sigma: Array, Z: Array | None = None, faint: Array | None = None
) -> float:
    """Mean squared error on folds left out in turn, with the unknowns in the range of Z (size, c).

    Rows `faint` (k, c) are wanted to be zero, in units of the noise.
    """
    total = rows = 0.0
    for fold in range(FOLDS):
        squares, count = problem.held_out_squares(fold, sigma, lambda rest: _fit(rest, Z, faint))
        total, rows = total + float(squares.sum()), rows + float(count.sum())
    return total / max(rows, 1.0)


def _fit(stack: Stack, Z: Array | None = None, faint: Array | None = None) -> Array:
    """(size,) least squares over the range of Z."""
    basis = np.eye(stack.z.size) if Z is None else Z
    A, z = stack.A @ basis, stack.z
    if faint is not None:
        A, z = np.vstack([A, faint]), np.append(z, np.zeros(len(faint)))
    theta: Array = basis @ np.linalg.lstsq(A, z, rcond=1e-9)[0]
    return theta


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


def _load_dependence(problem: Regression, sigma: Array, Z: Array, error: float) -> LoadDependence:
    """Held-out error with a column of the load for every joint, and its coefficients."""
    n = problem.n_joints
    # A joint that carries next to nothing would get any coefficient: zero, give or take a tenth.
    faint = np.hstack([np.zeros((n, Z.shape[1])), np.eye(n) / _LOSS_SIZE])
    # The load hardly depends on which fold is left out: that of the whole fit does for all.
    link_theta = at_the_links(problem.base, _fit(problem.stack(sigma), Z))
    rows = problem.recast(_LoadRows, link_theta=link_theta)
    wide = np.zeros((rows.size, Z.shape[1] + n))
    wide[: problem.size, : Z.shape[1]] = Z
    wide[problem.size :, Z.shape[1] :] = np.eye(n)
    with_load = _held_out_error(rows, sigma, wide, faint)
    Fl = _fit(rows.stack(sigma), wide, faint)[problem.size :]
    gain = 1.0 - with_load / error if error > 0.0 else 0.0
    return LoadDependence(with_load, gain, tuple(map(float, Fl)))


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
