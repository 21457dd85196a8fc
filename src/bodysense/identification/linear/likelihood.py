"""Maximum likelihood with noise in the motion as well as in the torques, thesis eq (32).

epsilon = tau - ID(q, v, a),        Cov epsilon = G Sigma_s Gᵀ + Sigma_tau
    G = [∂ID/∂q, ∂ID/∂v, M]             Sigma_s = diag of the variances of q, v and a

White noise of the positions passes a low-pass, which removes the part 1 - h of it, and two
differentiations. So the noise follows from what the filter removed, and the response to an
impulse of the very same filters how much of it is left in q, v and a:

    sigma_raw = rms(q_raw - q) / ‖1 - h‖,     sigma_q = sigma_raw ‖w * h‖,
    sigma_v = sigma_raw ‖w * d * h‖,          sigma_a = sigma_raw ‖w * d * d * h‖

with the differences d and the filter w that rows pass together with the torques (`Plan`). Noise of
q and a of one instant is correlated, which eq (32) leaves out; ∂ID/∂q is too small beside M, by the
square of the cut-off, for that to show.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from bodysense.compiled.jit import in_threads
from bodysense.identification._kernels.noise_propagation import torque_slopes_batch, whiten_batch
from bodysense.identification.identification import Iteration
from bodysense.identification.identifier import require_settings
from bodysense.identification.linear.least_squares import Solve, Weights, least_squares
from bodysense.identification.linear.method import NoiseWeights, fit_noise_weights
from bodysense.identification.preprocessing import Plan, Preprocessing
from bodysense.identification.prior import Prior
from bodysense.identification.regression import Block, GivenRows, Regression
from bodysense.identification.solution import WeightedSolution, rounding_levels
from bodysense.logs.filtering import differentiate, lowpass, usable_cutoff
from bodysense.robot.dynamics import torque_regressor
from bodysense.robot.robot import Robot
from bodysense.spatial.arrays import Array, as_array

_EXACT_POSITIONS = (
    "The positions come without the noise that a filter took out of them, so rows are weighed by "
    "the noise of the torques alone, as by wls."
)

_TOO_NOISY = (
    "The correction of the motion for its noise did not converge and was left out: lower the "
    "cut-off, record with less noise, or raise iterations."
)

_DIVERGING = 0.01
"""Change of predictions, in standard deviations, from which on an iteration at its end
diverges, and is not merely slow."""

_LEAST_VARIANCE = 1e-4
"""Smallest variance of the torques in units of what the motion's noise makes of it: a model of the
noise that explains too much must not leave rows without any noise of their own."""

_PERIODS = 12.0  # of the cut-off, after which the filter has forgotten an impulse
_EXACT = 1e-12  # share of a joint's range below which what the filter removed is rounding


def _filter_gains(rate: float, settings: Preprocessing, plan: Plan) -> tuple[float, Array]:
    """Standard deviations that white noise of standard deviation one has after the filters.

    Of what the low-pass takes out; and (3,) of positions, velocities [1/s] and accelerations
    [1/s²] as the rows see them. By the response to an impulse.
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
    left = np.array([np.linalg.norm(np.convolve(x[:, 0], taps)) for x in (q, v, a)])
    return float(np.linalg.norm(impulse - q)), left


def _motion_variances(problem: Regression) -> Array | None:
    """(n_pieces, 3, n) variances of q, v and a in the rows of each motion; `None` if all are zero.

    A motion without recorded positions beside the filtered ones is taken as exact. What the filter
    removed is averaged over the pieces of a log.
    """
    n, count = problem.n_joints, len(problem.motions)
    gains = [
        _filter_gains(motion.rate, problem.settings, Plan.of(motion, problem.settings))
        for motion in problem.motions
    ]
    removed, weight = np.zeros((problem.n_logs, n)), np.zeros(problem.n_logs)
    for motion, (gone, _) in zip(problem.motions, gains, strict=True):
        if motion.q_raw is not None:
            rest = motion.q_raw - motion.q
            exact = np.abs(rest).max(axis=0) <= _EXACT * (1.0 + np.ptp(motion.q, axis=0))
            removed[motion.log] += np.where(exact, 0.0, np.square(rest).sum(axis=0))
            weight[motion.log] += rest.shape[0] * gone**2
    raw = removed / np.maximum(weight, 1e-300)[:, None]
    out = np.zeros((count, 3, n))
    for k, (motion, (_, left)) in enumerate(zip(problem.motions, gains, strict=True)):
        if motion.q_raw is None:
            continue
        # A joint that stands throughout has its velocity set to zero, which has no noise.
        moves = motion.v.any(axis=0) | motion.a.any(axis=0)
        levels = left[:, None] * np.array([np.ones(n), moves, moves])
        out[k] = raw[motion.log] * levels**2
    return out if out.any() else None


