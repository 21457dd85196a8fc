"""All that speaks against a result, causes first: defects of logs, contradictions, bodies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bodysense.doctor import Diagnosis
from bodysense.errors import MismatchError
from bodysense.identification.defects import Defect, find_defects
from bodysense.identification.identification import Identification
from bodysense.identification.identifier import Identifier
from bodysense.identification.one_robot import changed_within, unlike_each_other
from bodysense.identification.plausibility import (
    bursts,
    contradicted_knowledge,
    implausibilities,
)
from bodysense.identification.preprocessing import motions
from bodysense.identification.regression import Regression
from bodysense.identification.scores import Prediction
from bodysense.logs.log import Log

_REVERSAL_SPEED = 0.1  # rad/s or m/s


def objections_to(
    result: Identification,
    method: Identifier,
    problem: Regression,
    diagnoses: Sequence[Diagnosis],
    logs: Sequence[Log],
    training: Sequence[Prediction],
) -> tuple[tuple[Defect, ...], list[str]]:
    """Defects of the logs, and a sentence for each thing that speaks against a result.

    Where recordings, or the parts of one, need several robots, defects are their symptoms; where
    the model is wrong throughout, so are short times that it does not explain.

    Args:
        result: of the problem.
        method: that it was fitted with.
        problem: rows of all logs.
        diagnoses: of the logs.
        logs: as they were given.
        training: predictions of the logs.
    """
    several = unlike_each_other(problem)
    contradictions = contradicted_knowledge(method, problem, result)
    defects = () if several else _defects(problem, diagnoses)
    # A load that is taken or put down is no drift, though it looks like one.
    drifts = {defect.kind for defect in defects if defect.kind.endswith("-drift")}
    if not several and drifts <= {"load-drift"}:
        beside = any(defect.kind != "load-drift" for defect in defects)
        several = changed_within(problem, logs, beside_defects=beside)
        defects = () if several else defects
    throughout = bool(several or contradictions)
    short_times = [] if throughout else bursts(problem.robot.joint_names, training, logs)
    sentences = [
        *several,
        *map(str, defects),
        *contradictions,
        *implausibilities(problem, result),
        *short_times,
    ]
    return defects, sentences


def _defects(problem: Regression, diagnoses: Sequence[Diagnosis]) -> tuple[Defect, ...]:
    """Defects of the logs, where they leave enough rows to tell any.

    They are sought below the reference bandwidth, as noise of positions looks like defects, and
    where joints move faster than friction reverses, as its law is never quite right there.
    """
    settings = problem.settings
    score, cutoff = settings.score_cutoff, settings.cutoff
    if score is not None and cutoff is not None and cutoff > score:
        settings = settings.for_scores()
    if settings.still_speed:
        settings = replace(settings, still_speed=max(settings.still_speed, _REVERSAL_SPEED))
    try:
        moved = motions(problem.robot, [d.segments for d in diagnoses], settings)
        clear = Regression.of(
            problem.robot, moved, settings, problem.base, knowledge=problem.knowledge
        )
        return find_defects(clear, uneven=_is_uneven(diagnoses))
    except MismatchError:
        return ()


def _is_uneven(diagnoses: Sequence[Diagnosis]) -> bool:
    """Whether samples were not taken when their time stamps say."""
    kinds = {finding.kind for diagnosis in diagnoses for finding in diagnosis.findings}
    return bool(kinds & {"lost-samples", "uneven-samples"})
