"""All that a filter believed on its way, for a smoother."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bodysense.errors import ShapeError
from bodysense.kalman.belief import Belief
from bodysense.kalman.state_filter import Prediction
from bodysense.spatial.arrays import Array

_MOST_BYTES = 2 * 1024**3


@dataclass(frozen=True, eq=False)
class History:
    """Beliefs of n_t samples; what is said of sample 0 being predicted is the start.

    Attributes:
        means: (n_t, n_x) with the measurement of the sample.
        covariances: (n_t, n_x, n_x) with the measurement of the sample.
        predicted_means: (n_t, n_x) before it.
        predicted_covariances: (n_t, n_x, n_x) before it.
        crosses: (n_t, n_x, n_moving) covariance of the state at k with the moving part at k + 1;
            that with the parameters at k + 1 is a part of the covariance at k. The last is zero.
    """

    means: Array
    covariances: Array
    predicted_means: Array
    predicted_covariances: Array
    crosses: Array

    @classmethod
    def empty(cls, n_t: int, n_x: int, n_moving: int) -> History:
        """Room for n_t samples.

        Raises:
            ShapeError: that takes more than 2 GiB.
        """
        size = 8 * n_t * (2 * n_x * n_x + n_x * n_moving + 2 * n_x)
        if size > _MOST_BYTES:
            raise ShapeError(
                f"the history of {n_t} samples with {n_x} states would take {size / 2**20:.0f} MB: "
                "smooth a shorter stretch, at a lower rate, or run without a history."
            )
        return cls(
            np.zeros((n_t, n_x)),
            np.zeros((n_t, n_x, n_x)),
            np.zeros((n_t, n_x)),
            np.zeros((n_t, n_x, n_x)),
            np.zeros((n_t, n_x, n_moving)),
        )

    def first(self, steps: int) -> History:
        """The first samples of it."""
        return History(
            self.means[:steps],
            self.covariances[:steps],
            self.predicted_means[:steps],
            self.predicted_covariances[:steps],
            self.crosses[:steps],
        )

    def keep_prediction(self, k: int, belief: Belief) -> None:
        """Write what was believed of sample k before its measurement."""
        self.predicted_means[k] = belief.mean
        self.predicted_covariances[k] = belief.covariance

    def keep_correction(self, k: int, belief: Belief) -> None:
        """Write what was believed of sample k with its measurement."""
        self.means[k] = belief.mean
        self.covariances[k] = belief.covariance

    def keep_step(self, k: int, prediction: Prediction[Belief]) -> None:
        """Write what ties sample k to the next."""
        self.crosses[k] = prediction.left @ prediction.right
