"""Rows of work and energy: the balance of power, averaged over windows.

The torques' power goes into the robot's energy E and into friction,

    tau · v = dE/dt + v · tau_friction,

and with a window w(t) that is zero at its ends no acceleration is left (Gautier and Khalil 1988):

    ∫ w tau · v dt = -∫ w' E dt + ∫ w v · tau_friction dt.

A window that is one inside makes this the work between two instants. Here the window is the filter
of the `Regression`: as long as its band asks for, and smooth, so that it does not stake all on the
energy of two single samples.

Integrals are sums over samples. Torque and friction are summed by the same weights, so that the
jumps of friction cancel exactly; -w' is the window's own sum of central differences of order ten,
which leaves 1e-6 of a power that swings at a tenth of the sampling rate.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from functools import cached_property
from math import factorial

import numpy as np
from numpy.typing import NDArray

from bodysense.identification.plan import Plan
from bodysense.identification.preprocessing import Motion
from bodysense.identification.regression import Block, Regression
from bodysense.robot.energy import energy_regressor, power_regressor
from bodysense.spatial.arrays import Array

REACH = 5
"""Samples to each side that a difference of order ten takes; as many are lost at ends of pieces."""

_BLOCK_BYTES = 32e6


class EnergyRows(Regression):
    """The energy model of a regression's motions: one row a window, for the robot as a whole."""

    @classmethod
    def seen_by(cls, problem: Regression) -> EnergyRows:
        """The same motions and folds, as rows of energy."""
        given = {f.name: getattr(problem, f.name) for f in fields(problem) if f.init}
        return cls(**given)

    @property
    def n_joints(self) -> int:
        """Rows a sample: one, whatever the number of joints."""
        return 1

    @cached_property
    def torque_size(self) -> Array:
        """(1,) largest r.m.s. power over the motions [W]."""
        powers = [np.sqrt(np.mean(_power(motion) ** 2)) for motion in self.motions]
        return np.array([max(powers)])

    @cached_property
    def n_samples(self) -> int:
        """Number of rows."""
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
        squares = np.ascontiguousarray(motion.v[:: plan.stride][REACH:-REACH] ** 2)
        taken = squares[first * plan.step :][: (block.t.size - 1) * plan.step + plan.taps.size]
        return replace(plan, taps=plan.taps**2 / np.sum(plan.taps**2)).filtered(taken)

    def _n_out(self, motion: Motion) -> int:
        plan = Plan.of(motion, self.settings)
        inner = -(-motion.t.size // plan.stride) - 2 * REACH
        return max(0, (inner - plan.taps.size) // plan.step + 1)

    def _make(self, piece: int, motion: Motion) -> Iterator[Block]:
        plan = Plan.of(motion, self.settings)
        kept, taps, step = self.base.independent, plan.taps, plan.step
        t, q, v = (x[:: plan.stride] for x in (motion.t, motion.q, motion.v))
        power, rate = _power(motion)[:: plan.stride], motion.rate / plan.stride
        folds = self.folds(motion)[:: plan.stride]
        middle = (taps.size - 1) // 2
        n_out = self._n_out(motion)
        in_block = max(1, int(_BLOCK_BYTES / (8.0 * self.robot.layout.size)) // step)
        for first in range(0, n_out, in_block):
            m = min(in_block, n_out - first)
            inner = slice(REACH + first * step, REACH + (first + m - 1) * step + taps.size)
            around = slice(inner.start - REACH, inner.stop + REACH)
            E = energy_regressor(self.robot, q[around], v[around])[:, kept]
            Y = slope(E, rate) + power_regressor(self.robot, q[inner], v[inner])[:, kept]
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


def slope(x: Array, rate: float) -> Array:
    """(n_t - 10, …) derivative of an even signal (n_t, …) by central differences of order ten.

        x'(t) ≈ rate Σ_k d_k (x_k - x_-k),      d_k = (-1)^(k+1) p!² / (k (p - k)! (p + k)!),  p = 5

    with the relative error (p!² / (2p + 1)!) (2π f / rate)^(2p) at the frequency f.
    """
    n = x.shape[0] - 2 * REACH
    total = np.zeros((n, *x.shape[1:]))
    for k in range(1, REACH + 1):
        weight = factorial(REACH) ** 2 / (k * factorial(REACH - k) * factorial(REACH + k))
        ahead, behind = x[REACH + k :][:n], x[REACH - k :][:n]
        total += ((-1.0) ** (k + 1) * weight * rate) * (ahead - behind)
    return total


def _power(motion: Motion) -> Array:
    """(n_t,) power of the torques [W]."""
    power: Array = np.einsum("tj,tj->t", motion.tau, motion.v)
    return power
