"""Regressors of chosen rows and columns, and the gradient of any function of them, compiled.

A function f of a regressor Y(q, v, a) changes with the motion by its adjoint Z = df/dY alone:

    df = sum_il  S_iᵀ dF_l(z_il),        F_l(z) = I(z) A_l + V_l ×* I(z) V_l

with S_i the axes, V_l and A_l twist and acceleration of link l, and z_il the ten entries of row i
of Z that belong to the parameters of link l: S_iᵀ F_l(z) is the torque that a link with these
parameters asks of joint i. With all sums over the pairs i above or at l,

    A_l'   = df/dA_l = sum_i I(z_il) S_i
    V_l'   = df/dV_l + V_l ×* A_l' = V_l ×* A_l' - sum_i (S_i ×* I(z_il) V_l + I(z_il) (V_l × S_i))

and, with bars for sums over the links from joint j on, p the link before it and c = V_p × S_j,

    df/da_j = S_jᵀ Ā'
    df/dv_j = S_jᵀ V̄' + 2 cᵀ Ā'
    df/dq_j = cᵀ V̄' + (A_p × S_j + V_p × c)ᵀ Ā' - S_jᵀ sum_l sum_(i above j) S_i ×* F_l(z_il)

The last sum is there because axes above j do not turn with it. One sweep gives the gradient of
what would take one derivative of the inverse dynamics a joint. Fixed base only.
"""

from __future__ import annotations

import numpy as np

from bodysense.compiled.jit import inlined, threaded
from bodysense.robot._kernels.derivatives import apply_inertia, cross_motion
from bodysense.robot._kernels.friction import friction_basis, smooth_sign
from bodysense.robot._kernels.regressor import regressor, rotate_back
from bodysense.robot._kernels.tree import (
    ACC,
    AXIS,
    DERIVATIVES_WIDTH,
    DYNAMICS_WIDTH,
    INERTIA,
    POS,
    ROT,
    TWIST,
    make_scratch,
    move,
    place,
)

# Columns of a row of `Scratch.body` beyond those of the dynamics, six each.
_A_BAR = 46  # A', of the link, then of its subtree, in base coordinates
_V_BAR = 52  # V', the same
_TURN = 58  # S_i ×* F_l of the axis of this row and the present link, in the link's coordinates
_TURNS = 64  # their sum over the axes above this row's and the links from it on
_V = 70  # of the present link in its own coordinates, as all that follows
_A = 76
_S = 82
_IS = 88
_IV = 94
_VS = 100
_IVS = 106


@inlined
def _to_link(b, l, j, x, o):
    """Write column o of row l: the twist in column x of row j, in the coordinates of link l."""
    k0, k1, k2 = b[j, x + 3], b[j, x + 4], b[j, x + 5]
    p0, p1, p2 = b[l, POS], b[l, POS + 1], b[l, POS + 2]
    l0 = b[j, x] + k1 * p2 - k2 * p1
    l1 = b[j, x + 1] + k2 * p0 - k0 * p2
    l2 = b[j, x + 2] + k0 * p1 - k1 * p0
    b[l, o], b[l, o + 1], b[l, o + 2] = rotate_back(b, l, l0, l1, l2)
    b[l, o + 3], b[l, o + 4], b[l, o + 5] = rotate_back(b, l, k0, k1, k2)


@inlined
def _add_in_base(b, l, f0, f1, f2, n0, n1, n2, j, o):
    """Add to column o of row j: a wrench in the coordinates of link l, in base coordinates."""
    x0 = b[l, ROT] * f0 + b[l, ROT + 1] * f1 + b[l, ROT + 2] * f2
    x1 = b[l, ROT + 3] * f0 + b[l, ROT + 4] * f1 + b[l, ROT + 5] * f2
    x2 = b[l, ROT + 6] * f0 + b[l, ROT + 7] * f1 + b[l, ROT + 8] * f2
    p0, p1, p2 = b[l, POS], b[l, POS + 1], b[l, POS + 2]
    b[j, o] += x0
    b[j, o + 1] += x1
    b[j, o + 2] += x2
    turn = b[l, ROT] * n0 + b[l, ROT + 1] * n1 + b[l, ROT + 2] * n2
    b[j, o + 3] += turn + p1 * x2 - p2 * x1
    turn = b[l, ROT + 3] * n0 + b[l, ROT + 4] * n1 + b[l, ROT + 5] * n2
    b[j, o + 4] += turn + p2 * x0 - p0 * x2
    turn = b[l, ROT + 6] * n0 + b[l, ROT + 7] * n1 + b[l, ROT + 8] * n2
    b[j, o + 5] += turn + p0 * x1 - p1 * x0


