"""Drive gains from recordings with and without a weighed load.

    tau_j = g_j Y_j x,        x = (theta_base, pi),        mass of pi given

Nominal torques tau = K i with uncertain gains K are explained by any (g / c, c x); the weight of
the load determines c (thesis section 5.3.5). Torque prediction does not: wrong gains predict the
torques that they define as well as right ones. Solved by sequential linearisation, each step with
robust weights, over physically consistent arms and loads; once without, as total least squares.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Unpack

import numpy as np
from numpy.typing import ArrayLike

from bodysense.errors import BodysenseError, MismatchError, ShapeError
from bodysense.identification.consistent.projection import unconstrained
from bodysense.identification.linear.least_squares import Solver
from bodysense.identification.linear.method import LinearMethod, RobustWeights
from bodysense.identification.payload.drive_gains import DriveGains, require_liftable
from bodysense.identification.payload.experiment import (
    LoadExperiment,
    LoadSettings,
    Logs,
    prepare,
    require_load_settings,
)
from bodysense.identification.payload.identify_payload import ROBUST, fitted_load
from bodysense.identification.payload.loaded_regression import GainRegression, LoadedRegression
from bodysense.identification.payload.parts import PartRows
from bodysense.identification.preprocessing import FOLDS
from bodysense.identification.prior import Prior
from bodysense.identification.reduced import Constraints, Factor, Stack
from bodysense.identification.regression import Regression
from bodysense.identification.solution import PriorTerm, Solution, WeightedSolution
from bodysense.identification.uncertainty import base_uncertainty
from bodysense.robot.robot import Robot, require_robot
from bodysense.spatial.arrays import Array, as_array, one_each, read_only
from bodysense.status import Status

_MAX_STEPS = 12  # linearisations at most

_STEP_TOLERANCE, _UNCONVERGED = 1e-4, 1e-2
"""Relative change of the gains at which the iteration ends, and from which they cannot be used."""

_UNINFORMATIVE = 1e3  # spread of the prior in plausible sizes, where the data should decide
_VISIBLE_LOAD = 1e-4  # share of its mass that the load must have with the nominal gains

_WORSE_RATIO, _WORSE_DIFFERENCE = 1.2, 0.01
"""Of held-out errors after and before, from which the load does not fit."""

_MASS_ERROR = 0.1  # of the load on held-out blocks, from which gains do not generalise

_EXPECTED_FACTORS, _CREDIBLE_FACTORS = (0.8, 1.25), (0.2, 5.0)
"""Typical factor of the gains that needs no note, and that may be meant."""


@dataclass(frozen=True)
class _EqualitiesAlone(Solver):
    """Least squares with equalities, the load's mass, but without physical consistency."""

    def solve(self, problem: Regression, prior: Prior, stack: Stack) -> Solution:
        start, D = prior.constraints.free_directions(
            prior.theta, np.diag(_UNINFORMATIVE * prior.size)
        )
        return Solution(unconstrained(prior, stack, start, D)[0])


_TOTAL_LEAST_SQUARES = LinearMethod(
    "total least squares", weights=RobustWeights(), solver=_EqualitiesAlone()
)


def identify_drive_gains(
    robot: Robot,
    loaded: Logs,
    unloaded: Logs,
    *,
    load: float,
    com: ArrayLike | None = None,
    nominal: ArrayLike = 1.0,
    **options: Unpack[LoadSettings],
) -> DriveGains:
    """Identify drive gains.

    Args:
        robot: the arm: geometry, and parameters as far as they are known.
        loaded: recordings with the load.
        unloaded: recordings without it.
        load: mass of the load, as weighed [kg].
        com: (3,) its centre of mass in the frame that holds it, if known [m].
        nominal: one number or one per joint: the gains that the logs' torques were made with.
        options: link, preprocessing, friction, allow_unusable and progress; see `LoadSettings`.

    Raises:
        UnknownNameError: a link, a friction law or a keyword that does not exist.
        MismatchError: a log is missing, or the same with and without the load; the load is not
            visible, or the arm cannot lift it.
        UnusableLogError: a log that the doctor has found errors in.
        ShapeError: a mass that is not positive, or arrays of the wrong shape.
    """
    require_robot(robot)
    require_load_settings("identify_drive_gains", options, "load", "com", "nominal")
    _require_load(load, com)
    _require_unloaded(unloaded)
    experiment = prepare(robot, loaded, unloaded, **options)
    return drive_gains_of(experiment, load=load, com=com, nominal=nominal)


