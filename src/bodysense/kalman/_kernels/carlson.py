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

from bodysense.robot._kernels.jit import inlined, threaded


@inlined
def project(U, h, scale, g):
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
def turn(row, below, keep, lose, weight):
    """One column of S, a row of U from its diagonal on, and the sum of those behind it.

    From index zero on, which lets the compiler do several entries at once.
    """
    for i in range(row.size):
        s = row[i]
        row[i] = keep * s - lose * below[i]
        below[i] += weight * s


@inlined
def fold(U, g, e, roots):
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
        turn(U[j, j:], e[j:], keep, lose, gj)


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
        project(U, H[row], 1.0 / sigma[row], g)
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
        project(U, H[row], 1.0 / sigma[row], g)
        rest = y[row]
        for j in range(n):
            rest -= H[row, j] * mean[j]
            e[j] = 0.0
        rest /= sigma[row]
        fold(U, g, e, roots)
        a = roots[0] * roots[0]
        for j in range(n):
            mean[j] += e[j] * (rest / a)
        squared += rest * rest / a
        log_det += 2.0 * math.log(roots[0] * sigma[row])
    return innovation, variance, squared, log_det
