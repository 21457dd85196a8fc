"""Armature and friction per joint, as MuJoCo and Isaac Lab take them.

| bodysense            | MuJoCo         | Isaac Lab          | unit, of a sliding joint |
|----------------------|----------------|--------------------|--------------------------|
| Ia, rotor inertia    | `armature`     | `armature`         | kg·m², kg                |
| Fv, viscous friction | `damping`      | `viscous_friction` | N·m·s/rad, N·s/m         |
| Fc, Coulomb friction | `frictionloss` | `dynamic_friction` | N·m, N                   |
| Fs, at least Fc      | –              | `friction`         | N·m, N                   |

All of them at the joint, behind the gear. MuJoCo's are attributes of <joint>; Isaac Lab's are
fields of an `ActuatorBaseCfg`, whose own `damping` is a gain of the controller and no friction.
"""

from __future__ import annotations

import re
from os import PathLike
from pathlib import Path
from typing import Any

import yaml

from bodysense.files import write_atomically
from bodysense.robot.io.urdf_fresh import lost_drives
from bodysense.robot.robot import Robot, require_robot

_HEAD = """\
# Rotor inertia [kg·m²], viscous friction [N·m·s/rad] and Coulomb friction [N·m] at the joints; kg,
# N·s/m and N where a joint slides. mujoco: attributes of <joint>, as in the MJCF file beside it.
# isaac_lab: fields of ActuatorBaseCfg, for Isaac Sim 5.0 or later (before, friction had no unit);
# its damping is a gain of the controller, so none is here.
"""


_ATTRIBUTES = {"Ia": "armature", "Fv": "damping", "Fc": "frictionloss", "Fs": "friction"}


def joint_values(robot: Robot) -> dict[str, Any]:
    """Armature and friction by simulator; terms that the robot's law lacks are zero."""
    require_robot(robot)
    layout = robot.layout
    values = {"Ia": robot.theta[layout.rotor]}
    values |= {term: robot.theta[layout.friction(term)] for term in layout.friction_terms}
    by_term = {
        term: dict(zip(robot.joint_names, (float(x) for x in numbers), strict=True))
        for term, numbers in values.items()
    }
    zero = dict.fromkeys(robot.joint_names, 0.0)
    Ia, Fv, Fc = (by_term.get(term, zero) for term in ("Ia", "Fv", "Fc"))
    mujoco = {
        name: {"armature": Ia[name], "damping": Fv[name], "frictionloss": Fc[name]}
        for name in robot.joint_names
    }
    isaac_lab = {
        "joint_names_expr": [re.escape(name) for name in robot.joint_names],
        "armature": Ia,
        "friction": {
            name: max(by_term.get("Fs", Fc)[name], Fc[name]) for name in robot.joint_names
        },
        "dynamic_friction": dict(Fc),
        "viscous_friction": dict(Fv),
    }
    return {"mujoco": mujoco, "isaac_lab": isaac_lab}


def write_joint_values(robot: Robot, path: str | PathLike[str]) -> Path:
    """Write `joint_values` of all joints, locked ones too, as YAML; what they lack as comments."""
    require_robot(robot)
    whole = robot.unlocked()
    lost = "".join(f"# {note}\n" for note in lost_drives(whole, _ATTRIBUTES))
    text = yaml.safe_dump(joint_values(whole), sort_keys=False, allow_unicode=True, width=1000)
    return write_atomically(path, _HEAD + lost + text)
