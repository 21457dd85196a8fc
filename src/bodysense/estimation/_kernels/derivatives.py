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

from collections.abc import Sequence
from typing import Annotated, NamedTuple

import numpy as np

from bodysense.compiled.jit import called, threaded
from bodysense.compiled.views import Table, reader, zeros_of
from bodysense.estimation._kernels.motion import cross, cross_force, move
from bodysense.estimation._kernels.problem import PARENT_SIDE
from bodysense.estimation._kernels.solve import (
    ONE,
    Found,
    SampleArrays,
    SolverWorkspace,
    bodies_at,
    friction_at,
    memory_at,
    readings_at,
    samples_at,
    solve,
    solve_singles,
    tree_at,
)
from bodysense.robot._kernels.friction import friction_basis
from bodysense.spatial.arrays import Array


@called
def _twist_columns(bodies, velocities, X, twist, dv, work):
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
def _equation_columns(
    bodies, dq, d, dv, velocities, accelerations, X, twist, balance, offset, work
):
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
        cross_force(bodies.S[i], d[i][6:], push)
        for j in range(6):
            x = 0.0
            for k in range(6):
                x += X[i, k, j] * push[k]
            balance[parent, j, 1 + joint] += x


@called
def _reading_columns(bodies, tree, friction, readings, dq, d, dv, velocities, X, twist, Y, work):
    """Right-hand sides 1 … of the readings."""
    columns = dv.shape[1]
    drive, phi, dphi = friction.drive, friction.phi, friction.dphi
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
                    cross_force(bodies.S[i], d[i][6:], push)
                    x = 0.0
                    for j in range(6):
                        for k in range(6):
                            x += readings.on_wrench[a, j] * X[i, k, j] * push[k]
                    Y[a, 1 + bodies.joint[i]] += x


class Derivatives(NamedTuple):
    """Where equations and readings are differentiated, and what comes of it."""

    at: Annotated[Array, "n", 20]  # solution at which its products with the state are
    dv: Annotated[Array, "n", "columns", 6]  # of twists, zero but for those of the root


_derivatives_at = reader(Derivatives)


@threaded
def _differentiate(bodies, tree, readings, friction, w, samples, derivatives, accelerations):
    """Right-hand sides 1 … of the equations and readings of one sample: see `linearise`.

    All but the first column of joint accelerations are addresses of tables.
    """
    bodies, tree, readings = bodies_at(bodies), tree_at(tree), readings_at(readings)
    friction, w, samples = friction_at(friction), memory_at(w), samples_at(samples)
    derivatives = _derivatives_at(derivatives)
    q, dq, twist = samples.q[0], samples.dq[0], samples.twist[0]
    d, dv, X, v, work = derivatives.at, derivatives.dv, w.X, w.twist, w.work
    velocities = dq.size
    move(bodies, q, dq, twist, X, v)
    _twist_columns(bodies, velocities, X, v, dv, work[0])
    _equation_columns(bodies, dq, d, dv, velocities, accelerations, X, v, w.balance, w.offset, work)
    _reading_columns(bodies, tree, friction, readings, dq, d, dv, velocities, X, v, w.Y, work)


def linearise(
    problem: Sequence[Table],
    work: SolverWorkspace,
    sample: SampleArrays,
    derivatives: Table,
    accelerations: int,
    out: Array,
) -> None:
    """Solve one sample with the derivatives by its state as further right-hand sides.

    The first right-hand side is the entry's own, so what is compiled for single samples serves.

    Args:
        problem: `Bodies`, `Tree`, `Readings`, `Priors`.
        work: with a memory for 1 + columns + more right-hand sides, of which those behind the
            columns of the state are the caller's, set before. Takes the whitened residuals,
            memory.left[: memory.kept[0]].
        sample: of one sample.
        derivatives: `Derivatives`.
        accelerations: the first column of joint accelerations, or -1.
        out: (n, 20, r) takes the solution and its derivatives.
    """
    w, given = work.memory, Table(sample)
    bodies, tree, readings, _ = problem
    friction, memory, *_ = work.tables
    tables = bodies, tree, readings, friction, memory, given, derivatives
    _differentiate(*[table.address for table in tables], accelerations)
    result = _means_only(out.shape[0], w.Y.shape[0], w.present.size)
    solve(solve_singles, (0, 1, ONE), problem, given, result, work)
    out[:, :6], out[:, 19] = w.alpha[:, :6], w.alpha[:, 6]
    out[:, 6:12], out[:, 13:19] = w.wrench[:, :6], w.fx
    out[:, 12] = w.tau


def _means_only(n: int, m: int, blocks: int) -> Table:
    """What the kernel writes of one sample, without covariances."""
    result: Found = zeros_of(Found, T=0, n=n, m=m, blocks=blocks)
    asked: Found = zeros_of(Found, T=1, n=0, m=m, blocks=blocks)
    return Table(
        result._replace(
            d=np.empty((1, n, 20)),
            residual=asked.residual,
            score=asked.score,
            present=asked.present,
        )
    )
