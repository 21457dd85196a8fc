"""What CLOE and CLIE share: fit the simulation to the recording by its own derivatives.

Where gains of the controller come from the log, the estimate follows their errors:

    Cov += Σ_k σ_k² d_k d_kᵀ,     d_k = J⁺ (r(theta, gain_k + h) - r(theta, gain_k)) / h

over all gains k with standard deviations σ_k, r = measured - simulated and J the derivatives of the
simulation, both in standard deviations of the residual.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from bodysense.errors import MismatchError, ShapeError, unknown_name
from bodysense.identification.factors import Stack
from bodysense.identification.identification import Identification, Iteration, Status
from bodysense.identification.linear.least_squares import (
    Solution,
    Solver,
    Weighing,
    unseen_names,
)
from bodysense.identification.prior import Prior
from bodysense.identification.regression import Regression
from bodysense.identification.simulated.closed_loop import ClosedLoop
from bodysense.identification.simulated.controller_fit import ControllerFit, fit_controller
from bodysense.identification.simulated.linearised import Quantity, SimulatedRows
from bodysense.identification.simulated.search import differential_evolution, nelder_mead
from bodysense.identification.simulated.simulating import MORE_GAIN, Simulating
from bodysense.identification.uncertainty import base_uncertainty, full_uncertainty
from bodysense.robot.controller import Controller
from bodysense.spatial.arrays import Array, read_only

_DAMPING = (0.0, 1e-6, 1e-4, 1e-2)
"""Of Levenberg and Marquardt, in units of the strongest direction; all are tried together."""

_SINGULAR = 1e-9
"""Directions whose effect is this much smaller than the strongest one's keep their values."""

_SEARCHES = ("lm", "nelder-mead", "differential-evolution")
_LEAST_GAIN = 1e-4
"""Relative decrease of the cost below which a step is not worth it."""

_COUNTED = "Its intervals count how well the log tells the gains."
_NOT_COUNTED = (
    "Its intervals do not count how well the log tells the gains: with other gains the simulation "
    "is lost. Give the controller in an actuator file."
)
_GAIN_STEP = 0.1
"""Share of a gain by which it is moved at most, to see what follows it."""


