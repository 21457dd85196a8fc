"""Marginal covariances of all unknowns, from the root to the leaves, compiled.

Elimination left every body's unknowns given those next to it: alpha_i and what its wrench balance
adds up, given the parent's acceleration and the wrench f_i. Here the covariance of (a_p, f_i) goes
down the tree, and each step adds terms that are positive: nothing is subtracted, so that small
variances beside large ones keep their digits.

    alpha_i = A alpha_p + c + noise(Q),   f_i = F alpha_i + phi + noise(P)
    s_i = f_i - F alpha_i - phi = Σ parts,   part | s ~ N(P_part J s, P_part - P_part J P_part)

with J the generalised inverse of the parts' covariance; parts are the children's wrenches, the
external wrench, and the slack of the balance.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

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
    add,
    add_congruence,
    add_product,
    backward,
    clear,
    copy,
    factorise,
    forward,
    identity_minus,
    product,
    semidefinite_inverse,
    symmetric,
)
from bodysense.robot._kernels.jit import allocating, called, merged
from bodysense.spatial.arrays import Array

# Matrices (6, 6) in `Spread.work6`.
ADJUSTED = 0  # covariance of the sum of parts
GAIN = 1
ONE = 2  # 1 - GAIN
REST = 3  # covariance of the other parts
NOISE = 4
SCRATCH = 5
SLACK = 6


class Spread(NamedTuple):
    """Covariances, and the memory to find them."""

    joint: Array  # (n, 13, 13) of (alpha_i, f_i)
    between: Array  # (n, 12, 12) of (a_p, f_i)
    external: Array  # (n, 6, 6) of fx_i
    torque: Array  # (n,) variance
    slack_acceleration: Array  # (n, 6, 6) of the slack of the acceleration equation
    slack_wrench: Array  # (n, 6, 6)
    slack_torque: Array  # (n,)
    sum: Array  # (n, 6, 6) of s_i
    J: Array  # (n, 6, 6)
    child: NDArray[np.int64]  # (n,) last child of each body, or -1
    sibling: NDArray[np.int64]  # (n,) the child before, or -1
    work6: Array  # (7, 6, 6)
    G: Array  # (7, 6)
    M: Array  # (7, 12)
    work7: Array  # (3, 7, 7)
    work67: Array  # (2, 6, 7)
    work76: Array  # (7, 6)
    work712: Array  # (7, 12)
    work612: Array  # (2, 6, 12)
    work613: Array  # (2, 6, 13)
    h: Array  # (3, 1, 13)


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
        np.zeros((n, 6, 6)),
        np.zeros(n, np.int64),
        np.zeros(n, np.int64),
        np.zeros((7, 6, 6)),
        np.zeros((7, 6)),
        np.zeros((7, 12)),
        np.zeros((3, 7, 7)),
        np.zeros((2, 6, 7)),
        np.zeros((7, 6)),
        np.zeros((7, 12)),
        np.zeros((2, 6, 12)),
        np.zeros((2, 6, 13)),
        np.zeros((3, 1, 13)),
    )


@called
def put(block, at, out):
    """Write a block onto the diagonal of out."""
    for j in range(block.shape[0]):
        for k in range(block.shape[1]):
            out[at + j, at + k] = block[j, k]


@called
def list_children(parent, child, sibling):
    """Chains of the children of each body: `child`, then `sibling` of that, until -1."""
    for i in range(parent.size):
        child[i] = -1
        if i > 0:
            sibling[i] = child[parent[i]]
            child[parent[i]] = i


@merged
def alpha_given_neighbours(M, G, Q, A, between, gain, map, J, work7, FQ, work76, work712, joint):
    """(13, 13) covariance of (alpha_i, f_i) from that of (a_p, f_i).

    alpha = A a_p + K (f - F1 a_p) + noise,  K = Q Fᵀ P1⁻¹; the noise has the covariance
    (1 - K F) Q (1 - K F)ᵀ + K P Kᵀ. Leaves K in gain, (A - K F1, K) in map, 1 - K F in work7[0].
    """
    semidefinite_inverse(M[COV_ABOVE], joint, J)
    product(G[SLOPE], Q, FQ)
    product(FQ.T, J, gain)
    left, C = work7[0], work7[1]
    product(gain, G[SLOPE_ABOVE], left)
    for j in range(7):
        for k in range(6):
            map[j, k] = A[j, k] - left[j, k]
            map[j, 6 + k] = gain[j, k]
    identity_minus(gain, G[SLOPE], left)
    product(map, between, work712)
    product(work712, map.T, C)
    add_congruence(left, Q, work7[2], C)
    add_congruence(gain, M[COV], work76, C)
    symmetric(C)
    put(C, 0, joint)
    for j in range(7):
        for k in range(6):
            joint[j, 7 + k] = joint[7 + k, j] = work712[j, 6 + k]
    for j in range(6):
        for k in range(6):
            joint[7 + j, 7 + k] = between[6 + j, 6 + k]


@merged
def sum_of_parts(M, G, joint, J, of_sum, work, work7):
    """Covariance of s = f - F alpha, and the generalised inverse of the parts' covariance."""
    semidefinite_inverse(M[COV_BEFORE], work7, J)
    map = work[0]
    clear(map)
    for j in range(6):
        for k in range(7):
            map[j, k] = -G[SLOPE_BEFORE, j, k]
        map[j, 7 + j] = 1.0
    clear(of_sum)
    add_congruence(map, joint, work[1], of_sum)


