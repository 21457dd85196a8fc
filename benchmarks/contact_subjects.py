"""Logs of simulated robots that nobody touches, or that somebody pushes, and what was behind them.

Robots follow random motions under their controllers, which see encoders with noise and answer it.
Rollouts integrate laws of friction that turn within a small velocity, fast enough to resolve it;
MuJoCo has friction that holds. Logs have positions and torques of the drives, the humanoid the
readings of its force/torque sensors too, by Pinocchio.

A push beside a motion takes torque, and friction that grows with it:

    tau' = tau - Jᵀ w + F_l (|T - Jᵀ w| - |T|) s(v),     T: torque of the drive without friction
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

import numpy as np
import pinocchio as pin
from numpy.typing import NDArray

from bodysense import FourierTrajectory, Robot, load_robot
from bodysense.estimation import EstimationSetup, parse_estimation
from bodysense.logs.log import Log
from bodysense.robot.actuators import Controller, suggested_controller
from bodysense.robot.friction import friction_model
from bodysense.robot.io.mjcf_writer import mjcf_text
from bodysense.sensors import ForceTorque, urdf_sensors
from bodysense.simulation import rollout
from bodysense.spatial import Array

ROBOTS = {
    "tx40": "link6",
    "example:panda": "panda_link7",
    "example:ur5": "wrist_3_link",
    "example:icub": "r_hand",
}
"""The link of each whose external wrench is not known."""

LAWS = ("viscous", "coulomb", "stribeck", "offset-load", "lugre")
MUJOCO_LAW = "coulomb"  # the law of MuJoCo's joints
NOISES = (1e-6, 1e-5, 1e-4, 1e-3)  # rad, of the encoders
RATES = (100.0, 500.0, 1000.0, 5000.0)  # Hz, of the logs
CONTROL_RATE = 5000.0  # Hz
TORQUE_STD = 0.05  # N·m, of the logged torques, as the sensors file has it
WRENCH_STD = (0.3, 0.3, 0.3, 0.01, 0.01, 0.01)  # N, N·m, of the humanoid's sensors
PRIOR = (50.0, 50.0, 50.0, 5.0, 5.0, 5.0)  # N, N·m, of the unknown wrench
NEAR = 0.03  # s beside a reversal

_ROTORS = {"example:panda": 0.1, "example:ur5": 0.1, "example:icub": 0.02}
"""kg·m², behind the gears: files have none, and a light last link alone would chatter."""

_LOCKED = {
    "example:panda": ("*finger*",),
    "example:icub": ("*hip*", "*knee*", "*ankle*", "neck*", "l_shoulder*", "l_elbow", "l_wrist*"),
}
"""Joints that stand; of the humanoid, whose hip is bolted down, all but the torso and an arm."""

_COULOMB = 0.04  # of the effort limit, where a file has no friction
_MOST_EFFORT = 50.0  # N·m: limits of some joints are far beyond what they need
_VISCOUS = 1.0  # s/rad, of the Coulomb friction
_STATIC = 1.5  # over the Coulomb friction
_OFFSET = 0.3  # of the Coulomb friction, to one side or the other
_OF_LOAD = 0.05  # friction per unit of load
_WIDTH = 0.02  # rad/s within which friction turns in rollouts
_PRESLIDING = 1e-3  # rad at which bristles of the LuGre law slide
_BRISTLES = 0.7  # damping of the bristles, of the critical one
_SUBSTEPS = 3  # of a control period in rollouts
_SPEED, _ACCELERATION = 3.0, 20.0  # rad/s, rad/s²: motions stay below
_REACH = 1.5  # rad from the middle of a range
_HIGHEST = 2.0  # Hz, of a motion


@dataclass(frozen=True)
class Condition:
    """What a log is of.

    Attributes:
        robot: name, as in `ROBOTS`.
        law: of its friction.
        noise: standard deviation of its encoders [rad].
        rate: of the log [Hz].
        engine: "rollout" or "mujoco".
    """

    robot: str
    law: str
    noise: float
    rate: float
    engine: str = "rollout"

    def __str__(self) -> str:
        name = self.robot.removeprefix("example:")
        return f"{name} {self.law} {self.noise:g} rad {self.rate:g} Hz {self.engine}"


class Simulated(NamedTuple):
    """Of a run, at the samples of the log: (T,) times, (T, n) true motion, and what is recorded."""

    t: Array
    q: Array
    v: Array
    a: Array
    q_measured: Array
    tau: Array


@dataclass(frozen=True, eq=False)
class Subject:
    """A log and what was behind it.

    Attributes:
        condition: what it is of.
        robot: as the estimate knows it.
        setup: sensors and the unknown wrench.
        link: that may be touched.
        run: of the simulation.
        readings: further channels, by name.
        reversal: (T,) samples beside a reversal of some joint.
        wrench: (T, 6) on the link, in its frame; zero: nobody touches it.
    """

    condition: Condition
    robot: Robot
    setup: EstimationSetup
    link: str
    run: Simulated
    readings: dict[str, Array]
    reversal: NDArray[np.bool_]
    wrench: Array

    @property
    def log(self) -> Log:
        """What was recorded."""
        channels = dict(self.readings)
        for j, joint in enumerate(self.robot.joint_names):
            channels[f"q.{joint}"] = self.run.q_measured[:, j]
            channels[f"tau.{joint}"] = self.run.tau[:, j]
        return Log.of(self.run.t, channels)

    def pushed(self, wrench: Array) -> Subject:
        """The same motion beside wrenches (T, 6) on the link, in its frame, which drives hold."""
        robot, run = self.robot, self.run
        effect = _joint_torques(robot, self.link, run.q, wrench)
        tau = run.tau - effect
        law = robot.friction.model
        if law.depends_on_load:
            Fl = robot.theta[robot.layout.friction("Fl")]
            T = _load(robot, run)
            s = np.tanh(run.v / _WIDTH)
            tau += Fl * (np.abs(T - effect) - np.abs(T)) * s
        return replace(self, run=run._replace(tau=tau), wrench=self.wrench + wrench)


@cache
def robot_of(name: str, law: str, width: float = _WIDTH) -> Robot:
    """A robot with a friction law whose coefficients are as large as real ones."""
    robot = load_robot(name) if name == "tx40" else load_robot(name, floating_base=False)
    if name in _LOCKED:
        robot = robot.with_locked_joints(dict.fromkeys(_LOCKED[name], None))
    layout = robot.layout
    if name in _ROTORS:
        Fc = _COULOMB * np.minimum(robot.effort_limit, _MOST_EFFORT)
        robot = robot.with_actuators(robot.actuators, {"Ia": _ROTORS[name]})
    else:
        Fc = robot.theta[layout.friction("Fc")]
    side = np.where(np.arange(Fc.size) % 2, 1.0, -1.0)
    coefficients = {
        "Fv": _VISCOUS * Fc,
        "Fc": Fc,
        "Fs": _STATIC * Fc,
        "Fo": _OFFSET * side * Fc,
        "Fl": np.full(Fc.size, _OF_LOAD),
    }
    model = friction_model(law)
    shape: dict[str, float | Array] = {"width": width} if "width" in model.shape else {}
    if model.has_state:
        Ia = robot.theta[robot.layout.rotor]
        sigma0 = Fc / _PRESLIDING
        shape = {"sigma0": sigma0, "sigma1": 2.0 * _BRISTLES * np.sqrt(sigma0 * Ia)}
    some = {term: coefficients[term] for term in model.terms}
    return robot.with_friction(law, coefficients=some, **shape)


def untouched(condition: Condition, seconds: float, rng: np.random.Generator) -> Subject:
    """Simulate a log of a robot that nobody touches."""
    robot = robot_of(condition.robot, condition.law)
    if condition.engine == "mujoco":
        robot = robot_of(condition.robot, condition.law, 0.0)
        run = _in_mujoco(robot, condition, seconds, rng)
    else:
        run = _by_rollout(robot, condition, seconds, rng)
    sensors = _force_torque(condition.robot)
    readings = _wrench_readings(robot, sensors, run, rng)
    link = ROBOTS[condition.robot]
    return Subject(
        condition,
        robot,
        _setup(robot, sensors, link),
        link,
        run,
        readings,
        _near_reversals(run.v, condition.rate),
        np.zeros((run.t.size, 6)),
    )


def _setup(robot: Robot, sensors: Sequence[ForceTorque], link: str) -> EstimationSetup:
    table = {
        "sensors": {
            "motors": {"kind": "joint_torque", "joint": "all", "side": "drive", "std": TORQUE_STD},
            "motion": {"kind": "joint_acceleration", "joint": "all"},
        },
        "external_wrenches": {link: {"std": list(PRIOR)}},
    }
    setup = parse_estimation(table, robot, "contacts.yaml")
    return replace(setup, sensors=(*setup.sensors, *sensors))


def controller_of(robot: Robot) -> Controller:
    """Its own, or a usual one."""
    return robot.controller or suggested_controller(robot, rate=CONTROL_RATE)


def motion_of(robot: Robot, seconds: float, rng: np.random.Generator) -> FourierTrajectory:
    """A random motion of at most 2 Hz."""
    lower, upper = robot.position_range
    return FourierTrajectory.random(
        robot.n_joints,
        duration=seconds,
        harmonics=max(3, int(_HIGHEST * seconds)),
        lower=np.maximum(lower, -_REACH),
        upper=np.minimum(upper, _REACH),
        velocity=np.minimum(robot.velocity_limit, _SPEED),
        acceleration=_ACCELERATION,
        rng=rng,
    )


def _by_rollout(
    robot: Robot, condition: Condition, seconds: float, rng: np.random.Generator
) -> Simulated:
    run = rollout(
        robot,
        motion_of(robot, seconds, rng),
        controller=controller_of(robot),
        sampling_rate=condition.rate,
        integrator="rk2",
        substeps=_SUBSTEPS,
        position_noise=condition.noise,
        torque_noise=TORQUE_STD,
        rng=rng,
    )
    if not run.ok:
        raise RuntimeError(f"{condition}: {run.summary()}")
    return Simulated(run.t, run.q[0], run.v[0], run.a[0], run.q_measured[0], run.tau_measured[0])


def _in_mujoco(
    robot: Robot, condition: Condition, seconds: float, rng: np.random.Generator
) -> Simulated:
    """The same loop around MuJoCo, whose joints have friction that holds."""
    import mujoco

    if condition.law != MUJOCO_LAW:
        raise ValueError(f"MuJoCo has no law {condition.law!r}")
    model = mujoco.MjModel.from_xml_string(mjcf_text(robot))
    model.opt.timestep = 1.0 / CONTROL_RATE
    model.actuator_ctrllimited[:] = 0
    model.jnt_limited[:] = 0
    data = mujoco.MjData(model)
    address = [model.joint(name).qposadr[0] for name in robot.joint_names]
    if address != list(range(robot.n_joints)):
        raise ValueError(f"MuJoCo orders the joints of {robot.name} differently")
    controller, gain = controller_of(robot), robot.actuators.drive_gain
    _, q_d, v_d, _ = motion_of(robot, seconds, rng).sample(CONTROL_RATE)
    steps, n = q_d.shape[0] - 1, robot.n_joints
    every = round(CONTROL_RATE / condition.rate)
    shape = (steps // every + 1, n)
    q, v, a, seen, tau = (np.zeros(shape) for _ in range(5))
    data.qpos[:], data.qvel[:] = q_d[0], v_d[0]
    before = q_d[0] - v_d[0] / CONTROL_RATE + condition.noise * rng.standard_normal(n)
    for first in range(0, steps, every):
        noise = condition.noise * rng.standard_normal((every, n))
        for k in range(first, min(first + every, steps)):
            q_now = data.qpos + noise[k - first]
            speed = (q_now - before) * CONTROL_RATE
            before = q_now
            u = gain * (controller.kp * (q_d[k] - q_now) + controller.kd * (v_d[k] - speed))
            data.ctrl[:] = u
            if k == first:
                row = k // every
                q[row], v[row], seen[row], tau[row] = data.qpos, data.qvel, q_now, u
            mujoco.mj_step(model, data)
            if k == first:
                a[row] = data.qacc
    T = steps // every
    tau[:T] += TORQUE_STD * rng.standard_normal((T, n))
    return Simulated(np.arange(T) * every / CONTROL_RATE, q[:T], v[:T], a[:T], seen[:T], tau[:T])


@cache
def _force_torque(name: str) -> tuple[ForceTorque, ...]:
    """Those of a robot's file."""
    robot = robot_of(name, LAWS[0])
    if "icub" not in name or robot.source is None:
        return ()
    tags = urdf_sensors(robot.source.data, robot, std={"force_torque": WRENCH_STD}).sensors
    return tuple(sensor for sensor in tags if isinstance(sensor, ForceTorque))


