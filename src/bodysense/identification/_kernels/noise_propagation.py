"""Slopes of the torques by positions, velocities and accelerations, and whitened rows, compiled.

    G = [∂ID/∂q, ∂ID/∂v, ∂ID/∂a]        L Lᵀ = S        rows ← L⁻¹ rows

Friction is in ∂ID/∂v; a jump in it (sign) is passed over. ∂ID/∂a is M, but for friction that
depends on the load.
"""

from __future__ import annotations

import math

import numpy as np

from bodysense.compiled.jit import inlined, threaded
from bodysense.robot._kernels.derivatives import inverse_dynamics_derivatives
from bodysense.robot._kernels.dynamics import add_rotors, gather, mass_matrix
from bodysense.robot._kernels.tree import DERIVATIVES_WIDTH, make_scratch, move, place, weigh
from bodysense.simulation._kernels.sensitivity import add_friction_slope, load_slope


@inlined
def _torque_slopes(tree, theta, q, v, a, w, by_q, by_v, G):
    """G (n, 3 n) of one sample; by_q and by_v (n, n) are working memory, zero off the tree."""
    n = q.size
    for i in range(n):
        for j in range(n):
            by_v[i, j] = 0.0  # a motor may couple branches, where it is not written anew
    place(tree, q, w)
    move(tree, v, a, True, tree.gravity, w.body)
    weigh(tree, theta, w.body)
    gather(tree, w.body, w.bias)
    add_rotors(tree, theta, a, w.bias)
    inverse_dynamics_derivatives(tree, w.body, w.motion, by_q, by_v)
    add_friction_slope(tree, theta, v, w.bias, w, by_q, by_v)
    weigh(tree, theta, w.body)  # the derivatives have made subtrees of the bodies
    mass_matrix(tree, theta, w.body, w.M)
    for i in range(n):
        slope = load_slope(tree, theta, v, w.bias, i)
        for j in range(n):
            G[i, j] = by_q[i, j]
            G[i, n + j] = by_v[i, j]
            G[i, 2 * n + j] = slope * (w.M[i, j] if i >= j else w.M[j, i])


@threaded
def torque_slopes_batch(first, last, tree, theta, q, v, a, G):
    """G (n_t, n, 3 n) of samples from first to last - 1, for theta (p,) and a fixed base."""
    n = q.shape[1]
    w = make_scratch(n, 0, tree.term.size, DERIVATIVES_WIDTH)
    by_q = np.zeros((n, n))
    by_v = np.zeros((n, n))
    for t in range(first, last):
        _torque_slopes(tree, theta, q[t], v[t], a[t], w, by_q, by_v, G[t])


@inlined
def _factor_and_divide(S, rows):
    """Replace the lower triangle of S (n, n) by L of S = L Lᵀ, and rows (n, c) by L⁻¹ rows.

    A pivot that rounding has made negative is taken as the smallest that has a meaning beside the
    variance it is what is left of.
    """
    n, c = rows.shape
    for j in range(n):
        least = 1e-15 * S[j, j] + 1e-300
        pivot = S[j, j]
        for k in range(j):
            pivot -= S[j, k] * S[j, k]
        root = math.sqrt(max(pivot, least))
        S[j, j] = root
        for i in range(j + 1, n):
            total = S[i, j]
            for k in range(j):
                total -= S[i, k] * S[j, k]
            S[i, j] = total / root
    for i in range(n):
        for k in range(i):
            factor = S[i, k]
            if factor != 0.0:
                for e in range(c):
                    rows[i, e] -= factor * rows[k, e]
        inverse = 1.0 / S[i, i]
        for e in range(c):
            rows[i, e] *= inverse


@threaded
def whiten_batch(first, last, S, rows):
    """Whiten rows (n_t, n, c) by covariances S (n_t, n, n), in place, from first to last - 1."""
    for t in range(first, last):
        _factor_and_divide(S[t], rows[t])
