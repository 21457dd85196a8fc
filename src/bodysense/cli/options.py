"""What commands share: values of options, robots, and what they write and print."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from bodysense.errors import FileWriteError, MismatchError, ShapeError

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn
    from rich.status import Status

    from bodysense.robot import Robot

LOCK_HELP = (
    "joint that stands still, or pattern of names; at Q [rad or m], else where the log has it"
)
GRAVITY_HELP = "in the axes of the root link [m/s²]; --gravity=-9.81,0,0 if it begins with a minus"
MOUNT_HELP = (
    "floor, wall (x axis of the base down), ceiling, or roll, pitch and yaw of the base [rad], as "
    "0,90,0deg in degrees"
)
LAYOUT_HELP = "layout file that maps columns of the log to channels (YAML)"

_N = TypeVar("_N", int, float)

# Values of options: what argparse calls, and numbers between commas.


def positive(text: str) -> float:
    """A finite number above zero."""
    return _checked(float(text), text, lambda x: 0.0 < x < math.inf, "a finite number above zero")


def distance(text: str) -> float:
    """A finite number of at least zero, in metres."""
    return _checked(float(text), text, lambda x: 0.0 <= x < math.inf, "a distance of at least 0 m")


def number_or(word: str) -> Callable[[str], float | str]:
    """A number, or a word in its place."""

    def value(text: str) -> float | str:
        return word if text == word else float(text)

    value.__name__ = f"number, or {word}"  # in argparse's message
    return value


def share(text: str) -> float:
    """A number above zero and up to one."""
    return _checked(float(text), text, lambda x: 0.0 < x <= 1.0, "a number above 0 and up to 1")


def count(text: str) -> int:
    """A whole number of at least one."""
    return _checked(int(text), text, lambda x: x >= 1, "a whole number of at least 1")


def seed(text: str) -> int:
    """A whole number of at least zero."""
    return _checked(int(text), text, lambda x: x >= 0, "a whole number of at least 0")


def _checked(value: _N, text: str, valid: Callable[[_N], bool], kind: str) -> _N:
    if not valid(value):
        raise argparse.ArgumentTypeError(f"invalid value {text}; expected {kind}")
    return value


def numbers(
    text: str, option: str, form: str = "SIGMA or s1,s2,…", counts: Sequence[int] = ()
) -> list[float]:
    """Numbers between commas, as many as one of `counts`."""
    try:
        values = [float(word) for word in text.split(",")]
    except ValueError:
        values = []
    if not values or not all(map(math.isfinite, values)) or (counts and len(values) not in counts):
        raise ShapeError(f"{option}: invalid value {text!r}; expected {form} in numbers.")
    return values


def link_mass(text: str) -> tuple[str, list[float]]:
    """A link and its mass or range, ``forearm=4.1``, or a range: ``forearm=3.5,4.5``."""
    link, _, values = (part.strip() for part in text.rpartition("="))
    if not link:
        raise ShapeError(f"--mass {text}: write LINK=KG, or LINK=LOWEST,HIGHEST.")
    return link, numbers(values, f"--mass {link}", "KG or LOWEST,HIGHEST", (1, 2))


def refuse_unused(options: Iterable[tuple[str, bool, str]]) -> None:
    """Refuse options that would have no effect: whoever gave them expects one.

    Each has its name, whether it is given and has no effect, and what it is for.
    """
    for option, unused, use in options:
        if unused:
            raise MismatchError(f"{option} is for {use}: change that, or leave {option} out.")


def numbered(path: str, n: int, digits: int = 1) -> list[Path]:
    """Names of `n` files: that of the path, or with -1, -2, … before its suffix."""
    first = Path(path)
    endings = [f"-{k + 1:0{digits}}" for k in range(n)] if n > 1 else [""]
    return [first.with_name(f"{first.stem}{ending}{first.suffix}") for ending in endings]


def require_writable(files: Sequence[tuple[Path, Sequence[str]]], *, force: bool) -> None:
    """Raise if a file could not be written, before the work takes its time.

    Each has the suffixes that it may have; with `force` existing files may be replaced.
    """
    from bodysense.folders import explained, require_room

    for path, suffixes in files:
        if path.suffix.lower() not in suffixes:
            raise FileWriteError(
                f"cannot write {path}: give it a name that ends in {' or '.join(suffixes)}."
            )
        with explained(path):  # names may be too long
            place, there = path.parent.is_dir(), path.exists()
        if not place:
            raise FileWriteError(
                f"cannot write {path}: the folder {path.parent} does not exist; create it first or "
                "write elsewhere."
            )
        if there and not force:
            raise FileWriteError(f"{path} exists: choose another name, or replace it with --force.")
    for folder in {path.parent for path, _ in files}:
        require_room(folder)
    if len({path.resolve() for path, _ in files}) < len(files):
        raise FileWriteError("two outputs have the same name: give each its own.")


# The robot of a command.


def add_robot_options(
    parser: argparse.ArgumentParser, *, floating: bool = False
) -> argparse._ArgumentGroup:
    """Declare the robot, whose root link may float, and its options; returns their group."""
    parser.add_argument(
        "robot",
        metavar="ROBOT",
        help="a built-in robot (tx40, …), example:NAME, or a URDF, MJCF or DH file",
    )
    group = parser.add_argument_group("robot")
    base = group.add_mutually_exclusive_group()
    if floating:
        base.add_argument("--floating", action="store_true", help="let the root link float")
    base.add_argument("--fixed", action="store_true", help="fix the root link to the ground")
    group.add_argument("--friction", metavar="LAW", help="friction law, e.g. coulomb, stribeck")
    group.add_argument("--actuators", metavar="FILE", help="an actuator file (YAML)")
    down = group.add_mutually_exclusive_group()
    down.add_argument("--gravity", metavar="X,Y,Z", help=GRAVITY_HELP)
    down.add_argument("--mount", metavar="HOW", help=MOUNT_HELP)
    group.add_argument(
        "--lock",
        metavar="NAME[=Q]",
        action="append",
        default=[],
        help=f"{LOCK_HELP}; may be repeated",
    )
    return group


def mounted(robot: Robot, gravity: str | None, mount: str | None) -> Robot:
    """The robot as --gravity or --mount say, if one of them is given."""
    from bodysense.robot.mounting import MOUNTS, with_gravity

    if gravity is not None and mount is not None:
        raise MismatchError("--gravity and --mount exclude each other: give one of them.")
    if gravity is not None:
        return with_gravity(robot, numbers(gravity, "--gravity", "x,y,z in m/s²", (3,)))
    if mount is None or mount in MOUNTS:
        return robot if mount is None else with_gravity(robot, mount=mount)
    form = f"{', '.join(MOUNTS)}, or roll,pitch,yaw"
    return with_gravity(robot, mount=_angles(mount.strip(), "--mount", form, 3))


def _angles(text: str, option: str, form: str, count: int) -> list[float]:
    """Numbers in rad (or m), or in degrees where the text ends with ``deg``."""
    plain = text.removesuffix("deg")
    unit = math.pi / 180.0 if plain != text else 1.0
    return [unit * x for x in numbers(plain, option, form, (count,))]


def locked_joints(texts: Iterable[str]) -> dict[str, float | None]:
    """Positions by pattern from the words of --lock, ``*finger*=0.02``, `None` without one."""
    positions: dict[str, float | None] = {}
    for text in texts:
        name, given, q = (part.strip() for part in text.partition("="))
        if not name:
            raise ShapeError(f"--lock {text}: write NAME or NAME=POSITION, e.g. wheel_left=0.")
        positions[name] = _angles(q, f"--lock {name}", "a position", 1)[0] if given else None
    return positions


def load_robot(
    args: argparse.Namespace, *, fixed_for: str = "", silent: bool = False, lock: bool = True
) -> Robot:
    """The robot of `add_robot_options`; a floating base is refused by what is `fixed_for`.

    With `lock` it comes without the joints of --lock. What is wrong with its parameters is said on
    stderr, unless the command is to be `silent`.
    """
    from bodysense.robot.io import load

    floating = True if getattr(args, "floating", False) else False if args.fixed else None
    robot = load.load_robot(
        args.robot,
        floating_base=floating,
        friction=args.friction,
        actuators=args.actuators,
    )
    if fixed_for and robot.floating_base:
        raise MismatchError(
            f"{robot.name!r} has a floating base, and {fixed_for} fixed bases: fix its root link "
            "with --fixed."
        )
    robot = mounted(robot, args.gravity, args.mount)
    if not silent:
        print_robot_findings(robot)
    return robot.with_locked_joints(locked_joints(args.lock)) if lock else robot


# What a command writes and prints.


@contextmanager
def working(args: argparse.Namespace) -> Iterator[Status]:
    """Show the step that is worked on; the folder of --output is refused before any work."""
    from rich.console import Console

    from bodysense.folders import require_free

    if args.output is not None:
        require_free(args.output, replace=bool(args.force))
    with Console(stderr=True).status("reading …") as status:  # visible on a terminal only
        yield status


def progress_bar(*columns: ProgressColumn) -> Progress:
    """A bar of these columns, on a terminal only; it goes when the work is done."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


