"""Robots that are pushed, as Pinocchio's forward dynamics move them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pinocchio as pin
import pytest

from bodysense.robot import Robot, load_robot
from bodysense.spatial.arrays import Array

LINK = {"arm": "panda_link5", "quadruped": "lf_lowerleg"}


@dataclass(frozen=True)
class Pushed:
    """A recording without noise, and what was behind it.

    Attributes:
        robot: the robot.
        t: (T,) times.
        q: (T, n) positions.
        v: (T, nv) velocities.
        tau: (T, n) torques.
        gravity: (T, 3) in the base.
        push: (T, 6) wrench on the link, in its frame.
        tau_ext: (T, nv) what it does to the joints, and the base.
    """

    robot: Robot
    t: Array
    q: Array
    v: Array
    tau: Array
    gravity: Array
    push: Array
    tau_ext: Array

    def noisy(
        self, rng: np.random.Generator, torque: float, velocity: float, twist: Array | float = 0.0
    ) -> dict[str, Array]:
        """Arguments of `MomentumObserver.estimate`, with noise of these standard deviations."""
        base, T = self.robot.nv - self.robot.n_joints, len(self.t)
        v = self.v + velocity * rng.normal(size=self.v.shape)
        v[:, :base] = self.v[:, :base] + twist * rng.normal(size=(T, base))
        tau = self.tau + torque * rng.normal(size=self.tau.shape)
        known = dict(t=self.t, q=self.q, dq=v[:, base:], tau=tau)
        return known | (dict(base_twist=v[:, :base], gravity=self.gravity) if base else {})


Drive = Callable[[float, Array, Array], Array]
Push = Callable[[float], Array]


def simulated(robot: Robot, link: str, q: Array, v: Array, drive: Drive, push: Push, T: int):
    """T samples at 500 Hz of a robot under `drive` and `push`, by Runge-Kutta steps of 1 ms."""
    model, data = robot.model, robot.model.createData()
    joint, n, h = robot.link_names.index(link) + 1, robot.n_joints, 1e-3
    rows: dict[str, list[Array]] = {
        name: [] for name in ("t", "q", "v", "tau", "gravity", "push", "tau_ext")
    }

    def acceleration(t, q, v):
        pushes = pin.StdVec_Force()
        for _ in range(model.njoints):
            pushes.append(pin.Force.Zero())
        pushes[joint] = pin.Force(push(t))
        tau = np.concatenate([np.zeros(model.nv - n), drive(t, q, v)])
        return pin.aba(model, data, q, v, tau, pushes)

    for k in range(T):
        t = k / 500.0
        J = pin.computeJointJacobian(model, data, q, joint)
        R = pin.Quaternion(q[3:7]).toRotationMatrix() if robot.floating_base else np.eye(3)
        sample = (
            t,
            q[model.nq - n :].copy(),
            v.copy(),
            drive(t, q, v),
            R.T @ model.gravity.linear,
            push(t),
            J.T @ push(t),
        )
        for name, value in zip(rows, sample, strict=True):
            rows[name].append(value)
        for _ in range(2):
            a1 = acceleration(t, q, v)
            middle = pin.integrate(model, q, 0.5 * h * v), v + 0.5 * h * a1
            a2 = acceleration(t + 0.5 * h, *middle)
            q, v, t = pin.integrate(model, q, h * middle[1]), v + h * a2, t + h
    return Pushed(robot, **{name: np.array(values) for name, values in rows.items()})


def rounded_push(force: Array, first: float, last: float) -> Push:
    """A force that rises and falls as sin²."""

    def push(t: float) -> Array:
        wrench = np.zeros(6)
        if first < t < last:
            wrench[:3] = np.asarray(force) * np.sin(np.pi * (t - first) / (last - first)) ** 2
        return wrench

    return push


@pytest.fixture(scope="session")
def arm() -> Robot:
    """Seven joints without friction."""
    fingers = {"panda_finger_joint1": 0.0, "panda_finger_joint2": 0.0}
    return load_robot("example:panda").with_locked_joints(fingers).with_friction("none")


@pytest.fixture(scope="session")
def pushed_arm(arm: Robot) -> Pushed:
    """An arm that follows a motion for six seconds, and is pushed from 2 to 4 s."""
    model, data = arm.model, arm.model.createData()
    lower, upper = arm.position_range
    middle, rng = 0.5 * (lower + upper), np.random.default_rng(5)
    w, phase = rng.uniform(1.0, 3.0, 7), rng.uniform(0.0, 6.0, 7)
    M = pin.crba(model, data, middle)
    free = 1.0 / np.diag(np.linalg.inv(np.triu(M) + np.triu(M, 1).T))

    def drive(t, q, v):
        q_d, v_d = middle + 0.4 * np.sin(w * t + phase), 0.4 * w * np.cos(w * t + phase)
        held = pin.computeGeneralizedGravity(model, data, q)
        return free * (200.0 * (q_d - q) + 25.0 * (v_d - v)) + held

    start = middle + 0.4 * np.sin(phase), 0.4 * w * np.cos(phase)
    push = rounded_push([10.0, -15.0, 8.0], 2.0, 4.0)
    return simulated(arm, LINK["arm"], *start, drive, push, 3000)


@pytest.fixture(scope="session")
def pushed_quadruped() -> Pushed:
    """A quadruped that falls with swinging legs, and is pushed at one of them from 1 s on."""
    robot = load_robot("example:hyq", floating_base=True)
    rng = np.random.default_rng(3)
    q, w = pin.neutral(robot.model), rng.uniform(2.0, 5.0, robot.n_joints)
    q[3:7] = np.array([0.1, 0.2, 0.05, 0.97]) / np.linalg.norm([0.1, 0.2, 0.05, 0.97])

    def drive(t, q, v):
        return 8.0 * np.sin(w * t) - 2.0 * v[6:] - 10.0 * q[7:]

    v = rng.normal(scale=0.3, size=robot.nv)
    push = rounded_push([10.0, 20.0, -5.0], 1.0, 5.0)
    return simulated(robot, LINK["quadruped"], q, v, drive, push, 1500)
