"""Memory and time of a million samples, each task in a process of its own."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.result import Result
from benchmarks.subjects import excitation, tx40
from bodysense import Log, Robot
from bodysense.identification import Regression, identifier, identify
from bodysense.robot.dynamics import inverse_dynamics
from bodysense.spatial import Array

ROOT = Path(__file__).parent.parent
TASKS = {
    "identify": "identify(): doctor, choices, fit, scores",
    "wls": "WLS of every sample",
    "pc-wls": "PC-WLS of every sample",
}
MOST = 2.0  # GiB


def run(
    repeat: int, *, samples: int = 1_000_000, tasks: Sequence[str] = tuple(TASKS)
) -> tuple[Result, ...]:
    """Run each task once, however large `repeat` is: memory does not vary, and it takes long."""
    results: list[Result] = []
    for task in tasks:
        found = _child(task, samples)
        what = f"TX40, {samples} samples at 1 kHz: {TASKS[task]}"
        results += [
            Result.judged(
                "long-log",
                f"{what}: largest memory",
                unit="GiB",
                ours=found["peak"],
                ours_below=MOST,
                notes=f"{found['before']:.2g} GiB of it are Python, libraries and the samples",
            ),
            Result.judged(
                "long-log",
                f"{what}: time",
                unit="s",
                ours=found["seconds"],
                notes=f"one run of a fresh process, {found['rows']:.0f} rows in the regression",
            ),
        ]
    return tuple(results)


def _child(task: str, samples: int) -> dict[str, float]:
    process = subprocess.run(
        [sys.executable, "-m", "benchmarks.long_log", task, str(samples)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if process.returncode:
        raise RuntimeError(f"{task} of {samples} samples failed:\n{process.stderr}")
    found: dict[str, float] = json.loads(process.stdout)
    if not found["solved"]:
        raise RuntimeError(f"{task} of {samples} samples found no solution")
    return found


# The child: identification from a long log, its time and its largest memory.

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
