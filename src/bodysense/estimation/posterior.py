"""`Posterior`: estimates with their uncertainty, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from bodysense.errors import ShapeError, unknown_name
from bodysense.estimation.named_slices import NamedSlices
from bodysense.spatial.arrays import Array


@dataclass(frozen=True, eq=False)
class Posterior:
    """Means and covariances of T moments; a single moment has no first axis.

    Attributes:
        variables: names ↔ slices of the numbers.
        mean: (T, size) or (size,).
        variance: alike; `None` if it was not asked for.
        blocks: (T, k, k) covariances by variable; empty if they were not asked for.
        residual: by sensor, (T, m): reading minus prediction, NaN where there was no reading.
        absent: by sensor, how many of its readings were missing.
        score: (T, 2) log-determinants and squares, for `log_likelihood`.
        notes: what the user should know.
    """

    variables: NamedSlices
    mean: Array
    variance: Array | None = None
    blocks: Mapping[str, Array] = field(default_factory=dict)
    residual: Mapping[str, Array] = field(default_factory=dict)
    absent: Mapping[str, int] = field(default_factory=dict)
    chi_square: Mapping[str, Array] = field(default_factory=dict)
    log_likelihood: Array | None = None
    notes: tuple[str, ...] = ()
    _dense: Callable[[], Array] | None = None

    def __getitem__(self, name: str) -> Array:
        """Mean of a variable."""
        return self.mean[..., self.variables[name]]

    def sigma(self, name: str) -> Array:
        """Standard deviation of a variable."""
        if self.variance is None:
            raise ShapeError("no variances were computed: ask for them (covariance='variances').")
        deviation: Array = np.sqrt(self.variance[..., self.variables[name]])
        return deviation

    def covariance(self, name: str) -> Array:
        """(…, k, k) marginal covariance of a variable."""
        if name not in self.variables:
            raise unknown_name("variable", name, self.variables)
        if name not in self.blocks:
            raise ShapeError("no covariances were computed: ask for them (covariance='blocks').")
        return self.blocks[name]
