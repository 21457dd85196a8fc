"""When joints reverse, stand and are shaken: velocities of the widest band that noise allows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import make_interp_spline
from scipy.ndimage import maximum_filter1d

from bodysense.estimation.map_dynamics.estimator import MapDynamics
from bodysense.estimation.map_dynamics.log.reading_noise import filter_gain
from bodysense.logs.filtering import (
    differentiate,
    is_even,
    lowpass,
)
from bodysense.robot.dynamics import mass_matrix
from bodysense.spatial.arrays import Array

_WIDEST = 0.2  # of the sampling rate: band of velocities at most
_STILL_SHARE = 0.02  # of its r.m.s. speed: likewise
_NEAR = 0.5  # periods of a band within which its error is about as large
_POSES = 40  # at which masses are averaged
MAD = 1.4826  # standard deviation over the median size of a Gaussian
_HALVED = 0.5  # what a band of twice the width loses, of what it gains: less than that
_STILL = 2e-3  # rad/s or m/s: a joint that is slower for a period of the cut-off stands


class JointSpeed(NamedTuple):
    """(T, n) velocities that show when joints reverse, and standard deviations of their errors."""

    v: Array
    std: Array


def joint_speed(even: EvenGrid, q: Array, sigma_q: Array, limit: float) -> JointSpeed:
    """Velocities of as wide a band as their noise allows, joint by joint.

    Friction turns where a velocity is zero: its time errs by the noise of the velocity over the
    acceleration, more of it in a wider band, and by what a narrow band takes away, which is seen in
    the difference of two bands. The band with the least of both is taken.
    """
    q = even.to(q, smooth=True)
    bands = [limit]
    while 2.0 * bands[-1] < _WIDEST * even.rate:
        bands.append(2.0 * bands[-1])
    v = [differentiate(lowpass(q, even.rate, f), even.rate) for f in bands]
    best, std = v[0].copy(), np.full_like(v[0], np.inf)
    cost = np.full(q.shape[1], np.inf)
    for k, f in enumerate(bands):
        noise = sigma_q * filter_gain(even.rate, f, 1)
        other = v[k - 1] if k else (v[1] if len(v) > 1 else v[0])
        reach = max(1, int(_NEAR * even.rate / f))
        share = _HALVED if k else 1.0
        lost = share * maximum_filter1d(np.abs(v[k] - other), 2 * reach + 1, axis=0)
        between = 0.5 * np.abs(np.gradient(v[k], axis=0))  # of two samples
        error = np.sqrt(noise**2 + lost**2 + between**2)
        total = np.sqrt(np.mean(error**2, axis=0))
        better = total < cost
        best[:, better], std[:, better] = v[k][:, better], error[:, better]
        cost = np.where(better, total, cost)
    return JointSpeed(even.back(best), even.back(std))


def shaking(
    problem: MapDynamics, even: EvenGrid, tau: Array, joints: list[int], q: Array, limit: float
) -> Array:
    """(n,) standard deviations of velocities beyond the cut-off, from torques of drives (T, k).

    A controller that answers the noise of its encoders shakes the joint, and those that hang on it:
    v = ∫ M⁻¹ tau. Where a joint is slow it then reverses many times, and friction is neither on one
    side nor on the other.
    """
    if problem.robot.floating_base:
        return np.zeros(problem.robot.n_joints)  # whose masses depend on what it stands on
    some = np.linspace(0, len(q) - 1, _POSES).astype(int)
    M = mass_matrix(problem.robot, q[some])[:, joints][:, :, joints]
    tau = even.to(tau)
    fast = tau - lowpass(tau, even.rate, limit)
    v = np.cumsum(fast, axis=0) @ np.linalg.inv(M).mean(axis=0).T / even.rate
    v -= lowpass(v, even.rate, limit)
    result = np.zeros(problem.robot.n_joints)
    result[joints] = MAD * np.median(np.abs(v), axis=0)
    return result


def travelled(q: Array, v: Array) -> Array:
    """(T, n) distances of positions from where each velocity (T, n) last changed its sign."""
    T = np.arange(len(q))[:, None]
    turns = np.zeros(v.shape, dtype=np.int64)
    turns[1:] = np.where(np.sign(v[1:]) != np.sign(v[:-1]), T[1:], 0)
    last = np.maximum.accumulate(turns, axis=0)
    distance: Array = np.abs(q - np.take_along_axis(q, last, axis=0))
    return distance


def standing_joints(v: Array, sigma_v: Array, period: int) -> NDArray[np.bool_]:
    """(T, n) where joints stand: slower than their noise for two periods of the cut-off."""
    usual = _STILL_SHARE * np.sqrt(np.mean(v**2, axis=0))
    slow = np.abs(v) < np.maximum(np.maximum(_STILL, usual), 3.0 * sigma_v)
    window = np.ones(2 * period + 1)
    result = np.zeros_like(slow)
    for j in range(v.shape[1]):
        count = np.convolve(slow[:, j], window, mode="same")
        full = np.convolve(np.ones(len(v)), window, mode="same")
        result[:, j] = count >= full - 0.5
    return maximum_filter1d(result.astype(np.uint8), 2 * period + 1, axis=0).astype(bool)


class EvenGrid:
    """Signals at times (T,) on an even grid, and back; the times themselves, if they are even."""

    def __init__(self, t: Array) -> None:
        self.t, self.rate = t, float((t.size - 1) / (t[-1] - t[0]))
        self._grid = None if is_even(t) else np.linspace(t[0], t[-1], t.size)

    def to(self, x: Array, *, smooth: bool = False) -> Array:
        """From the times to the grid: by a cubic spline if x is smooth, else by straight lines."""
        if self._grid is None:
            return x
        if not smooth:
            return np.stack([np.interp(self._grid, self.t, column) for column in x.T], axis=1)
        values: Array = make_interp_spline(self.t, x, k=3)(self._grid)
        return values

    def back(self, x: Array) -> Array:
        """From the grid to the times."""
        if self._grid is None:
            return x
        values: Array = make_interp_spline(self._grid, x, k=3)(self.t)
        return values
