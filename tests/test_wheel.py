"""The wheel holds all that runs need: unpacked by itself, away from the sources, commands work."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
RUN = """
import sys, bodysense
from bodysense.cli.main import main
print(bodysense.__file__)
sys.exit(main())
"""


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory) -> Path:
    """The content of the wheel, in a folder."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index"]
    built = [*command, "--no-build-isolation", "--wheel-dir", str(folder), str(ROOT)]
    subprocess.run(built, check=True, capture_output=True, timeout=120)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


def test_all_files_of_the_package_are_in_it(unpacked):
    source = ROOT / "src" / "bodysense"
    wanted = {
        path.relative_to(source)
        for path in source.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    held = {p.relative_to(unpacked / "bodysense") for p in (unpacked / "bodysense").rglob("*.*")}
    assert wanted <= held


@pytest.mark.parametrize("arguments", [["--help"], ["inspect", "tx40"], ["methods"]])
def test_commands_run_from_it(unpacked, arguments, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", RUN, *arguments],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(unpacked)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(unpacked))
