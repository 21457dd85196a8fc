"""From the root to the leaves: what is found of every source of noise, and so of all unknowns.

Elimination turned sources into others by reflections; here the same reflections lead back (see
`reflections`). The mean of a source that no reading told anything about is zero; for covariances
(`covariance`) it is a fresh unit normal instead.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

from bodysense.compiled.jit import called, inlined
from bodysense.compiled.views import Integers, zeros_of
from bodysense.estimation._kernels.conditioning import (
    surprise,
)
from bodysense.estimation._kernels.own_wrench import find_own_wrench, spread_own_wrench
from bodysense.estimation._kernels.problem import MOST, OWN_WRENCH, PARENT_SIDE
from bodysense.estimation._kernels.reflections import give_back, shorten
from bodysense.estimation._kernels.small import (
    add_product,
    add_transposed_product,
    clear,
    copy,
    gram,
    product,
    square,
)
from bodysense.spatial.arrays import Array


@called
def _motion_found(A, mean, N, n_motion, above, n, alpha):
    """Alpha of a body, given the acceleration of its parent and its sources n."""
    seven, six = A.shape
    r = n.shape[1]
    copy(mean, seven, r, alpha)
    add_product(1.0, A, above, seven, six, r, alpha)
    add_transposed_product(1.0, N, n, seven, n_motion, r, alpha)


@called
def _wrench_found(F, phi, U, n_u, alpha, u, S, wrench, tau):
    """Wrench, slack and torque of a body."""
    seven, r = phi.shape
    copy(phi, seven, r, wrench)
    add_product(1.0, F, alpha, n_u, seven, r, wrench)
    add_transposed_product(1.0, U, u, n_u, n_u, r, wrench)
    for c in range(r):
        x = wrench[6, c]
        for k in range(6):
            x += S[k] * wrench[k, c]
        tau[c] = x


@called
def substitute(bodies, readings, priors, w):
    """From the root to the leaves."""
    begin, block_first = readings.begin, readings.first
    present, E, e, of_reading = w.present, w.E, w.e, w.of_reading
    alpha, u, n, eps = w.alpha, w.u, w.n, w.eps
    seven, r = w.A0.shape
    six = seven - 1
    for i in range(alpha.shape[0]):
        parent = bodies.parent[i]
        n_motion = priors.n_motion[i]
        n_u = seven if priors.torque[i] > 0.0 else six
        k = n_motion + n_u
        clear(n, k, r)
        if i == 0:
            copy(w.A0, seven, r, alpha[0])
            clear(w.wrench[0], seven, r)
            for c in range(r):
                w.tau[0, c] = 0.0
            if bodies.floating == 0:
                clear(w.fx[0], six, r)
                clear(w.slack[0], six, r)
                continue
            copy(w.root_e, six, r, eps)
            give_back(w.of_root, six, eps, n, k, r)
            copy(w.mean[0], seven, r, alpha[0])
            add_transposed_product(1.0, w.N[0], n, seven, n_motion, r, alpha[0])
        else:
            if parent > 0 or bodies.floating == 1:
                give_back(w.of_body[i], six, u[parent], n, k, r)
            for block in range(begin[i, PARENT_SIDE + 1] - 1, begin[i, PARENT_SIDE] - 1, -1):
                if present[block] == 1:
                    a, b = block_first[block], block_first[block + 1]
                    surprise(E[a:b], e[a:b], alpha[parent], six, eps)
                    give_back(of_reading[a:b], b - a, eps, n, k, r)
            _motion_found(w.A[i], w.mean[i], w.N[i], n_motion, alpha[parent], n, alpha[i])
        for j in range(n_u):
            for c in range(r):
                u[i, j, c] = n[n_motion + j, c]
        if i > 0:
            S = bodies.S[i]
            _wrench_found(w.F[i], w.phi[i], w.U[i], n_u, alpha[i], u[i], S, w.wrench[i], w.tau[i])
        for block in range(begin[i, OWN_WRENCH + 1] - 1, begin[i, OWN_WRENCH] - 1, -1):
            if present[block] == 1:
                a, b = block_first[block], block_first[block + 1]
                surprise(E[a:b], e[a:b], alpha[i], seven, eps)
                give_back(of_reading[a:b], b - a, eps, u[i], n_u, r)
    for i in range(alpha.shape[0]):  # the children have changed u
        if i > 0 or bodies.floating == 1:
            find_own_wrench(priors, w, i)


# Marginal covariances of all unknowns, from the root to the leaves, compiled.
#
# As `substitution`, with columns of unit normals instead of means: rows of V are quantities, and
# their covariance is V Vᵀ. Sources that no reading told anything about are fresh columns. Nothing
# is subtracted or inverted on the way, so that small variances beside large ones keep their digits,
# with and without doubt. A body hands (a_i, u_i) to its children in twelve columns.

_WIDTH = 12 + MOST + 2
"""Columns at most: twelve of the parent and fresh ones of the body, in fours."""


class Spread(NamedTuple):
    """Covariances, and the memory to compute them."""

    joint: Annotated[Array, "n", 14, 14]  # of (alpha_i, f_i), with the slack of the torque
    between: Annotated[Array, "n", 12, 12]  # of (a_p, wrench)
    external: Annotated[Array, "n", 6, 6]  # of fx_i
    slack_acceleration: Annotated[Array, "n", 6, 6]  # of the slack of the acceleration equation
    slack_wrench: Annotated[Array, "n", 6, 6]  # of the wrench balance
    variance: Annotated[Array, "n", 20]  # of a, wrench, tau, fx, joint acceleration
    V: Annotated[Array, "n", 12, 12]  # columns of (a_i, u_i)
    columns: Annotated[Integers, "n"]  # how many of them
    child: Annotated[Integers, "n"]  # last child of each body, or -1
    above: Annotated[Array, 12, _WIDTH]  # of (a_p, u_p)
    n: Annotated[Array, MOST, _WIDTH]  # of sources
    own: Annotated[Array, 14, _WIDTH]  # of (alpha_i, u_i)
    f: Annotated[Array, 7, _WIDTH]
    fx: Annotated[Array, 6, _WIDTH]
    eps: Annotated[Array, "k", _WIDTH]
    pair: Annotated[Array, 14, _WIDTH]


def make_spread(n: int, largest: int, *, lanes: int = 0) -> Spread:
    """Allocate for n bodies and blocks of at most so many readings; see `make_memory`."""
    spread: Spread = zeros_of(Spread, lanes=lanes, n=n, k=max(7, largest))
    return spread


@called
def _last_children(parent, child):
    """The last child of each body, or -1."""
    for i in range(parent.size):
        child[i] = -1
        if i > 0:
            child[parent[i]] = i


@inlined
def _fours(columns):
    """So many columns, or some that are zero more: columns are gone through by fours."""
    return (columns + 3) & -4


@called
def _fresh(n, k, columns):
    """Add a fresh unit normal for each of k sources; return the new number of columns."""
    clear(n, k, _fours(columns + k))
    for i in range(k):
        n[i, columns + i] = 1.0
    return columns + k


@called
def _widen(V, rows, old, columns):
    """Rows know nothing of fresh columns."""
    for i in range(rows):
        for c in range(old, columns):
            V[i, c] = 0.0


@called
def _surprise_of(E, x, width, columns, eps):
    """Write eps = -E x."""
    for a in range(E.shape[0]):
        for c in range(columns):
            y = 0.0
            for j in range(width):
                y -= E[a, j] * x[j, c]
            eps[a, c] = y


@called
def _motion_of(A, N, n_motion, above, n, columns, own):
    """Rows of alpha: A a_p + Nᵀ omega."""
    seven, six = A.shape
    product(A, above, seven, six, columns, own)
    add_transposed_product(1.0, N, n, seven, n_motion, columns, own)


@called
def _wrench_of(F, U, n_u, own, columns, f):
    """Rows of wrench and slack: F alpha + Uᵀ u, u behind alpha in own."""
    clear(f, F.shape[0], columns)
    product(F, own, n_u, F.shape[1], columns, f)
    for i in range(n_u):
        for k in range(n_u):
            x = U[k, i]
            for c in range(columns):
                f[i, c] += x * own[7 + k, c]


@called
def _variances_of(own, f, S, columns, variance):
    """Variances of a, wrench, torque and joint acceleration."""
    for j in range(6):
        variance[j] = square(own, j, columns)
        variance[6 + j] = square(f, j, columns)
    variance[19] = square(own, 6, columns)
    x = 0.0
    for c in range(columns):
        y = f[6, c]
        for k in range(6):
            y += S[k] * f[k, c]
        x += y * y
    variance[12] = x


@called
def _pair_of(first, rows, second, more, columns, pair, out):
    """Covariance of rows of two arrays together."""
    copy(first, rows, columns, pair)
    for i in range(more):
        for c in range(columns):
            pair[rows + i, c] = second[i, c]
    gram(pair, rows + more, columns, out)


@called
def _sources_of(sources, n, columns, out):
    """Rows sourcesᵀ n (6, columns) of six sources."""
    for i in range(6):
        for c in range(columns):
            out[i, c] = 0.0
        for k in range(6):
            x = sources[k, i]
            for c in range(columns):
                out[i, c] += x * n[k, c]


@called
def _hand_down(own, columns, V):
    """(a_i, u_i) for the children, in no more columns than rows; return how many."""
    for j in range(6):
        for c in range(columns):
            own[6 + j, c] = own[7 + j, c]
    return shorten(own, V.shape[0], columns, V)


@called
def spread(bodies, readings, priors, w, s, blocks, slacks):
    """All marginal covariances; after `eliminate`."""
    begin, block_first = readings.begin, readings.first
    parent, present, E, of_reading = bodies.parent, w.present, w.E, w.of_reading
    above, n, own, f, fx, eps = s.above, s.n, s.own, s.f, s.fx, s.eps
    _last_children(parent, s.child)
    six, seven, twelve = w.X.shape[1], w.F.shape[1], s.V.shape[1]
    none = seven - seven  # no literal: `_fresh` would be compiled for it once more
    for i in range(parent.size):
        p, S = parent[i], bodies.S[i]
        n_motion = priors.n_motion[i]
        n_u = seven if priors.torque[i] > 0.0 else six
        k = n_motion + n_u
        if i == 0 and bodies.floating == 0:
            continue
        old = none
        if p >= 0 and (p > 0 or bodies.floating == 1):
            old = s.columns[p]
            copy(s.V[p], twelve, old, above)
        columns = _fresh(n, k, old)
        wide = _fours(columns)
        _widen(above, twelve, old, wide)
        if i == 0:
            clear(eps, six, wide)
            give_back(w.of_root, six, eps, n, k, wide)
        elif old > 0:
            give_back(w.of_body[i], six, above[6:], n, k, wide)
            if s.child[p] == i:
                spread_own_wrench(priors, w, s, p, above[6:], wide, blocks, slacks)
        for block in range(begin[i, PARENT_SIDE + 1] - 1, begin[i, PARENT_SIDE] - 1, -1):
            if present[block] == 1:
                a, b = block_first[block], block_first[block + 1]
                _surprise_of(E[a:b], above, six, wide, eps)
                give_back(of_reading[a:b], b - a, eps, n, k, wide)
        _motion_of(w.A[i], w.N[i], n_motion, above, n, wide, own)
        copy(n[n_motion:], n_u, wide, own[7:])
        _wrench_of(w.F[i], w.U[i], n_u, own, wide, f)
        if i == 0:
            clear(f, seven, wide)
        if blocks:
            _pair_of(above, six, f, six, wide, s.pair, s.between[i])
            _pair_of(own, seven, f, seven, wide, s.pair, s.joint[i])
        _variances_of(own, f, S, wide, s.variance[i])
        if slacks and n_motion == 7:
            _surprise_of(w.told[i], above, six, wide, eps)
            give_back(w.of_motion[i], seven, eps, n, n_motion, wide)
            _sources_of(priors.motion[i][1:], n[1:], wide, fx)
            gram(fx, six, wide, s.slack_acceleration[i])
        elif slacks:
            clear(s.slack_acceleration[i], six, six)
        if i > 0 and s.child[p] != i:  # the parent has more children
            s.columns[p] = shorten(above, twelve, wide, s.V[p])
        for block in range(begin[i, OWN_WRENCH + 1] - 1, begin[i, OWN_WRENCH] - 1, -1):
            if present[block] == 1:
                a, b = block_first[block], block_first[block + 1]
                _surprise_of(E[a:b], own, seven, wide, eps)
                give_back(of_reading[a:b], b - a, eps, own[7:], n_u, wide)
        if s.child[i] >= 0:
            s.columns[i] = _hand_down(own, wide, s.V[i])
        else:
            spread_own_wrench(priors, w, s, i, own[7:], wide, blocks, slacks)
