"""From robot and logs to an identified robot in one call: `identify`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from bodysense.doctor import Diagnosis, examine, lock_unrecorded, require_clean
from bodysense.doctor.diagnosis import LEFT_OUT
from bodysense.errors import MismatchError, ShapeError
from bodysense.files import versions
from bodysense.identification.choices import CutoffChoice, doubtful_cutoff, settle_filters
from bodysense.identification.defects import Defect
from bodysense.identification.friction_comparison import FrictionChoice, settle_friction
from bodysense.identification.given_friction import start_friction
from bodysense.identification.identification import Identification
from bodysense.identification.identifier import Identifier, require_arguments, settings_of
from bodysense.identification.knowledge import Knowledge
from bodysense.identification.method_choice import MethodChoice, choose_method
from bodysense.identification.methods import AUTO, DEFAULT, consistent_alternative, identifier
from bodysense.identification.objections import objections_to
from bodysense.identification.preprocessing import (
    FOLDS,
    Preprocessing,
    as_logs,
    motions,
    require_fixed,
    share_samples,
)
from bodysense.identification.regression import Regression
from bodysense.identification.scores import (
    DataScores,
    Kind,
    Prediction,
    predict,
    predicted_by_others,
    score,
)
from bodysense.identification.verdict import Verdict, judge
from bodysense.logs.log import Log
from bodysense.robot.base_parameters import base_parameters
from bodysense.robot.robot import Robot, require_robot
from bodysense.spatial.arrays import Array


@dataclass(frozen=True, eq=False, repr=False)
class IdentificationRun:
    """The result of one call of `identify`, and all that led to it.

    Attributes:
        identification: the result; `.robot` is the identified robot.
        diagnoses: of the logs, in their order.
        validation: diagnoses of the validation logs.
        problem: the regression that was solved.
        cutoff: how the cut-off was chosen; `None` if it was given.
        friction: how the friction law was chosen, or its shape fitted; `None` if it was given.
        method_choice: how the method was chosen; `None` if it was given.
        scores: on the training data, on held-out blocks, and on each validation log.
        predictions: torques behind the scores, piece by piece.
        defects: what is wrong with the logs, or with the file that they are held against.
        verdict: how good the result is.
    """

    identification: Identification
    diagnoses: tuple[Diagnosis, ...]
    validation: tuple[Diagnosis, ...]
    problem: Regression
    cutoff: CutoffChoice | None
    friction: FrictionChoice | None
    method_choice: MethodChoice | None
    scores: tuple[DataScores, ...]
    predictions: tuple[Prediction, ...]
    defects: tuple[Defect, ...]
    verdict: Verdict

    @property
    def robot(self) -> Robot:
        return self.identification.robot

    @property
    def settings(self) -> Preprocessing:
        """How the logs were filtered, with all choices made."""
        return self.problem.settings

    def __repr__(self) -> str:
        return f"<IdentificationRun: {self.summary()}>"

    def summary(self) -> str:
        return f"{self.identification.summary()} {self.verdict}"


def identify(
    robot: Robot,
    logs: Log | Sequence[Log],
    *,
    method: str | Identifier = AUTO,
    validate: Log | Sequence[Log] = (),
    preprocessing: Preprocessing | None = None,
    friction: str = "auto",
    knowledge: Knowledge | None = None,
    seed: int = 0,
    allow_unusable: bool = False,
    files: Mapping[str, str] | None = None,
    progress: Callable[[str], None] = lambda step: None,
) -> IdentificationRun:
    """Identify a robot from recordings, and judge the result.

    Args:
        robot: the prior: geometry, friction law, and parameters as far as they are known. Joints
            that the recordings do not have are locked where that is safe (see `lock_unrecorded`).
        logs: recordings to identify from; each gets its own noise level.
        method: an identifier or its name (see `IDENTIFIERS`); ``auto`` chooses a physically
            consistent one by what the recordings allow (see `choose_method`).
        validate: recordings for validation alone.
        preprocessing: how logs are filtered; by default chosen from the data.
        friction: ``own`` keeps the robot's friction law. ``choose`` takes, out of viscous and
            Coulomb friction with or without an offset, a Stribeck curve and a dependence on the
            load, the law that predicts held-out blocks best. ``auto`` chooses only where the
            robot's friction coefficients are no measurement: zero, the same for all joints,
            damping alone (see `unmeasured_friction`). The name of a law takes that law, smooth
            over 0.02 rad/s where the robot's own law is sharp. With ``:fit`` after ``own`` or the
            name of a law the shape of its Stribeck curve is fitted to the data, as it is where such
            a law is chosen and predicts better with it.
        knowledge: what is known of the links for certain, such as their total mass; only
            physically consistent methods can use it.
        seed: of methods that draw random numbers.
        allow_unusable: continue with logs in which the doctor has found errors.
        files: SHA-256 of files that robot, layout and knowledge came from, for the provenance.
        progress: called with each step's name.

    Raises:
        UnusableLogError: a log with errors.
        MismatchError: no log, too little of it left, or a floating base.
    """
    require_robot(robot)
    require_arguments(method, preprocessing, friction, knowledge)
    settings = preprocessing if preprocessing is not None else Preprocessing()
    given = DEFAULT if method == AUTO else method
    chosen = identifier(given) if isinstance(given, str) else given
    logs, validate = as_logs(logs), as_logs(validate)
    _require_valid(robot, logs, chosen, knowledge, seed)
    given_robot = lock_unrecorded(robot, (*logs, *validate))
    robot = start_friction(given_robot, friction)
    progress("examining the logs")
    diagnoses, validation = (
        tuple(
            require_clean(examine(robot, log), allow_unusable=allow_unusable) for log in recordings
        )
        for recordings in (logs, validate)
    )
    base = base_parameters(robot)
    given_cutoff = settings.cutoff
    settings, cutoff = settle_filters(robot, diagnoses, settings, base, progress)
    pieces = motions(robot, [diagnosis.segments for diagnosis in diagnoses], settings)
    problem = Regression.of(robot, pieces, settings, base, knowledge=knowledge)
    problem, friction_choice = settle_friction(problem, given_robot, friction, progress)
    choice = None
    if method == AUTO:
        progress("choosing the method")
        choice = choose_method(problem)
        chosen = choice.identifier
    progress(f"identifying with {chosen.name}")
    identification = replace(
        chosen.fit(problem, rng=np.random.default_rng(seed)),
        provenance=_provenance(chosen, problem, diagnoses, validation, seed, files),
    )
    progress("scoring on held-out blocks")
    others = _held_out_theta(chosen, problem, seed)
    # One score each, by kind: recordings may have the same name.
    predictions = [
        _predict([identification.theta], problem, diagnoses, "training"),
        *([_predict(others, problem, diagnoses, "held-out")] if others else []),
        *(_predict([identification.theta], problem, [d], "validation") for d in validation),
    ]
    scores = tuple(map(score, predictions))
    flat = tuple(piece for pieces in predictions for piece in pieces)
    progress("looking for defects of the logs")
    defects, objections = objections_to(
        identification, chosen, problem, diagnoses, logs, predictions[0]
    )
    return IdentificationRun(
        identification=identification,
        diagnoses=diagnoses,
        validation=validation,
        problem=problem,
        cutoff=cutoff,
        friction=friction_choice,
        method_choice=choice,
        scores=scores,
        predictions=flat,
        defects=defects,
        verdict=judge(
            identification,
            scores,
            predictions=flat,
            warnings=_warnings((*diagnoses, *validation), left_out=False),
            left_out=_warnings((*diagnoses, *validation), left_out=True),
            overlaps=_overlaps(diagnoses, validation),
            concerns=[
                *doubtful_cutoff(given_cutoff, diagnoses),
                *_repeats(diagnoses),
                *objections,
            ],
            duration=sum(diagnosis.duration for diagnosis in validation or diagnoses),
        ),
    )


def _require_valid(
    robot: Robot,
    logs: Sequence[Log],
    method: Identifier,
    knowledge: Knowledge | None,
    seed: int,
) -> None:
    """Raise if something that was given cannot be used, before any work is done."""
    require_fixed(robot)
    if knowledge is not None and knowledge.any and not method.consistent:
        raise MismatchError(
            f"{method.name} cannot use what is known of the links ({knowledge.summary()}): use "
            f"{consistent_alternative(method.name)}, or leave it out."
        )
    if seed < 0:
        raise ShapeError(f"the seed is {seed}: give zero or a positive whole number.")
    if not logs:
        raise MismatchError("there is no log to identify from: give at least one.")


def _provenance(
    method: Identifier,
    problem: Regression,
    diagnoses: Sequence[Diagnosis],
    validation: Sequence[Diagnosis],
    seed: int,
    files: Mapping[str, str] | None,
) -> dict[str, Any]:
    """Versions, settings and digests behind a result."""
    robot, knowledge = problem.robot, problem.knowledge
    friction = robot.friction
    table = {
        "versions": versions(),
        "robot": robot.origin,
        "logs": [_origin(d) for d in diagnoses],
        "validation": [_origin(d) for d in validation],
        "method": {"name": method.name, **settings_of(method)},
        "preprocessing": asdict(problem.settings),
        "friction": {
            "model": friction.model.name,
            "shape": {
                name: [float(x) for x in friction.shape[:, k]]
                for k, name in enumerate(friction.model.shape)
            },
        },
        "knowledge": knowledge.summary() if knowledge.any else "",
        "seed": seed,
    }
    return table if files is None else {**table, "files": dict(files)}


def _warnings(diagnoses: Sequence[Diagnosis], *, left_out: bool) -> list[str]:
    """Findings of the doctor that belong into the verdict, of rows that were left out or others.

    A joint that stands in one recording may move in another: the verdict names those that never do.
    """
    return [
        f"{diagnosis.source}, {finding.where}: {finding.message}; {finding.action}."
        for diagnosis in diagnoses
        for severity in ("error", "warning")
        for finding in diagnosis.of(severity)
        if finding.kind != "still-joint" and (finding.kind in LEFT_OUT) == left_out
    ]


def _overlaps(diagnoses: Sequence[Diagnosis], validation: Sequence[Diagnosis]) -> list[str]:
    return [
        f"{diagnosis.source} was also used for fitting: its score is not a validation."
        for diagnosis in validation
        if any(share_samples(diagnosis, other) for other in diagnoses)
    ]


def _repeats(diagnoses: Sequence[Diagnosis]) -> list[str]:
    """Pairs of recordings of which each is held out while the other is fitted to."""
    return [
        f"{one.source} and {other.source} share samples, so that blocks that one holds out are "
        "fitted to in the other, and samples count twice: give each part once."
        for one, other in combinations(diagnoses, 2)
        if share_samples(one, other)
    ]


def _origin(diagnosis: Diagnosis) -> dict[str, Any]:
    return {"source": diagnosis.source, "sha256": diagnosis.digest}


def _predict(
    theta: Sequence[Array], problem: Regression, diagnoses: Sequence[Diagnosis], kind: Kind
) -> list[Prediction]:
    """Predictions of recordings; with several theta, each of its held-out fold of the problem."""
    settings = problem.settings.for_scores()
    if kind != "validation" and settings is problem.settings:
        moved = problem.motions
    else:
        moved = motions(problem.robot, [d.segments for d in diagnoses], settings)
    folds = [problem.folds(motion) for motion in moved] if kind == "held-out" else None
    made = [
        predict(
            problem.robot,
            motion,
            settings,
            theta,
            fold=None if folds is None else folds[k],
            source=diagnoses[motion.log].source,
            kind=kind,
        )
        for k, motion in enumerate(moved)
    ]
    return made if folds is None else predicted_by_others(made, folds)


def _held_out_theta(method: Identifier, problem: Regression, seed: int) -> list[Array]:
    """(p,) of each fold, fitted without it; empty where too little would be left."""
    theta: list[Array] = []
    for fold in range(FOLDS):
        rest = problem.without(fold)
        if not rest.factors or sum(f.rows for f in rest.factors.values()) < problem.size:
            return []
        theta.append(method.theta(rest, rng=np.random.default_rng(seed)))
    return theta
