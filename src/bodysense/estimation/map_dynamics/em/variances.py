"""Covariances to estimate, how each is structured, and the step that maximises.

Given the sum A = Σ E[n nᵀ] over N samples of everything that a covariance Sigma has produced, and
a prior worth w samples whose mode is Sigma_p, the best Sigma is, by its structure,

    full    (A + w Sigma_p) / (N + w)                            every entry
    axis    the diagonal of that                                 components independent
    type    c_g Sigma_0 for each group g of components with a unit, one factor c_g for all
            sensors of a kind: the mean of tr(Sigma_0⁻¹ (A + w Sigma_p)) / ((N + w) size)

The prior is the inverse-Wishart density with scale w Sigma_p and w - size - 1 degrees of freedom:
log p = -w/2 (log det Sigma + tr(Sigma⁻¹ Sigma_p)).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from bodysense.errors import MismatchError, ShapeError, unknown_name
from bodysense.estimation.map_dynamics.dense_roots import root_of
from bodysense.estimation.map_dynamics.estimator import MapDynamics
from bodysense.sensors.motion_sensors import Orientation
from bodysense.sensors.sensor import check_covariance
from bodysense.sensors.wrench_sensors import ExternalWrench
from bodysense.spatial.arrays import Array

Structure = Literal["type", "axis", "full"]
_STRUCTURES: tuple[Structure, ...] = ("type", "axis", "full")


@dataclass(frozen=True, eq=False)
class InverseWishart:
    """A prior of a covariance.

    Attributes:
        weight: how many samples it counts for; zero says nothing.
        covariance: (m, m) its mode; by default the covariance at the start.
    """

    weight: float = 1.0
    covariance: Array | None = None

    def __post_init__(self) -> None:
        if not (np.isfinite(self.weight) and self.weight >= 0.0):
            raise ShapeError(f"the weight of a prior is {self.weight}: give a number of samples.")


@dataclass(frozen=True, eq=False)
class NoiseSource:
    """Something random whose covariance is estimated.

    Attributes:
        name: of the sensor; ``prior.fx.<link>`` of the prior about an external wrench;
            ``slack.acceleration``, ``slack.wrench`` or ``slack.torque`` of the equations.
        kind: of the sensor; ``fx`` or the name of the slack.
        covariance: (m, m) at the start, structured.
        groups: components that have one unit.
        structure: what may change.
        weight: of the prior, whose mode is
        mode: (m, m).
    """

    name: str
    kind: str
    covariance: Array
    groups: tuple[tuple[int, ...], ...]
    structure: Structure
    weight: float
    mode: Array

    @classmethod
    def of(
        cls,
        name: str,
        kind: str,
        covariance: Array,
        units: Sequence[str],
        structure: Structure,
        prior: InverseWishart,
    ) -> NoiseSource:
        """Give a covariance its structure; what does not fit the structure is left out.

        Sources of one kind and structure "type" share their factors. `units` are of the components.
        """
        groups = tuple(
            tuple(k for k, unit in enumerate(units) if unit == wanted)
            for wanted in dict.fromkeys(units)
        )
        mode = covariance if prior.covariance is None else prior.covariance
        mode = check_covariance(mode, len(units), f"the prior covariance of {name}")
        start = np.array(covariance)
        if structure == "axis":
            start = np.diag(np.diag(start))
        elif structure == "type":
            same = np.array([[unit == other for other in units] for unit in units])
            start = np.where(same, start, 0.0)
        return cls(name, kind, start, groups, structure, prior.weight, np.asarray(mode))

    def root(self, Sigma: Array) -> Array:
        """(m, m) R with R Rᵀ = Sigma; columns of components whose factors differ do not mix."""
        if self.structure != "type":
            return root_of(Sigma)
        R = np.zeros_like(Sigma)
        for group in self.groups:
            R[np.ix_(group, group)] = root_of(Sigma[np.ix_(group, group)])
        return R

    def log_prior(self, Sigma: Array) -> float:
        """Of the covariance, up to a constant."""
        if self.weight == 0.0:
            return 0.0
        R = self.root(Sigma)  # whose columns are orthogonal: what is exact is the same to the slope
        values = (R**2).sum(axis=0)
        R, values = R[:, values > 0.0], values[values > 0.0]
        inverse = R / values
        spread = np.einsum("ik,ij,jk->k", inverse, self.mode, inverse)
        return float(-0.5 * self.weight * (np.log(values) + spread).sum())


@dataclass(frozen=True, eq=False)
class SecondMoment:
    """A = Σ E[n nᵀ] (m, m) and how many terms it has."""

    sum: Array
    count: int


def columns_of(source: NoiseSource, names: Iterable[str]) -> list[str]:
    """Names of the columns that a source has in `DenseRoots`."""
    if source.kind.startswith("slack."):
        start = source.kind.removeprefix("slack.") + "."
        return [name for name in names if name.startswith(start)]
    mine = source.name.removeprefix("prior.") if source.kind == "fx" else f"sensor.{source.name}"
    return [name for name in names if name == mine]


# Which covariances to estimate, each with its structure and its prior, by names and kinds.

SLACKS = ("acceleration", "wrench", "torque")
_WRENCH_UNITS = ExternalWrench.units
_MOTION_UNITS = ("m/s²",) * 3 + ("rad/s²",) * 3
_Source = tuple[str, str, Array, Sequence[str]]  # name, kind, covariance at the start, units


def chosen_sources(
    problem: MapDynamics,
    structure: Structure | Mapping[str, Structure],
    prior: InverseWishart | Mapping[str, InverseWishart] | None,
    sensors: Sequence[str] | None,
    wrenches: Sequence[str],
    slacks: Sequence[str],
) -> tuple[NoiseSource, ...]:
    """Everything whose covariance is to be estimated; see `estimate_covariances`.

    What is exact, and orientations, which are no part of the problem, are left out.
    """
    wanted = [
        *_sensor_sources(problem, sensors),
        *(_wrench_source(problem, link) for link in wrenches),
        *(_slack_source(problem, slack) for slack in slacks),
    ]
    names = [name for name, *_ in wanted]
    for name in names:
        if names.count(name) > 1:
            raise MismatchError(f"{name!r} is asked for twice, or a sensor has that name: rename.")
    return tuple(
        NoiseSource.of(
            name, kind, Sigma, units, _structure(structure, name, kind), _prior(prior, name, kind)
        )
        for name, kind, Sigma, units in wanted
        if Sigma.any()
    )


def _sensor_sources(problem: MapDynamics, names: Sequence[str] | None) -> Iterator[_Source]:
    by_name = {sensor.name: sensor for sensor in problem.sensors}
    for name in by_name if names is None else names:
        if name not in by_name:
            raise unknown_name("sensor", name, by_name)
        sensor = by_name[name]
        if sensor.kind != Orientation.kind:
            units = tuple(sensor.units[k % len(sensor.units)] for k in range(sensor.size))
            yield name, sensor.kind, sensor.covariance, units


def _wrench_source(problem: MapDynamics, link: str) -> _Source:
    priors, tree = problem.assumptions, problem.tree
    if link not in [tree.names[i] for i in tree.with_unknowns]:
        raise unknown_name("link with an external wrench", link, tree.names)
    wrench = priors.wrench_of(link)
    return f"prior.fx.{link}", "fx", wrench.covariance, _WRENCH_UNITS


def _slack_source(problem: MapDynamics, slack: str) -> _Source:
    if slack not in SLACKS:
        raise unknown_name("slack", slack, SLACKS)
    name = f"slack.{slack}"
    Sigma = getattr(problem.assumptions, f"{slack}_slack").covariance
    units = {"wrench": _WRENCH_UNITS, "torque": ("N·m",)}.get(slack, _MOTION_UNITS)
    return name, name, Sigma, units


def _structure(structure: Structure | Mapping[str, Structure], name: str, kind: str) -> Structure:
    if isinstance(structure, Mapping):
        structure = structure.get(name, structure.get(kind, "axis"))
    if structure not in _STRUCTURES:
        raise unknown_name("structure", structure, _STRUCTURES)
    return structure


def _prior(
    prior: InverseWishart | Mapping[str, InverseWishart] | None, name: str, kind: str
) -> InverseWishart:
    if isinstance(prior, Mapping):
        return prior.get(name, prior.get(kind, InverseWishart()))
    return InverseWishart() if prior is None else prior


# Logarithms of covariances as coordinates, in which all of them are positive.
#
# About the present covariance Sigma = R Rᵀ of a source it is
#
#     Sigma(u) = R exp(Σ u_d E_d) Rᵀ,     E = e_k e_kᵀ, or e_i e_jᵀ + e_j e_iᵀ between two axes
#
# where one u may belong to axes of several sources, as the factor of a kind does. The sums
# A = Σ E[n nᵀ] over N samples, which EM maximises with, are the slope of the log density of the
# readings too (Fisher's identity), and so is the prior's mode with its weight:
#
#     ∂ log p / ∂u_d = tr(G E_d),     G = ½ (R⁻¹ A R⁻ᵀ - N)


class _Direction(NamedTuple):
    """E of one source: its axes i and j, alike for a variance, and which u it belongs to."""

    i: int
    j: int
    u: int


class Slope(NamedTuple):
    """Of the log density by u, each (k,); the bend is minus the prior's second derivative."""

    readings: Array
    prior: Array
    bend: Array


