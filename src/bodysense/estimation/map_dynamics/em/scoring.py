"""A step of Fisher scoring: as far as the slope leads by what the readings are expected to tell.

EM is slow where readings say little about a noise of their own: it steps as if every noise had been
seen. Scoring steps by what was seen,

    u = D⁻¹ g,     D = F + bend of the prior,     distance² = gᵀ D⁻¹ g

and comes to the maximum in a few steps. The distance is in standard deviations of what is
estimated: below one tenth, no more can be found out. Far from the maximum a step may be too long;
whether it helped is for the caller to see.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bodysense.estimation.map_dynamics.em.coordinates import Slope
from bodysense.spatial.arrays import Array

NOTHING = 1e-9
"""Information added to all, so that what leaves no trace has a large variance, not infinity."""


class Step(NamedTuple):
    """A way to go.

    Attributes:
        u: (k,) the step.
        distance: from the maximum, in standard deviations.
    """

    u: Array
    distance: float


def scored(slope: Slope, F: Array, reach: float) -> Step:
    """The step from a slope and the information F (k, k), no logarithm changed beyond reach."""
    g = slope.readings + slope.prior
    # A falling slope bends the logarithm too: the derivative of v l' is v² l'' + v l'.
    bend = slope.bend + np.maximum(-slope.readings, 0.0) + NOTHING
    u: Array = np.asarray(np.linalg.solve(F + np.diag(bend), g), dtype=np.float64)
    distance = np.sqrt(max(float(g @ u), 0.0))
    return Step(u.clip(-reach, reach), float(distance))


def covariance(F: Array, believed: Array) -> Array:
    """(k, k) of the coordinates at the maximum, from the information of readings and prior."""
    return np.asarray(np.linalg.inv(F + np.diag(believed + NOTHING)), dtype=np.float64)
