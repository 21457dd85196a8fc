"""The noise and the biases of sensors over a log, as the posterior tells of them.

The noise of a sensor's readings is what the prediction leaves, n = y - H x, where x are the
accelerations and wrenches that it reads. After all readings

    E[n | y] = y - H x̂ = r,     Cov[n | y] = H C Hᵀ,     Cov[r] = Sigma - H C Hᵀ

with C the posterior covariance of x.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag, solve_triangular
from scipy.sparse.linalg import LinearOperator, cg

from bodysense.estimation._kernels.problem import EXTERNAL, GROUPS, PARENT_SIDE
from bodysense.estimation._kernels.solve import Found
from bodysense.estimation.map_dynamics.dense_roots import DenseRoots
from bodysense.estimation.map_dynamics.equations import Equations
from bodysense.estimation.map_dynamics.estimator import MapDynamics
from bodysense.estimation.map_dynamics.solution import Samples
from bodysense.sensors.sensor import Sensor
from bodysense.spatial.arrays import Array

_AT_ONCE = 2e7
"""Numbers of covariances that are held at a time: 160 MB."""


class Noise(NamedTuple):
    """Of a sensor at T samples: mean (T, m), NaN where absent, and covariance (T, m, m).

    Where its noise is s times as large as its covariance says, this is the noise over s.
    """

    mean: Array
    covariance: Array


def chunks(problem: MapDynamics, T: int) -> Iterator[slice]:
    """Samples to solve at a time, so that covariances of long logs fit into memory."""
    size = max(2, int(_AT_ONCE / (500 * problem.tree.n)))
    return (slice(at, min(at + size, T)) for at in range(0, T, size))


def noises(problem: MapDynamics, samples: Samples, found: Found) -> dict[str, Noise]:
    """Noise of every sensor by name; `found` by `problem.solve` with "blocks" or "slacks"."""
    layout, rows = problem.layout, problem.layout.arrays
    result = {}
    for sensor in problem.sensors:
        block = layout.block_of[sensor.name]
        here = slice(int(rows.first[block]), int(rows.first[block + 1]))
        weight, spread = samples.weight[:, block], _predicted(problem, samples, found, block)
        result[sensor.name] = Noise(
            weight[:, None] * found.residual[:, here], weight[:, None, None] ** 2 * spread
        )
    return result


def _predicted(problem: MapDynamics, samples: Samples, found: Found, block: int) -> Array:
    """(T, m, m) H C Hᵀ of a block of readings."""
    rows = problem.layout.arrays
    here = slice(int(rows.first[block]), int(rows.first[block + 1]))
    body, group = _place(rows.begin, block)
    if group == EXTERNAL:
        H = rows.on_external[here]
        return _congruence(H, found.external[:, body])
    if group == PARENT_SIDE:
        X = problem.tree.transforms(body, samples.q[:, problem.tree.joint[body]])
        T, m = X.shape[0], here.stop - here.start
        across = np.empty((T, m, 12))
        across[:, :, :6] = rows.on_alpha[here, :6]
        across[:, :, 6:] = -rows.on_wrench[here, :6] @ X.transpose(0, 2, 1)
        return _congruence(across, found.between[:, body])
    H = np.concatenate([rows.on_alpha[here], rows.on_wrench[here]], axis=1)
    return _congruence(H, found.joint[:, body])


def _congruence(H: Array, C: Array) -> Array:
    product: Array = H @ C @ np.swapaxes(H, -1, -2)
    return product


def _place(begin: np.ndarray, block: int) -> tuple[int, int]:
    for body in range(begin.shape[0]):
        for group in range(GROUPS):
            if begin[body, group] <= block < begin[body, group + 1]:
                return body, group
    raise IndexError(block)


# The dense problem at some samples of a log, for what changes little from one to the next.
#
# Covariances depend on positions and on which readings came, not on what was read: a few dozen
# samples show what thousands have on average. Sensors of different rates come together in patterns:
# each pattern is looked at by itself, and a look stands for its share of the samples that have it.

_LOOKS = 32
"""Samples to look at: with eight, steps of scoring are wrong on a humanoid."""

_PATTERNS = 32
"""Most patterns that are looked at each by itself: the commonest."""


def looks(problem: MapDynamics, samples: Samples) -> tuple[tuple[int, float], ...]:
    """Which samples to look at, and how many each stands for; all of a short log.

    They are spread evenly over those of every pattern.
    """
    if samples.size == 0:
        return ()
    group = _groups(presence(problem, samples))
    sizes = np.bincount(group)
    least = max(1, _LOOKS // (2 * sizes.size))
    result = []
    for k, size in enumerate(sizes):
        count = int(min(size, max(least, np.ceil(_LOOKS * size / samples.size))))
        at = np.flatnonzero(group == k)[evenly(int(size), count)]
        result += [(int(t), float(size / count)) for t in at]
    return tuple(sorted(result))


def thinned(problem: MapDynamics, samples: Samples, most: int) -> Samples:
    """At most so many samples, of every pattern the same share."""
    if samples.size <= most:
        return samples
    pattern = np.unique(presence(problem, samples), axis=0, return_inverse=True)[1].ravel()
    order = np.argsort(pattern, kind="stable")
    return samples.part(np.sort(order[evenly(samples.size, most)]))


def evenly(size: int, count: int) -> NDArray[np.int64]:
    """(count,) of the first `size` numbers, from the middle of equal parts."""
    return ((np.arange(count) + 0.5) * (size / count)).astype(np.int64)


def presence(problem: MapDynamics, samples: Samples) -> NDArray[np.bool_]:
    """(T, sensors) whether each gave a reading."""
    layout = problem.layout
    rows = np.empty(samples.y.shape, dtype=np.bool_)
    rows[:, layout.order] = np.isfinite(samples.y)
    present = np.empty((samples.size, len(problem.sensors)), dtype=np.bool_)
    for k, sensor in enumerate(problem.sensors):
        present[:, k] = rows[:, layout.slices[sensor.name]].all(axis=1)
    return present


def _groups(present: NDArray[np.bool_]) -> NDArray[np.int64]:
    """(T,) number of the group that a sample belongs to: its pattern, if that is a common one.

    The others go together by the rarest sensor they have, so that none is overlooked.
    """
    if present.shape[1] == 0:
        return np.zeros(len(present), dtype=np.int64)
    _, group, sizes = np.unique(present, axis=0, return_inverse=True, return_counts=True)
    group = group.ravel()
    if sizes.size > _PATTERNS:
        rank = np.empty(sizes.size, dtype=np.int64)
        rank[np.argsort(-sizes, kind="stable")] = np.arange(sizes.size)
        often = present.sum(axis=0)
        rarest = np.where(present, often, len(present) + 1).argmin(axis=1)
        rarest[~present.any(axis=1)] = often.size  # samples without any
        group = np.where(rank[group] < _PATTERNS, rank[group], _PATTERNS + rarest)
        group = np.unique(group, return_inverse=True)[1].ravel()
    return group.astype(np.int64)


def dense_roots(problem: MapDynamics, samples: Samples, t: int) -> DenseRoots:
    """Of one sample, with the sensors that are present."""
    layout, tree = problem.layout, problem.tree
    rows = np.empty(layout.constants.size)
    rows[layout.order] = samples.y[t]
    present = [s for s in problem.sensors if np.isfinite(rows[layout.slices[s.name]]).all()]
    equations = Equations.at(
        tree,
        present,
        samples.q[t],
        samples.dq[t],
        base_twist=samples.twist[t] if tree.floating else None,
        gravity=None if tree.floating else -samples.a0[t, :3],
    )
    scales = {s.name: 1.0 / float(samples.weight[t, layout.block_of[s.name]]) for s in present}
    return DenseRoots.of(equations, present, problem.assumptions, noise_scale=scales)


# `Biases`: what stays the same in readings over a log, found from all of it.
#
#     y_t = prediction + b + noise,     b = sigma β,   β ~ N(0, 1)
#
# Given the readings, β is normal. Its slope and its information are sums over samples,
#
#     g(β) = sigma Σ_t S_t⁻¹ (y_t - c_t - sigma β) - β,     N = 1 + sigma (Σ_t S_t⁻¹) sigma
#
# with S_t the covariance of the readings of a sample; S⁻¹ (y - c) is Sigma⁻¹ n̂, n̂ the mean of the
# noise that elimination finds. β comes from N β = g(0) by conjugate gradients, each step of which
# takes one elimination of all samples; N itself, for them and for the covariance of β, from looks
# at some. Sources of noise, sensors' or any other, follow a bias by effect = -∂ŝ/∂β, so that
#
#     Cov[s | y] = Cov[s | y, β] + effect N⁻¹ effectᵀ

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
    ) -> Iterator[tuple[int, float, dict[str, Array]]]:
        """Looks at some samples: what they add to the covariance of each source of noise.

        By the names of `DenseRoots`, in units of the root R of the source's covariance: R · Rᵀ is
        to be added.
        """
        L = np.linalg.cholesky(self.N)
        for t, weight in looks(problem, samples):
            roots = dense_roots(problem, samples, t)
            effect = _effect(roots, problem, self.sigma)
            white = solve_triangular(L, effect.T, lower=True).T
            parts = {name: white[roots.sources[name]] for name in roots.sources}
            yield t, weight, {name: part @ part.T for name, part in parts.items()}


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
    total, of_row = np.zeros(rows.size), problem.layout.block_of_row
    for which in chunks(problem, samples.size):
        part = _less(samples.part(which), rows, bias)
        residual = problem.solve(part, "means").residual[:, rows]
        total += np.nansum(part.weight[:, of_row[rows]] ** 2 * residual, axis=0)
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
