"""Interior-point search from one start: a barrier that fades, with quasi-Newton steps.

For a sequence of mu that falls, F = f + mu b is lowered by steps

    d = -(B + mu b'')⁻¹ (f' + mu b')

where b'' is known (linear limits exactly) and B is the BFGS estimate of f'' alone, so that it stays
good when mu changes. Steps stay inside the limits, so that every iterate can be used. The order of
the smooth criterion rises as mu falls: at first all small eigenvalues count, at the end the
smallest. Nocedal and Wright, "Numerical Optimization", chapters 6 and 19.
"""

from __future__ import annotations

import numpy as np

from bodysense.excitation.motion_problem import Evaluation, MotionProblem
from bodysense.spatial.arrays import Array

# Tuning, chosen on random motions of a Panda.
_FIRST_MU, _LAST_MU = 0.03, 1e-5  # weight of the barrier, first and last
_MU_FACTOR = 0.5  # from one weight to the next
_ORDERS = (1.0, 100.0)  # of the smooth criterion, at the first and the last weight
_MAX_STEPS = 20  # per weight
_STEP_FRACTION = 0.97  # of the way to a linear limit
_MIN_GAIN = 3e-5  # expected gain of a step below which the weight is lowered


class BarrierSearch:
    """The state of one search. `step` until `done`; `best` and `best_value` are always usable."""

    def __init__(self, problem: MotionProblem, x: Array) -> None:
        """Start at x, which must keep all limits."""
        self._problem = problem
        self._mu = _FIRST_MU
        self._B: Array | None = None
        self._steps = 0
        self._x = x
        self._now = problem.evaluate(x, self._order)
        self.iterations = 0
        self.done = not np.isfinite(self._now.barrier)
        self.best, self.best_value = x, self._now.value

    @property
    def _order(self) -> float:
        """From the first to the last of `_ORDERS` as mu falls, geometrically."""
        share = np.log(_FIRST_MU / self._mu) / np.log(_FIRST_MU / _LAST_MU)
        return float(_ORDERS[0] * (_ORDERS[1] / _ORDERS[0]) ** min(1.0, share))

    def step(self) -> None:
        """Take one step, or lower mu where no more is to be gained."""
        now, mu = self._now, self._mu
        self.iterations += 1
        g = now.gradient + mu * now.barrier_gradient
        d, slope = self._direction(now, g)
        self._steps += 1
        result = self._search(d, slope) if slope < 0.0 else None
        if result is not None:
            x, new = result
            self._update(x - self._x, new.gradient - now.gradient, now)
            self._x, self._now = x, new
            if new.value < self.best_value:
                self.best, self.best_value = x, new.value
        elif self._B is not None and slope < 0.0:
            self._B = None  # the BFGS estimate misleads: start it anew
            return
        if result is None or -slope < _MIN_GAIN + 0.1 * mu or self._steps >= _MAX_STEPS:
            self._lower()

    def _lower(self) -> None:
        if self._mu <= _LAST_MU:
            self.done = self._steps < _MAX_STEPS
            self._steps = 0
            return
        self._mu = max(_MU_FACTOR * self._mu, _LAST_MU)
        self._steps = 0
        self._now = self._problem.evaluate(self._x, self._order)

    def _direction(self, now: Evaluation, g: Array) -> tuple[Array, float]:
        H = self._mu * now.barrier_curvature
        if self._B is None:
            # The barrier's own metric, such that the first step is a modest one in it.
            size = np.sqrt(float(now.gradient @ now.gradient) / g.size)
            H = H + np.diag(np.full(g.size, 10.0 * size + 1e-12))
        else:
            H = H + self._B
        # Both parts are positive (semi)definite; a small regularisation guards against rounding.
        H = H + (1e-10 * np.trace(H) / g.size) * np.eye(g.size)
        d = -np.linalg.solve(H, g)
        return d.reshape(self._x.shape), float(g @ d)

    def _search(self, d: Array, slope: float) -> tuple[Array, Evaluation] | None:
        F = self._now.smooth + self._mu * self._now.barrier
        step = min(1.0, _STEP_FRACTION * self._problem.longest_step(self._x, d))
        for _ in range(12):
            x = self._x + step * d
            new = self._problem.evaluate(x, self._order)
            value = new.smooth + self._mu * new.barrier
            if value <= F + 1e-4 * step * slope:
                return x, new
            # The minimum of the parabola through both values and the slope, not too far off.
            if np.isfinite(value):
                bend = value - F - step * slope
                step = float(np.clip(-0.5 * slope * step**2 / bend, 0.1 * step, 0.5 * step))
            else:
                step *= 0.4
        return None

    def _update(self, s: Array, y: Array, now: Evaluation) -> None:
        """BFGS, damped as by Powell so that B stays positive definite."""
        move = s.ravel()
        if self._B is None:
            scale = float(y @ y) / max(abs(float(y @ move)), 1e-300)
            floor = float(np.sqrt(now.gradient @ now.gradient / move.size))
            self._B = np.diag(np.full(move.size, float(np.clip(scale, floor, 100.0 * floor))))
        Bs = self._B @ move
        sBs, sy = float(move @ Bs), float(move @ y)
        if sBs <= 0.0:
            return
        if sy < 0.2 * sBs:
            share = 0.8 * sBs / (sBs - sy)
            y = share * y + (1.0 - share) * Bs
            sy = float(move @ y)
        self._B = self._B - np.outer(Bs, Bs) / sBs + np.outer(y, y) / sy
