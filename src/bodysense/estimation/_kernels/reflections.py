"""Orthogonal reflections: triangles take in rows, and the way back, compiled.

A reflection is kept as a row (pivot, scale, v) of the vector (pivot, v): 1 + scale v vᵀ changes a
row of a triangle and the rows below that it takes in.
"""

from __future__ import annotations

import math

from bodysense.compiled.jit import called
from bodysense.compiled.lanes import away_from, inverse, is_zero

_PIVOT = 0  # columns of a row of reflections; the rest of the vector stands behind
_SCALE = 1
TAIL = 2


@called
def _reflect(v, row, block, k, first, columns):
    """Reflect columns first … of (row; block), of which block has k rows: 1 + scale v vᵀ.

    What needs pivot and scale comes last: their root and quotient take as long as the sums.
    """
    pivot, scale = v[_PIVOT], v[_SCALE]
    c = first
    while c + 8 <= columns:
        x0 = x1 = x2 = x3 = x4 = x5 = x6 = x7 = 0.0
        for i in range(k):
            t = v[TAIL + i]
            x0 += t * block[i, c]
            x1 += t * block[i, c + 1]
            x2 += t * block[i, c + 2]
            x3 += t * block[i, c + 3]
            x4 += t * block[i, c + 4]
            x5 += t * block[i, c + 5]
            x6 += t * block[i, c + 6]
            x7 += t * block[i, c + 7]
        x0 = scale * (x0 + pivot * row[c])
        x1 = scale * (x1 + pivot * row[c + 1])
        x2 = scale * (x2 + pivot * row[c + 2])
        x3 = scale * (x3 + pivot * row[c + 3])
        x4 = scale * (x4 + pivot * row[c + 4])
        x5 = scale * (x5 + pivot * row[c + 5])
        x6 = scale * (x6 + pivot * row[c + 6])
        x7 = scale * (x7 + pivot * row[c + 7])
        row[c] += x0 * pivot
        row[c + 1] += x1 * pivot
        row[c + 2] += x2 * pivot
        row[c + 3] += x3 * pivot
        row[c + 4] += x4 * pivot
        row[c + 5] += x5 * pivot
        row[c + 6] += x6 * pivot
        row[c + 7] += x7 * pivot
        for i in range(k):
            t = v[TAIL + i]
            block[i, c] += x0 * t
            block[i, c + 1] += x1 * t
            block[i, c + 2] += x2 * t
            block[i, c + 3] += x3 * t
            block[i, c + 4] += x4 * t
            block[i, c + 5] += x5 * t
            block[i, c + 6] += x6 * t
            block[i, c + 7] += x7 * t
        c += 8
    while c + 4 <= columns:
        x0 = x1 = x2 = x3 = 0.0
        for i in range(k):
            t = v[TAIL + i]
            x0 += t * block[i, c]
            x1 += t * block[i, c + 1]
            x2 += t * block[i, c + 2]
            x3 += t * block[i, c + 3]
        x0 = scale * (x0 + pivot * row[c])
        x1 = scale * (x1 + pivot * row[c + 1])
        x2 = scale * (x2 + pivot * row[c + 2])
        x3 = scale * (x3 + pivot * row[c + 3])
        row[c] += x0 * pivot
        row[c + 1] += x1 * pivot
        row[c + 2] += x2 * pivot
        row[c + 3] += x3 * pivot
        for i in range(k):
            t = v[TAIL + i]
            block[i, c] += x0 * t
            block[i, c + 1] += x1 * t
            block[i, c + 2] += x2 * t
            block[i, c + 3] += x3 * t
        c += 4
    while c < columns:
        x0 = 0.0
        for i in range(k):
            x0 += v[TAIL + i] * block[i, c]
        x0 = scale * (x0 + pivot * row[c])
        row[c] += x0 * pivot
        for i in range(k):
            block[i, c] += x0 * v[TAIL + i]
        c += 1


@called
def take_in(R, heads, columns, new, k, reflections):
    """Take k rows of new into the triangle R (heads, columns), whose columns behind are carried.

    Keeps the reflections. Afterwards the first columns of new are spent, and those behind hold
    what is left of its rows.
    """
    for j in range(heads):
        v = reflections[j]
        n0 = n1 = 0.0  # two sums, that do not wait for each other
        i = 0
        while i + 2 <= k:
            x0, x1 = new[i, j], new[i + 1, j]
            v[TAIL + i], v[TAIL + i + 1] = x0, x1
            n0 += x0 * x0
            n1 += x1 * x1
            i += 2
        if i < k:
            x0 = new[i, j]
            v[TAIL + i] = x0
            n0 += x0 * x0
        norm = n0 + n1
        if is_zero(norm):
            v[_SCALE] = 0.0
            continue
        head = R[j, j]
        norm = math.sqrt(norm + head * head)
        alpha = away_from(norm, head)
        pivot = head - alpha
        R[j, j] = alpha
        v[_PIVOT], v[_SCALE] = pivot, inverse(alpha * pivot)
        _reflect(v, R[j], new, k, j + 1, columns)


@called
def give_back(reflections, heads, u, n, k, columns):
    """(u; n) ← Q (u; n): from the sources that a triangle is made of to the k that it took in."""
    for j in range(heads - 1, -1, -1):
        if not is_zero(reflections[j, _SCALE]):
            _reflect(reflections[j], u[j], n, k, 0, columns)


@called
def shorten(V, rows, columns, out):
    """Write V in as many columns as rows, with the same V Vᵀ; return how many columns are left.

    V is spent.
    """
    if columns <= rows:
        for i in range(rows):
            for c in range(columns):
                out[i, c] = V[i, c]
        return columns
    for j in range(rows):
        tail = V[j]
        head, first = tail[j], j & -4  # what is before j is zero
        n0 = n1 = n2 = n3 = 0.0
        c = first
        while c + 4 <= columns:
            n0 += tail[c] * tail[c]
            n1 += tail[c + 1] * tail[c + 1]
            n2 += tail[c + 2] * tail[c + 2]
            n3 += tail[c + 3] * tail[c + 3]
            c += 4
        while c < columns:
            n0 += tail[c] * tail[c]
            c += 1
        norm = (n0 + n1) + (n2 + n3)
        for c in range(j, rows):
            out[j, c] = 0.0
        if is_zero(norm):
            for i in range(j + 1, rows):
                out[i, j], V[i, j] = V[i, j], 0.0
            continue
        alpha = away_from(math.sqrt(norm), head)
        pivot = head - alpha
        scale = inverse(alpha * pivot)
        out[j, j] = alpha
        for i in range(j + 1, rows):
            row = V[i]
            x0 = x1 = x2 = x3 = 0.0
            c = first
            while c + 4 <= columns:
                x0 += tail[c] * row[c]
                x1 += tail[c + 1] * row[c + 1]
                x2 += tail[c + 2] * row[c + 2]
                x3 += tail[c + 3] * row[c + 3]
                c += 4
            while c < columns:
                x0 += tail[c] * row[c]
                c += 1
            beside = row[j]
            x = scale * ((x0 + x1) + (x2 + x3) - alpha * beside)
            for c in range(first, columns):
                row[c] += x * tail[c]
            out[i, j] = beside + x * pivot
            row[j] = 0.0
    return rows
