"""Systems that the tests of the filters share, and the textbook's Kalman filter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass
class LinearModel:
    """m⁺ = F x + E w + u_k with a constant or no random walk of the parameters."""

    n_parameters: int
    n_moving: int
    H: Array
    sigma: Array
    F: Array
    E: Array
    u: Array
    walk: Array | None = None

    def advance(self, k: int, X: Array) -> Array:
        return X @ self.F.T + self.u[k]

    def tangent(self, k: int, x: Array) -> tuple[Array, Array]:
        return self.F @ x + self.u[k], self.F

    def noise(self, k: int, x: Array) -> Array:
        return self.E

    def parameter_noise(self, k: int) -> Array | None:
        return self.walk if k % 3 == 1 else None

    def whole(self, k: int) -> tuple[Array, Array, Array]:
        """Transition, process covariance and input of the whole state."""
        p, m = self.n_parameters, self.n_moving
        A, Q = np.eye(p + m), np.zeros((p + m, p + m))
        A[p:] = self.F
        Q[p:, p:] = self.E @ self.E.T
        walk = self.parameter_noise(k)
        if walk is not None:
            Q[:p, :p] = np.diag(walk)
        return A, Q, np.concatenate((np.zeros(p), self.u[k]))

    def simulate(
        self, rng: np.random.Generator, mean: Array, factor: Array, n_t: int
    ) -> tuple[Array, Array]:
        """True states and measurements."""
        x = mean + factor @ rng.normal(size=mean.size)
        xs, ys = [], []
        for k in range(n_t):
            if k:
                A, Q, u = self.whole(k - 1)
                x = A @ x + u + rng.multivariate_normal(np.zeros(x.size), Q)
            xs.append(x)
            ys.append(self.H @ x + self.sigma * rng.normal(size=self.sigma.size))
        return np.array(xs), np.array(ys)


@dataclass
class Pendulum:
    """q'' = a - b sin q - c q' with unknown a, b, c, driven by a known torque; Euler steps."""

    n_parameters: int = 3
    n_moving: int = 2
    dt: float = 0.05
    level: float = 0.01

    @property
    def H(self) -> Array:
        return np.array([[0.0, 0.0, 0.0, 1.0, 0.0]])

    @property
    def sigma(self) -> Array:
        return np.array([self.level])

    def advance(self, k: int, X: Array) -> Array:
        a, b, c, q, v = X.T
        force = a + np.sin(0.3 * k) - b * np.sin(q) - c * v
        return np.stack((q + self.dt * v, v + self.dt * force), axis=1)

    def tangent(self, k: int, x: Array) -> tuple[Array, Array]:
        _, b, c, q, v = x
        d = self.dt
        F = np.array(
            [
                [0.0, 0.0, 0.0, 1.0, d],
                [d, -d * np.sin(q), -d * v, -d * b * np.cos(q), 1.0 - d * c],
            ]
        )
        return self.advance(k, x[None])[0], F

    def noise(self, k: int, x: Array) -> Array:
        return np.array([[1e-3, 0.0], [0.0, 1e-2]])

    def parameter_noise(self, k: int) -> Array | None:
        return None


def build_linear(
    rng: np.random.Generator, p: int, m: int, n_y: int, n_t: int = 60, walk: bool = False
) -> LinearModel:
    own = rng.normal(size=(m, m))
    own *= 0.9 / max(abs(np.linalg.eigvals(own)))
    return LinearModel(
        p,
        m,
        H=rng.normal(size=(n_y, p + m)),
        sigma=rng.uniform(0.1, 0.5, n_y),
        F=np.hstack((rng.normal(size=(m, p)), own)),
        E=0.3 * rng.normal(size=(m, m + 1)),
        u=rng.normal(size=(n_t, m)),
        walk=rng.uniform(0.0, 0.1, p) if walk else None,
    )


def textbook(
    model: LinearModel, mean: Array, P: Array, y: Array
) -> tuple[list[Array], list[Array], Array, Array, float]:
    """Means, covariances, innovations, normalised innovations squared, log-likelihood."""
    means, covariances, innovations, nis, log_likelihood = [], [], [], [], 0.0
    x = mean
    for k in range(y.shape[0]):
        if k:
            A, Q, u = model.whole(k - 1)
            x, P = A @ x + u, A @ P @ A.T + Q
        innovations.append(y[k] - model.H @ x)
        rows = ~np.isnan(y[k])
        H, nu = model.H[rows], innovations[-1][rows]
        S = H @ P @ H.T + np.diag(model.sigma[rows] ** 2)
        K = P @ H.T @ np.linalg.inv(S)
        x, P = x + K @ nu, (np.eye(x.size) - K @ H) @ P
        nis.append(nu @ np.linalg.solve(S, nu) if rows.any() else np.nan)
        if rows.any():
            log_likelihood -= 0.5 * (nis[-1] + np.linalg.slogdet(2.0 * np.pi * S)[1])
        means.append(x)
        covariances.append(P)
    return means, covariances, np.array(innovations), np.array(nis), log_likelihood


@pytest.fixture(scope="session")
def linear() -> Callable[..., LinearModel]:
    """Build a random linear model; see `build_linear`."""
    return build_linear


@pytest.fixture(scope="session")
def kalman() -> Callable[..., tuple[list[Array], list[Array], Array, Array, float]]:
    """The textbook's Kalman filter; see `textbook`."""
    return textbook


@pytest.fixture
def pendulum() -> Pendulum:
    return Pendulum()


@pytest.fixture(scope="session")
def swing() -> Callable[..., tuple[Array, Array]]:
    """Simulate a pendulum: its true state and measurements."""

    def simulated(model: Pendulum, rng: np.random.Generator, n_t: int) -> tuple[Array, Array]:
        x = np.array([0.3, 4.0, 0.2, 0.5, 0.0])
        ys = []
        for k in range(n_t):
            if k:
                moving = model.advance(k - 1, x[None])[0]
                moving += model.noise(k - 1, x) @ rng.normal(size=2)
                x = np.concatenate((x[:3], moving))
            ys.append(model.H @ x + model.sigma * rng.normal(size=1))
        return x, np.array(ys)

    return simulated
