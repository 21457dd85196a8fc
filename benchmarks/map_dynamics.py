"""Maximum-a-posteriori dynamics of humanoids against iDynTree's solver, step by step from Python.

Both sides solve one problem: a floating robot with an accelerometer and a gyroscope on each link,
force/torque sensors at six joints, external wrenches that are zero up to 1 N and 1 N·m, joint
accelerations, the same covariances of readings and equations. iDynTree has a prior on every unknown
and needs one; ours is on what is independent, and so wide on both sides that it does not count.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pinocchio as pin

from benchmarks.idyntree_map import IdyntreeMap
from benchmarks.result import Result
from benchmarks.timing import Timings, all_threads, interleaved
from bodysense import Robot, load_robot
from bodysense.estimation import (
    Assumptions,
    EstimatorStream,
    GaussianPrior,
    MapDynamics,
    Posterior,
    Sample,
)
from bodysense.estimation._kernels.solve import Found
from bodysense.estimation.map_dynamics.estimator import Detail
from bodysense.sensors import (
    Accelerometer,
    ExternalWrench,
    ForceTorque,
    Gyroscope,
    JointAcceleration,
    Mount,
    Sensor,
    variances,
)
from bodysense.spatial import Array

SLACK = 0.01  # m/s², rad/s², N, N·m: standard deviation of every equation
PRIOR = 1e4  # of every unknown
STD = {"acc": 0.05, "gyro": 0.005, "fx": 1.0, "ddq": 0.1, "ft": 0.5}
FASTER = 4.0
BATCH_FASTER = 2.0
DROPOUTS = 0.01  # of the readings of every sensor that are missing, so that most samples differ
LINEAR = 0.8  # the least ratio of times per link that is still called linear
CLOSE = 1e-5  # of the largest value, between the means of both sides


@dataclass(frozen=True)
class Steps:
    """An estimator, and samples for it that are drawn at random, the same every time.

    Nothing that either side does depends on what the readings are.

    Attributes:
        estimator: of a floating robot.
        q: (T, n_joints) positions.
        dq: (T, n_joints) velocities.
        twist: (T, 6) of the base.
        y: (T, m) readings.
    """

    estimator: MapDynamics
    q: Array
    dq: Array
    twist: Array
    y: Array

    @classmethod
    def of(cls, robot: Robot, n: int) -> Steps:
        """Draw n samples for a robot with sensors all over."""
        rng = np.random.default_rng(4)
        estimator = MapDynamics(
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
        q, dq = rng.normal(size=(2, n, robot.n_joints))
        twist, y = rng.normal(size=(n, 6)), 10.0 * rng.normal(size=(n, estimator.layout.size))
        return cls(estimator, q, dq, twist, y)

    def estimates(self, detail: Detail) -> Callable[[], list[Posterior]]:
        """All samples, a call of `estimate` each."""
        estimate, samples = self.estimator.estimate, (self.q, self.dq, self.twist, self.y)
        return lambda: [
            estimate(q, dq, y, base_twist=twist, detail=detail)
            for q, dq, twist, y in zip(*samples, strict=True)
        ]

    def solves(self, detail: Detail) -> Callable[[], list[Found]]:
        """All samples, a call of `solve` each: arrays without names."""
        ours, samples = self.estimator, (self.q, self.dq, self.twist, self.y)
        return lambda: [
            ours.solve(ours.samples(q, dq, y, base_twist=twist), detail)
            for q, dq, twist, y in zip(*samples, strict=True)
        ]

    def stream(self, detail: Detail) -> Callable[[], list[Posterior]]:
        """All samples, one after the other through a stream, as in a control loop."""
        # samples at random are no motion: a stream would not accept them
        loop = EstimatorStream(self.estimator, detail=detail, late="use", robust=False)
        samples = (self.q, self.dq, self.twist, self.y)
        return lambda: [
            loop.step(Sample(0.001 * k, q, dq, y, twist))
            for k, (q, dq, twist, y) in enumerate(zip(*samples, strict=True))
        ]

    def batch(self, detail: Detail) -> Callable[[], Posterior]:
        """All samples in one call of `estimate`."""
        return lambda: self.estimator.estimate(
            self.q, self.dq, self.y, base_twist=self.twist, detail=detail
        )


def sensors(robot: Robot, rng: np.random.Generator) -> list[Sensor]:
    """Draw sensors anywhere on every link, and force/torque sensors at six joints."""
    found: list[Sensor] = []
    for link in robot.link_names:
        mount = Mount.from_xyz_rpy(link, rng.uniform(-0.1, 0.1, 3), rng.uniform(-1.0, 1.0, 3))
        acc, gyro, wrench = (variances(STD[k], n) for k, n in (("acc", 3), ("gyro", 3), ("fx", 6)))
        found += [
            Accelerometer(name=f"acc.{link}", mount=mount, covariance=acc),
            Gyroscope(name=f"gyro.{link}", mount=mount, covariance=gyro),
            ExternalWrench(name=f"fx.{link}", mount=Mount(link), covariance=wrench),
        ]
    for joint in robot.joint_names:
        noise = variances(STD["ddq"], 1)
        found.append(JointAcceleration(name=f"ddq.{joint}", joint=joint, covariance=noise))
    for joint in robot.joint_names[:: max(1, robot.n_joints // 6)][:6]:
        noise = variances(STD["ft"], 6)
        found.append(ForceTorque(name=f"ft.{joint}", joint=joint, covariance=noise))
    return found


def random_robot(n: int) -> Robot:
    """Build a floating tree of n links, each hanging on one of the five before it."""
    rng = np.random.default_rng(n)
    model = pin.Model()
    model.name = f"tree-{n}"
    model.addJoint(0, pin.JointModelFreeFlyer(), pin.SE3.Identity(), "root")
    for k in range(1, n):
        R = pin.rpy.rpyToMatrix(rng.uniform(-2.0, 2.0, 3))
        place = pin.SE3(R, rng.uniform(-0.2, 0.2, 3))
        parent = int(rng.integers(max(1, k - 4), k + 1))
        model.addJoint(parent, pin.JointModelRZ(), place, f"joint{k}")
    for k in range(1, n + 1):
        body = pin.Inertia(rng.uniform(0.5, 2.0), rng.uniform(-0.1, 0.1, 3), 0.01 * np.eye(3))
        model.appendBodyToJoint(k, body, pin.SE3.Identity())
        model.addBodyFrame(f"link{k}", k, pin.SE3.Identity(), model.addJointFrame(k))
    return Robot.from_pinocchio(model)


def run(
    repeat: int, *, steps: int = 50, batch: int = 1000, links: tuple[int, ...] = (25, 50, 100, 200)
) -> tuple[Result, ...]:
    """Compare humanoids with the peer, long robots with short ones, batches with steps."""
    results: list[Result] = []
    for label, name in (("iCub", "example:icub"), ("Talos with hands", "example:talos_full")):
        results += _beside(label, Steps.of(load_robot(name), steps), repeat)
    results.append(_growth(repeat, steps, links))
    many = Steps.of(load_robot("example:icub"), batch)
    return (*results, *_batched(many, repeat), _with_dropouts(many, repeat))


def _beside(label: str, steps: Steps, repeat: int) -> list[Result]:
    robot = steps.estimator.robot
    peer = IdyntreeMap(robot, steps.estimator.sensors, slack=SLACK, prior=PRIOR)
    samples = [
        peer.inputs(q, dq, twist[3:], y)
        for q, dq, twist, y in zip(steps.q, steps.dq, steps.twist, steps.y, strict=True)
    ]
    ours = {
        "estimate": ("estimate, means", steps.estimates("means"), FASTER),
        "stream": ("stream, means", steps.stream("means"), FASTER),
        "solve": ("solve, means", steps.solves("means"), FASTER),
        "variances": ("stream, means and all variances", steps.stream("variances"), 1.0),
        "named": ("estimate, means and all variances", steps.estimates("variances"), 1.0),
    }
    sides = {side: function for side, (_, function, _) in ours.items()}
    timings = interleaved(
        {**sides, "peer": lambda: [peer.estimate(sample) for sample in samples]}, repeat
    )
    agreement = _agreement(steps, peer, [peer.estimate(sample) for sample in samples])
    per_step = 1e6 / len(samples)
    return [
        Result.judged(
            "map-dynamics",
            f"{label}, {robot.n_joints} joints, a step: {words}, peer: iDynTree, means",
            unit="µs",
            ours=per_step * timings.best(side),
            peer=per_step * timings.best("peer"),
            paired_ratio=timings.paired_ratio("peer", side),
            agreement=agreement,
            ratio_at_least=least,
            agreement_within=CLOSE,
            notes=f"iDynTree has {peer.unknowns} unknowns, {peer.equations} equations and "
            f"{peer.readings} readings, ours {steps.estimator.variables.size} unknowns; agreement "
            "of wrenches and joint accelerations, relative to the largest of each",
        )
        for side, (words, _, least) in ours.items()
    ]


def _agreement(steps: Steps, peer: IdyntreeMap, means: list[Array]) -> float:
    """Largest difference of the means, by kind of quantity relative to the largest value."""
    posterior = steps.batch("means")()
    theirs = [peer.named(vector) for vector in means]
    worst = 0.0
    for kind in ("fx", "f", "ddq"):
        names = [name for name in theirs[0] if name.startswith(f"{kind}.")]
        ours = np.concatenate([posterior[name] for name in names], axis=1)
        other = np.stack([np.concatenate([found[name] for name in names]) for found in theirs])
        worst = max(worst, float(np.abs(ours - other).max() / np.abs(other).max()))
    return worst


def _growth(repeat: int, steps: int, links: tuple[int, ...]) -> Result:
    sides = {str(n): Steps.of(random_robot(n), steps).solves("variances") for n in links}
    timings = interleaved(sides, repeat)
    each = {n: 1e6 * timings.best(str(n)) / (steps * n) for n in links}
    first, last = min(links), max(links)
    return Result.judged(
        "map-dynamics",
        f"trees of {first} to {last} links, a step: solve with all variances, {last} links, "
        f"peer: {first} links",
        unit="µs/link",
        ours=each[last],
        peer=each[first],
        paired_ratio=timings.paired_ratio(str(first), str(last)) * last / first,
        ratio_at_least=LINEAR,
        notes="µs a link: " + ", ".join(f"{n} links {time:.3g}" for n, time in each.items()),
    )


def _batched(steps: Steps, repeat: int) -> list[Result]:
    single, batch = steps.estimates("variances"), steps.batch("variances")
    difference = _difference(single(), batch())
    sides = {"estimate": single, "solve": steps.solves("variances")}
    timings = interleaved({"batch": batch, **sides}, repeat)
    return [
        _batch_result(
            timings,
            side,
            len(steps.q),
            f"iCub with all variances: a step of {len(steps.q)} in one call of estimate, peer: "
            f"single steps through {side}",
            difference,
            BATCH_FASTER,
        )
        for side in sides
    ]


def _with_dropouts(steps: Steps, repeat: int) -> Result:
    rng, y = np.random.default_rng(5), steps.y.copy()
    for where in steps.estimator.layout.slices.values():
        y[rng.uniform(size=len(y)) < DROPOUTS, where] = np.nan
    steps = replace(steps, y=y)
    single, batch = steps.estimates("variances"), steps.batch("variances")
    timings = interleaved({"batch": batch, "estimate": single}, repeat)
    return _batch_result(
        timings,
        "estimate",
        len(y),
        f"iCub with all variances, {DROPOUTS:.0%} of the readings of each sensor missing: a step "
        f"of {len(y)} in one call of estimate, peer: single steps through estimate",
        _difference(single(), batch()),
        1.0,
    )


def _difference(singles: list[Posterior], whole: Posterior) -> float:
    """Largest difference of the means, relative to the largest value."""
    largest = max(
        float(np.abs(one.mean - many).max()) for one, many in zip(singles, whole.mean, strict=True)
    )
    return largest / float(np.abs(whole.mean).max())


def _batch_result(
    timings: Timings, side: str, count: int, words: str, difference: float, least: float
) -> Result:
    return Result.judged(
        "map-dynamics",
        words,
        unit="µs",
        ours=1e6 * timings.best("batch") / count,
        peer=1e6 * timings.best(side) / count,
        paired_ratio=timings.paired_ratio(side, "batch"),
        agreement=difference,
        ratio_at_least=least,
        agreement_within=1e-12,
        notes=f"a batch is spread over {all_threads()} threads",
    )
