"""Learning of a linear neuron, row by row and by whole gradients, compiled."""

from __future__ import annotations

import math

import numpy as np

from bodysense.compiled.jit import inlined, threaded


@inlined
def _learn_row(Y, t, j, first, last, target, size, rate, x):
    """One step of the rule, x += rate / (1 + rate size) row (target - row · x), size = ‖row‖².

    The row Y[t, j] has nothing outside first … last - 1. Four sums side by side: one alone would
    wait for itself at each addition.
    """
    s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
    fours = last - (last - first) % 4
    for k in range(first, fours, 4):
        s0 += Y[t, j, k] * x[k]
        s1 += Y[t, j, k + 1] * x[k + 1]
        s2 += Y[t, j, k + 2] * x[k + 2]
        s3 += Y[t, j, k + 3] * x[k + 3]
    for k in range(fours, last):
        s0 += Y[t, j, k] * x[k]
    step = rate / (1.0 + rate * size) * (target - ((s0 + s1) + (s2 + s3)))
    for k in range(first, last):
        x[k] += step * Y[t, j, k]


@threaded
def learn_instants(Y, y, size, span, order, backward, rate, x):
    """Learn all rows of instants Y (m, n, c), y (m, n) once, in an order (m,) of the instants.

    Backward is the same order from its end, joints included. Rows of zeros teach nothing; size
    (m, n) are their squared lengths, span (n, 2) the columns that each joint's rows lie in.
    """
    m, n = y.shape
    for k in range(m):
        t = order[m - 1 - k] if backward else order[k]
        for i in range(n):
            j = n - 1 - i if backward else i
            if size[t, j] > 0.0:
                _learn_row(Y, t, j, span[j, 0], span[j, 1], y[t, j], size[t, j], rate, x)


@threaded
def descend(A, z, rate, tolerance, most, x):
    """Minimise ‖A x - z‖² from x (c,) on, by Nesterov's gradient steps; returns how many, or -1.

    Momentum starts anew whenever it points uphill (O'Donoghue and Candes 2015). Ends when 50
    steps together move A x by less than the tolerance; -1 when `most` steps did not do it.
    """
    c = x.size
    before, ahead, slope, start = x.copy(), x.copy(), np.zeros(c), x.copy()
    e = np.zeros(c)
    momentum = 1.0
    for count in range(1, most + 1):
        slope[:] = 0.0
        for i in range(c):
            total = z[i]
            for j in range(c):
                total -= A[i, j] * ahead[j]
            for j in range(c):
                slope[j] += A[i, j] * total
        uphill = 0.0
        for j in range(c):
            x[j] = ahead[j] + rate * slope[j]
            uphill -= slope[j] * (x[j] - before[j])
        if uphill > 0.0:
            momentum = 1.0
        following = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * momentum * momentum))
        push = (momentum - 1.0) / following
        momentum = following
        for j in range(c):
            ahead[j] = x[j] + push * (x[j] - before[j])
            before[j] = x[j]
        if count % 50 == 0:
            moved = 0.0
            for i in range(c):
                e[i] = 0.0
                for j in range(c):
                    e[i] += A[i, j] * (x[j] - start[j])
                moved += e[i] * e[i]
            start[:] = x
            if math.sqrt(moved) <= tolerance:
                return count
    return -1
