"""`Defect`: something wrong with a log, in words, with what to do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bodysense.doctor.samples import layout_edit
from bodysense.identification.defects.columns import Suspect, gravity_of
from bodysense.robot.robot import Robot
from bodysense.spatial.arrays import Array


@dataclass(frozen=True)
class Defect:
    """Something wrong with a log, or with the file that it is held against.

    Attributes:
        kind: ``zero``, ``delay``, ``time``, ``scale`` or ``gravity``.
        joint: name of the joint, empty where the defect is not one of a joint.
        estimate: its size, in `unit`.
        std: standard deviation of that.
        unit: of both, empty for ratios.
        gain: share of the squared error of unseen torques that it explains.
        message: what is wrong.
        remedy: what to do.
    """

    kind: str
    joint: str
    estimate: float
    std: float
    unit: str
    gain: float
    message: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.message}: {self.remedy}."


def defect_of(robot: Robot, suspect: Suspect, x: float, std: float, gain: float) -> Defect:
    """The defect that a suspect of a converged size x turned out to be."""
    unit = {"delay": "s", "zero": _position_unit(robot, suspect.at)}.get(suspect.kind, "")
    joint = robot.joint_names[suspect.at] if suspect.kind in ("zero", "scale") else ""
    size = x if unit else 1.0 + x
    message, remedy = _SENTENCES[suspect.kind](joint, unit, size, std)
    return Defect(suspect.kind, joint, size, std, unit, gain, message, remedy)


def gravity_defect(robot: Robot, gravity: Array, std: float, gain: float) -> Defect:
    """Gravity (3,) in the base's frame, known to a standard deviation [rad], or none."""
    if not gravity.any():
        return Defect("gravity", "", 0.0, 0.0, "rad", gain, *_NO_GRAVITY)
    before, size = gravity_of(robot), float(np.linalg.norm(gravity))
    angle = float(np.arctan2(np.linalg.norm(np.cross(before, gravity)), before @ gravity))
    digits = _digits(size * std)
    components = ", ".join(f"{np.round(x, digits) + 0.0:.{digits}f}" for x in gravity)
    message = (
        f"gravity points {_value(np.degrees(angle), np.degrees(std))}° away from where the robot's "
        f"file has it: along ({components}) m/s² in the base's frame"
    )
    remedy = "the base is mounted otherwise than in the file: turn it there"
    return Defect("gravity", "", angle, std, "rad", gain, message, remedy)


_NO_GRAVITY = (
    "the torques hold no gravity, as if what carries the robot's weight had been taken off them",
    "record them with gravity, or add what the controller compensates",
)


def _zero_sentences(joint: str, unit: str, x: float, std: float) -> tuple[str, str]:
    edit = layout_edit("offset", {f"q.{joint}": _rounded(-x, std)})
    return (
        f"{joint}'s zero is off by {_value(x, std)} {unit}",
        f"write {edit} (in {unit}, on top of its present offset), or correct the joint's origin in "
        "the robot's file",
    )


def _scale_sentences(joint: str, unit: str, size: float, std: float) -> tuple[str, str]:
    opposite = "have the opposite sign and " if size < 0.0 else ""
    edit = layout_edit("gain", {f"tau.{joint}": _rounded(1.0 / size, std / size**2)})
    return (
        f"torques of {joint} {opposite}are {_value(abs(size), std)} times as large as those of the "
        "other joints demand",
        f"check the drive gain and the gear of this joint, or write {edit} (times its present "
        "gain)",
    )


def _delay_sentences(joint: str, unit: str, x: float, std: float) -> tuple[str, str]:
    late, others = ("torques", "positions") if x > 0.0 else ("positions", "torques")
    return (
        f"{late} are {_value(1e3 * abs(x), 1e3 * std)} ms late against {others}",
        f"shift the time stamps of {late} by as much, or record both by one clock and without "
        "filters of their own",
    )


def _time_sentences(joint: str, unit: str, size: float, std: float) -> tuple[str, str]:
    slow = size > 1.0
    times = _value(size, std) if slow else _value(1.0 / size, std / size**2)
    return (
        "torques of inertia and of gravity do not belong together, as if time in the log ran "
        f"{times} times too {'slowly' if slow else 'fast'}, or the links were "
        f"{_value(size**2, 2.0 * size * std)} times as long as in the robot's file",
        "check the rate and the unit of time, and whether the file is that of this robot",
    )


_SENTENCES: dict[str, Callable[[str, str, float, float], tuple[str, str]]] = {
    "zero": _zero_sentences,
    "scale": _scale_sentences,
    "delay": _delay_sentences,
    "time": _time_sentences,
}


def _position_unit(robot: Robot, joint: int) -> str:
    return "m" if robot.joint_types[joint] == "prismatic" else "rad"


def _value(x: float, std: float) -> str:
    """``0.100 ± 0.004``, or ``0.100 ± 0.014``: so that rounding changes little."""
    digits = _digits(std)
    return f"{x:.{digits}f} ± {std:.{digits}f}"


def _rounded(x: float, std: float) -> float:
    return round(float(x), _digits(std) + 1)


def _digits(std: float) -> int:
    """Decimals that a standard deviation leaves: two of its digits up to 19, one from 2 on."""
    if not 0.0 < std < np.inf:
        return 3
    first = int(np.floor(np.log10(std)))
    return int(np.clip((std < 2.0 * 10.0**first) - first, 0, 6))
