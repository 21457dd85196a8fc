"""Robots whose state is to be estimated, with readings computed by Pinocchio.

The planar chain of paper 000's simulation, and an iCub without encoders at elbows and wrists.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pinocchio as pin

from bodysense import Robot, load_robot
from bodysense.estimation.map_dynamics.body_tree import BodyTree
from bodysense.sensors import (
    Accelerometer,
    Encoder,
    ForceTorque,
    Gyroscope,
    JointTorque,
    Mount,
    Sensor,
    variances,
)
from bodysense.spatial import Array

GYROSCOPE, ACCELEROMETER, FORCE = 1e-3, 0.05, 0.1  # rad/s, m/s², N and N·m: small noise
HELD = (0.0, 0.0, -9.81)  # m/s² in the frame of a base that is held upright
TAPER = 0.95
HIDDEN = ("l_elbow", "l_wrist_prosup", "r_elbow", "r_wrist_prosup")
"""Joints whose encoders are not used."""


class Recorded(NamedTuple):
    """What Pinocchio says of T samples.

    Attributes:
        q: (T, n) positions.
        dq: (T, n) velocities.
        d: (T, size) the unknowns of all bodies, in the order of the tree.
        readings: (T, m) of the sensors, without noise.
    """

    q: Array
    dq: Array
    d: Array
    readings: Array


def planar_chain(rng: np.random.Generator, n: int = 10, gravity: Sequence[float] = ()) -> Robot:
    """Build a chain of parallel axes with random links, each shorter than the one before.

    The first is a metre long, as those of the toolbox that paper 000 used. Gravity lies in the
    plane of the chain unless it is given.
    """
    model = pin.Model()
    model.name = "planar chain"
    for j in range(n):
        above, length = TAPER ** (j - 1) if j else 0.0, TAPER**j
        place = pin.SE3(np.eye(3), np.array([above, 0.0, 0.0]))
        model.addJoint(j, pin.JointModelRZ(), place, f"joint{j + 1}")
        mass = length**3 * rng.uniform(0.5, 1.5)
        centre = length * (np.array([0.5, 0.0, 0.0]) + rng.normal(0.0, 0.05, 3))
        A = length * rng.normal(size=(3, 3))
        # of the mass about its centre
        spread = mass * (0.025 * length**2 * np.eye(3) + 0.003 * A @ A.T)
        link = pin.Inertia(mass, centre, np.trace(spread) * np.eye(3) - spread)
        model.appendBodyToJoint(j + 1, link, pin.SE3.Identity())
        frame = model.addJointFrame(j + 1)
        model.addBodyFrame(f"link{j + 1}", j + 1, pin.SE3.Identity(), frame)
    model.gravity.linear = np.array(gravity if len(gravity) else (0.0, -9.81, 0.0))
    return Robot.from_pinocchio(model)


def planar_sensors(robot: Robot, rng: np.random.Generator) -> list[Sensor]:
    """Mount four sensors a joint, with a gyroscope and an accelerometer on each link."""

    def mount(link: str) -> Mount:
        return Mount.from_xyz_rpy(link, rng.uniform(-0.2, 0.2, 3), rng.uniform(-2.0, 2.0, 3))

    def gyroscope(name: str, link: str) -> Sensor:
        return Gyroscope(name=name, mount=mount(link), covariance=variances(GYROSCOPE, 3))

    def accelerometer(name: str, link: str) -> Sensor:
        return Accelerometer(name=name, mount=mount(link), covariance=variances(ACCELEROMETER, 3))

    sensors: list[Sensor] = []
    for link in robot.link_names:
        sensors += [gyroscope(f"gyro.{link}", link), accelerometer(f"acc.{link}", link)]
    while len(sensors) < 4 * robot.n_joints:
        k, kind, name = int(rng.integers(robot.n_joints)), rng.integers(4), f"more{len(sensors)}"
        joint, link = robot.joint_names[k], robot.link_names[k]
        if kind == 0:
            wrench = variances(FORCE, 6)
            sensors.append(ForceTorque(name=name, mount=mount(link), covariance=wrench))
        elif kind == 1:
            sensors.append(JointTorque(name=name, joint=joint, covariance=variances(FORCE, 1)))
        else:
            sensors.append((gyroscope if kind == 2 else accelerometer)(name, link))
    return sensors


def icub_sensors(robot: Robot) -> list[Sensor]:
    """Mount what paper 000 used on its iCub: 8 accelerometers, 3 gyroscopes, 6 force sensors."""
    sensors: list[Sensor] = [
        Encoder(name=f"encoder.{joint}", joint=joint, covariance=variances(1e-3, 1))
        for joint in robot.joint_names
        if joint not in HIDDEN
    ]
    ends = ("l_hand", "r_hand", "head")
    for link in (*ends, "chest", "l_shoulder_3", "r_shoulder_3", "l_ankle_2", "r_ankle_2"):
        noise = variances(0.1, 3)
        sensors.append(Accelerometer(name=f"acc.{link}", mount=Mount(link), covariance=noise))
    for link in ends:
        noise = variances(0.01, 3)
        sensors.append(Gyroscope(name=f"gyro.{link}", mount=Mount(link), covariance=noise))
    for part in ("ankle_2", "upper_leg", "shoulder_3"):
        for side in ("l", "r"):
            link, noise = f"{side}_{part}", variances([0.3] * 3 + [0.03] * 3, 6)
            sensors.append(ForceTorque(name=f"ft.{link}", mount=Mount(link), covariance=noise))
    return sensors


def icub() -> Robot:
    """Load the humanoid; its base is to be held."""
    return load_robot("example:icub")


def repetitive(
    robot: Robot, T: int, rate: float, rng: np.random.Generator
) -> tuple[Array, Array, Array, Array]:
    """Move all joints to and fro from rest: times (T,), q, dq, ddq (T, n)."""
    n = robot.n_joints
    t = np.arange(T) / rate
    width = rng.uniform(0.2, 0.4, n) * rng.choice([-1.0, 1.0], n)
    start, omega = rng.uniform(-0.3, 0.3, n), 2.0 * np.pi * rng.uniform(0.3, 0.6, n)
    start[[k for k, name in enumerate(robot.joint_names) if name.endswith("elbow")]] = 1.0
    s, c = np.sin(omega * t[:, None]), np.cos(omega * t[:, None])
    return t, start + width * (1.0 - c), width * omega * s, width * omega**2 * c


def recorded(
    tree: BodyTree, sensors: Sequence[Sensor], q: Array, dq: Array, ddq: Array
) -> Recorded:
    """Compute everything of a robot whose base does not move and that nothing touches."""
    robot, model = tree.robot, tree.robot.model
    data, extra = model.createData(), model.nv - robot.n_joints
    d, readings = [], []
    for k in range(len(q)):
        at = np.concatenate([np.eye(model.nq - robot.n_joints)[-1:].ravel(), q[k]])
        v, a = (np.concatenate([np.zeros(extra), x[k]]) for x in (dq, ddq))
        pin.forwardKinematics(model, data, at, v, a)
        pin.rnea(model, data, at, v, a)
        bodies = []
        for i in tree.with_unknowns:
            c = model.getJointId(tree.joint_name(i))
            place = model.joints[c].idx_v
            torque = data.tau[place] - model.armature[place] * a[place]
            parts = (data.a_gf[c].vector, data.f[c].vector, [torque], np.zeros(6), [a[place]])
            bodies.append(np.concatenate(parts))
        d.append(np.concatenate(bodies))
        values = [_reading(robot, sensor, data, at, v) for sensor in sensors]
        readings.append(np.concatenate(values))
    return Recorded(q, dq, np.array(d), np.array(readings))


def _reading(robot: Robot, sensor: Sensor, data: pin.Data, q: Array, v: Array) -> Array:
    model = robot.model
    if isinstance(sensor, (Encoder, JointTorque)):
        joint = model.joints[model.getJointId(sensor.joint)]
        return np.array([q[joint.idx_q] if isinstance(sensor, Encoder) else data.tau[joint.idx_v]])
    if not isinstance(sensor, (Gyroscope, Accelerometer, ForceTorque)) or sensor.mount is None:
        raise TypeError(f"nothing is known of what {sensor} reads")
    k = robot.link_names.index(sensor.mount.frame) + 1
    place = pin.SE3(np.array(sensor.mount.R), np.array(sensor.mount.p))
    if isinstance(sensor, ForceTorque):
        return np.array(place.actInv(data.f[k]).vector)
    if isinstance(sensor, Gyroscope):
        return np.array(pin.getFrameVelocity(model, data, k, place, pin.LOCAL).angular)
    classical = pin.getFrameClassicalAcceleration(model, data, k, place, pin.LOCAL).linear
    gravity = (data.oMi[k] * place).rotation.T @ model.gravity.linear
    return np.array(classical - gravity)