@merged
def part_given_sum(P, J, of_sum, work, out):
    """Covariance of a part with the covariance P, from that of the sum of all parts.

    K = P J maps the sum to the part: K (of_sum + rest) Kᵀ + (1 - K) P (1 - K)ᵀ, where work[REST]
    holds the covariance of the other parts.
    """
    copy(of_sum, work[ADJUSTED])
    add(1.0, work[REST], work[ADJUSTED])
    product(P, J, work[GAIN])
    identity_minus(P, J, work[ONE])
    clear(out)
    add_congruence(work[GAIN], work[ADJUSTED], work[SCRATCH], out)
    add_congruence(work[ONE], P, work[SCRATCH], out)
    symmetric(out)


@merged
def child_wrench(M, G, G_above, J, joint, work, work613, out):
    """(12, 12) covariance of (a_i, f_c) for a child c of body i: M, G are the child's.

    f_c = F2 a_i + K (f_i - F alpha_i) + noise, K = P2 X J; work[REST] holds the covariance of the
    other parts of the balance of body i.
    """
    X, P2 = M[TRANSFORM], M[COV_AFTER]
    map, row = work613[0], work613[1]
    product(P2, X, work[ONE])
    product(work[ONE], J, work[GAIN])
    identity_minus(work[GAIN], X.T, work[ONE])
    for j in range(6):
        for k in range(7):
            map[j, k] = G[SLOPE_AFTER, j, k]
        for k in range(6):
            map[j, 7 + k] = work[GAIN, j, k]
    add_product(-1.0, work[GAIN], G_above[SLOPE_BEFORE], map)
    product(map, joint, row)
    product(row, map.T, work[NOISE])
    add_congruence(work[ONE], P2, work[SCRATCH], work[NOISE])
    add_congruence(work[GAIN], work[REST], work[SCRATCH], work[NOISE])
    symmetric(work[NOISE])
    for j in range(6):
        for k in range(6):
            out[j, k] = joint[j, k]
            out[6 + j, k] = out[k, 6 + j] = row[j, k]
            out[6 + j, 6 + k] = work[NOISE, j, k]


@called
def slack_told(first, last, slack, readings, factors, gains, slack_map):
    """What a block of readings of the torque says about the slack of tau = Sᵀ f.

    Given f and alpha it is g (y - H f - G alpha) with g = slack tᵀ R⁻¹, up to a variance
    slack (1 - g t), of which slack · g t is returned. Adds -g (G, H) to slack_map.
    """
    t, L, g = readings.on_torque[first:last], factors[first:last], gains[first:last]
    on_alpha, on_wrench = readings.on_alpha[first:last], readings.on_wrench[first:last]
    copy(readings.covariance[first:last], L)  # the factor there is spent
    for a in range(t.size):
        g[a, 0] = slack * t[a]
    factorise(L, 0.0)
    forward(L, g)
    backward(L, g)
    told = 0.0
    for a in range(t.size):
        told += slack * g[a, 0] * t[a]
        for k in range(7):
            slack_map[0, k] -= g[a, 0] * on_alpha[a, k]
        for k in range(6):
            slack_map[0, 7 + k] -= g[a, 0] * on_wrench[a, k]
    return told


@called
def torque_variances(S, joint, left, h, torque, slack):
    """Variances of tau = Sᵀ f + slack and of the slack: h[0] (alpha, f) up to a variance left."""
    for k in range(13):
        h[1, 0, k] = h[0, 0, k] + (S[k - 7] if k >= 7 else 0.0)
    product(h[0], joint, h[2])
    x = y = max(left, 0.0)
    for k in range(13):
        x += h[2, 0, k] * h[0, 0, k]
    product(h[1], joint, h[2])
    for k in range(13):
        y += h[2, 0, k] * h[1, 0, k]
    slack[0] = x
    torque[0] = y


