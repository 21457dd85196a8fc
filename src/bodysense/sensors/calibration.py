"""Calibration of a force/torque sensor by the weight of the tool beyond it, in several poses.

At rest, with u the proper acceleration of the sensor (9.81 m/s² upward) in the axes that its file
states, times its sign,

    force  = m G u + b_f,          moment = m G (c × u) + b_m

with m and c the mass and the centre of mass of all that is beyond the sensor, b the bias, and G a
rotation that corrects the axes. Least squares by Gauss-Newton, from the rotation of Kabsch (1976),

    G <- Exp(δ) G,     ∂force/∂δ = -S(m G u),     ∂moment/∂δ = -S(m G (c × u)),

weighted by the noise of forces and moments that the residuals show, each with its degrees of
freedom. The intervals are those of Student's t. A scale cannot be told from a mass: give the mass,
if it is known, for the scale. Poses that do not turn the sensor enough leave some of this
undetermined, and the result says what.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pinocchio as pin
from numpy.typing import ArrayLike

from bodysense.errors import MismatchError, ShapeError, listing, require_type
from bodysense.robot.robot import Robot, require_robot
from bodysense.sensors.link_motion import LinkMotion
from bodysense.sensors.motion_sensors import Accelerometer
from bodysense.sensors.sensor import Mount
from bodysense.sensors.wrench_sensors import ForceTorque
from bodysense.spatial.arrays import Array, as_array, read_only
from bodysense.spatial.se3 import exp_so3, log_so3, skew
from bodysense.status import Status

NAMES = (
    *("mass", "com.x", "com.y", "com.z"),
    *("bias.fx", "bias.fy", "bias.fz", "bias.mx", "bias.my", "bias.mz"),
    *("turn.x", "turn.y", "turn.z"),
)
"""Parameters: kg, m in the sensor's corrected axes, N and N·m, rad."""
_UNITS = ("kg", *("m",) * 3, *("N",) * 3, *("N·m",) * 3, *("rad",) * 3)
_TURN = slice(10, 13)

_SIZES = np.array([1.0, *[0.05] * 3, *[1.0] * 3, *[0.1] * 3, *[0.05] * 3])
"""Usual sizes of the parameters, by which undetermined directions are judged."""
_UNDETERMINED = 1e-5  # singular value over the largest, in these sizes
_PART_OF = 1e-3  # component of an undetermined direction that counts
_ITERATIONS, _CONVERGED = 30, 1e-10  # of Gauss-Newton, in these sizes
_REWEIGHTED = 3  # times that the noise is taken from the residuals
_ONE_DIRECTION = 0.05  # second singular value over the first, below which no rotation is guessed
_OPPOSITE = 2.0  # times better a reversed sensor explains the forces, to say so


