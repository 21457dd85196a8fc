"""Sources and sinks by the words of the command line."""

from __future__ import annotations

from collections.abc import Sequence

from bodysense.errors import FileReadError, FileWriteError
from bodysense.logs.live.faults import StreamFaults
from bodysense.logs.live.sink import Sink
from bodysense.logs.live.source import Source

SOURCES = (
    "- (lines of JSON on standard input), FILE.mcap (a recording that grows), tcp://HOST:PORT "
    "(a port to which the robot connects, and sends lines of JSON), or ws://HOST:9090 (rosbridge)"
)
SINKS = "FILE.mcap, ws://HOST:9090 (rosbridge), or - (lines of JSON on standard output)"
_WEB = ("ws://", "wss://")


def open_source(
    text: str,
    faults: StreamFaults,
    *,
    topics: Sequence[str] = (),
    joint_topic: str | None = None,
) -> Source:
    """The source that a text names: ``-``, ``FILE.mcap``, ``tcp://HOST:PORT``, ``ws://HOST:PORT``.

    Args:
        text: its name.
        faults: that count what is wrong with it.
        topics: of rosbridge, to subscribe to.
        joint_topic: of rosbridge, of the joint states where there are several.

    Raises:
        FileReadError: the text names no source.
        MissingDependencyError: it needs a package that is not installed.
    """
    if text.startswith(_WEB):
        from bodysense.logs.live.rosbridge import RosbridgeSource

        return RosbridgeSource(text, faults, topics=topics, joint_topic=joint_topic)
    if topics:
        raise FileReadError(f"topics are of rosbridge, ws://HOST:9090, and not of {text}.")
    if text == "-":
        from bodysense.logs.live.stdin import StandardInput

        return StandardInput(faults)
    if text.startswith("tcp://"):
        from bodysense.logs.live.socket_source import SocketSource

        return SocketSource(text, faults)
    if text.lower().endswith(".mcap"):
        from bodysense.logs.live.mcap_source import GrowingMcap

        return GrowingMcap(text, faults)
    raise FileReadError(f"{text!r} is no live source: give {SOURCES}.")


def open_sink(text: str, faults: StreamFaults, *, replace: bool = False) -> Sink:
    """Where results go: ``-``, ``FILE.mcap`` or ``ws://HOST:PORT``.

    Raises:
        FileWriteError: the text names no place for results.
        MissingDependencyError: it needs a package that is not installed.
    """
    if text == "-":
        from bodysense.logs.live.line_sink import LineSink

        return LineSink(faults)
    if text.startswith(_WEB):
        from bodysense.logs.live.rosbridge_sink import RosbridgeSink

        return RosbridgeSink(text, faults)
    if text.lower().endswith(".mcap"):
        from bodysense.logs.live.mcap_sink import McapSink

        return McapSink(text, faults, replace=replace)
    raise FileWriteError(f"{text!r} is no place for live results: give {SINKS}.")
