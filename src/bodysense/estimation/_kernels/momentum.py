"""Generalised momentum of a robot, what changes it, and the friction of uncertain speeds, compiled.

    p = M(q) v,      dp/dt = tau + β(q, v) - g(q) + tau_ext,      β = Cᵀ v = dM/dt v - C v

With the momentum h_j = Σ I_i V_i of the bodies from joint j on, in base coordinates, the kinetic
energy changes with q_j as these bodies turn in the motion of those before,

    β_j = ∂T/∂q_j = h_j · (V_j × S_j) = -S_j · (V_j ×* h_j),      β_base = -V_base ×* h_base,

the latter since the base's momentum is seen from axes that turn. One sweep of order n for all.
"""

from __future__ import annotations

import math

from bodysense.compiled.jit import called, inlined
from bodysense.robot._kernels.dynamics import mass_matrix
from bodysense.robot._kernels.friction import friction_basis, load_share, load_term, smooth_sign
from bodysense.robot._kernels.tree import AXIS, FORCE, INERTIA, TWIST, place, weigh

_CERTAIN = 6.0
"""Standard deviations from zero beyond which a joint's direction is known (2e-9 of it is left)."""
_CREEP = 2e-3
"""rad/s or m/s: a joint that creeps sticks at times, and its direction is not known better."""
_ROOT_HALF = math.sqrt(0.5)
_PEAK = 1.0 / math.sqrt(2.0 * math.pi)


@inlined
def _write_momentum(b, j):
    """I V of row j."""
    m, h0, h1, h2 = b[j, INERTIA], b[j, INERTIA + 1], b[j, INERTIA + 2], b[j, INERTIA + 3]
    xx, xy, yy = b[j, INERTIA + 4], b[j, INERTIA + 5], b[j, INERTIA + 6]
    xz, yz, zz = b[j, INERTIA + 7], b[j, INERTIA + 8], b[j, INERTIA + 9]
    v0, v1, v2 = b[j, TWIST], b[j, TWIST + 1], b[j, TWIST + 2]
    w0, w1, w2 = b[j, TWIST + 3], b[j, TWIST + 4], b[j, TWIST + 5]
    b[j, FORCE] = m * v0 + w1 * h2 - w2 * h1
    b[j, FORCE + 1] = m * v1 + w2 * h0 - w0 * h2
    b[j, FORCE + 2] = m * v2 + w0 * h1 - w1 * h0
    b[j, FORCE + 3] = xx * w0 + xy * w1 + xz * w2 + h1 * v2 - h2 * v1
    b[j, FORCE + 4] = xy * w0 + yy * w1 + yz * w2 + h2 * v0 - h0 * v2
    b[j, FORCE + 5] = xz * w0 + yz * w1 + zz * w2 + h0 * v1 - h1 * v0


@inlined
def _turned(b, j):
    """V ×* h of row j."""
    v0, v1, v2 = b[j, TWIST], b[j, TWIST + 1], b[j, TWIST + 2]
    w0, w1, w2 = b[j, TWIST + 3], b[j, TWIST + 4], b[j, TWIST + 5]
    p0, p1, p2 = b[j, FORCE], b[j, FORCE + 1], b[j, FORCE + 2]
    l0, l1, l2 = b[j, FORCE + 3], b[j, FORCE + 4], b[j, FORCE + 5]
    return (
        w1 * p2 - w2 * p1,
        w2 * p0 - w0 * p2,
        w0 * p1 - w1 * p0,
        w1 * l2 - w2 * l1 + v1 * p2 - v2 * p1,
        w2 * l0 - w0 * l2 + v2 * p0 - v0 * p2,
        w0 * l1 - w1 * l0 + v0 * p1 - v1 * p0,
    )


@called
def bodies_at(tree, theta, q, w):
    """Poses, inertias of subtrees and the full mass matrix of w, and the inertias of bodies."""
    place(tree, q, w)
    weigh(tree, theta, w.body)


@called
def speed_drift(tree, v, b, drift):
    """Write β into drift (nv,); needs `bodies_at`, before inertias become those of subtrees."""
    n = tree.parent.size
    base = 6 * tree.floating
    for e in range(6):
        b[n, TWIST + e] = v[e] if base > 0 else 0.0
    _write_momentum(b, n)
    for j in range(n):
        p = tree.parent[j] if tree.parent[j] >= 0 else n
        for e in range(6):
            b[j, TWIST + e] = b[p, TWIST + e] + b[j, AXIS + e] * v[base + j]
        _write_momentum(b, j)
    for j in range(n - 1, -1, -1):
        f0, f1, f2, f3, f4, f5 = _turned(b, j)
        drift[base + j] = -(
            b[j, AXIS] * f0
            + b[j, AXIS + 1] * f1
            + b[j, AXIS + 2] * f2
            + b[j, AXIS + 3] * f3
            + b[j, AXIS + 4] * f4
            + b[j, AXIS + 5] * f5
        )
        p = tree.parent[j] if tree.parent[j] >= 0 else n
        for e in range(6):
            b[p, FORCE + e] += b[j, FORCE + e]
    if base > 0:
        f0, f1, f2, f3, f4, f5 = _turned(b, n)
        drift[0], drift[1], drift[2] = -f0, -f1, -f2
        drift[3], drift[4], drift[5] = -f3, -f4, -f5


