"""A load in the words of controllers: Universal Robots' payload, Franka's end effector.

Both take mass [kg], centre of mass [m] and the inertia about it [kg·m²] in the axes of the flange.
The frame is the robot's flange where its file has one on the same link, else the frame that the
load was identified in. Sources: `set_target_payload` in the URScript manual of PolyScope X, in
place of the deprecated `set_payload`, which "How to change payload and center of gravity settings
using URScript" has for CB3 from 3.3 and the e-Series; "End effector commissioning" of the Franka
operating system; `I_load` in libfranka's `RobotState`.
"""

from __future__ import annotations

import json
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from bodysense.files import write_atomically
from bodysense.identification.payload.payload import Payload
from bodysense.robot.frames import moving_frame
from bodysense.robot.robot import Robot
from bodysense.spatial.arrays import Array
from bodysense.spatial.pseudo_inertia import (
    inertia_at_com,
    physical_consistency,
    transform_pi,
)

_FLANGES = ("tool0", "_link8")  # ends of the names of flanges: Universal Robots, Franka
_LARGEST_INERTIA = 133.0  # kg·m², of each component that URScript takes
_HEAD = """\
# What {frame} holds, in its axes: kg, m, kg·m²; the inertia is about the centre of mass.
# Universal Robots take one line of URScript, where the frame must be the tool flange; older
# controllers do not know set_target_payload and take the other line, without inertia. What Franka
# robots take is in endeffector-config.json.
"""


def flange(robot: Robot, link: str) -> str:
    """Name of the robot's flange if it is fixed to the frame of this name, else that name."""
    joint = moving_frame(robot, link, "the load").parentJoint
    names = [frame.name for frame in robot.model.frames if frame.parentJoint == joint]
    return next((name for end in _FLANGES for name in names if name.endswith(end)), link)


def maker_values(payload: Payload, robot: Robot) -> dict[str, Any]:
    """Mass, centre and inertia in the frame of the flange, and the commands of controllers.

    Without a physically consistent inertia there is none: controllers take it as zero.
    """
    frame = flange(robot, payload.link)
    T_flange = moving_frame(robot, frame, "the load").placement
    T_link = moving_frame(robot, payload.link, "the load").placement
    pi = transform_pi(payload.pi, (T_flange.inverse() * T_link).homogeneous)
    mass, com = float(pi[0]), pi[1:4] / pi[0]
    table: dict[str, Any] = {
        "frame": frame,
        "mass": _rounded(mass),
        "center_of_mass": [_rounded(x) for x in com],
    }
    command = older = f"{mass:.6f}, {_urscript(com)}"
    I = inertia_at_com(pi)
    if physical_consistency(pi).feasible and np.abs(I).max() <= _LARGEST_INERTIA:
        entries = {"ixx": (0, 0), "iyy": (1, 1), "izz": (2, 2)}
        entries |= {"ixy": (0, 1), "ixz": (0, 2), "iyz": (1, 2)}
        table["inertia"] = {name: _rounded(I[place]) for name, place in entries.items()}
        command += f", {_urscript(np.array([I[place] for place in entries.values()]))}"
    table["universal_robots"] = {
        "urscript": f"set_target_payload({command})",
        "urscript_older": f"set_payload({older})",
    }
    return table


def franka_end_effector(payload: Payload, robot: Robot) -> dict[str, Any]:
    """``endeffector-config.json``: matrices column by column; the end effector is the flange."""
    table = maker_values(payload, robot)
    entry = table.get("inertia", dict.fromkeys(("ixx", "iyy", "izz", "ixy", "ixz", "iyz"), 0.0))
    columns = ("ixx", "ixy", "ixz", "ixy", "iyy", "iyz", "ixz", "iyz", "izz")
    return {
        "id": "bodysense-payload",
        "name": "identified payload",
        "color": "#009688",
        "mass": table["mass"],
        "centerOfMass": table["center_of_mass"],
        "transformation": np.eye(4).ravel().tolist(),
        "inertia": [entry[name] for name in columns],
    }


def write_maker_files(folder: str | PathLike[str], payload: Payload, robot: Robot) -> None:
    """Write ``payload.yaml`` and ``endeffector-config.json`` into an existing folder."""
    table = maker_values(payload, robot)
    text = yaml.safe_dump(table, sort_keys=False, allow_unicode=True, width=1000)
    write_atomically(Path(folder) / "payload.yaml", _HEAD.format(frame=table["frame"]) + text)
    content = json.dumps(franka_end_effector(payload, robot), indent=2)
    write_atomically(Path(folder) / "endeffector-config.json", content + "\n")


def _rounded(value: float) -> float:
    return float(f"{value:.9g}")


def _urscript(values: Array) -> str:
    return f"[{', '.join(f'{x:.7f}' for x in values)}]"
