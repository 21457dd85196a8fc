"""Bodies of a robot file: their inertias against their shapes and against matter.

Three bounds hold for every body, whatever is inside it:

    its centre of mass lies in the convex hull of its shape
    I_max <= m R²                  R: from the centre of mass to the farthest point of the shape
    m <= rho_max V_ellipsoid       V of the uniform ellipsoid with the same mass and inertia: for a
                                   given volume no body has smaller second moments

A link's shape is that of all bodies on fixed joints with it: files often keep shapes apart from
masses.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Collection, Iterable, Sequence
from os import PathLike, fspath

import numpy as np
import pinocchio as pin
from scipy.spatial import ConvexHull, QhullError

from bodysense.errors import listing
from bodysense.robot.checks.file_bodies import FileBody, by_message, copied_bodies, file_bodies
from bodysense.robot.checks.parameters import infeasible_links
from bodysense.robot.checks.units import DENSEST, LIGHTEST, MOST_MASS, unit_findings
from bodysense.robot.io.urdf_elements import UrdfDescription
from bodysense.robot.io.urdf_xml import Element
from bodysense.robot.robot import Robot
from bodysense.robot.shapes.file_shapes import file_shapes, mesh_file, package_found
from bodysense.robot.shapes.link_shapes import body_places
from bodysense.robot.source import Source
from bodysense.spatial.arrays import Array
from bodysense.spatial.pseudo_inertia import (
    inertia_at_com,
    physical_consistency,
)
from bodysense.status import Finding

# Bounds, and how far beyond them a file may round.
_OUTSIDE = 0.005  # m that a centre of mass may lie outside its shape, and
_OUTSIDE_SHARE = 0.05  # of the shape's size: shapes are simplified
_GYRATION = 1.1  # radius of gyration over R, which is at most 1
_LONGEST_SHAPE = 300.0  # radii of gyration; a mesh in mm that is read in m has 2000 and more
_SMALLEST_IN_MM = 5.0  # size of a shape in m, from which it may be one of 5 mm
_ROUNDED = 1e-3  # margin of consistency that digits of a file may take off a plate or a rod


def body_findings(
    robot: Robot, package_dirs: Sequence[str | PathLike[str]] = ()
) -> tuple[Finding, ...]:
    """What no body can have, and what hardly any has, of the bodies and meshes of a file."""
    bodies, folders = file_bodies(robot), [fspath(folder) for folder in package_dirs]
    infeasible = infeasible_links(robot)  # which are findings of the parameters
    findings, shapes, shaped = _shapes(robot, folders)
    sound = [body for body in bodies if physical_consistency(body.pi).feasible]
    units = unit_findings(robot)
    light = [body for body in sound if body.pi[0] <= MOST_MASS]
    plain = [body for body in light if not body.is_placeholder]
    return (
        *_infeasible(body for body in bodies if body.name not in infeasible),
        *findings,
        *_placeholders(sound),
        *_copies(robot, plain),
        *([] if any(f.where == "all links" for f in units) else _densities(plain)),
        *_outside(plain, shapes, shaped),
        *_too_large(plain, shapes),
        *_other_scale(plain, shapes),
    )


def _infeasible(bodies: Iterable[FileBody]) -> list[Finding]:
    """Bodies that no link of the robot stands for: on the base, or summed up with others."""
    checks = [(body, physical_consistency(body.pi)) for body in bodies]
    return by_message(
        "infeasible-inertia",
        lambda body: "warning" if physical_consistency(body.pi).margin > -_ROUNDED else "error",
        [(body, check.reason) for body, check in checks if not check.feasible],
        "correct mass, centre of mass and inertia together; identification estimates them anew",
    )


def _placeholders(bodies: Iterable[FileBody]) -> list[Finding]:
    alike = [(body, f"{inertia_at_com(body.pi)[0, 0]:.3g}") for body in bodies]
    return by_message(
        "placeholder-inertia",
        lambda body: "warning",
        [
            (body, f"the inertia is {value} kg·m² about every axis, for {body.pi[0]:g} kg")
            for body, value in alike
            if body.is_placeholder
        ],
        "compute it from shape and mass, or leave <inertial> out of a frame without a body",
    )


def _copies(robot: Robot, bodies: Iterable[FileBody]) -> list[Finding]:
    found = [
        (body, f"{len(chain)} links of one chain have the same mass and inertia")
        for chain in copied_bodies(robot, bodies)
        for body in chain
    ]
    action = "give each link its own; copied values are right for equal modules alone"
    return by_message("copied-inertia", lambda body: "warning", found, action)


def _densities(bodies: Iterable[FileBody]) -> list[Finding]:
    found = []
    for body in bodies:
        text = f"a uniform body of {body.pi[0]:.4g} kg with this inertia has "
        if body.density == math.inf:
            found.append((body, text + "no volume"))
        elif body.density > DENSEST:
            found.append((body, text + f"{body.density:.3g} kg/m³, beyond osmium's 22 590"))
        elif body.density < LIGHTEST:
            found.append((body, text + f"{body.density:.3g} kg/m³, lighter than foam"))
    return by_message(
        "implausible-inertia",
        lambda body: "warning",
        found,
        "compare with the drawing (the inertia of a rotor is armature), or identify them",
    )


def _outside(
    bodies: Iterable[FileBody], shapes: dict[int, ConvexHull], shaped: Collection[str]
) -> list[Finding]:
    """Centres of mass outside the link's shape; no error where the body itself has no shape."""
    found = []
    for body in bodies:
        if body.joint in shapes:
            hull = shapes[body.joint]
            sides, size = hull.equations, float(np.linalg.norm(np.ptp(hull.points, axis=0)))
            excess = float((sides[:, :3] @ body.com + sides[:, 3]).max())
            if excess > _OUTSIDE + _OUTSIDE_SHARE * size:
                text = f"the centre of mass is {excess:.3g} m outside its shape of {size:.3g} m"
                found.append((body, text, excess > size and body.name in shaped))
    far = {body.name for body, _, beyond in found if beyond}
    return by_message(
        "com-outside",
        lambda body: "error" if body.name in far else "warning",
        [(body, text) for body, text, _ in found],
        "check the unit (m) and the frame of <origin>, and the shape",
    )


