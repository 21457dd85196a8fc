"""`MotorSide`: from motors to joints, for logs that were recorded before the gears."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bodysense.errors import FileReadError, MismatchError, listing, unknown_name
from bodysense.schema import Schema
from bodysense.spatial.arrays import Array, read_only

SCHEMA = Schema(kind="a layout")  # of motors and of all else in it
_POSITIONS, _MOTIONS, _TORQUES = ("q", "q_des"), ("v", "v_des", "a", "a_des"), ("tau", "tau_des")


@dataclass(frozen=True, eq=False)
class MotorSide:
    """What lies between the motors, where the log was recorded, and the joints.

    With the gear ratios N and the coupling C of motors to joints (`bodysense.robot.Actuators`):

        R = diag(N) C,   q = q_zero + R⁻¹ q_motor,   v = R⁻¹ v_motor,   tau = Rᵀ tau_motor

    Attributes:
        ratio: (n, n) R above, motor turns per joint turn.
        zero: (n,) positions of the joints where all motors are at zero [rad, or m if they slide].
    """

    ratio: Array
    zero: Array

    def to_joints(self, quantity: str, values: Array) -> Array:
        """(n_t, n) values of joints from (n_t, n) values of motors."""
        if quantity in _POSITIONS:
            return np.asarray(np.linalg.solve(self.ratio, values.T).T + self.zero)
        if quantity in _MOTIONS:
            return np.asarray(np.linalg.solve(self.ratio, values.T).T)
        return np.asarray(values @ self.ratio) if quantity in _TORQUES else values

    def replace_channels(self, channels: dict[str, Array], joints: Sequence[str]) -> None:
        """Turn the quantities of motors into those of joints, in place."""
        for quantity in (*_POSITIONS, *_MOTIONS, *_TORQUES):
            names = [f"{quantity}.{joint}" for joint in joints]
            missing = [name for name in names if name not in channels]
            if len(missing) == len(names):
                continue
            if missing:
                raise MismatchError(
                    f"{listing(missing)} missing: joints follow from motors only if all are there."
                )
            of_motors = np.stack([channels[name] for name in names], axis=1)
            for name, column in zip(names, self.to_joints(quantity, of_motors).T, strict=True):
                channels[name] = np.ascontiguousarray(column)


def parse_motors(given: object, joints: tuple[str, ...], where: str) -> MotorSide:
    """Check `motors` of a layout file: gear ratios, coupling and zero positions of the joints."""
    table = SCHEMA.mapping(given, where, ("gear_ratio", "coupling", "zero"))
    if not joints:
        raise FileReadError(f"{where}: of which joints? List them: `joints: [name, …]`.")
    ratios = _number_per_joint(table.get("gear_ratio", 1.0), joints, f"{where}, gear_ratio")
    if not ratios.all():
        raise FileReadError(
            f"{where}, gear_ratio: zero for {joints[int(np.argmin(np.abs(ratios)))]!r}; give motor "
            "turns per joint turn."
        )
    coupling = np.eye(len(joints))
    entries = table.get("coupling", [])
    if not isinstance(entries, list):
        raise FileReadError(f"{where}, coupling: expected a list of {{motor, joint, ratio}}.")
    for k, given_entry in enumerate(entries):
        place = f"{where}, coupling, entry {k + 1}"
        entry = SCHEMA.mapping(given_entry, place, ("motor", "joint", "ratio"))
        missing = [key for key in ("motor", "joint", "ratio") if key not in entry]
        if missing:
            raise FileReadError(f"{place}: {', '.join(missing)} missing.")
        motor = _position(entry["motor"], joints, f"{place}, motor")
        joint = _position(entry["joint"], joints, f"{place}, joint")
        if coupling[motor, joint] != 0.0:
            raise FileReadError(
                f"{place}: motor {joints[motor]!r} moves {joints[joint]!r} already; list each pair "
                "once, and put the own ratio of a motor into gear_ratio."
            )
        coupling[motor, joint] = SCHEMA.number(entry["ratio"], f"{place}, ratio")
    if abs(np.linalg.det(coupling)) < 1e-9:
        raise FileReadError(
            f"{where}, coupling: singular; every joint needs a motor that moves it."
        )
    zero = _number_per_joint(table.get("zero", 0.0), joints, f"{where}, zero")
    return MotorSide(read_only(ratios[:, None] * coupling), read_only(zero))


def _number_per_joint(value: object, joints: tuple[str, ...], where: str) -> Array:
    for name in value if isinstance(value, dict) else ():
        if name not in joints:
            raise unknown_name("joint", str(name), joints, f"({where})")
    return SCHEMA.number_per_name(value, joints, where)


def _position(value: object, joints: tuple[str, ...], where: str) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= len(joints):
        return value - 1
    if not isinstance(value, str) or value not in joints:
        raise unknown_name("joint", str(value), joints, f"({where})")
    return joints.index(value)
