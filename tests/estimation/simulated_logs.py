"""Simulated logs: motions drawn from the priors of an estimator, computed by Pinocchio."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pinocchio as pin
from pinocchio_truth import Truth, joint_index
from sensor_sets import pinocchio_reading

from bodysense.estimation import Assumptions, MapDynamics
from bodysense.estimation.map_dynamics.body_tree import BodyTree
from bodysense.sensors import Sensor
from bodysense.spatial.arrays import Array


def drawn_truth(
    tree: BodyTree, assumptions: Assumptions, rng: np.random.Generator, speed: float = 1.0
) -> Truth:
    """External wrenches and joint accelerations as believed; a floating root moves as it must.

    The root of the tree is the robot's own base.
    """
    robot, model = tree.robot, tree.robot.model
    data, n = model.createData(), robot.n_joints
    q, v = rng.uniform(-1.5, 1.5, model.nq), rng.normal(scale=speed, size=model.nv)
    a = np.zeros(model.nv)
    prior = assumptions.joint_acceleration
    a[model.nv - n :] = prior.mean[0] + np.sqrt(prior.covariance[0, 0]) * rng.normal(size=n)
    pushes = pin.StdVec_Force()
    for _ in range(model.njoints):
        pushes.append(pin.Force.Zero())
    for i in tree.with_unknowns:
        wrench = assumptions.wrenches.get(tree.names[i], assumptions.wrench)
        push = rng.multivariate_normal(wrench.mean, wrench.covariance)
        pushes[joint_index(tree, tree.names[i])] = pin.Force(push)
    if tree.floating:
        q[3:7] = rng.normal(size=4)
        q[3:7] /= np.linalg.norm(q[3:7])
        missing = pin.rnea(model, data, q, v, a, pushes)[:6].copy()
        a[:6] = -np.linalg.solve(pin.crba(model, data, q)[:6, :6], missing)
    pin.forwardKinematics(model, data, q, v, a)
    pin.rnea(model, data, q, v, a, pushes)
    values: dict[str, Array] = {}
    for i in tree.with_unknowns:
        k = joint_index(tree, tree.names[i])
        values[f"a.{tree.names[i]}"] = data.a_gf[k].vector
        values[f"fx.{tree.names[i]}"] = pushes[k].vector
        if i > 0:
            name, at = tree.joint_name(i), model.joints[k].idx_v
            values[f"f.{name}"] = data.f[k].vector
            values[f"tau.{name}"] = data.tau[at : at + 1] - model.armature[at] * a[at]
            values[f"ddq.{name}"] = a[at : at + 1]
    return Truth(
        tree=tree,
        q=q[model.nq - n :],
        dq=v[model.nv - n :],
        base_twist=data.v[1].vector if tree.floating else None,
        gravity=model.gravity.linear,
        values=values,
        data=data,
        full=(q, v, a),
    )


def noisy_readings(sensors: Sequence[Sensor], truth: Truth, rng: np.random.Generator) -> Array:
    """What the sensors read at a sample, with the noise that they claim to have."""
    parts = [np.zeros(0)]
    for sensor in sensors:
        noise = rng.multivariate_normal(np.zeros(sensor.size), sensor.covariance)
        parts.append(pinocchio_reading(sensor, truth) + noise)
    return np.concatenate(parts)


def simulated(
    problem: MapDynamics,
    rng: np.random.Generator,
    T: int,
    *,
    sensors: Sequence[Sensor] | None = None,
    assumptions: Assumptions | None = None,
):
    """Samples of `problem`, made by other sensors and priors if these are given, and truths."""
    makers = problem.sensors if sensors is None else sensors
    priors = problem.assumptions if assumptions is None else assumptions
    truths = [drawn_truth(problem.tree, priors, rng) for _ in range(T)]
    readings = np.stack([noisy_readings(makers, truth, rng) for truth in truths])
    twist = np.stack([t.base_twist for t in truths]) if problem.tree.floating else None
    q, dq = np.stack([t.q for t in truths]), np.stack([t.dq for t in truths])
    return problem.samples(q, dq, readings, base_twist=twist), truths
