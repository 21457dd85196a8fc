"""Least squares as a linear neuron learns it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from bodysense.errors import ShapeError, unknown_name
from bodysense.identification._kernels.adaline import descend, learn_instants
from bodysense.identification.factors import Stack
from bodysense.identification.identification import Identification, Iteration
from bodysense.identification.linear.least_squares import (
    LinearIdentifier,
    Solution,
    Solver,
    Weighing,
    least_squares,
    weighted,
)
from bodysense.identification.prior import Prior
from bodysense.identification.regression import Regression
from bodysense.spatial.arrays import Array

_LEARNING = ("stochastic", "batch")
_BATCH_EPOCHS = 20_000
_MOST_EPOCHS, _LEAST_EPOCHS, _INSTANTS = 1000, 50, 200_000
"""Epochs of learning by row: as many as go through so many instants, within these ends."""

_FIRST_RATE = 3.0
"""Rate of the first epoch, in units of one over the mean squared length of a row."""

_SILENT = 1e-9
"""Columns that are this much weaker than the strongest one, in plausible sizes, teach nothing."""

_NEAR = 0.1
"""Distance from least squares, in standard errors, from which it is worth a word."""

_MOST_BYTES = 1e9
_TOO_LONG = "The rows are too many to be kept in memory, so that learning was by batch."


@dataclass(frozen=True)
class Adaline(LinearIdentifier):
    """A single linear neuron that learns to predict torques, thesis eqs (45)-(46).

    ``stochastic`` learns row by row,

        x += eta y_k (tau_k - y_kᵀ x),        eta = mu / (1 + mu ‖y_k‖²),

    with instants reshuffled for each pair of epochs, the second of which goes through them
    backward. The rate is that of an implicit step, which no row can make unstable; it falls with
    the cube of the epochs left, from three over the mean squared row on, until rows are small
    beside it and the rule is that of (46). ``batch`` follows the gradient (45) of all rows
    together, with momentum.

    Either is weighted least squares in the end (rows are divided by the noise levels of `WLS`), and
    never reached in full. Inputs are brought to one length and x starts at the prior, which is kept
    where the data say nothing. A direction that the motion excites weakly takes many epochs: as
    many as the squared length of a row is larger than the sum of squares along it. On motions of
    the TX40 (400 to 5000 instants with white noise, a prior 15 % off) row by row ends within 0.15
    standard errors of the least-squares estimate in every base parameter. Without noise, 400 random
    states of TX40 and RV2SQ come out to 1e-12 of the parameters' sizes, those of a random arm of
    twelve joints to 5e-3, and slow sines of one of three joints to 2e-3. Batch learning ends within
    1e-4 standard errors in all of these, in less time. Where all parameters together are off by
    more than a tenth of a standard error (r.m.s.) the status says so.

    Attributes:
        learning: ``stochastic`` (row by row) or ``batch`` (by all rows together).
        epochs: passes over all rows, at most; by default as many as go through 200 000 instants,
            but 50 to 1000, and 20 000 of batch learning.
        tolerance: change of predictions at full rate, in standard deviations of the residual, at
            which to stop.
        seed: of the order of rows, unless a generator is given.
    """

    learning: Literal["stochastic", "batch"] = "stochastic"
    epochs: int | None = None
    tolerance: float = 1e-6
    seed: int = 0

    name: ClassVar[str] = "adaline"
    about: ClassVar[str] = "Adaline: a linear neuron that learns row by row"
    needs: ClassVar[str] = "nothing more"
    cost: ClassVar[str] = "one regression, gone through some hundred times"
    when: ClassVar[str] = "as a reference for learning rules; wls gives the same, and exactly"

    def __post_init__(self) -> None:
        if self.learning not in _LEARNING:
            raise unknown_name("learning", self.learning, _LEARNING)
        if self.epochs is not None and self.epochs < 1:
            raise ShapeError(f"epochs is {self.epochs}: give a whole number from 1, or none.")
        if not (np.isfinite(self.tolerance) and self.tolerance >= 0.0):
            raise ShapeError(f"tolerance is {self.tolerance:g}: give zero or a positive number.")
        if self.seed < 0:
            raise ShapeError(f"seed is {self.seed}: give a whole number from 0.")

    def fit(self, problem: Regression, *, rng: np.random.Generator | None = None) -> Identification:
        """Identify; the order of rows is the generator's, or that of `seed`."""
        return super(Adaline, self._seeded(rng)).fit(problem)

    def theta(self, problem: Regression, *, rng: np.random.Generator | None = None) -> Array:
        """(p,) the estimate alone."""
        return super(Adaline, self._seeded(rng)).theta(problem)

    def _seeded(self, rng: np.random.Generator | None) -> Adaline:
        return self if rng is None else replace(self, seed=int(rng.integers(2**31)))

    def weigh(self, problem: Regression, prior: Prior, solve: Solver) -> Weighing:
        """Weigh as weighted least squares; then learn."""
        start = weighted(
            problem, prior, lambda s: least_squares(problem, prior, s), tolerance=1e-3, most=20
        )
        stack, note = start.stack, start.note
        long = 8.0 * problem.n_samples * problem.n_joints * problem.size > _MOST_BYTES
        if self.learning == "stochastic" and long:
            note = note or _TOO_LONG
        unit = _unit(prior, stack)
        if self.learning == "batch" or long:
            x, trace = self._by_batch(prior, stack, unit)
        else:
            x, trace = self._by_row(problem, prior, start, unit)
        theta_base = prior.theta_base + _reached(prior, stack, unit * x)
        off = stack.A @ (theta_base - prior.to_base(start.solution.theta))
        distance = float(np.linalg.norm(off) / np.sqrt(max(off.size, 1)))
        if distance > _NEAR and not note:
            note = (
                f"Learning ended {distance:.2g} standard errors (r.m.s.) from the least-squares "
                "estimate: raise epochs"
                + ("." if self.learning == "batch" else ", or set learning to batch.")
            )
        theta = prior.untouched(prior.complete(theta_base))
        return replace(
            start, solution=Solution(theta, start.solution.unseen), trace=tuple(trace), note=note
        )

    def _by_row(
        self, problem: Regression, prior: Prior, start: Weighing, unit: Array
    ) -> tuple[Array, list[Iteration]]:
        """Learn row by row; returns x in units of `unit`, and the epochs."""
        parts = list(_scaled(problem, prior, start.sigma, unit))
        Y, y = (np.concatenate([part[k] for part in parts]) for k in (0, 1))
        x, trace = np.zeros(unit.size), list[Iteration]()
        stack, root = start.stack, np.sqrt(max(start.stack.rows, 1))
        size = np.einsum("tjb,tjb->tj", Y, Y)
        mean = float(size.sum()) / max(stack.rows, 1)
        if not mean > 0.0:
            return x, trace
        rng = np.random.default_rng(self.seed)
        epochs = self._epochs(len(y))
        order = np.arange(len(y))
        span = np.array([(c.min(), c.max() + 1) if c.size else (0, 0) for c in problem.columns])
        for k in range(epochs):
            share = (1.0 - k / epochs) ** 3
            backward = k % 2 == 1
            if not backward:
                order = rng.permutation(len(y))
            before = x.copy()
            learn_instants(Y, y, size, span, order, backward, share * _FIRST_RATE / mean, x)
            # A small rate moves little even far from the end.
            moved = float(np.linalg.norm(stack.A @ (unit * (x - before)))) / root
            trace.append(Iteration(_cost(prior, stack, unit * x), moved))
            if moved <= self.tolerance * share:
                break
        return x, trace

    def _epochs(self, instants: int) -> int:
        if self.epochs is not None:
            return self.epochs
        return int(np.clip(_INSTANTS // instants, _LEAST_EPOCHS, _MOST_EPOCHS))

    def _by_batch(self, prior: Prior, stack: Stack, unit: Array) -> tuple[Array, list[Iteration]]:
        """Learn by gradients of all rows."""
        A, z = stack.A * unit, stack.z - stack.A @ prior.theta_base
        x, strongest = np.zeros(unit.size), float(np.linalg.norm(A, 2))
        if not strongest > 0.0:
            return x, []
        least = self.tolerance * np.sqrt(max(stack.rows, 1))
        epochs = self.epochs if self.epochs is not None else _BATCH_EPOCHS
        descend(A, z, 1.0 / strongest**2, least, epochs, x)
        moved = float(np.linalg.norm(A @ x)) / np.sqrt(max(stack.rows, 1))
        return x, [Iteration(_cost(prior, stack, unit * x), moved)]


def _unit(prior: Prior, stack: Stack) -> Array:
    """(b,) change of each base parameter that makes its column one long; 0 for silent columns."""
    length = np.linalg.norm(stack.A, axis=0)
    effect = length * prior.size_base
    heard = effect > _SILENT * effect.max(initial=0.0)
    return np.where(heard, 1.0 / np.where(heard, length, 1.0), 0.0)


def _reached(prior: Prior, stack: Stack, change: Array) -> Array:
    """(b,) the part of a change of base parameters that has an effect on the data.

    Inputs of one length are another measure than plausible sizes, by which least squares leaves to
    the prior what the data do not reach.
    """
    s, Vt = np.linalg.svd(stack.A * prior.size_base)[1:]
    strong = Vt[s > _SILENT * s.max(initial=0.0)]
    part: Array = prior.size_base * (strong.T @ (strong @ (change / prior.size_base)))
    return part


def _scaled(
    problem: Regression, prior: Prior, sigma: Array, unit: Array
) -> Iterator[tuple[Array, Array]]:
    """Rows (m, n, b) and targets (m, n) of each block as the neuron sees them.

    Those of standing joints are zero.
    """
    for block in problem.blocks():
        scale = block.use / sigma[block.log]
        y = (block.y - block.Y @ prior.theta_base) * scale
        yield block.Y * unit * scale[:, :, None], y


def _cost(prior: Prior, stack: Stack, moved: Array) -> float:
    """Sum of squares after base parameters have moved from the prior."""
    e = stack.A @ (prior.theta_base + moved) - stack.z
    return float(e @ e) + stack.rest
