"""Damaged files for every reader: each is read, or refused with a `BodysenseError`, soon and small.

    python tests/fuzz/fuzzer.py --inputs 12000            # make fuzz
    python tests/fuzz/fuzzer.py --number 4711             # one of them again, with its traceback

Input number n is the same in every run: it picks a reader, a sound file of it, and some damage that
knows what the file is made of: elements, keys, numbers and rows are doubled, dropped, exchanged and
replaced by what nobody expects; bytes are flipped and cut.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from bodysense.errors import BodysenseError
from bodysense.robot import Robot, load_robot, write_mjcf, write_urdf

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 20.0  # that one input may take
MEMORY = 2 * 2**30  # bytes, of the process
_BATCH = 500  # inputs of one process
_SILENT = 180.0  # seconds without a word after which a process is ended; machines may be busy


class Subject(NamedTuple):
    """A reader: the name of the file, a sound content, and what reads it."""

    file: str
    content: bytes
    read: Callable[[Path], object]
    beside: tuple[tuple[str, bytes], ...] = ()


# Readers.


@cache
def _arm() -> Robot:
    return load_robot(ROOT / "examples" / "robots" / "arm.urdf")


def _read_robot(path: Path) -> None:
    from bodysense.robot import check_robot

    robot = load_robot(path)
    check_robot(robot)
    with contextlib.suppress(BodysenseError):
        write_urdf(robot, path.with_name("again.urdf"))


def _read_log(path: Path) -> None:
    from bodysense.doctor import examine
    from bodysense.logs import read_log

    examine(_arm(), read_log(path))


def _motion() -> tuple[list[str], list[list[float]]]:
    joints = _arm().joint_names
    names = [f"{quantity}.{joint}" for quantity in ("q", "v", "tau") for joint in joints]
    t = np.arange(60) / 50.0
    columns = [np.round(np.sin((1.0 + 0.3 * k) * t + k), 6) for k in range(len(names))]
    return ["t", *names], np.column_stack([t, *columns]).tolist()


def _csv() -> bytes:
    names, rows = _motion()
    return "\n".join([",".join(names), *(",".join(map(str, row)) for row in rows)]).encode()


def _parquet(folder: Path) -> bytes:
    from bodysense.logs import Log, write_log

    names, rows = _motion()
    columns = np.array(rows).T
    log = Log.of(columns[0], dict(zip(names[1:], columns[1:], strict=True)))
    return write_log(folder / "log.parquet", log).read_bytes()


def _recordings(folder: Path) -> dict[str, Subject]:
    """MCAP and ROS 2 bags, written by other people's libraries."""
    from bodysense.logs import read_log

    sys.path.insert(0, str(ROOT / "tests" / "logs"))
    import test_ros as ros

    messages = [
        ("/joint_states", ros.START + k * 10**7, ros.joints(ros.START + k * 10**7, "ab", (k, 1)))
        for k in range(40)
    ]
    mcap = ros.record(folder, "mcap", messages).read_bytes()
    bag = ros.record(folder, "bag-sqlite3", messages)
    stored = next(bag.glob("*.db3"))
    database = (stored.name, stored.read_bytes())
    metadata = (bag / "metadata.yaml").read_bytes()
    return {
        "mcap": Subject("log.mcap", mcap, read_log),
        "database": Subject("log.db3", database[1], read_log),
        "bag": Subject("metadata.yaml", metadata, lambda p: read_log(p.parent), (database,)),
    }


@cache
def subjects() -> dict[str, Subject]:
    """Readers by name, with a sound file of each."""
    from bodysense import load_estimation
    from bodysense.cli.identify import IdentifyOptions
    from bodysense.cli.run_options import _read_configuration
    from bodysense.excitation.trajectory_file import read_trajectory
    from bodysense.identification.knowledge import read_knowledge
    from bodysense.logs import read_layout

    examples, arm = ROOT / "examples", _arm()
    robots = examples / "robots"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        mjcf = write_mjcf(arm, folder / "arm.xml").read_bytes()
        parquet = _parquet(folder)
        try:
            recordings = _recordings(folder)
        except ImportError:  # the libraries that write them are for tests alone
            recordings = {}
    actuators = robots / "arm-actuators.yaml"
    return {
        "urdf": Subject("arm.urdf", (robots / "arm.urdf").read_bytes(), _read_robot),
        "mjcf": Subject("arm.xml", mjcf, _read_robot),
        "dh": Subject("scara.yaml", (robots / "scara.yaml").read_bytes(), _read_robot),
        "actuators": Subject(
            "drives.yaml",
            actuators.read_bytes(),
            lambda path: load_robot(robots / "arm.urdf", actuators=path),
        ),
        "csv": Subject("log.csv", _csv(), _read_log),
        "parquet": Subject("log.parquet", parquet, _read_log),
        **recordings,
        "layout": Subject(
            "layout.yaml", (examples / "layouts" / "ur10e.yaml").read_bytes(), read_layout
        ),
        "sensors": Subject("sensors.yaml", SENSORS, lambda path: load_estimation(path, arm)),
        "knowledge": Subject("known.yaml", KNOWLEDGE, lambda path: read_knowledge(path, arm)),
        "configuration": Subject(
            "config.yaml",
            CONFIGURATION,
            lambda path: _read_configuration(str(path), IdentifyOptions),
        ),
        "trajectory": Subject(
            "trajectory.csv", _csv(), lambda path: read_trajectory(path, arm.joint_names)
        ),
    }


