"""What a filter is: a belief carried from sample to sample by a model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Generic, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from bodysense.errors import ShapeError
from bodysense.kalman.belief import AnyBelief
from bodysense.kalman.model import StateModel, plain
from bodysense.spatial.arrays import Array

NOT_FINITE = (
    "the model's dynamics gave values that are not finite. Start with a smaller covariance, so "
    "that the state stays where the model is valid, or check the model."
)


class Prediction(NamedTuple, Generic[AnyBelief]):
    """A belief after a time step, and what ties it to the one before.

    Attributes:
        belief: at sample k + 1, from the measurements up to k.
        left: (n_x, n), with `right` (n, n_moving): their product is the covariance of the state at
            k with the moving part at k + 1. It is kept in two, as only a smoother needs it.
        right: see `left`.
    """

    belief: AnyBelief
    left: Array
    right: Array


class Correction(NamedTuple, Generic[AnyBelief]):
    """A belief after a measurement, and how that fitted.

    Attributes:
        belief: with the measurement.
        innovation: (n_y,) y - H mean; NaN where y is absent.
        variance: (n_y,) its variances, the diagonal of H P Hᵀ + R.
        squared: normalised innovation squared νᵀ(H P Hᵀ + R)⁻¹ν, NaN if all of y is absent; on a
            consistent model it is χ² with as many degrees of freedom as there are measurements.
        log_likelihood: of y given the past; zero if all of y is absent.
    """

    belief: AnyBelief
    innovation: Array
    variance: Array
    squared: float
    log_likelihood: float


class StateFilter(ABC, Generic[AnyBelief]):
    """A Kalman filter. Implementations are frozen dataclasses of settings.

    Nothing that goes in is changed. A belief that cannot be carried on comes back with its
    `failure` set.
    """

    name: ClassVar[str]
    square_root: ClassVar[bool]

    @abstractmethod
    def start(self, mean: ArrayLike, factor: ArrayLike) -> AnyBelief:
        """The belief with this mean (n_x,) and lower-triangular factor (n_x, n_x)."""

    @abstractmethod
    def step(self, model: StateModel, k: int, belief: AnyBelief) -> Prediction[AnyBelief]:
        """The time step from sample k to k + 1, with what a smoother needs of it."""

    @abstractmethod
    def correct(
        self, model: StateModel, k: int, belief: AnyBelief, y: Array
    ) -> Correction[AnyBelief]:
        """The measurement y (n_y,) of sample k, NaN where absent, with how it fitted.

        The measurement is linear, so sigma points would give exactly what is computed here.
        """

    @abstractmethod
    def restarted(self, belief: AnyBelief, mean: Array, factor: Array) -> AnyBelief:
        """The parameters' belief with a new one of the moving part, independent of it."""

    def doubt(self, belief: AnyBelief) -> str:
        """Why the belief that a run ended with is not to be used; empty where it is."""
        return belief.failure

    def predict(self, model: StateModel, k: int, belief: AnyBelief) -> AnyBelief:
        """The belief at sample k + 1 from that at sample k."""
        return self.step(model, k, belief).belief

    def update(
        self, model: StateModel, k: int, belief: AnyBelief, y: Array
    ) -> tuple[AnyBelief, Array, Array]:
        """The belief with the measurement y (n_y,) of sample k; NaN marks absent ones.

        Returns:
            The belief, (n_y,) the innovation y - H mean and (n_y,) its variances.
        """
        correction = self.correct(model, k, belief, y)
        return correction.belief, correction.innovation, correction.variance


def measurement(model: StateModel, x: Array, y: Array) -> tuple[Array, Array, Array]:
    """H, sigma and y that fit each other and the state.

    Raises:
        ShapeError: they do not.
    """
    H, sigma, values = plain(model.H), plain(model.sigma), plain(np.asarray(y))
    n_y = H.shape[0]
    if H.shape != (n_y, x.size) or sigma.shape != (n_y,) or values.shape != (n_y,):
        raise ShapeError(
            f"y {values.shape}, H {H.shape} and sigma {sigma.shape} do not fit a state of {x.size} "
            f"entries: expected ({n_y},), ({n_y}, {x.size}) and ({n_y},)."
        )
    return H, sigma, values
