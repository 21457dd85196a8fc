"""Frames of a robot by name, payloads that hang on them, and poses of links over many samples.

Poses are in base coordinates: those of the world for a fixed base and of the base link for a
floating one, so that they do not depend on where the robot floats.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pinocchio as pin
from numpy.typing import ArrayLike, NDArray

from bodysense.errors import InconsistentInertiaError, MismatchError, ShapeError, unknown_name
from bodysense.robot.robot import Robot, require_robot
from bodysense.spatial.arrays import Array, as_array
from bodysense.spatial.pseudo_inertia import (
    physical_consistency,
    pi_from_mass_com_inertia,
    transform_pi,
)


def named_frames(robot: Robot) -> list[pin.Frame]:
    """Named frames of bodies and tools that are not a link's own, each name once."""
    kinds = (pin.FrameType.BODY, pin.FrameType.OP_FRAME, pin.FrameType.SENSOR)
    frames: dict[str, pin.Frame] = {}
    for frame in robot.model.frames:
        own = (
            frame.parentJoint > 0
            and frame.name == robot.link_names[frame.parentJoint - 1]
            and frame.placement.isIdentity(1e-12)
        )
        if frame.type in kinds and not own:
            frames.setdefault(frame.name, frame)
    return list(frames.values())


def moving_frame(robot: Robot, name: str | None, who: str) -> pin.Frame:
    """The frame of a link, or of a frame fixed to one; `who` is to be mounted there, for messages.

    By default it is the last link of a robot that is one chain.

    Raises `UnknownNameError` without such a frame, `MismatchError` if it is part of the ground.
    """
    if name is None:
        name = _last_link(robot, who)
    named = [frame for frame in robot.model.frames if frame.name == name]
    named.sort(key=lambda frame: frame.type != pin.FrameType.BODY)  # joints may have its name
    frame = named[0] if named else None
    if frame is not None and frame.parentJoint > 0:
        return frame
    if name in robot.link_names:  # a model built by hand may have links without frames
        joint = robot.link_names.index(name) + 1
        return pin.Frame(name, joint, 0, pin.SE3.Identity(), pin.FrameType.BODY)
    if frame is not None:
        raise MismatchError(
            f"{who}: {name!r} of {robot.name!r} is part of the ground, which does not move: mount "
            f"it on a link, e.g. {robot.link_names[0]!r}, or load the robot with a floating base "
            "(--floating, where the command has it)."
        )
    place = f"({who}, robot {robot.name!r})"
    raise unknown_name("link or frame", name, _moving_frame_names(robot), place)


def _moving_frame_names(robot: Robot) -> list[str]:
    """Names of links and of what is fixed to them, each once."""
    joints = {pin.FrameType.JOINT, pin.FrameType.FIXED_JOINT}
    fixed = [f.name for f in robot.model.frames if f.parentJoint > 0 and f.type not in joints]
    return list(dict.fromkeys((*robot.link_names, *fixed)))


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
    require_robot(robot)
    if not (math.isfinite(mass) and mass > 0.0):
        raise ShapeError(f"the mass of the payload is {mass:g} kg: give a number above zero.")
    frame = moving_frame(robot, link, "the payload")
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


def _last_link(robot: Robot, who: str) -> str:
    carrying = set(robot.model.parents)
    last = [name for k, name in enumerate(robot.link_names) if k + 1 not in carrying]
    if len(last) != 1:
        raise MismatchError(
            f"{robot.name!r} ends in {len(last)} links ({', '.join(last) or 'none'}): say which "
            f"one holds {who}."
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


@dataclass(frozen=True, eq=False)
class LinkPoses:
    """Poses of all links over time; row 0 is the base, row j + 1 the link that joint j moves.

    Attributes:
        R: (n_joints + 1, n_t, 3, 3) R_base_link.
        p: (n_joints + 1, n_t, 3) p_base_link [m].
        axes: (n_joints, n_t, 3) axes of the joints in base coordinates.
        prismatic: (n_joints,) which joints slide.
    """

    R: Array
    p: Array
    axes: Array
    prismatic: NDArray[np.int64]

    @classmethod
    def from_robot(cls, robot: Robot, q: ArrayLike) -> LinkPoses:
        """Poses of all links in base coordinates at q (n_t, nq).

        T_base_j = T_base_parent · T_parent_j(0) · J_j(q_j)
        """
        tree = robot.tree
        joints = as_array(q, (None, robot.nq), f"q of {robot.name}")[:, robot.nq - robot.n_joints :]
        n_t, n = joints.shape
        R, p = np.empty((n + 1, n_t, 3, 3)), np.empty((n + 1, n_t, 3))
        axes = np.empty((n, n_t, 3))
        R[0], p[0] = np.eye(3), 0.0
        for j in range(n):
            parent = int(tree.parent[j]) + 1
            still, cosine, sine = tree.rotation[j].reshape(3, 3, 3)
            angle = joints[:, j, None, None]
            R[j + 1] = R[parent] @ (still + np.cos(angle) * cosine + np.sin(angle) * sine)
            p[j + 1] = p[parent] + R[parent] @ tree.position[j]
            axes[j] = R[j + 1] @ tree.axis[j]
            if tree.prismatic[j]:
                p[j + 1] += joints[:, j, None] * axes[j]
        return cls(R, p, axes, tree.prismatic)

    def slopes(
        self, joints: NDArray[np.bool_], t: NDArray[np.intp], x: Array, normal: Array
    ) -> Array:
        """(m, n_joints) ∂(n · x)/∂q_j of points x (m, 3) at samples t (m,), n (m, 3) or (3,).

        The points are fixed to a link that the `joints` (n_joints,) move.
        """
        slopes = np.zeros((t.size, joints.size))
        for j in np.flatnonzero(joints):
            velocity = self.axes[j, t]
            if not self.prismatic[j]:
                velocity = np.cross(velocity, x - self.p[j + 1, t])
            slopes[:, j] = np.sum(velocity * normal, axis=1)
        return slopes


def supporting_joints(robot: Robot) -> NDArray[np.bool_]:
    """(n_joints + 1, n_joints): whether a joint moves a link; rows as in `LinkPoses`."""
    n = robot.n_joints
    moves = np.zeros((n + 1, n), dtype=np.bool_)
    for j in range(n):
        moves[j + 1] = moves[int(robot.tree.parent[j]) + 1]
        moves[j + 1, j] = True
    return moves


def sample_poses(robot: Robot, count: int) -> Array:
    """(count, nq) random poses within the limits, the same ones every time.

    Joints without limits turn within half a turn to either side, or slide half a metre.
    """
    lower, upper = robot.position_range
    free = np.where(robot.tree.prismatic.astype(bool), 0.5, np.pi)
    lower = np.where(np.isfinite(lower), lower, -free)
    upper = np.maximum(lower, np.where(np.isfinite(upper), upper, free))
    q = np.zeros((count, robot.nq))
    if robot.floating_base:
        q[:, 6] = 1.0
    q[:, robot.nq - robot.n_joints :] = np.random.default_rng(0).uniform(
        lower, upper, (count, robot.n_joints)
    )
    return q
