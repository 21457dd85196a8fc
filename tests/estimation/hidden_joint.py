"""A small arm whose elbow has no encoder but an IMU behind it, as Pinocchio says it records."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pinocchio as pin
from pushed_arm import ARM

from bodysense.logs import Log
from bodysense.robot import Robot, load_robot
from bodysense.spatial.arrays import Array

BIAS = np.array([0.03, -0.02, 0.04])  # rad/s
STD = {"q": 5e-4, "gyro": 0.01, "acc": 0.05, "tau": 0.05, "imu": 0.01}
PLACE = pin.SE3(pin.rpy.rpyToMatrix(0.3, -0.2, 0.5), np.array([0.02, 0.01, 0.1]))

SENSORS = """
sensors:
  encoders: {kind: encoder, joint: all, std: 0.0005}
  gyro: {kind: gyroscope, link: forearm, xyz: [0.02, 0.01, 0.1], rpy: [0.3, -0.2, 0.5], std: 0.01,
         bias_std: 0.05}
  acc: {kind: accelerometer, link: forearm, xyz: [0.02, 0.01, 0.1], rpy: [0.3, -0.2, 0.5],
        std: 0.05}
  torque: {kind: joint_torque, joint: all, std: 0.05}
external_wrenches:
  forearm: {std: [20, 20, 20, 2, 2, 2]}
"""


@dataclass(frozen=True)
class Hidden:
    """A recording without q.elbow, and the truth: q, dq, tau (T, 3)."""

    robot: Robot
    log: Log
    q: Array
    dq: Array
    tau: Array


def hidden_joint(
    rng: np.random.Generator, *, rate: float = 100.0, seconds: float = 4.0, elbow: float = 0.9
) -> Hidden:
    """Simulate it: the arm moves from rest, and its elbow about some angle."""
    robot = load_robot(ARM)
    model, data = robot.model, robot.model.createData()
    t = np.arange(int(seconds * rate) + 1) / rate
    w, width = np.array([2.0, 3.0, 4.0]), np.array([0.5, 0.4, 0.5])
    middle = np.array([0.2, -0.3, elbow])
    q = middle + width * (1.0 - np.cos(np.outer(t, w)))
    v, a = width * w * np.sin(np.outer(t, w)), width * w**2 * np.cos(np.outer(t, w))
    parts: dict[str, list[Array]] = {"tau": [], "gyro": [], "acc": [], "quat": []}
    for k in range(t.size):
        pin.rnea(model, data, q[k], v[k], a[k])
        parts["tau"].append(data.tau - model.armature * a[k])
        pin.forwardKinematics(model, data, q[k], v[k], a[k])
        R = data.oMi[3].rotation @ PLACE.rotation
        parts["gyro"].append(pin.getFrameVelocity(model, data, 3, PLACE, pin.LOCAL).angular + BIAS)
        classical = pin.getFrameClassicalAcceleration(model, data, 3, PLACE, pin.LOCAL).linear
        parts["acc"].append(classical - R.T @ model.gravity.linear)
        turn = pin.exp3(STD["imu"] * rng.normal(size=3))
        parts["quat"].append(pin.Quaternion(R @ turn).coeffs() * rng.choice([-1.0, 1.0]))
    read = {name: np.array(values) for name, values in parts.items()}
    for name in ("tau", "gyro", "acc"):
        read[name] = read[name] + STD[name] * rng.normal(size=read[name].shape)
    noisy = q + STD["q"] * rng.normal(size=q.shape)
    joints = robot.joint_names
    channels = {f"q.{joint}": noisy[:, j] for j, joint in enumerate(joints) if joint != "elbow"}
    channels |= {f"tau.{joint}": read["tau"][:, j] for j, joint in enumerate(joints)}
    for name in ("acc", "gyro"):
        channels |= {f"{name}.{end}": read[name][:, j] for j, end in enumerate("xyz")}
    channels |= {f"quat.imu.{end}": read["quat"][:, j] for j, end in enumerate("xyzw")}
    true = np.array(parts["tau"])
    return Hidden(robot, Log.of(t, channels), q, v, true)
