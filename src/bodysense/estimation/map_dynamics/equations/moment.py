"""`Moment`: transforms and twists of all bodies at one position and velocity, in plain numpy.

    v_i = X_i v_p + S_i q̇_i                                             (14 of paper 000)

X_i maps motion vectors of the parent's frame to the body's own. Estimators use compiled kernels
for this; here it is written for the reader, who wants to look at the equations of one moment.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from bodysense.errors import MismatchError
from bodysense.estimation.map_dynamics.body_tree import WORLD, BodyTree
from bodysense.spatial.arrays import Array, as_array, read_only
from bodysense.spatial.se3 import exp_so3, skew


@dataclass(frozen=True, eq=False)
class Moment:
    """The motion of a tree at one moment. Build it with `Moment.of`.

    Attributes:
        tree: the bodies.
        q: (n_joints,) positions.
        dq: (n_joints,) velocities.
        X: (n, 6, 6) X_i; the identity for the root.
        twist: (n, 6) of each body, in its frame, linear first.
        root_acceleration: (6,) proper acceleration of a root that is held, zero of one that floats.
    """

    tree: BodyTree
    q: Array
    dq: Array
    X: Array
    twist: Array
    root_acceleration: Array

    @classmethod
    def of(
        cls,
        tree: BodyTree,
        q: ArrayLike,
        dq: ArrayLike,
        base_twist: ArrayLike | None = None,
        gravity: ArrayLike | None = None,
    ) -> Moment:
        """Walk along the tree; for the arguments see `Equations.at`."""
        robot, bodies = tree.robot, tree.arrays
        position = as_array(q, (robot.n_joints,), "q")
        speed = as_array(dq, (robot.n_joints,), "dq")
        root = np.zeros(6) if base_twist is None else as_array(base_twist, (6,), "base_twist")
        if not tree.floating and root.any():
            raise MismatchError(
                f"base_twist moves {tree.names[0]!r}, which is held still: leave it out, or let "
                "the base float."
            )
        X, twist = np.zeros((tree.n, 6, 6)), np.zeros((tree.n, 6))
        X[0], twist[0] = np.eye(6), root
        for i in range(1, tree.n):
            j = tree.joint[i]
            X[i] = _transform(tree, i, position[j])
            twist[i] = X[i] @ twist[tree.parent[i]] + bodies.S[i] * speed[j]
        return cls(
            tree=tree,
            q=read_only(position),
            dq=read_only(speed),
            X=read_only(X),
            twist=read_only(twist),
            root_acceleration=read_only(_root_acceleration(tree, gravity)),
        )

    @property
    def classical(self) -> Array:
        """(n, 6) what classical accelerations have more than spatial ones: (omega × v, 0)."""
        extra = np.zeros_like(self.twist)
        extra[:, :3] = np.cross(self.twist[:, 3:], self.twist[:, :3])
        return extra


def motion_cross(v: Array) -> Array:
    """(6, 6) v × of motion vectors; v ×* of wrenches is its negative transpose."""
    cross = np.zeros((6, 6))
    cross[:3, :3] = cross[3:, 3:] = skew(v[3:])
    cross[:3, 3:] = skew(v[:3])
    return cross


def _transform(tree: BodyTree, i: int, q: float) -> Array:
    """X_i from where the joint's child is seen from its parent, in the robot's own direction."""
    bodies = tree.arrays
    R_zero = (bodies.rotation[i, 0] + bodies.rotation[i, 1]).reshape(3, 3)
    R, p = R_zero, bodies.position[i]
    if bodies.prismatic[i]:
        p = p + R_zero @ bodies.axis[i] * q
    else:
        R = R_zero @ exp_so3(bodies.axis[i] * q)
    X = np.zeros((6, 6))
    if tree.against[i]:  # the body is the joint's parent, and its frame the one to map to
        X[:3, :3] = X[3:, 3:] = R
        X[:3, 3:] = skew(p) @ R
    else:
        X[:3, :3] = X[3:, 3:] = R.T
        X[:3, 3:] = -R.T @ skew(p)
    return X


def _root_acceleration(tree: BodyTree, gravity: ArrayLike | None) -> Array:
    """a_0 = -g of a root that is held; that of one that floats is an unknown."""
    acceleration = np.zeros(6)
    if tree.floating:
        if gravity is not None:
            raise MismatchError(
                f"gravity is given, but {tree.names[0]!r} floats: its proper acceleration is an "
                "unknown, and gravity is part of it. Leave gravity out."
            )
        return acceleration
    if gravity is None and tree.names[0] != WORLD:
        raise MismatchError(
            f"{tree.names[0]!r} is held, but not how: give gravity (3,) in its frame, which is "
            "R_world_linkᵀ (0, 0, -9.81) for a link that stands on the ground."
        )
    given = tree.robot.tree.gravity if gravity is None else as_array(gravity, (3,), "gravity")
    acceleration[:3] = -given
    return acceleration
