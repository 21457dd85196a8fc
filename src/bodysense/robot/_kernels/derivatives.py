"""Derivatives of the inverse dynamics by positions and velocities, compiled.

Carpentier and Mansard's recursion (RSS 2018) in base coordinates, where the force on a subtree
depends on a joint above it only through motions that are sums: with composite inertia I, its rate
B = V ×* I - I V× + (momentum)×, and for each axis S

    dV/dq = V_p × S          dA/dq = A_p × S + V_p × dV/dq
    dA/dv = V × S + dV/dq

    dtau_i/dq_j = S_iᵀ (I dA/dq + B dV/dq)_j      plus S_iᵀ (S_j ×* F_j) for j below i
    dtau_i/dv_j = S_iᵀ (I dA/dv + B S)_j

Fixed base only: what a closed-loop rollout needs.
"""

from __future__ import annotations

from bodysense.compiled.jit import inlined
from bodysense.robot._kernels.tree import (
    ACC,
    AXIS,
    DACC_Q,
    DACC_V,
    DFORCE_Q,
    DFORCE_V,
    DTWIST,
    FORCE,
    INERTIA,
    RATE,
    TWIST,
)


@inlined
def cross_motion(b, i, x, j, y, o):
    """Write column o of row j: X_i × Y_j, two twists that stand in columns x and y."""
    v0, v1, v2 = b[i, x], b[i, x + 1], b[i, x + 2]
    w0, w1, w2 = b[i, x + 3], b[i, x + 4], b[i, x + 5]
    y0, y1, y2 = b[j, y], b[j, y + 1], b[j, y + 2]
    z0, z1, z2 = b[j, y + 3], b[j, y + 4], b[j, y + 5]
    b[j, o] = w1 * y2 - w2 * y1 + v1 * z2 - v2 * z1
    b[j, o + 1] = w2 * y0 - w0 * y2 + v2 * z0 - v0 * z2
    b[j, o + 2] = w0 * y1 - w1 * y0 + v0 * z1 - v1 * z0
    b[j, o + 3] = w1 * z2 - w2 * z1
    b[j, o + 4] = w2 * z0 - w0 * z2
    b[j, o + 5] = w0 * z1 - w1 * z0


