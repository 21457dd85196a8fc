"""Tables and lines as text: coloured on a terminal, plain in a pipe."""

from __future__ import annotations

import io
import math
import shutil
import sys
from collections.abc import Container, Iterable, Sequence

_PIPED_WIDTH = 100


class Page:
    """What a command prints, gathered before any of it is printed."""

    def __init__(self) -> None:
        """Start empty."""
        from rich.console import Console

        terminal = sys.stdout.isatty()
        width = max(80, shutil.get_terminal_size().columns) if terminal else _PIPED_WIDTH
        # To a string, not to stdout: rich would answer a closed pipe by leaving the program.
        self.console = Console(
            file=io.StringIO(),
            width=width,
            force_terminal=terminal,
            markup=False,  # names of robots and files may look like markup
            emoji=False,
            highlight=False,
        )

    def line(self, text: str, *, style: str | None = None, wrap: bool = True) -> None:
        """Add a line, wrapped at the width of the page unless `wrap` is false."""
        self.console.print(text, style=style, soft_wrap=not wrap)

    def table(
        self,
        title: str,
        columns: Sequence[str],
        rows: Iterable[Sequence[str]],
        *,
        text: Sequence[int] = (0,),
        whole: Sequence[int] = (),
        ratios: Sequence[int] = (),
        red: Container[int] = (),
    ) -> None:
        """Add a table.

        Args:
            title: above it; empty for none.
            columns: their headers.
            rows: their cells.
            text: which columns hold text: left-justified, and folded where they are too wide.
            whole: which of these are never folded.
            ratios: shares of the width that the last columns have.
            red: which rows are.
        """
        from rich import box
        from rich.table import Table

        if title:  # not as rich's own, which would be wrapped to the width of the table
            self.line(f"\n{title}", style="bold")
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
        for k, (column, ratio) in enumerate(
            zip(columns, (*[None] * (len(columns) - len(ratios)), *ratios), strict=True)
        ):
            table.add_column(
                column,
                justify="left" if k in text else "right",
                overflow="fold",
                no_wrap=k not in text or k in whole,
                ratio=ratio,
            )
        for k, row in enumerate(rows):
            table.add_row(*row, style="red" if k in red else None)
        self.console.print(table)

    def text(self) -> str:
        """All of it, without blanks at line ends, in characters that the terminal knows."""
        file = self.console.file
        lines = file.getvalue().splitlines() if isinstance(file, io.StringIO) else []
        text = "".join(f"{line.rstrip()}\n" for line in lines)
        encoding = sys.stdout.encoding or "utf-8"
        return text.encode(encoding, "replace").decode(encoding)


def number(value: float | None, digits: int = 3) -> str:
    """A number with so many digits; a dash where there is none."""
    return "-" if value is None or not math.isfinite(value) else f"{value:.{digits}g}"


def percent(share: float) -> str:
    """A share in per cent, without the sign."""
    return f"{100.0 * share:.1f}" if math.isfinite(share) else "-"
