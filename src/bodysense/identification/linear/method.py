"""Linear methods: rows, their weights and a solver, composed.

rows  →  weights  →  ‖A theta_base - z‖²  →  solver  →  estimate and covariance
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from bodysense.identification.factors import Stack
from bodysense.identification.identification import Identification, Status
from bodysense.identification.identifier import Identifier
from bodysense.identification.linear.energy import EnergyRows
from bodysense.identification.linear.least_squares import (
    LeastSquares,
    Solution,
    Solver,
    WeightedFit,
    Weights,
    noise_levels,
)
from bodysense.identification.linear.weights import NoiseWeights
from bodysense.identification.prior import Prior
from bodysense.identification.regression import Regression
from bodysense.identification.uncertainty import base_uncertainty, full_uncertainty
from bodysense.spatial.arrays import Array, read_only

_ROWS: Mapping[str, Callable[[Regression], Regression]] = {
    "torque": lambda problem: problem,
    "energy": EnergyRows.from_regression,
}

_RESOLUTION_AT_BOUND = 0.5
"""Resolution of a base parameter at its bound, at most: that of one driven by the prior."""


@dataclass(frozen=True)
class LinearMethod(Identifier):
    """A linear identifier.

    Attributes:
        name: of the method.
        weights: how rows are weighted.
        solver: of the weighted problem.
        rows: ``torque``, one per sample and joint, or ``energy``, one per window of time.
        fixed: parts whose settings are not settings of the method.
    """

    name: str
    weights: Weights = field(default_factory=NoiseWeights)
    solver: Solver = field(default_factory=LeastSquares)
    rows: Literal["torque", "energy"] = "torque"
    fixed: tuple[str, ...] = ("rows",)

    @property
    def consistent(self) -> bool:
        return self.solver.consistent

    def regression(self, problem: Regression) -> Regression:
        """The rows that the method fits."""
        return _ROWS[self.rows](problem)

    def estimate(
        self, rows: Regression, prior: Prior, rng: np.random.Generator | None = None
    ) -> WeightedFit:
        """Weigh and solve, without the uncertainty; random methods take the rng."""
        solver, _ = self.solver.chosen(rows, prior)
        return self._fitted(solver, rows, prior, rng)

    def _fitted(
        self, solver: Solver, rows: Regression, prior: Prior, rng: np.random.Generator | None
    ) -> WeightedFit:
        reduced = solver.reduced_solver(rows, prior)

        def solve(stack: Stack) -> Solution:
            solution = reduced(stack)
            return replace(solution, theta=prior.untouched(solution.theta))

        return solver.refined(rows, prior, self.weights.fit(rows, prior, solve), rng)

    def theta(self, problem: Regression, *, rng: np.random.Generator | None = None) -> Array:
        return self.estimate(self.regression(problem), Prior.of(problem), rng).solution.theta

    def fit(self, problem: Regression, *, rng: np.random.Generator | None = None) -> Identification:
        prior, rows = Prior.of(problem), self.regression(problem)
        solver, remark = self.solver.chosen(rows, prior)
        fit = self._fitted(solver, rows, prior, rng)
        result = identification_from_fit(self.name, problem, rows, prior, fit, solver)
        if not remark:
            return result
        return replace(result, status=Status(result.status.ok, f"{remark} {result.status.message}"))


def identification_from_fit(
    name: str,
    problem: Regression,
    rows: Regression,
    prior: Prior,
    fit: WeightedFit,
    solver: Solver,
) -> Identification:
    """The result with its uncertainty, from residuals that are correlated in time.

    Args:
        name: of the method.
        problem: the recordings.
        rows: that were fitted, unless the fit has rows of its own.
        prior: of the robot.
        fit: weights and solution.
        solver: whose prior counts.
    """
    theta_base = prior.to_base(fit.solution.theta)
    uncertainty = base_uncertainty(
        rows if fit.rows is None else fit.rows,
        prior,
        theta_base,
        fit.sigma,
        fit.weights,
        fit.bread if fit.bread is not None else fit.stack,
        **solver.prior_term(prior)._asdict(),
    )
    sigma, resolution, base_resolution = full_uncertainty(prior, uncertainty)
    if fit.at_bound is not None and fit.at_bound.any():
        # The data push a parameter to its bound, but it is the prior that holds it there.
        part = prior.mapping[fit.at_bound].any(axis=0)
        most = _RESOLUTION_AT_BOUND
        resolution = np.where(part, np.minimum(resolution, most), resolution)
        base_resolution = np.where(fit.at_bound, np.minimum(base_resolution, most), base_resolution)
    return Identification(
        method=name,
        prior=problem.robot,
        base=problem.base,
        theta=read_only(fit.solution.theta),
        covariance=read_only(uncertainty.covariance),
        sigma=read_only(sigma),
        resolution=read_only(resolution),
        base_resolution=read_only(base_resolution),
        noise=read_only(noise_levels(problem, theta_base)),
        correlation_time=read_only(uncertainty.correlation_time),
        status=_status(fit),
        trace=fit.trace,
    )


def _status(fit: WeightedFit) -> Status:
    solution, remarks = fit.solution, []
    if solution.failure:
        return Status(False, solution.failure)
    if solution.unexcited:
        remarks.append(
            f"The motion does not excite {len(solution.unexcited)} combination(s), which keep the "
            f"prior's value: {_some(solution.unexcited)}. Move more joints, further and faster."
        )
    elif not fit.converged:
        remarks.append(
            "The iteration had not converged when it ended; more iterations, or data, would help."
        )
    if fit.note:
        remarks.append(fit.note)
    return Status(True, " ".join(remarks) if remarks else "Solved.")


def _some(names: tuple[str, ...], most: int = 4) -> str:
    return "; ".join(names[:most]) + ("; …" if len(names) > most else "")