@called
def full_mass_matrix(tree, theta, w):
    """M of w, both triangles; turns inertias into those of subtrees."""
    mass_matrix(tree, theta, w.body, w.M)
    for i in range(w.M.shape[0]):
        for j in range(i):
            w.M[j, i] = w.M[i, j]


@inlined
def _row_of(tree, i):
    """Row of the scratch that has the axis of velocity i, and the row that has its subtree."""
    base = 6 * tree.floating
    n = tree.parent.size
    return (n + i, n) if i < base else (i - base, i - base)


@inlined
def gravity_slope(tree, b, i):
    """∂/∂g of -g(q)_i = S_i · (m g; h × g): m s + k × h; needs inertias of subtrees."""
    axis, own = _row_of(tree, i)
    m, h0, h1, h2 = b[own, INERTIA], b[own, INERTIA + 1], b[own, INERTIA + 2], b[own, INERTIA + 3]
    k0, k1, k2 = b[axis, AXIS + 3], b[axis, AXIS + 4], b[axis, AXIS + 5]
    return (
        m * b[axis, AXIS] + k1 * h2 - k2 * h1,
        m * b[axis, AXIS + 1] + k2 * h0 - k0 * h2,
        m * b[axis, AXIS + 2] + k0 * h1 - k1 * h0,
    )


@called
def add_weight(tree, b, g, drift):
    """Add -g(q) to drift (nv,); needs inertias of subtrees."""
    for i in range(drift.size):
        x0, x1, x2 = gravity_slope(tree, b, i)
        drift[i] += x0 * g[0] + x1 * g[1] + x2 * g[2]


@called
def weight_by_position(tree, b, g, j, column):
    """Write ∂g(q)/∂q_j, a column of the Hessian of the potential; needs inertias of subtrees.

    A turn about axis j moves the first moment of its subtree by δh = k × h + m s, and g(q)_i of the
    axes before changes by -k_i · (δh × g); for those behind, the Hessian is symmetric.
    """
    n, base = tree.parent.size, 6 * tree.floating
    for i in range(column.size):
        column[i] = 0.0
    for i in range(n):
        upper, lower = i, j
        a = j
        while a >= 0 and a != i:
            a = tree.parent[a]
        if a < 0:  # i is not at or before j
            upper, lower = j, i
            a = i
            while a >= 0 and a != j:
                a = tree.parent[a]
        if a >= 0:
            x0, x1, x2 = _moment_change(b, lower, g)
            column[base + i] = -(
                b[upper, AXIS + 3] * x0 + b[upper, AXIS + 4] * x1 + b[upper, AXIS + 5] * x2
            )
    if base > 0:
        x0, x1, x2 = _moment_change(b, j, g)
        column[3], column[4], column[5] = -x0, -x1, -x2


@inlined
def _moment_change(b, j, g):
    """δh × g of a turn about axis j."""
    m, h0, h1, h2 = b[j, INERTIA], b[j, INERTIA + 1], b[j, INERTIA + 2], b[j, INERTIA + 3]
    k0, k1, k2 = b[j, AXIS + 3], b[j, AXIS + 4], b[j, AXIS + 5]
    d0 = k1 * h2 - k2 * h1 + m * b[j, AXIS]
    d1 = k2 * h0 - k0 * h2 + m * b[j, AXIS + 1]
    d2 = k0 * h1 - k1 * h0 + m * b[j, AXIS + 2]
    return d1 * g[2] - d2 * g[1], d2 * g[0] - d0 * g[2], d0 * g[1] - d1 * g[0]


# Friction of a joint whose speed is known up to a standard deviation.
#
# Either direction is taken by itself: with the probability P of moving forward, and the mean speed
# v± and variance of each direction (a truncated Gaussian),
#
#     mean = P f(v₊) + (1 - P) f(v₋),     between = P (1 - P) (f(v₊) - f(v₋))²,     within = f'² σ²
#
# which is exact for viscous and Coulomb friction. What lies between the directions does not average
# out, as a joint that stands pushes against its friction in one way for seconds.


