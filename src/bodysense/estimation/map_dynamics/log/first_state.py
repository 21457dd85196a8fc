"""What is believed of the state before the first readings of a stretch.

Joints with encoders: where a parabola through their first readings begins, widely. The others:
anywhere between their limits, or after a pause about where they were, at no speed in particular.
The beliefs are wide, so that the readings they come from do not count twice; what the user says
counts before them.
"""

from __future__ import annotations

import numpy as np

from bodysense.estimation.map_dynamics.estimator import MapDynamics
from bodysense.estimation.map_dynamics.state.belief import StateBelief
from bodysense.estimation.map_dynamics.state_setup import QUANTITIES, StateSetup
from bodysense.robot.sensors.encoder import Encoder
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
    before: StateBelief | None = None,
) -> StateBelief:
    """The belief about (q, q̇, q̈) at the first of some moments.

    Args:
        problem: the robot with its sensors.
        setup: what the user believes, of the first moment of a log.
        t: (T,) times [s].
        readings: (T, m).
        before: the state before a pause, after which the user's beliefs count no more.
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
            found = _parabola(t, y)
            if found is not None:
                mean[:, j], std[:, j] = found, _READ
    if before is None:
        for name, belief in setup.beliefs.items():
            quantity, _, joint = name.partition(".")
            k, j = QUANTITIES.index(quantity), robot.joint_names.index(joint)
            mean[k, j] = belief.mean[0]
            std[k, j] = np.sqrt(belief.covariance[0, 0])
    return StateBelief.of(*mean, q_std=std[0], dq_std=std[1], ddq_std=std[2])


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
