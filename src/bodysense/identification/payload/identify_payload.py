"""Mass, centre and inertia of a load, from recordings with and without it.

    tau = Y (theta_base + B pi)        with the load,        tau = Y theta_base        without.

Both recordings are fitted together, so that the uncertainty of the arm is included. Rows get robust
weights, and arm and load are physically consistent. The noise of the recordings is one part of the
interval, the uncertainty of the drive gains the other: a gain that is 2 % too high makes every mass
2 % too high, and no recording can tell.
"""

from __future__ import annotations

from typing import Unpack

import numpy as np

from bodysense.errors import ShapeError
from bodysense.identification.consistent.solvers import Conic
from bodysense.identification.linear.method import LinearMethod, RobustWeights
from bodysense.identification.payload.experiment import (
    ROBOT_UNCERTAINTY,
    LoadExperiment,
    LoadSettings,
    Logs,
    prepare,
    require_load_settings,
)
from bodysense.identification.payload.parts import PartRows
from bodysense.identification.payload.payload import Payload
from bodysense.identification.prior import Prior
from bodysense.identification.solution import PriorTerm, WeightedSolution
from bodysense.identification.uncertainty import base_uncertainty
from bodysense.robot.robot import Robot, require_robot
from bodysense.spatial.arrays import Array, read_only
from bodysense.status import Status

GAIN_UNCERTAINTY = 0.02
"""Default relative standard deviation of drive gains: torque constants vary by that from motor to
motor and with temperature."""

_COMMON_SHARE = 0.5  # of that variance, that all joints have in common
_VAGUE_MASS = 0.1  # relative standard deviation of the mass from which a note is made
_MAX_UNCERTAINTY = 0.5  # of gains: more is a percentage by mistake
_SWAPPED = -4.0  # standard deviations of a mass below zero: recordings have been swapped
_MAX_DISTANCE = 0.5  # of the centre of mass from the link, or the arm's longest link [m]


ROBUST = LinearMethod(
    "pc-irls", weights=RobustWeights(), solver=Conic(relaxation="euclidean", relaxation_weight=1.0)
)
"""Robust weights over physically consistent arms and loads."""


def identify_payload(
    robot: Robot,
    loaded: Logs,
    unloaded: Logs = (),
    *,
    gain_uncertainty: float = GAIN_UNCERTAINTY,
    robot_uncertainty: float = ROBOT_UNCERTAINTY,
    **options: Unpack[LoadSettings],
) -> Payload:
    """Identify the load that a robot holds.

    Args:
        robot: the arm: geometry, and parameters as far as they are known.
        loaded: recordings with the load.
        unloaded: recordings without it. With none, the robot is taken as known: give an
            identified one.
        gain_uncertainty: relative standard deviation of each drive gain, half of whose variance
            all joints have in common.
        robot_uncertainty: standard deviation of the arm's inertial parameters, in units of their
            plausible sizes, where there is no recording without the load.
        options: link, preprocessing, friction, allow_unusable and progress; see `LoadSettings`.

    Raises:
        UnknownNameError: a link, a friction law or a keyword that does not exist.
        MismatchError: no log, or the same one with and without the load.
        UnusableLogError: a log that the doctor has found errors in.
        ShapeError: an uncertainty out of its range.
    """
    require_robot(robot)
    require_load_settings("identify_payload", options, "gain_uncertainty", "robot_uncertainty")
    require_uncertainty(gain_uncertainty)
    experiment = prepare(robot, loaded, unloaded, robot_uncertainty=robot_uncertainty, **options)
    return payload_of(experiment, gain_uncertainty=gain_uncertainty)


def payload_of(
    experiment: LoadExperiment, *, gain_uncertainty: float = GAIN_UNCERTAINTY
) -> Payload:
    """Identify the load of an experiment; see `identify_payload`."""
    require_uncertainty(gain_uncertainty)
    experiment.progress("identifying the load")
    problem = experiment.problem
    prior, weighing, x = fitted_load(experiment)
    uncertainty = base_uncertainty(problem, prior, x, weighing, PriorTerm(1.0))
    load = problem.load
    covariance = uncertainty.covariance[load, load]
    rows = PartRows.of(problem, weighing)
    parts = rows.parts(prior, [d.source for d in experiment.loaded])
    losses = x[problem.losses] if problem.n_losses else np.zeros(problem.n_joints)
    return Payload(
        link=experiment.frame,
        pi=read_only(x[load]),
        covariance=read_only(covariance),
        gain_covariance=read_only(_gain_covariance(rows, prior, gain_uncertainty)),
        gain_uncertainty=gain_uncertainty,
        parts=parts,
        losses=read_only(losses),
        errors=experiment.errors,
        status=_swapped(experiment, rows, prior)
        or _status(experiment, weighing, x[load], covariance, rows.inconsistency(x, parts)),
        provenance=experiment.provenance(),
    )


