"""Results on disk, and the table made of them."""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from os import cpu_count
from pathlib import Path

from rich.table import Table

from benchmarks.result import Result
from benchmarks.timing import all_threads
from bodysense.files import write_atomically

RESULTS = Path(__file__).parent / "results.json"
PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"
BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"


@dataclass(frozen=True)
class Record:
    """Results of one run of the benchmarks.

    Attributes:
        machine: what they ran on, by name; nothing that tells whose it is.
        results: all lines of the table.
    """

    machine: dict[str, str]
    results: tuple[Result, ...]

    def save(self, path: Path) -> None:
        """Write as JSON, figures to four digits: more would be noise."""
        content = {
            "machine": self.machine,
            "results": [
                {key: _rounded(value) for key, value in asdict(result).items()}
                for result in self.results
            ],
        }
        write_atomically(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")

    @classmethod
    def load(cls, path: Path) -> Record:
        """Read what `save` wrote."""
        content = json.loads(path.read_text(encoding="utf-8"))
        return cls(content["machine"], tuple(Result(**entry) for entry in content["results"]))


def _rounded(value: object) -> object:
    return float(f"{value:.4g}") if isinstance(value, float) else value


def machine_facts() -> dict[str, str]:
    """Return what explains the figures: cores and versions."""
    packages = {"numpy": "numpy", "numba": "numba", "pinocchio": "pin", "bodysense": "bodysense"}
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "cpus": str(cpu_count()),
        "numba threads": str(all_threads()),
        "python": platform.python_version(),
        **{name: version(package) for name, package in packages.items()},
    }


HEADER = ("benchmark", "what", "bodysense", "peer", "ratio", "target", "agreement")


def cells(result: Result) -> tuple[str, ...]:
    """Return one line of the table, as in `HEADER`."""
    reached = {None: "", True: "✓ ", False: "✗ "}[result.reached]
    return (
        result.name,
        result.what,
        f"{_three_digits(result.ours)} {result.unit}",
        "" if result.peer is None else f"{_three_digits(result.peer)} {result.unit}",
        "" if result.ratio is None else _three_digits(result.ratio),
        reached + result.target,
        "" if result.agreement is None else f"{result.agreement:.1e}",
    )


def _three_digits(value: float) -> str:
    return f"{value:.0f}" if value >= 100.0 else f"{value:.3g}"


def terminal_table(results: Sequence[Result]) -> Table:
    """Lay the results out for a terminal."""
    table = Table(*HEADER)
    for result in results:
        table.add_row(*cells(result), style="red" if result.reached is False else None)
    return table


def markdown_table(record: Record) -> str:
    """Lay a record out for the documentation, with the machine above and notes below."""
    machine = ", ".join(f"{name} {value}" for name, value in record.machine.items())
    lines = [f"Measured on: {machine}.", ""]
    lines += [_row(HEADER), _row(["---"] * 2 + ["---:"] * 3 + ["---", "---:"])]
    lines += [_row(cells(result)) for result in record.results]
    notes = [(result.name, result.what, result.notes) for result in record.results if result.notes]
    if notes:
        lines += ["", "Notes:", ""]
        lines += [f"- {name}: {what}: {note}." for name, what, note in notes]
    return "\n".join(lines)


def _row(entries: Sequence[str]) -> str:
    return "| " + " | ".join(entries) + " |"


def page_with_table(page: str, record: Record) -> str:
    """Return the text of the documentation's page with its table replaced."""
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n\n{markdown_table(record)}\n\n{END}{after}"
