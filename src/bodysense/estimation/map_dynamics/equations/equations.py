"""`Equations`: the linear equations of one sample, D d + b_D = 0 and y = Y d + b_Y, to look at.

For every body i with parent p and children j (paper 000, (13)-(22), the first row of (18) with
S_i in place of its transpose):

    acceleration.<link>   X_i a_p - a_i + S_i q̈_i + v_i × S_i q̇_i = 0
    wrench.<link>         I_i a_i - f_i - fx_i + Σ X_jᵀ f_j + v_i ×* I_i v_i = 0
    torque.<joint>        S_iᵀ f_i - tau_i = 0

and one row a reading of every sensor. Estimators eliminate the same equations along the tree
without ever writing them down.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array

from bodysense.errors import unknown_name
from bodysense.estimation.map_dynamics.body_tree import BodyTree
from bodysense.estimation.map_dynamics.equations.rows import (
    Blocks,
    TreeMotion,
    fill_readings,
    motion_cross,
    reading_rows,
)
from bodysense.estimation.posterior import NamedSlices
from bodysense.sensors.sensor import Sensor
from bodysense.spatial.arrays import Array

# Names of the unknowns d, and of the rows of equations and readings: slices of a vector.
#
# Every body that has unknowns brings 20 numbers, in the order of the tree (paper 000, appendix):
#
#     a.<link> (6)  f.<joint> (6)  tau.<joint> (1)  fx.<link> (6)  ddq.<joint> (1)
#
# a: proper spatial acceleration; f: wrench on the body below the joint by the one above, in the
# frame of the body below; fx: wrench on the link by the environment; linear first. A floating root
# hangs on no joint and has a and fx alone; a root that is held has nothing.


class Variables(NamedSlices):
    """Names ↔ slices of the unknowns d."""

    @classmethod
    def of_tree(cls, tree: BodyTree) -> Variables:
        """The unknowns of all bodies, in the order of the tree."""
        sizes: list[tuple[str, int]] = []
        for i in tree.with_unknowns:
            link = tree.names[i]
            if i == 0:
                sizes += [(f"a.{link}", 6), (f"fx.{link}", 6)]
                continue
            joint = tree.joint_name(i)
            sizes += [(f"a.{link}", 6), (f"f.{joint}", 6), (f"tau.{joint}", 1)]
            sizes += [(f"fx.{link}", 6), (f"ddq.{joint}", 1)]
        return cls.of("quantity", sizes)


def equation_rows(tree: BodyTree) -> NamedSlices:
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
    return NamedSlices.of("equation", sizes)


ACCELERATIONS = ("spatial", "classical")


class Dense(NamedTuple):
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

    sample: TreeMotion
    variables: Variables
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
        if acceleration not in ACCELERATIONS:
            raise unknown_name("acceleration", acceleration, ACCELERATIONS)
        sample = TreeMotion.of(tree, q, dq, base_twist, gravity)
        variables, rows = Variables.of_tree(tree), equation_rows(tree)
        readings = reading_rows(tree, sensors)
        D, Y = Blocks(rows, variables), Blocks(readings, variables)
        for i in tree.with_unknowns:
            if i > 0:
                _fill_acceleration(D, sample, i)
                _fill_torque(D, sample, i)
            _fill_wrench(D, sample, i)
        for sensor in sensors:
            fill_readings(Y, sample, sensor)
        if acceleration == "classical":
            for i in tree.with_unknowns:
                D.shift(f"a.{tree.names[i]}", -sample.classical[i])
                Y.shift(f"a.{tree.names[i]}", -sample.classical[i])
        (D_matrix, b_D), (Y_matrix, b_Y) = D.built(), Y.built()
        return cls(sample, variables, rows, readings, D_matrix, b_D, Y_matrix, b_Y)

    def dense(self) -> Dense:
        """Everything as ordinary arrays."""
        return Dense(self.D.toarray(), np.array(self.b_D), self.Y.toarray(), np.array(self.b_Y))

    def block(self, row: str, variable: str) -> Array:
        """What multiplies an unknown in an equation or a reading, by their names."""
        where = self.variables[variable]
        if row in self.rows:
            block: Array = self.D[self.rows[row], where].toarray()
        else:
            block = self.Y[self.readings[row], where].toarray()
        return block


def _fill_acceleration(D: Blocks, sample: TreeMotion, i: int) -> None:
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


def _fill_wrench(D: Blocks, sample: TreeMotion, i: int) -> None:
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


def _fill_torque(D: Blocks, sample: TreeMotion, i: int) -> None:
    """S_iᵀ f_i - tau_i = 0."""
    tree = sample.tree
    joint = tree.joint_name(i)
    D.put(f"torque.{joint}", f"f.{joint}", tree.arrays.S[i][np.newaxis])
    D.put(f"torque.{joint}", f"tau.{joint}", -np.eye(1))