@inlined
def _direction(v, sigma):
    """Probability of moving forward, and the mean speeds of moving forward and backward."""
    z = v / sigma
    forward = 0.5 * math.erfc(-z * _ROOT_HALF)
    density = _PEAK * math.exp(-0.5 * z * z)
    return forward, v + sigma * density / forward, v - sigma * density / (1.0 - forward)


@inlined
def _lost(tree, theta, j, v, tau, w):
    """Torque that the drive of joint j loses at speed v of its torque tau, and its slope by v.

    Friction under load follows from the drive's torque: T + g |T| = tau - friction without load,
    see `drive_load`.
    """
    n, terms = tree.parent.size, tree.term.size
    start = 10 * (n + tree.floating) + n
    friction_basis(tree, j, v, w.phi, w.dphi)
    if load_term(tree) >= 0:
        terms = load_term(tree)
    lost, slope = 0.0, 0.0
    for k in range(terms):
        lost += theta[start + k * n + j] * w.phi[k]
        slope += theta[start + k * n + j] * w.dphi[k]
    if load_term(tree) >= 0:
        g = load_share(tree, theta, j, v)
        net = tau - lost
        lost = tau - net / (1.0 + math.copysign(g, g * net))
    return lost, slope


@inlined
def _two_directions(tree, theta, j, v, sigma, tau, w):
    """Mean and variance between the directions of what the drive loses."""
    forward, ahead, back = _direction(v, sigma)
    one, _ = _lost(tree, theta, j, ahead, tau, w)
    other, _ = _lost(tree, theta, j, back, tau, w)
    backward = 1.0 - forward
    return forward * one + backward * other, forward * backward * (one - other) * (one - other)


@called
def uncertain_friction(tree, theta, v, variance, tau, share, w, lost, within, between):
    """Friction of all joints at uncertain speeds: mean, variances within and between directions.

    A law that is smooth about standstill for the sake of simulations tells no more about a real
    joint there: its width counts as uncertainty of the direction. share (nv,) is the standard
    deviation of the law itself, per unit of friction.

    Args:
        tree: the robot.
        theta: its parameters.
        v: (nv,) velocities.
        variance: (nv,) of the velocities.
        tau: (n,) torques of the drives.
        share: (nv,).
        w: scratch.
        lost: (nv,) mean, zero for a base; written.
        within: (nv,) variance that is new with every sample; written.
        between: (nv,) variance that stays; written.
    """
    n, base = tree.parent.size, 6 * tree.floating
    for i in range(base):
        lost[i], within[i], between[i] = 0.0, 0.0, 0.0
    for j in range(n):
        i = base + j
        sigma = math.sqrt(variance[i])
        mean, slope = _lost(tree, theta, j, v[i], tau[j], w)
        width = tree.shape[j, 0] if tree.custom == 0 else 0.0
        wide = max(_CREEP, math.sqrt(variance[i] + width * width))
        stays = 0.0
        if abs(v[i]) < _CERTAIN * wide:
            if abs(v[i]) < _CERTAIN * sigma:
                mean, stays = _two_directions(tree, theta, j, v[i], sigma, tau[j], w)
            if wide > sigma:
                _, stays = _two_directions(tree, theta, j, v[i], wide, tau[j], w)
        lost[i], within[i] = mean, slope * slope * variance[i]
        between[i] = stays + share[i] * share[i] * mean * mean
    _add_motors(tree, theta, v, variance, lost, between)


@inlined
def _add_motors(tree, theta, v, variance, lost, between):
    """Friction of motors that move several joints."""
    n, base = tree.parent.size, 6 * tree.floating
    start = 10 * (n + tree.floating) + n * (1 + tree.term.size)
    for k in range(tree.coupled_term.size):
        code = tree.coupled_term[k]
        if code == 0:
            continue
        s, spread = 0.0, tree.coupled_width[k] * tree.coupled_width[k]
        for j in range(n):
            s += tree.coupling[k, j] * v[base + j]
            spread += tree.coupling[k, j] * tree.coupling[k, j] * variance[base + j]
        stays = 0.0
        if code == 2:
            known = math.erf(_ROOT_HALF * s / max(_CREEP, math.sqrt(spread)))
            stays = 1.0 - known * known
            s = smooth_sign(s, tree.coupled_width[k])[0] if tree.coupled_width[k] > 0.0 else known
        for j in range(n):
            c = tree.coupling[k, j]
            own = c * v[base + j] if code == 1 else 0.0
            lost[base + j] += theta[start + k] * c * (s - own)
            between[base + j] += (theta[start + k] * c) ** 2 * stays
