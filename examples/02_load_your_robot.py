"""Load a robot of your own, see what there is to it, and move it.

    python examples/02_load_your_robot.py my_robot.urdf --actuators my_drives.yaml

takes a URDF, MJCF or DH file, or any name that `bodysense.load_robot` knows. Without arguments a
small arm from examples/robots/ is taken.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import bodysense
from bodysense.robot import inverse_dynamics, torque_regressor

ROBOTS = Path(__file__).parent / "robots"
RATE = 200.0  # Hz, of the recorded samples


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("robot", nargs="?", help="a file, or a name such as tx40 or example:ur5")
    parser.add_argument("--actuators", help="an actuator file (YAML)")
    parser.add_argument("--out", type=Path, default=Path("out/your_robot"), help="output folder")
    parser.add_argument("--quick", action="store_true", help="move for 1 s instead of 10 s")
    args = parser.parse_args()

    if args.robot is None:
        args.robot, args.actuators = str(ROBOTS / "arm.urdf"), str(ROBOTS / "arm-actuators.yaml")
    try:
        robot = bodysense.load_robot(args.robot, actuators=args.actuators)
    except bodysense.BodysenseError as error:
        raise SystemExit(f"{parser.prog}: {error}") from None
    describe(robot)
    if robot.floating_base:
        print("\nIt floats, and closed-loop simulation is for robots on a fixed base: done.")
        return
    hold(robot)
    move(robot, 1.0 if args.quick else 10.0, args.out)


def describe(robot: bodysense.Robot) -> None:
    """Print what the loader found, and whether all of it can be a physical body."""
    print(f"{robot.name}: joints {', '.join(robot.joint_names)}")
    for note in robot.notes:  # what the loader had to decide
        print(f"  note: {note}")
    for name, check in zip(robot.link_names, robot.consistency(), strict=True):
        print(f"  {name}: {check.mass:g} kg, consistency margin {check.margin:.3g}")
    print(f"friction law {robot.friction.model.name!r}: {', '.join(robot.layout.friction_terms)}")
    base = bodysense.base_parameters(robot)
    print(f"{base.size} of {robot.layout.size} parameters can be identified, for example")
    for name in base.names[:3]:
        print(f"  {name}")


def hold(robot: bodysense.Robot) -> None:
    """Print the torques that hold the robot still in one posture."""
    still = np.zeros((1, robot.nv))
    tau = inverse_dynamics(robot, np.full((1, robot.nq), 0.5), still, still)[0]
    print("\nTorques [N·m] or forces [N] that hold it with all joints at 0.5 rad or m:")
    for name, value, most in zip(robot.joint_names, tau, robot.effort_limit, strict=True):
        print(f"  {name}: {value:.3f}" + (f" of {most:g}" if np.isfinite(most) else ""))


def move(robot: bodysense.Robot, duration: float, out: Path) -> None:
    """Simulate a motion, say how much it tells about the parameters, and save it."""
    if robot.controller is None:
        robot = robot.with_controller(bodysense.suggested_controller(robot))
        print("\nThe robot comes without a controller: gains were chosen from its inertia.")
    trajectory = bodysense.FourierTrajectory.for_robot(
        robot, duration=duration, harmonics=5, rng=np.random.default_rng(0)
    )
    print("\nSimulating (the first start compiles for up to half a minute) …", flush=True)
    run = bodysense.rollout(robot, trajectory, sampling_rate=RATE, integrator="rk4")
    print(run.summary())
    if not run.ok:
        return

    base = bodysense.base_parameters(robot)
    Y_base = torque_regressor(robot, run.q[0], run.v[0], run.a[0], columns=base.independent)
    Y_base = Y_base.reshape(-1, base.size)
    condition = np.linalg.cond(Y_base / np.linalg.norm(Y_base, axis=0))
    print(f"Condition number of the base regressor, columns scaled to 1: {condition:.0f}")

    theta_base = np.linalg.lstsq(Y_base, run.tau[0].ravel(), rcond=None)[0]
    error = np.abs(theta_base - base.to_base(robot.theta)).max()
    print(f"Least squares finds the base parameters back, to {error:.1e}.")
    run.save(out)
    print(f"Saved in {out}: bodysense.Rollout.load reads it back.")


if __name__ == "__main__":
    main()
