"""`bodysense excite ROBOT -o FILE`: design an excitation motion for identification."""

from __future__ import annotations

import argparse
import math
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bodysense.cli import options
from bodysense.errors import MismatchError, ShapeError, unknown_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from bodysense.excitation.criterion import Criterion
    from bodysense.excitation.design import Design
    from bodysense.excitation.limits import MotionLimits
    from bodysense.excitation.motion_problem import Information
    from bodysense.excitation.poses import PoseDesign
    from bodysense.excitation.search import Progress
    from bodysense.robot.robot import Robot
    from bodysense.robot.shapes.collisions import Collisions
    from bodysense.robot.shapes.workspace import WorkspaceMargins

_EXIT_VIOLATED = 1
_EXIT_INTERRUPTED = 130
_SUFFIXES = (".csv", ".parquet", ".yaml", ".yml")
_TABLE_RATE, _MESSAGE_RATE = 1000.0, 100.0
_CRITERIA = ("d-optimal", "precision", "condition")
_COLLISIONS = ("auto", "collision", "visual", "boxes", "off")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add = parser.add_argument
    options.add_robot_options(parser)
    add(
        "-o",
        "--output",
        metavar="FILE",
        required=True,
        help="the motion: .csv, .parquet, or .yaml for a ROS 2 JointTrajectory",
    )
    add = parser.add_argument_group("aim").add_argument
    add("--criterion", metavar="NAME", help=f"{', '.join(_CRITERIA)} (the first)")
    add(
        "--target",
        metavar="PARAM=SIGMA",
        action="append",
        default=[],
        help="standard deviation wanted of a base parameter; criterion precision, may be repeated",
    )
    add("--complement", metavar="LOG", nargs="+", default=[], help="existing recordings")
    add("--layout", metavar="FILE", help=options.LAYOUT_HELP)
    add(
        "--noise-torque",
        metavar="SIGMA",
        help="of the torques [N·m or N], one or one per joint (1 %% of the effort limits)",
    )
    add(
        "--seconds",
        type=options.positive,
        default=60.0,
        metavar="S",
        help="time for the search (60)",
    )
    add("--seed", type=options.seed, default=0, metavar="N", help="of the random starts (0)")
    add = parser.add_argument_group("motion").add_argument
    add("--duration", type=options.positive, metavar="S", help="of each motion (10)")
    add("--family", metavar="NAME", help="fourier or spline (fourier)")
    add("--harmonics", type=options.count, metavar="N", help="of a Fourier series (2 per second)")
    add(
        "--knots", type=options.count, metavar="N", help="control points of a spline (4 per second)"
    )
    add(
        "--trajectories",
        type=options.count,
        metavar="N",
        help="number of motions that complement each other (1)",
    )
    add("--poses", type=options.count, metavar="N", help="static poses instead of a motion")
    add("--joints", metavar="A,B", help="names of the joints that move")
    add("--hold", metavar="A,B", help="names of the joints that stand still; all others move")
    add(
        "--start",
        metavar="q1,…",
        help="pose at start and end [rad or m]; --start=-1,… if it begins with a minus",
    )
    add("--rate", type=options.positive, metavar="HZ", help="of the file (1000, .yaml 100)")
    add = parser.add_argument_group("limits").add_argument
    add("--collisions", default="auto", metavar="SHAPES", help=", ".join(_COLLISIONS))
    add(
        "--package-dirs",
        metavar="DIR",
        nargs="+",
        default=[],
        help="folders with the packages of meshes (package://…)",
    )
    add(
        "--margin",
        type=options.distance,
        metavar="M",
        help="between links (0.01 m); walls have none",
    )
    add("--workspace", metavar="x0,x1,y0,y1,z0,z1", help="box to stay inside [m], - for no wall")
    add("--floor", type=float, metavar="Z", help="height to stay above [m]")
    add(
        "--velocity-scale",
        type=options.share,
        default=1.0,
        metavar="X",
        help="fraction of the velocity limits",
    )
    add("--acceleration-limit", metavar="A", help="one number or one per joint [rad/s² or m/s²]")
    add(
        "--effort-scale",
        type=options.share,
        default=1.0,
        metavar="X",
        help="fraction of the effort limits",
    )
    add = parser.add_argument_group("result").add_argument
    add("--report", metavar="FILE.html", help="the report (beside the motion)")
    add("--no-report", action="store_true", help="write no report")
    add("--json", action="store_true", help="print JSON instead of text")
    add("--force", action="store_true", help="replace files that exist")


