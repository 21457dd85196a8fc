"""Workspace: a box in base coordinates that the links of a robot must stay inside.

A table at the height of the base is ``Workspace(lower=(-inf, -inf, 0))``. The margin of a link to a
side of the box is that of its outermost corner,

    margin = min over vertices x of  n · x - o,    n the inward normal, n · x >= o inside,

and its gradient that of this corner.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import compress

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bodysense.errors import ShapeError, unknown_name
from bodysense.robot.frames import LinkPoses, sample_poses, supporting_joints
from bodysense.robot.robot import Robot
from bodysense.robot.shapes.hull import Hull
from bodysense.spatial.arrays import Array

_SAMPLES = 256  # random poses that decide which margins change
_CONSTANT_MARGIN = 1.0e-6  # m; a margin that changes by less does not depend on the pose


@dataclass(frozen=True)
class Workspace:
    """A box along the axes of the base.

    Attributes:
        lower: (3,) least x, y and z [m], -inf where there is no wall.
        upper: (3,) largest x, y and z [m], inf where there is no wall.
    """

    lower: tuple[float, float, float] = (-np.inf, -np.inf, -np.inf)
    upper: tuple[float, float, float] = (np.inf, np.inf, np.inf)

    def __post_init__(self) -> None:
        for name in ("lower", "upper"):
            try:
                values = tuple(float(value) for value in getattr(self, name))
            except (TypeError, ValueError):
                values = ()
            if len(values) != 3 or np.isnan(values).any():
                raise ShapeError(
                    f"{name} of the workspace is {getattr(self, name)!r}: give three numbers in "
                    "metres, infinite where there is no wall."
                )
            object.__setattr__(self, name, values)
        for axis, low, high in zip("xyz", self.lower, self.upper, strict=True):
            if low >= high:
                raise ShapeError(
                    f"the workspace is empty along {axis}, from {low:g} to {high:g} m: swap its "
                    "lower and upper bound."
                )

    def walls(self) -> tuple[tuple[str, Array, float], ...]:
        """Name, inward normal (3,) and offset o of every wall, with n · x >= o inside [m]."""
        result = []
        for k, axis in enumerate("xyz"):
            if np.isfinite(self.lower[k]):
                result.append((f"{axis} >= {self.lower[k]:g}", np.eye(3)[k], self.lower[k]))
            if np.isfinite(self.upper[k]):
                result.append((f"{axis} <= {self.upper[k]:g}", -np.eye(3)[k], -self.upper[k]))
        return tuple(result)

    def around(self, robot: Robot, hulls: Mapping[str, Hull]) -> WorkspaceMargins:
        """The margins of a robot's links to the walls, by the hulls of its links, see `link_hulls`.

        Counted are those that change over many random poses: the base does not move, and a link
        that only turns about a vertical axis keeps its height. What is outside in all of these
        poses is given in `notes`. Links without a hull do not count.

        Raises:
            UnknownNameError: a hull of a link that the robot does not have.
        """
        for name in hulls:
            if name not in robot.link_names:
                raise unknown_name("link", name, robot.link_names)
        base = int(robot.floating_base)
        rows = [(k + 1 - base, name) for k, name in enumerate(robot.link_names) if name in hulls]
        every = WorkspaceMargins(
            robot,
            tuple((row, hulls[name], wall) for row, name in rows for wall in self.walls()),
            tuple((name, wall[0]) for _, name in rows for wall in self.walls()),
            (),
        )
        sampled = every.margins(sample_poses(robot, _SAMPLES))
        changes = np.ptp(sampled, axis=0) > _CONSTANT_MARGIN
        parts, names = tuple(compress(every.parts, changes)), tuple(compress(every.names, changes))
        return WorkspaceMargins(robot, parts, names, _notes(every.names, sampled, changes))


def _notes(
    names: tuple[tuple[str, str], ...], sampled: Array, changes: NDArray[np.bool_]
) -> tuple[str, ...]:
    outside = np.flatnonzero((sampled < 0.0).all(axis=0))
    return tuple(
        f"{names[k][0]} is outside {names[k][1]} by {-1e3 * sampled[:, k].max():.1f} mm at least "
        "in every pose" + ("" if changes[k] else ", which no joint changes: not counted")
        for k in outside
    )


@dataclass(frozen=True, eq=False)
class WorkspaceMargins:
    """Margins of links to walls; build it with `Workspace.around`.

    Attributes:
        robot: that moves.
        parts: of every margin the row of the link in `LinkPoses`, its hull and the wall.
        names: of every margin the link and the wall, as ("link6", "z >= 0").
        notes: what is always outside, in words.
    """

    robot: Robot
    parts: tuple[tuple[int, Hull, tuple[str, Array, float]], ...]
    names: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]

    def margins(self, q: ArrayLike) -> Array:
        """(n_t, n) signed distances to the walls at q (n_t, nq) [m], negative outside."""
        return self._measure(LinkPoses.from_robot(self.robot, q))[0]

    def margins_and_gradients(self, q: ArrayLike) -> tuple[Array, Array]:
        """Margins (n_t, n) and their gradients (n_t, n, n_joints) [m/rad or m/m]."""
        poses = LinkPoses.from_robot(self.robot, q)
        margins, corner = self._measure(poses)
        gradients = np.zeros((*margins.shape, self.robot.n_joints))
        moves = supporting_joints(self.robot)
        t = np.arange(margins.shape[0])
        for k, (row, hull, (_, normal, _)) in enumerate(self.parts):
            x = np.einsum("tij,tj->ti", poses.R[row], hull.vertices[corner[:, k]]) + poses.p[row]
            gradients[:, k] = poses.slopes(moves[row], t, x, normal)
        return margins, gradients

    def _measure(self, poses: LinkPoses) -> tuple[Array, NDArray[np.intp]]:
        """(n_t, n) margins, and which vertex each belongs to."""
        n_t = poses.p.shape[1]
        margins = np.empty((n_t, len(self.parts)))
        corner = np.empty((n_t, len(self.parts)), dtype=np.intp)
        for k, (row, hull, (_, normal, offset)) in enumerate(self.parts):
            heights = (normal @ poses.R[row]) @ hull.vertices.T
            corner[:, k] = np.argmin(heights, axis=1)
            lowest = heights[np.arange(n_t), corner[:, k]]
            margins[:, k] = lowest + poses.p[row] @ normal - offset
        return margins, corner
