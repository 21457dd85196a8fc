"""The momentum observer as a Kalman filter, sample by sample, compiled.

State: momentum p and external torques d, which walk at random with spectral density Q,

    p' = u + d + noise,   d' = noise,   measured  M(q) v = p + noise,   R = M Σ_v Mᵀ

between samples, u = tau - friction + β - g by the trapezoidal rule. With densities C = Σ_tau h and
R h of the noises of torque and momentum, and W = diag(ω) of the bandwidths,

    Q = W C W + W² R h W²

makes the estimate follow the external torque with -3 dB at ω: C and R are diagonal together in some
axes, where the response to d is

    |H|² = k / (k + ω⁴ + (c/r) ω²),   k = q / r,       so that |H(ω)|² = 1/2  <=>  q = c ω² + r ω⁴.

Where velocities are exact it is the classic observer, dr/dt = K (tau_ext - r) with K = ω.

P is the covariance if d walks as supposed, and sets the gains. D is the part of P that the walk
has brought about since: P - D is the covariance of the error of a d that stays, under noise alone.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

from bodysense.compiled.jit import called, inlined, threaded
from bodysense.compiled.views import Integers, reader
from bodysense.estimation._kernels.momentum import (
    add_weight,
    bodies_at,
    full_mass_matrix,
    gravity_slope,
    speed_drift,
    uncertain_friction,
    weight_by_position,
)
from bodysense.estimation._kernels.momentum_gains import (
    add_square,
    delay_of,
    inverse_of,
    momentum_noise,
    stretch,
    take_in_velocity,
)
from bodysense.robot._kernels.tree import scratch_at, tree_at
from bodysense.spatial.arrays import Array

_ABSURD = 1e9
"""Numbers beyond this in SI units are no measurement; they are missing."""
_FASTEST = 1e3
"""rad/s or m/s: no joint or base goes faster; such a velocity is missing, and none is predicted."""
_FARTHEST = 1e3
"""m: no joint slides so far; such a position is missing."""
_UNKNOWN_TORQUE = 300.0
"""Noise of a torque that is missing, in those of one that is there: the sample then changes the
estimate by 1/300 of what it would."""
_UNKNOWN_SPEED = 10.0
"""Largest standard deviation of a velocity that is missing [rad/s]; that of one that the model
cannot predict."""
_LOST = math.pi
"""Largest standard deviation of a position that is missing [rad]."""
_LAG_NOISE = 3.0
"""Squared lag that noise explains, over delay² and the variance of the estimate. Measured on an arm
without contact, noise alone makes 0.3 to 0.9 of these; where lag exceeds 3.0 it is counted."""
TIME, BEGAN, READY = 0, 1, 2
NO_TORQUE, NO_VELOCITY = 1, 2


class Settings(NamedTuple):
    """Constants of an observer; zero for a base what only joints have."""

    theta: Annotated[Array, "p"]
    omega: Annotated[Array, "nv"]  # bandwidths [rad/s]
    velocity: Annotated[Array, "nv"]  # variances
    torque: Annotated[Array, "nv"]  # variances
    friction: Annotated[Array, "nv"]  # standard deviation of the law per unit of friction
    start: Annotated[Array, "nv"]  # variance of tau_ext at the start
    gravity: float  # variance of each component
    longest: float  # step [s]


class Memory(NamedTuple):
    """What an observer knows after a sample, and its working memory.

    P and D have three blocks: momentum, momentum with torque, torque.
    """

    clock: Annotated[Array, 3]  # time of the last sample, time of the start, 1 once started
    q: Annotated[Array, "n"]
    v: Annotated[Array, "nv"]
    tau: Annotated[Array, "n"]
    g: Annotated[Array, 3]
    drift: Annotated[Array, "nv"]  # u
    noise: Annotated[Array, "nv"]  # variance of the torques behind u that is new with each sample
    p: Annotated[Array, "nv"]
    d: Annotated[Array, "nv"]
    P: Annotated[Array, 3, "nv", "nv"]
    D: Annotated[Array, 3, "nv", "nv"]
    stuck: Annotated[Array, "nv"]  # standard deviation of d by friction of either direction
    change: Annotated[Array, "nv"]  # of d, smooth, times the delay: by which d is behind
    lag: Annotated[Array, "nv"]  # what of it noise does not explain
    unseen: Annotated[Array, "nv"]  # more lag, of a change that went on while readings lacked
    q_std: Annotated[Array, "n"]  # of positions that were predicted
    spread: Annotated[Array, "nv"]  # variances of the velocities of this sample
    lacking: Annotated[Integers, "nv"]  # of what this sample has no torque, or no velocity
    new_drift: Annotated[Array, "nv"]
    new_noise: Annotated[Array, "nv"]
    between: Annotated[Array, "nv"]
    nu: Annotated[Array, "nv"]
    z: Annotated[Array, "nv"]  # change of d
    R: Annotated[Array, "nv", "nv"]
    inverse: Annotated[Array, "nv", "nv"]  # of M
    products: Annotated[Array, 4, "nv"]


class Samples(NamedTuple):
    """What was measured at T samples; not finite where it is missing."""

    t: Annotated[Array, "T"]
    q: Annotated[Array, "T", "n"]
    v: Annotated[Array, "T", "nv"]
    tau: Annotated[Array, "T", "n"]
    g: Annotated[Array, "T", 3]  # gravity in base coordinates


class Observed(NamedTuple):
    """The estimates at T samples."""

    tau_ext: Annotated[Array, "T", "nv"]
    covariance: Annotated[Array, "T", "nv", "nv"]
    lag: Annotated[Array, "T", "nv"]
    q: Annotated[Array, "T", "n"]  # positions, predicted where they were missing
    updated: Annotated[Integers, "T"]  # 1 where velocities said something


_settings_at, _memory_at = reader(Settings), reader(Memory)
_samples_at, _observed_at = reader(Samples), reader(Observed)


@inlined
def _known(x):
    return abs(x) < _ABSURD  # not NaN either


@inlined
def _is_position(tree, j, q):
    return abs(q) < (_ABSURD if tree.prismatic[j] == 0 else _FARTHEST)


@inlined
def _begin(settings, m, M, R, t):
    """First sample, or the first after a long gap: momentum as measured, torques unknown."""
    nv = m.p.size
    m.clock[BEGAN], m.clock[READY] = t, 1.0
    for i in range(nv):
        m.p[i], m.d[i], m.stuck[i] = 0.0, 0.0, math.sqrt(m.between[i])
        for k in range(nv):
            m.p[i] += M[i, k] * m.v[k]
        m.change[i], m.lag[i], m.unseen[i] = 0.0, 0.0, 0.0
        for j in range(nv):
            m.P[0, i, j], m.P[1, i, j], m.P[2, i, j] = R[i, j], 0.0, 0.0
            m.D[0, i, j], m.D[1, i, j], m.D[2, i, j] = 0.0, 0.0, 0.0
        m.P[2, i, i] = settings.start[i]


@called
def _predict_velocities(settings, m, h, positive):
    """Fill in velocities that are missing: M⁻¹ p, with its covariance; P is stretched already."""
    nv, inverse = m.p.size, m.inverse
    for i in range(nv):
        if m.lacking[i] == 0:
            continue
        speed, variance = m.v[i], _UNKNOWN_SPEED * _UNKNOWN_SPEED
        if positive and m.clock[READY] == 1.0:
            speed, variance = 0.0, 0.0
            for j in range(nv):
                speed += inverse[i, j] * (m.p[j] + h * (m.drift[j] + m.d[j]))
                x = h * h * m.noise[j] * inverse[i, j]
                for k in range(nv):
                    x += m.P[0, j, k] * inverse[i, k]
                variance += inverse[i, j] * x
            if not abs(speed) < _FASTEST:
                speed = m.v[i]
        m.v[i] = speed
        variance = max(0.0, min(variance, _UNKNOWN_SPEED * _UNKNOWN_SPEED))
        m.spread[i] = variance + settings.velocity[i]


@called
def _take_sample(tree, m, x, t, h):
    """Last values stand for what is missing; returns how many velocities there are."""
    n, nv = m.q.size, m.p.size
    base = nv - n
    there = 0
    for i in range(nv):
        m.lacking[i] = 0 if abs(x.v[t, i]) < _FASTEST else NO_VELOCITY  # NaN is not
        if m.lacking[i] == 0:
            m.v[i] = x.v[t, i]
            there += 1
    for j in range(n):
        if _is_position(tree, j, x.q[t, j]):
            m.q[j], m.q_std[j] = x.q[t, j], 0.0
        else:  # as far as it went since
            m.q[j] += h * m.v[base + j]
            m.q_std[j] = min(_LOST, m.q_std[j] + h * math.sqrt(m.spread[base + j]))
    for j in range(n):
        if _known(x.tau[t, j]):
            m.tau[j] = x.tau[t, j]
    if _known(x.g[t, 0]) and _known(x.g[t, 1]) and _known(x.g[t, 2]):
        for e in range(3):
            m.g[e] = x.g[t, e]
    return there


@called
def _drift(tree, settings, m, w, x, t):
    """Write u and its noise of the present positions and velocities; w holds the bodies."""
    nv, base = m.p.size, m.p.size - m.q.size
    lost = m.nu
    uncertain_friction(
        tree,
        settings.theta,
        m.v,
        m.spread,
        m.tau,
        settings.friction,
        w,
        lost,
        m.new_noise,
        m.between,
    )
    for i in range(nv):
        m.new_noise[i] += settings.torque[i]
        m.new_drift[i] -= lost[i]
        if i >= base:
            m.new_drift[i] += m.tau[i - base]
            if not _known(x.tau[t, i - base]):
                m.new_noise[i] += _UNKNOWN_TORQUE * _UNKNOWN_TORQUE * settings.torque[i]
                m.lacking[i] = max(m.lacking[i], NO_TORQUE)


@inlined
def _within_step(omega, h):
    """Bandwidth times step, one at most: nothing is followed within a step."""
    return min(omega * h, 1.0)


@called
def _predict(settings, m, h, R):
    """Momentum and walk up to this sample; P and D are stretched already. R is of all readings."""
    nv = m.p.size
    for i in range(nv):
        m.p[i] += h * (0.5 * (m.drift[i] + m.new_drift[i]) + m.d[i])
        m.P[0, i, i] += h * h * 0.5 * (m.noise[i] + m.new_noise[i])
    for i in range(nv):
        for j in range(nv):
            w = _within_step(settings.omega[i], h) * _within_step(settings.omega[j], h)
            q = w * w * R[i, j] / (h * h)
            if i == j:
                q += w * settings.torque[i]
            m.P[2, i, j] += q
            if m.lacking[i] == 0 or m.lacking[j] == 0:
                m.D[2, i, j] += q


@called
def _follow(settings, m, h, time, R, change):
    """Lag and friction of either direction, as the estimate follows them."""
    for i in range(m.p.size):
        w = _within_step(settings.omega[i], h) / h
        a = 1.0 - math.exp(-w * h)
        m.stuck[i] += a * (math.sqrt(m.between[i]) - m.stuck[i])
        if w * (time - m.clock[BEGAN]) < 1.0:  # what was unknown is no lag
            m.change[i], m.lag[i], m.unseen[i] = 0.0, 0.0, 0.0
            continue
        delay = delay_of(settings.torque[i] / (R[i, i] * w * w))
        seen = m.lag[i] - m.unseen[i]
        if m.lacking[i] > 0:  # it goes on as before
            m.unseen[i] += h * seen * w / delay
        else:
            m.unseen[i] *= 1.0 - a
            m.change[i] += a * (change[i] * delay / (w * h) - m.change[i])
            noise = _LAG_NOISE * delay * delay * (m.P[2, i, i] - m.D[2, i, i])
            excess = max(0.0, m.change[i] * m.change[i] - noise)
            seen = math.copysign(math.sqrt(excess), m.change[i])
        m.lag[i] = seen + m.unseen[i]


@called
def _write(tree, settings, m, w, y, t):
    """Estimate and covariance of a sample."""
    nv, n = m.p.size, m.q.size
    for i in range(nv):
        y.tau_ext[t, i], y.lag[t, i] = m.d[i], m.lag[i]
        for j in range(nv):
            y.covariance[t, i, j] = m.P[2, i, j] - m.D[2, i, j]
        y.covariance[t, i, i] = max(0.0, y.covariance[t, i, i]) + m.stuck[i] * m.stuck[i]
    for j in range(n):
        y.q[t, j] = m.q[j]
        if m.q_std[j] > 0.0:
            weight_by_position(tree, w.body, m.g, j, m.nu)
            add_square(m.q_std[j] * m.q_std[j], m.nu, y.covariance[t])
    if settings.gravity > 0.0:
        for e in range(3):
            for i in range(nv):
                m.nu[i] = gravity_slope(tree, w.body, i)[e]
            add_square(settings.gravity, m.nu, y.covariance[t])


@called
def _write_prior(settings, m, y, t):
    """Of a sample before the first with all positions, or one that is late: what was known."""
    nv = m.p.size
    for i in range(nv):
        y.tau_ext[t, i], y.lag[t, i] = m.d[i], m.lag[i]
        for j in range(nv):
            y.covariance[t, i, j] = m.P[2, i, j] - m.D[2, i, j]
        y.covariance[t, i, i] += settings.start[i] if m.clock[READY] == 0.0 else m.stuck[i] ** 2
    for j in range(m.q.size):
        y.q[t, j] = m.q[j]
    y.updated[t] = 0


@called
def _correct(settings, m, inverse):
    """Take in the velocities that there are; z becomes the change of d. False if there are none."""
    taken = False
    for i in range(m.p.size):
        m.z[i] = 0.0
    for i in range(m.p.size):
        if m.lacking[i] < NO_VELOCITY:
            take_in_velocity(m, inverse[i], m.v[i], settings.velocity[i])
            taken = True
    return taken


@called
def _step(tree, settings, m, w, x, y, t):
    """One sample."""
    nv = m.p.size
    h = x.t[t] - m.clock[TIME]
    if h > settings.longest:
        m.clock[READY] = 0.0
    started = m.clock[READY] == 1.0
    usable = _known(x.t[t]) and (not started or h > 0.0)
    for j in range(m.q.size):
        usable = usable and (started or _is_position(tree, j, x.q[t, j]))
    if not usable:
        _write_prior(settings, m, y, t)
        return
    if not started:
        h = 0.0
    m.clock[TIME] = x.t[t]
    there = _take_sample(tree, m, x, t, h)
    for i in range(nv):
        m.spread[i] = settings.velocity[i]
    bodies_at(tree, settings.theta, m.q, w)
    stretch(m.P, h)
    stretch(m.D, h)
    if there < nv:
        full_mass_matrix(tree, settings.theta, w)
        positive = inverse_of(w.M, m.nu, m.inverse)
        _predict_velocities(settings, m, h, positive)
        bodies_at(tree, settings.theta, m.q, w)
    speed_drift(tree, m.v, w.body, m.new_drift)
    full_mass_matrix(tree, settings.theta, w)
    positive = inverse_of(w.M, m.nu, m.inverse)
    add_weight(tree, w.body, m.g, m.new_drift)
    _drift(tree, settings, m, w, x, t)
    y.updated[t] = 0
    if started:
        momentum_noise(w.M, settings.velocity, m.R)
        _predict(settings, m, h, m.R)
        if positive and _correct(settings, m, m.inverse):
            y.updated[t] = 1
        _follow(settings, m, h, x.t[t], m.R, m.z)
    else:
        momentum_noise(w.M, m.spread, m.R)
        _begin(settings, m, w.M, m.R, x.t[t])
    for i in range(nv):
        m.drift[i], m.noise[i] = m.new_drift[i], m.new_noise[i]
    _write(tree, settings, m, w, y, t)


# Tree, scratch, settings, memory, samples and results are addresses of tables.


@threaded
def observe(first, last, tree, w, settings, memory, samples, observed):
    """Samples first … last - 1, one after the other."""
    tree, w, settings, m = tree_at(tree), scratch_at(w), _settings_at(settings), _memory_at(memory)
    x, y = _samples_at(samples), _observed_at(observed)
    for t in range(first, last):
        _step(tree, settings, m, w, x, y, t)
