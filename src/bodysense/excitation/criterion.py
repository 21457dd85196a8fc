"""What makes a motion a good one: functions of the information M = WᵀW that it gives.

W is the stacked regressor of the base parameters, rows divided by the torque's noise. Each
criterion has its value, as reported, and a smooth relative for the optimisation with its
derivative G, such that df = tr(G dM). Eigenvalues that meet make the largest and the smallest one
nonsmooth; they are replaced by norms of order p, which tend to them for large p:

    lambda_max ~ (sum lambda^p)^(1/p),      lambda_min ~ (sum lambda^-p)^(-1/p).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from bodysense.errors import TrajectoryError, unknown_name
from bodysense.excitation.information import EIGENVALUE_FLOOR, information
from bodysense.robot.base_parameters import BaseParameters
from bodysense.spatial.arrays import Array

Measure = Callable[[Array, float], tuple[float, float, Array]]
"""A criterion for one set of base parameters: from M (b, b) and the order p above to its value as
reported, a smooth monotone relative f of it, and its symmetric derivative G (b, b). Smaller is
better."""


def measure_rows(
    measure: Measure, W: Array, order: float, known: Array | float = 0.0
) -> tuple[float, float, Array]:
    """Value and f of rows W (n, m, b) and of information that is known, and df/dW (n, m, b)."""
    value, smooth, G = measure(known + information(W), order)
    Z = W.reshape(-1, W.shape[-1]) @ (2.0 * G)
    return value, smooth, Z.reshape(W.shape)


class Criterion(ABC):
    """What to minimise: `ConditionNumber`, `Determinant` or `Precision`.

    Class attributes:
        name: as on the command line.
    """

    name: ClassVar[str]

    @abstractmethod
    def measure(self, base: BaseParameters, sizes: Array) -> Measure:
        """Make it for base parameters of plausible sizes (b,)."""

    def gain(self, before: float, after: float, size: int) -> float:
        """Share by which the value of so many base parameters became smaller."""
        return 1.0 - after / before


@dataclass(frozen=True)
class ConditionNumber(Criterion):
    """J = k1 cond(WᵀW) + k2 / sigma_min(W), thesis eq (154).

    Columns stay as they are by default, so that the figure is the one that is published for such
    motions. It depends on units then: a kg·m² weighs as much as a kg.

    Attributes:
        k1: weight of the condition number, which is the square of that of W.
        k2: weight of the smallest singular value.
        scaled: multiply columns by the plausible sizes of their parameters, which makes the
            condition number free of units, and small parameters count as much as large ones.
    """

    name: ClassVar[str] = "condition"
    k1: float = 1.0
    k2: float = 100.0
    scaled: bool = False

    def __post_init__(self) -> None:
        if not (self.k1 >= 0.0 and self.k2 >= 0.0 and self.k1 + self.k2 > 0.0):
            raise TrajectoryError(
                f"k1 is {self.k1} and k2 is {self.k2}: give numbers from zero up, one above it."
            )

    def measure(self, base: BaseParameters, sizes: Array) -> Measure:
        scale = sizes if self.scaled else np.ones_like(sizes)
        return partial(_condition, self.k1, self.k2, scale)


@dataclass(frozen=True)
class Determinant(Criterion):
    """D-optimality: J = -log det(WᵀW), the logarithm of the volume of uncertainty, squared."""

    name: ClassVar[str] = "d-optimal"

    def measure(self, base: BaseParameters, sizes: Array) -> Measure:
        # Sizes would only add a constant.
        return _log_determinant

    def gain(self, before: float, after: float, size: int) -> float:
        """Share by which standard deviations became smaller, in the geometric mean."""
        return -float(np.expm1(0.5 * (after - before) / size))


@dataclass(frozen=True)
class Precision(Criterion):
    """The largest ratio of predicted standard deviation to its target; 1 and below reaches all.

    Attributes:
        targets: standard deviation wanted, by the name of a base parameter (its first parameter
            is enough: ``ZZ1`` for ``ZZ1 + Ia1``); others do not count. All, if None.
        share: with targets None, the target as a share of each parameter's plausible size.
    """

    name: ClassVar[str] = "precision"
    targets: Mapping[str, float] | None = None
    share: float = 0.05

    def __post_init__(self) -> None:
        if not 0.0 < self.share < np.inf:
            raise TrajectoryError(f"share is {self.share}: give a number above zero.")
        if self.targets is not None and not self.targets:
            raise TrajectoryError("targets is empty: name a parameter, or give None for all.")
        for name, target in (self.targets or {}).items():
            if not 0.0 < target < np.inf:
                raise TrajectoryError(f"the target of {name} is {target}: give one above zero.")

    def measure(self, base: BaseParameters, sizes: Array) -> Measure:
        if self.targets is None:
            return partial(_largest_ratio, 1.0 / (self.share * sizes))
        kept = [base.layout.names[k] for k in base.independent]
        weights = np.zeros(base.size)
        for name, target in self.targets.items():
            if name in base.names:
                weights[base.names.index(name)] = 1.0 / target
            elif name in kept:
                weights[kept.index(name)] = 1.0 / target
            elif name in base.regrouped:
                column = base.layout.names.index(name)
                shown = [base.names[k] for k in np.flatnonzero(base.mapping[:, column])]
                raise TrajectoryError(
                    f"{name} shows only in combination with others: aim at one of "
                    f"{'; '.join(shown)}, by its first name."
                )
            else:
                raise unknown_name("base parameter", name, kept)
        return partial(_largest_ratio, weights)


CRITERIA: Mapping[str, Criterion] = {
    criterion.name: criterion for criterion in (ConditionNumber(), Determinant(), Precision())
}
"""The criteria by name, with their defaults."""


def criterion_of(criterion: str | Criterion) -> Criterion:
    """Return a criterion given by name or as itself."""
    if isinstance(criterion, Criterion):
        return criterion
    if criterion not in CRITERIA:
        raise unknown_name("criterion", criterion, CRITERIA)
    return CRITERIA[criterion]


def _eigen(M: Array) -> tuple[Array, Array]:
    values, vectors = np.linalg.eigh(M)
    return np.maximum(values, max(EIGENVALUE_FLOOR * values[-1], np.finfo(float).tiny)), vectors


def _soft_max(logs: Array, order: float) -> tuple[float, Array]:
    """Log of the norm of order p of exp(logs), and its derivative by logs."""
    top = logs.max()
    parts = np.exp(order * (logs - top))
    total = parts.sum()
    return float(top + np.log(total) / order), parts / total


def _condition(
    k1: float, k2: float, scale: Array, M: Array, order: float
) -> tuple[float, float, Array]:
    values, vectors = _eigen(M * np.outer(scale, scale))
    logs = np.log(values)
    top, by_top = _soft_max(logs, order)
    low, by_low = _soft_max(-logs, order)  # minus the log of the smallest
    with np.errstate(divide="ignore"):
        both = np.log(k1) + top + low, np.log(k2) + 0.5 * low
    f = np.logaddexp(*both)
    first, second = np.exp(both[0] - f), np.exp(both[1] - f)
    slope = (first * by_top - (first + 0.5 * second) * by_low) / values
    scaled = scale[:, np.newaxis] * vectors
    value = k1 * values[-1] / values[0] + k2 / np.sqrt(values[0])
    return float(value), float(f), (scaled * slope) @ scaled.T


def _log_determinant(M: Array, order: float) -> tuple[float, float, Array]:
    scale = np.sqrt(np.maximum(np.diag(M), np.finfo(float).tiny))
    values, vectors = _eigen(M / np.outer(scale, scale))
    scaled = vectors / scale[:, np.newaxis]
    f = float(-np.log(values).sum() - 2.0 * np.log(scale).sum())
    return f, f, -(scaled / values) @ scaled.T


def _largest_ratio(weights: Array, M: Array, order: float) -> tuple[float, float, Array]:
    """By weights of one over target, zero where there is none."""
    scale = np.sqrt(np.maximum(np.diag(M), np.finfo(float).tiny))
    values, vectors = _eigen(M / np.outer(scale, scale))
    scaled = vectors / scale[:, np.newaxis]
    C = (scaled / values) @ scaled.T
    counted = weights > 0.0
    logs = np.log(np.diag(C)[counted] * weights[counted] ** 2)
    f, by = _soft_max(logs, order)
    slope = 0.5 * by / np.diag(C)[counted]
    columns = C[:, counted]
    value = float(np.exp(0.5 * logs.max()))
    return value, 0.5 * f, -(columns * slope) @ columns.T
