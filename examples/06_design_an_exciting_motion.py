"""Design a motion that shows the parameters of a robot, and see what it is worth.

A TX40 moves for some seconds, once at random and once as designed. Both motions are recorded with
the same noise, and the robot is identified from each: the designed motion should leave less doubt.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from rich.console import Console

import bodysense
from bodysense.excitation import Trajectory, design_motion
from bodysense.excitation.limits import MotionLimits
from bodysense.excitation.trajectory_file import write_trajectory
from bodysense.report import write_excitation_page

NOISE_POSITION = np.radians(1e-4)  # rad
NOISE_TORQUE = 0.2  # N·m


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out/excitation"), help="for the files")
    parser.add_argument("--quick", action="store_true", help="search for 2 s instead of 20 s")
    args = parser.parse_args()
    console = Console(highlight=False, soft_wrap=True)
    robot = bodysense.load_robot("tx40")

    # A DH table has no shapes. For a URDF add collisions=Collisions.from_robot(robot), twice.
    limits = MotionLimits.from_robot(robot)
    design = design_motion(
        robot,
        criterion="precision",
        duration=6.0,
        limits=limits,
        noise=NOISE_TORQUE,
        seconds=2.0 if args.quick else 20.0,
        rng=np.random.default_rng(0),
    )
    console.print(design.summary())
    for note in design.notes:
        console.print(f"- {note}")

    args.out.mkdir(parents=True, exist_ok=True)
    motion = design.trajectories[0]
    for name in ("motion.csv", "motion.yaml"):  # a table, and a message of ROS 2
        write_trajectory(args.out / name, motion, robot.joint_names, 100.0)
    page = write_excitation_page(args.out / "motion.html", design, robot, limits, seed=0)

    by_chance = bodysense.FourierTrajectory.for_robot(
        robot, duration=6.0, harmonics=12, rng=np.random.default_rng(0)
    )
    console.print("\nIdentified from a recording of each, same noise:")
    doubts = {}
    for name, moved in (("random", by_chance), ("designed", motion)):
        found = identified(robot, moved)
        # In plausible sizes, so that masses, inertias and friction can be compared.
        doubts[name] = float(np.median(found.sigma_base / design.sizes))
        known = found.base_labels.count("identified")
        console.print(
            f"  {name:8}  {known} of {found.base.size} base parameters decided by the data, "
            f"median doubt {100.0 * doubts[name]:.2f} % of the plausible size"
        )
    console.print(
        f"The designed motion leaves {doubts['random'] / doubts['designed']:.1f} times less."
    )
    console.print(f"\nOpen {page} in a browser. The same from the command line:")
    console.print(
        "bodysense excite tx40 -o motion.csv --criterion precision --collisions off --duration 6"
    )


def identified(robot: bodysense.Robot, motion: Trajectory) -> bodysense.Identification:
    """What a recording of a motion tells."""
    run = bodysense.rollout(
        robot,
        motion,
        sampling_rate=1000.0,
        integrator="rk4",
        position_noise=NOISE_POSITION,
        torque_noise=NOISE_TORQUE,
        rng=np.random.default_rng(1),
    )
    return bodysense.identify(robot, [run.log()], method="wls", friction="own").identification


if __name__ == "__main__":
    main()
