"""`StateTracker`: state and dynamics sample after sample, each the prior of the next.

    x(t + h) = F(h) x(t) + w,    x = (q, q̇, q̈), driven by white jerk (see `IntegratorChain`)

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
from bodysense.estimation.map_dynamics.state.gauss_newton import (
    TimeStepProblem,
    descend,
    whole_prior,
)
from bodysense.estimation.map_dynamics.state.linearisation import Linearisation, SampleInputs
from bodysense.estimation.map_dynamics.state.posterior import StatePosterior, joint_prior
from bodysense.estimation.map_dynamics.state.prior import Nuisances, StatePrior
from bodysense.estimation.map_dynamics.state.window import WindowProblem
from bodysense.kalman.model import CovarianceState, propagated
from bodysense.kalman.motion import IntegratorChain
from bodysense.spatial.arrays import Array, as_array, one_each

JERK = 100.0
"""Spectral density of the jerk [(rad/s³)² s]: accelerations wander by 3 rad/s² in 0.1 s."""

_ITERATIONS = 10
"""Most steps of one sample; the prior is close, and one or two are usual."""

_SMOOTHING_ITERATIONS = 20
"""Most steps over a window, of which a handful are usual."""

_SHORTEST = 1e-9  # s: samples that are not apart


class MovingState:
    """The state of a robot that moves on from sample to sample.

    `time` is that of the last readings [s]; `None` before the first.
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
        self.jerk = one_each(jerk, problem.robot.n_joints, "jerk")
        if (self.jerk <= 0.0).any():
            raise ShapeError(f"jerk holds {self.jerk.min():g}: give positive spectral densities.")
        nuisances = Nuisances.of(problem, parameter_covariance)
        self._linearisation = Linearisation(problem, nuisances, self.state.order)
        self._chain = IntegratorChain(self.state.order, self.jerk)
        self.reset()

    def _begin(self, state: StatePrior) -> None:
        """Begin at a prior; that of the root's angular velocity holds later too."""
        self.time: float | None = None
        self._first: CovarianceState = whole_prior(self._linearisation, state)
        self._present: CovarianceState = self._first

    def reset(self) -> None:
        """Forget all readings."""
        self._begin(self.state)

    def restart(self, state: StatePrior) -> None:
        """Begin anew after a pause, with biases and parameters as found so far.

        The prior of the root's angular velocity holds from now on; `reset` goes back to the
        first prior.
        """
        require_joints(self.problem, state, self.state.order)
        layout, result = self._linearisation.layout, self._present
        self._begin(state)
        kept = slice(layout.local, layout.size)
        mean, covariance = self._first.mean.copy(), self._first.covariance.copy()
        mean[kept], covariance[kept, kept] = result.mean[kept], result.covariance[kept, kept]
        self._present = CovarianceState(mean, covariance)

    @property
    def joints(self) -> StatePrior:
        """Posterior of the joints after the last readings; of a window after its own samples."""
        return joint_prior(self._linearisation.layout, self._present)

    def predicted(self, time: float) -> CovarianceState:
        """Prediction of a time after the last readings."""
        if not np.isfinite(time) or (self.time is not None and time <= self.time):
            raise ShapeError(
                f"readings of {time} s come after those of {self.time} s: give them in order, or "
                "leave late ones out."
            )
        if self.time is None:
            return self._present
        layout, now, prior = self._linearisation.layout, self._present, self._first
        h = float(time) - self.time
        k, kept = layout.joints, np.r_[: layout.joints, layout.local : layout.size]
        F, Q = np.eye(kept.size), np.zeros((kept.size, kept.size))
        F[:k, :k], Q[:k, :k] = self._chain.transition(h), self._chain.noise(h)
        mean, covariance = prior.mean.copy(), prior.covariance.copy()
        mean[kept] = F @ now.mean[kept]
        block = np.ix_(kept, kept)
        covariance[block] = propagated(now.covariance[block], F, Q)[1]
        return CovarianceState(mean, covariance)

    def _sample(
        self, prior: CovarianceState, readings: ArrayLike, gravity: ArrayLike | None
    ) -> SampleInputs:
        q = np.ascontiguousarray(self._linearisation.layout.q(prior.mean))
        return sample_of(self._linearisation, q, readings, gravity)


