"""Elimination along the tree: the posterior of every quantity without a dense system, compiled.

From the leaves to the root, what a subtree says about the acceleration a_p of its parent and the
wrench f_i between them is kept in a mixed form: f_i given a_p as a mean and a covariance, which
may vanish, and what is known of a_p as a triangle of whitened rows, which may be empty. So
nothing known and everything known are both harmless, no information matrix is formed, and
equations without slack are exact. At body i:

    f_i = F alpha_i + phi + noise(P)                        wrench balance of the subtree
    y   = H f_i + G alpha_i + noise(R)                      readings: condition f_i; what they say
                                                            about alpha_i goes into its triangle
    alpha_i = B a_p + c + noise(Q)                          acceleration equation
    f_i = F1 a_p + phi1 + noise(P1)                         alpha_i eliminated

From the root to the leaves the multipliers of the wrench balances give the means (Bryson and
Frazier's form of smoothing), without the inverse of any covariance.

Everything has r right-hand sides: the first is the problem, the others its derivatives by
whatever else is unknown (state, biases, parameters).
"""

from __future__ import annotations

import math

from bodysense.estimation._kernels.problem import (
    ALPHA_FOUND,
    ALPHA_MEAN,
    ALPHA_OFFSET,
    BALANCE,
    COV,
    COV_ABOVE,
    COV_AFTER,
    COV_BEFORE,
    COV_ON_PARENT,
    EXTERNAL,
    EXTERNAL_COV,
    EXTERNAL_FORCE,
    EXTERNAL_FOUND,
    EXTERNAL_MEAN,
    MULTIPLIER,
    OFFSET,
    OFFSET_ABOVE,
    OFFSET_AFTER,
    OFFSET_BEFORE,
    OWN_MOTION,
    OWN_WRENCH,
    PARENT_SIDE,
    SLOPE,
    SLOPE_ABOVE,
    SLOPE_AFTER,
    SLOPE_BEFORE,
    TRANSFORM,
    WRENCH_FOUND,
)
from bodysense.estimation._kernels.small import (
    add_transposed_product,
    backward,
    clear,
    congruence,
    copy,
    factorise,
    forward,
    product,
    take_in,
)
from bodysense.robot._kernels.jit import called

# Least variance [N², …] beside which nothing is certain: what is believed without doubt has it.
_FLOOR = 1e-18


@called
def set_aside(w, k, n):
    """Keep the residual right-hand sides of k spent rows, or their squares alone."""
    r = w.e.shape[1]
    for i in range(k):
        w.score[1] += w.new[i, n] * w.new[i, n]
    if r > 1:
        at = w.kept[0]
        for i in range(k):
            for c in range(r):
                w.left[at + i, c] = w.new[i, n + c]
        w.kept[0] = at + k


