"""Derivatives of equations and readings by the state, as further right-hand sides, compiled.

At a state x and a solution d, for every unknown h of the state (paper 000, section VI, with the
terms that its print leaves out):

    a_i = X_i a_p + S q̈ + c_i:                    ∂(X_i a_p + c_i)/∂x_h
    f_i = I a_i + p_i - fx_i + Σ X_jᵀ f_j:        ∂(p_i + Σ X_jᵀ f_j)/∂x_h
    y - b:                                        -∂(Y d + b)/∂x_h

from ∂v_i/∂x_h, with ∂X/∂q = -(S ×) X for the joint's own position. The columns are those of the
joints' positions, their velocities, then on request their accelerations and the angular velocity
of a floating root.
"""

from __future__ import annotations

import numpy as np

from bodysense.estimation._kernels.elimination import eliminate, substitute
from bodysense.estimation._kernels.motion import (
    cross,
    cross_force,
    move,
    offsets,
    readings_without_motion,
)
from bodysense.estimation._kernels.problem import (
    ALPHA_FOUND,
    ALPHA_OFFSET,
    BALANCE,
    EXTERNAL_FOUND,
    PARENT_SIDE,
    TRANSFORM,
    WRENCH_FOUND,
)
from bodysense.robot._kernels.friction import friction_basis
from bodysense.robot._kernels.jit import called, threaded


@called
def twist_columns(bodies, dq, velocities, X, S, twist, dv, work):
    """∂v_i/∂x_h (n, columns, 6): positions first, velocities from column `velocities` on."""
    for i in range(1, bodies.parent.size):
        parent, joint = bodies.parent[i], bodies.joint[i]
        for h in range(dv.shape[1]):
            for j in range(6):
                x = 0.0
                for k in range(6):
                    x += X[i, TRANSFORM, j, k] * dv[parent, h, k]
                dv[i, h, j] = x
        # -(S ×) X v_p = -(S ×)(v_i - S q̇) = v_i × S
        cross(twist[i], S[i], work)
        for j in range(6):
            dv[i, joint, j] += work[j]
            dv[i, velocities + joint, j] += S[i, j]


@called
def equation_columns(bodies, dq, w, d, dv, velocities, accelerations):
    """Right-hand sides 1 … of the equations, from the solution d (n, 20)."""
    n, columns = bodies.parent.size, dv.shape[1]
    momentum, push, moved, along = w.work7[0, 0], w.work7[0, 1], w.work7[0, 2], w.work7[0, 3]
    for i in range(n):
        v, I = w.twist[i], bodies.inertia[i]
        for j in range(6):
            x = 0.0
            for k in range(6):
                x += I[j, k] * v[k]
            momentum[j] = x
        for h in range(columns):
            dvh = dv[i, h]
            cross_force(dvh, momentum, push)
            for j in range(6):
                x = 0.0
                for k in range(6):
                    x += I[j, k] * dvh[k]
                along[j] = x
            cross_force(v, along, moved)
            for j in range(6):
                w.V[i, BALANCE, j, 1 + h] = push[j] + moved[j]
        if i == 0:
            continue
        joint = bodies.joint[i]
        speed, parent = dq[joint], bodies.parent[i]
        for h in range(columns):
            cross(dv[i, h], bodies.S[i], push)
            for j in range(6):
                w.Z[i, ALPHA_OFFSET, j, 1 + h] = push[j] * speed
            w.Z[i, ALPHA_OFFSET, 6, 1 + h] = 0.0
        cross(v, bodies.S[i], push)
        for j in range(6):
            w.Z[i, ALPHA_OFFSET, j, 1 + velocities + joint] += push[j]
            x = 0.0
            for k in range(6):
                x += w.M[i, TRANSFORM, j, k] * d[parent, k]
            along[j] = x
        cross(along, bodies.S[i], push)  # -(S ×) X a_p
        for j in range(6):
            w.Z[i, ALPHA_OFFSET, j, 1 + joint] += push[j]
        if accelerations >= 0:
            for j in range(6):
                w.Z[i, ALPHA_OFFSET, j, 1 + accelerations + joint] += bodies.S[i, j]
            w.Z[i, ALPHA_OFFSET, 6, 1 + accelerations + joint] += 1.0
    # ∂(Xᵀ f)/∂q = Xᵀ (S ×* f), on the parent
    for i in range(1, n):
        parent, joint = bodies.parent[i], bodies.joint[i]
        cross_force(bodies.S[i], d[i, 6:12], push)
        for j in range(6):
            x = 0.0
            for k in range(6):
                x += w.M[i, TRANSFORM, k, j] * push[k]
            w.V[parent, BALANCE, j, 1 + joint] += x