class StateTracker(MovingState):
    """The estimator of a stream; for attributes and arguments see `MovingState`."""

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
        sample = self._sample(prior, readings, gravity)
        problem = TimeStepProblem(self._linearisation, prior, sample)
        posterior, self._present = most_probable(problem, iterations)
        self.time = float(time)
        return posterior


class StateSmoother(MovingState):
    """The estimator of a window of samples: all readings for every sample.

        min  Σ_t |r_t(x_t, c)|²  +  Σ_t |x_t+1 - F x_t|²_Q  +  |(x_0, c) - prior|²

    with r_t what the best d of the sample leaves unexplained (see `linearisation`), x = (q, q̇, q̈)
    driven by white jerk, c biases and parameters, the same at all samples. Gauss-Newton over the
    whole window, from what tracking it says. A gyroscope and an accelerometer above and below a
    joint stand in for its encoder. For attributes and arguments see `MovingState`.
    """

    def estimate(
        self,
        times: ArrayLike,
        readings: ArrayLike,
        *,
        gravity: ArrayLike | None = None,
        iterations: int = _SMOOTHING_ITERATIONS,
    ) -> StatePosterior:
        """Posterior of all samples, from the prior of the first; for the arguments see `step`."""
        t, shape = as_array(times, (None,), "times"), np.shape(readings)
        if t.size == 0 or shape != (t.size, self.problem.layout.size):
            raise ShapeError(
                f"{t.size} times and readings of shape {shape}: give at least one sample, and "
                f"{self.problem.layout.size} readings of each."
            )
        self.reset()
        return self.step(t, readings, gravity=gravity, iterations=iterations)

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
        h = _steps(t)
        g = [None] * t.size if gravity is None else [*np.broadcast_to(gravity, (t.size, 3))]
        prior = self.predicted(t[0])
        start, samples = self._tracked(t, y, g, t.size - ahead)
        window = WindowProblem(self._linearisation, prior, self._chain, samples, h)
        result = descend(start, window.linear, max(1, iterations))
        return window.posterior(result.point, result.linear, result.ending)

    def _tracked(
        self, t: Array, y: Array, gravity: list[Array] | list[None], own: int
    ) -> tuple[Array, list[SampleInputs]]:
        """Where to start, and the samples; the state stays where its own samples end."""
        layout = self._linearisation.layout
        mark = self.time, self._present
        samples, local, common = [], [], np.zeros(layout.constants)
        for k in range(t.size):
            prior = self.predicted(t[k])
            samples.append(self._sample(prior, y[k], gravity[k]))
            problem = TimeStepProblem(self._linearisation, prior, samples[-1])
            e, linear, _ = solved(problem, _ITERATIONS)
            S, x = problem.factor(linear), problem.x(e)
            self.time, self._present = float(t[k]), CovarianceState(x, S @ S.T)
            local.append(x[: layout.local])
            common = layout.constant(x)
            if k == own - 1:
                mark = self.time, self._present
        self.time, self._present = mark
        sigma = self._linearisation.nuisances.sigma
        scaled = np.divide(common, sigma, out=np.zeros_like(common), where=sigma > 0.0)
        return np.concatenate([*local, scaled]), samples


def _steps(times: Array) -> Array:
    """(T - 1,) time from each sample to the next."""
    h = np.diff(times)
    if (h < _SHORTEST).any():
        k = int(np.argmin(h))
        raise ShapeError(
            f"times must grow, but sample {k + 1} is at {times[k + 1]:g} s after {times[k]:g} s: "
            "sort the readings, and keep one of each time."
        )
    return h
