"""Relaxation towards the prior: keeps poorly excited links away from the border of consistency.

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
from bodysense.spatial.pseudo_inertia import PSEUDO_INERTIA_BASIS, physical_consistency

RELAXATIONS = ("euclidean", "pullback", "entropic")
_LEAST_MARGIN = 1e-6  # of consistency, from which a body has a volume


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
            InconsistentInertiaError: a link of the prior is not physically consistent.
        """
        if self.kind == "euclidean":
            return np.diag(prior.size / np.sqrt(self.weight))
        _require_volume(prior, self.kind)
        D = np.diag(prior.size)
        for link in prior.links:
            # In units of sizes: entries of the metric differ by many orders otherwise.
            unit = prior.size[link]
            metric = pullback_metric(prior.theta[link]) * unit * unit[:, None]
            root = np.linalg.cholesky(self.weight * metric)
            D[link, link] = unit[:, None] * np.linalg.inv(root).T
        return D


def without_volume(prior: Prior) -> list[str]:
    """Links whose bodies have no volume, with the reason, so that no distance of bodies exists.

    A plate that the digits of a file make thick by chance is one too.
    """
    bad = []
    for name, link in zip(prior.link_names, prior.links, strict=True):
        check = physical_consistency(prior.theta[link])
        if not check.margin > _LEAST_MARGIN:
            bad.append(f"{name} ({check.reason or 'no volume'})")
    return bad


def _require_volume(prior: Prior, kind: str) -> None:
    if bad := without_volume(prior):
        raise InconsistentInertiaError(
            f"the {kind} relaxation needs a prior with physically consistent links that have a "
            f"volume, which is not so for {'; '.join(bad)}. Correct them in the robot's file, "
            "identify with pc-wls first and start from its result, or use the euclidean relaxation."
        )


# Pseudo-inertias of all links, in units in which they are of the order of one.

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
        return float(np.linalg.eigvalsh(np.array(self.of(theta)))[:, 0].min())


# Least squares with the entropic relaxation: smooth, and never at the border of consistency.
#
# With X = P_0⁻¹ P of a link, the entropic distance is the pullback one and an excess beyond it,
#
#     2 (tr X - log det X - 4)  =  tr (X - 1)²  +  excess(X),
#
# so that with the pullback's coordinates theta = theta_free + L y the problem is
#
#     minimise |y|² + λ Σ excess(X)    subject to    drives ≥ 0,    what else is known of the links.
#
# The log-determinants keep every link inside by themselves. The inequalities become logarithms too,
# with a weight μ that goes to zero, and each problem is solved by Newton's method.

_ACCURACY = 1e-10  # of the cost, in units of its value and the noise
_BARRIER_FACTOR = 0.05  # factor on μ once the problem is solved for it
_START_BARRIER = 0.1  # first μ, in units of the cost per term
_MOST_STEPS = 200  # newton steps over all μ


