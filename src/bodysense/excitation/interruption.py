"""Work that Ctrl-C must not lose."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def first_interruption_ignored() -> Iterator[None]:
    """Let the first Ctrl-C pass without effect; the next one raises `KeyboardInterrupt`.

    Outside the main thread there is nothing to do, for no interruption arrives there.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)

    def ignore(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, ignore)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
