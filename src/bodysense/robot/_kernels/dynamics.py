"""Inverse and forward dynamics for arbitrary parameter vectors, compiled.

    M(q, theta) a + h(q, v, theta) = tau

with the rotor inertias in M and the friction in h, of which the load-dependent part alone depends
on the acceleration too, see `drive_load`. The mass matrix is factorised as Lᵀ D L along the tree
(Featherstone), which needs no square roots, so it works for unphysical parameters too.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

from bodysense.compiled.jit import inlined, threaded
from bodysense.compiled.views import reader
from bodysense.robot._kernels.friction import (
    friction_basis,
    load_share,
    load_term,
    smooth_sign,
)
from bodysense.robot._kernels.tree import (
    ACC,
    AXIS,
    FORCE,
    INERTIA,
    TWIST,
    move,
    place,
    scratch_at,
    tree_at,
    weigh,
)
from bodysense.spatial.arrays import Array


@inlined
def _push(b, j):
    """F_j = I A + V ×* I V of body j alone."""
    m, h0, h1, h2 = b[j, INERTIA], b[j, INERTIA + 1], b[j, INERTIA + 2], b[j, INERTIA + 3]
    xx, xy, yy = b[j, INERTIA + 4], b[j, INERTIA + 5], b[j, INERTIA + 6]
    xz, yz, zz = b[j, INERTIA + 7], b[j, INERTIA + 8], b[j, INERTIA + 9]
    v0, v1, v2, v3, v4, v5 = (
        b[j, TWIST],
        b[j, TWIST + 1],
        b[j, TWIST + 2],
        b[j, TWIST + 3],
        b[j, TWIST + 4],
        b[j, TWIST + 5],
    )
    a0, a1, a2, a3, a4, a5 = (
        b[j, ACC],
        b[j, ACC + 1],
        b[j, ACC + 2],
        b[j, ACC + 3],
        b[j, ACC + 4],
        b[j, ACC + 5],
    )
    # momentum, linear and angular
    p0 = m * v0 + v4 * h2 - v5 * h1
    p1 = m * v1 + v5 * h0 - v3 * h2
    p2 = m * v2 + v3 * h1 - v4 * h0
    l0 = xx * v3 + xy * v4 + xz * v5 + h1 * v2 - h2 * v1
    l1 = xy * v3 + yy * v4 + yz * v5 + h2 * v0 - h0 * v2
    l2 = xz * v3 + yz * v4 + zz * v5 + h0 * v1 - h1 * v0
    b[j, FORCE] = m * a0 + a4 * h2 - a5 * h1 + v4 * p2 - v5 * p1
    b[j, FORCE + 1] = m * a1 + a5 * h0 - a3 * h2 + v5 * p0 - v3 * p2
    b[j, FORCE + 2] = m * a2 + a3 * h1 - a4 * h0 + v3 * p1 - v4 * p0
    inner0 = xx * a3 + xy * a4 + xz * a5 + h1 * a2 - h2 * a1
    inner1 = xy * a3 + yy * a4 + yz * a5 + h2 * a0 - h0 * a2
    inner2 = xz * a3 + yz * a4 + zz * a5 + h0 * a1 - h1 * a0
    b[j, FORCE + 3] = inner0 + v4 * l2 - v5 * l1 + v1 * p2 - v2 * p1
    b[j, FORCE + 4] = inner1 + v5 * l0 - v3 * l2 + v2 * p0 - v0 * p2
    b[j, FORCE + 5] = inner2 + v3 * l1 - v4 * l0 + v0 * p1 - v1 * p0


@inlined
def _lift(b, j, k):
    """F_j = I_j S_k: the force that a unit acceleration along axis k asks of body j's inertia."""
    m, h0, h1, h2 = b[j, INERTIA], b[j, INERTIA + 1], b[j, INERTIA + 2], b[j, INERTIA + 3]
    s0, s1, s2, s3, s4, s5 = (
        b[k, AXIS],
        b[k, AXIS + 1],
        b[k, AXIS + 2],
        b[k, AXIS + 3],
        b[k, AXIS + 4],
        b[k, AXIS + 5],
    )
    xy, xz, yz = b[j, INERTIA + 5], b[j, INERTIA + 7], b[j, INERTIA + 8]
    b[j, FORCE] = m * s0 + s4 * h2 - s5 * h1
    b[j, FORCE + 1] = m * s1 + s5 * h0 - s3 * h2
    b[j, FORCE + 2] = m * s2 + s3 * h1 - s4 * h0
    b[j, FORCE + 3] = b[j, INERTIA + 4] * s3 + xy * s4 + xz * s5 + h1 * s2 - h2 * s1
    b[j, FORCE + 4] = xy * s3 + b[j, INERTIA + 6] * s4 + yz * s5 + h2 * s0 - h0 * s2
    b[j, FORCE + 5] = xz * s3 + yz * s4 + b[j, INERTIA + 9] * s5 + h0 * s1 - h1 * s0


