"""The optimisation problem behind a designed motion: criterion, limits, and their derivatives.

    minimise  f(WᵀW)  over x,     q = anchor + Phi x,

within the limits. Those of position, velocity and acceleration are linear in x; torques, collisions
and workspace are not. All are kept by a barrier: with slacks s > 0 that are 1 far from a limit,

    F(x) = f(x) + mu b(x),        b(x) = - mean over time of the sum of log s.

Nonlinear ones count from a slack s0 on only, by -log(s/s0) + s/s0 - 1, for far pairs of links would
cost time and say nothing. The gradient needs one sweep a sample (see `_kernels.adjoint`): with
Z = df/dW = 2 W G, and torques being products of W as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bodysense.errors import TrajectoryError
from bodysense.excitation.criterion import Criterion, Measure, criterion_of, measure_rows
from bodysense.excitation.design_space import DesignSpace
from bodysense.excitation.information import (
    BaseRegressor,
    condition_number,
    information,
    moving_base_parameters,
    plausible_sizes,
    torque_noise,
    with_smooth_friction,
)
from bodysense.excitation.motion_family import MotionFamily
from bodysense.excitation.trajectory import Trajectory
from bodysense.robot.base_parameters import BaseParameters
from bodysense.robot.robot import Robot
from bodysense.spatial.arrays import Array, as_array

_TORQUE_FROM = 0.4  # slack of the squared torque from which on its barrier counts
_TORQUE_CURVED = 0.15  # slack from which on its curvature is worth its rows


Information = Callable[[Robot, BaseParameters, Array], Array]
"""What is recorded already: from the robot, the base parameters of the design and the noise
(n_joints,) to R (b, b) with RᵀR its information."""


class Evaluation(NamedTuple):
    """Criterion and barrier at one x, with derivatives."""

    value: float  # of the criterion, as reported
    smooth: float  # f
    barrier: float  # b, infinite outside the limits
    gradient: Array  # (size,) of f
    barrier_gradient: Array  # (size,) of b
    barrier_curvature: Array  # (size, size) of b: exact for linear limits, else Gauss-Newton


@dataclass(frozen=True, eq=False)
class MotionProblem:
    """One problem; x has the shape (trajectories, moving joints, coefficients).

    Attributes:
        space: limits and clearances, joints that move.
        regressor: of a robot with friction that is smooth in v, and the base parameters of the rows
            of its moving joints.
        family: of the motions.
        centres: (n, n_joints) poses to start around, free of collisions and holdable; the first is
            the anchor, which coefficients of zero hold.
        noise: (n_joints,) standard deviations of torques.
        sizes: (b,) plausible sizes of the base parameters.
        measure: the criterion.
        known: (b, b) information that is there already.
        trajectories: number of motions.
        row_rate: rows per second that count [Hz]: the rate of the recording.
        notes: what was decided, in words.
    """

    space: DesignSpace
    regressor: BaseRegressor
    family: MotionFamily
    centres: Array
    noise: Array
    sizes: Array
    measure: Measure
    known: Array
    trajectories: int
    row_rate: float
    notes: tuple[str, ...] = ()

    @classmethod
    def from_space(
        cls,
        space: DesignSpace,
        family: MotionFamily,
        *,
        start: ArrayLike | None = None,
        criterion: str | Criterion = "d-optimal",
        trajectories: int = 1,
        known: ArrayLike | Information | None = None,
        noise: ArrayLike | None = None,
        friction: str | None = None,
        rate: float = 1000.0,
    ) -> MotionProblem:
        """Set up the problem of `design_motion`, whose arguments these are.

        The family is anchored just where there is a start.
        """
        if trajectories < 1:
            raise TrajectoryError(f"trajectories is {trajectories}: ask for one at least.")
        robot, notes = with_smooth_friction(space.robot, friction)
        centres = space.central_poses() if start is None else space.require_start(start)[None]
        base = moving_base_parameters(robot, space.moving, centres[0])
        sizes = plausible_sizes(robot, space.limits, base)
        sigma = torque_noise(space.robot, space.limits.effort, noise)
        R = known(robot, base, sigma) if callable(known) else known
        R = np.zeros((base.size, base.size)) if R is None else R
        return cls(
            space,
            BaseRegressor(robot, space.moving, base),
            family,
            centres,
            sigma,
            sizes,
            criterion_of(criterion).measure(base, sizes),
            information(as_array(R, (base.size, base.size), "known")),
            trajectories,
            rate,
            (*space.notes, *notes),
        )

    @property
    def anchor(self) -> Array:
        """(n_joints,) pose that coefficients of zero hold."""
        return np.asarray(self.centres[0])

    @property
    def moving(self) -> NDArray[np.int64]:
        """(m,) places of the joints that move."""
        return self.space.moving

    @property
    def shape(self) -> tuple[int, int, int]:
        """Of x."""
        return self.trajectories, int(self.moving.size), self.family.size

    @cached_property
    def times(self) -> Array:
        """(n_t,) of the samples for criterion, torques and clearances.

        Ten in a period of the highest frequency, 100 to 300 in all: twice the highest frequency
        would be enough for q; its products in W reach a few times further.
        """
        periods = self.family.highest_frequency * self.family.duration
        n_t = int(np.clip(np.ceil(10.0 * periods), 100, 300))
        return np.asarray((np.arange(n_t) + 0.5) * (self.family.duration / n_t))

    @cached_property
    def _basis(self) -> tuple[Array, Array, Array]:
        return self.family.basis(self.times)

    @cached_property
    def _limit_basis(self) -> tuple[Array, Array, Array]:
        """At 24 samples in a period of the highest frequency: 1 % beyond a limit at the worst."""
        periods = self.family.highest_frequency * self.family.duration
        n_t = int(max(np.ceil(24.0 * periods), 100))
        times = np.arange(n_t) * (self.family.duration / n_t)
        return self.family.basis(np.asarray(times, dtype=np.float64))

    @cached_property
    def theta_base(self) -> Array:
        """(b,) base parameters by the robot's description."""
        return self.regressor.base.to_base(self.regressor.robot.theta)

    @cached_property
    def _row_scale(self) -> Array:
        """(m,) of rows at `times`, such that they count as those of the recording."""
        rows = np.sqrt(self.row_rate * self.family.duration / self.times.size)
        return np.asarray(rows / self.noise[self.moving])

    # -- motions and information -----------------------------------------------------------

    def motions(self, x: Array) -> tuple[Trajectory, ...]:
        """The trajectories of x, of all joints."""
        full = np.zeros((self.anchor.size, self.family.size))
        result = []
        for coefficients in x:
            full[self.moving] = coefficients
            result.append(self.family.trajectory(full, self.anchor))
        return tuple(result)

    def states(self, x: Array) -> tuple[Array, Array, Array]:
        """Q, v, a (trajectories * n_t, n_joints) at `times`, one trajectory after another."""
        n_t, n = self.times.size, self.anchor.size
        parts = []
        for order, phi in enumerate(self._basis):
            part = np.zeros((self.trajectories, n_t, n))
            if order == 0:
                part += self.anchor
            part[:, :, self.moving] += (x @ phi.T).transpose(0, 2, 1)
            parts.append(part.reshape(-1, n))
        return parts[0], parts[1], parts[2]

    def information(self, trajectories: Sequence[Trajectory], rate: float) -> Array:
        """M = WᵀW (b, b) of motions at `rate`, counted at `row_rate`, and of what is known."""
        M = np.array(self.known)
        scale = np.sqrt(self.row_rate / rate) / self.noise[self.moving]
        for trajectory in trajectories:
            _, q, v, a = trajectory.sample(rate)
            M += information(self.regressor.rows(q, v, a, scale))
        return M

    def condition(self, x: Array) -> float:
        """cond(W) of the motions of x at `times`, with what is known."""
        W = self.regressor.rows(*self.states(x), self._row_scale)
        return condition_number(self.known + information(W))

    # -- the linear limits -----------------------------------------------------------------

    @cached_property
    def _linear(self) -> list[tuple[Array, Array, Array]]:
        """For position, velocity, acceleration: Phi, and middle and room to either side, (P, 1).

        P counts joints of all trajectories.
        """
        limits, moving = self.space.limits, self.moving
        middle = (limits.middle - self.anchor)[moving]
        half = 0.5 * (limits.upper - limits.lower)[moving]
        rooms = (half, limits.velocity[moving], limits.acceleration[moving])
        middles = (middle, 0.0 * middle, 0.0 * middle)
        rows = (self.trajectories, 1)
        return [
            (phi, np.tile(centre, rows).reshape(-1, 1), np.tile(room, rows).reshape(-1, 1))
            for phi, centre, room in zip(self._limit_basis, middles, rooms, strict=True)
        ]

    def linear_use(self, x: Array) -> Array:
        """(trajectories * m,) use of the tightest linear limit, 1 at the limit."""
        flat = x.reshape(-1, self.family.size)
        uses = [np.abs((flat @ phi.T - c) / room).max(axis=1) for phi, c, room in self._linear]
        return np.asarray(np.max(uses, axis=0))

    def longest_step(self, x: Array, d: Array) -> float:
        """The largest step along d that keeps the linear limits."""
        flat, step = x.reshape(-1, self.family.size), d.reshape(-1, self.family.size)
        longest = np.inf
        for phi, centre, room in self._linear:
            y, dy = flat @ phi.T - centre, step @ phi.T
            ahead = np.where(dy > 0.0, room - y, room + y)
            with np.errstate(divide="ignore"):
                longest = min(longest, float((ahead / np.abs(dy)).min()))
        return longest

    def _linear_barrier(self, x: Array) -> tuple[float, Array, Array]:
        """Value, gradient (size,) and blocks (P, K, K) of the curvature."""
        value, flat = 0.0, x.reshape(-1, self.family.size)
        gradient = np.zeros_like(flat)
        blocks = np.zeros((*gradient.shape, self.family.size))
        for phi, centre, room in self._linear:
            y = flat @ phi.T - centre
            up, down = room - y, room + y
            if not (up.min() > 0.0 and down.min() > 0.0):
                return np.inf, gradient.ravel(), blocks
            n_t = phi.shape[0]
            value -= float(np.log(up * down / room**2).sum()) / n_t
            up, down = 1.0 / up, 1.0 / down
            gradient += ((up - down) / n_t) @ phi
            weight = (up**2 + down**2) / n_t
            blocks += (phi.T * weight[:, np.newaxis, :]) @ phi
        return value, gradient.ravel(), blocks

    # -- everything ------------------------------------------------------------------------

    def evaluate(self, x: Array, order: float) -> Evaluation:
        """Criterion of smoothness `order` and barrier with their derivatives."""
        size = x.size
        barrier, barrier_gradient, blocks = self._linear_barrier(x)
        outside = Evaluation(
            np.inf, np.inf, np.inf, np.zeros(size), np.zeros(size), np.zeros((size, size))
        )
        if not np.isfinite(barrier):
            return outside
        curvature = np.zeros((size, size))
        K = self.family.size
        for p, block in enumerate(blocks):
            curvature[p * K : (p + 1) * K, p * K : (p + 1) * K] = block
        q, v, a = self.states(x)
        n_t = self.times.size
        W = self.regressor.rows(q, v, a, self._row_scale)
        # torques, and their barrier
        effort = self.space.limits.effort[self.moving]
        tau = (W @ self.theta_base) / self._row_scale
        slack = 1.0 - (tau / effort) ** 2
        if not (slack > 0.0).all():
            return outside
        gates = [clearance.slacks(q) for clearance in self.space.clearances]
        if any((s <= 0.0).any() for _, s, _ in gates):
            return outside
        value, smooth, Z = measure_rows(self.measure, W, order, self.known)
        gradient = self._by_x(*self.regressor.pull(q, v, a, self._row_scale, Z)).ravel()
        near = slack < _TORQUE_FROM
        if near.any():
            s = slack[near]
            barrier += float((-np.log(s / _TORQUE_FROM) + s / _TORQUE_FROM - 1.0).sum()) / n_t
            by_tau = np.zeros_like(tau)
            by_tau[near] = (1.0 / _TORQUE_FROM - 1.0 / s) / n_t
            by_tau *= -2.0 * tau / effort**2
            Z = by_tau[:, :, np.newaxis] * self.theta_base
            pulled = self.regressor.pull(q, v, a, np.ones(self.moving.size), Z)
            barrier_gradient = barrier_gradient + self._by_x(*pulled).ravel()
            self._add_torque_curvature(curvature, q, v, a, tau, slack)
        for sample, s, by_q in gates:
            barrier += float((-np.log(s) + s - 1.0).sum()) / n_t
            slope = np.zeros_like(q)
            np.add.at(slope, sample, ((1.0 - 1.0 / s) / n_t)[:, np.newaxis] * by_q)
            barrier_gradient = barrier_gradient + self._by_x(slope).ravel()
            self._add_rows(curvature, sample, (by_q,), 1.0 / (n_t * s**2))
        return Evaluation(value, smooth, barrier, gradient, barrier_gradient, curvature)

    def compile(self) -> None:
        """Compile all that evaluations call, whether or not a motion keeps the limits."""
        q, v, a = self.states(np.zeros(self.shape))
        W = self.regressor.rows(q, v, a, self._row_scale)
        self.regressor.pull(q, v, a, self._row_scale, np.zeros_like(W))

    def feasible(self, x: Array) -> bool:
        """Whether x keeps all limits at the samples."""
        if not (self.linear_use(x) < 1.0).all():
            return False
        q, v, a = self.states(x)
        W = self.regressor.rows(q, v, a, np.ones(self.moving.size))
        if not (np.abs(W @ self.theta_base) < self.space.limits.effort[self.moving]).all():
            return False
        return all((clearance.slacks(q)[1] > 0.0).all() for clearance in self.space.clearances)

    def _by_x(self, *gradients: Array) -> Array:
        """A gradient by x, of its shape, from those by q, v, a (trajectories * n_t, n_joints)."""
        total = np.zeros(self.shape)
        for g, phi in zip(gradients, self._basis, strict=False):
            part = g[:, self.moving].reshape(self.trajectories, -1, self.moving.size)
            total += part.transpose(0, 2, 1) @ phi
        return total

    def _add_torque_curvature(
        self, curvature: Array, q: Array, v: Array, a: Array, tau: Array, slack: Array
    ) -> None:
        """Add the Gauss-Newton curvature of torques that come close to their limits."""
        sample, joint = np.nonzero(slack < _TORQUE_CURVED)
        if not sample.size:
            return
        Z = np.zeros((sample.size, self.moving.size, self.theta_base.size))
        Z[np.arange(sample.size), joint] = self.theta_base
        ones = np.ones(self.moving.size)
        pulled = self.regressor.pull(q[sample], v[sample], a[sample], ones, Z)
        effort = self.space.limits.effort[self.moving][joint]
        near, load = slack[sample, joint], tau[sample, joint]
        weight = (2.0 * load / effort**2 / near) ** 2 / self.times.size
        self._add_rows(curvature, sample, pulled, weight)

    def _add_rows(
        self,
        curvature: Array,
        sample: NDArray[np.intp],
        gradients: Sequence[Array],
        weight: Array,
    ) -> None:
        """Add sum_k weight_k r_k r_kᵀ of rows r_k, gradients by x from those by q, v, a."""
        n_t = self.times.size
        block = self.moving.size * self.family.size
        for k in range(self.trajectories):
            own = np.flatnonzero(sample // n_t == k)
            if not own.size:
                continue
            at = sample[own] % n_t
            rows = np.zeros((own.size, self.moving.size, self.family.size))
            for g, phi in zip(gradients, self._basis, strict=False):
                rows += g[own][:, self.moving, np.newaxis] * phi[at][:, np.newaxis, :]
            flat = rows.reshape(own.size, block) * np.sqrt(weight[own])[:, np.newaxis]
            place = slice(k * block, (k + 1) * block)
            curvature[place, place] += flat.T @ flat
