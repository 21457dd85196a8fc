"""The verdict on an identification: can it be trusted, and what would improve it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from bodysense.errors import listing
from bodysense.identification.identification import Identification
from bodysense.identification.joint_advice import (
    FAIR_ERROR,
    GOOD_JOINT,
    HARDLY_MORE,
    NOISY_TORQUE,
    counted,
    hardly_moved,
    moved_once,
    no_better_than_constant,
    percent,
    predicted_poorly,
)
from bodysense.identification.methods import consistent_alternative
from bodysense.identification.scores import DataScores, Kind, Prediction, Score, mean_noise

Grade = Literal["good", "fair", "poor", "failed"]

# Thresholds. Errors are relative torque errors of moving joints, as fractions. The worst joint
# decides, with the mean beside it: wrists whose friction is most of their torque have twice the
# error of the others on sound recordings.

_GOOD_ERROR = 0.1  # mean error on unseen data up to which a result is good
_FAIR_JOINT = 0.5  # error of the worst joint up to which it is fair
_NEGLIGIBLE = 0.005  # difference of errors that is no worse
_WORSE = 1.1  # error over that of the file from which the result is worse
_MUCH_WORSE = 1.25  # error over that of the file from which the result is poor whatever it is
_OVERFITTING_RATIO = 1.5  # held-out error over training error from which a result is overfitted
_GENERALISATION_RATIO = 1.5  # validation over held-out error of what does not generalise
_LEAST_CLEAR = 0.5  # share of the moving joints whose torque must be more than noise
_SHORT_DURATION = 5.0  # of recordings whose blocks resemble each other too much to judge by [s]
_MOST_WARNINGS = 3  # of the doctor that are repeated

_WHERE: dict[Kind, str] = {
    "validation": "validation recordings",
    "held-out": "held-out blocks",
    "training": "the training data",
}
_NOTHING_UNSEEN = (
    "There is too little data to hold any out, so that nothing is judged that the fit has not "
    "seen: record for longer, or give another recording with --validate."
)


@dataclass(frozen=True)
class Verdict:
    """How good a result is.

    Attributes:
        grade: ``good``, ``fair``, ``poor`` or ``failed``.
        summary: one sentence.
        advice: what to do about it, most important first.
        intervals_hold: whether nothing speaks against the intervals: they count noise alone, and
            not what is wrong with a recording or with the file that it is held against.
        error: mean relative error of the joints that count, on the data that are judged; NaN
            where no joint moves.
        before: the same of the robot's file.
        worst: the same of the joint that is predicted worst.
        worst_joint: its name.
    """

    grade: Grade
    summary: str
    advice: tuple[str, ...]
    intervals_hold: bool = True
    error: float = np.nan
    before: float = np.nan
    worst: float = np.nan
    worst_joint: str = ""

    @property
    def caution(self) -> str:
        """What stands beside intervals that cannot be trusted; empty where they can."""
        if self.intervals_hold:
            return ""
        return (
            "Standard deviations and 95 % intervals cannot be trusted: they count noise, not what "
            "is wrong with the recording."
        )

    def __str__(self) -> str:
        return " ".join((f"{self.grade.upper()}: {self.summary}", *self.advice))


def judge(
    identification: Identification,
    scores: Sequence[DataScores],
    *,
    predictions: Sequence[Prediction] = (),
    warnings: Sequence[str] = (),
    left_out: Sequence[str] = (),
    concerns: Sequence[str] = (),
    overlaps: Sequence[str] = (),
    duration: float = np.inf,
) -> Verdict:
    """Compare the scores on unseen data with the fit, the prior and the noise.

    A result with warnings of the doctor, or with concerns (other sentences against it), is not
    called good, nor is one that is validated with what it was fitted to (`overlaps`), judged by
    recordings that last too short a time [s], overfitted, of joints that hardly moved or are
    predicted no better than by a constant, or worse than the robot's file predicts. The worst joint
    of any recording decides, unless its error is hardly more than noise. Warnings of rows that were
    `left_out` do not speak against intervals.
    """
    if not identification.status.ok:
        return Verdict("failed", identification.status.summary(), (), intervals_hold=False)
    by_kind: dict[Kind, list[DataScores]] = {"training": [], "held-out": [], "validation": []}
    for data in scores:
        by_kind[data.kind].append(data)
    (training,), validation = by_kind["training"], by_kind["validation"]
    (held_out,) = by_kind["held-out"] or [training]
    judged = validation or [held_out]
    names, kind = identification.prior.joint_names, judged[0].kind
    error, before = _errors(judged)
    compared = [[held_out], *([judged] if validation else [])]
    worse = _worse_than_file(compared, _WORSE)
    much_worse = bool(_worse_than_file(compared, _MUCH_WORSE))
    objections = (
        *(f"The doctor warns: {warning}" for warning in warnings[:_MOST_WARNINGS]),
        *concerns,
        *no_better_than_constant(names, [p for p in predictions if p.kind == kind], judged),
    )
    unseen = () if by_kind["validation"] or by_kind["held-out"] else (_NOTHING_UNSEEN,)
    too_short = tuple(_too_short(duration, kind))
    unmoved = (
        *hardly_moved(names, training),
        *([] if validation else moved_once(names, training, held_out)),
    )
    few = _too_few_judgeable(names, judged)
    extrapolated = (
        *_overfitting(identification, training, held_out),
        *_generalisation(held_out, validation),
    )
    advice = (
        *objections,
        *(f"The doctor warns: {warning}" for warning in left_out[:_MOST_WARNINGS]),
        *unseen,
        *overlaps,
        *too_short,
        *worse,
        *few,
        *extrapolated,
        *predicted_poorly(names, held_out, [p for p in predictions if p.kind == held_out.kind]),
        *unmoved,
        *_physics(identification),
        *_unidentified(identification),
    )
    if not np.isfinite(error):
        text = f"no joint moves in {_WHERE[kind]}, so that it cannot be judged."
        return Verdict("poor", text, advice, intervals_hold=False)
    worst, joint = _worst(names, judged)
    beyond_noise, _ = _worst(names, judged, beyond_noise=True)
    reserved = (objections, left_out, unseen, too_short, unmoved, overlaps, worse, extrapolated)
    grade = _grade(error, beyond_noise, worse=bool(much_worse or few), reserved=any(reserved))
    summary = (
        f"on {_WHERE[kind]} the model predicts the torque of moving joints to {percent(error)} on "
        f"average and to {percent(worst)} at worst ({joint}); the robot's file alone to "
        f"{percent(before)}. {_left_out(names, judged)}"
        f"{percent(mean_noise(judged))} of the raw torque is above the bandwidth of this "
        "comparison, as noise is."
    )
    holds = not (objections or unseen or few or extrapolated or grade == "poor")
    return Verdict(grade, summary, advice, holds, error, before, worst, joint)


def _grade(error: float, worst: float, *, worse: bool, reserved: bool) -> Grade:
    """The grade of errors; what is much worse than the file is poor, however small it is."""
    if worse or error > FAIR_ERROR or worst > _FAIR_JOINT:
        return "poor"
    good = error <= _GOOD_ERROR and worst <= GOOD_JOINT and not reserved
    return "good" if good else "fair"


def _mean_error(scores: DataScores, model: Score) -> float:
    """Mean relative error over the joints that count."""
    own = counted(scores, model)
    return float(np.array(model.relative_error)[own].mean()) if own.any() else np.nan


def _worst(
    names: Sequence[str], judged: Sequence[DataScores], *, beyond_noise: bool = False
) -> tuple[float, str]:
    """The largest error of a joint that counts, of all recordings, and its name.

    Of joints whose errors are hardly more than the noise of their torques it is zero on request.
    """
    errors = np.full((len(judged), len(names)), np.nan)
    for row, data in zip(errors, judged, strict=True):
        own = counted(data, data.identified.moving)
        row[own] = np.array(data.identified.moving.relative_error)[own]
        if beyond_noise:
            row[row < HARDLY_MORE * np.array(data.filtered_noise)] = 0.0
    largest = np.max(errors, axis=0, initial=-np.inf, where=np.isfinite(errors))
    worst = int(np.argmax(largest))
    return float(largest[worst]), names[worst]


def _left_out(names: Sequence[str], judged: Sequence[DataScores]) -> str:
    """Which joints are in none of these numbers."""
    count = np.any([counted(data, data.identified.moving) for data in judged], axis=0)
    if count.all():
        return ""
    others = listing(np.array(names)[~count].tolist())
    return f"Not counted, still, moved only once or mostly noise: {others}. "


def _too_few_judgeable(names: Sequence[str], judged: Sequence[DataScores]) -> list[str]:
    """Where the torque of most joints that move is noise, the others do not speak for them.

    If that of all is, all of them count.
    """
    moving, clear = np.zeros((2, len(names)), dtype=bool)
    for data in judged:
        moves = np.isfinite(np.array(data.identified.moving.relative_error))
        moving |= moves
        clear |= moves & (np.array(data.filtered_noise) < NOISY_TORQUE)
    if not 0 < np.count_nonzero(clear) < _LEAST_CLEAR * np.count_nonzero(moving):
        return []
    return [
        f"Torque of {listing(np.array(names)[moving & ~clear].tolist())} is mostly noise, which "
        "leaves too few joints to judge by: record less noisy torques, or move faster."
    ]


def _clearly_more(error: float, bound: float) -> bool:
    """Whether an error exceeds a bound by more than is negligible."""
    return error > bound and error - bound > _NEGLIGIBLE


def _errors(judged: Sequence[DataScores]) -> tuple[float, float]:
    """Errors of the model and of the robot's file alone, averaged over recordings that move."""
    pairs = [(_mean_error(s, s.identified.moving), _mean_error(s, s.prior.moving)) for s in judged]
    pairs = [pair for pair in pairs if np.isfinite(pair).all()]
    if not pairs:
        return np.nan, np.nan
    error, before = np.mean(pairs, axis=0)
    return float(error), float(before)


