"""A word when a command waits for its kernels to be compiled, which happens once.

numba tells when it compiles and says nothing when compiled code comes from its cache, so that this
is told when it is true, whatever the command and the robot.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

WORDS = "compiling for this machine, once: it may take a minute or two …"
_AFTER = 3.0  # s: what takes less needs no word


@contextmanager
def compiling_told() -> Iterator[None]:
    """Say so on the terminal, as progress is shown, if anything is compiled for long."""
    if not _terminal():
        yield
        return
    from numba.core import event

    class Teller(event.Listener):
        """Starts a clock with the outermost compilation; those within it do not count."""

        def __init__(self) -> None:
            self.depth = 0
            self.clock: threading.Timer | None = None
            self.told = False

        def on_start(self, event: object) -> None:
            self.depth += 1
            if self.depth == 1 and not self.told:
                self.clock = threading.Timer(_AFTER, self.tell)
                self.clock.daemon = True
                self.clock.start()

        def on_end(self, event: object) -> None:
            self.depth -= 1
            if self.depth == 0:
                self.stop()

        def tell(self) -> None:
            self.told = True
            print(WORDS, file=sys.stderr, flush=True)  # above a bar, where one is shown

        def stop(self) -> None:
            if self.clock is not None:
                self.clock.cancel()

    teller = Teller()
    try:
        with event.install_listener("numba:compile", teller):
            yield
    finally:
        teller.stop()


def _terminal() -> bool:
    from rich.console import Console

    return Console(stderr=True).is_terminal
