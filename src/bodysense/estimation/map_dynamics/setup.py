"""`EstimationSetup`: everything that an estimator needs besides the robot.

`bodysense.estimation.map_dynamics.setup_file` reads it from a file.

The constant error of a sensor, its bias b ~ N(0, bias_sigma²), cannot be separated from its noise
at a single sample: there the reading has the covariance of both,

    Cov(y) = covariance + diag(bias_sigma²).

Over a log it is, and `problem_of_log` leaves it to be estimated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from bodysense.errors import ShapeError, unknown_name
from bodysense.estimation.map_dynamics.base_motion import StandingFeet
from bodysense.estimation.map_dynamics.estimator import MapDynamics
from bodysense.estimation.map_dynamics.priors import Assumptions, GaussianPrior
from bodysense.estimation.map_dynamics.state.tracking import JERK
from bodysense.robot.frames import with_payload
from bodysense.robot.robot import Robot
from bodysense.sensors.motion_sensors import Encoder, Orientation
from bodysense.sensors.sensor import Sensor
from bodysense.spatial.arrays import Array

StateMethod = Literal["track", "smooth"]
STATE_METHODS: tuple[StateMethod, ...] = ("track", "smooth")
"""How positions may be estimated."""

QUANTITIES = ("q", "dq", "ddq")
"""What a prior of the first sample may be about."""


@dataclass(frozen=True, eq=False)
class StateSetup:
    """The method, and priors of the first sample.

    Attributes:
        method: ``track``, from sample to sample with the readings up to each, or ``smooth``, with
            all readings of a window.
        window: samples that are smoothed together.
        jerk: (n,) or one, spectral density of each joint's jerk [(rad/s³)² s].
        priors: at the first sample, by ``q.<joint>``, ``dq.<joint>`` and ``ddq.<joint>``; the
            others come from the first readings.
    """

    method: StateMethod = "track"
    window: int = 200
    jerk: Array | float = JERK
    priors: Mapping[str, GaussianPrior] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.method not in STATE_METHODS:
            raise unknown_name("method of a state", str(self.method), STATE_METHODS)
        if self.window < 2:
            raise ShapeError(f"the window of a state is {self.window}: give 2 samples or more.")
        if not (np.asarray(self.jerk) > 0.0).all():
            raise ShapeError(
                "the jerk of a state is not positive: give spectral densities above 0."
            )


@dataclass(frozen=True, eq=False)
class AttachedBody:
    """A known tool or payload that the robot carries and its description does not contain.

    Attributes:
        frame: that it is fixed to: a link, or a frame fixed to one.
        mass: [kg].
        com: (3,) centre of mass in that frame [m].
        inertia: (3, 3) about the centre of mass, in the axes of that frame [kg·m²]; `None`: a point
            mass.
    """

    frame: str
    mass: float
    com: Array = field(default_factory=lambda: np.zeros(3))
    inertia: Array | None = None

    def on(self, robot: Robot) -> Robot:
        """The robot that carries it; see `bodysense.robot.with_payload`."""
        return with_payload(robot, self.mass, link=self.frame, com=self.com, inertia=self.inertia)


@dataclass(frozen=True, eq=False)
class EstimationSetup:
    """Sensors, priors, the root of the tree and what the robot carries.

    Attributes:
        sensors: that the robot carries.
        assumptions: priors, and how exact the equations are.
        base: link at the root of the tree; `None`: the robot's base.
        fixed: whether the root is held still; `None`: as the robot's base is.
        gravity: (3,) in the frame of a root that is held [m/s²]; `None`: the robot's own.
        notes: what the user should know, e.g. which sensors of a URDF were left out.
        state: how positions and velocities are to be estimated; `None`: they are taken as they
            were recorded, where they were.
        attached: tools and payloads that the description of the robot does not contain.
        standing: feet that stand while the root floats.
    """

    sensors: tuple[Sensor, ...] = ()
    assumptions: Assumptions = field(default_factory=Assumptions)
    base: str | None = None
    fixed: bool | None = None
    gravity: Array | None = None
    notes: tuple[str, ...] = ()
    state: StateSetup | None = None
    attached: tuple[AttachedBody, ...] = ()
    standing: StandingFeet = field(default_factory=StandingFeet)

    def robot(self, robot: Robot) -> Robot:
        """The robot that estimates: with what is attached to it. Give that of the description."""
        for body in self.attached:
            robot = body.on(robot)
        return robot

    def problem(self, robot: Robot) -> MapDynamics:
        """The estimator of this robot, sample by sample: biases are among the noise."""
        return self.problem_with(robot, [_at_a_sample(sensor) for sensor in self.used])

    def problem_of_log(self, robot: Robot) -> MapDynamics:
        """The same for `consistency` and `estimate_covariances`, which find biases from a log.

        Readings are laid out as in `problem`. The bias of a sensor whose covariance is singular
        stays among its noise: see `Biases`.
        """
        return self.problem_with(robot, self.log_sensors)

    def problem_with(self, robot: Robot, sensors: Sequence[Sensor]) -> MapDynamics:
        """The estimator with other sensors, whose biases stay what they are."""
        whole = self.robot(robot)
        return MapDynamics(whole, sensors, self.assumptions, base=self.base, fixed=self.fixed)

    @property
    def log_sensors(self) -> list[Sensor]:
        """Sensors of `problem_of_log`."""
        return [s if _of_full_rank(s) else _at_a_sample(s) for s in self.used]

    @property
    def constant_positions(self) -> dict[str, float]:
        """Positions by joint that `constant:` encoders state, where no channel is needed."""
        return {
            s.joint: float(s.reading(np.zeros(0))[0])
            for s in self.sensors
            if isinstance(s, Encoder) and not s.channels
        }

    @property
    def used(self) -> tuple[Sensor, ...]:
        """Sensors that depend on the dynamics once positions are known: not orientations."""
        return tuple(s for s in self.sensors if not isinstance(s, Orientation))

    @property
    def unused(self) -> tuple[Sensor, ...]:
        """The others."""
        return tuple(s for s in self.sensors if isinstance(s, Orientation))


def _of_full_rank(sensor: Sensor) -> bool:
    return bool(np.linalg.matrix_rank(sensor.covariance, hermitian=True) == sensor.size)


def _at_a_sample(sensor: Sensor) -> Sensor:
    """The sensor with its bias among its noise."""
    if sensor.bias_sigma is None:
        return sensor
    covariance = sensor.covariance + np.diag(sensor.bias_sigma**2)
    return replace(sensor, covariance=covariance, bias_sigma=None)
