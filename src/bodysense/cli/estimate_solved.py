"""`Solved`: a log that `bodysense estimate` solves, and everything gathered on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from bodysense.estimation import (
    LogEstimate,
    LogSeen,
    LogTotals,
    Observability,
    StateLogEstimate,
    StateTotals,
)
from bodysense.report.sections.estimated_curves import EstimatedCurves
from bodysense.signals.raw_log import RawLog


class Solved:
    """A log and everything that is gathered while it is solved."""

    def __init__(self, estimate: LogEstimate) -> None:
        """Start empty."""
        self.estimate = estimate
        self.totals = LogTotals(estimate)
        self.curves = EstimatedCurves(estimate, self.totals.links)
        self.state: StateTotals | None = None
        if isinstance(estimate, StateLogEstimate):
            self.state = StateTotals(estimate)
        self._seen = LogSeen(estimate)
        self.seen: Observability
        self.moments = 0

    def run(self, *more: Callable[[Any], None]) -> None:
        """Solve the log; an interruption leaves the chunks that are done."""
        takers = [self.totals.add, self.curves.add, self._seen.add, *more]
        if self.state is not None:
            takers.append(self.state.add)
        chunks = self.estimate.chunks(detail="blocks", judge=True)
        with _progress(self.estimate.t.size) as advance:
            while True:
                try:
                    chunk = next(chunks, None)
                except KeyboardInterrupt:
                    if not self.moments:
                        raise
                    break
                if chunk is None:
                    break
                for take in takers:
                    take(chunk)
                self.moments += chunk.t.size
                advance(chunk.t.size)
        with Console(stderr=True).status("looking what can be seen …"):
            self.seen = self._seen.observability()

    @property
    def notes(self) -> list[str]:
        """What the user should know."""
        notes = list(self.estimate.notes)
        if self.state is not None:
            notes += self.state.notes
        if self.moments < self.estimate.t.size:
            notes.append(
                f"interrupted: these are the first {self.moments} of {self.estimate.t.size} moments"
            )
        return notes

    def summary(self, log: RawLog) -> dict[str, Any]:
        """What is printed and written as JSON."""
        r = self.estimate.recording
        summary = {
            "robot": self.estimate.problem.robot.name,
            "log": log.source,
            "moments": self.moments,
            "duration": float(r.t[self.moments - 1] - r.t[0]),
            "pieces": sum(start < self.moments for start in r.starts),
            "left_out": dict(r.counts),
            "unknowns": self.estimate.variables.size,
            "readings": self.estimate.problem.layout.size,
            "parameters_considered": self.estimate.considers_parameters,
            **self.totals.to_dict(),
            "observability": self.seen.summary(),
            "notes": self.notes,
        }
        return summary if self.state is None else {**summary, "state": self.state.to_dict()}


@contextmanager
def _progress(moments: int) -> Iterator[Callable[[int], None]]:
    """A bar over all moments, on a terminal only."""
    console = Console(stderr=True)
    with Progress(
        TextColumn("estimating"),
        BarColumn(),
        TextColumn("{task.completed:.0f} of {task.total:.0f} moments"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as bar:
        task = bar.add_task("", total=moments)
        yield lambda n: bar.advance(task, n)
