"""Forward sensitivities of closed-loop rollouts by parameters, compiled.

The derivative of the discrete simulation itself, in one pass beside it: each stage of the
integrator solves, for all chosen parameters at once,

    M da = dtau - Y - (∂ID/∂q) dq - (∂ID/∂v) dv

where Y are the regressor's columns of those parameters, and dtau follows from the controller.
Friction must have no state; a jump in it (sign) is passed over. Under load-dependent friction
joint torques change by S = 1 + Fl s(v) sign(T) times as much as their loads T do, and by |T| s(v)
with Fl: S multiplies rows of M, ∂ID and Y but for what friction adds to them.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from bodysense.compiled.jit import allocating, inlined, threaded
from bodysense.robot._kernels.derivatives import inverse_dynamics_derivatives
from bodysense.robot._kernels.dynamics import forward_dynamics, gather
from bodysense.robot._kernels.friction import (
    friction_basis,
    load_share,
    load_term,
    smooth_sign,
)
from bodysense.robot._kernels.regressor import regressor
from bodysense.robot._kernels.tree import DERIVATIVES_WIDTH, make_scratch, move, weigh
from bodysense.simulation._kernels.rollout import (
    begin_step,
    control,
    end_stage,
    end_step,
    is_lost,
    is_stuck,
    make_state,
    net_torque,
    observe,
    stage_weights,
)
from bodysense.spatial.arrays import Array


class Tangent(NamedTuple):
    """Derivatives of one run's state by its parameters, and working memory."""

    q: Array  # (n, n_p) of the position
    v: Array  # (n, n_p)
    error_sum: Array  # (n, n_p) of the integral in reduced motor coordinates
    tau: Array  # (n, n_p)
    a: Array  # (n, n_p)
    q_stage: Array  # (n, n_p)
    v_stage: Array  # (n, n_p)
    dq: Array  # (n, n_p) weighted sum of the stages' slopes
    dv: Array  # (n, n_p)
    q_last: Array  # (n, n_p) of the position one control period before
    v_seen: Array  # (n, n_p) of the velocity as the controller sees it
    signal: Array  # (n, n_p) of each motor's torque
    Y: Array  # (n, p) regressor
    by_q: Array  # (n, n) ∂ID/∂q
    by_v: Array  # (n, n) ∂ID/∂v


@allocating
def make_tangent(n, n_parameters, size):
    """Allocate the derivatives of one run."""
    shape = (n, n_parameters)
    return Tangent(
        np.zeros(shape),
        np.zeros(shape),
        np.zeros(shape),
        np.zeros(shape),
        np.zeros(shape),
        np.zeros(shape),
        np.zeros(shape),
        np.zeros(shape),
        np.zeros(shape),
        np.zeros(shape),
        np.zeros(shape),
        np.zeros(shape),
        np.zeros((n, size)),
        np.zeros((n, n)),
        np.zeros((n, n)),
    )


@inlined
def observe_tangent(loop, k, d):
    """The derivative of `observe`: of true velocities, or of differences of positions."""
    n, n_p = d.q.shape
    for j in range(n):
        for c in range(n_p):
            d.v_seen[j, c] = d.v[j, c]
            if loop.differentiate == 1:
                if k > 0:
                    d.v_seen[j, c] = (d.q[j, c] - d.q_last[j, c]) / loop.period
                d.q_last[j, c] = d.q[j, c]


@inlined
def control_tangent(loop, x, d):
    """Dtau of the PD(I) law; a saturated motor does not answer and its integral stands still.

    Called after `control`, so x.signal tells which motors are saturated. With a coupling, errors
    are seen and torques are given in motor coordinates.
    """
    n, n_p = d.q.shape
    for j in range(n):
        free = 1.0 if abs(x.signal[j]) < loop.limit[j] else 0.0
        kp, kd, ki = free * loop.kp[j], free * loop.kd[j], free * loop.ki[j]
        for c in range(n_p):
            d.signal[j, c] = ki * d.error_sum[j, c]
        for i in range(n):
            if loop.coupling[j, i] != 0.0:
                p, v = kp * loop.coupling[j, i], kd * loop.coupling[j, i]
                e = free * loop.period * loop.coupling[j, i]
                for c in range(n_p):
                    d.signal[j, c] -= p * d.q[i, c] + v * d.v_seen[i, c]
                    d.error_sum[j, c] -= e * d.q[i, c]
    for j in range(n):
        for c in range(n_p):
            d.tau[j, c] = 0.0
        for i in range(n):
            if loop.coupling[i, j] != 0.0:
                gain = loop.coupling[i, j]
                for c in range(n_p):
                    d.tau[j, c] += gain * d.signal[i, c]