def _wrench_readings(
    robot: Robot, sensors: Sequence[ForceTorque], run: Simulated, rng: np.random.Generator
) -> dict[str, Array]:
    """Channels of force/torque sensors, by Pinocchio."""
    if not sensors:
        return {}
    model = robot.model
    data = model.createData()
    joints, places, bodies = [], [], []
    for sensor in sensors:
        located = sensor.mount.locate(robot, sensor.who) if sensor.mount else None
        R, p = (np.eye(3), np.zeros(3)) if located is None else (located.R, located.p)
        joints.append(model.getJointId(str(sensor.measurement(robot).joint)))
        places.append(pin.SE3(R, p))
        sub = sensor.sub_link
        bodies.append(None if sub is None else pin.Inertia.FromDynamicParameters(np.array(sub)))
    values = np.empty((len(sensors), run.t.size, 6))
    for k in range(run.t.size):
        pin.rnea(model, data, run.q[k], run.v[k], run.a[k])
        for i, (j, place, body) in enumerate(zip(joints, places, bodies, strict=True)):
            f = data.f[j]
            if body is not None:
                f = f - (body * data.a_gf[j] + data.v[j].cross(body * data.v[j]))
            values[i, k] = sensors[i].sign * place.actInv(f).vector
    values += np.asarray(WRENCH_STD) * rng.standard_normal(values.shape)
    return {
        name: values[i, :, c]
        for i, sensor in enumerate(sensors)
        for c, name in enumerate(sensor.channels)
    }


