"""Units of a robot file: masses in g, lengths in mm, inertias in g·mm²."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from bodysense.errors import listing
from bodysense.robot.checks.file_bodies import FileBody, by_message, copied_bodies, file_bodies
from bodysense.robot.io.urdf_elements import UrdfDescription
from bodysense.robot.model import one_axis_joints
from bodysense.robot.robot import Robot
from bodysense.spatial.pseudo_inertia import physical_consistency
from bodysense.status import Finding

# Bounds, and how far beyond them a file may round.
DENSEST = 22_590.0  # kg/m³, osmium
LIGHTEST = 10.0  # kg/m³ of a whole body, hollow ones included; polystyrene foam has 10 to 30
MOST_MASS = 1e5  # kg; a large crane altogether has some 10⁶
_OTHER_UNIT = 1e3  # times beyond a bound of density: half the bodies so far off are another unit
_MOST_ANGLE = 2.0 * math.pi + 0.01  # rad of an origin; a file in degrees is far beyond
_LONGEST = 20.0  # m between two joints; booms of large cranes have sections of 15 m
# Mass by the cube of the robot's size. Of 70 public robots none has more than 45 kg/m³ out to the
# ends of its bodies, and none less than 2 up to its last joint.
_HEAVIEST, _SPARSEST = 2000.0, 0.05  # kg/m³; the first is that of concrete
_APART = 0.4  # of a robot's size that is between joints; 0.5 to 0.9 of arms


def unit_findings(robot: Robot) -> tuple[Finding, ...]:
    """Errors where masses, inertias or lengths are in another unit.

    Masses are judged by the robot's size, so that wrong inertias are not taken for wrong masses;
    and inertias without those that are placeholders or copies, which are in no unit.
    """
    bodies = file_bodies(robot)
    lengths = [*_lengths(robot), *_angles(robot), *_far(bodies)]
    sound = [body for body in bodies if physical_consistency(body.pi).feasible]
    light = [body for body in sound if body.pi[0] <= MOST_MASS]
    own = [body for body in light if not body.is_placeholder]
    copies = {body.moments for chain in copied_bodies(robot, own) for body in chain}
    measured = [body for body in own if body.moments not in copies]
    masses = [] if lengths else _masses(robot, light, measured)
    return (*lengths, *_heavy(sound), *masses, *([] if masses else _inertias(measured)))


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


def _masses(
    robot: Robot, bodies: Sequence[FileBody], measured: Sequence[FileBody]
) -> list[Finding]:
    """Masses too large or too small for the robot's size, whatever the inertias are.

    Only bodies with inertias that somebody measured have a size, and only they are too heavy; and
    only where joints are apart, because a compact machine may be solid.
    """
    heavy, size = sum(body.pi[0] for body in measured), _size(robot, measured)
    light, reach = sum(body.pi[0] for body in bodies), max(_ways(robot).values())
    if len(measured) > 1 and reach > _APART * size and heavy > _HEAVIEST * size**3:
        text = (
            f"{heavy:.4g} kg on links that reach {size:.3g} m, as a block of concrete of that size"
        )
        action = "give masses in kg and inertias in kg·m², not in grams and g·m²"
    elif len(bodies) > 1 and light < _SPARSEST * reach**3:
        text = f"{light:.4g} kg in all, on joints up to {reach:.3g} m away"
        action = "give masses in kg, not in tonnes"
    else:
        return []
    return [Finding("unit-of-mass", "error", "all links", text, action)]


def _ways(robot: Robot, *, extended: bool = False) -> dict[int, float]:
    """From the base (-1) along joints to each of them [m]; with slides where they end, or not."""
    ways, (lower, upper) = {-1: 0.0}, robot.position_limits
    for joint, k in enumerate(one_axis_joints(robot.model)):
        step = float(np.linalg.norm(robot.model.jointPlacements[k].translation))
        if extended and robot.tree.prismatic[joint]:
            step += float(max(-lower[joint], upper[joint]))
        ways[joint] = ways[int(robot.tree.parent[joint])] + step
    return ways


def _size(robot: Robot, bodies: Sequence[FileBody]) -> float:
    """The longest way along extended joints to a centre of mass, and on to the body's end [m]."""
    ways = _ways(robot, extended=True)
    ends = [np.linalg.norm(b.com) + b.semi_axes[-1] + ways[b.joint] for b in bodies]
    return float(np.max(ends, initial=0.0))


def _inertias(bodies: Sequence[FileBody]) -> list[Finding]:
    """One finding where most bodies are as light or as dense as in another unit."""
    density = [body.density for body in bodies if math.isfinite(body.density)]
    if len(density) < 2:
        return []
    action = "give inertias in kg·m², not in g·mm² or kg·mm²"
    middle = float(np.median(density))
    if min(density) > DENSEST:
        text = f"all {len(density)} bodies are denser than osmium, {min(density):.3g} kg/m³ or more"
    elif not LIGHTEST / _OTHER_UNIT < middle < DENSEST * _OTHER_UNIT:
        text = f"half of the {len(density)} bodies have {middle:.3g} kg/m³ or "
        text += "less" if middle < LIGHTEST else "more"
    else:
        return []
    return [Finding("unit-of-inertia", "error", "all links", text, action)]
