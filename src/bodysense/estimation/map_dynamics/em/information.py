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
from scipy.sparse import csr_array

from bodysense.estimation.map_dynamics.em.coordinates import Coordinates
from bodysense.estimation.map_dynamics.em.sources import columns_of
from bodysense.estimation.map_dynamics.equations.dense_roots import DenseRoots, root_of
from bodysense.estimation.map_dynamics.found import Moments
from bodysense.estimation.map_dynamics.looks import dense_roots, looks
from bodysense.spatial.arrays import Array

if TYPE_CHECKING:
    from bodysense.estimation.map_dynamics.estimator import MapDynamics


def information(
    problem: MapDynamics,
    moments: Moments,
    coordinates: Coordinates,
    covariances: Mapping[str, Array],
) -> Array:
    """(k, k) F of all moments, computed at some of them; the others are taken to be alike.

    Args:
        problem: with the present covariances.
        moments: of `problem.moments`.
        coordinates: what can change.
        covariances: the present ones, by source.
    """
    turns = {
        s.name: np.linalg.pinv(root_of(covariances[s.name])) @ s.root(covariances[s.name])
        for s in coordinates.sources
    }
    F = np.zeros((coordinates.size, coordinates.size))
    for t, weight in looks(problem, moments):
        F += weight * _of_moment(dense_roots(problem, moments, t), coordinates, turns)
    return F


def _of_moment(roots: DenseRoots, coordinates: Coordinates, turns: Mapping[str, Array]) -> Array:
    """F of one moment; turns lead from the roots of the sources to those of the coordinates."""
    Q = roots.told()
    parts: list[Array] = []
    i: list[int] = []
    j: list[int] = []
    u: list[int] = []
    for source, directions in zip(coordinates.sources, coordinates.directions, strict=True):
        for name in columns_of(source, roots.sources):
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
    belongs = csr_array((half, (u, np.arange(len(u)))), shape=(coordinates.size, len(u)))
    information: Array = belongs @ (belongs @ F).T
    return information
