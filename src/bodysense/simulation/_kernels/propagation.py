"""From one sample of a log to the next, compiled: many points at once, or one with its tangent.

A point is [p, q, v]: scaled parameters p, of which theta[columns] = centre + scale p and all other
parameters are zero, and a state. Torques are either held over the interval or come from the
controller, which acts several times within it and sees the point's own state. Friction is a
function of velocity alone, LuGre's at its steady state.
"""

from __future__ import annotations

import numpy as np

from bodysense.compiled.jit import inlined, threaded
from bodysense.robot._kernels.dynamics import add_friction, forward_dynamics
from bodysense.robot._kernels.tree import DERIVATIVES_WIDTH, DYNAMICS_WIDTH, make_scratch
from bodysense.simulation._kernels.rollout import (
    begin_step,
    control,
    end_stage,
    end_step,
    make_state,
    stage_weights,
)
from bodysense.simulation._kernels.sensitivity import (
    acceleration_tangent,
    begin_step_tangent,
    control_tangent,
    end_stage_tangent,
    end_step_tangent,
    make_tangent,
    observe_tangent,
)


@inlined
def _set_point(columns, centre, scale, point, theta, x):
    """Parameters and state of a point; theta keeps its zeros elsewhere."""
    b, n = centre.size, x.q.size
    for c in range(b):
        theta[columns[c]] = centre[c] + scale[c] * point[c]
    for j in range(n):
        x.q[j] = point[b + j]
        x.v[j] = point[b + n + j]
        x.error_sum[j] = 0.0


@inlined
def _begin_period(loop, tau, q_d, v_d, feed_forward, k, x):
    """x.tau of one period: the held torque, or the controller's answer to the point's state."""
    if q_d.shape[0] == 0:
        for j in range(x.q.size):
            x.tau[j] = tau[j]
        return
    for j in range(x.q.size):
        x.q_seen[j] = x.q[j]
        x.v_seen[j] = x.v[j]
    control(loop, q_d, v_d, feed_forward, k, x)


@inlined
def _accelerate(tree, theta, w, x):
    """x.a of one stage."""
    n = x.q.size
    for j in range(n):
        x.net[j] = 0.0
    add_friction(tree, theta, x.v_stage, w, x.net)
    for j in range(n):
        x.net[j] = x.tau[j] - x.net[j]
    forward_dynamics(tree, theta, x.q_stage, x.v_stage, x.net, tree.gravity, w, x.a)


@threaded
def advance_points(
    first, last, tree, columns, centre, scale, loop, tau, q_d, v_d, feed_forward, size, points, out
):
    """Points (m, b + 2 n) from first to last - 1 one interval on, into out (m, 2 n).

    Args: `tau` (n,) is held, unless there are references q_d, v_d (n_periods, n); theta has
    `size` parameters.
    """
    n = tree.parent.size
    periods = max(q_d.shape[0], 1)
    step = loop.period / loop.substeps
    w = make_scratch(n, 0, tree.term.size, DYNAMICS_WIDTH)
    x = make_state(n)
    theta = np.zeros(size)
    for r in range(first, last):
        _set_point(columns, centre, scale, points[r], theta, x)
        for k in range(periods):
            _begin_period(loop, tau, q_d, v_d, feed_forward, k, x)
            for _ in range(loop.substeps):
                begin_step(x)
                for stage in range(loop.integrator):
                    _accelerate(tree, theta, w, x)
                    weight, ahead = stage_weights(loop.integrator, stage)
                    end_stage(weight, ahead * step, x)
                end_step(step, x)
        for j in range(n):
            out[r, j] = x.q[j]
            out[r, n + j] = x.v[j]


@threaded
def advance_with_tangent(
    tree, columns, centre, scale, loop, tau, q_d, v_d, feed_forward, size, point, out, F
):
    """One point (b + 2 n,) an interval on, into out (2 n,), and F (2 n, b + 3 n).

    F holds the derivatives of out by the point, then by a torque that acts beside the others for
    all of the interval. `columns` has b + 3 n entries: those of states and torques name a column
    past the last parameter, which stays zero.
    """
    n = tree.parent.size
    b = centre.size
    periods = max(q_d.shape[0], 1)
    step = loop.period / loop.substeps
    w = make_scratch(n, 0, tree.term.size, DERIVATIVES_WIDTH)
    x = make_state(n)
    d = make_tangent(n, b + 3 * n, size + 1)
    theta = np.zeros(size)
    _set_point(columns, centre, scale, point, theta, x)
    for j in range(n):
        d.q[j, b + j] = 1.0
        d.v[j, b + n + j] = 1.0
        d.tau[j, b + 2 * n + j] = 1.0
    for k in range(periods):
        _begin_period(loop, tau, q_d, v_d, feed_forward, k, x)
        if q_d.shape[0] > 0:
            observe_tangent(loop, k, d)
            control_tangent(loop, x, d)
            for j in range(n):
                d.tau[j, b + 2 * n + j] += 1.0
        for _ in range(loop.substeps):
            begin_step(x)
            begin_step_tangent(d)
            for stage in range(loop.integrator):
                _accelerate(tree, theta, w, x)
                acceleration_tangent(tree, theta, columns, w, x, d)
                weight, ahead = stage_weights(loop.integrator, stage)
                end_stage(weight, ahead * step, x)
                end_stage_tangent(weight, ahead * step, d)
            end_step(step, x)
            end_step_tangent(step, d)
    for j in range(n):
        out[j] = x.q[j]
        out[n + j] = x.v[j]
        for c in range(b + 3 * n):
            unit = scale[c] if c < b else 1.0
            F[j, c] = unit * d.q[j, c]
            F[n + j, c] = unit * d.v[j, c]
