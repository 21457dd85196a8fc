"""Streams of samples from a robot that runs, and of results to whoever reads them."""

from bodysense.logs.live.clock import StreamClock
from bodysense.logs.live.endpoints import open_sink, open_source
from bodysense.logs.live.faults import StreamFaults
from bodysense.logs.live.queue import Arrival, DroppingQueue
from bodysense.logs.live.sample import LiveSample, SampleDecoder
from bodysense.logs.live.sink import LiveResult, ResultWriter, Sink
from bodysense.logs.live.source import Source, StreamReader

__all__ = [
    "Arrival",
    "DroppingQueue",
    "LiveResult",
    "LiveSample",
    "ResultWriter",
    "SampleDecoder",
    "Sink",
    "Source",
    "StreamClock",
    "StreamFaults",
    "StreamReader",
    "open_sink",
    "open_source",
]
