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

The frame of a link is parallel to that of its body and lies on the joint (MJCF's joint pos).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bodysense.errors import MissingDependencyError, RobotFileError
from bodysense.files import read_robot_file
from bodysense.robot.friction import Friction
from bodysense.robot.io.mjcf_model import (
    floating_body,
    joint_name,
    one_axis_joints,
    pinocchio_model,
)
from bodysense.robot.io.source import Source
from bodysense.robot.model import require_feasible_links
from bodysense.robot.robot import Robot
from bodysense.spatial.arrays import Array

if TYPE_CHECKING:
    import mujoco

_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_OTHER_FILE = re.compile(r"<(?:include|model)\b[^>]*?\bfile\s*=\s*([\"'])(.*?)\1", re.DOTALL)
_PLUGIN = re.compile(r"<plugin\b")
_FINITE = (
    *("body_pos", "body_quat", "body_mass", "body_ipos", "body_iquat", "body_inertia"),
    *("jnt_pos", "jnt_axis", "qpos0", "dof_armature", "dof_damping", "dof_frictionloss"),
)
_JOINT_TRANSMISSIONS = (0, 1)  # mjtTrn: joint, joint in parent


def load_mjcf(
    path: str | os.PathLike[str],
    *,
    floating_base: bool | None = None,
    friction: str | None = None,
    allow_inconsistent: bool = False,
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
    joints = one_axis_joints(compiled, where)
    base = floating_body(compiled, joints, floating_base, where)
    if base is None and not joints:
        raise RobotFileError(
            f"{where}: nothing in it moves: add <joint/> or <freejoint/> to a body of it."
        )
    model, massless = pinocchio_model(compiled, base, _effort_limits(compiled))
    law = Friction.from_model(friction or "coulomb", len(joints))
    coefficients = _coefficients(compiled, joints)
    notes = (*remarks, *_notes(compiled, joints, base, massless))
    for term, meaning in (("Fv", "damping"), ("Fc", "frictionloss")):
        if term not in law.model.terms and coefficients.pop(term).any():
            notes += (f"joint {meaning} dropped: friction {law.model.name!r} has no such term",)
    robot = Robot.from_pinocchio(
        model,
        friction=law,
        coefficients=coefficients,
        source=Source("mjcf", where, data),
        notes=notes,
        allow_inconsistent=True,  # judged next
    )
    if not allow_inconsistent:
        require_feasible_links(robot, where)
    return robot


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
        if not np.isfinite(getattr(compiled, name)).all():
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
    for k, j in _actuators_on_joints(compiled):
        gear, force = abs(compiled.actuator_gear[k, 0]), np.inf
        if compiled.actuator_forcelimited[k]:
            force = np.abs(compiled.actuator_forcerange[k]).max()
        elif compiled.actuator_ctrllimited[k] and _is_motor(compiled, k):
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


def _is_motor(compiled: mujoco.MjModel, k: int) -> bool:
    """Whether the force is the control signal times a gain, nothing else."""
    return not (
        compiled.actuator_gaintype[k]
        or compiled.actuator_biastype[k]
        or compiled.actuator_dyntype[k]
    )


def _notes(
    compiled: mujoco.MjModel, joints: list[int], base: int | None, massless: tuple[str, ...]
) -> tuple[str, ...]:
    """What the robot does not have of the file, in words."""
    notes = []
    if massless:
        notes.append(f"bodies with several joints have massless links: {', '.join(massless)}")
    sprung = [joint_name(compiled, j) for j in joints if compiled.jnt_stiffness[j] != 0.0]
    if sprung:
        notes.append(f"joint springs left out: {', '.join(sprung)}")
    if any(np.any(getattr(compiled, f"{key}_dampingpoly", 0.0)) for key in ("dof", "actuator")):
        notes.append("damping that is not proportional to velocity left out")
    if base is None and joints != list(range(compiled.njnt)):
        notes.append("free joint left out: the base is fixed where the file puts it")
    free = np.setdiff1d(np.arange(compiled.nv), compiled.jnt_dofadr[joints])
    drives = (compiled.dof_armature, compiled.dof_damping, compiled.dof_frictionloss)
    if any(values[free].any() for values in drives):
        notes.append("armature, damping and frictionloss of the free joint left out")
    return (*notes, *_left_out(compiled))


def _left_out(compiled: mujoco.MjModel) -> Iterator[str]:
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
