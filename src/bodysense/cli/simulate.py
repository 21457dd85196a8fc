"""`bodysense simulate ROBOT TRAJECTORY -o LOG`: record an experiment on a simulated robot."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from typing import TYPE_CHECKING, Any

from bodysense.cli.options import numbers
from bodysense.cli.simulate_options import (
    SimulateOutputs,
    add_arguments,
    position_noise,
    require_dividing,
    require_used,
)
from bodysense.errors import MismatchError, TrajectoryError

if TYPE_CHECKING:
    import numpy as np

    from bodysense.excitation.trajectory import Trajectory
    from bodysense.robot.actuators import Controller
    from bodysense.robot.robot import Robot
    from bodysense.simulation.rollout import Rollout

__all__ = ["add_arguments", "run"]

_EXIT_LOST = 1
_MAX_BREACH = 2.0
"""Times a limit, from which a motion is in another unit or for another robot."""


def run(args: argparse.Namespace) -> int:
    """Simulate first, then write: a run that diverges leaves no file behind."""
    import numpy as np
    from rich.console import Console

    from bodysense.simulation.rollout import rollout

    outputs = SimulateOutputs.of(args)
    require_used(args)
    robot = _robot(args)
    notes = _friction_notes(robot)
    controller = _controller(robot, args, notes)
    sampling_rate = require_dividing(controller.rate, args.sampling_rate)
    if args.payload is not None:
        robot = _loaded(robot, args)
    # Motion and noise have sources of their own: other noise does not change the motion.
    rng = np.random.default_rng(args.seed)
    trajectory = _trajectory(robot, args, rng)
    _check_limits(robot, trajectory, controller.rate, args, notes)
    sigma_q = position_noise(args.noise_position, robot)
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
        _write(outputs, robot, result, trajectory, controller)
    notes += _effort_notes(result)
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
    summary = _summary(args, robot, result, controller, sampling_rate)
    summary |= {
        "position_noise": sigma_q,
        "torque_noise": sigma_tau,
        "notes": notes,
        "files": [str(path) for path in outputs.all],
    }
    print(json.dumps(summary, indent=2, allow_nan=False) if args.json else _text(summary))
    return 0


def _robot(args: argparse.Namespace) -> Robot:
    from bodysense.robot.io.load import load_robot

    robot = load_robot(
        args.robot,
        floating_base=False if args.fixed else None,
        friction=args.friction,
        actuators=args.actuators,
    )
    if robot.floating_base:
        raise MismatchError(
            f"{robot.name!r} has a floating base, and experiments are simulated on fixed bases: "
            "fix its root link with --fixed."
        )
    return robot


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
    outputs: SimulateOutputs,
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
    for k, path in enumerate(outputs.logs):
        log = result.log(k)
        write_log(path, Log.of(log.t, log.channels, {**log.units, **units}))
    if outputs.trajectory is not None:
        write_trajectory(
            outputs.trajectory, trajectory, robot.joint_names, controller.rate, sliding=sliding
        )
    if outputs.truth is not None:
        values = zip(robot.layout.names, robot.theta.tolist(), strict=True)
        lines = [f"{name},{value!r}\n" for name, value in values]
        write_atomically(outputs.truth, "".join(["parameter,value\n", *lines]))
    if outputs.page is not None:
        write_rollout_page(outputs.page, robot, result, trajectory)


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
    return "\n".join([*lines, *(f"wrote {path}" for path in summary["files"])])