def drive_gains_of(
    experiment: LoadExperiment,
    *,
    load: float,
    com: ArrayLike | None = None,
    nominal: ArrayLike = 1.0,
) -> DriveGains:
    """Identify drive gains from an experiment; see `identify_drive_gains`."""
    centre = _require_load(load, com)
    _require_unloaded(experiment.unloaded)
    problem, progress = experiment.problem, experiment.progress
    given = one_each(nominal, problem.n_joints, "nominal")
    require_liftable(experiment, load, centre)
    nominal_mass = float(experiment.x[problem.load][0])
    if nominal_mass <= _VISIBLE_LOAD * load:
        raise MismatchError(
            f"with the nominal gains the load has {nominal_mass:.3g} kg: it is not visible in "
            "these recordings, or was held in the one given as unloaded. Swap them, or record "
            "with more motion of the joints that carry its weight."
        )
    progress("identifying the gains")
    fitted = _Gains.start(problem, experiment.x, load, centre).converged(ROBUST)
    # From there it is not far to the others, wherever they end.
    plain = replace(fitted, problem=problem).converged(_TOTAL_LEAST_SQUARES)
    rigid = fitted
    if problem.n_losses:
        bare = problem.without_losses()
        x = np.delete(fitted.x, np.arange(problem.losses.start, problem.losses.stop))
        rigid = replace(fitted, problem=bare, x=x).converged(ROBUST)
    progress("checking against the load")
    n = problem.n_joints
    after, by_blocks = _validated(problem, fitted)
    errors = np.stack([_held_out(problem, None, load), _held_out(problem, fitted.g, load)])
    nominal_mass = _nominal_mass(experiment)
    return DriveGains(
        joints=experiment.robot.joint_names,
        factors=read_only(1.0 / fitted.g),
        sigma=read_only(fitted.sigma() / fitted.g**2),
        nominal=read_only(given),
        load_mass=load,
        link=experiment.frame,
        load_before=nominal_mass,
        load_after=read_only(after),
        block_uncertainty=by_blocks,
        total_least_squares=read_only(1.0 / plain.g),
        without_losses=read_only(1.0 / rigid.g),
        errors_before=read_only(errors[0]),
        errors_after=read_only(errors[1]),
        losses=read_only(fitted.x[problem.losses] if problem.n_losses else np.zeros(n)),
        status=_status(experiment, fitted, nominal_mass, after / load, errors),
        provenance=experiment.provenance(),
    )


def _nominal_mass(experiment: LoadExperiment) -> float:
    """The load's mass with nominal gains [kg], as `payload_of` finds it."""
    _, weighing, x = fitted_load(experiment)
    best = experiment.x if weighing.failure else x
    return float(best[experiment.problem.load][0])


def _require_load(load: float, com: ArrayLike | None) -> Array | None:
    """The centre of mass (3,), if it is known."""
    if not (np.isfinite(load) and load > 0.0):
        raise ShapeError(f"the load is {load:g} kg: give its weighed mass, a positive number.")
    return None if com is None else as_array(com, (3,), "com")


def _require_unloaded(unloaded: object) -> None:
    """Raise if there is no recording without the load."""
    if isinstance(unloaded, tuple | list) and not unloaded:
        raise MismatchError(
            "drive gains need a recording without the load as well (--unloaded): from one alone, "
            "the load cannot be separated from the arm."
        )


