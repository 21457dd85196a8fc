"""The doctor's check of sensors: faults that it names, and what it says of sensors without any.

Arms with a tool, a force/torque sensor at the wrist, an IMU and joint torques, and the humanoid
with six force/torque sensors and three IMUs, held or floating, move for ten seconds; masses of the
model are off by 2 %, readings are noisy, and in two thirds of the logs somebody pushes once or
twice for 0.5 to 2 s. One sensor at a time is wrong. A fault counts as named if the finding is about
that sensor, of the right kind, and nothing else is accused; logs without a fault must be free of
warnings.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pinocchio as pin

from benchmarks.result import Result
from benchmarks.sensor_subjects import ARMS, SensorSubject, arm, icub
from bodysense import load_robot
from bodysense.doctor.axis_fit import SIGNED_AXES
from bodysense.doctor.sensor_check import check_sensors
from bodysense.sensors import Accelerometer, ForceTorque, Gyroscope, JointTorque
from bodysense.spatial import Array, exp_so3
from bodysense.status import Finding

NAMED, CLEAN = 95.0, 98.0  # % of the trials
TIME = 50.0  # ms for a log of 10 000 samples

BIAS = np.array([30.0, -20.0, 9.0, 1.0, 0.0, 2.0])  # N, N·m

Fault = Callable[[SensorSubject, np.random.Generator], tuple[SensorSubject, str]]
"""What it does to a subject, and the sensor that is wrong then."""


def findings_of(subject: SensorSubject) -> tuple[Finding, ...]:
    """What the check says."""
    s = subject
    return check_sensors(s.robot, s.sensors, s.t, s.q, s.dq, s.ddq, s.readings, **s.base)  # type: ignore[arg-type]


def turned(G: Array, y: Array) -> Array:
    """Readings (T, 3) or (T, 6) in other axes."""
    return np.concatenate([y[:, k : k + 3] @ G.T for k in range(0, y.shape[1], 3)], axis=1)


def one_of(subject: SensorSubject, kind: type, rng: np.random.Generator) -> str:
    """The name of a sensor of a kind, but of a gyroscope on a base that does not move."""
    names = [s.name for s in subject.sensors if isinstance(s, kind)]
    if "root" in subject.base and kind is Gyroscope:
        names.remove("gyro.base_link")
    return str(rng.choice(names))


def changed(kind: type, change: Callable[[Array], Array]) -> Fault:
    """A fault that is a function of the readings."""

    def fault(subject: SensorSubject, rng: np.random.Generator) -> tuple[SensorSubject, str]:
        name = one_of(subject, kind, rng)
        return subject.with_reading(name, change), name

    return fault


def any_turn(kind: type, draw: Callable[[np.random.Generator], Array]) -> Fault:
    """A fault that is a turn of the axes, drawn at random."""

    def fault(subject: SensorSubject, rng: np.random.Generator) -> tuple[SensorSubject, str]:
        name = one_of(subject, kind, rng)
        return subject.with_reading(name, partial(turned, draw(rng))), name

    return fault


def right_angles(rng: np.random.Generator) -> Array:
    return SIGNED_AXES[2:25][rng.integers(23)]


def any_angle(rng: np.random.Generator) -> Array:
    axis = rng.normal(size=3)
    return np.asarray(exp_so3(rng.uniform(0.35, 1.0) * axis / np.linalg.norm(axis)))


def mirrored(rng: np.random.Generator) -> Array:
    signs = np.ones(3)
    signs[rng.integers(3)] = -1.0
    return np.diag(signs)


def scaled(force: float, moment: float) -> Fault:
    return changed(ForceTorque, lambda y: y * np.repeat([force, moment], 3))


def other_tool(subject: SensorSubject, rng: np.random.Generator) -> tuple[SensorSubject, str]:
    """The robot's file without its tool."""
    name = {load_robot(key).name: key for key in ARMS}[subject.robot.name]
    return replace(subject, robot=load_robot(name)), "wrist"


def heaviest(subject: SensorSubject) -> list[str]:
    """Joint torques that change most."""
    torques = [s.name for s in subject.sensors if isinstance(s, JointTorque)]
    return sorted(torques, key=lambda name: -float(subject.readings[name].std()))


def torque_sign(subject: SensorSubject, rng: np.random.Generator) -> tuple[SensorSubject, str]:
    name = heaviest(subject)[int(rng.integers(3))]
    return subject.with_reading(name, np.negative), name


def all_torque_signs(subject: SensorSubject, rng: np.random.Generator) -> tuple[SensorSubject, str]:
    names = heaviest(subject)
    for name in names:
        subject = subject.with_reading(name, np.negative)
    return subject, names[0]


def torque_exchange(subject: SensorSubject, rng: np.random.Generator) -> tuple[SensorSubject, str]:
    one, other = heaviest(subject)[:2]
    y = subject.readings
    return replace(subject, readings={**y, one: y[other], other: y[one]}), one.removeprefix("tau.")


def other_robot(subject: SensorSubject, rng: np.random.Generator) -> tuple[SensorSubject, str]:
    """Torques of a robot whose joints have the same names and lie otherwise."""
    model = subject.robot.model.copy()
    data = model.createData()
    for k in range(1, model.njoints):
        model.jointPlacements[k].rotation = exp_so3(rng.uniform(-2.0, 2.0, 3))
    samples = zip(subject.q, subject.dq, subject.ddq, strict=True)
    tau = np.array([pin.rnea(model, data, *sample).copy() for sample in samples])
    names = [f"tau.{joint}" for joint in subject.robot.joint_names]
    torques = {name: tau[:, [j]] for j, name in enumerate(names)}
    return replace(subject, readings={**subject.readings, **torques}), "tau"


