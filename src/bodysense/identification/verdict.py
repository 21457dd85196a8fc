"""The verdict on an identification, in words: can it be trusted, and what would make it better."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from bodysense.identification.identification import Identification
from bodysense.identification.methods import consistent_alternative
from bodysense.identification.scores import DataScores, Kind, Score

Grade = Literal["good", "fair", "poor", "failed"]

_GOOD, _FAIR = 0.1, 0.25
"""Mean relative torque error of moving joints on unseen data: good, or fair, up to these."""

_NEGLIGIBLE = 0.005  # differences that nobody minds: a prior that is right already is no fault
_OVERFITTED = 1.5
_WORSE_ELSEWHERE = 1.5
_JOINT_POOR = 0.25
_SHORT = 5.0
_SHORT_ADVICE = (
    "Blocks of a recording of {:.2g} s resemble each other too much to judge by: record for "
    "longer, or give another recording with --validate."
)
_WORSE_ADVICE = (
    "It predicts worse than the robot's file alone ({}): keep the file for now, check joint order, "
    "signs and units with `bodysense doctor`, and record for longer or take another method."
)
_MOST_WARNINGS = 3
_MOSTLY_NOISE = 0.25  # relative noise from which a joint's torque cannot be judged
_BORDER = 1e-3

_WHERE: dict[Kind, str] = {
    "validation": "validation recordings",
    "held-out": "blocks left out of the fit",
    "training": "the data of the fit, which are too short to leave any out,",
}


@dataclass(frozen=True)
class Verdict:
    """What to think of a result.

    Attributes:
        grade: ``good``, ``fair``, ``poor`` or ``failed``.
        summary: one sentence.
        advice: what to do about it, most important first.
    """

    grade: Grade
    summary: str
    advice: tuple[str, ...]

    def __str__(self) -> str:
        return " ".join((f"{self.grade.upper()}: {self.summary}", *self.advice))


def judge(
    identification: Identification,
    scores: Sequence[DataScores],
    *,
    warnings: Sequence[str] = (),
    concerns: Sequence[str] = (),
    duration: float = np.inf,
) -> Verdict:
    """Weigh the scores on unseen data against the fit, the prior and the noise.

    Args:
        identification: the result.
        scores: on training data, held-out blocks and validation recordings.
        warnings: of the doctor, in words; a result behind them is not called good.
        concerns: sentences of others that speak against the result; nor is one behind them.
        duration: of the recordings it was identified from [s].
    """
    if not identification.status.ok:
        return Verdict("failed", identification.status.message, ())
    unseen = [s for s in scores if s.kind != "training"]
    training = next(s for s in scores if s.kind == "training")
    held_out = next((s for s in scores if s.kind == "held-out"), training)
    validation = [s for s in scores if s.kind == "validation"]
    judged = validation or unseen or [training]
    where = _WHERE[judged[0].kind]
    error, before = _errors(judged)
    worse = _worse_than_file([held_out], *([judged] if validation else []))
    short = not validation and duration < _SHORT
    advice = (
        *concerns,
        *(f"The doctor warns: {warning}" for warning in warnings[:_MOST_WARNINGS]),
        *([_SHORT_ADVICE.format(duration)] if short else []),
        *([_WORSE_ADVICE.format("; ".join(worse))] if worse else []),
        *_advice(identification, training, held_out, validation),
    )
    if not np.isfinite(error):
        return Verdict("poor", f"on {where} no joint moves, so that they tell nothing.", advice)
    grade: Grade = "good" if error <= _GOOD else "fair" if error <= _FAIR else "poor"
    if worse:
        grade = "poor"  # however small the error: the file alone would serve better
    if grade == "good" and (warnings or concerns or short):
        grade = "fair"
    summary = (
        f"on {where} the model predicts the torque of moving joints to {_percent(error)} on "
        f"average; the robot's file alone to {_percent(before)}. Raw torque holds "
        f"{_percent(held_out.noise_floor_d_tau)} of noise that no model predicts."
    )
    return Verdict(grade, summary, advice)


def _mean_error(scores: DataScores, model: Score) -> float:
    """Mean relative error over the joints that move and whose torque is more than noise."""
    errors, noise = np.array(model.relative_error), np.array(scores.filtered_noise)
    moving = np.isfinite(errors)
    heard = moving & (noise < _MOSTLY_NOISE)
    counted = heard if heard.any() else moving
    return float(errors[counted].mean()) if counted.any() else np.nan


def _clearly_more(error: float, bound: float) -> bool:
    """Whether an error exceeds a bound by more than anybody would mind."""
    return error > bound and error - bound > _NEGLIGIBLE


def _errors(judged: Sequence[DataScores]) -> tuple[float, float]:
    """Errors of the model and of the robot's file alone, averaged over recordings that move."""
    pairs = [(_mean_error(s, s.identified.moving), _mean_error(s, s.prior.moving)) for s in judged]
    pairs = [pair for pair in pairs if np.isfinite(pair).all()]
    if not pairs:
        return np.nan, np.nan
    error, before = np.mean(pairs, axis=0)
    return float(error), float(before)


