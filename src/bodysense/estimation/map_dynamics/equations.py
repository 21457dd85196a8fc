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
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import block_diag
from scipy.sparse import csc_array, csr_array, eye_array, vstack
from scipy.sparse.linalg import splu

from bodysense.errors import unknown_name
from bodysense.estimation.map_dynamics.body_tree import BodyTree
from bodysense.estimation.map_dynamics.equation_rows import (
    Blocks,
    TreeMotion,
    fill_readings,
    motion_cross,
    reading_rows,
)
from bodysense.estimation.map_dynamics.priors import Assumptions, sources
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
        if acceleration not in _ACCELERATIONS:
            raise unknown_name("acceleration", acceleration, _ACCELERATIONS)
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


# `DenseRoots`: the whole problem of one sample as square roots of covariances, densely.
#
# Independent a priori are external wrenches, joint accelerations, the acceleration of a floating
# root and the slacks of the equations; the unknowns follow from them, the readings from these:
#
#     d = d0 + M s,   y = H d + c + N w,   s, w ~ N(0, 1)
#
# The readings are those of the sensors, further priors, and the balance of a floating root. One
# orthogonal triangularisation gives the covariance of anything, without squaring or inverting:
#
#     [N  H M]         [L  0]
#     [0  E M] Theta = [G  C],    covariance of E d given the readings = C Cᵀ
#
# It takes the time of a dense factorisation, and answers what elimination along the tree does not:
# how quantities of different links, and noises of different sensors, depend on one another.


@dataclass(frozen=True, eq=False)
class DenseRoots:
    """Roots of all covariances. Build it with `DenseRoots.of`.

    Attributes:
        M: (n, k) d - d0 by independent numbers of unit variance.
        readings: (m, l + k) [N  H M], columns as in `sources`.
        sources: names ↔ slices of the columns: ``sensor.<name>``, further priors
            ``prior.<quantity>``, then ``fx.<link>``, ``ddq.<joint>``, ``a.<root>``, and the
            slacks ``acceleration.<link>``, ``wrench.<link>``, ``torque.<joint>``.
    """

    M: Array
    readings: Array
    sources: NamedSlices

    @classmethod
    def of(
        cls, equations: Equations, sensors: Sequence[Sensor], assumptions: Assumptions
    ) -> DenseRoots:
        """Take square roots at one sample.

        Args:
            equations: of the sample, with at least these sensors.
            sensors: those that are present.
            assumptions: priors.
        """
        M, columns = _prior(equations, assumptions)
        YM = equations.Y @ M
        H, N, names = [], [], []
        for sensor in sensors:
            H.append(YM[equations.readings[sensor.name]])
            N.append(root_of(sensor.covariance))
            names.append((f"sensor.{sensor.name}", sensor.size))
        for name, prior in assumptions.others.items():
            H.append(M[equations.variables[name]])
            N.append(root_of(prior.covariance))
            names.append((f"prior.{name}", prior.mean.size))
        tree = equations.sample.tree
        if tree.floating:
            row = f"wrench.{tree.names[0]}"
            H.append(equations.D[equations.rows[row]] @ M)
            N.append(root_of(assumptions.wrench_slack.covariance))
            names.append((row, 6))
        HM = np.concatenate([np.zeros((0, M.shape[1])), *H])
        noise = block_diag(*N) if N else np.zeros((0, 0))
        sources = NamedSlices.of("source of noise", [*names, *columns])
        return cls(M, np.concatenate([noise, HM], axis=1), sources)

    def covariance(self, rows: Array) -> Array:
        """(r, r) covariance of the unknowns `rows` (indices) after all readings."""
        m, r = self.readings.shape[0], rows.size
        below = np.zeros((r, self.readings.shape[1]))
        below[:, self.readings.shape[1] - self.M.shape[1] :] = self.M[rows]
        array = np.concatenate([self.readings, below])
        # Large columns first: reflections then keep small deviations beside large ones.
        array = array[:, np.argsort(-np.abs(array).max(axis=0, initial=0.0), kind="stable")]
        triangle = np.asarray(np.linalg.qr(array.T, mode="r"))
        C = triangle[m:, m:]
        covariance: Array = C.T @ C
        return covariance

    def observed(self) -> Array:
        """(columns, rank) orthonormal Q: the readings tell Qᵀ of what the sources are, no more.

        With S the covariance of the readings and B = [N  H M] it is Q Qᵀ = Bᵀ S⁻¹ B: one where a
        source is known from the readings, zero where they say nothing about it.
        """
        Q, R = np.linalg.qr(self.readings.T)
        size = np.abs(np.diag(R))
        kept: Array = Q[
            :, size > 1e-12 * size.max(initial=0.0)
        ]  # no exact readings of known things
        return kept


def _prior(equations: Equations, priors: Assumptions) -> tuple[Array, list[tuple[str, int]]]:
    """M and the names of its columns."""
    tree, variables = equations.sample.tree, equations.variables
    every = vstack([eye_array(variables.size, format="csr"), equations.D], format="csr")
    rows: list[NDArray[np.int64]] = []
    roots: list[Array] = []
    names: list[tuple[str, int]] = []

    def put(name: str, first: int, covariance: Array) -> None:
        rows.append(first + np.arange(len(covariance)))
        roots.append(root_of(covariance))
        names.append((name, len(covariance)))

    for i in tree.with_unknowns:
        link = tree.names[i]
        wrench = priors.wrenches.get(link, priors.wrench).covariance
        put(f"fx.{link}", variables[f"fx.{link}"].start, wrench)
        if i == 0:
            base = priors.base_acceleration.covariance
            put(f"a.{link}", variables[f"a.{link}"].start, base)
            continue
        joint = tree.joint_name(i)
        spread = priors.joint_acceleration.covariance
        put(f"ddq.{joint}", variables[f"ddq.{joint}"].start, spread)
        for name, slack in (
            (f"acceleration.{link}", priors.acceleration_slack),
            (f"wrench.{link}", priors.wrench_slack),
            (f"torque.{joint}", priors.torque_slack),
        ):
            put(name, variables.size + equations.rows[name].start, slack.covariance)
    # One choice of rows: each from the sparse matrix by itself takes longer than the solution.
    M: Array = splu(csc_array(every[np.concatenate(rows)])).solve(block_diag(*roots))
    return M, names


def root_of(covariance: Array) -> Array:
    """C with C Cᵀ = covariance, which may be singular; diagonal if the covariance is.

    Its columns are orthogonal, and zero where nothing is uncertain.
    """
    return np.ascontiguousarray(sources(covariance).T)
