"""`OnlineBiases`: constant errors of sensors, followed in a stream.

Readings with biases b ~ N(b̂, P) besides noise of covariance R enter the estimate less b̂, and with
the noise D = R + diag P. Of errors of these readings the share L = ∂r/∂y is left in their residuals
r, beside what other sources of noise leave, so that

    Cov[b, r] = P Lᵀ,   Cov[r] = L (R + P) Lᵀ + L D (1 - L)ᵀ

and b̂ and P follow as in any Kalman filter. A bias drifts by its prior standard deviation in an
hour. Nothing is learned during a contact, or from a sensor that is not accepted.
"""

from __future__ import annotations

import numpy as np

from bodysense.estimation.map_dynamics.estimator import MapDynamics
from bodysense.estimation.map_dynamics.gating import Gate
from bodysense.estimation.map_dynamics.solution import Samples, room
from bodysense.spatial.arrays import Array

_DRIFT = 3600.0  # s, in which a bias wanders by its prior standard deviation
_LEARN = 5  # samples between two of which something is learned: it need not be quick
_EVERY = 40  # times that, between two looks at a column of L, which changes with the posture
_TINY = 1e-6  # of D, besides Cov[r], which has no inverse where sensors are not redundant
_CONTACT = 3.0  # posterior standard deviations of an external wrench that is a contact


class OnlineBiases:
    """Of one stream; sensors without `bias_sigma` have none."""

    def __init__(self, problem: MapDynamics, gate: Gate, samples: Samples) -> None:
        layout = problem.layout
        self._problem, self._gate, self._given = problem, gate, samples
        rows, prior, sensors = [], [], []
        for k, sensor in enumerate(problem.sensors):
            if sensor.bias_sigma is None:
                continue
            where = layout.slices[sensor.name]
            for a, sigma in zip(range(where.start, where.stop), sensor.bias_sigma, strict=True):
                if sigma > 0.0 and gate.channels.counts[a]:
                    rows.append(a)
                    prior.append(sigma**2)
                    sensors.append(k)
        self._rows, self._sensors = (
            np.array(rows, dtype=np.int64),
            np.array(sensors, dtype=np.int64),
        )
        self._prior = np.array(prior)
        gate.watch.bias_var[self._rows] = self._prior
        self._P, self._L = np.diag(self._prior), np.zeros((len(rows), len(rows)))
        self._R = gate.channels.sigma[self._rows] ** 2
        self._elapsed = 0.0
        self._trial = samples._replace(y=samples.y.copy())
        self._found = room(problem.tree, layout, 1, 0)
        self._place = np.argsort(layout.order)
        free = problem._priors.n_wrench > 0
        names = [f"fx.{problem.tree.names[i]}" for i in problem.tree.with_unknowns if free[i]]
        bodies = [i for i in problem.tree.with_unknowns if free[i]]
        every = np.arange(problem.variables.size)
        self._wrenches = np.concatenate([every[:0], *(every[problem.variables[n]] for n in names)])
        self._means = problem._priors.wrench_mean[bodies].ravel()
        self._steps = 0

    def __bool__(self) -> bool:
        return bool(self._rows.size)

    def learn(self, dt: float, residual: Array, mean: Array, variance: Array | None) -> None:
        """Take the residuals (m,) of a sample in, as it was solved last."""
        self._elapsed += max(dt, 0.0)
        self._steps += 1
        if self._steps % _LEARN != 1 or self._is_touched(mean, variance):
            return
        watch, rows, k = self._gate.watch, self._rows, self._sensors
        r = residual[rows]
        if watch.missing[k].any() or watch.odd[k].any() or not np.isfinite(r).all():
            return
        self._look()
        P, L = self._P, self._L
        P[np.diag_indices_from(P)] += self._elapsed / _DRIFT * self._prior
        D = self._R * watch.scale[k] ** 2
        C = L @ (P + np.diag(self._R)) @ L.T + (L * D) @ (np.eye(rows.size) - L).T
        C[np.diag_indices_from(C)] += _TINY * D
        gain = np.linalg.solve(0.5 * (C + C.T), L @ P).T
        keep = np.eye(rows.size) - gain @ L
        watch.bias[rows] += gain @ r
        self._P = 0.5 * (keep @ P + (keep @ P).T)
        watch.bias_var[rows] = np.clip(np.diag(self._P), 0.0, self._prior)
        self._elapsed = 0.0

    def _is_touched(self, mean: Array, variance: Array | None) -> bool:
        """Whether an external wrench differs from what it was taken to be."""
        if variance is None:
            return False
        off = mean[self._wrenches] - self._means
        return bool((off * off > _CONTACT**2 * variance[self._wrenches]).any())

    def _look(self) -> None:
        """Find columns of L: all while P shrinks, then one after the other."""
        n = self._steps // _LEARN
        if n & (n - 1) == 0:
            for column in range(self._rows.size):
                self._find_column(column)
        elif n % _EVERY == 0:
            self._find_column(n // _EVERY % self._rows.size)

    def _find_column(self, column: int) -> None:
        a = int(self._rows[column])
        p, of_rows = int(self._place[a]), self._place[self._rows]
        trial, step = self._trial, float(self._gate.channels.sigma[a]) or 1.0
        trial.y[0] = self._given.y[0]
        self._problem.solve_into(trial, self._found)
        before = self._found.residual[0, of_rows].copy()
        trial.y[0, p] += step
        self._problem.solve_into(trial, self._found)
        self._L[:, column] = (self._found.residual[0, of_rows] - before) / step
