"""What a stream does with a sample before it is solved and after: compiled, see `..gating`.

Readings that change by more than z = 3 standard deviations of their usual change have a noise z / 3
as large (Huber's weights); a change that persists is a change.
"""

from __future__ import annotations

import math

from bodysense.compiled.jit import called, threaded
from bodysense.compiled.views import reader
from bodysense.estimation._kernels.joint_prediction import take_joint
from bodysense.estimation._kernels.watch_memory import (
    DT,
    IMPLAUSIBLE,
    LARGEST_RATIO,
    LEAST_COUNT,
    MEMORY,
    ODD_SENSOR,
    OUTLIER,
    OUTLIERS,
    PATIENCE,
    ROBUST,
    USUAL,
    WORST,
    Channels,
    Inputs,
    Outputs,
    Residuals,
    Watch,
    share,
)
from bodysense.robot._kernels.friction import friction_basis
from bodysense.robot._kernels.tree import tree_at


@called
def friction_at(tree, c, w, j, v):
    """Friction of a joint, but for what grows with its load."""
    friction_basis(tree, j, v, w.phi, w.dphi)
    x = 0.0
    for k in range(c.drive.shape[1]):
        x += c.drive[j, k] * w.phi[k]
    return x


@called
def _friction_spread(tree, c, w, j):
    """How far off the friction of a joint may be: it may have either sign."""
    v, s = w.dq[j], w.s_dq[j]
    middle = friction_at(tree, c, w, j, v)
    low = friction_at(tree, c, w, j, v - s)
    high = friction_at(tree, c, w, j, v + s)
    return max(abs(high - middle), abs(low - middle))


@called
def _is_missing(c, w, y, k):
    """Whether a sensor gives nothing that can be used."""
    missing = 0
    for a in range(c.begin[k], c.begin[k + 1]):
        if not abs(y[a]) <= c.largest[a]:
            missing = 1
            if math.isfinite(y[a]) or math.isinf(y[a]):
                w.counts[IMPLAUSIBLE] += 1
    return missing


@called
def _smooth_part(tree, c, w, y, a):
    """A reading without the friction of its drive, which jumps where the joint reverses."""
    j = c.friction[a]
    return y[a] - friction_at(tree, c, w, j, w.dq[j]) if j >= 0 else y[a]


@called
def _change_of(tree, c, w, y, k, dt):
    """Largest change of a sensor's readings, in standard deviations; note whether there is any."""
    z2, same = 0.0, 1
    stretch = 1.0 + (w.age[k] / dt if dt > 0.0 else 0.0)
    for a in range(c.begin[k], c.begin[k + 1]):
        d = _smooth_part(tree, c, w, y, a) - w.last[a]
        same = 0 if y[a] != w.raw[a] else same
        w.raw[a] = y[a]
        usual = max(2.0 * c.sigma[a] ** 2, w.change[a])
        z2 = max(z2, d * d / (usual * stretch * stretch + 1e-300))
    w.same_run[k] = w.same_run[k] + 1 if same == 1 else 0
    return math.sqrt(z2)


@called
def _accept(tree, c, w, y, k, z, dt):
    """Take a sensor's readings as the last; learn how much they change."""
    part = max(share(dt, MEMORY), 1.0 / (1.0 + w.steps[k]))
    shrink = min(1.0, OUTLIER / z) if w.steps[k] >= LEAST_COUNT and z > 0.0 else 1.0
    stretch = 1.0 + (w.age[k] / dt if dt > 0.0 else 0.0)
    for a in range(c.begin[k], c.begin[k + 1]):
        x = _smooth_part(tree, c, w, y, a)
        if w.steps[k] > 0 and dt > 0.0:
            d = shrink * (x - w.last[a]) / stretch
            w.change[a] += part * (d * d - w.change[a])
        w.last[a] = x
    w.steps[k] += 1
    w.age[k] = 0.0
    w.odd[k] = 0


