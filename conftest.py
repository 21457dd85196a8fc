"""What all tests share: where compiled kernels are cached, and how hypothesis searches."""

from __future__ import annotations

import os
import runpy
from pathlib import Path

# Two processes that compile the same function for different arguments can mix up numba's cache
# index, so each test process has a cache of its own, for each processor that it compiles for. Set
# before anything imports numba.
_processor = os.environ.get("NUMBA_CPU_NAME")
_CACHES = Path(__file__).parent / ".cache" / (f"numba-{_processor}" if _processor else "numba")
_worker = os.environ.get("PYTEST_XDIST_WORKER", "single")
os.environ["NUMBA_CACHE_DIR"] = str(_CACHES / _worker)

import pytest  # noqa: E402
from hypothesis import settings  # noqa: E402

# The first call of a kernel compiles it, which takes longer than any deadline. Examples are the
# same in every run, so that a red test is the fault of a change; HYPOTHESIS_PROFILE=explore
# searches elsewhere.
settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))

# Begun last, one of these would leave the other processes without work: they begin first.
LONG = (
    "tests/laws/test_consistency_laws.py",
    "tests/laws/test_interval_coverage.py",
    "tests/test_benchmarks.py",
    "tests/estimation/map_dynamics/em/test_em.py",
    "tests/cli/test_load.py",
    "tests/estimation/map_dynamics/log/test_state_estimate.py",
    "tests/identification/test_run.py",
    "tests/laws/test_identifier_truth.py",
    "tests/test_docs.py",
    "tests/estimation/map_dynamics/test_biases.py",
    "tests/laws/test_identifier_logs.py",
    "tests/test_examples.py",
    "tests/identification/payload/test_identify_drive_gains.py",
    "tests/identification/payload/test_real_loads.py",
    "tests/laws/test_identifier_labels.py",
    "tests/identification/filtering/test_filter_identifiers.py",
    "tests/excitation/test_design.py",
    "tests/laws/test_identifier_results.py",
    "tests/identification/payload/test_identify_payload.py",
    "tests/identification/simulated/test_gain_doubt.py",
    "tests/estimation/kernels/test_linearise.py",
    "tests/simulation/test_rollout.py",
    "tests/estimation/map_dynamics/em/test_humanoid.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long files first, which counts with several processes and --no-loadscope-reorder."""
    rank = {name: k for k, name in enumerate(LONG)}
    items.sort(key=lambda item: rank.get(item.nodeid.partition("::")[0], len(LONG)))


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Before the workers start: compile what most of them need, once for all."""
    workers = config.getoption("numprocesses", None)
    if workers and not hasattr(config, "workerinput"):
        compiling = runpy.run_path(str(Path(__file__).parent / "tests" / "warm_kernels.py"))
        compiling["warm_caches"](_CACHES, int(workers))
