"""Payload: a rigid body that a robot holds, such as a tool or a grasped object."""

from __future__ import annotations

import math

import numpy as np
import pinocchio as pin
from numpy.typing import ArrayLike

from bodysense.errors import InconsistentInertiaError, MismatchError, ShapeError, unknown_name
from bodysense.robot.frames import find_frame, moving_frame_names
from bodysense.robot.robot import Robot
from bodysense.spatial.arrays import Array
from bodysense.spatial.pseudo_inertia import (
    physical_consistency,
    pi_from_mass_com_inertia,
    transform_pi,
)


def with_payload(
    robot: Robot,
    mass: float,
    *,
    link: str | None = None,
    com: ArrayLike = (0.0, 0.0, 0.0),
    inertia: ArrayLike | None = None,
) -> Robot:
    """Return the same robot with a rigid body held by one of its links.

    Inertial parameters about the same origin add up:

        pi_link <- pi_link + pi_payload

    Everything else stays, the controller included: the robot does not know what it holds.

    Args:
        robot: that holds the body.
        mass: of the body [kg].
        link: the link that holds it, or any named frame fixed to one, such as a tool flange; by
            default the last link of a robot that is one chain.
        com: (3,) centre of mass in the frame of that name [m].
        inertia: (3, 3) about the centre of mass, in the axes of that frame [kg·m²]; by default
            zero, a point mass.

    Raises:
        UnknownNameError: the robot has no such link or frame.
        MismatchError: the frame does not move, or the robot has several last links.
        InconsistentInertiaError: the payload is not physically consistent.
    """
    if not (math.isfinite(mass) and mass > 0.0):
        raise ShapeError(f"the mass of the payload is {mass:g} kg: give a number above zero.")
    frame = find_payload_frame(robot, link)
    pi = pi_from_mass_com_inertia(mass, com, np.zeros((3, 3)) if inertia is None else inertia)
    check = physical_consistency(pi)
    if not check.feasible:
        raise InconsistentInertiaError(
            f"the payload is not physically consistent: {check.reason}. Give its inertia about its "
            "own centre of mass, or leave it out for a point mass."
        )
    theta = robot.theta.copy()
    theta[robot.layout.link(frame.parentJoint - 1)] += transform_pi(pi, frame.placement.homogeneous)
    return robot.with_parameters(theta)


def find_payload_frame(robot: Robot, link: str | None) -> pin.Frame:
    """The frame of a name as the robot's file has it, on the joint that moves it.

    Args:
        robot: that holds something.
        link: of a link, or any named frame fixed to one; by default the last link of a chain.

    Raises:
        UnknownNameError: the robot has no such link or frame.
        MismatchError: the frame does not move, or the robot has several last links.
    """
    if link is None:
        link = _last_link(robot)
    frame = find_frame(robot, link)
    if frame is None:
        raise unknown_name("link or frame", link, moving_frame_names(robot))
    if frame.parentJoint == 0:
        raise MismatchError(
            f"{link!r} of {robot.name!r} is fixed to the ground, where a payload has no effect: "
            f"choose a link that moves, e.g. {robot.link_names[-1]!r}."
        )
    return frame


def _last_link(robot: Robot) -> str:
    carrying = set(robot.model.parents)
    last = [name for k, name in enumerate(robot.link_names) if k + 1 not in carrying]
    if len(last) != 1:
        raise MismatchError(
            f"{robot.name!r} ends in {len(last)} links ({', '.join(last) or 'none'}): say "
            "which one holds the payload."
        )
    return last[0]


def carried_mass(robot: Robot) -> Array:
    """(n_joints,) mass of all links that a joint moves, its own included [kg]."""
    first = int(robot.floating_base)
    carried = np.array([robot.pi(first + k)[0] for k in range(robot.n_joints)])
    for j in range(robot.n_joints - 1, -1, -1):
        parent = robot.tree.parent[j]
        if parent >= 0:
            carried[parent] += carried[j]
    return carried
