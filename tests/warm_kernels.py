"""Compile the kernels that many tests need, before the tests: each once, in two processes.

Every process of the tests has a cache of its own, and would compile all of them again.

    python tests/warm_kernels.py identification|estimation    # into NUMBA_CACHE_DIR
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

# Steps of `bodysense.compile_kernels`, which is not imported here: that would load numba.
SHARES = ("identification", "estimation")


def warm_caches(root: Path, workers: int) -> None:
    """Compile in one process a share, and give every worker a copy of all."""
    jobs = []
    for share in SHARES:
        environment = os.environ | {"NUMBA_CACHE_DIR": str(root / share)}
        command = [sys.executable, __file__, share]
        jobs.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True))
    digests = {job.communicate()[0].strip() for job in jobs}
    for digest in digests - {""}:
        for share in SHARES:
            for k in range(workers):
                place = root / f"gw{k}" / digest
                done = place / f".{share}"
                if (root / share / digest).is_dir() and not done.exists():
                    shutil.copytree(root / share / digest, place, dirs_exist_ok=True)
                    done.touch()


if __name__ == "__main__":
    from bodysense.compile_kernels import STEPS, compile_kernels

    chosen = [step for step in STEPS if step.share == sys.argv[1]]
    sys.stdout.write(Path(compile_kernels(chosen)).name)
