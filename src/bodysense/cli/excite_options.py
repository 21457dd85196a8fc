"""The options of `bodysense excite`, and what can be said about them before anything runs."""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bodysense.cli.options import (
    count,
    distance,
    numbers,
    positive,
    refuse_unused,
    require_writable,
    seed,
    share,
)
from bodysense.errors import MismatchError, ShapeError, unknown_name

if TYPE_CHECKING:
    from bodysense.excitation.criterion import Criterion
    from bodysense.excitation.limits import MotionLimits
    from bodysense.robot.robot import Robot
    from bodysense.robot.shapes.collisions import Collisions
    from bodysense.robot.shapes.workspace import WorkspaceMargins

_SUFFIXES = (".csv", ".parquet", ".yaml", ".yml")
_MESSAGES = (".yaml", ".yml")
_TABLE_RATE, _MESSAGE_RATE = 1000.0, 100.0
_CRITERIA = ("d-optimal", "precision", "condition")
_COLLISIONS = ("auto", "collision", "visual", "boxes", "off")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add = parser.add_argument
    add("robot", metavar="ROBOT", help="a built-in robot, example:NAME, or a robot file")
    add(
        "-o",
        "--output",
        metavar="FILE",
        required=True,
        help="the motion: .csv, .parquet, or .yaml for a ROS 2 JointTrajectory",
    )
    aim = parser.add_argument_group("aim")
    add = aim.add_argument
    add("--criterion", metavar="NAME", help=f"{', '.join(_CRITERIA)} (the first)")
    add(
        "--target",
        metavar="PARAM=SIGMA",
        action="append",
        default=[],
        help="standard deviation wanted of a base parameter; criterion precision, may be repeated",
    )
    add("--complement", metavar="LOG", nargs="+", default=[], help="existing recordings")
    add("--layout", metavar="FILE", help="meaning of the columns of these recordings (YAML)")
    add(
        "--noise-torque",
        metavar="SIGMA",
        help="of the torques [N·m or N], one or one per joint (1 %% of the effort limits)",
    )
    add("--seconds", type=positive, default=60.0, metavar="S", help="time for the search (60)")
    add("--seed", type=seed, default=0, metavar="N", help="of the random starts (0)")
    motion = parser.add_argument_group("motion")
    add = motion.add_argument
    add("--duration", type=positive, metavar="S", help="of each motion (10)")
    add("--family", metavar="NAME", help="fourier or spline (fourier)")
    add("--harmonics", type=count, metavar="N", help="of a Fourier series (2 per second)")
    add("--knots", type=count, metavar="N", help="control points of a spline (4 per second)")
    add(
        "--trajectories",
        type=count,
        metavar="N",
        help="number of motions that complement each other (1)",
    )
    add("--poses", type=count, metavar="N", help="static poses instead of a motion")
    add("--joints", metavar="A,B", help="names of the joints that move")
    add("--hold", metavar="A,B", help="names of the joints that stand still; all others move")
    add(
        "--start",
        metavar="q1,…",
        help="pose at start and end [rad or m]; --start=-1,… if it begins with a minus",
    )
    add("--rate", type=positive, metavar="HZ", help="of the file (1000, .yaml 100)")
    limits = parser.add_argument_group("limits")
    add = limits.add_argument
    add("--collisions", default="auto", metavar="SHAPES", help=", ".join(_COLLISIONS))
    add(
        "--package-dirs",
        metavar="DIR",
        nargs="+",
        default=[],
        help="folders with the packages of meshes (package://…)",
    )
    add("--margin", type=distance, metavar="M", help="between links (0.01 m); walls have none")
    add("--workspace", metavar="x0,x1,y0,y1,z0,z1", help="box to stay inside [m], - for no wall")
    add("--floor", type=float, metavar="Z", help="height to stay above [m]")
    add(
        "--velocity-scale",
        type=share,
        default=1.0,
        metavar="X",
        help="fraction of the velocity limits",
    )
    add("--acceleration-limit", metavar="A", help="one number or one per joint [rad/s² or m/s²]")
    add(
        "--effort-scale", type=share, default=1.0, metavar="X", help="fraction of the effort limits"
    )
    robot = parser.add_argument_group("robot")
    add = robot.add_argument
    add("--fixed", action="store_true", help="fix the root link to the ground")
    add("--friction", metavar="LAW", help="friction law, e.g. coulomb, stribeck")
    add("--actuators", metavar="FILE", help="an actuator file (YAML)")
    result = parser.add_argument_group("result")
    add = result.add_argument
    add("--report", metavar="FILE.html", help="the report (beside the motion)")
    add("--no-report", action="store_true", help="write no report")
    add("--json", action="store_true", help="print JSON instead of text")
    add("--force", action="store_true", help="replace files that exist")


