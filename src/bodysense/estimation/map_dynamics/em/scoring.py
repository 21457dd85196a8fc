"""A step of Fisher scoring: as far as the slope leads by what the readings are expected to tell.

EM is slow where readings say little about a noise of their own: it steps as if every noise had been
seen. Scoring steps by what was seen,

    u = D⁻¹ g,     D = F + bend of the prior + max(-g of the readings, 0),     distance² = gᵀ D⁻¹ g

and comes to the maximum in a few steps. F is that of some moments; how the slope really changed
with the last small steps corrects D (BFGS), s the step and -y the change of g: D s = y holds for
the last of them, for those before about. That takes coordinates that stay the same: axes of a full
covariance turn with every step, and nothing is learned where there is one. The distance is in
standard deviations of what is estimated: below one tenth, no more can be found out. Far from the
maximum a step may be too long; whether it helped is for the caller to see.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bodysense.estimation.map_dynamics.em.coordinates import Slope
from bodysense.spatial.arrays import Array

NOTHING = 1e-9
"""Information added to all, so that what leaves no trace has a large variance, not infinity."""

_SMALL = 0.5
"""Largest change of a logarithm in a step that tells how the slope changes at the maximum."""


class Step(NamedTuple):
    """A way to go.

    Attributes:
        u: (k,) the step.
        slope: of the log density where it begins.
        distance: from the maximum, in standard deviations.
    """

    u: Array
    slope: Slope
    distance: float


def scored(slope: Slope, F: Array, taken: Sequence[tuple[Array, Array]], reach: float) -> Step:
    """The next step.

    Args:
        slope: of the log density.
        F: (k, k) information of the readings.
        taken: (s, y) of small steps before, the last one at the end.
        reach: most change of a logarithm.
    """
    g = slope.readings + slope.prior
    # A falling slope bends the logarithm too: the derivative of v l' is v² l'' + v l'.
    bend = slope.bend + np.maximum(-slope.readings, 0.0) + NOTHING
    shares = []
    rest = g
    for s, y in reversed(taken):
        shares.append(float(s @ rest) / float(s @ y))
        rest = rest - shares[-1] * y
    u: Array = np.asarray(np.linalg.solve(F + np.diag(bend), rest), dtype=np.float64)
    for s, y in taken:
        u = u + s * (shares.pop() - float(y @ u) / float(s @ y))
    distance = np.sqrt(max(float(g @ u), 0.0))
    return Step(u.clip(-reach, reach), slope, float(distance))


def learned(
    taken: Sequence[tuple[Array, Array]], step: Step, slope: Slope
) -> tuple[tuple[Array, Array], ...]:
    """(s, y) of small steps in a row, with one more and the slope at its end; none if large."""
    if np.abs(step.u).max(initial=0.0) > _SMALL:
        return ()
    y = step.slope.readings + step.slope.prior - slope.readings - slope.prior
    return (*taken, (step.u, y))[-10:] if step.u @ y > 0.0 else tuple(taken)


def covariance(F: Array, believed: Array) -> Array:
    """(k, k) of the coordinates at the maximum, from the information of readings and prior."""
    return np.asarray(np.linalg.inv(F + np.diag(believed + NOTHING)), dtype=np.float64)
