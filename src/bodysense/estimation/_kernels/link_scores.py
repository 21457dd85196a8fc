"""What external joint torques say about wrenches on links: scores and information, compiled.

For a residual r (nv,) with covariance Σ, and J (6, nv) the Jacobian of a frame in its own axes,

    score = J Σ⁻¹ r,      information = J Σ⁻¹ Jᵀ:

under a wrench f the score has the mean information · f, and the covariance information.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

from bodysense.compiled.jit import called, threaded
from bodysense.compiled.views import Integers, reader
from bodysense.estimation._kernels.momentum_gains import inverse_of
from bodysense.robot._kernels.tree import AXIS, POS, ROT, place, scratch_at, tree_at
from bodysense.spatial.arrays import Array


class Places(NamedTuple):
    """Frames on bodies; a residual that was whitened in time has its share of a constant left."""

    body: Annotated[Integers, "L"]  # row of the scratch, n for a base
    R: Annotated[Array, "L", 9]  # of the frame in the body, row-major
    p: Annotated[Array, "L", 3]
    left: Annotated[Array, "nv"]  # 1 for a residual as it is


class Residuals(NamedTuple):
    """K residuals of T samples, and what is said about L frames."""

    q: Annotated[Array, "T", "n"]
    covariance: Annotated[Array, "T", "nv", "nv"]
    residual: Annotated[Array, "T", "K", "nv"]
    score: Annotated[Array, "T", "L", "K", 6]
    information: Annotated[Array, "T", "L", "W", 6, 6]  # with itself, or with each other frame


class ScoreMemory(NamedTuple):
    """Working memory."""

    pivot_row: Annotated[Array, "nv"]
    inverse: Annotated[Array, "nv", "nv"]
    J: Annotated[Array, "L", 6, "nv"]
    white: Annotated[Array, "L", 6, "nv"]  # J Σ⁻¹


_places_at, _residuals_at, _memory_at = reader(Places), reader(Residuals), reader(ScoreMemory)


@called
def _column(b, body, R, p, axis, J, i):
    """Write column i of J: the twist of a frame by a unit velocity along an axis."""
    x0 = b[body, POS] + b[body, ROT] * p[0] + b[body, ROT + 1] * p[1] + b[body, ROT + 2] * p[2]
    x1 = b[body, POS + 1] + b[body, ROT + 3] * p[0] + b[body, ROT + 4] * p[1]
    x1 += b[body, ROT + 5] * p[2]
    x2 = b[body, POS + 2] + b[body, ROT + 6] * p[0] + b[body, ROT + 7] * p[1]
    x2 += b[body, ROT + 8] * p[2]
    k0, k1, k2 = b[axis, AXIS + 3], b[axis, AXIS + 4], b[axis, AXIS + 5]
    l0 = b[axis, AXIS] + k1 * x2 - k2 * x1
    l1 = b[axis, AXIS + 1] + k2 * x0 - k0 * x2
    l2 = b[axis, AXIS + 2] + k0 * x1 - k1 * x0
    for e in range(3):
        # axis e of the frame in base coordinates
        r0 = b[body, ROT] * R[e] + b[body, ROT + 1] * R[3 + e] + b[body, ROT + 2] * R[6 + e]
        r1 = b[body, ROT + 3] * R[e] + b[body, ROT + 4] * R[3 + e] + b[body, ROT + 5] * R[6 + e]
        r2 = b[body, ROT + 6] * R[e] + b[body, ROT + 7] * R[3 + e] + b[body, ROT + 8] * R[6 + e]
        J[e, i] = r0 * l0 + r1 * l1 + r2 * l2
        J[3 + e, i] = r0 * k0 + r1 * k1 + r2 * k2


@called
def _jacobians(tree, places, b, J):
    """Write the Jacobians of all frames; columns of joints that do not move one stay zero."""
    n, base = tree.parent.size, 6 * tree.floating
    for k in range(places.body.size):
        body, R, p = places.body[k], places.R[k], places.p[k]
        for e in range(base):
            _column(b, body, R, p, n + e, J[k], e)
        j = body if body < n else -1
        while j >= 0:
            _column(b, body, R, p, j, J[k], base + j)
            j = tree.parent[j]
        for i in range(places.left.size):
            for e in range(6):
                J[k, e, i] *= places.left[i]


@called
def _score(places, m, x, t):
    """Scores and information of one sample; needs the Jacobians."""
    nv, frames = places.left.size, places.body.size
    fine = inverse_of(x.covariance[t], m.pivot_row, m.inverse)
    for k in range(frames):
        for e in range(6):
            for i in range(nv):
                s = 0.0
                for j in range(nv):
                    s += m.J[k, e, j] * m.inverse[j, i]
                m.white[k, e, i] = s if fine else 0.0
    for k in range(frames):
        for r in range(x.residual.shape[1]):
            for e in range(6):
                s = 0.0
                for i in range(nv):
                    s += m.white[k, e, i] * x.residual[t, r, i]
                x.score[t, k, r, e] = s
        for c in range(x.information.shape[2]):
            other = c if x.information.shape[2] > 1 else k
            for e in range(6):
                for a in range(6):
                    s = 0.0
                    for i in range(nv):
                        s += m.white[k, e, i] * m.J[other, a, i]
                    x.information[t, k, c, e, a] = s


@threaded
def link_scores(first, last, tree, w, places, memory, residuals):
    """Scores of samples first … last - 1; all but the numbers are addresses of tables."""
    tree, w, places = tree_at(tree), scratch_at(w), _places_at(places)
    m, x = _memory_at(memory), _residuals_at(residuals)
    for t in range(first, last):
        place(tree, x.q[t], w)
        _jacobians(tree, places, w.body, m.J)
        _score(places, m, x, t)
