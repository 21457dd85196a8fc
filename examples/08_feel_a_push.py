"""Push a simulated iCub at three places, and estimate the external wrenches from its sensors.

The humanoid squats on both feet and swings its arms, simulated by Pinocchio's dynamics under a
whole-body controller. Somebody pushes its left forearm, then its chest, then its right thigh. It
has the six force/torque sensors of its URDF file, seven IMUs, and joint accelerations from its
encoders, all of them noisy; no force sensor sits where it is pushed.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pinocchio as pin
from rich.console import Console
from rich.table import Table

import bodysense
from bodysense.estimation import Assumptions, GaussianPrior, MapDynamics, Posterior
from bodysense.sensors import (
    Accelerometer,
    ForceTorque,
    Gyroscope,
    JointAcceleration,
    Mount,
    Sensor,
    urdf_sensors,
    variances,
)

RATE = 1000.0  # Hz, of the simulation
EVERY = 10  # steps between samples of the sensors
STD = {"accelerometer": 0.05, "gyroscope": 0.005, "joint_acceleration": 0.2, "q": 1e-4, "dq": 1e-3}
ROTORS = 0.02  # kg·m², behind the gears: the file has point masses in some links, and no rotors
IMUS = ("base_link", "chest", "head", "l_hand", "r_hand", "l_ankle_2", "r_ankle_2")
FEET = ("l_ankle_2", "r_ankle_2")
SURE = 1.96  # standard deviations of a 95 % band


@dataclass(frozen=True)
class Push:
    """A force that swells and fades.

    Attributes:
        link: that is pushed.
        at: (3,) where, in the frame of the link [m].
        force: (3,) at its largest, in the frame of the world [N].
        begin: when [s].
        length: how long [s].
    """

    link: str
    at: tuple[float, float, float]
    force: tuple[float, float, float]
    begin: float
    length: float = 1.0

    def now(self, t: float) -> np.ndarray:
        """(3,) force in the frame of the world."""
        phase = (t - self.begin) / self.length
        swell = np.sin(np.pi * phase) ** 2 if 0.0 < phase < 1.0 else 0.0
        return swell * np.array(self.force)


# The robot looks along -x of its own base, which stands in the axes of the world.
PUSHES = (
    Push("l_forearm", (0.0, 0.0, 0.05), (6.0, 10.0, -8.0), begin=0.5),
    Push("chest", (0.0, 0.05, 0.08), (30.0, 8.0, 0.0), begin=2.0),
    Push("r_upper_leg", (0.0, 0.0, 0.1), (12.0, -18.0, 5.0), begin=3.5),
)


@dataclass(frozen=True)
class Recording:
    """What the sensors of T samples say, and what only a simulation knows.

    Attributes:
        t: (T,) [s].
        q: (T, n) measured positions of the joints.
        dq: (T, n) measured velocities.
        base_twist: (T, 6) of the base, its angular part measured by the gyroscope on it.
        readings: (T, m) of the sensors, in their order.
        wrenches: true external wrenches (T, 6) by link, in the link's frame.
    """

    t: np.ndarray
    q: np.ndarray
    dq: np.ndarray
    base_twist: np.ndarray
    readings: np.ndarray
    wrenches: dict[str, np.ndarray]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out/push"), help="folder for the chart")
    parser.add_argument("--quick", action="store_true", help="sample every 20 ms instead of 10")
    args = parser.parse_args()
    console = Console(highlight=False, soft_wrap=True)

    robot = bodysense.load_robot("example:icub")
    sensors = mounted(robot)
    rng = np.random.default_rng(8)
    with console.status("simulating …"):
        recorded = simulated(robot, sensors, rng, every=2 * EVERY if args.quick else EVERY)

    # Wrenches are unknown where the robot stands and where it may be touched, zero elsewhere.
    places = (*FEET, *(push.link for push in PUSHES))
    believed = Assumptions(wrenches={link: GaussianPrior.unknown(6) for link in places})
    estimator = MapDynamics(robot, sensors, believed)
    console.print(
        f"{robot.name}: {len(sensors)} sensors with {estimator.layout.size} readings for "
        f"{estimator.variables.size} estimated quantities, at {recorded.t.size} samples."
    )
    with console.status("estimating …"):
        felt = estimator.estimate(
            recorded.q,
            recorded.dq,
            recorded.readings,
            base_twist=recorded.base_twist,
            detail="blocks",
        )
    console.print(table(felt, recorded))
    args.out.mkdir(parents=True, exist_ok=True)
    path = args.out / "push.svg"
    path.write_text(chart(felt, recorded), encoding="utf-8")
    console.print(f"Estimated and true forces over time: {path}")


def mounted(robot: bodysense.Robot) -> list[Sensor]:
    """Force/torque sensors where the URDF file has them, IMUs and encoders."""
    sensors: list[Sensor] = [*urdf_sensors(robot.source.data, robot).sensors]
    for link in IMUS:
        for kind in (Accelerometer, Gyroscope):
            noise = variances(STD[kind.kind], 3)
            sensors.append(kind(name=f"{kind.kind}.{link}", mount=Mount(link), covariance=noise))
    for joint in robot.joint_names:
        noise = variances(STD["joint_acceleration"], 1)
        sensors.append(JointAcceleration(name=f"ddq.{joint}", joint=joint, covariance=noise))
    return sensors


def wanted(robot: bodysense.Robot, t: float) -> np.ndarray:
    """(n,) positions that the controller is told: a squat, with swinging arms."""
    q = dict.fromkeys(robot.joint_names, 0.0)
    bend = 0.3 - 0.15 * np.cos(np.pi * t)
    for side, phase in (("l", 0.0), ("r", np.pi)):
        q[f"{side}_hip_pitch"], q[f"{side}_knee"], q[f"{side}_ankle_pitch"] = bend, -2 * bend, -bend
        q[f"{side}_shoulder_pitch"] = -0.5 + 0.4 * np.sin(4.0 * t + phase)
        q[f"{side}_shoulder_roll"] = 0.5
        q[f"{side}_elbow"] = 0.9 + 0.4 * np.sin(5.0 * t + phase)
    q["torso_yaw"] = 0.25 * np.sin(2.5 * t)
    return np.array(list(q.values()))


def simulated(
    robot: bodysense.Robot, sensors: list[Sensor], rng: np.random.Generator, *, every: int
) -> Recording:
    """Five seconds: Pinocchio's dynamics with feet that stay where they are.

    M a + h = [0, tau] + J_feetᵀ f + J_pushᵀ w,   J_feet a + dJ_feet v = 0
    """
    model, data, n = robot.model, robot.model.createData(), robot.n_joints
    index = {link: k + 1 for k, link in enumerate(robot.link_names)}
    q, v = pin.neutral(model), np.zeros(model.nv)
    q[7:] = wanted(robot, 0.0)
    pin.forwardKinematics(model, data, q)
    home = {link: data.oMi[index[link]].copy() for link in FEET}
    rows: dict[str, list[np.ndarray]] = {}
    step = 1.0 / RATE
    for k in range(int(5.0 * RATE)):
        t = k * step
        M = pin.crba(model, data, q)
        M = np.triu(M) + np.triu(M, 1).T + ROTORS * np.diag(np.r_[np.zeros(6), np.ones(n)])
        h = pin.nonLinearEffects(model, data, q, v)
        pin.computeJointJacobians(model, data, q)
        pin.forwardKinematics(model, data, q, v, np.zeros(model.nv))
        J = np.vstack([pin.getJointJacobian(model, data, index[foot], pin.LOCAL) for foot in FEET])
        drift = np.concatenate([data.a[index[foot]].vector for foot in FEET])
        off = [pin.log6(home[foot].actInv(data.oMi[index[foot]])).vector for foot in FEET]
        held = -drift - 40.0 * J @ v - 400.0 * np.concatenate(off)  # feet go back to their place
        # The controller does not know of the pushes: its torques would give the wanted motion.
        before, now, after = (wanted(robot, t + d) for d in (-step, 0.0, step))
        follow = 4e3 * (now - q[7:]) + 120.0 * ((after - before) / (2 * step) - v[6:])
        a_wanted = np.concatenate([np.zeros(6), follow])
        a_wanted -= J.T @ np.linalg.solve(J @ J.T, J @ a_wanted - held)
        need = M @ a_wanted + h
        legs = J[:, :6] @ np.linalg.solve(J[:, :6].T @ J[:, :6], need[:6])
        tau = need - J.T @ legs
        tau[:6] = 0.0
        wrenches = {push.link: wrench(push, t, data.oMi[index[push.link]]) for push in PUSHES}
        for link, w in wrenches.items():
            tau += pin.getJointJacobian(model, data, index[link], pin.LOCAL).T @ w
        K = np.block([[M, -J.T], [J, np.zeros((12, 12))]])
        a, feet = np.split(np.linalg.solve(K, np.concatenate([tau - h, held])), [model.nv])
        if k % every == 0:
            wrenches |= dict(zip(FEET, np.split(feet, 2), strict=True))
            readings = read(robot, sensors, data, (q, v, a), wrenches)
            noise = [rng.multivariate_normal(np.zeros(s.size), s.covariance) for s in sensors]
            turning = np.zeros(6)
            turning[3:] = v[3:6] + STD["gyroscope"] * rng.normal(size=3)
            sample = {
                "t": np.array(t),
                "q": q[7:] + STD["q"] * rng.normal(size=n),
                "dq": v[6:] + STD["dq"] * rng.normal(size=n),
                "base_twist": turning,
                "readings": np.concatenate(readings) + np.concatenate(noise),
            }
            for name, value in {**sample, **wrenches}.items():
                rows.setdefault(name, []).append(value)
        v = v + step * a
        q = pin.integrate(model, q, step * v)
    kept = {name: np.stack(values) for name, values in rows.items()}
    truth = {link: kept.pop(link) for link in (*FEET, *(push.link for push in PUSHES))}
    return Recording(**kept, wrenches=truth)


def wrench(push: Push, t: float, T_world_link: pin.SE3) -> np.ndarray:
    """(6,) of a push about the origin of its link, in the frame of the link."""
    force = T_world_link.rotation.T @ push.now(t)
    return np.concatenate([force, np.cross(push.at, force)])


def read(
    robot: bodysense.Robot,
    sensors: list[Sensor],
    data: pin.Data,
    motion: tuple[np.ndarray, np.ndarray, np.ndarray],
    wrenches: dict[str, np.ndarray],
) -> list[np.ndarray]:
    """What each sensor would read without noise, from Pinocchio's Newton-Euler recursion."""
    model, a = robot.model, motion[2]
    pushes = pin.StdVec_Force()
    for link in ("universe", *robot.link_names):
        pushes.append(pin.Force(wrenches.get(link, np.zeros(6))))
    pin.forwardKinematics(model, data, *motion)
    pin.rnea(model, data, *motion, pushes)
    values = []
    for sensor in sensors:
        if isinstance(sensor, JointAcceleration):
            values.append(a[[6 + robot.joint_names.index(sensor.joint)]])
            continue
        link, R, p = sensor.mount.locate(robot, sensor.name)
        k, place = robot.link_names.index(link) + 1, pin.SE3(R, p)
        if isinstance(sensor, ForceTorque):  # the part of the link before the sensor is moved too
            part = pin.Inertia.FromDynamicParameters(np.array(sensor.sub_link))
            through = data.f[k] - part * data.a_gf[k] - data.v[k].cross(part * data.v[k])
            values.append(sensor.sign * place.actInv(through).vector)
        elif isinstance(sensor, Gyroscope):
            values.append(place.actInv(data.v[k]).angular)
        else:
            felt = pin.getFrameClassicalAcceleration(model, data, k, place, pin.LOCAL).linear
            down = (data.oMi[k] * place).rotation.T @ model.gravity.linear
            values.append(felt - down)
    return values


