"""Random motions under random pushes, with every quantity of them computed by Pinocchio."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pinocchio as pin

from bodysense.estimation.map_dynamics.body_tree import BodyTree
from bodysense.spatial.arrays import Array


@dataclass(frozen=True)
class Truth:
    """One sample.

    Attributes:
        tree: the bodies.
        q: (n_joints,) positions.
        dq: (n_joints,) velocities.
        base_twist: (6,) of a floating root, `None` of one that is held.
        gravity: (3,) in the frame of the root.
        values: of all unknowns, by their names.
        data: Pinocchio's, after `rnea`.
        full: Pinocchio's own q, v, a.
    """

    tree: BodyTree
    q: Array
    dq: Array
    base_twist: Array | None
    gravity: Array
    values: dict[str, Array]
    data: pin.Data
    full: tuple[Array, Array, Array]

    def arguments(self) -> dict:
        """What `Equations.at` wants to know."""
        gravity = None if self.tree.floating else self.gravity
        return dict(q=self.q, dq=self.dq, base_twist=self.base_twist, gravity=gravity)

    def d(self, variables) -> Array:
        """(n,) the unknowns in the order of `tree_variables`."""
        vector = np.full(variables.size, np.nan)
        for name in variables:
            vector[variables[name]] = self.values[name]
        return vector


def joint_index(tree: BodyTree, link: str) -> int:
    """Pinocchio's joint that moves a link."""
    return tree.robot.link_names.index(link) + 1


def truth_of(
    tree: BodyTree, rng: np.random.Generator, *, speed: float = 2.0, push: float = 5.0
) -> Truth:
    """A motion of the tree; a floating robot is held at, or balanced by a push on, the root."""
    robot, model = tree.robot, tree.robot.model
    data, n = model.createData(), robot.n_joints
    q = rng.uniform(-1.5, 1.5, model.nq)
    v, a = rng.normal(scale=speed, size=(2, model.nv))
    if robot.floating_base:
        q[3:7] = rng.normal(size=4)
        q[3:7] /= np.linalg.norm(q[3:7])
    root = joint_index(tree, tree.names[0]) if robot.floating_base else 0
    if robot.floating_base and not tree.floating:  # move the base so that the root stands still
        pin.computeJointJacobians(model, data, q)
        J = pin.getJointJacobian(model, data, root, pin.LOCAL)
        v[:6] -= np.linalg.solve(J[:, :6], J @ v)
        pin.forwardKinematics(model, data, q, v, a)
        a[:6] -= np.linalg.solve(J[:, :6], data.a[root].vector)
    pushes = pin.StdVec_Force()
    for _ in range(model.njoints):
        pushes.append(pin.Force(rng.normal(scale=push, size=6)))
    pin.rnea(model, data, q, v, a, pushes)
    if robot.floating_base:  # no joint pushes the base: what is missing comes from the ground
        pin.forwardKinematics(model, data, q, v, a)
        missing = data.oMi[root].inverse() * data.oMi[1] * data.f[1]
        pushes[root] = pushes[root] + missing
        pin.rnea(model, data, q, v, a, pushes)
        assert np.abs(data.f[1].vector).max() < 1e-8
    pin.forwardKinematics(model, data, q, v, a)
    pin.rnea(model, data, q, v, a, pushes)
    values: dict[str, Array] = {}
    for i in tree.with_unknowns:
        link = tree.names[i]
        k = joint_index(tree, link)
        values[f"a.{link}"] = data.a_gf[k].vector
        values[f"fx.{link}"] = pushes[k].vector
        if i == 0:
            continue
        name = tree.joint_name(i)
        c = model.getJointId(name)
        wrench = data.f[c]
        values[f"f.{name}"] = -data.liMi[c].act(wrench).vector if tree.against[i] else wrench.vector
        at = model.joints[c].idx_v
        values[f"tau.{name}"] = data.tau[at : at + 1] - model.armature[at] * a[at]
        values[f"ddq.{name}"] = a[at : at + 1]
    return Truth(
        tree=tree,
        q=q[model.nq - n :],
        dq=v[model.nv - n :],
        base_twist=data.v[root].vector if tree.floating else None,
        gravity=data.oMi[root].rotation.T @ model.gravity.linear,
        values=values,
        data=data,
        full=(q, v, a),
    )
