"""`StateTracker`: state and dynamics sample after sample, each the prior of the next.

    x(t + h) = F(h) x(t) + w,    x = (q, q̇, q̈), driven by white jerk (see `motion_prior`)

The iterated extended Kalman filter of the joint problem: biases and parameters are carried along
with all their correlations to the state. What comes later does not change what was said; see
`StateSmoother` for that.

A single sample can fit several states: an accelerometer feels the square of a velocity and not its
sign, and an elbow bent either way. Begin at rest, or with an honest prior about velocities and
accelerations; a wrong beginning shows as a chi-square that is far too large (see `notes`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from bodysense.errors import ShapeError
from bodysense.estimation.map_dynamics.estimator import MapDynamics
from bodysense.estimation.map_dynamics.state.estimator import (
    most_probable,
    require_joints,
    sample_of,
    solved,
)
from bodysense.estimation.map_dynamics.state.gauss_newton import Gaussian, TimeStepProblem, descend
from bodysense.estimation.map_dynamics.state.linearisation import Linearisation, SampleInputs
from bodysense.estimation.map_dynamics.state.posterior import StatePosterior
from bodysense.estimation.map_dynamics.state.prior import (
    Nuisances,
    StatePrior,
    noise,
    steps,
    transition,
)
from bodysense.estimation.map_dynamics.state.window import WindowProblem
from bodysense.spatial.arrays import Array, as_array, one_each

JERK = 100.0
"""Spectral density of the jerk [(rad/s³)² s]: accelerations wander by 3 rad/s² in 0.1 s."""

_ITERATIONS = 10
"""Most steps of one sample; the prior is close, and one or two are usual."""


class StateTracker:
    """The estimator of a stream.

    Attributes:
        problem: the robot with its sensors and assumptions.
        state: prior at the first sample, with accelerations.
        jerk: (n,) spectral density of each joint's jerk.
        time: of the last readings [s]; `None` before the first.
    """

    def __init__(
        self,
        problem: MapDynamics,
        state: StatePrior,
        *,
        jerk: ArrayLike = JERK,
        parameter_covariance: ArrayLike | None = None,
    ) -> None:
        """Begin.

        Args:
            problem: the robot with its sensors and assumptions; its prior about joint
                accelerations is that of the first sample, unless the state has one.
            state: prior at the first sample.
            jerk: spectral density [(rad/s³)² s], one or (n,).
            parameter_covariance: see `StateAndDynamics`.
        """
        require_joints(problem, state)
        self.problem = problem
        self.state = state.with_accelerations(problem.assumptions.joint_acceleration)
        self.jerk = _checked_jerk(jerk, problem)
        nuisances = Nuisances.of(problem, parameter_covariance)
        self.linearisation = Linearisation(problem, nuisances, self.state.order)
        self.reset()

    def _begin(self, state: StatePrior) -> None:
        """Begin at a prior; that of the root's angular velocity holds later too."""
        self.time: float | None = None
        self._first: Gaussian = Gaussian.prior(self.linearisation, state)
        self._present: Gaussian = self._first

    def reset(self) -> None:
        """Forget all readings."""
        self._begin(self.state)

    def restart(self, state: StatePrior) -> None:
        """Begin anew after a pause, with biases and parameters as found so far.

        The prior of the root's angular velocity holds from now on; `reset` goes back to the
        first prior.
        """
        require_joints(self.problem, state, self.state.order)
        layout, result = self.linearisation.layout, self._present
        self._begin(state)
        kept = slice(layout.local, layout.size)
        mean, covariance = self._first.mean.copy(), self._first.covariance.copy()
        mean[kept], covariance[kept, kept] = result.mean[kept], result.covariance[kept, kept]
        self._present = Gaussian(mean, covariance)

    def mark(self) -> tuple[float | None, Gaussian, Gaussian]:
        """Where it is: time and priors, to come `back` to."""
        return self.time, self._first, self._present

    def back(self, mark: tuple[float | None, Gaussian, Gaussian]) -> None:
        """Forget what came after a mark."""
        self.time, self._first, self._present = mark

    @property
    def joints(self) -> StatePrior:
        """Posterior of the joints after the last readings."""
        layout, now = self.linearisation.layout, self._present
        k = layout.joints
        spread = now.covariance[:k, :k]
        return StatePrior(now.mean[:k].reshape(layout.order, -1), 0.5 * (spread + spread.T))

    def step(
        self,
        time: float,
        readings: ArrayLike,
        *,
        gravity: ArrayLike | None = None,
        iterations: int = _ITERATIONS,
    ) -> StatePosterior:
        """The posterior at a time, given all readings up to it.

        Args:
            time: [s], after the last one.
            readings: (m,), NaN where there is none.
            gravity: (3,) in the frame of a root that is held.
            iterations: most steps of Gauss-Newton.
        """
        prior = self.predicted(time)
        q = self.linearisation.layout.q(prior.mean)
        sample = sample_of(self.linearisation, np.ascontiguousarray(q), readings, gravity)
        problem = TimeStepProblem(self.linearisation, prior, sample)
        posterior, self._present = most_probable(problem, iterations)
        self.time = float(time)
        return posterior

    def advance(self, time: float, sample: SampleInputs) -> Array:
        """The mean of all of x at a time, without naming anything."""
        problem = TimeStepProblem(self.linearisation, self.predicted(time), sample)
        e, linear, _ = solved(problem, _ITERATIONS)
        S = problem.factor(linear)
        self._present = Gaussian(problem.x(e), S @ S.T)
        self.time = float(time)
        return self._present.mean

    def predicted(self, time: float) -> Gaussian:
        """Prediction of a time after the last readings."""
        if not np.isfinite(time) or (self.time is not None and time <= self.time):
            raise ShapeError(
                f"readings of {time} s come after those of {self.time} s: give them in order, or "
                "leave late ones out."
            )
        if self.time is None:
            return self._present
        return self._after(float(time) - self.time)

    def _after(self, h: float) -> Gaussian:
        layout, now, prior = self.linearisation.layout, self._present, self._first
        k, kept = layout.joints, np.r_[: layout.joints, layout.local : layout.size]
        F = np.eye(kept.size)
        F[:k, :k] = np.kron(transition(layout.order, h), np.eye(layout.n))
        mean, covariance = prior.mean.copy(), prior.covariance.copy()
        mean[kept] = F @ now.mean[kept]
        spread = F @ now.covariance[np.ix_(kept, kept)] @ F.T
        spread[:k, :k] += np.kron(noise(layout.order, h), np.diag(self.jerk))
        covariance[np.ix_(kept, kept)] = 0.5 * (spread + spread.T)
        return Gaussian(mean, covariance)


