"""How long a user waits: for the import, and for the first rollout of a fresh process."""

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


def fresh_process(arguments: list[str], cache: str) -> dict[str, float]:
    """Run Python anew with numba's cache in a given folder and return the JSON it prints."""
    process = subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, "NUMBA_CACHE_DIR": cache},
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, float] = json.loads(process.stdout)
    return found


def run(repeat: int, *, cache: str | None = None) -> tuple[Result, ...]:
    """Measure in fresh interpreters; the first one meets an empty cache, unless one is given."""
    first_rollout = ["-m", "benchmarks.first_rollout"]
    with tempfile.TemporaryDirectory() as empty:
        cache = cache or empty
        imports = [fresh_process(["-c", IMPORT], cache)["seconds"] for _ in range(repeat)]
        cold = fresh_process(first_rollout, cache)
        warm = [fresh_process(first_rollout, cache) for _ in range(repeat)]
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
            "first rollout, fresh process: kernels cached, peer: nothing cached",
            unit="s",
            ours=statistics.median(found["seconds"] for found in warm),
            peer=cold["seconds"],
            ours_below=3.0,
            compiled=compiled,
            notes=f"{cold['compiled']:.0f} functions compiled without a cache, {compiled} with it",
        ),
    )
