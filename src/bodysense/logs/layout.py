"""`LogLayout`: where the channels are in a file that does not name them, and in which units."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

import numpy as np

from bodysense.spatial.arrays import Array

# From motors to joints, for logs that were recorded before the gears.
#
# With the gear ratios N and the coupling C of motors to joints (`bodysense.robot.Actuators`):
#
#     R = diag(N) C,   q = q_zero + R⁻¹ q_motor,   v = R⁻¹ v_motor,   tau = Rᵀ tau_motor

_POSITIONS, _MOTIONS, _TORQUES = ("q", "q_des"), ("v", "v_des", "a", "a_des"), ("tau", "tau_des")
CONVERTED = (*_POSITIONS, *_MOTIONS, *_TORQUES)
"""Quantities that differ between motors and joints."""


@dataclass(frozen=True, eq=False)
class MotorSide:
    """What lies between the motors, where the log was recorded, and the joints.

    Attributes:
        ratio: (n, n) R above, motor turns a joint turn.
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
        if quantity in _TORQUES:
            return np.asarray(values @ self.ratio)
        return values


@dataclass(frozen=True)
class ChannelColumn:
    """Where one channel comes from: value = factor · (gain · cell + offset).

    Attributes:
        channel: its name, e.g. "q.elbow".
        column: name, or number counted from 1.
        unit: of the result: SI, or as stated for a channel that bodysense does not know.
        factor: from the stated unit to SI.
        gain: unit of the result a unit of the cell, e.g. N·m/A.
        offset: in the stated unit.
        file: a table beside the log that holds the column; "" for the log itself.
    """

    channel: str
    column: str | int
    unit: str
    factor: float = 1.0
    gain: float = 1.0
    offset: float = 0.0
    file: str = ""


@dataclass(frozen=True)
class RowRange:
    """Which rows of a file to take.

    Attributes:
        pattern: which files it is for, e.g. "run_*.csv".
        first: first row (line of a text file), counted from 1.
        last: last row, that too; `None` for all that follow.
    """

    pattern: str
    first: int
    last: int | None


@dataclass(frozen=True, eq=False, repr=False)
class LogLayout:
    """How to read logs of one kind. `read_layout` builds one from a file.

    Attributes:
        channels: where they are; if empty, the columns name them.
        joints: names of the joints, in the order of the lists of the layout.
        time: column of the time, its channel is "t".
        rate: rows per second, if there is no column of time [Hz].
        rows: which to take; the first pattern that fits counts, and all rows if none does.
        motors: what lies between motors and joints, if the log is of motors.
        separator: of a text table, see `SEPARATORS`; `None` finds it.
        decimal: sign of a text table, "." or ","; `None` finds it.
        header: whether a text table has one, or its line; `None` finds it.
        topic: of the joint states, in a recording of ROS.
        source: name of the file, for messages.
    """

    channels: tuple[ChannelColumn, ...] = ()
    joints: tuple[str, ...] = ()
    time: ChannelColumn | None = None
    rate: float | None = None
    rows: tuple[RowRange, ...] = ()
    motors: MotorSide | None = None
    separator: str | None = None
    decimal: str | None = None
    header: bool | int | None = None
    topic: str | None = None
    source: str = "layout"

    def __repr__(self) -> str:
        return f"<LogLayout {self.source}: {len(self.channels)} channels>"

    def rows_of(self, file_name: str) -> tuple[int, int | None]:
        """First and last row to take of a file; the last is `None` for all that follow."""
        for candidate in self.rows:
            if fnmatchcase(file_name, candidate.pattern):
                return candidate.first, candidate.last
        return 1, None
