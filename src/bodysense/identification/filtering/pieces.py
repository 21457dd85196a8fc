"""What a filter walks through: positions at its own rate, and what drove the joints in between.

A filter needs samples that follow each other. Each motion is one piece; where a fold is held out
of it, what remains are several.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline

from bodysense.errors import MismatchError
from bodysense.identification.preprocessing import Motion, standing
from bodysense.identification.regression import Regression
from bodysense.robot.controller import Controller
from bodysense.robot.dynamics.dynamics import inverse_dynamics
from bodysense.spatial.arrays import Array

Torque = Literal["measured", "simulated"]

_FEWEST = 3  # samples: position alone tells no acceleration from fewer


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
        q_d: (m - 1, n_periods, n) positions that the controller is told; (m - 1, 0, n) for none.
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
            periods = max(1, round(stride / motion.rate * controller_of(problem).rate))
            told = _reference(motion)
        explained = inverse_dynamics(problem.robot, motion.q, motion.v, motion.a, theta=theta)
        recorded_area, explained_area = _area(motion.tau_raw), _area(explained)
        for first, last in _runs(problem, motion):
            at = np.arange(first, last, stride)
            if at.size < _FEWEST:
                continue
            none = np.zeros((at.size - 1, 0, problem.n_joints))
            q_d, v_d = none, none
            if periods > 0:
                t = motion.t[at[:-1], None] + np.arange(periods) * (stride / motion.rate / periods)
                q_d, v_d = (np.ascontiguousarray(told(t, order)) for order in (0, 1))
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
    """Every how many samples a filter looks, for at most `rate` [Hz]."""
    return max(1, int(np.ceil(motion.rate / rate - 1e-9)))


def controller_of(problem: Regression) -> Controller:
    """The controller that drives simulated torques.

    Raises:
        MismatchError: there is none, or one with a state that no log holds.
    """
    controller = problem.robot.controller
    if controller is None:
        raise MismatchError(
            f"{problem.robot.name!r} comes without a controller, which simulated torques need: "
            "give it in the actuator file (controller: kp, kd, rate), or set torque to measured."
        )
    if controller.ki.any():
        raise MismatchError(
            f"the controller of {problem.robot.name!r} has an integral, of which the log does not "
            "tell where it stands: set torque to measured."
        )
    return controller


def _reference(motion: Motion) -> CubicSpline:
    """What the controller was told, at any time."""
    if motion.reference is None:
        raise MismatchError(
            "the log does not tell what the controller was told, which simulated torques need: "
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
