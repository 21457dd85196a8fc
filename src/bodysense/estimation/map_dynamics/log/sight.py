"""Do the sensors show the joints whose positions are not measured? Asked before a log is solved.

At some moments of the log, with a wide belief about the joint, its position, velocity or
acceleration must become narrower by what is read. That it does is no promise that the angle is
known well, which the bands say; that it does not means that nothing will ever be known.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from bodysense.errors import MismatchError
from bodysense.estimation.map_dynamics.estimator import MapDynamics
from bodysense.estimation.map_dynamics.log.listing import listing
from bodysense.estimation.map_dynamics.log.recording import Recording
from bodysense.estimation.map_dynamics.state.belief import StateBelief
from bodysense.estimation.map_dynamics.state.estimator import StateAndDynamics

_MOMENTS = 5
_NARROWER = 0.9
_WIDE = (1.0, 1.0, 10.0)  # rad, rad/s, rad/s²


def require_sight(
    problem: MapDynamics,
    recording: Recording,
    joints: tuple[str, ...],
    source: str,
    gravity: ArrayLike | None,
) -> None:
    """Raise if some of the joints move unseen.

    Args:
        problem: the robot with its sensors.
        recording: their readings.
        joints: without recorded positions.
        source: name of the log.
        gravity: (3,) in the frame of a root that is held.

    Raises:
        MismatchError: names these joints, and sensors that would help.
    """
    some = np.unique(np.linspace(0, recording.t.size - 1, _MOMENTS).astype(int))
    unseen = set(joints)
    for k in some:
        if unseen:
            unseen -= _seen(problem, recording.q[k], recording.readings[k], unseen, gravity)
    if not unseen:
        return
    named = [joint for joint in joints if joint in unseen]
    known = [joint for joint in problem.robot.joint_names if joint not in joints]
    raise MismatchError(
        f"{source} has no positions of {listing(named)} (it has them of {listing(known)}), and "
        f"no sensor shows how {'it moves' if len(named) == 1 else 'they move'}. Name the channels "
        "q.<joint> in the layout file; or add to the sensors file "
        + "; ".join(_remedy(problem, joint) for joint in named[:3])
        + "."
    )


def _seen(
    problem: MapDynamics,
    q: np.ndarray,
    readings: np.ndarray,
    joints: set[str],
    gravity: ArrayLike | None,
) -> set[str]:
    """Those of the joints of which one moment tells something."""
    mean = np.where(np.isfinite(q), q, 0.0)
    rest = np.zeros_like(mean)
    belief = StateBelief.of(mean, rest, rest, q_std=_WIDE[0], dq_std=_WIDE[1], ddq_std=_WIDE[2])
    found = StateAndDynamics(problem, belief).estimate(readings, gravity=gravity)
    return {
        joint
        for joint in joints
        if any(
            float(found.sigma(f"{what}.{joint}")[0]) < _NARROWER * wide
            for what, wide in zip(("q", "dq", "ddq"), _WIDE, strict=True)
        )
    }


def _remedy(problem: MapDynamics, joint: str) -> str:
    """What would show one joint."""
    tree, names = problem.tree, problem.robot.joint_names
    body = tree.joint.index(names.index(joint))
    moved = [body]
    for i in range(body + 1, tree.n):
        if tree.parent[i] in moved:
            moved.append(i)
    links = listing([tree.names[i] for i in moved], 3)
    text = f"for {joint} a gyroscope and an accelerometer, or an orientation, on {links}"
    if tree.floating:
        text += f", and one on the other side of it, as on {tree.names[tree.parent[body]]}"
    return text
