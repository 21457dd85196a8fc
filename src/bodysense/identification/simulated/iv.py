"""Instrumental variables: the simulated motion tells noise and signal of the recorded one apart."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from bodysense.identification.consistent.physical import Physical
from bodysense.identification.consistent.projection import consistent_least_squares
from bodysense.identification.factors import Stack, triangle
from bodysense.identification.given_rows import GivenRows
from bodysense.identification.identification import Iteration
from bodysense.identification.linear.least_squares import Solver, Weighing, noise_levels, weighted
from bodysense.identification.prior import Prior
from bodysense.identification.regression import Regression
from bodysense.identification.simulated.closed_loop import ClosedLoop
from bodysense.identification.simulated.simulating import MORE_GAIN, Simulating
from bodysense.spatial.arrays import Array

# What IV and DIDIM share: simulate with an estimate, estimate with the simulation, and again.

_SHORTER = (0.5, 0.25, 0.1)
"""Shares of a step that are simulated together, where the whole step leads astray."""

_SWINGING = 0.8
"""Share of the step before that a step must not exceed, if the iteration is to settle."""

_FINEST = 1e-8
"""Relative change of predictions that is none, whatever the noise."""


@dataclass(frozen=True)
class Refined(Simulating):
    """Base of methods that solve a linear problem with simulated motions, again and again.

    What is simulated can always exist as a robot: the consistent estimate of the same rows. Where
    the rows leave directions open, or noise pushes links beyond what can exist, a simulation of
    the estimate itself would be lost. Steps that lead astray are shortened.
    """

    @abstractmethod
    def refit(
        self, problem: Regression, prior: Prior, simulated: Regression, theta: Array, solve: Solver
    ) -> Weighing:
        """Estimate once more.

        Args:
            problem: the recordings.
            prior: what was known before.
            simulated: the same with simulated motions.
            theta: (p,) with which they were simulated.
            solve: the solver of reduced problems.
        """

    def weigh(self, problem: Regression, prior: Prior, solve: Solver) -> Weighing:
        """Simulate and solve until nothing moves."""
        loop = self.loop(problem)
        plain, theta, simulated = self.start(loop, prior, solve)
        if simulated is None:
            return self.astray(plain, [])
        result, last = plain, theta
        trace: list[Iteration] = []
        settled, share = False, 1.0
        for _ in range(self.iterations):
            result = self.refit(problem, prior, simulated, theta, solve)
            if (
                result.solution.failure
            ):  # of rows that the simulation has made, not of the recording
                return self.astray(plain, trace)
            step = result.solution.theta - last
            last = result.solution.theta
            change = _change(result, prior, step)
            trace.append(Iteration(result.stack.rest, change))
            settled = change < self.tolerance or _relative_change(result, prior, step) < _FINEST
            if settled:
                break
            if len(trace) > 1 and change > _SWINGING * trace[-2].change:
                share *= 0.5  # two estimates may lead to each other and back
            theta, simulated = _step(loop, theta, share * (_possible(result, prior) - theta))
            if simulated is None:
                return self.astray(plain, trace)
        moved = None
        if not loop.gains_known:
            moved = self._with_more_gain(loop, prior, result, solve)
        return replace(
            result, trace=tuple(trace), converged=settled, note=self.notes(loop, plain, moved)
        )

    def _with_more_gain(
        self, loop: ClosedLoop, prior: Prior, found: Weighing, solve: Solver
    ) -> float | None:
        """How far predictions move with higher gains; `None` if they cannot be simulated."""
        theta = _possible(found, prior)
        other = loop.with_gains(MORE_GAIN).simulated(theta[None])[0]
        if other is None:
            return None
        again = self.refit(loop.problem, prior, other, theta, solve)
        return _change(found, prior, again.solution.theta - found.solution.theta)


def _possible(found: Weighing, prior: Prior) -> Array:
    """(p,) the consistent estimate of the same rows; the estimate itself if there is none."""
    consistent = consistent_least_squares(prior, found.stack)
    return found.solution.theta if consistent.failure else consistent.theta


def _step(loop: ClosedLoop, theta: Array, step: Array) -> tuple[Array, Regression | None]:
    """As far along a step as the simulation follows the recorded motion."""
    whole = loop.simulated((theta + step)[None])[0]
    if whole is not None:
        return theta + step, whole
    shorter = [theta + share * step for share in _SHORTER]
    for candidate, run in zip(shorter, loop.simulated(np.stack(shorter)), strict=True):
        if run is not None:
            return candidate, run
    return theta, None


def _change(found: Weighing, prior: Prior, step: Array) -> float:
    """How far predictions move with a step of theta, in standard deviations of the residual."""
    moved = np.linalg.norm(found.stack.A @ prior.to_base(step))
    return float(moved / np.sqrt(max(found.stack.rows, 1)))


def _relative_change(found: Weighing, prior: Prior, step: Array) -> float:
    """The same, relative to the predictions themselves."""
    whole = float(np.linalg.norm(found.stack.A @ prior.to_base(found.solution.theta)))
    return float(np.linalg.norm(found.stack.A @ prior.to_base(step))) / max(whole, 1e-300)


_ALIKE = 0.3
"""Correlation of simulated and recorded columns below which the former are no instruments."""

_SINGULAR = 1e-9
"""Directions of the instruments this much weaker than the strongest one are none."""


@dataclass(frozen=True)
class IV(Refined):
    """Zᵀ (y - Y theta_base) = 0 with the regressor Z of the simulated motion, eqs (26), (30).

    Noise in recorded positions makes noise in the regressor Y, which biases least squares. Z is
    free of it: as long as it is close to the true regressor, the estimate is consistent even if
    the simulation is not exact. With Z = Q R, rows divided by their noise, it is the minimum of

        ‖Qᵀ (y - Y theta_base)‖²,

    which is how constraints come in, eqs (66)-(67), and what its covariance is taken from. Some
    columns a simulation cannot resemble, such as those of friction that lasts for milliseconds
    while a joint turns round: directions of which less than `_ALIKE` is resembled are their own
    instruments, as in least squares. Weak instruments would make the estimate useless.
    """

    name: ClassVar[str] = "iv"
    about: ClassVar[str] = "instrumental variables from the simulated motion"
    needs: ClassVar[str] = "the controller; what it was told, or it follows the measured motion"
    cost: ClassVar[str] = "one simulation and one regression an iteration, about three of them"
    when: ClassVar[str] = "noisy positions: no bias from noise, and little from a wrong simulation"

    def refit(
        self, problem: Regression, prior: Prior, simulated: Regression, theta: Array, solve: Solver
    ) -> Weighing:
        """Solve with these instruments."""
        sigma = noise_levels(problem, prior.to_base(theta))
        stack, C, D = Instruments.of(problem, simulated, sigma).solved_for()
        solution = solve(stack)
        rows = _rows(problem, simulated, C, D, prior.to_base(solution.theta))
        return Weighing(sigma, solution, stack, rows=rows)


@dataclass(frozen=True, eq=False)
class Instruments:
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
    def of(cls, problem: Regression, simulated: Regression, sigma: Array) -> Instruments:
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
        directions: Array = V @ Wt[likeness < _ALIKE].T
        return directions

    def solved_for(self) -> tuple[Stack, Array, Array]:
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


def _rows(
    problem: Regression, simulated: Regression, C: Array, D: Array, theta_base: Array
) -> GivenRows:
    """Rows P = Z C + Y D, the part of Y that instruments explain, with the residuals of Y itself.

    Their scores are those of the instrumental estimate: Pᵀ (y - Y theta_base).
    """
    blocks = []
    for mine, theirs in zip(problem.blocks(), simulated.blocks(), strict=True):
        P = theirs.Y @ C + mine.Y @ D
        blocks.append(replace(mine, Y=P, y=mine.y - (mine.Y - P) @ theta_base))
    return GivenRows.by(problem, blocks)


# DIDIM: least squares whose regressor comes from the simulated motion.


@dataclass(frozen=True)
class DIDIM(Refined):
    """Direct and inverse dynamic identification model, thesis eqs (41)-(42).

    The controller keeps the simulated motion close to the recorded one whatever the parameters, so
    that the derivative of the simulated torque is about the regressor of the simulated motion:
    input error by plain least squares. No recorded position is differentiated.
    """

    name: ClassVar[str] = "didim"
    about: ClassVar[str] = "least squares with the regressor of the simulated motion"
    needs: ClassVar[str] = "the controller; what it was told, or it follows the measured motion"
    cost: ClassVar[str] = "one simulation and one regression an iteration, three or four of them"
    when: ClassVar[str] = "noisy or slowly sampled positions and a controller that is well known"

    def refit(
        self, problem: Regression, prior: Prior, simulated: Regression, theta: Array, solve: Solver
    ) -> Weighing:
        """Weighted least squares on the simulated rows."""
        result = weighted(simulated, prior, solve, tolerance=1e-2, most=10)
        return replace(result, rows=simulated)


# Physically consistent instrumental variables.


@dataclass(frozen=True)
class ConsistentIV(Physical, IV):
    """`IV` with a semidefinite program an iteration, thesis eqs (66)-(67)."""

    name: ClassVar[str] = "pc-iv"
    about: ClassVar[str] = "instrumental variables over physical robots"
    cost: ClassVar[str] = "one simulation and one semidefinite program an iteration"
    when: ClassVar[str] = "as iv, where the result is to be simulated or controlled with"


# Physically consistent DIDIM.


@dataclass(frozen=True)
class ConsistentDIDIM(Physical, DIDIM):
    """`DIDIM` with a semidefinite program an iteration, thesis eq (65)."""

    name: ClassVar[str] = "pc-didim"
    about: ClassVar[str] = "DIDIM over physical robots"
    cost: ClassVar[str] = "one simulation and one semidefinite program an iteration"
    when: ClassVar[str] = "as didim, where the result is to be simulated or controlled with"
