"""What does the robot hold? Mass, centre and inertia of a load, from logs with and without it.

    tau = Y (theta_base + B pi)        with the load,        tau = Y theta_base        without.

Both recordings are fitted together, so that what of the arm is uncertain is counted. Rows are
weighed robustly and solved over arms and loads that can exist. The noise of the recordings is one
part of the interval, drive gains that may be off the other: a gain that is 2 % too high makes every
mass 2 % too high, and no recording shows it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bodysense.errors import ShapeError
from bodysense.identification.consistent.pc_irls import ConsistentIRLS
from bodysense.identification.identification import Status
from bodysense.identification.linear.least_squares import Weighing
from bodysense.identification.payload.experiment import (
    ROBOT_UNCERTAINTY,
    LoadExperiment,
    Logs,
    prepare,
)
from bodysense.identification.payload.loaded_regression import LoadedRegression
from bodysense.identification.payload.payload import Payload
from bodysense.identification.preprocessing import Preprocessing
from bodysense.identification.prior import Prior
from bodysense.identification.regression import FOLDS
from bodysense.identification.uncertainty import base_uncertainty
from bodysense.robot.robot import Robot
from bodysense.spatial.arrays import Array, read_only

GAIN_UNCERTAINTY = 0.02
"""How far drive gains are off, relatively, where nobody says: torque constants vary by that from
motor to motor and with temperature."""

_COMMON = 0.5
"""Share of that variance that all joints have in common."""

_SURE = 0.1  # relative standard deviation of the mass above which it is not well known


def identify_payload(
    robot: Robot,
    loaded: Logs,
    unloaded: Logs = (),
    *,
    link: str | None = None,
    gain_uncertainty: float = GAIN_UNCERTAINTY,
    robot_uncertainty: float = ROBOT_UNCERTAINTY,
    preprocessing: Preprocessing | None = None,
    friction: str = "auto",
    allow_unusable: bool = False,
    progress: Callable[[str], None] = lambda step: None,
) -> Payload:
    """Identify what a robot holds.

    Args:
        robot: the arm: geometry, and parameters as far as they are known.
        loaded: recordings with the load.
        unloaded: recordings without it. With none, the robot is taken to be known: give an
            identified one.
        link: that holds the load, or a frame fixed to it, in which the load is described; by
            default the last link of a chain.
        gain_uncertainty: relative standard deviation of each drive gain, half of whose variance
            all joints have in common.
        robot_uncertainty: how far the arm's inertial parameters may be off, in units of their
            plausible sizes, where there is no recording without the load.
        preprocessing: how logs are filtered; by default chosen from the data.
        friction: ``auto``, ``own`` or the name of a law; see `prepare`.
        allow_unusable: go on with logs in which the doctor has found errors.
        progress: called with each step's name.

    Raises:
        UnknownNameError: the robot has no such link.
        MismatchError: no log, or the same one with and without the load.
        UnusableLogError: a log that the doctor has found errors in.
    """
    _require_uncertainty(gain_uncertainty)
    experiment = prepare(
        robot,
        loaded,
        unloaded,
        link=link,
        preprocessing=preprocessing,
        friction=friction,
        robot_uncertainty=robot_uncertainty,
        allow_unusable=allow_unusable,
        progress=progress,
    )
    return payload_of(experiment, gain_uncertainty=gain_uncertainty)


def payload_of(
    experiment: LoadExperiment, *, gain_uncertainty: float = GAIN_UNCERTAINTY
) -> Payload:
    """Identify the load of an experiment that is made ready; see `identify_payload`."""
    _require_uncertainty(gain_uncertainty)
    experiment.progress("identifying the load")
    problem, first = experiment.problem, experiment.x[experiment.problem.load]
    prior = problem.prior(arm=experiment.arm, pi=first if first[0] > 0.0 else None)
    method = ConsistentIRLS()
    weighing = method.estimate(problem, prior)
    x = prior.to_base(weighing.solution.theta)
    uncertainty = base_uncertainty(
        problem,
        prior,
        x,
        weighing.sigma,
        weighing.weights,
        weighing.bread if weighing.bread is not None else weighing.stack,
        spread=method.prior_spread,
    )
    load = problem.load
    covariance = uncertainty.covariance[load, load]
    by_gains = _gain_covariance(problem, prior, weighing, gain_uncertainty)
    parts = _parts(problem, prior, weighing)
    losses = x[problem.losses] if problem.n_losses else np.zeros(problem.n_joints)
    return Payload(
        link=experiment.frame,
        pi=read_only(x[load]),
        covariance=read_only(covariance),
        gain_covariance=read_only(by_gains),
        gain_uncertainty=gain_uncertainty,
        parts=read_only(parts),
        losses=read_only(losses),
        errors=experiment.errors,
        status=_status(experiment, weighing, x[load], covariance, parts),
        provenance=experiment.provenance(),
    )


def _require_uncertainty(gain_uncertainty: float) -> None:
    if not (np.isfinite(gain_uncertainty) and gain_uncertainty >= 0.0):
        raise ShapeError(
            f"gain_uncertainty is {gain_uncertainty:g}: give zero or a small number, e.g. 0.02."
        )


def _gain_covariance(
    problem: LoadedRegression, prior: Prior, weighing: Weighing, uncertainty: float
) -> Array:
    """(10, 10) of pi: the estimate is linear in each joint's torques, and so in its gain.

    With rows A L = U diag(s) Vᵀ in units of the prior, torques z answer with L V s / (s² + 1) Uᵀ z.
    """
    L = prior.base_factor
    keys, factors = zip(*problem.weighted_factors(weighing.weights).items(), strict=True)
    joint = np.concatenate(
        [np.full(len(f.R), key[2]) for key, f in zip(keys, factors, strict=True)]
    )
    A, z = np.zeros((joint.size, L.shape[0])), np.zeros(joint.size)
    at = 0
    for (log, _, j), factor in zip(keys, factors, strict=True):
        R = factor.R / weighing.sigma[log, j]
        A[at : at + len(R), factor.columns], z[at : at + len(R)] = R[:, :-1], R[:, -1]
        at += len(R)
    U, s, Vt = np.linalg.svd(A @ L, full_matrices=False)
    answer = (L[problem.load] @ Vt.T) * (s / (s**2 + 1.0))
    shares = np.stack([answer @ (U.T @ (z * (joint == j))) for j in range(problem.n_joints)])
    together = shares.sum(axis=0)
    own = (1.0 - _COMMON) * shares.T @ shares
    covariance: Array = uncertainty**2 * (own + _COMMON * np.outer(together, together))
    return covariance


def _parts(problem: LoadedRegression, prior: Prior, weighing: Weighing) -> Array:
    """(FOLDS,) the mass from the blocks of each fold alone; NaN where it has none."""
    masses = np.full(FOLDS, np.nan)
    for fold in range(FOLDS):
        mine = {
            key: factor
            for key, factor in problem.weighted_factors(weighing.weights).items()
            if key[1] == fold
        }
        if sum(factor.rows for factor in mine.values()) > 2 * problem.size:
            stack = problem.stack(weighing.sigma, factors=mine)
            L = prior.base_factor
            A = np.vstack([stack.A @ L, np.eye(problem.size)])
            rest = np.append(stack.z - stack.A @ prior.theta_base, np.zeros(problem.size))
            x = prior.theta_base + L @ np.linalg.lstsq(A, rest, rcond=None)[0]
            masses[fold] = x[problem.load][0]
    return masses


def _status(
    experiment: LoadExperiment, weighing: Weighing, pi: Array, covariance: Array, parts: Array
) -> Status:
    solution = weighing.solution
    if solution.failure:
        return Status(False, solution.failure)
    sigma = float(np.sqrt(covariance[0, 0]))
    if pi[0] < 2.0 * sigma:
        return Status(
            False,
            f"No load is visible: {pi[0]:.3g} kg is within twice its standard deviation of "
            f"{sigma:.2g} kg. Was the load held in this recording, by this link? Move the joints "
            "that carry its weight, further and for longer.",
        )
    notes = []
    if sigma > _SURE * pi[0]:
        notes.append(
            f"The mass is known to {100.0 * sigma / pi[0]:.0f} % only: record for longer, with "
            "more motion of the joints that carry the weight."
        )
    spread = float(np.nanstd(parts)) if np.isfinite(parts).sum() > 1 else 0.0
    if spread > max(0.05 * pi[0], 4.0 * sigma):
        notes.append(
            "Thirds of the recordings disagree about the mass, see mass_of_thirds_kg: did the load "
            "move, or something touch the arm?"
        )
    if not experiment.unloaded:
        notes.append(
            "The arm was taken from its description: what is wrong there is counted as load. A "
            "recording without the load (--unloaded) would settle it."
        )
    return Status(True, " ".join(notes) or "Solved.")
