"""What makes a motion a good one: functions of the information M = WᵀW that it gives.

W is the stacked regressor of the base parameters, rows divided by the torque's noise. Each
criterion has its value, as reported, and a smooth relative for the optimisation with its
derivative G, such that df = tr(G dM). Eigenvalues that meet make the largest and the smallest one
nonsmooth; they are replaced by norms of order p, which tend to them for large p:

    lambda_max ~ (sum lambda^p)^(1/p),      lambda_min ~ (sum lambda^-p)^(-1/p).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bodysense.errors import TrajectoryError, unknown_name
from bodysense.robot._kernels.adjoint import regressor_rows, regressor_rows_adjoint
from bodysense.robot.base_parameters import BaseParameters
from bodysense.robot.dynamics import regressor_pattern
from bodysense.robot.robot import Robot
from bodysense.spatial.arrays import Array

_FLOOR = 1e-15
"""Eigenvalues below this share of the largest are rounding."""


class Measure(ABC):
    """A criterion for one set of base parameters. Smaller is better."""

    def value(self, M: Array) -> float:
        """The criterion, as reported."""
        return self.smooth(M, 1.0)[0]

    @abstractmethod
    def smooth(self, M: Array, order: float) -> tuple[float, float, Array]:
        """The criterion, a smooth monotone relative f of it, and its derivative G (b, b).

        G is symmetric; `order` is the p above.
        """


class Criterion(ABC):
    """What to minimise: `ConditionNumber`, `Determinant` or `Precision`."""

    @property
    @abstractmethod
    def name(self) -> str:
        """As on the command line."""

    @abstractmethod
    def measure(self, base: BaseParameters, sizes: Array) -> Measure:
        """Make it for base parameters of plausible sizes (b,)."""


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

    k1: float = 1.0
    k2: float = 100.0
    scaled: bool = False

    def __post_init__(self) -> None:
        if not (self.k1 >= 0.0 and self.k2 >= 0.0 and self.k1 + self.k2 > 0.0):
            raise TrajectoryError(
                f"k1 is {self.k1} and k2 is {self.k2}: give numbers from zero up, one above it."
            )

    @property
    def name(self) -> str:
        """``condition``."""
        return "condition"

    def measure(self, base: BaseParameters, sizes: Array) -> Measure:
        """Make it for base parameters of plausible sizes (b,)."""
        return _Condition(self.k1, self.k2, sizes if self.scaled else np.ones_like(sizes))


@dataclass(frozen=True)
class Determinant(Criterion):
    """D-optimality: J = -log det(WᵀW), the logarithm of the volume of uncertainty, squared."""

    @property
    def name(self) -> str:
        """``d-optimal``."""
        return "d-optimal"

    def measure(self, base: BaseParameters, sizes: Array) -> Measure:
        """Make it for base parameters; their sizes would only add a constant."""
        return _LogDeterminant()


@dataclass(frozen=True)
class Precision(Criterion):
    """The largest ratio of predicted standard deviation to its target; 1 and below reaches all.

    Attributes:
        targets: standard deviation wanted, by the name of a base parameter (its first parameter
            is enough: ``ZZ1`` for ``ZZ1 + Ia1``); others do not count. All, if None.
        share: with targets None, the target as a share of each parameter's plausible size.
    """

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

    @property
    def name(self) -> str:
        """``precision``."""
        return "precision"

    def measure(self, base: BaseParameters, sizes: Array) -> Measure:
        """Make it for base parameters of plausible sizes (b,)."""
        if self.targets is None:
            return _LargestRatio(1.0 / (self.share * sizes))
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
        return _LargestRatio(weights)


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


def condition_number(M: Array) -> float:
    """cond(W) = sqrt(cond(M)), infinite for a singular M."""
    values = np.linalg.eigvalsh(M)
    if not values[0] > _FLOOR * values[-1]:
        return float("inf")
    return float(np.sqrt(values[-1] / values[0]))


def _eigen(M: Array) -> tuple[Array, Array]:
    values, vectors = np.linalg.eigh(M)
    return np.maximum(values, max(_FLOOR * values[-1], np.finfo(float).tiny)), vectors


def _soft_max(logs: Array, order: float) -> tuple[float, Array]:
    """Log of the norm of order p of exp(logs), and its derivative by logs."""
    top = logs.max()
    parts = np.exp(order * (logs - top))
    total = parts.sum()
    return float(top + np.log(total) / order), parts / total


@dataclass(frozen=True, eq=False)
class _Condition(Measure):
    k1: float
    k2: float
    scale: Array

    def smooth(self, M: Array, order: float) -> tuple[float, float, Array]:
        values, vectors = _eigen(M * np.outer(self.scale, self.scale))
        logs = np.log(values)
        top, by_top = _soft_max(logs, order)
        low, by_low = _soft_max(-logs, order)  # minus the log of the smallest
        with np.errstate(divide="ignore"):
            both = np.log(self.k1) + top + low, np.log(self.k2) + 0.5 * low
        f = np.logaddexp(*both)
        first, second = np.exp(both[0] - f), np.exp(both[1] - f)
        slope = (first * by_top - (first + 0.5 * second) * by_low) / values
        scaled = self.scale[:, np.newaxis] * vectors
        value = self.k1 * values[-1] / values[0] + self.k2 / np.sqrt(values[0])
        return float(value), float(f), (scaled * slope) @ scaled.T


@dataclass(frozen=True, eq=False)
class _LogDeterminant(Measure):
    def smooth(self, M: Array, order: float) -> tuple[float, float, Array]:
        scale = np.sqrt(np.maximum(np.diag(M), np.finfo(float).tiny))
        values, vectors = _eigen(M / np.outer(scale, scale))
        scaled = vectors / scale[:, np.newaxis]
        f = float(-np.log(values).sum() - 2.0 * np.log(scale).sum())
        return f, f, -(scaled / values) @ scaled.T


@dataclass(frozen=True, eq=False)
class _LargestRatio(Measure):
    weights: Array  # one over target, zero where none

    def smooth(self, M: Array, order: float) -> tuple[float, float, Array]:
        scale = np.sqrt(np.maximum(np.diag(M), np.finfo(float).tiny))
        values, vectors = _eigen(M / np.outer(scale, scale))
        scaled = vectors / scale[:, np.newaxis]
        C = (scaled / values) @ scaled.T
        counted = self.weights > 0.0
        logs = np.log(np.diag(C)[counted] * self.weights[counted] ** 2)
        f, by = _soft_max(logs, order)
        slope = 0.5 * by / np.diag(C)[counted]
        columns = C[:, counted]
        value = float(np.exp(0.5 * logs.max()))
        return value, 0.5 * f, -(columns * slope) @ columns.T


# The regressor of base parameters in the rows of moving joints, and how it changes.


@dataclass(frozen=True, eq=False)
class BaseRegressor:
    """W(q, v, a) of m moving joints and b base parameters, rows times a scale.

    It runs on the thread that calls it, without Python's lock, so that several optimisations can
    run at once.

    Attributes:
        robot: with a fixed base.
        moving: (m,) places of the joints whose rows count.
        base: its base parameters.
    """

    robot: Robot
    moving: NDArray[np.int64]
    base: BaseParameters

    @cached_property
    def _entries(self) -> NDArray[np.int64]:
        """(n_e, 4) entries of Y that are not zero: row, column, row and column in W."""
        pattern = regressor_pattern(self.robot)[np.ix_(self.moving, self.base.independent)]
        rows, columns = np.nonzero(pattern)
        entries = [self.moving[rows], self.base.independent[columns], rows, columns]
        return np.ascontiguousarray(np.stack(entries, axis=1), dtype=np.int64)

    def rows(self, q: Array, v: Array, a: Array, scale: Array) -> Array:
        """W (n, m, b) at samples q, v, a (n, n_joints), each row times its scale (m,)."""
        W = np.zeros((q.shape[0], self.moving.size, self.base.size))
        q, v, a = (np.require(x, requirements=("C", "W")) for x in (q, v, a))
        regressor_rows(0, q.shape[0], self.robot.tree, q, v, a, self._entries, scale, W)
        return W

    def pull(
        self, q: Array, v: Array, a: Array, scale: Array, Z: Array
    ) -> tuple[Array, Array, Array]:
        """Gradients (n, n_joints) by q, v, a of a function of W with df/dW = Z (n, m, b)."""
        q, v, a, Z = (np.require(x, requirements=("C", "W")) for x in (q, v, a, Z))
        gq, gv, ga = np.zeros_like(q), np.zeros_like(q), np.zeros_like(q)
        regressor_rows_adjoint(
            0, q.shape[0], self.robot.tree, q, v, a, self._entries, scale, Z, gq, gv, ga
        )
        return gq, gv, ga
