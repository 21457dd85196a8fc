"""Force/torque sensors against the weight of what lies beyond them.

Where nothing touches the links beyond a sensor, or all others, it reads their weight and inertia,

    force  = k G u + b,     u = stated force / stated mass,     k = mass beyond it > 0,
    moment = G (m + h × u) + c,

with G the axes (see `axis_fit`), b and c a bias, m the stated moment, and h the first moment of
what is beyond it besides the model's mass. A force that points the wrong way is a sign, since no
mass is negative, whatever the tool weighs; a scale of another unit is a unit; what is left is the
mass. Samples that stand out, as contacts for some time do, count for nothing. Robots that never
turn the sensor cannot tell bias, tool and mounting apart, and little is said of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from bodysense.doctor.axis_fit import AxisFit, VectorPair, fit_axes, usual_samples
from bodysense.doctor.samples import Mask, layout_edit
from bodysense.doctor.sensor_remedy import file_edit, mount_keys, observed_axes
from bodysense.sensors.sensor import Mount
from bodysense.sensors.wrench_sensors import ForceTorque
from bodysense.spatial.arrays import Array
from bodysense.spatial.se3 import skew
from bodysense.status import BAND, Finding, Severity

_GRAVITY = 9.81  # m/s²
_LEAST_TURN = 0.15
"""Root mean square of what gravity changes in the sensor's frame, in g: 9° to either side."""
_LEAST_MASS = 0.02  # kg: less is no mass beyond a sensor that its readings could be held against
_LEAST_USUAL = 0.5  # share of samples that must agree with each other
_NOT_WEIGHT = 0.2  # share of the forces that nothing explains, from which no mass is told
_BLOCKS = 12  # of time, which are left out in turn for standard deviations
_CERTAIN = 0.1  # share that the right sign may leave unexplained for an error
_UNITS = {"mN": 1e3, "kN": 1e-3, "kgf": 1.0 / _GRAVITY, "gf": 1e3 / _GRAVITY, "lbf": 0.224809}
_MOMENT_UNITS = {"N·mm": 1e3, "N·cm": 1e2, "kgf·m": 1.0 / _GRAVITY, "lbf·in": 8.850746}
_UNIT_TOLERANCE = 1.15  # factor within which a ratio is that of another unit
_EXPLAINED = 0.1  # share that a unit, a sign or an order of moments may leave unexplained
_MASS_OFF, _LEAST_MASS_OFF = 0.1, 0.05  # share of the mass, and kg, that are worth a warning
_COM_OFF = 0.02  # m
_SIGMAS = 5.0  # standard deviations that a difference must have
_LARGE_BIAS = (20.0, 1.0)  # N, N·m: more than a sensor drifts
_OPPOSITE = 0.1  # share of the weight by which a single pose may miss the opposite of it


