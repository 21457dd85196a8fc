"""`DroppingQueue`: between threads that must not wait for each other; the oldest items go first."""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import Generic, NamedTuple, TypeVar

_T = TypeVar("_T")


class Arrival(NamedTuple):
    """A message as it came.

    Attributes:
        at: when its last byte was there, by `time.perf_counter` [s].
        kind: "json", or the ROS type of a message in CDR.
        topic: of a recording or of rosbridge; empty elsewhere.
        data: its bytes.
        recorded: when its source wrote it down [s]; NaN where no source says so.
    """

    at: float
    kind: str
    topic: str
    data: bytes
    recorded: float = float("nan")


class DroppingQueue(Generic[_T]):
    """First in, first out; where it is full, the oldest item makes room and is counted.

    Attributes:
        size: most items that wait.
        dropped: items that nobody took in time.
    """

    def __init__(self, size: int) -> None:
        """Start empty."""
        self.size = size
        self.dropped = 0
        self._items: deque[_T] = deque()
        self._changed = threading.Condition()
        self._closed = False

    def __len__(self) -> int:
        return len(self._items)

    @property
    def closed(self) -> bool:
        """Whether nothing comes any more; what is in it can still be taken."""
        return self._closed

    def put(self, item: _T, *, wait: bool = False) -> None:
        """Add an item; with `wait` rather wait for room than drop one."""
        with self._changed:
            while wait and len(self._items) >= self.size and not self._closed:
                self._changed.wait()
            if len(self._items) >= self.size:
                self._items.popleft()
                self.dropped += 1
            self._items.append(item)
            self._changed.notify_all()

    def take(self, timeout: float) -> _T | None:
        """The oldest item; `None` if none comes within the timeout [s], or the queue is closed."""
        with self._changed:
            if not self._items and not self._closed:
                self._changed.wait(timeout)
            if not self._items:
                return None
            item = self._items.popleft()
            if len(self._items) == self.size - 1:  # somebody may wait for room
                self._changed.notify_all()
            return item

    def take_all(self, timeout: float) -> list[_T]:
        """All items, oldest first; none if none comes within the timeout [s]."""
        with self._changed:
            if not self._items and not self._closed:
                self._changed.wait(timeout)
            items = list(self._items)
            self._items.clear()
            self._changed.notify_all()
            return items

    def close(self) -> None:
        """Let nobody wait any longer."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def wait_until_empty(self, timeout: float) -> bool:
        """Whether all was taken within the timeout [s]."""
        end = time.perf_counter() + timeout
        with self._changed:
            while self._items:
                left = end - time.perf_counter()
                if left <= 0.0:
                    return False
                self._changed.wait(left)
        return True