@dataclass(frozen=True)
class ClosedLoopFit(Simulating):
    """Minimise Σ ((measured - simulated) / σ)² over base parameters, σ of each log and joint.

    ``lm`` is the method of Levenberg and Marquardt on the derivatives of the simulation itself.
    ``nelder-mead`` and ``differential-evolution`` look around before, without derivatives and by
    hundreds of simulations, and ``lm`` goes on from the best they find: for friction laws that
    jump, or starts from which it goes astray.

    Attributes:
        search: ``lm``, ``nelder-mead`` or ``differential-evolution``.
        evaluations: simulations at most, of the searches without derivatives.
        spread: how far from the start they look, in parameter sizes.
    """

    search: Literal["lm", "nelder-mead", "differential-evolution"] = "lm"
    evaluations: int = 1000
    spread: float = 0.3

    quantity: ClassVar[Quantity]

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.search not in _SEARCHES:
            raise unknown_name("search", self.search, _SEARCHES)
        if self.evaluations < 1:
            raise ShapeError(f"evaluations is {self.evaluations}: give a whole number from 1.")
        if not 0.0 < self.spread < np.inf:
            raise ShapeError(f"spread is {self.spread:g}: give a positive number.")

    def fit(self, problem: Regression, *, rng: np.random.Generator | None = None) -> Identification:
        """Identify; intervals count how well the log tells the gains, where they come from it."""
        result = super().fit(problem, rng=rng)
        if problem.robot.controller is not None or not result.status.ok:
            return result
        loop = self.loop(problem)
        gains = _gains_of_log(loop)
        if gains is None:
            return result
        counted = self._with_doubt_of(gains, loop, result)
        said = _COUNTED if counted is not None else _NOT_COUNTED
        status = Status(True, f"{result.status.message} {said}")
        return replace(result if counted is None else counted, status=status)

    def notes(self, loop: ClosedLoop, plain: Weighing, moved: float | None) -> str:
        """As the others say it; whether intervals count gains of the log is for `fit` to say."""
        if moved is None or _gains_of_log(loop) is None:
            return super().notes(loop, plain, moved)
        said = super().notes(replace(loop, gains_known=True), plain, None)
        return (
            f"{said} With gains 10 % higher its predictions would change by {moved:.2g} standard "
            "deviations of the residual."
        )

    def estimate(
        self, rows: Regression, prior: Prior, rng: np.random.Generator | None = None
    ) -> Weighing:
        """Search; then take the derivatives at the end for weights and covariance."""
        chance = rng if rng is not None else np.random.default_rng(0)
        return self._fitted(rows, prior, self.solver(rows, prior), chance)

    def weigh(self, problem: Regression, prior: Prior, solve: Solver) -> Weighing:
        """The same with the same random numbers every time."""
        return self._fitted(problem, prior, solve, np.random.default_rng(0))

    def _fitted(
        self, problem: Regression, prior: Prior, solve: Solver, rng: np.random.Generator
    ) -> Weighing:
        loop = self.loop(problem)
        plain, theta, simulated = self.start(loop, prior, solve)
        if simulated is None:
            return self.astray(plain, [])
        rows = SimulatedRows(loop, self.quantity)
        trace: list[Iteration] = []
        if self.search != "lm":
            theta = self._searched(rows, prior, theta, rng)
        result = self._descended(rows, prior, theta, trace)
        if result is None:
            return self.astray(plain, trace)
        moved = None
        if not loop.gains_known:
            other = SimulatedRows(loop.with_gains(MORE_GAIN), self.quantity)
            moved = self._moved(other, prior, result)
        return replace(result, note=self.notes(loop, plain, moved))

    def _descended(
        self, rows: SimulatedRows, prior: Prior, theta: Array, trace: list[Iteration]
    ) -> Weighing | None:
        """Steps of Levenberg and Marquardt from theta (p,); `None` if no step can be simulated."""
        settled = False
        start = rows.residuals(theta[None])[0]
        if start is None:
            return None
        sigma = _levels(rows, start)
        cost = _cost(rows, start, sigma)
        for _ in range(self.iterations):
            linear = rows.linearised(theta, prior.to_base(theta))
            if linear is None:
                return None
            stack = linear.stack(sigma)
            directions = _Directions.of(stack, prior, theta)
            unseen = directions.unseen
            theta = directions.with_unseen_of_prior(theta)
            result = Weighing(sigma, Solution(theta, unseen), stack, rows=linear)
            steps = [directions.step(damping) for damping in _DAMPING]
            runs = rows.residuals(np.stack([theta + step for step in steps]))
            costs = [np.inf if run is None else _cost(rows, run, sigma) for run in runs]
            best = int(np.argmin(costs))
            if not costs[best] < cost:
                trace.append(Iteration(cost, 0.0))
                settled = True
                break
            step, run = steps[best], runs[best]
            change = float(
                np.linalg.norm(stack.A @ prior.to_base(step)) / np.sqrt(max(stack.rows, 1))
            )
            trace.append(Iteration(costs[best], change))
            settled = change < self.tolerance or costs[best] > (1.0 - _LEAST_GAIN) * cost
            theta = theta + step
            if run is not None:
                sigma = _levels(rows, run)
                cost = _cost(rows, run, sigma)
            result = replace(
                result, solution=Solution(theta, unseen), sigma=sigma, stack=linear.stack(sigma)
            )
            if settled:
                break
        return replace(result, trace=tuple(trace), converged=settled)

    def _searched(
        self, rows: SimulatedRows, prior: Prior, theta: Array, rng: np.random.Generator
    ) -> Array:
        """The best theta (p,) that a search without derivatives finds."""
        start = rows.residuals(theta[None])[0]
        if start is None:
            return theta
        sigma = _levels(rows, start)
        centre, size = prior.to_base(theta), self.spread * prior.size_base

        def costs(x: Array) -> Array:
            thetas = np.stack([prior.complete(centre + size * row) for row in x])
            runs = rows.residuals(thetas)
            return np.array([np.inf if run is None else _cost(rows, run, sigma) for run in runs])

        find = nelder_mead if self.search == "nelder-mead" else differential_evolution
        x = find(costs, centre.size, evaluations=self.evaluations, rng=rng)
        return prior.complete(centre + size * x)

    def _with_doubt_of(
        self, gains: ControllerFit, loop: ClosedLoop, found: Identification
    ) -> Identification | None:
        """The result with wider intervals; `None` if runs with other gains are lost."""
        prior, rows = Prior.of(loop.problem), SimulatedRows(loop, self.quantity)
        here = rows.residuals(found.theta[None])[0]
        linear = rows.linearised(found.theta, found.theta_base)
        if here is None or linear is None:
            return None
        sigma = _levels(rows, here)
        stack = linear.stack(sigma)
        directions = _Directions.of(stack, prior, found.theta)
        moves = []
        for other, step, doubt in _other_gains(loop, gains):
            there = SimulatedRows(other, self.quantity).residuals(found.theta[None])[0]
            if there is None:
                return None
            slopes = [(b - a) / step for a, b in zip(here, there, strict=True)]
            moves.append(doubt * directions.along(linear, sigma, slopes))
        D = np.reshape(moves, (len(moves), found.base.size))
        plain = base_uncertainty(
            linear, prior, found.theta_base, sigma, None, stack, spread=self.prior_spread
        )
        unit = solve_triangular(prior.base_factor, D.T, lower=True)
        counted = replace(
            plain, covariance=plain.covariance + D.T @ D, by_data=plain.by_data + unit @ unit.T
        )
        spread, resolution, base_resolution = full_uncertainty(prior, counted)
        return replace(
            found,
            covariance=read_only(counted.covariance),
            sigma=read_only(spread),
            resolution=read_only(resolution),
            base_resolution=read_only(base_resolution),
        )

    def _moved(self, rows: SimulatedRows, prior: Prior, found: Weighing) -> float | None:
        """How far predictions move with other gains; `None` if they cannot be simulated."""
        theta = found.solution.theta
        linear = rows.linearised(theta, prior.to_base(theta))
        if linear is None:
            return None
        step = _Directions.of(linear.stack(found.sigma), prior, theta).step(0.0)
        moved = np.linalg.norm(found.stack.A @ prior.to_base(step))
        return float(moved / np.sqrt(max(found.stack.rows, 1)))


