"""How long a user waits: for the import, and for the first use of each kind, kernels cold.

Times of first uses are CPU seconds of a fresh process with an empty cache. With the folder `src` of
another checkout in $BODYSENSE_BEFORE the same is measured of that one, in turn, as the peer.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.result import Result

ROOT = Path(__file__).parent.parent
IMPORT = """
import json, time
start = time.perf_counter()
import bodysense
print(json.dumps({"seconds": time.perf_counter() - start}))
"""

FIRST = {
    "rollout": ("first rollout", 2.0),
    "identify": ("first identify", 2.0),
    "estimate": ("first estimate of one sample", 5.0),
    "stream": ("first step of a stream", 5.0),
    "batch": ("first batch of samples", 5.0),
}
"""By name: in words, and how many times faster than before it is to be."""

MODULES = 200
"""Modules of bodysense that a command may load."""


def fresh_process(arguments: list[str], cache: str, source: str | None = None) -> dict[str, float]:
    """Run Python anew with numba's cache in a given folder and return the JSON it prints."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
    if source is not None:
        environment["PYTHONPATH"] = source
    process = subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, float] = json.loads(process.stdout)
    return found


def first_use(
    name: str, recording: str, cache: str | None, source: str | None = None
) -> dict[str, float]:
    """Facts about a first use; the cache is empty unless one is given."""
    with tempfile.TemporaryDirectory() as empty:
        command = ["-m", "benchmarks.first_use", name, recording]
        return fresh_process(command, cache or empty, source)


def run(repeat: int, *, cache: str | None = None) -> tuple[Result, ...]:
    """Measure in fresh interpreters, with empty caches unless one is given."""
    before = os.environ.get("BODYSENSE_BEFORE")
    results = []
    with tempfile.TemporaryDirectory() as folder:
        warm_cache = cache or folder
        imports = [fresh_process(["-c", IMPORT], warm_cache)["seconds"] for _ in range(repeat)]
        first_use("record", folder, warm_cache)
        warm = [first_use("rollout", folder, warm_cache) for _ in range(repeat)]
        for name, (words, times) in FIRST.items():
            ours = first_use(name, folder, cache)
            peer = None if before is None else first_use(name, folder, None, before)
            results.append(_of_first_use(words, ours, peer, times))
            if name in ("identify", "estimate"):
                results.append(_of_modules(name, ours, peer))
    compiled = int(sum(found["compiled"] for found in warm))
    return (
        Result.judged(
            "start",
            "import, fresh interpreter",
            unit="s",
            ours=statistics.median(imports),
            ours_below=0.5,
            notes="median; names are loaded when they are first used",
        ),
        Result.judged(
            "start",
            "first rollout, fresh process, kernels cached",
            unit="s",
            ours=statistics.median(found["seconds"] for found in warm),
            ours_below=3.0,
            compiled=compiled,
            notes=f"median; {compiled} functions compiled",
        ),
        *results,
    )


def _of_first_use(
    words: str, ours: dict[str, float], peer: dict[str, float] | None, times: float
) -> Result:
    return Result.judged(
        "start",
        f"{words}, nothing cached, CPU; peer: before",
        unit="s",
        ours=ours["cpu"],
        peer=None if peer is None else peer["cpu"],
        ratio_at_least=None if peer is None else times,
        notes=f"{ours['compiled']:.0f} functions compiled",
    )


def _of_modules(name: str, ours: dict[str, float], peer: dict[str, float] | None) -> Result:
    return Result.judged(
        "start",
        f"modules of bodysense loaded by {name}; peer: before",
        unit="",
        ours=ours["modules"],
        peer=None if peer is None else peer["modules"],
        ours_below=MODULES,
    )
