"""Push a simulated TX40, and see which pushes are found, how soon and at how many false alarms.

The arm moves and is not in contact; its encoders and drive torques are noisy, and its controller
answers the noise of the encoders. From a log alone follows which force would be found, by how long
it lasts and how many false alarms per hour are accepted. Then other logs are taken, as they are and
with a push of twice that force each, at a random time in a random direction.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import bodysense
from bodysense.estimation import DetectionSettings, EstimationSetup, prepare_log
from bodysense.estimation.map_dynamics.log.contacts import LogContacts
from bodysense.robot import contact_map

LINK = "link6"
ENCODERS = {"1e-4°": 1e-4, "1e-3°": 1e-3}  # noise of positions [deg]
TORQUE_NOISE = 0.05  # N·m
FALSE_ALARMS = (0.1, 1.0, 10.0, 100.0, 1000.0)  # per hour
LASTING = 0.2  # s, of a push
SENSORS = f"""
sensors:
  motors: {{kind: joint_torque, joint: all, side: drive, std: {TORQUE_NOISE}}}
  motion: {{kind: joint_acceleration, joint: all}}
external_wrenches:
  {LINK}: {{std: [50, 50, 50, 5, 5, 5]}}
"""


Limits = Mapping[float, float]
"""Force [N] that is found in 95 % of cases, whatever its direction, by how long it lasts [s]."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out/contact"), help="folder of the chart")
    parser.add_argument("--quick", action="store_true", help="push 3 times instead of 30 times")
    args = parser.parse_args()
    console = Console(highlight=False, soft_wrap=True)
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "sensors.yaml").write_text(SENSORS, encoding="utf-8")

    robot = bodysense.load_robot("tx40")
    setup = bodysense.load_estimation(args.out / "sensors.yaml", robot)
    limits: dict[str, dict[float, Limits]] = {}
    for name, noise in ENCODERS.items():
        rng = np.random.default_rng(0)
        log = recorded(robot, noise, rng)
        limits[name] = {
            rate: in_any_direction(found_in(setup, robot, log, rate)) for rate in FALSE_ALARMS
        }
        usual = limits[name][1.0]
        size = 2.0 * float(np.interp(LASTING, list(usual), list(usual.values())))
        alarms, hits, n = 0, 0, 3 if args.quick else 30
        for _ in range(n):
            log = recorded(robot, noise, rng)
            pushed, begin = with_push(robot, log, size, rng)
            alarms += len(found_in(setup, robot, log).contacts)
            contacts = found_in(setup, robot, pushed).contacts
            hits += any(c.start < begin + LASTING and c.end > begin for c in contacts)
        console.print(
            f"encoders {name}: {alarms} contacts in {n} logs without any; "
            f"{hits} of {n} pushes of {size:.1f} N found"
        )
    console.print(table(limits))
    path = args.out / "detectable.svg"
    path.write_text(chart(limits), encoding="utf-8")
    console.print(f"Detectable force and false alarms: {path}")


def recorded(robot: bodysense.Robot, noise: float, rng: np.random.Generator) -> bodysense.Log:
    """Ten seconds of random motion without contact; the noise of positions is in degrees."""
    motion = bodysense.FourierTrajectory.for_robot(robot, duration=10.0, rng=rng)
    run = bodysense.rollout(
        robot,
        motion,
        sampling_rate=1000.0,
        integrator="rk4",
        position_noise=np.radians(noise),
        torque_noise=TORQUE_NOISE,
        rng=rng,
    )
    return run.log()


def found_in(
    setup: EstimationSetup, robot: bodysense.Robot, log: bodysense.Log, false_alarms: float = 1.0
) -> LogContacts:
    """Contacts of a log, and what would be found in it, at so many false alarms per hour."""
    detection = DetectionSettings(false_alarms=false_alarms)
    found = prepare_log(setup, robot, log, detection=detection).found
    assert found is not None  # which it is where positions are recorded
    return found


def in_any_direction(found: LogContacts) -> Limits:
    return {within: worst for within, (_, worst) in found.detectable[LINK].items()}


