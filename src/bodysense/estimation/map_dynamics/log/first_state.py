"""What is believed of the state before the first readings of a stretch.

Joints with encoders: where a parabola through their first readings begins, widely. The others:
anywhere between their limits, or after a pause about where they were, at no speed in particular.
The priors are wide, so that the readings they come from do not count twice; what the user says
counts before them.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from bodysense.estimation.map_dynamics.estimator import MapDynamics
from bodysense.estimation.map_dynamics.setup import QUANTITIES, StateSetup
from bodysense.estimation.map_dynamics.state.prior import StatePrior
from bodysense.estimation.map_dynamics.state.tracker import StateTracker
from bodysense.sensors.joint_sensors import Encoder
from bodysense.spatial.arrays import Array

_LOOK = 0.3  # s of first readings
_PARABOLA = 5  # readings that it needs
_READ = (0.1, 1.0, 10.0)  # rad, rad/s, rad/s²: doubts about a joint whose encoder was read
_UNREAD = (1.5, 1.0, 10.0)  # about others, whose position may be anywhere
_ROOM = 0.25  # of the range of a joint: its standard deviation, if nothing is known


def first_state(
    problem: MapDynamics,
    setup: StateSetup,
    t: Array,
    readings: Array,
    before: StatePrior | None = None,
) -> StatePrior:
    """The prior about (q, q̇, q̈) at the first of some samples.

    Args:
        problem: the robot with its sensors.
        setup: what the user believes, of the first sample of a log.
        t: (T,) times [s].
        readings: (T, m).
        before: the state before a pause, after which the user's priors count no more.
    """
    robot = problem.robot
    n = robot.n_joints
    mean, std = np.zeros((3, n)), np.tile(np.array(_UNREAD)[:, None], (1, n))
    mean[0], std[0] = _anywhere(*robot.position_limits)
    if before is not None:
        mean[0] = before.mean[0]
    for sensor in problem.sensors:
        if isinstance(sensor, Encoder):
            y = readings[:, problem.layout.slices[sensor.name].start]
            j = sensor.joint_index(robot)
            result = _parabola(t, y)
            if result is not None:
                mean[:, j], std[:, j] = result, _READ
    if before is None:
        for name, prior in setup.priors.items():
            quantity, _, joint = name.partition(".")
            k, j = QUANTITIES.index(quantity), robot.joint_names.index(joint)
            mean[k, j] = prior.mean[0]
            std[k, j] = np.sqrt(prior.covariance[0, 0])
    return StatePrior.of(*mean, q_std=std[0], dq_std=std[1], ddq_std=std[2])


def _anywhere(lower: Array, upper: Array) -> tuple[Array, Array]:
    """Middle and doubt of joints between limits."""
    limited = np.isfinite(lower) & np.isfinite(upper) & (upper - lower < 2.0 * np.pi)
    low, high = np.where(limited, lower, 0.0), np.where(limited, upper, 0.0)
    return 0.5 * (low + high), np.where(limited, np.minimum(_ROOM * (high - low), 1.5), _UNREAD[0])


def _parabola(t: Array, y: Array) -> Array | None:
    """(3,) position, velocity and acceleration where the first readings begin."""
    near = np.flatnonzero((t - t[0] <= _LOOK) & np.isfinite(y))
    if not near.size:
        return None
    if near.size < _PARABOLA:
        return np.array([y[near[0]], 0.0, 0.0])
    c = np.polynomial.polynomial.polyfit(t[near] - t[0], y[near], 2)
    return np.array([c[0], c[1], 2.0 * c[2]])


# Where joints without encoders begin: several places are tried over the first samples.
#
# One sample fits several states: an accelerometer cannot tell gravity from a swing, and an elbow
# may be bent either way. A tenth of a second later only one of them still explains the readings. So
# every joint begins in turn at places all over its prior, and the one stays from which tracking
# the first samples has the least chi-square,
#
#     Σ_t chi²_t  +  (place - mean)² / variance.

_MOMENTS = 15
_SPAN = 0.3  # s that they are spread over, if readings come faster
_APART = 0.7  # rad or m between places
_DOUBT = 0.5  # standard deviation of a place: neighbours overlap
_REACH = 2.0  # standard deviations of the prior within which places lie


def searched(
    problem: MapDynamics,
    prior: StatePrior,
    joints: tuple[str, ...],
    t: Array,
    readings: Array,
    *,
    jerk: ArrayLike,
    gravity: ArrayLike | None,
) -> StatePrior:
    """The prior with the positions of these joints at the best of several places.

    Args:
        problem: the robot with its sensors.
        prior: about the first sample.
        joints: whose positions are in doubt.
        t: (T,) times [s].
        readings: (T, m).
        jerk: spectral densities, see `StateTracker`.
        gravity: (3,) in the frame of a root that is held.
    """
    some = _first(t)
    tracker = StateTracker(problem, prior, jerk=jerk)

    def chi_square(start: StatePrior) -> float:
        tracker.reset()
        tracker.restart(start)
        steps = (tracker.step(t[k], readings[k], gravity=gravity) for k in some)
        return float(sum(step.cost for step in steps))

    for joint in joints:
        j = problem.robot.joint_names.index(joint)
        places = _places(prior, j)
        if len(places) > 1:
            mean, variance = prior.mean[0, j], prior.covariance[j, j]
            costs = [
                chi_square(start) + (start.mean[0, j] - mean) ** 2 / variance for start in places
            ]
            prior = places[int(np.argmin(costs))]
    return prior


def _first(t: Array) -> list[int]:
    """Samples at the beginning, not closer than a few of them need to be apart."""
    some = [0]
    for k in range(1, t.size):
        if len(some) == _MOMENTS:
            break
        if t[k] - t[some[-1]] >= 0.99 * _SPAN / _MOMENTS or k == t.size - 1:
            some.append(k)
    return some


def _places(prior: StatePrior, j: int) -> list[StatePrior]:
    """The prior with joint j at several places, the believed one first."""
    mean, std = prior.mean[0, j], float(np.sqrt(prior.covariance[j, j]))
    n = int(_REACH * std / _APART)
    if std <= _DOUBT or n == 0:
        return [prior]
    places = []
    for k in sorted(range(-n, n + 1), key=abs):
        moved, covariance = prior.mean.copy(), prior.covariance.copy()
        moved[0, j], covariance[j, j] = mean + k * _APART, _DOUBT**2
        places.append(replace(prior, mean=moved, covariance=covariance))
    return places
