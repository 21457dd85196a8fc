"""`StatePrior`: what is known of positions and velocities before the readings of a sample.

    x = (q, q̇) or (q, q̇, q̈),   x ~ N(mean, covariance)

With q̈ in it, joint accelerations are a part of the state, as smoothing needs them; without, they
are believed as `Assumptions.joint_acceleration` says. A floating root has an angular velocity too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import factorial

import numpy as np
from numpy.typing import ArrayLike

from bodysense.errors import ShapeError
from bodysense.estimation.map_dynamics.priors import GaussianPrior
from bodysense.sensors.sensor import check_covariance
from bodysense.spatial.arrays import Array, as_array, one_each, read_only

# How positions go on between two samples: a chain of integrators that white noise drives.
#
# With x = (q, q̇) driven by white acceleration, or x = (q, q̇, q̈) by white jerk, of spectral
# density s for each joint,
#
#     x(t + h) = F(h) x(t) + w,   w ~ N(0, Q(h)),
#
#     F_ij = h^(j-i) / (j-i)!,    Q_ij = s h^(m-i + m-j + 1) / ((m-i)! (m-j)! (m-i + m-j + 1)),
#
# with m the index of the last derivative. Q = s h D K D with D = diag(h^(m-i)) and a constant K, so
# that its factor is exact however short h is.

ORDERS = (2, 3)
"""Numbers of a joint: position and velocity, or these and the acceleration."""

_SHORTEST = 1e-9  # s: samples that are not apart


def transition(order: int, h: float) -> Array:
    """(order, order) F of one joint."""
    F = np.eye(order)
    for i in range(order):
        for j in range(i + 1, order):
            F[i, j] = h ** (j - i) / factorial(j - i)
    return F


def noise(order: int, h: float) -> Array:
    """(order, order) Q of one joint for a density of one."""
    D = _scales(order, h)
    Q: Array = D[:, None] * _constant(order) * D
    return Q


def whitener(order: int, h: float) -> Array:
    """(order, order) W with W Q Wᵀ = 1 for a density of one."""
    W: Array = np.linalg.inv(np.linalg.cholesky(_constant(order))) / _scales(order, h)
    return W


def steps(times: Array) -> Array:
    """(T - 1,) time from each sample to the next.

    Raises:
        ShapeError: times that do not grow.
    """
    h = np.diff(times)
    if (h < _SHORTEST).any():
        k = int(np.argmin(h))
        raise ShapeError(
            f"times must grow, but sample {k + 1} is at {times[k + 1]:g} s after {times[k]:g} s: "
            "sort the readings, and keep one of each time."
        )
    return h


def _constant(order: int) -> Array:
    m = order - 1
    K = np.empty((order, order))
    for i in range(order):
        for j in range(order):
            K[i, j] = 1.0 / (factorial(m - i) * factorial(m - j) * (2 * m - i - j + 1))
    return K


def _scales(order: int, h: float) -> Array:
    powers = np.array([h ** (order - 1 - i) for i in range(order)])
    scales: Array = np.sqrt(h) * powers
    return scales


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
    angular_velocity: GaussianPrior = field(default_factory=lambda: GaussianPrior.unknown(3))

    def __post_init__(self) -> None:
        mean = as_array(self.mean, (None, None), "the mean of a state")
        if mean.shape[0] not in ORDERS:
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
            q_std: standard deviations, one or (n,); zero where there is no doubt.
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
            GaussianPrior.unknown(3) if angular_velocity is None else angular_velocity,
        )

    @property
    def n(self) -> int:
        """Number of joints."""
        return int(self.mean.shape[1])

    @property
    def order(self) -> int:
        """2, or 3 where accelerations belong to the state."""
        return int(self.mean.shape[0])

    def with_accelerations(self, prior: GaussianPrior) -> StatePrior:
        """The same with accelerations (1), the same prior about each, in the state."""
        if self.order == ORDERS[-1]:
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
                The angular velocity of a floating root is believed as before.
        """
        s = one_each(density, self.n, "density")
        F = transition(self.order, h)
        wide = np.kron(F, np.eye(self.n))
        spread = wide @ self.covariance @ wide.T + np.kron(noise(self.order, h), np.diag(s))
        return StatePrior(F @ self.mean, 0.5 * (spread + spread.T), self.angular_velocity)
