"""Factors of covariances made triangular again, compiled.

U is the transpose of the lower factor S, so that the covariance is Uᵀ U: what is added to it are
rows, and what makes it triangular again acts on rows.
"""

from __future__ import annotations

import math

import numpy as np

from bodysense.robot._kernels.jit import inlined, threaded


@inlined
def dot(a, b):
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
def triangularise(T, V):
    """Write the upper triangle T (c, c) with TᵀT = V Vᵀ and a diagonal that is not negative.

    Householder reflections of the vectors (0, V_k) into (‖V_k‖, 0). As their first entries are
    empty they reduce to the steps of modified Gram and Schmidt, and T is as exact as from any
    orthogonal transformation. V (c, m) is used up.
    """
    c, m = V.shape
    for k in range(c):
        for j in range(c):
            T[k, j] = 0.0
        squared = dot(V[k], V[k])
        if squared == 0.0:
            continue
        norm = math.sqrt(squared)
        T[k, k] = norm
        for j in range(k + 1, c):
            along = dot(V[k], V[j])
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
    triangularise(new[p:, p:], V)
    return new


@inlined
def rotate(a, b, c, s):
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
            rotate(U[k, k:], v[k:], c, s)
