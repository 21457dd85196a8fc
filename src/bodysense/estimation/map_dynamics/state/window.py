"""The least-squares problem of a window of samples, and its posterior.

    min  Σ_t |r_t(x_t, c)|²  +  Σ_t |x_t+1 - F x_t|²_Q  +  |(x_0, c) - prior|²

See `smoothing`; here the rows are written down, sample by sample, in as many threads as numba has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numba
import numpy as np
from scipy.linalg import solve_triangular

from bodysense.estimation._kernels.elimination import EXACT
from bodysense.estimation._kernels.solve import Found
from bodysense.estimation.map_dynamics.state.gauss_newton import (
    Ending,
    qr_r,
    scaled_factor,
)
from bodysense.estimation.map_dynamics.state.linearisation import Linearisation, SampleInputs
from bodysense.estimation.map_dynamics.state.posterior import StatePosterior, assembled, widened
from bodysense.kalman.model import CovarianceState
from bodysense.kalman.motion import IntegratorChain
from bodysense.spatial.arrays import Array

# Least squares over a window of samples: a chain of blocks with common columns, by QR.
#
#     rows of sample t          on x_t and c
#     rows between t and t + 1  on x_t and x_t+1
#
# c is what is the same at all samples. From the first sample to the last, reflections eliminate
# x_t: R_t x_t + N_t x_t+1 + C_t c = z_t. Back from the last, means and covariances follow,
#
#     x_t = R_t⁻¹ (z_t - N_t x_t+1 - C_t c + noise),   noise ~ N(0, 1): Cov(x_t) from Cov(x_t+1, c),
#
# which only adds what is positive. Work grows with the number of samples, not with its cube.


@dataclass(frozen=True, eq=False)
class Link:
    """Rows between two samples: before x_t + after x_t+1 = right."""

    before: Array  # (k, p)
    after: Array  # (k, p)
    right: Array  # (k,)


@dataclass(frozen=True, eq=False)
class _Eliminated:
    """R x_t + N x_t+1 + C c = z."""

    R: Array
    N: Array
    C: Array
    z: Array


@dataclass(frozen=True, eq=False)
class WindowLinear:
    """A linearised window.

    Attributes:
        p: numbers of a sample.
        samples: T blocks of rows (k, p + c + 1), the last column the right-hand side.
        links: T - 1 of them.
        cost: chi-square where it was linearised.
    """

    p: int
    samples: Sequence[Array]
    links: Sequence[Link]
    cost: float

    @property
    def c(self) -> int:
        return int(self.samples[0].shape[1]) - 1 - self.p

    def step(self, damping: float) -> tuple[Array, float]:
        """Change (T p + c,) of all unknowns, and how much lower the linear cost is then."""
        chain, R, z = self._eliminate(damping)
        common = solve_triangular(R, z) if self.c else np.zeros(0)
        x = np.zeros((len(chain), self.p))
        after = np.zeros(self.p)
        for t in range(len(chain) - 1, -1, -1):
            e = chain[t]
            after = x[t] = solve_triangular(e.R, e.z - e.N @ after - e.C @ common)
        return np.concatenate([x.ravel(), common]), self._decrease(x, common)

    def covariances(self) -> list[Array]:
        """(p + c, p + c) of (x_t, c) at all samples."""
        chain, R, _ = self._eliminate(0.0)
        p, c = self.p, self.c
        inverse = solve_triangular(R, np.eye(c)) if c else np.zeros((0, 0))
        after = np.zeros((p + c, p + c))
        after[p:, p:] = inverse @ inverse.T
        result = []
        for e in reversed(chain):
            own = solve_triangular(e.R, np.eye(p))
            gain = -own @ np.hstack([e.N, e.C])
            both = gain @ after
            here = np.empty_like(after)
            here[:p, :p] = own @ own.T + both @ gain.T
            here[:p, p:] = both[:, p:]
            here[p:, :p] = both[:, p:].T
            here[p:, p:] = after[p:, p:]
            result.append(here)
            after = here
        return result[::-1]

    def _eliminate(self, damping: float) -> tuple[list[_Eliminated], Array, Array]:
        p, c = self.p, self.c
        chain: list[_Eliminated] = []
        held = np.zeros((0, p + c + 1))
        for t, link in enumerate(self.links):
            top = self._stacked(t, held, damping)
            k = top.shape[0]
            wide = np.zeros((k + link.right.size, 2 * p + c + 1))
            wide[:k, :p], wide[:k, 2 * p :] = top[:, :p], top[:, p:]
            wide[k:, :p], wide[k:, p : 2 * p], wide[k:, -1] = link.before, link.after, link.right
            R = qr_r(wide)
            chain.append(_Eliminated(R[:p, :p], R[:p, p : 2 * p], R[:p, 2 * p : -1], R[:p, -1]))
            held = R[p:, p:]
        R = qr_r(self._stacked(len(self.links), held, damping))
        chain.append(_Eliminated(R[:p, :p], np.zeros((p, p)), R[:p, p:-1], R[:p, -1]))
        return chain, R[p : p + c, p : p + c], R[p : p + c, -1]

    def _stacked(self, t: int, held: Array, damping: float) -> Array:
        """What earlier samples say, the rows of this one, and damping."""
        rows = [held, self.samples[t]]
        if damping > 0.0:
            rows.append(np.sqrt(damping) * self._scales(t))
        return np.vstack(rows)

    def _scales(self, t: int) -> Array:
        """Rows of Marquardt's damping: the size of each column."""
        squares = (self.samples[t][:, :-1] ** 2).sum(axis=0)
        if t > 0:
            squares[: self.p] += (self.links[t - 1].after ** 2).sum(axis=0)
        if t < len(self.links):
            squares[: self.p] += (self.links[t].before ** 2).sum(axis=0)
        rows = np.zeros((squares.size, squares.size + 1))
        np.fill_diagonal(rows, np.sqrt(squares))
        return rows

    def _decrease(self, x: Array, common: Array) -> float:
        """How much lower the linear cost is after a step."""
        gain = 0.0
        for t, rows in enumerate(self.samples):
            gain += _gain(rows[:, -1], rows[:, : self.p] @ x[t] + rows[:, self.p : -1] @ common)
        for t, link in enumerate(self.links):
            gain += _gain(link.right, link.before @ x[t] + link.after @ x[t + 1])
        return gain


