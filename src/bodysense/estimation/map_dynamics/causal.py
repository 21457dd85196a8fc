"""`CausalFilter`: the same low-pass for every channel that enters one estimate.

Positions, velocities and readings that are filtered differently do not belong together: what one
says of the motion comes later than what another says, and the difference looks like a push. So all
of them pass two first-order filters in a row, with the same delay at all frequencies that pass,

    H(z) = (alpha / (1 - (1 - alpha) z⁻¹))²,   alpha = 1 - exp(-2π f_1 / rate),
    delay = 2 (1 - alpha) / (alpha rate),      f_1 = cutoff / √(√2 - 1)

White noise of standard deviation sigma comes out with sigma √Σ h². Joint accelerations that are not
read are derived from the velocities within the filter, half a sample later than all else.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from bodysense.compiled.views import Table, zeros_of
from bodysense.errors import ShapeError
from bodysense.estimation._kernels.low_pass import (
    ALPHA,
    GAIN,
    ONE_DELAY,
    SETTLING,
    SLOPE_GAIN,
    LowPass,
    low_pass,
)
from bodysense.estimation.map_dynamics.estimator import MapDynamics
from bodysense.estimation.map_dynamics.gating import Gate
from bodysense.sensors import JointAcceleration
from bodysense.spatial.arrays import Array, one_each

_CASCADE = math.sqrt(math.sqrt(2.0) - 1.0)
"""Where both together damp by 3 dB, over where each of them does."""

_SETTLED = 4.0  # delays after which a filter that begins anew is right to 1 %
_RESPONSE = 40.0  # delays after which nothing is left of an impulse


class CausalFilter:
    """Of one stream.

    Attributes:
        delay: [s] of what comes out.
        gain: of the standard deviation of white noise.
    """

    def __init__(
        self,
        problem: MapDynamics,
        gate: Gate,
        *,
        cutoff: float,
        rate: float,
        encoder_std: ArrayLike | None = None,
    ) -> None:
        """Lay out.

        Args:
            problem: the estimator.
            gate: which hands samples on.
            cutoff: [Hz] where it damps by 3 dB.
            rate: [Hz] of the samples.
            encoder_std: [rad or m] of the noise of positions whose differences the velocities
                are; by default the noise of velocities is estimated as it goes.
        """
        if not (rate > 0.0 and math.isfinite(rate)):
            raise ShapeError(f"rate is {rate:g} Hz: give the number of samples per second.")
        if not 0.0 < cutoff < 0.5 * rate:
            raise ShapeError(
                f"cutoff is {cutoff:g} Hz: give more than zero and less than half the rate of "
                f"{rate:g} Hz."
            )
        alpha = 1.0 - math.exp(-2.0 * math.pi * cutoff / _CASCADE / rate)
        one = (1.0 - alpha) / (alpha * rate)
        response, slope = _responses(alpha, rate)
        self.delay, self.gain = 2.0 * one, float(np.sqrt(response @ response))
        n = problem.robot.n_joints
        self._f: LowPass = zeros_of(
            LowPass, m=problem.layout.size, sensors=len(problem.sensors), joints=n
        )
        settings = self._f.settings
        settings[ALPHA], settings[ONE_DELAY], settings[GAIN] = alpha, one, self.gain
        settings[SLOPE_GAIN] = np.sqrt(slope @ slope)
        settings[SETTLING] = math.ceil(_SETTLED * self.delay * rate)
        self._f.encoder[:] = -1.0
        if encoder_std is not None:
            twice = np.diff(slope, prepend=0.0, append=0.0) * rate
            std = one_each(encoder_std, n, "encoder_std")
            self._f.encoder[:] = std * float(np.sqrt(twice @ twice))
        self._f.derived[:] = -1
        for sensor in problem.sensors:
            if isinstance(sensor, JointAcceleration):
                j = problem.robot.joint_names.index(sensor.joint)
                self._f.derived[problem.layout.slices[sensor.name]] = j
        self._table = Table(self._f)
        tree, channels, watch, outputs = gate.addresses
        self._arguments = tree, channels, watch, self._table.address, outputs
        self._twist = np.zeros((2, 6))
        self._alpha, self._begun = alpha, False

    def hand_on(self) -> None:
        """Filter what the gate has taken in, and write it to where the solver takes it."""
        low_pass(*self._arguments)

    def base_twist(self, twist: Array) -> Array:
        """(6,) filtered twist of a floating root."""
        if not self._begun:
            self._twist[:], self._begun = twist, True
        else:
            self._twist[0] += self._alpha * (twist - self._twist[0])
            self._twist[1] += self._alpha * (self._twist[0] - self._twist[1])
        return np.asarray(self._twist[1])

    def restart(self) -> None:
        """Forget what came before."""
        self._f.begun[0], self._begun = 0, False


def _responses(alpha: float, rate: float) -> tuple[Array, Array]:
    """Impulse responses of what comes out and of its slope [1/s]."""
    k = np.arange(math.ceil(_RESPONSE / alpha) + 2)
    stay = 1.0 - alpha
    first = alpha * stay**k
    second = alpha**2 * (k + 1.0) * stay**k
    slope = (first - second) * alpha * rate / stay
    return np.asarray(second), np.asarray(slope)