@inlined
def _project(b, i, j):
    """S_iᵀ F_j."""
    return (
        b[i, AXIS] * b[j, FORCE]
        + b[i, AXIS + 1] * b[j, FORCE + 1]
        + b[i, AXIS + 2] * b[j, FORCE + 2]
        + b[i, AXIS + 3] * b[j, FORCE + 3]
        + b[i, AXIS + 4] * b[j, FORCE + 4]
        + b[i, AXIS + 5] * b[j, FORCE + 5]
    )


@inlined
def gather(tree, b, out):
    """Inertial and gravity forces into out (nv,); needs `place`, `move` and `weigh`.

    Leaves the forces on subtrees in the scratch.
    """
    n = tree.parent.size
    base = 6 * tree.floating
    for j in range(n + tree.floating):
        _push(b, j)
    for j in range(n - 1, -1, -1):
        out[base + j] = _project(b, j, j)
        p = tree.parent[j]
        if p >= 0:
            for e in range(6):
                b[p, FORCE + e] += b[j, FORCE + e]
        elif base > 0:
            for e in range(6):
                b[n, FORCE + e] += b[j, FORCE + e]
    for e in range(base):
        out[e] = b[n, FORCE + e]


@inlined
def add_friction(tree, theta, v, w, out):
    """Add the friction of joints and coupled motors to out (nv,), LuGre at its steady state.

    What stands in out before is the load of load-dependent friction: where it is zero, what is
    added is the friction that no load changes.
    """
    n = tree.parent.size
    base = 6 * tree.floating
    start = 10 * (n + tree.floating) + n
    terms = tree.term.size
    if load_term(tree) >= 0:
        terms = load_term(tree)
        for j in range(n):
            out[base + j] += load_share(tree, theta, j, v[base + j]) * abs(out[base + j])
    for j in range(n):
        friction_basis(tree, j, v[base + j], w.phi, w.dphi)
        for k in range(terms):
            out[base + j] += theta[start + k * n + j] * w.phi[k]
    add_motor_friction(tree, theta, v, out)


@inlined
def add_motor_friction(tree, theta, v, out):
    """Add the friction of coupled motors to out (nv,)."""
    n = tree.parent.size
    base = 6 * tree.floating
    start = 10 * (n + tree.floating) + n * (1 + tree.term.size)
    for k in range(tree.coupled_term.size):
        code = tree.coupled_term[k]
        if code == 0:
            continue
        s = 0.0
        for j in range(n):
            s += tree.coupling[k, j] * v[base + j]
        if code == 2:
            s, _ = smooth_sign(s, tree.coupled_width[k])
        for j in range(n):
            c = tree.coupling[k, j]
            own = c * v[base + j] if code == 1 else 0.0
            out[base + j] += theta[start + k] * c * (s - own)


@inlined
def drive_load(tree, theta, v, net):
    """Replace net (nv,), torque minus the friction that no load changes, by the joints' loads.

    The load T of a joint's drive is its torque without friction, of M a + h, and with g = Fl s(v)

        T + g |T| = net        <=>        T = net / (1 + g sign(net)),

    the one solution, since the left-hand side ascends with T, while |g| < 1. Beyond, a drive locks
    itself: no motion follows from a torque, and the result is not finite.
    """
    if load_term(tree) < 0:
        return
    base = 6 * tree.floating
    for j in range(tree.parent.size):
        g = load_share(tree, theta, j, v[base + j])
        if not abs(g) < 1.0:
            net[base + j] = math.nan
        net[base + j] /= 1.0 + math.copysign(g, g * net[base + j])


@inlined
def add_rotors(tree, theta, a, out):
    """Add the torque that accelerates the rotors to out (nv,)."""
    n = tree.parent.size
    base = 6 * tree.floating
    start = 10 * (n + tree.floating)
    for j in range(n):
        out[base + j] += theta[start + j] * a[base + j]
    start += n * (1 + tree.term.size)
    for k in range(tree.coupled_term.size):
        if tree.coupled_term[k] == 0:
            c = tree.coupling[k]
            total = 0.0
            for j in range(n):
                total += c[j] * a[base + j]
            for j in range(n):
                out[base + j] += theta[start + k] * c[j] * (total - c[j] * a[base + j])


@inlined
def _inverse_dynamics(tree, theta, q, v, a, g, w, tau):
    """Tau (nv,) of one sample; q are the joint coordinates (n,), g gravity in base coordinates."""
    place(tree, q, w)
    move(tree, v, a, True, g, w.body)
    weigh(tree, theta, w.body)
    gather(tree, w.body, tau)
    add_rotors(tree, theta, a, tau)
    add_friction(tree, theta, v, w, tau)