def _gain(right: Array, explained: Array) -> float:
    left = right - explained
    return float(right @ right - left @ left)


_Out = TypeVar("_Out")


class WindowProblem:
    """The problem of one window; unknowns are all x_t, then c in units of its prior."""

    def __init__(
        self,
        linearisation: Linearisation,
        prior: CovarianceState,
        chain: IntegratorChain,
        samples: Sequence[SampleInputs],
        h: Array,
    ) -> None:
        """Lay the window out: T samples, h (T - 1,) [s] from each to the next.

        The linearisation is of order 3; the prior is of all of x at the first sample, biases and
        parameters included.
        """
        self.linearisation, self.layout = linearisation, linearisation.layout
        self.samples, self.sigma = samples, linearisation.nuisances.sigma
        k, local = self.layout.joints, self.layout.local
        unit = np.concatenate([np.ones(local), np.where(self.sigma > 0.0, self.sigma, 1.0)])
        self.mean = prior.mean / unit
        self.first = _information(prior.covariance / np.outer(unit, unit))
        self.others = np.zeros_like(self.first)  # of what has no past: root's turn and velocity
        self.others[k:local, k:local] = _information(prior.covariance[k:local, k:local])
        wide = ((0, 0), (0, local - k))
        self.blocks = [[np.pad(rows, wide) for rows in chain.white_rows(step)] for step in h]
        shares = min(len(samples), numba.get_num_threads())
        self.workers = [linearisation, *(linearisation.another() for _ in range(shares - 1))]

    def linear(self, unknown: Array) -> WindowLinear:
        """Linearise everywhere."""
        x, c = self._split(unknown)
        local, T = self.layout.local, len(self.samples)
        full = [np.concatenate([x[t], self.sigma * c]) for t in range(T)]

        def rows(worker: Linearisation, t: int) -> tuple[Array, float]:
            with np.errstate(over="ignore", invalid="ignore"):
                at = worker.at(full[t], self.samples[t])
            jacobian = at.jacobian
            jacobian[:, local:] *= self.sigma
            W = self.first if t == 0 else self.others
            residual = W @ (np.concatenate([x[t], c]) - self.mean)
            priors = np.hstack([W, -residual[:, None]])
            read = np.hstack([jacobian, -at.residual[:, None]])
            with np.errstate(over="ignore", invalid="ignore"):
                cost = at.residual @ at.residual + residual @ residual
            if not (np.isfinite(cost) and np.isfinite(jacobian).all()):
                return np.eye(W.shape[1], W.shape[1] + 1), np.inf
            return qr_r(np.vstack([read, priors])), float(cost)

        result = self._everywhere(rows)
        links = [
            Link(before, after, -(before @ x[t] + after @ x[t + 1]))
            for t, (before, after) in enumerate(self.blocks)
        ]
        cost = sum(cost for _, cost in result)
        cost += sum(float(link.right @ link.right) for link in links)
        cost = cost if np.isfinite(cost) else np.inf
        return WindowLinear(local, [block for block, _ in result], links, cost)

    def posterior(self, unknown: Array, linear: WindowLinear, ending: Ending) -> StatePosterior:
        """Name what was found."""
        x, c = self._split(unknown)
        local = self.layout.local
        scale = np.concatenate([np.ones(local), self.sigma])
        spreads = [scale[:, None] * P * scale for P in linear.covariances()]
        states = [
            CovarianceState(np.concatenate([x[t], self.sigma * c]), P)
            for t, P in enumerate(spreads)
        ]

        def dynamics(worker: Linearisation, t: int) -> Found:
            slope = worker.at(states[t].mean, self.samples[t]).slope
            given = worker.solved(states[t].mean, self.samples[t], spread=True)
            return widened(given, slope, scaled_factor(states[t].covariance))

        return assembled(
            self.linearisation,
            self.samples,
            states,
            self._everywhere(dynamics),
            cost=linear.cost,
            ending=ending,
            single=False,
        )

    def _split(self, unknown: Array) -> tuple[Array, Array]:
        T, local = len(self.samples), self.layout.local
        return unknown[: T * local].reshape(T, local), unknown[T * local :]

    def _everywhere(self, work: Callable[[Linearisation, int], _Out]) -> list[_Out]:
        """Do something at all samples, shared among threads with their own memory."""
        T, shares = len(self.samples), len(self.workers)
        if shares == 1:
            return [work(self.workers[0], t) for t in range(T)]

        def share(k: int) -> list[_Out]:
            return [work(self.workers[k], t) for t in range(T * k // shares, T * (k + 1) // shares)]

        with ThreadPoolExecutor(shares) as pool:
            return [result for part in pool.map(share, range(shares)) for result in part]


def _information(covariance: Array) -> Array:
    """W with Wᵀ W the inverse of a covariance; what is certain has a tiny variance."""
    sigma = np.sqrt(np.diag(covariance))
    scale = np.maximum(sigma, EXACT)
    values, vectors = np.linalg.eigh(covariance / np.outer(scale, scale))
    W: Array = vectors.T / np.sqrt(np.maximum(values, 1e-12))[:, None] / scale
    return W