@inlined
def load_slope(tree, theta, v, load, j):
    """By how much the torque of joint j changes with its load T: S = 1 + Fl s(v) sign(T)."""
    g = load_share(tree, theta, j, v[j])
    return 1.0 if load[j] == 0.0 else 1.0 + math.copysign(g, g * load[j])


@inlined
def add_friction_slope(tree, theta, v, load, w, by_q, by_v):
    """Make derivatives (n, n) of the loads (n,) of the joints those of their torques."""
    n = tree.parent.size
    start = 11 * n
    loaded = load_term(tree)
    for j in range(n):
        friction_basis(tree, j, v[j], w.phi, w.dphi)
        if loaded >= 0:
            w.dphi[loaded] *= abs(load[j])
            slope = load_slope(tree, theta, v, load, j)
            for i in range(n):
                by_q[j, i] *= slope
                by_v[j, i] *= slope
        for k in range(tree.term.size):
            by_v[j, j] += theta[start + k * n + j] * w.dphi[k]
    start += tree.term.size * n
    for k in range(tree.coupled_term.size):
        code = tree.coupled_term[k]
        speed = 0.0
        for j in range(n):
            speed += tree.coupling[k, j] * v[j]
        slope = 0.0 if code == 0 else 1.0
        if code == 2:
            _, slope = smooth_sign(speed, tree.coupled_width[k])
        for i in range(n):
            for j in range(n):
                if code == 2 or i != j:
                    by_v[i, j] += (
                        theta[start + k] * slope * tree.coupling[k, i] * tree.coupling[k, j]
                    )


@inlined
def _solve_columns(dof_parent, M, X):
    """Solve M X = B in place for all columns, with the factors of `factorise`."""
    n, n_p = X.shape
    for i in range(n - 1, -1, -1):
        j = dof_parent[i]
        while j >= 0:
            factor = M[i, j]
            for c in range(n_p):
                X[j, c] -= factor * X[i, c]
            j = dof_parent[j]
    for i in range(n):
        inverse = 1.0 / M[i, i]
        for c in range(n_p):
            X[i, c] *= inverse
        j = dof_parent[i]
        while j >= 0:
            factor = M[i, j]
            for c in range(n_p):
                X[i, c] -= factor * X[j, c]
            j = dof_parent[j]


@inlined
def _load_columns(tree, theta, v, load, Y):
    """Make the regressor Y (n, p) of the loads (n,) that of the torques, at given loads."""
    n = tree.parent.size
    loaded = load_term(tree)
    if loaded < 0:
        return
    for j in range(n):
        slope = load_slope(tree, theta, v, load, j)
        for c in range(11 * n):
            Y[j, c] *= slope
        for k in range(tree.coupled_term.size):
            if tree.coupled_term[k] == 0:
                Y[j, 11 * n + n * tree.term.size + k] *= slope
        Y[j, 11 * n + n * loaded + j] *= abs(load[j])


@inlined
def acceleration_tangent(tree, theta, columns, w, x, d):
    """d.a of one stage, after `forward_dynamics` there: poses and factors in w, loads in x.net."""
    n, n_p = d.q.shape
    b, v = w.body, x.v_stage
    move(tree, v, x.a, True, tree.gravity, b)
    weigh(tree, theta, b)
    gather(tree, b, w.bias)
    if tree.coupled_term.size > 0:  # a motor may couple branches, where by_v is not written anew
        for i in range(n):
            for j in range(n):
                d.by_v[i, j] = 0.0
    inverse_dynamics_derivatives(tree, b, w.motion, d.by_q, d.by_v)
    add_friction_slope(tree, theta, v, x.net, w, d.by_q, d.by_v)
    regressor(tree, v, x.a, w, d.Y)
    _load_columns(tree, theta, v, x.net, d.Y)
    for i in range(n):
        for c in range(n_p):
            d.a[i, c] = d.tau[i, c] - d.Y[i, columns[c]]
        for j in range(n):
            by_q, by_v = d.by_q[i, j], d.by_v[i, j]
            if by_q != 0.0 or by_v != 0.0:
                for c in range(n_p):
                    d.a[i, c] -= by_q * d.q_stage[j, c] + by_v * d.v_stage[j, c]
        if load_term(tree) >= 0:
            inverse = 1.0 / load_slope(tree, theta, v, x.net, i)
            for c in range(n_p):
                d.a[i, c] *= inverse
    _solve_columns(tree.dof_parent, w.M, d.a)


