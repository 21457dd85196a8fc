"""Sensors of every kind anywhere on a robot, and the truth that they read, from Pinocchio."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pinocchio as pin
import pytest

from bodysense.robot import Robot
from bodysense.sensors import SENSORS, Measurement, Mount, Sensor
from bodysense.spatial import Array, exp_so3, random_pi


@dataclass
class Scene:
    """A robot in motion, pushed everywhere; wrenches in link frames, about their origins."""

    robot: Robot
    q: Array
    v: Array
    a: Array
    fx: list[pin.Force]  # one per joint, that of the universe included
    data: pin.Data

    def place(self, frame: str, R: Array, p: Array) -> tuple[int, pin.SE3]:
        """Joint that moves a frame, and T_link_sensor of a placement in it."""
        found = self.robot.model.frames[self.robot.model.getFrameId(frame, pin.FrameType.BODY)]
        return found.parentJoint, found.placement * pin.SE3(R, p)

    def transmitted(self, joint: int) -> pin.Force:
        """Wrench on the child link of a joint by its parent, in the child's frame."""
        return self.data.f[joint]

    def torque(self, joint: int) -> float:
        """What a one-axis joint transmits along its axis."""
        return (np.asarray(self.data.joints[joint].S).reshape(6) @ self.data.f[joint].vector).item()

    def predict(self, m: Measurement) -> Array:
        """The readings that the equation of `Measurement` gives, without noise and friction."""
        model, links = self.robot.model, self.robot.link_names
        y = np.zeros(m.size)
        link = 0 if m.link is None else links.index(m.link) + 1
        joint = 0 if m.joint is None else model.getJointId(m.joint)
        if link:
            twist = self.data.v[link].vector
            y += m.acceleration @ self.data.a_gf[link].vector
            y += m.external @ self.fx[link].vector + m.linear @ twist
            y += np.einsum("i,kij,j->k", twist, m.quadratic, twist)
        if joint:
            k = model.joints[joint].idx_v
            y += m.torque * self.torque(joint) + m.joint_acceleration * self.a[k]
            y += m.position * self.q[model.joints[joint].idx_q] + m.velocity * self.v[k]
        if m.transmitted.any():
            w = self.transmitted(joint)
            if link != joint:  # the parent's side
                assert link == model.parents[joint]
                w = -self.data.liMi[joint].act(w)
            y += m.transmitted @ w.vector
        return y


@pytest.fixture
def scene_of(states_of) -> Callable[[Robot, np.random.Generator], Scene]:
    def build(robot: Robot, rng: np.random.Generator) -> Scene:
        q, v, a = (x[0] for x in states_of(robot, rng, 1))
        model, data = robot.model, robot.model.createData()
        fx = [pin.Force(rng.normal(scale=20.0, size=6)) for _ in range(model.njoints)]
        pin.forwardKinematics(model, data, q)  # places, which rnea leaves out
        pin.rnea(model, data, q, v, a, fx)
        return Scene(robot, q, v, a, fx, data)

    return build


@pytest.fixture
def sensor_of() -> Callable[..., Sensor]:
    """Build a sensor of some kind with random settings, on a link or at a joint."""

    def build(kind: str, rng: np.random.Generator, link: str, joint: str, **more: object) -> Sensor:
        cls = SENSORS[kind]
        m = cls.readings(len(more.get("channels", ())))  # type: ignore[arg-type]
        factor = rng.normal(size=(m, m))
        settings: dict[str, object] = {"name": kind, "covariance": factor @ factor.T}
        if kind in ("encoder", "joint_velocity", "joint_acceleration", "joint_torque"):
            settings["joint"] = joint
        else:
            settings["mount"] = Mount(link, exp_so3(rng.normal(size=3)), rng.normal(size=3))
        if kind == "force_torque":
            settings["sub_link"] = random_pi(rng, 1)[0]
        if kind == "skin_patch":
            settings["normals"] = [0.0, 0.0, 1.0] + 0.2 * rng.normal(size=(5, 3))
            settings["points"] = rng.normal(size=(5, 3))
        if kind == "directed_contact":
            settings["direction"] = rng.normal(size=3)
        return cls(**{**settings, **more})  # type: ignore[arg-type]

    return build


@pytest.fixture(scope="session")
def scene_like() -> Callable[..., Scene]:
    """Build the scene of given states of a robot that nothing touches."""

    def build(robot: Robot, q: Array, v: Array, a: Array) -> Scene:
        model, data = robot.model, robot.model.createData()
        pin.forwardKinematics(model, data, q, v, a)
        pin.rnea(model, data, q, v, a)
        return Scene(robot, q, v, a, [pin.Force.Zero()] * model.njoints, data)

    return build
