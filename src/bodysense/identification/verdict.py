"""The verdict on an identification: can it be trusted, and what would improve it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from bodysense.identification.identification import Identification
from bodysense.identification.methods import consistent_alternative
from bodysense.identification.scores import DataScores, Kind, Score, mean_noise

Grade = Literal["good", "fair", "poor", "failed"]

# Thresholds. Errors are relative torque errors of moving joints, as fractions.

_GOOD_ERROR = 0.1  # mean error on unseen data up to which a result is good
_FAIR_ERROR = 0.25  # likewise fair; of one joint: its torque is predicted poorly
_NEGLIGIBLE = 0.005  # difference of errors: a prior that is right already is no fault
_OVERFITTING_RATIO = 1.5  # held-out error over training error from which a result is overfitted
_GENERALISATION_RATIO = 1.5  # validation over held-out error of what does not generalise
_NOISY_TORQUE = 0.25  # relative noise from which a joint's torque cannot be judged
_SHORT_DURATION = 5.0  # of recordings whose blocks resemble each other too much to judge by [s]
_BORDER_MARGIN = 1e-3  # margin of physical consistency below which a link is at the border
_MOST_WARNINGS = 3  # of the doctor that are repeated

_WHERE: dict[Kind, str] = {
    "validation": "validation recordings",
    "held-out": "held-out blocks",
    "training": "the training data, which are too short to hold any out,",
}


@dataclass(frozen=True)
class Verdict:
    """How good a result is.

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
    """Compare the scores on unseen data with the fit, the prior and the noise.

    A result with warnings of the doctor, or with concerns (other sentences against it), is not
    called good, nor is one of recordings that last too short a time [s].
    """
    if not identification.status.ok:
        return Verdict("failed", identification.status.summary(), ())
    by_kind: dict[Kind, list[DataScores]] = {"training": [], "held-out": [], "validation": []}
    for data in scores:
        by_kind[data.kind].append(data)
    (training,), validation = by_kind["training"], by_kind["validation"]
    (held_out,) = by_kind["held-out"] or [training]
    judged = validation or [held_out]
    error, before = _errors(judged)
    worse = _worse_than_file([held_out], *([judged] if validation else []))
    reservations = (
        *concerns,
        *(f"The doctor warns: {warning}" for warning in warnings[:_MOST_WARNINGS]),
        *(() if validation else _too_short(duration)),
    )
    advice = (
        *reservations,
        *worse,
        *_overfitting(identification, training, held_out),
        *_generalisation(held_out, validation),
        *_joints(identification.prior.joint_names, training, held_out),
        *_physics(identification),
        *_unidentified(identification),
    )
    where = _WHERE[judged[0].kind]
    if not np.isfinite(error):
        return Verdict("poor", f"no joint moves in {where}, so that it cannot be judged.", advice)
    summary = (
        f"on {where} the model predicts the torque of moving joints to {_percent(error)} on "
        f"average; the robot's file alone to {_percent(before)}. Noise, which no model predicts, "
        f"is {_percent(mean_noise(judged))} of the raw torque."
    )
    return Verdict(_grade(error, worse=bool(worse), reserved=bool(reservations)), summary, advice)


def _grade(error: float, *, worse: bool, reserved: bool) -> Grade:
    """The grade of a mean error; whatever is worse than the file is poor, however small it is."""
    if worse or error > _FAIR_ERROR:
        return "poor"
    return "good" if error <= _GOOD_ERROR and not reserved else "fair"


def _mean_error(scores: DataScores, model: Score) -> float:
    """Mean relative error over the joints that move and whose torque is more than noise."""
    errors, noise = np.array(model.relative_error), np.array(scores.filtered_noise)
    moving = np.isfinite(errors)
    clear = moving & (noise < _NOISY_TORQUE)
    counted = clear if clear.any() else moving
    return float(errors[counted].mean()) if counted.any() else np.nan


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


def _worse_than_file(*judged: Sequence[DataScores]) -> list[str]:
    pairs = [
        f"{_percent(error)} against {_percent(before)} on {_WHERE[scores[0].kind].rstrip(',')}"
        for scores in judged
        for error, before in [_errors(scores)]
        if _clearly_more(error, before)
    ]
    if not pairs:
        return []
    return [
        f"It predicts worse than the robot's file alone ({'; '.join(pairs)}): keep the file for "
        "now, check joint order, signs and units with `bodysense doctor`, and record for longer or "
        "take another method."
    ]


def _too_short(duration: float) -> list[str]:
    if duration >= _SHORT_DURATION:
        return []
    return [
        f"Blocks of a recording of {duration:.2g} s resemble each other too much to judge by: "
        "record for longer, or give another recording with --validate."
    ]


def _percent(value: float) -> str:
    return f"{100.0 * value:.1f} %"


def _overfitting(
    identification: Identification, training: DataScores, held_out: DataScores
) -> list[str]:
    fit, unseen = (_mean_error(data, data.identified.moving) for data in (training, held_out))
    if not _clearly_more(unseen, _OVERFITTING_RATIO * fit):
        return []
    return [
        f"It is overfitted: {_percent(fit)} on the training data, {_percent(unseen)} on held-out "
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
                f"It does not generalise to {data.source} ({_percent(error)} against "
                f"{_percent(unseen)}): was the robot as warm, were its load and tool the same, and "
                "did the motions of the fit reach as far?"
            )
    return advice


def _joints(names: Sequence[str], training: DataScores, held_out: DataScores) -> list[str]:
    """Joints whose torque is predicted poorly or is mostly noise, and joints that never moved."""
    errors, noise = held_out.identified.moving.relative_error, held_out.filtered_noise
    poor, noisy = (
        ", ".join(
            f"{name} ({_percent(error)})"
            for name, error, level in zip(names, errors, noise, strict=True)
            if error > _FAIR_ERROR and (level < _NOISY_TORQUE) == audible
        )
        for audible in (True, False)
    )
    samples = training.identified.moving.samples
    still = ", ".join(name for name, n in zip(names, samples, strict=True) if n == 0)
    sentences = (
        (
            poor,
            f"Torque is predicted poorly for {poor}: are drives coupled (actuator file), their "
            "gains right, and is the friction law (--friction) rich enough? Or move these joints "
            "faster and further.",
        ),
        (
            noisy,
            f"Torque of {noisy} is mostly noise and does not count in the average: move these "
            "joints faster, or with a load.",
        ),
        (still, f"{still} never moved: inertia and friction there are the prior's."),
    )
    return [sentence for named, sentence in sentences if named]


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
    border = [link for link, c in zip(links, consistency, strict=True) if c.margin < _BORDER_MARGIN]
    if border:
        return [
            f"{', '.join(border)} came out at the border of physical consistency: do not rely on "
            "the parts of their inertia that the data do not determine. If torques are affected, "
            "likely causes are noise, wrong drive gains, or friction that the law does not "
            "describe."
        ]
    return []


def _unidentified(identification: Identification) -> list[str]:
    if set(identification.base_labels) <= {"identified"}:
        return []
    return [
        f"Of {len(identification.base_labels)} base parameters {identification.unidentified()} "
        "(see parameters.csv): excite all joints for longer and faster."
    ]
