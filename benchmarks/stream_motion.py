"""Simulated motions for streams, what goes wrong in them, and how the truth lies in bands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pinocchio as pin

from bodysense import Robot
from bodysense.estimation import MapDynamics, Posterior, Sample
from bodysense.sensors import (
    ExternalWrench,
    ForceTorque,
    Gyroscope,
    JointAcceleration,
    JointTorque,
    Sensor,
)
from bodysense.spatial import Array

RATE = 1000.0  # Hz


@dataclass(frozen=True)
class Motion:
    """A simulated motion.

    Attributes:
        q, dq: (T, n_joints).
        twist: (T, 6) of a floating base, else zero.
        y: (T, m) readings without noise.
        wrenches: true external wrenches (T, 6) by link.
        tau: (T, n_joints) torques of the joints, without friction and rotors.
        ddq: (T, n_joints).
    """

    q: Array
    dq: Array
    twist: Array
    y: Array
    wrenches: dict[str, Array]
    tau: Array
    ddq: Array

    def sample(self, k: int, y: Array) -> Sample:
        """The k-th sample with noisy readings (T, m)."""
        return Sample(k / RATE, self.q[k], self.dq[k], y[k], self.twist[k])


def simulated(
    robot: Robot,
    sensors: Sequence[Sensor],
    T: int,
    rng: np.random.Generator,
    *,
    pushed: dict[str, float],
) -> Motion:
    """Joints swing, links are pushed with forces of these sizes [N]; a free base is held."""
    model, data, n = robot.model, robot.model.createData(), robot.n_joints
    t = np.arange(T) / RATE
    w, phase = rng.uniform(1.0, 4.0, n), rng.uniform(0.0, 6.0, n)
    lower, upper = (np.clip(x, -2.0, 2.0) for x in robot.position_limits)
    middle, size = 0.5 * (lower + upper), np.minimum(0.35 * (upper - lower), 0.6)
    q = middle + size * np.sin(np.outer(t, w) + phase)
    dq = size * w * np.cos(np.outer(t, w) + phase)
    ddq = -size * w**2 * np.sin(np.outer(t, w) + phase)
    wrenches = {
        link: np.outer(np.sin(rng.uniform(2.0, 8.0) * t) ** 2, rng.normal(size=6))
        * np.array([force] * 3 + [0.1 * force] * 3)
        for link, force in pushed.items()
    }
    rows: dict[str, list[Array]] = {"y": [], "tau": [], "twist": [], "root": []}
    turn, sway = 0.3 * rng.normal(size=6), rng.uniform(1.0, 3.0, 6)
    base, free = pin.neutral(model), robot.floating_base
    for k in range(T):
        v6, a6 = turn * np.sin(sway * t[k]), turn * sway * np.cos(sway * t[k])
        full_q = np.concatenate([base[:7], q[k]]) if free else q[k]
        v = np.concatenate([v6, dq[k]]) if free else dq[k]
        a = np.concatenate([a6, ddq[k]]) if free else ddq[k]
        pushes = pin.StdVec_Force()
        for link in ("universe", *robot.link_names):
            push = wrenches[link][k] if link in wrenches else np.zeros(6)
            pushes.append(pin.Force(push))
        pin.rnea(model, data, full_q, v, a, pushes)
        if free:  # what holds the base
            pushes[1] = pushes[1] + data.f[1]
            pin.rnea(model, data, full_q, v, a, pushes)
        pin.forwardKinematics(model, data, full_q, v, a)
        rotors = model.armature[-n:] * ddq[k]
        rows["tau"].append(data.tau[-n:] - rotors)
        rows["root"].append(pushes[1].vector.copy())
        rows["twist"].append(v6 if free else np.zeros(6))
        rows["y"].append(_readings(robot, sensors, data, ddq[k], rows["tau"][-1], dq[k], pushes))
        if free:
            base = pin.integrate(model, full_q, v / RATE)
    if free:
        wrenches[robot.link_names[0]] = np.stack(rows.pop("root"))
    stacked = {name: np.stack(rows[name]) for name in ("y", "tau", "twist")}
    return Motion(q, dq, stacked["twist"], stacked["y"], wrenches, stacked["tau"], ddq)


def _readings(
    robot: Robot,
    sensors: Sequence[Sensor],
    data: pin.Data,
    ddq: Array,
    tau: Array,
    dq: Array,
    pushes: Sequence[pin.Force],
) -> Array:
    model, values = robot.model, []
    for sensor in sensors:
        if isinstance(sensor, (JointAcceleration, JointTorque)):
            j = robot.joint_names.index(sensor.joint)
            value = ddq[j] if isinstance(sensor, JointAcceleration) else tau[j]
            if isinstance(sensor, JointTorque) and sensor.side == "drive":
                value = value + model.armature[model.nv - robot.n_joints + j] * ddq[j]
                value = value + friction(robot, j, dq[j])
            values.append(np.array([value]))
            continue
        if isinstance(sensor, ForceTorque):
            k = model.getJointId(str(sensor.joint))
            values.append(data.f[k].vector)
            continue
        link, R, p = sensor.mount.locate(robot, sensor.name)
        k, place = robot.link_names.index(link) + 1, pin.SE3(R, p)
        if isinstance(sensor, ExternalWrench):
            values.append(place.actInv(pushes[k]).vector)
        elif isinstance(sensor, Gyroscope):
            values.append(place.actInv(data.v[k]).angular)
        else:
            felt = pin.getFrameClassicalAcceleration(model, data, k, place, pin.LOCAL).linear
            values.append(felt - (data.oMi[k] * place).rotation.T @ model.gravity.linear)
    return np.concatenate(values)


def friction(robot: Robot, j: int, v: float) -> float:
    """Viscous and Coulomb friction of a joint, from the robot's own parameters."""
    value = 0.0
    for term in robot.friction.model.terms:
        phi = {"Fv": v, "Fc": np.sign(v), "Fo": 1.0}[term]
        value += float(robot.theta[robot.layout.friction(term)][j]) * phi
    return value


