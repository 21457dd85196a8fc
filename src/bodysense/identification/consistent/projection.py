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

Programs go to Clarabel as they are: a modelling layer takes half a second to import and most of
the time of a solve.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import clarabel
import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse import csc_matrix, diags_array, triu

from bodysense.identification.consistent.relaxation import (
    MARGIN,
    EntropicExcess,
    LinkMatrices,
    Relaxation,
    minimise_entropic,
)
from bodysense.identification.prior import Prior
from bodysense.identification.reduced import Stack
from bodysense.identification.solution import Solution
from bodysense.spatial.arrays import Array

_CONSTRAINT_TOLERANCE = 1e-6  # violation, in units of its size, that a solver may leave
_LEAST_EFFECT = 1e-9  # effect of y on a constraint below which it is none
_START_MARGIN = 0.1  # distance of a start from the border, in units of sizes, that is enough


def consistent_least_squares(
    prior: Prior, stack: Stack, relaxation: Relaxation | None = None
) -> Solution:
    """Solve the reduced problem over consistent parameters.

    By default the relaxation is the weak Euclidean one, which decides only where the data do not.
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

    theta_free (p,) fulfils the equalities, and directions L (p, k) keep them.
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
    check = "Check the units and the joint order of the log with `bodysense doctor`."
    if prior.constraints.any:
        check = (
            "Is there a body that fulfils all that is given as known of the links? Leave one out "
            "after the other to see which contradict. Otherwise check the units and the joint "
            "order of the log with `bodysense doctor`."
        )
    return (
        f"There is no consistent solution ({word}); the estimate is the unconstrained one. {check}"
    )


def unconstrained(
    prior: Prior, stack: Stack, theta_0: Array, D: Array, *, most: float = np.inf
) -> tuple[Array, Array]:
    """The minimum (p,) without constraints, and L (p, k) as in the module's equations.

    With `most`, the data count at most so much in any direction of x, for methods that square L.
    """
    U, s, Vt = np.linalg.svd(stack.A @ (prior.mapping @ D))
    root = np.ones(D.shape[1])
    root[: s.size] = np.hypot(s, 1.0)
    L = (D @ Vt.T) / np.minimum(root, most)
    rest = U.T @ (stack.z - stack.A @ (prior.mapping @ theta_0))
    x = Vt[: s.size].T @ (s / root[: s.size] ** 2 * rest[: s.size])
    return theta_0 + D @ x, L


def inequalities(prior: Prior, theta_free: Array, L: Array) -> _ConicRows:
    """Drives ≥ 0 and what else is known, in units of sizes, as rows over y."""
    positive, known = prior.positive, prior.constraints
    unit = prior.size[positive]
    of_known = np.linalg.norm(known.G * prior.size, axis=1)
    A = np.vstack([-L[positive] / unit[:, None], known.G @ L / of_known[:, None]])
    room = (known.g - known.G @ theta_free) / of_known
    return _ConicRows("at most", A, np.append(theta_free[positive] / unit, room))


def _nearest(
    lmi: LinkMatrices, theta_free: Array, L: Array, rows: _ConicRows
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
        _ConicRows(part.kind, unit * part.A, part.b)
        for part in _matrices(lmi, theta_free, L, MARGIN)
    ]
    parts.append(_ConicRows(rows.kind, unit * rows.A, rows.b))
    y, word = _solve_conic(np.full(n, 2.0), np.zeros(n), parts)
    return (None if y is None else unit * y), word


def _matrices(lmi: LinkMatrices, theta_free: Array, L: Array, margin: float) -> list[_ConicRows]:
    """Pseudo-inertia of every link ⪰ margin, as rows over y."""
    return [
        _matrix_rows(
            np.einsum("abk,ky->aby", P, L[link]), P @ theta_free[link] - margin * np.eye(4)
        )
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
    prior: Prior, theta_free: Array, L: Array, lmi: LinkMatrices, rows: _ConicRows, weight: float
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


def _inside(theta_free: Array, L: Array, lmi: LinkMatrices, rows: _ConicRows) -> Array | None:
    """Some y (k,) with room on all sides: maximise the least room s, up to `_START_MARGIN`."""

    def wider(part: _ConicRows, by: Array) -> _ConicRows:
        return _ConicRows(part.kind, np.column_stack([part.A, by]), part.b)

    eye = _matrix_rows(np.eye(4)[:, :, None], np.zeros((4, 4))).A[:, 0]
    parts = [wider(part, -eye) for part in _matrices(lmi, theta_free, L, 0.0)]
    parts.append(wider(rows, np.ones(rows.b.size)))
    n = L.shape[1]
    # In the nearest such place to the data, as far as that does not cost any room.
    Q, q = np.append(np.full(n, 1e-8), 0.0), np.append(np.zeros(n), -1.0)
    most = _ConicRows("at most", np.append(np.zeros(n), 1.0)[None], np.array([_START_MARGIN]))
    x, _ = _solve_conic(Q, q, [*parts, most])
    return x[:n] if x is not None and x[n] > 0.0 else None


_TOLERANCES = (1e-10, 1e-8, 1e-6)
"""Of the duality gap and of constraints. Where the solver gets stuck before the first, the next."""

# Small dense cone programs:
#
#     minimise    ½ xᵀ Q x + qᵀ x
#     subject to  A x = b,     A x <= b,     or  b - A x  the upper triangle of a matrix ⪰ 0

_TRIANGLE = tuple((row, column) for column in range(4) for row in range(column + 1))
_ROWS, _COLUMNS = (np.array(places) for places in zip(*_TRIANGLE, strict=True))
_UNIT = np.where(_ROWS == _COLUMNS, 1.0, np.sqrt(2.0))


@dataclass(frozen=True, eq=False)
class _ConicRows:
    """Rows of a program.

    Attributes:
        kind: ``equal``, ``at most``, or ``matrix`` for ten rows made by `_matrix_rows`.
        A: (m, n).
        b: (m,).
    """

    kind: Literal["equal", "at most", "matrix"]
    A: Array
    b: Array


def _matrix_rows(slope: Array, offset: Array) -> _ConicRows:
    """The matrix offset (4, 4) + slope (4, 4, n) x is ⪰ 0; both are symmetric."""
    A = -slope[_ROWS, _COLUMNS] * _UNIT[:, None]
    return _ConicRows("matrix", A, offset[_ROWS, _COLUMNS] * _UNIT)


def _solve_conic(Q: Array, q: Array, rows: Sequence[_ConicRows]) -> tuple[Array | None, str]:
    """The minimum (n,), or `None`, and the solver's word for how it ended.

    Q is (n, n) positive semidefinite, or (n,) the diagonal of a diagonal one.
    """
    cones = [_cone(part) for part in rows]
    curvature = diags_array(Q) if Q.ndim == 1 else triu(csc_matrix(Q))
    A = np.vstack([part.A for part in rows]) if rows else np.zeros((0, q.size))
    b = np.concatenate([part.b for part in rows]) if rows else np.zeros(0)
    program = (csc_matrix(curvature), q, csc_matrix(A), b, cones)
    word = ""
    for tolerance in _TOLERANCES:
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        settings.max_threads = 1
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = tolerance
        result = clarabel.DefaultSolver(*program, settings).solve()
        word = str(result.status)
        if word in ("Solved", "AlmostSolved"):
            return np.array(result.x), word
        if "Infeasible" in word:
            break
    return None, word


def _cone(part: _ConicRows) -> Any:
    if part.kind == "equal":
        return clarabel.ZeroConeT(part.b.size)
    if part.kind == "at most":
        return clarabel.NonnegativeConeT(part.b.size)
    return clarabel.PSDTriangleConeT(4)


# Quadratic programs between bounds, by guessing which bounds hold and solving for the rest.
#
#     minimise ½ dᵀ H d + gᵀ d    subject to    lower <= d <= upper,        H positive definite
#
# A guess is right when the free entries lie inside and the others push outward; otherwise those
# that do not are exchanged (primal-dual active set). It takes a few small factorisations where
# nearly all entries are free, and is begun from any guess. Where guesses go round in circles,
# Clarabel decides.

_MOST_GUESSES = 25  # active sets that are tried before Clarabel decides


def solve_box(H: Array, g: Array, lower: Array, upper: Array, guess: Array | None = None) -> Array:
    """The minimum (n,); bounds may be infinite.

    The guess (n,) is negative for entries that may well be at their lower bound, positive for those
    at their upper one.
    """
    at_lower, at_upper = np.zeros((2, g.size), dtype=bool)
    if guess is not None:
        at_lower, at_upper = (guess < 0.0) & (lower > -np.inf), (guess > 0.0) & (upper < np.inf)
    for _ in range(_MOST_GUESSES):
        free = ~(at_lower | at_upper)
        d = np.where(at_lower, lower, np.where(at_upper, upper, 0.0))
        if free.all():
            d = -cho_solve(cho_factor(H, check_finite=False), g, check_finite=False)
        elif free.any():
            pull = g[free] + H[np.ix_(free, ~free)] @ d[~free]
            factor = cho_factor(H[np.ix_(free, free)], check_finite=False)
            d[free] = -cho_solve(factor, pull, check_finite=False)
        push = -(H @ d + g)
        low = (free & (d < lower)) | (at_lower & (push < 0.0))
        high = (free & (d > upper)) | (at_upper & (push > 0.0))
        if (low == at_lower).all() and (high == at_upper).all():
            return d
        at_lower, at_upper = low, high
    return _by_conic(H, g, lower, upper)


def _by_conic(H: Array, g: Array, lower: Array, upper: Array) -> Array:
    # In coordinates in which H is one: Clarabel's tolerance is then that of the cost.
    back = np.linalg.inv(np.linalg.cholesky(H)).T
    below, above = np.isfinite(lower), np.isfinite(upper)
    rows = _ConicRows(
        "at most",
        np.vstack([-back[below], back[above]]),
        np.append(-lower[below], upper[above]),
    )
    x, _ = _solve_conic(np.ones(g.size), back.T @ g, [rows])
    # Any point between the bounds will do for a caller that looks at the cost.
    return np.clip(back @ x, lower, upper) if x is not None else np.clip(0.0, lower, upper)