@called
def reading_columns(bodies, tree, drive, readings, dq, w, d, dv, velocities, phi, dphi):
    """Right-hand sides 1 … of the readings."""
    columns = dv.shape[1]
    push, slope = w.work7[0, 0], w.work7[0, 1]
    for i in range(bodies.parent.size):
        for block in range(readings.begin[i, 0], readings.begin[i, PARENT_SIDE + 1]):
            mover = readings.mover[block]
            v = w.twist[mover]
            for a in range(readings.first[block], readings.first[block + 1]):
                for j in range(6):
                    x = readings.linear[a, j]
                    for k in range(6):
                        x += 2.0 * readings.quadratic[a, j, k] * v[k]
                    slope[j] = x
                for h in range(columns):
                    x = 0.0
                    for j in range(6):
                        x -= slope[j] * dv[mover, h, j]
                    w.Y[a, 1 + h] = x
                joint = readings.joint[a]
                if joint >= 0:
                    w.Y[a, 1 + joint] -= readings.position[a]
                    w.Y[a, 1 + velocities + joint] -= readings.velocity[a]
                joint = readings.friction[a]
                if joint >= 0:
                    friction_basis(tree, joint, dq[joint], phi, dphi)
                    x = 0.0
                    for k in range(drive.shape[1]):
                        x += drive[joint, k] * dphi[k]
                    w.Y[a, 1 + velocities + joint] -= x
                if readings.begin[i, PARENT_SIDE] <= block:
                    # the wrench on the parent is -Xᵀ f: its change by q is -Xᵀ (S ×* f)
                    cross_force(bodies.S[i], d[i, 6:12], push)
                    x = 0.0
                    for j in range(6):
                        for k in range(6):
                            x += readings.on_wrench[a, j] * w.M[i, TRANSFORM, k, j] * push[k]
                    w.Y[a, 1 + bodies.joint[i]] += x


@threaded
def linearise(
    bodies, tree, drive, readings, beliefs, w, dv, q, dq, twist, a0, y, at, accelerations, out
):
    """Solve one moment with the derivatives by its state as further right-hand sides.

    w is for 1 + columns + more right-hand sides, of which those behind the columns of the state are
    the caller's, set before. dv (n, columns, 6) takes the derivatives of twists, zero but for those
    of the root. `at` (n, 20) is the solution at which products of state and solution are
    differentiated; `accelerations` the first column of joint accelerations, or -1. The solution and
    its derivatives go to out (n, 20, r), whitened residuals alike to w.left.
    """
    phi, dphi = np.zeros(max(1, drive.shape[1])), np.zeros(max(1, drive.shape[1]))
    velocities = dq.size
    move(bodies, q, dq, twist, w)
    offsets(bodies, beliefs, dq, a0, w)
    readings_without_motion(tree, drive, readings, q, dq, y, phi, dphi, w)
    twist_columns(bodies, dq, velocities, w.M, bodies.S, w.twist, dv, w.work7[0, 0])
    equation_columns(bodies, dq, w, at, dv, velocities, accelerations)
    reading_columns(bodies, tree, drive, readings, dq, w, at, dv, velocities, phi, dphi)
    eliminate(bodies, readings, beliefs, w)
    substitute(bodies, readings, beliefs, w)
    for i in range(bodies.parent.size):
        for c in range(out.shape[2]):
            for j in range(6):
                out[i, j, c] = w.Z[i, ALPHA_FOUND, j, c]
                out[i, 6 + j, c] = w.V[i, WRENCH_FOUND, j, c]
                out[i, 13 + j, c] = w.V[i, EXTERNAL_FOUND, j, c]
            out[i, 12, c] = w.d_tau[i, c]
            out[i, 19, c] = w.Z[i, ALPHA_FOUND, 6, c]
