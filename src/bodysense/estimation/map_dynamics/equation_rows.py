"""`TreeMotion`: transforms and twists of all bodies at one position and velocity, in plain numpy.

    v_i = X_i v_p + S_i q̇_i                                             (14 of paper 000)

X_i maps motion vectors of the parent's frame to the body's own. Estimators use compiled kernels
for this; here it is written for the reader, who wants to look at the equations of one sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import coo_array, csr_array

from bodysense.errors import MismatchError
from bodysense.estimation.map_dynamics.body_tree import WORLD, BodyTree
from bodysense.estimation.posterior import NamedSlices
from bodysense.robot import Robot
from bodysense.sensors.measurement import Measurement
from bodysense.sensors.sensor import Sensor
from bodysense.spatial.arrays import Array, as_array, read_only
from bodysense.spatial.se3 import exp_so3, skew


@dataclass(frozen=True, eq=False)
class TreeMotion:
    """The motion of a tree at one sample. Build it with `TreeMotion.of`.

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
    ) -> TreeMotion:
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


# `Blocks`: a sparse matrix and an offset, put together from named blocks.


class Blocks:
    """Collects A and b of A d + b, block by block, by the names of rows and columns."""

    def __init__(self, rows: NamedSlices, columns: NamedSlices) -> None:
        self._rows, self._columns = rows, columns
        self._blocks: dict[tuple[str, str], Array] = {}
        self._b = np.zeros(rows.size)

    def put(self, row: str, column: str, block: Array) -> None:
        """Add a block to A."""
        there = self._blocks.get((row, column))
        self._blocks[row, column] = block if there is None else there + block

    def add(self, row: str, offset: Array) -> None:
        """Add to b."""
        self._b[self._rows[row]] += offset

    def shift(self, column: str, by: Array) -> None:
        """Measure an unknown from elsewhere: b += A by."""
        for (row, other), block in self._blocks.items():
            if other == column:
                self.add(row, block @ by)

    def built(self) -> tuple[csr_array, Array]:
        """A and b; entries of A that are zero are not stored."""
        at, to, values = [np.zeros(0, int)], [np.zeros(0, int)], [np.zeros(0)]
        for (row, column), block in self._blocks.items():
            i, j = np.nonzero(block)
            at.append(i + self._rows[row].start)
            to.append(j + self._columns[column].start)
            values.append(block[i, j])
        shape = (self._rows.size, self._columns.size)
        places = (np.concatenate(at), np.concatenate(to))
        return csr_array(coo_array((np.concatenate(values), places), shape=shape)), read_only(
            self._b
        )


# Rows of readings, y = Y d + b_Y: what the sensors' constants say at one sample.


def reading_rows(tree: BodyTree, sensors: Sequence[Sensor]) -> NamedSlices:
    """Rows of Y, one name a sensor."""
    sizes: dict[str, int] = {}
    for sensor in sensors:
        if sensor.name in sizes:
            raise MismatchError(f"two sensors are called {sensor.name!r}: rename one of them.")
        sizes[sensor.name] = sensor.measurement(tree.robot).size
    return NamedSlices.of("sensor", sizes.items())


def fill_readings(Y: Blocks, sample: TreeMotion, sensor: Sensor) -> None:
    """Write the rows of a sensor, see `Measurement` for its equation."""
    reading, row = sensor.measurement(sample.tree.robot), sensor.name
    if reading.link is not None:
        _fill_link(Y, row, reading, sample, sample.tree.body(reading.link))
    if reading.joint is not None:
        _fill_joint(Y, row, reading, sample, sample.tree.below(reading.joint))


def _fill_link(Y: Blocks, row: str, reading: Measurement, sample: TreeMotion, i: int) -> None:
    """A a + X fx + vᵀ Q v + L v of the link."""
    tree, v = sample.tree, sample.twist[i]
    Y.add(row, np.einsum("kij,i,j->k", reading.quadratic, v, v) + reading.linear @ v)
    if i in tree.with_unknowns:
        Y.put(row, f"a.{tree.names[i]}", reading.acceleration)
        Y.put(row, f"fx.{tree.names[i]}", reading.external)
        return
    Y.add(row, reading.acceleration @ sample.root_acceleration)
    if reading.external.any():
        raise MismatchError(
            f"{row} reads the external wrench of {tree.names[i]!r}, which is held still: what "
            "holds it is not among the unknowns. Remove the sensor, or let the base float."
        )


def _fill_joint(Y: Blocks, row: str, reading: Measurement, sample: TreeMotion, i: int) -> None:
    """W w + t tau + d a_joint + p q + r q̇ + friction(q̇) of the joint above body i."""
    tree = sample.tree
    joint, j = tree.joint_name(i), tree.joint[i]
    if reading.transmitted.any():
        if reading.link == tree.names[i]:
            Y.put(row, f"f.{joint}", reading.transmitted)
        elif reading.link == tree.names[tree.parent[i]]:  # w = -X_iᵀ f_i there
            Y.put(row, f"f.{joint}", -reading.transmitted @ sample.X[i].T)
        else:
            raise MismatchError(
                f"{row}: joint {joint!r} does not connect link {reading.link!r} to any other."
            )
    Y.put(row, f"tau.{joint}", reading.torque[:, np.newaxis])
    Y.put(row, f"ddq.{joint}", reading.joint_acceleration[:, np.newaxis])
    Y.add(row, reading.position * sample.q[j] + reading.velocity * sample.dq[j])
    if reading.friction:
        Y.add(row, np.full(reading.size, _friction(tree.robot, j, sample.dq[j])))


def _friction(robot: Robot, j: int, speed: float) -> float:
    """Friction of a joint [N·m], or [N] if it slides."""
    law = robot.friction
    phi, _ = law.model.basis([speed], law.shape[j])
    terms = law.model.terms
    coefficients = [robot.theta[robot.layout.friction(term)][j] for term in terms]
    return float(phi[0] @ np.array(coefficients)) if terms else 0.0