@dataclass(frozen=True, eq=False)
class WrenchReading:
    """One sensor's readings and what is expected of them, samples that stand out left out.

    Attributes:
        sensor: as the sensors file has it.
        mount: where it sits, the default included.
        y: (T, 6) readings.
        stated: (T, 6) what it should read, without bias.
        u: (T, 3) force per mass beyond it, in its axes.
        mass: of the model's bodies beyond it [kg].
    """

    sensor: ForceTorque
    mount: Mount
    y: Array
    stated: Array
    u: Array
    mass: float

    def usual(self) -> WrenchReading | None:
        """Without samples that stand out; `None` if too few are left."""
        Z = np.column_stack([self.u, self.stated[:, 3:], np.ones(len(self.y))])
        use = usual_samples(Z, self.y)
        return self.some(use) if use.mean() > _LEAST_USUAL else None

    def some(self, use: Mask) -> WrenchReading:
        """Some of the samples."""
        return replace(self, y=self.y[use], stated=self.stated[use], u=self.u[use])

    def turned(self, G: Array) -> WrenchReading:
        """Readings in the axes stated, if they are G times those."""
        parts = [self.y[:, :3] @ G, self.y[:, 3:] @ G]
        return replace(self, y=np.concatenate(parts, axis=1))

    @property
    def force(self) -> VectorPair:
        return VectorPair.of(self.y[:, :3], self.u, biased=True)

    @property
    def sigma(self) -> Array:
        """(6,) stated standard deviations of what it reads beside the wrench."""
        bias = 0.0 if self.sensor.bias_sigma is None else self.sensor.bias_sigma**2
        return np.sqrt(np.diag(self.sensor.covariance) + bias)

    def load(self) -> Array:
        """(10,) k, first moment h (3,), and bias (6,) in the sensor's axes as they are stated.

        By least squares of forces, and then of moments.
        """
        pair = self.force
        k = pair.scale(np.eye(3))
        rest = self.y[:, 3:] - self.stated[:, 3:]
        A = -skew(self.u)  # h × u = -u × h
        mean_A, mean_rest = A.mean(axis=0), rest.mean(axis=0)
        X, r = (A - mean_A).reshape(-1, 3), (rest - mean_rest).reshape(-1)
        h = np.linalg.lstsq(X, r, rcond=1e-6)[0]
        return np.concatenate([[k], h, pair.bias(np.eye(3)), mean_rest - mean_A @ h])

    def load_sigma(self) -> Array:
        """(10,) standard deviations of `load`, from leaving out a block of time after the other."""
        return _jackknife(self, WrenchReading.load)


def wrench_findings(reading: WrenchReading) -> list[Finding]:
    """Sign, axes, units, mass beyond and bias of a force/torque sensor."""
    usual = reading.usual()
    if usual is None:
        return []
    pair = usual.force
    if pair.size < _LEAST_TURN * _GRAVITY or not pair.power > 0.0:
        return _single_pose(usual)
    if _is_exchanged(usual):
        return [_exchanged(usual.sensor)]
    fit = fit_axes(pair)
    if fit.kind == "unclear":
        return []
    findings = [_axes_finding(usual, fit)] if fit.wrong else []
    right = usual.turned(fit.G)
    moments = [] if fit.others else _moments(right)
    units = _units(right)
    if units or moments:
        return [*findings, *units, *moments]
    if (fit.wrong and (fit.flat or fit.others)) or pair.noise > _NOT_WEIGHT:
        return findings
    return [*findings, *_loads(right, fit.G)]


def _axes_finding(reading: WrenchReading, fit: AxisFit) -> Finding:
    sensor = reading.sensor
    keys: dict[str, object] = {}
    if np.linalg.det(fit.G) < 0.0:
        keys["sign"] = -sensor.sign
    turn = mount_keys(reading.mount, fit.rotation)
    if turn and sensor.mount is None:
        keys["link"] = reading.mount.frame
    keys |= turn
    text = f"{observed_axes(fit)}: that leaves {_percent(fit.left)} of the forces unexplained, "
    text += f"the stated mounting {_percent(fit.stated)}, whatever the tool weighs"
    action = f"write {file_edit(sensor, keys)}"
    unclear = bool(fit.others) or fit.flat
    if fit.others:
        text += f"; {len(fit.others)} other turns by right angles would do as well"
        action += "; turn the sensor about another axis too, to tell them apart"
    certain = fit.kind == "reversed" and fit.left < _CERTAIN and not unclear
    kind = "sensor-sign" if fit.kind == "reversed" else "sensor-frame"
    return Finding(kind, "error" if certain else "warning", sensor.who, text, action)


def _is_exchanged(reading: WrenchReading) -> bool:
    """Whether moments are what forces should be, and forces are not."""
    moments = VectorPair.of(reading.y[:, 3:], reading.u, biased=True)
    if not moments.power > 0.0 or moments.size < _LEAST_TURN * _GRAVITY:
        return False
    fit = fit_axes(moments)
    of_force = float(reading.force.unexplained(np.eye(3)))
    return fit.kind == "stated" and fit.left < _EXPLAINED and of_force > 0.5


