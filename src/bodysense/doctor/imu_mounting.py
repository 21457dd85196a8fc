"""Gyroscopes and accelerometers against the motion of the link that they are mounted on.

The joints move a link of a robot that stands in a known way, and turn gravity in its frame: from
that follows what its sensors should read, and how they are mounted (see `axis_fit`). A gyroscope
may have a bias, so that only what changes counts; an accelerometer is known well enough for its
mean, so that even a robot at rest tells where up is, but not what is turned about that.

Other units are found in `units`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from bodysense.doctor.axis_fit import AxisFit, VectorPair, fit_axes, usual_samples
from bodysense.doctor.samples import layout_edit
from bodysense.doctor.sensor_remedy import observed_axes, vector_edit
from bodysense.sensors.link_motion import LinkMotion
from bodysense.sensors.motion_sensors import Accelerometer, Gyroscope
from bodysense.spatial.arrays import Array
from bodysense.status import Finding

_LEAST_SPEED = 0.03  # rad/s, rms: below, a gyroscope has nothing to be compared with
_NOT_MOVING = 0.3  # share that nothing explains, from which the motion is not the one assumed
_AGREES = 0.1  # share that another sensor, or a link at rest, may leave unexplained
_LEAST_LEFT, _WRONG_AXES = 1e-4, 1.0
"""No share left counts for less, and what other axes cost: logarithms."""
_CERTAIN = 0.05  # share that other axes may leave for an error instead of a warning
_SCALE = 1.15  # factor: beyond, a scale is worth a warning
_KNOWN = (180.0 / np.pi, 60.0 / (2.0 * np.pi), 0.5 / np.pi, 1.0 / 9.81, 100.0, 1000.0)
"""Factors of other units, which `units` reports."""
_UNIT_TOLERANCE = 1.25

Imu = Gyroscope | Accelerometer


def imu_findings(sensor: Imu, y: Array, u: Array) -> list[Finding]:
    """Axes, sign and scale of one sensor.

    Args:
        sensor: as the sensors file has it.
        y: (T, 3) readings.
        u: (T, 3) what it should read, without bias.
    """
    fit, pair = fit_imu(sensor, y, u)
    if fit is None:
        return []
    if fit.wrong:
        return _axes(sensor, fit)
    k = pair.scale(np.eye(3))
    usual = any(1.0 / _UNIT_TOLERANCE < k / known < _UNIT_TOLERANCE for known in _KNOWN)
    if fit.kind == "unclear" or usual or 1.0 / _SCALE < k < _SCALE:
        return []
    gain = float(f"{1.0 / k:.3g}")
    return [
        Finding(
            "sensor-scale",
            "warning",
            sensor.who,
            f"it reads {k:.3g} times what the motion of the joints gives",
            f"check its range setting, or write "
            f"{layout_edit('gain', dict.fromkeys(sensor.channels, gain))}",
        )
    ]


def fit_imu(sensor: Imu, y: Array, u: Array) -> tuple[AxisFit | None, VectorPair]:
    """The axes that explain readings y (T, 3) best; `None` if there is too little to tell."""
    use = usual_samples(np.column_stack([u, np.ones(len(u))]), y)
    pair = VectorPair.of(y[use], u[use], biased=isinstance(sensor, Gyroscope))
    enough = pair.size > _LEAST_SPEED if isinstance(sensor, Gyroscope) else pair.size > 0.0
    if not enough or not pair.power > 0.0 or pair.noise > _NOT_MOVING:
        return None, pair
    return fit_axes(pair), pair


def floating_imu_findings(
    imus: Sequence[Imu], motion: LinkMotion, readings: Mapping[str, Array], touched: Collection[str]
) -> list[Finding]:
    """IMUs of a robot that floats: against each other, and against links that may stand still.

    Each gyroscope says how the base turns, and so does each link that is touched, if it stands on
    the ground; each accelerometer says where gravity is. The one that explains most of the others
    is taken for right.

    Args:
        imus: on any links.
        motion: of the robot, whatever its base does.
        readings: (T, 3) by sensor, NaN where there is none.
        touched: links that may stand on the ground.
    """
    findings = []
    for kind in (Gyroscope, Accelerometer):
        alike = [s for s in imus if isinstance(s, kind)]
        rates = _RelativeRates(motion, kind is Gyroscope)
        bases = [(s.name, rates.base(s, readings[s.name])) for s in alike]
        if kind is Gyroscope:
            bases = [*((link, -rates.of_link(link)) for link in touched), *bases]
        best, told = 0.0, list[Finding]()
        for owner, base in bases:
            others = [s for s in alike if s.name != owner]
            judged = [_beside(s, readings[s.name], rates.expected(s, base)) for s in others]
            score = sum(score for score, _ in judged)
            if score > best:
                best, told = score, [finding for _, found in judged for finding in found]
        findings += told
    return findings


class _RelativeRates:
    """Vectors of the base in the axes of sensors, angular velocities of the joints added."""

    def __init__(self, motion: LinkMotion, turning: bool) -> None:
        self.motion, self.links = motion, motion.robot.link_names
        w = np.einsum("ktij,ktj->kti", motion.R, motion.twist[..., 3:])
        self.rates = w - w[0] if turning else np.zeros_like(w)

    def of_link(self, link: str) -> Array:
        """(T, 3) angular velocity of a link relative to the base, in base coordinates."""
        return np.asarray(self.rates[self.links.index(link)])

    def base(self, sensor: Imu, y: Array) -> Array:
        """(T, 3) of the base, from readings of a sensor anywhere."""
        place = sensor.placement(self.motion.robot)
        k = self.links.index(place.link)
        of_base = np.einsum("tij,tj->ti", self.motion.R[k], y @ place.R.T) - self.rates[k]
        return np.asarray(of_base)

    def expected(self, sensor: Imu, base: Array) -> Array:
        """(T, 3) what a sensor should read if the base has these."""
        place = sensor.placement(self.motion.robot)
        k = self.links.index(place.link)
        of_link = np.einsum("tji,tj->ti", self.motion.R[k], base + self.rates[k])
        return np.asarray(of_link @ place.R)


def _beside(sensor: Imu, y: Array, u: Array) -> tuple[float, list[Finding]]:
    """How much u explains of the readings, the logarithm of what it leaves, and what is found."""
    use = np.isfinite(y).all(axis=1) & np.isfinite(u).all(axis=1)
    if not use.any():
        return 0.0, []
    fit, pair = fit_imu(sensor, y[use], u[use])
    if fit is None or fit.kind == "unclear" or pair.noise > _AGREES:
        return 0.0, []
    if not 1.0 / _SCALE < pair.scale(fit.G) < _SCALE:
        return 0.0, []
    score = -float(np.log(max(fit.left, _LEAST_LEFT)))
    return score - (_WRONG_AXES if fit.wrong else 0.0), _axes(sensor, fit)


def _axes(sensor: Imu, fit: AxisFit) -> list[Finding]:
    return [_axes_finding(sensor, fit)] if fit.wrong else []


def _axes_finding(sensor: Imu, fit: AxisFit) -> Finding:
    certain = fit.left < _CERTAIN and fit.stated > 0.5 and not fit.flat
    rests = isinstance(sensor, Accelerometer)
    text = f"{observed_axes(fit)}: that leaves {_percent(fit.left)} of its readings unexplained, "
    text += f"the stated mounting {_percent(fit.stated)}"
    action = vector_edit(sensor, sensor.mount, fit)
    if rests and fit.kind == "reversed":
        text = "it reads gravity itself, 9.81 m/s² downward at rest, instead of the proper "
        text += f"acceleration, 9.81 upward: {_percent(fit.left)} is left unexplained so"
        action += ", or is it mounted upside down?" if fit.flat or fit.others else ""
    elif fit.flat or fit.others:
        text += "; what is turned about " + ("gravity" if rests else "the axis of motion")
        text += ", these samples cannot tell"
        action = "check how it is mounted, and move it through several directions; of right angles "
        action += f"the nearest is: {vector_edit(sensor, sensor.mount, fit)}"
    kind = "sensor-sign" if fit.kind == "reversed" else "sensor-frame"
    return Finding(kind, "error" if certain else "warning", sensor.who, text, action)


def _percent(share: float) -> str:
    return f"{100.0 * share:.{0 if share > 0.01 else 1}f} %"
