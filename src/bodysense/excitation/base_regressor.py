"""The regressor of base parameters in the rows of moving joints, and how it changes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bodysense.robot._kernels.adjoint import regressor_rows, regressor_rows_adjoint
from bodysense.robot.base_parameters import BaseParameters
from bodysense.robot.regressors import regressor_pattern
from bodysense.robot.robot import Robot
from bodysense.spatial.arrays import Array


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
