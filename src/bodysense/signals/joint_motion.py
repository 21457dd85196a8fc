"""From recorded positions of joints to a smooth motion: positions, velocities, accelerations.

Positions pass a low-pass filter without phase, and are then differentiated twice by central
differences. A joint that does not move has no velocity: what its encoder shows is noise.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bodysense.signals.filtering import differentiate, lowpass
from bodysense.spatial.arrays import Array

STILL_SPEED = 0.02
"""rad/s (or m/s): below it a joint counts as standing, …"""

_STILL_SHARE = 0.05
"""… or below this share of its r.m.s. speed: slow joints, such as fingers, move slowly."""

_NEVER = 1e-3  # rad/s or m/s: joints that are slower throughout do not move at all
LEAST_RANGE = 5e-3
"""rad or m: a joint that stays within this range stands. Its velocity is noise, which must not be
taken for motion: the less of it there is, the larger a friction it would stand for."""


class SmoothMotion(NamedTuple):
    """Positions, velocities and accelerations (n_t, n), all of the same bandwidth."""

    q: Array
    v: Array
    a: Array


def smooth_motion(
    q: Array, rate: float, cutoff: float, *, order: int = 4, accuracy: int = 4
) -> SmoothMotion:
    """Filter evenly sampled positions (n_t, n) and differentiate them; standing joints stand.

    Args:
        q: positions as recorded.
        rate: samples a second [Hz].
        cutoff: of the low-pass [Hz]; see `usable_cutoff`.
        order: of the Butterworth filter in one direction.
        accuracy: order of the central differences.
    """
    smooth = lowpass(q, rate, cutoff, order=order)
    v = differentiate(smooth, rate, accuracy=accuracy)
    a = differentiate(v, rate, accuracy=accuracy)
    still = (np.ptp(smooth, axis=0) < LEAST_RANGE) | standing(v, STILL_SPEED).all(axis=0)
    v[:, still] = a[:, still] = 0.0
    return SmoothMotion(smooth, v, a)


def usable_cutoff(cutoff: float, rate: float) -> float:
    """The cut-off [Hz], or for a log of a low rate the highest that a filter can have there."""
    return min(cutoff, 0.45 * rate)


def standing(v: Array, still_speed: float) -> NDArray[np.bool_]:
    """(n_t, n) where joints with velocities v (n_t, n) stand."""
    rms = np.sqrt(np.mean(v**2, axis=0))
    slowest = np.where(rms > _NEVER, np.minimum(still_speed, _STILL_SHARE * rms), still_speed)
    still: NDArray[np.bool_] = np.abs(v) < slowest
    return still
