"""Damped Gauss-Newton: steps of linearised problems, shortened until the cost goes down.

Levenberg's and Marquardt's damping, which grows after a step that raises the cost and shrinks
after one that lowers it as predicted. The cost is a chi-square, so that a predicted decrease far
below one says that the estimate would move by a small fraction of its own standard deviation: it
has converged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, Protocol, TypeVar

import numpy as np
from scipy.linalg import block_diag, solve_triangular

from bodysense.estimation.map_dynamics.state.linearisation import (
    Linearisation,
    Linearised,
    SampleInputs,
)
from bodysense.estimation.map_dynamics.state.prior import StatePrior
from bodysense.kalman.model import CovarianceState
from bodysense.spatial.arrays import Array

_CONVERGED = 1e-4
"""Decrease of chi-square at which to stop: moves of a hundredth of a standard deviation."""

_ROUNDING = 1e-11  # relative decrease that rounding hides
_FIRST, _LEAST, _LARGEST = 1e-4, 1e-12, 1e12  # damping
_TRIES = 30  # dampings of one step
_STRANGE = 6.0  # standard deviations


def is_implausible(cost: float, m: int) -> bool:
    """Whether a chi-square is too large for m readings to be an accident."""
    return not cost <= m + _STRANGE * np.sqrt(2.0 * m + 1.0)


class _Linear(Protocol):
    """A problem, linearised at some point."""

    @property
    def cost(self) -> float:
        """Chi-square at that point."""

    def step(self, damping: float) -> tuple[Array, float]:
        """To the minimum of the linear problem, and how much lower its cost is there."""


_L = TypeVar("_L", bound=_Linear)


@dataclass(frozen=True)
class Ending:
    """How the iterations ended: whether more of them would gain nothing, how many, and advice."""

    converged: bool
    iterations: int
    message: str


@dataclass(frozen=True, eq=False)
class _Descent(Generic[_L]):
    """The best point, the problem linearised there, and how it was found."""

    point: Array
    linear: _L
    ending: Ending


def descend(start: Array, linearise: Callable[[Array], _L], iterations: int) -> _Descent[_L]:
    """Lower the cost from a start, in at most so many steps."""
    point, linear, damping = start, linearise(start), _FIRST
    if not np.isfinite(linear.cost):
        message = "numbers overflow at the start: look for absurd readings or covariances."
        return _Descent(point, linear, Ending(False, 0, message))
    for k in range(iterations):
        _, decrease = linear.step(0.0)
        if not decrease > _CONVERGED + _ROUNDING * linear.cost:
            return _Descent(point, linear, Ending(True, k, "converged"))
        result, damping = _lower(point, linear, linearise, damping)
        if result is None:
            return _Descent(point, linear, _stuck(k, decrease, linear.cost))
        point, linear = result
    message = (
        f"not converged after {iterations} iterations: allow more of them, start closer, or look "
        "whether a sensor contradicts the others."
    )
    if not linear.step(0.0)[1] > _CONVERGED + _ROUNDING * linear.cost:
        return _Descent(point, linear, Ending(True, iterations, "converged"))
    return _Descent(point, linear, Ending(False, iterations, message))


def _lower(
    point: Array, linear: _L, linearise: Callable[[Array], _L], damping: float
) -> tuple[tuple[Array, _L] | None, float]:
    """A point with a lower cost, and the damping to go on with."""
    for _ in range(_TRIES):
        delta, decrease = linear.step(damping)
        if np.isfinite(delta).all() and decrease > 0.0:
            candidate = linearise(point + delta)
            gain = (linear.cost - candidate.cost) / decrease
            if np.isfinite(gain) and gain > 1e-4:
                shrink = 0.1 if gain > 0.5 else 1.0
                return (point + delta, candidate), max(_LEAST, damping * shrink)
        if damping >= _LARGEST:
            break
        damping *= 10.0
    return None, damping


def _stuck(k: int, decrease: float, cost: float) -> Ending:
    """No step lowers the cost: rounding, if little was to be gained."""
    if decrease < 1e-2 + 1e-6 * cost:
        return Ending(True, k, "converged as far as rounding lets it")
    return Ending(
        False,
        k,
        "no step lowers the cost further, though the linear problem promises it: readings or "
        "priors without any variance may contradict each other; give them small variances.",
    )


# One sample with a Gaussian prior on x, as a least-squares problem in coordinates of the prior.
#
#     x = mean + L e,   L Lᵀ = covariance,   min |r(x)|² + |e|²
#
# In these coordinates every direction has information, what is certain does not move, and QR
# without normal equations gives the posterior: Cov(x) = S Sᵀ with S = L R⁻¹.

_TURN = 10.0  # rad, standard deviation of an orientation that nothing is known of


def whole_prior(linearisation: Linearisation, prior: StatePrior) -> CovarianceState:
    """The prior of all of x, from that of the joints and the root."""
    layout, sigma = linearisation.layout, linearisation.nuisances.sigma
    root = prior.angular_velocity
    parts, blocks = [prior.mean.ravel()], [prior.covariance]
    if layout.floating:
        parts.append(root.mean)
        blocks.append(root.covariance)
    if layout.turned:
        parts.append(np.zeros(3))
        blocks.append(_TURN**2 * np.eye(3))
    parts.append(np.zeros(sigma.size))
    blocks.append(np.diag(sigma**2))
    return CovarianceState(np.concatenate(parts), block_diag(*blocks))


def scaled_factor(covariance: Array) -> Array:
    """(p, p) L of L Lᵀ = covariance; directions of no variance are zero columns.

    Of the correlations, so that small variances keep their digits beside large ones.
    """
    sigma = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    scale = np.where(sigma > 0.0, sigma, 1.0)
    values, vectors = np.linalg.eigh(covariance / np.outer(scale, scale))
    L: Array = sigma[:, None] * vectors * np.sqrt(np.maximum(values, 0.0))
    return L


@dataclass(frozen=True, eq=False)
class TimeStepLinear:
    """The problem linearised at one e: R delta = z; the cost is a chi-square."""

    R: Array
    z: Array
    cost: float
    local: Linearised

    def step(self, damping: float) -> tuple[Array, float]:
        """Minimum of the linear problem, with Marquardt's damping."""
        R, z = self.R, self.z
        if damping > 0.0:
            R, z = _triangle(
                np.vstack([R, np.sqrt(damping) * np.diag(np.linalg.norm(R, axis=0))]),
                np.concatenate([z, np.zeros(z.size)]),
            )
        delta = solve_triangular(R, z)
        left = self.z - self.R @ delta
        return delta, float(self.z @ self.z - left @ left)