def table(felt: Posterior, recorded: Recording) -> Table:
    """Each push when it is strongest, and how often the truth lies in its band."""
    result = Table("pushed", title="External forces, estimated and true", title_justify="left")
    for heading in ("at [s]", "true [N]", "estimated [N]", "95 % band [N]", "truth in the band"):
        result.add_column(heading, justify="right")
    for push in PUSHES:
        name, truth = f"fx.{push.link}", recorded.wrenches[push.link]
        k = int(np.argmax(np.linalg.norm(truth[:, :3], axis=1)))
        along = truth[k, :3] / np.linalg.norm(truth[k, :3])
        band = SURE * float(np.sqrt(along @ felt.covariance(name)[k, :3, :3] @ along))
        inside = np.abs(felt[name] - truth) <= SURE * felt.sigma(name)
        result.add_row(
            push.link,
            f"{recorded.t[k]:.2f}",
            f"{along @ truth[k, :3]:.1f}",
            f"{along @ felt[name][k, :3]:.1f}",
            f"± {band:.1f}",
            f"{100.0 * inside.mean():.1f} %",
        )
    return result


def chart(felt: Posterior, recorded: Recording) -> str:
    """An SVG: for each push the forces along the axes of its link, bands and true curves."""
    width, height, left, top = 720, 168, 56, 56
    colours = dict(zip("xyz", ("#00796b", "#e08a00", "#5c6bc0"), strict=True))
    thin = max(1, recorded.t.size // 250)
    whole = top + len(PUSHES) * height + 12
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {whole}" width="{width}" '
        f'height="{whole}" role="img" aria-labelledby="t">',
        '<title id="t">Estimated and true external forces on three links</title>',
        "<style>text{font:14px system-ui,sans-serif;fill:#222}.s{font-size:12px;fill:#555}</style>",
        f'<rect width="{width}" height="{whole}" rx="6" fill="#fff"/>',
        f'<text class="s" x="{left}" y="26">bands: estimated, 95 %; black lines: true; forces in '
        "the frame of the link</text>",
    ]
    for k, (axis, colour) in enumerate(colours.items()):
        parts.append(f'<rect x="{560 + 46 * k}" y="14" width="14" height="14" fill="{colour}"/>')
        parts.append(f'<text x="{579 + 46 * k}" y="26">{axis}</text>')
    for k, push in enumerate(PUSHES):
        name = f"fx.{push.link}"
        mean, truth = felt[name][::thin, :3], recorded.wrenches[push.link][::thin, :3]
        band = SURE * felt.sigma(name)[::thin, :3]
        size = 10.0 * np.ceil(max(np.abs(mean).max(), np.abs(truth).max()) / 10.0)
        y0, half = top + k * height + 66, 60.0
        x = left + (width - left - 20) * recorded.t[::thin] / recorded.t[-1]
        parts.append(f'<text x="{left}" y="{y0 - half - 10:g}">{push.link}</text>')
        for value in (-size, 0.0, size):
            y = y0 - half * value / size
            parts.append(
                f'<line x1="{left}" y1="{y:g}" x2="{width - 20}" y2="{y:g}" stroke="#ddd"/>'
                f'<text class="s" x="{left - 8}" y="{y + 4:g}" text-anchor="end">{value:g} N</text>'
            )
        for j, colour in enumerate(colours.values()):
            low, high = (y0 - half * (mean[:, j] + s * band[:, j]) / size for s in (-1.0, 1.0))
            outline = points(np.r_[x, x[::-1]], np.r_[low, high[::-1]])
            parts.append(f'<polygon points="{outline}" fill="{colour}" fill-opacity="0.55"/>')
        for j in range(3):
            line = points(x, y0 - half * truth[:, j] / size)
            parts.append(f'<polyline points="{line}" fill="none" stroke="#111"/>')
    for second in range(5):
        x = left + (width - left - 20) * second / recorded.t[-1]
        place = f'x="{x:.1f}" y="{whole - 14}" text-anchor="middle"'
        parts.append(f'<text class="s" {place}>{second} s</text>')
    return "\n".join([*parts, "</svg>\n"])


def points(x: np.ndarray, y: np.ndarray) -> str:
    return " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))


if __name__ == "__main__":
    main()