def _levels(rows: SimulatedRows, residuals: list[Array]) -> Array:
    """(n_logs, n) standard deviations of the residuals, above rounding."""
    squares, count = rows.squares(residuals)
    size = [np.square(frame.y).mean(axis=0) for frame in rows.frames]
    floor = 1e-10 * np.sqrt(np.max(size, axis=0)) + 1e-300
    return np.where(count > 0, np.maximum(np.sqrt(squares / np.maximum(count, 1.0)), floor), 1.0)


def _cost(rows: SimulatedRows, residuals: list[Array], sigma: Array) -> float:
    return float((rows.squares(residuals)[0] / sigma**2).sum())


def _gains_of_log(loop: ClosedLoop) -> ControllerFit | None:
    """The fit behind the controller's gains; `None` if they are known, or chosen."""
    problem = loop.problem
    if loop.gains_known or any(motion.reference is None for motion in problem.motions):
        return None
    try:
        return fit_controller(
            problem.robot, problem.motions, problem.settings, rate=loop.controller.rate
        )
    except MismatchError:  # too little motion to see gains in
        return None


def _other_gains(
    loop: ClosedLoop, gains: ControllerFit
) -> Iterator[tuple[ClosedLoop, float, float]]:
    """The experiment with each gain moved alone, by how much, and the gain's standard deviation.

    A gain that is only suggested may be off by all of itself.
    """
    for name in ("kp", "kd", "ki"):
        values = getattr(loop.controller, name)
        doubts = np.minimum(getattr(gains, f"sigma_{name}"), np.abs(values))
        for j in np.flatnonzero(doubts > 0.0):
            step = min(float(doubts[j]), _GAIN_STEP * abs(float(values[j])))
            moved = values.copy()
            moved[j] += step
            other = replace(loop.controller, **{name: moved})
            yield _under(loop, other), step, float(doubts[j])


