"""A robot's geometry as plain arrays: what the compiled kernels see of it."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
from numpy.typing import NDArray

from bodysense.robot._kernels.tree import Tree
from bodysense.robot.actuators import COUPLED_TERMS, Actuators
from bodysense.robot.friction import Friction
from bodysense.robot.model import has_floating_base, is_prismatic, joint_axis, one_axis_joints
from bodysense.spatial.arrays import Array

TERM_CODES = {"Fv": 0, "Fc": 1, "Fs": 2, "Fo": 3}


def tree_of(model: pin.Model, friction: Friction, actuators: Actuators) -> Tree:
    """Lay out a normalised model (see `model.normalised_model`) as arrays."""
    joints = one_axis_joints(model)
    n, floating = len(joints), int(has_floating_base(model))
    parent = np.array([model.parents[i] - 1 - floating for i in joints], dtype=np.int64)
    rotation, position, axis = np.empty((n, 3, 9)), np.empty((n, 3)), np.empty((n, 3))
    for j, i in enumerate(joints):
        R, position[j] = model.jointPlacements[i].rotation, model.jointPlacements[i].translation
        axis[j] = joint_axis(model, i)
        if is_prismatic(model, i):
            rotation[j] = R.ravel(), np.zeros(9), np.zeros(9)
        else:  # Rodrigues: k kᵀ + cos (1 - k kᵀ) + sin [k]×
            k = axis[j]
            along = np.outer(k, k)
            rotation[j, 0] = (R @ along).ravel()
            rotation[j, 1] = (R @ (np.eye(3) - along)).ravel()
            rotation[j, 2] = (R @ pin.skew(k)).ravel()
    R_world_root = model.jointPlacements[1].rotation if floating else np.eye(3)
    coupled = actuators.coupled
    names = friction.model.shape
    width = friction.shape[:, names.index("width")] if "width" in names else np.zeros(n)
    return Tree(
        floating=floating,
        parent=parent,
        prismatic=np.array([is_prismatic(model, i) for i in joints], dtype=np.int64),
        rotation=rotation,
        position=position,
        axis=axis,
        gravity=R_world_root.T @ model.gravity.linear,
        term=np.array([TERM_CODES.get(t, -1) for t in friction.model.terms], dtype=np.int64),
        custom=friction.model.address,
        bristles=int(friction.model.has_state),
        shape=_shape_columns(friction),
        coupling=np.array([actuators.coupling[k] for _, k in coupled]).reshape(len(coupled), n),
        coupled_term=np.array([COUPLED_TERMS.index(t) for t, _ in coupled], dtype=np.int64),
        coupled_width=np.array([width[k] for _, k in coupled], dtype=np.float64),
        dof_parent=_elimination_tree(parent, floating, _inertial_coupling(actuators)),
    )


def _shape_columns(friction: Friction) -> Array:
    if friction.model.custom is not None:
        return np.array(friction.shape)
    columns = ("width", "vs", "delta", "sigma0", "sigma1")
    table = np.zeros((friction.shape.shape[0], len(columns)))
    for k, name in enumerate(friction.model.shape):
        table[:, columns.index(name)] = friction.shape[:, k]
    return table


def _inertial_coupling(actuators: Actuators) -> Array:
    """Rows of C whose motors have an inertia of their own: these alone enter the mass matrix."""
    rows = [actuators.coupling[k] for term, k in actuators.coupled if term == "Iam"]
    return np.array(rows).reshape(len(rows), actuators.n_joints)


def _elimination_tree(
    parent: NDArray[np.int64], floating: int, coupling: Array
) -> NDArray[np.int64]:
    """Featherstone's branch-induced sparsity: a dof only couples with those above it.

    A motor that couples joints of different branches breaks that: then the matrix is treated as
    dense, a single chain.
    """
    n, base = parent.size, 6 * floating
    above = [set[int]() for _ in range(n)]
    for j in range(n):
        if parent[j] >= 0:
            above[j] = above[parent[j]] | {int(parent[j])}
    dof_parent = np.arange(-1, base + n - 1, dtype=np.int64)
    touched = (coupling != 0.0).astype(np.int64)  # not C itself, whose terms could cancel
    pairs = np.argwhere(touched.T @ touched)
    if all(i == j or i in above[j] or j in above[i] for i, j in pairs):
        dof_parent[base:] = np.where(parent >= 0, parent + base, base - 1)
    return dof_parent
