"""Units of a robot file: masses in g, lengths in mm, inertias in g·mm²; and its bodies."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from bodysense.errors import listing
from bodysense.robot.io.urdf_elements import UrdfDescription
from bodysense.robot.model import one_axis_joints
from bodysense.robot.robot import Robot
from bodysense.robot.shapes.link_shapes import body_places
from bodysense.spatial.arrays import Array
from bodysense.spatial.pseudo_inertia import inertia_at_com, physical_consistency, transform_pi
from bodysense.status import Finding

# Bounds, and how far beyond them a file may round.
DENSEST = 22_590.0  # kg/m³, osmium
LIGHTEST = 10.0  # kg/m³ of a whole body, hollow ones included; polystyrene foam has 10 to 30
MOST_MASS = 1e5  # kg; a large crane altogether has some 10⁶
_OTHER_UNIT = 1e3  # times beyond a bound of density: half the bodies so far off are another unit
_MOST_ANGLE = 2.0 * math.pi + 0.01  # rad of an origin; a file in degrees is far beyond
_LONGEST = 20.0  # m between two joints; booms of large cranes have sections of 15 m
_DIGITS = 1e-9  # of sums of inertias, by which rounding may change them


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
    def density(self) -> float:
        """Of the uniform ellipsoid with this mass and inertia [kg/m³]; infinite without volume."""
        Sigma = 0.5 * np.trace(I := inertia_at_com(self.pi)) * np.eye(3) - I
        axes = np.sqrt(5.0 * np.maximum(np.linalg.eigvalsh(Sigma) / self.pi[0], 0.0))
        volume = 4.0 / 3.0 * math.pi * float(np.prod(axes))
        return float(self.pi[0]) / volume if volume > 0.0 else math.inf


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


def unit_findings(robot: Robot) -> tuple[Finding, ...]:
    """Errors where masses, inertias or lengths are in another unit."""
    sound = [b for b in file_bodies(robot) if physical_consistency(b.pi).feasible]
    return (
        *_lengths(robot),
        *_angles(robot),
        *_far(file_bodies(robot)),
        *_heavy(sound),
        *_densities(sound),
    )


def _lengths(robot: Robot) -> list[Finding]:
    """Distances between joints that no robot has."""
    model = robot.model
    length = {
        model.names[i]: float(np.linalg.norm(model.jointPlacements[i].translation))
        for i in one_axis_joints(model)
    }
    far = [repr(str(name)) for name, value in length.items() if value > _LONGEST]
    if not far:
        return []
    where = f"{'joint' if len(far) == 1 else 'joints'} {listing(far, 4)}"
    text = f"up to {max(length.values()):.4g} m from the joint before it"
    return [Finding("unit-of-length", "error", where, text, "give lengths in m, not in mm")]


def _angles(robot: Robot) -> list[Finding]:
    """Origins of joints in a URDF file that are turned by more than anybody writes in radians."""
    if robot.source is None or robot.source.format != "urdf":
        return []
    joints = UrdfDescription.from_bytes(robot.source.data, robot.source.path).joints
    turned = {name: float(np.abs(joint.rpy).max()) for name, joint in joints.items()}
    names = [repr(name) for name, angle in turned.items() if angle > _MOST_ANGLE]
    if not names:
        return []
    where = f"{'joint' if len(names) == 1 else 'joints'} {listing(names, 4)}"
    text = f"the origin is turned by up to {max(turned.values()):.4g} rad"
    return [Finding("unit-of-angle", "error", where, text, "give rpy in radians, not in degrees")]


def _far(bodies: Iterable[FileBody]) -> list[Finding]:
    """Centres of mass that are as far from their joint as in another unit."""
    far = {b.name: d for b in bodies if (d := float(np.linalg.norm(b.com))) > _LONGEST}
    if not far:
        return []
    where = f"{'link' if len(far) == 1 else 'links'} {listing(map(repr, far), 4)}"
    text = f"the centre of mass is up to {max(far.values()):.4g} m from the joint"
    return [Finding("unit-of-length", "error", where, text, "give lengths in m, not in mm")]


def _heavy(bodies: Iterable[FileBody]) -> list[Finding]:
    return by_message(
        "unit-of-mass",
        lambda body: "error",
        [(body, f"the mass is {body.pi[0]:.4g} kg") for body in bodies if body.pi[0] > MOST_MASS],
        "give masses in kg, not in g",
    )


def _densities(bodies: Sequence[FileBody]) -> list[Finding]:
    """One finding where most bodies are as light or as dense as in another unit."""
    density = [body.density for body in bodies if math.isfinite(body.density)]
    if len(density) < 2:
        return []
    if min(density) > DENSEST:
        text = f"all {len(density)} bodies are denser than osmium, {min(density):.3g} kg/m³ or more"
        action = "give masses in kg and inertias in kg·m², not in grams and g·m²"
        return [Finding("unit-of-inertia", "error", "all links", text, action)]
    middle = float(np.median(density))
    if LIGHTEST / _OTHER_UNIT < middle < DENSEST * _OTHER_UNIT:
        return []
    text = f"half of the {len(density)} bodies have {middle:.3g} kg/m³ or "
    text += "less" if middle < LIGHTEST else "more"
    action = "give masses in kg and inertias in kg·m², not g, g·mm² or kg·mm²"
    return [Finding("unit-of-inertia", "error", "all links", text, action)]


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
