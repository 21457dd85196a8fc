"""`Help`: which sensor, or which assumption, would make most of the rest observable; all are tried.

Tried are the torque of each joint, a force/torque sensor at each joint, an accelerometer on each
link and the knowledge that nothing touches a link. The gain of one is the mean logarithm of how
many times narrower it makes the standard deviations of what is unobservable. An assumption about
a link is no answer to the question what touches that link: its gain is that of the wrenches on
other links. Nor is it one about a link that may carry a robot that floats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bodysense.errors import BodysenseError
from bodysense.estimation.map_dynamics.estimator import MapDynamics
from bodysense.sensors.motion_sensors import Accelerometer, JointAcceleration, JointTorque
from bodysense.sensors.sensor import Mount, Sensor, variances
from bodysense.sensors.urdf_sensors import TYPICAL_STD
from bodysense.sensors.wrench_sensors import ExternalWrench, ForceTorque
from bodysense.spatial.arrays import Array

_TORQUE_STD = 0.1  # N·m
_ACCELERATION_STD = 0.1  # rad/s²
_NO_CONTACT_STD = 1e-3  # N, N·m
_LEAST_GAIN = 1e-3  # that is worth a suggestion
_GRAVITY = 9.81  # m/s²
_CARRIES = 0.5
"""Share of its weight that a link must be able to bear, at two sigma, to be one that carries it."""


@dataclass(frozen=True)
class Help:
    """Something that would help.

    Attributes:
        kind: of the sensor.
        place: joint or link.
        gain: mean of log(standard deviation without it / with it) of what is unobservable; for an
            assumption of the external wrenches on other links alone.
    """

    kind: str
    place: str
    gain: float

    @property
    def assumes(self) -> bool:
        """Whether it is no sensor, but an assumption, which must be true."""
        return self.kind == ExternalWrench.kind

    def __str__(self) -> str:
        words = {
            "joint_torque": "a joint torque sensor at {}",
            "force_torque": "a force/torque sensor at {}",
            "accelerometer": "an accelerometer with a gyroscope on {}",
            "joint_acceleration": "the acceleration of {}, from its encoder",
            "external_wrench": "the assumption that nothing touches {}",
        }[self.kind]
        return f"{words.format(self.place)} ({np.exp(self.gain):.3g} times narrower on average)"


def helpful(
    problem: MapDynamics,
    spread: Callable[[MapDynamics], Array],
    after: Array,
    missing: NDArray[np.bool_],
    count: int,
) -> tuple[Help, ...]:
    """The best sensors to add, the best first, and behind them the best assumption.

    `spread` gives (T, size) standard deviations of a problem, `after` are those of this one, and
    `missing` (size,) is what should be observable.
    """
    if count < 1:
        return ()
    result = []
    for place, sensor in _candidates(problem):
        asked = missing
        if sensor.kind == ExternalWrench.kind:
            asked = missing & _wrenches_on_others(problem, place)
        if not asked.any():
            continue
        try:
            other = problem.with_sensors((*problem.sensors, sensor))
        except BodysenseError:
            continue  # it cannot sit there
        gain = np.log(np.maximum(after, 1e-12) / np.maximum(spread(other), 1e-12))
        result.append(Help(sensor.kind, place, float(gain[:, asked].mean())))
    result = sorted(
        (item for item in result if item.gain > _LEAST_GAIN), key=lambda item: -item.gain
    )
    sensors = [item for item in result if not item.assumes]
    assumptions = [item for item in result if item.assumes]
    return (*sensors[:count], *assumptions[:1])


def _wrenches_on_others(problem: MapDynamics, link: str) -> NDArray[np.bool_]:
    """(size,) which numbers are external wrenches, but not on this link."""
    mask = np.zeros(problem.variables.size, dtype=bool)
    for name, where in problem.variables.slices.items():
        mask[where] = name.startswith("fx.") and name != f"fx.{link}"
    return mask


def _candidates(problem: MapDynamics) -> Iterator[tuple[str, Sensor]]:
    tree, priors = problem.tree, problem.assumptions
    name = _free_name(problem)
    for i in tree.with_unknowns:
        link = tree.names[i]
        mount = Mount(link)
        std = variances(TYPICAL_STD["accelerometer"], 3)
        yield link, Accelerometer(name=name, mount=mount, covariance=std)
        if priors.wrench_of(link).covariance.any() and not _may_carry(problem, link):
            std = variances(_NO_CONTACT_STD, 6)
            yield link, ExternalWrench(name=name, mount=mount, covariance=std)
        if i == 0:
            continue
        joint = tree.joint_name(i)
        yield joint, JointTorque(name=name, joint=joint, covariance=variances(_TORQUE_STD, 1))
        std = variances(_ACCELERATION_STD, 1)
        yield joint, JointAcceleration(name=name, joint=joint, covariance=std)
        std = variances(TYPICAL_STD["force_torque"], 6)
        yield joint, ForceTorque(name=name, joint=joint, covariance=std)


def _may_carry(problem: MapDynamics, link: str) -> bool:
    """Whether a floating robot may stand or hang on this link: its prior or a sensor says so."""
    if not problem.tree.floating:
        return False
    for sensor in problem.sensors:  # what touches it is measured
        if isinstance(sensor, ExternalWrench) and sensor.placement(problem.robot).link == link:
            return True
    robot, prior = problem.robot, problem.assumptions.wrench_of(link)
    weight = _GRAVITY * sum(robot.pi(k)[0] for k in range(robot.layout.n_links))
    widest = float(np.sqrt(np.linalg.eigvalsh(prior.covariance[:3, :3]).max()))
    return bool(np.linalg.norm(prior.mean[:3]) + 2.0 * widest >= _CARRIES * weight)


def _free_name(problem: MapDynamics) -> str:
    taken = {sensor.name for sensor in problem.sensors}
    name = "tried"
    while name in taken:
        name += "'"
    return name
