"""How noise of the measured positions reaches the torques' residuals, thesis eq (32).

    epsilon = tau - ID(q, v, a),        Cov epsilon = G Sigma_s Gᵀ + Sigma_tau
    G = [∂ID/∂q, ∂ID/∂v, M]             Sigma_s = diag of the variances of q, v and a

White noise of the positions passes a low-pass, which removes the part 1 - h of it, and two
differentiations. So what the filter removed tells how much noise there was, and the response to an
impulse of the very same filters how much of it is left in q, v and a:

    sigma_raw = rms(q_raw - q) / ‖1 - h‖,     sigma_q = sigma_raw ‖w * h‖,
    sigma_v = sigma_raw ‖w * d * h‖,          sigma_a = sigma_raw ‖w * d * d * h‖

with the differences d and the filter w that rows pass together with the torques (`Plan`). Noise of
q and a of one instant is correlated, which eq (32) leaves out; ∂ID/∂q is too small beside M, by the
square of the cut-off, for that to show.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bodysense.compiled.jit import in_threads
from bodysense.identification._kernels.noise_propagation import torque_slopes_batch
from bodysense.identification.preprocessing import Plan, Preprocessing, usable_cutoff
from bodysense.identification.regression import Block, Regression
from bodysense.logs.filtering import differentiate, lowpass
from bodysense.robot.robot import Robot
from bodysense.spatial.arrays import Array, as_array

_PERIODS = 12.0
"""Of the cut-off, after which the filter has forgotten an impulse."""

_EXACT = 1e-12
"""Share of a joint's range below which what the filter removed is rounding."""


@dataclass(frozen=True)
class FilterGains:
    """Standard deviations that white noise of standard deviation one has after the filters.

    Attributes:
        removed: of what the low-pass takes out.
        q: of positions, as the rows see them.
        v: of velocities [1/s].
        a: of accelerations [1/s²].
    """

    removed: float
    q: float
    v: float
    a: float

    @classmethod
    def of(cls, rate: float, settings: Preprocessing, plan: Plan) -> FilterGains:
        """Of the filters that a motion has passed, by an impulse.

        Args:
            rate: of the samples [Hz].
            settings: with all choices made.
            plan: how the motion becomes rows.
        """
        cutoff = usable_cutoff(settings.cutoff or rate, rate)
        reach = int(np.ceil(_PERIODS * rate / cutoff)) + 8
        impulse = np.zeros((2 * reach + 1, 1))
        impulse[reach] = 1.0
        q = lowpass(impulse, rate, cutoff, order=settings.order)
        v = differentiate(q, rate, accuracy=settings.accuracy)
        a = differentiate(v, rate, accuracy=settings.accuracy)
        taps = np.zeros((plan.taps.size - 1) * plan.stride + 1)
        taps[:: plan.stride] = plan.taps
        left = (float(np.linalg.norm(np.convolve(x[:, 0], taps))) for x in (q, v, a))
        return cls(float(np.linalg.norm(impulse - q)), *left)


def motion_variances(problem: Regression) -> Array | None:
    """(n_pieces, 3, n) variances of q, v and a in the rows of each motion; `None` if all are zero.

    A motion without recorded positions beside the filtered ones is taken as exact. What the filter
    removed is averaged over the pieces of a log.
    """
    n, count = problem.n_joints, len(problem.motions)
    gains = [
        FilterGains.of(motion.rate, problem.settings, Plan.of(motion, problem.settings))
        for motion in problem.motions
    ]
    removed, weight = np.zeros((problem.n_logs, n)), np.zeros(problem.n_logs)
    for motion, gain in zip(problem.motions, gains, strict=True):
        if motion.q_raw is not None:
            rest = motion.q_raw - motion.q
            exact = np.abs(rest).max(axis=0) <= _EXACT * (1.0 + np.ptp(motion.q, axis=0))
            removed[motion.log] += np.where(exact, 0.0, np.square(rest).sum(axis=0))
            weight[motion.log] += rest.shape[0] * gain.removed**2
    raw = removed / np.maximum(weight, 1e-300)[:, None]
    out = np.zeros((count, 3, n))
    for k, (motion, gain) in enumerate(zip(problem.motions, gains, strict=True)):
        if motion.q_raw is None:
            continue
        # A joint that stands throughout has its velocity set to zero, which has no noise.
        moves = motion.v.any(axis=0) | motion.a.any(axis=0)
        levels = np.array([np.full(n, gain.q), gain.v * moves, gain.a * moves])
        out[k] = raw[motion.log] * levels**2
    return out if out.any() else None


def row_states(problem: Regression, block: Block) -> tuple[Array, Array, Array]:
    """q, v and a (m, n) at the times of a block's rows."""
    motion = problem.motions[block.piece]
    at = np.searchsorted(motion.t, block.t)
    q, v, a = (np.ascontiguousarray(x[at]) for x in (motion.q, motion.v, motion.a))
    return q, v, a


def torque_slopes(robot: Robot, theta: Array, q: Array, v: Array, a: Array) -> Array:
    """G (m, n, 3 n): derivatives of the torques by q, v and a, of a robot with a fixed base.

    The friction's slope is in it, its jump at standstill is not.

    Args:
        robot: geometry and friction law.
        theta: (p,) parameters, physical or not.
        q: (m, n) positions.
        v: (m, n) velocities.
        a: (m, n) accelerations.
    """
    n = robot.n_joints
    q, v, a = (as_array(x, (None, n), name) for x, name in ((q, "q"), (v, "v"), (a, "a")))
    G = np.empty((q.shape[0], n, 3 * n))
    values = np.ascontiguousarray(theta, dtype=np.float64)
    if q.shape[0] > 0:
        in_threads(torque_slopes_batch, q.shape[0], robot.tree, values, q, v, a, G)
    return G


def row_slopes(problem: Regression, theta: Array, block: Block) -> Array:
    """G (m, n, 3 n) of a block's rows: averaged over each row's window as the row itself is.

    Friction that turns round within a window has a slope that is large for a few samples.

    Args:
        problem: the regression.
        theta: (p,) parameters of its robot, physical or not.
        block: one of its blocks.
    """
    motion = problem.motions[block.piece]
    plan = Plan.of(motion, problem.settings)
    reach = (plan.taps.size - 1) // 2 * plan.stride
    first, last = np.searchsorted(motion.t, block.t[[0, -1]])
    window = slice(first - reach, last + reach + 1, plan.stride)
    q, v, a = (x[window] for x in (motion.q, motion.v, motion.a))
    return plan.filtered(torque_slopes(problem.robot, theta, q, v, a))


def propagated(G: Array, variance: Array) -> Array:
    """(m, n, n) covariance G Sigma_s Gᵀ of the torques, for variances (3, n) of q, v and a."""
    scaled = G * np.sqrt(variance.ravel())
    covariance: Array = scaled @ scaled.transpose(0, 2, 1)
    return covariance
