"""Elimination along the tree: the posterior of every quantity without a dense system, compiled.

From the leaves to the root, what a subtree says about the acceleration of its parent and the
wrench f_i between them is kept in a mixed form: f_i given alpha_p as a mean and a covariance, which
may vanish, and what is known of alpha_p as a triangle of whitened rows, which may be empty. So
nothing known and everything known are both harmless, no information matrix is formed, and
equations without slack are exact. With alpha_i = (a_i, joint acceleration), at body i:

    f_i = F alpha_i + phi + noise(P)                        wrench balance of the subtree
    y   = H f_i + G alpha_i + noise(R)                      readings: condition f_i; what they say
                                                            about alpha_i goes into its triangle
    alpha_i = B alpha_p + c + noise(Q)                      acceleration equation, B = (X 0; 0 0)
    f_i = F1 alpha_p + phi1 + noise(P1)                     alpha_i eliminated

At the root alpha is known, or believed and told by the wrench balance that nothing holds it.
`substitution` goes back to the leaves.

Everything has r right-hand sides: the first is the problem, the others its derivatives by
whatever else is unknown (state, biases, parameters).
"""

from __future__ import annotations

import math

from bodysense.estimation._kernels.conditioning import (
    FLOOR,
    condition,
    condition_alpha,
    set_aside,
    split,
    tell,
)
from bodysense.estimation._kernels.problem import (
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
    EXTERNAL_MEAN,
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
)
from bodysense.estimation._kernels.small import (
    add,
    add_congruence,
    add_product,
    clear,
    copy,
    factorise,
    forward,
    product,
)
from bodysense.robot._kernels.jit import called, merged


@merged
def gather(M, G, V, inertia, slack):
    """F, phi, P of a body from its inertia, its external wrench and its children's messages.

    The children have added theirs already.
    """
    for j in range(6):
        for k in range(6):
            G[SLOPE_BEFORE, j, k] += inertia[j, k]
    add(1.0, M[EXTERNAL_COV], M[COV_BEFORE])
    add(1.0, slack, M[COV_BEFORE])
    add(1.0, V[BALANCE], V[OFFSET_BEFORE])
    add(-1.0, V[EXTERNAL_FORCE], V[OFFSET_BEFORE])
    copy(G[SLOPE_BEFORE], G[SLOPE])
    copy(V[OFFSET_BEFORE], V[OFFSET])
    copy(M[COV_BEFORE], M[COV])


@called
def parents_motion(X, B):
    """B (7, 7): alpha of the parent, seen from the body, without the joint's own acceleration."""
    clear(B)
    for j in range(6):
        for k in range(6):
            B[j, k] = X[j, k]


@called
def eliminate_sharp(T, Z, X, S, variance, A, Q, z, work, score):
    """Alpha given alpha_p where only the joint's acceleration is unknown: one direction s = (S, 1).

    A = B - κ s uᵀ R B with u = R s, κ = σ² / (1 + σ² |u|²). Leaves (1 - β u uᵀ) R B in work[1] and
    (1 - β u uᵀ)(z - R c) in z, the rows about alpha_p.
    """
    R, rows, u, s, x = work[0], work[1], work[2, 0], work[2, 1], work[2, 2]
    split(T, R, z)
    for j in range(7):
        s[j] = S[j] if j < 6 else 1.0
    square = 0.0
    for j in range(7):
        u[j] = 0.0
        for k in range(j, 7):
            u[j] += R[j, k] * s[k]
        square += u[j] * u[j]
    spread = 1.0 + variance * square
    kappa = variance / spread
    beta = variance / (spread + math.sqrt(spread))
    score[0] -= 0.5 * math.log(spread)
    add_product(-1.0, R, Z[ALPHA_OFFSET], z)
    parents_motion(X, A)
    product(R, A, rows)
    for k in range(7):
        x[k] = 0.0
        for j in range(7):
            x[k] += u[j] * rows[j, k]
    for j in range(7):
        for k in range(7):
            A[j, k] -= kappa * s[j] * x[k]
            rows[j, k] -= beta * u[j] * x[k]
            Q[j, k] = kappa * s[j] * s[k]
    for c in range(z.shape[1]):
        y = 0.0
        for j in range(7):
            y += u[j] * z[j, c]
        for j in range(7):
            Z[ALPHA_MEAN, j, c] = Z[ALPHA_OFFSET, j, c] + kappa * s[j] * y
            z[j, c] -= beta * u[j] * y


