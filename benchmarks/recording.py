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


def folder() -> Path:
    """Where the recording is: beside the project, or in $BODYSENSE_DATA.

    Raises:
        NotMeasuredError: it is not there.
    """
    data = Path(os.environ.get("BODYSENSE_DATA", ROOT.parent / "shared" / "data"))
    found = data / "tx40"
    if not (found / "motor_position.csv").exists():
        raise NotMeasuredError(
            f"no recording of the TX40 in {found}: set BODYSENSE_DATA to the folder that has it"
        )
    return found


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
