"""Joints of a stream whose position or velocity is missing, predicted: compiled.

The standard deviation of the prediction grows as errors of one sign do,

    s_a ← min(s_a + J dt, 1.5 A),   s_v ← s_v + s_a dt,   s_q ← s_q + s_v dt

with J and A the root mean squares of the joint's jerk and acceleration of late. What is not heard
of for long comes to rest, as far as anybody knows, within the velocities that it usually has.
"""

from __future__ import annotations

import math

from bodysense.compiled.jit import called
from bodysense.estimation._kernels.watch_memory import (
    AT_MOST,
    DT,
    FARTHEST,
    HELD_DQ,
    HELD_Q,
    LEAST_COUNT,
    MEMORY,
    ODD_STATE,
    OUTLIER,
    PATIENCE,
    ROBUST,
    SMOOTH,
    STOPPING,
    UNCERTAIN,
    share,
)


@called
def _begin_joint(w, j, q, dq):
    """First sample, or the first after a long pause: nothing is predicted."""
    if math.isfinite(q):
        w.q[j] = q
        w.s_q[j] = 0.0
    known = math.isfinite(dq)
    w.dq[j] = dq if known else 0.0
    w.s_dq[j] = 0.0 if known else AT_MOST * math.sqrt(w.v2[j])
    if not math.isfinite(q):
        w.s_q[j] += STOPPING * AT_MOST * math.sqrt(w.v2[j])
    w.ddq[j] = w.s_ddq[j] = 0.0
    w.odd_q[j] = w.odd_dq[j] = 0


@called
def _learn_velocity(w, j, dt, dq, predicted):
    """Take a measured velocity in: acceleration, jerk, and how well it was predicted."""
    part = max(share(dt, MEMORY), 1.0 / (1.0 + w.seen[j]))
    nu, gap = dq - predicted, w.s_dq[j] > 0.0
    largest = 9.0 * w.nu2[j]
    w.nu2[j] += part * ((nu * nu if w.seen[j] < LEAST_COUNT else min(nu * nu, largest)) - w.nu2[j])
    w.v2[j] += part * (dq * dq - w.v2[j])
    if not gap and w.seen[j] > 0:
        before = w.ddq[j]
        w.ddq[j] += share(dt, SMOOTH) * ((dq - (predicted - before * dt)) / dt - before)
        jerk = (w.ddq[j] - before) / dt
        w.j2[j] += part * (jerk * jerk - w.j2[j])
        w.a2[j] += part * (w.ddq[j] * w.ddq[j] - w.a2[j])
    w.seen[j] += 1
    w.s_dq[j] = w.s_ddq[j] = 0.0
    w.dq[j] = dq


@called
def _is_odd(w, difference, variance, run, seen):
    """Whether a number differs too much from its prediction, and has not done so for long."""
    return (
        w.now[ROBUST] > 0.0
        and difference * difference > OUTLIER * OUTLIER * variance
        and run < PATIENCE
        and seen >= LEAST_COUNT
    )


@called
def _usual_error(w, j, dt):
    """Variance of what a velocity differs from its prediction: usual accelerations are no error."""
    return w.nu2[j] + w.s_dq[j] ** 2 + dt * dt * w.a2[j] + 1e-6 * w.v2[j] + 1e-18


@called
def _predict(w, j, dt):
    """The joint at this sample, from the last; the velocity before is returned."""
    before = w.dq[j]
    w.q[j] += dt * (before + 0.5 * dt * w.ddq[j])
    w.dq[j] += dt * w.ddq[j]
    return before


@called
def _grow(w, j, dt):
    """Of a velocity that is missing: its uncertainty grows, and the joint comes to rest."""
    stop, ease, jerk = share(dt, STOPPING), share(dt, 5.0 * SMOOTH), math.sqrt(w.j2[j])
    w.s_ddq[j] = max(w.s_ddq[j], SMOOTH * jerk) + dt * jerk + ease * abs(w.ddq[j])
    w.s_ddq[j] = min(w.s_ddq[j], AT_MOST * math.sqrt(w.a2[j]))
    w.s_dq[j] = max(w.s_dq[j], math.sqrt(w.nu2[j])) + dt * w.s_ddq[j] + stop * abs(w.dq[j])
    w.s_dq[j] = min(w.s_dq[j], AT_MOST * math.sqrt(w.v2[j]) + math.sqrt(w.nu2[j]))
    w.ddq[j] *= 1.0 - ease
    w.dq[j] *= 1.0 - stop


@called
def _correct_velocity(w, j, q):
    """Velocity from a position alone: errors of the prediction have one sign."""
    s, v = w.s_q[j], w.s_dq[j]
    spread = s * s + 0.5 * w.e2[j] + 1e-18
    w.dq[j] += s * v / spread * (q - w.q[j])
    w.s_dq[j] *= math.sqrt((0.5 * w.e2[j] + 1e-18) / spread)


@called
def take_joint(c, w, j, q, dq):
    dt, counts = w.now[DT], w.counts
    if math.isfinite(dq) and abs(dq) > c.speed[j]:
        counts[ODD_STATE] += 1
        dq = math.nan
    if math.isfinite(q) and abs(q) > FARTHEST:
        counts[ODD_STATE] += 1
        q = math.nan
    if dt < 0.0:
        _begin_joint(w, j, q, dq)
    else:
        last = w.q[j]
        before = _predict(w, j, dt)
        if math.isfinite(dq) and _is_odd(
            w, dq - w.dq[j], _usual_error(w, j, dt), w.odd_dq[j], w.seen[j]
        ):
            counts[ODD_STATE] += 1
            w.odd_dq[j] += 1
            dq = math.nan
        elif math.isfinite(dq):
            w.odd_dq[j] = 0
        known = math.isfinite(dq)
        if known:
            _learn_velocity(w, j, dt, dq, w.dq[j])
            w.q[j] = last + 0.5 * dt * (before + dq)
            w.s_q[j] += dt * math.sqrt(w.nu2[j]) if w.s_q[j] > 0.0 else 0.0
        else:
            _grow(w, j, dt)
            w.s_q[j] += dt * w.s_dq[j]
        off = q - w.q[j]
        slack = (dt * c.speed[j]) ** 2
        variance = w.s_q[j] ** 2 + w.e2[j] + dt * dt * w.v2[j] + slack / (OUTLIER * OUTLIER) + 1e-18
        if math.isfinite(q) and _is_odd(w, off, variance, w.odd_q[j], w.seen[j]):
            counts[ODD_STATE] += 1
            w.odd_q[j] += 1
            q = math.nan
        if math.isfinite(q):
            if known and w.s_q[j] == 0.0:
                part = max(share(dt, MEMORY), 1.0 / (1.0 + w.seen[j]))
                w.e2[j] += part * (off * off - w.e2[j])
            elif not known:
                _correct_velocity(w, j, q)
            w.q[j] = q
            w.s_q[j] = 0.0
            w.odd_q[j] = 0
        else:
            w.s_q[j] = max(w.s_q[j], math.sqrt(w.e2[j]) + 1e-12)
    counts[HELD_Q] += 0 if math.isfinite(q) else 1
    counts[HELD_DQ] += 0 if math.isfinite(dq) else 1
    counts[UNCERTAIN] += 1 if w.s_dq[j] > 0.0 or w.s_q[j] > 0.0 else 0
