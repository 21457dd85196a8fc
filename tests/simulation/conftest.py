"""A plain simulator around Pinocchio's Python binding, which the compiled one has to equal."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pinocchio as pin
import pytest

from bodysense.excitation import FourierTrajectory, Trajectory
from bodysense.robot import Controller, FrictionModel, Robot, register_friction_model
from bodysense.spatial import Array

Acceleration = Callable[[Array, Array, Array], Array]


class Reference(NamedTuple):
    """One run at the control rate: (n_t, n) each."""

    q: Array
    v: Array
    a: Array
    tau: Array


class FrictionByFormula:
    """Friction (n,) of every law, joint by joint and for coupled motors."""

    def __init__(self, robot: Robot, theta: Array | None = None):
        layout, n = robot.layout, robot.n_joints
        law = robot.friction.model
        theta = robot.theta if theta is None else theta
        self.terms = {t: theta[layout.friction(t)] for t in layout.friction_terms}
        shape = dict(zip(law.shape, robot.friction.shape.T, strict=True))
        self.width = shape.get("width", np.zeros(n))
        self.vs, self.delta = shape.get("vs"), shape.get("delta")
        self.v0 = shape.get("v0")
        self.bristles = law.name == "lugre"
        if self.bristles:
            self.sigma0, self.sigma1 = shape["sigma0"], shape["sigma1"]
        self.motors = [
            (term, value, robot.actuators.coupling[motor], self.width[motor])
            for (term, motor), value in zip(layout.coupled, theta[layout.coupling], strict=True)
        ]

    def torque(self, v: Array, z: Array) -> Array:
        F, zero = self.terms, np.zeros_like(v)
        if self.bristles:
            slope = v - self.decay(v) * z
            slope[self.level(v) <= 0.0] = 0.0
            tau = self.sigma0 * z + self.sigma1 * slope + F["Fv"] * v
        elif self.v0 is not None:
            tau = F["Fv"] * v + F["Fa"] * np.arctan(v / self.v0) + F["Fq"] * v * np.abs(v)
        else:
            s = smooth_sign(v, self.width)
            level = F.get("Fc", zero) if self.vs is None else self.level(v)
            tau = F.get("Fv", zero) * v + level * s + F.get("Fo", zero)
        for term, value, c, width in self.motors:
            if term == "Fvm":  # what falls on the joints' own axes is counted in Fv
                tau = tau + value * (c * (c @ v) - c * c * v)
            elif term == "Fcm":
                tau = tau + value * c * smooth_sign(np.array([c @ v]), np.array([width]))[0]
        return tau

    def level(self, v: Array) -> Array:
        """g(v) = Fc + (Fs - Fc) exp(-|v / vs|^delta)."""
        F = self.terms
        return F["Fc"] + (F["Fs"] - F["Fc"]) * np.exp(-((np.abs(v) / self.vs) ** self.delta))

    def decay(self, v: Array) -> Array:
        level = self.level(v)
        return self.sigma0 * np.abs(v) / np.where(level > 0.0, level, np.inf)

    def advance(self, v: Array, z: Array, step: float) -> Array:
        """z settles exponentially at sign(v) g(v) / sigma0 while v stays."""
        if not self.bristles:
            return z
        settled = np.sign(v) * self.level(v) / self.sigma0
        after = settled + (z - settled) * np.exp(-self.decay(v) * step)
        return np.where((v == 0.0) | (self.level(v) <= 0.0), z, after)


def smooth_sign(v: Array, width: Array) -> Array:
    smooth = width > 0.0
    return np.where(smooth, np.tanh(v / np.where(smooth, width, 1.0)), np.sign(v))


def pinocchio_acceleration(robot: Robot) -> Acceleration:
    """Pinocchio's aba, or a dense solution where a motor's inertia couples two joints."""
    model, data = robot.model, robot.model.createData()
    shared = np.zeros((robot.n_joints, robot.n_joints))
    motors = robot.theta[robot.layout.coupling]
    for (term, motor), value in zip(robot.layout.coupled, motors, strict=True):
        c = robot.actuators.coupling[motor]
        shared += value * (term == "Iam") * (np.outer(c, c) - np.diag(c * c))

    def dense(q: Array, v: Array, net: Array) -> Array:
        M = np.triu(pin.crba(model, data, q))
        M = M + np.triu(M, 1).T + shared
        return np.linalg.solve(M, net - pin.nonLinearEffects(model, data, q, v))

    return dense if shared.any() else lambda q, v, net: pin.aba(model, data, q, v, net)


def simulate_plainly(
    robot: Robot,
    trajectory: Trajectory,
    *,
    controller: Controller | None = None,
    integrator: str = "euler",
    substeps: int = 1,
    limit: Array | float = np.inf,
    feed_forward: Array | None = None,
    noise: Array | None = None,
    differentiate: bool = False,
    start: tuple[Array, Array] | None = None,
    acceleration: Acceleration | None = None,
    friction: FrictionByFormula | None = None,
) -> Reference:
    """Simulate as `bodysense.simulation.rollout` says it does; `noise` (n_t, n) is given."""
    controller = controller or robot.controller
    friction = friction or FrictionByFormula(robot)
    accelerate = acceleration or pinocchio_acceleration(robot)
    C, K = robot.actuators.coupling, robot.actuators.drive_gain
    t, q_d, v_d, _ = trajectory.sample(controller.rate)
    T = 1.0 / controller.rate
    h = T / substeps
    q, v = (q_d[0], v_d[0]) if start is None else start
    z, integral, q_last = np.zeros((3, robot.n_joints))
    runs: list[tuple[Array, ...]] = []
    for k in range(t.size):
        q_seen = q if noise is None else q + noise[k]
        v_seen = v
        if differentiate:
            v_seen = (q_seen - q_last) / T if k > 0 else v
        q_last = q_seen
        error, rate = C @ (q_d[k] - q_seen), C @ (v_d[k] - v_seen)
        wanted = K * (controller.kp * error + controller.kd * rate + controller.ki * integral)
        if feed_forward is not None:  # given at the joints, made by the motors
            wanted = wanted + np.linalg.solve(C.T, feed_forward[k])
        given = np.clip(wanted, -limit, limit)
        integral = integral + np.where(given == wanted, error * T, 0.0)
        tau = C.T @ given

        runs.append((q, v, accelerate(q, v, tau - friction.torque(v, z)), tau))
        for _ in range(substeps):

            def f(q: Array, v: Array, tau: Array = tau, z: Array = z) -> Array:
                return accelerate(q, v, tau - friction.torque(v, z))

            q_next, v_next = one_step(integrator, f, q, v, h)
            z = friction.advance(v, z, h)
            q, v = q_next, v_next
    return Reference(*(np.array(column) for column in zip(*runs, strict=True)))


def one_step(
    integrator: str, f: Callable[[Array, Array], Array], q: Array, v: Array, h: float
) -> tuple[Array, Array]:
    a1 = f(q, v)
    if integrator == "euler":
        return q + h * v, v + h * a1
    v2 = v + h / 2 * a1
    a2 = f(q + h / 2 * v, v2)
    if integrator == "rk2":
        return q + h * v2, v + h * a2
    v3 = v + h / 2 * a2
    a3 = f(q + h / 2 * v2, v3)
    v4 = v + h * a3
    a4 = f(q + h * v3, v4)
    return q + h / 6 * (v + 2 * v2 + 2 * v3 + v4), v + h / 6 * (a1 + 2 * a2 + 2 * a3 + a4)


def with_effort_limit(robot: Robot, limit: Array) -> Robot:
    """Build the same robot with other effort limits."""
    model = robot.model.copy()
    model.effortLimit = np.asarray(limit, dtype=float)
    layout = robot.layout
    coefficients = {term: robot.theta[layout.friction(term)] for term in layout.friction_terms}
    for (prefix, _), value in zip(layout.coupled, robot.theta[layout.coupling], strict=True):
        coefficients[prefix] = value
    return Robot.from_pinocchio(
        model,
        friction=robot.friction,
        coefficients=coefficients,
        actuators=robot.actuators,
        controller=robot.controller,
    )


def arctangent(v, shape, phi, dphi):
    """A law that is not built in, smooth and with a term of its own."""
    v0 = shape[0]
    phi[0], dphi[0] = v, 1.0
    phi[1], dphi[1] = math.atan(v / v0), v0 / (v0 * v0 + v * v)
    phi[2], dphi[2] = v * abs(v), 2.0 * abs(v)


def controller_for(robot: Robot, *, rate: float = 2000.0, ki: float = 0.0) -> Controller:
    """Gains of about 20 rad/s for a robot that comes without."""
    M = np.diag(pin.crba(robot.model, robot.model.createData(), pin.neutral(robot.model)))
    gain = robot.actuators.drive_gain
    return Controller.from_gains(
        robot.n_joints, kp=400.0 * M / gain, kd=40.0 * M / gain, ki=ki * M / gain, rate=rate
    )


def wave(n: int, duration: float = 0.3, *, speed: float = 1.0, seed: int = 1) -> Trajectory:
    """Move all axes at some rad/s, from the first instant on."""
    rng = np.random.default_rng(seed)
    a, b = speed * rng.normal(size=(2, n, 3)) / 2.0
    return FourierTrajectory(duration, a, b, rng.uniform(-0.5, 0.5, n))


@pytest.fixture(scope="session")
def plainly() -> Callable[..., Reference]:
    """Simulate with Pinocchio in a plain loop; see `simulate_plainly`."""
    return simulate_plainly


@pytest.fixture(scope="session")
def friction_by_formula() -> type[FrictionByFormula]:
    """Compute the friction of a robot from its formula; see `FrictionByFormula`."""
    return FrictionByFormula


@pytest.fixture(scope="session")
def custom_law() -> FrictionModel:
    """Register `arctangent`, which has the terms Fv, Fa, Fq and the shape parameter v0."""
    return register_friction_model(
        "arctangent", arctangent, terms=("Fv", "Fa", "Fq"), shape={"v0": 0.1}
    )


@pytest.fixture(scope="session")
def limited() -> Callable[[Robot, Array], Robot]:
    """Give a robot other effort limits; see `with_effort_limit`."""
    return with_effort_limit


@pytest.fixture(scope="session")
def gains_for() -> Callable[..., Controller]:
    """Find sensible gains for any robot; see `controller_for`."""
    return controller_for


@pytest.fixture(scope="session")
def wave_of() -> Callable[..., Trajectory]:
    """Build a quick motion of any number of axes; see `wave`."""
    return wave
