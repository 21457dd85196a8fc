"""Inspection: links, joints, drives and identifiable parameters of a robot as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from bodysense.files import plain
from bodysense.robot.base_parameters import BaseParameters, base_parameters
from bodysense.robot.robot import Robot, require_robot
from bodysense.spatial.arrays import Array


@dataclass(frozen=True)
class LinkInspection:
    """One link: mass [kg], centre of mass [m], and its physical consistency.

    The index is the one in parameter names, 0 a floating base. `feasible` bodies include those
    without volume, whose margin is zero; `consistent` ones do not.
    """

    index: int
    name: str
    mass: float
    com: tuple[float, ...]
    feasible: bool
    consistent: bool
    margin: float
    reason: str


@dataclass(frozen=True)
class JointInspection:
    """One joint with its drive; rad, m, s, N·m, N; limits are infinite where unknown.

    The index counts from 1; the parent of the first joints on a fixed base is "world".
    """

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


@dataclass(frozen=True, eq=False)
class Inspection:
    """Everything about a robot that a table can show; build it with `inspect_robot`."""

    robot: Robot
    base: BaseParameters
    links: tuple[LinkInspection, ...]
    joints: tuple[JointInspection, ...]

    @property
    def total_mass(self) -> float:
        """Of the moving links [kg]."""
        return float(sum(link.mass for link in self.links))

    @property
    def infeasible(self) -> tuple[LinkInspection, ...]:
        """Links that are not physically consistent, not even on the border."""
        return tuple(link for link in self.links if not link.feasible)

    @property
    def flat(self) -> tuple[LinkInspection, ...]:
        """Links without volume: plates, rods, points, and massless links that carry others."""
        return tuple(link for link in self.links if link.feasible and not link.consistent)

    @property
    def couplings(self) -> tuple[tuple[str, str, float], ...]:
        """Motor, other joint that it moves and ratio: the coupling matrix off its diagonal."""
        names, coupling = self.robot.joint_names, self.robot.actuators.coupling
        return tuple(
            (names[motor], names[joint], float(coupling[motor, joint]))
            for motor, joint in np.argwhere(coupling - np.diag(np.diag(coupling)))
        )

    @property
    def coupling_coefficients(self) -> dict[str, float]:
        """Values of the parameters of coupled motors, by name."""
        coupled = self.robot.layout.coupling
        names, values = self.robot.layout.names[coupled], self.robot.theta[coupled]
        return dict(zip(names, values.tolist(), strict=True))

    @property
    def base_values(self) -> dict[str, float]:
        """Present value of every identifiable combination."""
        values = self.base.to_base(self.robot.theta)
        return dict(zip(self.base.names, values.tolist(), strict=True))

    def to_dict(self) -> dict[str, object]:
        """Everything as plain data for JSON; what is infinite or undefined becomes `None`."""
        robot, base = self.robot, self.base
        couplings = [
            {"motor": motor, "joint": joint, "ratio": ratio}
            for motor, joint, ratio in self.couplings
        ]
        combinations = [
            {"expression": name, "value": value} for name, value in self.base_values.items()
        ]
        content: dict[str, object] = plain(
            {
                "name": robot.name,
                "source": robot.source.path if robot.source is not None else "",
                "floating_base": robot.floating_base,
                "total_mass": self.total_mass,
                "gravity": robot.model.gravity.linear.tolist(),
                "friction": robot.friction.model.name,
                "links": self.links,
                "joints": self.joints,
                "couplings": couplings,
                "coupling_coefficients": self.coupling_coefficients,
                "controller_rate": robot.controller.rate if robot.controller else None,
                "n_parameters": robot.layout.size,
                "base": combinations,
                "n_base_inertial": base.n_inertial,
                "n_base_rotor": base.n_rotor,
                "n_base_friction": base.n_friction,
                "weak": base.weak,
                "regrouped": base.regrouped,
                "unidentifiable": base.unidentifiable,
                "notes": robot.notes,
                "consistent": all(link.consistent for link in self.links),
                "feasible": not self.infeasible,
            }
        )
        return content


def inspect_robot(robot: Robot) -> Inspection:
    """Collect the links, joints, drives and base parameters of a robot."""
    require_robot(robot)
    return Inspection(robot, base_parameters(robot), _links(robot), _joints(robot))


def _links(robot: Robot) -> tuple[LinkInspection, ...]:
    checks = zip(robot.link_names, robot.consistency(), robot.structural(), strict=True)
    return tuple(
        LinkInspection(
            index=index,
            name=name,
            mass=check.mass,
            com=tuple(check.com.tolist()),
            feasible=check.feasible or structural,
            consistent=check.consistent,
            margin=check.margin,
            reason=check.reason,
        )
        for index, (name, check, structural) in enumerate(checks, 0 if robot.floating_base else 1)
    )


def _joints(robot: Robot) -> tuple[JointInspection, ...]:
    layout, first = robot.layout, int(robot.floating_base)
    lower, upper = robot.position_limits
    columns: dict[str, Array] = {
        "lower": lower,
        "upper": upper,
        "velocity": robot.velocity_limit,
        "effort": robot.effort_limit,
        "acceleration": robot.acceleration_limit,
        "gear_ratio": robot.actuators.gear_ratio,
        "drive_gain": robot.actuators.drive_gain,
        "rotor_inertia": robot.theta[layout.rotor],
    }
    unlimited = ~(np.isfinite(lower) | np.isfinite(upper))
    result = []
    for k, (name, kind) in enumerate(zip(robot.joint_names, robot.joint_types, strict=True)):
        parent = int(robot.tree.parent[k]) + first
        friction = {
            term: float(robot.theta[layout.friction(term)][k]) for term in layout.friction_terms
        }
        result.append(
            JointInspection(
                index=k + 1,
                name=name,
                type="continuous" if kind == "revolute" and unlimited[k] else kind,
                parent=layout.link_names[parent] if parent >= 0 else "world",
                link=layout.link_names[k + first],
                friction=friction,
                **{key: float(values[k]) for key, values in columns.items()},
            )
        )
    return tuple(result)
