"""Where joints without encoders begin: several places are tried over the first moments.

One moment fits several states: an accelerometer cannot tell gravity from a swing, and an elbow may
be bent either way. A tenth of a second later only one of them still explains the readings. So every
joint begins in turn at places all over its belief, and the one stays from which tracking the first
moments has the least chi-square,

    Σ_t chi²_t  +  (place - mean)² / variance.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from bodysense.estimation.map_dynamics.estimator import MapDynamics
from bodysense.estimation.map_dynamics.state.belief import StateBelief
from bodysense.estimation.map_dynamics.state.tracker import StateTracker
from bodysense.spatial.arrays import Array

_MOMENTS = 15
_SPAN = 0.3  # s that they are spread over, if readings come faster
_APART = 0.7  # rad or m between places
_DOUBT = 0.5  # standard deviation of a place: neighbours overlap
_REACH = 2.0  # standard deviations of the belief within which places lie


def searched(
    problem: MapDynamics,
    belief: StateBelief,
    joints: tuple[str, ...],
    t: Array,
    readings: Array,
    *,
    jerk: ArrayLike,
    gravity: ArrayLike | None,
) -> StateBelief:
    """The belief with the positions of these joints at the best of several places.

    Args:
        problem: the robot with its sensors.
        belief: about the first moment.
        joints: whose positions are in doubt.
        t: (T,) times [s].
        readings: (T, m).
        jerk: spectral densities, see `StateTracker`.
        gravity: (3,) in the frame of a root that is held.
    """
    some = _first(t)
    tracker = StateTracker(problem, belief, jerk=jerk)

    def chi_square(start: StateBelief) -> float:
        tracker.reset()
        tracker.restart(start)
        steps = (tracker.step(t[k], readings[k], gravity=gravity) for k in some)
        return float(sum(step.cost for step in steps))

    for joint in joints:
        j = problem.robot.joint_names.index(joint)
        places = _places(belief, j)
        if len(places) > 1:
            mean, variance = belief.mean[0, j], belief.covariance[j, j]
            costs = [
                chi_square(start) + (start.mean[0, j] - mean) ** 2 / variance for start in places
            ]
            belief = places[int(np.argmin(costs))]
    return belief


def _first(t: Array) -> list[int]:
    """Moments at the beginning, not closer than a few of them need to be apart."""
    some = [0]
    for k in range(1, t.size):
        if len(some) == _MOMENTS:
            break
        if t[k] - t[some[-1]] >= 0.99 * _SPAN / _MOMENTS or k == t.size - 1:
            some.append(k)
    return some


def _places(belief: StateBelief, j: int) -> list[StateBelief]:
    """The belief with joint j at several places, the believed one first."""
    mean, std = belief.mean[0, j], float(np.sqrt(belief.covariance[j, j]))
    n = int(_REACH * std / _APART)
    if std <= _DOUBT or n == 0:
        return [belief]
    places = []
    for k in sorted(range(-n, n + 1), key=abs):
        moved, covariance = belief.mean.copy(), belief.covariance.copy()
        moved[0, j], covariance[j, j] = mean + k * _APART, _DOUBT**2
        places.append(replace(belief, mean=moved, covariance=covariance))
    return places
