"""The physically consistent estimate as a projection: the semidefinite program behind eq (64).

Least squares with a prior over all parameters, base and dependent ones alike,

    minimise ‖A B theta - z‖² + |x|²     where theta = theta_0 + D x     thesis eqs (63)-(64), (72)

is a quadratic about its unconstrained minimum theta_free, so that under constraints it is

    minimise |y|²    where  theta = theta_free + L y,    L Lᵀ = inverse of the quadratic's matrix,
    subject to       pseudo-inertia of every link ⪰ margin,    inertias and friction of drives ≥ 0,
                     what else is known of the links.

In these coordinates the problem is perfectly conditioned, however strong the data. Equalities are
built into theta_0 and D. Eq (64) has no prior term, so that parameters without effect are whatever
the solver makes of them; here they stay as near to the prior as consistency lets them. Where
theta_free is consistent, it is the solution. The entropic relaxation is in `relaxation`.
"""

from __future__ import annotations

import numpy as np

from bodysense.identification.consistent.conic import ConicRows, matrix_rows, solve_conic
from bodysense.identification.consistent.relaxation import (
    MARGIN,
    EntropicExcess,
    LinkMatrices,
    Relaxation,
    minimise_entropic,
)
from bodysense.identification.factors import Stack
from bodysense.identification.linear.least_squares import Solution
from bodysense.identification.prior import Prior
from bodysense.spatial.arrays import Array

_CONSTRAINT_TOLERANCE = 1e-6
"""Violation of a constraint, in units of its size, that a solver's tolerance may leave."""

_LEAST_EFFECT = 1e-9  # effect of y on a constraint below which it is none
_START_MARGIN = 0.1  # distance of a start from the border, in units of sizes, that is enough


def consistent_least_squares(
    prior: Prior, stack: Stack, relaxation: Relaxation | None = None
) -> Solution:
    """Solve the reduced problem over consistent parameters.

    Args:
        prior: centre, constraints and links.
        stack: the data.
        relaxation: towards the prior; by default the weak Euclidean one, which decides only where
            the data do not.
    """
    chosen = relaxation if relaxation is not None else Relaxation()
    theta_0, D = prior.constraints.free_directions(prior.theta, chosen.factor(prior))
    theta_free, L = unconstrained(prior, stack, theta_0, D)
    if not chosen.entropic:
        return nearest_consistent(prior, theta_free, L)
    lmi = LinkMatrices(prior)
    rows = inequalities(prior, theta_free, L)
    y, word = _entropic(prior, theta_free, L, lmi, rows, chosen.weight)
    if y is None:
        return Solution(theta_free, failure=unsolved_message(prior, word))
    return checked(prior, lmi, theta_free + L @ y, theta_free, 0.0)


def nearest_consistent(prior: Prior, theta_free: Array, L: Array) -> Solution:
    """The consistent theta = theta_free + L y with the smallest |y|.

    Args:
        prior: constraints and links.
        theta_free: (p,) that fulfils the equalities.
        L: (p, k) directions that keep them.
    """
    lmi = LinkMatrices(prior)
    if is_consistent(prior, lmi, theta_free):
        return Solution(theta_free)
    y, word = _nearest(lmi, theta_free, L, inequalities(prior, theta_free, L))
    if y is None:
        return Solution(theta_free, failure=unsolved_message(prior, word))
    return checked(prior, lmi, theta_free + L @ y, theta_free, 0.5 * MARGIN)


def is_consistent(prior: Prior, lmi: LinkMatrices, theta: Array) -> bool:
    """Whether theta (p,) fulfils all constraints, with the margin."""
    return (
        lmi.smallest(theta) >= MARGIN
        and bool((theta[prior.positive] >= 0.0).all())
        and not prior.constraints.broken(theta, prior.size)
    )


def checked(
    prior: Prior, lmi: LinkMatrices, theta: Array, theta_free: Array, least: float
) -> Solution:
    """The solution, unless the solver has left more than its tolerance below the border."""
    theta = theta.copy()
    theta[prior.positive] = np.maximum(theta[prior.positive], 0.0)
    if lmi.smallest(theta) <= least or prior.constraints.broken(
        theta, prior.size, _CONSTRAINT_TOLERANCE
    ):
        return Solution(
            theta_free,
            failure="The solver stopped before the links were consistent; the estimate is the "
            "unconstrained one. Is the log long enough, and are its units right?",
        )
    return Solution(theta)


def unsolved_message(prior: Prior, word: str) -> str:
    """Failure of a solver that ended with the word `word`, with advice."""
    hint = " and what is given as known of the links" if prior.constraints.any else ""
    return (
        f"There is no consistent solution ({word}); the estimate is the unconstrained one. Check "
        f"the units and the joint order of the log with `bodysense doctor`{hint}."
    )


