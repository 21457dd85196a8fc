"""Files of compiled code that are cut, empty or foreign are thrown away, in one line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CALL = """
from bodysense.compiled.numba_internals import event
from bodysense.cli.main import announce_compilation
from bodysense.compiled import jit

@jit.threaded
def kernel(key):
    return key + 1.0

with announce_compilation(), event.install_recorder("numba:compile") as compiled:
    print(kernel(1.0), sum(happened.is_start for _, happened in compiled.buffer))
"""
SPOILT = {
    "cut": lambda data: data[: len(data) // 2],
    "empty": lambda data: b"",
    "foreign": lambda data: bytes(range(256)) * 4,
}


def called(folder: Path) -> tuple[str, list[str]]:
    """What a process with its cache in a folder prints, and the lines of its notices."""
    script = folder / "kernel.py"
    script.write_text(CALL)
    environment = os.environ | {"NUMBA_CACHE_DIR": str(folder / "cache")}
    run = [sys.executable, str(script)]
    done = subprocess.run(run, capture_output=True, text=True, env=environment, check=True)
    return done.stdout.strip(), done.stderr.splitlines()


@pytest.mark.parametrize("ending", ["nbi", "nbc"])
def test_a_damaged_file_is_compiled_anew(tmp_path, ending):
    assert called(tmp_path) == ("2.0 1", [])
    for spoil in SPOILT.values():
        assert called(tmp_path) == ("2.0 0", [])  # from the disk
        files = list((tmp_path / "cache").rglob(f"*.{ending}"))
        assert files
        for file in files:
            file.write_bytes(spoil(file.read_bytes()))
        printed, notices = called(tmp_path)
        assert printed == "2.0 1"
        assert len(notices) == 1
        assert "damaged" in notices[0]
