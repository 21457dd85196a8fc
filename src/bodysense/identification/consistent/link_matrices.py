"""Pseudo-inertias of all links, in units in which they are of the order of one."""

from __future__ import annotations

import numpy as np

from bodysense.identification.prior import Prior
from bodysense.spatial.arrays import Array
from bodysense.spatial.pseudo_inertia import PSEUDO_INERTIA_BASIS

MARGIN = 1e-4
"""Smallest eigenvalue of a link's pseudo-inertia in units of its plausible mass and length. Above
the solver's tolerance, below what anybody could measure."""


class LinkMatrices:
    """Pseudo-inertias of all links in units of their plausible mass and length.

    Attributes:
        links: places of each link's ten parameters.
        maps: (4, 4, 10) of each link: its matrix is ``map @ theta[link]``.
    """

    def __init__(self, prior: Prior) -> None:
        basis = np.moveaxis(PSEUDO_INERTIA_BASIS, 0, -1)
        self.links = prior.links
        self.maps: list[Array] = []
        for mass, length in zip(prior.link_mass, prior.link_length, strict=True):
            unit = 1.0 / np.sqrt(mass) / np.array([length, length, length, 1.0])
            self.maps.append(basis * unit[:, None, None] * unit[None, :, None])

    def of(self, theta: Array) -> list[Array]:
        """(4, 4) of each link."""
        return [P @ theta[link] for P, link in zip(self.maps, self.links, strict=True)]

    def smallest(self, theta: Array) -> float:
        """Smallest eigenvalue over all links."""
        return float(np.linalg.eigvalsh(np.array(self.of(theta)))[:, 0].min())
