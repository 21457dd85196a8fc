"""`StateSmoother`: state and dynamics over a window of samples, all readings for every sample.

    min  Σ_t |r_t(x_t, c)|²  +  Σ_t |x_t+1 - F x_t|²_Q  +  |(x_0, c) - prior|²

with r_t what the best d of the sample leaves unexplained (see `linearisation`), x = (q, q̇, q̈)
driven by white jerk, c biases and parameters, the same at all samples. Gauss-Newton over the whole
window, from what tracking it says. A gyroscope and an accelerometer above and below a joint stand
in for its encoder.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from bodysense.errors import ShapeError
from bodysense.estimation.map_dynamics.estimator import MapDynamics
from bodysense.estimation.map_dynamics.state.estimator import sample_of
from bodysense.estimation.map_dynamics.state.gauss_newton import descend
from bodysense.estimation.map_dynamics.state.linearisation import SampleInputs
from bodysense.estimation.map_dynamics.state.posterior import StatePosterior
from bodysense.estimation.map_dynamics.state.prior import StatePrior, steps
from bodysense.estimation.map_dynamics.state.tracker import JERK, StateTracker
from bodysense.estimation.map_dynamics.state.window import WindowProblem
from bodysense.spatial.arrays import Array, as_array

ITERATIONS = 20
"""Most steps, of which a handful are usual."""


class StateSmoother:
    """The estimator of a window.

    Attributes:
        problem: the robot with its sensors and assumptions.
        state: prior at the first sample, with accelerations.
        jerk: (n,) spectral density of each joint's jerk.
    """

    def __init__(
        self,
        problem: MapDynamics,
        state: StatePrior,
        *,
        jerk: ArrayLike = JERK,
        parameter_covariance: ArrayLike | None = None,
    ) -> None:
        """Lay the problem out; for the arguments see `StateTracker`."""
        self._tracker = StateTracker(
            problem, state, jerk=jerk, parameter_covariance=parameter_covariance
        )
        self.problem, self.jerk = problem, self._tracker.jerk
        self.state = self._tracker.state
        self._linearisation = self._tracker.linearisation

    def estimate(
        self,
        times: ArrayLike,
        readings: ArrayLike,
        *,
        gravity: ArrayLike | None = None,
        iterations: int = ITERATIONS,
    ) -> StatePosterior:
        """Posterior of all samples.

        Args:
            times: (T,) [s], growing.
            readings: (T, m), NaN where there is none.
            gravity: (3,) or (T, 3) in the frame of a root that is held.
            iterations: most steps of Gauss-Newton.
        """
        t = as_array(times, (None,), "times")
        y = np.array(readings, dtype=np.float64)
        if t.size == 0 or y.shape != (t.size, self.problem.layout.size):
            raise ShapeError(
                f"{t.size} times and readings of shape {y.shape}: give at least one sample, and "
                f"{self.problem.layout.size} readings of each."
            )
        g = None if gravity is None else np.broadcast_to(gravity, (t.size, 3))
        self._tracker.reset()
        return self._window(t, y, g, iterations, t.size)

    def restart(self, state: StatePrior) -> None:
        """Begin anew after a pause, with biases and parameters as found so far."""
        self._tracker.restart(state)

    @property
    def joints(self) -> StatePrior:
        """What was believed of the joints when the last of `step`'s samples had been read."""
        return self._tracker.joints

    def step(
        self,
        times: ArrayLike,
        readings: ArrayLike,
        *,
        ahead: int = 0,
        gravity: ArrayLike | None = None,
        iterations: int = ITERATIONS,
    ) -> StatePosterior:
        """Posterior of a window that follows the one before, from which its prior comes.

        Args:
            times: (T,) [s], growing.
            readings: (T, m), NaN where there is none.
            ahead: so many of the last samples are read, and belong to the next window.
            gravity: (3,) or (T, 3) in the frame of a root that is held.
            iterations: most steps of Gauss-Newton.
        """
        t, y = as_array(times, (None,), "times"), np.array(readings, dtype=np.float64)
        g = None if gravity is None else np.broadcast_to(gravity, (t.size, 3))
        return self._window(t, y, g, iterations, t.size - ahead)

    def _window(
        self, t: Array, y: Array, gravity: Array | None, iterations: int, own: int
    ) -> StatePosterior:
        """Of all samples; the tracker stays where its own samples end."""
        h = steps(t)
        prior = self._tracker.predicted(t[0])
        start, samples = self._tracked(t, y, gravity, own)
        window = WindowProblem(self._linearisation, prior, self.jerk, samples, h)
        result = descend(start, window.linear, max(1, iterations))
        return window.posterior(result.point, result.linear, result.ending)

    def _tracked(
        self, t: Array, y: Array, gravity: Array | None, own: int
    ) -> tuple[Array, list[SampleInputs]]:
        """Where to start, and the samples."""
        tracker, layout = self._tracker, self._linearisation.layout
        mark = tracker.mark()
        samples, local, common = [], [], np.zeros(layout.constants)
        for k in range(t.size):
            here = None if gravity is None else gravity[k]
            q = np.ascontiguousarray(layout.q(tracker.predicted(t[k]).mean))
            samples.append(sample_of(self._linearisation, q, y[k], here))
            x = tracker.advance(t[k], samples[-1])
            local.append(x[: layout.local])
            common = layout.constant(x)
            if k == own - 1:
                mark = tracker.mark()
        tracker.back(mark)
        sigma = self._linearisation.nuisances.sigma
        scaled = np.divide(common, sigma, out=np.zeros_like(common), where=sigma > 0.0)
        return np.concatenate([*local, scaled]), samples
