"""Recordings of a real UR10e: excitations, and pairs with and without a load that was weighed."""

from __future__ import annotations

from pathlib import Path

from benchmarks.recording import ROOT, recorded_folder
from bodysense import Robot, load_robot, read_log
from bodysense.logs.log import Log

LAYOUT = ROOT / "examples" / "layouts" / "ur10e.yaml"
GAINS = (11.98, 11.976, 9.839, 10.763, 10.764, 10.76)
"""N·m/A, as the layout has them: those of the controller."""

LOAD = 2.805
"""kg, weighed."""

PAIRS = {
    "15harm": ("ur-20_02_19_15harm50sec.csv", "ur-20_02_19_15harm50secLoad.csv"),
    "01_31": ("ur-20_01_31-unload.csv", "ur-20_01_31-load.csv"),
}
"""Recordings without and with the load."""

TRAINING = "ur-20_02_12-50sec_12harm.csv"
VALIDATION = (
    "ur-20_02_12-40sec_12harm.csv",
    "ur-20_02_10-30sec_12harm.csv",
    "ur-20_02_05-20sec_8harm.csv",
)


def folder() -> Path:
    """Where the recordings are."""
    return recorded_folder("ur10e", TRAINING)


def robot() -> Robot:
    """The arm, whose friction is not known."""
    return load_robot(folder() / "ur10e.urdf")


def read(name: str) -> Log:
    """One recording."""
    return read_log(folder() / name, LAYOUT)