@inlined
def begin_step_tangent(d):
    """Start the stages of one integration step at the present derivatives."""
    n, n_p = d.q.shape
    for j in range(n):
        for c in range(n_p):
            d.q_stage[j, c] = d.q[j, c]
            d.v_stage[j, c] = d.v[j, c]
            d.dq[j, c] = 0.0
            d.dv[j, c] = 0.0


@inlined
def end_stage_tangent(weight, ahead, d):
    """The derivative of `end_stage`."""
    n, n_p = d.q.shape
    for j in range(n):
        for c in range(n_p):
            d.dq[j, c] += weight * d.v_stage[j, c]
            d.dv[j, c] += weight * d.a[j, c]
            d.q_stage[j, c] = d.q[j, c] + ahead * d.v_stage[j, c]
            d.v_stage[j, c] = d.v[j, c] + ahead * d.a[j, c]


@inlined
def end_step_tangent(step, d):
    """The derivative of `end_step`."""
    n, n_p = d.q.shape
    for j in range(n):
        for c in range(n_p):
            d.q[j, c] += step * d.dq[j, c]
            d.v[j, c] += step * d.dv[j, c]


@inlined
def _run_with_tangent(
    tree, theta, columns, loop, q_d, v_d, feed_forward, silence, start, w, x, d, q, tau, dq, dtau
):
    """One run into q, tau (n_s, n) and their derivatives (n_s, n, n_p).

    Returns the control step from which on the run was lost, or -1; what follows a loss is left as
    it is.
    """
    n, n_p = d.q.shape
    for j in range(n):
        x.q[j] = start[0, j]
        x.v[j] = start[1, j]
    step = loop.period / loop.substeps
    s = 0
    for k in range(q_d.shape[0]):
        observe(loop, k, silence, np.uint64(0), x)
        control(loop, q_d, v_d, feed_forward, k, x)
        observe_tangent(loop, k, d)
        control_tangent(loop, x, d)
        if loop.sample[s] == k:
            for j in range(n):
                q[s, j] = x.q[j]
                tau[s, j] = x.tau[j]
                for c in range(n_p):
                    dq[s, j, c] = d.q[j, c]
                    dtau[s, j, c] = d.tau[j, c]
            s += 1
            if s == loop.sample.size:
                return -1
        for _ in range(loop.substeps):
            begin_step(x)
            begin_step_tangent(d)
            for stage in range(loop.integrator):
                net_torque(tree, theta, x.v_stage, w, x)
                forward_dynamics(tree, theta, x.q_stage, x.v_stage, x.net, tree.gravity, w, x.a)
                if is_stuck(x):
                    return k
                acceleration_tangent(tree, theta, columns, w, x, d)
                weight, ahead = stage_weights(loop.integrator, stage)
                end_stage(weight, ahead * step, x)
                end_stage_tangent(weight, ahead * step, d)
            end_step(step, x)
            end_step_tangent(step, d)
        if is_lost(x):
            return k + 1
    return -1


@threaded
def run_with_tangent_batch(
    first,
    last,
    tree,
    theta,
    columns,
    loop,
    q_d,
    v_d,
    feed_forward,
    silence,
    start,
    q,
    tau,
    dq,
    dtau,
    lost,
):
    """Many runs of the same reference with their derivatives, one row of theta each."""
    n = q_d.shape[1]
    for r in range(first, last):
        w = make_scratch(n, 0, tree.term.size, DERIVATIVES_WIDTH)
        x = make_state(n)
        d = make_tangent(n, columns.size, theta.shape[1])
        row = r % theta.shape[0]
        lost[r] = _run_with_tangent(
            tree,
            theta[row],
            columns,
            loop,
            q_d,
            v_d,
            feed_forward,
            silence,
            start,
            w,
            x,
            d,
            q[r],
            tau[r],
            dq[r],
            dtau[r],
        )
