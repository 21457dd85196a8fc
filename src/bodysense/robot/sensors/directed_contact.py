"""`DirectedContact`: the external wrench of a link is a force of known line and unknown size.

A force s along the unit vector n at the point p, the mount's origin, has no other component there:

    0 = t1 · f,   0 = t2 · f,   0 = m - p × f      (and, if its size is measured,  s = n · f)

(t1, t2, n) is a right-handed triad and (f, m) the external wrench, all in the mount's frame: five
readings that are zero, in N and N·m, which leave exactly s open. Their variances say how far the
contact may be from this line: sliding friction, an extended patch, a point known roughly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from bodysense.errors import ShapeError
from bodysense.robot.sensors.link_sensor import LinkSensor
from bodysense.robot.sensors.measurement import Measurement
from bodysense.spatial.arrays import Array, as_array, read_only

if TYPE_CHECKING:
    from bodysense.robot.robot import Robot


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class DirectedContact(LinkSensor):
    """A contact at the mount's origin that pushes along one direction.

    Without channels it has five readings, all constant zero; with one channel, that of the
    force's size, six.

    Attributes:
        direction: (3,) of the force on the link, in the mount's frame; of any length but zero.
    """

    kind: ClassVar[str] = "directed_contact"
    components: ClassVar[tuple[str, ...]] = ("t1", "t2", "mx", "my", "mz", "n")
    units: ClassVar[tuple[str, ...]] = ("N", "N", "N·m", "N·m", "N·m", "N")

    direction: Array

    def __post_init__(self) -> None:
        direction = as_array(self.direction, (3,), f"direction of {self.who}")
        length = float(np.linalg.norm(direction))
        if length < 1e-9:
            raise ShapeError(
                f"the direction of {self.who} has no length: give that of the force on the link, "
                "e.g. [0, 0, 1]."
            )
        object.__setattr__(self, "direction", read_only(direction / length))
        if self.constant is None:
            zero = np.zeros(len(self.labels))
            zero[5:] = np.nan
            object.__setattr__(self, "constant", zero)
        super().__post_init__()

    @property
    def labels(self) -> tuple[str, ...]:
        """What its values are called."""
        return self.components[: self.size]

    @classmethod
    def readings(cls, n_channels: int) -> int:
        """Five that are zero, and the size of the force if there is a channel for it."""
        return 6 if n_channels else 5

    def measurement(self, robot: Robot) -> Measurement:
        """Coefficients of the readings."""
        place = self.mounted(robot)
        t1, t2 = _tangents(self.direction)
        rows = np.zeros((6, 6))
        rows[0, :3], rows[1, :3], rows[5, :3] = t1, t2, self.direction
        rows[2:5, 3:] = np.eye(3)
        return Measurement(self.size, link=place.link, external=rows[: self.size] @ place.force)


def _tangents(n: Array) -> tuple[Array, Array]:
    """Two unit vectors that make a right-handed triad with n."""
    t1 = np.cross(np.eye(3)[int(np.argmin(np.abs(n)))], n)
    t1 /= np.linalg.norm(t1)
    return t1, np.cross(n, t1)
