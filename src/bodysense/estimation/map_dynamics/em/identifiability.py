"""Which covariances the readings can tell, and which they cannot tell apart.

The readings are a sum of independent columns, y = c + Σ B_k s_k with s_k ~ N(0, exp u_k). What one
moment tells about the logarithms u of the variances (Fisher's information) is

    F_kl = ½ (B_kᵀ S⁻¹ B_l)²,     S = Σ B_k B_kᵀ

A source with F_kk near zero leaves no trace; two whose rows are parallel leave the same one: only a
combination of their variances shows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bodysense.estimation.map_dynamics.em.sources import Source
from bodysense.estimation.map_dynamics.equations.dense_roots import DenseRoots
from bodysense.estimation.map_dynamics.equations.equations import Equations
from bodysense.estimation.map_dynamics.found import Moments
from bodysense.spatial.arrays import Array

if TYPE_CHECKING:
    from bodysense.estimation.map_dynamics.estimator import MapDynamics

_LOOKS = 4
"""Moments at which the information is computed; the others are taken to be alike."""

_VAGUE = 0.7
"""Standard deviation of the logarithm of a variance from which it is not known: a factor of two."""


class Vague(NamedTuple):
    """A covariance that the readings do not tell.

    Attributes:
        name: of the source, or of the kind of all that share a factor.
        components: those of it that are not known; of a full covariance its principal axes, of
            one that is scaled its units.
        sigma: standard deviation of the logarithm of a variance, from the readings alone; the
            largest of these components.
        with_other: the source it cannot be told from; `None`: it leaves no trace of its own.
    """

    name: str
    components: tuple[int, ...]
    sigma: float
    with_other: str | None


def vague_sources(
    problem: MapDynamics, moments: Moments, sources: Sequence[Source]
) -> tuple[Vague, ...]:
    """Sources of which a variance is known to less than a factor of two or so."""
    unknowns: dict[tuple[str, int], int] = {}
    for source in sources:
        for component in _unknowns(source):
            unknowns.setdefault((_title(source), component), len(unknowns))
    F = np.zeros((len(unknowns), len(unknowns)))
    looks = np.unique(np.linspace(0, moments.size - 1, min(_LOOKS, moments.size)).astype(int))
    for t in looks:
        F += _information(problem, moments, int(t), sources, unknowns)
    return _vague(F * moments.size / looks.size, list(unknowns))


def _title(source: Source) -> str:
    return f"all of kind {source.kind}" if source.structure == "type" else source.name


def _unknowns(source: Source) -> list[int]:
    """What scales each of its columns."""
    if source.structure != "type":
        return list(range(len(source.covariance)))
    return [group[0] for group in source.groups]


def _group(source: Source, component: int) -> int:
    """The first component that has the same unit."""
    return next(group[0] for group in source.groups if component in group)


def _information(
    problem: MapDynamics,
    moments: Moments,
    t: int,
    sources: Sequence[Source],
    unknowns: Mapping[tuple[str, int], int],
) -> Array:
    """F of one moment."""
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
    roots = DenseRoots.of(equations, present, problem.assumptions)
    belongs = np.zeros((roots.readings.shape[1], len(unknowns)))
    for source in sources:
        for name in _names(source, roots):
            first = roots.sources[name].start
            for k in range(len(source.covariance)):
                component = _group(source, k) if source.structure == "type" else k
                belongs[first + k, unknowns[_title(source), component]] = 1.0
    information: Array = 0.5 * belongs.T @ roots.shares() ** 2 @ belongs
    return information


def _names(source: Source, roots: DenseRoots) -> list[str]:
    """Names of the columns that a source has."""
    if source.kind.startswith("slack."):
        start = source.kind.removeprefix("slack.") + "."
        return [name for name in roots.sources if name.startswith(start)]
    name = source.name.removeprefix("belief.") if source.kind == "fx" else f"sensor.{source.name}"
    return [name] if name in roots.sources else []


def _vague(F: Array, unknowns: list[tuple[str, int]]) -> tuple[Vague, ...]:
    """Those of a large variance in F⁻¹, with the partner of the strongest correlation."""
    alone = np.diag(F)
    # a little is added, so that what leaves no trace at all has a large variance, not infinity
    covariance = np.linalg.inv(F + 1e-9 * np.eye(len(unknowns)))
    sigma = np.sqrt(np.diag(covariance))
    correlation = np.abs(covariance / np.outer(sigma, sigma))
    names = np.array([name for name, _ in unknowns])
    found = []
    for name in dict.fromkeys(names):
        mine = np.flatnonzero(names == name)
        vague = mine[sigma[mine] > _VAGUE]
        if not vague.size:
            continue
        worst = vague[sigma[vague].argmax()]
        strength = np.where(names == name, 0.0, correlation[worst])
        partner = int(strength.argmax())
        told = alone[worst] > 1.0 / _VAGUE**2 and strength[partner] > 0.5
        components = tuple(unknowns[k][1] for k in vague)
        other = str(names[partner]) if told else None
        found.append(Vague(str(name), components, float(sigma[worst]), other))
    return tuple(found)


def in_words(vague: Sequence[Vague]) -> str:
    """Which they are, and what to do about it."""
    pairs: list[set[str]] = []
    single = []
    for item in vague:
        if item.with_other is None:
            single.append(f"{item.name}[{', '.join(map(str, item.components))}]")
        elif {item.name, item.with_other} not in pairs:
            pairs.append({item.name, item.with_other})
    text = [
        f"The covariances of {' and '.join(sorted(pair))} cannot be told apart by these readings, "
        "only a combination shows: keep one of them fixed (sensors=, wrenches=, slacks=), or give "
        "it a prior of more weight."
        for pair in pairs[:3]
    ]
    if single:
        text.append(
            f"The log says little about the covariance of {_some(single)}: add a sensor that sees "
            "the same, give more moments, or leave it out of the estimation."
        )
    return " ".join(text)


def _some(names: Sequence[str], most: int = 6) -> str:
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")
