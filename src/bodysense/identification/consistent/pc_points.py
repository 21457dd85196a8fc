"""Links as clouds of points with mass: consistent by a quadratic program, thesis eqs (68)-(71)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.optimize import nnls

from bodysense.errors import ShapeError
from bodysense.identification.consistent.link_matrices import LinkMatrices
from bodysense.identification.consistent.link_points import (
    grid_points,
    link_shapes,
    parameters_of_points,
)
from bodysense.identification.consistent.projection import checked, not_found, unconstrained
from bodysense.identification.consistent.relaxation import Relaxation
from bodysense.identification.factors import Stack
from bodysense.identification.linear.least_squares import Solution
from bodysense.identification.linear.wls import WLS
from bodysense.identification.prior import Prior
from bodysense.identification.regression import Regression
from bodysense.robot.hull import Hull
from bodysense.spatial.arrays import Array

_LEAST = 1e-6
"""Mass, in units of a link's plausible one, that lies evenly on all of its points: ρ > 0 of eq (70)
holds strictly, so that no link is a plate, a rod or a point."""

_SUREST = 1e6  # data that say more, in units of the prior, count as if they said this much
_STIFFNESS = 1e5  # of equalities, in units of what the data say
_MOST_UPDATES = 20
_MISSED = 1e-7  # of equalities, in units of the data


@dataclass(frozen=True)
class PointMasses(WLS):
    """Rows weighed as by `WLS`; links are non-negative masses at points inside their shape.

        minimise ‖A B (Q ρ, drives) - z‖² + Σ ((theta - theta_0) / size)²    over ρ ≥ 0, drives ≥ 0

    A semidefinite constraint says that a link can exist; this one says that it can exist inside its
    shape: it bounds the size of links, their centres of mass and their moments at once. It costs
    hundreds of unknowns a link, and a link that the grid or the shape leaves no room for is not
    found: where the shape is wrong, so is the result, even with perfect data. Without shapes in the
    robot's file, and none given as known, a link's shape is the box of uniform density with the
    prior's inertia, with `margin` times its sides.

    Attributes:
        points: point masses of each link, at most.
        margin: factor on the sides of the boxes that stand for links without a known shape.
    """

    points: int = 200
    margin: float = 2.0

    name: ClassVar[str] = "pc-points"
    about: ClassVar[str] = "weighted least squares over point masses inside the links' shapes"
    needs: ClassVar[str] = (
        "shapes of the links, from the robot file, or boxes; noise levels: taken from the log"
    )
    cost: ClassVar[str] = "one regression, one quadratic program with hundreds of unknowns a link"
    when: ClassVar[str] = "links must fit inside their shapes, and these are known"
    consistent: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.points < 20:
            raise ShapeError(f"{self.points} points a link are too few: give 20 or more.")
        if not (np.isfinite(self.margin) and self.margin > 0.0):
            raise ShapeError(f"the margin of boxes is {self.margin:g}: give a positive number.")

    @property
    def prior_spread(self) -> float:
        """That of the weak prior term."""
        return 1.0

    def solve(self, problem: Regression, prior: Prior, stack: Stack) -> Solution:
        """By non-negative least squares."""
        known = problem.knowledge.com_inside
        shapes = link_shapes(problem.robot, prior, known, self.margin)
        return point_mass_least_squares(prior, stack, shapes, self.points)


def point_mass_least_squares(
    prior: Prior, stack: Stack, shapes: Sequence[Hull], points: int
) -> Solution:
    """Solve the reduced problem over masses at points, by non-negative least squares.

    Equalities that are known for certain are stiff rows with multipliers (augmented Lagrangian).
    Centres of mass are inside the hull of their points whatever the masses.

    Args:
        prior: centre, constraints and links.
        stack: the data.
        shapes: what holds the mass of each link.
        points: of each link's grid, at most.
    """
    factor = Relaxation().factor(prior)
    theta_free, L = unconstrained(prior, stack, prior.theta, factor, surest=_SUREST)
    clouds = [grid_points(hull, points) for hull in shapes]
    least = np.zeros(prior.size.size)
    for cloud, link, mass in zip(clouds, prior.links, prior.link_mass, strict=True):
        least[link] = _LEAST * mass * parameters_of_points(cloud).mean(axis=1)
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
            return Solution(theta_free, failure=not_found(prior, str(error)))
        theta = least + S @ (u / unit)
        missed = _STIFFNESS * (e - E @ theta)
        right[K.shape[0] :] += missed
        if (np.abs(missed) <= _MISSED).all():
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
        block[link] = mass * parameters_of_points(cloud)
        blocks.append(block)
    drives = np.diag(prior.size)
    return np.hstack([*blocks, drives[:, others], -drives[:, signed]])
