"""Marginal covariances of all unknowns, from the root to the leaves, compiled.

Elimination left every body's unknowns given those next to it: alpha_i and what its wrench balance
adds up, given the parent's acceleration and the wrench f_i. Here the covariance of (a_p, f_i) goes
down the tree, and each step adds terms that are positive: nothing is subtracted, so that small
variances beside large ones keep their digits.

    s_i = f_i - F alpha_i - phi = Σ parts,   part | s ~ N(P_part J s, P_part - P_part J P_part)

with J the generalised inverse of the parts' covariance; parts are the children's wrenches, the
external wrench, and the slack of the balance.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bodysense.estimation._kernels.problem import (
    COV,
    COV_ABOVE,
    COV_AFTER,
    COV_BEFORE,
    COV_ON_PARENT,
    EXTERNAL_COV,
    OWN_WRENCH,
    SLOPE,
    SLOPE_ABOVE,
    SLOPE_AFTER,
    SLOPE_BEFORE,
    TRANSFORM,
)
from bodysense.estimation._kernels.small import (
    add_product_transposed,
    clear,
    congruence,
    copy,
    product,
    semidefinite_inverse,
)
from bodysense.robot._kernels.jit import allocating, called
from bodysense.spatial.arrays import Array


class Spread(NamedTuple):
    """Covariances, and the memory to find them."""

    joint: Array  # (n, 13, 13) of (alpha_i, f_i)
    between: Array  # (n, 12, 12) of (a_p, f_i)
    external: Array  # (n, 6, 6) of fx_i
    torque: Array  # (n,) variance
    slack_acceleration: Array  # (n, 6, 6) of the slack of the acceleration equation
    slack_wrench: Array  # (n, 6, 6)
    slack_torque: Array  # (n,)
    J: Array  # (n, 6, 6)
    work6: Array  # (4, 6, 6)
    G: Array  # (7, 6)
    M: Array  # (7, 12)
    work7_12: Array
    work7: Array  # (2, 7, 7)
    work6_7: Array
    work6_13: Array
    map6_13: Array
    work7_6: Array
    slack_map: Array  # (6, 12)


@allocating
def make_spread(n):
    """Allocate for n bodies."""
    return Spread(
        np.zeros((n, 13, 13)),
        np.zeros((n, 12, 12)),
        np.zeros((n, 6, 6)),
        np.zeros(n),
        np.zeros((n, 6, 6)),
        np.zeros((n, 6, 6)),
        np.zeros(n),
        np.zeros((n, 6, 6)),
        np.zeros((4, 6, 6)),
        np.zeros((7, 6)),
        np.zeros((7, 12)),
        np.zeros((7, 12)),
        np.zeros((2, 7, 7)),
        np.zeros((6, 7)),
        np.zeros((6, 13)),
        np.zeros((6, 13)),
        np.zeros((7, 6)),
        np.zeros((6, 12)),
    )


@called
def symmetric(A):
    """Remove what rounding made of the difference between A and Aᵀ."""
    for i in range(A.shape[0]):
        for j in range(i):
            x = 0.5 * (A[i, j] + A[j, i])
            A[i, j] = x
            A[j, i] = x


@called
def alpha_given_neighbours(
    F, F1, P, P1, Q, A, between, s_G, s_M, J, L, left, right, work67, work712, joint
):
    """(13, 13) covariance of (alpha_i, f_i) from that of (a_p, f_i); leaves the map in s_M, s_G.

    alpha = A a_p + G (f - F1 a_p) + noise,  G = Q Fᵀ P1⁻¹; the noise has the covariance
    (1 - G F) Q (1 - G F)ᵀ + G P Gᵀ.
    """
    semidefinite_inverse(P1, 6, L, J)
    product(F, Q, work67)  # F Q
    for j in range(7):
        for k in range(6):
            x = 0.0
            for l in range(6):
                x += work67[l, j] * J[l, k]
            s_G[j, k] = x
    for j in range(7):
        for k in range(6):
            x = A[j, k]
            for l in range(6):
                x -= s_G[j, l] * F1[l, k]
            s_M[j, k] = x
            s_M[j, 6 + k] = s_G[j, k]
        for k in range(7):
            x = 1.0 if j == k else 0.0
            for l in range(6):
                x -= s_G[j, l] * F[l, k]
            left[j, k] = x
    product(s_M, between, work712)
    clear(joint)
    add_product_transposed(1.0, work712, s_M, joint[:7, :7])
    congruence(left, Q, right, joint[:7, :7])
    for j in range(7):
        for k in range(6):
            x = 0.0
            for l in range(6):
                x += s_G[j, l] * P[l, k]
            work712[j, k] = x
    for j in range(7):
        for k in range(7):
            x = 0.0
            for l in range(6):
                x += work712[j, l] * s_G[k, l]
            joint[j, k] += x
        for k in range(6):
            x = 0.0
            for l in range(12):
                x += s_M[j, l] * between[l, 6 + k]
            joint[j, 7 + k] = x
            joint[7 + k, j] = x
    copy(between[6:, 6:], joint[7:, 7:])
    symmetric(joint)


@called
def part_given_sum(P, Pu, rest, J, of_sum, gain, one, work, out):
    """Covariance of a part that has the covariance P, from that of the sum of all parts.

    gain = Pu J maps the sum to the part, one = 1 - gain (as it acts on the part), rest is the
    covariance of the other parts: out = gain of_sum gainᵀ + one P oneᵀ + gain rest gainᵀ.
    """
    clear(out)
    congruence(gain, of_sum, work, out)
    congruence(one, P, work, out)
    congruence(gain, rest, work, out)
    symmetric(out)


@called
def balance_parts(i, bodies, beliefs, w, s):
    """External wrench and slack of body i, and (a_i, f_j) of its children."""
    Fm, J = w.G[i, SLOPE_BEFORE], s.J[i]
    joint = s.joint[i]
    semidefinite_inverse(w.M[i, COV_BEFORE], 6, s.work6[0], J)
    # covariance of s = f - Fm alpha
    for j in range(6):
        for k in range(7):
            s.map6_13[j, k] = -Fm[j, k]
        for k in range(6):
            s.map6_13[j, 7 + k] = 1.0 if j == k else 0.0
    of_sum = s.work6[0]
    clear(of_sum)
    congruence(s.map6_13, joint, s.work6_13, of_sum)
    gain, one, rest = s.work6[1], s.work6[2], s.work6[3]
    # the external wrench enters with a minus, which a covariance does not see
    product(w.M[i, EXTERNAL_COV], J, gain)
    for j in range(6):
        for k in range(6):
            one[j, k] = (1.0 if j == k else 0.0) - gain[j, k]
            rest[j, k] = beliefs.slack_wrench[i, j, k]
    for c in range(i + 1, bodies.parent.size):
        if bodies.parent[c] == i:
            for j in range(6):
                for k in range(6):
                    rest[j, k] += w.M[c, COV_ON_PARENT, j, k]
    P = w.M[i, EXTERNAL_COV]
    part_given_sum(P, P, rest, J, of_sum, gain, one, w.work6[0], s.external[i])
    # the slack of the balance
    for j in range(6):
        for k in range(6):
            rest[j, k] += w.M[i, EXTERNAL_COV, j, k] - beliefs.slack_wrench[i, j, k]
    product(beliefs.slack_wrench[i], J, gain)
    for j in range(6):
        for k in range(6):
            one[j, k] = (1.0 if j == k else 0.0) - gain[j, k]
    P = beliefs.slack_wrench[i]
    part_given_sum(P, P, rest, J, of_sum, gain, one, w.work6[0], s.slack_wrench[i])


@called
def child_wrench(c, i, bodies, beliefs, w, s):
    """(12, 12) covariance of (a_i, f_c) for a child c of body i."""
    gain, one, rest = s.work6[1], s.work6[2], s.work6[3]
    X, P2 = w.M[c, TRANSFORM], w.M[c, COV_AFTER]
    joint, out = s.joint[i], s.between[c]
    for j in range(6):
        for k in range(6):
            rest[j, k] = beliefs.slack_wrench[i, j, k] + w.M[i, EXTERNAL_COV, j, k]
    for other in range(i + 1, bodies.parent.size):
        if bodies.parent[other] == i and other != c:
            for j in range(6):
                for k in range(6):
                    rest[j, k] += w.M[other, COV_ON_PARENT, j, k]
    product(P2, X, one)
    product(one, s.J[i], gain)  # maps the sum to f_c
    for j in range(6):
        for k in range(6):
            x = 1.0 if j == k else 0.0
            for l in range(6):
                x -= gain[j, l] * X[k, l]
            one[j, k] = x
    # f_c = F2 a_i + gain (f_i - Fm alpha_i) + noise
    for j in range(6):
        for k in range(7):
            x = w.M[c, SLOPE_AFTER, j, k] if k < 6 else 0.0
            for l in range(6):
                x -= gain[j, l] * w.G[i, SLOPE_BEFORE, l, k]
            s.map6_13[j, k] = x
        for k in range(6):
            s.map6_13[j, 7 + k] = gain[j, k]
    product(s.map6_13, joint, s.work6_13)
    for j in range(6):
        for k in range(6):
            out[j, k] = joint[j, k]
            x = s.work6_13[j, k]
            out[6 + j, k] = x
            out[k, 6 + j] = x
    ff = s.work6[0]
    clear(ff)
    add_product_transposed(1.0, s.work6_13, s.map6_13, ff)
    congruence(one, P2, w.work6[0], ff)
    congruence(gain, rest, w.work6[0], ff)
    symmetric(ff)
    copy(ff, out[6:, 6:])


@called
def torque_variance(i, bodies, readings, beliefs, w, s):
    """Variance of tau_i = Sᵀ f_i + slack, and that of the slack itself.

    The readings of the torque tell about the slack: given f and alpha it is g (y - H f - G alpha)
    with g = slack tᵀ R⁻¹, up to a variance slack (1 - g t).
    """
    h = w.work7[0, :2]
    for k in range(7):
        h[0, k] = 0.0
        h[1, k] = bodies.S[i, k] if k < 6 else 0.0
        w.work7[2, 0, k] = 0.0
        w.work7[2, 1, k] = 0.0
    slack = beliefs.slack_torque[i]
    left = slack
    if slack > 0.0:
        for block in range(readings.begin[i, OWN_WRENCH], readings.begin[i, OWN_WRENCH + 1]):
            first, last = readings.first[block], readings.first[block + 1]
            if w.present[block] == 0 or readings.on_torque[first] == 0.0:
                continue
            m = last - first
            g = w.wm[:m, :1]
            for a in range(m):
                g[a, 0] = slack * readings.on_torque[first + a]
            L = w.L[first:last]  # spent: the factor of R takes its place
            for a in range(m):
                for b in range(a + 1):
                    x = readings.covariance[first + a, b]
                    for c in range(b):
                        x -= L[a, c] * L[b, c]
                    L[a, b] = np.sqrt(max(x, 1e-300)) if a == b else x / L[b, b]
            for a in range(m):
                x = g[a, 0]
                for b in range(a):
                    x -= L[a, b] * g[b, 0]
                g[a, 0] = x / L[a, a]
            for a in range(m - 1, -1, -1):
                x = g[a, 0]
                for b in range(a + 1, m):
                    x -= L[b, a] * g[b, 0]
                g[a, 0] = x / L[a, a]
            for a in range(m):
                left -= slack * g[a, 0] * readings.on_torque[first + a]
                for k in range(7):
                    h[0, k] -= g[a, 0] * readings.on_alpha[first + a, k]
                    if k < 6:
                        x = g[a, 0] * readings.on_wrench[first + a, k]
                        h[1, k] -= x
                        w.work7[2, 1, k] -= x
                    w.work7[2, 0, k] = h[0, k]
    total = part = max(left, 0.0)
    for j in range(13):
        hj = h[0, j] if j < 7 else h[1, j - 7]
        pj = w.work7[2, 0, j] if j < 7 else w.work7[2, 1, j - 7]
        for k in range(13):
            hk = h[0, k] if k < 7 else h[1, k - 7]
            pk = w.work7[2, 0, k] if k < 7 else w.work7[2, 1, k - 7]
            total += hj * s.joint[i, j, k] * hk
            part += pj * s.joint[i, j, k] * pk
    s.torque[i] = total
    s.slack_torque[i] = part


@called
def acceleration_slack(i, bodies, w, s):
    """Covariance of a_i - X a_p - S joint acceleration; needs the map of this body in s.M, s.G.

    With alpha = M (a_p, f) + noise, it is T M - (X, 0) of (a_p, f), and T noise, T = (1, -S).
    """
    for j in range(6):
        for k in range(12):
            x = s.M[j, k] - bodies.S[i, j] * s.M[6, k]
            if k < 6:
                x -= w.M[i, TRANSFORM, j, k]
            s.slack_map[j, k] = x
    out = s.slack_acceleration[i]
    clear(out)
    congruence(s.slack_map, s.between[i], s.work7_12[:6], out)
    # noise of alpha: left Q leftᵀ + G P Gᵀ, with left in s.work7[0]
    for j in range(6):
        for k in range(7):
            s.work6_7[j, k] = s.work7[0, j, k] - bodies.S[i, j] * s.work7[0, 6, k]
        for k in range(6):
            s.work6[0, j, k] = s.G[j, k] - bodies.S[i, j] * s.G[6, k]
    congruence(s.work6_7, w.Q[i], s.work6_13[:, :7], out)
    congruence(s.work6[0], w.M[i, COV], s.work6[1], out)
    symmetric(out)


@called
def spread(bodies, readings, beliefs, w, s):
    """All marginal covariances; after `eliminate` and `substitute`."""
    n = bodies.parent.size
    clear(s.joint[0])
    if bodies.floating == 1:
        copy(w.Q[0], s.joint[0, :7, :7])
        balance_parts(0, bodies, beliefs, w, s)
    for i in range(1, n):
        parent = bodies.parent[i]
        if parent == 0 and bodies.floating == 0:
            clear(s.between[i])
            copy(w.M[i, COV_AFTER], s.between[i, 6:, 6:])
        else:
            child_wrench(i, parent, bodies, beliefs, w, s)
        alpha_given_neighbours(
            w.G[i, SLOPE],
            w.M[i, SLOPE_ABOVE],
            w.M[i, COV],
            w.M[i, COV_ABOVE],
            w.Q[i],
            w.A[i],
            s.between[i],
            s.G,
            s.M,
            s.J[i],
            s.work6[0],
            s.work7[0],
            s.work7[1],
            s.work6_7,
            s.work7_12,
            s.joint[i],
        )
        acceleration_slack(i, bodies, w, s)
        balance_parts(i, bodies, beliefs, w, s)
        torque_variance(i, bodies, readings, beliefs, w, s)