@inlined
def _cross_force(b, l, x, y):
    """X ×* Y of a twist in column x and a wrench in column y of row l."""
    v0, v1, v2 = b[l, x], b[l, x + 1], b[l, x + 2]
    w0, w1, w2 = b[l, x + 3], b[l, x + 4], b[l, x + 5]
    f0, f1, f2 = b[l, y], b[l, y + 1], b[l, y + 2]
    n0, n1, n2 = b[l, y + 3], b[l, y + 4], b[l, y + 5]
    return (
        w1 * f2 - w2 * f1,
        w2 * f0 - w0 * f2,
        w0 * f1 - w1 * f0,
        w1 * n2 - w2 * n1 + v1 * f2 - v2 * f1,
        w2 * n0 - w0 * n2 + v2 * f0 - v0 * f2,
        w0 * n1 - w1 * n0 + v0 * f1 - v1 * f0,
    )


@inlined
def _link_adjoint(tree, b, l, Z, work):
    """Add what link l has to A', V' of its row and to the turns of the rows above it."""
    _to_link(b, l, l, TWIST, _V)
    _to_link(b, l, l, ACC, _A)
    for e in range(12):
        work[e] = 0.0  # A' and V' in link coordinates
    for e in range(6):
        work[12 + e] = 0.0  # all turns of this link
    i = l
    while i >= 0:
        for e in range(10):
            b[l, INERTIA + e] = Z[i, 10 * l + e]
        _to_link(b, l, i, AXIS, _S)
        apply_inertia(b, l, _S, _IS)
        apply_inertia(b, l, _V, _IV)
        cross_motion(b, l, _V, l, _S, _VS)
        apply_inertia(b, l, _VS, _IVS)
        c0, c1, c2, c3, c4, c5 = _cross_force(b, l, _S, _IV)
        for e in range(6):
            work[e] += b[l, _IS + e]
            work[6 + e] -= b[l, _IVS + e]
        work[6] -= c0
        work[7] -= c1
        work[8] -= c2
        work[9] -= c3
        work[10] -= c4
        work[11] -= c5
        c0, c1, c2, c3, c4, c5 = _cross_force(b, l, _V, _IV)
        apply_inertia(b, l, _A, _IS)
        b[l, _IS] += c0
        b[l, _IS + 1] += c1
        b[l, _IS + 2] += c2
        b[l, _IS + 3] += c3
        b[l, _IS + 4] += c4
        b[l, _IS + 5] += c5
        c0, c1, c2, c3, c4, c5 = _cross_force(b, l, _S, _IS)
        b[i, _TURN], b[i, _TURN + 1], b[i, _TURN + 2] = c0, c1, c2
        b[i, _TURN + 3], b[i, _TURN + 4], b[i, _TURN + 5] = c3, c4, c5
        for e in range(6):
            work[12 + e] += b[i, _TURN + e]
        i = tree.parent[i]
    for e in range(6):
        b[l, _IS + e] = work[e]
    c0, c1, c2, c3, c4, c5 = _cross_force(b, l, _V, _IS)
    _add_in_base(b, l, work[0], work[1], work[2], work[3], work[4], work[5], l, _A_BAR)
    _add_in_base(
        b,
        l,
        work[6] + c0,
        work[7] + c1,
        work[8] + c2,
        work[9] + c3,
        work[10] + c4,
        work[11] + c5,
        l,
        _V_BAR,
    )
    j = l
    while j >= 0:
        for e in range(6):
            work[12 + e] -= b[j, _TURN + e]
        _add_in_base(b, l, work[12], work[13], work[14], work[15], work[16], work[17], j, _TURNS)
        j = tree.parent[j]


