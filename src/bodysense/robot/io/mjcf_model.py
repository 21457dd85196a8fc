"""What MuJoCo compiled, as a Pinocchio model: the geometry and inertia half of the MJCF loader.

MuJoCo moves a body by its joints in their order, each about an anchor and an axis that are fixed
in the body:

    T_parent_body(q) = T_parent_body(q_ref) prod_k Trans(p_k) J_k(q_k - q_ref_k) Trans(-p_k)

Pinocchio's joint k then sits at the anchor p_k, and all links but the last are massless.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pinocchio as pin
from numpy.typing import ArrayLike

from bodysense.errors import RobotFileError, UnsupportedJointError
from bodysense.robot.model import require_distinct
from bodysense.spatial.arrays import Array

if TYPE_CHECKING:
    import mujoco

_FREE, _BALL, _SLIDE, _HINGE = range(4)  # mjtJoint


def one_axis_joints(compiled: mujoco.MjModel, where: str) -> list[int]:
    """Joints with one axis; `where` names the file in messages.

    Raises:
        RobotFileError: two joints or bodies have the same name.
        UnsupportedJointError: there is a ball joint.
    """
    # Names that the file leaves out are made up, and "universe" is Pinocchio's own.
    names = [joint_name(compiled, j) for j in range(compiled.njnt)]
    require_distinct("joint", ["universe", *names], where)
    require_distinct("body", [body_name(compiled, b) for b in range(compiled.nbody)], where)
    ball = np.flatnonzero(compiled.jnt_type == _BALL)
    if ball.size:
        raise UnsupportedJointError(
            f"{where}: joint {joint_name(compiled, ball[0])!r} of body "
            f"{body_name(compiled, compiled.jnt_bodyid[ball[0]])!r} is a ball joint: replace it "
            "by three hinges on the same body."
        )
    return [j for j in range(compiled.njnt) if compiled.jnt_type[j] != _FREE]


def floating_body(
    compiled: mujoco.MjModel, joints: list[int], wanted: bool | None, where: str
) -> int | None:
    """The body that floats, if any; see `load_mjcf` for `wanted`.

    Raises:
        RobotFileError: there is no body that could float.
        UnsupportedJointError: several float, or other things move beside the floating one.
    """
    free = [int(b) for b in compiled.jnt_bodyid[compiled.jnt_type == _FREE]]
    if len(free) > 1:
        names = ", ".join(body_name(compiled, b) for b in free)
        raise UnsupportedJointError(
            f"{where}: several bodies float ({names}): keep the robot's own in the file and remove "
            "the others."
        )
    if wanted is False or (wanted is None and not free):
        return None
    base = free[0] if free else _only_body_of_world(compiled, where)
    for j in joints:
        if compiled.body_rootid[compiled.jnt_bodyid[j]] != base:
            raise UnsupportedJointError(
                f"{where}: joint {joint_name(compiled, j)!r} does not belong to the floating "
                f"robot {body_name(compiled, base)!r}: remove it, or the free joint."
            )
    return base


def _only_body_of_world(compiled: mujoco.MjModel, where: str) -> int:
    bodies = [b for b in range(1, compiled.nbody) if compiled.body_parentid[b] == 0]
    if len(bodies) != 1 or compiled.body_jntnum[bodies[0]]:
        raise RobotFileError(
            f"{where}: floating_base=True needs one body in the world, and no joint on it, to "
            "become the base; put <freejoint/> into the body that floats."
        )
    return bodies[0]


def pinocchio_model(
    compiled: mujoco.MjModel, base: int | None, effort: Array
) -> tuple[pin.Model, tuple[str, ...]]:
    """Build the model.

    Args:
        compiled: without ball joints.
        base: the body that floats, if any; other free joints are taken as fixed.
        effort: (njnt,) effort limits.

    Returns:
        The model, and the names of its massless links, which are those of their joints.
    """
    model = pin.Model()
    model.name = compiled.names.split(b"\0", 1)[0].decode("utf-8", errors="replace")
    model.gravity.linear = _gravity(compiled)
    massless: list[str] = []
    # For every body the joint that moves it, the body's pose there, and its frame.
    supports = [(0, pin.SE3.Identity(), 0)]
    for b in range(1, compiled.nbody):
        parent, placement, previous_frame = supports[compiled.body_parentid[b]]
        placement = placement * _pose(compiled.body_pos[b], compiled.body_quat[b])
        first = int(compiled.body_jntadr[b])
        of_body = [
            j
            for j in range(first, first + int(compiled.body_jntnum[b]))
            if compiled.jnt_type[j] != _FREE
        ]
        if b == base:
            name = joint_name(compiled, first) if compiled.body_jntnum[b] else "root_joint"
            placement = pin.SE3.Identity()  # where the base is, is up to q
            parent = model.addJoint(0, pin.JointModelFreeFlyer(), placement, name)
            previous_frame = model.addJointFrame(parent)
        for k, j in enumerate(of_body):
            anchor = pin.SE3(np.eye(3), np.array(compiled.jnt_pos[j]))
            parent = _add_joint(model, compiled, parent, placement * anchor, j, effort[j])
            previous_frame = model.addJointFrame(parent)
            placement = anchor.inverse()
            if k + 1 < len(of_body):
                massless.append(joint_name(compiled, j))
        model.appendBodyToJoint(parent, _inertia(compiled, b), placement)
        frame = model.addBodyFrame(body_name(compiled, b), parent, placement, previous_frame)
        supports.append((parent, placement, frame))
    for s in range(compiled.nsite):
        parent, placement, previous_frame = supports[compiled.site_bodyid[s]]
        placement = placement * _pose(compiled.site_pos[s], compiled.site_quat[s])
        name = compiled.site(s).name
        if name:
            model.addFrame(
                pin.Frame(name, parent, previous_frame, placement, pin.FrameType.OP_FRAME), False
            )
    return model, tuple(massless)


def _add_joint(
    model: pin.Model,
    compiled: mujoco.MjModel,
    parent: int,
    T_parent_joint: pin.SE3,
    j: int,
    effort: float,
) -> int:
    axis = np.array(compiled.jnt_axis[j])
    ref = compiled.qpos0[compiled.jnt_qposadr[j]]  # the value of q in the pose of the file
    if compiled.jnt_type[j] == _SLIDE:
        joint = pin.JointModelPrismaticUnaligned(axis)
        back = pin.SE3(np.eye(3), -ref * axis)
    else:
        joint = pin.JointModelRevoluteUnaligned(axis)
        back = pin.SE3(pin.exp3(-ref * axis), np.zeros(3))
    limited = bool(compiled.jnt_limited[j])
    lower, upper = compiled.jnt_range[j] if limited else (-np.inf, np.inf)
    added: int = model.addJoint(
        parent,
        joint,
        T_parent_joint * back,
        joint_name(compiled, j),
        np.array([effort]),
        np.array([np.inf]),  # MJCF has no limits of speed
        np.array([lower]),
        np.array([upper]),
    )
    return added


def _inertia(compiled: mujoco.MjModel, b: int) -> pin.Inertia:
    T_body_principal = _pose(compiled.body_ipos[b], compiled.body_iquat[b])
    principal = pin.Inertia(
        float(compiled.body_mass[b]), np.zeros(3), np.diag(compiled.body_inertia[b])
    )
    return principal.se3Action(T_body_principal)


def joint_name(compiled: mujoco.MjModel, j: int) -> str:
    """Name of a joint; where the file gives none, that of its body and its place there."""
    name: str = compiled.joint(j).name
    if name:
        return name
    b = int(compiled.jnt_bodyid[j])
    return f"{body_name(compiled, b)}_joint{j - int(compiled.body_jntadr[b]) + 1}"


def body_name(compiled: mujoco.MjModel, b: int) -> str:
    """Name of a body, or ``body<k>`` where the file gives none."""
    name: str = compiled.body(b).name
    return name or f"body{b}"


def _pose(position: ArrayLike, wxyz: ArrayLike) -> pin.SE3:
    return pin.SE3(pin.Quaternion(*np.asarray(wxyz)).matrix(), np.array(position))


def _gravity(compiled: mujoco.MjModel) -> Array:
    import mujoco

    off = compiled.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_GRAVITY
    return np.zeros(3) if off else np.array(compiled.opt.gravity)
