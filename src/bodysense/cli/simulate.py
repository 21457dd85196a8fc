"""`bodysense simulate ROBOT TRAJECTORY -o LOG`: record an experiment on a simulated robot."""

from __future__ import annotations

import argparse
import dataclasses
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bodysense.cli.options import (
    LAYOUT_HELP,
    add_robot_options,
    count,
    load_robot,
    numbered,
    numbers,
    positive,
    print_notes,
    print_result,
    refuse_unused,
    require_writable,
    seed,
)
from bodysense.errors import MismatchError, TrajectoryError

if TYPE_CHECKING:
    import numpy as np

    from bodysense.excitation.trajectory import Trajectory
    from bodysense.robot.actuators import Controller
    from bodysense.robot.robot import Robot
    from bodysense.simulation.rollout import Rollout

_EXIT_LOST = 1
_LOG_SUFFIXES = (".csv", ".parquet")
_MAX_BREACH = 2.0
"""Times a limit, from which a motion is in another unit or for another robot."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add = parser.add_argument
    body = add_robot_options(parser)
    add(
        "trajectory",
        metavar="TRAJECTORY",
        help="a table or log with columns t and q.<joint>, or the word random",
    )
    add("-o", "--output", metavar="FILE", required=True, help="the log, .csv or .parquet")
    add = parser.add_argument_group("motion").add_argument
    add("--duration", type=positive, metavar="S", help="of a random motion (10 s)")
    add("--harmonics", type=count, metavar="N", help="of a random motion (20)")
    add("--layout", metavar="FILE", help=LAYOUT_HELP)
    add("--in-motion", action="store_true", help="the file is a piece of a running motion")
    add("--save-trajectory", metavar="FILE", help="write the reference motion, .csv or .parquet")
    add = body.add_argument
    add("--payload", metavar="MASS[,x,y,z]", help="a held body [kg] and its centre of mass [m]")
    add("--payload-link", metavar="LINK", help="the link or frame that holds it (the last link)")
    add("--payload-inertia", metavar="Ixx,Iyy,Izz", help="about its centre [kg·m²] (point mass)")
    add("--truth", metavar="FILE.csv", help="write the simulated robot's parameters")
    add = parser.add_argument_group("control loop").add_argument
    add("--controller", choices=("own", "suggested"), help="the robot's own if it has one")
    add("--control-rate", type=positive, metavar="HZ", help="the controller's own, or 5000")
    add("--sampling-rate", type=positive, metavar="HZ", help="of the log (at most 1000)")
    add("--integrator", choices=("euler", "rk2", "rk4"), default="rk4", help="rk4 by default")
    add("--substeps", type=count, default=1, metavar="N", help="integration steps per period")
    add("--saturate", action="store_true", help="keep the torques within the effort limits")
    add = parser.add_argument_group("noise").add_argument
    add(
        "--noise-position",
        default="0",
        metavar="SIGMA",
        help="of the encoders [rad or m], or as 0.001deg; one number or one per joint: s1,s2,…",
    )
    add("--noise-torque", default="0", metavar="SIGMA", help="of the logged torques [N·m or N]")
    add("--seed", type=seed, default=0, metavar="N", help="of the random motion and the noise")
    add("--runs", type=count, default=1, metavar="N", help="repeat with new noise: FILE-001, …")
    add = parser.add_argument_group("result").add_argument
    add("--page", metavar="FILE.html", help="write a page that shows the (first) run")
    add("--json", action="store_true", help="print JSON instead of text")
    add("--force", action="store_true", help="replace files that exist")


def run(args: argparse.Namespace) -> int:
    """Simulate first, then write: a run that diverges leaves no file behind."""
    import numpy as np
    from rich.console import Console

    from bodysense.simulation.rollout import rollout

    logs = _outputs(args)
    _require_used(args)
    use = "experiments are simulated on"
    robot = load_robot(args, fixed_for=use)
    notes = _friction_notes(robot)
    controller = _controller(robot, args, notes)
    sampling_rate = _require_dividing(controller.rate, args.sampling_rate)
    if args.payload is not None:
        robot = _loaded(robot, args)
    # Motion and noise have sources of their own: other noise does not change the motion.
    rng = np.random.default_rng(args.seed)
    trajectory = _trajectory(robot, args, rng)
    _check_limits(robot, trajectory, controller.rate, args, notes)
    sigma_q = _position_noise(args.noise_position, robot)
    sigma_tau = numbers(args.noise_torque, "--noise-torque")
    if args.runs > 1 and not (any(sigma_q) or any(sigma_tau)):
        notes.append("without noise all runs are the same: add --noise-position, --noise-torque")
    # Visible on a terminal only; the first run ever compiles, which takes up to half a minute.
    with Console(stderr=True).status("simulating …"):
        result = rollout(
            robot,
            trajectory,
            runs=args.runs,
            controller=controller,
            sampling_rate=sampling_rate,
            integrator=args.integrator,
            substeps=args.substeps,
            saturate=args.saturate,
            position_noise=sigma_q[0] if len(sigma_q) == 1 else sigma_q,
            torque_noise=sigma_tau[0] if len(sigma_tau) == 1 else sigma_tau,
            rng=rng.spawn(1)[0],
        )
    if not result.ok:
        print(f"bodysense: nothing written: {result.summary()}", file=sys.stderr)
        return _EXIT_LOST
    with Console(stderr=True).status("writing …"):
        _write(args, logs, robot, result, trajectory, controller)
    notes += _effort_notes(result)
    print_notes(notes)
    rest = (args.save_trajectory, args.truth, args.page)
    summary = _summary(args, robot, result, controller, sampling_rate)
    summary |= {
        "position_noise": sigma_q,
        "torque_noise": sigma_tau,
        "notes": notes,
        "files": [str(path) for path in (*logs, *rest) if path is not None],
    }
    print_result(args, _text(summary), summary)
    return 0


def _outputs(args: argparse.Namespace) -> list[Path]:
    """Files of the logs; refuses all that cannot be written, before the simulation."""
    logs = numbered(args.output, args.runs, digits=max(3, len(str(args.runs))))
    rest = (
        (args.save_trajectory, _LOG_SUFFIXES),
        (args.truth, (".csv",)),
        (args.page, (".html",)),
    )
    others = [(Path(name), suffixes) for name, suffixes in rest if name is not None]
    require_writable([*((path, _LOG_SUFFIXES) for path in logs), *others], force=args.force)
    return logs


def _require_used(args: argparse.Namespace) -> None:
    """Refuse options that would have no effect."""
    random, loaded = args.trajectory == "random", args.payload is not None
    refuse_unused(
        (
            ("--duration", args.duration is not None and not random, "the trajectory `random`"),
            ("--harmonics", args.harmonics is not None and not random, "the trajectory `random`"),
            ("--layout", args.layout is not None and random, "a trajectory from a file"),
            ("--in-motion", args.in_motion and random, "a trajectory from a file"),
            ("--payload-link", args.payload_link is not None and not loaded, "a --payload"),
            ("--payload-inertia", args.payload_inertia is not None and not loaded, "a --payload"),
        )
    )


def _require_dividing(control_rate: float, sampling_rate: float | None) -> float:
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


def _position_noise(text: str, robot: Robot) -> list[float]:
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


def _friction_notes(robot: Robot) -> list[str]:
    """Notes on terms of the friction law whose coefficients are zero."""
    law, layout = robot.friction.model, robot.layout
    zero = [term for term in law.terms if not robot.theta[layout.friction(term)].any()]
    if not zero:
        return []
    if len(zero) == len(law.terms):
        return [f"{robot.name} has no friction coefficients: it moves without friction"]
    return [f"friction {law.name!r}: {', '.join(zero)} of {robot.name} is zero for all joints"]


def _effort_notes(result: Rollout) -> list[str]:
    """Notes on joints whose torque exceeds the effort limit."""
    import numpy as np

    peaks = np.abs(result.tau).max(axis=(0, 1)) / result.effort_limit
    over = [
        f"{name} ({peak:.2g} times)"
        for name, peak in zip(result.joint_names, peaks, strict=True)
        if peak > 1.0 + 1e-9
    ]
    if not over:
        return []
    return [f"torques beyond the effort limits: {', '.join(over)}; --saturate limits them"]


def _controller(robot: Robot, args: argparse.Namespace, notes: list[str]) -> Controller:
    """The robot's own controller, or gains for the robot without payload, at the rate asked for."""
    from bodysense.robot.actuators import suggested_controller

    if args.controller == "own" and robot.controller is None:
        raise MismatchError(
            f"{robot.name!r} has no controller: give its gains in an actuator file "
            "(--actuators), or leave --controller out for suggested ones."
        )
    if args.controller != "suggested" and robot.controller is not None:
        rate = args.control_rate
        return dataclasses.replace(robot.controller, rate=rate) if rate else robot.controller
    if args.controller is None:
        notes.append(f"{robot.name} has no controller: suggested gains are used")
    rate = args.control_rate or 5000.0
    return suggested_controller(robot, rate=rate, bandwidth=min(10.0, rate / 20.0))