def _row_states(problem: Regression, block: Block) -> tuple[Array, Array, Array]:
    """q, v and a (m, n) at the times of a block's rows."""
    motion = problem.motions[block.piece]
    at = np.searchsorted(motion.t, block.t)
    q, v, a = (np.ascontiguousarray(x[at]) for x in (motion.q, motion.v, motion.a))
    return q, v, a


class _NoisyBlock(NamedTuple):
    """A block with its motion, q, v and a (m, n), and the variances (3, n) of their noise."""

    block: Block
    states: tuple[Array, Array, Array]
    variance: Array


def _torque_slopes(robot: Robot, theta: Array, q: Array, v: Array, a: Array) -> Array:
    """G (m, n, 3 n): derivatives of the torques by q, v and a (m, n), of a robot with a fixed base.

    The friction's slope is in it, its jump at standstill is not. Parameters (p,) may be unphysical.
    """
    n = robot.n_joints
    q, v, a = (as_array(x, (None, n), name) for x, name in ((q, "q"), (v, "v"), (a, "a")))
    G = np.empty((q.shape[0], n, 3 * n))
    values = np.ascontiguousarray(theta, dtype=np.float64)
    if q.shape[0] > 0:
        in_threads(torque_slopes_batch, q.shape[0], robot.tree, values, q, v, a, G)
    return G


def _row_slopes(problem: Regression, theta: Array, block: Block) -> Array:
    """G (m, n, 3 n) of a block's rows: averaged over each row's window as the row itself is.

    Friction that turns round within a window has a slope that is large for a few samples.
    """
    motion = problem.motions[block.piece]
    plan = Plan.of(motion, problem.settings)
    reach = (plan.taps.size - 1) // 2 * plan.stride
    first, last = np.searchsorted(motion.t, block.t[[0, -1]])
    window = slice(first - reach, last + reach + 1, plan.stride)
    q, v, a = (x[window] for x in (motion.q, motion.v, motion.a))
    return plan.filtered(_torque_slopes(problem.robot, theta, q, v, a))


def _propagated(G: Array, variance: Array) -> Array:
    """(m, n, n) covariance G Sigma_s Gᵀ of the torques, for variances (3, n) of q, v and a."""
    scaled = G * np.sqrt(variance.ravel())
    covariance: Array = scaled @ scaled.transpose(0, 2, 1)
    return covariance


@dataclass(frozen=True)
class LikelihoodWeights(Weights):
    """Minimise Σ_k epsilon_kᵀ (G_k Sigma_s G_kᵀ + Sigma_tau)⁻¹ epsilon_k, thesis eq (32).

    G propagates the noise of q, v and a, whose variances Sigma_s follow from what the filter took
    out of the positions (see `_motion_variances`); Sigma_tau, one variance per log and joint, from
    the residuals, so that it holds whatever the noise of the motion does not explain. The print has
    the exponent -2, with which rows would count by the square of their information; the likelihood
    has -1.

    G depends on the parameters. The true motion s* = s + Sigma_s Gᵀ lambda that belongs to the
    residuals, lambda = (G Sigma_s Gᵀ + Sigma_tau)⁻¹ epsilon, is the likeliest one behind the
    measured s, and with it the derivative of the cost, G's own included, is

        0 = Σ_k Y(s_k*)ᵀ lambda_k,

    which is solved by Gauss and Newton's method: the regressor of the corrected motion is not
    correlated with the noise of the residuals to the first order, as instruments are not. The
    variances of a step are those of the estimate before, so that no determinant is in its
    derivative, and none belongs there: with the true motion among the unknowns the noise has one
    determinant for all parameters. Without the correction (`corrected`) the derivative is that of
    weighted least squares. It is exact where the motion is, and otherwise makes inertias too small
    by the share of noise in the accelerations' power.

    Where recorded positions are missing or equal the filtered ones the motion counts as exact: this
    is then weighted least squares.

    Attributes:
        corrected: whether the motion is corrected by the noise that the residuals show in it;
            without it inertias are too small where accelerations are noisy.
        tolerance: change of predictions, in standard deviations of the residual, at which to stop.
        iterations: how often rows are whitened again, at most.
    """

    corrected: bool = True
    tolerance: float = 1e-3
    iterations: int = 50

    def __post_init__(self) -> None:
        require_settings(self, positive=("tolerance",), counts=("iterations",))

    def fit(self, problem: Regression, prior: Prior, solve: Solve) -> WeightedSolution:
        """Whiten rows by the covariance that the noise of their motion leads to, and solve."""
        variances = _motion_variances(problem)
        if variances is None:
            start = NoiseWeights().fit(problem, prior, solve)
            return replace(start, note=start.note or _EXACT_POSITIONS)
        start = fit_noise_weights(problem, prior)
        if start.note:  # too few rows to distinguish noise levels
            weighted = solve(start.stack).weighted(start.sigma, start.stack)
            return replace(weighted, note=start.note)
        noisy_blocks = [
            _NoisyBlock(block, _row_states(problem, block), variances[block.piece])
            for block in problem.blocks()
        ]
        theta_base, levels = prior.to_base(start.theta), start.sigma**2
        rows: Regression = problem
        stack, change = start.stack, np.inf
        trace: list[Iteration] = []
        for _ in range(self.iterations):
            theta = prior.complete(theta_base)
            slopes = [_row_slopes(problem, theta, noisy.block) for noisy in noisy_blocks]
            noise = list(zip(noisy_blocks, slopes, strict=True))
            levels = _torque_variances(problem, theta_base, noise, levels)
            whitened = (
                self._whitened(problem, theta_base, noisy, G, levels[noisy.block.log])
                for noisy, G in noise
            )
            rows = problem.recast(GivenRows, given=tuple(whitened))
            stack = rows.stack(np.ones_like(levels))
            moved = prior.to_base(least_squares(prior, stack).theta) - theta_base
            theta_base = theta_base + moved
            change = stack.change(moved)
            trace.append(Iteration(stack.rest, change))
            if change < self.tolerance:
                break
        if self.corrected and change > max(_DIVERGING, self.tolerance):
            plain = replace(self, corrected=False).fit(problem, prior, solve)
            return replace(plain, note=_TOO_NOISY)
        return replace(
            solve(stack).weighted(np.ones_like(levels), stack),
            trace=tuple(trace),
            converged=change < self.tolerance,
            rows=rows,
        )

    def _whitened(
        self,
        problem: Regression,
        theta_base: Array,
        noisy: _NoisyBlock,
        G: Array,
        level: Array,
    ) -> Block:
        """The rows of one block, of the corrected motion, divided by the root of their noise.

        Their right-hand side is such that residuals at theta_base are those of the data.
        """
        n, block, variance = level.size, noisy.block, noisy.variance
        epsilon = (block.y - block.Y @ theta_base) * block.use
        S = _propagated(G, variance)
        # A standing joint says nothing, nor do others by being correlated with it.
        S *= block.use[:, :, None] * block.use[:, None, :]
        S[:, range(n), range(n)] += np.where(block.use > 0.0, level, 1.0)
        Y = block.Y
        if self.corrected:
            pull = np.linalg.solve(S, epsilon[:, :, None])[:, :, 0]
            step = variance.ravel() * np.einsum("tij,ti->tj", G, pull)
            Y = Y + _correction(problem, noisy, step)
        both = np.concatenate([Y, (Y @ theta_base + epsilon)[:, :, None]], axis=2)
        in_threads(whiten_batch, len(both), S, both)
        return replace(
            block,
            Y=np.ascontiguousarray(both[:, :, :-1]),
            y=np.ascontiguousarray(both[:, :, -1]),
        )


