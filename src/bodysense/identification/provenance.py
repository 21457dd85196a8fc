"""Where a result comes from: versions, and digests of what went in."""

from __future__ import annotations

import hashlib
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from bodysense.robot.robot import Robot

_PACKAGES = ("bodysense", "numpy", "scipy", "numba", "pin", "clarabel")


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that decide the numbers."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def robot_origin(robot: Robot) -> dict[str, Any]:
    """Name, file and digest of a robot."""
    origin: dict[str, Any] = {"name": robot.name}
    if robot.source is not None:
        origin["file"] = str(robot.source.path)
        origin["sha256"] = hashlib.sha256(robot.source.data).hexdigest()
    return origin