@dataclass(frozen=True, eq=False)
class _Gains:
    """Where the iteration stands: inverse factors g, and all other unknowns x.

    The mass of the load is known, and maybe its centre of mass (3,).
    """

    problem: LoadedRegression
    mass: float
    com: Array | None
    g: Array
    x: Array
    weighing: WeightedSolution | None = None
    change: float = np.inf

    @classmethod
    def start(cls, problem: LoadedRegression, x: Array, mass: float, com: Array | None) -> _Gains:
        """One factor for all joints, so that the load has its mass."""
        scale = x[problem.load][0] / mass
        scaled = x / scale
        scaled[problem.losses] = x[problem.losses]  # shares of a torque
        return cls(problem, mass, com, np.full(problem.n_joints, scale), scaled)

    def converged(self, method: LinearMethod) -> _Gains:
        """Linearise and solve until the gains converge."""
        state = self
        for _ in range(_MAX_STEPS):
            state = state._step(method)
            if state.change < _STEP_TOLERANCE or (state.weighing and state.weighing.failure):
                break
        return state

    def _step(self, method: LinearMethod) -> _Gains:
        problem = self.problem.with_losses(self.x) if self.problem.n_losses else self.problem
        rows = problem.recast(GainRegression, gains=self.g, x=self.x)
        prior = rows.gain_prior(self.mass, self.com)
        weighing = method.estimate(rows, prior)
        z = prior.to_base(weighing.theta)
        step = z[rows.steps]
        return replace(
            self,
            problem=problem,
            g=self.g + step,
            x=z[: rows.load.stop],
            weighing=weighing,
            change=float(np.abs(step / self.g).max()),
        )

    def sigma(self) -> Array:
        """(n,) standard deviations of g."""
        if self.weighing is None:
            raise BodysenseError("the gains have not been solved for: call converged first.")
        rows = self.problem.recast(GainRegression, gains=self.g, x=self.x)
        prior = rows.gain_prior(self.mass, self.com)
        z = np.append(self.x, np.zeros(rows.n_joints))
        term = PriorTerm(1.0, prior.constrained_factor(np.diag(prior.size)))
        result = base_uncertainty(rows, prior, z, self.weighing, term)
        sigma: Array = np.sqrt(np.diag(result.covariance))[rows.steps]
        return sigma


def _validated(problem: LoadedRegression, fitted: _Gains) -> tuple[Array, float]:
    """(FOLDS,) the load's mass on the blocks of each fold, with gains of the other ones.

    And the jackknife's standard deviation of these gains, √((k - 1) / k Σ (g - mean)²), relative,
    of the median gain: joints that carry no weight have little part in a weighing.
    """
    masses = np.full(FOLDS, np.nan)
    relative = []
    for fold in range(FOLDS):
        rest = problem.without(fold)
        mine = {key: f for key, f in problem.factors.items() if key[1] == fold}
        if sum(f.rows for f in mine.values()) < 2 * problem.size:
            continue
        gains = replace(fitted, problem=rest).converged(_TOTAL_LEAST_SQUARES)
        masses[fold] = _solved(problem, _regained(mine, gains.g), None)[problem.load][0]
        relative.append(gains.g / fitted.g)
    if len(relative) < FOLDS:
        return masses, float("nan")
    return masses, float(np.sqrt((FOLDS - 1) * np.median(np.var(relative, axis=0))))


def _held_out(problem: LoadedRegression, g: Array | None, load: float) -> Array:
    """(n,) relative error of each joint's torque on held-out blocks, with other gains or not."""
    gains = np.ones(problem.n_joints) if g is None else g
    mass = None if g is None else load
    errors, signal = np.zeros((2, problem.n_joints))
    for fold in range(FOLDS):
        train = {key: f for key, f in problem.factors.items() if key[1] != fold}
        test = {key: f for key, f in problem.factors.items() if key[1] == fold}
        x = _solved(problem, _regained(train, gains), mass)
        for (_, _, joint), factor in _regained(test, gains).items():
            errors[joint] += factor.squares(x)
            signal[joint] += float(np.sum(factor.R[:, -1] ** 2))
    relative: Array = np.sqrt(errors / np.where(signal > 0.0, signal, 1.0))
    return relative


def _regained(
    factors: dict[tuple[int, int, int], Factor], g: Array
) -> dict[tuple[int, int, int], Factor]:
    """The same rows with torques divided by g of their joint."""
    made = {}
    for key, factor in factors.items():
        R = factor.R.copy()
        R[:, -1] /= g[key[2]]
        made[key] = replace(factor, R=R)
    return made


