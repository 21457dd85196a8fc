"""Simulate an experiment, identify the robot from its log, judge the result: what `make demo` runs.

A TX40 tracks a random motion; its encoders and torques are noisy. Somebody who knows this robot
only from its drawings, with masses and friction 15 % off, identifies it from the log. Since the
robot is a simulated one the truth is known, and the promised intervals can be checked.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from rich.console import Console

import bodysense
from bodysense.identification import write_run

NOISE_POSITION = np.radians(1e-4)  # rad
NOISE_TORQUE = 0.05  # N·m
DISTORTION = 0.15


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out/demo"), help="folder for the files")
    parser.add_argument("--quick", action="store_true", help="move for 5 s instead of 10 s")
    parser.add_argument("--method", default="auto", help="see bodysense.identification")
    args = parser.parse_args()
    console = Console(highlight=False, soft_wrap=True)
    rng = np.random.default_rng(1)

    console.print("The first start compiles for up to half a minute; the compiled code is kept.")
    robot = bodysense.load_robot("tx40")
    train, validate = (experiment(robot, 5.0 if args.quick else 10.0, rng) for _ in range(2))
    args.out.mkdir(parents=True, exist_ok=True)
    bodysense.write_log(args.out / "log.parquet", train)
    bodysense.write_log(args.out / "validation.parquet", validate)
    console.print(f"recorded {train.summary()}\n")

    # What the drawings say goes to files, as it would come from somebody else.
    drawn = distorted(robot, rng)
    bodysense.write_urdf(drawn, args.out / "drawings.urdf")
    bodysense.write_actuators(drawn, args.out / "drawings.actuators.yaml")
    prior = bodysense.load_robot(
        args.out / "drawings.urdf", actuators=args.out / "drawings.actuators.yaml"
    )
    with console.status("identifying …"):
        run = bodysense.identify(prior, [train], validate=[validate], method=args.method)
    console.print(run.identification.summary())
    console.print(f"[bold]{run.verdict.grade.upper()}[/]: {run.verdict.summary}")
    for sentence in run.verdict.advice:
        console.print(f"- {sentence}")

    check(console, robot, run)
    folder = args.out.resolve()
    again = {
        "robot": str(folder / "drawings.urdf"),
        "actuators": str(folder / "drawings.actuators.yaml"),
        "logs": [str(folder / "log.parquet")],
        "validate": [str(folder / "validation.parquet")],
        "method": args.method,
    }
    write_run(args.out, run, again)
    page = bodysense.write_identification_page(args.out / "report.html", run)
    console.print(f"\nOpen {page} in a browser. The same from the command line:")
    console.print(f"bodysense identify --config {args.out / 'config.yaml'} -o {args.out / 'again'}")


def experiment(robot: bodysense.Robot, duration: float, rng: np.random.Generator) -> bodysense.Log:
    """What sensors record of a random motion within the robot's limits."""
    motion = bodysense.FourierTrajectory.for_robot(robot, duration=duration, rng=rng)
    run = bodysense.rollout(
        robot,
        motion,
        sampling_rate=1000.0,
        integrator="rk4",
        position_noise=NOISE_POSITION,
        torque_noise=NOISE_TORQUE,
        rng=rng,
    )
    return run.log()


def distorted(robot: bodysense.Robot, rng: np.random.Generator) -> bodysense.Robot:
    """The robot as its drawings show it: links and drives off by some per cent each."""
    theta, layout = robot.theta.copy(), robot.layout
    for k in range(layout.n_links):  # the whole link by one factor, so that it stays a body
        theta[layout.link(k)] *= 1.0 + DISTORTION * rng.uniform(-1.0, 1.0)
    drives = slice(layout.rotor.start, layout.size)
    theta[drives] *= 1.0 + DISTORTION * rng.uniform(-1.0, 1.0, layout.size - layout.rotor.start)
    return robot.with_parameters(theta)


def check(console: Console, truth: bodysense.Robot, run: bodysense.IdentificationRun) -> None:
    """Compare with the truth, which only a simulation knows."""
    found = run.identification
    true = found.base.to_base(truth.theta)
    low, high = found.interval()
    inside = int(((low <= true) & (true <= high)).sum())
    console.print(
        f"\nThe truth lies within {inside} of {true.size} intervals of 95 %. For example:"
    )
    before = found.base.to_base(found.prior.theta)
    for k in np.argsort(-np.abs(true))[:5]:
        console.print(
            f"  {found.base.names[k][:40]:40}  true {true[k]:8.4f}   before {before[k]:8.4f}   "
            f"found {found.theta_base[k]:8.4f} ± {1.96 * found.sigma_base[k]:.4f}"
        )


if __name__ == "__main__":
    main()