SENSORS = b"""sensors:
  pan: {kind: joint_torque, joint: pan, side: drive, std: 0.85, bias_std: 9.3}
  motion: {kind: joint_acceleration, joint: all, std: 0.05}
  hand: {kind: gyroscope, link: forearm, xyz: [0, 0, 0.1], rpy: [0, 0, 1.57], std: 0.01}
external_wrenches:
  forearm: {std: [100, 100, 100, 10, 10, 10]}
"""
KNOWLEDGE = b"""total_mass: 7.35
masses: {forearm: 1.75}
symmetric:
  upper_arm: [y, {axis: z, offset: 0.1}]
equal:
  - [shoulder, upper_arm]
com_inside:
  forearm: {lower: [-0.1, -0.1, 0.0], upper: [0.1, 0.1, 0.4]}
"""
CONFIGURATION = b"""robot: arm.urdf
logs: [log.csv]
method: pc-wls
friction: auto
cutoff: 8.0
seed: 3
"""

# Damage.

_ODD_NUMBERS = (
    *("0", "-0.0", "1", "-1", "1e308", "-1e308", "1e-320", "nan", "inf", "-inf", "0x10", "1_000"),
    *("9" * 400, "-" + "9" * 400, "9" * 5000, "1.5.2", "1,5", "--3", "1e", "\u0661", "1e999", ""),
)
_ODD_WORDS = (
    *(
        "",
        " ",
        "\0",
        "~",
        "null",
        "yes",
        "[]",
        "{}",
        "[[[[",
        "&a",
        "*a",
        "!!python/none x",
        "<",
        "]]>",
    ),
    *("&amp;", "${x}", "é", "\U0001f916", "../..", "/dev/null", "a" * 3000, "\ud7ff", "%s", "{0}"),
)
_NUMBER = re.compile(rb"[-+]?\d+\.?\d*(?:[eE][-+]?\d+)?")
_WORD = re.compile(rb"[A-Za-z_][A-Za-z_0-9]*")
_PIECE = re.compile(rb"<[^<>]*>|\{[^{}]*\}|\[[^\[\]]*\]|\"[^\"]*\"|[^\n]*\n")


_Damage = Callable[[bytes, random.Random], bytes]


def damaged(content: bytes, rng: random.Random) -> bytes:
    """The content with one to five damages of any kind, below 10 MB."""
    for _ in range(rng.choice((1, 1, 2, 3, 5))):
        content = rng.choice(_DAMAGES)(content, rng)[: 10**7]
    return content


def _spliced(pattern: re.Pattern[bytes], new: _Damage) -> _Damage:
    def damage(content: bytes, rng: random.Random) -> bytes:
        found = list(pattern.finditer(content))
        if not found:
            return content
        match = rng.choice(found)
        return content[: match.start()] + new(match[0], rng) + content[match.end() :]

    return damage


def _odd(words: Iterable[str]) -> _Damage:
    encoded = [word.encode("utf-8", "surrogatepass") for word in words]
    return lambda old, rng: rng.choice(encoded)


def _cut(content: bytes, rng: random.Random) -> bytes:
    return content[: rng.randrange(len(content) + 1)]


def _flip(content: bytes, rng: random.Random) -> bytes:
    if not content:
        return content
    place = rng.randrange(len(content))
    return content[:place] + bytes([rng.randrange(256)]) + content[place + 1 :]


def _exchange(content: bytes, rng: random.Random) -> bytes:
    found = list(_PIECE.finditer(content))
    if len(found) < 2:
        return content
    a, b = sorted(rng.sample(found, 2), key=lambda match: match.start())
    middle = content[a.end() : b.start()]
    return content[: a.start()] + b[0] + middle + a[0] + content[b.end() :]


def _encode(content: bytes, rng: random.Random) -> bytes:
    text = content.decode("utf-8", "replace")
    return text.encode(rng.choice(("utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-8-sig")))


def _nest(content: bytes, rng: random.Random) -> bytes:
    place = rng.randrange(len(content) + 1)
    opening = rng.choice((b"[", b"{", b"<a>", b"- ", b"(", b'"', b"? "))
    return content[:place] + opening * rng.choice((50, 5000, 40_000)) + content[place:]


