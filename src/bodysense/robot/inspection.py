"""Inspection: links, joints, drives and identifiable parameters of a robot as plain data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np

from bodysense.robot.base_parameters import base_parameters
from bodysense.robot.model import is_prismatic, one_axis_joints
from bodysense.robot.robot import Robot
from bodysense.spatial.arrays import Array

WORLD = "world"
"""Stands for the parent of the first joints of a robot on a fixed base."""


@dataclass(frozen=True)
class LinkInspection:
    """One link: mass [kg], centre of mass [m], and its physical consistency.

    `feasible` bodies include those without volume, whose margin is zero; `consistent` ones do not.
    """

    index: int
    name: str
    mass: float
    com: tuple[float, float, float]
    feasible: bool
    consistent: bool
    margin: float
    reason: str


@dataclass(frozen=True)
class JointInspection:
    """One joint with its drive; rad, m, s, N·m, N; limits are infinite where unknown."""

    index: int
    name: str
    type: str
    parent: str
    link: str
    lower: float
    upper: float
    velocity: float
    effort: float
    acceleration: float
    gear_ratio: float
    drive_gain: float
    rotor_inertia: float
    friction: Mapping[str, float]


@dataclass(frozen=True)
class CouplingInspection:
    """A motor that moves another joint too, and by how much."""

    motor: str
    joint: str
    ratio: float


@dataclass(frozen=True)
class BaseParameterInspection:
    """One identifiable combination of parameters, with its present value."""

    expression: str
    value: float


@dataclass(frozen=True)
class Inspection:
    """Everything about a robot that a table can show; build it with `inspect_robot`.

    Attributes:
        name: of the robot.
        source: path of its file, "" if there is none.
        floating_base: whether its base floats.
        total_mass: of the moving links [kg].
        gravity: [m/s²].
        friction: name of the friction law.
        links: see `LinkInspection`; the index is the one in parameter names, 0 a floating base.
        joints: see `JointInspection`; indices count from 1.
        couplings: entries of the coupling matrix off its diagonal.
        coupling_coefficients: values of the parameters of coupled motors, by name.
        controller_rate: of the joint controller that comes with it [Hz], `None` if unknown.
        n_parameters: length of theta.
        base: the identifiable combinations.
        n_base_inertial: number of these led by an inertial parameter of a link.
        n_base_rotor: number led by a rotor inertia.
        n_base_friction: number led by a friction or coupling coefficient.
        regrouped: parameters identifiable only within a combination.
        unidentifiable: parameters without any effect on the motion.
        notes: what the loader had to decide.
    """

    name: str
    source: str
    floating_base: bool
    total_mass: float
    gravity: tuple[float, float, float]
    friction: str
    links: tuple[LinkInspection, ...]
    joints: tuple[JointInspection, ...]
    couplings: tuple[CouplingInspection, ...]
    coupling_coefficients: Mapping[str, float]
    controller_rate: float | None
    n_parameters: int
    base: tuple[BaseParameterInspection, ...]
    n_base_inertial: int
    n_base_rotor: int
    n_base_friction: int
    weak: tuple[str, ...]
    regrouped: tuple[str, ...]
    unidentifiable: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def infeasible(self) -> tuple[LinkInspection, ...]:
        """Links that are not physically consistent, not even on the border."""
        return tuple(link for link in self.links if not link.feasible)

    @property
    def flat(self) -> tuple[LinkInspection, ...]:
        """Links without volume: plates, rods, points, and massless links that carry others."""
        return tuple(link for link in self.links if link.feasible and not link.consistent)

    def to_dict(self) -> dict[str, object]:
        """Everything as plain data for JSON; what is infinite or undefined becomes `None`."""
        content = {key: _plain(value) for key, value in asdict(self).items()}
        content["consistent"] = all(link.consistent for link in self.links)
        content["feasible"] = not self.infeasible
        return content


def inspect_robot(robot: Robot) -> Inspection:
    """Collect the links, joints, drives and base parameters of a robot."""
    base = base_parameters(robot)
    values = base.to_base(robot.theta)
    coupled = robot.layout.coupling
    return Inspection(
        name=robot.name,
        source=robot.source.path if robot.source is not None else "",
        floating_base=robot.floating_base,
        total_mass=float(sum(robot.pi(k)[0] for k in range(robot.layout.n_links))),
        gravity=_three(robot.model.gravity.linear),
        friction=robot.friction.model.name,
        links=_links(robot),
        joints=_joints(robot),
        couplings=_couplings(robot),
        coupling_coefficients=dict(
            zip(robot.layout.names[coupled], robot.theta[coupled].tolist(), strict=True)
        ),
        controller_rate=robot.controller.rate if robot.controller is not None else None,
        n_parameters=robot.layout.size,
        base=tuple(
            BaseParameterInspection(name, float(value))
            for name, value in zip(base.names, values, strict=True)
        ),
        n_base_inertial=base.n_inertial,
        n_base_rotor=base.n_rotor,
        n_base_friction=base.n_friction,
        weak=base.weak,
        regrouped=base.regrouped,
        unidentifiable=base.unidentifiable,
        notes=robot.notes,
    )


def _links(robot: Robot) -> tuple[LinkInspection, ...]:
    first = 0 if robot.floating_base else 1
    return tuple(
        LinkInspection(
            index=first + k,
            name=name,
            mass=check.mass,
            com=_three(check.com),
            feasible=check.feasible or structural,
            consistent=check.consistent,
            margin=check.margin,
            reason=check.reason,
        )
        for k, (name, check, structural) in enumerate(
            zip(robot.link_names, robot.consistency(), robot.structural(), strict=True)
        )
    )


def _joints(robot: Robot) -> tuple[JointInspection, ...]:
    model, layout = robot.model, robot.layout
    lower, upper = robot.position_limits
    velocity, effort = robot.velocity_limit, robot.effort_limit
    rotor = robot.theta[layout.rotor]
    friction = {term: robot.theta[layout.friction(term)] for term in layout.friction_terms}
    result = []
    for k, joint in enumerate(one_axis_joints(model)):
        parent = int(model.parents[joint])
        kind = "prismatic" if is_prismatic(model, joint) else "revolute"
        if kind == "revolute" and not (np.isfinite(lower[k]) or np.isfinite(upper[k])):
            kind = "continuous"
        result.append(
            JointInspection(
                index=k + 1,
                name=layout.joint_names[k],
                type=kind,
                parent=layout.link_names[parent - 1] if parent > 0 else WORLD,
                link=layout.link_names[joint - 1],
                lower=float(lower[k]),
                upper=float(upper[k]),
                velocity=float(velocity[k]),
                effort=float(effort[k]),
                acceleration=float(robot.acceleration_limit[k]),
                gear_ratio=float(robot.actuators.gear_ratio[k]),
                drive_gain=float(robot.actuators.drive_gain[k]),
                rotor_inertia=float(rotor[k]),
                friction={term: float(values[k]) for term, values in friction.items()},
            )
        )
    return tuple(result)


def _couplings(robot: Robot) -> tuple[CouplingInspection, ...]:
    names, coupling = robot.joint_names, robot.actuators.coupling
    off_diagonal = np.argwhere(coupling - np.diag(np.diag(coupling)))
    return tuple(
        CouplingInspection(names[motor], names[joint], float(coupling[motor, joint]))
        for motor, joint in off_diagonal
    )


def _three(vector: Array) -> tuple[float, float, float]:
    return float(vector[0]), float(vector[1]), float(vector[2])


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
