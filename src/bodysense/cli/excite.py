"""`bodysense excite ROBOT -o FILE`: design an excitation motion for identification."""

from __future__ import annotations

import argparse
import json
import math
import shlex
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from bodysense.cli import excite_options as options
from bodysense.cli.excite_options import ExciteOutputs, add_arguments
from bodysense.errors import MismatchError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from bodysense.excitation.design import Design
    from bodysense.excitation.limits import MotionLimits
    from bodysense.excitation.poses import PoseDesign
    from bodysense.excitation.problem_setup import Telling
    from bodysense.excitation.search import Progress
    from bodysense.robot.robot import Robot
    from bodysense.robot.shapes.collisions import Collisions
    from bodysense.robot.shapes.workspace import WorkspaceMargins

__all__ = ["add_arguments", "run"]

_EXIT_VIOLATED = 1
_EXIT_INTERRUPTED = 130
_MISSING = "is not found"
_PAIRS = 8
"""Named of those whose collisions are not checked."""


def run(args: argparse.Namespace) -> int:
    """Design first, then write: a search that finds nothing leaves no file behind."""
    from bodysense.robot.io.load import load_robot

    outputs = ExciteOutputs.of(args)
    options.require_used(args)
    aim = options.criterion(args)  # wrong names are refused before the robot is loaded
    robot = load_robot(
        args.robot,
        floating_base=False if args.fixed else None,
        friction=args.friction,
        actuators=args.actuators,
        allow_inconsistent=True,
    )
    if robot.floating_base:
        raise MismatchError(
            f"{robot.name!r} has a floating base, and motions are designed for fixed bases: "
            "fix its root link with --fixed."
        )
    limits = options.limits(args, robot)
    try:
        with _searching(args, aim.name) as progress:
            collisions = options.collisions(args, robot)
            workspace = options.workspace(args, robot)
            if args.poses is not None:
                return _poses(args, outputs, robot, limits, collisions, workspace)
            design = _design(args, robot, limits, collisions, workspace, progress)
    except KeyboardInterrupt:
        print("bodysense: interrupted before a motion was ready: nothing written", file=sys.stderr)
        return _EXIT_INTERRUPTED
    if design.status == "violated":
        print(f"bodysense: nothing written: {design.advice}", file=sys.stderr)
        return _EXIT_VIOLATED
    _write(args, outputs, robot, limits, collisions, design)
    _print(args, outputs, robot, collisions, design)
    return 0


def _design(
    args: argparse.Namespace,
    robot: Robot,
    limits: MotionLimits,
    collisions: Collisions | None,
    workspace: WorkspaceMargins | None,
    progress: Callable[[Progress], None],
) -> Design:
    import numpy as np

    from bodysense.excitation.design import design_motion

    return design_motion(
        robot,
        family=args.family or "fourier",
        criterion=options.criterion(args),
        duration=10.0 if args.duration is None else args.duration,
        harmonics=args.harmonics,
        knots=args.knots,
        limits=limits,
        collisions=collisions,
        workspace=workspace,
        joints=options.joints(args, robot),
        start=options.start(args, robot),
        trajectories=args.trajectories or 1,
        known=_existing_information(args),
        noise=options.one_per_joint(args.noise_torque, "--noise-torque", robot),
        # A robot that follows a table is recorded at its rate.
        rate=1000.0 if args.rate is None else args.rate,
        seconds=args.seconds,
        rng=np.random.default_rng(args.seed),
        progress=progress,
    )


def _existing_information(args: argparse.Namespace) -> Telling | None:
    """Information of existing recordings on the base parameters of the design."""
    if not args.complement:
        return None
    from bodysense.identification.choices import information_of
    from bodysense.logs.read import read_log

    logs = [read_log(path, args.layout) for path in args.complement]
    return lambda robot, base, noise: information_of(robot, logs, base, noise)


def _poses(
    args: argparse.Namespace,
    outputs: ExciteOutputs,
    robot: Robot,
    limits: MotionLimits,
    collisions: Collisions | None,
    workspace: WorkspaceMargins | None,
) -> int:
    import numpy as np

    from bodysense.cli.excite_tables import rendered_poses
    from bodysense.excitation.poses import design_poses
    from bodysense.excitation.trajectory_file import write_poses

    result = design_poses(
        robot,
        args.poses,
        criterion=options.criterion(args),
        limits=limits,
        collisions=collisions,
        workspace=workspace,
        joints=options.joints(args, robot),
        noise=options.one_per_joint(args.noise_torque, "--noise-torque", robot),
        rng=np.random.default_rng(args.seed),
    )
    write_poses(outputs.motions[0], result.poses, robot.joint_names, sliding=_sliding(robot))
    notes = _shape_notes(collisions) if collisions is not None else []
    if args.json:
        print(json.dumps(_pose_summary(result, outputs, notes), indent=2, allow_nan=False))
    else:
        print(rendered_poses(robot, result, [str(path) for path in outputs.all], notes), end="")
    return 0


