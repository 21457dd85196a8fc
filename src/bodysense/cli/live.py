"""`bodysense estimate ROBOT --live SOURCE --sensors FILE`: estimates of a stream while it comes."""

from __future__ import annotations

import argparse
import gc
import json
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from types import FrameType
from typing import TYPE_CHECKING, ClassVar

from bodysense.cli.estimate import EstimateOptions
from bodysense.cli.options import count, locked_joints, positive, refuse_unused
from bodysense.cli.run_options import option, required
from bodysense.errors import MismatchError

if TYPE_CHECKING:
    from bodysense.estimation.live import LiveEstimator, LiveRun
    from bodysense.logs.layout import LogLayout
    from bodysense.logs.live import StreamFaults

_GROUP = "live"
_SWITCH = 5e-4
"""s for which a thread may keep Python's lock: the reader sees when a sample comes, to half a
millisecond, while the estimator works off what waits."""
_EXIT_NOTHING = 2


@dataclass(frozen=True, kw_only=True)
class LiveOptions(EstimateOptions):
    """All settings of a live run."""

    usage: ClassVar[str] = "ROBOT --live SOURCE --sensors FILE"
    needed: ClassVar[Mapping[str, str]] = {
        name: words for name, words in EstimateOptions.needed.items() if name != "log"
    }

    log: str = ""
    live: str = required(
        "instead of LOG: - for lines of JSON on standard input, a growing FILE.mcap, "
        "tcp://HOST:PORT to which the robot connects, or ws://HOST:9090 of rosbridge. Results are "
        "lines of JSON on standard output, or go to -o FILE.mcap or ws://HOST:9090",
        metavar="SOURCE",
        group=_GROUP,
    )
    timeout: float | None = option(
        "end when no sample has come for so long", metavar="S", type=positive, group=_GROUP
    )
    learning: float = option(
        "time at the beginning in which nothing touches the robot and noise is learned (5)",
        default=5.0,
        metavar="S",
        type=positive,
        group=_GROUP,
    )
    estimates: tuple[str, ...] = option(
        "what results hold, as 'fx.*' (external wrenches that are not known beforehand, and "
        "torques of joints)",
        default=(),
        metavar="PATTERN",
        group=_GROUP,
    )
    topics: tuple[str, ...] = option(
        "topics of rosbridge to subscribe to (those of joint states, wrenches and IMUs that rosapi "
        "lists)",
        default=(),
        metavar="TOPIC",
        group=_GROUP,
    )
    queue: int | None = option(
        "samples, and results, that wait at most before the oldest are dropped (1000)",
        metavar="N",
        type=count,
        group=_GROUP,
    )


_FLAGS = [f for f in fields(LiveOptions) if f.metadata and f.metadata["group"] == _GROUP]


def add_live_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of live streams beside those of recordings."""
    group = parser.add_argument_group(_GROUP)
    for flag in _FLAGS:
        LiveOptions._add_option(group, flag)


def is_live(args: argparse.Namespace) -> bool:
    """Whether a live stream is asked for; its options are refused without one."""
    if args.live is not None:
        return True
    refuse_unused(
        (f"--{f.name}", getattr(args, f.name) not in (None, []), "live streams (--live SOURCE)")
        for f in _FLAGS
    )
    return False


def run_live(args: argparse.Namespace) -> int:
    """Prepare, estimate until it ends, and say what came of it."""
    from bodysense.estimation.live import estimate_live
    from bodysense.logs.layout import read_layout
    from bodysense.logs.live import (
        ResultWriter,
        StreamFaults,
        StreamReader,
        open_sink,
        open_source,
    )
    from bodysense.logs.live.sink import QUEUE

    if args.log is not None:
        raise MismatchError(f"give a recording ({args.log}) or --live {args.live}, not both.")
    options = LiveOptions.from_arguments(args)
    recorded = "recordings, not for live streams"
    refuse_unused(
        (
            ("--config", args.config is not None, recorded),
            ("--state", options.state is not None, recorded),
            ("--parameter-covariance", options.parameter_covariance, recorded),
            ("--method", options.method != "map", recorded),
        )
    )
    faults = StreamFaults(_note)
    layout = None if options.layout is None else read_layout(options.layout)
    source = open_source(
        options.live,
        faults,
        topics=options.topics,
        joint_topic=None if layout is None else layout.topic,
    )
    sink = open_sink(args.output or "-", faults, replace=bool(args.force))
    size = options.queue or QUEUE
    reader = StreamReader(source, size)
    estimator = _estimator(options, faults, layout)
    writer = ResultWriter(sink, estimator.columns, size)
    with _prepared(), _stopped_by_signals() as stop:
        result = estimate_live(
            estimator,
            reader,
            writer,
            timeout=options.timeout,
            stop=stop,
            status=_note if sys.stderr.isatty() else None,
        )
    _print(args, result)
    return 0 if result.results else _EXIT_NOTHING


def _estimator(
    options: LiveOptions, faults: StreamFaults, layout: LogLayout | None
) -> LiveEstimator:
    from rich.console import Console

    from bodysense.estimation import DetectionSettings, load_estimation
    from bodysense.estimation.live import LiveEstimator

    with Console(stderr=True).status("preparing …"):  # visible on a terminal only
        robot = options.load().with_locked_joints(locked_joints(options.lock))
        setup = load_estimation(options.sensors, robot)
        for note in setup.notes:
            faults.say(note)
        return LiveEstimator(
            setup,
            robot,
            faults=faults,
            layout=layout,
            cutoff=options.cutoff,
            estimates=options.estimates,
            detection=DetectionSettings(
                false_alarms=options.false_alarms,
                minimum_force=options.minimum_force,
                minimum_duration=options.minimum_duration,
            ),
            learning=options.learning,
        )


def _note(text: str) -> None:
    print(f"note: {text}", file=sys.stderr, flush=True)


def _print(args: argparse.Namespace, result: LiveRun) -> None:
    """Print the summary, beside results that have standard output to themselves."""
    text = json.dumps(result.to_dict(), allow_nan=False) if args.json else result.summary()
    print(text, file=sys.stderr if args.output in (None, "-") else sys.stdout)
    if not result.results:
        print("bodysense: no sample gave a result; see above", file=sys.stderr)


@contextmanager
def _prepared() -> Iterator[None]:
    """Let neither memory management nor threads hold up a sample."""
    before = sys.getswitchinterval()
    gc.collect()
    gc.freeze()  # what is loaded stays; looking through it would take tens of milliseconds
    sys.setswitchinterval(_SWITCH)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
        gc.unfreeze()


@contextmanager
def _stopped_by_signals() -> Iterator[threading.Event]:
    """An event that Ctrl-C sets, or a request to end; a second one ends at once."""
    stop = threading.Event()
    before: dict[signal.Signals, Callable[[int, FrameType | None], object] | int | None] = {}

    def end(number: int, frame: FrameType | None) -> None:
        stop.set()
        for each, handler in before.items():
            signal.signal(each, handler)

    if threading.current_thread() is threading.main_thread():
        for each in (signal.SIGINT, signal.SIGTERM):
            before[each] = signal.signal(each, end)
    try:
        yield stop
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
