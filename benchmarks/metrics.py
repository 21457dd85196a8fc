"""Code-size metrics: sizes, names, imports and complexity of the package, from the tree.

    python -m benchmarks.metrics        # or: make metrics

The last rows run the two main commands on a short simulated log and count what they load and enter.
"""

from __future__ import annotations

import ast
import collections
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from radon.complexity import cc_visit

SOURCE = Path(__file__).resolve().parents[1] / "src"
PACKAGE = "bodysense"
SMALL_MODULE = 80  # lines; with one importer, such a module is a part of that importer
RANK_C = 11  # cyclomatic complexity from which radon ranks a function C

# Runs a command of bodysense in its own process and prints what it loaded and entered.
_TRACED = """
import json, sys
from inspect import CO_OPTIMIZED
entered = set()
def enter(frame, event, argument):
    if event == "call" and frame.f_code.co_flags & CO_OPTIMIZED:  # no bodies of modules, classes
        entered.add(frame.f_code.co_filename)
sys.setprofile(enter)
from bodysense.cli.main import main
status = main(sys.argv[1:])
sys.setprofile(None)
if status:
    sys.exit(status)
loaded = [name for name in sys.modules if name == "bodysense" or name.startswith("bodysense.")]
files = [name for name in entered if "/bodysense/" in name and name.endswith(".py")]
print(json.dumps({"modules": len(loaded), "files": len(files)}))
"""


def modules() -> dict[str, Path]:
    """All modules of the package by name; packages by the name of their folder."""
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        name = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        found[name.removesuffix(".__init__")] = path
    return found


def imported(tree: ast.Module, names: dict[str, Path]) -> Iterator[str]:
    """Modules of the package that a module imports, anywhere in it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield whole if whole in names else node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def static_rows() -> list[tuple[str, str]]:
    """What can be counted without running anything."""
    names = modules()
    trees = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in names.items()}
    lines = {name: path.read_text(encoding="utf-8").count("\n") for name, path in names.items()}
    definitions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    public, classes = 0, collections.Counter[str]()
    importers = collections.defaultdict(set)
    for name, tree in trees.items():
        for node in tree.body:
            if isinstance(node, definitions) and not node.name.startswith("_"):
                public += 1
                if isinstance(node, ast.ClassDef):
                    classes[node.name] += 1
        for other in imported(tree, names):
            if names[name].name != "__init__.py" and other != name:
                importers[other].add(name)
    doubled = sorted(name for name, count in classes.items() if count > 1)
    plain = [name for name, path in names.items() if path.name != "__init__.py"]
    single = [name for name in plain if len(importers[name]) == 1]
    small = [name for name in single if lines[name] < SMALL_MODULE]
    complex_ = [block for path in names.values() for block in _blocks(path) if block[1] >= RANK_C]
    worst = max(complex_, key=lambda block: block[1], default=("none", 0))
    total = sum(lines.values())
    return [
        ("files, lines under src", f"{len(names)}, {total}"),
        ("public names per 1000 lines", f"{1000 * public / total:.1f}"),
        ("public class names used twice or more", _listed(doubled)),
        ("modules with exactly one importer", str(len(single))),
        (f"of these under {SMALL_MODULE} lines", _listed(small)),
        ("functions of complexity C or worse", f"{len(complex_)} (worst: {worst[0]} {worst[1]})"),
    ]


def _blocks(path: Path) -> Iterator[tuple[str, int]]:
    """Functions and methods of a file with their cyclomatic complexity."""
    for block in cc_visit(path.read_text(encoding="utf-8")):
        if hasattr(block, "methods"):  # a class: its methods are listed on their own
            continue
        yield f"{path.stem}.{block.name}", block.complexity


def _listed(names: list[str]) -> str:
    return f"{len(names)}" + (f" ({', '.join(names)})" if names else "")


def traced_rows() -> list[tuple[str, str]]:
    """What `identify` and `estimate` load and enter, on a short simulated log."""
    with tempfile.TemporaryDirectory() as folder:
        sensors = Path(folder) / "sensors.yaml"
        sensors.write_text(
            "sensors:\n"
            "  torques: {kind: joint_torque, joint: all, std: 0.1}\n"
            "external_wrenches:\n"
            "  link6: {std: 50}\n",
            encoding="utf-8",
        )
        log = ["simulate", "tx40", "random", "-o", "log.parquet", "--duration", "4"]
        _traced([*log, "--noise-torque", "0.05"], folder)
        counts = {
            "identify": _traced(["identify", "tx40", "log.parquet", "-o", "out"], folder),
            "estimate": _traced(
                ["estimate", "tx40", "log.parquet", "--sensors", str(sensors), "-o", "wrenches"],
                folder,
            ),
        }
    return [
        (f"{what} by `{command}`", str(count[key]))
        for key, what in (("modules", "modules loaded"), ("files", "files entered"))
        for command, count in counts.items()
    ]


def _traced(arguments: list[str], folder: str) -> dict[str, int]:
    """Run a command in `folder` under a profile of calls; its counts."""
    done = subprocess.run(
        [sys.executable, "-c", _TRACED, *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=True,
    )
    counts: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return counts


def main() -> None:
    rows = [*static_rows(), *traced_rows()]
    width = max(len(label) for label, _ in rows)
    for label, value in rows:
        print(f"{label:{width}}  {value}")


if __name__ == "__main__":
    main()
