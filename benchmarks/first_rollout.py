"""A first rollout in a process of its own: tells how long it took and how much was compiled.

Run by `benchmarks.start` as ``python -m benchmarks.first_rollout``.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import AbstractContextManager

start = time.perf_counter()  # the clock includes all imports

from numba.core import event  # noqa: E402

# numba is untyped; this is what it is.
record: Callable[[str], AbstractContextManager[event.RecordingListener]] = event.install_recorder

with record("numba:compile") as compilations:
    import bodysense
    from benchmarks.subjects import excitation, tx40

    bodysense.rollout(tx40(), excitation(tx40(), 1.0))
seconds = time.perf_counter() - start
compiled = sum(happened.is_start for _, happened in compilations.buffer)
print(json.dumps({"seconds": seconds, "compiled": compiled}))
