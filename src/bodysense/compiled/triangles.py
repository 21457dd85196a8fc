"""Measurements folded into a triangular factor, one scalar after the other, compiled.

Carlson's form of Potter's update. With P = S Sᵀ, one row h of H, its standard deviation σ and
g = Sᵀh / σ, the covariance after the measurement is

    S (I - g gᵀ/a) Sᵀ,   a = 1 + gᵀg,   gain S g / (σ a),

and I - g gᵀ/a has a triangular root in closed form: with a_j = 1 + Σ_{i≥j} g_i², taken from the
last column to the first, and e_j = Σ_{i>j} g_i S_i,

    S_j ← √(a_{j+1}/a_j) S_j - g_j / √(a_{j+1} a_j) e_j.

e_j has entries below row j alone, so S stays lower triangular; every a_j is one and more, so no
root ever sees a negative number.
"""

from __future__ import annotations

import math

import numpy as np

from bodysense.compiled.jit import inlined, threaded


@inlined
def _project(U, h, scale, g):
    """Write g = U h · scale, U upper triangular."""
    n = U.shape[0]
    for j in range(n):
        g[j] = 0.0
    for i in range(n):
        if h[i] != 0.0:  # rows of H mostly pick one entry of the state
            w = h[i] * scale
            for j in range(i + 1):
                g[j] += U[j, i] * w


@inlined
def _turn(row, below, keep, lose, weight):
    """One column of S, a row of U from its diagonal on, and the sum of those behind it.

    From index zero on, which lets the compiler do several entries at once.
    """
    for i in range(row.size):
        s = row[i]
        row[i] = keep * s - lose * below[i]
        below[i] += weight * s


@inlined
def _fold(U, g, e, roots):
    """Fold one measurement into U; write S g into e, which is zero, and all √a_j into roots."""
    n = U.shape[0]
    a = 1.0
    roots[n] = 1.0
    for j in range(n - 1, -1, -1):
        a += g[j] * g[j]
        roots[j] = a
    for j in range(n):
        roots[j] = math.sqrt(roots[j])
    for j in range(n - 1, -1, -1):
        gj = g[j]
        if gj == 0.0:
            continue
        keep = roots[j + 1] / roots[j]
        lose = gj / (roots[j + 1] * roots[j])
        _turn(U[j, j:], e[j:], keep, lose, gj)


@threaded
def absorb(mean, U, H, sigma, y):
    """Fold the measurements y = H x + e into mean (n,) and transposed factor U (n, n), in place.

    Rows of y that are NaN are left out.

    Returns:
        (n_y,) innovation y - H mean before any of them, (n_y,) its variances, normalised
        innovation squared, log of the determinant of the innovation's covariance.
    """
    n_y, n = H.shape
    g, e, roots = np.empty(n), np.empty(n), np.empty(n + 1)
    innovation, variance = np.empty(n_y), np.empty(n_y)
    for row in range(n_y):
        _project(U, H[row], 1.0 / sigma[row], g)
        a, rest = 1.0, y[row]
        for j in range(n):
            a += g[j] * g[j]
            rest -= H[row, j] * mean[j]
        innovation[row] = rest
        variance[row] = a * sigma[row] * sigma[row]
    squared, log_det = 0.0, 0.0
    for row in range(n_y):
        if math.isnan(y[row]):
            continue
        _project(U, H[row], 1.0 / sigma[row], g)
        rest = y[row]
        for j in range(n):
            rest -= H[row, j] * mean[j]
            e[j] = 0.0
        rest /= sigma[row]
        _fold(U, g, e, roots)
        a = roots[0] * roots[0]
        for j in range(n):
            mean[j] += e[j] * (rest / a)
        squared += rest * rest / a
        log_det += 2.0 * math.log(roots[0] * sigma[row])
    return innovation, variance, squared, log_det


# Factors of covariances made triangular again, compiled.
#
# U is the transpose of the lower factor S, so that the covariance is Uᵀ U: what is added to it are
# rows, and what makes it triangular again acts on rows.


@inlined
def _dot(a, b):
    """aᵀb in four sums, which a processor does at once."""
    n = a.size
    whole = n // 4
    s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
    for i in range(whole):
        s0 += a[4 * i] * b[4 * i]
        s1 += a[4 * i + 1] * b[4 * i + 1]
        s2 += a[4 * i + 2] * b[4 * i + 2]
        s3 += a[4 * i + 3] * b[4 * i + 3]
    for i in range(4 * whole, n):
        s0 += a[i] * b[i]
    return (s0 + s1) + (s2 + s3)


