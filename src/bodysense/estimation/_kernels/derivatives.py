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

from functools import cache
from typing import NamedTuple

import numpy as np

from bodysense.compiled.jit import called, threaded
from bodysense.estimation._kernels.covariance import Spread, make_spread
from bodysense.estimation._kernels.motion import (
    cross,
    cross_force,
    move,
)
from bodysense.estimation._kernels.problem import (
    PARENT_SIDE,
    Bodies,
    Memory,
    Priors,
    Readings,
)
from bodysense.estimation._kernels.solve import ONE, Found, solve_samples
from bodysense.robot._kernels.friction import friction_basis
from bodysense.spatial.arrays import Array


@called
def twist_columns(bodies, velocities, X, twist, dv, work):
    """∂v_i/∂x_h (n, columns, 6): positions first, velocities from column `velocities` on."""
    for i in range(1, bodies.parent.size):
        parent, joint = bodies.parent[i], bodies.joint[i]
        for h in range(dv.shape[1]):
            for j in range(6):
                x = 0.0
                for k in range(6):
                    x += X[i, j, k] * dv[parent, h, k]
                dv[i, h, j] = x
        # -(S ×) X v_p = -(S ×)(v_i - S q̇) = v_i × S
        cross(twist[i], bodies.S[i], work)
        for j in range(6):
            dv[i, joint, j] += work[j]
            dv[i, velocities + joint, j] += bodies.S[i, j]


@called
def equation_columns(bodies, dq, d, dv, velocities, accelerations, X, twist, balance, offset, work):
    """Right-hand sides 1 … of the equations, from the solution d (n, 20)."""
    n, columns = bodies.parent.size, dv.shape[1]
    momentum, push, moved, along = work[0], work[1], work[2], work[3]
    for i in range(n):
        v, I = twist[i], bodies.inertia[i]
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
                balance[i, j, 1 + h] = push[j] + moved[j]
        if i == 0:
            continue
        joint = bodies.joint[i]
        speed, parent = dq[joint], bodies.parent[i]
        for h in range(columns):
            cross(dv[i, h], bodies.S[i], push)
            for j in range(6):
                offset[i, j, 1 + h] = push[j] * speed
            offset[i, 6, 1 + h] = 0.0
        cross(v, bodies.S[i], push)
        for j in range(6):
            offset[i, j, 1 + velocities + joint] += push[j]
            x = 0.0
            for k in range(6):
                x += X[i, j, k] * d[parent, k]
            along[j] = x
        cross(along, bodies.S[i], push)  # -(S ×) X a_p
        for j in range(6):
            offset[i, j, 1 + joint] += push[j]
        if accelerations >= 0:
            for j in range(6):
                offset[i, j, 1 + accelerations + joint] += bodies.S[i, j]
            offset[i, 6, 1 + accelerations + joint] += 1.0
    # ∂(Xᵀ f)/∂q = Xᵀ (S ×* f), on the parent
    for i in range(1, n):
        parent, joint = bodies.parent[i], bodies.joint[i]
        cross_force(bodies.S[i], d[i, 6:12], push)
        for j in range(6):
            x = 0.0
            for k in range(6):
                x += X[i, k, j] * push[k]
            balance[parent, j, 1 + joint] += x


@called
def reading_columns(
    bodies, tree, drive, readings, dq, d, dv, velocities, phi, dphi, X, twist, Y, work
):
    """Right-hand sides 1 … of the readings."""
    columns = dv.shape[1]
    push, slope = work[0], work[1]
    for i in range(bodies.parent.size):
        for block in range(readings.begin[i, 0], readings.begin[i, PARENT_SIDE + 1]):
            mover = readings.mover[block]
            v = twist[mover]
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
                    Y[a, 1 + h] = x
                joint = readings.joint[a]
                if joint >= 0:
                    Y[a, 1 + joint] -= readings.position[a]
                    Y[a, 1 + velocities + joint] -= readings.velocity[a]
                joint = readings.friction[a]
                if joint >= 0:
                    friction_basis(tree, joint, dq[joint], phi, dphi)
                    x = 0.0
                    for k in range(drive.shape[1]):
                        x += drive[joint, k] * dphi[k]
                    Y[a, 1 + velocities + joint] -= x
                if readings.begin[i, PARENT_SIDE] <= block:
                    # the wrench on the parent is -Xᵀ f: its change by q is -Xᵀ (S ×* f)
                    cross_force(bodies.S[i], d[i, 6:12], push)
                    x = 0.0
                    for j in range(6):
                        for k in range(6):
                            x += readings.on_wrench[a, j] * X[i, k, j] * push[k]
                    Y[a, 1 + bodies.joint[i]] += x


