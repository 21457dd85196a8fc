"""Taking in readings: a wrench or an acceleration given what is read of it, compiled.

All by orthogonal reflections, which triangles take in more rows by, and the way back.

A Gaussian vector f with covariance RᵀR is Rᵀ u, where u are independent unit normals: every row of
R is one source of noise. Taking in more sources, f = Rᵀ u + Nᵀ n, is an orthogonal change of
sources, by reflections:

    (R; N) = Q (R'; 0),   (u'; n') = Qᵀ (u; n),   f = R'ᵀ u'

so that f says nothing about n'. What is found of u' goes back to the sources by the same
reflections, (u; n) = Q (u'; n'), with n' as it was before: no covariance is inverted, subtracted or
even formed. Rows of information, whitened readings of a vector, are taken into a triangle alike.

So with f = F x + phi + Nᵀ n, and readings y = H f + G x + Rᵀ nu, the array of sources (nu; n) is
triangularised,

    (R  0; N Hᵀ  N) = Q (S  K; 0  N'),     eps = S⁻ᵀ (y - H phi - (H F + G) x),
    f = F x + phi + Kᵀ eps + N'ᵀ n',       (nu; n) = Q (eps; n')

so that eps says something about x, and n' is what noise is left. Covariances cannot lose their
sign, a prior without doubt and one without bounds are both harmless, and the way back is Q.
"""

from __future__ import annotations

import math

from bodysense.compiled.jit import called
from bodysense.estimation._kernels.reflections import take_in
from bodysense.estimation._kernels.small import add_product


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
def _log_diagonal(R, size):
    """Return log |det R| of a triangle."""
    x, entries = 0.0, 1.0
    for j in range(size):
        entries *= abs(R[j, j])
        if j % 8 == 7:  # a logarithm costs as much as a row of a triangle
            x += math.log(entries)
            entries = 1.0
    return x + math.log(entries)


@called
def set_aside(rows, count, at, left, kept, score):
    """Keep the right-hand sides, columns at …, of whitened rows that depend on nothing more.

    Of a single right-hand side the sum of squares is enough.
    """
    r = left.shape[1]
    for i in range(count):
        score[1] += rows[i, at] * rows[i, at]
    if r > 1:
        for i in range(count):
            for c in range(r):
                left[kept[0] + i, c] = rows[i, at + c]
        kept[0] += count


@called
def take_in_told(told, count, T, scratch, left, kept, score):
    """Take the first rows that were told about alpha into its triangle T."""
    if count > 0:
        take_in(T, T.shape[0], T.shape[1], told, count, scratch)
        set_aside(told, count, T.shape[0], left, kept, score)


@called
def tell(E, e, width, told, count, T, scratch, left, kept, score):
    """Note whitened rows e = E alpha + noise(1) for alpha's triangle T; E has width columns.

    Rows wait until many are taken in at once: a reflection of many costs hardly more than one of
    few. Returns how many are waiting.
    """
    rows, r = e.shape
    if count + rows > told.shape[0]:
        take_in_told(told, count, T, scratch, left, kept, score)
        count -= count
    for i in range(rows):
        for j in range(7):
            told[count + i, j] = E[i, j] if j < width else 0.0
        for c in range(r):
            told[count + i, 7 + c] = e[i, c]
    return count + rows


@called
def condition_noise(root, H, noise, k, width, m, reflections, triangle, new, score):
    """What readings make of the sources of f: S with K behind it in triangle, and N' in noise.

    For the arguments see `condition`.
    """
    for a in range(m):
        for b in range(m):
            triangle[a, b] = root[a, b]
        for c in range(width):
            triangle[a, m + c] = 0.0
    for i in range(k):
        for a in range(m):
            x = 0.0
            for c in range(width):
                x += noise[i, c] * H[a, c]
            new[i, a] = x
        for c in range(width):
            new[i, m + c] = noise[i, c]
    take_in(triangle, m, m + width, new, k, reflections)
    for i in range(k):
        for c in range(width):
            noise[i, c] = new[i, m + c]
    score[0] -= _log_diagonal(triangle, m)


@called
def condition_means(triangle, H, m, width, F, columns, phi, E, e):
    """What readings make of F and phi, with S and K in triangle.

    For the arguments see `condition`.
    """
    r = e.shape[1]
    if columns > 0:
        add_product(1.0, H, F, m, width, columns, E)
    add_product(-1.0, H, phi, m, width, r, e)
    if columns > 0:
        whiten(triangle, m, E, columns)
    whiten(triangle, m, e, r)
    for c in range(width):
        for j in range(columns):
            x = F[c, j]
            for a in range(m):
                x -= triangle[a, m + c] * E[a, j]
            F[c, j] = x
        for j in range(r):
            x = phi[c, j]
            for a in range(m):
                x += triangle[a, m + c] * e[a, j]
            phi[c, j] = x


@called
def condition(root, H, noise, k, width, F, columns, phi, E, e, reflections, triangle, new, score):
    """Condition f = F x + phi + noiseᵀ n on m readings.

    E holds G and e holds y; both are left whitened, as what the readings say about x. F, phi and
    noise become those after the readings.

    Args:
        root: (m, m) sources of the noise of the readings, an upper triangle.
        H: (m, width) coefficients of f.
        noise: (k, width) sources.
        k: number of sources.
        width: of f.
        F: (width, columns) slope by x.
        columns: of x.
        phi: (width, r).
        E: (m, …) coefficients of x.
        e: (m, r) right-hand sides.
        reflections: (m, …) to keep.
        triangle: working memory.
        new: working memory.
        score: log determinant, squares.
    """
    m = e.shape[0]
    condition_noise(root, H, noise, k, width, m, reflections, triangle, new, score)
    condition_means(triangle, H, m, width, F, columns, phi, E, e)


@called
def condition_alpha(T, sources, k, offset, N, mean, e, reflections, triangle, new, score):
    """Condition alpha = offset + sourcesᵀ omega on its triangle of whitened rows.

    Leaves S with K behind it in triangle, the sources after that in N, the whitened right-hand
    sides in e, and offset + Kᵀ e in mean.
    """
    r = offset.shape[1]
    for a in range(7):
        for b in range(14):
            triangle[a, b] = 1.0 if a == b else 0.0
    for i in range(k):
        for a in range(7):
            x = 0.0
            for b in range(a, 7):
                x += sources[i, b] * T[a, b]
            new[i, a] = x
            new[i, 7 + a] = sources[i, a]
    size = T.shape[0]
    take_in(triangle, size, size + size, new, k, reflections)
    for i in range(k):
        for b in range(7):
            N[i, b] = new[i, 7 + b]
    for a in range(7):
        for c in range(r):
            x = T[a, 7 + c]
            for b in range(a, 7):
                x -= T[a, b] * offset[b, c]
            e[a, c] = x
            mean[a, c] = offset[a, c]
    whiten(triangle, size, e, r)
    score[0] -= _log_diagonal(triangle, size)
    for b in range(7):
        for a in range(7):
            for c in range(r):
                mean[b, c] += triangle[a, 7 + b] * e[a, c]


@called
def surprise(E, e, x, columns, eps):
    """Write eps = e - E x, now that x (columns, r) is known."""
    m, r = e.shape
    for a in range(m):
        for c in range(r):
            y = e[a, c]
            for j in range(columns):
                y -= E[a, j] * x[j, c]
            eps[a, c] = y
