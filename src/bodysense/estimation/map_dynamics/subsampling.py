"""The dense problem at some samples of a log, for what changes little from one to the next.

Covariances depend on positions and on which readings came, not on what was read: a few dozen
samples show what thousands have on average. Sensors of different rates come together in patterns:
each pattern is looked at by itself, and a look stands for its share of the samples that have it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bodysense.estimation.map_dynamics.equations import DenseRoots, Equations
from bodysense.estimation.map_dynamics.solution import Samples

if TYPE_CHECKING:
    from bodysense.estimation.map_dynamics.estimator import MapDynamics

_LOOKS = 32
"""Samples to look at: with eight, steps of scoring are wrong on a humanoid."""


_PATTERNS = 32
"""Most patterns that are looked at each by itself: the commonest."""


class Look(NamedTuple):
    """At a sample: which one, and how many samples it stands for."""

    t: int
    weight: float


def looks(problem: MapDynamics, samples: Samples) -> tuple[Look, ...]:
    """Which samples, spread evenly over those of every pattern; all of a short log."""
    if samples.size == 0:
        return ()
    group = _groups(presence(problem, samples))
    sizes = np.bincount(group)
    least = max(1, _LOOKS // (2 * sizes.size))
    result = []
    for k, size in enumerate(sizes):
        count = int(min(size, max(least, np.ceil(_LOOKS * size / samples.size))))
        at = np.flatnonzero(group == k)[evenly(int(size), count)]
        result += [Look(int(t), float(size / count)) for t in at]
    return tuple(sorted(result))


def thinned(problem: MapDynamics, samples: Samples, most: int) -> Samples:
    """At most so many samples, of every pattern the same share."""
    if samples.size <= most:
        return samples
    pattern = np.unique(presence(problem, samples), axis=0, return_inverse=True)[1].ravel()
    order = np.argsort(pattern, kind="stable")
    return samples.part(np.sort(order[evenly(samples.size, most)]))


def evenly(size: int, count: int) -> NDArray[np.int64]:
    """(count,) of the first `size` numbers, from the middle of equal parts."""
    return ((np.arange(count) + 0.5) * (size / count)).astype(np.int64)


def presence(problem: MapDynamics, samples: Samples) -> NDArray[np.bool_]:
    """(T, sensors) whether each gave a reading."""
    layout = problem.layout
    rows = np.empty(samples.y.shape, dtype=np.bool_)
    rows[:, layout.order] = np.isfinite(samples.y)
    present = np.empty((samples.size, len(problem.sensors)), dtype=np.bool_)
    for k, sensor in enumerate(problem.sensors):
        present[:, k] = rows[:, layout.slices[sensor.name]].all(axis=1)
    return present


def _groups(present: NDArray[np.bool_]) -> NDArray[np.int64]:
    """(T,) number of the group that a sample belongs to: its pattern, if that is a common one.

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
        rarest[~present.any(axis=1)] = often.size  # samples without any
        group = np.where(rank[group] < _PATTERNS, rank[group], _PATTERNS + rarest)
        group = np.unique(group, return_inverse=True)[1].ravel()
    return group.astype(np.int64)


def dense_roots(problem: MapDynamics, samples: Samples, t: int) -> DenseRoots:
    """Of one sample, with the sensors that are present."""
    layout, tree = problem.layout, problem.tree
    rows = np.empty(layout.constants.size)
    rows[layout.order] = samples.y[t]
    present = [s for s in problem.sensors if np.isfinite(rows[layout.slices[s.name]]).all()]
    equations = Equations.at(
        tree,
        present,
        samples.q[t],
        samples.dq[t],
        base_twist=samples.twist[t] if tree.floating else None,
        gravity=None if tree.floating else -samples.a0[t, :3],
    )
    return DenseRoots.of(equations, present, problem.assumptions)
