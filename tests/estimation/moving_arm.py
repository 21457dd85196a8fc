"""A small arm whose drives have friction, in motion under pushes, as Pinocchio says it reads."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pinocchio as pin

from bodysense.estimation import Assumptions, GaussianPrior, MapDynamics, Posterior, Sample
from bodysense.robot import Robot, load_robot
from bodysense.sensors import (
    Accelerometer,
    ForceTorque,
    JointAcceleration,
    JointTorque,
    Mount,
    Sensor,
    variances,
)
from bodysense.spatial.arrays import Array

ARM = Path(__file__).resolve().parents[2] / "examples" / "robots" / "arm.urdf"
VISCOUS, COULOMB = 0.3, 0.8  # N·m·s/rad and N·m of each drive
STD = {"tau": 0.05, "wrist": (0.2, 0.2, 0.2, 0.02, 0.02, 0.02), "acc": 0.05, "ddq": 0.3}


@dataclass(frozen=True)
class Moving:
    """A recording: q, dq, ddq and tau (T, 3), wrench on the forearm (T, 6), readings y (T, m).

    Readings have no noise; those of the drives hold friction and what turns the rotors.
    """

    robot: Robot
    rate: float
    q: Array
    dq: Array
    ddq: Array
    tau: Array
    wrench: Array
    y: Array

    def noisy(self, problem: MapDynamics, rng: np.random.Generator) -> Array:
        sigma = np.concatenate([np.sqrt(np.diag(s.covariance)) for s in problem.sensors])
        return self.y + sigma * rng.normal(size=self.y.shape)

    def samples(self, y: Array, q: Array | None = None, dq: Array | None = None) -> list[Sample]:
        q, dq = self.q if q is None else q, self.dq if dq is None else dq
        return [Sample(k / self.rate, q[k], dq[k], y[k]) for k in range(len(y))]

    def errors(self, found: list[Posterior]) -> Array:
        """(T, 9) of the wrench on the forearm and the torques, in standard deviations."""
        truth = np.concatenate([self.wrench, self.tau], axis=1)[: len(found)]
        names = ["fx.forearm", *(f"tau.{joint}" for joint in self.robot.joint_names)]
        mean = np.stack([np.concatenate([p[name] for name in names]) for p in found])
        sigma = np.stack([np.concatenate([p.sigma(name) for name in names]) for p in found])
        return (mean - truth) / sigma


def arm() -> Robot:
    return load_robot(ARM).with_friction("coulomb", coefficients={"Fv": VISCOUS, "Fc": COULOMB})


def problem_of(robot: Robot, *, bias: float = 0.0, ddq: float = STD["ddq"]) -> MapDynamics:
    """Drives, a wrist, an accelerometer and joint accelerations; the forearm may be pushed."""
    sensors: list[Sensor] = [
        JointTorque(name=f"tau.{j}", joint=j, side="drive", covariance=variances(STD["tau"], 1))
        for j in robot.joint_names
    ]
    wrist = dict(name="wrist", joint="elbow", covariance=variances(STD["wrist"], 6))
    sensors.append(ForceTorque(**wrist, bias_sigma=np.full(6, bias) if bias else None))
    place = Mount("forearm", p=np.array([0.0, 0.0, 0.1]))
    sensors.append(Accelerometer(name="acc", mount=place, covariance=variances(STD["acc"], 3)))
    sensors += [
        JointAcceleration(name=f"ddq.{j}", joint=j, covariance=variances(ddq, 1))
        for j in robot.joint_names
    ]
    pushed = {"forearm": GaussianPrior.zero(6, [50.0] * 3 + [10.0] * 3)}
    return MapDynamics(robot, sensors, Assumptions(wrenches=pushed))


def moving(
    T: int, *, rate: float = 1000.0, push: Array | None = None, speed: float = 1.0
) -> Moving:
    """Joints swing for T samples; `push` (T, 6) is on the forearm, in its frame."""
    robot = arm()
    model, data = robot.model, robot.model.createData()
    t = np.arange(T) / rate
    w, phase = speed * np.array([2.0, 3.0, 4.0]), np.array([0.3, 1.0, 2.0])
    q = 0.6 * np.sin(np.outer(t, w) + phase)
    v, a = 0.6 * w * np.cos(np.outer(t, w) + phase), -0.6 * w**2 * np.sin(np.outer(t, w) + phase)
    wrench = np.zeros((T, 6)) if push is None else push
    place, tau, y = pin.SE3(np.eye(3), np.array([0.0, 0.0, 0.1])), [], []
    for k in range(T):
        pushes = pin.StdVec_Force()
        for _ in range(model.njoints - 1):
            pushes.append(pin.Force.Zero())
        pushes.append(pin.Force(wrench[k]))
        pin.rnea(model, data, q[k], v[k], a[k], pushes)
        link = data.tau - model.armature * a[k]
        wrist = np.array(data.f[3].vector)
        pin.forwardKinematics(model, data, q[k], v[k], a[k])
        classical = pin.getFrameClassicalAcceleration(model, data, 3, place, pin.LOCAL).linear
        felt = classical - data.oMi[3].rotation.T @ model.gravity.linear
        drive = data.tau + VISCOUS * v[k] + COULOMB * np.sign(v[k])
        tau.append(link)
        y.append(np.concatenate([drive, wrist, felt, a[k]]))
    return Moving(robot, rate, q, v, a, np.array(tau), wrench, np.array(y))