@called
def condition(first, m, F, columns, phi, P, covariance, Y, H, K, S, E, e, w66, v66, score):
    """Condition f = F x + phi + noise(P) on the readings Y = H f + E x + noise(covariance).

    Leaves gains in K (transposed), factors in S, whitened innovations in E and e.
    """
    r = phi.shape[1]
    for i in range(m):
        a = first + i
        for j in range(6):  # K ← H P
            x = 0.0
            for k in range(6):
                x += H[a, k] * P[k, j]
            K[a, j] = x
        for j in range(columns):
            x = E[a, j]
            for k in range(6):
                x += H[a, k] * F[k, j]
            E[a, j] = x
        for c in range(r):
            x = Y[a, c]
            for k in range(6):
                x -= H[a, k] * phi[k, c]
            e[a, c] = x
    for i in range(m):
        for j in range(i + 1):
            x = covariance[first + i, j]
            for k in range(6):
                x += K[first + i, k] * H[first + j, k]
            S[first + i, j] = x
    # L and the whitened innovations
    for j in range(m):
        a = first + j
        d = S[a, j]
        floor = _FLOOR + 1e-15 * d
        for k in range(j):
            d -= S[a, k] * S[a, k]
        d = math.sqrt(max(d, floor))
        S[a, j] = d
        score[0] -= math.log(d)
        for i in range(j + 1, m):
            x = S[first + i, j]
            for k in range(j):
                x -= S[first + i, k] * S[a, k]
            S[first + i, j] = x / d
    last = first + m
    L = S[first:last]
    forward(L, m, E[first:last])
    forward(L, m, e[first:last])
    forward(L, m, K[first:last])  # L⁻¹ H P
    # F ← F - K E, phi ← phi + K e
    for i in range(m):
        a = first + i
        for k in range(6):
            x = K[a, k]
            for j in range(columns):
                F[k, j] -= x * E[a, j]
            for c in range(r):
                phi[k, c] += x * e[a, c]
    backward(L, m, K[first:last])  # gains
    # P ← (1 - K H) P (1 - K H)ᵀ + K R Kᵀ
    for j in range(6):
        for k in range(6):
            x = 1.0 if j == k else 0.0
            for i in range(m):
                x -= K[first + i, j] * H[first + i, k]
            w66[j, k] = x
    product(w66, P, v66)
    for j in range(6):
        for k in range(j + 1):
            x = 0.0
            for l in range(6):
                x += v66[j, l] * w66[k, l]
            for i in range(m):
                for l in range(m):
                    x += K[first + i, j] * covariance[first + i, l] * K[first + l, k]
            P[j, k] = x
            P[k, j] = x


@called
def apply(first, m, F, columns, phi, P, readings, w):
    """`condition` with the arrays of the working memory."""
    condition(
        first,
        m,
        F,
        columns,
        phi,
        P,
        readings.covariance,
        w.Y,
        w.H,
        w.K,
        w.L,
        w.E,
        w.e,
        w.work6[0],
        w.work6[1],
        w.score,
    )


@called
def hand_over(first, m, columns, w, T, n):
    """Take whitened innovations into a triangle of n unknowns."""
    r = w.e.shape[1]
    for i in range(m):
        for j in range(n):
            w.new[i, j] = w.E[first + i, j] if j < columns else 0.0
        for c in range(r):
            w.new[i, n + c] = w.e[first + i, c]
    take_in(T, n, w.new, m)
    set_aside(w, m, n)


@called
def external_readings(i, readings, beliefs, w):
    """External wrench of body i after its own readings: w.fx, w.fx_cov."""
    r = w.e.shape[1]
    for j in range(6):
        for c in range(r):
            w.V[i, EXTERNAL_FORCE, j, c] = w.V[i, EXTERNAL_MEAN, j, c]
        for k in range(6):
            w.M[i, EXTERNAL_COV, j, k] = beliefs.wrench[i, j, k]
    for block in range(readings.begin[i, EXTERNAL], readings.begin[i, EXTERNAL + 1]):
        if w.present[block] == 0:
            continue
        first, m = readings.first[block], readings.first[block + 1] - readings.first[block]
        for a in range(first, first + m):
            for k in range(6):
                w.H[a, k] = readings.on_external[a, k]
            w.E[a, 0] = 0.0
        apply(first, m, w.w67, 0, w.V[i, EXTERNAL_FORCE], w.M[i, EXTERNAL_COV], readings, w)
        for a in range(m):
            for c in range(r):
                w.new[a, c] = w.e[first + a, c]
        set_aside(w, m, 0)


@called
def gather(i, bodies, readings, beliefs, w):
    """F, phi, P of body i from its inertia, its external wrench and its children's messages.

    The children have added theirs already.
    """
    external_readings(i, readings, beliefs, w)
    r = w.e.shape[1]
    for j in range(6):
        for k in range(6):
            w.G[i, SLOPE_BEFORE, j, k] += bodies.inertia[i, j, k]
            w.M[i, COV_BEFORE, j, k] += w.M[i, EXTERNAL_COV, j, k] + beliefs.slack_wrench[i, j, k]
        for c in range(r):
            w.V[i, OFFSET_BEFORE, j, c] += w.V[i, BALANCE, j, c] - w.V[i, EXTERNAL_FORCE, j, c]
    copy(w.G[i, SLOPE_BEFORE], w.G[i, SLOPE])
    copy(w.V[i, OFFSET_BEFORE], w.V[i, OFFSET])
    copy(w.M[i, COV_BEFORE], w.M[i, COV])


