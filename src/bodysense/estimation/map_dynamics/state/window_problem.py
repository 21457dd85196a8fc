"""The least-squares problem of a window of moments, and its posterior.

    min  Σ_t |r_t(x_t, c)|²  +  Σ_t |x_t+1 - F x_t|²_Q  +  |(x_0, c) - prior|²

See `smoothing`; here the rows are written down, moment by moment, in as many threads as numba has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numba
import numpy as np

from bodysense.estimation._kernels.elimination import EXACT
from bodysense.estimation._kernels.solve import Found
from bodysense.estimation.map_dynamics.state.gauss_newton import Ending
from bodysense.estimation.map_dynamics.state.linearisation import Linearisation, Moment
from bodysense.estimation.map_dynamics.state.moment_problem import Gaussian, qr_r
from bodysense.estimation.map_dynamics.state.motion_prior import transition, whitener
from bodysense.estimation.map_dynamics.state.posterior import StatePosterior, assembled, widened
from bodysense.estimation.map_dynamics.state.square_root_window import Link, WindowLinear
from bodysense.spatial.arrays import Array

_Out = TypeVar("_Out")


class WindowProblem:
    """The problem of one window; unknowns are all x_t, then c in units of its prior."""

    def __init__(
        self,
        linearisation: Linearisation,
        prior: Gaussian,
        jerk: Array,
        moments: Sequence[Moment],
        h: Array,
    ) -> None:
        """Lay the window out.

        Args:
            linearisation: of the robot with its sensors, order 3.
            prior: of all of x at the first moment, biases and parameters included.
            jerk: (n,) spectral densities.
            moments: T of them.
            h: (T - 1,) time from each to the next.
        """
        self.linearisation, self.layout = linearisation, linearisation.layout
        self.moments, self.sigma = moments, linearisation.nuisances.sigma
        k, local = self.layout.joints, self.layout.local
        unit = np.concatenate([np.ones(local), np.where(self.sigma > 0.0, self.sigma, 1.0)])
        self.mean = prior.mean / unit
        self.first = _information(prior.covariance / np.outer(unit, unit))
        self.others = np.zeros_like(self.first)  # of what has no past: root's turn and velocity
        self.others[k:local, k:local] = _information(prior.covariance[k:local, k:local])
        self.blocks = [_between(self.layout.order, step, jerk, local) for step in h]
        shares = min(len(moments), numba.get_num_threads())
        self.workers = [linearisation, *(linearisation.another() for _ in range(shares - 1))]

    def linear(self, unknown: Array) -> WindowLinear:
        """Linearise everywhere."""
        x, c = self._split(unknown)
        local, T = self.layout.local, len(self.moments)
        full = [np.concatenate([x[t], self.sigma * c]) for t in range(T)]

        def rows(worker: Linearisation, t: int) -> tuple[Array, float]:
            with np.errstate(over="ignore", invalid="ignore"):
                at = worker.at(full[t], self.moments[t])
            jacobian = at.jacobian
            jacobian[:, local:] *= self.sigma
            W = self.first if t == 0 else self.others
            residual = W @ (np.concatenate([x[t], c]) - self.mean)
            beliefs = np.hstack([W, -residual[:, None]])
            read = np.hstack([jacobian, -at.residual[:, None]])
            with np.errstate(over="ignore", invalid="ignore"):
                cost = at.residual @ at.residual + residual @ residual
            if not (np.isfinite(cost) and np.isfinite(jacobian).all()):
                return np.eye(W.shape[1], W.shape[1] + 1), np.inf
            return qr_r(np.vstack([read, beliefs])), float(cost)

        found = self._everywhere(rows)
        links = [
            Link(before, after, -(before @ x[t] + after @ x[t + 1]))
            for t, (before, after) in enumerate(self.blocks)
        ]
        cost = sum(cost for _, cost in found)
        cost += sum(float(link.right @ link.right) for link in links)
        cost = cost if np.isfinite(cost) else np.inf
        return WindowLinear(local, [block for block, _ in found], links, cost)

    def posterior(self, unknown: Array, linear: WindowLinear, ending: Ending) -> StatePosterior:
        """Name what was found."""
        x, c = self._split(unknown)
        local = self.layout.local
        scale = np.concatenate([np.ones(local), self.sigma])
        spreads = [scale[:, None] * P * scale for P in linear.covariances()]
        states = [
            Gaussian(np.concatenate([x[t], self.sigma * c]), P) for t, P in enumerate(spreads)
        ]

        def dynamics(worker: Linearisation, t: int) -> Found:
            slope = worker.at(states[t].mean, self.moments[t]).slope
            given = worker.solved(states[t].mean, self.moments[t], spread=True)
            return widened(given, slope, states[t].factor)

        return assembled(
            self.linearisation,
            self.moments,
            states,
            self._everywhere(dynamics),
            cost=linear.cost,
            ending=ending,
            single=False,
        )

    def _split(self, unknown: Array) -> tuple[Array, Array]:
        T, local = len(self.moments), self.layout.local
        return unknown[: T * local].reshape(T, local), unknown[T * local :]

    def _everywhere(self, work: Callable[[Linearisation, int], _Out]) -> list[_Out]:
        """Do something at all moments, shared among threads with their own memory."""
        T, shares = len(self.moments), len(self.workers)
        if shares == 1:
            return [work(self.workers[0], t) for t in range(T)]

        def share(k: int) -> list[_Out]:
            return [work(self.workers[k], t) for t in range(T * k // shares, T * (k + 1) // shares)]

        with ThreadPoolExecutor(shares) as pool:
            return [found for part in pool.map(share, range(shares)) for found in part]


def _between(order: int, h: float, jerk: Array, local: int) -> tuple[Array, Array]:
    """Whitened rows of x_t+1 - F x_t, of x_t and of x_t+1."""
    scale = np.diag(1.0 / np.sqrt(jerk))
    W = whitener(order, h)
    after, before = np.kron(W, scale), -np.kron(W @ transition(order, h), scale)
    k = after.shape[0]
    wide = np.zeros((2, k, local))
    wide[0, :, :k], wide[1, :, :k] = before, after
    return wide[0], wide[1]


def _information(covariance: Array) -> Array:
    """W with Wᵀ W the inverse of a covariance; what is certain has a tiny variance."""
    sigma = np.sqrt(np.diag(covariance))
    scale = np.maximum(sigma, EXACT)
    values, vectors = np.linalg.eigh(covariance / np.outer(scale, scale))
    W: Array = vectors.T / np.sqrt(np.maximum(values, 1e-12))[:, None] / scale
    return W