@merged
def eliminate_soft(T, Z, X, S, variance, slack, A, Q, z, work, score):
    """Alpha given alpha_p where the acceleration equation has slack.

    Leaves the rows about alpha_p in work[1] and z.
    """
    for j in range(7):
        for k in range(7):
            s = (S[j] if j < 6 else 1.0) * (S[k] if k < 6 else 1.0) * variance
            Q[j, k] = s + slack[j, k] if j < 6 and k < 6 else s
    copy(Z[ALPHA_OFFSET], Z[ALPHA_MEAN])
    condition_alpha(T, Q, Z[ALPHA_MEAN], z, work, score)
    B, white, W = work[0], work[3], work[2]
    parents_motion(X, B)
    product(W, B, A)
    product(white, B, work[1])


@merged
def seen_from_parent(M, G, V, A, Q, mean, work67):
    """The wrench given alpha_p, before the readings on the parent's side."""
    product(G[SLOPE], A, G[SLOPE_ABOVE])
    copy(V[OFFSET], V[OFFSET_ABOVE])
    add_product(1.0, G[SLOPE], mean, V[OFFSET_ABOVE])
    copy(M[COV], M[COV_ABOVE])
    add_congruence(G[SLOPE], Q, work67, M[COV_ABOVE])
    copy(G[SLOPE_ABOVE], G[SLOPE_AFTER])
    copy(V[OFFSET_ABOVE], V[OFFSET_AFTER])
    copy(M[COV_ABOVE], M[COV_AFTER])


@merged
def send(M, G, V, M_parent, G_parent, V_parent, work):
    """Add the wrench of a body to the balance of its parent, where it is Xᵀ f."""
    X = M[TRANSFORM]
    add_product(1.0, X.T, G[SLOPE_AFTER], G_parent[SLOPE_BEFORE])
    add_product(1.0, X.T, V[OFFSET_AFTER], V_parent[OFFSET_BEFORE])
    product(M[COV_AFTER], X, work)
    product(X.T, work, M[COV_ON_PARENT])
    add(1.0, M[COV_ON_PARENT], M_parent[COV_BEFORE])


@merged
def settle_floating(M, G, V, T, Z, base, A0, Q, balance, z, work, new, left, kept, score):
    """A free root: nothing pushes it but its external wrench; then its acceleration is known."""
    L, E, e = balance
    copy(M[COV], L)
    copy(G[SLOPE], E)
    clear(e)
    add(-1.0, V[OFFSET], e)
    largest = 0.0
    for j in range(6):
        largest = max(largest, L[j, j])
    score[0] -= factorise(L, FLOOR + 1e-15 * largest)
    forward(L, E)
    forward(L, e)
    tell(E, e, new, T, left, kept, score)
    clear(Q)
    for j in range(6):
        for k in range(6):
            Q[j, k] = base[j, k]
    copy(A0, Z[ALPHA_MEAN])
    condition_alpha(T, Q, Z[ALPHA_MEAN], z, work, score)
    set_aside(z, z.shape[0], left, kept, score)


@merged
def settle_fixed(T, A0, R, z, left, kept, score):
    """A root whose acceleration is known: what the triangle says about it is left over."""
    split(T, R, z)
    add_product(-1.0, R, A0, z)
    set_aside(z, z.shape[0], left, kept, score)