def _solved(
    problem: LoadedRegression, factors: dict[tuple[int, int, int], Factor], mass: float | None
) -> Array:
    """(c,) x by least squares with each joint's own noise, the mass given or not."""
    prior = problem.prior()
    if mass is not None:
        row = np.eye(prior.theta.size)[prior.links[-1].start]
        fixed = Constraints.of(row.size, equal=[(row, mass)])
        prior = replace(prior, constraints=prior.constraints + fixed)
    start, D = prior.constraints.free_directions(prior.theta, np.diag(prior.size))
    sigma = np.ones((problem.n_logs, problem.n_joints))
    x = prior.theta_base
    for _ in range(4):
        stack = problem.stack(sigma, factors=factors)
        x = prior.to_base(unconstrained(prior, stack, start, D)[0])
        squares, rows = np.zeros((2, *sigma.shape))
        for (log, _, joint), factor in factors.items():
            squares[log, joint] += factor.squares(x)
            rows[log, joint] += factor.rows
        sigma = np.sqrt(np.maximum(squares, 1e-300) / np.maximum(rows, 1.0))
    return x


def _inconsistencies(
    experiment: LoadExperiment, state: _Gains, weighing: WeightedSolution
) -> list[str]:
    """Notes if the load, with the new gains, was not the same in all parts of the recordings."""
    regained = tuple(replace(m, tau=m.tau / state.g) for m in state.problem.motions)
    problem = replace(state.problem, motions=regained)
    rows = PartRows.of(problem, replace(weighing, sigma=weighing.sigma / state.g))
    parts = rows.parts(problem.prior(), [d.source for d in experiment.loaded])
    note = rows.inconsistency(state.x, parts)
    return [note] * bool(note) + [*experiment.noisy_recordings(weighing.sigma)]


def _worse(joints: Sequence[str], errors: Array) -> str:
    """Which torques are predicted worse than before, errors (2, n) before and after; or empty."""
    named = [*zip(joints, *errors, strict=True), ("the mean of joints", *errors.mean(axis=1))]
    worse = [
        (after / max(before, np.finfo(float).tiny), name, before, after)
        for name, before, after in named
        if after > _WORSE_RATIO * before and after > before + _WORSE_DIFFERENCE
    ]
    if not worse:
        return ""
    _, name, before, after = max(worse)
    return (
        "Torques are predicted worse with these gains than with the nominal ones: the error of "
        f"{name} on held-out blocks grows from {100.0 * before:.1f} % to {100.0 * after:.1f} %. "
        "Check the centre of mass, the link that holds the load, and its mass; leave the centre "
        "out if it was not measured."
    )


def _status(
    experiment: LoadExperiment, state: _Gains, nominal_mass: float, after: Array, errors: Array
) -> Status:
    """How the iteration ended.

    `after` (3,) is the load's mass on held-out blocks over the one given, `errors` (2, n) the
    held-out relative error of the torque with nominal gains and with these.
    """
    weighing = state.weighing
    if weighing is not None and weighing.failure:
        return Status.failed(weighing.failure)
    if not (state.g > 0.0).all():
        return Status.failed("A gain came out negative: is the load in the right recording?")
    notes = [] if weighing is None else _inconsistencies(experiment, state, weighing)
    off = np.abs(after[np.isfinite(after)] - 1.0)
    if off.size and off.max() > _MASS_ERROR:
        notes.append(
            f"On held-out blocks the load is up to {100.0 * off.max():.0f} % off its mass: the "
            "gains do not generalise. Was the same load held all the time, and in the same way?"
        )
    worse = _worse(experiment.robot.joint_names, errors)
    if worse:
        return Status.failed(worse, tuple(notes))
    if state.change >= _UNCONVERGED:
        return Status.failed(
            "The gains did not converge: the load has too little effect on some joint. Record with "
            "more motion, or a heavier load.",
            tuple(notes),
        )
    return Status(notes=(*notes, *_implausible(float(np.median(1.0 / state.g)), nominal_mass)))


def _implausible(typical: float, nominal_mass: float) -> list[str]:
    """A note if the typical factor of the gains is unusual, with the load at nominal gains [kg]."""
    if not _CREDIBLE_FACTORS[0] < typical < _CREDIBLE_FACTORS[1]:
        return [
            f"With the nominal gains the load would have {nominal_mass:.3g} kg: they are off by a "
            f"factor of {typical:.3g}, or the load's mass is given in another unit."
        ]
    if not _EXPECTED_FACTORS[0] <= typical <= _EXPECTED_FACTORS[1]:
        return [
            f"The load would change the median gain by {100.0 * (typical - 1.0):+.0f} %: is its "
            "mass right?"
        ]
    return []