def _loaded(robot: Robot, args: argparse.Namespace) -> Robot:
    from bodysense.robot.frames import with_payload

    mass, *com = numbers(args.payload, "--payload", "MASS or MASS,x,y,z", (1, 4))
    inertia = None
    if args.payload_inertia is not None:
        inertia = [[0.0] * 3 for _ in range(3)]
        moments = numbers(args.payload_inertia, "--payload-inertia", "Ixx,Iyy,Izz", (3,))
        for axis, moment in enumerate(moments):
            inertia[axis][axis] = moment
    return with_payload(
        robot, mass, link=args.payload_link, com=com or (0.0, 0.0, 0.0), inertia=inertia
    )


def _trajectory(robot: Robot, args: argparse.Namespace, rng: np.random.Generator) -> Trajectory:
    from bodysense.excitation.fourier import FourierTrajectory
    from bodysense.excitation.trajectory_file import read_trajectory

    if args.trajectory != "random":
        return read_trajectory(
            args.trajectory, robot.joint_names, layout=args.layout, at_rest=not args.in_motion
        )
    return FourierTrajectory.for_robot(
        robot,
        rng=rng,
        duration=10.0 if args.duration is None else args.duration,
        harmonics=20 if args.harmonics is None else args.harmonics,
    )


def _check_limits(
    robot: Robot,
    trajectory: Trajectory,
    rate: float,
    args: argparse.Namespace,
    notes: list[str],
) -> None:
    """Note where the motion exceeds the limits; refuse it where it exceeds them by far."""
    from bodysense.excitation.limits import limit_breaches

    breaches = limit_breaches(robot, trajectory, rate)
    # Files seldom know what a joint can accelerate: that alone is no reason to refuse.
    far = [b for b in breaches if b.ratio > _MAX_BREACH and b.quantity != "acceleration"]
    if far:
        raise TrajectoryError(
            f"{args.trajectory} is not a motion for {robot.name!r}: "
            f"{', '.join(map(str, far[:6]))}. Is it in degrees, made for another robot, noisy, or "
            "cut out of a running motion (--in-motion)?"
        )
    if breaches:
        notes.append(f"the motion exceeds the limits: {', '.join(map(str, breaches))}")


