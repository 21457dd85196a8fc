"""The dense problem at some moments of a log, for what changes little from one to the next.

Covariances depend on positions and on which readings came, not on what was read: a few dozen
moments show what thousands have on average.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bodysense.estimation.map_dynamics.equations.dense_roots import DenseRoots
from bodysense.estimation.map_dynamics.equations.equations import Equations
from bodysense.estimation.map_dynamics.found import Moments

if TYPE_CHECKING:
    from bodysense.estimation.map_dynamics.estimator import MapDynamics

LOOKS = 32
"""Moments to look at: with eight, steps of scoring go astray on a humanoid."""


def looks(moments: Moments) -> NDArray[np.int64]:
    """Which moments, evenly; all of a short log."""
    count = min(LOOKS, moments.size)
    return np.unique(np.linspace(0, moments.size - 1, count).astype(np.int64))


def dense_roots(problem: MapDynamics, moments: Moments, t: int) -> DenseRoots:
    """Of one moment, with the sensors that are present."""
    layout, tree = problem.layout, problem.tree
    rows = np.empty(layout.constants.size)
    rows[layout.order] = moments.y[t]
    present = [s for s in problem.sensors if not np.isnan(rows[layout.slices[s.name]]).any()]
    equations = Equations.at(
        tree,
        present,
        moments.q[t],
        moments.dq[t],
        base_twist=moments.twist[t] if tree.floating else None,
        gravity=None if tree.floating else -moments.a0[t, :3],
    )
    return DenseRoots.of(equations, present, problem.assumptions)
