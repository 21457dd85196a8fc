"""The physically consistent estimate as a projection: the semidefinite program behind eq (64).

Least squares with a prior over all parameters, base and dependent ones alike,

    minimise ‖A B theta - z‖² + ‖(theta - theta_prior) / (spread · size)‖²,     thesis eqs (63)-(64)

is a quadratic about its unconstrained minimum theta_free, so that under constraints it is

    minimise ‖y‖²    where  theta = theta_free + L y,    L Lᵀ = inverse of the quadratic's matrix,
    subject to       pseudo-inertia of every link ⪰ margin,    inertias and friction of drives ≥ 0.

In these coordinates the problem is perfectly conditioned, however strong the data. Eq (64) has no
prior term, so that parameters without effect are whatever the solver makes of them; here they stay
as near to the prior as consistency lets them. Where theta_free is consistent, it is the solution.
"""

from __future__ import annotations

import warnings

import numpy as np

from bodysense.identification.factors import Stack
from bodysense.identification.identification import positive_parameters
from bodysense.identification.linear.least_squares import Solution
from bodysense.identification.prior import Prior
from bodysense.identification.regression import Regression
from bodysense.spatial.arrays import Array
from bodysense.spatial.pseudo_inertia import pseudo_inertia_from_pi

SPREAD = 1.0
"""Standard deviation of the prior in units of the parameters' sizes: a weak one, which decides only
where the data do not."""

MARGIN = 1e-4
"""Smallest eigenvalue of a link's pseudo-inertia in units of its plausible mass and length. Above
the solver's tolerance, below what anybody could measure."""


def consistent_least_squares(
    problem: Regression, prior: Prior, stack: Stack, *, spread: float = SPREAD
) -> Solution:
    """Solve the reduced problem over consistent parameters."""
    d = spread * prior.size
    U, s, Vt = np.linalg.svd(stack.A @ (prior.mapping * d))
    root = np.ones(d.size)
    root[: s.size] = np.hypot(s, 1.0)
    L = (d[:, None] * Vt.T) / root
    rest = U.T @ (stack.z - stack.A @ prior.theta_base)
    theta_free = prior.theta + L[:, : s.size] @ (s / root[: s.size] * rest[: s.size])
    lmi = _LinkMatrices(problem, prior)
    positive = np.array(positive_parameters(problem.robot), dtype=np.int64)
    if lmi.smallest(theta_free) >= MARGIN and (theta_free[positive] >= 0.0).all():
        return Solution(theta_free)
    theta, failure = _solve(theta_free, L, lmi, positive, prior.size)
    if failure:
        return Solution(theta_free, failure=failure)
    # What the solver's tolerance leaves below zero.
    theta[positive] = np.maximum(theta[positive], 0.0)
    if lmi.smallest(theta) < 0.5 * MARGIN:
        return Solution(
            theta_free,
            failure="The solver stopped before the links were consistent; the estimate is the "
            "unconstrained one. Is the log long enough, and are its units right?",
        )
    return Solution(theta)


class _LinkMatrices:
    """Pseudo-inertias of all links in units of their plausible mass and length."""

    def __init__(self, problem: Regression, prior: Prior) -> None:
        layout = problem.robot.layout
        basis = np.stack([pseudo_inertia_from_pi(e) for e in np.eye(10)], axis=-1)
        self.links = [layout.link(k) for k in range(layout.n_links)]
        self.maps: list[Array] = []
        for mass, length in zip(prior.link_mass, prior.link_length, strict=True):
            unit = 1.0 / np.sqrt(mass) / np.array([length, length, length, 1.0])
            self.maps.append(basis * unit[:, None, None] * unit[None, :, None])

    def smallest(self, theta: Array) -> float:
        """Smallest eigenvalue over all links."""
        return min(
            float(np.linalg.eigvalsh(P @ theta[link])[0])
            for P, link in zip(self.maps, self.links, strict=True)
        )


def _solve(
    theta_free: Array,
    L: Array,
    lmi: _LinkMatrices,
    positive: np.ndarray[tuple[int], np.dtype[np.int64]],
    size: Array,
) -> tuple[Array, str]:
    """Project; returns theta and why it failed, if it did."""
    import cvxpy as cp  # half a second to import

    y = cp.Variable(L.shape[1])
    constraints = []
    for P, link in zip(lmi.maps, lmi.links, strict=True):
        columns = np.einsum("abk,ky->bay", P, L[link]).reshape(16, -1)
        matrix = cp.reshape(columns @ y, (4, 4), order="C")  # type: ignore[attr-defined]
        constraints.append(matrix + P @ theta_free[link] >> MARGIN * np.eye(4))
    if positive.size:
        unit = size[positive]
        constraints.append((L[positive] / unit[:, None]) @ y + theta_free[positive] / unit >= 0.0)
    cost = cp.sum_squares(y)  # type: ignore[attr-defined]
    program = cp.Problem(cp.Minimize(cost), constraints)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of inaccuracy: the result is checked by the caller
            program.solve(solver=cp.CLARABEL)  # type: ignore[no-untyped-call]
    except cp.error.SolverError as error:
        return theta_free, (
            f"The solver failed ({error}); the estimate is the unconstrained one. Check the log "
            "with `bodysense doctor`."
        )
    if y.value is None:
        return theta_free, (
            f"No consistent robot was found ({program.status}); the estimate is the unconstrained "
            "one. Check the units and the joint order of the log with `bodysense doctor`."
        )
    return theta_free + L @ y.value, ""
