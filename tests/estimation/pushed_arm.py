"""A small arm in motion that is pushed, as Pinocchio says that its sensors record it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pinocchio as pin

from bodysense.logs import Log
from bodysense.robot import Robot, load_robot
from bodysense.spatial.arrays import Array

ARM = Path(__file__).resolve().parents[2] / "examples" / "robots" / "arm.urdf"
PUSH = (1.5, 2.5)  # s
WRENCH = np.array([12.0, -20.0, 5.0, 0.5, 1.0, -0.3])  # on the forearm, in its frame
STD = {"tau": 0.05, "wrist": (0.2, 0.2, 0.2, 0.02, 0.02, 0.02), "acc": 0.05, "gyro": 0.01}

SENSORS = """
sensors:
  torque: {kind: joint_torque, joint: all, std: 0.05}
  wrist: {kind: force_torque, joint: elbow, std: [0.2, 0.2, 0.2, 0.02, 0.02, 0.02]}
  acc: {kind: accelerometer, link: forearm, xyz: [0, 0, 0.1], std: 0.05}
  gyro: {kind: gyroscope, link: forearm, std: 0.01}
  motion: {kind: joint_acceleration, joint: all}
external_wrenches:
  forearm: {std: [50, 50, 50, 10, 10, 10]}
"""


@dataclass(frozen=True)
class Pushed:
    """A recording and what was behind it: tau (T, 3), wrench (T, 6) and joint accelerations."""

    robot: Robot
    log: Log
    tau: Array
    wrench: Array
    ddq: Array


def pushed_arm(
    rng: np.random.Generator, *, rate: float = 100.0, seconds: float = 4.0, noise: float = 1.0
) -> Pushed:
    """Simulate the recording; `noise` scales the standard deviations of `SENSORS`."""
    robot = load_robot(ARM)
    model, data = robot.model, robot.model.createData()
    t = np.arange(int(seconds * rate) + 1) / rate
    w, phase = np.array([2.0, 3.0, 4.0]), np.array([0.3, 1.0, 2.0])
    q = 0.6 * np.sin(np.outer(t, w) + phase)
    v, a = 0.6 * w * np.cos(np.outer(t, w) + phase), -0.6 * w**2 * np.sin(np.outer(t, w) + phase)
    wrench = np.where(((t >= PUSH[0]) & (t < PUSH[1]))[:, None], WRENCH, 0.0)
    readings: dict[str, list[Array]] = {"tau": [], "wrist": [], "acc": [], "gyro": []}
    place = pin.SE3(np.eye(3), np.array([0.0, 0.0, 0.1]))
    for k in range(t.size):
        pushes = pin.StdVec_Force()
        for _ in range(model.njoints - 1):
            pushes.append(pin.Force.Zero())
        pushes.append(pin.Force(wrench[k]))
        pin.rnea(model, data, q[k], v[k], a[k], pushes)
        readings["tau"].append(data.tau - model.armature * a[k])
        readings["wrist"].append(np.array(data.f[3].vector))
        pin.forwardKinematics(model, data, q[k], v[k], a[k])
        classical = pin.getFrameClassicalAcceleration(model, data, 3, place, pin.LOCAL).linear
        readings["acc"].append(classical - data.oMi[3].rotation.T @ model.gravity.linear)
        readings["gyro"].append(np.array(data.v[3].angular))
    true = {name: np.array(values) for name, values in readings.items()}
    read = {
        name: values + noise * np.asarray(STD[name]) * rng.normal(size=values.shape)
        for name, values in true.items()
    }
    channels = {f"q.{joint}": q[:, j] for j, joint in enumerate(robot.joint_names)}
    channels |= {f"tau.{joint}": read["tau"][:, j] for j, joint in enumerate(robot.joint_names)}
    wrist = ("fx", "fy", "fz", "mx", "my", "mz")
    channels |= {f"wrist.{end}": read["wrist"][:, j] for j, end in enumerate(wrist)}
    for name in ("acc", "gyro"):
        channels |= {f"{name}.{end}": read[name][:, j] for j, end in enumerate("xyz")}
    return Pushed(robot, Log.of(t, channels), true["tau"], wrench, a)
