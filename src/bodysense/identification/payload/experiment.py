"""Recordings with and without a load: checked, filtered, with a friction law."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, TypedDict

import numpy as np

from bodysense.doctor import Diagnosis, examine, lock_unrecorded, require_clean
from bodysense.errors import MismatchError, ShapeError, unknown_name
from bodysense.files import plain, versions
from bodysense.identification.choices import settle_filters
from bodysense.identification.given_friction import start_friction, with_law
from bodysense.identification.linear.method import fit_noise_weights
from bodysense.identification.payload.loaded_regression import LoadedRegression
from bodysense.identification.payload.parts import noisy_recordings
from bodysense.identification.preprocessing import (
    FOLDS,
    Preprocessing,
    as_logs,
    motions,
    require_fixed,
    share_samples,
)
from bodysense.logs.log import Log
from bodysense.robot.base_parameters import BaseParameters, base_parameters
from bodysense.robot.frames import moving_frame
from bodysense.robot.friction import friction_models
from bodysense.robot.robot import Robot
from bodysense.spatial.arrays import Array
from bodysense.spatial.pseudo_inertia import transform_pi

STILL_SPEED = 0.05
"""rad/s or m/s: rows of slower joints do not count. Static friction of a joint that stands or
reverses is unknown; the load would have to explain it."""

ROBOT_UNCERTAINTY = 0.2
"""Default standard deviation of the inertial parameters of an arm that is taken as known, in units
of their plausible sizes: a fifth of a link's mass, of mass times length for a first moment. A
maker's file is no better, as those of a UR10e show; for an identified robot, 0.02 may be given."""

_MIN_IMPROVEMENT = 0.01  # relative, of the held-out error, that losses must bring
_OTHER_HOLDER = 0.9  # times the held-out error, below which another link held the load
_PASSES = 3  # iterations of losses from the torques of the previous fit; the third changes nothing

Logs = Log | Sequence[Log]


class LoadSettings(TypedDict, total=False):
    """Keywords that every identification with a load takes.

    Attributes:
        link: that holds the load, or a frame fixed to it, in which the load is described; by
            default the last link of a chain.
        preprocessing: how logs are filtered; by default chosen from the data.
        friction: ``auto``, ``own`` or the name of a law; see `prepare`.
        allow_unusable: continue with logs in which the doctor has found errors.
        progress: called with each step's name.
    """

    link: str | None
    preprocessing: Preprocessing | None
    friction: str
    allow_unusable: bool
    progress: Callable[[str], None]


def require_load_settings(function: str, options: Mapping[str, object], *own: str) -> None:
    """Raise on keywords that are not load settings, for a function with keywords of its own.

    Raises:
        UnknownNameError: the first of them, with the function's name and the valid keywords.
    """
    for name in options:
        if name not in LoadSettings.__optional_keys__:
            valid = sorted((*own, *LoadSettings.__optional_keys__))
            raise unknown_name(f"keyword of {function}", name, valid)


