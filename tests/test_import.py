"""Importing bodysense is fast and has no side effects."""

from __future__ import annotations

import ast
import compileall
import importlib
import json
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

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


@pytest.mark.parametrize("package", ["bodysense", "bodysense.excitation", "bodysense.report"])
def test_names_are_imported_from_where_type_checkers_find_them(package):
    module = importlib.import_module(package)
    tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    checked = {alias.name: node.module for node in imports for alias in node.names}
    assert checked == {name: f"bodysense.{home}" for name, home in module._HOMES.items()}
    assert module.__all__ == sorted(checked)
    for node in block.body:  # what the API pages show
        if isinstance(node, ast.Assign):
            assert sorted(ast.literal_eval(node.value)) == module.__all__
    for name, home in checked.items():
        assert getattr(module, name) is getattr(importlib.import_module(home), name)
        assert name in dir(module)
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'nose'"):
        _ = module.nose


def test_names_are_imported_without_sources(tmp_path):
    """As from frozen apps, and from folders of compiled files alone."""
    here, package = Path(bodysense.__file__).parent, tmp_path / "bodysense"
    package.mkdir()
    for name in ("__init__.py", "errors.py", "lazy.py"):
        shutil.copy(here / name, package)
    assert compileall.compile_dir(package, quiet=1, legacy=True)
    for source in package.glob("*.py"):
        source.unlink()
    show = "import bodysense; print(bodysense.BodysenseError.__module__, bodysense.__file__)"
    process = subprocess.run(
        [sys.executable, "-c", show],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert process.stdout.split() == ["bodysense.errors", str(package / "__init__.pyc")]