def _correction(problem: Regression, noisy: _NoisyBlock, step: Array) -> Array:
    """(m, n, b) by how much regressors change when the motion does by steps (m, 3 n) of q, v, a."""
    q, v, a = noisy.states
    n = problem.n_joints
    ahead = v + step[:, n : 2 * n]
    ahead = np.where(ahead * v > 0.0, ahead, v)  # no jump of friction: the noise is small
    Y, Y_ahead = (
        problem.widened(
            torque_regressor(
                problem.robot,
                *state,
                columns=problem.base.independent,
                theta=problem.load_theta_of(noisy.block.log),
            ),
            state[1],
            noisy.block.log,
        )
        for state in ((q, v, a), (q + step[:, :n], ahead, a + step[:, 2 * n :]))
    )
    return Y_ahead - Y


def _torque_variances(
    problem: Regression,
    theta_base: Array,
    noise: Sequence[tuple[_NoisyBlock, Array]],
    before: Array,
) -> Array:
    """(n_logs, n) variance of residuals beyond what the noise of the motion makes of them.

        sigma² = Σ_k w_k (f epsilon_k² - P_k) / Σ_k w_k,      w_k = (P_k + sigma²)⁻²

    with the variance P that G (m, n, 3 n) of each block propagates, and a factor f for what the fit
    has used up: a step towards the largest likelihood of each joint's residuals, in which rows of
    much noise count little.
    """
    squares, made, weights, rows, mean = np.zeros((5, *before.shape))
    for (block, _, variance), G in noise:
        log = block.log
        P = np.einsum("tij,j->ti", G**2, variance.ravel())
        w = block.use / (P + before[log]) ** 2
        squares[log] += (w * np.square(block.y - block.Y @ theta_base)).sum(axis=0)
        made[log] += (w * P).sum(axis=0)
        weights[log] += w.sum(axis=0)
        rows[log] += block.use.sum(axis=0)
        mean[log] += (block.use * P).sum(axis=0)
    counts = np.maximum(rows, 1.0)
    used = problem.size / max(float((rows > 0).sum()), 1.0)  # parameters per log and joint
    factor = counts / np.maximum(counts - used, 0.1 * counts)
    result = (factor * squares - made) / np.maximum(weights, 1e-300)
    least = np.maximum(_LEAST_VARIANCE * mean / counts, rounding_levels(problem) ** 2)
    return np.where(rows > 0, np.maximum(result, least), 1.0)
