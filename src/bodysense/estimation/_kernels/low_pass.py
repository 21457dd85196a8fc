"""A causal low-pass for all that enters one estimate: compiled, see `..causal`.

Two first-order filters in a row, u → x1 → x2, with one and the same delay for every channel:

    x1 += alpha (u - x1),   x2 += alpha (x1 - x2),   d x2/dt = (x1 - x2) / delay of one

Friction of a drive jumps with the sign of its velocity: it is taken out of its torque before the
filter, and put back with the filtered velocity behind it.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

from bodysense.compiled.jit import called, threaded
from bodysense.compiled.views import Integers, reader
from bodysense.estimation._kernels.watch import (
    channels_at,
    deliver_state,
    friction_at,
    outputs_at,
    watch_at,
)
from bodysense.estimation._kernels.watch_memory import DT
from bodysense.robot._kernels.tree import tree_at
from bodysense.spatial.arrays import Array

ALPHA, ONE_DELAY, GAIN, SLOPE_GAIN, SETTLING, LOW_PASS_SIZE = 0, 1, 2, 3, 4, 5
TOLERATED = 3  # samples in a row without a reading after which its filter begins anew
_FORGET = 0.01  # share of a new second difference in the mean of their squares


class LowPass(NamedTuple):
    """Settings and memory.

    Attributes:
        settings: `ALPHA`; `ONE_DELAY` [s] of one of the two; `GAIN` of white noise; `SLOPE_GAIN`
            of a velocity's white noise in the acceleration [1/s]; `SETTLING` samples after which a
            filter that begins anew has settled.
        begun: 1 after the first sample.
        q1, q2, dq1, dq2, y1, y2: the two stages.
        before, before2: velocities of the last two samples.
        rough: mean square of the second differences of velocities.
        encoder: standard deviation of the derived acceleration of each joint, if it is known;
            negative: it is estimated from `rough`.
        gap: samples in a row without a reading, of each sensor.
        warm: samples since its filter began.
        derived: joint whose acceleration a row is, or -1.
    """

    settings: Annotated[Array, LOW_PASS_SIZE]
    begun: Annotated[Integers, 1]
    q1: Annotated[Array, "joints"]
    q2: Annotated[Array, "joints"]
    dq1: Annotated[Array, "joints"]
    dq2: Annotated[Array, "joints"]
    y1: Annotated[Array, "m"]
    y2: Annotated[Array, "m"]
    before: Annotated[Array, "joints"]
    before2: Annotated[Array, "joints"]
    rough: Annotated[Array, "joints"]
    encoder: Annotated[Array, "joints"]
    gap: Annotated[Integers, "sensors"]
    warm: Annotated[Integers, "sensors"]
    derived: Annotated[Integers, "m"]


@called
def _pass_joints(w, f, anew):
    alpha = f.settings[ALPHA]
    for j in range(w.q.size):
        q, dq = w.q[j], w.dq[j]
        if anew:
            f.q1[j] = f.q2[j] = q
            f.dq1[j] = f.dq2[j] = f.before[j] = f.before2[j] = dq
            continue
        f.q1[j] += alpha * (q - f.q1[j])
        f.q2[j] += alpha * (f.q1[j] - f.q2[j])
        f.dq1[j] += alpha * (dq - f.dq1[j])
        f.dq2[j] += alpha * (f.dq1[j] - f.dq2[j])
        if w.s_dq[j] == 0.0:
            second = dq - 2.0 * f.before[j] + f.before2[j]
            f.rough[j] += _FORGET * (second * second - f.rough[j])
        f.before2[j], f.before[j] = f.before[j], dq


@called
def _pass_sensor(tree, c, w, f, k, anew):
    alpha, a0 = f.settings[ALPHA], c.begin[k]
    if w.missing[k] == 1:
        f.gap[k] += 1
        return
    accepted = w.odd[k] == 0
    begin = anew or f.gap[k] > TOLERATED or f.warm[k] == 0
    if begin and not anew:
        f.warm[k] = 0
    elif begin:
        f.warm[k] = int(f.settings[SETTLING])
    f.gap[k] = 0
    f.warm[k] += 1
    for a in range(a0, c.begin[k + 1]):
        u, back, j = w.y[a], 0.0, c.friction[a]
        if j >= 0:
            u -= friction_at(tree, c, w, j, w.dq[j])
            back = friction_at(tree, c, w, j, f.dq2[j])
        if begin:
            f.y1[a] = f.y2[a] = u
        else:
            if accepted:
                f.y1[a] += alpha * (u - f.y1[a])
            f.y2[a] += alpha * (f.y1[a] - f.y2[a])
        w.y[a] = f.y2[a] + back
    if f.warm[k] <= f.settings[SETTLING]:
        w.missing[k] = 1
        for a in range(a0, c.begin[k + 1]):
            w.y[a] = math.nan
    w.scale[k] *= f.settings[GAIN]


@called
def _derive(c, w, f, k, anew):
    """The acceleration of a joint from its velocity, behind the same filter."""
    a = c.begin[k]
    j = f.derived[a]
    if anew or w.s_dq[j] > 0.0:
        w.missing[k] = 1
        w.y[a] = math.nan
        return
    w.y[a] = (f.dq1[j] - f.dq2[j]) / f.settings[ONE_DELAY]
    sigma = f.encoder[j]
    if sigma < 0.0:
        sigma = f.settings[SLOPE_GAIN] * math.sqrt(f.rough[j] / 6.0)
    w.scale[k] = max(sigma / (c.sigma[a] + 1e-300), 0.05)


_low_pass_at = reader(LowPass)


@threaded
def low_pass(tree, channels, watch, filters, outputs):
    """Filter a sample and hand it on: addresses of `Tree`, `Channels`, `Watch`, `LowPass`, …."""
    tree, c, w, f = tree_at(tree), channels_at(channels), watch_at(watch), _low_pass_at(filters)
    anew = f.begun[0] == 0 or w.now[DT] < 0.0
    _pass_joints(w, f, anew)
    for k in range(w.scale.size):
        if c.constant[k] == 1:
            continue
        if c.constant[k] == 2 and math.isnan(w.y[c.begin[k]]) and w.missing[k] == 0:
            _derive(c, w, f, k, anew)
        else:
            _pass_sensor(tree, c, w, f, k, anew)
    f.begun[0] = 1
    deliver_state(c, w, f.q2, f.dq2, outputs_at(outputs))