def run(args: argparse.Namespace) -> int:
    """Design first, then write: a search that finds nothing leaves no file behind."""
    from bodysense.cli import excite_tables as tables
    from bodysense.excitation.design import Design

    motions, report = _outputs(args)
    _require_used(args)
    criterion = _criterion(args)  # wrong names are refused before the robot is loaded
    robot = options.load_robot(args, fixed_for="motions are designed for")
    limits = _limits(args, robot)
    try:
        with tables.searching(args, criterion.name) as progress:
            collisions = _collisions(args, robot)
            workspace = _workspace(args, robot)
            bounds = dict(limits=limits, collisions=collisions, workspace=workspace)
            design = _design(args, robot, criterion, bounds, progress)
    except KeyboardInterrupt:
        print("bodysense: interrupted before a motion was ready: nothing written", file=sys.stderr)
        return _EXIT_INTERRUPTED
    if isinstance(design, Design) and design.status == "violated":
        print(f"bodysense: nothing written: {design.advice}", file=sys.stderr)
        return _EXIT_VIOLATED
    _write(args, motions, robot, design)
    if report is not None and isinstance(design, Design):  # poses have none
        from bodysense.report.excitation_page import write_excitation_page

        command = shlex.join(["bodysense", *args.words])
        write_excitation_page(
            report, design, robot, limits, collisions=collisions, command=command, seed=args.seed
        )
    files = [str(path) for path in (*motions, report) if path is not None]
    words = tables.text(args, robot, design, files, collisions)
    options.print_result(args, words, tables.summary(args, design, files, collisions))
    return 0


def _design(
    args: argparse.Namespace,
    robot: Robot,
    criterion: Criterion,
    bounds: dict[str, Any],
    progress: Callable[[Progress], None],
) -> Design | PoseDesign:
    """Motions, or the poses of --poses."""
    import numpy as np

    from bodysense.excitation.design import design_motion
    from bodysense.excitation.poses import design_poses

    common = bounds | dict(
        criterion=criterion,
        joints=_joints(args, robot),
        noise=_one_per_joint(args.noise_torque, "--noise-torque", robot),
        rng=np.random.default_rng(args.seed),
    )
    if args.poses is not None:
        return design_poses(robot, args.poses, **common)
    return design_motion(
        robot,
        family=args.family or "fourier",
        duration=10.0 if args.duration is None else args.duration,
        harmonics=args.harmonics,
        knots=args.knots,
        start=_start(args, robot),
        trajectories=args.trajectories or 1,
        known=_existing_information(args),
        # A robot that follows a table is recorded at its rate.
        rate=_TABLE_RATE if args.rate is None else args.rate,
        seconds=args.seconds,
        progress=progress,
        **common,
    )


def _start(args: argparse.Namespace, robot: Robot) -> list[float] | None:
    """The pose to start and end in."""
    if args.start is None:
        return None
    n = robot.n_joints
    return options.numbers(args.start, "--start", f"{n} positions", (n,))


def _existing_information(args: argparse.Namespace) -> Information | None:
    """Information of existing recordings on the base parameters of the design."""
    if not args.complement:
        return None
    from bodysense.identification.choices import information_of
    from bodysense.logs.read import read_log

    logs = [read_log(path, args.layout) for path in args.complement]
    return lambda robot, base, noise: information_of(robot, logs, base, noise)


def _write(
    args: argparse.Namespace, motions: list[Path], robot: Robot, design: Design | PoseDesign
) -> None:
    from bodysense.excitation.poses import PoseDesign
    from bodysense.excitation.trajectory_file import write_poses, write_trajectory

    kinds = zip(robot.joint_names, robot.joint_types, strict=True)
    sliding = [joint for joint, kind in kinds if kind == "prismatic"]
    if isinstance(design, PoseDesign):
        write_poses(motions[0], design.poses, robot.joint_names, sliding=sliding)
        return
    # Controllers fill in what is between the points of a message.
    message = motions[0].suffix.lower() in (".yaml", ".yml")
    rate = args.rate or (_MESSAGE_RATE if message else _TABLE_RATE)
    for path, motion in zip(motions, design.trajectories, strict=True):
        write_trajectory(path, motion, robot.joint_names, rate, sliding=sliding)


