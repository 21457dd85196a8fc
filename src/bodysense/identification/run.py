"""From robot and logs to an identified robot in one call: `identify`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bodysense.doctor.diagnosis import Diagnosis
from bodysense.doctor.examine import usable
from bodysense.errors import MismatchError, ShapeError, unknown_name
from bodysense.files import versions
from bodysense.identification.choices import CutoffChoice, choose_cutoff
from bodysense.identification.friction_comparison import (
    STRIBECK_SPEED,
    WIDTH,
    FrictionChoice,
    choose_friction,
    fit_shape,
    friction_unknown,
    with_richest,
)
from bodysense.identification.friction_fit import require_stribeck
from bodysense.identification.identification import Identification
from bodysense.identification.identifier import Identifier, settings_of
from bodysense.identification.knowledge import Knowledge
from bodysense.identification.method_choice import AUTO, MethodChoice, choose_method
from bodysense.identification.methods import DEFAULT, consistent_alternative, identifier
from bodysense.identification.preprocessing import (
    FOLDS,
    Preprocessing,
    motions,
    require_below_half,
    require_fixed,
)
from bodysense.identification.regression import Regression
from bodysense.identification.scores import DataScores, Prediction, predict, score
from bodysense.identification.verdict import Verdict, judge
from bodysense.logs.log import Log, RawLog
from bodysense.robot.base_parameters import base_parameters
from bodysense.robot.friction import friction_models
from bodysense.robot.io.source import robot_origin
from bodysense.robot.robot import Robot
from bodysense.spatial.arrays import Array


@dataclass(frozen=True, eq=False, repr=False)
class IdentificationRun:
    """Everything that one call of `identify` led to.

    Attributes:
        identification: the result; `.robot` is the identified robot.
        diagnoses: of the logs, in their order.
        validation: diagnoses of the validation logs.
        problem: the regression that was solved.
        cutoff: how the cut-off was chosen; `None` if it was given.
        friction: how the friction law was chosen, or its shape fitted; `None` if it was given.
        method_choice: how the method was chosen; `None` if it was given.
        scores: on the training data, on blocks left out in turn, and on each validation log.
        predictions: torques behind the scores, piece by piece.
        verdict: what to think of it.
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
    verdict: Verdict

    @property
    def robot(self) -> Robot:
        """The identified robot."""
        return self.identification.robot

    @property
    def settings(self) -> Preprocessing:
        """How the logs were filtered, with all choices made."""
        return self.problem.settings

    def __repr__(self) -> str:
        return f"<IdentificationRun: {self.summary()}>"

    def summary(self) -> str:
        """The result and the verdict, in words."""
        return f"{self.identification.summary()} {self.verdict}"


