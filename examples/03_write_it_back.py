"""Change a robot's parameters and write it back as URDF and as MJCF.

A payload is put into the gripper of the small arm, its friction is set to new values, and both
files are written. The URDF keeps every byte that did not have to change.
"""

from __future__ import annotations

import argparse
import difflib
from pathlib import Path

import numpy as np

import bodysense
from bodysense.errors import MissingDependencyError
from bodysense.robot import inverse_dynamics
from bodysense.robot.io.mjcf_writer import mjcf_notes
from bodysense.spatial import pi_from_mass_com_inertia

ARM = Path(__file__).parent / "robots" / "arm.urdf"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out/written"), help="output folder")
    parser.add_argument("--quick", action="store_true", help="no difference: this is quick")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)

    before = bodysense.load_robot(ARM)
    after = with_payload(before)
    print(f"{before.name}: the forearm with gripper weighs {before.parameter('M3'):g} kg,")
    print(f"with a payload {after.parameter('M3'):g} kg.")

    urdf = bodysense.write_urdf(after, args.out / "arm.urdf")
    print(f"\nWritten: {urdf}\nChanged lines:")
    print("".join(f"  {line}" for line in changed_lines(ARM, urdf)))

    mjcf = bodysense.write_mjcf(after, args.out / "arm.xml")
    print(f"Written: {mjcf}")
    for note in mjcf_notes(after):
        print(f"  note: {note}")

    print("\nDo the files hold the same robot? Largest difference of torques at random states:")
    print(f"  URDF: {difference(after, bodysense.load_robot(urdf)):.1e} N·m")
    try:
        print(f"  MJCF: {difference(after, bodysense.load_robot(mjcf)):.1e} N·m")
    except MissingDependencyError as error:
        print(f"  MJCF: not checked. {error}")


def with_payload(robot: bodysense.Robot) -> bodysense.Robot:
    """Return the arm with a steel ball in its gripper, and friction as measured on a cold day."""
    mass, radius = 0.5, 0.025
    inertia = 0.4 * mass * radius**2 * np.eye(3)
    ball = pi_from_mass_com_inertia(mass, [0.0, 0.0, 0.25 + 0.09], inertia)  # in the forearm
    theta = robot.theta.copy()
    theta[robot.layout.link("forearm")] += ball  # pi of bodies that move together add up
    theta[robot.layout.friction("Fv")] *= 1.2
    return robot.with_parameters(theta)


def changed_lines(old: Path, new: Path) -> list[str]:
    """Lines of the new file that are not in the old one, and those that they replace."""
    before, after = (path.read_text(encoding="utf-8").splitlines(True) for path in (old, new))
    lines = difflib.unified_diff(before, after, n=0)
    return [line for line in lines if not line.startswith(("---", "+++", "@@"))]


def difference(robot: bodysense.Robot, other: bodysense.Robot) -> float:
    """Largest difference between the torques of two robots [N·m]."""
    rng = np.random.default_rng(0)
    q, v, a = rng.uniform(-2.0, 2.0, (3, 100, robot.nv))
    tau, other_tau = (inverse_dynamics(each, q, v, a) for each in (robot, other))
    return float(np.abs(tau - other_tau).max())


if __name__ == "__main__":
    main()
