"""Closed-loop output and input error: fit the simulation to the recording by its derivatives.

Where gains of the controller come from the log, the estimate follows their errors:

    Cov += Σ_k σ_k² d_k d_kᵀ,     d_k = J⁺ (r(theta, gain_k + h) - r(theta, gain_k)) / h

over all gains k with standard deviations σ_k, r = measured - simulated and J the derivatives of the
simulation, both in standard deviations of the residual.

Over consistent robots the last steps are those of Gauss and Newton, each a semidefinite program in
which the linearised simulation stands for the regression.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from scipy.linalg import solve_triangular
from scipy.optimize import Bounds, minimize
from scipy.optimize import differential_evolution as evolve

from bodysense.errors import MismatchError
from bodysense.identification.consistent.projection import consistent_least_squares
from bodysense.identification.identification import Identification, Iteration, Status
from bodysense.identification.identifier import Identifier, require_settings
from bodysense.identification.linear.least_squares import LeastSquares, Solver, least_squares
from bodysense.identification.linear.method import identification_from
from bodysense.identification.prior import Prior
from bodysense.identification.reduced import Stack
from bodysense.identification.regression import Regression
from bodysense.identification.simulated.closed_loop import ClosedLoop, LoopSimulation
from bodysense.identification.simulated.controller_fit import ControllerFit, fit_controller
from bodysense.identification.simulated.linearised import Directions, Quantity, SimulatedRows
from bodysense.identification.solution import PriorTerm, Solution, WeightedSolution
from bodysense.identification.uncertainty import base_uncertainty, identification_with
from bodysense.spatial.arrays import Array

_DAMPING = (0.0, 1e-6, 1e-4, 1e-2)  # in units of the strongest direction; tried together
_LEAST_DECREASE = 1e-4  # relative decrease of the cost at which the iteration has converged
_GAIN_STEP = 0.1  # largest step of a finite difference by a gain, relative to the gain

_COUNTED = "Its intervals include the uncertainty of the gains."
_NOT_COUNTED = (
    "Its intervals do not include the uncertainty of the gains: with other gains the simulation "
    "is lost. Give the controller in an actuator file."
)

_LOST_CONSISTENT = (
    "The simulation of the consistent robot leaves the recorded motion: check the controller and "
    "the friction law, or use cloe, whose links may be inconsistent."
)
_LOST_COST = 1e30  # cost of what cannot be simulated: scipy wants numbers
_POPULATION_RANGE = (5, 64)  # sizes of the population of differential evolution; scipy needs five
_Costs = Callable[[Array], Array]  # (runs, n) points to their costs (runs,): simulated together


@dataclass(frozen=True)
class OutputError(Identifier):
    """Minimise Σ ((measured - simulated) / σ)² over parameters, σ of each log and joint.

    ``lm`` is the method of Levenberg and Marquardt on the derivatives of the simulation itself.
    ``nelder-mead`` and ``differential-evolution`` explore before, without derivatives and by
    hundreds of simulations, and ``lm`` goes on from their best: for friction laws that jump, or
    starts from which the simulation is lost.

    Attributes:
        name: of the method.
        quantity: ``q`` (output error, CLOE) or ``tau`` (input error, CLIE).
        iterations: simulations with derivatives, at most.
        tolerance: change of predictions, in standard deviations of the residual, at which to
            stop.
        simulation: how the experiment is simulated.
        search: ``lm``, ``nelder-mead`` or ``differential-evolution``.
        evaluations: simulations at most, of the searches without derivatives.
        spread: range of these searches about the start, in plausible sizes of the parameters.
        solver: of the last steps.
        fixed: fields that are no settings of the method.
    """

    name: str
    quantity: Quantity
    iterations: int = 10
    tolerance: float = 0.03
    simulation: LoopSimulation = field(default_factory=LoopSimulation)
    search: Literal["lm", "nelder-mead", "differential-evolution"] = "lm"
    evaluations: int = 1000
    spread: float = 0.3
    solver: Solver = field(default_factory=LeastSquares)
    fixed: tuple[str, ...] = ("quantity",)

    def __post_init__(self) -> None:
        require_settings(
            self,
            positive=("tolerance", "spread"),
            counts=("iterations", "evaluations"),
            search=("lm", "nelder-mead", "differential-evolution"),
        )

    @property
    def consistent(self) -> bool:
        return self.solver.consistent

    def theta(self, problem: Regression, *, rng: np.random.Generator | None = None) -> Array:
        return self.estimate(problem, Prior.of(problem), rng).theta

    def fit(self, problem: Regression, *, rng: np.random.Generator | None = None) -> Identification:
        """Identify; intervals count the uncertainty of gains that come from the log."""
        prior = Prior.of(problem)
        fit, term = self._estimated(problem, prior, rng)
        result = identification_from(self.name, problem, prior, fit, term)
        if problem.robot.controller is not None or not result.status.ok:
            return result
        loop = self.simulation.loop(problem)
        gains = _gains_of_log(loop)
        if gains is None:
            return result
        counted = self._with_uncertain_gains(gains, loop, result, term)
        remark = _COUNTED if counted is not None else _NOT_COUNTED
        status = Status(True, f"{result.status.message} {remark}")
        return replace(result if counted is None else counted, status=status)

    def estimate(
        self, problem: Regression, prior: Prior, rng: np.random.Generator | None = None
    ) -> WeightedSolution:
        """Search; then take the derivatives at the end for weights and covariance."""
        return self._estimated(problem, prior, rng)[0]

    def _estimated(
        self, problem: Regression, prior: Prior, rng: np.random.Generator | None
    ) -> tuple[WeightedSolution, PriorTerm]:
        """The estimate, and the prior that its solver used; consistent also where it failed."""
        fit, term = self._minimised(problem, prior, rng)
        if fit.failure and self.consistent:
            fit = replace(fit, theta=consistent_least_squares(prior, fit.stack).theta)
        return fit, term

    def _minimised(
        self, problem: Regression, prior: Prior, rng: np.random.Generator | None
    ) -> tuple[WeightedSolution, PriorTerm]:
        loop = self.simulation.loop(problem)

        def solve(stack: Stack) -> Solution:
            solution = least_squares(prior, stack)
            return replace(solution, theta=prior.untouched(solution.theta))

        plain, theta, simulated = loop.start(prior, solve)
        if simulated is None:
            return loop.lost(plain, []), PriorTerm()
        rows = SimulatedRows(loop, self.quantity)
        trace: list[Iteration] = []
        if self.search != "lm":
            chance = rng if rng is not None else np.random.default_rng(0)
            theta = self._searched(rows, prior, theta, chance)
        result = self._descended(rows, prior, theta, trace)
        if result is None:
            return loop.lost(plain, trace), PriorTerm()
        term, relaxed = PriorTerm(), ""
        if self.consistent and result.rows is not None:
            solver, relaxed = self.solver.chosen(result.rows, prior)
            result, term = (
                self._over_consistent(rows, prior, result, solver),
                solver.prior_term(prior),
            )
        moved = None
        if not loop.gains_known:
            other = SimulatedRows(loop.with_higher_gains(), self.quantity)
            moved = self._change(other, prior, result)
        note = " ".join(filter(None, [relaxed, _remarks(loop, plain, moved)]))
        return replace(result, note=note), term

    def _descended(
        self, rows: SimulatedRows, prior: Prior, theta: Array, trace: list[Iteration]
    ) -> WeightedSolution | None:
        """Steps of Levenberg and Marquardt from theta (p,); `None` if no step can be simulated."""
        converged = False
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
            directions = Directions.from_stack(stack, prior, theta)
            unexcited = directions.unexcited
            theta = directions.with_unexcited_of_prior(theta)
            result = WeightedSolution(theta, unexcited, sigma=sigma, stack=stack, rows=linear)
            steps = [directions.step(damping) for damping in _DAMPING]
            runs = rows.residuals(np.stack([theta + step for step in steps]))
            costs = [np.inf if run is None else _cost(rows, run, sigma) for run in runs]
            best = int(np.argmin(costs))
            if not costs[best] < cost:
                trace.append(Iteration(cost, 0.0))
                converged = True
                break
            step, run = steps[best], runs[best]
            change = stack.change(prior.to_base(step))
            trace.append(Iteration(costs[best], change))
            converged = change < self.tolerance or costs[best] > (1.0 - _LEAST_DECREASE) * cost
            theta = theta + step
            if run is not None:
                sigma = _levels(rows, run)
                cost = _cost(rows, run, sigma)
            result = replace(result, theta=theta, sigma=sigma, stack=linear.stack(sigma))
            if converged:
                break
        return replace(result, trace=tuple(trace), converged=converged)

    def _over_consistent(
        self, rows: SimulatedRows, prior: Prior, fit: WeightedSolution, solver: Solver
    ) -> WeightedSolution:
        """Steps of Gauss and Newton over what the solver allows, from the unconstrained end."""
        for _ in range(self.iterations):
            linear = rows.linearised(fit.theta, prior.to_base(fit.theta))
            if linear is None:
                return replace(fit, failure=_LOST_CONSISTENT)
            stack = linear.stack(fit.sigma)
            solution = solver.solve(linear, prior, stack)
            if solution.failure:
                return replace(fit, failure=solution.failure)
            theta = prior.untouched(solution.theta)
            change = stack.change(prior.to_base(theta - fit.theta))
            trace = (*fit.trace, Iteration(stack.rest, change))
            converged = change < self.tolerance
            fit = replace(
                fit, theta=theta, stack=stack, rows=linear, trace=trace, converged=converged
            )
            if converged:
                break
        return fit

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

        find = _nelder_mead if self.search == "nelder-mead" else _differential_evolution
        x = find(costs, centre.size, evaluations=self.evaluations, rng=rng)
        return prior.complete(centre + size * x)

    def _with_uncertain_gains(
        self, gains: ControllerFit, loop: ClosedLoop, result: Identification, term: PriorTerm
    ) -> Identification | None:
        """The result with wider intervals; `None` if runs with other gains are lost."""
        prior, rows = Prior.of(loop.problem), SimulatedRows(loop, self.quantity)
        here = rows.residuals(result.theta[None])[0]
        linear = rows.linearised(result.theta, result.theta_base)
        if here is None or linear is None:
            return None
        sigma = _levels(rows, here)
        stack = linear.stack(sigma)
        directions = Directions.from_stack(stack, prior, result.theta)
        moves = []
        for other, step, sigma_gain in _other_gains(loop, gains):
            there = SimulatedRows(other, self.quantity).residuals(result.theta[None])[0]
            if there is None:
                return None
            slopes = [(b - a) / step for a, b in zip(here, there, strict=True)]
            moves.append(sigma_gain * directions.along(linear, sigma, slopes))
        D = np.reshape(moves, (len(moves), result.base.size))
        fit = WeightedSolution(result.theta, sigma=sigma, stack=stack)
        plain = base_uncertainty(linear, prior, result.theta_base, fit, term)
        unit = solve_triangular(prior.base_factor, D.T, lower=True)
        counted = replace(
            plain, covariance=plain.covariance + D.T @ D, by_data=plain.by_data + unit @ unit.T
        )
        return identification_with(
            self.name, loop.problem, prior, result.theta, counted, result.status, result.trace
        )

    def _change(self, rows: SimulatedRows, prior: Prior, result: WeightedSolution) -> float | None:
        """Change of predictions with other gains; `None` if they cannot be simulated."""
        theta = result.theta
        linear = rows.linearised(theta, prior.to_base(theta))
        if linear is None:
            return None
        step = Directions.from_stack(linear.stack(result.sigma), prior, theta).step(0.0)
        return result.stack.change(prior.to_base(step))


def _remarks(loop: ClosedLoop, plain: WeightedSolution, moved: float | None) -> str:
    """As of the others; whether intervals include the uncertainty of gains is added by `fit`."""
    if moved is None or _gains_of_log(loop) is None:
        return loop.remarks(plain, moved)
    return (
        f"{replace(loop, gains_known=True).remarks(plain, None)} With gains 10 % higher its "
        f"predictions would change by {moved:.2g} standard deviations of the residual."
    )


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
    except MismatchError:  # too little motion for gains to be identifiable
        return None


def _other_gains(
    loop: ClosedLoop, gains: ControllerFit
) -> Iterator[tuple[ClosedLoop, float, float]]:
    """The experiment with each gain moved alone, by how much, and the gain's standard deviation.

    A gain that is only suggested may be off by all of itself.
    """
    for name in ("kp", "kd", "ki"):
        values = getattr(loop.controller, name)
        sigma = np.minimum(getattr(gains, f"sigma_{name}"), np.abs(values))
        for j in np.flatnonzero(sigma > 0.0):
            step = min(float(sigma[j]), _GAIN_STEP * abs(float(values[j])))
            moved = values.copy()
            moved[j] += step
            other = replace(loop.controller, **{name: moved})
            yield loop.under(other), step, float(sigma[j])


# Searches without derivatives, over coordinates of which about one is a plausible step.


def _nelder_mead(costs: _Costs, n: int, *, evaluations: int, rng: np.random.Generator) -> Array:
    """The simplex of Nelder and Mead from zero, its size one; nothing about it is random."""
    first = np.vstack([np.zeros(n), np.eye(n)])

    def cost(x: Array) -> float:
        return float(np.minimum(costs(x[None])[0], _LOST_COST))

    result = minimize(
        cost,
        np.zeros(n),
        method="Nelder-Mead",
        options={
            "initial_simplex": first,
            "maxfev": evaluations,
            "adaptive": True,
            "xatol": 1e-4,
            "fatol": 1e-6,
        },
    )
    return np.asarray(result.x, dtype=np.float64)


def _differential_evolution(
    costs: _Costs, n: int, *, evaluations: int, rng: np.random.Generator
) -> Array:
    """A population within ±3 about zero, whole generations simulated together."""
    population = min(max(2 * n, 8), _POPULATION_RANGE[1], evaluations)
    if population < _POPULATION_RANGE[0]:
        return np.zeros(n)

    def batch(x: Array) -> Array:
        points = np.atleast_2d(x.T)
        return np.minimum(costs(np.ascontiguousarray(points)), _LOST_COST)

    start = np.clip(0.5 * rng.standard_normal((population, n)), -3.0, 3.0)
    start[0] = 0.0
    result = evolve(
        batch,  # type: ignore[arg-type]  # scipy's stubs do not know vectorised costs
        Bounds(np.full(n, -3.0), np.full(n, 3.0)),
        init=start,
        maxiter=evaluations // population - 1,
        vectorized=True,
        updating="deferred",
        polish=False,
        rng=rng,
    )
    return np.asarray(result.x, dtype=np.float64)
