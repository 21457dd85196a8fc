"""The options of `bodysense simulate`, and what can be said about them before anything runs."""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bodysense.cli.options import (
    count,
    numbers,
    positive,
    refuse_unused,
    require_writable,
    seed,
)
from bodysense.errors import MismatchError

if TYPE_CHECKING:
    from bodysense.robot.robot import Robot

_LOG_SUFFIXES = (".csv", ".parquet")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add = parser.add_argument
    add("robot", metavar="ROBOT", help="a built-in robot, example:NAME, or a robot file")
    add(
        "trajectory",
        metavar="TRAJECTORY",
        help="a table or log with columns t and q.<joint>, or the word random",
    )
    add("-o", "--output", metavar="FILE", required=True, help="the log, .csv or .parquet")
    motion = parser.add_argument_group("motion")
    add = motion.add_argument
    add("--duration", type=positive, metavar="S", help="of a random motion (10 s)")
    add("--harmonics", type=count, metavar="N", help="of a random motion (20)")
    add("--layout", metavar="FILE", help="meaning of the columns of the file (YAML)")
    add("--in-motion", action="store_true", help="the file is a piece of a running motion")
    add("--save-trajectory", metavar="FILE", help="write the reference motion, .csv or .parquet")
    body = parser.add_argument_group("robot")
    add = body.add_argument
    add("--fixed", action="store_true", help="fix the root link to the ground")
    add("--friction", metavar="NAME", help="friction law, e.g. coulomb, stribeck, lugre")
    add("--actuators", metavar="FILE", help="an actuator file (YAML)")
    add("--payload", metavar="MASS[,x,y,z]", help="a held body [kg] and its centre of mass [m]")
    add("--payload-link", metavar="LINK", help="the link or frame that holds it (the last link)")
    add("--payload-inertia", metavar="Ixx,Iyy,Izz", help="about its centre [kg·m²] (point mass)")
    add("--truth", metavar="FILE.csv", help="write the simulated robot's parameters")
    loop = parser.add_argument_group("control loop")
    add = loop.add_argument
    add("--controller", choices=("own", "suggested"), help="the robot's own if it has one")
    add("--control-rate", type=positive, metavar="HZ", help="the controller's own, or 5000")
    add("--sampling-rate", type=positive, metavar="HZ", help="of the log (at most 1000)")
    add("--integrator", choices=("euler", "rk2", "rk4"), default="rk4", help="rk4 by default")
    add("--substeps", type=count, default=1, metavar="N", help="integration steps per period")
    add("--saturate", action="store_true", help="keep the torques within the effort limits")
    noise = parser.add_argument_group("noise")
    add = noise.add_argument
    add(
        "--noise-position",
        default="0",
        metavar="SIGMA",
        help="of the encoders [rad or m], or as 0.001deg; one number or one per joint: s1,s2,…",
    )
    add("--noise-torque", default="0", metavar="SIGMA", help="of the logged torques [N·m or N]")
    add("--seed", type=seed, default=0, metavar="N", help="of the random motion and the noise")
    add("--runs", type=count, default=1, metavar="N", help="repeat with new noise: FILE-001, …")
    result = parser.add_argument_group("result")
    add = result.add_argument
    add("--page", metavar="FILE.html", help="write a page that shows the (first) run")
    add("--json", action="store_true", help="print JSON instead of text")
    add("--force", action="store_true", help="replace files that exist")


@dataclass(frozen=True)
class SimulateOutputs:
    """The files to write."""

    logs: tuple[Path, ...]
    trajectory: Path | None
    truth: Path | None
    page: Path | None

    @classmethod
    def of(cls, args: argparse.Namespace) -> SimulateOutputs:
        """Name them and refuse what could not be written, before the simulation takes its time."""
        first = Path(args.output)
        logs: tuple[Path, ...] = (first,)
        if args.runs > 1:
            digits = max(3, len(str(args.runs)))
            logs = tuple(
                first.with_name(f"{first.stem}-{k + 1:0{digits}}{first.suffix}")
                for k in range(args.runs)
            )
        rest = (args.save_trajectory, args.truth, args.page)
        outputs = cls(logs, *(None if name is None else Path(name) for name in rest))
        suffixes = {outputs.truth: (".csv",), outputs.page: (".html",)}
        require_writable(
            [(path, suffixes.get(path, _LOG_SUFFIXES)) for path in outputs.all], force=args.force
        )
        return outputs

    @property
    def all(self) -> tuple[Path, ...]:
        """Every file."""
        rest = (self.trajectory, self.truth, self.page)
        return (*self.logs, *(path for path in rest if path is not None))


def require_used(args: argparse.Namespace) -> None:
    """Refuse options that would have no effect."""
    random, loaded = args.trajectory == "random", args.payload is not None
    unused = (
        ("--duration", args.duration is not None and not random, "the trajectory `random`"),
        ("--harmonics", args.harmonics is not None and not random, "the trajectory `random`"),
        ("--layout", args.layout is not None and random, "a trajectory from a file"),
        ("--in-motion", args.in_motion and random, "a trajectory from a file"),
        ("--payload-link", args.payload_link is not None and not loaded, "a --payload"),
        ("--payload-inertia", args.payload_inertia is not None and not loaded, "a --payload"),
    )
    refuse_unused(unused)


def require_dividing(control_rate: float, sampling_rate: float | None) -> float:
    """The sampling rate; by default at most 1 kHz. It must divide the control rate.

    Otherwise samples would not be equally spaced, as a log of this rate should be.
    """
    if sampling_rate is None:
        return control_rate / max(1, math.ceil(control_rate / 1000.0 - 1e-9))
    ratio = control_rate / sampling_rate
    steps = max(1, round(ratio))
    if abs(ratio - steps) > 1e-9 * steps:
        raise MismatchError(
            f"--sampling-rate {sampling_rate:g} does not divide the control rate of "
            f"{control_rate:g} Hz: the nearest that does is {control_rate / steps:.12g}, or give "
            f"--control-rate {sampling_rate * steps:.12g}."
        )
    return control_rate / steps


def position_noise(text: str, robot: Robot) -> list[float]:
    """Standard deviations of the encoders [rad or m], from text that may end in deg or rad."""
    plain = text.strip().lower()
    unit = next((u for u in ("deg", "rad") if plain.endswith(u)), "")
    values = numbers(plain.removesuffix(unit), "--noise-position", "SIGMA, SIGMAdeg or s1,s2,…")
    if unit != "deg":
        return values
    slides = [n for n, k in zip(robot.joint_names, robot.joint_types, strict=True) if k[0] == "p"]
    if slides:
        raise MismatchError(
            f"--noise-position {text}: {', '.join(slides)} of {robot.name!r} slide, which degrees "
            "cannot measure; give one number per joint in rad or m: s1,s2,…."
        )
    return [math.radians(value) for value in values]
