"""Points of mass inside the links, thesis eqs (68)-(69) and figure 9."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from bodysense.identification.prior import Prior
from bodysense.robot.hull import Hull, box_corners
from bodysense.robot.robot import Robot
from bodysense.robot.shapes import link_hulls
from bodysense.spatial.arrays import Array
from bodysense.spatial.pseudo_inertia import pi_from_pseudo_inertia, pseudo_inertia_from_pi

_FLATTEST = 0.2  # of a link's radius of gyration, where its file knows a plate, a rod or a point


def link_shapes(
    robot: Robot, prior: Prior, known: Mapping[str, Hull], margin: float
) -> tuple[Hull, ...]:
    """The hull that each link's mass lies in, in its frame.

    In this order: what is known; the shapes of the robot's file; the box of uniform density that
    has the inertia of the prior, `margin` times as long on each side.
    """
    shapes = dict(known)
    if robot.source is not None and not known.keys() >= set(prior.link_names):
        read = link_hulls(robot)
        of_file = {body.joint for body in read.bodies if body.shape != "boxes"}
        for k, name in enumerate(prior.link_names):
            if k in of_file:
                shapes.setdefault(name, read[name])
    for name, link, length in zip(prior.link_names, prior.links, prior.link_length, strict=True):
        if name not in shapes:
            shapes[name] = _inertia_box(prior.theta[link], float(length), margin)
    return tuple(shapes[name] for name in prior.link_names)


def _inertia_box(pi: Array, length: float, margin: float) -> Hull:
    P = pseudo_inertia_from_pi(pi)
    mass = P[3, 3]
    com = P[:3, 3] / mass if mass > 0.0 else np.zeros(3)
    second = P[:3, :3] / mass - np.outer(com, com) if mass > 0.0 else np.zeros((3, 3))
    squares, axes = np.linalg.eigh(second)
    spread = np.maximum(np.sqrt(np.maximum(squares, 0.0)), _FLATTEST * length)
    # Uniform density between ±h has the variance h² / 3.
    return Hull.of_points(box_corners(com, margin * np.sqrt(3.0) * spread, axes))


def grid_points(hull: Hull, most: int) -> Array:
    """(n, 3) corners of a hull and as fine a grid inside as `most` points allow, n <= most."""
    corners = hull.vertices
    if corners.shape[0] > most // 2:
        corners = corners[np.linspace(0, corners.shape[0] - 1, most // 2).astype(int)]
    low, high = corners.min(axis=0), corners.max(axis=0)
    points = corners
    for fineness in range(2, most):
        step = (high - low).max() / fineness
        counts = np.maximum(np.round((high - low) / step).astype(int), 2)
        share = (np.indices(counts).reshape(3, -1).T + 0.5) / counts
        grid = low + (high - low) * share
        within = grid[hull.contains(grid)]
        if within.shape[0] + corners.shape[0] > most:
            break
        points = np.vstack([corners, within])
    return points


def parameters_of_points(points: Array) -> Array:
    """(10, n) Q_j of eq (68): the parameters of one kilogram at each of the points (n, 3)."""
    x = np.column_stack([points, np.ones(points.shape[0])])
    return np.ascontiguousarray(pi_from_pseudo_inertia(x[:, :, None] * x[:, None, :]).T)