@dataclass(frozen=True, eq=False)
class TimeStepProblem:
    """The least-squares problem of one sample, with a prior of x."""

    linearisation: Linearisation
    prior: CovarianceState
    sample: SampleInputs

    @cached_property
    def L(self) -> Array:
        """(p, p) factor of the prior."""
        return scaled_factor(self.prior.covariance)

    def x(self, e: Array) -> Array:
        """From coordinates of the prior."""
        x: Array = self.prior.mean + self.L @ e
        return x

    def linear(
        self,
        e: Array,
        *,
        d: Array | None = None,
        sample: SampleInputs | None = None,
        factor: Array | None = None,
    ) -> TimeStepLinear:
        """Linearise at e (p,); where numbers overflow, the cost is infinite.

        Products are differentiated at `d` (n, 20), by default the best. With a `factor` of Cov(x),
        what the linearisation leaves out counts as slack.
        """
        given = self.sample if sample is None else sample
        with np.errstate(over="ignore", invalid="ignore"):
            local = self.linearisation.at(self.x(e), given, d, factor)
            cost = float(local.residual @ local.residual + e @ e)
        if not (np.isfinite(cost) and np.isfinite(local.jacobian).all()):
            return TimeStepLinear(np.eye(e.size), np.zeros(e.size), np.inf, local)
        rows = np.vstack([local.jacobian @ self.L, np.eye(e.size)])
        R, z = _triangle(rows, -np.concatenate([local.residual, e]))
        return TimeStepLinear(R, z, cost, local)

    def factor(self, linear: TimeStepLinear) -> Array:
        """(p, p) S of Cov(x) = S Sᵀ."""
        S: Array = solve_triangular(linear.R, self.L.T, trans="T").T
        return S


def _triangle(rows: Array, right: Array) -> tuple[Array, Array]:
    """R (p, p) and z (p,) of rows (k, p) with k ≥ p and a right-hand side, by reflections."""
    p = rows.shape[1]
    R = qr_r(np.column_stack([rows, right]))
    return R[:p, :p], R[:p, p]


def qr_r(rows: Array) -> Array:
    """The triangle of a QR decomposition alone."""
    return np.asarray(np.linalg.qr(rows, mode="r"))
