"""Which links of a robot cannot be bodies, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bodysense.errors import InconsistentInertiaError

if TYPE_CHECKING:
    from bodysense.robot.robot import Robot


def require_possible_links(robot: Robot, where: str, remedy: str) -> None:
    """Raise `InconsistentInertiaError` that names the links which cannot be bodies.

    Links without volume pass, and massless ones that carry others (`Robot.structural`).
    """
    checks = zip(robot.link_names, robot.consistency(), robot.structural(), strict=True)
    bad = [
        f"link {name!r}: {check.reason}"
        for name, check, structural in checks
        if not (check.possible or structural)
    ]
    if bad:
        shown = "; ".join(bad[:5]) + (f"; and {len(bad) - 5} more" if len(bad) > 5 else "")
        raise InconsistentInertiaError(f"{where}: {shown}. {remedy}")
