"""`StatePrior`: what is known of positions and velocities before the readings of a sample.

    x = (q, q̇) or (q, q̇, q̈),   x ~ N(mean, covariance)

With q̈ in it, joint accelerations are a part of the state, as smoothing needs them; without, they
have the prior `Assumptions.joint_acceleration`. A floating root has an angular velocity too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bodysense.errors import ShapeError
from bodysense.estimation._kernels.problem import Bodies, Readings
from bodysense.estimation.map_dynamics.estimator import MapDynamics
from bodysense.estimation.map_dynamics.priors import GaussianPrior
from bodysense.kalman.model import propagated
from bodysense.kalman.motion import IntegratorChain
from bodysense.robot import BaseParameters
from bodysense.sensors.motion_sensors import JointTorque
from bodysense.sensors.sensor import Sensor, check_covariance
from bodysense.spatial.arrays import Array, as_array, one_each, read_only
from bodysense.spatial.pseudo_inertia import spatial_inertia
from bodysense.spatial.se3 import skew

ANGULAR_VELOCITY = 100.0
"""rad/s: prior standard deviation of a root's angular velocity, unless a prior is given; sixteen
turns a second, ten times what robots do on purpose."""

_ORDERS = (2, 3)
"""Numbers of a joint: position and velocity, or these and the acceleration."""
_ANY_TURN = GaussianPrior.zero(3, ANGULAR_VELOCITY)


@dataclass(frozen=True, eq=False)
class StatePrior:
    """A Gaussian prior about the state.

    Attributes:
        mean: (order, n) rows: positions, velocities, on request accelerations of the joints.
        covariance: (order n, order n) of the rows one behind the other.
        angular_velocity: prior (3) about that of a floating root, in its own frame [rad/s];
            elsewhere it counts for nothing.
    """

    mean: Array
    covariance: Array
    angular_velocity: GaussianPrior = field(default_factory=lambda: _ANY_TURN)

    def __post_init__(self) -> None:
        mean = as_array(self.mean, (None, None), "the mean of a state")
        if mean.shape[0] not in _ORDERS:
            raise ShapeError(
                f"the mean of a state has {mean.shape[0]} rows: give positions, velocities and, if "
                "they belong to the state, accelerations."
            )
        Sigma = check_covariance(self.covariance, mean.size, "the covariance of a state")
        if self.angular_velocity.mean.size != 3:
            raise ShapeError(
                f"an angular velocity has 3 numbers, not {self.angular_velocity.mean.size}."
            )
        object.__setattr__(self, "mean", read_only(mean))
        object.__setattr__(self, "covariance", Sigma)

    @classmethod
    def of(
        cls,
        q: ArrayLike,
        dq: ArrayLike,
        ddq: ArrayLike | None = None,
        *,
        q_std: ArrayLike,
        dq_std: ArrayLike,
        ddq_std: ArrayLike = 1e3,
        angular_velocity: GaussianPrior | None = None,
    ) -> StatePrior:
        """Independent numbers.

        Args:
            q: (n,) positions [rad or m].
            dq: (n,) velocities.
            ddq: (n,) accelerations, to have them in the state; `None`: they are not.
            q_std: standard deviations, one or (n,); zero where it is exact.
            dq_std: alike.
            ddq_std: alike.
            angular_velocity: of a floating root; by default anything.
        """
        position = as_array(q, (None,), "q")
        n = position.size
        rows = [position, as_array(dq, (n,), "dq")]
        stds = [one_each(q_std, n, "q_std"), one_each(dq_std, n, "dq_std")]
        if ddq is not None:
            rows.append(as_array(ddq, (n,), "ddq"))
            stds.append(one_each(ddq_std, n, "ddq_std"))
        return cls(
            np.stack(rows),
            np.diag(np.concatenate(stds) ** 2),
            _ANY_TURN if angular_velocity is None else angular_velocity,
        )

    @property
    def n(self) -> int:
        return int(self.mean.shape[1])

    @property
    def order(self) -> int:
        """2, or 3 where accelerations belong to the state."""
        return int(self.mean.shape[0])

    def with_accelerations(self, prior: GaussianPrior) -> StatePrior:
        """The same with accelerations (1), the same prior about each, in the state."""
        if self.order == _ORDERS[-1]:
            return self
        n = self.n
        covariance = np.zeros((3 * n, 3 * n))
        covariance[: 2 * n, : 2 * n] = self.covariance
        covariance[2 * n :, 2 * n :] = prior.covariance[0, 0] * np.eye(n)
        mean = np.vstack([self.mean, np.full(n, prior.mean[0])])
        return StatePrior(mean, covariance, self.angular_velocity)

    def after(self, h: float, density: ArrayLike) -> StatePrior:
        """Predict the state a time h later.

        Args:
            h: [s].
            density: spectral density of the derivative behind the last, one or (n,): of the
                acceleration [(rad/s²)² s] for (q, q̇), of the jerk [(rad/s³)² s] for (q, q̇, q̈).
                The prior of a floating root's angular velocity stays.
        """
        chain = IntegratorChain(self.order, one_each(density, self.n, "density"))
        F = chain.transition(h)
        _, covariance = propagated(self.covariance, F, chain.noise(h))
        mean = (F @ self.mean.ravel()).reshape(self.mean.shape)
        return StatePrior(mean, covariance, self.angular_velocity)


# `Nuisances`: what readings and equations owe to biases and to errors of the parameters.
#
#     y = prediction + bias + noise,                bias ~ N(0, bias_sigma²)
#     f_i = … + Y_i(a_i, v_i) delta pi_i,           delta theta = G e,   e ~ N(0, 1),   G Gᵀ = Sigma
#
# with Y_i the regressor of a link. Both are unknowns that stay the same from sample to sample; as
# further right-hand sides of the elimination they cost little more than a reading each.

_RANK = 1e-14  # of the largest variance: directions without any

_BASIS = np.stack([spatial_inertia(e) for e in np.eye(10)])
"""(10, 6, 6) spatial inertias of unit parameters."""


def theta_covariance(base: BaseParameters, covariance: ArrayLike) -> Array:
    """(p, p) covariance of theta from that (b, b) of the base parameters, as identifiers give it.

    How a base parameter is shared out among links is not known; it is put on one of them, which
    is right for torques, and for wrenches as far as the base parameters tell.
    """
    Sigma = check_covariance(covariance, base.size, "the covariance of the base parameters")
    to_theta = base.join(np.eye(base.size)).T
    spread: Array = to_theta @ Sigma @ to_theta.T
    return spread


@dataclass(frozen=True, eq=False)
class Nuisances:
    """Biases and parameters of one problem; G (p, k) is empty where parameters are known."""

    problem: MapDynamics
    factor: Array

    @classmethod
    def of(cls, problem: MapDynamics, parameter_covariance: ArrayLike | None = None) -> Nuisances:
        """Find sensors with biases, factorise the covariance of theta or its inertial part."""
        layout = problem.robot.layout
        if parameter_covariance is None:
            return cls(problem, np.zeros((layout.size, 0)))
        given = np.shape(parameter_covariance)
        sizes = (layout.size, layout.n_inertial)
        if given not in [(p, p) for p in sizes]:
            raise ShapeError(
                f"parameter_covariance has shape {given}: give {sizes[0]} parameters of theta or "
                f"its {sizes[1]} inertial ones; theta_covariance lifts that of base parameters."
            )
        Sigma = check_covariance(parameter_covariance, given[0], "parameter_covariance")
        values, vectors = np.linalg.eigh(Sigma)
        kept = values > _RANK * max(float(values.max(initial=0.0)), 1e-300)
        G = np.zeros((layout.size, int(kept.sum())))
        G[: given[0]] = vectors[:, kept] * np.sqrt(values[kept])
        return cls(problem, G)

    @cached_property
    def biased(self) -> tuple[Sensor, ...]:
        return tuple(s for s in self.problem.sensors if s.bias_sigma is not None)

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        """The user's row of each bias."""
        slices = self.problem.layout.slices
        parts = [np.arange(slices[s.name].start, slices[s.name].stop) for s in self.biased]
        return np.concatenate([np.zeros(0, dtype=np.int64), *parts])

    @cached_property
    def kernel_rows(self) -> NDArray[np.int64]:
        """The kernels' row of each bias."""
        place = np.argsort(self.problem.layout.order)
        result: NDArray[np.int64] = place[self.rows]
        return result

    @property
    def size(self) -> int:
        return int(self.rows.size + self.factor.shape[1])

    @cached_property
    def sigma(self) -> Array:
        """(size,) prior standard deviations; all means are zero."""
        parts = [np.asarray(s.bias_sigma) for s in self.biased]
        return np.concatenate([np.zeros(0), *parts, np.ones(self.factor.shape[1])])

    def bias(self, c: Array) -> Array:
        return c[: self.rows.size]

    def theta(self, c: Array) -> Array:
        """(p,) deviation of the parameters."""
        deviation: Array = self.factor @ c[self.rows.size :]
        return deviation

    def moved(self, c: Array) -> tuple[Bodies, Readings, Array]:
        """Bodies, readings and friction coefficients with other parameters."""
        problem = self.problem
        bodies, readings, drive = problem.tree.arrays, problem.layout.arrays, problem.drive
        if not self.factor.shape[1]:
            return bodies, readings, drive
        layout, theta = problem.robot.layout, self.theta(c)
        delta = np.einsum("ik,kab->iab", self._of_bodies(theta[:, None])[..., 0], _BASIS)
        on_alpha = readings.on_alpha.copy()
        rows, joints = self._drive_rows
        on_alpha[rows, 6] += theta[layout.rotor][joints]
        terms = [theta[layout.friction(term)] for term in layout.friction_terms]
        friction = np.stack(terms, axis=1) if terms else np.zeros_like(drive)
        return (
            bodies._replace(inertia=bodies.inertia + delta),
            readings._replace(on_alpha=on_alpha),
            np.ascontiguousarray(drive + friction),
        )

    def balance_columns(self, d: Array, twist: Array) -> Array:
        """(n, 6, k) what the wrench balances owe to the parameters, at accelerations and twists."""
        momentum = np.einsum("kab,ib->iak", _BASIS, twist)
        Y = np.einsum("kab,ib->iak", _BASIS, d[:, :6])
        v, w = skew(twist[:, :3]), skew(twist[:, 3:])
        Y[:, :3] += w @ momentum[:, :3]
        Y[:, 3:] += v @ momentum[:, :3] + w @ momentum[:, 3:]
        columns: Array = Y @ self._of_bodies(self.factor)
        return columns

    def reading_columns(self, d: Array, dq: Array) -> Array:
        """(m, size) minus what readings owe to biases and to parameters of drives."""
        layout = self.problem.robot.layout
        b = self.rows.size
        columns = np.zeros((int(self.problem.layout.arrays.first[-1]), self.size))
        columns[self.kernel_rows, np.arange(b)] = -1.0
        if not self.factor.shape[1]:
            return columns
        rows, joints = self._drive_rows
        bodies = [self.problem.tree.joint.index(int(j)) for j in joints]
        columns[rows, b:] -= d[bodies, 19][:, None] * self.factor[layout.rotor][joints]
        friction = self.problem.robot.friction
        for row, joint in zip(rows, joints, strict=True):
            phi = friction.model.basis(dq[joint : joint + 1], friction.shape[joint])[0][0]
            for k, term in enumerate(layout.friction_terms):
                columns[row, b:] -= phi[k] * self.factor[layout.friction(term)][joint]
        return columns

    @cached_property
    def _drive_rows(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The kernels' rows that read drives, and their joints."""
        layout, names = self.problem.layout, self.problem.robot.joint_names
        place = np.argsort(layout.order)
        drives = [
            (place[layout.slices[s.name].start], names.index(s.joint))
            for s in self.problem.sensors
            if isinstance(s, JointTorque) and s.side == "drive"
        ]
        result = np.array(drives, dtype=np.int64).reshape(-1, 2)
        return result[:, 0], result[:, 1]

    def _of_bodies(self, theta: Array) -> Array:
        """(n, 10, k) inertial parameters by body, from (p, k)."""
        tree, layout = self.problem.tree, self.problem.robot.layout
        parts = np.zeros((tree.n, 10, theta.shape[1]))
        for i, name in enumerate(tree.names):
            if name in layout.link_names:
                parts[i] = theta[layout.link(name)]
        return parts