@dataclass(frozen=True)
class ExciteOutputs:
    """The files to write: a motion each, and the report."""

    motions: tuple[Path, ...]
    report: Path | None

    @classmethod
    def of(cls, args: argparse.Namespace) -> ExciteOutputs:
        """Name them and refuse what could not be written, before the search takes its time."""
        first, count = Path(args.output), args.trajectories or 1
        numbers = [""] if count == 1 else [f"-{k + 1}" for k in range(count)]
        motions = tuple(first.with_name(f"{first.stem}{k}{first.suffix}") for k in numbers)
        report = cls._report(args)
        suffixes = _SUFFIXES[:2] if args.poses is not None else _SUFFIXES
        pages = [] if report is None else [(report, (".html",))]
        require_writable([*((path, suffixes) for path in motions), *pages], force=args.force)
        return cls(motions, report)

    @staticmethod
    def _report(args: argparse.Namespace) -> Path | None:
        if args.report is not None:
            return Path(args.report)
        beside = not args.no_report and args.poses is None
        return Path(args.output).with_suffix(".html") if beside else None

    @property
    def all(self) -> tuple[Path, ...]:
        """Every file."""
        return self.motions if self.report is None else (*self.motions, self.report)


def require_used(args: argparse.Namespace) -> None:
    """Refuse options that would have no effect."""
    poses, spline = args.poses is not None, args.family == "spline"
    refuse_unused(
        (
            ("--target", bool(args.target) and _criterion_name(args) != "precision", "precision"),
            ("--layout", args.layout is not None and not args.complement, "--complement"),
            ("--harmonics", args.harmonics is not None and spline, "the family fourier"),
            ("--knots", args.knots is not None and not spline, "--family spline"),
            ("--margin", args.margin is not None and args.collisions == "off", "collisions"),
            ("--hold", args.hold is not None and args.joints is not None, "use without --joints"),
            ("--floor", args.floor is not None and args.workspace is not None, "use alone"),
            ("--report", args.report is not None and args.no_report, "use without --no-report"),
        )
    )
    refuse_unused(
        (f"--{name.replace('_', '-')}", poses, "a motion, not for --poses")
        for name in _OF_MOTIONS
        if getattr(args, name) not in (None, [])
    )


_OF_MOTIONS = (
    "duration",
    "family",
    "harmonics",
    "knots",
    "trajectories",
    "start",
    "rate",
    "report",
    "acceleration_limit",
    "complement",
)
"""Options that poses have no use for."""


def file_rate(args: argparse.Namespace) -> float:
    """Sampling rate of the file [Hz]; controllers fill in what is between points of a .yaml."""
    if args.rate is not None:
        return float(args.rate)
    message = Path(args.output).suffix.lower() in _MESSAGES
    return _MESSAGE_RATE if message else _TABLE_RATE


def criterion(args: argparse.Namespace) -> Criterion:
    """What to minimise."""
    from bodysense.excitation.criterion import Precision, criterion_of

    if not args.target:
        return criterion_of(_criterion_name(args))
    targets: dict[str, float] = {}
    for text in args.target:
        name, _, sigma = text.rpartition("=")
        try:
            targets[name.strip()] = float(sigma)
        except ValueError:
            targets[name.strip()] = math.nan
        if not name.strip() or not 0.0 < targets[name.strip()] < math.inf:
            raise ShapeError(
                f"--target {text!r} is invalid: give PARAM=SIGMA, as MX2=0.01, with a "
                "number above zero."
            )
    return Precision(targets)


