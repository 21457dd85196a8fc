"""All parameters by square roots: links as C Cᵀ + ε 1, drives as they are; thesis eqs (168)-(173).

A step multiplies the factor of a link, C ← C (1 + M) with a lower triangular M, so that

    P = C (1 + M)(1 + M)ᵀ Cᵀ + ε 1 = P_0 + C (M + Mᵀ) Cᵀ + C M Mᵀ Cᵀ.

theta is quadratic in the factors. Eq (175) holds one of the two and solves for the other, which is
no linearisation: of a square it has half the derivative (x² = y by x ← y / x goes to and fro for
ever), of a product one of its two terms. Only steps that are made to shrink, eq (193), end it. Here
steps are taken along the derivative, C (M + Mᵀ) Cᵀ.

The relative step M is also what the trust region of eq (176) bounds, ϖ |ρ|, except that entries
which are zero may move.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bodysense.identification.consistent.link_matrices import LinkMatrices
from bodysense.identification.prior import Prior
from bodysense.spatial.arrays import Array

ROWS, COLUMNS = np.tril_indices(4)
_DIAGONAL = np.flatnonzero(ROWS == COLUMNS)
_STEPS = np.zeros((10, 4, 4))
_STEPS[np.arange(10), ROWS, COLUMNS] = 1.0
_BOTH = _STEPS + np.swapaxes(_STEPS, 1, 2)

_LEAST_LEFT = 0.1
"""What of (1 + M)(1 + M)ᵀ a correction leaves at least in any direction."""


@dataclass(frozen=True, eq=False)
class Point:
    """Where an iteration is.

    Attributes:
        C: (n_links, 4, 4) lower triangular, positive diagonals, in units of mass and length.
        x: (n_drives,) the other parameters in units of their sizes.
        theta: (p,) all parameters.
    """

    C: Array
    x: Array
    theta: Array

    @property
    def diagonal(self) -> Array:
        """(n_links, 4) of C."""
        return np.diagonal(self.C, axis1=1, axis2=2)


class SquareRootChart:
    """Points and steps (10 n_links + n_drives,) of a robot.

    Args:
        prior: sizes and links.
        lmi: matrices of the links.
        epsilon: in units of mass and length.
        least: smallest diagonal entry of C, eq (194), in the same units.
    """

    def __init__(self, prior: Prior, lmi: LinkMatrices, epsilon: float, least: float) -> None:
        self.epsilon, self.least, self.lmi = epsilon, least, lmi
        self.n = len(lmi.links)
        self.places = np.array([np.arange(link.start, link.stop) for link in lmi.links])
        others = np.setdiff1d(np.arange(prior.size.size), self.places)
        self.others: NDArray[np.int64] = others
        self.size = prior.size[others]
        self.positive = np.isin(others, prior.positive)
        self.diagonals = (10 * np.arange(self.n)[:, None] + _DIAGONAL).ravel()
        # A symmetric matrix from ten numbers and back.
        self.back = np.array([np.linalg.pinv(P.reshape(16, 10)) for P in lmi.maps])

    def near(self, theta: Array, clip: float) -> Point:
        """The point of a theta (p,), its links moved inside by eigenvalues of `clip` at least."""
        P = np.array(self.lmi.of(theta)) - self.epsilon * np.eye(4)
        values, V = np.linalg.eigh(P)
        C = np.linalg.cholesky((V * np.maximum(values, clip)[:, None]) @ np.swapaxes(V, 1, 2))
        return self._point(C, theta[self.others] / self.size)

    def _point(self, C: Array, x: Array) -> Point:
        x = np.where(self.positive, np.maximum(x, 0.0), x)
        P = C @ np.swapaxes(C, 1, 2) + self.epsilon * np.eye(4)
        theta = np.empty(self.places.size + self.others.size)
        theta[self.places] = (self.back @ P.reshape(-1, 16, 1))[:, :, 0]
        theta[self.others] = x * self.size
        return Point(C, x, theta)

    def jacobian(self, at: Point) -> Array:
        """(p, k) of theta by a step, at none."""
        change = at.C[:, None] @ _BOTH @ np.swapaxes(at.C, 1, 2)[:, None]
        of_links = self.back @ np.swapaxes(change.reshape(-1, 10, 16), 1, 2)
        J = np.zeros((self.places.size + self.others.size,) * 2)
        for k, (places, block) in enumerate(zip(self.places, of_links, strict=True)):
            J[places[0] : places[-1] + 1, 10 * k : 10 * k + 10] = block
        J[self.others, np.arange(10 * self.n, J.shape[1])] = self.size
        return J

    def pulled(self, at: Point, gradient: Array) -> Array:
        """(n_links, 4, 4) Z with the gradient (p,) times a link's change = <Z, change of CᵀPC>."""
        Z = np.swapaxes(self.back, 1, 2) @ gradient[self.places][:, :, None]
        Z = Z.reshape(-1, 4, 4)
        pulled: Array = np.swapaxes(at.C, 1, 2) @ (0.5 * (Z + np.swapaxes(Z, 1, 2))) @ at.C
        return pulled

    def stepped(self, at: Point, step: Array) -> Point:
        """The point after a step, with the quadratic part taken out again as far as it can be.

        (1 + M)(1 + M)ᵀ - M Mᵀ is the linear part alone, along which strong data lie in straight
        lines. Where it is not positive, a tenth of the first stays.
        """
        M = np.zeros((self.n, 4, 4))
        M[:, ROWS, COLUMNS] = step[: 10 * self.n].reshape(self.n, 10)
        ahead = np.eye(4) + M
        U, s, _ = np.linalg.svd(np.linalg.solve(ahead, M))
        left = np.sqrt(np.maximum(1.0 - s**2, _LEAST_LEFT))
        factor = at.C @ ahead @ (U * left[:, None])
        C = np.swapaxes(np.linalg.qr(np.swapaxes(factor, 1, 2), mode="r"), 1, 2)
        diagonal = np.diagonal(C, axis1=1, axis2=2)
        C = C * np.where(diagonal < 0.0, -1.0, 1.0)[:, None]
        k = np.arange(4)
        C[:, k, k] = np.maximum(C[:, k, k], self.least)
        return self._point(C, at.x + step[10 * self.n :])
