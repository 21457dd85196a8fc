"""Regression with simulated motions: instrumental variables and DIDIM.

Simulate with an estimate, estimate with the simulation, and again. What is simulated is always
physically consistent: the consistent estimate of the same rows. Where the rows leave directions
open, or noise pushes links beyond consistency, a simulation of the estimate itself would be lost.
Steps with which the simulation is lost are shortened.

Instrumental variables solve Zᵀ (y - Y theta_base) = 0 with the regressor Z of the simulated motion,
thesis eqs (26), (30). Noise in recorded positions makes noise in the regressor Y, which biases
least squares. Z is free of it: as long as it is close to the true regressor, the estimate is
consistent even if the simulation is not exact. With Z = Q R, rows divided by their noise, it is the
minimum of

    ‖Qᵀ (y - Y theta_base)‖²,

which is how constraints come in, eqs (66)-(67), and what its covariance is taken from. Some columns
a simulation cannot resemble, such as those of friction that lasts for milliseconds while a joint
turns round: directions of which less than `_LEAST_CORRELATION` is resembled are their own
instruments, as in least squares. Weak instruments would make the estimate useless.

DIDIM, the direct and inverse dynamic identification model, thesis eqs (41)-(42), is least squares
with Z in place of Y. The controller keeps the simulated motion close to the recorded one whatever
the parameters, so that the derivative of the simulated torque is about the regressor of the
simulated motion: input error by plain least squares. No recorded position is differentiated.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np

from bodysense.identification.consistent.projection import consistent_least_squares
from bodysense.identification.identification import Iteration
from bodysense.identification.identifier import require_settings
from bodysense.identification.linear.least_squares import Solve, Weights
from bodysense.identification.prior import Prior
from bodysense.identification.reduced import Stack, triangle
from bodysense.identification.regression import GivenRows, Regression
from bodysense.identification.simulated.closed_loop import START_WEIGHTS, ClosedLoop, LoopSimulation
from bodysense.identification.solution import WeightedSolution, noise_levels
from bodysense.spatial.arrays import Array

_SHORTER_STEPS = (0.5, 0.25, 0.1)  # simulated together, where the whole step is lost

_LARGEST_RATIO = 0.8
"""Ratio of a step to the one before, beyond which steps are halved: two estimates may lead to each
other and back."""

_RELATIVE_TOLERANCE = 1e-8  # of predictions, whatever the noise
_LEAST_CORRELATION = 0.3  # of simulated and recorded columns, to be instruments
_SINGULAR = 1e-9  # strength of an instrument, relative to the strongest one, below which it is none


@dataclass(frozen=True)
class SimulatedWeights(Weights):
    """Rows of the simulated motion, as instruments of the recorded ones or in place of them.

    Attributes:
        rows: ``instruments`` (IV) or ``regressor`` (DIDIM).
        iterations: simulations and estimates, at most.
        tolerance: change of predictions, in standard deviations of the residual, at which to
            stop.
        simulation: how the experiment is simulated.
    """

    rows: Literal["instruments", "regressor"] = "instruments"
    iterations: int = 10
    tolerance: float = 0.03
    simulation: LoopSimulation = field(default_factory=LoopSimulation)
    fixed: tuple[str, ...] = ("rows",)

    def __post_init__(self) -> None:
        require_settings(self, positive=("tolerance",), counts=("iterations",))

    def fit(self, problem: Regression, prior: Prior, solve: Solve) -> WeightedSolution:
        loop = self.simulation.loop(problem)
        plain, theta, simulated = loop.start(prior, solve)
        if simulated is None:
            return loop.lost(plain, [])
        result, last = plain, theta
        trace: list[Iteration] = []
        converged, share = False, 1.0
        for _ in range(self.iterations):
            result = self.refit(problem, prior, simulated, theta, solve)
            if result.failure:  # of the simulated rows, not of the recording
                return loop.lost(plain, trace)
            step = result.theta - last
            last = result.theta
            change = result.stack.change(prior.to_base(step))
            trace.append(Iteration(result.stack.rest, change))
            converged = (
                change < self.tolerance
                or _relative_change(result, prior, step) < _RELATIVE_TOLERANCE
            )
            if converged:
                break
            if len(trace) > 1 and change > _LARGEST_RATIO * trace[-2].change:
                share *= 0.5
            theta, simulated = _step(loop, theta, share * (_consistent(result, prior) - theta))
            if simulated is None:
                return loop.lost(plain, trace)
        moved = None
        if not loop.gains_known:
            moved = self._with_more_gain(loop, prior, result, solve)
        note = loop.remarks(plain, moved)
        return replace(result, trace=tuple(trace), converged=converged, note=note)

    def refit(
        self, problem: Regression, prior: Prior, simulated: Regression, theta: Array, solve: Solve
    ) -> WeightedSolution:
        """Estimate with the motions that theta (p,) was simulated with."""
        if self.rows == "regressor":
            return replace(START_WEIGHTS.fit(simulated, prior, solve), rows=simulated)
        sigma = noise_levels(problem, prior.to_base(theta))
        stack, C, D = _Instruments.from_rows(problem, simulated, sigma).reduced()
        solution = solve(stack)
        rows = _instrumental_rows(problem, simulated, C, D, prior.to_base(solution.theta))
        return replace(solution.weighted(sigma, stack), rows=rows)

    def _with_more_gain(
        self, loop: ClosedLoop, prior: Prior, fit: WeightedSolution, solve: Solve
    ) -> float | None:
        """Change of predictions with higher gains; `None` if they cannot be simulated."""
        theta = _consistent(fit, prior)
        other = loop.with_higher_gains().simulated(theta[None])[0]
        if other is None:
            return None
        again = self.refit(loop.problem, prior, other, theta, solve)
        return fit.stack.change(prior.to_base(again.theta - fit.theta))


def _consistent(fit: WeightedSolution, prior: Prior) -> Array:
    """(p,) the consistent estimate of the same rows; the estimate itself if there is none."""
    consistent = consistent_least_squares(prior, fit.stack)
    return fit.theta if consistent.failure else consistent.theta


def _step(loop: ClosedLoop, theta: Array, step: Array) -> tuple[Array, Regression | None]:
    """As far along a step as the simulation follows the recorded motion."""
    whole = loop.simulated((theta + step)[None])[0]
    if whole is not None:
        return theta + step, whole
    shorter = [theta + share * step for share in _SHORTER_STEPS]
    for candidate, run in zip(shorter, loop.simulated(np.stack(shorter)), strict=True):
        if run is not None:
            return candidate, run
    return theta, None


def _relative_change(fit: WeightedSolution, prior: Prior, step: Array) -> float:
    """Change of predictions by a step of theta, relative to the predictions themselves."""
    whole = float(np.linalg.norm(fit.stack.A @ prior.to_base(fit.theta)))
    return float(np.linalg.norm(fit.stack.A @ prior.to_base(step))) / max(whole, 1e-300)


@dataclass(frozen=True, eq=False)
class _Instruments:
    """Instruments, regressor and torques, reduced to a triangle.

    Attributes:
        Z: (2b + 1, b) simulated regressor.
        Y: (2b + 1, b) recorded one.
        y: (2b + 1,) torques.
        rows: number of rows behind them.
    """

    Z: Array
    Y: Array
    y: Array
    rows: int

    @classmethod
    def from_rows(cls, problem: Regression, simulated: Regression, sigma: Array) -> _Instruments:
        """All rows, divided by sigma (n_logs, n)."""
        b, rows = problem.size, 0
        R = np.zeros((0, 2 * b + 1))
        for mine, theirs in zip(problem.blocks(), simulated.blocks(), strict=True):
            scale = mine.use / sigma[mine.log]
            use = scale > 0.0
            count = int(use.sum())
            tall = np.empty((2 * b + 1, len(R) + count))  # column by column, as LAPACK wants it
            tall[:, : len(R)] = R.T
            fresh = tall[:, len(R) :]
            fresh[:b], fresh[b:-1], fresh[-1] = theirs.Y[use].T, mine.Y[use].T, mine.y[use]
            fresh *= scale[use]
            R, rows = triangle(tall.T), rows + count
        square = np.zeros((2 * b + 1, 2 * b + 1))
        square[: len(R)] = R
        return cls(square[:, :b], square[:, b:-1], square[:, -1], rows)

    @cached_property
    def weak(self) -> Array:
        """(b, k) directions of the parameters whose effect the simulation hardly resembles."""
        Q, _ = _basis(self.Z)
        U, V = _basis(self.Y)
        _, s, Wt = np.linalg.svd(Q.T @ U)
        likeness = np.zeros(U.shape[1])
        likeness[: s.size] = s[: likeness.size]
        directions: Array = V @ Wt[likeness < _LEAST_CORRELATION].T
        return directions

    def reduced(self) -> tuple[Stack, Array, Array]:
        """The reduced problem, and C, D with Z C + Y D the part of Y that instruments explain."""
        b = self.Y.shape[1]
        Q, V = _basis(np.hstack([self.Z, self.Y @ self.weak]))
        A, z = Q.T @ self.Y, Q.T @ self.y
        share = V @ A
        R = np.zeros((b + 1, b + 1))
        made = triangle(np.column_stack([A, z]))
        R[: len(made)] = made
        rest = float(np.square(self.y).sum() - np.square(R[:b, b]).sum())
        stack = Stack(R[:b, :b], R[:b, b], max(rest, 0.0), self.rows)
        return stack, share[:b], self.weak @ share[b:]


def _basis(X: Array) -> tuple[Array, Array]:
    """Orthonormal Q (m, k) of the columns of X (m, n), and V (n, k) with X V = Q."""
    size = np.linalg.norm(X, axis=0)
    size[size == 0.0] = 1.0
    U, s, Vt = np.linalg.svd(X / size, full_matrices=False)
    strong = s > _SINGULAR * s.max(initial=0.0)
    strong &= s > 0.0
    return U[:, strong], (Vt[strong] / size).T / s[strong]


def _instrumental_rows(
    problem: Regression, simulated: Regression, C: Array, D: Array, theta_base: Array
) -> GivenRows:
    """Rows P = Z C + Y D, the part of Y that instruments explain, with the residuals of Y itself.

    Their scores are those of the instrumental estimate: Pᵀ (y - Y theta_base).
    """
    blocks = []
    for mine, theirs in zip(problem.blocks(), simulated.blocks(), strict=True):
        P = theirs.Y @ C + mine.Y @ D
        blocks.append(replace(mine, Y=P, y=mine.y - (mine.Y - P) @ theta_base))
    return problem.recast(GivenRows, given=tuple(blocks))
