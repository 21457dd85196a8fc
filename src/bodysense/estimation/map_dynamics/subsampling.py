"""The dense problem at some moments of a log, for what changes little from one to the next.

Covariances depend on positions and on which readings came, not on what was read: a few dozen
moments show what thousands have on average. Sensors of different rates come together in patterns:
each pattern is looked at by itself, and a look stands for its share of the moments that have it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bodysense.estimation.map_dynamics.equations.dense_roots import DenseRoots
from bodysense.estimation.map_dynamics.equations.equations import Equations
from bodysense.estimation.map_dynamics.found import Moments

if TYPE_CHECKING:
    from bodysense.estimation.map_dynamics.estimator import MapDynamics

LOOKS = 32
"""Moments to look at: with eight, steps of scoring go astray on a humanoid."""


_PATTERNS = 32
"""Most patterns that are looked at each by itself: the commonest."""


class Look(NamedTuple):
    """At a moment: which one, and how many moments it stands for."""

    t: int
    weight: float


def looks(problem: MapDynamics, moments: Moments) -> tuple[Look, ...]:
    """Which moments, spread evenly over those of every pattern; all of a short log."""
    if moments.size == 0:
        return ()
    group = _groups(presence(problem, moments))
    sizes = np.bincount(group)
    least = max(1, LOOKS // (2 * sizes.size))
    found = []
    for k, size in enumerate(sizes):
        count = int(min(size, max(least, np.ceil(LOOKS * size / moments.size))))
        at = np.flatnonzero(group == k)[evenly(int(size), count)]
        found += [Look(int(t), float(size / count)) for t in at]
    return tuple(sorted(found))


def thinned(problem: MapDynamics, moments: Moments, most: int) -> Moments:
    """At most so many moments, of every pattern the same share."""
    if moments.size <= most:
        return moments
    pattern = np.unique(presence(problem, moments), axis=0, return_inverse=True)[1].ravel()
    order = np.argsort(pattern, kind="stable")
    return moments.part(np.sort(order[evenly(moments.size, most)]))


def evenly(size: int, count: int) -> NDArray[np.int64]:
    """(count,) of the first `size` numbers, from the middle of equal parts."""
    return ((np.arange(count) + 0.5) * (size / count)).astype(np.int64)


def presence(problem: MapDynamics, moments: Moments) -> NDArray[np.bool_]:
    """(T, sensors) whether each gave a reading."""
    layout = problem.layout
    rows = np.empty(moments.y.shape, dtype=np.bool_)
    rows[:, layout.order] = np.isfinite(moments.y)
    present = np.empty((moments.size, len(problem.sensors)), dtype=np.bool_)
    for k, sensor in enumerate(problem.sensors):
        present[:, k] = rows[:, layout.slices[sensor.name]].all(axis=1)
    return present


def _groups(present: NDArray[np.bool_]) -> NDArray[np.int64]:
    """(T,) number of the group that a moment belongs to: its pattern, if that is a common one.

    The others go together by the rarest sensor they have, so that none is overlooked.
    """
    if present.shape[1] == 0:
        return np.zeros(len(present), dtype=np.int64)
    _, group, sizes = np.unique(present, axis=0, return_inverse=True, return_counts=True)
    group = group.ravel()
    if sizes.size > _PATTERNS:
        rank = np.empty(sizes.size, dtype=np.int64)
        rank[np.argsort(-sizes, kind="stable")] = np.arange(sizes.size)
        often = present.sum(axis=0)
        rarest = np.where(present, often, len(present) + 1).argmin(axis=1)
        rarest[~present.any(axis=1)] = often.size  # moments without any
        group = np.where(rank[group] < _PATTERNS, rank[group], _PATTERNS + rarest)
        group = np.unique(group, return_inverse=True)[1].ravel()
    return group.astype(np.int64)


def dense_roots(problem: MapDynamics, moments: Moments, t: int) -> DenseRoots:
    """Of one moment, with the sensors that are present."""
    layout, tree = problem.layout, problem.tree
    rows = np.empty(layout.constants.size)
    rows[layout.order] = moments.y[t]
    present = [s for s in problem.sensors if np.isfinite(rows[layout.slices[s.name]]).all()]
    equations = Equations.at(
        tree,
        present,
        moments.q[t],
        moments.dq[t],
        base_twist=moments.twist[t] if tree.floating else None,
        gravity=None if tree.floating else -moments.a0[t, :3],
    )
    return DenseRoots.of(equations, present, problem.assumptions)
