"""`check_robot`: is a robot description fit to be used? No recording is needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from os import PathLike, fspath

from bodysense.errors import BodysenseError, UnknownNameError, count, require_type
from bodysense.robot.checks.bodies import body_findings
from bodysense.robot.checks.joints import joint_findings
from bodysense.robot.checks.parameters import parameter_findings
from bodysense.robot.checks.units import unit_findings
from bodysense.robot.io.load import load_robot
from bodysense.robot.robot import Robot
from bodysense.status import SEVERITIES, Finding, Severity


@dataclass(frozen=True)
class RobotCheck:
    """What is wrong with a robot description.

    Attributes:
        robot: its name or file, as it was given.
        findings: errors first, then warnings and notes.
    """

    robot: str
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether there are no errors."""
        return not self.of("error")

    def of(self, severity: Severity) -> tuple[Finding, ...]:
        """The findings of one severity."""
        return tuple(finding for finding in self.findings if finding.severity == severity)

    def verdict(self) -> str:
        """The result in a line."""
        counts = [count(len(self.of(s)), s) for s in SEVERITIES if self.of(s)]
        return f"{self.robot}: {', '.join(counts) or 'nothing found'}"

    def summary(self) -> str:
        """The result in words, one line per finding."""
        return "\n".join([self.verdict(), *(f"  {finding}" for finding in self.findings)])

    def to_dict(self) -> dict[str, object]:
        """The result for JSON."""
        return {
            "robot": self.robot,
            "ok": self.ok,
            "findings": [asdict(finding) for finding in self.findings],
        }


def check_robot(
    robot: Robot | str | PathLike[str],
    *,
    floating_base: bool | None = None,
    package_dirs: Sequence[str | PathLike[str]] = (),
) -> RobotCheck:
    """Look for what no robot can have, and for what somebody made up.

    Inertias that no body has, that belong to another unit or to no body of this shape, or that are
    placeholders; centres of mass outside their links; masses, lengths and limits in other units;
    joints that cannot move or lack limits; negative and made-up friction; meshes that are missing.

    Args:
        robot: a robot, or what `load_robot` takes. A file that cannot be loaded is one error.
        floating_base: as for `load_robot`.
        package_dirs: folders in which the packages of meshes (``package://…``) lie.
    """
    require_type(robot, (Robot, str, PathLike), "a Robot, a name or a path", "give one of these")
    if not isinstance(robot, Robot):
        source = fspath(robot)
        try:
            robot = load_robot(source, floating_base=floating_base)
        except UnknownNameError as error:
            action = "give a file, or one of the names that exist"
            return RobotCheck(source, (Finding("unknown", "error", source, str(error), action),))
        except BodysenseError as error:
            action = "correct the file; other findings are shown once it loads"
            text = " ".join(str(error).split())
            return RobotCheck(source, (Finding("unreadable", "error", source, text, action),))
    else:
        source = robot.source.path if robot.source is not None else robot.name
    found = [
        *parameter_findings(robot),
        *unit_findings(robot),
        *body_findings(robot, package_dirs),
        *joint_findings(robot),
    ]
    return RobotCheck(source, tuple(sorted(found, key=lambda f: SEVERITIES.index(f.severity))))
