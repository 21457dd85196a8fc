"""Figaroh in a virtual environment and a process of its own, asked over pipes.

It is no dependency of bodysense, and brings many of its own: the environment is built once, below
``.cache``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from benchmarks.result import NotMeasuredError
from bodysense.robot import ParameterLayout
from bodysense.spatial import Array

VERSION = "1.0.2"
ROOT = Path(__file__).parent.parent
FOLDER = ROOT / ".cache" / f"figaroh-{VERSION}"
_FRICTION = {"fv": "Fv", "fs": "Fc", "Ia": "Ia", "off": "Fo"}
_WRIST = {"Iam6": "Iam6", "fvm6": "Fvm6", "fsm6": "Fcm6"}


def interpreter() -> Path:
    """The Python that has figaroh; installs it on the first call.

    Raises:
        NotMeasuredError: it cannot be installed.
    """
    python = FOLDER / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    done = FOLDER / "complete"
    if not done.exists():
        for command in (
            [sys.executable, "-m", "venv", "--clear", str(FOLDER)],
            [str(python), "-m", "pip", "install", "--quiet", f"figaroh=={VERSION}"],
        ):
            process = subprocess.run(command, capture_output=True, text=True, check=False)
            if process.returncode:
                last = (process.stderr.strip().splitlines() or ["no message"])[-1]
                raise NotMeasuredError(
                    f"figaroh {VERSION} cannot be installed ({last}); it needs a package index"
                )
        done.touch()
    return python


@dataclass(frozen=True, eq=False)
class Answer:
    """What figaroh found in one go.

    Attributes:
        seconds: its own time, from the files to the estimate.
        names: of the parameters that it keeps as base parameters.
        places: of these among its parameters; inertial ones are in Pinocchio's order.
        values: its estimate.
        rows: of the problem that was solved.
    """

    seconds: float
    names: list[str]
    places: list[int]
    values: list[float]
    rows: int

    def theta(self, layout: ParameterLayout) -> Array:
        """(p,) the estimate in the layout of the robot here; what it has left out is zero.

        Base parameters stand for their combinations, so that torques are the same.
        """
        theta = np.zeros(layout.size)
        for name, place, value in zip(self.names, self.places, self.values, strict=True):
            if place < layout.n_inertial:
                theta[place] = value
            elif name in _WRIST:
                theta[layout.names.index(_WRIST[name])] = value
            else:
                kind, _, joint = name.partition("_joint_")
                theta[layout.names.index(_FRICTION[kind] + joint)] = value
        return theta


class Figaroh:
    """A running process; a context, at whose end it stops.

    Attributes:
        first: the answer to the first request, which `__enter__` makes.
        first_seconds: from the start of the process to that answer.
    """

    def __init__(self, recording: Path, threads: int) -> None:
        """Say what to identify, and on how many threads of numpy's linear algebra."""
        self._recording, self._threads = recording, threads

    def __enter__(self) -> Figaroh:
        """Start, and identify once."""
        python = interpreter()
        self._scratch = tempfile.TemporaryDirectory()
        names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
        start = time.perf_counter()
        self._process = subprocess.Popen(
            [
                str(python),
                *("-W", "ignore"),
                str(Path(__file__).with_name("figaroh_peer.py")),
                str(self._recording),
                self._scratch.name,
            ],
            env={**os.environ, **dict.fromkeys(names, str(self._threads))},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._line()
        self.first = self.identify()
        self.first_seconds = time.perf_counter() - start
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Let it end."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._scratch.cleanup()

    def identify(self, decimate: bool = False) -> Answer:
        """Identify the recording once, from its files on."""
        if self._process.stdin is None:
            raise NotMeasuredError("figaroh cannot be asked: its input is closed")
        print("decimated" if decimate else "all", file=self._process.stdin, flush=True)
        return Answer(**self._line())

    def _line(self) -> dict[str, Any]:
        line = self._process.stdout.readline() if self._process.stdout is not None else ""
        if not line:
            raise NotMeasuredError(
                "figaroh has failed; run benchmarks/figaroh_peer.py by hand to see"
            )
        answer: dict[str, Any] = json.loads(line)
        return answer