def _exchanged(sensor: ForceTorque) -> Finding:
    channels = [*sensor.channels[3:], *sensor.channels[:3]]
    text = "its moments read what its forces should: moments come first in this log"
    edit = file_edit(sensor, {"channels": "[" + ", ".join(channels) + "]"})
    return Finding("sensor-frame", "error", sensor.who, text, f"write {edit}")


def _units(reading: WrenchReading) -> list[Finding]:
    """Forces that are off by the ratio of two units, in the right axes."""
    if reading.mass < _LEAST_MASS:
        return []
    ratio = reading.force.scale(np.eye(3)) / reading.mass
    unit = _unit_of(ratio, _UNITS)
    if not unit:
        return []
    text = f"it looks as if its forces were in {unit}: they are {ratio:.3g} times the weight of "
    text += f"the {reading.mass:.3g} kg beyond it"
    return [_unit_finding(reading.sensor, slice(0, 3), _UNITS[unit], text)]


def _moments(reading: WrenchReading) -> list[Finding]:
    """Moments with a sign or a unit of their own, in the right axes."""
    if reading.mass < _LEAST_MASS:
        return []
    pair = VectorPair.of(reading.y[:, 3:], reading.stated[:, 3:], biased=True)
    if not pair.power > 0.0 or not pair.size > 0.0:
        return []
    ratio = pair.scale(np.eye(3)) * reading.mass / reading.force.scale(np.eye(3))
    if float(pair.unexplained(np.sign(ratio) * np.eye(3))) > _EXPLAINED:
        return []
    who = reading.sensor
    if 1.0 / _UNIT_TOLERANCE < -ratio < _UNIT_TOLERANCE:
        text = "its moments, and not its forces, have the opposite sign"
        edit = layout_edit("gain", dict.fromkeys(who.channels[3:], -1))
        return [Finding("sensor-sign", "warning", who.who, text, f"write {edit}")]
    unit = _unit_of(ratio, _MOMENT_UNITS)
    if not unit:
        return []
    text = f"it looks as if its moments were in {unit}: they are {ratio:.3g} times what its forces "
    text += "make of the weight beyond it"
    return [_unit_finding(who, slice(3, 6), _MOMENT_UNITS[unit], text)]


def _unit_of(ratio: float, units: dict[str, float]) -> str:
    for unit, factor in units.items():
        if 1.0 / _UNIT_TOLERANCE < ratio / factor < _UNIT_TOLERANCE:
            return unit
    return ""


def _unit_finding(sensor: ForceTorque, part: slice, factor: float, text: str) -> Finding:
    gains = dict.fromkeys(sensor.channels[part], float(f"{1.0 / factor:.4g}"))
    action = f"write {layout_edit('gain', gains)}"
    return Finding("sensor-unit", "warning", sensor.who, text, action)


def _loads(reading: WrenchReading, G: Array) -> list[Finding]:
    """Mass and centre of mass beyond the sensor, and its bias, with standard deviations."""
    load, sigma = reading.load(), reading.load_sigma()
    who, k, M = reading.sensor.who, float(load[0]), reading.mass
    findings = []
    extra, shift = k - M, load[1:4] / M if M > _LEAST_MASS else np.zeros(3)
    if abs(extra) > max(_SIGMAS * sigma[0], _MASS_OFF * M, _LEAST_MASS_OFF):
        text = f"the mass beyond it is {k:.3g} ± {BAND * sigma[0]:.2g} kg, the model has {M:.3g} kg"
        action = _LOAD
        if extra > 0.0:
            center = _vector(load[1:4] / extra, sigma[1:4] / extra)
            text += f": {extra:.3g} kg more, with their centre at {center} m in its axes"
            action = f"write {_attached(reading.mount, extra, load[1:4] / extra)}, if the robot "
            action += "carries this; otherwise check the gain of the sensor"
        findings.append(Finding("tool-mass", "warning", who, text, action))
    elif (np.abs(shift) > np.maximum(_SIGMAS * sigma[1:4] / max(M, _LEAST_MASS), _COM_OFF)).any():
        text = "the centre of mass beyond it is off by "
        text += f"{_vector(shift, sigma[1:4] / M)} m in its axes"
        findings.append(Finding("tool-mass", "warning", who, text, _LOAD))
    return [*findings, *_bias(reading, G, load, sigma)]


