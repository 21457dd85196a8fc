"""What a user does first, in a process of its own: how long it took, and how much was compiled.

Run by `benchmarks.start` as ``python -m benchmarks.first_use WHAT FOLDER``; the folder holds the
recording that `identify` takes. Prints seconds with all imports, CPU seconds without them, and the
numbers of compiled functions and of modules of bodysense.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from importlib import import_module
from pathlib import Path

start = time.perf_counter()  # the clock includes all imports

import numpy as np  # noqa: E402
from numba.core import event  # noqa: E402

# numba is untyped; this is what it is.
record: Callable[[str], AbstractContextManager[event.RecordingListener]] = event.install_recorder


def _record(folder: Path) -> None:
    """Not timed: the recording of `_identify`."""
    from benchmarks.subjects import excitation, tx40
    from bodysense import rollout, write_log

    run = rollout(tx40(), excitation(tx40(), 10.0), sampling_rate=200.0)
    write_log(folder / "log.csv", run.log(0))


def _rollout(folder: Path) -> None:
    from benchmarks.subjects import excitation, tx40
    from bodysense import rollout

    rollout(tx40(), excitation(tx40(), 1.0))


def _identify(folder: Path) -> None:
    from benchmarks.subjects import tx40
    from bodysense import identify, read_log

    identify(tx40(), read_log(folder / "log.csv"))


def _estimate(folder: Path) -> None:
    from benchmarks.subjects import tx40
    from bodysense.estimation import MapDynamics

    MapDynamics(tx40(), []).estimate(np.zeros(6), np.zeros(6), np.zeros(0))


def _stream(folder: Path) -> None:
    from benchmarks.subjects import tx40
    from bodysense.estimation import EstimatorStream, MapDynamics, Sample

    stream = EstimatorStream(MapDynamics(tx40(), []))
    stream.step(Sample(0.0, np.zeros(6), np.zeros(6), {}))


def _batch(folder: Path) -> None:
    from benchmarks.subjects import tx40
    from bodysense.estimation import MapDynamics

    still = np.zeros((16, 6))
    MapDynamics(tx40(), []).estimate(still, still, np.zeros((16, 0)))


FIRST: dict[str, Callable[[Path], None]] = {
    "record": _record,
    "rollout": _rollout,
    "identify": _identify,
    "estimate": _estimate,
    "stream": _stream,
    "batch": _batch,
}

NEEDED = {
    "record": ("simulation",),
    "rollout": ("simulation",),
    "identify": ("identification",),
    "estimate": ("estimation",),
    "stream": ("estimation",),
    "batch": ("estimation",),
}

if __name__ == "__main__":
    for package in NEEDED[sys.argv[1]]:
        import_module(f"bodysense.{package}")
    imports = time.process_time()
    with record("numba:compile") as compilations:
        FIRST[sys.argv[1]](Path(sys.argv[2]))
    facts = {
        "seconds": time.perf_counter() - start,
        "cpu": time.process_time() - imports,
        "compiled": sum(happened.is_start for _, happened in compilations.buffer),
        "modules": sum(name.partition(".")[0] == "bodysense" for name in sys.modules),
    }
    print(json.dumps(facts))
