"""`Equations`: the linear equations of one sample, D d + b_D = 0 and y = Y d + b_Y, to look at.

For every body i with parent p and children j (paper 000, (13)-(22), the first row of (18) with
S_i in place of its transpose):

    acceleration.<link>   X_i a_p - a_i + S_i q̈_i + v_i × S_i q̇_i = 0
    wrench.<link>         I_i a_i - f_i - fx_i + Σ X_jᵀ f_j + v_i ×* I_i v_i = 0
    torque.<joint>        S_iᵀ f_i - tau_i = 0

and one row per reading of every sensor. Estimators eliminate the same equations along the tree in
compiled kernels, without ever writing them down.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import coo_array, csr_array

from bodysense.errors import MismatchError, unknown_name
from bodysense.estimation.map_dynamics.body_tree import BodyTree
from bodysense.estimation.posterior import NamedSlices
from bodysense.robot import Robot
from bodysense.sensors.sensor import Measurement, Sensor
from bodysense.spatial.arrays import Array, as_array, read_only
from bodysense.spatial.se3 import skew

# Names of the unknowns d, and of the rows of equations and readings: slices of a vector.
#
# Every body that has unknowns brings 20 numbers, in the order of the tree (paper 000, appendix):
#
#     a.<link> (6)  f.<joint> (6)  tau.<joint> (1)  fx.<link> (6)  ddq.<joint> (1)
#
# a: proper spatial acceleration; f: wrench on the body below the joint by the one above, in the
# frame of the body below; fx: wrench on the link by the environment; linear first. A floating root
# hangs on no joint and has a and fx alone; a root that is held has nothing.


def tree_variables(tree: BodyTree) -> NamedSlices:
    """Names ↔ slices of the unknowns d of all bodies, in the order of the tree."""
    sizes: list[tuple[str, int]] = []
    for i in tree.with_unknowns:
        link = tree.names[i]
        if i == 0:
            sizes += [(f"a.{link}", 6), (f"fx.{link}", 6)]
            continue
        joint = tree.joint_name(i)
        sizes += [(f"a.{link}", 6), (f"f.{joint}", 6), (f"tau.{joint}", 1)]
        sizes += [(f"fx.{link}", 6), (f"ddq.{joint}", 1)]
    return NamedSlices.from_sizes("quantity", sizes)


def _equation_rows(tree: BodyTree) -> NamedSlices:
    """Rows of D: acceleration.<link> (6), wrench.<link> (6), torque.<joint> (1) for every body.

    A floating root has its wrench balance alone.
    """
    sizes: list[tuple[str, int]] = []
    for i in tree.with_unknowns:
        link = tree.names[i]
        if i == 0:
            sizes.append((f"wrench.{link}", 6))
            continue
        sizes += [(f"acceleration.{link}", 6), (f"wrench.{link}", 6)]
        sizes.append((f"torque.{tree.joint_name(i)}", 1))
    return NamedSlices.from_sizes("equation", sizes)


@dataclass(frozen=True, eq=False)
class _TreeMotion:
    """Transforms (n, 6, 6) and twists (n, 6), v_i = X_i v_p + S_i q̇_i (14 of paper 000).

    The acceleration (6,) is the proper one of a root that is held, zero of one that floats.
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
    ) -> _TreeMotion:
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
            X[i] = tree.transforms(i, position[j : j + 1])[0]
            twist[i] = X[i] @ twist[tree.parent[i]] + bodies.S[i] * speed[j]
        return cls(
            tree=tree,
            q=read_only(position),
            dq=read_only(speed),
            X=read_only(X),
            twist=read_only(twist),
            root_acceleration=read_only(tree.root_acceleration(gravity)),
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


# `_Blocks`: a sparse matrix and an offset, put together from named blocks.


class _Blocks:
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


_ACCELERATIONS = ("spatial", "classical")


class _Dense(NamedTuple):
    """D (m, n), b_D (m,), Y (r, n), b_Y (r,) as ordinary arrays."""

    D: Array
    b_D: Array
    Y: Array
    b_Y: Array


@dataclass(frozen=True, eq=False)
class Equations:
    """D d + b_D = 0 and y = Y d + b_Y at one sample. Build them with `Equations.at`.

    Attributes:
        sample: transforms and twists of the bodies.
        variables: names ↔ slices of d, the columns of D and Y.
        rows: names ↔ slices of the rows of D.
        readings: names ↔ slices of the rows of Y, one name a sensor.
        D: (m, n) sparse.
        b_D: (m,).
        Y: (r, n) sparse.
        b_Y: (r,).
    """

    sample: _TreeMotion
    variables: NamedSlices
    rows: NamedSlices
    readings: NamedSlices
    D: csr_array
    b_D: Array
    Y: csr_array
    b_Y: Array

    @classmethod
    def at(
        cls,
        tree: BodyTree,
        sensors: Sequence[Sensor],
        q: ArrayLike,
        dq: ArrayLike,
        *,
        base_twist: ArrayLike | None = None,
        gravity: ArrayLike | None = None,
        acceleration: Literal["spatial", "classical"] = "spatial",
    ) -> Equations:
        """Write down the equations of one sample.

        Args:
            tree: the bodies.
            sensors: on the tree's robot. An orientation reads nothing of d: rows of zeros.
            q: (n_joints,) positions of the joints.
            dq: (n_joints,) their velocities.
            base_twist: (6,) of a floating root, in its frame; at rest by default.
            gravity: (3,) [m/s²] in the frame of a root that is held; by default the robot's
                where it is bolted to the world.
            acceleration: what a.<link> stands for: the spatial acceleration, or the classical one
                a + (omega × v, 0). It changes b_D and b_Y alone.

        Raises:
            ShapeError: an array of another length, or not finite.
            MismatchError: motion of a root that is held, gravity that is missing or has no
                meaning, sensors of one name or where nothing is unknown.
            UnknownNameError: another kind of acceleration, a sensor elsewhere.
        """
        if acceleration not in _ACCELERATIONS:
            raise unknown_name("acceleration", acceleration, _ACCELERATIONS)
        sample = _TreeMotion.of(tree, q, dq, base_twist, gravity)
        variables, rows = tree_variables(tree), _equation_rows(tree)
        sizes = [(sensor.name, sensor.measurement(tree.robot).size) for sensor in sensors]
        readings = NamedSlices.from_sizes("sensor", sizes)
        D, Y = _Blocks(rows, variables), _Blocks(readings, variables)
        for i in tree.with_unknowns:
            if i > 0:
                _fill_acceleration(D, sample, i)
                _fill_torque(D, sample, i)
            _fill_wrench(D, sample, i)
        for sensor in sensors:
            _fill_readings(Y, sample, sensor)
        if acceleration == "classical":
            for i in tree.with_unknowns:
                D.shift(f"a.{tree.names[i]}", -sample.classical[i])
                Y.shift(f"a.{tree.names[i]}", -sample.classical[i])
        (D_matrix, b_D), (Y_matrix, b_Y) = D.built(), Y.built()
        return cls(sample, variables, rows, readings, D_matrix, b_D, Y_matrix, b_Y)

    def dense(self) -> _Dense:
        """Everything as ordinary arrays."""
        return _Dense(self.D.toarray(), np.array(self.b_D), self.Y.toarray(), np.array(self.b_Y))

    def block(self, row: str, variable: str) -> Array:
        """What multiplies an unknown in an equation or a reading, by their names."""
        where = self.variables[variable]
        if row in self.rows:
            block: Array = self.D[self.rows[row], where].toarray()
        else:
            block = self.Y[self.readings[row], where].toarray()
        return block


def _fill_acceleration(D: _Blocks, sample: _TreeMotion, i: int) -> None:
    """X_i a_p - a_i + S_i q̈_i + v_i × S_i q̇_i = 0."""
    tree, S = sample.tree, sample.tree.arrays.S[i]
    link, joint, parent = tree.names[i], tree.joint_name(i), tree.parent[i]
    row = f"acceleration.{link}"
    D.put(row, f"a.{link}", -np.eye(6))
    D.put(row, f"ddq.{joint}", S[:, np.newaxis])
    D.add(row, motion_cross(sample.twist[i]) @ S * sample.dq[tree.joint[i]])
    if parent in tree.with_unknowns:
        D.put(row, f"a.{tree.names[parent]}", sample.X[i])
    else:
        D.add(row, sample.X[i] @ sample.root_acceleration)


def _fill_wrench(D: _Blocks, sample: _TreeMotion, i: int) -> None:
    """I_i a_i - f_i - fx_i + Σ X_jᵀ f_j + v_i ×* I_i v_i = 0."""
    tree, I, v = sample.tree, sample.tree.arrays.inertia[i], sample.twist[i]
    link = tree.names[i]
    row = f"wrench.{link}"
    D.put(row, f"a.{link}", I)
    D.put(row, f"fx.{link}", -np.eye(6))
    if i > 0:
        D.put(row, f"f.{tree.joint_name(i)}", -np.eye(6))
    for j, parent in enumerate(tree.parent):
        if parent == i:
            D.put(row, f"f.{tree.joint_name(j)}", sample.X[j].T)
    D.add(row, -motion_cross(v).T @ I @ v)


def _fill_torque(D: _Blocks, sample: _TreeMotion, i: int) -> None:
    """S_iᵀ f_i - tau_i = 0."""
    tree = sample.tree
    joint = tree.joint_name(i)
    D.put(f"torque.{joint}", f"f.{joint}", tree.arrays.S[i][np.newaxis])
    D.put(f"torque.{joint}", f"tau.{joint}", -np.eye(1))


# Rows of readings, y = Y d + b_Y: what the sensors' constants say at one sample.


def _fill_readings(Y: _Blocks, sample: _TreeMotion, sensor: Sensor) -> None:
    """Write the rows of a sensor, see `Measurement` for its equation."""
    reading, row = sensor.measurement(sample.tree.robot), sensor.name
    if reading.link is not None:
        _fill_link(Y, row, reading, sample, sample.tree.body(reading.link))
    if reading.joint is not None:
        _fill_joint(Y, row, reading, sample, sample.tree.below(reading.joint))


def _fill_link(Y: _Blocks, row: str, reading: Measurement, sample: _TreeMotion, i: int) -> None:
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


def _fill_joint(Y: _Blocks, row: str, reading: Measurement, sample: _TreeMotion, i: int) -> None:
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
    """Friction of a joint [N·m], or [N] if it slides, but for what grows with its load."""
    phi, _ = robot.friction.model.basis([speed], robot.friction.shape[j])
    return float(phi[0] @ friction_coefficients(robot)[j])


def friction_coefficients(robot: Robot) -> Array:
    """(n_joints, n_terms), zero for friction per load, which is taken from the readings."""
    layout, law = robot.layout, robot.friction.model
    F = np.zeros((robot.n_joints, len(law.terms)))
    for k, term in enumerate(law.terms[: len(law.terms) - law.depends_on_load]):
        F[:, k] = robot.theta[layout.friction(term)]
    return F