@merged
def eliminate(bodies, readings, beliefs, w):
    """From the leaves to the root."""
    begin, block_first, covariance = readings.begin, readings.first, readings.covariance
    on_alpha, on_wrench, on_external = readings.on_alpha, readings.on_wrench, readings.on_external
    M, G, V, T, Z, present = w.M, w.G, w.V, w.T, w.Z, w.present
    Y, H, K, L, E, e = w.Y, w.H, w.K, w.L, w.E, w.e
    z, new, left, kept, score = w.z, w.new, w.left, w.kept, w.score
    work6, work7, work_m = w.work6, w.work7, w.work_m
    rows = work7[1]
    score[0] = score[1] = 0.0
    kept[0] = 0
    for i in range(M.shape[0]):
        clear(G[i, SLOPE_BEFORE])
        clear(V[i, OFFSET_BEFORE])
        clear(M[i, COV_BEFORE])
        clear(T[i])
    for i in range(M.shape[0] - 1, -1, -1):
        X, S, parent = M[i, TRANSFORM], bodies.S[i], bodies.parent[i]
        copy(V[i, EXTERNAL_MEAN], V[i, EXTERNAL_FORCE])
        copy(beliefs.wrench[i], M[i, EXTERNAL_COV])
        for block in range(begin[i, EXTERNAL], begin[i, EXTERNAL + 1]):
            if present[block] == 1:
                a, b = block_first[block], block_first[block + 1]
                copy(on_external[a:b], H[a:b])
                clear(E[a:b])
                fx, P = V[i, EXTERNAL_FORCE], M[i, EXTERNAL_COV]
                condition(
                    a,
                    b,
                    w.nothing,
                    fx,
                    P,
                    covariance,
                    Y,
                    H,
                    K,
                    L,
                    E,
                    e,
                    work_m,
                    work6,
                    score,
                )
                set_aside(e[a:b], b - a, left, kept, score)
        gather(M[i], G[i], V[i], bodies.inertia[i], beliefs.slack_wrench[i])
        for block in range(begin[i, OWN_MOTION], begin[i, OWN_MOTION + 1]):
            if present[block] == 1:
                a, b = block_first[block], block_first[block + 1]
                product(readings.white[a:b], on_alpha[a:b], E[a:b])
                product(readings.white[a:b], Y[a:b], e[a:b])
                score[0] += readings.log_scale[block]
                tell(E[a:b], e[a:b], new, T[i], left, kept, score)
        for block in range(begin[i, OWN_WRENCH], begin[i, OWN_WRENCH + 1]):
            if present[block] == 1:
                a, b = block_first[block], block_first[block + 1]
                copy(on_wrench[a:b], H[a:b])
                copy(on_alpha[a:b], E[a:b])
                F, phi, P = G[i, SLOPE], V[i, OFFSET], M[i, COV]
                condition(a, b, F, phi, P, covariance, Y, H, K, L, E, e, work_m, work6, score)
                tell(E[a:b], e[a:b], new, T[i], left, kept, score)
        if i == 0:
            break
        A, Q, variance = w.A[i], w.Q[i], beliefs.joint[i]
        if beliefs.soft[i] == 0:
            eliminate_sharp(T[i], Z[i], X, S, variance, A, Q, z, work7, score)
        else:
            slack = beliefs.slack_acceleration[i]
            eliminate_soft(T[i], Z[i], X, S, variance, slack, A, Q, z, work7, score)
        tell(rows, z, new, T[parent], left, kept, score)
        seen_from_parent(M[i], G[i], V[i], A, Q, Z[i, ALPHA_MEAN], w.work67)
        for block in range(begin[i, PARENT_SIDE], begin[i, PARENT_SIDE + 1]):
            if present[block] == 1:
                a, b = block_first[block], block_first[block + 1]
                clear(H[a:b])
                add_product(-1.0, on_wrench[a:b], X.T, H[a:b])  # the wrench on the parent is -Xᵀ f
                copy(on_alpha[a:b], E[a:b])
                F, phi, P = G[i, SLOPE_AFTER], V[i, OFFSET_AFTER], M[i, COV_AFTER]
                condition(a, b, F, phi, P, covariance, Y, H, K, L, E, e, work_m, work6, score)
                tell(E[a:b], e[a:b], new, T[parent], left, kept, score)
        send(M[i], G[i], V[i], M[parent], G[parent], V[parent], work6[0])
    if bodies.floating == 1:
        balance = (w.root_L, w.root_E, w.root_e)
        settle_floating(
            M[0],
            G[0],
            V[0],
            T[0],
            Z[0],
            beliefs.base,
            w.A0,
            w.Q[0],
            balance,
            z,
            work7,
            new,
            left,
            kept,
            score,
        )
    else:
        settle_fixed(T[0], w.A0, work7[0], z, left, kept, score)
