"""One moment with a Gaussian prior on x, as a least-squares problem in coordinates of the prior.

    x = mean + L e,   L Lᵀ = covariance,   min |r(x)|² + |e|²

In these coordinates every direction has information, what is certain does not move, and QR
without normal equations gives the posterior: Cov(x) = S Sᵀ with S = L R⁻¹.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import block_diag, solve_triangular

from bodysense.estimation.map_dynamics.state.belief import StateBelief
from bodysense.estimation.map_dynamics.state.gauss_newton import Step
from bodysense.estimation.map_dynamics.state.linearisation import Linearisation, Linearised, Moment
from bodysense.spatial.arrays import Array

_TURN = 10.0  # rad, standard deviation of an orientation that nothing is known of


@dataclass(frozen=True, eq=False)
class Gaussian:
    """Mean (p,) and covariance (p, p) of all of x."""

    mean: Array
    covariance: Array

    @classmethod
    def prior(cls, linearisation: Linearisation, belief: StateBelief) -> Gaussian:
        """What is believed before any reading."""
        layout, sigma = linearisation.layout, linearisation.nuisances.sigma
        root = belief.angular_velocity
        parts, blocks = [belief.mean.ravel()], [belief.covariance]
        if layout.floating:
            parts.append(root.mean)
            blocks.append(root.covariance)
        if layout.turned:
            parts.append(np.zeros(3))
            blocks.append(_TURN**2 * np.eye(3))
        parts.append(np.zeros(sigma.size))
        blocks.append(np.diag(sigma**2))
        return cls(np.concatenate(parts), block_diag(*blocks))

    @property
    def factor(self) -> Array:
        """(p, p) L; directions of no variance are zero columns.

        Of the correlations, so that small variances keep their digits beside large ones.
        """
        sigma = np.sqrt(np.maximum(np.diag(self.covariance), 0.0))
        scale = np.where(sigma > 0.0, sigma, 1.0)
        values, vectors = np.linalg.eigh(self.covariance / np.outer(scale, scale))
        L: Array = sigma[:, None] * vectors * np.sqrt(np.maximum(values, 0.0))
        return L


@dataclass(frozen=True, eq=False)
class MomentLinear:
    """The problem linearised at one e: a triangle, R delta = z.

    Attributes:
        R: (p, p).
        z: (p,).
        cost: chi-square, of readings and prior.
        local: residuals, d and derivatives by x.
    """

    R: Array
    z: Array
    cost: float
    local: Linearised

    def step(self, damping: float) -> Step:
        """Minimum of the linear problem, with Marquardt's damping."""
        R, z = self.R, self.z
        if damping > 0.0:
            R, z = triangle(
                np.vstack([R, np.sqrt(damping) * np.diag(np.linalg.norm(R, axis=0))]),
                np.concatenate([z, np.zeros(z.size)]),
            )
        delta = solve_triangular(R, z)
        left = self.z - self.R @ delta
        return Step(delta, float(self.z @ self.z - left @ left))


@dataclass(frozen=True, eq=False)
class MomentProblem:
    """The least-squares problem of one moment.

    Attributes:
        linearisation: of the robot with its sensors.
        prior: of x.
        moment: what is given.
    """

    linearisation: Linearisation
    prior: Gaussian
    moment: Moment

    @cached_property
    def L(self) -> Array:
        """(p, p) factor of the prior."""
        return self.prior.factor

    def x(self, e: Array) -> Array:
        """From coordinates of the prior."""
        x: Array = self.prior.mean + self.L @ e
        return x

    def linear(
        self,
        e: Array,
        *,
        d: Array | None = None,
        moment: Moment | None = None,
        factor: Array | None = None,
    ) -> MomentLinear:
        """Linearise at e; where numbers overflow, the cost is infinite.

        Args:
            e: (p,).
            d: (n, 20) at which products are differentiated; by default the best.
            moment: other readings than the given ones.
            factor: of Cov(x), to count what the linearisation leaves out as slack.
        """
        given = self.moment if moment is None else moment
        with np.errstate(over="ignore", invalid="ignore"):
            local = self.linearisation.at(self.x(e), given, d, factor)
            cost = float(local.residual @ local.residual + e @ e)
        if not (np.isfinite(cost) and np.isfinite(local.jacobian).all()):
            return MomentLinear(np.eye(e.size), np.zeros(e.size), np.inf, local)
        rows = np.vstack([local.jacobian @ self.L, np.eye(e.size)])
        R, z = triangle(rows, -np.concatenate([local.residual, e]))
        return MomentLinear(R, z, cost, local)

    def factor(self, linear: MomentLinear) -> Array:
        """(p, p) S of Cov(x) = S Sᵀ."""
        S: Array = solve_triangular(linear.R, self.L.T, trans="T").T
        return S


def triangle(rows: Array, right: Array) -> tuple[Array, Array]:
    """R (p, p) and z (p,) of rows (k, p) with k ≥ p and a right-hand side, by reflections."""
    p = rows.shape[1]
    R = qr_r(np.column_stack([rows, right]))
    return R[:p, :p], R[:p, p]


def qr_r(rows: Array) -> Array:
    """The triangle of a QR decomposition alone."""
    return np.asarray(np.linalg.qr(rows, mode="r"))
