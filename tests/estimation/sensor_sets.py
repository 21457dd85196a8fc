"""Sensors all over a tree, and what Pinocchio says that they read."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
from pinocchio_truth import Truth, joint_index

from bodysense.estimation.map_dynamics.body_tree import BodyTree
from bodysense.sensors import (
    Accelerometer,
    AngularAccelerometer,
    Encoder,
    ExternalWrench,
    ForceTorque,
    Gyroscope,
    JointAcceleration,
    JointTorque,
    JointVelocity,
    Mount,
    Sensor,
    variances,
)
from bodysense.spatial.arrays import Array

ON_LINKS = (Accelerometer, Gyroscope, AngularAccelerometer)
ON_JOINTS = (JointTorque, JointAcceleration)
STATE = (Encoder, JointVelocity)


def peer_sensors(tree: BodyTree, rng: np.random.Generator) -> list[Sensor]:
    """Everything that iDynTree has too, everywhere."""
    sensors: list[Sensor] = []
    for i in tree.with_unknowns:
        link = tree.names[i]
        for cls in ON_LINKS:
            name, mount = f"{cls.kind}.{link}", random_mount(link, rng)
            sensors.append(cls(name=name, mount=mount, covariance=variances(0.1, 3)))
        wrench = variances(1.0, 6)
        sensors.append(ExternalWrench(name=f"fx.{link}", mount=Mount(link), covariance=wrench))
    for i in range(1, tree.n):
        joint = tree.joint_name(i)
        for kind in ON_JOINTS:
            name = f"{kind.kind}.{joint}"
            sensors.append(kind(name=name, joint=joint, covariance=variances(0.1, 1)))
        mount, wrench = random_mount(tree.names[i], rng), variances(0.5, 6)
        sensors.append(ForceTorque(name=f"ft.{joint}", joint=joint, mount=mount, covariance=wrench))
    return sensors


def all_sensors(tree: BodyTree, rng: np.random.Generator) -> list[Sensor]:
    """Those, state sensors, and force/torque sensors on the parent's side and inside links."""
    sensors = peer_sensors(tree, rng)
    pi = np.array([0.3, 0.01, 0.02, 0.03, 0.02, 0.001, 0.03, 0.002, -0.001, 0.04])
    for i in range(1, tree.n):
        joint, above = tree.joint_name(i), tree.names[tree.parent[i]]
        for kind in STATE:
            name = f"{kind.kind}.{joint}"
            sensors.append(kind(name=name, joint=joint, covariance=variances(0.1, 1)))
        for side, link in (("below", tree.names[i]), ("above", above)):
            if link not in tree.robot.link_names:
                continue
            sensors.append(
                ForceTorque(
                    name=f"ft.{side}.{joint}",
                    joint=joint,
                    mount=random_mount(link, rng),
                    sign=-1,
                    sub_link=pi,
                    covariance=variances(0.5, 6),
                )
            )
    return sensors


def random_mount(link: str, rng: np.random.Generator) -> Mount:
    """Anywhere on a link."""
    return Mount.from_xyz_rpy(link, rng.uniform(-0.2, 0.2, 3), rng.uniform(-2.0, 2.0, 3))


def pinocchio_reading(sensor: Sensor, truth: Truth) -> Array:
    """What a sensor reads at a sample, without noise and without bodysense's equations."""
    model, data = truth.tree.robot.model, truth.data
    if isinstance(sensor, (JointTorque, JointAcceleration)):
        quantity = "tau" if isinstance(sensor, JointTorque) else "ddq"
        return truth.values[f"{quantity}.{sensor.joint}"]
    if isinstance(sensor, STATE):
        at = truth.tree.robot.joint_names.index(sensor.joint)
        return (truth.q if isinstance(sensor, Encoder) else truth.dq)[at : at + 1]
    place = pin.SE3(np.array(sensor.mount.R), np.array(sensor.mount.p))
    k = joint_index(truth.tree, sensor.mount.frame)
    if isinstance(sensor, ExternalWrench):
        push = pin.Force(truth.values[f"fx.{sensor.mount.frame}"])
        return place.actInv(push).vector
    if isinstance(sensor, ForceTorque):
        return sensor.sign * place.actInv(_wrench_behind(sensor, truth, k)).vector
    R_world_sensor = (data.oMi[k] * place).rotation
    if isinstance(sensor, Gyroscope):
        return pin.getFrameVelocity(model, data, k, place, pin.LOCAL).angular
    if isinstance(sensor, AngularAccelerometer):
        return pin.getFrameAcceleration(model, data, k, place, pin.LOCAL).angular
    classical = pin.getFrameClassicalAcceleration(model, data, k, place, pin.LOCAL).linear
    return classical - R_world_sensor.T @ model.gravity.linear


def _wrench_behind(sensor: ForceTorque, truth: Truth, k: int) -> pin.Force:
    """The wrench that a link receives through a joint, less what moves a part of the link."""
    model, data = truth.tree.robot.model, truth.data
    c = model.getJointId(sensor.joint)
    wrench = data.f[c] if c == k else -data.liMi[c].act(data.f[c])
    if sensor.sub_link is not None:
        part = pin.Inertia.FromDynamicParameters(np.array(sensor.sub_link))
        wrench = wrench - part * data.a_gf[k] - data.v[k].cross(part * data.v[k])
    return wrench