def _worse_than_file(judged: Sequence[Sequence[DataScores]], times: float) -> list[str]:
    """A sentence if errors exceed those of the file by so many times, on any of the data."""
    pairs = [
        f"{percent(error)} against {percent(before)} on {_WHERE[scores[0].kind]}"
        for scores in judged
        for error, before in [_errors(scores)]
        if error > times * before and _clearly_more(error, before)
    ]
    if not pairs:
        return []
    return [
        f"It predicts worse than the robot's file alone ({'; '.join(pairs)}): keep the file for "
        "now, check joint order, signs and units with `bodysense doctor`, and record for longer or "
        "take another method."
    ]


def _too_short(duration: float, kind: Kind) -> list[str]:
    if duration >= _SHORT_DURATION:
        return []
    if kind == "validation":
        return [
            f"Validation recordings of {duration:.2g} s are too short to judge by: give longer "
            "ones."
        ]
    return [
        f"Blocks of a recording of {duration:.2g} s resemble each other too much to judge by: "
        "record for longer, or give another recording with --validate."
    ]


def _overfitting(
    identification: Identification, training: DataScores, held_out: DataScores
) -> list[str]:
    fit, unseen = (_mean_error(data, data.identified.moving) for data in (training, held_out))
    if not _clearly_more(unseen, _OVERFITTING_RATIO * fit):
        return []
    return [
        f"It is overfitted: {percent(fit)} on the training data, {percent(unseen)} on held-out "
        f"blocks. {_overfitting_remedy(identification)}"
    ]


