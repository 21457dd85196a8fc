"""Which covariances the readings can tell, and which they cannot tell apart, in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bodysense.estimation.map_dynamics.em.coordinates import Coordinates
from bodysense.spatial.arrays import Array

_VAGUE = 0.7
"""Standard deviation of the logarithm of a variance from which it is not known: a factor of two."""


class Vague(NamedTuple):
    """A covariance that the readings do not tell.

    Attributes:
        name: of the source, or of the kind of all that share a factor.
        components: those of it that are not known; of a full covariance its principal axes, of
            one that is scaled its units.
        sigma: standard deviation of the logarithm of a variance, from readings and prior; the
            largest of these components.
        with_other: the source it cannot be told from; `None`: it leaves no trace of its own.
    """

    name: str
    components: tuple[int, ...]
    sigma: float
    with_other: str | None


def vague_sources(F: Array, C: Array, coordinates: Coordinates) -> tuple[Vague, ...]:
    """Sources of which a variance is known to less than a factor of two or so.

    Args:
        F: (k, k) information of the readings.
        C: (k, k) covariance of the coordinates.
        coordinates: what was estimated.
    """
    alone, sigma = np.diag(F), np.sqrt(np.diag(C))
    correlation = np.abs(C / np.outer(sigma, sigma))
    names = np.array(coordinates.titles)
    variance = np.array([i == j for i, j in coordinates.axes])
    found = []
    for name in dict.fromkeys(coordinates.titles):
        vague = np.flatnonzero((names == name) & variance & (sigma > _VAGUE))
        if not vague.size:
            continue
        worst = vague[sigma[vague].argmax()]
        strength = np.where(names == name, 0.0, correlation[worst])
        partner = int(strength.argmax())
        told = alone[worst] > 1.0 / _VAGUE**2 and strength[partner] > 0.5
        components = tuple(coordinates.axes[k][0] for k in vague)
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
            "the same, give more moments, let all of a kind share one factor "
            '(structure="type"), or leave it out of the estimation.'
        )
    return " ".join(text)


def _some(names: Sequence[str], most: int = 6) -> str:
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")
