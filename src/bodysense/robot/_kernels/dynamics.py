"""Inverse and forward dynamics for arbitrary parameter vectors, compiled.

    M(q, theta) a + h(q, v, theta) = tau

with the rotor inertias in M and the friction in h. The mass matrix is factorised as Lᵀ D L along
the tree (Featherstone), which needs no square roots, so it works for unphysical parameters too.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
from numba import prange

from bodysense.compiled.jit import Kernel, entry, in_threads, inlined, threaded
from bodysense.compiled.views import Table, reader
from bodysense.robot._kernels.friction import friction_basis, smooth_sign
from bodysense.robot._kernels.tree import (
    DYNAMICS_WIDTH,
    FORCE,
    INERTIA,
    Tree,
    lift,
    make_scratch,
    move,
    place,
    project,
    push,
    scratch_at,
    scratch_of,
    tree_at,
    weigh,
)
from bodysense.spatial.arrays import Array


@inlined
def gather(tree, b, out):
    """Inertial and gravity forces into out (nv,); needs `place`, `move` and `weigh`.

    Leaves the forces on subtrees in the scratch.
    """
    n = tree.parent.size
    base = 6 * tree.floating
    for j in range(n + tree.floating):
        push(b, j)
    for j in range(n - 1, -1, -1):
        out[base + j] = project(b, j, j)
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
    """Add the friction of joints and coupled motors to out (nv,), LuGre at its steady state."""
    n = tree.parent.size
    base = 6 * tree.floating
    start = 10 * (n + tree.floating) + n
    for j in range(n):
        friction_basis(tree, j, v[base + j], w.phi, w.dphi)
        for k in range(tree.term.size):
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
def _add_rotors(tree, theta, a, out):
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
def inverse_dynamics(tree, theta, q, v, a, g, w, tau):
    """Tau (nv,) of one sample; q are the joint coordinates (n,), g gravity in base coordinates."""
    place(tree, q, w)
    move(tree, v, a, True, g, w.body)
    weigh(tree, theta, w.body)
    gather(tree, w.body, tau)
    add_friction(tree, theta, v, w, tau)
    _add_rotors(tree, theta, a, tau)


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
        lift(b, j, j)
        M[base + j, base + j] = project(b, j, j)
        while p >= 0:
            M[base + j, base + p] = project(b, p, j)
            p = tree.parent[p]
        for e in range(base):
            M[base + j, e] = b[j, FORCE + e]
    for e in range(base):
        lift(b, n, n + e)
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
def factorise(dof_parent, M):
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
def solve(dof_parent, M, x):
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
    """A (nv,) of one sample; `net` (nv,) is the applied torque minus friction.

    Leaves the factors of the mass matrix in w.M.
    """
    place(tree, q, w)
    move(tree, v, v, False, g, w.body)
    weigh(tree, theta, w.body)
    gather(tree, w.body, w.bias)
    mass_matrix(tree, theta, w.body, w.M)
    factorise(tree.dof_parent, w.M)
    for i in range(a.size):
        a[i] = net[i] - w.bias[i]
    solve(tree.dof_parent, w.M, a)


class Batch(NamedTuple):
    """Samples, each with its own row of parameters, or with one row for all."""

    theta: Annotated[Array, "rows", "p"]
    q: Annotated[Array, "T", "n"]
    v: Annotated[Array, "T", "nv"]
    a: Annotated[Array, "T", "nv"]
    g: Annotated[Array, "T", 3]  # gravity in base coordinates
    tau: Annotated[Array, "T", "nv"]


batch_at = reader(Batch)


@threaded
def inverse_dynamics_batch(first, last, tree, w, batch):
    """Tau of the samples first … last; tree, scratch and `Batch` are addresses of tables."""
    tree, w, x = tree_at(tree), scratch_at(w), batch_at(batch)
    for t in range(first, last):
        row = x.theta[t if x.theta.shape[0] > 1 else 0]
        inverse_dynamics(tree, row, x.q[t], x.v[t], x.a[t], x.g[t], w, x.tau[t])


def in_shares(
    kernel: Kernel,
    samples: int,
    tree: Tree,
    batch: tuple[object, ...],
    *,
    compiled: Kernel | None = None,
) -> None:
    """Call a kernel for samples of a batch, on several threads if there are many.

    Args:
        kernel: takes the first and the one behind the last, and addresses of tables.
        samples: how many.
        tree: the robot.
        batch: a bundle.
        compiled: the kernel that a function of Python calls.
    """
    robot, table = Table(tree), Table(batch)

    def share(first: int, last: int) -> None:
        w = Table(scratch_of(tree, DYNAMICS_WIDTH))
        kernel(first, last, robot.address, w.address, table.address)

    if samples < FEW:
        share(0, samples)
    else:
        in_threads(share, samples, compiled=compiled or kernel)


FEW = 256
"""Samples that take less time than starting threads does."""


@entry
def forward_dynamics_batch(tree, theta, q, v, tau, g, a):
    """A (n_t, nv) of n_t pairs of state and parameters (or one row of parameters for all)."""
    n_t, n = q.shape
    chunks = min(n_t, 64)
    for chunk in prange(chunks):
        w = make_scratch(n, tree.floating, tree.term.size, DYNAMICS_WIDTH)
        net = np.empty(v.shape[1])
        for t in range(chunk * n_t // chunks, (chunk + 1) * n_t // chunks):
            row = theta[t if theta.shape[0] > 1 else 0]
            net[:] = 0.0
            add_friction(tree, row, v[t], w, net)
            for i in range(net.size):
                net[i] = tau[t, i] - net[i]
            forward_dynamics(tree, row, q[t], v[t], net, g[t], w, a[t])


@entry
def mass_matrix_batch(tree, theta, q, M):
    """Full symmetric mass matrices M (n_t, nv, nv)."""
    n_t, n = q.shape
    nv = M.shape[1]
    chunks = min(n_t, 64)
    for chunk in prange(chunks):
        w = make_scratch(n, tree.floating, tree.term.size, DYNAMICS_WIDTH)
        for t in range(chunk * n_t // chunks, (chunk + 1) * n_t // chunks):
            row = theta[t if theta.shape[0] > 1 else 0]
            place(tree, q[t], w)
            weigh(tree, row, w.body)
            mass_matrix(tree, row, w.body, w.M)
            for i in range(nv):
                for j in range(i + 1):
                    M[t, i, j] = w.M[i, j]
                    M[t, j, i] = w.M[i, j]