def noisy(sensors: Sequence[Sensor], y: Array, rng: np.random.Generator) -> Array:
    """Readings with the noise that their sensors have."""
    sigma = np.concatenate([np.sqrt(np.diag(s.covariance)) for s in sensors])
    return np.asarray(y + sigma * rng.normal(size=y.shape))


class Faults:
    """What goes wrong: gaps in q and dq, dropped channels, spikes of any reading, bursts of time.

    Attributes:
        often: share of samples at which each kind of fault begins.
        longest: samples that a gap lasts at most.
    """

    def __init__(self, problem: MapDynamics, *, often: float = 0.01, longest: int = 30) -> None:
        self.problem, self.often, self.longest = problem, often, longest

    def applied(self, motion: Motion, y: Array, rng: np.random.Generator) -> list[Sample]:
        """All samples of a motion with readings (T, m), damaged."""
        T, n = motion.q.shape
        q, dq, y = motion.q.copy(), motion.dq.copy(), y.copy()
        rows = list(self.problem.layout.slices.values())
        quick = {k for k, s in enumerate(self.problem.sensors) if not s.channels}
        for k in range(_WARM, T):
            if rng.uniform() < self.often:
                which = rng.uniform(size=n) < 0.4
                dq[k : k + int(rng.integers(1, self.longest)), which] = np.nan
            if rng.uniform() < self.often:
                which, end = rng.uniform(size=n) < 0.4, k + int(rng.integers(1, self.longest))
                q[k:end, which] = dq[k:end, which] = np.nan
            if rng.uniform() < self.often:
                where = rows[int(rng.integers(len(rows)))]
                y[k : k + int(rng.integers(1, self.longest)), where] = np.nan
            if rng.uniform() < 3.0 * self.often:
                s = int(rng.integers(len(rows)))
                a = int(rng.integers(rows[s].start, rows[s].stop))
                sigma = float(np.sqrt(self.problem.sensors[s].covariance.max()))
                size = 10.0 ** rng.uniform(1.5, 5.0) * sigma
                if s not in quick:
                    y[k, a] += float(rng.choice([-1.0, 1.0])) * size
        return [Sample(k / RATE, q[k], dq[k], y[k], motion.twist[k]) for k in range(T)]


_WARM = 100  # samples before anything goes wrong


@dataclass(frozen=True)
class Covered:
    """How bands of 1.96 standard deviations hold the truth.

    Attributes:
        share: of the numbers that are in them.
        worst: difference, in standard deviations.
    """

    share: float
    worst: float

    @classmethod
    def of(
        cls, found: Sequence[Posterior], motion: Motion, links: Sequence[str], names: Sequence[str]
    ) -> Covered:
        """Of external wrenches of links and torques of joints."""
        z = [
            np.stack([p[f"fx.{link}"] - motion.wrenches[link][k] for k, p in enumerate(found)])
            / np.stack([p.sigma(f"fx.{link}") for p in found])
            for link in links
        ]
        z += [
            np.stack([p[f"tau.{j}"] - motion.tau[k, i] for k, p in enumerate(found)])
            / np.stack([p.sigma(f"tau.{j}") for p in found])
            for i, j in enumerate(names)
        ]
        off = np.abs(np.concatenate([part[_WARM:].ravel() for part in z]))
        return cls(float(np.mean(off <= 1.96)), float(off.max()))
