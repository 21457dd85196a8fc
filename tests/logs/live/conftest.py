"""What tests of streams share."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from bodysense.logs.live import Arrival, Source, StreamFaults, StreamReader


@pytest.fixture
def said() -> list[str]:
    """What users were told."""
    return []


@pytest.fixture
def faults(said) -> StreamFaults:
    return StreamFaults(said.append)


@pytest.fixture
def reading() -> Iterator[Callable[[Source], StreamReader]]:
    """Start to read a source; it is stopped at the end of the test."""
    readers: list[StreamReader] = []

    def start(source: Source, size: int = 1000) -> StreamReader:
        readers.append(StreamReader(source, size))
        readers[-1].start()
        return readers[-1]

    yield start
    for reader in readers:
        reader.stop()
    assert not [t.name for t in threading.enumerate() if t.name == "source"]


def take(reader: StreamReader, n: int, timeout: float = 5.0) -> list[Arrival]:
    """The next n messages; fewer only where they do not come in time."""
    taken: list[Arrival] = []
    while len(taken) < n:
        arrival = reader.queue.take(timeout)
        if arrival is None:
            break
        taken.append(arrival)
    return taken


@pytest.fixture(name="take")
def _take() -> Callable[..., list[Arrival]]:
    return take