def unconstrained(
    prior: Prior, stack: Stack, theta_0: Array, D: Array, *, most: float = np.inf
) -> tuple[Array, Array]:
    """The minimum (p,) without constraints, and L (p, k) as in the module's equations.

    Args:
        prior: of the robot.
        stack: the data.
        theta_0: (p,) centre.
        D: (p, k) its factor.
        most: weight of the data at most in any direction of x, for methods that square L.
    """
    U, s, Vt = np.linalg.svd(stack.A @ (prior.mapping @ D))
    root = np.ones(D.shape[1])
    root[: s.size] = np.hypot(s, 1.0)
    L = (D @ Vt.T) / np.minimum(root, most)
    rest = U.T @ (stack.z - stack.A @ (prior.mapping @ theta_0))
    x = Vt[: s.size].T @ (s / root[: s.size] ** 2 * rest[: s.size])
    return theta_0 + D @ x, L


def inequalities(prior: Prior, theta_free: Array, L: Array) -> ConicRows:
    """Drives ≥ 0 and what else is known, in units of sizes, as rows over y."""
    positive, known = prior.positive, prior.constraints
    unit = prior.size[positive]
    of_known = np.linalg.norm(known.G * prior.size, axis=1)
    A = np.vstack([-L[positive] / unit[:, None], known.G @ L / of_known[:, None]])
    room = (known.g - known.G @ theta_free) / of_known
    return ConicRows("at most", A, np.append(theta_free[positive] / unit, room))


def _nearest(
    lmi: LinkMatrices, theta_free: Array, L: Array, rows: ConicRows
) -> tuple[Array | None, str]:
    """The y (k,) nearest to zero under all constraints, and the solver's word."""
    # In units of how far it is at least: a solver's tolerances are about one.
    far = [1.0, *(-rows.b / np.maximum(np.linalg.norm(rows.A, axis=1), _LEAST_EFFECT))]
    for P, link in zip(lmi.maps, lmi.links, strict=True):
        values, V = np.linalg.eigh(P @ theta_free[link])
        slope = np.einsum("a,abk,b->k", V[:, 0], P, V[:, 0]) @ L[link]
        far.append((MARGIN - values[0]) / max(np.linalg.norm(slope), _LEAST_EFFECT))
    unit = float(max(far))
    n = L.shape[1]
    parts = [
        ConicRows(part.kind, unit * part.A, part.b)
        for part in _matrices(lmi, theta_free, L, MARGIN)
    ]
    parts.append(ConicRows(rows.kind, unit * rows.A, rows.b))
    y, word = solve_conic(np.full(n, 2.0), np.zeros(n), parts)
    return (None if y is None else unit * y), word


def _matrices(lmi: LinkMatrices, theta_free: Array, L: Array, margin: float) -> list[ConicRows]:
    """Pseudo-inertia of every link ⪰ margin, as rows over y."""
    return [
        matrix_rows(np.einsum("abk,ky->aby", P, L[link]), P @ theta_free[link] - margin * np.eye(4))
        for P, link in zip(lmi.maps, lmi.links, strict=True)
    ]


def inside(prior: Prior, relaxation: Relaxation, stack: Stack) -> Array | None:
    """Some theta (p,) with room on all sides, near to the data; `None` if there is none."""
    theta_0, D = prior.constraints.free_directions(prior.theta, relaxation.factor(prior))
    theta_free, L = unconstrained(prior, stack, theta_0, D)
    lmi = LinkMatrices(prior)
    y = _inside(theta_free, L, lmi, inequalities(prior, theta_free, L))
    return None if y is None else theta_free + L @ y


def _entropic(
    prior: Prior, theta_free: Array, L: Array, lmi: LinkMatrices, rows: ConicRows, weight: float
) -> tuple[Array | None, str]:
    if prior.constraints.any:
        y = _inside(theta_free, L, lmi, rows)
        if y is None:
            return None, "nothing lies inside"
    else:
        start = prior.theta.copy()
        drives = prior.positive
        start[drives] = np.maximum(start[drives], _START_MARGIN * prior.size[drives])
        y = np.asarray(np.linalg.solve(L, start - theta_free), dtype=np.float64)
    excess = EntropicExcess(prior, lmi, weight)
    return minimise_entropic(theta_free, L, excess, rows.A, rows.b, y), "too many steps"


def _inside(theta_free: Array, L: Array, lmi: LinkMatrices, rows: ConicRows) -> Array | None:
    """Some y (k,) with room on all sides: maximise the least room s, up to `_START_MARGIN`."""

    def wider(part: ConicRows, by: Array) -> ConicRows:
        return ConicRows(part.kind, np.column_stack([part.A, by]), part.b)

    eye = matrix_rows(np.eye(4)[:, :, None], np.zeros((4, 4))).A[:, 0]
    parts = [wider(part, -eye) for part in _matrices(lmi, theta_free, L, 0.0)]
    parts.append(wider(rows, np.ones(rows.b.size)))
    n = L.shape[1]
    # In the nearest such place to the data, as far as that does not cost any room.
    Q, q = np.append(np.full(n, 1e-8), 0.0), np.append(np.zeros(n), -1.0)
    most = ConicRows("at most", np.append(np.zeros(n), 1.0)[None], np.array([_START_MARGIN]))
    x, _ = solve_conic(Q, q, [*parts, most])
    return x[:n] if x is not None and x[n] > 0.0 else None