@called
def own_readings(i, readings, w):
    """Readings of the motion of body i and of the wrench above it."""
    r = w.e.shape[1]
    for block in range(readings.begin[i, OWN_MOTION], readings.begin[i, OWN_MOTION + 1]):
        if w.present[block] == 0:
            continue
        first, m = readings.first[block], readings.first[block + 1] - readings.first[block]
        for a in range(m):
            for j in range(7):
                x = 0.0
                for b in range(m):
                    x += readings.white[first + a, b] * readings.on_alpha[first + b, j]
                w.new[a, j] = x
            for c in range(r):
                x = 0.0
                for b in range(m):
                    x += readings.white[first + a, b] * w.Y[first + b, c]
                w.new[a, 7 + c] = x
        w.score[0] += readings.log_scale[block]
        take_in(w.T[i], 7, w.new, m)
        set_aside(w, m, 7)
    for block in range(readings.begin[i, OWN_WRENCH], readings.begin[i, OWN_WRENCH + 1]):
        if w.present[block] == 0:
            continue
        first, m = readings.first[block], readings.first[block + 1] - readings.first[block]
        for a in range(first, first + m):
            for k in range(6):
                w.H[a, k] = readings.on_wrench[a, k]
            for k in range(7):
                w.E[a, k] = readings.on_alpha[a, k]
        apply(first, m, w.G[i, SLOPE], 7, w.V[i, OFFSET], w.M[i, COV], readings, w)
        hand_over(first, m, 7, w, w.T[i], 7)


@called
def prior_of_alpha(i, bodies, beliefs, w):
    """Q of alpha_i given the parent's acceleration."""
    variance = beliefs.joint[i]
    for j in range(6):
        for k in range(6):
            w.Q[i, j, k] = (
                bodies.S[i, j] * bodies.S[i, k] * variance + beliefs.slack_acceleration[i, j, k]
            )
        w.Q[i, j, 6] = bodies.S[i, j] * variance
        w.Q[i, 6, j] = bodies.S[i, j] * variance
    w.Q[i, 6, 6] = variance


@called
def eliminate_sharp(i, bodies, beliefs, w):
    """alpha_i given a_p where only the joint's acceleration is unknown: a single direction s.

    A = B - κ s uᵀ R B with u = R s, κ = σ² / (1 + σ² |u|²); rows (1 - β u uᵀ)(z - R (B a_p + c)).
    """
    r = w.e.shape[1]
    T, A = w.T[i], w.A[i]
    variance = beliefs.joint[i]
    u, RB = w.work7[0, 0], w.work7[1]
    square = 0.0
    for j in range(7):
        x = 0.0
        for k in range(j, 6):
            x += T[j, k] * bodies.S[i, k]
        x += T[j, 6]
        u[j] = x
        square += x * x
    for j in range(7):
        for k in range(6):
            x = 0.0
            for l in range(j, 6):
                x += T[j, l] * w.M[i, TRANSFORM, l, k]
            RB[j, k] = x
        for c in range(r):
            x = T[j, 7 + c]
            for l in range(j, 7):
                x -= T[j, l] * w.Z[i, ALPHA_OFFSET, l, c]
            T[j, 7 + c] = x
    spread = 1.0 + variance * square
    kappa = variance / spread
    root = math.sqrt(spread)
    beta = variance / (root * (1.0 + root))
    w.score[0] -= 0.5 * math.log(spread)
    for k in range(6):
        x = 0.0
        for j in range(7):
            x += u[j] * RB[j, k]
        for j in range(6):
            A[j, k] = w.M[i, TRANSFORM, j, k] - kappa * bodies.S[i, j] * x
        A[6, k] = -kappa * x
        for j in range(7):
            w.new[j, k] = RB[j, k] - beta * u[j] * x
    for c in range(r):
        x = 0.0
        for j in range(7):
            x += u[j] * T[j, 7 + c]
        for j in range(6):
            w.Z[i, ALPHA_MEAN, j, c] = w.Z[i, ALPHA_OFFSET, j, c] + kappa * bodies.S[i, j] * x
        w.Z[i, ALPHA_MEAN, 6, c] = w.Z[i, ALPHA_OFFSET, 6, c] + kappa * x
        for j in range(7):
            w.new[j, 6 + c] = T[j, 7 + c] - beta * u[j] * x
    for j in range(7):
        sj = bodies.S[i, j] if j < 6 else 1.0
        for k in range(7):
            w.Q[i, j, k] = kappa * sj * (bodies.S[i, k] if k < 6 else 1.0)