def _under(loop: ClosedLoop, controller: Controller) -> ClosedLoop:
    """The experiment under another controller, at the rates that its legs have."""
    legs = []
    for leg in loop.legs:
        same_rate = replace(controller, rate=leg.experiment.controller.rate)
        legs.append(replace(leg, experiment=replace(leg.experiment, controller=same_rate)))
    return replace(loop, controller=controller, legs=tuple(legs))


@dataclass(frozen=True, eq=False)
class _Directions:
    """The problem turned so that each direction of the parameters stands alone."""

    prior: Prior
    s: Array
    Vt: Array
    rest: Array

    @classmethod
    def of(cls, stack: Stack, prior: Prior, theta: Array) -> _Directions:
        U, s, Vt = np.linalg.svd(stack.A * prior.size_base)
        return cls(prior, s, Vt, U.T @ (stack.z - stack.A @ prior.to_base(theta)))

    @property
    def seen(self) -> NDArray[np.bool_]:
        strong: NDArray[np.bool_] = (self.s > _SINGULAR * self.s[0]) & (self.s > 0.0)
        return strong

    @property
    def unseen(self) -> tuple[str, ...]:
        return unseen_names(self.prior, self.Vt[~self.seen])

    def with_unseen_of_prior(self, theta: Array) -> Array:
        """(p,) theta, where nothing is seen as the prior has it: a start may have moved that."""
        weak, prior = self.Vt[~self.seen], self.prior
        away = (prior.to_base(theta) - prior.theta_base) / prior.size_base
        back = prior.complete(prior.theta_base + prior.size_base * (weak.T @ (weak @ away)))
        return theta - (back - prior.theta)

    def step(self, damping: float) -> Array:
        """Change of theta (p,), the more careful the larger the damping."""
        seen, weak = self.seen, damping * self.s[0]
        s = self.s[seen]
        x = self.Vt[seen].T @ (s / (s**2 + weak**2) * self.rest[seen])
        moved = self.prior.theta_base + self.prior.size_base * x
        return self.prior.complete(moved) - self.prior.theta

    def along(self, rows: Regression, sigma: Array, residuals: list[Array]) -> Array:
        """(b,) base parameters that would explain residuals (m, n) of each block of the rows."""
        pull = np.zeros(self.prior.size_base.size)
        for block, e in zip(rows.blocks(), residuals, strict=True):
            pull += np.einsum("tj,tjb->b", (block.use / sigma[block.log]) ** 2 * e, block.Y)
        V, size = self.Vt[self.seen], self.prior.size_base
        moved: Array = size * (V.T @ ((V @ (size * pull)) / self.s[self.seen] ** 2))
        return moved


# CLIE: closed-loop input error.


@dataclass(frozen=True)
class CLIE(ClosedLoopFit):
    """Fit the simulated controller's torques to recorded ones, thesis eqs (38)-(40)."""

    name: ClassVar[str] = "clie"
    about: ClassVar[str] = "closed-loop input error: simulated against recorded torques"
    needs: ClassVar[str] = "the controller; what it was told, or it follows the measured motion"
    cost: ClassVar[str] = "one simulation with derivatives an iteration, about four of them"
    when: ClassVar[str] = "as didim, with the exact derivative"
    quantity: ClassVar[Quantity] = "tau"


# CLOE: closed-loop output error.


@dataclass(frozen=True)
class CLOE(ClosedLoopFit):
    """Fit simulated positions to recorded ones, thesis eqs (33)-(37)."""

    name: ClassVar[str] = "cloe"
    about: ClassVar[str] = "closed-loop output error: simulated against recorded positions"
    needs: ClassVar[str] = "the controller; what it was told, or it follows the measured motion"
    cost: ClassVar[str] = "one simulation with derivatives an iteration, about four of them"
    when: ClassVar[str] = "torques are poor, positions and the controller good"
    quantity: ClassVar[Quantity] = "q"
