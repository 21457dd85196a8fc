"""What a model leaves of the torques where nothing touches: an error that lasts.

Torques of an identified robot are known to some per cent, worse where a joint reverses (friction is
more than its law says), moves fast (time stamps, viscous friction that warms up) or carries much
(gears). The squares of innovations r in a log, less the variance that is counted already, are
regressed on what they follow,

    E[r²] = own + c_0 + c_v v² + c_L L² + c_a A² + c_t (dτ/dt)² + c_F F_c² exp(-(v / v_0)²), c ≥ 0,

v: velocity of the joint, L: its load without acceleration, A: that of the acceleration, dτ/dt: how
fast both change (clocks of encoders and drives differ), F_c: the friction that turns with v. It is
a fit of variances (weights 1 / E[r²]², iterated); squares beyond nine times their expectation count
as that much, so that contacts, which are few, hardly count.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import nnls
from scipy.stats import chi2

from bodysense.spatial.arrays import Array

_ROUNDS = 15
_MOST = 9.0  # times its expectation that a square counts at most
_LOST = 0.95  # of the mean of squares of unit normals that is left below that
_SLOW = 0.05  # rad/s, or a share of the joint's r.m.s. speed: where friction of reversals acts
_LEAST_SAMPLES = 100  # to tell a variance from


def reversal(v: Array, friction: float) -> Array:
    """(T,) F_c exp(-(v/v_0)²)."""
    v0 = max(_SLOW, _SLOW * float(np.sqrt(np.mean(v**2))))
    near: Array = friction * np.exp(-((v / v0) ** 2))
    return near


def fitted_variance(squares: Array, own: Array, features: Array, kept: float = 1.0) -> Array:
    """(k,) coefficients c ≥ 0 of E[r²] = own + features c.

    Args:
        squares: (T,) of innovations; NaN where there is none.
        own: (T,) variances that are counted already.
        features: (T, k) squares of what more there is may follow.
        kept: share of the samples, those with the least of what they are expected to have, that
            counts, where many may be contacts: Gaussian otherwise.
    """
    known = np.isfinite(squares)
    r2, own, F = squares[known], own[known], features[known]
    k = F.shape[1]
    if r2.size < _LEAST_SAMPLES:
        return np.zeros(k)
    size = np.sqrt(np.mean(F**2, axis=0))
    size[size == 0.0] = 1.0
    c = np.zeros(k)
    c[0] = max(0.0, float(np.median(r2)) / 0.455 - float(np.median(own)))
    for _ in range(_ROUNDS):
        expected = own + F @ c
        clipped = np.minimum(r2, _MOST * expected) / _LOST
        weight = 1.0 / np.maximum(expected, 1e-300)
        if kept < 1.0:
            low = weight * r2 <= np.quantile(weight * r2, kept)
            clipped, weight = r2 * kept / chi2.cdf(chi2.ppf(kept, 1), 3), weight * low
        found, _ = nnls(weight[:, None] * (F / size), weight * (clipped - own))
        last, c = c, 0.5 * (c + found / size)
        if np.allclose(F @ c, F @ last, rtol=1e-3, atol=1e-12):
            break
    return c
