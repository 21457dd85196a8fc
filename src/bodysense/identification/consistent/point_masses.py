"""Links as clouds of points with mass: consistent by a quadratic program, thesis eqs (68)-(71)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from bodysense.errors import ShapeError
from bodysense.identification.consistent.projection import checked, unconstrained, unsolved_message
from bodysense.identification.consistent.relaxation import LinkMatrices, Relaxation
from bodysense.identification.linear.least_squares import Solver
from bodysense.identification.prior import Prior
from bodysense.identification.reduced import Stack
from bodysense.identification.regression import Regression
from bodysense.identification.solution import PriorTerm, Solution
from bodysense.robot.robot import Robot
from bodysense.robot.shapes.hull import Hull, box_corners
from bodysense.robot.shapes.link_shapes import link_hulls
from bodysense.spatial.arrays import Array
from bodysense.spatial.pseudo_inertia import pi_from_pseudo_inertia, pseudo_inertia_from_pi

# Points of mass inside the links, thesis eqs (68)-(69) and figure 9.

_LEAST_WIDTH = 0.2  # half width of a box, in radii of gyration, for a plate, a rod or a point


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
    spread = np.maximum(np.sqrt(np.maximum(squares, 0.0)), _LEAST_WIDTH * length)
    # Uniform density between ±h has the variance h² / 3.
    return Hull.from_points(box_corners(com, margin * np.sqrt(3.0) * spread, axes))


def _grid_points(hull: Hull, most: int) -> Array:
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


def _parameters_of_points(points: Array) -> Array:
    """(10, n) Q_j of eq (68): the parameters of one kilogram at each of the points (n, 3)."""
    x = np.column_stack([points, np.ones(points.shape[0])])
    return np.ascontiguousarray(pi_from_pseudo_inertia(x[:, :, None] * x[:, None, :]).T)


_LEAST_MASS = 1e-6
"""Mass, in units of a link's plausible one, that lies evenly on all of its points: ρ > 0 of eq (70)
holds strictly, so that no link is a plate, a rod or a point."""

_LARGEST_PRECISION = 1e6  # information of the data that counts, in units of the prior's
_STIFFNESS = 1e5  # weight of equalities, in units of the data's
_MOST_UPDATES = 20  # updates of the multipliers of equalities
_EQUALITY_TOLERANCE = 1e-7  # error of equalities, in units of the data's


@dataclass(frozen=True)
class PointMasses(Solver):
    """Links are non-negative masses at points inside their shape, thesis eqs (68)-(71).

        minimise ‖A B (Q ρ, drives) - z‖² + Σ ((theta - theta_0) / size)²    over ρ ≥ 0, drives ≥ 0

    A semidefinite constraint makes links physically consistent; this one also keeps their mass
    inside their shape: it bounds the size of links, their centres of mass and their moments at
    once. It costs hundreds of unknowns per link, and links that the grid or the shape leaves no
    room for are excluded: where the shape is wrong, so is the result, even with perfect data.
    Without shapes in the robot's file, and none given as known, a link's shape is the box of
    uniform density with the prior's inertia, with `margin` times its sides.

    Attributes:
        points: point masses of each link, at most.
        margin: factor on the sides of the boxes that stand for links without a known shape.
    """

    points: int = 200
    margin: float = 2.0

    def __post_init__(self) -> None:
        if self.points < 20:
            raise ShapeError(f"{self.points} points per link are too few: give 20 or more.")
        if not (np.isfinite(self.margin) and self.margin > 0.0):
            raise ShapeError(f"the margin of boxes is {self.margin:g}: give a positive number.")

    @property
    def consistent(self) -> bool:
        return True

    def prior_term(self, prior: Prior) -> PriorTerm:
        return PriorTerm(1.0)

    def solve(self, problem: Regression, prior: Prior, stack: Stack) -> Solution:
        known = problem.knowledge.com_inside
        shapes = link_shapes(problem.robot, prior, known, self.margin)
        return _point_mass_least_squares(prior, stack, shapes, self.points)


def _point_mass_least_squares(
    prior: Prior, stack: Stack, shapes: Sequence[Hull], points: int
) -> Solution:
    """Solve the reduced problem over masses at points, by non-negative least squares.

    Equalities that are known for certain are stiff rows with multipliers (augmented Lagrangian).
    Centres of mass are inside the hull of their points whatever the masses.
    """
    factor = Relaxation().factor(prior)
    theta_free, L = unconstrained(prior, stack, prior.theta, factor, most=_LARGEST_PRECISION)
    clouds = [_grid_points(hull, points) for hull in shapes]
    least = np.zeros(prior.size.size)
    for cloud, link, mass in zip(clouds, prior.links, prior.link_mass, strict=True):
        least[link] = _LEAST_MASS * mass * _parameters_of_points(cloud).mean(axis=1)
    K = np.linalg.inv(L)
    E, e = prior.constraints.balanced(L)
    rows = np.vstack([K, _STIFFNESS * E])
    right = np.append(K @ (theta_free - least), _STIFFNESS * (e - E @ least))
    S = _columns(prior, clouds)
    A = rows @ S
    unit = np.linalg.norm(A, axis=0)
    theta = least
    for _ in range(_MOST_UPDATES):
        try:
            u, _ = nnls(A / unit, right, maxiter=30 * unit.size)
        except RuntimeError as error:
            return Solution(theta_free, failure=unsolved_message(prior, str(error)))
        theta = least + S @ (u / unit)
        gap = _STIFFNESS * (e - E @ theta)
        right[K.shape[0] :] += gap
        if (np.abs(gap) <= _EQUALITY_TOLERANCE).all():
            break
    return checked(prior, LinkMatrices(prior), theta, theta_free, 0.0)


def _columns(prior: Prior, clouds: list[Array]) -> Array:
    """S (p, n): changes of theta by masses, in units of plausible ones, and by drives.

    Drives that may be negative have two columns, one for each sign.
    """
    p = prior.size.size
    others = np.setdiff1d(np.arange(p), np.concatenate([np.r_[link] for link in prior.links]))
    signed = others[~np.isin(others, prior.positive)]
    blocks = []
    for cloud, link, mass in zip(clouds, prior.links, prior.link_mass, strict=True):
        block = np.zeros((p, cloud.shape[0]))
        block[link] = mass * _parameters_of_points(cloud)
        blocks.append(block)
    drives = np.diag(prior.size)
    return np.hstack([*blocks, drives[:, others], -drives[:, signed]])
