"""The recording of a real TX40 that identification is measured on, and the robot behind it."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.result import NotMeasuredError
from bodysense import Robot, load_robot, read_log
from bodysense.logs.log import Log
from bodysense.robot import Actuators

ROOT = Path(__file__).parent.parent
LAYOUT = ROOT / "examples" / "layouts" / "tx40.yaml"
GEAR_RATIO = (32.0, 32.0, 45.0, -48.0, 45.0, 32.0)


def recorded_folder(robot: str, file: str) -> Path:
    """Where recordings of a robot are: beside the project, or in $BODYSENSE_DATA.

    Raises:
        NotMeasuredError: they are not there.
    """
    data = Path(os.environ.get("BODYSENSE_DATA", ROOT.parent / "shared" / "data"))
    found = data / robot
    if not (found / file).exists():
        raise NotMeasuredError(
            f"no recordings of the robot in {found}: set BODYSENSE_DATA to the folder that has them"
        )
    return found


def folder() -> Path:
    """Where the recording is."""
    return recorded_folder("tx40", "motor_position.csv")


def robot() -> Robot:
    """The arm with its gears and coupled wrist, whose friction is not known."""
    coupling = np.eye(6)
    coupling[5, 4] = 1.0
    actuators = Actuators.from_values(
        6, gear_ratio=GEAR_RATIO, coupling=coupling, coupled_terms=("Iam", "Fvm", "Fcm")
    )
    return load_robot(folder() / "tx40.urdf").with_actuators(actuators)


def read(rows: int | None = None) -> Log:
    """Read both tables, or their first rows only: joint positions and torques at 5 kHz."""
    raw = read_log(folder() / "motor_position.csv", LAYOUT)
    if rows is None:
        return raw
    channels = {name: values[:rows] for name, values in raw.channels.items()}
    return replace(raw, t=raw.t[:rows], channels=channels, rows=raw.rows[:rows])
