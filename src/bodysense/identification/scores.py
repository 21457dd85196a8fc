"""How well a model predicts torques: on training data, on unseen data, and the prior alone.

    relative error of joint j = ‖tau_j - prediction_j‖ / ‖tau_j‖                    over samples
    d_tau = mean over samples of ‖tau - prediction‖ / ‖tau‖                         thesis eq (157)

Both are given against the filtered torque (prediction filtered alike) and against the raw one. The
filter is that of the reference bandwidth (see `Bandwidth`), which the recordings determine: a lower
cut-off, chosen or given, makes no score look better. The raw torque holds noise that no model can
predict: its share is the noise floor. Where joints stand, friction holds them with any torque, so
that moving and still samples are scored apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bodysense.files import plain
from bodysense.identification.preprocessing import FOLDS, Motion, Preprocessing
from bodysense.logs.filtering import STILL_SPEED, lowpass, standing, usable_cutoff
from bodysense.robot.dynamics import inverse_dynamics
from bodysense.robot.robot import Robot
from bodysense.spatial.arrays import Array

_FAST_SHARE = 0.2  # of a joint's r.m.s. speed: below, friction may reverse or stick
_ELSEWHERE = 0.25  # share of a joint's motion outside of a fold, without which nothing predicts it

_LEAST_LINES = 8  # of a spectrum that tell a level

Kind = Literal["training", "held-out", "validation"]


@dataclass(frozen=True)
class Score:
    """Errors of one model on one set of samples, per joint where a tuple.

    Attributes:
        samples: how many samples (for moving and still: of each joint).
        relative_error: against filtered torque; NaN where a joint has no samples.
        relative_error_raw: against raw torque.
        rms_error: against filtered torque [N·m or N].
        d_tau: against filtered torque.
        d_tau_raw: against raw torque.
    """

    samples: tuple[int, ...]
    relative_error: tuple[float, ...]
    relative_error_raw: tuple[float, ...]
    rms_error: tuple[float, ...]
    d_tau: float
    d_tau_raw: float

    @property
    def mean_relative_error(self) -> float:
        """Mean over joints that have samples."""
        values = [v for v in self.relative_error if np.isfinite(v)]
        return float(np.mean(values)) if values else float("nan")


@dataclass(frozen=True)
class ModelScores:
    """Scores of one model on all samples, and on those of moving and of standing joints."""

    all: Score
    moving: Score
    still: Score


@dataclass(frozen=True)
class DataScores:
    """Scores on one recording, or on all training data.

    Attributes:
        source: name of the recording.
        kind: ``training``, ``held-out`` (folds left out in turn) or ``validation``.
        bandwidth: of the torques that are compared [Hz].
        noise_floor: relative difference of raw and filtered torque, per joint.
        noise_floor_d_tau: the same as d_tau.
        filtered_noise: relative noise that is left in the filtered torque, per joint, if noise is
            white: residuals above the bandwidth tell how much there is below.
        identified: scores of the identified model.
        prior: scores of the model before.
    """

    source: str
    kind: Kind
    bandwidth: float
    noise_floor: tuple[float, ...]
    noise_floor_d_tau: float
    filtered_noise: tuple[float, ...]
    identified: ModelScores
    prior: ModelScores

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON: what is not a number becomes null."""
        return dict(plain(asdict(self)))


def mean_noise(scores: Sequence[DataScores]) -> float:
    """Share of noise in the raw torque, averaged over recordings."""
    levels = [data.noise_floor_d_tau for data in scores if np.isfinite(data.noise_floor_d_tau)]
    return float(np.mean(levels)) if levels else np.nan


@dataclass(frozen=True, eq=False)
class Prediction:
    """Measured and predicted torques of one piece of a recording.

    Attributes:
        source: name of the recording.
        kind: as in `DataScores`.
        log: number of the recording among those of its kind.
        t: (n_t,) times [s].
        raw: (n_t, n) torques as recorded.
        filtered: (n_t, n) torques, filtered.
        identified: (n_t, n) prediction of the identified model, not filtered.
        prior: (n_t, n) prediction of the model before, not filtered.
        identified_filtered: (n_t, n) prediction, filtered like the torques.
        prior_filtered: (n_t, n) likewise.
        moving: (n_t, n) whether a joint moves.
        fast: (n_t, n) whether it moves so fast that friction is not about to reverse.
        passed: share of white noise's power that the filter lets through.
        bandwidth: of the filter [Hz].
        motion: that was predicted, at this bandwidth.
    """

    source: str
    kind: Kind
    log: int
    t: Array
    raw: Array
    filtered: Array
    identified: Array
    prior: Array
    identified_filtered: Array
    prior_filtered: Array
    moving: NDArray[np.bool_]
    fast: NDArray[np.bool_]
    passed: float
    bandwidth: float
    motion: Motion | None = None


