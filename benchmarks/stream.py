"""`EstimatorStream` in a control loop: coverage under faults, and time beside iDynTree's solver.

Motions are sums of sines under forces that swell and fade; Pinocchio says what sensors read. Under
faults one sample in three lacks positions or velocities, or has readings that are missing or
absurd. Times are of the thread's CPU, step by step, both sides in turns.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pinocchio as pin

from benchmarks.idyntree_map import IdyntreeMap
from benchmarks.map_dynamics import PRIOR, SLACK, sensors
from bodysense import Robot, load_robot
from bodysense.estimation import (
    Assumptions,
    EstimatorStream,
    GaussianPrior,
    MapDynamics,
    Posterior,
    Sample,
)
from bodysense.sensors import (
    Accelerometer,
    ExternalWrench,
    ForceTorque,
    Gyroscope,
    JointAcceleration,
    JointTorque,
    Mount,
    Sensor,
    variances,
)
from bodysense.spatial import Array

RATE = 1000.0  # Hz
FASTER = 5.0  # than the peer, with all variances
STEADY = 1.5  # p99 over median
ARM_STEP = 150.0  # µs of an arm of seven joints
COVERED = (0.90, 0.98)  # of bands of 1.96 standard deviations, under faults
WORST = 6.0  # standard deviations


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


def humanoid() -> MapDynamics:
    """The peer's problem: an iCub that floats, with sensors all over."""
    robot = load_robot("example:icub")
    rng = np.random.default_rng(4)
    return MapDynamics(
        robot,
        sensors(robot, rng),
        Assumptions(
            wrench=GaussianPrior.zero(6, PRIOR),
            joint_acceleration=GaussianPrior.zero(1, PRIOR),
            base_acceleration=GaussianPrior.zero(6, PRIOR),
            acceleration_slack=GaussianPrior.zero(6, SLACK),
            wrench_slack=GaussianPrior.zero(6, SLACK),
        ),
    )


def arm() -> MapDynamics:
    """A Panda with torques of its drives, a force/torque sensor and an IMU, pushed at its hand."""
    robot = load_robot("example:panda")
    n = robot.n_joints
    robot = robot.with_friction("coulomb", coefficients={"Fv": np.full(n, 0.5), "Fc": np.ones(n)})
    names, links = robot.joint_names, robot.link_names
    found: list[Sensor] = [
        JointTorque(name=f"tau.{j}", joint=j, side="drive", covariance=variances(0.1, 1))
        for j in names
    ]
    found += [
        JointAcceleration(name=f"ddq.{j}", joint=j, covariance=variances(0.3, 1)) for j in names
    ]
    found += [
        ForceTorque(name="ft", joint=names[6], covariance=variances(0.3, 6)),
        Accelerometer(name="acc", mount=Mount(links[6]), covariance=variances(0.05, 3)),
    ]
    return MapDynamics(
        robot, found, Assumptions(wrenches={links[6]: GaussianPrior.zero(6, [40] * 3 + [5] * 3)})
    )


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


def timed(
    functions: dict[str, Callable[[int], object]], steps: int, rounds: int
) -> dict[str, Array]:
    """(rounds * steps,) µs of CPU of every step of every side, in turns."""
    taken: dict[str, list[int]] = {name: [] for name in functions}
    for _ in range(rounds):
        for name, function in functions.items():
            gc.collect()
            for k in range(steps):
                start = time.thread_time_ns()
                function(k)
                taken[name].append(time.thread_time_ns() - start)
    return {name: np.array(values) / 1e3 for name, values in taken.items()}


def loop(problem: MapDynamics, motion: Motion, y: Array) -> Callable[[int], Posterior]:
    """A stream that begins anew at sample 0."""
    stream = EstimatorStream(problem)
    samples = [motion.sample(k, y) for k in range(len(y))]

    def step(k: int) -> Posterior:
        if k == 0:
            stream.restart()
        return stream.step(samples[k])

    return step


def run(repeat: int, *, steps: int = 500, faulty: int = 3000) -> tuple[Result, ...]:
    """Time an iCub beside the peer and an arm alone; hold faulty streams of both to the truth."""
    results: list[Result] = []
    for label, problem in (("iCub", humanoid()), ("Panda", arm())):
        rng, links = np.random.default_rng(1), _pushed(problem)
        motion = simulated(problem.robot, problem.sensors, steps, rng, pushed=links)
        y = noisy(problem.sensors, motion.y, rng)
        results += _times(label, problem, motion, y, repeat)
        longer = simulated(problem.robot, problem.sensors, faulty, rng, pushed=links)
        results += _coverage(label, problem, longer, rng)
    return tuple(results)


def _pushed(problem: MapDynamics) -> dict[str, float]:
    """Size of the pushes [N] by link."""
    robot = problem.robot
    if robot.floating_base:
        return dict.fromkeys(robot.link_names, 1.0)
    return {robot.link_names[6]: 20.0}


def _times(label: str, problem: MapDynamics, motion: Motion, y: Array, repeat: int) -> list[Result]:
    robot, T = problem.robot, len(y)
    sides: dict[str, Callable[[int], object]] = {"ours": loop(problem, motion, y)}
    if robot.floating_base:
        peer = IdyntreeMap(robot, problem.sensors, slack=SLACK, prior=PRIOR)
        rows = zip(motion.q, motion.dq, motion.twist, y, strict=True)
        inputs = [peer.inputs(q, dq, twist[3:], reading) for q, dq, twist, reading in rows]
        sides["peer"] = lambda k: peer.estimate(inputs[k])
    timed(sides, min(50, T), 1)
    taken = timed(sides, T, repeat)
    ours = float(np.median(taken["ours"]))
    slowest = float(np.percentile(taken["ours"], 99))
    what = f"{label}, {robot.n_joints} joints, a step of a stream with all variances"
    steady = Result.judged(
        "stream",
        f"{what}: the slowest of a hundred",
        unit="µs",
        ours=slowest,
        ours_below=STEADY * ours,
        notes=f"the limit is {STEADY:g} times the median",
    )
    if "peer" not in taken:
        return [Result.judged("stream", what, unit="µs", ours=ours, ours_below=ARM_STEP), steady]
    result = Result.judged(
        "stream",
        f"{what}, peer: iDynTree, means",
        unit="µs",
        ours=ours,
        peer=float(np.median(taken["peer"])),
        ratio_at_least=FASTER,
        notes="medians of the thread's CPU time",
    )
    return [result, steady]


def _coverage(
    label: str, problem: MapDynamics, motion: Motion, rng: np.random.Generator
) -> list[Result]:
    y = noisy(problem.sensors, motion.y, rng)
    faulty = Faults(problem).applied(motion, y, rng)
    stream = EstimatorStream(problem)
    found = [stream.step(sample) for sample in faulty]
    links = list(_pushed(problem))[:8]
    covered = Covered.of(found, motion, links, problem.robot.joint_names)
    happened = ", ".join(f"{n} {name}" for name, n in stream.counts.items() if n)
    what = f"{label}: external wrenches and torques of a stream with gaps, spikes and drop-outs"
    middle, width = 50.0 * (COVERED[0] + COVERED[1]), 50.0 * (COVERED[1] - COVERED[0])
    return [
        Result.judged(
            "stream",
            f"{what}, how far from {middle:g} % of them are in bands of 95 %",
            unit="%",
            ours=abs(100.0 * covered.share - middle),
            ours_below=width,
            notes=f"{100.0 * covered.share:.1f} % are; {happened}",
        ),
        Result.judged(
            "stream", f"{what}, worst", unit="sigma", ours=covered.worst, ours_below=WORST
        ),
    ]
