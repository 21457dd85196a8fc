"""Where a robot came from."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bodysense.robot.robot import Robot


@dataclass(frozen=True)
class Source:
    """The file that a robot was read from, kept so that it can be written back.

    Attributes:
        format: ``urdf``, ``mjcf`` or ``dh``.
        path: where it was found, for messages.
        data: its bytes.
    """

    format: str
    path: str
    data: bytes = field(repr=False)


def robot_origin(robot: Robot) -> dict[str, Any]:
    """Name, file and digest of a robot."""
    origin: dict[str, Any] = {"name": robot.name}
    if robot.source is not None:
        origin["file"] = str(robot.source.path)
        origin["sha256"] = hashlib.sha256(robot.source.data).hexdigest()
    return origin
