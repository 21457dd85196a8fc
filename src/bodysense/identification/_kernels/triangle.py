"""Rows folded into a triangle, one instant after the other, compiled."""

from __future__ import annotations

import math

import numpy as np

from bodysense.compiled.jit import inlined, threaded


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
            turn = ((first + t) * fed_back + k) % anchor.shape[0]
            for j in range(c):
                W[m + k, j] = anchor[turn, j]
        _reflect_in(T, W, x)