_LOAD = (
    "correct what the model has beyond the sensor, or identify it; if that is right, check the "
    "gain of the sensor"
)


def _attached(mount: Mount, mass: float, com: Array) -> str:
    """The section of a sensors file for a body with its centre at com (3,) in a sensor's axes."""
    center = ", ".join(f"{x:.4f}" for x in mount.p + mount.R @ com)
    body = f"{{frame: {mount.frame}, mass: {mass:.4g}, com: [{center}]}}"
    return f"`attached: [{body}]` into the sensors file"


def _bias(reading: WrenchReading, G: Array, load: Array, sigma: Array) -> list[Finding]:
    bias = np.concatenate([G @ load[4:7], G @ load[7:]])
    err = np.concatenate([np.abs(G) @ sigma[4:7], np.abs(G) @ sigma[7:]])
    if not (np.abs(bias) > np.maximum(3.0 * reading.sigma, _SIGMAS * err)).any():
        return []
    size = np.linalg.norm(bias[:3]), np.linalg.norm(bias[3:])
    large = size[0] > _LARGE_BIAS[0] or size[1] > _LARGE_BIAS[1]
    values = [float(f"{b:.3g}") for b in 1.5 * np.abs(bias)]
    text = "it has a bias of (" + ", ".join(f"{b:.3g}" for b in bias) + ") N, N·m"
    action = f"zero it, or write {file_edit(reading.sensor, {'bias_std': values})}"
    severity: Severity = "warning" if large else "note"
    return [Finding("sensor-bias", severity, reading.sensor.who, text, action)]


def _single_pose(reading: WrenchReading) -> list[Finding]:
    """Without a turn of the sensor, only the exact opposite of the weight is worth a word."""
    y, stated = reading.y.mean(axis=0), reading.stated.mean(axis=0)
    weight, sensor = float(np.linalg.norm(stated[:3])), reading.sensor
    sigma = float(np.linalg.norm(reading.sigma[:3]))
    difference = float(np.linalg.norm((y - stated)[:3]))
    if weight < 3.0 * sigma or difference < 3.0 * sigma:
        return []
    one = "the sensor hardly turns in these samples, so that bias, tool, mounting and contacts "
    one += "look alike"
    rest, moment = y + stated, float(np.linalg.norm(stated[3:]))
    near = float(np.linalg.norm(rest[:3])) < _OPPOSITE * weight
    slack = _OPPOSITE * moment + 3.0 * float(np.linalg.norm(reading.sigma[3:]))
    if near and float(np.linalg.norm(rest[3:])) < slack:
        text = f"it reads the opposite of the {weight:.3g} N beyond it: a wrong sign, or a bias "
        text += f"that happens to be as large; {one}"
        action = f"write {file_edit(sensor, {'sign': -sensor.sign})}, or turn the sensor through "
        return [Finding("sensor-sign", "warning", sensor.who, text, f"{action}several poses")]
    text = f"it reads {difference:.3g} N beside the {weight:.3g} N that the model has beyond it; "
    action = "turn the sensor through several poses to tell them apart"
    return [Finding("sensor-bias", "note", sensor.who, text + one, action)]


def _jackknife(reading: WrenchReading, estimate: Callable[[WrenchReading], Array]) -> Array:
    """Standard deviations of an estimate, errors of neighbouring samples being alike."""
    block = np.arange(len(reading.y)) * _BLOCKS // len(reading.y)
    values = np.stack([estimate(reading.some(block != k)) for k in range(_BLOCKS)])
    return np.asarray(np.sqrt((_BLOCKS - 1) * values.var(axis=0)))


def _vector(x: Array, sigma: Array) -> str:
    return "(" + ", ".join(f"{a:.3f} ± {BAND * s:.2g}" for a, s in zip(x, sigma, strict=True)) + ")"


def _percent(share: float) -> str:
    return f"{100.0 * share:.{0 if share > 0.01 else 1}f} %"