def _write(
    args: argparse.Namespace,
    logs: list[Path],
    robot: Robot,
    result: Rollout,
    trajectory: Trajectory,
    controller: Controller,
) -> None:
    from bodysense.excitation.trajectory_file import write_trajectory
    from bodysense.files import write_atomically
    from bodysense.logs.log import Log
    from bodysense.logs.write import write_log
    from bodysense.report.motion_page import write_rollout_page

    kinds = zip(robot.joint_names, robot.joint_types, strict=True)
    sliding = [joint for joint, kind in kinds if kind == "prismatic"]
    linear = (("q", "m"), ("q_des", "m"), ("tau", "N"))
    units = {f"{x}.{joint}": unit for joint in sliding for x, unit in linear}
    for k, path in enumerate(logs):
        log = result.log(k)
        write_log(path, Log.of(log.t, log.channels, {**log.units, **units}))
    if args.save_trajectory is not None:
        write_trajectory(
            args.save_trajectory, trajectory, robot.joint_names, controller.rate, sliding=sliding
        )
    if args.truth is not None:
        values = zip(robot.layout.names, robot.theta.tolist(), strict=True)
        lines = [f"{name},{value!r}\n" for name, value in values]
        write_atomically(args.truth, "".join(["parameter,value\n", *lines]))
    if args.page is not None:
        write_rollout_page(args.page, robot, result, trajectory)


def _summary(
    args: argparse.Namespace,
    robot: Robot,
    result: Rollout,
    controller: Controller,
    sampling_rate: float,
) -> dict[str, Any]:
    import numpy as np

    rms = np.sqrt(np.mean((result.q - result.reference) ** 2, axis=(0, 1)))
    columns = {
        "joint": list(result.joint_names),
        "tracking_error": rms.tolist(),
        "peak_speed": np.abs(result.v).max(axis=(0, 1)).tolist(),
        "peak_torque": np.abs(result.tau).max(axis=(0, 1)).tolist(),
        "effort_limit": [x if np.isfinite(x) else None for x in result.effort_limit.tolist()],
    }
    return {
        "robot": robot.name,
        "friction": robot.friction.model.name,
        "payload": None if args.payload is None else numbers(args.payload, "--payload"),
        "seed": args.seed,
        "runs": result.n_runs,
        "samples": int(result.t.size),
        "duration": float(result.t[-1]),
        "control_rate": controller.rate,
        "sampling_rate": sampling_rate,
        "integrator": args.integrator,
        "joints": [
            dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)
        ],
    }


def _text(summary: dict[str, Any]) -> str:
    """The summary as lines: the experiment, each joint, each file."""
    runs = f"{summary['runs']} run" + ("s" if summary["runs"] != 1 else "")
    width = max(20, *(len(joint["joint"]) for joint in summary["joints"])) + 2
    lines = [
        f"{summary['robot']}: {runs} of {summary['duration']:g} s, {summary['samples']} samples at "
        f"{summary['sampling_rate']:g} Hz, controller at {summary['control_rate']:g} Hz",
        f"{'[rad, m, s, N·m, N]':{width}}{'tracking error':>14}{'peak speed':>12}"
        f"{'peak torque':>13}{'limit':>10}",
    ]
    for joint in summary["joints"]:
        limit = "-" if joint["effort_limit"] is None else f"{joint['effort_limit']:.4g}"
        lines.append(
            f"{joint['joint']:{width}}{joint['tracking_error']:14.2e}{joint['peak_speed']:12.4g}"
            f"{joint['peak_torque']:13.4g}{limit:>10}"
        )
    lines += [f"wrote {path}" for path in summary["files"]]
    return "".join(f"{line}\n" for line in lines)
