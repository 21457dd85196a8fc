"""Closed-loop rollouts, compiled: one run a thread, nothing allocated inside the time loop.

A run alternates between the controller, which holds its torque for one control period, and the
integrator, which may take several steps in that time.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bodysense.compiled.jit import allocating, in_threads, inlined, threaded
from bodysense.compiled.views import Integers, Table, reader, zeros_of
from bodysense.robot._kernels.dynamics import add_friction, add_motor_friction, forward_dynamics
from bodysense.robot._kernels.friction import stribeck_decay
from bodysense.robot._kernels.tree import DYNAMICS_WIDTH, Tree, scratch_at, scratch_of, tree_at
from bodysense.spatial.arrays import Array

# Random numbers that belong to a run, not to a thread: the same on any number of threads.
#
# A counter run through the finaliser of splitmix64 (Steele, Lea and Flood 2014) gives uniform
# numbers, Box and Muller's transform normal ones. No state but the run's key and a counter.

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31, _S11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)


@inlined
def uniform(key, counter):
    """Return a number in (0, 1] from a run's key and a counter, both unsigned 64-bit."""
    z = key + (counter + np.uint64(1)) * _GOLDEN
    z = (z ^ (z >> _S30)) * _MIX_1
    z = (z ^ (z >> _S27)) * _MIX_2
    z = z ^ (z >> _S31)
    return (np.float64(z >> _S11) + 1.0) * 2.0**-53


@inlined
def normal(key, counter):
    """Return a standard normal number: counters 2k and 2k + 1 are used up."""
    radius = math.sqrt(-2.0 * math.log(uniform(key, np.uint64(2) * counter)))
    angle = uniform(key, np.uint64(2) * counter + np.uint64(1))
    return radius * math.cos(2.0 * math.pi * angle)


class Loop(NamedTuple):
    """The controller and its timing, as plain arrays.

    Attributes:
        kp, kd, ki: (n,) gains times the drive gain: torque a unit of error.
        limit: (n,) largest torque of each motor, infinite if there is none.
        coupling: (n, n) of the actuators.
        coupled: 0 if the coupling is the identity.
        period: control period [s].
        substeps: integration steps a control period.
        integrator: 1 explicit Euler, 2 midpoint, 4 Runge-Kutta of order four.
        differentiate: 1 if the controller sees differences of positions instead of velocities.
        sample: (n_s,) control steps at which the run is recorded, ascending.
    """

    kp: Annotated[Array, "n"]
    kd: Annotated[Array, "n"]
    ki: Annotated[Array, "n"]
    limit: Annotated[Array, "n"]
    coupling: Annotated[Array, "n", "n"]
    coupled: int
    period: float
    substeps: int
    integrator: int
    differentiate: int
    sample: Annotated[Integers, "samples"]


class State(NamedTuple):
    """State and working memory of one run."""

    q: Annotated[Array, "n"]
    v: Annotated[Array, "n"]
    z: Annotated[Array, "n"]  # bristle deflections of LuGre
    error_sum: Annotated[Array, "n"]  # ∫ (q_d - q) dt in reduced motor coordinates
    q_seen: Annotated[Array, "n"]  # as the controller sees it
    q_last: Annotated[Array, "n"]  # what it saw one period before
    v_seen: Annotated[Array, "n"]
    signal: Annotated[Array, "n"]  # torque of each motor
    tau: Annotated[Array, "n"]
    net: Annotated[Array, "n"]  # torque minus friction
    a: Annotated[Array, "n"]
    q_stage: Annotated[Array, "n"]
    v_stage: Annotated[Array, "n"]
    dq: Annotated[Array, "n"]  # weighted sum of the stages' slopes
    dv: Annotated[Array, "n"]


@allocating
def make_state(n):
    """Allocate the state of one run."""
    return State(
        np.zeros(n),
        np.zeros(n),
        np.zeros(n),
        np.zeros(n),
        np.zeros(n),
        np.zeros(n),
        np.zeros(n),
        np.zeros(n),
        np.zeros(n),
        np.zeros(n),
        np.zeros(n),
        np.zeros(n),
        np.zeros(n),
        np.zeros(n),
        np.zeros(n),
    )


@inlined
def observe(loop, k, sigma_q, key, x):
    """What the controller sees at step k: position with encoder noise, velocity from it."""
    n = x.q.size
    for j in range(n):
        x.q_seen[j] = x.q[j]
        if sigma_q[j] > 0.0:
            x.q_seen[j] += sigma_q[j] * normal(key, np.uint64(k * n + j))
        x.v_seen[j] = x.v[j]
        if loop.differentiate == 1:
            if k > 0:  # a controller that starts in motion has seen it before
                x.v_seen[j] = (x.q_seen[j] - x.q_last[j]) / loop.period
            x.q_last[j] = x.q_seen[j]


