"""`Defect`: something wrong with a log, in words, with what to do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from bodysense.doctor.samples import layout_edit
from bodysense.errors import listing
from bodysense.identification.defects.columns import (
    OF_JOINTS,
    DefectCandidate,
    gravity_of,
    robot_mass,
)
from bodysense.identification.regression import Regression
from bodysense.robot.layout import effort_unit, position_unit
from bodysense.robot.robot import Robot
from bodysense.spatial.arrays import Array

_LARGE_ZERO = 1.0  # rad or m from which an exchange of joints is likelier than a zero that is off


@dataclass(frozen=True)
class Defect:
    """Something wrong with a log, or with the file that it is held against.

    Attributes:
        kind: ``zero``, ``zero-drift``, ``position-scale``, ``torque-scale``, ``offset``, ``delay``,
            ``joint-delay``, ``time``, ``low-pass``, ``length``, ``gravity``, ``torque-drift``,
            ``scale-drift``, ``friction-drift`` or ``load-drift``.
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
        joint = self.joint and self.message.startswith(self.joint)  # whose name keeps its case
        message = self.message if joint else self.message[:1].upper() + self.message[1:]
        return f"{message}: {self.remedy}."


def defect_of(
    problem: Regression,
    candidate: DefectCandidate,
    x: float,
    std: float,
    gain: float,
    rivals: Sequence[str] = (),
) -> Defect:
    """The defect that a candidate of a converged size x turned out to be.

    Rivals are joints whose zero explains as much.
    """
    robot, kind = problem.robot, candidate.kind
    joint = robot.joint_names[candidate.at] if kind in OF_JOINTS else ""
    size, unit = x, ""
    if kind in ("torque-scale", "position-scale"):
        size = 1.0 + x
    elif kind == "torque-drift":
        size, std = (y * float(problem.torque_size[candidate.at]) for y in (x, std))
        unit = effort_unit(_type_of(robot, joint))
    elif kind == "load-drift":
        size, std, unit = x * robot_mass(robot), std * robot_mass(robot), "kg"
    elif kind in ("delay", "joint-delay"):
        unit = "s"
    elif kind in ("zero", "zero-drift"):
        unit = position_unit(_type_of(robot, joint))
    message, remedy = _SENTENCES[kind](joint, unit, size, std)
    if rivals:
        message += f", or that of {listing(rivals)}: torques do not tell them apart"
        remedy = (
            "compare the zeros of these joints with marks on the robot, and correct the one that "
            "is off in the layout file or in the robot's file"
        )
    return Defect(kind, joint, size, std, unit, gain, message, remedy)


def offset_defect(robot: Robot, joint: str, x: float, std: float) -> Defect:
    """A constant part of a joint's torque; it explains nothing that was not explained by it."""
    unit = effort_unit(_type_of(robot, joint))
    edit = layout_edit("offset", {f"tau.{joint}": _rounded(-x, std)})
    return Defect(
        "offset",
        joint,
        x,
        std,
        unit,
        0.0,
        f"the torque of {joint} has an offset of {_value(x, std)} {unit}",
        f"zero the sensor, or write {edit} (in {unit}, on top of its present offset)",
    )


def time_defect(x: float, std: float, gain: float, likely: str) -> Defect:
    """Durations that are 1 + x times too long, or longer links; likely ``time`` or ``links``."""
    size = 1.0 + x
    times = _value(size, std) if size > 1.0 else _value(1.0 / size, std / size**2)
    time = f"durations in the log are {times} times too {'long' if size > 1.0 else 'short'}"
    length = _value(size**2, 2.0 * abs(size) * std)
    links = f"the links are {length} times as long as in the robot's file"
    why = "torques of inertia and of gravity do not belong together"
    if likely == "time":
        remedy = "check the rate and the unit of time (links of another length would look alike)"
        return Defect("time", "", size, std, "", gain, f"{time}: {why} as it is", remedy)
    if likely == "links":
        remedy = (
            "give the file of the robot that was recorded; or check the rate and the unit of time, "
            f"for it looks alike if {time}"
        )
        message = f"this looks like another robot: {links}, or its geometry differs, as {why}"
        return Defect("length", "", size**2, 2.0 * abs(size) * std, "", gain, message, remedy)
    remedy = "check the rate and the unit of time, and whether the file is of another robot"
    return Defect("time", "", size, std, "", gain, f"{why}: either {time}, or {links}", remedy)