def with_push(
    robot: bodysense.Robot, log: bodysense.Log, size: float, rng: np.random.Generator
) -> tuple[bodysense.Log, float]:
    """The log of the same motion with a push: drives hold against it, tau - J^T fx."""
    t, names = log.t, [f"tau.{joint}" for joint in robot.joint_names]
    q = np.stack([log.channels[f"q.{joint}"] for joint in robot.joint_names], axis=1)
    begin = float(rng.uniform(t[0] + 1.0, t[-1] - 1.0 - LASTING))
    direction = rng.normal(size=3)
    fx = np.zeros((t.size, 6))
    here = (t >= begin) & (t < begin + LASTING)
    fx[here, :3] = size * direction / np.linalg.norm(direction)
    added = np.einsum("tij,tj->ti", contact_map(robot, q, [LINK]), fx)
    tau = {name: log.channels[name] - added[:, k] for k, name in enumerate(names)}
    return replace(log, channels={**log.channels, **tau}), begin


def table(limits: Mapping[str, Mapping[float, Limits]]) -> Table:
    """Forces by false alarms and duration."""
    first = next(iter(limits.values()))[1.0]
    result = Table("encoders", title=f"Force on {LINK} that is found [N]", title_justify="left")
    result.add_column("false alarms per hour", justify="right")
    for within in first:
        result.add_column(f"{1e3 * within:.0f} ms", justify="right")
    for name, by_rate in limits.items():
        for rate, limit in by_rate.items():
            result.add_row(name, f"{rate:g}", *(f"{force:.2g}" for force in limit.values()))
    return result


def chart(limits: Mapping[str, Mapping[float, Limits]]) -> str:
    """An SVG: forces over false alarms, both logarithmic, a curve for each duration."""
    width, height, left, right, top, bottom = 720, 420, 64, 620, 66, 350
    colours = dict(zip(limits, ("#00796b", "#e08a00"), strict=True))

    def x(rate: float) -> float:
        return left + (right - left) * float(np.log10(rate / FALSE_ALARMS[0])) / 4.0

    def y(force: float) -> float:
        return bottom - (bottom - top) * float(np.log10(force / 0.5)) / 2.0

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" role="img" aria-labelledby="t">',
        '<title id="t">Force that is found, by false alarms and by its duration</title>',
        "<style>text{font:14px system-ui,sans-serif;fill:#222}.s{font-size:12px;fill:#555}</style>",
        f'<rect width="{width}" height="{height}" rx="6" fill="#fff"/>',
        f'<text class="s" x="{left}" y="26">force on {LINK} that is found, whatever its direction, '
        "by how long it lasts</text>",
    ]
    for k, (name, colour) in enumerate(colours.items()):
        parts.append(
            f'<rect x="{left + 190 * k}" y="36" width="14" height="14" fill="{colour}"/>'
            f'<text x="{left + 190 * k + 20}" y="48">encoder noise {name}</text>'
        )
    for force in (0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0):
        parts.append(
            f'<line x1="{left}" y1="{y(force):.1f}" x2="{right}" y2="{y(force):.1f}" '
            f'stroke="#ddd"/><text class="s" x="{left - 8}" y="{y(force) + 4:.1f}" '
            f'text-anchor="end">{force:g} N</text>'
        )
    for rate in FALSE_ALARMS:
        at = f'x="{x(rate):.1f}" y="{bottom + 22}" text-anchor="middle"'
        parts.append(f'<text class="s" {at}>{rate:g}</text>')
    at = f'x="{left}" y="{bottom + 48}"'
    parts.append(f'<text class="s" {at}>false alarms per hour that are accepted</text>')
    for name, colour in colours.items():
        for within, last in limits[name][FALSE_ALARMS[-1]].items():
            curve = [(x(rate), y(limit[within])) for rate, limit in limits[name].items()]
            points = " ".join(f"{a:.1f},{b:.1f}" for a, b in curve)
            at = f'x="{right + 8}" y="{y(last) + 4:.1f}"'
            parts.append(
                f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>'
                f'<text class="s" {at}>{1e3 * within:.0f} ms</text>'
            )
    return "\n".join([*parts, "</svg>\n"])


if __name__ == "__main__":
    main()