@inlined
def control(loop, q_d, v_d, feed_forward, k, x):
    """Torque of the PD(I) law into x.tau, motor by motor, saturated; integrals then advance.

    The integral of a motor stands still while its torque is saturated.
    """
    n = x.q.size
    for j in range(n):
        if loop.coupled == 0:
            e = q_d[k, j] - x.q_seen[j]
            de = v_d[k, j] - x.v_seen[j]
        else:
            e, de = 0.0, 0.0
            for i in range(n):
                e += loop.coupling[j, i] * (q_d[k, i] - x.q_seen[i])
                de += loop.coupling[j, i] * (v_d[k, i] - x.v_seen[i])
        torque = loop.kp[j] * e + loop.kd[j] * de + loop.ki[j] * x.error_sum[j]
        if feed_forward.size > 0:
            torque += feed_forward[k, j]
        x.signal[j] = min(max(torque, -loop.limit[j]), loop.limit[j])
        if x.signal[j] == torque:
            x.error_sum[j] += e * loop.period
    for j in range(n):
        if loop.coupled == 0:
            x.tau[j] = x.signal[j]
        else:
            x.tau[j] = 0.0
            for i in range(n):
                x.tau[j] += loop.coupling[i, j] * x.signal[i]


@inlined
def _bristle_rate(tree, theta, j, v, z):
    """LuGre: return ż = v - sigma0 |v| z / g(v) and the decay rate sigma0 |v| / g(v)."""
    n = tree.parent.size
    start = 10 * (n + tree.floating) + n
    e, _ = stribeck_decay(v, tree.shape[j, 1], tree.shape[j, 2])
    g = theta[start + n + j] * (1.0 - e) + theta[start + 2 * n + j] * e
    if g <= 0.0:  # no level to settle at: the bristles stay as they are
        return 0.0, 0.0
    rate = tree.shape[j, 3] * abs(v) / g
    return v - rate * z, rate


@inlined
def net_torque(tree, theta, v, w, x):
    """x.net = x.tau minus friction at velocity v and the present bristle deflections."""
    n = tree.parent.size
    for j in range(n):
        x.net[j] = 0.0
    if tree.bristles == 0:
        add_friction(tree, theta, v, w, x.net)
    else:
        start = 10 * (n + tree.floating) + n
        for j in range(n):
            rate, _ = _bristle_rate(tree, theta, j, v[j], x.z[j])
            x.net[j] = tree.shape[j, 3] * x.z[j] + tree.shape[j, 4] * rate + theta[start + j] * v[j]
        add_motor_friction(tree, theta, v, x.net)
    for j in range(n):
        x.net[j] = x.tau[j] - x.net[j]


@inlined
def _advance_bristles(tree, theta, step, x):
    """Advance z over one step at constant velocity, exactly."""
    for j in range(x.q.size):
        slope, rate = _bristle_rate(tree, theta, j, x.v[j], x.z[j])
        if rate > 0.0:
            x.z[j] -= slope * math.expm1(-rate * step) / rate
        else:
            x.z[j] += slope * step


@inlined
def stage_weights(integrator, stage):
    """Weight of a stage's slope, and how many steps ahead of the state it sends the next one."""
    if integrator == 1:  # explicit Euler
        return 1.0, 0.0
    if integrator == 2:  # midpoint
        return (0.0, 0.5) if stage == 0 else (1.0, 0.0)
    if stage == 0:
        return 1.0 / 6.0, 0.5
    if stage == 1:
        return 1.0 / 3.0, 0.5
    if stage == 2:
        return 1.0 / 3.0, 1.0
    return 1.0 / 6.0, 0.0


@inlined
def begin_step(x):
    """Start the stages of one integration step at the present state."""
    for j in range(x.q.size):
        x.q_stage[j] = x.q[j]
        x.v_stage[j] = x.v[j]
        x.dq[j] = 0.0
        x.dv[j] = 0.0


@inlined
def end_stage(weight, ahead, x):
    """Take the slope (x.v_stage, x.a) of a stage into account and go to the next one."""
    for j in range(x.q.size):
        x.dq[j] += weight * x.v_stage[j]
        x.dv[j] += weight * x.a[j]
        x.q_stage[j] = x.q[j] + ahead * x.v_stage[j]
        x.v_stage[j] = x.v[j] + ahead * x.a[j]


