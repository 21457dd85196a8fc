"""`UncertainState`: what a predicted position or velocity makes of the estimates.

The estimator takes positions and velocities as they are. Where a joint's are predicted with
standard deviations s_q and s_dq, of one and the same error, the posterior has to first order

    Var[d] = Var[d | q, q̇] + Σ_j (d̂(q + s_q e_j, q̇ + s_dq e_j) - d̂(q, q̇))²

by solving once more for each joint that is predicted; for many together in random directions.
"""

from __future__ import annotations

import numpy as np

from bodysense.estimation.map_dynamics.estimator import MapDynamics
from bodysense.estimation.map_dynamics.solution import Samples, flat, room
from bodysense.spatial.arrays import Array

_ALONE = 4
"""Joints that are looked at each by itself; more are looked at together, in as many directions."""

_FAR = 0.02
"""rad or m: of a position that is off by more, the largest shift to any side counts, as it bends,
and its velocity may err the other way by then."""

_ONE_SIDE = ((1.0, 1.0),)
_ALL_SIDES = ((1.0, 1.0), (-1.0, -1.0), (1.0, -1.0), (-1.0, 1.0))

_FEW = 1.5
"""Times the mean square of so few directions: it holds three times out of four."""


class UncertainState:
    """Of one stream."""

    def __init__(self, problem: MapDynamics, samples: Samples) -> None:
        """Allocate for an estimator; `samples` is what is solved without doubt."""
        self._problem, self._given = problem, samples
        self._trial = samples._replace(
            q=samples.q.copy(), dq=samples.dq.copy(), twist=samples.twist.copy()
        )
        self._found = room(problem.tree, problem.layout, 1, 0)
        signs = np.random.default_rng(0).integers(0, 2, (_ALONE, samples.q.shape[1] + 6))
        self._signs = 2.0 * signs - 1.0

    def added_variance(self, mean: Array, s_q: Array, s_dq: Array, s_twist: Array) -> Array:
        """(size,) variance that uncertain states add to that of the posterior mean (size,)."""
        total = np.zeros_like(mean)
        spread = np.concatenate([s_dq, s_twist])
        doubtful = np.flatnonzero((spread > 0.0) | (np.concatenate([s_q, 0.0 * s_twist]) > 0.0))
        if doubtful.size <= _ALONE:
            directions: Array = np.zeros((doubtful.size, spread.size))
            directions[np.arange(doubtful.size), doubtful] = 1.0
            share = 1.0
        else:
            directions, share = np.asarray(self._signs), _FEW / _ALONE
        sides = _ALL_SIDES if (s_q > _FAR).any() else _ONE_SIDE
        for direction in directions:
            off = np.zeros_like(mean)
            for of_q, of_dq in sides:
                shift = self._shift(direction, of_q * s_q, of_dq * s_dq, s_twist, mean)
                off = np.maximum(off, np.abs(shift))
            total += share * off * off
        return total

    def _shift(self, direction: Array, q: Array, dq: Array, twist: Array, mean: Array) -> Array:
        """(size,) how far the mean moves with the state."""
        n = q.size
        self._trial.q[0] = self._given.q[0] + direction[:n] * q
        self._trial.dq[0] = self._given.dq[0] + direction[:n] * dq
        self._trial.twist[0] = self._given.twist[0] + direction[n:] * twist
        self._problem.solve_into(self._trial, self._found)
        return np.asarray(flat(self._problem.tree, self._found.d)[0] - mean)
