"""Robots with sensors that are wrong in a known way: readings by Pinocchio, faults, pushes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import pinocchio as pin

from bodysense import Robot, load_robot
from bodysense.robot import with_payload
from bodysense.sensors import (
    Accelerometer,
    ForceTorque,
    Gyroscope,
    JointTorque,
    Mount,
    Sensor,
    urdf_sensors,
    variances,
)
from bodysense.spatial import Array, exp_so3

ARMS = {
    "example:ur5": ("wrist_3_joint", "wrist_3_link"),
    "example:panda": ("panda_joint7", "panda_link7"),
    "tx40": ("joint6", "link6"),
}
"""Joint of the wrist sensor, and the link that carries a tool."""

SAMPLES, RATE = 1000, 100.0
WRENCH_STD = (0.3, 0.3, 0.3, 0.01, 0.01, 0.01)
ROUGH = 0.02  # standard deviation of masses in the model, as a share of them
ERRORS = (0.005, 0.1)  # rad/s, rad/s²: of differentiated positions


@dataclass(frozen=True)
class SensorSubject:
    """A log of a robot: what `check_sensors` takes.

    Attributes:
        robot: as its file has it.
        sensors: as their file has them.
        t: (T,) times [s].
        q: (T, n_joints) positions, and so on.
        readings: (T, m) by sensor.
        base: root, gravity and touched links of a floating robot.
    """

    robot: Robot
    sensors: tuple[Sensor, ...]
    t: Array
    q: Array
    dq: Array
    ddq: Array
    readings: dict[str, Array]
    base: dict[str, object] = field(default_factory=dict)

    def with_reading(self, name: str, change: Callable[[Array], Array]) -> SensorSubject:
        """The same log with one sensor's readings changed."""
        return replace(self, readings={**self.readings, name: change(self.readings[name])})


def arm(
    name: str, rng: np.random.Generator, *, tool: float = 1.0, pushes: int = 0
) -> SensorSubject:
    """An arm with a tool, a wrist sensor, an IMU on its last link and torques of all joints."""
    joint, link = ARMS[name]
    robot = load_robot(name)
    if tool > 0.0:
        com = rng.uniform([-0.05, -0.05, 0.03], [0.05, 0.05, 0.12])
        robot = with_payload(robot, tool, link=link, com=com, inertia=0.002 * tool * np.eye(3))
    mount = Mount(link, exp_so3(rng.uniform(-2.0, 2.0, 3)), rng.uniform(-0.05, 0.05, 3))
    sensors: list[Sensor] = [
        ForceTorque(name="wrist", joint=joint, mount=mount, covariance=variances(WRENCH_STD, 6)),
        Gyroscope(name="gyro", mount=mount, covariance=variances(0.005, 3)),
        Accelerometer(name="acc", mount=mount, covariance=variances(0.1, 3)),
    ]
    for name_ in robot.joint_names:
        noise = variances(0.2, 1)
        sensors.append(JointTorque(name=f"tau.{name_}", joint=name_, covariance=noise))
    return _recorded(robot, sensors, rng, pushes=pushes, pushed=(link,))


def icub(rng: np.random.Generator, *, floats: bool = False, pushes: int = 0) -> SensorSubject:
    """The humanoid on a stand, which is held or sways, with its six force/torque sensors."""
    robot = load_robot("example:icub")
    std = {"force_torque": WRENCH_STD}
    tags = urdf_sensors(robot.source.data, robot, std=std).sensors if robot.source else ()
    sensors: list[Sensor] = [s for s in tags if isinstance(s, ForceTorque)]
    for link in ("base_link", "head", "chest"):
        mount = Mount(link, exp_so3(rng.uniform(-2.0, 2.0, 3)), rng.uniform(-0.05, 0.05, 3))
        noise = variances(0.005, 3), variances(0.1, 3)
        sensors += [
            Gyroscope(name=f"gyro.{link}", mount=mount, covariance=noise[0]),
            Accelerometer(name=f"acc.{link}", mount=mount, covariance=noise[1]),
        ]
    return _recorded(robot, sensors, rng, pushes=pushes, pushed=("l_hand", "r_hand"), floats=floats)


def _recorded(
    robot: Robot,
    sensors: Sequence[Sensor],
    rng: np.random.Generator,
    *,
    pushes: int,
    pushed: Sequence[str],
    floats: bool = False,
) -> SensorSubject:
    t = np.arange(SAMPLES) / RATE
    q, dq, ddq = _motion(robot, rng, t)
    at, v, a = _with_base(robot, rng, t, q, dq, ddq, floats)
    model = _rough(robot, rng).model
    data = model.createData()
    wrench = _pushes(rng, t, pushes)
    link = (
        model.getJointId(robot.joint_names[0]) * 0
        + robot.link_names.index(str(rng.choice(pushed)))
        + 1
    )
    probes = [_Probe.of(robot, sensor) for sensor in sensors]
    rows = [np.empty((SAMPLES, sensor.size)) for sensor in sensors]
    for k in range(SAMPLES):
        fext = [pin.Force.Zero()] * model.njoints
        fext[link] = pin.Force(wrench[k])
        pin.forwardKinematics(model, data, at[k], v[k], a[k])
        pin.rnea(model, data, at[k], v[k], a[k], fext)
        for probe, values in zip(probes, rows, strict=True):
            values[k] = probe.read(model, data)
    readings = {}
    for sensor, values in zip(sensors, rows, strict=True):
        noise = rng.multivariate_normal(np.zeros(sensor.size), sensor.covariance, SAMPLES)
        readings[sensor.name] = values + noise
    base: dict[str, object] = {}
    if robot.floating_base:
        R = pin.Quaternion(at[0, 3:7]).toRotationMatrix()
        base = {"touched": ("base_link",)}
        if not floats:
            base = {"root": "base_link", "gravity": R.T @ model.gravity.linear}
    dq = dq + rng.normal(0.0, ERRORS[0], dq.shape)
    ddq = ddq + rng.normal(0.0, ERRORS[1], ddq.shape)
    return SensorSubject(robot, tuple(sensors), t, q, dq, ddq, readings, base)


