"""The linear algebra of the momentum observer, compiled: prediction, gains, what the walk brings.

With the momentum p and the external torques d as the state, P has three blocks: of p, of p with d,
of d. So has D, which the same gains change.
"""

from __future__ import annotations

import math

from bodysense.compiled.jit import called, inlined


@called
def inverse_of(S, L, inverse):
    """Write the inverse of a symmetric positive S by its Cholesky factor; False if it is not."""
    n = S.shape[0]
    for j in range(n):
        x = S[j, j]
        for k in range(j):
            x -= L[j, k] * L[j, k]
        if not x > 0.0:
            return False
        root = 1.0 / math.sqrt(x)
        L[j, j] = root  # of the inverse, as what follows wants it
        for i in range(j + 1, n):
            x = S[i, j]
            for k in range(j):
                x -= L[i, k] * L[j, k]
            L[i, j] = x * root
    for j in range(n):  # L⁻¹ in place, column by column
        for i in range(j + 1, n):
            x = 0.0
            for k in range(j, i):
                x -= L[i, k] * L[k, j]
            L[i, j] = x * L[i, i]
    for i in range(n):
        for j in range(i + 1):
            x = 0.0
            for k in range(i, n):
                x += L[k, i] * L[k, j]
            inverse[i, j] = x
            inverse[j, i] = x
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
    """Write R = M diag(variance) Mᵀ."""
    nv = variance.size
    for i in range(nv):
        for j in range(i + 1):
            x = 0.0
            for k in range(nv):
                x += M[i, k] * variance[k] * M[j, k]
            R[i, j] = x
            R[j, i] = x


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
        x = row[k]
        for j in range(nv):
            a[j] += m.P[0, k, j] * x
            b[j] += m.P[1, k, j] * x
            e[j] += m.D[0, k, j] * x
            f[j] += m.D[1, k, j] * x
    S, nu, g = variance, v, 0.0
    for k in range(nv):
        S += row[k] * a[k]
        g += row[k] * e[k]
        nu -= row[k] * m.p[k]
    share = 1.0 / S
    g *= 0.5 * share
    for i in range(nv):
        x, y = a[i] * share, b[i] * share
        m.p[i] += x * nu
        m.d[i] += y * nu
        m.z[i] += y * nu
        u, w = e[i] - g * a[i], f[i] - g * b[i]  # half of K D Kᵀ on either side
        for j in range(nv):
            A, B = a[j] * share, b[j] * share
            E, F = e[j] - g * a[j], f[j] - g * b[j]
            m.P[0, i, j] -= x * a[j]
            m.P[1, i, j] -= x * b[j]
            m.P[2, i, j] -= y * b[j]
            m.D[0, i, j] -= x * E + u * A
            m.D[1, i, j] -= x * F + u * B
            m.D[2, i, j] -= y * F + w * B


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