@inlined
def _inertia_rate(b, j):
    """B_j of body j alone, row-major 6 × 6, column by column: B x = V ×* I x - I (V × x) + x ×* p.

    p = I V is the momentum of the body.
    """
    m, h0, h1, h2 = b[j, INERTIA], b[j, INERTIA + 1], b[j, INERTIA + 2], b[j, INERTIA + 3]
    xx, xy, yy = b[j, INERTIA + 4], b[j, INERTIA + 5], b[j, INERTIA + 6]
    xz, yz, zz = b[j, INERTIA + 7], b[j, INERTIA + 8], b[j, INERTIA + 9]
    v0, v1, v2, w0, w1, w2 = (
        b[j, TWIST],
        b[j, TWIST + 1],
        b[j, TWIST + 2],
        b[j, TWIST + 3],
        b[j, TWIST + 4],
        b[j, TWIST + 5],
    )
    p0 = m * v0 + w1 * h2 - w2 * h1
    p1 = m * v1 + w2 * h0 - w0 * h2
    p2 = m * v2 + w0 * h1 - w1 * h0
    l0 = xx * w0 + xy * w1 + xz * w2 + h1 * v2 - h2 * v1
    l1 = xy * w0 + yy * w1 + yz * w2 + h2 * v0 - h0 * v2
    l2 = xz * w0 + yz * w1 + zz * w2 + h0 * v1 - h1 * v0
    for c in range(6):
        x0 = 1.0 if c == 0 else 0.0
        x1 = 1.0 if c == 1 else 0.0
        x2 = 1.0 if c == 2 else 0.0
        x3 = 1.0 if c == 3 else 0.0
        x4 = 1.0 if c == 4 else 0.0
        x5 = 1.0 if c == 5 else 0.0
        # momentum of the unit twist, q = I x
        q0 = m * x0 + x4 * h2 - x5 * h1
        q1 = m * x1 + x5 * h0 - x3 * h2
        q2 = m * x2 + x3 * h1 - x4 * h0
        k0 = xx * x3 + xy * x4 + xz * x5 + h1 * x2 - h2 * x1
        k1 = xy * x3 + yy * x4 + yz * x5 + h2 * x0 - h0 * x2
        k2 = xz * x3 + yz * x4 + zz * x5 + h0 * x1 - h1 * x0
        # y = V × x, and its momentum
        y0 = w1 * x2 - w2 * x1 + v1 * x5 - v2 * x4
        y1 = w2 * x0 - w0 * x2 + v2 * x3 - v0 * x5
        y2 = w0 * x1 - w1 * x0 + v0 * x4 - v1 * x3
        y3 = w1 * x5 - w2 * x4
        y4 = w2 * x3 - w0 * x5
        y5 = w0 * x4 - w1 * x3
        r0 = m * y0 + y4 * h2 - y5 * h1
        r1 = m * y1 + y5 * h0 - y3 * h2
        r2 = m * y2 + y3 * h1 - y4 * h0
        s0 = xx * y3 + xy * y4 + xz * y5 + h1 * y2 - h2 * y1
        s1 = xy * y3 + yy * y4 + yz * y5 + h2 * y0 - h0 * y2
        s2 = xz * y3 + yz * y4 + zz * y5 + h0 * y1 - h1 * y0
        # V ×* q - I y + x ×* p
        b[j, RATE + c] = w1 * q2 - w2 * q1 - r0 + x4 * p2 - x5 * p1
        b[j, RATE + 6 + c] = w2 * q0 - w0 * q2 - r1 + x5 * p0 - x3 * p2
        b[j, RATE + 12 + c] = w0 * q1 - w1 * q0 - r2 + x3 * p1 - x4 * p0
        b[j, RATE + 18 + c] = (
            w1 * k2 - w2 * k1 + v1 * q2 - v2 * q1 - s0 + x4 * l2 - x5 * l1 + x1 * p2 - x2 * p1
        )
        b[j, RATE + 24 + c] = (
            w2 * k0 - w0 * k2 + v2 * q0 - v0 * q2 - s1 + x5 * l0 - x3 * l2 + x2 * p0 - x0 * p2
        )
        b[j, RATE + 30 + c] = (
            w0 * k1 - w1 * k0 + v0 * q1 - v1 * q0 - s2 + x3 * l1 - x4 * l0 + x0 * p1 - x1 * p0
        )


@inlined
def apply_inertia(b, j, x, o):
    """Write column o of row j: the subtree's inertia times the twist in column x."""
    m, h0, h1, h2 = b[j, INERTIA], b[j, INERTIA + 1], b[j, INERTIA + 2], b[j, INERTIA + 3]
    s0, s1, s2 = b[j, x], b[j, x + 1], b[j, x + 2]
    s3, s4, s5 = b[j, x + 3], b[j, x + 4], b[j, x + 5]
    xy, xz, yz = b[j, INERTIA + 5], b[j, INERTIA + 7], b[j, INERTIA + 8]
    b[j, o] = m * s0 + s4 * h2 - s5 * h1
    b[j, o + 1] = m * s1 + s5 * h0 - s3 * h2
    b[j, o + 2] = m * s2 + s3 * h1 - s4 * h0
    b[j, o + 3] = b[j, INERTIA + 4] * s3 + xy * s4 + xz * s5 + h1 * s2 - h2 * s1
    b[j, o + 4] = xy * s3 + b[j, INERTIA + 6] * s4 + yz * s5 + h2 * s0 - h0 * s2
    b[j, o + 5] = xz * s3 + yz * s4 + b[j, INERTIA + 9] * s5 + h0 * s1 - h1 * s0


@inlined
def _add_rate(b, j, x, o):
    """Add to column o of row j: the rate of the subtree's inertia times the twist in column x."""
    for r in range(6):
        total = 0.0
        for c in range(6):
            total += b[j, RATE + 6 * r + c] * b[j, x + c]
        b[j, o + r] += total