@called
def update_alpha(T, Q, ac, RQ, S, white, work, score):
    """Condition alpha ~ (ac, Q) on its triangle T.

    With 1 + R Q Rᵀ = L Lᵀ: leaves L⁻¹ R in white, L⁻¹ (z - R ac) in the right-hand sides of T, and
    1 - K R in S.
    """
    r = ac.shape[1]
    for j in range(7):
        for k in range(7):
            x = 0.0
            for l in range(j, 7):
                x += T[j, l] * Q[l, k]
            RQ[j, k] = x
        for c in range(r):
            x = T[j, 7 + c]
            for l in range(j, 7):
                x -= T[j, l] * ac[l, c]
            T[j, 7 + c] = x
    for j in range(7):
        for k in range(j + 1):
            x = 1.0 if j == k else 0.0
            for l in range(k, 7):
                x += RQ[j, l] * T[k, l]
            S[j, k] = x
    factorise(S, 7, 1e-300)
    for j in range(7):
        score[0] -= math.log(S[j, j])
        for k in range(7):
            white[j, k] = T[j, k] if k >= j else 0.0
    forward(S, 7, white)
    forward(S, 7, RQ[:7])  # L⁻¹ R Q
    for j in range(7):
        for c in range(r):
            x = T[j, 7 + c]
            for l in range(j):
                x -= S[j, l] * T[l, 7 + c]
            T[j, 7 + c] = x / S[j, j]
    for j in range(7):
        for c in range(r):
            x = ac[j, c]
            for l in range(7):
                x += RQ[l, j] * T[l, 7 + c]
            ac[j, c] = x
    # Q ← (1 - K R) Q (1 - K R)ᵀ + K Kᵀ, K = Q Rᵀ S⁻¹ = (L⁻ᵀ L⁻¹ R Q)ᵀ
    backward(S, 7, RQ[:7])
    for j in range(7):
        for k in range(7):
            x = 1.0 if j == k else 0.0
            for l in range(k + 1):
                x -= RQ[l, j] * T[l, k]
            S[j, k] = x
    for j in range(7):
        for k in range(7):
            x = 0.0
            for l in range(7):
                x += S[j, l] * Q[l, k]
            work[j, k] = x
    for j in range(7):
        for k in range(j + 1):
            x = 0.0
            for l in range(7):
                x += work[j, l] * S[k, l] + RQ[l, j] * RQ[l, k]
            Q[j, k] = x
    for j in range(7):
        for k in range(j + 1, 7):
            Q[j, k] = Q[k, j]


