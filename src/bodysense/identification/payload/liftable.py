"""Could the arm have held this load? What is given in grams, it could not."""

from __future__ import annotations

import numpy as np

from bodysense.errors import MismatchError
from bodysense.identification.payload.experiment import LoadExperiment
from bodysense.robot.dynamics import inverse_dynamics
from bodysense.robot.payload import with_payload
from bodysense.spatial.arrays import Array

_TOO_HEAVY = 1.5
"""Times its effort limit that a joint would need at standstill, in the middle of the motion, from
which a load cannot have been the one that was held."""


def require_liftable(experiment: LoadExperiment, load: float, com: Array | None) -> None:
    """Raise if the arm could not have stood in the poses of the recording with this load."""
    robot = experiment.robot
    limit = robot.effort_limit
    if not np.isfinite(limit).any():
        return
    held = with_payload(robot, load, link=experiment.frame, com=np.zeros(3) if com is None else com)
    q = np.concatenate([m.q[::20] for m in experiment.problem.motions])
    friction = np.zeros_like(q)
    torque = inverse_dynamics(held, np.ascontiguousarray(q), friction, friction)
    use = np.median(np.abs(torque) / limit, axis=0)
    worst = int(np.argmax(use))
    if use[worst] > _TOO_HEAVY:
        raise MismatchError(
            f"a load of {load:g} kg is heavier than the arm could lift: in the poses of the "
            f"recording {robot.joint_names[worst]} would need {use[worst]:.1f} times its limit of "
            f"{limit[worst]:g} N·m just to stand. Give the mass in kg (not in grams), and the link "
            "that holds it."
        )