def predict(
    robot: Robot,
    motion: Motion,
    settings: Preprocessing,
    theta: Sequence[Array],
    *,
    fold: NDArray[np.int64] | None = None,
    source: str,
    kind: Kind,
) -> Prediction:
    """Predict the torques of a motion, with parameters theta (p,) and with the prior's.

    Motion and settings are those of scores (see `Preprocessing.for_scores`). With `fold` (n_t,) of
    each sample, theta has one vector per fold, fitted without that fold.
    """
    q, v, a, cutoff = motion.q, motion.v, motion.a, settings.cutoff
    bandwidth = usable_cutoff(motion.rate if cutoff is None else cutoff, motion.rate)

    def torque(parameters: Array) -> Array:
        return inverse_dynamics(robot, q, v, a, theta=parameters)

    def smooth(x: Array) -> Array:
        return x if cutoff is None else lowpass(x, motion.rate, bandwidth, order=settings.order)

    # Filtered before folds are put together: the joints between blocks are no part of the signal.
    identified, identified_filtered = np.empty_like(q), np.empty_like(q)
    for k, parameters in enumerate(theta):
        mine = slice(None) if fold is None else fold == k
        whole = torque(parameters)
        identified[mine] = whole[mine]
        identified_filtered[mine] = smooth(whole)[mine]
    prior, still = torque(robot.theta), standing(v, STILL_SPEED)
    moving = ~(still if motion.still is None else still | motion.still)
    return Prediction(
        source=source,
        kind=kind,
        log=motion.log,
        t=motion.t,
        raw=motion.tau_raw,
        filtered=motion.tau,
        identified=identified,
        prior=prior,
        identified_filtered=identified_filtered,
        prior_filtered=smooth(prior),
        moving=moving,
        fast=moving & (np.abs(v) > _FAST_SHARE * np.sqrt(np.mean(v**2, axis=0))),
        passed=2.0 * bandwidth / motion.rate,
        bandwidth=bandwidth,
        motion=motion,
    )


def predicted_by_others(
    predictions: Sequence[Prediction], folds: Sequence[NDArray[np.int64]]
) -> list[Prediction]:
    """Held-out predictions whose joints count as moving only where other folds have them moving.

    What moves once, and in one fold (n_t,) of its recording, nothing else can predict: its error
    there says what the prior is worth, and nothing of the fit.
    """
    counts = np.zeros((FOLDS, predictions[0].moving.shape[1]))
    for p, fold in zip(predictions, folds, strict=True):
        np.add.at(counts, fold, p.moving)
    whole = counts.sum(axis=0)
    told = whole - counts >= _ELSEWHERE * np.maximum(whole, 1.0)
    return [
        replace(p, moving=p.moving & told[fold]) for p, fold in zip(predictions, folds, strict=True)
    ]


def score(predictions: Sequence[Prediction]) -> DataScores:
    """Scores over the pieces of one recording, or of several."""

    def whole(name: str) -> Array:
        return np.concatenate([getattr(p, name) for p in predictions])

    raw, filtered, moving = whole("raw"), whole("filtered"), whole("moving").astype(np.bool_)
    floor, all_rows = _Errors.from_torques(raw, filtered), np.ones_like(moving)

    def model_scores(model: str) -> ModelScores:
        made = []
        for rows in (all_rows, moving, ~moving):
            smooth = _Errors.from_torques(filtered, whole(f"{model}_filtered"), rows)
            rough = _Errors.from_torques(raw, whole(model), rows)
            made.append(
                Score(
                    samples=tuple(int(n) for n in rows.sum(axis=0)),
                    relative_error=smooth.relative,
                    relative_error_raw=rough.relative,
                    rms_error=smooth.rms,
                    d_tau=smooth.d_tau,
                    d_tau_raw=rough.d_tau,
                )
            )
        return ModelScores(*made)

    return DataScores(
        source=", ".join(dict.fromkeys(p.source for p in predictions)),
        kind=predictions[0].kind,
        bandwidth=min(p.bandwidth for p in predictions),
        noise_floor=floor.relative,
        noise_floor_d_tau=floor.d_tau,
        filtered_noise=_filtered_noise(predictions),
        identified=model_scores("identified"),
        prior=model_scores("prior"),
    )


def _filtered_noise(predictions: Sequence[Prediction]) -> tuple[float, ...]:
    noise, signal = np.zeros((2, predictions[0].raw.shape[1]))
    for p in predictions:
        noise += p.t.size * p.passed * _white_noise(p.raw - p.identified, p.passed)
        signal += np.square(p.filtered).sum(axis=0)
    return tuple(min(1.0, x) if np.isfinite(x) else x for x in _roots(noise, signal))


def _white_noise(residual: Array, passed: float) -> Array:
    """(n,) variance of white noise in residuals (n_t, n), from their spectrum above the bandwidth.

    Its median: a model that is wrong at some frequencies, as at reversals of friction, is no noise.
    """
    window = np.hanning(residual.shape[0])
    first = int(np.ceil(0.5 * passed * residual.shape[0])) + 1
    levels = np.zeros(residual.shape[1])
    for j, x in enumerate(residual.T):
        power = np.abs(np.fft.rfft((x - x.mean()) * window)[first:]) ** 2
        if power.size >= _LEAST_LINES:
            # Lines of a spectrum are exponentially distributed: their median is log 2 of the mean.
            levels[j] = np.median(power) / np.log(2.0) / np.square(window).sum()
    return levels


class _Errors(NamedTuple):
    """Errors of predicted torques; NaN where a joint has no samples, or no torque."""

    relative: tuple[float, ...]
    rms: tuple[float, ...]
    d_tau: float

    @classmethod
    def from_torques(
        cls, tau: Array, prediction: Array, rows: NDArray[np.bool_] | None = None
    ) -> _Errors:
        used = np.ones(tau.shape, dtype=np.bool_) if rows is None else rows
        error = np.where(used, np.square(tau - prediction), 0.0)
        signal = np.where(used, np.square(tau), 0.0)
        size = np.sqrt(signal.sum(axis=1))
        present = size > 0.0
        ratios = np.sqrt(error.sum(axis=1))[present] / size[present]
        total = error.sum(axis=0)
        return cls(
            _roots(total, signal.sum(axis=0)),
            _roots(total, used.sum(axis=0)),
            float(ratios.mean()) if ratios.size else float("nan"),
        )


def _roots(squares: Array, units: Array) -> tuple[float, ...]:
    """Roots of squares in units, NaN where a unit is zero."""
    return tuple(
        float(np.sqrt(square / unit)) if unit > 0.0 else float("nan")
        for square, unit in zip(squares, units, strict=True)
    )
