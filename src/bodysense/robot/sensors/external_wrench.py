"""`ExternalWrench`: reads the net wrench of the environment on a link, in a frame of the link.

    y = X* fx

Measured, for instance by a force plate under the foot, or known: no contact is the constant zero,
with a variance if that is a belief rather than a fact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from bodysense.robot.sensors.link_sensor import LinkSensor
from bodysense.robot.sensors.measurement import Measurement

if TYPE_CHECKING:
    from bodysense.robot.robot import Robot


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ExternalWrench(LinkSensor):
    """Force [N] and moment [N·m] about the origin of the mount, in its axes."""

    kind: ClassVar[str] = "external_wrench"
    components: ClassVar[tuple[str, ...]] = ("fx", "fy", "fz", "mx", "my", "mz")
    units: ClassVar[tuple[str, ...]] = ("N",) * 3 + ("N·m",) * 3

    def measurement(self, robot: Robot) -> Measurement:
        """Coefficients of the readings."""
        place = self.mounted(robot)
        return Measurement(6, link=place.link, external=place.force)