@inlined
def _triangularise(T, V):
    """Write the upper triangle T (c, c) with TᵀT = V Vᵀ and a diagonal that is not negative.

    Householder reflections of the vectors (0, V_k) into (‖V_k‖, 0). As their first entries are
    empty they reduce to the steps of modified Gram and Schmidt, and T is as exact as from any
    orthogonal transformation. V (c, m) is used up.
    """
    c, m = V.shape
    for k in range(c):
        for j in range(c):
            T[k, j] = 0.0
        squared = _dot(V[k], V[k])
        if squared == 0.0:
            continue
        norm = math.sqrt(squared)
        T[k, k] = norm
        for j in range(k + 1, c):
            along = _dot(V[k], V[j])
            T[k, j] = along / norm
            share = along / squared
            for i in range(m):
                V[j, i] -= share * V[k, i]


@threaded
def join(U, columns, p):
    """The factor after a time step in which the first p entries of the state stay put.

    The factor's upper left block does not change, and the first p of `columns` are the block
    below it, since their products with the former are the cross covariance. Only the rest, the
    moving part's own block, is made triangular.

    Args:
        U: (n, n) transposed factor before.
        columns: (p + m', n - p) vectors whose products add up to the moving part's covariance.
        p: number of entries that stay put.
    """
    n = U.shape[0]
    m = n - p
    new = np.zeros((n, n))
    for i in range(p):
        for j in range(i, p):
            new[i, j] = U[i, j]
        for j in range(m):
            new[i, p + j] = columns[i, j]
    V = np.empty((m, columns.shape[0] - p))
    for i in range(columns.shape[0] - p):
        for j in range(m):
            V[j, i] = columns[p + i, j]
    _triangularise(new[p:, p:], V)
    return new


@inlined
def _rotate(a, b, c, s):
    """Turn two vectors into each other by the angle of cosine c and sine s, in place."""
    for i in range(a.size):
        old = a[i]
        a[i] = c * old + s * b[i]
        b[i] = c * b[i] - s * old


@threaded
def add_variances(U, variances):
    """Add variances to the first entries of the state, in place, by rotations.

    Each is a column √v e_i beside the factor, rotated into the columns from i on: O(n²), and only
    sums of squares under the roots.
    """
    n = U.shape[0]
    v = np.empty(n)
    for i in range(variances.size):
        if variances[i] <= 0.0:
            continue
        for j in range(n):
            v[j] = 0.0
        v[i] = math.sqrt(variances[i])
        for k in range(i, n):
            if v[k] == 0.0:
                continue
            r = math.hypot(U[k, k], v[k])
            c, s = U[k, k] / r, v[k] / r
            _rotate(U[k, k:], v[k:], c, s)


# Rows folded into a triangle, one instant after the other, compiled.


@inlined
def _reflect_in(T, W, x):
    """Fold the rows W (m, c) into the upper triangle T (c, c): T'T becomes T'T + W'W.

    One Householder reflection a column of the vector (T_kk, W_0k, …, W_mk); what lies below the
    diagonal of T is zero and is never touched. W is used up, x (c,) is working memory.
    """
    m, c = W.shape
    for k in range(c):
        below = 0.0
        for i in range(m):
            below += W[i, k] * W[i, k]
        if below == 0.0:
            continue
        d = T[k, k]
        norm = math.sqrt(d * d + below)
        head = d + norm if d > 0.0 else d - norm  # no cancellation
        factor = 1.0 / (norm * (norm + abs(d)))
        for j in range(k + 1, c):
            x[j] = head * T[k, j]
        for i in range(m):
            w = W[i, k]
            for j in range(k + 1, c):
                x[j] += w * W[i, j]
        for j in range(k + 1, c):
            x[j] *= factor
            T[k, j] -= head * x[j]
        for i in range(m):
            w = W[i, k]
            for j in range(k + 1, c):
                W[i, j] -= w * x[j]
        T[k, k] = -norm if d > 0.0 else norm


@threaded
def fold_in(T, rows, keep, anchor, some, first):
    """Fold instants (n_t, m, c) of weighted rows into the triangle T (c, c), in place.

    Before each instant T is multiplied by `keep`. Where that forgets, `some` rows of `anchor`
    (b, c) are folded in with each instant, in turn, the instants being counted from `first`.
    """
    n_t, m, c = rows.shape
    fed_back = some if keep < 1.0 else 0
    W = np.empty((m + fed_back, c))
    x = np.empty(c)
    for t in range(n_t):
        if keep < 1.0:
            for k in range(c):
                for j in range(k, c):
                    T[k, j] *= keep
        for i in range(m):
            for j in range(c):
                W[i, j] = rows[t, i, j]
        for k in range(fed_back):
            row = ((first + t) * fed_back + k) % anchor.shape[0]
            for j in range(c):
                W[m + k, j] = anchor[row, j]
        _reflect_in(T, W, x)
