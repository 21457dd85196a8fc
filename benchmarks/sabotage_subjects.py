"""Robots and recordings to be damaged: four arms, simulated with MuJoCo."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import numpy as np
import pinocchio as pin

from bodysense import FourierTrajectory, Robot, load_robot
from bodysense.identification import Identification, Knowledge
from bodysense.logs.log import Log
from bodysense.robot import inverse_dynamics, mass_matrix, suggested_controller
from bodysense.robot.io.mjcf_writer import write_mjcf
from bodysense.spatial.arrays import Array

DURATION = 12.0  # s
RATE = 250.0  # Hz, of the recording
STEP = 1e-3  # s, of simulation and control
HARMONICS = 20
OFF = 0.15  # standard deviation of masses, and of drives where the file has them, relative
POSITION_NOISE = 1e-5  # rad
TORQUE_NOISE = 0.01  # of each joint's rms torque
# Friction of robots whose files have none, as shares of the effort limit, and rotor inertia as a
# share of the largest inertia that the joint moves.
COULOMB, VISCOUS, ROTOR = 0.04, 0.04, 0.1
SLOWEST_JUDGED = 0.05  # rad/s, below which friction may have any value


@dataclass(frozen=True, eq=False)
class Subject:
    """What a user has, and what is true.

    Attributes:
        name: of the robot.
        seed: of motion, noise and of the errors of the user's file.
        given: the robot as the user's file describes it.
        truth: the robot that was recorded.
        log: the recording.
        joint: of the damage, where it hits one.
        knowledge: what the user knows of the links.
    """

    name: str
    seed: int
    given: Robot
    truth: Robot
    log: Log
    joint: str = ""
    knowledge: Knowledge = field(default_factory=Knowledge)

    def rng(self) -> np.random.Generator:
        """The same random numbers for every damage."""
        return np.random.default_rng(10_000 + self.seed)

    @property
    def motion(self) -> FourierTrajectory:
        """What was commanded."""
        return motion_of(self.truth, self.seed)

    def recorded_as(self, q: Array, tau: Array, **more: object) -> Subject:
        """The same subject with other positions and torques (n_t, n)."""
        return replace(self, log=log_of(self.log.t, self.truth, q, tau), **more)  # type: ignore[arg-type]

    def simulated_as(self, truth: Robot, **more: object) -> Subject:
        """The same motion of another robot; `more` are those of `simulate`."""
        log = simulate(truth, motion_of(truth, self.seed), self.seed, **more)  # type: ignore[arg-type]
        return replace(self, truth=truth, log=renamed(log, truth, self.given))

    @property
    def q(self) -> Array:
        return self.log.joints("q", self.given.joint_names)

    @property
    def tau(self) -> Array:
        return self.log.joints("tau", self.given.joint_names)


def motion_of(robot: Robot, seed: int) -> FourierTrajectory:
    rng = np.random.default_rng(seed)
    return FourierTrajectory.for_robot(robot, rng=rng, duration=DURATION, harmonics=HARMONICS)


def log_of(t: Array, robot: Robot, q: Array, tau: Array) -> Log:
    """A recording as it was read: nothing of it is checked."""
    channels = {
        f"{quantity}.{name}": np.ascontiguousarray(values[:, k])
        for quantity, values in (("q", q), ("tau", tau))
        for k, name in enumerate(robot.joint_names)
    }
    return Log(t, channels, {}, np.arange(1, t.size + 1), source="log.csv")


def renamed(log: Log, one: Robot, other: Robot) -> Log:
    """The recording with the joint names of another robot."""
    names = zip(one.joint_names, other.joint_names, strict=True)
    channels = {
        f"{quantity}.{new}": log.channels[f"{quantity}.{old}"]
        for old, new in names
        for quantity in ("q", "tau")
    }
    return replace(log, channels=channels)


def simulate(
    robot: Robot,
    motion: Callable[[Array], tuple[Array, Array, Array]],
    seed: int,
    *,
    friction: Callable[[float], float] = lambda t: 1.0,
    push: Callable[[float], Mapping[int, float]] = lambda t: {},
    limit: Array | None = None,
    duration: float = DURATION,
) -> Log:
    """Follow a motion in MuJoCo under PD control, and record what encoders and controller say.

    Args:
        robot: to be simulated: links, rotor inertia, damping and Coulomb friction.
        motion: t → q, v, a.
        seed: of the noise.
        friction: factor on damping and Coulomb friction at a time [s].
        push: external torque by joint at a time [N·m].
        limit: (n,) what the drives can give [N·m]; the recording has what was asked for.
        duration: of the recording [s].
    """
    import mujoco

    with tempfile.TemporaryDirectory() as folder:
        path = write_mjcf(robot, Path(folder) / "robot.xml")
        model = mujoco.MjModel.from_xml_path(str(path))
    model.opt.timestep, data = STEP, mujoco.MjData(model)
    controller = suggested_controller(robot, bandwidth=6.0, rate=1.0 / STEP)
    kp, kd = (gain * robot.actuators.drive_gain for gain in (controller.kp, controller.kd))
    damping, loss = model.dof_damping.copy(), model.dof_frictionloss.copy()
    times = STEP * np.arange(round(duration / STEP))
    q_ref, v_ref, _ = motion(times)
    every = round(1.0 / (RATE * STEP))
    q, tau = np.empty((2, times.size, robot.n_joints))
    data.qpos[:], data.qvel[:] = q_ref[0], v_ref[0]
    for k, t in enumerate(times.tolist()):
        factor = friction(t)
        model.dof_damping[:], model.dof_frictionloss[:] = factor * damping, factor * loss
        q[k] = data.qpos
        tau[k] = kp * (q_ref[k] - data.qpos) + kd * (v_ref[k] - data.qvel)
        data.qfrc_applied[:] = tau[k] if limit is None else np.clip(tau[k], -limit, limit)
        for joint, torque in push(t).items():
            data.qfrc_applied[joint] += torque
        mujoco.mj_step(model, data)
    rng, kept = np.random.default_rng(20_000 + seed), slice(None, None, every)
    q, tau = q[kept], tau[kept]
    q = q + POSITION_NOISE * rng.normal(size=q.shape)
    tau = tau + TORQUE_NOISE * np.sqrt((tau**2).mean(axis=0)) * rng.normal(size=tau.shape)
    return log_of(times[kept], robot, q, tau)


# The robots. Files of the Panda and the UR5 know no drives: these are the truth's alone.


def _fingerless(name: str) -> Robot:
    robot = load_robot(name)
    fingers = [k + 1 for k, joint in enumerate(robot.joint_names) if "finger" in joint]
    model = pin.buildReducedModel(robot.model, fingers, pin.neutral(robot.model))
    return Robot.from_pinocchio(model)


def with_drives(robot: Robot) -> Robot:
    """The robot with friction and rotor inertia of a usual size, if it has none."""
    if robot.theta[robot.layout.rotor].any():
        return robot
    effort, speed = robot.effort_limit, robot.velocity_limit
    lower, upper = np.clip(robot.position_limits, -np.pi, np.pi)
    q = np.random.default_rng(0).uniform(lower, upper, (64, robot.nq))
    M = np.diagonal(mass_matrix(robot, q), axis1=1, axis2=2).max(axis=0)
    drives = {"Ia": ROTOR * M + 0.02, "Fv": VISCOUS * effort / speed, "Fc": COULOMB * effort}
    return robot.with_friction("coulomb", coefficients=drives)


@cache
def file_of(name: str) -> Robot:
    """The robot as its maker describes it."""
    return _fingerless(name) if name == "example:panda" else load_robot(name)


def user_file(name: str, seed: int) -> Robot:
    """The file that a user has: masses some 15 % off, and drives as far as they are known."""
    robot = file_of(name)
    factor = np.exp(OFF * np.random.default_rng(30_000 + seed).normal(size=robot.layout.size))
    for link in map(robot.layout.link, range(robot.layout.n_links)):
        factor[link] = factor[link][0]  # all ten by the same factor: it stays a body
    return robot.with_parameters(robot.theta * factor)


ROBOTS = ("tx40", "rv2sq", "example:panda", "example:ur5")


@cache
def clean(name: str, seed: int) -> Subject:
    """An undamaged recording of a robot."""
    truth = with_drives(file_of(name))
    log = simulate(truth, motion_of(truth, seed), seed)
    return Subject(name, seed, user_file(name, seed), truth, log)


def covered(result: Identification, subject: Subject) -> float:
    """Share of the base parameters whose 95 % interval holds the truth.

    NaN where the robot that was recorded has other links than the file.
    """
    robot, truth = result.robot, subject.truth
    layout, theta = robot.layout, robot.theta.copy()
    if not np.array_equal(layout.n_inertial, truth.layout.n_inertial):
        return np.nan
    if any(
        not np.allclose(a.homogeneous, b.homogeneous)
        for a, b in zip(robot.model.jointPlacements, truth.model.jointPlacements, strict=True)
    ):
        return np.nan
    theta[layout.inertial] = truth.theta[truth.layout.inertial]
    theta[layout.n_inertial :] = 0.0
    for place, name in enumerate(layout.names):
        if place >= layout.n_inertial and name in truth.layout.names:
            theta[place] = truth.theta[truth.layout.names.index(name)]
        elif name.startswith("Fs"):  # a Stribeck curve at Coulomb's level is Coulomb friction
            theta[place] = truth.theta[truth.layout.names.index(f"Fc{name[2:]}")]
    lower, upper = result.interval()
    base = result.base.to_base(theta)
    return float(np.mean((lower <= base) & (base <= upper)))


def true_error(robot: Robot, subject: Subject) -> float:
    """Relative torque error of a robot on a noise-free new motion of the true one.

    The mean over joints of ‖tau - prediction‖ / ‖tau‖ while the joint moves.
    """
    truth = subject.truth
    motion = FourierTrajectory.for_robot(
        truth, rng=np.random.default_rng(40_000 + subject.seed), duration=10.0, harmonics=10
    )
    q, v, a = motion(np.linspace(0.0, 10.0, 1001))
    moving = np.abs(v) > SLOWEST_JUDGED
    tau = np.where(moving, inverse_dynamics(truth, q, v, a), 0.0)
    predicted = np.where(moving, inverse_dynamics(robot, q, v, a), 0.0)
    errors = np.linalg.norm(tau - predicted, axis=0) / np.linalg.norm(tau, axis=0)
    return float(errors.mean())
