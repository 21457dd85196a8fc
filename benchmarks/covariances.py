"""Covariances from a log of an iCub, held against those that made it.

How far the fitted variances are from the true ones, where the log tells them and for one factor a
kind, and how often their 95 % intervals hold the truth: in parts of the log, each fitted alone.

The robot floats, moves all joints, is pushed at hands and feet, and has the force/torque sensors of
the real one, seven IMUs, torques of the joints and accelerations from their encoders.
"""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter
from typing import NamedTuple

import numpy as np
import pinocchio as pin

from benchmarks.result import Result
from bodysense import Robot, load_robot
from bodysense.estimation import (
    Assumptions,
    CovarianceFit,
    GaussianPrior,
    MapDynamics,
    estimate_covariances,
)
from bodysense.estimation.map_dynamics.em.em import WELL
from bodysense.estimation.map_dynamics.solution import Samples
from bodysense.sensors import (
    Accelerometer,
    ForceTorque,
    Gyroscope,
    JointAcceleration,
    JointTorque,
    Mount,
    Sensor,
    variances,
)
from bodysense.spatial import Array

ERROR = 0.2  # of a variance
MINUTES = 600.0  # s, for a log of two
LEVEL = 0.95


def run(
    repeat: int, *, samples: int = 12_000, parts: int = 6, within: float = 0.03
) -> tuple[Result, ...]:
    """Fit one long log by axis and by kind, and its parts by axis."""
    rng = np.random.default_rng(1)
    subject = covariance_subject(samples)
    problem, log = subject
    begin = perf_counter()
    fit = estimate_covariances(wrong_by_factors(problem, rng), log)
    seconds = perf_counter() - begin
    ratio, relative = _ratios(problem, fit), _relative(fit)
    well = relative <= WELL
    kind = estimate_covariances(wrong_by_kind(problem, rng), log, structure="type")
    of_kind = _ratios(problem, kind)
    held, z = _held(subject, parts, rng)
    what = f"iCub, {problem.layout.size} variances from {samples / RATE:g} s"
    return (
        Result.judged(
            "covariances",
            f"{what}: largest error of those told to {WELL:.0%}",
            unit="of the variance",
            ours=float(np.abs(ratio - 1.0)[well].max(initial=1e-9)),
            ours_below=ERROR,
            notes=(
                f"{well.sum()} of them; the others, known to {relative[~well].min(initial=9):.0%} "
                f"at best, are {ratio[~well].min(initial=9):.2g} to "
                f"{ratio[~well].max(initial=0):.2g} times the truth"
            ),
        ),
        Result.judged(
            "covariances",
            f"{what}: largest error, one factor a kind and unit",
            unit="of the variance",
            ours=float(np.abs(of_kind - 1.0).max()),
            ours_below=ERROR,
            notes=f"{kind.trace.size} rounds; known to {_relative(kind).max():.1%} at worst",
        ),
        Result.judged(
            "covariances",
            f"iCub, intervals of the variances that hold the truth, of {LEVEL:.0%}",
            unit="of all",
            ours=float(held.mean()),
            agreement=abs(float(held.mean()) - LEVEL),
            agreement_within=within,
            notes=(
                f"{held.size} intervals from {parts} parts of the log; of those not told to "
                f"{WELL:.0%}, {held[z > WELL].mean() if (z > WELL).any() else 1.0:.1%}"
            ),
        ),
        Result.judged(
            "covariances",
            f"{what}: time by axis",
            unit="s",
            ours=seconds,
            ours_below=MINUTES,
            notes=f"{fit.trace.size} rounds; converged: {fit.converged and kind.converged}",
        ),
    )


def _ratios(problem: MapDynamics, fit: CovarianceFit) -> Array:
    """Fitted over true variances."""
    found = [np.diag(fit.covariances[s.name]) / np.diag(s.covariance) for s in problem.sensors]
    return np.concatenate(found)


def _relative(fit: CovarianceFit) -> Array:
    return np.concatenate([fit.relative(name) for name in fit.covariances])