@called
def eliminate_soft(i, bodies, beliefs, w):
    """alpha_i given a_p where the acceleration equation has slack in every direction."""
    r = w.e.shape[1]
    prior_of_alpha(i, bodies, beliefs, w)
    for j in range(7):
        for c in range(r):
            w.Z[i, ALPHA_MEAN, j, c] = w.Z[i, ALPHA_OFFSET, j, c]
    update_alpha(
        w.T[i], w.Q[i], w.Z[i, ALPHA_MEAN], w.wm, w.work7[1], w.work7[0], w.work7[2], w.score
    )
    for j in range(7):
        for k in range(6):
            x = y = 0.0
            for l in range(6):
                x += w.work7[1, j, l] * w.M[i, TRANSFORM, l, k]
                y += w.work7[0, j, l] * w.M[i, TRANSFORM, l, k]
            w.A[i, j, k] = x
            w.new[j, k] = y
        for c in range(r):
            w.new[j, 6 + c] = w.T[i, j, 7 + c]


@called
def pass_on(i, bodies, readings, w):
    """The message of body i to its parent, and readings on the parent's side."""
    r = w.e.shape[1]
    parent = bodies.parent[i]
    # rows about the parent's acceleration; the 7th unknown of the parent is not in them
    known = parent == 0 and bodies.floating == 0
    product(w.G[i, SLOPE], w.A[i], w.M[i, SLOPE_ABOVE])
    for j in range(6):
        for c in range(r):
            x = w.V[i, OFFSET, j, c]
            for k in range(7):
                x += w.G[i, SLOPE, j, k] * w.Z[i, ALPHA_MEAN, k, c]
            w.V[i, OFFSET_ABOVE, j, c] = x
    copy(w.M[i, COV], w.M[i, COV_ABOVE])
    congruence(w.G[i, SLOPE], w.Q[i], w.w67, w.M[i, COV_ABOVE])
    if known:
        for j in range(7):
            for c in range(r):
                x = w.new[j, 6 + c]
                for k in range(6):
                    x -= w.new[j, k] * w.A0[k, c]
                w.new[j, c] = x
        set_aside(w, 7, 0)
    else:
        for j in range(7):
            for c in range(r - 1, -1, -1):
                w.new[j, 7 + c] = w.new[j, 6 + c]
            w.new[j, 6] = 0.0
        take_in(w.T[parent], 7, w.new, 7)
        set_aside(w, 7, 7)
    copy(w.M[i, SLOPE_ABOVE], w.M[i, SLOPE_AFTER])
    copy(w.V[i, OFFSET_ABOVE], w.V[i, OFFSET_AFTER])
    copy(w.M[i, COV_ABOVE], w.M[i, COV_AFTER])
    for block in range(readings.begin[i, PARENT_SIDE], readings.begin[i, PARENT_SIDE + 1]):
        if w.present[block] == 0:
            continue
        first, m = readings.first[block], readings.first[block + 1] - readings.first[block]
        for a in range(first, first + m):
            for k in range(6):
                x = 0.0
                for l in range(6):  # the wrench on the parent is -Xᵀ f
                    x -= readings.on_wrench[a, l] * w.M[i, TRANSFORM, k, l]
                w.H[a, k] = x
                w.E[a, k] = readings.on_alpha[a, k]
            w.E[a, 6] = 0.0
        apply(
            first, m, w.M[i, SLOPE_AFTER], 6, w.V[i, OFFSET_AFTER], w.M[i, COV_AFTER], readings, w
        )
        if known:
            for a in range(m):
                for c in range(r):
                    x = w.e[first + a, c]
                    for k in range(6):
                        x -= w.E[first + a, k] * w.A0[k, c]
                    w.new[a, c] = x
            set_aside(w, m, 0)
        else:
            hand_over(first, m, 6, w, w.T[parent], 7)
    clear(w.M[i, COV_ON_PARENT])
    product(w.M[i, COV_AFTER], w.M[i, TRANSFORM], w.work6[0])
    add_transposed_product(1.0, w.M[i, TRANSFORM], w.work6[0], w.M[i, COV_ON_PARENT])
    if known:
        return
    for j in range(6):
        for k in range(6):
            x = 0.0
            for l in range(6):
                x += w.M[i, TRANSFORM, l, j] * w.M[i, SLOPE_AFTER, l, k]
            w.G[parent, SLOPE_BEFORE, j, k] += x
            w.M[parent, COV_BEFORE, j, k] += w.M[i, COV_ON_PARENT, j, k]
        for c in range(r):
            x = 0.0
            for l in range(6):
                x += w.M[i, TRANSFORM, l, j] * w.V[i, OFFSET_AFTER, l, c]
            w.V[parent, OFFSET_BEFORE, j, c] += x