@dataclass(frozen=True, eq=False)
class LoadExperiment:
    """The starting point for identifying a load or drive gains.

    Attributes:
        problem: the regression over arm, losses and load.
        frame: name of the link or frame that holds the load, in which it is described.
        loaded: diagnoses of the recordings with the load.
        unloaded: of those without; empty where the robot is taken as known.
        arm: standard deviation of the arm's inertial parameters, in units of their sizes.
        x: a first estimate, by weighted least squares.
        joint_errors: (2, n) held-out mean squared error of each joint without and with losses, in
            units of the noise.
        rows: (n,) number of rows behind them.
        files: SHA-256 of files that robot and layout came from, for the provenance.
        progress: called with each step's name.
    """

    problem: LoadedRegression
    frame: str
    loaded: tuple[Diagnosis, ...]
    unloaded: tuple[Diagnosis, ...]
    arm: float
    x: Array
    joint_errors: Array
    rows: Array
    files: Mapping[str, str] | None
    progress: Callable[[str], None]

    @classmethod
    def of(
        cls,
        problem: LoadedRegression,
        frame: str,
        loaded: Sequence[Diagnosis],
        unloaded: Sequence[Diagnosis],
        *,
        robot_uncertainty: float = ROBOT_UNCERTAINTY,
        files: Mapping[str, str] | None = None,
        progress: Callable[[str], None] = lambda step: None,
    ) -> LoadExperiment:
        """Decide whether friction depends on the load; see `prepare` for the arguments."""
        progress("testing for load-dependent friction")
        arm = 1.0 if unloaded else robot_uncertainty
        problem, x, errors, rows = _with_losses_if_better(problem, arm)
        return cls(
            problem=problem,
            frame=frame,
            loaded=tuple(loaded),
            unloaded=tuple(unloaded),
            arm=arm,
            x=x,
            joint_errors=errors,
            rows=rows,
            files=files,
            progress=progress,
        )

    @property
    def errors(self) -> tuple[float, float]:
        """Held-out mean squared error of all joints without and with losses."""
        total = self.joint_errors @ self.rows / max(float(self.rows.sum()), 1.0)
        return float(total[0]), float(total[1])

    def noisy_recordings(self, sigma: Array) -> tuple[str, ...]:
        """A note on each recording whose noise (n_logs, n) is far larger than the others'."""
        rows = self.problem.squares(np.zeros(self.problem.size))[1]
        sources = [d.source for d in (*self.unloaded, *self.loaded)]
        return noisy_recordings(sigma, rows, sources, self.robot.joint_names)

    def better_holder(self) -> str:
        """The last link of the chain, where a load there explains the torques better; or empty.

        Both without losses, on held-out blocks.
        """
        named = moving_frame(self.robot, self.frame, "the payload")
        try:
            last = moving_frame(self.robot, None, "the payload")
        except MismatchError:  # several last links: nobody knows which one to try
            return ""
        if last.parentJoint == named.parentJoint:
            return ""
        own = self.problem.without_losses()
        held = np.zeros_like(own.held)
        held[self.robot.layout.link(last.parentJoint - 1)] = np.eye(10)
        other = replace(own, held=held)
        sigma = _first(own, self.arm)[1]
        mine, its = (_held_out(p, self.arm, sigma)[0].sum() for p in (own, other))
        return str(last.name) if its < _OTHER_HOLDER * mine else ""

    @property
    def robot(self) -> Robot:
        """The arm, with the friction law that was fitted."""
        return self.problem.robot

    def provenance(self) -> dict[str, Any]:
        def origins(diagnoses: Sequence[Diagnosis]) -> list[dict[str, Any]]:
            return [{"source": d.source, "sha256": d.digest} for d in diagnoses]

        settings = self.problem.settings
        table = {
            "versions": versions(),
            "robot": self.robot.origin,
            "loaded": origins(self.loaded),
            "unloaded": origins(self.unloaded),
            "cutoff_hz": plain(settings.cutoff),
            "still_speed": settings.still_speed,
            "friction": self.robot.friction.model.name,
            "losses": self.problem.n_losses > 0,
            "frame": self.frame,
            "robot_uncertainty": None if self.unloaded else self.arm,
        }
        return table if self.files is None else {**table, "files": dict(self.files)}


def prepare(
    robot: Robot,
    loaded: Logs,
    unloaded: Logs = (),
    *,
    link: str | None = None,
    preprocessing: Preprocessing | None = None,
    friction: str = "auto",
    robot_uncertainty: float = ROBOT_UNCERTAINTY,
    allow_unusable: bool = False,
    files: Mapping[str, str] | None = None,
    progress: Callable[[str], None] = lambda step: None,
) -> LoadExperiment:
    """Check and filter recordings, and decide whether friction depends on the load.

    Args:
        robot: the arm; joints that the recordings do not have are locked where that is safe (see
            `lock_unrecorded`).
        loaded: recordings with the load.
        unloaded: recordings without it; none if the robot's parameters are known.
        link: that holds the load, or a frame fixed to it; by default the last one.
        preprocessing: how logs are filtered; by default chosen from the data.
        friction: ``own`` keeps the robot's law, the name of a law takes that one. ``auto`` keeps it
            too, unless all its friction coefficients are zero.
        robot_uncertainty: standard deviation of the arm's inertial parameters, in units of their
            plausible sizes, where there is no recording without the load.
        allow_unusable: continue with logs in which the doctor has found errors.
        files: SHA-256 of files that robot and layout came from, for the provenance.
        progress: called with each step's name.
    """
    require_fixed(robot)
    with_load, without = as_logs(loaded), as_logs(unloaded)
    robot = lock_unrecorded(robot, (*with_load, *without))
    frame = moving_frame(robot, link, "the payload")
    _require_valid(with_load, without, robot_uncertainty)
    robot = _with_friction(robot, friction)
    progress("examining the logs")
    diagnoses = [
        require_clean(examine(robot, log), allow_unusable=allow_unusable) for log in with_load
    ]
    others = [require_clean(examine(robot, log), allow_unusable=allow_unusable) for log in without]
    _require_different(diagnoses, others)
    base = base_parameters(robot)
    settings = _settled(robot, diagnoses, others, preprocessing, base, progress)
    moved = motions(robot, [d.segments for d in (*others, *diagnoses)], settings)
    to_link = np.stack([transform_pi(e, frame.placement.homogeneous) for e in np.eye(10)], axis=1)
    problem = LoadedRegression.of_logs(
        robot,
        moved,
        settings,
        loaded=frozenset(range(len(others), len(others) + len(diagnoses))),
        load_to_link=to_link,
        link=frame.parentJoint - 1,
        base=base,
    )
    return LoadExperiment.of(
        problem,
        frame.name,
        diagnoses,
        others,
        robot_uncertainty=robot_uncertainty,
        files=files,
        progress=progress,
    )