def _write(
    args: argparse.Namespace,
    outputs: ExciteOutputs,
    robot: Robot,
    limits: MotionLimits,
    collisions: Collisions | None,
    design: Design,
) -> None:
    from bodysense.excitation.trajectory_file import write_motion
    from bodysense.report.excitation_page import write_excitation_page

    for path, motion in zip(outputs.motions, design.trajectories, strict=True):
        write_motion(
            path, motion, robot.joint_names, options.file_rate(args), sliding=_sliding(robot)
        )
    if outputs.report is not None:
        write_excitation_page(
            outputs.report,
            design,
            robot,
            limits,
            collisions=collisions,
            command=shlex.join(["bodysense", *args.words]),
            seed=args.seed,
        )


def _sliding(robot: Robot) -> list[str]:
    kinds = zip(robot.joint_names, robot.joint_types, strict=True)
    return [joint for joint, kind in kinds if kind == "prismatic"]


def _print(
    args: argparse.Namespace,
    outputs: ExciteOutputs,
    robot: Robot,
    collisions: Collisions | None,
    design: Design,
) -> None:
    from bodysense.cli.excite_tables import rendered, summary

    files = [str(path) for path in outputs.all]
    notes = _shape_notes(collisions) if collisions is not None else []
    if args.json:
        table = summary(design, files, [*notes, *design.notes], seed=args.seed)
        print(json.dumps(table, indent=2, allow_nan=False))
    else:
        print(rendered(robot, design, args.robot, files, notes), end="")


def _shape_notes(collisions: Collisions) -> list[str]:
    """Notes on shapes and pairs; repeated ones are counted."""
    missing = [note for note in collisions.notes if _MISSING in note]
    rest = [note for note in collisions.notes if _MISSING not in note]
    if missing:
        first = missing[0].replace("in package_dirs", "with --package-dirs")
        first = first.replace(', or take shapes="boxes"', ", or take --collisions boxes")
        rest.insert(0, first)
    if len(missing) > 1:
        rest.insert(1, f"{len(missing) - 1} more of its meshes are not found either")
    by_reason: dict[str, list[str]] = {}
    for ignored in collisions.ignored:
        by_reason.setdefault(ignored.reason, []).append("/".join(ignored.pair))
    for reason, pairs in by_reason.items():
        more = f" and {len(pairs) - _PAIRS} more" if len(pairs) > _PAIRS else ""
        rest.append(f"collisions not checked: {', '.join(pairs[:_PAIRS])}{more} ({reason})")
    return rest


def _pose_summary(
    poses: PoseDesign, outputs: ExciteOutputs, notes: Sequence[str]
) -> dict[str, Any]:
    from bodysense.cli.excite_tables import finite

    return {
        "robot": poses.robot_name,
        "joints": list(poses.joints),
        "poses": poses.poses.tolist(),
        "criterion": poses.criterion,
        "value": finite(poses.value),
        "random_value": finite(poses.start_value),
        "condition_number": finite(poses.condition),
        "parameters": [
            {"parameter": name, "sigma": finite(sigma), "plausible_size": size}
            for name, sigma, size in zip(
                poses.base.names, poses.sigma.tolist(), poses.sizes.tolist(), strict=True
            )
        ],
        "torque_noise": poses.noise.tolist(),
        "travel": poses.travel,
        "notes": [*notes, *poses.notes],
        "files": [str(path) for path in outputs.all],
    }


@contextmanager
def _searching(args: argparse.Namespace, criterion: str) -> Iterator[Callable[[Progress], None]]:
    """A bar with the time and the best so far, on a terminal only."""
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    seconds, console = args.seconds, Console(stderr=True)
    with Bar(
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn(f"of {seconds:g} s  {{task.fields[best]}}"),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as bar:
        task = bar.add_task("preparing", total=seconds, best="")

        def update(now: Progress) -> None:
            bar.update(
                task,
                completed=min(now.seconds, seconds),
                description="searching" if now.seconds < seconds else "checking",
                best=_best(now, criterion),
            )

        yield update


def _best(now: Progress, criterion: str) -> str:
    if not math.isfinite(now.value):
        return "no motion yet"
    return f"{criterion} {now.value:.5g}, cond(W) {now.condition:.4g} (Ctrl-C keeps it)"
