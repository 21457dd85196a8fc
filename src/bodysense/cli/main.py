"""The command `bodysense`: finds the command that was asked for, runs it and reports errors.

A command is a module of its name with two functions:

    add_arguments(parser: argparse.ArgumentParser) -> None
    run(args: argparse.Namespace) -> int      # the exit status

Only the module of the chosen command is imported, so that `bodysense --help` and a mistyped name
answer at once, without waiting for the dynamics engine to load.
"""

from __future__ import annotations

import argparse
import importlib
import io
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from bodysense.errors import BodysenseError, unknown_name

# A message while a command waits for its kernels to be compiled, which happens once.
#
# numba reports when it compiles, and not when compiled code comes from its cache, so that the
# message appears when it is true, whatever the command and the robot.

_WORDS = "compiling for this machine, once: it may take a minute or two …"
_AFTER = 3.0
"""Seconds of compilation before the message."""


@contextmanager
def announce_compilation() -> Iterator[None]:
    """Print a message on the terminal if anything is compiled for long.

    A damaged cache that is thrown away is reported in any case, in one line.
    """
    with warnings.catch_warnings():
        warnings.showwarning = _one_line(warnings.showwarning)
        if _terminal():
            with _clock():
                yield
        else:
            yield


def _one_line(otherwise: Callable[..., None]) -> Callable[..., None]:
    """Show the warning about a damaged cache as notes are, others as before."""

    def show(message: Warning | str, category: type[Warning], *more: Any, **named: Any) -> None:
        if category.__name__ == "DamagedCacheWarning":  # without loading what raises it
            print(f"note: {message}", file=sys.stderr, flush=True)
        else:
            otherwise(message, category, *more, **named)

    return show


@contextmanager
def _clock() -> Iterator[None]:
    from bodysense.compiled.numba_internals import event

    class Announcer(event.Listener):
        """Starts a clock with the outermost compilation; those within it do not count."""

        def __init__(self) -> None:
            self.depth = 0
            self.clock: threading.Timer | None = None
            self.announced = False

        def on_start(self, event: object) -> None:
            self.depth += 1
            if self.depth == 1 and not self.announced:
                self.clock = threading.Timer(_AFTER, self.announce)
                self.clock.daemon = True
                self.clock.start()

        def on_end(self, event: object) -> None:
            self.depth -= 1
            if self.depth == 0:
                self.stop()

        def announce(self) -> None:
            self.announced = True
            print(_WORDS, file=sys.stderr, flush=True)  # above a bar, where one is shown

        def stop(self) -> None:
            if self.clock is not None:
                self.clock.cancel()

    announcer = Announcer()
    try:
        with event.install_listener("numba:compile", announcer):
            yield
    finally:
        announcer.stop()


def _terminal() -> bool:
    from rich.console import Console

    return Console(stderr=True).is_terminal


# Matrices are small here, and threads of the linear algebra that wait for each other on a busy
# machine take ten times as long as one alone. Before numpy is imported, and unless set otherwise.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

EXIT_ERROR = 2
EXIT_INTERRUPTED = 130  # 128 + SIGINT, as shells report it
_EXIT_BROKEN_PIPE = 141  # 128 + SIGPIPE


COMMANDS: Mapping[str, str] = {
    "check": "check robot descriptions for errors and placeholders",
    "inspect": "show links, joints and parameters of a robot",
    "excite": "design an excitation motion for identification",
    "simulate": "record a simulated experiment",
    "doctor": "check a recording before it is used",
    "identify": "identify a robot's parameters from recordings",
    "payload": "identify the load that a robot holds",
    "gains": "identify drive gains from a weighed load",
    "estimate": "estimate torques, accelerations and contact forces",
    "methods": "list the methods of identify and what they need",
    "compile": "compile all kernels ahead of their first use",
}
"""Lines of `bodysense --help`; each command lives in the module of its name."""


def main(argv: Sequence[str] | None = None, *, commands: Mapping[str, str] = COMMANDS) -> int:
    """Run the command line and return the exit status.

    Args:
        argv: the words after `bodysense`; those of the process if `None`.
        commands: what each command does, by name.

    Returns:
        What the command returned; 2 after an error that bodysense understands, 130 after an
        interruption from the keyboard, 141 if the reader of the output went away.
    """
    words = sys.argv[1:] if argv is None else list(argv)
    _print_what_fits()
    try:
        status = _dispatch(words, commands)
        sys.stdout.flush()  # so that a reader that went away is noticed here, not at exit
    except BodysenseError as error:
        message = " ".join(str(error).split())
        print(f"bodysense: error: {message}", file=sys.stderr)
        return EXIT_ERROR
    except KeyboardInterrupt:
        print("bodysense: interrupted; nothing written", file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The interpreter flushes stdout once more at exit: let it write to nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _EXIT_BROKEN_PIPE
    return status


def _print_what_fits() -> None:
    """Characters that the output's encoding lacks are replaced: results are written by then."""
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="replace")


def _dispatch(words: Sequence[str], commands: Mapping[str, str]) -> int:
    # The options before the command take no value, so the first plain word is the command.
    chosen = next((word for word in words if not word.startswith("-")), None)
    if chosen is not None and chosen not in commands:
        raise unknown_name("command", chosen, commands, "See `bodysense --help`.")

    parser = argparse.ArgumentParser(
        prog="bodysense",
        description="Identify robot dynamics; estimate torques, accelerations and contact forces.",
    )
    parser.add_argument("--version", action="store_true", help="show the version and exit")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND")
    for name, purpose in commands.items():
        subparser = subparsers.add_parser(name, help=purpose, description=purpose)
        if name == chosen:
            module = importlib.import_module(f"bodysense.cli.{name}")
            module.add_arguments(subparser)
            subparser.set_defaults(run_command=module.run, words=words)

    args = parser.parse_args(words)
    if args.version:
        print(f"bodysense {_version()}")
        return 0
    if chosen is None:
        parser.print_help(sys.stderr)
        return EXIT_ERROR
    with announce_compilation():
        return int(args.run_command(args))


def _version() -> str:
    from importlib.metadata import version  # slow to import and rarely wanted

    return version("bodysense")