@threaded
def differentiate(
    bodies,
    tree,
    drive,
    readings,
    q,
    dq,
    twist,
    at,
    accelerations,
    dv,
    X,
    w_twist,
    balance,
    offset,
    Y,
    work,
):
    """Right-hand sides 1 … of the equations and readings of one sample: see `linearise`."""
    phi, dphi = np.zeros(max(1, drive.shape[1])), np.zeros(max(1, drive.shape[1]))
    velocities = dq.size
    move(bodies, q, dq, twist, X, w_twist)
    twist_columns(bodies, velocities, X, w_twist, dv, work[0])
    equation_columns(
        bodies, dq, at, dv, velocities, accelerations, X, w_twist, balance, offset, work
    )
    reading_columns(
        bodies, tree, drive, readings, dq, at, dv, velocities, phi, dphi, X, w_twist, Y, work
    )


def linearise(
    bodies: Bodies,
    tree: NamedTuple,
    drive: Array,
    readings: Readings,
    priors: Priors,
    w: Memory,
    dv: Array,
    q: Array,
    dq: Array,
    twist: Array,
    a0: Array,
    y: Array,
    at: Array,
    accelerations: int,
    out: Array,
) -> None:
    """Solve one sample with the derivatives by its state as further right-hand sides.

    The first right-hand side is the entry's own, so what is compiled for single samples serves.

    Args:
        bodies: the tree from its root.
        tree: the robot, for the friction in torques.
        drive: (n_joints, n_terms) friction coefficients.
        readings: of the sensors.
        priors: before any reading.
        w: for 1 + columns + more right-hand sides, of which those behind the columns of the state
            are the caller's, set before. Takes the whitened residuals, w.left[: w.kept[0]].
        dv: (n, columns, 6) takes the derivatives of twists, zero but for those of the root.
        q: (n_joints,) positions.
        dq: (n_joints,) velocities.
        twist: (6,) of the root.
        a0: (6,) acceleration of the root, known or believed.
        y: (m,) readings.
        at: (n, 20) solution at which products of state and solution are differentiated.
        accelerations: the first column of joint accelerations, or -1.
        out: (n, 20, r) takes the solution and its derivatives.
    """
    differentiate(
        bodies,
        tree,
        drive,
        readings,
        q,
        dq,
        twist,
        at,
        accelerations,
        dv,
        w.X,
        w.twist,
        w.balance,
        w.offset,
        w.Y,
        w.work,
    )
    n, m = out.shape[0], w.Y.shape[0]
    result = _means_only(n, m, w.present.size)
    sample = (q[None], dq[None], twist[None], a0[None], y[None])
    known = (bodies, tree, drive, readings, priors, w, _no_spread())
    solve_samples(0, 1, ONE, *known, *sample, result)
    out[:, :6], out[:, 19] = w.alpha[:, :6], w.alpha[:, 6]
    out[:, 6:12], out[:, 13:19] = w.wrench[:, :6], w.fx
    out[:, 12] = w.tau


@cache
def _no_spread() -> Spread:
    """Memory for covariances that nobody asks for."""
    spread: Spread = make_spread(0, 0)
    return spread


def _means_only(n: int, m: int, blocks: int) -> Found:
    """What the entry writes of one sample, without covariances."""
    none = np.empty((0, n, 1, 1))
    return Found(
        d=np.empty((1, n, 20)),
        variance=none[..., 0],
        residual=np.empty((1, m)),
        score=np.empty((1, 2)),
        present=np.empty((1, blocks), dtype=np.int64),
        joint=none,
        between=none,
        external=none,
        slack=none[..., 0],
        slack_acceleration=none,
        slack_wrench=none,
        slack_torque=none[..., 0],
    )
