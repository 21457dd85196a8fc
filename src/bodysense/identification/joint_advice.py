"""What there is to say of single joints: which count, moved too little, or are predicted poorly."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bodysense.errors import listing
from bodysense.identification.residual_causes import residual_causes
from bodysense.identification.scores import DataScores, Prediction, Score

# Errors are relative torque errors of moving joints, as fractions.

GOOD_JOINT = 0.2
"""Error of the worst joint up to which a result is good."""

FAIR_ERROR = 0.25
"""Mean error up to which a result is fair; of one joint: it is predicted poorly."""

NOISY_TORQUE = 0.25
"""Relative noise from which a joint's torque cannot be judged."""

HARDLY_MORE = 1.25
"""Times the noise: an error that is none of the model's."""

_HARDLY_BETTER = 0.9  # error over that of a constant, from which a prediction tells nothing
_HARDLY_MOVED = 0.02  # share of the samples in which a joint moves: too few to tell its drive


def percent(value: float) -> str:
    """A fraction as it is printed."""
    return f"{100.0 * value:.1f} %"


def counted(scores: DataScores, model: Score) -> NDArray[np.bool_]:
    """(n,) joints that move and whose torque is more than noise; all that move if it is not."""
    moving = np.isfinite(np.array(model.relative_error))
    clear = moving & (np.array(scores.filtered_noise) < NOISY_TORQUE)
    return np.asarray(clear if clear.any() else moving)


def predicted_poorly(
    names: Sequence[str], held_out: DataScores, predictions: Sequence[Prediction]
) -> list[str]:
    """Joints whose torque is predicted poorly, what their errors follow, and those of noise."""
    errors, noise = held_out.identified.moving.relative_error, held_out.filtered_noise
    table = list(zip(names, errors, noise, strict=True))
    poor = {
        name: f"{name} ({percent(error)})"
        for name, error, level in table
        if error > max(GOOD_JOINT, HARDLY_MORE * level) and level < NOISY_TORQUE
    }
    noisy = ", ".join(
        f"{name} ({percent(error)})"
        for name, error, level in table
        if error > FAIR_ERROR and level >= NOISY_TORQUE
    )
    causes = residual_causes(names, predictions, poor)
    sentences = [
        f"Torque is predicted poorly for {what}; {percent(causes[name].share)} of its squared "
        f"error follow {causes[name].follows}: {causes[name].remedy}."
        for name, what in poor.items()
        if name in causes
    ]
    if unexplained := ", ".join(what for name, what in poor.items() if name not in causes):
        sentences.append(
            f"Torque is predicted poorly for {unexplained}: are drives coupled (actuator file), "
            "their gains right, and is the friction law (--friction) rich enough? Or move these "
            "joints faster and further."
        )
    if noisy:
        sentences.append(
            f"Torque of {noisy} is mostly noise and does not count in the average: move these "
            "joints faster, or with a load."
        )
    return sentences


def no_better_than_constant(
    names: Sequence[str], predictions: Sequence[Prediction], judged: Sequence[DataScores]
) -> list[str]:
    """Joints whose torque a constant predicts as well while they move."""
    if not predictions:
        return []
    moving, tau, error = (
        np.concatenate(parts)
        for parts in zip(
            *((p.moving, p.filtered, p.filtered - p.identified_filtered) for p in predictions),
            strict=True,
        )
    )
    count = np.any([counted(data, data.identified.moving) for data in judged], axis=0)
    poor = []
    for j in np.flatnonzero(count):
        own = moving[:, j]
        if np.sqrt(np.mean(error[own, j] ** 2)) > _HARDLY_BETTER * tau[own, j].std() > 0.0:
            poor.append(names[int(j)])
    if not poor:
        return []
    return [
        f"Torque of {listing(poor)} is predicted no better than by a constant: check the order of "
        "the channels and the time stamps."
    ]


def hardly_moved(names: Sequence[str], training: DataScores) -> list[str]:
    """Joints that never moved in the training data, or hardly ever."""
    moved, all_samples = training.identified.moving.samples, training.identified.all.samples
    share = [part / max(1, whole) for part, whole in zip(moved, all_samples, strict=True)]
    never = ", ".join(name for name, x in zip(names, share, strict=True) if x == 0.0)
    hardly = listing(name for name, x in zip(names, share, strict=True) if 0.0 < x < _HARDLY_MOVED)
    return [
        f"{which} {moved} moved: inertia and friction there are the prior's."
        for which, moved in ((never, "never"), (hardly, "hardly"))
        if which
    ]


def moved_once(names: Sequence[str], training: DataScores, held_out: DataScores) -> list[str]:
    """Joints whose motion was in one held-out fold, or nearly, so that nothing else predicts it."""
    moved, judged = training.identified.moving.samples, held_out.identified.moving.samples
    once = listing(
        name for name, all_of, told in zip(names, moved, judged, strict=True) if all_of > 0 == told
    )
    return [
        f"{once} moved only once, so that no other part of the recording can judge the result "
        "there: move it several times, or give another recording with --validate."
    ] * bool(once)