def _overfitting_remedy(identification: Identification) -> str:
    """More data, and a relaxation towards the prior that the data choose, if there is none yet."""
    settings = identification.provenance.get("method", {})
    if "relaxation" in settings and settings["relaxation_weight"] is None:
        return "Record for longer."
    other = f"--method {consistent_alternative(identification.method)} "
    method = "" if "relaxation" in settings else other
    return f"Record for longer, or try {method}--relax auto --relax-weight auto."


def _generalisation(held_out: DataScores, validation: Sequence[DataScores]) -> list[str]:
    advice, unseen = [], _mean_error(held_out, held_out.identified.moving)
    for data in validation:
        error = _mean_error(data, data.identified.moving)
        if _clearly_more(error, _GENERALISATION_RATIO * unseen):
            advice.append(
                f"It does not generalise to {data.source} ({percent(error)} against "
                f"{percent(unseen)}): was the robot as warm, were its load and tool the same, and "
                "did the motions of the fit reach as far?"
            )
    return advice


def _physics(identification: Identification) -> list[str]:
    links, consistency = identification.prior.link_names, identification.consistency
    bad = [link for link, c in zip(links, consistency, strict=True) if not c.consistent]
    negative = identification.negative_drives
    if bad or negative:
        parts = [f"inertia of {', '.join(bad)} is infeasible"] if bad else []
        parts += [f"{', '.join(negative)} negative"] if negative else []
        return [
            f"Not physically consistent: {' and '.join(parts)}. The torques may be right, but do "
            "not simulate with it: use a consistent method "
            f"({consistent_alternative(identification.method)})."
        ]
    if identification.border:
        return [
            f"{', '.join(identification.border)} came out at the border of physical consistency: "
            "do not rely on the parts of their inertia that the data do not determine. If torques "
            "are affected, likely causes are noise, wrong drive gains, or friction that the law "
            "does not describe."
        ]
    return []


def _unidentified(identification: Identification) -> list[str]:
    if set(identification.base_labels) <= {"identified"}:
        return []
    return [
        f"Of {len(identification.base_labels)} base parameters {identification.unidentified()} "
        "(see parameters.csv): excite all joints for longer and faster."
    ]