@inlined
def mass_matrix(tree, theta, b, M):
    """Lower triangle of M; needs `place` and `weigh`; turns inertias into those of subtrees."""
    n = tree.parent.size
    base = 6 * tree.floating
    if tree.coupled_term.size > 0:
        for i in range(base + n):
            for k in range(i):
                M[i, k] = 0.0
    for j in range(n - 1, -1, -1):
        p = tree.parent[j]
        if p >= 0:
            for e in range(10):
                b[p, INERTIA + e] += b[j, INERTIA + e]
        elif base > 0:
            for e in range(10):
                b[n, INERTIA + e] += b[j, INERTIA + e]
        _lift(b, j, j)
        M[base + j, base + j] = _project(b, j, j)
        while p >= 0:
            M[base + j, base + p] = _project(b, p, j)
            p = tree.parent[p]
        for e in range(base):
            M[base + j, e] = b[j, FORCE + e]
    for e in range(base):
        _lift(b, n, n + e)
        for k in range(6):
            M[k, e] = b[n, FORCE + k]
    start = 10 * (n + tree.floating)
    for j in range(n):
        M[base + j, base + j] += theta[start + j]
    start += n * (1 + tree.term.size)
    for k in range(tree.coupled_term.size):
        if tree.coupled_term[k] == 0:
            c = tree.coupling[k]
            for i in range(n):
                for j in range(i):
                    M[base + i, base + j] += theta[start + k] * c[i] * c[j]


@inlined
def _factorise(dof_parent, M):
    """Replace the lower triangle of M by the factors of M = Lᵀ D L."""
    for k in range(dof_parent.size - 1, -1, -1):
        inverse = 1.0 / M[k, k]
        i = dof_parent[k]
        while i >= 0:
            factor = M[k, i] * inverse
            j = i
            while j >= 0:
                M[i, j] -= M[k, j] * factor
                j = dof_parent[j]
            M[k, i] = factor
            i = dof_parent[i]


@inlined
def _solve(dof_parent, M, x):
    """Solve M x = b in place with the factors of `factorise`."""
    nv = dof_parent.size
    for i in range(nv - 1, -1, -1):
        j = dof_parent[i]
        while j >= 0:
            x[j] -= M[i, j] * x[i]
            j = dof_parent[j]
    for i in range(nv):
        value = x[i] / M[i, i]
        j = dof_parent[i]
        while j >= 0:
            value -= M[i, j] * x[j]
            j = dof_parent[j]
        x[i] = value


@inlined
def forward_dynamics(tree, theta, q, v, net, g, w, a):
    """A (nv,) of one sample; `net` (nv,) is the applied torque minus friction that no load changes.

    Leaves the factors of the mass matrix in w.M, and in net the torque without any friction.
    """
    place(tree, q, w)
    move(tree, v, v, False, g, w.body)
    weigh(tree, theta, w.body)
    gather(tree, w.body, w.bias)
    mass_matrix(tree, theta, w.body, w.M)
    _factorise(tree.dof_parent, w.M)
    drive_load(tree, theta, v, net)
    for i in range(a.size):
        a[i] = net[i] - w.bias[i]
    _solve(tree.dof_parent, w.M, a)


class Batch(NamedTuple):
    """Samples, each with its own row of parameters, or with one row for all."""

    theta: Annotated[Array, "rows", "p"]
    q: Annotated[Array, "T", "n"]
    v: Annotated[Array, "T", "nv"]
    a: Annotated[Array, "T", "nv"]
    g: Annotated[Array, "T", 3]  # gravity in base coordinates
    tau: Annotated[Array, "T", "nv"]


class MassMatrices(NamedTuple):
    """Mass matrices of samples, parameters as in `Batch`."""

    theta: Annotated[Array, "rows", "p"]
    q: Annotated[Array, "T", "n"]
    M: Annotated[Array, "T", "nv", "nv"]


_batch_at, _mass_matrices_at = reader(Batch), reader(MassMatrices)


@inlined
def _row_of(theta, t):
    return theta[t if theta.shape[0] > 1 else 0]


# Kernels of samples first … last; tree, scratch and batch are addresses of tables.


@threaded
def inverse_dynamics_batch(first, last, tree, w, batch):
    """Tau of a `Batch`."""
    tree, w, x = tree_at(tree), scratch_at(w), _batch_at(batch)
    for t in range(first, last):
        theta = _row_of(x.theta, t)
        _inverse_dynamics(tree, theta, x.q[t], x.v[t], x.a[t], x.g[t], w, x.tau[t])


@threaded
def forward_dynamics_batch(first, last, tree, w, batch):
    """A of a `Batch`."""
    tree, w, x = tree_at(tree), scratch_at(w), _batch_at(batch)
    for t in range(first, last):
        theta, v, a = _row_of(x.theta, t), x.v[t], x.a[t]
        for i in range(a.size):
            a[i] = 0.0
        add_friction(tree, theta, v, w, a)
        for i in range(a.size):
            a[i] = x.tau[t, i] - a[i]
        forward_dynamics(tree, theta, x.q[t], v, a, x.g[t], w, a)


@threaded
def mass_matrix_batch(first, last, tree, w, batch):
    """M of `MassMatrices`, full and symmetric."""
    tree, w, x = tree_at(tree), scratch_at(w), _mass_matrices_at(batch)
    for t in range(first, last):
        theta = _row_of(x.theta, t)
        place(tree, x.q[t], w)
        weigh(tree, theta, w.body)
        mass_matrix(tree, theta, w.body, w.M)
        for i in range(x.M.shape[1]):
            for j in range(i + 1):
                x.M[t, i, j] = w.M[i, j]
                x.M[t, j, i] = w.M[i, j]