@called
def settle_root(bodies, beliefs, w):
    """A free root: nothing pushes it but its external wrench; then its acceleration is known."""
    r = w.e.shape[1]
    L, rows = w.root_L, w.root_e
    copy(w.M[0, COV], L)
    for j in range(6):
        for k in range(7):
            rows[j, k] = w.G[0, SLOPE, j, k]
        for c in range(r):
            rows[j, 7 + c] = -w.V[0, OFFSET, j, c]
    largest = 0.0
    for j in range(6):
        largest = max(largest, L[j, j])
    factorise(L, 6, _FLOOR + 1e-15 * largest)
    for j in range(6):
        w.score[0] -= math.log(L[j, j])
    forward(L, 6, rows)
    for j in range(6):
        for k in range(7 + r):
            w.new[j, k] = rows[j, k]
    take_in(w.T[0], 7, w.new, 6)
    set_aside(w, 6, 7)
    for j in range(7):
        for k in range(7):
            w.Q[0, j, k] = beliefs.base[j, k] if j < 6 and k < 6 else 0.0
        for c in range(r):
            w.Z[0, ALPHA_MEAN, j, c] = w.A0[j, c] if j < 6 else 0.0
    update_alpha(
        w.T[0], w.Q[0], w.Z[0, ALPHA_MEAN], w.wm, w.work7[1], w.work7[0], w.work7[2], w.score
    )
    for j in range(7):
        for c in range(r):
            w.new[j, c] = w.T[0, j, 7 + c]
    set_aside(w, 7, 0)


@called
def eliminate(bodies, readings, beliefs, w):
    """From the leaves to the root."""
    n = bodies.parent.size
    w.score[0] = w.score[1] = 0.0
    w.kept[0] = 0
    for i in range(n):
        clear(w.G[i, SLOPE_BEFORE])
        clear(w.V[i, OFFSET_BEFORE])
        clear(w.M[i, COV_BEFORE])
        clear(w.T[i])
    for i in range(n - 1, 0, -1):
        gather(i, bodies, readings, beliefs, w)
        own_readings(i, readings, w)
        if beliefs.soft[i] == 0:
            eliminate_sharp(i, bodies, beliefs, w)
        else:
            eliminate_soft(i, bodies, beliefs, w)
        pass_on(i, bodies, readings, w)
    if bodies.floating == 1:
        gather(0, bodies, readings, beliefs, w)
        own_readings(0, readings, w)
        settle_root(bodies, beliefs, w)


@called
def resist(first, m, columns, x, mu, H, K, L, E, e, eta):
    """Multipliers mu before a block of readings, from those after it; x are the unknowns.

    eta = S⁻¹ r - Kᵀ mu,   mu ← mu + Hᵀ eta
    """
    r = mu.shape[1]
    for i in range(m):
        a = first + i
        for c in range(r):
            y = e[a, c]
            for j in range(columns):
                y -= E[a, j] * x[j, c]
            eta[a, c] = y
    backward(L[first : first + m], m, eta[first : first + m])
    for i in range(m):
        a = first + i
        for c in range(r):
            y = eta[a, c]
            for k in range(6):
                y -= K[a, k] * mu[k, c]
            eta[a, c] = y
    for i in range(m):
        a = first + i
        for k in range(6):
            for c in range(r):
                mu[k, c] += H[a, k] * eta[a, c]


