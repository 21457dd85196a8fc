"""What readings tell about covariances (Fisher's information).

The readings are a sum of independent columns, y = c + B s, s ~ N(0, 1). With P = Bᵀ S⁻¹ B,
S = B Bᵀ, one moment tells about directions E and E' (see `Coordinates`)

    F = ½ tr(P E P E')

A source with F near zero leaves no trace; two whose rows are parallel leave the same one: only a
combination of their variances shows. No unbiased estimate has a smaller covariance than the
inverse of F, summed over moments (Cramér and Rao), and the most likely one comes close to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from bodysense.estimation.map_dynamics.em.coordinates import Coordinates
from bodysense.estimation.map_dynamics.em.sources import Source
from bodysense.estimation.map_dynamics.equations.dense_roots import DenseRoots, root_of
from bodysense.estimation.map_dynamics.equations.equations import Equations
from bodysense.estimation.map_dynamics.found import Moments
from bodysense.spatial.arrays import Array

if TYPE_CHECKING:
    from bodysense.estimation.map_dynamics.estimator import MapDynamics


def information(
    problem: MapDynamics,
    moments: Moments,
    coordinates: Coordinates,
    covariances: Mapping[str, Array],
    looks: int,
) -> Array:
    """(k, k) F of all moments, computed at some of them; the others are taken to be alike.

    Args:
        problem: with the present covariances.
        moments: of `problem.moments`.
        coordinates: what can change.
        covariances: the present ones, by source.
        looks: at how many moments to compute it.
    """
    turns = {
        s.name: np.linalg.pinv(root_of(covariances[s.name])) @ s.root(covariances[s.name])
        for s in coordinates.sources
    }
    F = np.zeros((coordinates.size, coordinates.size))
    at = np.unique(np.linspace(0, moments.size - 1, min(looks, moments.size)).astype(int))
    for t in at:
        F += _of_moment(dense_roots(problem, moments, int(t)), coordinates, turns)
    return F * (moments.size / at.size)


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


def _of_moment(roots: DenseRoots, coordinates: Coordinates, turns: Mapping[str, Array]) -> Array:
    """F of one moment; turns lead from the roots of the sources to those of the coordinates."""
    Q = roots.told()
    parts: list[Array] = []
    i: list[int] = []
    j: list[int] = []
    u: list[int] = []
    for source, directions in zip(coordinates.sources, coordinates.directions, strict=True):
        for name in _names(source, roots):
            at = sum(len(part) for part in parts)
            parts.append(turns[source.name].T @ Q[roots.sources[name]])
            i += [at + d.i for d in directions]
            j += [at + d.j for d in directions]
            u += [d.u for d in directions]
    if not parts:
        return np.zeros((coordinates.size, coordinates.size))
    mine = np.concatenate(parts)
    P = mine @ mine.T
    half = np.where(np.equal(i, j), 0.5, 1.0)
    F = P[np.ix_(i, j)] * P[np.ix_(j, i)] + P[np.ix_(i, i)] * P[np.ix_(j, j)]
    belongs = np.zeros((len(u), coordinates.size))
    belongs[np.arange(len(u)), u] = half
    information: Array = belongs.T @ F @ belongs
    return information


def _names(source: Source, roots: DenseRoots) -> list[str]:
    """Names of the columns that a source has."""
    if source.kind.startswith("slack."):
        start = source.kind.removeprefix("slack.") + "."
        return [name for name in roots.sources if name.startswith(start)]
    name = source.name.removeprefix("belief.") if source.kind == "fx" else f"sensor.{source.name}"
    return [name] if name in roots.sources else []