@merged
def acceleration_slack(M, Q, S, map, gain, left, between, work612, work67, work, out):
    """Covariance of a_i - X a_p - S joint acceleration, from what `alpha_given_neighbours` left.

    With alpha = map (a_p, f) + noise, it is (T map - (X, 0)) (a_p, f) + T noise, T = (1, -S).
    """
    for j in range(6):
        for k in range(12):
            work612[0, j, k] = map[j, k] - S[j] * map[6, k]
        for k in range(6):
            work612[0, j, k] -= M[TRANSFORM, j, k]
            work[GAIN, j, k] = gain[j, k] - S[j] * gain[6, k]
        for k in range(7):
            work67[0, j, k] = left[j, k] - S[j] * left[6, k]
    clear(out)
    add_congruence(work612[0], between, work612[1], out)
    add_congruence(work67[0], Q, work67[1], out)
    add_congruence(work[GAIN], M[COV], work[SCRATCH], out)
    symmetric(out)


@called
def other_parts(one, children, M, slack, rest):
    """Covariance of the slack of a balance and of all wrenches of children, but for one."""
    copy(slack, rest)
    c, sibling = children
    while c >= 0:
        if c != one:
            add(1.0, M[c, COV_ON_PARENT], rest)
        c = sibling[c]


@merged
def spread(bodies, readings, beliefs, w, s, slacks):
    """All marginal covariances; after `eliminate` and `substitute`."""
    begin, block_first, on_torque = readings.begin, readings.first, readings.on_torque
    parent, slack_wrench = bodies.parent, beliefs.slack_wrench
    M, G, Q, L = w.M, w.G, w.Q, w.L
    joint, between, J, of_sum = s.joint, s.between, s.J, s.sum
    child, sibling = s.child, s.sibling
    work6, work613, h = s.work6, s.work613, s.h
    list_children(parent, child, sibling)
    clear(joint[0])
    for i in range(parent.size):
        p, S = parent[i], bodies.S[i]
        if i == 0 and bodies.floating == 0:
            continue
        if i == 0:
            put(Q[0], 0, joint[0])
        else:
            if p == 0 and bodies.floating == 0:
                clear(between[i])
                put(M[i, COV_AFTER], 6, between[i])
            else:
                other_parts(i, (child[p], sibling), M, slack_wrench[p], work6[REST])
                add(1.0, M[p, EXTERNAL_COV], work6[REST])
                child_wrench(M[i], G[i], G[p], J[p], joint[p], work6, work613, between[i])
            FQ = s.work67[0]
            alpha_given_neighbours(
                M[i],
                G[i],
                Q[i],
                w.A[i],
                between[i],
                s.G,
                s.M,
                J[i],
                s.work7,
                FQ,
                s.work76,
                s.work712,
                joint[i],
            )
            if slacks:
                acceleration_slack(
                    M[i],
                    Q[i],
                    S,
                    s.M,
                    s.G,
                    s.work7[0],
                    between[i],
                    s.work612,
                    s.work67,
                    work6,
                    s.slack_acceleration[i],
                )
            clear(h[0])
            left = beliefs.slack_torque[i]
            if left > 0.0:
                for block in range(begin[i, OWN_WRENCH], begin[i, OWN_WRENCH + 1]):
                    a, b = block_first[block], block_first[block + 1]
                    if w.present[block] == 1 and on_torque[a] != 0.0:
                        left -= slack_told(a, b, beliefs.slack_torque[i], readings, L, w.gain, h[0])
            torque_variances(S, joint[i], left, h, s.torque[i:], s.slack_torque[i:])
        sum_of_parts(M[i], G[i], joint[i], J[i], of_sum[i], work613, s.work7[0])
        other_parts(-1, (child[i], sibling), M, slack_wrench[i], work6[REST])
        # the external wrench enters with a minus, which a covariance does not see
        part_given_sum(M[i, EXTERNAL_COV], J[i], of_sum[i], work6, s.external[i])
        if slacks:
            copy(slack_wrench[i], work6[SLACK])
            add(1.0, M[i, EXTERNAL_COV], work6[REST])
            add(-1.0, work6[SLACK], work6[REST])
            part_given_sum(work6[SLACK], J[i], of_sum[i], work6, s.slack_wrench[i])