@inlined
def end_step(step, x):
    """Advance position and velocity by the weighted slopes."""
    for j in range(x.q.size):
        x.q[j] += step * x.dq[j]
        x.v[j] += step * x.dv[j]


@inlined
def is_lost(x):
    """Whether the run has left every sensible range."""
    for j in range(x.q.size):
        if not (abs(x.q[j]) < 1e9 and abs(x.v[j]) < 1e9):
            return True
    return False


@inlined
def is_stuck(x):
    """Whether no acceleration follows from the torques: the mass matrix is singular."""
    total = 0.0
    for j in range(x.q.size):
        total += abs(x.a[j])
    return not total < math.inf


@inlined
def _run(
    tree, theta, loop, q_d, v_d, feed_forward, sigma_q, key, start, w, x, q, v, a, tau, q_seen
):
    """One run into the recorded q, v, a, tau, q_seen (n_s, n).

    `start` (2, n) holds the first position and velocity. Returns the control step from which on
    the run was lost, or -1; what follows a loss is left as it is.
    """
    n = q_d.shape[1]
    for j in range(n):
        x.q[j] = start[0, j]
        x.v[j] = start[1, j]
    step = loop.period / loop.substeps
    s = 0
    for k in range(q_d.shape[0]):
        observe(loop, k, sigma_q, key, x)
        control(loop, q_d, v_d, feed_forward, k, x)
        for sub in range(loop.substeps):
            begin_step(x)
            for stage in range(loop.integrator):
                net_torque(tree, theta, x.v_stage, w, x)
                forward_dynamics(tree, theta, x.q_stage, x.v_stage, x.net, tree.gravity, w, x.a)
                if sub == 0 and stage == 0 and loop.sample[s] == k:
                    if is_stuck(x):
                        return k
                    for j in range(n):
                        q[s, j] = x.q[j]
                        v[s, j] = x.v[j]
                        a[s, j] = x.a[j]
                        tau[s, j] = x.tau[j]
                        q_seen[s, j] = x.q_seen[j]
                    s += 1
                    if s == loop.sample.size:
                        return -1
                weight, ahead = stage_weights(loop.integrator, stage)
                end_stage(weight, ahead * step, x)
            if tree.bristles == 1:
                _advance_bristles(tree, theta, step, x)
            end_step(step, x)
        if is_lost(x):
            return k + 1
    return -1


class Runs(NamedTuple):
    """Runs of the same reference, each with its own row of theta and its own noise."""

    theta: Annotated[Array, "rows", "p"]
    q_d: Annotated[Array, "steps", "n"]
    v_d: Annotated[Array, "steps", "n"]
    feed_forward: Annotated[Array, "steps or none", "n"]
    sigma_q: Annotated[Array, "n"]
    key: Annotated[NDArray[np.uint64], "runs"]
    start: Annotated[Array, 2, "n"]  # first position and velocity
    q: Annotated[Array, "runs", "samples", "n"]
    v: Annotated[Array, "runs", "samples", "n"]
    a: Annotated[Array, "runs", "samples", "n"]
    tau: Annotated[Array, "runs", "samples", "n"]
    q_seen: Annotated[Array, "runs", "samples", "n"]
    lost: Annotated[Integers, "runs"]  # control step from which on it was lost, or -1


_loop_at, _runs_at, _state_at = reader(Loop), reader(Runs), reader(State)


@threaded
def run_batch(first, last, tree, loop, runs, w, x):
    """Runs first … last; all others are addresses of tables."""
    tree, loop, runs = tree_at(tree), _loop_at(loop), _runs_at(runs)
    w, x = scratch_at(w), _state_at(x)
    for r in range(first, last):
        for j in range(x.q.size):
            x.z[j] = 0.0
            x.error_sum[j] = 0.0
        runs.lost[r] = _run(
            tree,
            runs.theta[r % runs.theta.shape[0]],
            loop,
            runs.q_d,
            runs.v_d,
            runs.feed_forward,
            runs.sigma_q,
            runs.key[r],
            runs.start,
            w,
            x,
            runs.q[r],
            runs.v[r],
            runs.a[r],
            runs.tau[r],
            runs.q_seen[r],
        )


def simulate_runs(tree: Tree, loop: Loop, runs: Runs) -> None:
    """Simulate all runs on numba's threads."""
    tables = [Table(part) for part in (tree, loop, runs)]
    n = runs.sigma_q.size

    def share(first: int, last: int) -> None:
        own = Table(scratch_of(tree, DYNAMICS_WIDTH)), Table(zeros_of(State, n=n))
        run_batch(first, last, *[table.address for table in (*tables, *own)])

    in_threads(share, len(runs.lost), compiled=run_batch)
