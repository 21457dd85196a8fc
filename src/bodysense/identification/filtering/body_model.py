"""The robot as a state model of filters: base parameters and a motion, of which q is measured.

    x = [p, q, v],   theta_base = prior + size p,   y = q + e                  thesis eqs (43), (44)

p starts at zero with a standard deviation of about one. Each motion of a log is one piece:
positions at the filter's rate, and what drove the joints in between. Where a fold is held out of a
motion, several pieces remain. The pieces of all logs stand behind each other; where one begins, the
state begins anew and the parameters go on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline

from bodysense.errors import MismatchError
from bodysense.identification.preprocessing import Motion
from bodysense.identification.regression import Regression
from bodysense.logs.filtering import standing
from bodysense.robot.actuators import Controller
from bodysense.robot.dynamics import inverse_dynamics
from bodysense.simulation.propagation import Drive, Propagation
from bodysense.spatial.arrays import Array

Torque = Literal["measured", "simulated"]

_LEAST_SAMPLES = 3  # samples of a piece at least: fewer positions hold no acceleration
_DRIFT_STEPS = 50  # samples between two additions of the parameters' drift

_START_Q, _START_V = 10.0, 0.1
"""Standard deviation of a piece's first state: of positions in that of their noise, of velocities
in their r.m.s."""

_LEAST_START_V = 1e-3  # of the first velocity, for joints that do not move [rad/s or m/s]


@dataclass(frozen=True, eq=False)
class Piece:
    """Samples at an even distance, m of them, and the m - 1 intervals between.

    Attributes:
        log: which log, counted from 0.
        period: from one sample to the next [s].
        y: (m, n) positions as recorded.
        q: (m, n) positions, filtered.
        v: (m, n) velocities.
        tau: (m - 1, n) mean torque of each interval.
        explained: (m - 1, n) the same of torques that a given estimate explains.
        still: (m - 1, n) where joints stand, and friction is any up to its level.
        q_d: (m - 1, n_periods, n) reference positions of the controller; (m - 1, 0, n) for none.
        v_d: (m - 1, n_periods, n) velocities alike.
    """

    log: int
    period: float
    y: Array
    q: Array
    v: Array
    tau: Array
    explained: Array
    still: NDArray[np.bool_]
    q_d: Array
    v_d: Array


def pieces(problem: Regression, theta: Array, *, rate: float, torque: Torque) -> tuple[Piece, ...]:
    """The pieces of all motions, at most at `rate` [Hz].

    Raises:
        MismatchError: torques are to be simulated, and controller or reference are not known.
    """
    made: list[Piece] = []
    for motion in problem.motions:
        stride = filter_stride(motion, rate)
        still = _still(motion, problem.settings.still_speed or 0.0)
        periods = 0
        if torque == "simulated":
            periods = max(1, round(stride / motion.rate * _controller_of(problem).rate))
            reference = _reference(motion)
        explained = inverse_dynamics(problem.robot, motion.q, motion.v, motion.a, theta=theta)
        recorded_area, explained_area = _area(motion.tau_raw), _area(explained)
        for first, last in _runs(problem, motion):
            at = np.arange(first, last, stride)
            if at.size < _LEAST_SAMPLES:
                continue
            none = np.zeros((at.size - 1, 0, problem.n_joints))
            q_d, v_d = none, none
            if periods > 0:
                t = motion.t[at[:-1], None] + np.arange(periods) * (stride / motion.rate / periods)
                q_d, v_d = (np.ascontiguousarray(reference(t, order)) for order in (0, 1))
            recorded = motion.q if motion.q_raw is None else motion.q_raw
            made.append(
                Piece(
                    log=motion.log,
                    period=stride / motion.rate,
                    y=np.array(recorded[at]),
                    q=np.array(motion.q[at]),
                    v=np.array(motion.v[at]),
                    tau=(recorded_area[at[1:]] - recorded_area[at[:-1]]) / stride,
                    explained=(explained_area[at[1:]] - explained_area[at[:-1]]) / stride,
                    still=still[at[:-1]] | still[at[1:]] | still[(at[:-1] + at[1:]) // 2],
                    q_d=q_d,
                    v_d=v_d,
                )
            )
    return tuple(made)


def _area(tau: Array) -> Array:
    """(n_t, n) sums of tau up to each sample, by trapezoids."""
    return np.vstack([np.zeros(tau.shape[1]), np.cumsum(0.5 * (tau[1:] + tau[:-1]), axis=0)])


def filter_stride(motion: Motion, rate: float) -> int:
    """Stride of the samples that a filter takes, for at most `rate` [Hz]."""
    return max(1, int(np.ceil(motion.rate / rate - 1e-9)))


def _controller_of(problem: Regression) -> Controller:
    """The controller that drives simulated torques.

    Raises:
        MismatchError: there is none, or one with a state that no log holds.
    """
    controller = problem.robot.controller
    if controller is None:
        raise MismatchError(
            f"{problem.robot.name!r} has no controller, which simulated torques need: "
            "give it in the actuator file (controller: kp, kd, rate), or set torque to measured."
        )
    if controller.ki.any():
        raise MismatchError(
            f"the controller of {problem.robot.name!r} has an integral, whose state the log does "
            "not hold: set torque to measured."
        )
    return controller


def _reference(motion: Motion) -> CubicSpline:
    """The controller's reference, at any time."""
    if motion.reference is None:
        raise MismatchError(
            "the log does not hold the controller's reference, which simulated torques need: "
            "record the channels q_des.<joint> too, or set torque to measured."
        )
    return CubicSpline(motion.t, motion.reference)


def _still(motion: Motion, still_speed: float) -> NDArray[np.bool_]:
    if motion.still is not None:
        return motion.still
    if still_speed > 0.0:
        return standing(motion.v, still_speed)
    return np.zeros(motion.v.shape, dtype=np.bool_)


def _runs(problem: Regression, motion: Motion) -> Iterator[tuple[int, int]]:
    """First sample and the one after the last of what is not held out."""
    if problem.held_out is None:
        yield 0, motion.t.size
        return
    kept = problem.folds(motion) != problem.held_out
    edges = np.flatnonzero(np.diff(np.concatenate([[False], kept, [False]]).astype(np.int8)))
    yield from ((int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True))


class _ModelStep(NamedTuple):
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
        return self.propagations[0].n_parameters

    @property
    def n_moving(self) -> int:
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
            [_START_Q * self.sigma, np.maximum(_START_V * np.sqrt(squares), _LEAST_START_V)]
        )
        return {
            int(k): (np.concatenate([piece.q[0], piece.v[0]]), np.diag(spread))
            for k, piece in zip(at[:-1], self.pieces, strict=True)
        }

    def start(self, factor: Array) -> tuple[Array, Array]:
        """Mean (n_x,) and factor (n_x, n_x) before any measurement, with the factor (b, b) of p."""
        mean, root = self.starts[0]
        b = self.n_parameters
        S = np.zeros((b + mean.size, b + mean.size))
        S[:b, :b], S[b:, b:] = factor, root
        return np.concatenate([np.zeros(b), mean]), S

    @cached_property
    def _steps(self) -> list[_ModelStep]:
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
                steps.append(_ModelStep(by, drive, rest[k], level[k], t, piece.period))
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
        if self.drift == 0.0 or k % _DRIFT_STEPS:
            return None
        step = self._steps[k]
        passed = _DRIFT_STEPS * step.period
        variance = self.drift**2 * passed * np.exp(-2.0 * step.t / self.fading)
        return np.full(self.n_parameters, variance)
