"""External torques of a seven-axis arm by its momentum, with covariance, against `pin.rnea`.

One call of `pin.rnea` is what any estimator of external torques needs at least once per sample, and
all that the simplest one does. Beside it, ten minutes of 1 kHz: whether the covariance holds, and
neither it nor the time of a step grows.
"""

from __future__ import annotations

from time import perf_counter

import numpy as np
import pinocchio as pin

from benchmarks.result import Result
from benchmarks.timing import interleaved, on_threads
from bodysense import Robot, load_robot
from bodysense.estimation import MomentumObserver
from bodysense.robot import inverse_dynamics
from bodysense.spatial import Array

TORQUE_STD, VELOCITY_STD, GRAVITY = 0.1, 1e-3, np.array([0.0, 0.0, -9.81])
RATE = 1000.0


def run(repeat: int, *, steps: int = 20_000, minutes: float = 10.0) -> tuple[Result, ...]:
    """Measure an arm and a quadruped step by step, and a long recording of the arm."""
    fingers = {"panda_finger_joint1": 0.0, "panda_finger_joint2": 0.0}
    arm = load_robot("example:panda").with_locked_joints(fingers)
    arm = arm.with_friction("coulomb", coefficients={"Fv": 0.5, "Fc": 1.0})
    hyq = load_robot("example:hyq", floating_base=True)
    return (
        _stepped("Panda, 7 axes", arm, steps, repeat, at_least=0.1),
        _stepped("HyQ, floating, 18 velocities", hyq, steps // 4, repeat, at_least=None),
        *_long(arm, minutes),
    )


def _stepped(label: str, robot: Robot, steps: int, repeat: int, at_least: float | None) -> Result:
    """Step by step from Python, as in a control loop; at least a tenth of the speed of `rnea`."""
    n, rng = robot.n_joints, np.random.default_rng(0)
    q, v, tau = rng.uniform(-1.0, 1.0, n), rng.normal(size=n), rng.normal(size=n)
    floats = robot.floating_base
    twist = rng.normal(size=6) if floats else None
    gravity = GRAVITY if floats else None
    noise = {"base_twist_std": 1e-3} if floats else {}
    observer = MomentumObserver(robot, torque_std=TORQUE_STD, velocity_std=VELOCITY_STD, **noise)
    stream, clock = observer.stream(), [0.0]

    def ours() -> None:
        step, t = stream.step, clock[0]
        for _ in range(steps):
            t += 1e-3
            step(t, q, v, tau, twist, gravity)
        clock[0] = t

    model, data, rnea = robot.model, robot.model.createData(), pin.rnea
    whole = pin.neutral(model)
    whole[model.nq - n :] = q
    speed = v if twist is None else np.concatenate([twist, v])
    a = np.zeros(model.nv)

    def peer() -> None:
        for _ in range(steps):
            rnea(model, data, whole, speed, a)

    timings = interleaved({"ours": on_threads(1, ours), "peer": peer}, repeat)
    return Result.judged(
        "momentum",
        f"{label}: a step of the observer with covariance, against one `rnea`",
        unit="µs",
        ours=1e6 * timings.best("ours") / steps,
        peer=1e6 * timings.best("peer") / steps,
        paired_ratio=timings.paired_ratio("peer", "ours"),
        ratio_at_least=at_least,
        agreement=_difference(robot.with_friction("none"), q, v, tau, twist, gravity),
        agreement_within=1e-10,
        notes="both called from Python; agreement of momentum and its rate with `crba`, "
        "`computeCoriolisMatrix` and `computeGeneralizedGravity`, relative to the largest value, "
        "without friction",
    )


def _difference(
    robot: Robot, q: Array, v: Array, tau: Array, twist: Array | None, g: Array | None
) -> float:
    """Largest relative difference of momentum and rate to what Pinocchio says."""
    model, data, base = robot.model, robot.model.createData(), robot.nv - robot.n_joints
    noise = {"base_twist_std": 1e-3} if base else {}
    stream = MomentumObserver(robot, torque_std=1.0, velocity_std=1e-3, **noise).stream()
    stream.step(0.0, q, v, tau, twist, g)
    whole = pin.neutral(model)
    whole[model.nq - robot.n_joints :] = q
    speed = v if twist is None else np.concatenate([twist, v])
    M = pin.crba(model, data, whole)
    p = (np.triu(M) + np.triu(M, 1).T) @ speed
    C = pin.computeCoriolisMatrix(model, data, whole, speed)
    rate = C.T @ speed - pin.computeGeneralizedGravity(model, data, whole)
    rate[base:] += tau
    pairs = ((stream.momentum, p), (stream.rate, rate))
    return max(float(np.abs(a - b).max() / np.abs(b).max()) for a, b in pairs)


def _long(robot: Robot, minutes: float) -> tuple[Result, ...]:
    """A long motion without contact in pieces of a second, one kernel call each."""
    rng, w = np.random.default_rng(1), np.array([0.9, 1.1, 0.7, 1.3, 1.0, 0.8, 1.2])
    observer = MomentumObserver(robot, torque_std=TORQUE_STD, velocity_std=VELOCITY_STD)
    stream, count = observer.stream(), int(RATE)
    inside: list[Array] = []
    deviations: list[float] = []
    seconds: list[float] = []
    for k in range(max(4, int(60.0 * minutes))):
        t = k + np.arange(count) / RATE
        q, v = 0.5 * np.sin(t[:, None] * w), 0.5 * w * np.cos(t[:, None] * w)
        tau = inverse_dynamics(robot, q, v, -(w**2) * q)
        dq = v + VELOCITY_STD * rng.normal(size=v.shape)
        tau += TORQUE_STD * rng.normal(size=tau.shape)
        begin = perf_counter()
        estimate = stream.run(t, q, dq, tau)
        seconds.append(perf_counter() - begin)
        sigma = np.sqrt(estimate.variance)
        inside.append((np.abs(estimate.tau_ext) < 2.0 * sigma).mean(axis=0))
        deviations.append(float(np.median(sigma)))
    tail = max(1, len(seconds) // 10)
    held = float(np.mean(inside[1:]))
    what = f"Panda, {minutes:g} min at 1 kHz without contact"
    return (
        Result.judged(
            "momentum",
            f"{what}, a second per call: a sample",
            unit="µs",
            ours=1e6 * float(np.median(seconds)) / count,
            notes=f"{1e6 * float(np.median(seconds[-tail:])) / count:.3g} in the last tenth; "
            f"median standard deviation {deviations[1]:.3g} N·m in the second second, "
            f"{float(np.median(deviations[-tail:])):.3g} in the last tenth",
        ),
        Result.judged(
            "momentum",
            f"{what}: samples outside of two standard deviations",
            unit="share",
            ours=1.0 - held,
            ours_below=0.08,
            notes="4.6 % of Gaussian errors; friction near reversals, and a change that looks like "
            "lag, make bands wider",
        ),
    )