WRENCH_FAULTS: dict[str, tuple[str, Fault]] = {
    "wrench reversed": ("sensor-sign", changed(ForceTorque, np.negative)),
    "wrench turned by right angles": ("sensor-frame", any_turn(ForceTorque, right_angles)),
    "wrench turned by 20° to 57°": ("sensor-frame", any_turn(ForceTorque, any_angle)),
    "wrench with a mirrored axis": ("sensor-frame", any_turn(ForceTorque, mirrored)),
    "wrench with moments first": ("sensor-frame", changed(ForceTorque, lambda y: np.roll(y, 3, 1))),
    "forces in mN": ("sensor-unit", scaled(1e3, 1.0)),
    "wrench in kgf": ("sensor-unit", scaled(1.0 / 9.81, 1.0 / 9.81)),
    "forces in lbf": ("sensor-unit", scaled(0.224809, 1.0)),
    "moments in N·mm": ("sensor-unit", scaled(1.0, 1e3)),
    "wrench with a bias": (
        "sensor-bias",
        changed(ForceTorque, lambda y: y + BIAS),
    ),
}
IMU_FAULTS: dict[str, tuple[str, Fault]] = {
    "accelerometer reads gravity": ("sensor-sign", changed(Accelerometer, np.negative)),
    "accelerometer turned": ("sensor-frame", any_turn(Accelerometer, right_angles)),
    "accelerometer turned by 20° to 57°": ("sensor-frame", any_turn(Accelerometer, any_angle)),
    "gyroscope reversed": ("sensor-sign", changed(Gyroscope, np.negative)),
    "gyroscope turned": ("sensor-frame", any_turn(Gyroscope, right_angles)),
    "gyroscope turned by 20° to 57°": ("sensor-frame", any_turn(Gyroscope, any_angle)),
}
ARM_FAULTS: dict[str, tuple[str, Fault]] = {
    "tool of 1 kg unknown": ("tool-mass", other_tool),
    "a torque reversed": ("torque-sign", torque_sign),
    "all torques reversed": ("torque-sign", all_torque_signs),
    "two torques exchanged": ("swapped-joints", torque_exchange),
    "torques of another robot": ("wrong-robot", other_robot),
}
SUBJECTS: dict[str, Callable[[np.random.Generator, int], SensorSubject]] = {
    **{name: lambda rng, n, name=name: arm(name, rng, pushes=n) for name in ARMS},
    "iCub, held": lambda rng, n: icub(rng, pushes=n),
    "iCub, floating": lambda rng, n: icub(rng, floats=True, pushes=n),
}


def faults_of(subject: str) -> dict[str, tuple[str, Fault]]:
    """Those that a subject can have."""
    return {**WRENCH_FAULTS, **IMU_FAULTS, **(ARM_FAULTS if subject in ARMS else {})}


def is_named(findings: tuple[Finding, ...], kind: str, who: str) -> bool:
    """Whether the fault is named, and no other sensor accused."""
    told = [f for f in findings if f.severity != "note"]
    right = [f for f in told if f.kind == kind and (who in f.where)]
    return bool(right) and len(told) == len(right)


def run(
    repeat: int, *, trials: int = 40, subjects: tuple[str, ...] = tuple(SUBJECTS)
) -> tuple[Result, ...]:
    """Count faults that are named, and clean logs with a warning; and take the time."""
    named: dict[str, list[bool]] = {}
    clean: list[bool] = []
    for subject in subjects:
        for trial in range(trials):
            rng = np.random.default_rng([trial, len(subject)])
            sound = SUBJECTS[subject](rng, trial % 3)
            clean.append(all(f.severity == "note" for f in findings_of(sound)))
            for fault, (kind, change) in faults_of(subject).items():
                wrong, who = change(sound, rng)
                named.setdefault(fault, []).append(is_named(findings_of(wrong), kind, who))
    results = [
        _share(f"{fault}, {len(hits)} logs: not named", hits, 100.0 - NAMED)
        for fault, hits in named.items()
    ]
    sound = _share(f"no fault, {len(clean)} logs: with a warning", clean, 100.0 - CLEAN)
    return (*results, sound, _timed(repeat))


def _share(what: str, right: list[bool], below: float) -> Result:
    share = 100.0 * (1.0 - float(np.mean(right)))
    return Result.judged("sensor-check", what, unit="%", ours=share, ours_below=below + 1e-9)


def _timed(repeat: int) -> Result:
    subject = arm("example:panda", np.random.default_rng(0))
    times = 10
    q, dq, ddq = (np.repeat(x, times, axis=0) for x in (subject.q, subject.dq, subject.ddq))
    readings = {name: np.repeat(y, times, axis=0) for name, y in subject.readings.items()}
    t = np.arange(len(q)) / 1000.0
    long = replace(subject, t=t, q=q, dq=dq, ddq=ddq, readings=readings)
    best = np.inf
    for _ in range(repeat + 1):
        start = time.perf_counter()
        findings_of(long)
        best = min(best, time.perf_counter() - start)
    what = f"Panda, {len(q)} samples, {len(subject.sensors)} sensors: the whole check"
    return Result.judged("sensor-check", what, unit="ms", ours=1e3 * best, ours_below=TIME)
