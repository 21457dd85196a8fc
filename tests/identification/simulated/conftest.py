"""Small arms under their controllers, recorded in simulation and handed to methods as samples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import pinocchio as pin
import pytest

from bodysense.excitation import FourierTrajectory
from bodysense.identification import Identification, Preprocessing, Regression, motions
from bodysense.identification.prior import Prior
from bodysense.identification.simulated.closed_loop import ClosedLoop
from bodysense.logs import Log
from bodysense.robot import BaseParameters, Friction, Robot, base_parameters, suggested_controller
from bodysense.simulation import Rollout, rollout
from bodysense.simulation.sensitivities import backend
from bodysense.spatial import exp_so3, random_pi


@cache
def arm(n: int = 2, *, width: float = 0.02, rate: float = 2000.0) -> Robot:
    """Hinges, and a slide at the end if there are three joints, with a PD controller."""
    rng = np.random.default_rng(3)
    model = pin.Model()
    model.name = f"arm-{n}"
    for k, kind in enumerate((pin.JointModelRX, pin.JointModelRY, pin.JointModelPZ)[:n]):
        placement = pin.SE3(exp_so3(rng.uniform(-1, 1, 3)), rng.uniform(-0.4, 0.4, 3))
        model.addJoint(k, kind(), placement, f"joint{k + 1}")
    for k, pi in enumerate(random_pi(rng, n), start=1):
        model.appendBodyToJoint(k, pin.Inertia.FromDynamicParameters(pi), pin.SE3.Identity())
        model.addBodyFrame(f"link{k}", k, pin.SE3.Identity(), model.addJointFrame(k))
    drives = {"Fv": [1.0, 2.0, 0.5], "Fc": [2.0, 1.0, 0.7], "Ia": [0.1, 0.2, 0.05]}
    robot = Robot.from_pinocchio(
        model,
        friction=Friction.from_model("coulomb", n, width=width),
        coefficients={name: values[:n] for name, values in drives.items()},
    )
    return robot.with_controller(suggested_controller(robot, rate=rate))


@cache
def base_of(robot: Robot) -> BaseParameters:
    return base_parameters(robot)


def motion_of(n: int, duration: float = 3.0, seed: int = 0) -> FourierTrajectory:
    """From rest to rest, up to 3 rad/s."""
    return FourierTrajectory.random(
        n,
        duration=duration,
        harmonics=5,
        lower=-1.5,
        upper=1.5,
        velocity=4.0,
        acceleration=40.0,
        rng=np.random.default_rng(seed),
    )


def off(robot: Robot, spread: float = 0.15, seed: int = 0) -> Robot:
    """The robot with other masses and drives; its links can exist too."""
    rng = np.random.default_rng(seed)
    theta, layout = robot.theta.copy(), robot.layout
    for k in range(layout.n_links):
        theta[layout.link(k)] *= np.exp(spread * rng.normal())
    drives = slice(layout.rotor.start, layout.size)
    theta[drives] *= np.exp(spread * rng.normal(size=layout.size - layout.rotor.start))
    return robot.with_parameters(theta)


@dataclass(frozen=True)
class Recorded:
    """A recording, and the robot behind it.

    Attributes:
        robot: the truth.
        run: what happened.
        problem: the regression, with a prior that is off.
    """

    robot: Robot
    run: Rollout
    problem: Regression

    def errors(self, found: Identification):
        """(b,) errors of base parameters, in plausible sizes."""
        truth = self.problem.base.to_base(self.robot.theta)
        return np.abs(found.theta_base - truth) / Prior.of(self.problem).size_base

    def loop(self, *, integrator: str = "rk4", differentiate: bool = True) -> ClosedLoop:
        return ClosedLoop.of(
            self.problem, backend("threads"), integrator=integrator, differentiate=differentiate
        )


def record(
    robot: Robot | None = None,
    *,
    prior: Robot | None = None,
    duration: float = 3.0,
    rate: float = 250.0,
    seed: int = 0,
    told: bool = True,
    position_noise: float = 0.0,
    torque_noise: float = 0.0,
    filtered: Preprocessing | None = None,
    **settings,
) -> Recorded:
    """Simulate by RK4, under a controller that differentiates positions.

    Args:
        robot: by default the arm of two joints.
        prior: by default the robot, 15 % off.
        duration: of the motion [s].
        rate: of the log [Hz].
        seed: of motion and noise.
        told: whether the log holds the reference.
        position_noise: of encoders [rad].
        torque_noise: [N·m].
        filtered: take the log through the filters; by default true positions, velocities and
            accelerations are the samples.
        settings: of `Regression.from_samples`.
    """
    robot = arm() if robot is None else robot
    prior = off(robot) if prior is None else prior
    base = base_of(robot)
    run = rollout(
        robot,
        motion_of(robot.n_joints, duration, seed),
        sampling_rate=rate,
        integrator="rk4",
        differentiate=True,
        position_noise=position_noise,
        torque_noise=torque_noise,
        rng=np.random.default_rng(seed + 100),
    )
    assert run.ok
    if filtered is None:
        problem = Regression.from_samples(
            prior,
            run.q[0],
            run.v[0],
            run.a[0],
            run.tau_measured[0],
            rate=rate,
            base=base,
            reference=run.reference if told else None,
            **settings,
        )
    else:
        log = run.log()
        if not told:
            kept = {k: x for k, x in log.channels.items() if not k.startswith("q_des")}
            log = Log.of(log.t, kept)
        made = motions(prior, [[log]], filtered.settled(prior, 20.0))
        problem = Regression.of(prior, made, filtered.settled(prior, 20.0), base)
    return Recorded(robot, run, problem)


@pytest.fixture(scope="session", name="arm")
def arm_fixture() -> Callable[..., Robot]:
    return arm


@pytest.fixture(scope="session", name="off")
def off_fixture() -> Callable[..., Robot]:
    return off


@pytest.fixture(scope="session", name="motion_of")
def motion_fixture() -> Callable[..., FourierTrajectory]:
    return motion_of


@pytest.fixture(scope="session", name="record")
def record_fixture() -> Callable[..., Recorded]:
    return record
