"""`Mount`: where on a robot a sensor sits.

    v_sensor = X v_link,    X  = [Rᵀ  -Rᵀ S(p)]      f_sensor = X* f_link,   X* = [ Rᵀ       0 ]
                                 [0    Rᵀ     ],                                  [-Rᵀ S(p)  Rᵀ],

R = R_link_sensor, p = p_link_sensor the sensor's origin in the link's frame; vectors linear first.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pinocchio as pin
from numpy.typing import ArrayLike

from bodysense.spatial.arrays import Array, as_array, read_only
from bodysense.spatial.se3 import require_rotation, skew

if TYPE_CHECKING:
    from bodysense.robot.robot import Robot


class Mounted(NamedTuple):
    """A place on a link of one robot: its name, R_link_sensor (3, 3) and p_link_sensor (3,)."""

    link: str
    R: Array
    p: Array

    @property
    def motion(self) -> Array:
        """(6, 6) X, which maps twists and accelerations of the link to the sensor's frame."""
        X = np.zeros((6, 6))
        X[:3, :3] = X[3:, 3:] = self.R.T
        X[:3, 3:] = -self.R.T @ skew(self.p)
        return X

    @property
    def force(self) -> Array:
        """(6, 6) X*, which maps wrenches on the link to the sensor's frame."""
        X = np.zeros((6, 6))
        X[:3, :3] = X[3:, 3:] = self.R.T
        X[3:, :3] = -self.R.T @ skew(self.p)
        return X


@dataclass(frozen=True, eq=False)
class Mount:
    """A placement in a named frame: a link, or anything fixed to one, such as a tool flange.

    Attributes:
        frame: of the robot.
        R: (3, 3) R_frame_sensor.
        p: (3,) the sensor's origin in that frame [m].
    """

    frame: str
    R: Array = field(default_factory=lambda: np.eye(3))
    p: Array = field(default_factory=lambda: np.zeros(3))

    def __post_init__(self) -> None:
        R = require_rotation(as_array(self.R, (3, 3), "R"), f"R of the mount in {self.frame!r}")
        object.__setattr__(self, "R", read_only(R))
        p = as_array(self.p, (3,), f"p of the mount in {self.frame!r}")
        object.__setattr__(self, "p", read_only(p))

    @classmethod
    def of(cls, frame: str, xyz: ArrayLike = (0, 0, 0), rpy: ArrayLike = (0, 0, 0)) -> Mount:
        """Build it from a translation [m] and the roll, pitch and yaw of URDF files [rad]."""
        angles = as_array(rpy, (3,), "rpy")
        return cls(frame, pin.rpy.rpyToMatrix(*angles), as_array(xyz, (3,), "xyz"))

    def on(self, robot: Robot, who: str) -> Mounted:
        """Find the place on a robot; `who` names the sensor in messages.

        Raises:
            UnknownNameError: the robot has no such frame.
            MismatchError: the frame does not move.
        """
        from bodysense.robot.frames import moving_frame  # which needs the robot, as this does not

        frame = moving_frame(robot, self.frame, who)
        T_link_frame = frame.placement
        return Mounted(
            robot.link_names[frame.parentJoint - 1],
            T_link_frame.rotation @ self.R,
            T_link_frame.rotation @ self.p + T_link_frame.translation,
        )
