"""Memory and time of a million samples, each task in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.result import Result

ROOT = Path(__file__).parent.parent
TASKS = {
    "identify": "identify(): doctor, choices, pc-wls, scores",
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
        [sys.executable, "-m", "benchmarks.long_log_child", task, str(samples)],
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