@dataclass(frozen=True, eq=False)
class WrenchCalibration:
    """What a force/torque sensor is, with covariance.

    Attributes:
        sensor: as its file had it.
        link: on which it is mounted.
        mean: (13,) in the order of `NAMES`; `turn` is the rotation vector of G.
        covariance: (13, 13), infinite on the diagonal where nothing is determined.
        quantile: standard deviations to either side in a 95 % interval.
        noise: (2,) standard deviation of the residuals of forces [N] and moments [N·m].
        poses: how many.
        undetermined: names of parameters that the poses leave open, alone or together.
        known_mass: of what is beyond the sensor [kg]; `None` if it was not given.
        status: whether the result can be used, with advice.
    """

    sensor: ForceTorque
    link: str
    mean: Array
    covariance: Array
    quantile: float
    noise: Array
    poses: int
    undetermined: tuple[str, ...]
    known_mass: float | None
    status: Status

    @property
    def mass(self) -> float:
        """Of all beyond the sensor [kg]; as it reads, if its scale is off."""
        return float(self.mean[0])

    @property
    def com(self) -> Array:
        """(3,) centre of that mass in the sensor's corrected axes [m]."""
        return np.array(self.mean[1:4])

    @property
    def bias(self) -> Array:
        """(6,) of the readings."""
        return np.array(self.mean[4:10])

    @property
    def rotation(self) -> Array:
        """(3, 3) G, which takes vectors from the stated axes to those that it reads in."""
        return exp_so3(self.mean[_TURN])

    @property
    def scale(self) -> float:
        """What it reads over what there is; 1 if no mass is known."""
        return 1.0 if self.known_mass is None else self.mass / self.known_mass

    @property
    def mount(self) -> Mount:
        """Where it sits, its axes corrected: R_frame_sensor = R_stated Gᵀ."""
        stated = self.sensor.mount or Mount(self.link)
        return Mount(stated.frame, stated.R @ self.rotation.T, stated.p)

    def sigma(self, name: str) -> float:
        """Standard deviation of a parameter, or of ``scale``; infinite if it is undetermined."""
        if name == "scale":
            return self.sigma("mass") / (self.known_mass or np.inf)
        return float(np.sqrt(self.covariance[NAMES.index(name), NAMES.index(name)]))

    def interval(self, name: str) -> tuple[float, float]:
        """95 % interval of a parameter of `NAMES`, or of ``scale``."""
        value = self.scale if name == "scale" else float(self.mean[NAMES.index(name)])
        half = self.quantile * self.sigma(name)
        return value - half, value + half

    def correct(self, readings: ArrayLike) -> Array:
        """(..., 6) readings without bias, in the stated axes and of the known scale."""
        y = np.asarray(readings, dtype=np.float64) - self.bias
        G = self.rotation / self.scale
        return np.concatenate([y[..., :3] @ G, y[..., 3:] @ G], axis=-1)

    def summary(self) -> str:
        """All values with 95 % intervals, in words."""
        units = dict(zip(NAMES, _UNITS, strict=True))
        lines = [f"{self.sensor.who}: {self.poses} poses"]
        names = list(NAMES if self.known_mass is None else (*NAMES, "scale"))
        for name in names:
            value = self.scale if name == "scale" else float(self.mean[NAMES.index(name)])
            half = self.quantile * self.sigma(name)
            text = f"± {half:.2g}" if np.isfinite(half) else "undetermined"
            lines.append(f"  {name:8} {value:9.4f} {text} {units.get(name, '')}".rstrip())
        return "\n".join([*lines, self.status.summary()])

    def entry(self) -> str:
        """The keys of the sensor's entry in the sensors file that change, as YAML."""
        angles = np.round(pin.rpy.matrixToRpy(self.mount.R), 5) + 0.0
        return f"rpy: [{', '.join(f'{x:g}' for x in angles)}]"

    def on_robot(self, robot: Robot) -> Robot:
        """The robot with the mass and the centre of mass that were found on the sensor's link.

        Inertia about the centre of mass stays: a robot at rest does not show it.
        """
        place = self.mount.locate(robot, self.sensor.who)
        mass = self.mass / self.scale
        first = mass * (place.R @ self.com + place.p)
        if self.sensor.sub_link is not None:  # the part before the sensor
            mass, first = mass + self.sensor.sub_link[0], first + self.sensor.sub_link[1:4]
        return robot.with_link(place.link, mass=mass, com=first / mass)


def calibrate_force_torque(
    robot: Robot,
    sensor: ForceTorque,
    q: ArrayLike,
    readings: ArrayLike,
    *,
    turn: bool = True,
    mass: float | None = None,
    gravity: ArrayLike | None = None,
) -> WrenchCalibration:
    """Find bias, tool and axes of a force/torque sensor from its readings at rest.

    Args:
        robot: that carries it; of its masses none matters.
        sensor: with nothing but one link, and what is fixed to it, beyond it.
        q: (N, n_joints) poses, e.g. of `static_poses`.
        readings: (N, 6) averages of the readings there.
        turn: whether its axes are estimated too, or known.
        mass: of all beyond it [kg], if it is known, for its scale.
        gravity: (3,) in the frame of the base; by default the robot's own.

    Raises:
        MismatchError: joints beyond the sensor.
        ShapeError: other shapes, no poses, or a mass that is not positive.
    """
    require_robot(robot)
    require_type(sensor, ForceTorque, "a ForceTorque sensor", "take one from the sensors file")
    q = as_array(q, (None, robot.n_joints), "q")
    y = as_array(readings, (len(q), 6), "readings")
    if not len(q):
        raise ShapeError("there are no poses: give one row of q and of readings per pose.")
    if mass is not None and not mass > 0.0:
        raise ShapeError(f"the mass beyond {sensor.who} is {mass:g} kg: give one above zero.")
    link, u = _specific_force(robot, sensor, q, gravity)
    start, failure = _start(u, y, turn)
    fit = _fit(u, y, start, turn, sensor)
    undetermined = _undetermined(fit.jacobian, turn)
    sigma = np.sqrt(np.diag(fit.covariance))
    sigma[[NAMES.index(name) for name in undetermined]] = np.inf
    covariance = fit.covariance.copy()
    np.fill_diagonal(covariance, sigma**2)
    return WrenchCalibration(
        sensor=sensor,
        link=link,
        mean=read_only(fit.mean),
        covariance=covariance,
        quantile=_quantile(fit.freedom),
        noise=read_only(fit.noise),
        poses=len(q),
        undetermined=undetermined,
        known_mass=mass,
        status=_status(fit, undetermined, failure, sensor),
    )