def _held(subject: Subject, parts: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Whether intervals hold the truth, and the relative standard deviation of each variance."""
    problem, log = subject
    held, relative = [], []
    ends = np.linspace(0, log.size, parts + 1).astype(int)
    for k in range(parts):
        part = log.part(slice(int(ends[k]), int(ends[k + 1])))
        fit = estimate_covariances(wrong_by_factors(problem, rng), part)
        relative.append(_relative(fit))
        for sensor in problem.sensors:
            sigma, between = np.sqrt(np.diag(sensor.covariance)), fit.interval(sensor.name, LEVEL)
            held.append((between[:, 0] <= sigma) & (sigma <= between[:, 1]))
    return np.concatenate(held).astype(np.float64), np.concatenate(relative)


# The log: an iCub whose sensors have known noise, computed by Pinocchio.

RATE = 100.0  # Hz
IMUS = ("base_link", "chest", "head", "l_hand", "r_hand", "l_ankle_2", "r_ankle_2")
CELLS = ("l_ankle_2", "r_ankle_2", "l_upper_leg", "r_upper_leg", "l_shoulder_3", "r_shoulder_3")
TOUCHED = ("l_hand", "r_hand", "l_ankle_2", "r_ankle_2")
PUSH = np.array([8.0, 8.0, 8.0, 1.0, 1.0, 1.0])  # N, N·m
UNSURE = 0.01  # N, N·m, of the links that nothing touches


class Subject(NamedTuple):
    """A problem with the covariances that are behind the log, and its samples."""

    problem: MapDynamics
    samples: Samples


def covariance_subject(samples: int, seed: int = 0) -> Subject:
    """Simulate so many samples."""
    rng = np.random.default_rng(seed)
    robot = load_robot("example:icub")
    priors = Assumptions(
        wrench=GaussianPrior.zero(6, UNSURE),
        wrenches={link: GaussianPrior.unknown(6) for link in TOUCHED},
    )
    problem = MapDynamics(robot, _sensors(robot), priors)
    return Subject(problem, _simulated(problem, samples, rng))


def wrong_by_factors(problem: MapDynamics, rng: np.random.Generator) -> MapDynamics:
    """The problem with standard deviations that are up to three times too large or too small."""
    return problem.with_sensors(
        [
            replace(
                s, covariance=np.diag(np.diag(s.covariance) * 9.0 ** rng.uniform(-1, 1, s.size))
            )
            for s in problem.sensors
        ]
    )


def wrong_by_kind(problem: MapDynamics, rng: np.random.Generator) -> MapDynamics:
    """The same, with one factor for all sensors of a kind."""
    kinds = dict.fromkeys(s.kind for s in problem.sensors)
    factor = {kind: 9.0 ** rng.uniform(-1.0, 1.0) for kind in kinds}
    return problem.with_sensors(
        [replace(s, covariance=factor[s.kind] * s.covariance) for s in problem.sensors]
    )


def _sensors(robot: Robot) -> list[Sensor]:
    sensors: list[Sensor] = []
    for link in CELLS:
        joint = robot.joint_names[robot.link_names.index(link) - 1]
        noise = variances([0.3] * 3 + [0.03] * 3, 6)
        sensors.append(
            ForceTorque(name=f"ft.{link}", joint=joint, mount=Mount(link), covariance=noise)
        )
    for link in IMUS:
        mount = Mount.from_xyz_rpy(link, (0.02, 0.03, 0.04), (0.1, 0.2, 0.3))
        noise = variances(0.05, 3)
        sensors.append(Accelerometer(name=f"acc.{link}", mount=mount, covariance=noise))
        noise = variances(0.005, 3)
        sensors.append(Gyroscope(name=f"gyro.{link}", mount=mount, covariance=noise))
    for joint in robot.joint_names:
        noise = variances(0.2, 1)
        sensors.append(JointAcceleration(name=f"ddq.{joint}", joint=joint, covariance=noise))
    for joint in robot.joint_names:
        noise = variances(0.1, 1)
        sensors.append(JointTorque(name=f"tau.{joint}", joint=joint, covariance=noise))
    return sensors


def _simulated(problem: MapDynamics, T: int, rng: np.random.Generator) -> Samples:
    """Joints swing by sines, the base turns and drifts as pushes and joints make it."""
    robot, model = problem.robot, problem.robot.model
    data, n = model.createData(), problem.robot.n_joints
    t = np.arange(T)[:, None] / RATE
    centre, width = rng.uniform(-0.5, 0.5, n), rng.uniform(0.3, 0.8, n)
    omega, phase = 2.0 * np.pi * rng.uniform(0.3, 0.8, n), rng.uniform(0.0, 6.3, n)
    q = centre + width * np.sin(omega * t + phase)
    dq = width * omega * np.cos(omega * t + phase)
    ddq = -width * omega**2 * np.sin(omega * t + phase)
    turn = 2.0 * np.sin(2.0 * np.pi * np.array([0.05, 0.07, 0.11]) * t)
    drift = rng.normal(size=6) * np.sin(2.0 * np.pi * np.array([0.2, 0.3, 0.5] * 2) * t)
    touched = [robot.link_names.index(link) for link in TOUCHED]
    sigma = np.sqrt(np.concatenate([np.diag(s.covariance) for s in problem.sensors]))
    readings = np.empty((T, sigma.size))
    for k in range(T):
        quaternion = pin.Quaternion(pin.exp3(turn[k])).coeffs()
        at = np.concatenate([np.zeros(3), quaternion, q[k]])
        v, a = np.concatenate([drift[k], dq[k]]), np.concatenate([np.zeros(6), ddq[k]])
        push = UNSURE * rng.normal(size=(len(robot.link_names), 6))
        push[touched] = PUSH * rng.normal(size=(len(touched), 6))
        forces = pin.StdVec_Force()
        for wrench in (np.zeros(6), *push):
            forces.append(pin.Force(wrench))
        missing = pin.rnea(model, data, at, v, a, forces)[:6].copy()
        a[:6] = -np.linalg.solve(pin.crba(model, data, at)[:6, :6], missing)
        pin.forwardKinematics(model, data, at, v, a)
        pin.rnea(model, data, at, v, a, forces)
        readings[k] = _readings(problem, data, a)
    readings += sigma * rng.normal(size=readings.shape)
    return problem.samples(q, dq, readings, base_twist=drift)


def _readings(problem: MapDynamics, data: pin.Data, a: Array) -> Array:
    """What the sensors read without noise."""
    robot, model = problem.robot, problem.robot.model
    parts: list[Array] = []
    for sensor in problem.sensors:
        if not isinstance(sensor, (ForceTorque, Accelerometer, Gyroscope)) or sensor.mount is None:
            continue
        k = robot.link_names.index(sensor.mount.frame) + 1
        place = pin.SE3(np.array(sensor.mount.R), np.array(sensor.mount.p))
        if isinstance(sensor, ForceTorque):
            parts.append(place.actInv(data.f[k]).vector)
        elif isinstance(sensor, Gyroscope):
            parts.append(pin.getFrameVelocity(model, data, k, place, pin.LOCAL).angular)
        else:
            moved = pin.getFrameClassicalAcceleration(model, data, k, place, pin.LOCAL).linear
            R_world_sensor = (data.oMi[k] * place).rotation
            parts.append(moved - R_world_sensor.T @ model.gravity.linear)
    tau = data.tau[6:] - model.armature[6:] * a[6:]
    return np.concatenate([*parts, a[6:], tau])