def joints(args: argparse.Namespace, robot: Robot) -> tuple[str, ...] | None:
    """Names of those that move; None leaves it to the design."""
    words = args.joints if args.joints is not None else args.hold
    if words is None:
        return None
    named = tuple(word.strip() for word in words.split(",") if word.strip())
    for name in named:
        if name not in robot.joint_names:
            raise unknown_name("joint", name, robot.joint_names)
    if args.joints is not None:
        return named
    return tuple(name for name in robot.joint_names if name not in named)


def one_per_joint(text: str | None, option: str, robot: Robot) -> list[float] | None:
    """Numbers between commas, one for all joints or one per joint."""
    if text is None:
        return None
    n = robot.n_joints
    values = numbers(text, option, f"one number, or {n} between commas,", (1, n))
    return values * n if len(values) == 1 else values


def start(args: argparse.Namespace, robot: Robot) -> list[float] | None:
    """The pose at start and end."""
    if args.start is None:
        return None
    return numbers(args.start, "--start", f"{robot.n_joints} positions", (robot.n_joints,))


def limits(args: argparse.Namespace, robot: Robot) -> MotionLimits:
    """The robot's limits, as far as they may be used."""
    from bodysense.excitation.limits import MotionLimits

    own = MotionLimits.of(robot)
    if args.effort_scale < 1.0 and not any(math.isfinite(limit) for limit in own.effort):
        raise MismatchError(
            f"{robot.name!r} has no effort limits that --effort-scale could scale: add them to its "
            "file, or leave the option out."
        )
    return MotionLimits.of(
        robot,
        velocity=args.velocity_scale * own.velocity,
        acceleration=one_per_joint(args.acceleration_limit, "--acceleration-limit", robot),
        effort=args.effort_scale * own.effort,
    )


def collisions(args: argparse.Namespace, robot: Robot) -> Collisions | None:
    """The pairs of bodies to keep apart."""
    from bodysense.robot.shapes.collisions import Collisions

    if args.collisions not in _COLLISIONS:
        raise unknown_name("shapes", args.collisions, _COLLISIONS)
    if args.collisions == "off":
        return None
    margin = 0.01 if args.margin is None else args.margin
    result = Collisions.from_robot(
        robot, args.collisions, margin=margin, package_dirs=args.package_dirs
    )
    if args.margin is not None and result.pairs and not (result.margins == margin).any():
        largest = math.floor(1e3 * result.margins.max()) / 1e3
        raise MismatchError(
            f"--margin {margin:g} is more than any two bodies of {robot.name!r} can keep: give "
            f"{largest:g} m at most."
        )
    return result


def workspace(args: argparse.Namespace, robot: Robot) -> WorkspaceMargins | None:
    """The workspace to stay inside."""
    from bodysense.robot.shapes.link_shapes import link_hulls
    from bodysense.robot.shapes.workspace import Workspace

    if args.floor is not None:
        box = Workspace(lower=(-math.inf, -math.inf, args.floor))
    elif args.workspace is not None:
        lower, upper = _walls(args.workspace)
        box = Workspace(lower, upper)
    else:
        return None
    shapes = "auto" if args.collisions == "off" else args.collisions
    return box.around(robot, link_hulls(robot, shapes, package_dirs=args.package_dirs))


def _walls(text: str) -> tuple[tuple[float, float, float], tuple[float, float, float]]:
    words = [word.strip() for word in text.split(",")]
    try:
        if len(words) != 6:
            raise ValueError
        bounds = [
            (-math.inf if k % 2 == 0 else math.inf) if word == "-" else float(word)
            for k, word in enumerate(words)
        ]
    except ValueError:
        raise ShapeError(
            f"--workspace {text!r} is invalid: give x0,x1,y0,y1,z0,z1 in metres, with - "
            "where there is no wall, as -1,1,-1,1,0,-."
        ) from None
    return (bounds[0], bounds[2], bounds[4]), (bounds[1], bounds[3], bounds[5])


def _criterion_name(args: argparse.Namespace) -> str:
    if args.criterion is not None:
        return str(args.criterion)
    if args.target:
        return "precision"
    return _CRITERIA[0]