def _motion(robot: Robot, rng: np.random.Generator, t: Array) -> tuple[Array, Array, Array]:
    """Joints that swing about the middle of what they can do, in three harmonics each."""
    lower, upper = robot.position_range
    lower, upper = np.maximum(lower, -1.5), np.minimum(upper, 1.5)
    middle, half = 0.5 * (lower + upper), 0.5 * (upper - lower)
    shape = (3, 1, robot.n_joints)
    share = rng.dirichlet(np.ones(3), robot.n_joints).T[:, None]
    width = half * rng.uniform(0.3, 0.7, robot.n_joints) * share
    omega = 2.0 * np.pi * rng.uniform(0.1, 0.5, shape)
    phase = omega * t[:, None] + rng.uniform(0.0, 2.0 * np.pi, shape)
    s, c = np.sin(phase), np.cos(phase)
    motion = (width * s, width * omega * c, -width * omega**2 * s)
    q, dq, ddq = (x.sum(axis=0) for x in motion)
    return middle + q, dq, ddq


def _with_base(
    robot: Robot,
    rng: np.random.Generator,
    t: Array,
    q: Array,
    dq: Array,
    ddq: Array,
    floats: bool,
) -> tuple[Array, Array, Array]:
    """Pinocchio's q, v, a, with a base that is bolted, held at some angle, or sways."""
    if not robot.floating_base:
        return q, dq, ddq
    T = len(t)
    at, v, a = np.zeros((T, robot.nq)), np.zeros((T, robot.nv)), np.zeros((T, robot.nv))
    at[:, 7:], v[:, 6:], a[:, 6:] = q, dq, ddq
    tilt, axis = exp_so3(rng.uniform(-0.3, 0.3, 3)), rng.normal(size=3)
    axis /= np.linalg.norm(axis)
    width, omega = (0.3, 2.0 * np.pi * 0.3) if floats else (0.0, 1.0)
    for k in range(T):
        s, c = np.sin(omega * t[k]), np.cos(omega * t[k])
        at[k, 3:7] = pin.Quaternion(tilt @ exp_so3(width * s * axis)).coeffs()
        v[k, 3:6], a[k, 3:6] = width * omega * c * axis, -width * omega**2 * s * axis
    return at, v, a


def _rough(robot: Robot, rng: np.random.Generator) -> Robot:
    """The robot as it really is: masses and inertias a little off those of its file."""
    theta = robot.theta.copy()
    for k in range(robot.layout.n_links):
        theta[robot.layout.link(k)] *= 1.0 + rng.normal(0.0, ROUGH)
    return robot.with_parameters(theta)


def _pushes(rng: np.random.Generator, t: Array, count: int) -> Array:
    """(T, 6) wrench that comes and goes within 0.5 to 2 s each."""
    wrench = np.zeros((len(t), 6))
    for _ in range(count):
        duration, direction = rng.uniform(0.5, 2.0), rng.normal(size=6)
        size = rng.uniform(10.0, 50.0) * np.array([1.0] * 3 + [0.1] * 3)
        phase = (t - rng.uniform(t[0], t[-1] - duration)) / duration
        inside = (phase > 0.0) & (phase < 1.0)
        shape = np.where(inside, np.minimum(1.0, 5.0 * np.minimum(phase, 1.0 - phase)), 0.0)
        wrench += shape[:, None] * size * direction / np.linalg.norm(direction)
    return wrench


class _Probe(NamedTuple):
    """A sensor as Pinocchio has it: its joint, and its place on the link of that joint."""

    sensor: Sensor
    joint: int
    place: pin.SE3

    @classmethod
    def of(cls, robot: Robot, sensor: Sensor) -> _Probe:
        if isinstance(sensor, JointTorque):
            return cls(sensor, robot.model.getJointId(sensor.joint), pin.SE3.Identity())
        if isinstance(sensor, ForceTorque):
            m = sensor.measurement(robot)
            located = (sensor.mount or Mount(str(m.link))).locate(robot, sensor.who)
            joint = robot.model.getJointId(m.joint)
        elif isinstance(sensor, Gyroscope | Accelerometer):
            located = sensor.placement(robot)
            joint = robot.link_names.index(located.link) + 1
        else:
            raise TypeError(f"nothing is known of what {sensor} reads")
        return cls(sensor, joint, pin.SE3(located.R, located.p))

    def read(self, model: pin.Model, data: pin.Data) -> Array:
        """What it reads, by Pinocchio's frames and forces."""
        sensor, j, place = self.sensor, self.joint, self.place
        if isinstance(sensor, JointTorque):
            return np.array([data.tau[model.joints[j].idx_v]])
        if isinstance(sensor, ForceTorque):
            f = data.f[j]
            if sensor.sub_link is not None:
                body = pin.Inertia.FromDynamicParameters(np.array(sensor.sub_link))
                f = f - (body * data.a_gf[j] + data.v[j].cross(body * data.v[j]))
            return sensor.sign * np.array(place.actInv(f).vector)
        if isinstance(sensor, Gyroscope):
            return np.array(pin.getFrameVelocity(model, data, j, place, pin.LOCAL).angular)
        classical = pin.getFrameClassicalAcceleration(model, data, j, place, pin.LOCAL).linear
        return np.array(classical - (data.oMi[j] * place).rotation.T @ model.gravity.linear)