def _too_large(bodies: Iterable[FileBody], shapes: dict[int, ConvexHull]) -> list[Finding]:
    found = []
    for body in bodies:
        if body.joint in shapes:
            reach = np.linalg.norm(shapes[body.joint].points - body.com, axis=1).max()
            largest = max(float(np.linalg.eigvalsh(inertia_at_com(body.pi))[-1]), 0.0)
            gyration = math.sqrt(largest / body.pi[0])
            if gyration > _GYRATION * reach:
                text = f"the radius of gyration is {gyration:.3g} m, and no point of the shape is "
                found.append((body, f"{text}farther than {reach:.3g} m from the centre of mass"))
    return by_message(
        "inertia-beyond-shape",
        lambda body: "warning",
        found,
        "check the unit (kg·m²), and that it is about the centre of mass and counts no rotor",
    )


def _other_scale(bodies: Iterable[FileBody], shapes: dict[int, ConvexHull]) -> list[Finding]:
    """Shapes that are far larger than what their inertia says."""
    found = []
    for body in bodies:
        if body.joint in shapes:
            size = float(np.linalg.norm(np.ptp(shapes[body.joint].points, axis=0)))
            largest = max(float(np.linalg.eigvalsh(inertia_at_com(body.pi))[-1]), 0.0)
            gyration = math.sqrt(largest / body.pi[0])
            if size > max(_LONGEST_SHAPE * gyration, _SMALLEST_IN_MM) and gyration > 0.0:
                text = f"the shape is {size:.3g} m large, the radius of gyration {gyration:.3g} m"
                found.append((body, text))
    return by_message(
        "unit-of-shape",
        lambda body: "warning",
        found,
        "give a mesh in mm the scale 0.001, or correct the inertia (kg·m²)",
    )


def _shapes(
    robot: Robot, folders: Sequence[str]
) -> tuple[list[Finding], dict[int, ConvexHull], set[str]]:
    """What is wrong with meshes, the hull of each link whose shapes are known, bodies with any."""
    if robot.source is None or robot.source.format not in ("urdf", "mjcf"):
        return [], {}, set()
    shaped = set[str]()
    places = body_places(robot)
    clouds: dict[int, list[Array]] = {}
    unread: dict[str, str] = {}
    for kind in ("collision", "visual"):
        points, problems = file_shapes(robot.source, kind, folders, sliced=False)
        unread |= problems
        shaped |= points.keys()
        for name in (name for name in points if name in places):
            joint, T_link_body = places[name]
            clouds.setdefault(joint, []).extend(_moved(c, T_link_body) for c in points[name])
    for joint in {places[name][0] for name in unread if name in places}:
        clouds.pop(joint, None)
    hulls = {}
    for joint, points_of_link in clouds.items():
        # Flat, a point, or not of finite size: it bounds nothing.
        with contextlib.suppress(QhullError, ValueError):
            hulls[joint] = ConvexHull(np.vstack(points_of_link))
    return _broken_meshes(robot.source, folders, unread), hulls, shaped


def _broken_meshes(source: Source, folders: Sequence[str], unread: dict[str, str]) -> list[Finding]:
    """Meshes that are not there, and shapes that cannot be read."""
    if source.format != "urdf":
        return []  # MuJoCo refuses the file
    links = UrdfDescription.from_bytes(source.data, source.path).links
    missing: dict[bool, dict[str, None]] = {True: {}, False: {}}
    for element in (e for link in links.values() for e in _meshes(link.element)):
        if mesh_file(element, folders) is None:
            missing[package_found(element, folders)][element.text("filename")] = None
    found = []
    if missing[True]:
        text, action = "there is no such mesh", "correct the path, or add the file"
        where = listing(missing[True], 4)
        found.append(Finding("broken-mesh", "error", where, text, action))
    if missing[False]:
        text, action = "its package is not found", "name the folder that holds it: --package-dirs"
        where = listing(missing[False], 4)
        found.append(Finding("broken-mesh", "warning", where, text, action))
    # Of the others, what is unreadable; a link is left out for the first of its shapes alone.
    there = {
        name: [m for m in _meshes(link.element) if mesh_file(m, folders) is None]
        for name, link in links.items()
    }
    action = "repair the file or the shape"
    return found + [
        Finding("broken-mesh", "error", f"link {name!r}", text, action)
        for name, text in unread.items()
        if not there[name]
    ]


def _meshes(link: Element) -> list[Element]:
    shapes = [*link.all("collision"), *link.all("visual")]
    return [mesh for s in shapes for g in s.all("geometry") for mesh in g.all("mesh")]


def _moved(points: Array, T: pin.SE3) -> Array:
    moved: Array = points @ T.rotation.T + T.translation
    return moved