def gravity_defect(robot: Robot, gravity: Array, std: float, gain: float) -> Defect:
    """Gravity (3,) in the base's frame, known to a standard deviation [rad], or none."""
    if not gravity.any():
        return Defect("gravity", "", 0.0, 0.0, "rad", gain, *_NO_GRAVITY)
    before, size = gravity_of(robot), float(np.linalg.norm(gravity))
    if not before.any():
        given = ",".join(f"{np.round(x, 2) + 0.0:g}" for x in gravity)
        message = f"torques show gravity along ({given}) m/s², and the robot's file has none"
        return Defect("gravity", "", np.pi, std, "rad", gain, message, f"give --gravity={given}")
    angle = float(np.arctan2(np.linalg.norm(np.cross(before, gravity)), before @ gravity))
    digits = _digits(size * std)
    components = ", ".join(f"{np.round(x, digits) + 0.0:.{digits}f}" for x in gravity)
    message = (
        f"gravity points {_value(np.degrees(angle), np.degrees(std))}° away from where the robot's "
        f"file has it: along ({components}) m/s² in the base's frame"
    )
    given = ",".join(f"{np.round(x, digits) + 0.0:g}" for x in gravity)
    remedy = f"the base is mounted otherwise: give --gravity={given}, or --mount"
    return Defect("gravity", "", angle, std, "rad", gain, message, remedy)


_NO_GRAVITY = (
    "the torques contain no gravity, as if what carries the robot's weight had been taken off them",
    "record them with gravity, or add what the controller compensates",
)


def _zero_sentences(joint: str, unit: str, x: float, std: float) -> tuple[str, str]:
    edit = layout_edit("offset", {f"q.{joint}": _rounded(-x, std)})
    if abs(x) > _LARGE_ZERO:
        return (
            f"{joint}'s zero is off by {_value(x, std)} {unit}",
            "is it the channel of this joint, or were joints exchanged? If they are right, correct "
            "the zero in the layout file or the joint's origin in the robot's file",
        )
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
    of = f" of {joint}" if joint else ""
    return (
        f"{late}{of} are {_value(1e3 * abs(x), 1e3 * std)} ms late against {others}",
        f"shift the time stamps of {late}{of} by as much, or record both by one clock and without "
        "filters of their own",
    )


def _zero_drift_sentences(joint: str, unit: str, x: float, std: float) -> tuple[str, str]:
    return (
        f"{joint}'s zero moves by {_value(x, std)} {unit} from the beginning to the end",
        "does its belt, coupling or encoder slip? Repair it, and record again",
    )


def _low_pass_sentences(joint: str, unit: str, x: float, std: float) -> tuple[str, str]:
    return (
        "torques lack what the motion calls for at high frequencies, as after a low-pass filter, "
        "and positions do not",
        "record torques without filter, or pass positions through the same one",
    )


def _position_scale_sentences(joint: str, unit: str, size: float, std: float) -> tuple[str, str]:
    edit = layout_edit("gain", {f"q.{joint}": _rounded(1.0 / size, std / size**2)})
    return (
        f"positions of {joint} are {_value(size, std)} times as large as they should be",
        f"check the unit and the gear of this joint, or write {edit} (times its present gain)",
    )


def _torque_drift_sentences(joint: str, unit: str, x: float, std: float) -> tuple[str, str]:
    return (
        f"the torque of {joint} drifts by {_value(x, std)} {unit} from the beginning to the end",
        "zero its sensor again, or let it warm up before recording",
    )


def _scale_drift_sentences(joint: str, unit: str, x: float, std: float) -> tuple[str, str]:
    change = f"{'fall' if x < 0.0 else 'grow'} by {_value(100.0 * abs(x), 100.0 * std)} %"
    return (
        f"torques of {joint} {change} from the beginning to the end, as with a drive gain that "
        "changes",
        "let drive and sensor warm up before recording, or identify from a part of it",
    )


def _friction_drift_sentences(joint: str, unit: str, x: float, std: float) -> tuple[str, str]:
    change = f"{'falls' if x < 0.0 else 'rises'} by {_value(100.0 * abs(x), 100.0 * std)} %"
    return (
        f"friction {change} from the beginning to the end of the log, as drives do that warm up",
        "record a robot that is as warm as it will be in use",
    )


def _load_drift_sentences(joint: str, unit: str, x: float, std: float) -> tuple[str, str]:
    more = "more" if x > 0.0 else "less"
    return (
        "the load changes during the log: the last link carries some "
        f"{_value(abs(x), std)} kg {more} at the end than at the beginning",
        "record with one tool and one payload, or cut the log where they change",
    )


_SENTENCES: dict[str, Callable[[str, str, float, float], tuple[str, str]]] = {
    "zero": _zero_sentences,
    "zero-drift": _zero_drift_sentences,
    "position-scale": _position_scale_sentences,
    "torque-scale": _scale_sentences,
    "delay": _delay_sentences,
    "joint-delay": _delay_sentences,
    "low-pass": _low_pass_sentences,
    "torque-drift": _torque_drift_sentences,
    "scale-drift": _scale_drift_sentences,
    "friction-drift": _friction_drift_sentences,
    "load-drift": _load_drift_sentences,
}


def _type_of(robot: Robot, joint: str) -> str:
    return robot.joint_types[robot.joint_names.index(joint)]


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
