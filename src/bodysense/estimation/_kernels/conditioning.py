"""Taking in readings: a wrench or an acceleration given what is read of it, compiled.

All by reflections of sources of noise (see `reflections`): with f = F x + phi + Nᵀ n, and readings
y = H f + G x + Rᵀ nu, the array of sources (nu; n) is triangularised,

    (R  0; N Hᵀ  N) = Q (S  K; 0  N'),     eps = S⁻ᵀ (y - H phi - (H F + G) x),
    f = F x + phi + Kᵀ eps + N'ᵀ n',       (nu; n) = Q (eps; n')

so that eps says something about x, and n' is what noise is left. Covariances cannot lose their
sign, a prior without doubt and one without bounds are both harmless, and the way back is Q.
"""

from __future__ import annotations

from bodysense.compiled.jit import called
from bodysense.estimation._kernels.reflections import log_diagonal, take_in, whiten
from bodysense.estimation._kernels.small import add_product


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
def tell(E, e, width, new, T, scratch, left, kept, score):
    """Take whitened rows e = E alpha + noise(1) into alpha's triangle T; E has width columns."""
    count, r = e.shape
    for i in range(count):
        for j in range(7):
            new[i, j] = E[i, j] if j < width else 0.0
        for c in range(r):
            new[i, 7 + c] = e[i, c]
    take_in(T, T.shape[0], T.shape[1], new, count, scratch)
    set_aside(new, count, T.shape[0], left, kept, score)


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
    m, r = e.shape
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
    if columns > 0:
        add_product(1.0, H, F, m, width, columns, E)
    add_product(-1.0, H, phi, m, width, r, e)
    if columns > 0:
        whiten(triangle, m, E, columns)
    whiten(triangle, m, e, r)
    score[0] -= log_diagonal(triangle, m)
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
    score[0] -= log_diagonal(triangle, size)
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
