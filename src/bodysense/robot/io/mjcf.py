"""Robots from MJCF files, through MuJoCo's own compiler.

MuJoCo resolves defaults, includes, angle units, inertia from geoms and everything else that MJCF
can say; this module rebuilds what it compiled as a Pinocchio model. Pinocchio's own MJCF parser is
not used: it ignores the file's gravity and actuators, and joins several joints of one body to a
joint with several axes.

q is MuJoCo's qpos for all one-axis joints, `ref` included. A floating base has MuJoCo's position,
but its quaternion is (x, y, z, w), and its linear velocity is in base coordinates.

| MJCF                                     | Robot                                             |
|------------------------------------------|---------------------------------------------------|
| joint armature                           | Ia, plus gear² armature of the joint's actuators  |
| joint damping, frictionloss              | Fv, Fc                                            |
| joint range                              | position limits                                   |
| actuator forcerange or ctrlrange, gear   | effort limit                                      |
| body with several joints                 | massless links in front of it, named as the joint |
| body without joints                      | part of the body that carries it                  |
| body, site                               | frame of that name                                |
| option gravity                           | gravity                                           |

MuJoCo moves a body by its joints in their order, each about an anchor and an axis that are fixed
in the body:

    T_parent_body(q) = T_parent_body(q_ref) prod_k Trans(p_k) J_k(q_k - q_ref_k) Trans(-p_k)

Pinocchio's joint k then sits at the anchor p_k (MJCF's joint pos), its link parallel to the body,
and all links but the last are massless.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pinocchio as pin
from numpy.typing import ArrayLike

from bodysense.errors import MissingDependencyError, RobotFileError, UnsupportedJointError
from bodysense.files import read_robot_file
from bodysense.robot.friction import Friction
from bodysense.robot.model import require_distinct
from bodysense.robot.robot import Robot
from bodysense.robot.source import Source
from bodysense.spatial.arrays import Array

if TYPE_CHECKING:
    import mujoco

_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_OTHER_FILE = re.compile(r"<(?:include|model)\b[^>]*?\bfile\s*=\s*([\"'])(.*?)\1", re.DOTALL)
_PLUGIN = re.compile(r"<plugin\b")
_FINITE = (
    *("body_pos", "body_quat", "body_mass", "body_ipos", "body_iquat", "body_inertia"),
    *("jnt_pos", "jnt_axis", "qpos0", "dof_armature", "dof_damping", "dof_frictionloss"),
    "opt.gravity",
)
_JOINT_TRANSMISSIONS = (0, 1)  # mjtTrn: joint, joint in parent
_FREE, _BALL, _SLIDE, _HINGE = range(4)  # mjtJoint


def load_mjcf(
    path: str | os.PathLike[str],
    *,
    floating_base: bool | None = None,
    friction: str | None = None,
    allow_inconsistent: bool = True,
) -> Robot:
    """Read a robot from an MJCF file.

    Args:
        path: the file. Files that it includes must lie in the same folder or below.
        floating_base: `None` does as the file says: a free joint makes the robot float. `True`
            frees the only body of the world, `False` fixes it where the file puts it.
        friction: the friction law, by default "coulomb"; what the file does not give of it is zero.
        allow_inconsistent: accept links with infeasible inertia.

    Raises:
        MissingDependencyError: MuJoCo is not installed.
        RobotFileError: the file cannot be found, read or compiled, or uses plugins.
        UnsupportedJointError: a ball joint, or a free joint that is not that of the robot's base.
        UnknownNameError: an unknown friction law.
        InconsistentInertiaError: unless `allow_inconsistent`.
    """
    where = str(path)
    data = _read_checked(Path(path))
    compiled, remarks = compile_mjcf(where)
    joints = _one_axis_joints(compiled, where)
    base = _floating_body(compiled, joints, floating_base, where)
    if base is None and not joints:
        raise RobotFileError(
            f"{where}: nothing in it moves: add <joint/> or <freejoint/> to a body of it."
        )
    model, massless = _pinocchio_model(compiled, base, _effort_limits(compiled))
    law = Friction.from_model(friction or "coulomb", len(joints))
    coefficients = _coefficients(compiled, joints)
    notes = (*remarks, *_notes(compiled, joints, base, massless))
    for term, meaning in (("Fv", "damping"), ("Fc", "frictionloss")):
        if term not in law.model.terms and coefficients.pop(term).any():
            notes += (f"joint {meaning} dropped: friction {law.model.name!r} has no such term",)
    return Robot.from_pinocchio(
        model,
        friction=law,
        coefficients=coefficients,
        source=Source("mjcf", where, data),
        notes=notes,
        allow_inconsistent=allow_inconsistent,
    )


def compile_mjcf(where: str) -> tuple[mujoco.MjModel, tuple[str, ...]]:
    """The compiled file and what MuJoCo remarked on it."""
    try:
        import mujoco
    except ImportError as error:
        raise MissingDependencyError(
            "MJCF files are read with MuJoCo, which is not installed: "
            'pip install "bodysense[mujoco]".'
        ) from error
    warnings: list[str] = []
    handler = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(warnings.append)  # else it writes a log file to the working folder
    try:
        compiled = mujoco.MjModel.from_xml_path(where)
    except (ValueError, mujoco.FatalError) as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise RobotFileError(f"{where}: MuJoCo cannot compile it: {reason}.") from error
    finally:
        mujoco.set_mju_user_warning(handler)
    for name in _FINITE:
        if not np.isfinite(attrgetter(name)(compiled)).all():
            raise RobotFileError(
                f"{where}: MuJoCo's {name} holds numbers that are not finite: look for nan and inf "
                "in the file."
            )
    return compiled, tuple(f"MuJoCo warns: {' '.join(text.split())}" for text in warnings)


def _read_checked(path: Path) -> bytes:
    """Bytes of the main file, once it and all that it includes have been looked through."""
    folder = os.path.abspath(path.parent)
    main = os.path.join(folder, path.name)
    contents: dict[str, bytes] = {}
    waiting = [main]
    while waiting:
        name = waiting.pop()
        contents[name] = read_robot_file(name)
        text = _COMMENT.sub("", contents[name].decode("utf-8", errors="replace"))
        if _PLUGIN.search(text):
            raise RobotFileError(
                f"{name} uses a MuJoCo plugin, which bodysense does not run: remove <plugin> and "
                "<extension> from it."
            )
        for _, other in _OTHER_FILE.findall(text):
            # As MuJoCo looks for it: from the main file, else from the one that includes it.
            places = [os.path.normpath(os.path.join(p, other)) for p in (folder, Path(name).parent)]
            target = next(filter(os.path.isfile, places), places[0])
            if os.path.commonpath([folder, target]) != folder:
                raise RobotFileError(
                    f"{name} includes {other!r}, which lies outside its folder {folder}: move it "
                    "there."
                )
            if target not in contents and target not in waiting and os.path.isfile(target):
                waiting.append(target)  # MuJoCo reports what is missing
    return contents[main]


def _coefficients(compiled: mujoco.MjModel, joints: list[int]) -> dict[str, Array]:
    """Rotor inertia, viscous and Coulomb friction, (n_joints,) each."""
    dofs = compiled.jnt_dofadr[joints]
    added = {}
    for name in ("armature", "damping"):
        # Since some version of MuJoCo actuators have their own, on their side of the gear.
        of_actuators = getattr(compiled, f"actuator_{name}", np.zeros(compiled.nu))
        added[name] = np.zeros(compiled.njnt)
        for k, j in _actuators_on_joints(compiled):
            added[name][j] += compiled.actuator_gear[k, 0] ** 2 * of_actuators[k]
    return {
        "Ia": compiled.dof_armature[dofs] + added["armature"][joints],
        "Fv": compiled.dof_damping[dofs] + added["damping"][joints],
        "Fc": np.array(compiled.dof_frictionloss[dofs]),
    }


def _effort_limits(compiled: mujoco.MjModel) -> Array:
    """(njnt,) largest force of all actuators of a joint together, infinite where not limited."""
    limit = np.full(compiled.njnt, np.nan)
    # A motor's force is the control signal times a gain, nothing else.
    not_motor = (compiled.actuator_gaintype, compiled.actuator_biastype, compiled.actuator_dyntype)
    for k, j in _actuators_on_joints(compiled):
        gear, force = abs(compiled.actuator_gear[k, 0]), np.inf
        if compiled.actuator_forcelimited[k]:
            force = np.abs(compiled.actuator_forcerange[k]).max()
        elif compiled.actuator_ctrllimited[k] and not any(kinds[k] for kinds in not_motor):
            force = np.abs(compiled.actuator_gainprm[k, 0] * compiled.actuator_ctrlrange[k]).max()
        if gear > 0.0:
            limit[j] = np.nan_to_num(limit[j]) + gear * force
    limit[np.isnan(limit)] = np.inf
    of_joint = np.where(
        compiled.jnt_actfrclimited != 0, np.abs(compiled.jnt_actfrcrange).max(axis=1), np.inf
    )
    return np.minimum(limit, of_joint)


def _actuators_on_joints(compiled: mujoco.MjModel) -> Iterator[tuple[int, int]]:
    """Actuator and joint of every actuator that acts on one joint."""
    for k in range(compiled.nu):
        if compiled.actuator_trntype[k] in _JOINT_TRANSMISSIONS:
            yield k, int(compiled.actuator_trnid[k, 0])


def _notes(
    compiled: mujoco.MjModel, joints: list[int], base: int | None, massless: tuple[str, ...]
) -> Iterator[str]:
    """What the robot does not have of the file, in words."""
    if massless:
        yield f"bodies with several joints have massless links: {', '.join(massless)}"
    sprung = [_joint_name(compiled, j) for j in joints if compiled.jnt_stiffness[j] != 0.0]
    if sprung:
        yield f"joint springs left out: {', '.join(sprung)}"
    if any(np.any(getattr(compiled, f"{key}_dampingpoly", 0.0)) for key in ("dof", "actuator")):
        yield "damping that is not proportional to velocity left out"
    if base is None and joints != list(range(compiled.njnt)):
        yield "free joint left out: the base is fixed where the file puts it"
    free = np.setdiff1d(np.arange(compiled.nv), compiled.jnt_dofadr[joints])
    drives = (compiled.dof_armature, compiled.dof_damping, compiled.dof_frictionloss)
    if any(values[free].any() for values in drives):
        yield "armature, damping and frictionloss of the free joint left out"
    for count, what in (
        (compiled.neq, "equality constraint(s)"),
        (compiled.ntendon, "tendon(s)"),
        (compiled.nflex, "flexible bodies"),
        (int(np.count_nonzero(compiled.body_gravcomp)), "gravity compensation of bodies:"),
    ):
        if count:
            yield f"left out: {count} {what}"
    if compiled.opt.density or compiled.opt.viscosity:
        yield "left out: forces of the surrounding medium"


def _one_axis_joints(compiled: mujoco.MjModel, where: str) -> list[int]:
    """Joints with one axis; `where` names the file in messages."""
    # Names that the file leaves out are made up, and "universe" is Pinocchio's own.
    names = [_joint_name(compiled, j) for j in range(compiled.njnt)]
    require_distinct("joint", ["universe", *names], where)
    require_distinct("body", [body_name(compiled, b) for b in range(compiled.nbody)], where)
    ball = np.flatnonzero(compiled.jnt_type == _BALL)
    if ball.size:
        raise UnsupportedJointError(
            f"{where}: joint {_joint_name(compiled, ball[0])!r} of body "
            f"{body_name(compiled, compiled.jnt_bodyid[ball[0]])!r} is a ball joint: replace it "
            "by three hinges on the same body."
        )
    return [j for j in range(compiled.njnt) if compiled.jnt_type[j] != _FREE]


def _floating_body(
    compiled: mujoco.MjModel, joints: list[int], wanted: bool | None, where: str
) -> int | None:
    """The body that floats, if any; see `load_mjcf` for `wanted`."""
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
                f"{where}: joint {_joint_name(compiled, j)!r} does not belong to the floating "
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


def _pinocchio_model(
    compiled: mujoco.MjModel, base: int | None, effort: Array
) -> tuple[pin.Model, tuple[str, ...]]:
    """The model, and the names of its massless links, which are those of their joints.

    `base` floats, if there is one; other free joints are taken as fixed. `effort` is (njnt,).
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
            name = _joint_name(compiled, first) if compiled.body_jntnum[b] else "root_joint"
            placement = pin.SE3.Identity()  # where the base is, is up to q
            parent = model.addJoint(0, pin.JointModelFreeFlyer(), placement, name)
            previous_frame = model.addJointFrame(parent)
        massless.extend(_joint_name(compiled, j) for j in of_body[:-1])
        for j in of_body:
            anchor = pin.SE3(np.eye(3), np.array(compiled.jnt_pos[j]))
            parent = _add_joint(model, compiled, parent, placement * anchor, j, effort[j])
            previous_frame = model.addJointFrame(parent)
            placement = anchor.inverse()
        model.appendBodyToJoint(parent, _inertia(compiled, b), placement)
        frame = model.addBodyFrame(body_name(compiled, b), parent, placement, previous_frame)
        supports.append((parent, placement, frame))
    for s in range(compiled.nsite):
        parent, placement, previous_frame = supports[compiled.site_bodyid[s]]
        placement = placement * _pose(compiled.site_pos[s], compiled.site_quat[s])
        kind = pin.FrameType.OP_FRAME
        if name := compiled.site(s).name:
            model.addFrame(pin.Frame(name, parent, previous_frame, placement, kind), False)
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
    lower, upper = compiled.jnt_range[j] if compiled.jnt_limited[j] else (-np.inf, np.inf)
    added: int = model.addJoint(
        parent,
        joint,
        T_parent_joint * back,
        _joint_name(compiled, j),
        np.array([effort]),
        np.array([np.inf]),  # MJCF has no limits of speed
        np.array([lower]),
        np.array([upper]),
    )
    return added


def _inertia(compiled: mujoco.MjModel, b: int) -> pin.Inertia:
    T_body_principal = _pose(compiled.body_ipos[b], compiled.body_iquat[b])
    mass, moments = float(compiled.body_mass[b]), np.diag(compiled.body_inertia[b])
    return pin.Inertia(mass, np.zeros(3), moments).se3Action(T_body_principal)


def _joint_name(compiled: mujoco.MjModel, j: int) -> str:
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
