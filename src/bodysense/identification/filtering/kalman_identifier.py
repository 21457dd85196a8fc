"""Joint filtering by a Kalman filter of either form, optionally smoothed."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from bodysense.identification.filtering.body_model import BodyModel
from bodysense.identification.filtering.filter_identifier import FilterIdentifier
from bodysense.identification.filtering.outcome import Outcome, sentence
from bodysense.identification.identification import Status
from bodysense.kalman.run import run_filter
from bodysense.kalman.smoother import smooth
from bodysense.kalman.state_filter import StateFilter
from bodysense.spatial.arrays import Array


@dataclass(frozen=True)
class KalmanIdentifier(FilterIdentifier):
    """Base of the identifiers by Kalman filters; settings as in `FilterIdentifier`.

    Attributes:
        smooth: whether a Rauch-Tung-Striebel pass follows. Parameters that stay put are known
            best after the last sample anyway, so that it changes little; with a drift the result
            is the mean over time of what the parameters were, with the mean of their covariances.
    """

    smooth: bool = False

    @abstractmethod
    def state_filter(self) -> StateFilter[Any]:
        """The filter with its settings."""

    def run(
        self, model: BodyModel, mean: Array, factor: Array, rng: np.random.Generator | None
    ) -> Outcome:
        """Filter all samples; nothing here is random."""
        starts = {k: start for k, start in model.starts.items() if k > 0}
        run = run_filter(
            self.state_filter(),
            model,
            mean,
            factor,
            model.y,
            keep_history=self.smooth,
            restarts=starts,
        )
        b = model.n_parameters
        p, root = run.belief.mean[:b], run.belief.factor[:b, :b]
        status = Status(run.ok, sentence(run.message))
        if run.ok and run.history is not None:
            smoothed = smooth(run.history)
            if smoothed.ok:
                p = smoothed.means[:, :b].mean(axis=0)
                root = _root(smoothed.covariances[:, :b, :b].mean(axis=0), root)
            else:
                status = Status(True, f"Not smoothed: {smoothed.message}")
        return Outcome(
            mean=np.array(p),
            root=np.array(root),
            path=run.means[:, :b],
            innovations=run.innovations,
            nis=run.nis,
            status=status,
        )


def _root(covariance: Array, otherwise: Array) -> Array:
    """(b, b) lower-triangular root, or the other one where rounding has left none."""
    try:
        return np.asarray(np.linalg.cholesky(covariance), dtype=np.float64)
    except np.linalg.LinAlgError:
        return otherwise