def _checked_jerk(jerk: ArrayLike, problem: MapDynamics) -> Array:
    """(n,) positive spectral densities."""
    density = one_each(jerk, problem.robot.n_joints, "jerk")
    if (density <= 0.0).any():
        raise ShapeError(f"jerk holds {density.min():g}: give positive spectral densities.")
    return density


# `StateSmoother`: state and dynamics over a window of samples, all readings for every sample.
#
#     min  Σ_t |r_t(x_t, c)|²  +  Σ_t |x_t+1 - F x_t|²_Q  +  |(x_0, c) - prior|²
#
# with r_t what the best d of the sample leaves unexplained (see `linearisation`), x = (q, q̇, q̈)
# driven by white jerk, c biases and parameters, the same at all samples. Gauss-Newton over the
# whole window, from what tracking it says. A gyroscope and an accelerometer above and below a joint
# stand in for its encoder.

_SMOOTHING_ITERATIONS = 20
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
        iterations: int = _SMOOTHING_ITERATIONS,
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
        """Posterior of the joints when the last of `step`'s samples had been read."""
        return self._tracker.joints

    def step(
        self,
        times: ArrayLike,
        readings: ArrayLike,
        *,
        ahead: int = 0,
        gravity: ArrayLike | None = None,
        iterations: int = _SMOOTHING_ITERATIONS,
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
