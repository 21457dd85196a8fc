"""Which forces fall on a reversal of a joint, where friction is told least.

The torque of a drive holds the joint's friction, which jumps from one side to the other when the
joint reverses. Taken from a velocity that is nearly zero, it may be wrong by all of it for a few
samples, and what is left over looks like a push.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from bodysense.estimation.map_dynamics.log.felt import Touch
from bodysense.robot.sensors.joint_torque import JointTorque

if TYPE_CHECKING:
    from bodysense.estimation.map_dynamics.log.estimate import LogEstimate

_BESIDE = 0.02  # s about a reversal
_SPIKE = 2.0  # times the median force: what friction makes is short beside a push


def reversing(estimate: LogEstimate, touches: Iterable[Touch]) -> tuple[str, ...]:
    """A sentence for each touch whose largest force is a spike that falls on a reversal."""
    problem, t, dq = estimate.problem, estimate.t, estimate.recording.dq
    friction = np.abs(problem.drive).sum(axis=1) > 0.0
    drives = {
        sensor.joint_index(problem.robot)
        for sensor in problem.sensors
        if isinstance(sensor, JointTorque) and sensor.side == "drive"
    }
    found = []
    for touch in touches:
        if touch.force < _SPIKE * touch.usual:
            continue
        here = np.abs(t - touch.at) <= _BESIDE
        names = [
            problem.robot.joint_names[j]
            for j in sorted(drives)
            if friction[j] and dq[here, j].min() <= 0.0 <= dq[here, j].max()
        ]
        if names:
            found.append(
                f"the largest force on {touch.link}, at {touch.at:.2f} s, falls on a reversal of "
                f"{', '.join(names)}: friction jumps there and is hardly known; go by the median, "
                "or give the torques of drives a larger std"
            )
    return tuple(found)