def _ends(content: bytes, rng: random.Random) -> bytes:
    return content.replace(b"\n", rng.choice((b"\r", b"\r\n", b"", b"\n\n", b"\t\n")))


_DAMAGES: tuple[_Damage, ...] = (
    *[_spliced(_NUMBER, _odd(_ODD_NUMBERS))] * 4,
    *[_spliced(_WORD, _odd(_ODD_WORDS))] * 2,
    _spliced(_WORD, lambda old, rng: old[::-1]),
    _spliced(_PIECE, lambda old, rng: b""),
    _spliced(_PIECE, lambda old, rng: old * rng.choice((2, 3, 500))),
    _spliced(_PIECE, _odd(_ODD_WORDS)),
    _exchange,
    _cut,
    *[_flip] * 3,
    _encode,
    _nest,
    _ends,
)


# Runs.


class Failure(NamedTuple):
    """An input that was neither read nor refused as it should be."""

    number: int
    subject: str
    reason: str
    trace: str


def tried(number: int, folder: Path) -> Failure | None:
    """Read input number n; what went wrong, if anything did."""
    rng = random.Random(number)
    names = list(subjects())
    name = names[number % len(names)]
    subject = subjects()[name]
    for beside, content in subject.beside:
        (folder / beside).write_bytes(content)
    path = folder / subject.file
    path.write_bytes(damaged(subject.content, rng))
    start = time.process_time()
    try:
        subject.read(path)
    except BodysenseError as error:
        if not str(error).strip() or len(str(error)) > 5000:
            return Failure(number, name, f"a message of {len(str(error))} characters", "")
    except Exception as error:
        text = f"{type(error).__name__}: {str(error)[:100]}"
        return Failure(number, name, text, traceback.format_exc())
    seconds = time.process_time() - start
    if seconds > SECONDS:
        return Failure(number, name, f"{seconds:.1f} s", "")
    used = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if used > MEMORY:
        return Failure(number, name, f"{used / 2**30:.2f} GiB", "")
    return None


def _work(numbers: Iterable[int]) -> None:
    """Try inputs one by one, saying which, for a parent that listens."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    parent = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # libraries print what they do not like
    for number in numbers:
        print(f"try {number}", file=parent, flush=True)
        with tempfile.TemporaryDirectory() as name:
            failure = tried(number, Path(name))
        if failure is not None:
            line = " ".join(f"{failure.subject}: {failure.reason}".split())
            print(f"fail {number} {line}", file=parent, flush=True)
    print("end", file=parent, flush=True)


def _batch(first: int, last: int) -> list[str]:
    """Failures of inputs from a process of its own, which is started again where it is lost."""
    failures = []
    while first < last:
        process = subprocess.Popen(
            [sys.executable, __file__, "--work", str(first), str(last)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert process.stdout is not None
        done, current, reader = False, first, ThreadPoolExecutor(1)
        while True:
            line = reader.submit(process.stdout.readline)
            try:
                kind, _, rest = line.result(timeout=_SILENT).strip().partition(" ")
            except TimeoutError:
                kind = ""
                failures.append(f"{current} no answer for {_SILENT:g} s")
                process.send_signal(signal.SIGKILL)
                break
            if kind == "try":
                current = int(rest)
            elif kind == "fail":
                failures.append(rest)
            else:
                done = kind == "end"
                if not done:
                    failures.append(f"{current} the process ended ({process.wait()})")
                break
        process.wait()
        reader.shutdown(wait=False)
        first = last if done else current + 1
    return failures


def main() -> int:
    """Try inputs, and print those that fail."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=12_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--number", type=int)
    parser.add_argument("--work", type=int, nargs=2)
    args = parser.parse_args()
    if args.work:
        _work(range(*args.work))
        return 0
    if args.number is not None:
        with tempfile.TemporaryDirectory() as name:
            failure = tried(args.number, Path(name))
        print(failure.trace or failure.reason if failure else "read or refused as it should be")
        return int(failure is not None)
    start, last = time.monotonic(), args.first + args.inputs
    ranges = [(a, min(a + _BATCH, last)) for a in range(args.first, last, _BATCH)]
    failures: list[str] = []
    with ThreadPoolExecutor(args.workers) as pool:
        for found in pool.map(lambda pair: _batch(*pair), ranges):
            failures += found
            for failure in found:
                print(f"FAILED {failure}", flush=True)
    per_reader = Counter(n % len(subjects()) for n in range(args.first, last))
    print(
        f"{args.inputs} inputs over {len(per_reader)} readers in {time.monotonic() - start:.0f} s: "
        f"{len(failures)} failures"
    )
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())