@inlined
def _drive_adjoint(tree, v, w, Z, gv, ga):
    """Add the columns of rotors, friction and coupled motors to the gradients by v and a."""
    n = tree.parent.size
    n_terms = tree.term.size
    start = 10 * n
    for j in range(n):
        ga[j] += Z[j, start + j]
        friction_basis(tree, j, v[j], w.phi, w.dphi)
        for k in range(n_terms):
            gv[j] += Z[j, start + n * (1 + k) + j] * w.dphi[k]
    start += n * (1 + n_terms)
    for k in range(tree.coupled_term.size):
        code = tree.coupled_term[k]
        slope, total = 1.0, 0.0
        if code == 2:
            speed = 0.0
            for j in range(n):
                speed += tree.coupling[k, j] * v[j]
            _, slope = smooth_sign(speed, tree.coupled_width[k])
        for j in range(n):
            total += Z[j, start + k] * tree.coupling[k, j]
        for j in range(n):
            c = tree.coupling[k, j]
            own = 0.0 if code == 2 else Z[j, start + k] * c
            if code == 0:
                ga[j] += c * (total - own)
            else:
                gv[j] += slope * c * (total - own)


@inlined
def _regressor_adjoint(tree, v, w, Z, work, gq, gv, ga):
    """Gradients of sum(Z * Y) by q, v, a (n,) each; needs `place` and `move` with accelerations.

    Z (n, layout.size); `work` (18,) is working memory.
    """
    b = w.body
    n = tree.parent.size
    for j in range(n):
        for e in range(6):
            b[j, _A_BAR + e] = 0.0
            b[j, _V_BAR + e] = 0.0
            b[j, _TURNS + e] = 0.0
    for l in range(n):
        _link_adjoint(tree, b, l, Z, work)
    for j in range(n - 1, -1, -1):
        p = tree.parent[j] if tree.parent[j] >= 0 else n
        cross_motion(b, p, TWIST, j, AXIS, _VS)  # c
        cross_motion(b, p, ACC, j, AXIS, _IS)
        cross_motion(b, p, TWIST, j, _VS, _IVS)
        by_q, by_v, by_a = 0.0, 0.0, 0.0
        for e in range(6):
            s, c = b[j, AXIS + e], b[j, _VS + e]
            a_bar, v_bar = b[j, _A_BAR + e], b[j, _V_BAR + e]
            by_a += s * a_bar
            by_v += s * v_bar + 2.0 * c * a_bar
            by_q += c * v_bar + (b[j, _IS + e] + b[j, _IVS + e]) * a_bar - s * b[j, _TURNS + e]
            if p < n:
                b[p, _A_BAR + e] += a_bar
                b[p, _V_BAR + e] += v_bar
        gq[j], gv[j], ga[j] = by_q, by_v, by_a
    _drive_adjoint(tree, v, w, Z, gv, ga)


@threaded
def regressor_rows(first, last, tree, q, v, a, entries, scale, Y):
    """Chosen entries of the regressors of samples first … last - 1, rows times their scale.

    `entries` (n_e, 4): row and column of Y, row and column of the output (n_t, n_rows, n_columns),
    which comes zeroed; `scale` (n_rows,). Without Python's lock and without threads of its own:
    several optimisations run at once.
    """
    n = tree.parent.size
    size = n * (11 + tree.term.size) + tree.coupled_term.size
    w = make_scratch(n, 0, tree.term.size, DYNAMICS_WIDTH)
    full = np.zeros((n, size))
    for t in range(first, last):
        place(tree, q[t], w)
        move(tree, v[t], a[t], True, tree.gravity, w.body)
        regressor(tree, v[t], a[t], w, full)
        for e in range(entries.shape[0]):
            k = entries[e, 2]
            Y[t, k, entries[e, 3]] = scale[k] * full[entries[e, 0], entries[e, 1]]


@threaded
def regressor_rows_adjoint(first, last, tree, q, v, a, entries, scale, Z, gq, gv, ga):
    """Gradients (n_t, n) of f by q, v, a from Z = df/dY of what `regressor_rows` writes."""
    n = tree.parent.size
    size = n * (11 + tree.term.size) + tree.coupled_term.size
    w = make_scratch(n, 0, tree.term.size, DERIVATIVES_WIDTH)
    full, work = np.zeros((n, size)), np.zeros(18)
    for t in range(first, last):
        place(tree, q[t], w)
        move(tree, v[t], a[t], True, tree.gravity, w.body)
        for e in range(entries.shape[0]):
            k = entries[e, 2]
            full[entries[e, 0], entries[e, 1]] = scale[k] * Z[t, k, entries[e, 3]]
        _regressor_adjoint(tree, v[t], w, full, work, gq[t], gv[t], ga[t])