def _worse_than_file(*judged: Sequence[DataScores]) -> list[str]:
    """Where the robot's file alone predicts better, in words."""
    return [
        f"{_percent(error)} against {_percent(before)} on {_WHERE[scores[0].kind].rstrip(',')}"
        for scores in judged
        for error, before in [_errors(scores)]
        if _clearly_more(error, before)
    ]


def _percent(value: float) -> str:
    return f"{100.0 * value:.1f} %"


def _advice(
    identification: Identification,
    training: DataScores,
    held_out: DataScores,
    validation: Sequence[DataScores],
) -> list[str]:
    advice = []
    fit = _mean_error(training, training.identified.moving)
    unseen = _mean_error(held_out, held_out.identified.moving)
    if _clearly_more(unseen, _OVERFITTED * fit):
        advice.append(
            f"It is overfitted: {_percent(fit)} on the data of the fit, {_percent(unseen)} on "
            "blocks left out. Record for longer, or use a method that keeps to the prior (ridge)."
        )
    for scores in validation:
        elsewhere = _mean_error(scores, scores.identified.moving)
        if _clearly_more(elsewhere, _WORSE_ELSEWHERE * unseen):
            advice.append(
                f"It does not carry over to {scores.source} ({_percent(elsewhere)} against "
                f"{_percent(unseen)}): "
                "was the robot as warm, were its load and tool the same, and did the motions of "
                "the fit reach as far?"
            )
    names = identification.prior.joint_names
    poor = [
        f"{name} ({_percent(error)})"
        for name, error, noise in zip(
            names,
            held_out.identified.moving.relative_error,
            held_out.filtered_noise,
            strict=True,
        )
        if error > _JOINT_POOR and noise < _MOSTLY_NOISE
    ]
    if poor:
        advice.append(
            f"Torque is predicted poorly for {', '.join(poor)}: are drives coupled (actuator "
            "file), their gains right, and is the friction law (--friction) rich enough? Or move "
            "these joints faster and further."
        )
    noisy = [
        f"{name} ({_percent(error)})"
        for name, error, noise in zip(
            names,
            held_out.identified.moving.relative_error,
            held_out.filtered_noise,
            strict=True,
        )
        if error > _JOINT_POOR and noise >= _MOSTLY_NOISE
    ]
    if noisy:
        advice.append(
            f"Torque of {', '.join(noisy)} is mostly noise and does not count in the average: "
            "move these joints faster, or with a load."
        )
    standing = [
        name
        for name, samples in zip(names, training.identified.moving.samples, strict=True)
        if samples == 0
    ]
    if standing:
        advice.append(
            f"{', '.join(standing)} never moved: inertia and friction there are the prior's."
        )
    advice += _physics(identification)
    advice += _reach(identification)
    return advice


def _physics(identification: Identification) -> list[str]:
    links = identification.prior.link_names
    consistency = identification.consistency
    bad = [link for link, c in zip(links, consistency, strict=True) if not c.consistent]
    if bad or identification.negative_drives:
        what = []
        if bad:
            what.append(f"link(s) {', '.join(bad)} cannot exist as bodies")
        if identification.negative_drives:
            what.append(f"{', '.join(identification.negative_drives)} negative")
        return [
            f"Not physical: {' and '.join(what)}. The torques may be right, but do not simulate "
            f"with it: use a consistent method ({consistent_alternative(identification.method)})."
        ]
    border = [link for link, c in zip(links, consistency, strict=True) if c.margin < _BORDER]
    if border:
        return [
            f"{', '.join(border)} came out at the border of what can exist: what the data leave "
            "open of their inertia is not to be relied on. Where it shows in torques, noise, wrong "
            "drive gains or friction that the law does not describe are behind it."
        ]
    return []


def _reach(identification: Identification) -> list[str]:
    labels = identification.base_labels
    result, total = labels.count("identified"), len(labels)
    if result == total:
        return []
    return [
        f"{total - result} of {total} base parameters are not identified by these data (see "
        "parameters.csv): a longer and faster motion of all joints would reach more."
    ]
