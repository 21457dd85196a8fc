"""Importing bodysense is fast and has no side effects."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import version

import bodysense

HEAVY = ("numba", "mujoco", "matplotlib", "pinocchio", "scipy")

PROBE = """
import json, logging, sys, time, warnings
before = (logging.root.level, list(logging.root.handlers), list(warnings.filters))
start = time.perf_counter()
import bodysense
seconds = time.perf_counter() - start
after = (logging.root.level, list(logging.root.handlers), list(warnings.filters))
print(json.dumps({
    "seconds": seconds,
    "modules": sorted(sys.modules),
    "logging_untouched": before[:2] == after[:2],
    "loggers": sorted(
        name for name, logger in logging.root.manager.loggerDict.items()
        if getattr(logger, "handlers", None) or getattr(logger, "level", 0)
    ),
    "warnings_untouched": before[2] == after[2],
}))
"""


def probe() -> dict[str, object]:
    """Import bodysense in a fresh interpreter and tell what happened."""
    process = subprocess.run(
        [sys.executable, "-c", PROBE], capture_output=True, text=True, check=True
    )
    assert process.stderr == ""
    found: dict[str, object] = json.loads(process.stdout)
    return found


def test_import_takes_less_than_half_a_second():
    seconds = [probe()["seconds"] for _ in range(3)]
    assert min(seconds) < 0.5, seconds


def test_import_loads_no_heavy_package():
    loaded = set(probe()["modules"])
    assert loaded.isdisjoint(HEAVY), loaded.intersection(HEAVY)


def test_import_leaves_logging_and_warnings_alone():
    found = probe()
    assert found["logging_untouched"]
    assert found["loggers"] == []
    assert found["warnings_untouched"]


def test_version_is_that_of_the_installed_package():
    assert bodysense.__version__ == version("bodysense")
