"""How well a model predicts torques: on training data, on unseen data, and the prior alone.

    relative error of joint j = ‖tau_j - prediction_j‖ / ‖tau_j‖                    over samples
    d_tau = mean over samples of ‖tau - prediction‖ / ‖tau‖                         thesis eq (157)

Both are given against the filtered torque (prediction filtered alike) and against the raw one. The
raw one holds noise that no model can predict: its share is the noise floor. Where joints stand,
friction holds them with any torque, so that moving and still samples are scored apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bodysense.files import plain
from bodysense.identification.preprocessing import (
    STILL_SPEED,
    Motion,
    Preprocessing,
    standing,
    usable_cutoff,
)
from bodysense.logs.filtering import lowpass
from bodysense.robot.dynamics import inverse_dynamics
from bodysense.robot.robot import Robot
from bodysense.spatial.arrays import Array

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
        noise_floor: relative difference of raw and filtered torque, per joint.
        noise_floor_d_tau: the same as d_tau.
        filtered_noise: relative noise that is left in the filtered torque, per joint, if noise is
            white: what the filter took out tells how much it let through.
        identified: scores of the identified model.
        prior: scores of the model before.
    """

    source: str
    kind: Kind
    noise_floor: tuple[float, ...]
    noise_floor_d_tau: float
    filtered_noise: tuple[float, ...]
    identified: ModelScores
    prior: ModelScores

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON: what is not a number becomes null."""
        return dict(plain(asdict(self)))


@dataclass(frozen=True, eq=False)
class Prediction:
    """Measured and predicted torques of one piece of a recording.

    Attributes:
        source: name of the recording.
        kind: as in `DataScores`.
        t: (n_t,) times [s].
        raw: (n_t, n) torques as recorded.
        filtered: (n_t, n) torques, filtered.
        identified: (n_t, n) prediction of the identified model, not filtered.
        prior: (n_t, n) prediction of the model before, not filtered.
        identified_filtered: (n_t, n) prediction, filtered like the torques.
        prior_filtered: (n_t, n) likewise.
        moving: (n_t, n) whether a joint moves.
        passed: share of white noise's power that the filter lets through.
    """

    source: str
    kind: Kind
    t: Array
    raw: Array
    filtered: Array
    identified: Array
    prior: Array
    identified_filtered: Array
    prior_filtered: Array
    moving: NDArray[np.bool_]
    passed: float


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

    With `fold` (n_t,) of each sample, theta has one vector per fold, fitted without that fold.
    """
    q, v, a = motion.q, motion.v, motion.a

    def torque(parameters: Array) -> Array:
        return inverse_dynamics(robot, q, v, a, theta=parameters)

    def smooth(x: Array) -> Array:
        if settings.cutoff is None:
            return x
        return lowpass(
            x, motion.rate, usable_cutoff(settings.cutoff, motion.rate), order=settings.order
        )

    # Filtered before folds are put together: the joints between blocks are no part of the signal.
    identified, identified_filtered = np.empty_like(q), np.empty_like(q)
    for k, parameters in enumerate(theta):
        mine = slice(None) if fold is None else fold == k
        whole = torque(parameters)
        identified[mine] = whole[mine]
        identified_filtered[mine] = smooth(whole)[mine]
    prior = torque(robot.theta)
    return Prediction(
        source=source,
        kind=kind,
        t=motion.t,
        raw=motion.tau_raw,
        filtered=motion.tau,
        identified=identified,
        prior=prior,
        identified_filtered=identified_filtered,
        prior_filtered=smooth(prior),
        moving=~standing(v, STILL_SPEED),
        passed=2.0 * usable_cutoff(settings.cutoff or np.inf, motion.rate) / motion.rate,
    )


def score(predictions: Sequence[Prediction]) -> DataScores:
    """Scores over the pieces of one recording, or of several."""
    first = predictions[0]
    sources = list(dict.fromkeys(p.source for p in predictions))
    floors = [_Sums.of(p.raw, p.filtered, None) for p in predictions]
    floor = sum(floors[1:], floors[0])
    return DataScores(
        source=", ".join(sources),
        kind=first.kind,
        noise_floor=floor.relative,
        noise_floor_d_tau=floor.d,
        filtered_noise=_filtered_noise(predictions),
        identified=_model_scores(
            predictions, [(p.identified, p.identified_filtered) for p in predictions]
        ),
        prior=_model_scores(predictions, [(p.prior, p.prior_filtered) for p in predictions]),
    )


def _filtered_noise(predictions: Sequence[Prediction]) -> tuple[float, ...]:
    noise, signal = np.zeros((2, predictions[0].raw.shape[1]))
    for p in predictions:
        if p.passed < 1.0:
            removed = np.square(p.raw - p.filtered).sum(axis=0)
            noise += removed * (p.passed / (1.0 - p.passed))
        signal += np.square(p.filtered).sum(axis=0)
    return tuple(
        float(min(1.0, np.sqrt(n / s))) if s > 0.0 else float("nan")
        for n, s in zip(noise, signal, strict=True)
    )


@dataclass(frozen=True, eq=False)
class _Sums:
    """Sums over samples, from which all scores follow."""

    count: Array
    error: Array
    signal: Array
    ratios: float
    instants: float

    @classmethod
    def of(cls, tau: Array, prediction: Array, rows: NDArray[np.bool_] | None) -> _Sums:
        error, signal = np.square(tau - prediction), np.square(tau)
        count = np.full(tau.shape[1], float(tau.shape[0]))
        if rows is not None:
            error, signal = np.where(rows, error, 0.0), np.where(rows, signal, 0.0)
            count = rows.sum(axis=0).astype(np.float64)
        size = np.sqrt(signal.sum(axis=1))
        present = size > 0.0
        ratios = np.sqrt(error.sum(axis=1))[present] / size[present]
        return cls(
            count, error.sum(axis=0), signal.sum(axis=0), float(ratios.sum()), float(present.sum())
        )

    def __add__(self, other: _Sums) -> _Sums:
        return _Sums(
            self.count + other.count,
            self.error + other.error,
            self.signal + other.signal,
            self.ratios + other.ratios,
            self.instants + other.instants,
        )

    @property
    def relative(self) -> tuple[float, ...]:
        return tuple(
            float(np.sqrt(e / s)) if s > 0.0 else float("nan")
            for e, s in zip(self.error, self.signal, strict=True)
        )

    @property
    def rms(self) -> tuple[float, ...]:
        return tuple(
            float(np.sqrt(e / n)) if n > 0.0 else float("nan")
            for e, n in zip(self.error, self.count, strict=True)
        )

    @property
    def d(self) -> float:
        return self.ratios / self.instants if self.instants else float("nan")


def _model_scores(
    predictions: Sequence[Prediction], models: Sequence[tuple[Array, Array]]
) -> ModelScores:
    scores = {}
    for subset in ("all", "moving", "still"):
        filtered, raw = [], []
        for p, (unfiltered, smooth) in zip(predictions, models, strict=True):
            rows = None if subset == "all" else p.moving if subset == "moving" else ~p.moving
            filtered.append(_Sums.of(p.filtered, smooth, rows))
            raw.append(_Sums.of(p.raw, unfiltered, rows))
        against_filtered, against_raw = (sum(s[1:], s[0]) for s in (filtered, raw))
        scores[subset] = Score(
            samples=tuple(int(n) for n in against_filtered.count),
            relative_error=against_filtered.relative,
            relative_error_raw=against_raw.relative,
            rms_error=against_filtered.rms,
            d_tau=against_filtered.d,
            d_tau_raw=against_raw.d,
        )
    return ModelScores(**scores)
