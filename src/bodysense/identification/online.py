"""Identification while the robot moves: recursive least squares in square-root information form.

All that the past says about theta_base is a triangle R with a right-hand side z,

    cost(theta_base) = ‖R (theta_base - prior) - z‖² + rest,

and the rows Y, y of one more instant, divided by their noise, are folded in by reflections,

    Q [ √λ R   √λ z ]   [ R'  z' ]
      [   Y    y - Y prior ] = [ 0   …  ],

with the forgetting λ. Nothing is ever inverted or subtracted, so that R'R stays symmetric and
positive however many steps there are; the textbook form, which carries the covariance along and
subtracts from it, loses both (Bierman 1977).

Forgetting all would end in nothing: directions that the motion does not show fade until their
variance overflows. So the prior is never forgotten. Its rows ‖(theta_base - prior) / (spread ·
size)‖² are fed back in turn, k = ⌈b (1 - λ)⌉ of them an instant, so that all come back within the
memory, each with the weight √(b (1 - λ) / k), which makes up for what is lost of them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import solve_triangular

from bodysense.compiled.triangles import fold_in
from bodysense.errors import ShapeError
from bodysense.identification.identifier import require_settings
from bodysense.identification.linear.least_squares import LeastSquares
from bodysense.identification.prior import Prior
from bodysense.identification.regression import Regression
from bodysense.identification.solution import PriorTerm, WeightedSolution
from bodysense.robot.base_parameters import BaseParameters
from bodysense.robot.dynamics import torque_regressor
from bodysense.robot.robot import Robot
from bodysense.spatial.arrays import Array, as_array, one_each, read_only

# What an online identifier is: a state, and a pure function from state and sample to a state.

_State = TypeVar("_State")


@dataclass(frozen=True, eq=False)
class RegressionSample:
    """The rows of one instant, y = Y theta_base + noise.

    Attributes:
        Y: (n, b) regressor in base parameters.
        y: (n,) torques [N·m or N].
        sigma: (n,) standard deviation of their noise; infinite for a row that does not count, such
            as that of a standing joint.
    """

    Y: Array
    y: Array
    sigma: Array

    @classmethod
    def of(
        cls,
        robot: Robot,
        base: BaseParameters,
        q: ArrayLike,
        v: ArrayLike,
        a: ArrayLike,
        tau: ArrayLike,
        sigma: ArrayLike = 1.0,
        theta: ArrayLike | None = None,
    ) -> RegressionSample:
        """From what was measured at one instant, each (n,), positions filtered.

        Torques have the same delay as the motion; sigma is the standard deviation of their noise,
        one or one per joint. Friction that grows with the load takes the load that follows from
        parameters theta (p,): the present estimate, or by default the robot's own.

        Raises:
            ShapeError: a standard deviation that is not positive.
        """
        n = robot.n_joints
        level = one_each(sigma, n, "sigma", infinite=True)
        if not (level > 0.0).all():
            raise ShapeError(
                f"sigma of joint {int(np.argmin(level)) + 1} is {level.min():g}: give a positive "
                "standard deviation, or infinity for a row that does not count."
            )
        positions, velocities, accelerations = (
            as_array(x, (n,), name)[None] for x, name in ((q, "q"), (v, "v"), (a, "a"))
        )
        Y = torque_regressor(
            robot, positions, velocities, accelerations, columns=base.independent, theta=theta
        )
        return cls(Y[0], as_array(tau, (n,), "tau"), level)


class OnlineIdentifier(ABC, Generic[_State]):
    """A method that learns while the robot moves. Implementations are frozen dataclasses.

    `step` changes nothing that goes in: a state can be kept, a recording replayed, and a step
    taken back by going on from an earlier state.
    """

    @abstractmethod
    def init(self, prior: Prior) -> _State:
        """The state before the first sample."""

    @abstractmethod
    def step(self, state: _State, sample: RegressionSample) -> _State:
        """The state after one more sample."""


@dataclass(frozen=True, eq=False)
class RecursiveState:
    """What the samples so far say.

    Attributes:
        triangle: (b + 1, b + 1) R, z and, in the corner, the root of what is left of the cost.
        anchor: (b, b + 1) rows of the prior that are fed back, zeros at the right-hand side.
        prior_base: (b,) base parameters of the prior.
        steps: number of samples.
    """

    triangle: Array
    anchor: Array
    prior_base: Array
    steps: int = 0

    @cached_property
    def theta_base(self) -> Array:
        """(b,) the estimate."""
        R, z = self.triangle[:-1, :-1], self.triangle[:-1, -1]
        return read_only(self.prior_base + solve_triangular(R, z, check_finite=False))

    @cached_property
    def covariance(self) -> Array:
        """(b, b) covariance (R'R)⁻¹ of the estimate, if noise is white and as large as given."""
        root = solve_triangular(
            self.triangle[:-1, :-1], np.eye(self.prior_base.size), check_finite=False
        )
        return read_only(root @ root.T)


@dataclass(frozen=True)
class RecursiveLeastSquares(OnlineIdentifier[RecursiveState]):
    """Least squares that is carried on from sample to sample.

    With λ = 1 the estimate is that of ridge regression on all samples so far. With λ < 1 a sample
    counts λ^k after k more: about 1 / (1 - λ) samples are remembered, and a robot that changes is
    followed.

    Attributes:
        forgetting: share of its weight that a row keeps from one sample to the next.
        spread: standard deviation of the robot file's values, in plausible sizes of the
            parameters.
    """

    forgetting: float = 1.0
    spread: float = 1.0

    def __post_init__(self) -> None:
        if not 0.0 < self.forgetting <= 1.0:
            raise ShapeError(
                f"forgetting is {self.forgetting:g}: give a number above 0 and up to 1, e.g. 0.999 "
                "to remember some 1000 samples."
            )
        require_settings(self, positive=("spread",))

    def init(self, prior: Prior) -> RecursiveState:
        L = prior.base_factor * self.spread
        b = L.shape[0]
        # The prior's information is (L Lᵀ)⁻¹; its root L⁻¹ is lower, and made upper by reflections.
        rows = np.zeros((1, b, b + 1))
        rows[0, :, :b] = solve_triangular(L, np.eye(b), lower=True)
        triangle = np.zeros((b + 1, b + 1))
        anchor = np.sqrt(b * (1.0 - self.forgetting) / self._fed_back(b)) * rows[0]
        fold_in(triangle, rows, 1.0, anchor, 1, 0)
        return RecursiveState(read_only(triangle), read_only(anchor), prior.theta_base)

    def _fed_back(self, b: int) -> int:
        """Rows of the prior that come back with each instant."""
        return max(1, math.ceil(b * (1.0 - self.forgetting)))

    def step(self, state: RecursiveState, sample: RegressionSample) -> RecursiveState:
        return self.advance(state, sample.Y[None], sample.y[None], (1.0 / sample.sigma)[None])

    def advance(self, state: RecursiveState, Y: Array, y: Array, weight: Array) -> RecursiveState:
        """The state after many samples at once, as if by `step` one by one.

        Rows Y (n_t, n, b), y (n_t, n) are multiplied by weights: one over standard deviations.

        Raises:
            ShapeError: rows for another number of parameters.
        """
        b = state.prior_base.size
        if Y.ndim != 3 or Y.shape[2] != b or y.shape != Y.shape[:2] or weight.shape != y.shape:
            raise ShapeError(
                f"rows {Y.shape} with {y.shape} torques and {weight.shape} weights do not fit "
                f"{b} base parameters: give Y (n, {b}), y (n,) and sigma (n,) of each sample."
            )
        rows = np.empty((*y.shape, b + 1))
        np.multiply(Y, weight[:, :, None], out=rows[:, :, :b])
        np.multiply(y - Y @ state.prior_base, weight, out=rows[:, :, b])
        triangle = state.triangle.copy()
        keep = np.sqrt(self.forgetting)
        fold_in(triangle, rows, keep, state.anchor, self._fed_back(b), state.steps)
        return replace(state, triangle=read_only(triangle), steps=state.steps + y.shape[0])


@dataclass(frozen=True)
class RecursivePass(RecursiveLeastSquares, LeastSquares):
    """Least squares row by row in the order of time.

    Rows are weighted by the noise of the whole recording. Without forgetting the result is that of
    ridge regression of the same spread; with forgetting it is the robot at the end of the
    recording.
    """

    def prior_term(self, prior: Prior) -> PriorTerm:
        return PriorTerm(self.spread)

    def refined(
        self,
        problem: Regression,
        prior: Prior,
        fit: WeightedSolution,
        rng: np.random.Generator | None,
    ) -> WeightedSolution:
        state = self.init(prior)
        for block in problem.blocks():
            state = self.advance(state, block.Y, block.y, block.use / fit.sigma[block.log])
        weights, stack = None, fit.stack
        if self.forgetting < 1.0:
            weights = self._weights(problem, state.steps)
            stack = problem.stack(fit.sigma, factors=problem.weighted_factors(weights))
        theta = prior.untouched(prior.complete(state.theta_base))
        return replace(fit, theta=theta, unexcited=(), stack=stack, weights=weights)

    def _weights(self, problem: Regression, steps: int) -> tuple[Array, ...]:
        """(m, n) for each block: what is left at the end of each row's weight."""
        made, last = [], 0
        for block in problem.blocks():
            age = steps - 1 - (last + np.arange(block.t.size))
            made.append(block.use * np.sqrt(self.forgetting) ** age[:, None])
            last += block.t.size
        return tuple(made)