@inlined
def _dot(b, i, x, j, y):
    """Scalar product of column x of row i and column y of row j."""
    return (
        b[i, x] * b[j, y]
        + b[i, x + 1] * b[j, y + 1]
        + b[i, x + 2] * b[j, y + 2]
        + b[i, x + 3] * b[j, y + 3]
        + b[i, x + 4] * b[j, y + 4]
        + b[i, x + 5] * b[j, y + 5]
    )


@inlined
def _turn_force(b, j):
    """Add S_j ×* F_j to the change of the subtree's force by q_j: it turns with the joint."""
    f0, f1, f2 = b[j, FORCE], b[j, FORCE + 1], b[j, FORCE + 2]
    f3, f4, f5 = b[j, FORCE + 3], b[j, FORCE + 4], b[j, FORCE + 5]
    s0, s1, s2 = b[j, AXIS], b[j, AXIS + 1], b[j, AXIS + 2]
    s3, s4, s5 = b[j, AXIS + 3], b[j, AXIS + 4], b[j, AXIS + 5]
    b[j, DFORCE_Q] += s4 * f2 - s5 * f1
    b[j, DFORCE_Q + 1] += s5 * f0 - s3 * f2
    b[j, DFORCE_Q + 2] += s3 * f1 - s4 * f0
    b[j, DFORCE_Q + 3] += s4 * f5 - s5 * f4 + s1 * f2 - s2 * f1
    b[j, DFORCE_Q + 4] += s5 * f3 - s3 * f5 + s2 * f0 - s0 * f2
    b[j, DFORCE_Q + 5] += s3 * f4 - s4 * f3 + s0 * f1 - s1 * f0


@inlined
def inverse_dynamics_derivatives(tree, b, row, dq, dv):
    """Write dtau/dq and dtau/dv (n, n) of the rigid-body part, where not zero by structure.

    Needs `place`, `move` with accelerations, `weigh` and `gather` before, in scratch of
    DERIVATIVES_WIDTH; `row` (6,) is working memory. Turns inertias into those of subtrees and
    uses the forces up.
    """
    n = tree.parent.size
    for j in range(n):
        p = tree.parent[j] if tree.parent[j] >= 0 else n
        _inertia_rate(b, j)
        cross_motion(b, p, TWIST, j, AXIS, DTWIST)
        cross_motion(b, p, ACC, j, AXIS, DACC_Q)
        cross_motion(b, p, TWIST, j, DTWIST, DACC_V)  # borrowed for a moment
        for e in range(6):
            b[j, DACC_Q + e] += b[j, DACC_V + e]
        cross_motion(b, j, TWIST, j, AXIS, DACC_V)
        for e in range(6):
            b[j, DACC_V + e] += b[j, DTWIST + e]
    for j in range(n - 1, -1, -1):
        apply_inertia(b, j, DACC_Q, DFORCE_Q)
        _add_rate(b, j, DTWIST, DFORCE_Q)
        apply_inertia(b, j, DACC_V, DFORCE_V)
        _add_rate(b, j, AXIS, DFORCE_V)
        for c in range(6):  # S_jᵀ B of the subtree, for the joints above
            total = 0.0
            for r in range(6):
                total += b[j, AXIS + r] * b[j, RATE + 6 * r + c]
            row[c] = total
        dq[j, j] = _dot(b, j, AXIS, j, DFORCE_Q)
        dv[j, j] = _dot(b, j, AXIS, j, DFORCE_V)
        _turn_force(b, j)
        apply_inertia(b, j, AXIS, FORCE)  # the force itself is not needed again
        i = tree.parent[j]
        while i >= 0:
            dq[i, j] = _dot(b, i, AXIS, j, DFORCE_Q)
            dv[i, j] = _dot(b, i, AXIS, j, DFORCE_V)
            dq[j, i] = _dot(b, i, DACC_Q, j, FORCE)
            dv[j, i] = _dot(b, i, DACC_V, j, FORCE)
            for e in range(6):
                dq[j, i] += row[e] * b[i, DTWIST + e]
                dv[j, i] += row[e] * b[i, AXIS + e]
            i = tree.parent[i]
        p = tree.parent[j]
        if p >= 0:
            for e in range(10):
                b[p, INERTIA + e] += b[j, INERTIA + e]
            for e in range(36):
                b[p, RATE + e] += b[j, RATE + e]
