"""Relaxation towards the prior: what keeps poorly excited links from the border of the possible.

Beside the data, λ d(theta, theta_0)² is minimised, thesis eqs (72)-(73), with d² one of

    euclidean   Σ ((theta - theta_0) / size)²                       of all parameters
    pullback    Σ tr((P_0⁻¹ (P - P_0))²)                            of all links, eq (167) corrected
    entropic    2 Σ (tr(P_0⁻¹ P) - log det(P_0⁻¹ P) - 4)            of all links

Eq (72) adds kilograms to kg·m²; here each parameter counts in units of its plausible size. The
other two do not depend on units or frames, and agree to second order. What they say nothing about,
the drives, has the Euclidean term with λ = 1. For links far from the prior the entropic one grows
like a barrier: it never lets a link become a plate, a rod or a point.

λ counts in units of the noise: with λ = 1 the prior is worth one measurement with a standard
deviation of one size, with λ = 100 of a tenth of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bodysense.errors import InconsistentInertiaError, ShapeError, unknown_name
from bodysense.identification.prior import Prior
from bodysense.spatial.arrays import Array
from bodysense.spatial.distances import pullback_metric
from bodysense.spatial.pseudo_inertia import physical_consistency

RELAXATIONS = ("euclidean", "pullback", "entropic")


@dataclass(frozen=True)
class Relaxation:
    """A distance and its weight.

    Attributes:
        kind: one of `RELAXATIONS`.
        weight: λ.
    """

    kind: str = "euclidean"
    weight: float = 1.0

    def __post_init__(self) -> None:
        if self.kind not in RELAXATIONS:
            raise unknown_name("relaxation", self.kind, RELAXATIONS)
        if not (np.isfinite(self.weight) and self.weight > 0.0):
            raise ShapeError(
                f"the weight of the relaxation is {self.weight:g}: give a positive number; a small "
                "one, such as 1e-3, leaves everything to the data."
            )

    @property
    def entropic(self) -> bool:
        """Whether the distance is not quadratic; see `EntropicExcess` for what it has beside."""
        return self.kind == "entropic"

    def factor(self, prior: Prior) -> Array:
        """(p, p) D: the quadratic part is |x|² where theta = theta_0 + D x.

        That of the entropic distance is the pullback one, which it agrees with near the prior.

        Raises:
            InconsistentInertiaError: a link of the prior that cannot exist has no such distance.
        """
        if self.kind == "euclidean":
            return np.diag(prior.size / np.sqrt(self.weight))
        require_possible_prior(prior, self.kind)
        D = np.diag(prior.size)
        for link in prior.links:
            # In units of sizes: entries of the metric differ by many orders otherwise.
            unit = prior.size[link]
            metric = pullback_metric(prior.theta[link]) * unit * unit[:, None]
            root = np.linalg.cholesky(self.weight * metric)
            D[link, link] = unit[:, None] * np.linalg.inv(root).T
        return D


def require_possible_prior(prior: Prior, kind: str) -> None:
    """Raise unless every link of the prior has a positive definite pseudo-inertia."""
    bad = []
    for name, link in zip(prior.link_names, prior.links, strict=True):
        check = physical_consistency(prior.theta[link])
        if not check.consistent:
            bad.append(f"{name} ({check.reason or 'no volume'})")
    if bad:
        raise InconsistentInertiaError(
            f"the {kind} relaxation needs a prior whose links can exist as bodies with a volume, "
            f"which is not so for {'; '.join(bad)}. Correct them in the robot's file, identify "
            "with pc-wls first and start from its result, or use the euclidean relaxation."
        )