def identify(
    robot: Robot,
    logs: Log | RawLog | Sequence[Log | RawLog],
    *,
    method: str | Identifier = DEFAULT,
    validate: Log | RawLog | Sequence[Log | RawLog] = (),
    preprocessing: Preprocessing | None = None,
    friction: str = "auto",
    knowledge: Knowledge | None = None,
    seed: int = 0,
    allow_unusable: bool = False,
    progress: Callable[[str], None] = lambda step: None,
) -> IdentificationRun:
    """Identify a robot from recordings, and judge the result.

    Args:
        robot: the prior: geometry, friction law, and parameters as far as they are known.
        logs: recordings to identify from; each gets its own noise level.
        method: an identifier or its name (see `IDENTIFIERS`); ``auto`` chooses one by what the
            recordings show (see `choose_method`).
        validate: recordings that only the scores see.
        preprocessing: how logs are filtered; by default chosen from the data.
        friction: ``own`` keeps the robot's friction law. ``choose`` takes, out of viscous and
            Coulomb friction with or without an offset and a Stribeck curve, the law that predicts
            blocks best that are left out of the fit. ``auto`` chooses just when the robot knows
            nothing of its friction: all coefficients zero. The name of a law takes that law,
            turning round over 0.02 rad/s where the robot's own law is sharp. With ``:fit`` behind
            ``own`` or the name of a law the shape of its Stribeck curve is fitted to the data,
            as it is where the data choose such a law and predict better with it.
        knowledge: what is known of the links for certain, such as their total mass; only methods
            over physical robots keep to it.
        seed: of methods that draw random numbers.
        allow_unusable: go on with logs in which the doctor has found errors.
        progress: called with each step's name.

    Raises:
        UnusableLogError: a log that the doctor has found errors in.
        MismatchError: no log, too little of it left, or a floating base.
    """
    require_fixed(robot)
    settings = preprocessing if preprocessing is not None else Preprocessing()
    wanted = friction.removesuffix(":fit")
    fit = wanted != friction
    if fit and wanted in ("auto", "choose"):  # which fit of their own accord
        raise unknown_name("friction", friction, (*_FRICTION, "own:fit", "stribeck:fit"))
    if wanted not in _FRICTION:
        robot = with_law(robot, wanted)
    if fit:
        require_stribeck(robot)
    logs, validate = (
        [given] if isinstance(given, Log | RawLog) else list(given) for given in (logs, validate)
    )
    given = DEFAULT if method == AUTO else method
    chosen = identifier(given) if isinstance(given, str) else given
    _require_knowing(chosen, knowledge)
    if seed < 0:
        raise ShapeError(f"the seed is {seed}: give zero or a positive whole number.")
    if not logs:
        raise MismatchError("there is no log to identify from: give at least one.")
    choose = friction == "choose" or (friction == "auto" and friction_unknown(robot))
    if choose:
        robot = with_richest(robot)
    progress("examining the logs")
    diagnoses = tuple(usable(robot, log, allow_unusable=allow_unusable) for log in logs)
    validation = tuple(usable(robot, log, allow_unusable=allow_unusable) for log in validate)
    pieces = [diagnosis.segments for diagnosis in diagnoses]
    base = base_parameters(robot)
    cutoff = None
    if settings.cutoff is None:
        progress("choosing the cut-off")
        cutoff = choose_cutoff(robot, pieces, settings, base)
        settings = settings.settled(robot, cutoff.cutoff)
    else:
        require_below_half(settings.cutoff, (diagnosis.rate for diagnosis in diagnoses))
        settings = settings.settled(robot, settings.cutoff)
    moved = motions(robot, pieces, settings)
    problem = Regression.of(robot, moved, settings, base, knowledge=knowledge)
    law = None
    if choose or fit:
        progress("choosing the friction law" if choose else "fitting the friction law")
        law = choose_friction(problem) if choose else fit_shape(problem)
        if law.law != problem.robot.friction.model.name or law.shape:
            robot = law.applied_to(robot)
            problem = Regression.of(robot, moved, settings, knowledge=knowledge)
    choice = None
    if method == AUTO:
        progress("choosing the method")
        choice = choose_method(problem)
        chosen = choice.identifier
    progress(f"identifying with {chosen.name}")
    identification = chosen.fit(problem, rng=np.random.default_rng(seed))
    identification = replace(
        identification,
        provenance={
            "versions": versions(),
            "robot": robot_origin(robot),
            "logs": [_origin(d) for d in diagnoses],
            "validation": [_origin(d) for d in validation],
            "method": {"name": chosen.name, **settings_of(chosen)},
            "preprocessing": asdict(settings),
            "friction": {
                "model": robot.friction.model.name,
                "shape": {
                    name: [float(x) for x in robot.friction.shape[:, k]]
                    for k, name in enumerate(robot.friction.model.shape)
                },
            },
            "knowledge": "" if knowledge is None else knowledge.summary(),
            "seed": seed,
        },
    )
    progress("scoring on blocks left out")
    # One score each, told apart by what they are: recordings may have the same name.
    predictions = [
        _fitted(identification, problem, diagnoses),
        _held_out(chosen, problem, diagnoses, seed),
        *(_validated(identification, diagnosis, settings) for diagnosis in validation),
    ]
    scores = tuple(score(pieces) for pieces in predictions if pieces)
    return IdentificationRun(
        identification=identification,
        diagnoses=diagnoses,
        validation=validation,
        problem=problem,
        cutoff=cutoff,
        friction=law,
        method_choice=choice,
        scores=scores,
        predictions=tuple(piece for pieces in predictions for piece in pieces),
        verdict=judge(
            identification,
            scores,
            warnings=_warnings(diagnoses, validation),
            concerns=_price_of_knowledge(chosen, problem, identification),
            duration=sum(diagnosis.duration for diagnosis in diagnoses),
        ),
    )


def _require_knowing(method: Identifier, knowledge: Knowledge | None) -> None:
    if knowledge is not None and knowledge.any and not method.consistent:
        raise MismatchError(
            f"{method.name} cannot keep to what is known of the links ({knowledge.summary()}): use "
            f"{consistent_alternative(method.name)}, or leave it out."
        )


