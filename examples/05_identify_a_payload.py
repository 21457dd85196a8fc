"""What does the robot hold? Simulate an arm with and without a load, and identify the load.

A TX40 moves twice, without and with a body of 2 kg in its hand. Its encoders and torques are noisy,
and nobody knows its parameters well. What the body is made of comes from both recordings together,
with an interval that counts noise and drive gains. All of it is simulated: the truth is known.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from rich.console import Console

import bodysense
from bodysense.identification.payload import payload_of, prepare, write_payload
from bodysense.report import write_payload_page

MASS = 2.0  # kg
COM = np.array([0.03, -0.02, 0.10])  # m, in the frame of the last link
INERTIA = np.diag([8.0, 7.0, 4.0]) * 1e-3  # kg·m², about the centre of mass
NOISE_POSITION = np.radians(1e-4)  # rad
NOISE_TORQUE = 0.05  # N·m


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out/payload"), help="folder for files")
    parser.add_argument("--quick", action="store_true", help="move for 5 s instead of 10 s")
    args = parser.parse_args()
    console = Console(highlight=False, soft_wrap=True)
    rng = np.random.default_rng(2)

    arm = bodysense.load_robot("tx40")
    holding = bodysense.with_payload(arm, MASS, com=COM, inertia=INERTIA)
    duration = 5.0 if args.quick else 10.0
    empty, loaded = (recording(robot, duration, rng) for robot in (arm, holding))
    console.print(f"recorded twice {loaded.summary()}\n")

    with console.status("identifying …"):
        experiment = prepare(arm, loaded, empty)
        found = payload_of(experiment, gain_uncertainty=0.02)
    console.print(found.summary())
    low, high = found.mass_interval()
    console.print(
        f"mass            {MASS:.3f} kg    found {found.mass:.3f} ({low:.3f} to {high:.3f})"
    )
    for axis, true, value, sigma in zip("xyz", COM, found.com, found.sigma_com, strict=True):
        console.print(
            f"centre, {axis}       {1e3 * true:6.1f} mm   "
            f"found {1e3 * value:6.1f} ± {1.96e3 * sigma:.1f}"
        )
    for k, axis in enumerate("xyz"):
        value, sigma = found.inertia[k, k], found.sigma_inertia[k, k]
        console.print(
            f"inertia, {axis}{axis}     {1e3 * INERTIA[k, k]:6.1f} g·m² "
            f"found {1e3 * value:6.1f} ± {1.96e3 * sigma:.1f}"
        )
    noise, gains = 1.96 * found.sigma_mass_data, 1.96 * found.sigma_mass_gains
    console.print(
        f"\nOf the interval ± {noise:.3f} kg are noise; ± {gains:.3f} kg are drive gains, which "
        "may be off by 2 % (here they are not)."
    )
    args.out.mkdir(parents=True, exist_ok=True)
    write_payload(args.out, found, arm)
    page = write_payload_page(args.out / "report.html", found, experiment)
    console.print(f"Open {page} in a browser.")


def recording(robot: bodysense.Robot, duration: float, rng: np.random.Generator) -> bodysense.Log:
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


if __name__ == "__main__":
    main()
