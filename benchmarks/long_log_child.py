"""Identification from a long log in a process of its own: tells its time and its largest memory.

Run by `benchmarks.long_log` as ``python -m benchmarks.long_log_child TASK SAMPLES``.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path

import numpy as np

from benchmarks.subjects import excitation, tx40
from bodysense import Log, Robot
from bodysense.identification import Regression, identifier, identify
from bodysense.robot.dynamics import inverse_dynamics
from bodysense.spatial import Array

RATE = 1000.0  # Hz
PERIOD = 20.0  # s, after which the motion repeats
POSITION_NOISE = 1e-5  # rad
TORQUE_NOISE = 0.1  # N·m


def subject() -> Robot:
    """The arm with friction that is smooth, so that every row counts."""
    return tx40().with_friction("coulomb", width=0.02)


def samples(robot: Robot, n: int) -> tuple[Array, Array, Array, Array, Array]:
    """Draw t (n,), q, v, a and tau (n, n_joints) of a Fourier motion, the torque with noise."""
    t = np.arange(n) / RATE
    q, v, a = excitation(robot, PERIOD)(t)
    tau = inverse_dynamics(robot, q, v, a)
    tau += TORQUE_NOISE * np.random.default_rng(3).standard_normal(tau.shape)
    return t, q, v, a, tau


def log_of(robot: Robot, n: int) -> Log:
    """The same as a recording: positions and torques, both with noise."""
    t, q, _, _, tau = samples(robot, n)
    q += POSITION_NOISE * np.random.default_rng(4).standard_normal(q.shape)
    channels = {f"q.{name}": q[:, k] for k, name in enumerate(robot.joint_names)}
    channels |= {f"tau.{name}": tau[:, k] for k, name in enumerate(robot.joint_names)}
    return Log.of(t, channels)


def peak() -> float:
    """Largest memory of this process so far [GiB].

    Linux hands the largest memory of the process that started this one down to `getrusage`, so
    its own is asked for where there is one.
    """
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return float(line.split()[1]) / 2**20
    unit = 2**30 if sys.platform == "darwin" else 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def main(task: str, n: int) -> None:
    """Do one task and print what it took as JSON."""
    robot = subject()
    if task == "identify":
        log = log_of(robot, n)
        before, start = peak(), time.perf_counter()
        run = identify(robot, [log])
        seconds = time.perf_counter() - start
        estimate, problem = run.identification, run.problem
    else:
        _, q, v, a, tau = samples(robot, n)
        before, start = peak(), time.perf_counter()
        problem = Regression.from_samples(robot, q, v, a, tau, rate=RATE)
        estimate = identifier(task).fit(problem)
        seconds = time.perf_counter() - start
    found = {
        "seconds": seconds,
        "peak": peak(),
        "before": before,
        "rows": problem.n_samples * problem.n_joints,
        "solved": float(estimate.status.ok),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