def _outputs(args: argparse.Namespace) -> tuple[list[Path], Path | None]:
    """Files of the motions, and the report; refused before the search takes its time."""
    motions = options.numbered(args.output, args.trajectories or 1)
    report = None
    if args.report is not None:
        report = Path(args.report)
    elif not args.no_report and args.poses is None:
        report = Path(args.output).with_suffix(".html")
    suffixes = _SUFFIXES[:2] if args.poses is not None else _SUFFIXES
    pages = [] if report is None else [(report, (".html",))]
    options.require_writable([*((path, suffixes) for path in motions), *pages], force=args.force)
    return motions, report


def _require_used(args: argparse.Namespace) -> None:
    """Refuse options that would have no effect."""
    poses, spline = args.poses is not None, args.family == "spline"
    options.refuse_unused(
        (
            (
                "--target",
                bool(args.target) and args.criterion not in (None, "precision"),
                "precision",
            ),
            ("--layout", args.layout is not None and not args.complement, "--complement"),
            ("--harmonics", args.harmonics is not None and spline, "the family fourier"),
            ("--knots", args.knots is not None and not spline, "--family spline"),
            ("--margin", args.margin is not None and args.collisions == "off", "collisions"),
            ("--hold", args.hold is not None and args.joints is not None, "use without --joints"),
            ("--floor", args.floor is not None and args.workspace is not None, "use alone"),
            ("--report", args.report is not None and args.no_report, "use without --no-report"),
        )
    )
    options.refuse_unused(
        (f"--{name.replace('_', '-')}", poses, "a motion, not for --poses")
        for name in _OF_MOTIONS
        if getattr(args, name) not in (None, [])
    )


_OF_MOTIONS = (
    *("duration", "family", "harmonics", "knots", "trajectories", "start", "rate", "report"),
    *("acceleration_limit", "complement"),
)
"""Options that poses have no use for."""


def _criterion(args: argparse.Namespace) -> Criterion:
    """What to minimise."""
    from bodysense.excitation.criterion import Precision, criterion_of

    if not args.target:
        return criterion_of(args.criterion or _CRITERIA[0])
    targets = {}
    for text in args.target:
        name, _, sigma = (part.strip() for part in text.rpartition("="))
        try:
            targets[name] = options.positive(sigma)
        except (ValueError, argparse.ArgumentTypeError):
            name = ""
        if not name:
            raise ShapeError(
                f"--target {text!r} is invalid: give PARAM=SIGMA, as MX2=0.01, with a number above "
                "zero."
            )
    return Precision(targets)


def _joints(args: argparse.Namespace, robot: Robot) -> tuple[str, ...] | None:
    """Names of those that move; None leaves it to the design."""
    words = args.hold if args.joints is None else args.joints
    if words is None:
        return None
    named = [word.strip() for word in words.split(",") if word.strip()]
    for name in named:
        if name not in robot.joint_names:
            raise unknown_name("joint", name, robot.joint_names)
    held = args.joints is None
    return tuple(n for n in robot.joint_names if n not in named) if held else tuple(named)


def _one_per_joint(text: str | None, option: str, robot: Robot) -> list[float] | None:
    """Numbers between commas, one for all joints or one per joint."""
    if text is None:
        return None
    n = robot.n_joints
    values = options.numbers(text, option, f"one number, or {n} between commas,", (1, n))
    return values * n if len(values) == 1 else values


def _limits(args: argparse.Namespace, robot: Robot) -> MotionLimits:
    """The robot's limits, as far as they may be used."""
    from bodysense.excitation.limits import MotionLimits

    own = MotionLimits.from_robot(robot)
    if args.effort_scale < 1.0 and not any(math.isfinite(limit) for limit in own.effort):
        raise MismatchError(
            f"{robot.name!r} has no effort limits that --effort-scale could scale: add them to its "
            "file, or leave the option out."
        )
    return MotionLimits.from_robot(
        robot,
        velocity=args.velocity_scale * own.velocity,
        acceleration=_one_per_joint(args.acceleration_limit, "--acceleration-limit", robot),
        effort=args.effort_scale * own.effort,
    )


def _collisions(args: argparse.Namespace, robot: Robot) -> Collisions | None:
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


def _workspace(args: argparse.Namespace, robot: Robot) -> WorkspaceMargins | None:
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
        x0, x1, y0, y1, z0, z1 = (
            math.copysign(math.inf, k % 2 - 0.5) if word == "-" else float(word)
            for k, word in enumerate(words)
        )
    except ValueError:
        raise ShapeError(
            f"--workspace {text!r} is invalid: give x0,x1,y0,y1,z0,z1 in metres, with - "
            "where there is no wall, as -1,1,-1,1,0,-."
        ) from None
    return (x0, y0, z0), (x1, y1, z1)