class EntropicExcess:
    """What the entropic distance of all links costs beyond the pullback one.

    Args:
        prior: whose links are all positive definite.
        lmi: their matrices.
        weight: λ.
    """

    def __init__(self, prior: Prior, lmi: LinkMatrices, weight: float) -> None:
        self.links, self.weight, self.size = lmi.links, weight, prior.theta.size
        self.places = np.array([np.arange(link.start, link.stop) for link in lmi.links])
        W = np.linalg.inv(np.linalg.cholesky(np.array(lmi.of(prior.theta))))
        # X of a link in coordinates in which it is symmetric, and one at the prior.
        maps = np.moveaxis(np.array(lmi.maps), -1, 1)
        self.maps = W[:, None] @ maps @ np.swapaxes(W, 1, 2)[:, None]  # (n_links, 10, 4, 4)
        self._flat = self.maps.reshape(len(self.links), 10, 16)
        self._constant = self._flat @ np.swapaxes(self._flat, 1, 2)

    def value(self, theta: Array, mu: float = 0.0) -> float:
        """λ Σ excess - μ Σ log det X; infinite where a link is not consistent."""
        X = self._X(theta)
        if np.linalg.eigvalsh(X)[:, 0].min() <= 0.0:
            return np.inf
        away = X - np.eye(4)
        quadratic = 2.0 * np.trace(away, axis1=-2, axis2=-1) - (away**2).sum(axis=(-2, -1))
        volume = np.linalg.slogdet(X)[1]
        return float((self.weight * quadratic - (2.0 * self.weight + mu) * volume).sum())

    def derivatives(self, theta: Array, mu: float = 0.0) -> tuple[Array, Array]:
        """Gradient (p,) and, link by link, the second derivatives (n_links, 10, 10)."""
        X, volume = self._X(theta), 2.0 * self.weight + mu
        root = np.linalg.inv(np.linalg.cholesky(X))
        inverse = np.swapaxes(root, 1, 2) @ root
        gradient = np.zeros(self.size)
        pull = self.weight * (4.0 * np.eye(4) - 2.0 * X) - volume * inverse
        gradient[self.places] = (self._flat @ pull.reshape(-1, 16, 1))[:, :, 0]
        turned = (root[:, None] @ self.maps @ np.swapaxes(root, 1, 2)[:, None]).reshape(-1, 10, 16)
        curvature = volume * turned @ np.swapaxes(turned, 1, 2)
        return gradient, curvature - 2.0 * self.weight * self._constant

    def closer(self, theta: Array, step: Array) -> float:
        """By how much of the way to the border a step (p,) takes a link; none if negative."""
        root = np.linalg.inv(np.linalg.cholesky(self._X(theta)))
        change = root @ self._X(step) @ np.swapaxes(root, 1, 2)
        return float(-np.linalg.eigvalsh(change)[:, 0].min())

    def _X(self, theta: Array) -> Array:
        X: Array = (theta[self.places][:, None] @ self._flat).reshape(-1, 4, 4)
        return 0.5 * (X + np.swapaxes(X, 1, 2))


def minimise_entropic(
    theta_free: Array, L: Array, excess: EntropicExcess, rows: Array, room: Array, y: Array
) -> Array | None:
    """The minimum y (k,) over rows y <= room, from a y strictly inside; `None` if there is none.

    theta_free (p,) is the minimum of the quadratic part, L (p, k) its coordinates.
    """
    blocks = [L[link] for link in excess.links]
    terms = room.size + 4 * len(blocks)

    def cost(y: Array, mu: float) -> float:
        slack = room - rows @ y
        if (slack <= 0.0).any():
            return np.inf
        return float(y @ y - mu * np.log(slack).sum()) + excess.value(theta_free + L @ y, mu)

    mu = max(1.0, _START_BARRIER * cost(y, 0.0) / terms)
    for _ in range(_MOST_STEPS):
        theta, slack, now = theta_free + L @ y, room - rows @ y, cost(y, mu)
        gradient, curvature = excess.derivatives(theta, mu)
        slope = 2.0 * y + L.T @ gradient + rows.T @ (mu / slack)
        H = 2.0 * np.eye(y.size) + rows.T @ (rows * (mu / slack**2)[:, None])
        for block, second in zip(blocks, curvature, strict=True):
            H += block.T @ second @ block
        step = -np.linalg.solve(H, slope)
        gain = -float(slope @ step)
        exact = _ACCURACY * max(1.0, abs(now))
        length = 0.0
        if gain > max(1e-4 * exact, 0.1 * mu):
            closer = max(
                float((rows @ step / slack).max(initial=0.0)), excess.closer(theta, L @ step)
            )
            length = min(1.0, 0.95 / closer) if closer > 0.0 else 1.0
            while length > 1e-10 and not cost(y + length * step, mu) < now - 0.1 * length * gain:
                length *= 0.5
        if length > 1e-10:
            y = y + length * step
        elif mu * terms > exact:  # near enough for this μ, or as near as rounding lets it
            mu *= _BARRIER_FACTOR
        else:
            return y
    return None
