"""Residuals of a simulation as rows, and the same with derivatives: the rows of Gauss and Newton.

    measured - simulated(theta_base) ≈ r - J δ      so      y = r + J theta_base,   Y = J

filtered and decimated like all other rows (see `Plan`), so that everything that holds for linear
regressions holds for these as well: weights, folds, covariances.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bodysense.identification.linear.least_squares import unexcited_names
from bodysense.identification.preprocessing import Motion, Plan
from bodysense.identification.prior import Prior
from bodysense.identification.reduced import Stack
from bodysense.identification.regression import Block, GivenRows, Regression
from bodysense.identification.simulated.closed_loop import ClosedLoop
from bodysense.logs.filtering import standing
from bodysense.spatial.arrays import Array

Quantity = Literal["q", "tau"]

_SINGULAR = 1e-9  # effect, relative to the strongest, below which a direction keeps its value


@dataclass(frozen=True, eq=False)
class SimulatedRows:
    """The difference between measured and simulated positions or torques, as rows.

    Attributes:
        loop: the experiment.
        quantity: ``q`` (output error) or ``tau`` (input error).
    """

    loop: ClosedLoop
    quantity: Quantity

    @property
    def problem(self) -> Regression:
        return self.loop.problem

    @cached_property
    def _stride(self) -> list[int]:
        return [Plan.of(motion, self.problem.settings).stride for motion in self.problem.motions]

    @cached_property
    def frames(self) -> tuple[Block, ...]:
        """One block per leg without columns: times, measured values, use and folds of its rows."""
        return tuple(self._frames())

    def residuals(self, theta: Array) -> list[list[Array] | None]:
        """Rows (m, n) of each leg, for each row of theta (runs, p); `None` for lost runs."""
        return [
            None
            if run is None
            else [
                frame.y - self._plan(k).filtered(simulated)
                for k, (frame, simulated) in enumerate(zip(self.frames, run, strict=True))
            ]
            for run in self.loop.runs(theta, self.quantity, self._stride)
        ]

    def linearised(self, theta: Array, theta_base: Array) -> GivenRows | None:
        """All rows with their derivatives, about theta (p,); `None` if the run was lost."""
        blocks = []
        for k, (leg, frame) in enumerate(zip(self.loop.legs, self.frames, strict=True)):
            run = self.loop.tangent(leg, theta, self.quantity, self._stride[leg.motion])
            if run is None:
                return None
            simulated, J = (self._plan(k).filtered(x) for x in run)
            J = J @ self._excited
            blocks.append(replace(frame, Y=J, y=frame.y - simulated + J @ theta_base))
        return self.problem.recast(GivenRows, given=tuple(blocks))

    @cached_property
    def _excited(self) -> Array:
        """(b, b) projection onto parameters that the recorded motion excites at all.

        A joint that stood throughout trembles a little in simulation, by which it would seem to
        excite its inertia and friction.
        """
        size = Prior.of(self.problem).size_base
        A = self.problem.stack(np.ones((self.problem.n_logs, self.problem.n_joints))).A
        s, Vt = np.linalg.svd(A * size)[1:]
        V = Vt[s > _SINGULAR * s.max(initial=0.0)].T
        projection: Array = size[:, None] * (V @ V.T) / size
        return projection

    def squares(self, residuals: Sequence[Array]) -> tuple[Array, Array]:
        """Sums of squares and numbers of rows that count, both (n_logs, n)."""
        squares, rows = np.zeros((2, self.problem.n_logs, self.problem.n_joints))
        for frame, e in zip(self._counted, residuals, strict=True):
            squares[frame.log] += np.square(frame.use * e).sum(axis=0)
            rows[frame.log] += frame.use.sum(axis=0)
        return squares, rows

    @cached_property
    def _counted(self) -> tuple[Block, ...]:
        """The frames without the fold that is left out."""
        return tuple(self.problem.recast(GivenRows, given=self.frames).blocks())

    def _plan(self, leg: int) -> Plan:
        return self._plans[leg]

    @cached_property
    def _plans(self) -> list[Plan]:
        return [
            Plan.of(_cut(self.problem.motions[leg.motion], leg.span), self.problem.settings)
            for leg in self.loop.legs
        ]

    def _frames(self) -> Iterator[Block]:
        still_speed = self.problem.settings.still_speed or 0.0
        n = self.problem.n_joints
        for leg, plan in zip(self.loop.legs, self._plans, strict=True):
            motion = self.problem.motions[leg.motion]
            folds = self.problem.folds(motion)[leg.span][:: plan.stride]
            measured = _measured(motion, self.quantity)[leg.span][:: plan.stride]
            at = (plan.taps.size - 1) // 2 + plan.step * np.arange(plan.n_out)
            use = np.ones((plan.n_out, n))
            if still_speed > 0.0:
                still = motion.still
                still = standing(motion.v, still_speed) if still is None else still
                use = plan.moving(still[leg.span][:: plan.stride])[: plan.n_out]
            yield Block(
                log=motion.log,
                piece=leg.motion,
                t=motion.t[leg.span][:: plan.stride][at],
                Y=np.zeros((plan.n_out, n, 0)),
                y=plan.filtered(np.ascontiguousarray(measured)),
                use=use,
                fold=folds[at],
            )


def _measured(motion: Motion, quantity: Quantity) -> Array:
    """(n_t, n) as recorded: the simulation has not been filtered either."""
    if quantity == "tau":
        return motion.tau_raw
    return motion.q if motion.q_raw is None else motion.q_raw


def _cut(motion: Motion, span: slice) -> Motion:
    """The motion with the times of a span alone, for its `Plan`."""
    return replace(motion, t=motion.t[span])


@dataclass(frozen=True, eq=False)
class Directions:
    """The problem turned so that each direction of the parameters stands alone."""

    prior: Prior
    s: Array
    Vt: Array
    rest: Array

    @classmethod
    def from_stack(cls, stack: Stack, prior: Prior, theta: Array) -> Directions:
        U, s, Vt = np.linalg.svd(stack.A * prior.size_base)
        return cls(prior, s, Vt, U.T @ (stack.z - stack.A @ prior.to_base(theta)))

    @property
    def excited(self) -> NDArray[np.bool_]:
        strong: NDArray[np.bool_] = (self.s > _SINGULAR * self.s[0]) & (self.s > 0.0)
        return strong

    @property
    def unexcited(self) -> tuple[str, ...]:
        return unexcited_names(self.prior, self.Vt[~self.excited])

    def with_unexcited_of_prior(self, theta: Array) -> Array:
        """(p,) theta with the prior's values in unexcited directions, which a start may move."""
        weak, prior = self.Vt[~self.excited], self.prior
        away = (prior.to_base(theta) - prior.theta_base) / prior.size_base
        back = prior.complete(prior.theta_base + prior.size_base * (weak.T @ (weak @ away)))
        return theta - (back - prior.theta)

    def step(self, damping: float) -> Array:
        """Change of theta (p,), the more careful the larger the damping."""
        excited, weak = self.excited, damping * self.s[0]
        s = self.s[excited]
        x = self.Vt[excited].T @ (s / (s**2 + weak**2) * self.rest[excited])
        moved = self.prior.theta_base + self.prior.size_base * x
        return self.prior.complete(moved) - self.prior.theta

    def along(self, rows: Regression, sigma: Array, residuals: list[Array]) -> Array:
        """(b,) base parameters that would explain residuals (m, n) of each block of the rows."""
        pull = np.zeros(self.prior.size_base.size)
        for block, e in zip(rows.blocks(), residuals, strict=True):
            pull += np.einsum("tj,tjb->b", (block.use / sigma[block.log]) ** 2 * e, block.Y)
        V, size = self.Vt[self.excited], self.prior.size_base
        moved: Array = size * (V.T @ ((V @ (size * pull)) / self.s[self.excited] ** 2))
        return moved