_FRICTION = ("auto", "own", "choose")
_CONTRADICTION = 0.1
"""Relative growth of the squared error from which knowledge and data do not go together."""


def with_law(robot: Robot, law: str) -> Robot:
    """The robot with another friction law, smooth where its own is sharp.

    Raises:
        UnknownNameError: neither a law nor a way to choose one.
    """
    laws = friction_models()
    if law not in laws:
        raise unknown_name("friction", law, (*_FRICTION, *laws))
    own = dict(zip(robot.friction.model.shape, robot.friction.shape.T, strict=True))
    shape: dict[str, ArrayLike] = {}
    if "width" in laws[law].shape and not np.any(own.get("width", 0.0)):
        shape["width"] = WIDTH
    if "vs" in laws[law].shape and "vs" not in own:
        shape["vs"] = STRIBECK_SPEED
    return robot.with_friction(law, coefficients=None, **shape)


def _price_of_knowledge(
    method: Identifier, problem: Regression, found: Identification
) -> list[str]:
    """Whether what was given as known contradicts the data, or the robot's file."""
    knowledge, concerns = problem.knowledge, []
    if not knowledge.any:
        return []
    free = problem.base.to_base(method.theta(problem.knowing(Knowledge())))
    without, with_it = (
        float((problem.squares(theta)[0] / found.noise**2).sum())
        for theta in (free, found.theta_base)
    )
    if with_it > (1.0 + _CONTRADICTION) * without:
        concerns.append(
            f"What was given as known ({knowledge.summary()}) makes the squared error of the fit "
            f"{with_it / without:.3g} times as large: check it."
        )
    robot = problem.robot
    mass = sum(float(robot.pi(k)[0]) for k in range(robot.layout.n_links))
    total = knowledge.total_mass
    if total is not None and not 0.5 * mass < total < 2.0 * mass:
        concerns.append(
            f"The total mass was given as {total:g} kg, and the links that move have {mass:.3g} kg "
            "in the robot's file: give the mass of these links alone, in kg."
        )
    return concerns


def _warnings(diagnoses: Sequence[Diagnosis], validation: Sequence[Diagnosis]) -> list[str]:
    """What the doctor has found that the verdict must not forget."""
    result = [
        f"{diagnosis.source}, {finding.where}: {finding.message}; {finding.action}."
        for diagnosis in (*diagnoses, *validation)
        for severity in ("error", "warning")
        for finding in diagnosis.of(severity)
    ]
    seen = {diagnosis.digest for diagnosis in diagnoses if diagnosis.digest}
    result += [
        f"{diagnosis.source} is validated on and identified from: its score is no test."
        for diagnosis in validation
        if diagnosis.digest in seen
    ]
    return result


def _origin(diagnosis: Diagnosis) -> dict[str, Any]:
    return {"source": diagnosis.source, "sha256": diagnosis.digest}


def _fitted(
    identification: Identification, problem: Regression, diagnoses: Sequence[Diagnosis]
) -> list[Prediction]:
    return [
        predict(
            problem.robot,
            motion,
            problem.settings,
            [identification.theta],
            source=diagnoses[motion.log].source,
            kind="training",
        )
        for motion in problem.motions
    ]


def _held_out(
    method: Identifier, problem: Regression, diagnoses: Sequence[Diagnosis], seed: int
) -> list[Prediction]:
    theta: list[Array] = []
    for fold in range(FOLDS):
        rest = problem.without(fold)
        if not rest.factors or sum(f.rows for f in rest.factors.values()) < problem.size:
            return []  # too short to leave anything out
        theta.append(method.theta(rest, rng=np.random.default_rng(seed)))
    return [
        predict(
            problem.robot,
            motion,
            problem.settings,
            theta,
            fold=problem.folds(motion),
            source=diagnoses[motion.log].source,
            kind="held-out",
        )
        for motion in problem.motions
    ]


def _validated(
    identification: Identification, diagnosis: Diagnosis, settings: Preprocessing
) -> list[Prediction]:
    robot = identification.prior
    return [
        predict(
            robot,
            motion,
            settings,
            [identification.theta],
            source=diagnosis.source,
            kind="validation",
        )
        for motion in motions(robot, [diagnosis.segments], settings)
    ]
