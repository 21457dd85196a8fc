"""Tables and lines as text: coloured on a terminal, plain in a pipe."""

from __future__ import annotations

import io
import shutil
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

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

    def table(self, title: str, *columns: str, text: Sequence[int]) -> Table:
        """Add a title, which rich would wrap to the width of the table, and start a table.

        Args:
            title: above it; empty for none.
            columns: their headers.
            text: which of them hold text: left-justified, and folded where they are too wide.
        """
        from rich import box
        from rich.table import Table

        if title:
            self.line(f"\n{title}", style="bold")
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
        for k, column in enumerate(columns):
            table.add_column(
                column,
                justify="left" if k in text else "right",
                overflow="fold",
                no_wrap=k not in text,
            )
        return table

    def show(self, table: Table) -> None:
        """Add a filled table."""
        self.console.print(table)

    def text(self) -> str:
        """All of it, without blanks at line ends, in characters that the terminal knows."""
        file = self.console.file
        lines = file.getvalue().splitlines() if isinstance(file, io.StringIO) else []
        text = "".join(f"{line.rstrip()}\n" for line in lines)
        encoding = sys.stdout.encoding or "utf-8"
        return text.encode(encoding, "replace").decode(encoding)
