"""What came of running a filter over a recording."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from bodysense.errors import ShapeError
from bodysense.kalman.belief import Belief
from bodysense.kalman.history import History
from bodysense.kalman.model import StateModel, check_model
from bodysense.spatial.arrays import Array, as_array

RUNAWAY = 1e9
"""Size of the moving part from which on a filter has lost it."""

Restarts = Mapping[int, tuple[Array, Array]]
"""Samples at which the moving part starts anew: mean (n_moving,), factor (n_moving, n_moving)."""


@dataclass(frozen=True, eq=False)
class FilterRun:
    """A filter's belief after a recording, and how the measurements fitted on the way.

    Attributes:
        belief: the last one; where the run ended early, the last good one.
        means: (n_t, n_x) of the belief at each sample, NaN from where the run ended.
        innovations: (n_t, n_y) measurements less their prediction, NaN where absent.
        nis: (n_t,) normalised innovations squared, NaN where all are absent.
        log_likelihood: of all measurements.
        ok: whether the run reached the end and its result can be used.
        message: what went wrong, with advice; empty where nothing did.
        steps: number of samples that went in.
        history: all beliefs, if kept.
    """

    belief: Belief
    means: Array
    innovations: Array
    nis: Array
    log_likelihood: float
    ok: bool
    message: str
    steps: int
    history: History | None = None

    def summary(self) -> str:
        """One line: how far it came, and how well the measurements fitted."""
        rows = np.count_nonzero(np.isfinite(self.innovations[: self.steps]))
        level = float(np.nansum(self.nis)) / rows if rows else np.nan
        text = (
            f"{self.steps} of {self.nis.size} samples, log-likelihood {self.log_likelihood:.6g}, "
            f"normalised innovation squared {level:.3g} a measurement (1 if consistent)"
        )
        return f"{text}. {self.message}" if self.message else text


def checked_measurements(
    model: StateModel, mean: ArrayLike, y: ArrayLike, restarts: Restarts | None
) -> tuple[Array, dict[int, tuple[Array, Array]]]:
    """Measurements (n_t, n_y) and restarts that fit a model and each other.

    Raises:
        ShapeError: they do not, or a measurement is infinite.
    """
    n_y, n_x = check_model(model)
    as_array(mean, (n_x,), "mean")
    try:
        values = np.array(y, dtype=np.float64, order="C")
    except (TypeError, ValueError) as error:
        raise ShapeError(f"y must be an array of numbers: {error}") from error
    if values.ndim != 2 or values.shape[1] != n_y or values.shape[0] == 0:
        raise ShapeError(f"y has shape {values.shape}, expected (samples, {n_y}), 1 and more.")
    if np.isinf(values).any():
        at = tuple(int(i) for i in np.argwhere(np.isinf(values))[0])
        raise ShapeError(f"y holds an infinite value at {at}: write NaN where it is absent.")
    m, checked = model.n_moving, {}
    for k, (start, factor) in (restarts or {}).items():
        if not 0 < k < values.shape[0]:
            raise ShapeError(
                f"restart at sample {k}: give samples from 1 to {values.shape[0] - 1}."
            )
        checked[int(k)] = (
            as_array(start, (m,), f"mean of the restart at sample {k}"),
            as_array(factor, (m, m), f"factor of the restart at sample {k}"),
        )
        if np.triu(checked[int(k)][1], 1).any():
            raise ShapeError(f"factor of the restart at sample {k} is not lower triangular.")
    return values, checked