@called
def substitute(bodies, readings, beliefs, w):
    """From the root to the leaves: the means of all unknowns, from multipliers."""
    n, r = bodies.parent.size, w.e.shape[1]
    clear(w.V[0, MULTIPLIER])
    clear(w.Z[0, ALPHA_FOUND])
    clear(w.V[0, WRENCH_FOUND])
    clear(w.V[0, EXTERNAL_FOUND])
    for c in range(r):
        w.d_tau[0, c] = 0.0
    if bodies.floating == 1:
        copy(w.Z[0, ALPHA_MEAN], w.Z[0, ALPHA_FOUND])
        for j in range(6):
            for c in range(r):
                x = w.root_e[j, 7 + c]
                for k in range(6):
                    x -= w.root_e[j, k] * w.Z[0, ALPHA_MEAN, k, c]
                w.V[0, MULTIPLIER, j, c] = x
        backward(w.root_L, 6, w.V[0, MULTIPLIER])
        for j in range(6):
            for c in range(r):
                x = w.V[0, EXTERNAL_FORCE, j, c]
                for k in range(6):
                    x -= w.M[0, EXTERNAL_COV, j, k] * w.V[0, MULTIPLIER, k, c]
                w.V[0, EXTERNAL_FOUND, j, c] = x
    else:
        for j in range(6):
            for c in range(r):
                w.Z[0, ALPHA_FOUND, j, c] = w.A0[j, c]
    for i in range(1, n):
        parent = bodies.parent[i]
        mu, above = w.V[i, MULTIPLIER], w.Z[parent, ALPHA_FOUND]
        product(w.M[i, TRANSFORM], w.V[parent, MULTIPLIER], mu)
        for block in range(
            readings.begin[i, PARENT_SIDE + 1] - 1, readings.begin[i, PARENT_SIDE] - 1, -1
        ):
            if w.present[block] == 1:
                first = readings.first[block]
                m = readings.first[block + 1] - first
                resist(first, m, 6, above, mu, w.H, w.K, w.L, w.E, w.e, w.eta)
        for j in range(6):
            for c in range(r):
                x = w.V[i, OFFSET_ABOVE, j, c]
                for k in range(6):
                    x += (
                        w.M[i, SLOPE_ABOVE, j, k] * above[k, c] + w.M[i, COV_ABOVE, j, k] * mu[k, c]
                    )
                w.V[i, WRENCH_FOUND, j, c] = x
        # alpha = A a_p + ac + Q Fᵀ mu
        clear(w.w67)
        for j in range(6):
            for k in range(7):
                x = 0.0
                for l in range(7):
                    x += w.G[i, SLOPE, j, l] * w.Q[i, l, k]
                w.w67[j, k] = x
        for j in range(7):
            for c in range(r):
                x = w.Z[i, ALPHA_MEAN, j, c]
                for k in range(6):
                    x += w.A[i, j, k] * above[k, c] + w.w67[k, j] * mu[k, c]
                w.Z[i, ALPHA_FOUND, j, c] = x
        torque_of = 0.0
        for c in range(r):
            x = 0.0
            for k in range(6):
                x += bodies.S[i, k] * w.V[i, WRENCH_FOUND, k, c]
            w.d_tau[i, c] = x
        for block in range(
            readings.begin[i, OWN_WRENCH + 1] - 1, readings.begin[i, OWN_WRENCH] - 1, -1
        ):
            if w.present[block] == 0:
                continue
            first = readings.first[block]
            m = readings.first[block + 1] - first
            resist(first, m, 7, w.Z[i, ALPHA_FOUND], mu, w.H, w.K, w.L, w.E, w.e, w.eta)
            for a in range(first, first + m):
                torque_of = beliefs.slack_torque[i] * readings.on_torque[a]
                if torque_of != 0.0:
                    for c in range(r):
                        w.d_tau[i, c] += torque_of * w.eta[a, c]
        for j in range(6):
            for c in range(r):
                x = w.V[i, EXTERNAL_FORCE, j, c]
                for k in range(6):
                    x -= w.M[i, EXTERNAL_COV, j, k] * mu[k, c]
                w.V[i, EXTERNAL_FOUND, j, c] = x