def _specific_force(
    robot: Robot, sensor: ForceTorque, q: Array, gravity: ArrayLike | None
) -> tuple[str, Array]:
    """The link of the mount, and (N, 3) u in the stated axes."""
    m = sensor.measurement(robot)
    joint, link = str(m.joint), str(m.link)
    child = robot.joint_names.index(joint)
    beyond = [
        name for name, p in zip(robot.joint_names, robot.tree.parent, strict=True) if p == child
    ]
    if beyond:
        raise MismatchError(
            f"{sensor.who}: joints {listing(beyond)} are beyond it, so that what it carries is no "
            "single body: lock them (--lock, with_locked_joints), and hold them in these poses."
        )
    if robot.floating_base:
        raise MismatchError(
            f"{robot.name} floats, and the direction of gravity in these poses is not known: load "
            "it with a fixed base for a calibration."
        )
    mount = sensor.mount or Mount(link)
    point = Accelerometer(name=sensor.name, mount=mount, covariance=np.eye(3))
    still = np.zeros_like(q)
    motion = LinkMotion.of(robot, q, still, still, gravity=gravity)
    u = motion.predict(point.measurement(robot))
    on_child = link == robot.link_names[child]
    sign = sensor.sign if on_child else -sensor.sign
    return link, sign * (np.zeros((len(q), 3)) if u is None else u)


def _start(u: Array, y: Array, turn: bool) -> tuple[Array, str]:
    """(13,) where Gauss-Newton starts, and what is wrong with the sign."""
    start = np.zeros(13)
    yc, uc = y[:, :3] - y[:, :3].mean(axis=0), u - u.mean(axis=0)
    H, power = yc.T @ uc, float(np.sum(uc * uc))
    if not power > 0.0:
        return start, ""
    values = np.linalg.svd(uc, compute_uv=False)
    left, size, right = np.linalg.svd(H)
    handed = float(np.sign(np.linalg.det(left @ right)))
    k = float(np.trace(H)) / power
    if turn and values[1] > _ONE_DIRECTION * values[0]:
        G = left @ np.diag([1.0, 1.0, handed]) @ right
        start[_TURN] = log_so3(G)
        proper, other = size[0] + size[1] + handed * size[2], size[0] + size[1] - handed * size[2]
        reversed_ = other > _OPPOSITE * proper or (handed < 0.0 and _left(yc, uc, G) > 0.1)
        k = float(proper) / power
    else:
        reversed_ = k < 0.0
    start[0] = max(abs(k), 1e-3)
    text = "the forces point the other way than weight does: set `sign:` of the sensor to its "
    return start, text + "opposite, and calibrate again" if reversed_ else ""


def _left(yc: Array, uc: Array, G: Array) -> float:
    """Share of the forces' power that the rotation leaves."""
    k = float(np.sum((uc @ G.T) * yc)) / float(np.sum(uc * uc))
    return float(np.sum((yc - k * uc @ G.T) ** 2) / np.sum(yc * yc))


class _Fit(NamedTuple):
    mean: Array
    covariance: Array
    noise: Array
    freedom: float
    jacobian: Array
    converged: bool