def _near_reversals(v: Array, rate: float) -> NDArray[np.bool_]:
    """(T,) samples within `NEAR` of a change of sign of some joint's velocity (T, n)."""
    turns = np.zeros(len(v), dtype=bool)
    turns[1:] = (np.sign(v[1:]) != np.sign(v[:-1])).any(axis=1)
    reach = max(1, int(NEAR * rate))
    near: NDArray[np.bool_] = np.convolve(turns, np.ones(2 * reach + 1), "same") > 0.5
    return near


def _joint_torques(robot: Robot, link: str, q: Array, wrench: Array) -> Array:
    """(T, n) Jᵀ w of wrenches (T, 6) on a link, where they are not zero."""
    model = robot.model
    data, joint = model.createData(), robot.link_names.index(link) + 1
    result = np.zeros_like(q)
    for k in np.flatnonzero(wrench.any(axis=1)):
        J = pin.computeJointJacobian(model, data, q[k], joint)
        result[k] = J.T @ wrench[k]
    return result


def _load(robot: Robot, run: Simulated) -> Array:
    """(T, n) torques of the drives without friction."""
    model = robot.model
    data, T = model.createData(), np.empty_like(run.q)
    for k in range(run.t.size):
        T[k] = pin.rnea(model, data, run.q[k], run.v[k], run.a[k])
    return T