def _require_valid(
    loaded: Sequence[Log], unloaded: Sequence[Log], robot_uncertainty: float
) -> None:
    if any(log is other for log in loaded for other in unloaded):
        raise MismatchError(
            "the same recording is given with and without the load: give one of each."
        )
    if not loaded:
        raise MismatchError("there is no recording with the load: give at least one.")
    if not (np.isfinite(robot_uncertainty) and robot_uncertainty > 0.0):
        raise ShapeError(
            f"robot_uncertainty is {robot_uncertainty:g}: give a positive number, e.g. 0.2 for a "
            "maker's file or 0.02 for a robot that was identified."
        )


def _settled(
    robot: Robot,
    loaded: Sequence[Diagnosis],
    unloaded: Sequence[Diagnosis],
    preprocessing: Preprocessing | None,
    base: BaseParameters,
    progress: Callable[[str], None],
) -> Preprocessing:
    """Settings with all choices made: the cut-off from recordings without the load, if any."""
    given = preprocessing if preprocessing is not None else Preprocessing()
    # A cut-off that is given must suit all recordings.
    diagnoses = unloaded or loaded if given.cutoff is None else (*unloaded, *loaded)
    settings, _ = settle_filters(robot, diagnoses, given, base, progress)
    return settings if given.still_speed is not None else replace(settings, still_speed=STILL_SPEED)


def _with_friction(robot: Robot, friction: str) -> Robot:
    if friction in ("own", "auto"):
        return start_friction(robot, friction)
    if friction not in friction_models():
        raise unknown_name("friction", friction, ("auto", "own", *friction_models()))
    return with_law(robot, friction)


def _require_different(loaded: Sequence[Diagnosis], unloaded: Sequence[Diagnosis]) -> None:
    for diagnosis, other in product(loaded, unloaded):
        if share_samples(diagnosis, other):
            raise MismatchError(
                f"{diagnosis.source} and {other.source} are the same recording: give one with the "
                "load and one without it, or ranges of it that do not overlap (LOG@FROM:TO)."
            )


def _with_losses_if_better(
    problem: LoadedRegression, arm: float
) -> tuple[LoadedRegression, Array, Array, Array]:
    """The problem, with losses where they predict held-out blocks better; its solution, errors.

    A law that has them keeps them, and one that has no form with load gets none. Errors (2, n)
    without and with losses are in units of the noise, and come with their rows (n,).
    """
    rigid = problem.without_losses()
    x, sigma = _first(rigid, arm)
    wider, x_wide = rigid, x
    for _ in range(_PASSES if rigid.robot.friction.model.with_load else 0):
        wider = wider.with_losses(x_wide)
        x_wide, sigma = _first(wider, arm)
    (plain, rows), (better, _) = (_held_out(p, arm, sigma) for p in (rigid, wider))
    errors = np.stack([plain, better]) / np.maximum(rows, 1.0)
    if problem.n_losses or better.sum() < (1.0 - _MIN_IMPROVEMENT) * plain.sum():
        return wider, x_wide, errors, rows
    return rigid, x, errors, rows


def _first(problem: LoadedRegression, arm: float) -> tuple[Array, Array]:
    prior = problem.prior(arm=arm)
    weighing = fit_noise_weights(problem, prior)
    return prior.to_base(weighing.theta), weighing.sigma


def _held_out(problem: LoadedRegression, arm: float, sigma: Array) -> tuple[Array, Array]:
    """(n,) squared error on folds left out in turn, in units of the noise, and (n,) rows."""
    prior = problem.prior(arm=arm)
    unit = prior.constrained_factor(np.diag(prior.size))
    total, rows = np.zeros((2, problem.n_joints))
    for fold in range(FOLDS):
        squares, count = problem.held_out_squares(
            fold, sigma, lambda rest: prior.least_squares(rest, unit)
        )
        total += squares.sum(axis=0)
        rows += count.sum(axis=0)
    return total, rows
