"""Transforms, twists and everything that equations and readings owe to the motion, compiled."""

from __future__ import annotations

import math

from bodysense.compiled.jit import called, inlined
from bodysense.compiled.lanes import is_zero, lane, lanes_in, with_lane
from bodysense.robot._kernels.friction import friction_basis


@inlined
def _transform(bodies, i, q, X):
    """X (6, 6) of body i: motion vectors of its parent's frame in its own."""
    B, at = bodies.rotation, bodies.position
    k0, k1, k2 = bodies.axis[i, 0], bodies.axis[i, 1], bodies.axis[i, 2]
    p0, p1, p2 = at[i, 0], at[i, 1], at[i, 2]
    c, s = 1.0, 0.0
    if bodies.prismatic[i] == 0:
        c, s = math.cos(q), math.sin(q)
    else:  # slide along the axis
        p0 += (B[i, 0, 0] * k0 + B[i, 0, 1] * k1 + B[i, 0, 2] * k2) * q
        p1 += (B[i, 0, 3] * k0 + B[i, 0, 4] * k1 + B[i, 0, 5] * k2) * q
        p2 += (B[i, 0, 6] * k0 + B[i, 0, 7] * k1 + B[i, 0, 8] * k2) * q
    # R, p of the joint's child in its parent, in the robot's own direction
    for a in range(3):
        for b in range(3):
            e = 3 * a + b
            r = B[i, 0, e] + c * B[i, 1, e] + s * B[i, 2, e]
            if bodies.against[i] == 0:  # child seen from the parent: Rᵀ
                X[b, a] = r
                X[3 + b, 3 + a] = r
            else:
                X[a, b] = r
                X[3 + a, 3 + b] = r
            X[3 + a, b] = 0.0
    if bodies.against[i] == 0:
        # v_child = Rᵀ (v + ω × p): columns of -Rᵀ [p]×
        for a in range(3):
            r0, r1, r2 = X[a, 0], X[a, 1], X[a, 2]
            X[a, 3] = r2 * p1 - r1 * p2
            X[a, 4] = r0 * p2 - r2 * p0
            X[a, 5] = r1 * p0 - r0 * p1
    else:
        # v_parent = R v - (R ω) × p = R v + p × (R ω): columns of [p]× R
        for b in range(3):
            r0, r1, r2 = X[0, b], X[1, b], X[2, b]
            X[0, 3 + b] = p1 * r2 - p2 * r1
            X[1, 3 + b] = p2 * r0 - p0 * r2
            X[2, 3 + b] = p0 * r1 - p1 * r0


@inlined
def cross(v, s, out):
    """Write v × s of motion vectors."""
    out[0] = v[4] * s[2] - v[5] * s[1] + v[1] * s[5] - v[2] * s[4]
    out[1] = v[5] * s[0] - v[3] * s[2] + v[2] * s[3] - v[0] * s[5]
    out[2] = v[3] * s[1] - v[4] * s[0] + v[0] * s[4] - v[1] * s[3]
    out[3] = v[4] * s[5] - v[5] * s[4]
    out[4] = v[5] * s[3] - v[3] * s[5]
    out[5] = v[3] * s[4] - v[4] * s[3]


@inlined
def cross_force(v, f, out):
    """Write v ×* f of a motion and a force vector."""
    out[0] = v[4] * f[2] - v[5] * f[1]
    out[1] = v[5] * f[0] - v[3] * f[2]
    out[2] = v[3] * f[1] - v[4] * f[0]
    out[3] = v[4] * f[5] - v[5] * f[4] + v[1] * f[2] - v[2] * f[1]
    out[4] = v[5] * f[3] - v[3] * f[5] + v[2] * f[0] - v[0] * f[2]
    out[5] = v[3] * f[4] - v[4] * f[3] + v[0] * f[1] - v[1] * f[0]


@called
def move(bodies, q, dq, base_twist, X, twist):
    """Transforms and twists of all bodies."""
    for j in range(6):
        twist[0, j] = base_twist[j]
    for i in range(1, bodies.parent.size):
        parent, joint = bodies.parent[i], bodies.joint[i]
        _transform(bodies, i, q[joint], X[i])
        for j in range(6):
            x = bodies.S[i, j] * dq[joint]
            for k in range(6):
                x += X[i, j, k] * twist[parent, k]
            twist[i, j] = x


@called
def offsets(bodies, priors, dq, a0, twist, balance, offset, A0, work):
    """First right-hand sides of the equations."""
    for j in range(6):
        A0[j, 0] = a0[j]
    momentum, push = work[0], work[1]
    for i in range(bodies.parent.size):
        v = twist[i]
        for j in range(6):
            x = 0.0
            for k in range(6):
                x += bodies.inertia[i, j, k] * v[k]
            momentum[j] = x
        cross_force(v, momentum, push)
        for j in range(6):
            balance[i, j, 0] = push[j]
        if i == 0:
            continue
        cross(v, bodies.S[i], push)
        speed, mean = dq[bodies.joint[i]], priors.joint_mean[i]
        for j in range(6):
            offset[i, j, 0] = push[j] * speed + bodies.S[i, j] * mean
        offset[i, 6, 0] = mean


@called
def which_are_present(readings, y, present):
    """Which blocks of readings are there: all of them finite."""
    for block in range(present.size):
        present[block] = 1
        for a in range(readings.first[block], readings.first[block + 1]):
            if not math.isfinite(y[a]):
                present[block] = 0


@called
def readings_without_motion(tree, friction, readings, q, dq, y, twist, present, Y):
    """First right-hand side of the readings."""
    drive, phi, dphi = friction.drive, friction.phi, friction.dphi
    for block in range(readings.first.size - 1):
        v = twist[readings.mover[block]]
        for a in range(readings.first[block], readings.first[block + 1]):
            x = y[a] if present[block] == 1 else 0.0
            for j in range(6):
                if not is_zero(v[j]):
                    s = readings.linear[a, j]
                    for k in range(6):
                        s += readings.quadratic[a, j, k] * v[k]
                    x -= s * v[j]
            joint = readings.joint[a]
            if joint >= 0:
                x -= readings.position[a] * q[joint] + readings.velocity[a] * dq[joint]
            joint = readings.friction[a]
            if joint >= 0:
                torque = dq[joint]
                for k in range(lanes_in(torque)):
                    friction_basis(tree, joint, lane(dq[joint], k), phi, dphi)
                    push = 0.0
                    for term in range(drive.shape[1]):
                        push += drive[joint, term] * phi[term]
                    torque = with_lane(torque, k, push)
                x -= torque
            Y[a, 0] = x
