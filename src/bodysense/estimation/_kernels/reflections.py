"""Orthogonal reflections: triangles that take in more rows, and the way back, compiled.

A Gaussian vector f with covariance RᵀR is Rᵀ u, where u are independent unit normals: every row of
R is one source of noise. Taking in more sources, f = Rᵀ u + Nᵀ n, is an orthogonal change of
sources, by reflections:

    (R; N) = Q (R'; 0),   (u'; n') = Qᵀ (u; n),   f = R'ᵀ u'

so that f says nothing about n'. What is found of u' goes back to the sources by the same
reflections, (u; n) = Q (u'; n'), with n' as it was before: no covariance is inverted, subtracted or
even formed. Rows of information, whitened readings of a vector, are taken into a triangle alike.
"""

from __future__ import annotations

import math

from bodysense.compiled.jit import called
from bodysense.compiled.lanes import away_from, inverse, is_zero

PIVOT = 0  # columns of a row of reflections; the rest of the vector stands behind
SCALE = 1
TAIL = 2


@called
def take_in(R, heads, columns, new, k, reflections):
    """Take k rows of new into the triangle R (heads, columns), whose columns behind are carried.

    Keeps the reflections, 1 + scale v vᵀ. Afterwards the first columns of new are spent, and those
    behind hold what is left of its rows.
    """
    for j in range(heads):
        v = reflections[j]
        norm = 0.0
        for i in range(k):
            x = new[i, j]
            v[TAIL + i] = x
            norm += x * x
        if is_zero(norm):
            v[SCALE] = 0.0
            continue
        head = R[j, j]
        norm = math.sqrt(norm + head * head)
        alpha = away_from(norm, head)
        pivot = head - alpha
        scale = inverse(alpha * pivot)
        R[j, j] = alpha
        v[PIVOT], v[SCALE] = pivot, scale
        c = j + 1
        while c + 4 <= columns:
            x0, x1 = pivot * R[j, c], pivot * R[j, c + 1]
            x2, x3 = pivot * R[j, c + 2], pivot * R[j, c + 3]
            for i in range(k):
                t = v[TAIL + i]
                x0 += t * new[i, c]
                x1 += t * new[i, c + 1]
                x2 += t * new[i, c + 2]
                x3 += t * new[i, c + 3]
            x0 *= scale
            x1 *= scale
            x2 *= scale
            x3 *= scale
            R[j, c] += x0 * pivot
            R[j, c + 1] += x1 * pivot
            R[j, c + 2] += x2 * pivot
            R[j, c + 3] += x3 * pivot
            for i in range(k):
                t = v[TAIL + i]
                new[i, c] += x0 * t
                new[i, c + 1] += x1 * t
                new[i, c + 2] += x2 * t
                new[i, c + 3] += x3 * t
            c += 4
        while c < columns:
            x0 = pivot * R[j, c]
            for i in range(k):
                x0 += v[TAIL + i] * new[i, c]
            x0 *= scale
            R[j, c] += x0 * pivot
            for i in range(k):
                new[i, c] += x0 * v[TAIL + i]
            c += 1


@called
def give_back(reflections, heads, u, n, k, columns):
    """(u; n) ← Q (u; n): from the sources that a triangle is made of to the k that it took in."""
    for j in range(heads - 1, -1, -1):
        v = reflections[j]
        pivot, scale = v[PIVOT], v[SCALE]
        if is_zero(scale):
            continue
        c = 0
        while c + 4 <= columns:
            x0, x1 = pivot * u[j, c], pivot * u[j, c + 1]
            x2, x3 = pivot * u[j, c + 2], pivot * u[j, c + 3]
            for i in range(k):
                t = v[TAIL + i]
                x0 += t * n[i, c]
                x1 += t * n[i, c + 1]
                x2 += t * n[i, c + 2]
                x3 += t * n[i, c + 3]
            x0 *= scale
            x1 *= scale
            x2 *= scale
            x3 *= scale
            u[j, c] += x0 * pivot
            u[j, c + 1] += x1 * pivot
            u[j, c + 2] += x2 * pivot
            u[j, c + 3] += x3 * pivot
            for i in range(k):
                t = v[TAIL + i]
                n[i, c] += x0 * t
                n[i, c + 1] += x1 * t
                n[i, c + 2] += x2 * t
                n[i, c + 3] += x3 * t
            c += 4
        while c < columns:
            x0 = pivot * u[j, c]
            for i in range(k):
                x0 += v[TAIL + i] * n[i, c]
            x0 *= scale
            u[j, c] += x0 * pivot
            for i in range(k):
                n[i, c] += x0 * v[TAIL + i]
            c += 1


@called
def whiten(R, size, B, columns):
    """B ← R⁻ᵀ B, for an upper triangle R (size, size)."""
    for i in range(size):
        d = 1.0 / R[i, i]
        c = 0
        while c + 2 <= columns:
            x0, x1 = B[i, c], B[i, c + 1]
            for k in range(i):
                x0 -= R[k, i] * B[k, c]
                x1 -= R[k, i] * B[k, c + 1]
            B[i, c] = x0 * d
            B[i, c + 1] = x1 * d
            c += 2
        if c < columns:
            x0 = B[i, c]
            for k in range(i):
                x0 -= R[k, i] * B[k, c]
            B[i, c] = x0 * d


@called
def log_diagonal(R, size):
    """Return log |det R| of a triangle."""
    x, entries = 0.0, 1.0
    for j in range(size):
        entries *= abs(R[j, j])
        if j % 8 == 7:  # a logarithm costs as much as a row of a triangle
            x += math.log(entries)
            entries = 1.0
    return x + math.log(entries)


@called
def shorten(V, rows, columns):
    """Turn V into as many columns as rows, with the same V Vᵀ; return how many columns are left."""
    if columns <= rows:
        return columns
    for j in range(rows):
        tail = V[j]
        norm = 0.0
        for c in range(j + 1, columns):
            norm += tail[c] * tail[c]
        if is_zero(norm):
            continue
        head = tail[j]
        norm = math.sqrt(norm + head * head)
        alpha = away_from(norm, head)
        tail[j] = head - alpha
        scale = inverse(alpha * tail[j])
        for i in range(j + 1, rows):
            x0 = x1 = x2 = x3 = 0.0
            c = j
            while c + 4 <= columns:
                x0 += tail[c] * V[i, c]
                x1 += tail[c + 1] * V[i, c + 1]
                x2 += tail[c + 2] * V[i, c + 2]
                x3 += tail[c + 3] * V[i, c + 3]
                c += 4
            while c < columns:
                x0 += tail[c] * V[i, c]
                c += 1
            x = scale * ((x0 + x1) + (x2 + x3))
            for c in range(j, columns):
                V[i, c] += x * tail[c]
        tail[j] = alpha
        for c in range(j + 1, columns):
            tail[c] = 0.0
    return rows