def _fit(u: Array, y: Array, start: Array, turn: bool, sensor: ForceTorque) -> _Fit:
    """Gauss-Newton, with the noise of forces and moments from the residuals."""
    x, free = start.copy(), slice(0, 13 if turn else 10)
    stated = np.sqrt(np.diag(sensor.covariance))
    noise = np.maximum([stated[:3].mean(), stated[3:].mean()], 1e-6)
    converged, freedom = False, np.zeros(2)
    for _ in range(_REWEIGHTED):
        x, converged = _solve(u, y, x, noise, free)
        r, J = _residual(u, y, x)
        Jw = J[:, free] * _SIZES[free] / _weights(noise, len(u))[:, None]
        Q = np.linalg.svd(Jw, full_matrices=False)
        some = Q[1] > _UNDETERMINED * Q[1][0]
        leverage = np.sum(Q[0][:, some] ** 2, axis=1)
        forces = np.arange(r.size) < 3 * len(u)
        power = np.array([np.sum(r[forces] ** 2), np.sum(r[~forces] ** 2)])
        freedom = np.array([np.sum(1.0 - leverage[forces]), np.sum(1.0 - leverage[~forces])])
        if freedom.min() < 0.5:  # nothing is left over to tell the noise: as stated
            break
        noise = np.sqrt(power / freedom) + 1e-12
    Jw = J[:, free] * _SIZES[free] / _weights(noise, len(u))[:, None]
    covariance = np.zeros((13, 13))
    size = _SIZES[free]
    covariance[free, free] = np.linalg.pinv(Jw.T @ Jw, rcond=_UNDETERMINED**2) * np.outer(
        size, size
    )
    return _Fit(x, covariance, noise, float(freedom.min()), J, converged)


def _solve(u: Array, y: Array, x: Array, noise: Array, free: slice) -> tuple[Array, bool]:
    weight = _weights(noise, len(u))[:, None]
    for _ in range(_ITERATIONS):
        r, J = _residual(u, y, x)
        step = np.zeros(13)
        Jw = J[:, free] * _SIZES[free] / weight
        step[free] = np.linalg.lstsq(Jw, r / weight[:, 0], rcond=_UNDETERMINED)[0] * _SIZES[free]
        G = exp_so3(step[_TURN]) @ exp_so3(x[_TURN])
        x = x + step
        x[_TURN] = log_so3(G)
        if np.abs(step / _SIZES).max() < _CONVERGED:
            return x, True
    return x, False


def _weights(noise: Array, n: int) -> Array:
    return np.repeat(noise, 3 * n)


def _residual(u: Array, y: Array, x: Array) -> tuple[Array, Array]:
    """(6 N,) residuals, forces first, and their Jacobian (6 N, 13), less its sign."""
    n, m, c, G = len(u), x[0], x[1:4], exp_so3(x[_TURN])
    force, moment = u @ G.T, np.cross(c, u) @ G.T
    r = np.concatenate([y[:, :3] - m * force - x[4:7], y[:, 3:] - m * moment - x[7:10]])
    J = np.zeros((2, n, 3, 13))
    J[0, :, :, 0], J[1, :, :, 0] = force, moment
    J[1, :, :, 1:4] = -m * G @ skew(u)
    J[0, :, :, 4:7] = J[1, :, :, 7:10] = np.eye(3)
    J[0, :, :, _TURN], J[1, :, :, _TURN] = -skew(m * force), -skew(m * moment)
    return r.reshape(-1), J.reshape(6 * n, 13)


def _undetermined(J: Array, turn: bool) -> tuple[str, ...]:
    """Names that have a part in a direction that changes no reading."""
    free = slice(0, 13 if turn else 10)
    scaled = J[:, free] * _SIZES[free]
    _, s, Vt = np.linalg.svd(scaled, full_matrices=True)
    null = Vt[int(np.sum(s > _UNDETERMINED * s[0])) :]
    part = np.abs(null).max(axis=0, initial=0.0)
    return tuple(name for name, p in zip(NAMES, part, strict=False) if p > _PART_OF)


def _quantile(freedom: float) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(max(freedom, 1.0), 0.975))


def _status(fit: _Fit, undetermined: tuple[str, ...], failure: str, sensor: ForceTorque) -> Status:
    if failure:
        return Status.failed(f"{sensor.who}: {failure}.")
    if not fit.converged:
        return Status.failed(
            f"{sensor.who}: no solution was found in {_ITERATIONS} iterations: are these readings "
            "of this sensor at these poses, in N and N·m?"
        )
    if undetermined:
        note = f"These poses do not determine {listing(undetermined, 13)}, alone or together: "
        note += "turn the sensor so that each of its axes points up and down once."
        return Status(True, "Solved in part.", (note,))
    return Status()
