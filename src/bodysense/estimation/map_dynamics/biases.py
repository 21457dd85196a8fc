"""`Biases`: what stays the same in readings over a log, found from all of it.

    y_t = prediction + b + noise,     b = sigma β,   β ~ N(0, 1)

Given the readings, β is normal. Its slope and its information are sums over samples,

    g(β) = sigma Σ_t S_t⁻¹ (y_t - c_t - sigma β) - β,     N = 1 + sigma (Σ_t S_t⁻¹) sigma

with S_t the covariance of the readings of a sample; S⁻¹ (y - c) is Sigma⁻¹ n̂, n̂ the mean of the
noise that elimination finds. β comes from N β = g(0) by conjugate gradients, each step of which
takes one elimination of all samples; N itself, for them and for the covariance of β, from looks
at some. Sources of noise, sensors' or any other, follow a bias by effect = -∂ŝ/∂β, so that

    Cov[s | y] = Cov[s | y, β] + effect N⁻¹ effectᵀ
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag, solve_triangular
from scipy.sparse.linalg import LinearOperator, cg

from bodysense.estimation.map_dynamics.equations import DenseRoots
from bodysense.estimation.map_dynamics.noise import chunks
from bodysense.estimation.map_dynamics.solution import Samples
from bodysense.estimation.map_dynamics.subsampling import Look, dense_roots, looks
from bodysense.sensors.sensor import Sensor
from bodysense.spatial.arrays import Array

if TYPE_CHECKING:
    from bodysense.estimation.map_dynamics.estimator import MapDynamics

_CLOSE = 1e-6
"""Of the conjugate gradients, relative."""

_STEPS = 100
"""Most of them; a handful does where the looks are like the other samples."""


@dataclass(frozen=True, eq=False)
class Biases:
    """Of a log. Build it with `Biases.of`.

    Attributes:
        rows: (k,) the kernels' rows of all readings that have one.
        sigma: (k,) prior standard deviation of each.
        beta: (k,) means, in units of sigma.
        N: (k, k) information about beta.
        converged: whether the means converged.
    """

    rows: NDArray[np.int64]
    sigma: Array
    beta: Array
    N: Array
    converged: bool = True

    @classmethod
    def of(cls, problem: MapDynamics, samples: Samples) -> Biases | None:
        """Estimate biases from a log; `None` where no sensor has any.

        A sensor whose covariance is singular, and exact in parts, keeps its bias: nothing is
        taken out of it (`bias_note` says so).
        """
        rows, sigma, inverse = _biased(problem)
        if not sigma.any():
            return None
        N = np.eye(rows.size)
        for t, weight in looks(problem, samples):
            W = _effect(dense_roots(problem, samples, t), problem, sigma)
            N += weight * W.T @ W
        start = _noise(problem, samples, rows, np.zeros(rows.size))
        g = sigma * (inverse @ start)

        def product(beta: Array) -> Array:
            """N β, from what elimination makes of readings that are less by a bias."""
            less = start - _noise(problem, samples, rows, sigma * beta.ravel())
            return beta.ravel() + sigma * (inverse @ less)

        operator = LinearOperator(N.shape, matvec=product, dtype=np.float64)
        close = LinearOperator(N.shape, matvec=np.linalg.inv(N).__matmul__, dtype=np.float64)
        beta, status = cg(operator, g, M=close, rtol=_CLOSE, maxiter=_STEPS)
        return cls(rows, sigma, np.asarray(beta, dtype=np.float64), N, converged=status == 0)

    @property
    def log_share(self) -> float:
        """What the log density at these biases is changed by, so that it is that of the readings.

        log p(y) = log p(y | b) + log p(b) - log p(b | y) at the mean b.
        """
        return float(-0.5 * self.beta @ self.beta - 0.5 * np.linalg.slogdet(self.N)[1])

    def taken_out(self, samples: Samples) -> Samples:
        """The samples without them."""
        return _less(samples, self.rows, self.sigma * self.beta)

    def spreads(
        self, problem: MapDynamics, samples: Samples
    ) -> Iterator[tuple[Look, dict[str, Array]]]:
        """Looks at some samples: what they add to the covariance of each source of noise.

        By the names of `DenseRoots`, in units of the root R of the source's covariance: R · Rᵀ is
        to be added.
        """
        L = np.linalg.cholesky(self.N)
        for look in looks(problem, samples):
            roots = dense_roots(problem, samples, look.t)
            effect = _effect(roots, problem, self.sigma)
            white = solve_triangular(L, effect.T, lower=True).T
            parts = {name: white[roots.sources[name]] for name in roots.sources}
            yield look, {name: part @ part.T for name, part in parts.items()}


def bias_note(problem: MapDynamics, biases: Biases | None) -> str:
    """What is amiss with the biases of a log, in words; empty if nothing is."""
    estimated = {s.name for s in _with_bias(problem)}
    kept = [
        s.name
        for s in problem.sensors
        if s.bias_sigma is not None and np.any(s.bias_sigma) and s.name not in estimated
    ]
    notes = []
    if kept:
        notes.append(
            f"Biases of {', '.join(kept)} are not estimated, their covariances are singular: give "
            "all components some noise."
        )
    if biases is not None and not biases.converged:
        notes.append(
            "The biases of the sensors did not converge: narrow their bias_sigma, or give "
            "their readings more noise."
        )
    return " ".join(notes)


def _with_bias(problem: MapDynamics) -> list[Sensor]:
    """Sensors whose biases are estimated."""
    return [
        s
        for s in problem.sensors
        if s.bias_sigma is not None
        and np.linalg.matrix_rank(s.covariance, hermitian=True) == s.size
    ]


def _biased(problem: MapDynamics) -> tuple[NDArray[np.int64], Array, Array]:
    """Rows of the kernels that have a bias, its standard deviation, and Sigma⁻¹ of the rows."""
    place, sensors = np.argsort(problem.layout.order), _with_bias(problem)
    none: tuple[NDArray[np.int64], Array] = np.zeros(0, dtype=np.int64), np.zeros(0)
    rows = np.concatenate([none[0], *(place[problem.layout.slices[s.name]] for s in sensors)])
    sigma = np.concatenate([none[1], *(np.asarray(s.bias_sigma) for s in sensors)])
    return rows, sigma, np.asarray(block_diag(*(np.linalg.inv(s.covariance) for s in sensors)))


def _noise(problem: MapDynamics, samples: Samples, rows: NDArray[np.int64], bias: Array) -> Array:
    """(k,) sum of the noise's means over all samples, with a bias taken out of the readings."""
    total = np.zeros(rows.size)
    for which in chunks(problem, samples.size):
        part = _less(samples.part(which), rows, bias)
        total += np.nansum(problem.solve(part, "means").residual[:, rows], axis=0)
    return total


def _less(samples: Samples, rows: NDArray[np.int64], bias: Array) -> Samples:
    y = samples.y.copy()
    y[:, rows] -= bias
    return samples._replace(y=y)


def _effect(roots: DenseRoots, problem: MapDynamics, sigma: Array) -> Array:
    """(columns, k) -∂ŝ/∂β of all sources at a sample: Bᵀ S⁻¹ of the biased rows, times sigma."""
    Q, R = np.linalg.qr(roots.readings.T)
    size = np.abs(np.diag(R))
    tiny = size <= 1e-12 * size.max(initial=0.0)  # exact readings of known things
    R[tiny, tiny] = 1e-12 * size.max(initial=0.0)
    columns = np.zeros((R.shape[1], sigma.size))
    at = 0
    for sensor in _with_bias(problem):
        name = f"sensor.{sensor.name}"
        if name in roots.sources:  # rows of sensors are in the order of their columns
            first = roots.sources[name].start
            k = np.arange(sensor.size)
            columns[first + k, at + k] = sigma[at + k]
        at += sensor.size
    effect: Array = Q @ solve_triangular(R, columns, trans="T")
    return effect
