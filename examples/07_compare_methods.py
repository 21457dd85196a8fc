"""Compare methods on one noisy recording of a robot whose parameters are known.

A TX40 tracks a random motion for four seconds. Noise of its encoders reaches the accelerations
through differences, and the torques through the controller, which answers it. Somebody who knows
this robot only from its drawings, with masses and friction up to 15 % off, identifies it by methods
that differentiate the positions and by methods that simulate the experiment instead.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import bodysense
from bodysense.identification import Identification, Regression, identifier
from bodysense.robot import torque_regressor

METHODS = ("ols", "pc-wls", "iv", "didim", "cloe")
NOISE_POSITION = np.radians(1e-3)  # rad
NOISE_TORQUE = 0.05  # N·m
DISTORTION = 0.15


@dataclass(frozen=True)
class Comparison:
    """One method beside the truth.

    Attributes:
        method: its name.
        parameters: relative error of the base parameters [%].
        torque: relative error of the torques along another motion, without noise [%].
        seconds: that the fit took.
        consistent: whether all links can exist as bodies.
    """

    method: str
    parameters: float
    torque: float
    seconds: float
    consistent: bool


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out/methods"), help="folder for files")
    parser.add_argument("--quick", action="store_true", help="record at 500 Hz instead of 1 kHz")
    parser.add_argument(
        "--methods", nargs="+", default=METHODS, help="names that `bodysense methods` lists"
    )
    args = parser.parse_args()
    console = Console(highlight=False, soft_wrap=True)
    rng = np.random.default_rng(1)

    robot = bodysense.load_robot("tx40")
    recorded = experiment(robot, rng, rate=500.0 if args.quick else 1000.0)
    unseen = bodysense.FourierTrajectory.for_robot(robot, duration=4.0, rng=rng)
    prior = distorted(robot, rng)
    args.out.mkdir(parents=True, exist_ok=True)
    bodysense.write_log(args.out / "log.parquet", recorded)
    bodysense.write_urdf(prior, args.out / "drawings.urdf")
    bodysense.write_actuators(prior, args.out / "drawings.actuators.yaml")
    console.print(f"recorded {recorded.summary()}\n")

    # Cut-off and rows are the same for all, so that the methods alone make the difference.
    with console.status("identifying …"):
        problem = bodysense.identify(prior, recorded, method="ols").problem
        rows = [compared(robot, problem, unseen, name) for name in args.methods]
    console.print(table([before(robot, problem, unseen), *rows]))
    console.print(
        "Parameter error: of all base parameters together, ‖found - true‖ / ‖true‖. Torque error: "
        "the same of the torques along a motion that no method has seen, without noise."
    )
    best = min(rows, key=lambda row: row.parameters)
    console.print(f"The smallest parameter error has {best.method}. The same by itself:")
    console.print(
        f"bodysense identify {args.out / 'drawings.urdf'} {args.out / 'log.parquet'} "
        f"--actuators {args.out / 'drawings.actuators.yaml'} --method {best.method} "
        f"-o {args.out / best.method}"
    )


def experiment(robot: bodysense.Robot, rng: np.random.Generator, *, rate: float) -> bodysense.Log:
    """What is recorded of a random motion: positions, torques and what the controller was told."""
    motion = bodysense.FourierTrajectory.for_robot(robot, duration=4.0, rng=rng)
    run = bodysense.rollout(
        robot,
        motion,
        sampling_rate=rate,
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


def compared(
    truth: bodysense.Robot, problem: Regression, unseen: bodysense.FourierTrajectory, name: str
) -> Comparison:
    """Identify by one method, and compare with what only a simulation knows."""
    begun = time.perf_counter()
    found: Identification = identifier(name).fit(problem)
    seconds = time.perf_counter() - begun
    errors = off(truth, problem, unseen, found.theta_base)
    return Comparison(name, *errors, seconds, found.consistent)


def before(
    truth: bodysense.Robot, problem: Regression, unseen: bodysense.FourierTrajectory
) -> Comparison:
    """The drawings, beside the truth as well."""
    drawn = problem.base.to_base(problem.robot.theta)
    return Comparison("drawings", *off(truth, problem, unseen, drawn), 0.0, True)


def off(
    truth: bodysense.Robot,
    problem: Regression,
    unseen: bodysense.FourierTrajectory,
    theta_base: np.ndarray,
) -> tuple[float, float]:
    """Relative errors of parameters, and of torques along a motion without noise [%]."""
    true = problem.base.to_base(truth.theta)
    q, v, a = unseen(np.linspace(0.0, unseen.duration, 401))
    Y = torque_regressor(truth, q, v, a, columns=problem.base.independent)
    return percent(theta_base - true, true), percent(Y @ (theta_base - true), Y @ true)


def percent(error: np.ndarray, size: np.ndarray) -> float:
    return 100.0 * float(np.linalg.norm(error) / np.linalg.norm(size))


def table(rows: list[Comparison]) -> Table:
    result = Table("method", title="Errors by method", title_justify="left")
    for heading in ("parameters [%]", "torque [%]", "time"):
        result.add_column(heading, justify="right")
    result.add_column("links can exist")
    for row in rows:
        result.add_row(
            row.method,
            f"{row.parameters:.2f}",
            f"{row.torque:.2f}",
            f"{row.seconds:.1f} s",
            "yes" if row.consistent else "no",
        )
    return result


if __name__ == "__main__":
    main()