def _changes(source: NoiseSource) -> Iterator[tuple[int, int, tuple[str, int, int]]]:
    """Axes that may change, each with the title and axes of the u that changes it."""
    m, title = len(source.covariance), source.name
    if source.structure == "full":
        yield from ((i, j, (title, i, j)) for i in range(m) for j in range(i, m))
    elif source.structure == "axis":
        yield from ((k, k, (title, k, k)) for k in range(m))
    else:
        title = f"all of kind {source.kind}"
        first = {k: group[0] for group in source.groups for k in group}
        yield from ((k, k, (title, first[k], first[k])) for k in range(m))


@dataclass(frozen=True, eq=False)
class Coordinates:
    """What can change. Build it with `Coordinates.of`.

    Attributes:
        sources: of noise.
        directions: of each source.
        titles: (k,) whose covariance each u changes: a source, or all of a kind.
        axes: (k,) i and j in it.
    """

    sources: tuple[NoiseSource, ...]
    directions: tuple[tuple[_Direction, ...], ...]
    titles: tuple[str, ...]
    axes: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, sources: Sequence[NoiseSource]) -> Coordinates:
        """Number everything that may change."""
        number: dict[tuple[str, int, int], int] = {}
        directions = [
            tuple(
                _Direction(i, j, number.setdefault(key, len(number)))
                for i, j, key in _changes(source)
            )
            for source in sources
        ]
        names = list(number)
        titles, axes = tuple(name[0] for name in names), tuple(name[1:] for name in names)
        return cls(tuple(sources), tuple(directions), titles, axes)

    @property
    def size(self) -> int:
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

    def slope(
        self, covariances: Mapping[str, Array], expected: Mapping[str, SecondMoment]
    ) -> Slope:
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

    def prior_information(self, covariances: Mapping[str, Array]) -> Array:
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
        result = {}
        for source, directions in zip(self.sources, self.directions, strict=True):
            R = source.root(covariances[source.name])
            J = np.zeros((len(R), self.size))
            for i, j, k in directions:
                J[:, k] += R[:, i] * R[:, j] * (1.0 if i == j else 2.0)
            result[source.name] = np.sqrt(np.einsum("ak,kl,al->a", J, C, J))
        return result
