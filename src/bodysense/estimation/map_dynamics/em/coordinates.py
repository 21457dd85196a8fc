"""Logarithms of covariances as coordinates, in which all of them are positive.

About the present covariance Sigma = R Rᵀ of a source it is

    Sigma(u) = R exp(Σ u_d E_d) Rᵀ,     E = e_k e_kᵀ, or e_i e_jᵀ + e_j e_iᵀ between two axes

where one u may belong to axes of several sources, as the factor of a kind does. The sums
A = Σ E[n nᵀ] over N moments, which EM maximises with, are the slope of the log density of the
readings too (Fisher's identity), and so is the prior's mode with its weight:

    ∂ log p / ∂u_d = tr(G E_d),     G = ½ (R⁻¹ A R⁻ᵀ - N)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bodysense.estimation.map_dynamics.em.sources import Moment2, Source
from bodysense.spatial.arrays import Array


class Direction(NamedTuple):
    """E of one source: its axes i and j, alike for a variance, and which u it belongs to."""

    i: int
    j: int
    u: int


class Slope(NamedTuple):
    """Of the log density.

    Attributes:
        readings: (k,) by u, of the readings.
        prior: (k,) by u, of the prior.
        bend: (k,) minus the second derivative of the prior.
    """

    readings: Array
    prior: Array
    bend: Array


@dataclass(frozen=True, eq=False)
class Coordinates:
    """What can change. Build it with `Coordinates.of`.

    Attributes:
        sources: of noise.
        directions: of each source.
        titles: (k,) whose covariance each u changes: a source, or all of a kind.
        axes: (k,) i and j in it.
    """

    sources: tuple[Source, ...]
    directions: tuple[tuple[Direction, ...], ...]
    titles: tuple[str, ...]
    axes: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, sources: Sequence[Source]) -> Coordinates:
        """Number everything that may change."""
        found: dict[tuple[str, int, int], int] = {}

        def u(title: str, i: int, j: int) -> int:
            return found.setdefault((title, i, j), len(found))

        directions = []
        for source in sources:
            m, title = len(source.covariance), source.name
            if source.structure == "full":
                pairs = [(i, j) for i in range(m) for j in range(i, m)]
                directions.append(tuple(Direction(i, j, u(title, i, j)) for i, j in pairs))
            elif source.structure == "axis":
                directions.append(tuple(Direction(k, k, u(title, k, k)) for k in range(m)))
            else:
                title = f"all of kind {source.kind}"
                first = {k: group[0] for group in source.groups for k in group}
                directions.append(
                    tuple(Direction(k, k, u(title, first[k], first[k])) for k in range(m))
                )
        names = list(found)
        titles, axes = tuple(name[0] for name in names), tuple(name[1:] for name in names)
        return cls(tuple(sources), tuple(directions), titles, axes)

    @property
    def size(self) -> int:
        """k, how many numbers."""
        return len(self.titles)

    @property
    def steady(self) -> bool:
        """Whether a u means the same at all covariances; axes of a full one turn with it."""
        return all(source.structure != "full" for source in self.sources)

    def moved(self, covariances: Mapping[str, Array], u: Array) -> dict[str, Array]:
        """Covariances at other coordinates."""
        new = {}
        for source, directions in zip(self.sources, self.directions, strict=True):
            Sigma = covariances[source.name]
            R, X = source.root(Sigma), np.zeros_like(Sigma)
            for i, j, k in directions:
                X[i, j] = X[j, i] = u[k]
            values, vectors = np.linalg.eigh(X)
            Sigma = R @ (vectors * np.exp(values)) @ vectors.T @ R.T
            new[source.name] = 0.5 * (Sigma + Sigma.T)
        return new

    def slope(self, covariances: Mapping[str, Array], expected: Mapping[str, Moment2]) -> Slope:
        """At the present covariances, of which the expectations are."""
        slope = Slope(*(np.zeros(self.size) for _ in Slope._fields))
        for source, directions in zip(self.sources, self.directions, strict=True):
            R = source.root(covariances[source.name])
            inverse = np.linalg.pinv(R)
            seen, one = expected[source.name], inverse @ R  # without axes that are exact
            G = 0.5 * (inverse @ seen.sum @ inverse.T - seen.count * one)
            M = 0.5 * source.weight * (inverse @ source.mode @ inverse.T)
            P = M - 0.5 * source.weight * one
            for i, j, k in directions:
                twice = 1.0 if i == j else 2.0
                slope.readings[k] += twice * G[i, j]
                slope.prior[k] += twice * P[i, j]
                slope.bend[k] += M[i, i] if i == j else M[i, i] + M[j, j]
        return slope

    def believed(self, covariances: Mapping[str, Array]) -> Array:
        """(k,) information of the prior: half its weight where it agrees with what was found.

        All of its weight between two axes, which E holds twice.

        Less where it does not: there the density of the logarithm is far from a normal one.
        """
        information = np.zeros(self.size)
        for source, directions in zip(self.sources, self.directions, strict=True):
            inverse = np.linalg.pinv(source.root(covariances[source.name]))
            ratio = np.maximum(np.diag(inverse @ source.mode @ inverse.T), 1e-300)
            agreed = np.minimum(ratio, 1.0 / ratio)
            for i, j, k in directions:
                twice = 1.0 if i == j else 2.0
                information[k] += twice * 0.5 * source.weight * agreed[i] * agreed[j]
        return information

    def deviations(self, covariances: Mapping[str, Array], C: Array) -> dict[str, Array]:
        """(m,) standard deviations of the variances of each source, C (k, k) that of u."""
        found = {}
        for source, directions in zip(self.sources, self.directions, strict=True):
            R = source.root(covariances[source.name])
            J = np.zeros((len(R), self.size))
            for i, j, k in directions:
                J[:, k] += R[:, i] * R[:, j] * (1.0 if i == j else 2.0)
            found[source.name] = np.sqrt(np.einsum("ak,kl,al->a", J, C, J))
        return found
