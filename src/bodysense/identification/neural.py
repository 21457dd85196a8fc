"""Neural networks whose weights are the parameters: Adaline and a Hopfield-Tank network.

Both start from weighted least squares, for the noise levels of the rows, and end there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from bodysense.errors import ShapeError
from bodysense.identification._kernels.adaline import descend, learn_instants
from bodysense.identification.identification import Iteration
from bodysense.identification.identifier import require_settings
from bodysense.identification.linear.least_squares import LeastSquares
from bodysense.identification.prior import Prior
from bodysense.identification.reduced import Stack
from bodysense.identification.regression import Regression
from bodysense.identification.solution import WeightedSolution
from bodysense.spatial.arrays import Array

# Adaline

_BATCH_EPOCHS = 20_000  # default epochs of batch learning

_EPOCH_RANGE, _EPOCH_SAMPLES = (50, 1000), 200_000
"""Default epochs of learning by row: as many as go through so many samples, within this range."""

_FIRST_RATE = 3.0  # rate of the first epoch, in units of one over the mean squared length of a row
_WEAK_COLUMN = 1e-9  # in units of the strongest, in plausible sizes: teaches nothing
_NOTED_DISTANCE = 0.1  # from least squares, in standard errors, that the status notes
_MOST_BYTES = 1e9  # memory that rows may take; beyond it learning is by batch

_TOO_LONG = "The rows are too many to be kept in memory, so that learning was by batch."


@dataclass(frozen=True)
class Adaline(LeastSquares):
    """A single linear neuron that learns to predict torques, thesis eqs (45)-(46).

    ``stochastic`` learns row by row,

        x += eta y_k (tau_k - y_kᵀ x),        eta = mu / (1 + mu ‖y_k‖²),

    with samples reshuffled for each pair of epochs, the second of which goes through them
    backward. The rate is that of an implicit step, which no row can make unstable; it falls with
    the cube of the epochs left, from three over the mean squared row on, until rows are small
    beside it and the rule is that of (46). ``batch`` follows the gradient (45) of all rows
    together, with momentum.

    Either is weighted least squares in the end (rows are divided by their noise levels), and
    never reached in full. Inputs are brought to one length and x starts at the prior, which is kept
    where the data say nothing. A direction that the motion excites weakly takes many epochs: as
    many as the squared length of a row is larger than the sum of squares along it. On motions of
    the TX40 (400 to 5000 samples with white noise, a prior 15 % off) row by row ends within 0.15
    standard errors of the least-squares estimate in every base parameter. Without noise, 400 random
    states of TX40 and RV2SQ come out to 1e-12 of the parameters' sizes, those of a random arm of
    twelve joints to 5e-3, and slow sines of one of three joints to 2e-3. Batch learning ends within
    1e-4 standard errors in all of these, in less time. Where all parameters together are off by
    more than a tenth of a standard error (r.m.s.) the status says so.

    Attributes:
        learning: ``stochastic`` (row by row) or ``batch`` (by all rows together).
        epochs: passes over all rows, at most; by default as many as go through 200 000 samples,
            but 50 to 1000, and 20 000 of batch learning.
        tolerance: change of predictions at full rate, in standard deviations of the residual, at
            which to stop.
        seed: of the order of rows, unless a generator is given.
    """

    learning: Literal["stochastic", "batch"] = "stochastic"
    epochs: int | None = None
    tolerance: float = 1e-6
    seed: int = 0

    def __post_init__(self) -> None:
        require_settings(self, not_negative=("tolerance",), learning=("stochastic", "batch"))
        if self.epochs is not None and self.epochs < 1:
            raise ShapeError(f"epochs is {self.epochs}: give a whole number from 1, or none.")
        if self.seed < 0:
            raise ShapeError(f"seed is {self.seed}: give a whole number from 0.")

    def refined(
        self,
        problem: Regression,
        prior: Prior,
        fit: WeightedSolution,
        rng: np.random.Generator | None,
    ) -> WeightedSolution:
        seed = self.seed if rng is None else int(rng.integers(2**31))
        stack, note = fit.stack, fit.note
        long = 8.0 * problem.n_samples * problem.n_joints * problem.size > _MOST_BYTES
        if self.learning == "stochastic" and long:
            note = note or _TOO_LONG
        unit = _unit(prior, stack)
        if self.learning == "batch" or long:
            x, trace = self._by_batch(prior, stack, unit)
        else:
            x, trace = self._by_row(problem, prior, fit, unit, seed)
        theta_base = prior.theta_base + _reached(prior, stack, unit * x)
        off = stack.A @ (theta_base - prior.to_base(fit.theta))
        distance = float(np.linalg.norm(off) / np.sqrt(max(off.size, 1)))
        if distance > _NOTED_DISTANCE and not note:
            note = (
                f"Learning ended {distance:.2g} standard errors (r.m.s.) from the least-squares "
                "estimate: raise epochs"
                + ("." if self.learning == "batch" else ", or set learning to batch.")
            )
        theta = prior.untouched(prior.complete(theta_base))
        return replace(fit, theta=theta, trace=tuple(trace), note=note)

    def _by_row(
        self, problem: Regression, prior: Prior, fit: WeightedSolution, unit: Array, seed: int
    ) -> tuple[Array, list[Iteration]]:
        """Learn row by row; returns x in units of `unit`, and the epochs."""
        parts = list(_scaled(problem, prior, fit.sigma, unit))
        Y, y = (np.concatenate([part[k] for part in parts]) for k in (0, 1))
        x, trace = np.zeros(unit.size), list[Iteration]()
        stack = fit.stack
        size = np.einsum("tjb,tjb->tj", Y, Y)
        mean = float(size.sum()) / max(stack.rows, 1)
        if not mean > 0.0:
            return x, trace
        rng = np.random.default_rng(seed)
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
            moved = stack.change(unit * (x - before))
            trace.append(Iteration(_cost(prior, stack, unit * x), moved))
            if moved <= self.tolerance * share:
                break
        return x, trace

    def _epochs(self, samples: int) -> int:
        if self.epochs is not None:
            return self.epochs
        return int(np.clip(_EPOCH_SAMPLES // samples, *_EPOCH_RANGE))

    def _by_batch(self, prior: Prior, stack: Stack, unit: Array) -> tuple[Array, list[Iteration]]:
        """Learn by gradients of all rows."""
        A, z = stack.A * unit, stack.z - stack.A @ prior.theta_base
        x, strongest = np.zeros(unit.size), float(np.linalg.norm(A, 2))
        if not strongest > 0.0:
            return x, []
        least = self.tolerance * np.sqrt(max(stack.rows, 1))
        epochs = self.epochs if self.epochs is not None else _BATCH_EPOCHS
        descend(A, z, 1.0 / strongest**2, least, epochs, x)
        return x, [Iteration(_cost(prior, stack, unit * x), stack.change(unit * x))]


def _unit(prior: Prior, stack: Stack) -> Array:
    """(b,) change of each base parameter that makes its column one long; 0 for silent columns."""
    length = np.linalg.norm(stack.A, axis=0)
    effect = length * prior.size_base
    heard = effect > _WEAK_COLUMN * effect.max(initial=0.0)
    return np.where(heard, 1.0 / np.where(heard, length, 1.0), 0.0)


def _reached(prior: Prior, stack: Stack, change: Array) -> Array:
    """(b,) the part of a change of base parameters that has an effect on the data.

    Inputs of one length are another measure than plausible sizes, by which least squares leaves to
    the prior what the data do not reach.
    """
    s, Vt = np.linalg.svd(stack.A * prior.size_base)[1:]
    strong = Vt[s > _WEAK_COLUMN * s.max(initial=0.0)]
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


# Hopfield-Tank network

_LARGEST_STATE = 12.0  # output within 1e-10 of its bound: further is only rounding
_AT_BOUND = 0.999  # output of a neuron, in units of its bound, from which on it is at the bound

_WEAK_DIRECTION = 1e-9
"""Directions whose effect is this much smaller than the strongest one's keep the prior's value: the
time step ends where they would begin to move."""

_GROWTH = 10.0  # factor from one time step to the next
_SHORTEST_STEP = 1e-12  # in units of the strongest direction's: none lowers the energy
_QUIET_STEPS = 3  # in a row without change, each longer than the one before: converged
_ROUNDING = 1e-14  # share of the first residual below which changes of it are rounding


@dataclass(frozen=True)
class Hopfield(LeastSquares):
    """The network of thesis eqs (47)-(51), in Abe's form, whose energy is the squared error.

    One neuron per base parameter, with the state u and the output

        theta_base = centre + alpha tanh(u),      E = ½ ‖A theta_base - z‖²,      du/dt = -∂E/∂x

    by x = tanh(u), so that the energy falls along every path: dE/dt = -Σ (1 - x²) (∂E/∂x)² <= 0.
    Its rest is weighted least squares, unless that lies outside the bounds.

    Two things differ from the print. The energy (50) with the weights (51) is the squared error,
    but (47) and (49) add the bias kappa where the energy's slope has -kappa: as printed the network
    goes to minus the estimate. And outputs there lie about zero, within 1.5 times the largest
    initial parameter, whatever the units of each one; here they lie about the prior, within `bound`
    times the plausible size of each.

    The network's equation is stiff: the explicit steps (49) must be as short as the strongest
    direction asks for, and the weakest then takes as many of them as the square of the condition
    number. Linearly implicit steps of Euler's have the same rest and no such limit, so that they
    grow tenfold from one to the next; one that would raise the energy is taken again, shorter.

    Attributes:
        bound: range of each base parameter to both sides of the robot file's value, in plausible
            sizes.
        tolerance: change of predictions in a step, in standard deviations of the residual, at
            which the network has converged.
        steps: steps of the network, at most.
    """

    bound: float = 3.0
    tolerance: float = 1e-6
    steps: int = 200

    def __post_init__(self) -> None:
        require_settings(self, positive=("bound", "tolerance"), counts=("steps",))

    def refined(
        self,
        problem: Regression,
        prior: Prior,
        fit: WeightedSolution,
        rng: np.random.Generator | None,
    ) -> WeightedSolution:
        rest, range_ = self._rest(prior, fit.stack), self.bound * prior.size_base
        theta = prior.untouched(prior.complete(prior.theta_base + range_ * rest.x))
        return replace(
            fit,
            theta=theta,
            trace=rest.trace,
            converged=fit.converged and rest.converged,
            note=fit.note or self._note(prior, rest),
            at_bound=np.abs((prior.to_base(theta) - prior.theta_base) / range_) > _AT_BOUND,
        )

    def _note(self, prior: Prior, rest: _Rest) -> str:
        stuck = np.flatnonzero(np.abs(rest.x) > _AT_BOUND)
        if stuck.size == 0:
            return ""
        names = "; ".join(prior.base_names[k] for k in stuck[:4]) + (
            "; …" if stuck.size > 4 else ""
        )
        return (
            f"{stuck.size} base parameter(s) lie at their bounds, {self.bound:g} plausible sizes "
            f"from the prior: {names}. Raise bound, or check the units of the log and the prior."
        )

    def _rest(self, prior: Prior, stack: Stack) -> _Rest:
        """Steps until the energy converges, of B x = r in units of the bounds.

        With D = 1 - x² an implicit step is (1 + h Bᵀ B D) Δu = h Bᵀ e, e = r - B x, and with the
        singular values of B D^½ = U s Vᵀ it is D^½ Δu = V s / (s² + 1 / h) Uᵀ e, for any h.
        """
        B = stack.A * (self.bound * prior.size_base)
        r = stack.z - stack.A @ prior.theta_base
        strongest = float(np.linalg.norm(B, 2))
        u, x = np.zeros((2, r.size))
        if not strongest > 0.0:
            return _Rest(x, (), True)
        e, unit = r, np.sqrt(max(stack.rows, 1))
        least = max(unit * self.tolerance, _ROUNDING * float(np.linalg.norm(r)))
        h, longest = 1.0 / strongest**2, 1.0 / (_WEAK_DIRECTION * strongest) ** 2
        trace: list[Iteration] = []
        quiet = 0
        for _ in range(self.steps):
            root = np.sqrt(1.0 - x**2)
            U, s, Vt = np.linalg.svd(B * root)
            new, e_new = u, e
            while h * strongest**2 > _SHORTEST_STEP:
                step = Vt.T @ (s / (s**2 + 1.0 / h) * (U.T @ e))
                new = np.clip(u + step / root, -_LARGEST_STATE, _LARGEST_STATE)
                e_new = r - B @ np.tanh(new)
                if e_new @ e_new <= e @ e:
                    break
                new, e_new = u, e
                h /= _GROWTH
            moved = float(np.linalg.norm(e_new - e))
            u, x, e = new, np.tanh(new), e_new
            trace.append(Iteration(float(e @ e) + stack.rest, moved / unit))
            quiet = quiet + 1 if moved <= least else 0
            if quiet == _QUIET_STEPS:
                return _Rest(x, tuple(trace), True)
            h = min(h * _GROWTH, longest)
        return _Rest(x, tuple(trace), False)


@dataclass(frozen=True, eq=False)
class _Rest:
    """Where a network ends: outputs x in units of the bounds, its path, whether it converged."""

    x: Array
    trace: tuple[Iteration, ...]
    converged: bool
