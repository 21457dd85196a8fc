"""Taking in readings: a wrench or an acceleration given what is read of it, compiled.

All factors are those of innovations, S = L Lᵀ, and covariances are updated in Joseph's form,
(1 - K H) P (1 - K H)ᵀ + K R Kᵀ, which cannot lose its sign. So a prior without doubt and one
without bounds are both harmless.
"""

from __future__ import annotations

from bodysense.estimation._kernels.small import (
    add_product,
    backward,
    copy,
    factorise,
    forward,
    identity_minus,
    product,
    symmetric,
    take_in,
)
from bodysense.robot._kernels.jit import called

# Least variance [N², …] beside which nothing is certain: what is read without doubt has it.
FLOOR = 1e-18
# Part of a covariance that is lost in rounding, and that of which nothing else is left.
_ROUNDING = 4e-16
_VANISHED = 1e-14


@called
def set_aside(rows, count, left, kept, score):
    """Keep the right-hand sides of count whitened rows that depend on nothing more.

    Of a single right-hand side the sum of squares is enough.
    """
    r = left.shape[1]
    at = rows.shape[1] - r
    for i in range(count):
        score[1] += rows[i, at] * rows[i, at]
    if r > 1:
        for i in range(count):
            for c in range(r):
                left[kept[0] + i, c] = rows[i, at + c]
        kept[0] += count


@called
def tell(E, e, new, T, left, kept, score):
    """Take the whitened rows e = E alpha + noise(1) into the triangle T of alpha."""
    count, r = E.shape[0], e.shape[1]
    for i in range(count):
        for j in range(7):
            new[i, j] = E[i, j]
        for c in range(r):
            new[i, 7 + c] = e[i, c]
    take_in(T, new, count)
    set_aside(new, count, left, kept, score)


@called
def count_rounding(H, P, S):
    """Add to S = R + H P Hᵀ what rounding may have taken from it: it is not known any better.

    So two readings of one thing, both without doubt, do not divide by a difference of roundings.
    """
    for a in range(H.shape[0]):
        x = 0.0
        for k in range(6):
            x += H[a, k] * H[a, k] * abs(P[k, k])
        S[a, a] += _ROUNDING * x


@called
def subtract_told(K, E, F):
    """F ← F - Kᵀ E, zero where no more than rounding is left.

    A wrench that is read without doubt depends on nothing: rounding would say that it does, a
    little, and then its small remains would tell everything about the acceleration.
    """
    for k in range(F.shape[0]):
        for j in range(F.shape[1]):
            told, size = 0.0, abs(F[k, j])
            for a in range(K.shape[0]):
                x = K[a, k] * E[a, j]
                told += x
                size += abs(x)
            left = F[k, j] - told
            F[k, j] = left if abs(left) > _VANISHED * size else 0.0


@called
def spread_through(W, P, old, work):
    """P ← W P Wᵀ, zero where no more than rounding is left of a variance."""
    copy(P, old)
    product(W, old, work)
    product(work, W.T, P)
    for j in range(P.shape[0]):
        if P[j, j] <= _VANISHED * old[j, j]:
            for k in range(P.shape[0]):
                P[j, k] = P[k, j] = 0.0


@called
def condition(first, last, F, phi, P, covariance, Y, H, K, L, E, e, work_m, work, score):
    """Condition f = F x + phi + noise(P) on the rows first … last, y = H f + E x + noise(R).

    Leaves gains in K (transposed), the factor of the innovations in L, and the innovations
    whitened in E and e: what the readings say about x.
    """
    R, H, K, L = covariance[first:last], H[first:last], K[first:last], L[first:last]
    E, e, RK, W = E[first:last], e[first:last], work_m[: last - first], work[0]
    add_product(1.0, H, F, E)
    copy(Y[first:last], e)
    add_product(-1.0, H, phi, e)
    product(H, P, K)
    copy(R, L)
    add_product(1.0, K, H.T, L)
    count_rounding(H, P, L)
    score[0] -= factorise(L, FLOOR)
    forward(L, E)
    forward(L, e)
    forward(L, K)
    subtract_told(K, E, F)
    add_product(1.0, K.T, e, phi)
    backward(L, K)
    identity_minus(K.T, H, W)
    product(R, K, RK)
    spread_through(W, P, work[1], work[2])
    add_product(1.0, K.T, RK, P)
    symmetric(P)


@called
def resist(first, last, x, mu, H, K, L, E, e, eta):
    """Multipliers mu before the rows first … last from those after them, now that x is known.

    eta = L⁻ᵀ (e - E x) - Kᵀ mu,   mu ← mu + Hᵀ eta
    """
    H, eta = H[first:last], eta[first:last]
    copy(e[first:last], eta)
    add_product(-1.0, E[first:last], x, eta)
    backward(L[first:last], eta)
    add_product(-1.0, K[first:last], mu, eta)
    add_product(1.0, H.T, eta, mu)


@called
def split(T, R, z):
    """The triangle of alpha and its right-hand sides, apart."""
    for j in range(7):
        for k in range(7):
            R[j, k] = T[j, k]
        for c in range(z.shape[1]):
            z[j, c] = T[j, 7 + c]


@called
def condition_alpha(T, Q, mean, z, work, score):
    """Condition alpha ~ (mean, Q) on its triangle of whitened rows, z = R alpha + noise(1).

    With 1 + R Q Rᵀ = L Lᵀ: leaves L⁻¹ (z - R mean) in z, 1 - K R in work[2], L⁻¹ R in work[3].
    """
    R, S, W, white, RQ = work[0], work[1], work[2], work[3], work[4]
    split(T, R, z)
    copy(R, white)
    add_product(-1.0, R, mean, z)
    product(R, Q, RQ)
    product(RQ, R.T, S)
    for j in range(7):
        S[j, j] += 1.0
    score[0] -= factorise(S, 1.0)  # which no pivot is below, but for rounding
    forward(S, white)
    forward(S, z)
    forward(S, RQ)
    add_product(1.0, RQ.T, z, mean)
    backward(S, RQ)  # K transposed
    identity_minus(RQ.T, R, W)
    spread_through(W, Q, S, R)
    add_product(1.0, RQ.T, RQ, Q)
    symmetric(Q)
