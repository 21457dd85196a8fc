"""Look at a robot, then let it move.

The built-in TX40 is loaded and its identifiable parameters are listed. Then it follows a random
exciting motion under its own 5 kHz controller, and a page with curves and animation is written.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numba
import numpy as np
from rich.console import Console

import bodysense
from bodysense.report import write_rollout_page

SAMPLING_RATE = 1000.0  # Hz
BATCH = 20  # runs at once, to measure the speed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out/demo"), help="folder for the page")
    parser.add_argument("--quick", action="store_true", help="move for 1 s instead of 10 s")
    args = parser.parse_args()
    console = Console(highlight=False, soft_wrap=True)

    console.print(
        "The first start compiles the kernels, which takes up to half a minute; the compiled code "
        "is kept.\n"
    )
    robot = bodysense.load_robot("tx40")
    with console.status("finding the base parameters …"):
        base = bodysense.base_parameters(robot)
    describe(console, robot, base)

    # A random motion that starts and ends at rest and uses up to 80 % of the limits.
    trajectory = bodysense.FourierTrajectory.for_robot(
        robot, duration=1.0 if args.quick else 10.0, harmonics=5, rng=np.random.default_rng(1)
    )
    console.print("\nSimulating in closed loop …")
    with console.status("simulating …"):
        run = bodysense.rollout(robot, trajectory, sampling_rate=SAMPLING_RATE)
        facts = figures(robot, trajectory, run)
    console.print(run.summary())
    for name, value in facts.items():
        console.print(f"  {name}: {value}")

    args.out.mkdir(parents=True, exist_ok=True)
    page = write_rollout_page(
        args.out / "tx40_motion.html", robot, run, trajectory, title="TX40 at work", facts=facts
    )
    console.print(f"\nOpen {page} in a browser.")


def describe(console: Console, robot: bodysense.Robot, base: bodysense.BaseParameters) -> None:
    """Print what can be found out about the robot by moving it."""
    console.print(f"[bold]{robot.name}[/]: {robot.n_joints} joints, {robot.layout.size} parameters")
    console.print(
        f"Of these, {base.size} combinations can be identified: "
        f"{base.n_inertial + base.n_rotor} inertial and rotor, {base.n_friction} friction."
    )
    longest_first = sorted(base.names, key=len, reverse=True)
    for expression in longest_first[:3]:
        console.print(f"  {expression}")
    console.print(f"{len(base.alone)} parameters stand alone: {', '.join(base.alone[:8])}, …")
    console.print(f"{len(base.regrouped)} show only in combination: {', '.join(base.regrouped)}")
    console.print(
        f"{len(base.unidentifiable)} have no effect at all: {', '.join(base.unidentifiable)}"
    )


def figures(
    robot: bodysense.Robot, trajectory: bodysense.FourierTrajectory, run: bodysense.Rollout
) -> dict[str, str]:
    """Tracking error of the run, and how fast such runs are."""
    q_reference, _, _ = trajectory(run.t)
    error = np.degrees(run.q[0] - q_reference)
    seconds = np.inf
    for _ in range(3):  # the best of three: other programs may be busy
        start = time.perf_counter()
        bodysense.rollout(robot, trajectory, sampling_rate=SAMPLING_RATE, runs=BATCH)
        seconds = min(seconds, time.perf_counter() - start)
    rate = robot.controller.rate if robot.controller is not None else np.nan
    steps = BATCH * trajectory.duration * rate
    return {
        "control": f"{rate:g} Hz, sampled at {SAMPLING_RATE:g} Hz",
        "tracking error": (
            f"{np.sqrt(np.mean(error**2)):.3f}° r.m.s., {np.abs(error).max():.3f}° at most"
        ),
        "greatest torque": f"{np.abs(run.tau).max():.1f} N·m",
        "speed": (
            f"{BATCH} runs on {numba.get_num_threads()} threads in {seconds:.2f} s: "
            f"{1e6 * seconds / steps:.2f} µs a step, "
            f"{BATCH * trajectory.duration / seconds:.0f} times faster than real time"
        ),
    }


if __name__ == "__main__":
    main()
