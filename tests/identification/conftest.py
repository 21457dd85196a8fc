"""A small arm, motions whose derivatives are known, and regressors stacked as in a textbook."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import pinocchio as pin
import pytest

from bodysense.identification import Motion, Preprocessing, Regression
from bodysense.robot import (
    BaseParameters,
    Friction,
    Robot,
    base_parameters,
    inverse_dynamics,
    load_robot,
    torque_regressor,
)
from bodysense.spatial import Array, exp_so3, random_pi

PLAIN = Preprocessing(cutoff=1e6, band=1e6, border=0.0, still_speed=0.0, decimate=False)


@cache
def small_arm() -> Robot:
    """Two hinges and a slide between them, in general position."""
    rng = np.random.default_rng(3)
    model = pin.Model()
    model.name = "small-arm"
    for k, kind in enumerate((pin.JointModelRX, pin.JointModelPY, pin.JointModelRZ)):
        placement = pin.SE3(exp_so3(rng.uniform(-1, 1, 3)), rng.uniform(-0.4, 0.4, 3))
        model.addJoint(k, kind(), placement, f"joint{k + 1}")
    for k, pi in enumerate(random_pi(rng, 3), start=1):
        model.appendBodyToJoint(k, pin.Inertia.FromDynamicParameters(pi), pin.SE3.Identity())
        model.addBodyFrame(f"link{k}", k, pin.SE3.Identity(), model.addJointFrame(k))
    return Robot.from_pinocchio(
        model,
        friction=Friction.from_model("coulomb", 3, width=0.02),
        coefficients={"Fv": [1.0, 2.0, 0.5], "Fc": [2.0, 1.0, 0.7], "Ia": [0.1, 0.2, 0.05]},
    )


@cache
def base_of(robot: Robot) -> BaseParameters:
    return base_parameters(robot)


def sines(
    n: int, seed: int, n_t: int, rate: float, *, slowest: float = 0.2, harmonics: int = 5
) -> tuple[Array, Array, Array, Array]:
    """Times (n_t,), positions, velocities and accelerations (n_t, n): sums of sines."""
    rng = np.random.default_rng(seed)
    t = np.arange(n_t) / rate
    w = 2.0 * np.pi * slowest * np.arange(1, harmonics + 1)
    amplitude = rng.normal(size=(harmonics, n)) / np.arange(1, harmonics + 1)[:, None]
    phase = rng.uniform(0.0, 2.0 * np.pi, (harmonics, n))
    angle = w[None, :, None] * t[:, None, None] + phase
    q = (amplitude * np.sin(angle)).sum(axis=1)
    v = (amplitude * w[:, None] * np.cos(angle)).sum(axis=1)
    a = -(amplitude * w[:, None] ** 2 * np.sin(angle)).sum(axis=1)
    return t, q, v, a


@dataclass(frozen=True)
class Simulated:
    """Motions of a robot, one per log, and the regression that they make.

    Attributes:
        problem: from the motions, with a prior that is off.
        Y: (rows, b) stacked regressor.
        y: (rows,) torques.
        log: (rows,) log of each row.
        joint: (rows,) joint of each row.
        truth: (b,) base parameters behind the torques.
    """

    problem: Regression
    Y: Array
    y: Array
    log: Array
    joint: Array
    truth: Array


def simulate(
    noise: float | Sequence[Sequence[float]] = 0.0,
    *,
    robot: Robot | None = None,
    seed: int = 0,
    n_t: int = 300,
    logs: int = 1,
    rate: float = 100.0,
    off: float = 0.15,
    disturb: Callable[[np.random.Generator, Array], Array] | None = None,
) -> Simulated:
    """Random motions with white noise of each log and joint, stacked independently as well.

    Args:
        noise: standard deviation, one for all or (logs, n).
        robot: by default the small arm.
        seed: of motion and noise.
        n_t: samples of each log.
        logs: number of logs.
        rate: samples per second.
        off: relative standard deviation by which the prior's links and drives are wrong.
        disturb: changes torques (n_t, n) further.
    """
    robot = robot if robot is not None else small_arm()
    base, n = base_of(robot), robot.n_joints
    rng = np.random.default_rng(seed + 1000)
    level = np.broadcast_to(np.asarray(noise, dtype=float), (logs, n))
    theta = robot.theta.copy()
    for k in range(robot.layout.n_links):
        theta[robot.layout.link(k)] *= 1.0 + off * rng.normal()
    theta[robot.layout.rotor.start :] *= np.exp(
        off * rng.normal(size=theta.size - robot.layout.rotor.start)
    )
    motions, Y, y, log, joint = [], [], [], [], []
    for k in range(logs):
        t, q, v, a = sines(n, seed + 17 * k, n_t, rate)
        tau = inverse_dynamics(robot, q, v, a) + level[k] * rng.normal(size=(n_t, n))
        if disturb is not None:
            tau = disturb(rng, tau)
        motions.append(Motion(t, q, v, a, tau, tau, rate, k))
        Y.append(torque_regressor(robot, q, v, a, columns=base.independent).reshape(-1, base.size))
        y.append(tau.ravel())
        log.append(np.full(tau.size, k))
        joint.append(np.tile(np.arange(n), n_t))
    problem = Regression.of(robot.with_parameters(theta), motions, PLAIN, base)
    return Simulated(
        problem,
        np.concatenate(Y),
        np.concatenate(y),
        np.concatenate(log),
        np.concatenate(joint),
        base.to_base(robot.theta),
    )


@pytest.fixture(scope="session", name="small_arm")
def small_arm_fixture() -> Robot:
    return small_arm()


@pytest.fixture(scope="session", name="base_of")
def base_of_fixture() -> Callable[[Robot], BaseParameters]:
    return base_of


@pytest.fixture(scope="session", name="sines")
def sines_fixture() -> Callable[..., tuple[Array, Array, Array, Array]]:
    return sines


@pytest.fixture(scope="session", name="simulate")
def simulate_fixture() -> Callable[..., Simulated]:
    return simulate


@pytest.fixture(scope="session")
def tx40() -> Robot:
    """The TX40 with friction that turns round smoothly."""
    return load_robot("tx40").with_friction("coulomb", width=0.02)
