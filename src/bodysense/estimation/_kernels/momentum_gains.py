"""The linear algebra of the momentum observer, compiled: prediction, gains, what the walk brings.

With the momentum p and the external torques d as the state, P has three blocks: of p, of p with d,
of d. So has D, which the same gains change.
"""

from __future__ import annotations

import math

from bodysense.compiled.jit import called, inlined


@inlined
def _add(x, a, row):
    """Add x a to row, from index zero on, so that the compiler does several entries at once."""
    for j in range(row.size):
        row[j] += x * a[j]


@inlined
def _add_both(x, a, y, b, row):
    for j in range(row.size):
        row[j] += x * a[j] + y * b[j]


@called
def inverse_of(S, pivot_row, inverse):
    """Write the inverse of a symmetric positive S, by sweeps; False if a pivot is not positive."""
    n = S.shape[0]
    for i in range(n):
        for j in range(n):
            inverse[i, j] = S[i, j]
    for k in range(n):
        pivot = inverse[k, k]
        if not pivot > 0.0:
            return False
        for j in range(n):
            pivot_row[j] = inverse[k, j] / pivot
            inverse[k, j] = 0.0
        pivot_row[k] = 1.0 / pivot
        for i in range(n):
            x = -inverse[i, k]
            inverse[i, k] = 0.0
            _add(x, pivot_row, inverse[i])
        _add(1.0, pivot_row, inverse[k])
    for i in range(n):
        for j in range(i):
            x = 0.5 * (inverse[i, j] + inverse[j, i])
            inverse[i, j], inverse[j, i] = x, x
    return True


@called
def stretch(P, h):
    """Covariance of (p + h d, d)."""
    nv = P.shape[1]
    for i in range(nv):
        for j in range(i + 1):
            x = P[0, i, j] + h * (P[1, i, j] + P[1, j, i] + h * P[2, i, j])
            P[0, i, j] = x
            P[0, j, i] = x
    for i in range(nv):
        for j in range(nv):
            P[1, i, j] += h * P[2, i, j]


@called
def momentum_noise(M, variance, R):
    """Write R = M diag(variance) Mᵀ, of a symmetric M."""
    nv = variance.size
    for i in range(nv):
        for j in range(nv):
            R[i, j] = 0.0
        for k in range(nv):
            _add(M[i, k] * variance[k], M[k], R[i])


@called
def take_in_velocity(m, row, v, variance):
    """Take in one velocity, v = row · p + noise with a row (nv,) of M⁻¹; adds to z what d changes.

    One after the other, velocities need no inverse of a covariance, whose directions may be known
    to 1e-9 and to 1e3, and some may be missing. With K the gain, and H what picks the velocity,

        P <- P - K S Kᵀ,      D <- (1 - K H) D (1 - K H)ᵀ.
    """
    nv = m.p.size
    a, b, e, f = m.products[0], m.products[1], m.products[2], m.products[3]  # P and D by the row
    for j in range(nv):
        a[j], b[j], e[j], f[j] = 0.0, 0.0, 0.0, 0.0
    for k in range(nv):
        _add(row[k], m.P[0, k], a)
        _add(row[k], m.P[1, k], b)
        _add(row[k], m.D[0, k], e)
        _add(row[k], m.D[1, k], f)
    S, nu, g = variance, v, 0.0
    for k in range(nv):
        S += row[k] * a[k]
        g += row[k] * e[k]
        nu -= row[k] * m.p[k]
    share = 1.0 / S
    _add(-0.5 * g * share, a, e)  # half of K H D Hᵀ Kᵀ for either side
    _add(-0.5 * g * share, b, f)
    _add(nu * share, a, m.p)
    _add(nu * share, b, m.d)
    _add(nu * share, b, m.z)
    for i in range(nv):
        x, y, u, w = -share * a[i], -share * b[i], -share * e[i], -share * f[i]
        _add(x, a, m.P[0, i])
        _add(x, b, m.P[1, i])
        _add(y, b, m.P[2, i])
        _add_both(x, e, u, a, m.D[0, i])
        _add_both(x, f, u, b, m.D[1, i])
        _add_both(y, f, w, b, m.D[2, i])


@called
def add_square(scale, x, A):
    """Add scale · x xᵀ."""
    for i in range(x.size):
        for j in range(x.size):
            A[i, j] += scale * x[i] * x[j]


@inlined
def delay_of(b):
    """Delay of the response to slow torques, k1 / k2, times ω; b = (c/r) / ω².

    From 1 where velocities are exact to √2 where torques are.
    """
    root = math.sqrt(1.0 + b)
    return math.sqrt((2.0 * root + b) / (1.0 + b))
