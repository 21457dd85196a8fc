"""Least squares with the entropic relaxation: smooth, and never at the border of the possible.

With X = P_0⁻¹ P of a link, the entropic distance is the pullback one and an excess beyond it,

    2 (tr X - log det X - 4)  =  tr (X - 1)²  +  excess(X),

so that with the pullback's coordinates theta = theta_free + L y the problem is

    minimise |y|² + λ Σ excess(X)    subject to    drives ≥ 0,    what else is known of the links.

The log-determinants keep every link inside by themselves. The inequalities become logarithms too,
with a weight μ that goes to zero, and each problem is solved by Newton's method.
"""

from __future__ import annotations

import numpy as np

from bodysense.identification.consistent.link_matrices import LinkMatrices
from bodysense.identification.prior import Prior
from bodysense.spatial.arrays import Array

_ACCURACY = 1e-10
"""Of the cost, in units of its value and the noise."""

_FASTER = 0.05  # by which μ falls
_CENTRED = 0.1
_MOST_STEPS = 200


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
        """λ Σ excess - μ Σ log det X; infinite where a link cannot exist."""
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
    """The minimum y (k,) over rows y <= room, from a y strictly inside; `None` if it is not found.

    Args:
        theta_free: (p,) minimum of the quadratic part.
        L: (p, k) its coordinates.
        excess: the rest.
        rows: (m, k).
        room: (m,).
        y: (k,) where to begin.
    """
    blocks = [L[link] for link in excess.links]
    terms = room.size + 4 * len(blocks)

    def cost(y: Array, mu: float) -> float:
        slack = room - rows @ y
        if (slack <= 0.0).any():
            return np.inf
        return float(y @ y - mu * np.log(slack).sum()) + excess.value(theta_free + L @ y, mu)

    mu = max(1.0, _CENTRED * cost(y, 0.0) / terms)
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
            mu *= _FASTER
        else:
            return y
    return None