@called
def _take_sensor(tree, c, w, y, k):
    dt = max(w.now[DT], 0.0)
    part = max(share(dt, MEMORY), 1.0 / (1.0 + w.steps[k] + w.missing_run[k]))
    w.scale[k] = 1.0
    if c.constant[k] == 2 and math.isnan(y[c.begin[k]]):
        w.missing[k] = 0
        return
    w.missing[k] = _is_missing(c, w, y, k)
    w.absent[k] += part * (w.missing[k] - w.absent[k])
    if w.missing[k] == 1:
        w.missing_run[k] += 1
        w.age[k] += dt
        return
    w.missing_run[k] = 0
    odd = 0
    if c.constant[k] == 0:
        z = _change_of(tree, c, w, y, k, dt)
        if w.now[DT] < 0.0 or w.steps[k] < LEAST_COUNT or w.now[ROBUST] == 0.0:
            z = min(z, USUAL)
        if z > OUTLIER and w.odd[k] < PATIENCE:
            odd = 1
            w.odd[k] += 1
            w.outliers[k] += 1
            w.counts[OUTLIERS] += 1
            w.age[k] += dt
            w.scale[k] = z / USUAL
        else:
            if z > USUAL and w.odd[k] < PATIENCE:
                w.scale[k] = z / USUAL
            _accept(tree, c, w, y, k, z, dt)
    w.outlying[k] += part * (odd - w.outlying[k])
    more = (w.scale[k] * w.doubt[k]) ** 2
    extra = 0.0
    for a in range(c.begin[k], c.begin[k + 1]):
        x = w.bias_var[a]
        j = c.friction[a]
        if j >= 0 and w.s_dq[j] > 0.0:
            x += _friction_spread(tree, c, w, j) ** 2
        extra = max(extra, x / (c.sigma[a] ** 2 + 1e-300))
    w.scale[k] = math.sqrt(more + extra)


@called
def _prepare(tree, c, w, x):
    for k in range(w.counts.size):
        w.counts[k] = 0
    for j in range(w.q.size):
        take_joint(c, w, j, x.q[j], x.dq[j])
    for k in range(w.scale.size):
        _take_sensor(tree, c, w, x.y, k)
        for a in range(c.begin[k], c.begin[k + 1]):
            w.y[a] = x.y[a] - w.bias[a] if w.missing[k] == 0 else math.nan


@called
def deliver_state(c, w, q, dq, out):
    """Write state, readings and weights where the solver takes them."""
    for j in range(q.size):
        out.q[j], out.dq[j] = q[j], dq[j]
    m = w.y.size
    for p in range(c.order.size):
        a = c.order[p]
        if a >= m:
            out.y[p] = c.fixed[a]
        else:
            out.y[p] = w.y[a] if c.orientation[a] == 0 else math.nan
    for k in range(w.scale.size):
        out.weight[c.block[k]] = 1.0 / w.scale[k]


@called
def _review(c, w, residual):
    """Residuals by sensor: mean squares of late, and which is the worst."""
    dt = max(w.now[DT], 0.0)
    worst, which = 0.0, -1
    for k in range(w.scale.size):
        if w.missing[k] == 1:
            continue
        top, total, rows = 0.0, 0.0, 0
        for a in range(c.begin[k], c.begin[k + 1]):
            if c.counts[a] == 1:
                z = residual[a] / (c.sigma[a] + 1e-300)
                top = max(top, abs(z))
                total += z * z
                rows += 1
        if rows == 0:
            continue
        if w.odd[k] == 0:
            part = max(share(dt, MEMORY), 1.0 / (1.0 + w.steps[k]))
            w.ratio[k] += part * (min(total / rows, LARGEST_RATIO) - w.ratio[k])
        w.doubt[k] = top / USUAL if w.doubt[k] > 1.0 and top > USUAL else 1.0
        if top / w.scale[k] > worst:
            worst, which = top / w.scale[k], k
    w.now[WORST] = worst
    w.counts[ODD_SENSOR] = which


channels_at, watch_at, _inputs_at = reader(Channels), reader(Watch), reader(Inputs)
outputs_at, _residuals_at = reader(Outputs), reader(Residuals)


@threaded
def prepare(tree, channels, watch, inputs):
    """Take a sample in: addresses of `Tree`, `Channels`, `Watch` and `Inputs`."""
    _prepare(tree_at(tree), channels_at(channels), watch_at(watch), _inputs_at(inputs))


@threaded
def deliver(channels, watch, outputs):
    """Hand it on to the solver: addresses of `Channels`, `Watch`, `Outputs`."""
    w = watch_at(watch)
    deliver_state(channels_at(channels), w, w.q, w.dq, outputs_at(outputs))


@threaded
def review(channels, watch, residuals):
    """Look at the residuals of a solution: addresses of `Channels`, `Watch`, `Residuals`."""
    _review(channels_at(channels), watch_at(watch), _residuals_at(residuals).rows)
