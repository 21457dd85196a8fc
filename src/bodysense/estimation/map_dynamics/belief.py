"""`Belief`: a mean and a covariance, for what is assumed before any reading."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from bodysense.errors import ShapeError
from bodysense.robot.sensors.covariance import checked_covariance
from bodysense.spatial.arrays import Array, as_array, read_only

UNKNOWN = 1e3
"""Standard deviation of what is not known at all, in SI units.

Wide beside what robots feel; not wider, since in poses in which readings say little about a wrench
the smallest error of the model would be blown up to it.
"""


@dataclass(frozen=True, eq=False)
class Belief:
    """A Gaussian belief about k numbers.

    Attributes:
        mean: (k,).
        covariance: (k, k), zero where there is no doubt.
    """

    mean: Array
    covariance: Array

    def __post_init__(self) -> None:
        mean = as_array(self.mean, (None,), "the mean of a belief")
        covariance = checked_covariance(self.covariance, mean.size, "the covariance of a belief")
        object.__setattr__(self, "mean", read_only(mean))
        object.__setattr__(self, "covariance", covariance)

    @classmethod
    def of(cls, mean: ArrayLike, std: ArrayLike) -> Belief:
        """Independent numbers: means (k,) and standard deviations, one or (k,)."""
        centre = as_array(mean, (None,), "mean")
        sigma = np.broadcast_to(np.asarray(std, dtype=np.float64), centre.shape)
        if (sigma < 0.0).any():
            raise ShapeError(f"std of a belief is {sigma.min():g}: give numbers from zero up.")
        return cls(centre, np.diag(sigma**2))

    @classmethod
    def zero(cls, k: int, std: ArrayLike = 0.0) -> Belief:
        """Zero, up to a standard deviation."""
        return cls.of(np.zeros(k), std)

    @classmethod
    def unknown(cls, k: int) -> Belief:
        """Anything."""
        return cls.of(np.zeros(k), UNKNOWN)
