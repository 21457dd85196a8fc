"""Bodies of a robot file, and which of their inertias somebody made up."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from bodysense.errors import listing
from bodysense.robot.io.urdf_elements import UrdfDescription
from bodysense.robot.robot import Robot
from bodysense.robot.shapes.link_shapes import body_places
from bodysense.spatial.arrays import Array
from bodysense.spatial.pseudo_inertia import inertia_at_com, transform_pi
from bodysense.status import Finding

_DIGITS = 1e-9  # of sums of inertias, by which rounding may change them
_COPIES = 3  # links of one chain with the same inertia


@dataclass(frozen=True, eq=False)
class FileBody:
    """A body of a robot file with mass.

    Attributes:
        name: of the file's link.
        joint: position of the joint that moves it, -1 on the base.
        pi: (10,) in the frame of the robot's link that it belongs to.
    """

    name: str
    joint: int
    pi: Array

    @property
    def com(self) -> Array:
        """(3,) centre of mass [m]."""
        com: Array = self.pi[1:4] / self.pi[0]
        return com

    @property
    def semi_axes(self) -> Array:
        """(3,) of the uniform ellipsoid with this mass and inertia, the longest last [m]."""
        Sigma = 0.5 * np.trace(I := inertia_at_com(self.pi)) * np.eye(3) - I
        axes: Array = np.sqrt(5.0 * np.maximum(np.linalg.eigvalsh(Sigma) / self.pi[0], 0.0))
        return axes

    @property
    def density(self) -> float:
        """Of that ellipsoid [kg/m³]; infinite without volume."""
        volume = 4.0 / 3.0 * math.pi * float(np.prod(self.semi_axes))
        return float(self.pi[0]) / volume if volume > 0.0 else math.inf

    @property
    def moments(self) -> tuple[float, ...]:
        """Mass and principal moments of inertia, by which copies are told."""
        principal = np.linalg.eigvalsh(inertia_at_com(self.pi)).tolist()
        return tuple(float(f"{x:.9g}") for x in (self.pi[0], *principal))

    @property
    def is_placeholder(self) -> bool:
        """Whether the inertia is the same power of ten about every axis, as nobody measures."""
        I = inertia_at_com(self.pi)
        value = float(I[0, 0])
        power = 10.0 ** round(math.log10(value)) if value > 0.0 else 0.0
        return bool(np.abs(I - power * np.eye(3)).max() <= 1e-9 * max(power, abs(value)))


def file_bodies(robot: Robot) -> list[FileBody]:
    """Bodies with mass: of a URDF file those in it, else, or where they were changed, the links."""
    first = -int(robot.floating_base)
    own = [FileBody(n, k + first, robot.pi(k)) for k, n in enumerate(robot.link_names)]
    if robot.source is not None and robot.source.format == "urdf":
        links = UrdfDescription.from_bytes(robot.source.data, robot.source.path).links
        places = body_places(robot)
        read = [
            FileBody(name, places[name][0], transform_pi(inertial.pi, places[name][1].homogeneous))
            for name, link in links.items()
            if (inertial := link.inertial) is not None and name in places
        ]
        unchanged = {body.joint for body in own if _is_sum(body, read)}
        moving = {body.joint for body in own}
        own = [body for body in read if body.joint in unchanged or body.joint not in moving]
        own += [
            FileBody(n, k + first, robot.pi(k))
            for k, n in enumerate(robot.link_names)
            if k + first not in unchanged
        ]
    return [body for body in own if body.pi[0] > 0.0]


def _is_sum(link: FileBody, bodies: Iterable[FileBody]) -> bool:
    """Whether a link of the robot is still what the bodies of the file make it."""
    total = sum((body.pi for body in bodies if body.joint == link.joint), np.zeros(10))
    return bool(np.abs(total - link.pi).max() <= _DIGITS * max(np.abs(total).max(), 1.0))


def copied_bodies(robot: Robot, bodies: Iterable[FileBody]) -> list[list[FileBody]]:
    """The same mass and inertia several times along one chain; legs and arms may be alike."""
    alike: dict[tuple[float, ...], list[FileBody]] = {}
    for body in bodies:
        alike.setdefault(body.moments, []).append(body)
    found = []
    for copies in alike.values():
        by_joint = {body.joint: body for body in copies}  # one of each link, not its fixed parts
        chains = [_above(robot, joint) & set(by_joint) for joint in by_joint]
        longest: set[int] = max(chains, key=len)
        if len(longest) >= _COPIES:
            found.append([by_joint[joint] for joint in sorted(longest)])
    return found


def _above(robot: Robot, joint: int) -> set[int]:
    """A joint and those that carry it."""
    chain = set[int]()
    while joint >= 0:
        chain.add(joint)
        joint = int(robot.tree.parent[joint])
    return chain


def by_message(
    kind: str,
    severity: Callable[[FileBody], str],
    found: Sequence[tuple[FileBody, str]],
    action: str,
) -> list[Finding]:
    """One finding for all bodies of which the same is to be said."""
    groups: dict[tuple[str, str], list[str]] = {}
    for body, text in found:
        groups.setdefault((severity(body), text), []).append(repr(body.name))
    return [
        Finding(
            kind,
            "error" if level == "error" else "warning",
            f"{'link' if len(names) == 1 else 'links'} {listing(names, 4)}",
            text,
            action,
        )
        for (level, text), names in groups.items()
    ]