def write_folder(
    args: argparse.Namespace, files: Sequence[str], write: Callable[[Path], Sequence[str]]
) -> tuple[list[str], Sequence[str]]:
    """Write all files of a run into the folder of --output, if there is one.

    `files` are all that the command can write; `write` returns notes on those that are missing.
    Returns names of those that are there, and the notes.
    """
    from bodysense.folders import filled_together

    if args.output is None:
        return [], ()
    with filled_together(args.output, replace=bool(args.force), names=files) as draft:
        notes = write(draft)
        return sorted(path.name for path in draft.iterdir()), notes


def print_result(
    args: argparse.Namespace, text: str, table: object, written: Sequence[str] = ()
) -> None:
    """Print a result as text or as JSON, and which files were written into the folder."""
    if args.json:
        print(json.dumps(table, indent=2, allow_nan=False))
        return
    print(text, end="")
    if written:
        print(f"\nwritten to {args.output}: {', '.join(written)}")


def print_robot_findings(robot: Robot) -> None:
    """Print what is wrong with the parameters that a robot came with."""
    from bodysense.robot.checks.parameters import loading_notes

    for note in loading_notes(robot):
        print(f"{robot.name}: {note}", file=sys.stderr)


def print_notes(notes: Iterable[str]) -> None:
    """Print what the user should know."""
    for note in notes:
        print(f"note: {note}", file=sys.stderr)


def reproduction(command: str, folder: str) -> str:
    """The command that reproduces the run whose config.yaml is in a folder."""
    return f"bodysense {command} --config {Path(folder) / 'config.yaml'} -o ANOTHER_FOLDER"