def fitted_load(experiment: LoadExperiment) -> tuple[Prior, WeightedSolution, Array]:
    """Prior, weights and all unknowns x of the arm and the load, with gains as they are."""
    problem, first = experiment.problem, experiment.x[experiment.problem.load]
    prior = problem.prior(arm=experiment.arm, pi=first if first[0] > 0.0 else None)
    weighing = ROBUST.estimate(problem, prior)
    return prior, weighing, prior.to_base(weighing.theta)


def require_uncertainty(gain_uncertainty: float) -> None:
    """Raise if this is no relative standard deviation of drive gains."""
    if not (np.isfinite(gain_uncertainty) and 0.0 <= gain_uncertainty <= _MAX_UNCERTAINTY):
        raise ShapeError(
            f"gain_uncertainty is {gain_uncertainty:g}: give a share between 0 and "
            f"{_MAX_UNCERTAINTY:g}, e.g. 0.02 for 2 %."
        )


def _gain_covariance(rows: PartRows, prior: Prior, uncertainty: float) -> Array:
    """(10, 10) of pi: the estimate is linear in each joint's torques, and so in its gain.

    With rows A L = U diag(s) Vᵀ in units of the prior, torques z answer with L V s / (s² + 1) Uᵀ z.
    """
    problem, L = rows.problem, prior.base_factor
    joint = np.concatenate([np.full(len(f.R), key[2]) for key, f in rows.factors.items()])
    A, z = np.zeros((joint.size, L.shape[0])), np.zeros(joint.size)
    at = 0
    for (log, _, j), factor in rows.factors.items():
        R = factor.R / rows.weighing.sigma[log, j]
        A[at : at + len(R), factor.columns], z[at : at + len(R)] = R[:, :-1], R[:, -1]
        at += len(R)
    U, s, Vt = np.linalg.svd(A @ L, full_matrices=False)
    answer = (L[problem.load] @ Vt.T) * (s / (s**2 + 1.0))
    shares = np.stack([answer @ (U.T @ (z * (joint == j))) for j in range(problem.n_joints)])
    together = shares.sum(axis=0)
    own = (1.0 - _COMMON_SHARE) * shares.T @ shares
    covariance: Array = uncertainty**2 * (own + _COMMON_SHARE * np.outer(together, together))
    return covariance


def _swapped(experiment: LoadExperiment, rows: PartRows, prior: Prior) -> Status | None:
    """The failure where the load, left unconstrained, is significantly negative."""
    if experiment.x[experiment.problem.load][0] >= 0.0:
        return None
    free = rows.part("all", prior)
    if not free.known or free.mass > _SWAPPED * free.sigma:
        return None
    if experiment.unloaded:
        return Status.failed(
            "The recording given as loaded is lighter than the unloaded one, by "
            f"{-free.mass:.3g} ± {free.sigma:.2g} kg: swap them."
        )
    return Status.failed(
        f"The arm is lighter than its file describes it, by {-free.mass:.3g} ± {free.sigma:.2g} kg "
        "where the load should be. Give a recording without the load (--unloaded), or an arm that "
        "was identified."
    )


def _other_link(experiment: LoadExperiment, pi: Array, *, visible: bool) -> list[str]:
    """Notes if another link may have held the load; its centre counts if it is visible."""
    far = max(_MAX_DISTANCE, float(experiment.problem.prior().link_length.max()))
    distance = float(np.linalg.norm(pi[1:4])) / max(float(pi[0]), np.finfo(float).tiny)
    better = experiment.better_holder()
    notes = []
    if visible and distance > far:
        notes.append(
            f"The centre of mass lies {1e3 * distance:.0f} mm from {experiment.frame}: is this "
            "the link that holds the load?"
        )
    if better:
        notes.append(
            f"A load at {better} explains the torques better than one at {experiment.frame}: try "
            f"--link {better}."
        )
    return notes


def _status(
    experiment: LoadExperiment,
    weighing: WeightedSolution,
    pi: Array,
    covariance: Array,
    note: str,
) -> Status:
    if weighing.failure:
        return Status.failed(weighing.failure)
    sigma = float(np.sqrt(covariance[0, 0]))
    notes = [note, *experiment.noisy_recordings(weighing.sigma)]
    visible = bool(pi[0] >= 2.0 * sigma)
    notes += _other_link(experiment, pi, visible=visible)
    if not visible:
        return Status.failed(
            f"No load is visible: {pi[0]:.3g} kg is within twice its standard deviation of "
            f"{sigma:.2g} kg. Was the load held in this recording, by this link? Move the joints "
            "that carry its weight, further and for longer.",
            tuple(note for note in notes if note),
        )
    if (
        sigma > _VAGUE_MASS * pi[0] and experiment.unloaded
    ):  # with a known arm, the arm is the cause
        notes.append(
            f"The mass is known to {100.0 * sigma / pi[0]:.0f} % only: record for longer, with "
            "more motion of the joints that carry the weight."
        )
    if not experiment.unloaded:
        notes.append(
            "The arm was taken from its description: errors there are counted as load. The "
            f"interval is for an uncertainty of the arm of {experiment.arm:g} of plausible sizes "
            "(--robot-uncertainty). Record without the load (--unloaded) to avoid it."
        )
    return Status(notes=tuple(note for note in notes if note))
