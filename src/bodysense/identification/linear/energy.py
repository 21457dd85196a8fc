"""Identification by work and energy, which needs no accelerations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import factorial

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from bodysense.identification.identification import Iteration
from bodysense.identification.linear.least_squares import Solve, Weights
from bodysense.identification.linear.method import EqualWeights, few_rows
from bodysense.identification.preprocessing import Motion, Plan
from bodysense.identification.prior import Prior
from bodysense.identification.regression import Block, Regression
from bodysense.identification.solution import Solution, WeightedSolution, rounding_levels
from bodysense.robot.dynamics import energy_regressor, power_regressor
from bodysense.spatial.arrays import Array

# Rows of work and energy: the balance of power, averaged over windows.
#
# The torques' power goes into the robot's energy E and into friction,
#
#     tau · v = dE/dt + v · tau_friction,
#
# and with a window w(t) that is zero at its ends no acceleration is left (Gautier and Khalil 1988):
#
#     ∫ w tau · v dt = -∫ w' E dt + ∫ w v · tau_friction dt.
#
# A window that is one inside makes this the work between two instants. Here the window is the
# filter of the `Regression`: as long as its band asks for, and smooth, so that it does not stake
# all on the energy of two single samples.
#
# Integrals are sums over samples. Torque and friction are summed by the same weights, so that the
# jumps of friction cancel exactly; -w' is the window's own sum of central differences of order ten,
# which leaves 1e-6 of a power that swings at a tenth of the sampling rate.

_REACH = 5  # samples to each side of a difference of order ten, lost at ends of pieces

_BLOCK_BYTES = 32e6


class _EnergyRows(Regression):
    """The energy model of a regression's motions: one row per window, for the whole robot."""

    @property
    def n_joints(self) -> int:
        """Rows per sample: one, whatever the number of joints."""
        return 1

    @cached_property
    def torque_size(self) -> Array:
        """(1,) largest r.m.s. power over the motions [W]."""
        powers = [np.sqrt(np.mean(_power(motion) ** 2)) for motion in self.motions]
        return np.array([max(powers)])

    @cached_property
    def n_samples(self) -> int:
        return sum(self._n_out(motion) for motion in self.motions)

    @cached_property
    def columns(self) -> tuple[NDArray[np.int64], ...]:
        """All places in theta_base: every parameter may take energy."""
        return (np.arange(self.size, dtype=np.int64),)

    def speeds(self, block: Block, first: int) -> Array:
        """(m, n) mean squared velocities behind a block's rows, from row `first` of its piece on.

        White noise of torques makes noise of power with the variance Σ_j sigma_j² v_j².
        """
        motion = self.motions[block.piece]
        plan = Plan.of(motion, self.settings)
        squares = np.ascontiguousarray(motion.v[:: plan.stride][_REACH:-_REACH] ** 2)
        taken = squares[first * plan.step :][: (block.t.size - 1) * plan.step + plan.taps.size]
        return replace(plan, taps=plan.taps**2 / np.sum(plan.taps**2)).filtered(taken)

    def _n_out(self, motion: Motion) -> int:
        plan = Plan.of(motion, self.settings)
        inner = -(-motion.t.size // plan.stride) - 2 * _REACH
        return max(0, (inner - plan.taps.size) // plan.step + 1)

    def _make(self, piece: int, motion: Motion) -> Iterator[Block]:
        plan = Plan.of(motion, self.settings)
        kept, taps, step = self.base.independent, plan.taps, plan.step
        t, q, v, a = (x[:: plan.stride] for x in (motion.t, motion.q, motion.v, motion.a))
        load_theta = self.load_theta_of(motion.log)
        power, rate = _power(motion)[:: plan.stride], motion.rate / plan.stride
        folds = self.folds(motion)[:: plan.stride]
        middle = (taps.size - 1) // 2
        n_out = self._n_out(motion)
        in_block = max(1, int(_BLOCK_BYTES / (8.0 * self.robot.layout.size)) // step)
        for first in range(0, n_out, in_block):
            m = min(in_block, n_out - first)
            inner = slice(_REACH + first * step, _REACH + (first + m - 1) * step + taps.size)
            around = slice(inner.start - _REACH, inner.stop + _REACH)
            E = energy_regressor(self.robot, q[around], v[around])[:, kept]
            # Of accelerations nothing but the load of load-dependent friction is taken.
            lost = power_regressor(self.robot, q[inner], v[inner], a[inner], theta=load_theta)
            Y = _slope(E, rate) + lost[:, kept]
            y = np.ascontiguousarray(power[inner])
            at = inner.start + middle + step * np.arange(m)
            yield Block(
                motion.log,
                piece,
                t[at],
                plan.filtered(Y)[:, None],
                plan.filtered(y)[:, None],
                np.ones((m, 1)),
                folds[at],
            )


def _slope(x: Array, rate: float) -> Array:
    """(n_t - 10, …) derivative of an even signal (n_t, …) by central differences of order ten.

        x'(t) ≈ rate Σ_k d_k (x_k - x_-k),      d_k = (-1)^(k+1) p!² / (k (p - k)! (p + k)!),  p = 5

    with the relative error (p!² / (2p + 1)!) (2π f / rate)^(2p) at the frequency f.
    """
    n = x.shape[0] - 2 * _REACH
    total = np.zeros((n, *x.shape[1:]))
    for k in range(1, _REACH + 1):
        weight = factorial(_REACH) ** 2 / (k * factorial(_REACH - k) * factorial(_REACH + k))
        ahead, behind = x[_REACH + k :][:n], x[_REACH - k :][:n]
        total += ((-1.0) ** (k + 1) * weight * rate) * (ahead - behind)
    return total


def _power(motion: Motion) -> Array:
    """(n_t,) power of the torques [W]."""
    power: Array = np.einsum("tj,tj->t", motion.tau, motion.v)
    return power


_FEW_ROWS = (
    "There are too few rows to tell noise at speed from noise at rest, so all count alike: record "
    "for longer."
)

_LEAST_VARIANCE = 1e-3  # of a row in units of the mean: rest must not decide everything


@dataclass(frozen=True)
class EnergyWeights(Weights):
    """Rows of energy divided by the noise that their speeds lead to, until weights converge.

    Noise of the torques makes noise of power that grows with speed, σ² = Σ_j sigma_j² v_j² +
    sigma_0². These variances follow from the squares of the residuals.

    No acceleration is in a row of energy. In return it is the balance of the whole robot: six
    joints give a sixth of the rows that torques give, and joints of little power are hard to
    observe beside those of much. It takes several times the motion that torques take, and a weak
    prior, as in `Ridge`, for what stays unobservable. And it takes a motion: samples that do not
    follow each other in time mean nothing here.

    Attributes:
        tolerance: change of predictions, in standard deviations of the residual, at
            which to stop.
        iterations: updates of the weights, at most.
    """

    tolerance: float = 1e-3
    iterations: int = 50

    def regression(self, problem: Regression) -> _EnergyRows:
        return problem if isinstance(problem, _EnergyRows) else problem.recast(_EnergyRows)

    def fit(self, problem: Regression, prior: Prior, solve: Solve) -> WeightedSolution:
        rows = self.regression(problem)
        start = EqualWeights().fit(rows, prior, solve)
        if few_rows(rows):
            return replace(start, note=_FEW_ROWS, rows=rows)
        solution: Solution = start
        stack, theta_base = start.stack, prior.to_base(start.theta)
        weights: tuple[Array, ...] = ()
        trace: list[Iteration] = []
        sigma, change = np.ones((rows.n_logs, 1)), np.inf
        for _ in range(self.iterations):
            weights = _weights(rows, theta_base, weights)
            stack = rows.stack(sigma, factors=rows.weighted_factors(weights))
            solution = solve(stack)
            new = prior.to_base(solution.theta)
            change = stack.change(new - theta_base)
            theta_base = new
            trace.append(Iteration(stack.rest, change))
            if change < self.tolerance:
                break
        return replace(
            solution.weighted(sigma, stack),
            weights=weights,
            trace=tuple(trace),
            converged=change < self.tolerance,
            rows=rows,
        )


def _weights(problem: _EnergyRows, theta_base: Array, before: Sequence[Array]) -> tuple[Array, ...]:
    """(m, 1) for each block: one over the standard deviation that its speeds lead to."""
    at: dict[int, int] = {}
    speeds, squares, logs, used = [], [], [], []
    for block in problem.blocks():
        first = at.get(block.piece, 0)
        speeds.append(problem.speeds(block, first))
        squares.append(np.square(block.y - block.Y @ theta_base)[:, 0])
        logs.append(np.full(block.t.size, block.log))
        used.append(block.use[:, 0] > 0.0)
        at[block.piece] = first + block.t.size
    u, e, log = np.concatenate(speeds), np.concatenate(squares), np.concatenate(logs)
    use = np.concatenate(used)
    # Squares of large residuals are the least certain ones: each counts by its own variance.
    trust = np.concatenate([w[:, 0] ** 2 for w in before]) if before else np.ones(e.size)
    floor = max(float(rounding_levels(problem)[0]) ** 2, 1e-300)
    variance = np.ones(e.size)
    for k in range(problem.n_logs):
        mine = log == k
        fit = mine & use
        if not fit.any():
            continue
        # The constant in units of the mean square, like the other columns.
        columns = np.column_stack([u, np.full(e.size, max(float(u[fit].mean()), 1e-300))])
        scale = np.where(trust[fit] > 0.0, trust[fit], trust[fit].max())
        level = nnls(columns[fit] * scale[:, None], e[fit] * scale)[0]
        model = columns[mine] @ level
        variance[mine] = np.maximum(model, max(_LEAST_VARIANCE * float(e[fit].mean()), floor))
    root = 1.0 / np.sqrt(variance)
    ends = np.cumsum([block.size for block in squares])
    return tuple(
        (part * keep)[:, None] for part, keep in zip(np.split(root, ends[:-1]), used, strict=True)
    )
