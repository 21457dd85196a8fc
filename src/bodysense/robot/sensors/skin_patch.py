"""`SkinPatch`: reads the total normal force on cells of an artificial skin.

    y = n · f,   n = sum n_i / |sum n_i|

f is the force of the external wrench on the link, n_i the normal of cell i: the direction in which
the cell is pushed, into the link. The sum of the cells' readings is n · f exactly where all
normals are equal; split a curved patch into patches that are nearly flat.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from bodysense.errors import ShapeError
from bodysense.robot.sensors.link_sensor import LinkSensor
from bodysense.robot.sensors.measurement import Measurement
from bodysense.spatial.arrays import Array, as_array, read_only

if TYPE_CHECKING:
    from bodysense.robot.robot import Robot

_FLATTEST = 0.5  # cosine between a normal and their mean, below which one number says too little


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class SkinPatch(LinkSensor):
    """The normal force on a patch of skin [N], positive when pressed.

    Attributes:
        normals: (n_cells, 3) into the link, in the mount's frame; of any length but zero.
        points: (n_cells, 3) where the cells are, in the mount's frame [m]; by default its origin.
    """

    kind: ClassVar[str] = "skin_patch"
    components: ClassVar[tuple[str, ...]] = ("normal",)
    units: ClassVar[tuple[str, ...]] = ("N",)

    normals: Array
    points: Array = field(default_factory=lambda: np.zeros((0, 3)))

    def __post_init__(self) -> None:
        super().__post_init__()
        normals = as_array(self.normals, (None, 3), f"normals of {self.who}")
        points = as_array(self.points, (None, 3), f"points of {self.who}")
        points = points if points.size else np.zeros_like(normals)
        lengths = np.linalg.norm(normals, axis=1)
        if not normals.size or points.shape != normals.shape:
            raise ShapeError(
                f"{self.who} has {len(normals)} normals and {len(points)} points: give one of each "
                "a cell, and at least one cell."
            )
        if (lengths < 1e-9).any():
            raise ShapeError(
                f"normal {int(np.argmin(lengths)) + 1} of {self.who} has no length: give a "
                "direction into the link, e.g. [0, 0, -1]."
            )
        unit = normals / lengths[:, np.newaxis]
        mean = unit.mean(axis=0)
        if (unit @ mean < _FLATTEST * np.linalg.norm(mean)).any() or not mean.any():
            raise ShapeError(
                f"the cells of {self.who} face too many ways for one normal force (more than 60° "
                "from their mean): split it into flatter patches."
            )
        object.__setattr__(self, "normals", read_only(unit))
        object.__setattr__(self, "points", read_only(points))

    @property
    def normal(self) -> Array:
        """(3,) unit mean of the normals, in the mount's frame."""
        mean = self.normals.mean(axis=0)
        unit: Array = mean / np.linalg.norm(mean)
        return unit

    def measurement(self, robot: Robot) -> Measurement:
        """Coefficients of the reading."""
        place = self.mounted(robot)
        return Measurement(1, link=place.link, external=self.normal[np.newaxis] @ place.force[:3])
