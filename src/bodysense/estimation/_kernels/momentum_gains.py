"""The linear algebra of the momentum observer, compiled: prediction, gains, what the walk brings.

With the momentum p and the external torques d as the state, P has three blocks: of p, of p with d,
of d. So has D, which the same gains change.
"""

from __future__ import annotations

import math

from bodysense.compiled.jit import called, inlined
from bodysense.estimation._kernels.small import add_transposed_product, product


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
def _clear(A):
    for i in range(A.shape[0]):
        for j in range(A.shape[1]):
            A[i, j] = 0.0


@called
def _even_out(A):
    """Make a covariance symmetric to the last digit."""
    for i in range(A.shape[0]):
        for j in range(i):
            x = 0.5 * (A[i, j] + A[j, i])
            A[i, j] = x
            A[j, i] = x


@called
def take_in_momentum(m, R, z):
    """Take in the measured momentum z, which becomes the change of d; False if that fails.

    With S = P_pp + R, the gains are K_p = P_pp S⁻¹ and K_d = P_dp S⁻¹, and 1 - K_p = R S⁻¹.
    """
    nv = m.p.size
    S, L, inverse, keep = m.work[1], m.work[2], m.work[3], m.work[4]
    for i in range(nv):
        for j in range(nv):
            S[i, j] = m.P[0, i, j] + R[i, j]
    if not inverse_of(S, L, inverse):
        return False
    gain, gain_d, part = m.work[1], m.work[2], m.work[3]  # transposed, as keep is
    product(inverse, m.P[0], nv, nv, nv, gain)
    product(inverse, m.P[1], nv, nv, nv, gain_d)
    product(inverse, R, nv, nv, nv, keep)
    for i in range(nv):
        m.nu[i] = z[i] - m.p[i]
    for i in range(nv):
        x, y = 0.0, 0.0
        for k in range(nv):
            x += gain[k, i] * m.nu[k]
            y += gain_d[k, i] * m.nu[k]
        m.p[i] += x
        m.d[i] += y
        z[i] = y
    add_transposed_product(-1.0, m.P[1], gain_d, nv, nv, nv, m.P[2])
    product(R, gain, nv, nv, nv, m.P[0])
    product(R, gain_d, nv, nv, nv, m.P[1])
    # D: (1 - K H) D (1 - K H)ᵀ, without the noise of the measurement
    product(m.D[0], gain_d, nv, nv, nv, part)
    for i in range(nv):
        for j in range(nv):
            part[i, j] = m.D[1, i, j] - part[i, j]
    add_transposed_product(-1.0, m.D[1], gain_d, nv, nv, nv, m.D[2])
    add_transposed_product(-1.0, gain_d, part, nv, nv, nv, m.D[2])
    product(m.D[0], keep, nv, nv, nv, gain)
    _clear(m.D[0])
    _clear(m.D[1])
    add_transposed_product(1.0, keep, gain, nv, nv, nv, m.D[0])
    add_transposed_product(1.0, keep, part, nv, nv, nv, m.D[1])
    for block in range(0, 3, 2):
        _even_out(m.P[block])
        _even_out(m.D[block])
    return True


@inlined
def delay_of(b):
    """Delay of the response to slow torques, k1 / k2, times ω; b = (c/r) / ω².

    From 1 where velocities are exact to √2 where torques are.
    """
    root = math.sqrt(1.0 + b)
    return math.sqrt((2.0 * root + b) / (1.0 + b))
