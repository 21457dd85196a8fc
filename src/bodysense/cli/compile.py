"""`bodysense compile`: compile all kernels ahead, so that no later command waits for them."""

from __future__ import annotations

import argparse
import time

from rich.progress import BarColumn, TextColumn, TimeElapsedColumn

from bodysense.cli.options import print_result, progress_bar


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument("--json", action="store_true", help="print JSON instead of a sentence")


def run(args: argparse.Namespace) -> int:
    """Compile, and say how long it took and where the compiled code is."""
    from bodysense.compile_kernels import STEPS, compile_kernels

    start = time.perf_counter()
    with progress_bar(
        TextColumn("compiling {task.description}"),
        BarColumn(),
        TextColumn("{task.completed:.0f} of {task.total:.0f}"),
        TimeElapsedColumn(),
    ) as bar:
        task = bar.add_task("", total=len(STEPS), completed=-1)
        folder = compile_kernels(
            progress=lambda name: bar.update(task, description=name, advance=1)
        )
    seconds = time.perf_counter() - start
    print_result(
        args,
        f"compiled for this machine in {seconds:.0f} s; kept in {folder}\n",
        {"seconds": seconds, "cache": folder},
    )
    return 0
