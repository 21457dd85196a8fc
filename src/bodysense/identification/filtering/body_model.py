"""The robot as filters see it: base parameters and a state that moves, of which q is measured.

    x = [p, q, v],   theta_base = prior + size p,   y = q + e                  thesis eqs (43), (44)

p starts at zero with a spread of about one. The pieces of all logs stand behind each other; where
one begins, the state begins anew and the parameters go on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from bodysense.identification.filtering.pieces import Piece
from bodysense.simulation.propagation import Drive, Propagation
from bodysense.spatial.arrays import Array

_STEPS_A_DRIFT = 50
_START_Q, _START_V = 10.0, 0.1
"""How well a piece's first state is known: position to so many standard deviations of its noise,
velocity to this share of its r.m.s."""

_SLOWEST = 1e-3  # rad/s or m/s: how well the velocity of a joint is known that does not move


class ModelStep(NamedTuple):
    """From one sample to the next: by what, under which torque, with what beside it, and noise."""

    by: Propagation
    drive: Drive
    rest: Array
    level: Array
    t: float
    period: float


@dataclass(eq=False)
class BodyModel:
    """A `StateModel` over all pieces of a problem.

    Attributes:
        pieces: what is walked through.
        propagations: of each piece.
        levels: of each piece, (m - 1, n) standard deviations of the torque in each interval.
        instruments: of each piece, (m - 1, n) torques of each interval without their noise.
        sigma: (n,) standard deviations of the positions.
        drift: standard deviation that the parameters gain in the first second, in sizes.
        fading: time constant with which that fades [s].
    """

    pieces: Sequence[Piece]
    propagations: Sequence[Propagation]
    levels: Sequence[Array]
    instruments: Sequence[Array]
    sigma: Array
    drift: float
    fading: float
    _last: tuple[int, Array] | None = field(default=None, init=False)

    @property
    def n_parameters(self) -> int:
        """Number of base parameters."""
        return self.propagations[0].n_parameters

    @property
    def n_moving(self) -> int:
        """Positions and velocities."""
        return 2 * self.propagations[0].n_joints

    @cached_property
    def H(self) -> Array:
        """(n, n_x): positions are measured."""
        n, b = self.propagations[0].n_joints, self.n_parameters
        H = np.zeros((n, b + 2 * n))
        H[:, b : b + n] = np.eye(n)
        return H

    @cached_property
    def y(self) -> Array:
        """(n_t, n) measured positions of all pieces."""
        return np.vstack([piece.y for piece in self.pieces])

    @cached_property
    def starts(self) -> dict[int, tuple[Array, Array]]:
        """First sample of each piece, with mean and factor of the state there."""
        at = np.cumsum([0, *(piece.y.shape[0] for piece in self.pieces)])
        squares = sum(np.square(piece.v).sum(axis=0) for piece in self.pieces) / at[-1]
        spread = np.concatenate(
            [_START_Q * self.sigma, np.maximum(_START_V * np.sqrt(squares), _SLOWEST)]
        )
        return {
            int(k): (np.concatenate([piece.q[0], piece.v[0]]), np.diag(spread))
            for k, piece in zip(at[:-1], self.pieces, strict=True)
        }

    def start(self, factor: Array) -> tuple[Array, Array]:
        """Mean (n_x,) and factor (n_x, n_x) before anything is measured.

        Args:
            factor: (b, b) lower-triangular root of the covariance of p.
        """
        mean, root = self.starts[0]
        b = self.n_parameters
        S = np.zeros((b + mean.size, b + mean.size))
        S[:b, :b], S[b:, b:] = factor, root
        return np.concatenate([np.zeros(b), mean]), S

    @cached_property
    def _steps(self) -> list[ModelStep]:
        """For each sample what leads to the next."""
        steps, t = [], 0.0
        for piece, by, level, smooth in zip(
            self.pieces, self.propagations, self.levels, self.instruments, strict=True
        ):
            rest = piece.tau - smooth
            if piece.q_d.shape[1] > 0:
                rest = np.zeros_like(rest)
            for k in range(piece.tau.shape[0]):
                drive = Drive(smooth[k], piece.q_d[k], piece.v_d[k])
                steps.append(ModelStep(by, drive, rest[k], level[k], t, piece.period))
                t += piece.period
            steps.append(steps[-1])  # of a piece's last sample, never taken
        return steps

    def advance(self, k: int, X: Array) -> Array:
        """(m, 2 n) positions and velocities at sample k + 1 of states X (m, n_x) at sample k."""
        step = self._steps[k]
        _, _, G = step.by.tangent(X.mean(axis=0), step.drive)
        self._last = (k, G)
        return step.by.advance(X, step.drive) + G @ step.rest

    def tangent(self, k: int, x: Array) -> tuple[Array, Array]:
        """The same for one state, with its derivative (2 n, n_x)."""
        step = self._steps[k]
        moved, F, G = step.by.tangent(x, step.drive)
        self._last = (k, G)
        return moved + G @ step.rest, F

    def noise(self, k: int, x: Array) -> Array:
        """(2 n, n) what torques of one standard deviation each do to the state."""
        step = self._steps[k]
        if self._last is None or self._last[0] != k:
            self._last = (k, step.by.tangent(x, step.drive)[2])
        return self._last[1] * step.level

    def parameter_noise(self, k: int) -> Array | None:
        """(b,) variances of the random walk, every fifty samples."""
        if self.drift == 0.0 or k % _STEPS_A_DRIFT:
            return None
        step = self._steps[k]
        passed = _STEPS_A_DRIFT * step.period
        variance = self.drift**2 * passed * np.exp(-2.0 * step.t / self.fading)
        return np.full(self.n_parameters, variance)
