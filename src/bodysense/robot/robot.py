"""`Robot`: a body with links, joints, drives and friction, and all of its parameters.

A robot is immutable. What changes it returns a new one: `with_parameters`, `with_friction`,
`with_locked_joints`. It owns its Pinocchio model: copy `robot.model` before you change it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING

import numpy as np
import pinocchio as pin
from numpy.typing import ArrayLike

from bodysense.errors import ShapeError, require_type
from bodysense.robot._kernels.tree import Tree
from bodysense.robot.actuators import Actuators, Controller
from bodysense.robot.friction import Friction, FrictionModel, friction_model
from bodysense.robot.layout import ParameterLayout
from bodysense.robot.model import (
    check_sensors,
    initial_parameters,
    joint_limits,
    kernel_tree,
    link_inertia,
    normalise_model,
    one_axis_joints,
    require_feasible_links,
)
from bodysense.robot.source import Source
from bodysense.spatial.arrays import Array, as_array, one_each, read_only
from bodysense.spatial.pseudo_inertia import (
    PhysicalConsistency,
    inertia_at_com,
    physical_consistency,
    pi_from_mass_com_inertia,
)

if TYPE_CHECKING:
    from bodysense.robot.locking import LockedJoints
    from bodysense.sensors.sensor import Sensor


@dataclass(frozen=True, eq=False)
class Robot:
    """An articulated body. Build one with `bodysense.load_robot` or `Robot.from_pinocchio`.

    Attributes:
        name: of the robot.
        model: the Pinocchio model that bodysense owns; never change it in place.
        layout: names of all parameters.
        theta: (layout.size,) all parameters, read-only.
        friction: the friction law and its shape per joint.
        actuators: gears, drive gains, couplings.
        controller: the joint controller that the robot comes with, if known.
        acceleration_limit: (n_joints,) rad/s² or m/s², infinite where unknown.
        source: the file behind it, if any.
        notes: what the loader had to decide, in words.
        sensors: mounted on it.
        locked: joints that stand still and are no part of it, if any.
    """

    name: str
    model: pin.Model
    layout: ParameterLayout
    theta: Array
    friction: Friction
    actuators: Actuators
    acceleration_limit: Array
    controller: Controller | None = None
    source: Source | None = None
    notes: tuple[str, ...] = ()
    sensors: tuple[Sensor, ...] = ()
    locked: LockedJoints | None = None

    @classmethod
    def from_pinocchio(
        cls,
        model: pin.Model,
        *,
        friction: Friction | None = None,
        coefficients: Mapping[str, ArrayLike] | None = None,
        actuators: Actuators | None = None,
        controller: Controller | None = None,
        acceleration_limit: ArrayLike = np.inf,
        source: Source | None = None,
        notes: tuple[str, ...] = (),
        allow_inconsistent: bool = True,
    ) -> Robot:
        """Build a robot from a Pinocchio model, which is copied and not changed.

        Args:
            model: joints revolute, continuous or prismatic; a free flyer as the first one.
            friction: by default viscous and Coulomb.
            coefficients: values by prefix, one number or one per joint: friction terms ("Fv",
                "Fc", …; default: the model's damping and friction), "Ia" (default: the model's
                armature), and coupling terms ("Fvm", …).
            actuators: by default direct drives without coupling.
            controller: if known.
            acceleration_limit: one number or one per joint.
            source: the file behind it.
            notes: what the loader had to decide.
            allow_inconsistent: accept links with infeasible inertia.

        Raises:
            UnsupportedJointError: a joint with several axes.
            InconsistentInertiaError: unless `allow_inconsistent`.
        """
        where = source.path if source is not None else f"robot {model.name!r}"
        own = normalise_model(model)
        n = len(one_axis_joints(own))
        friction = friction or Friction.from_model("coulomb", n)
        actuators = actuators or Actuators.from_values(n)
        layout, theta = initial_parameters(own, friction, actuators, coefficients or {}, where)
        own.damping = own.friction = np.zeros(own.nv)  # theta holds them from now on
        limit = one_each(acceleration_limit, n, "acceleration_limit", infinite=True)
        robot = cls(
            name=own.name,
            model=own,
            layout=layout,
            theta=theta,
            friction=friction,
            actuators=actuators,
            acceleration_limit=read_only(limit),
            controller=controller,
            source=source,
            notes=notes,
        ).with_parameters(theta)
        if not allow_inconsistent:
            require_feasible_links(robot, where)
        return robot

    def __getstate__(self) -> dict[str, object]:
        # The tree may hold an address of this process (a friction law of the user's).
        return {name: value for name, value in self.__dict__.items() if name != "tree"}

    def __post_init__(self) -> None:
        sizes = {"friction": len(self.friction.shape), "set of actuators": self.actuators.n_joints}
        if self.controller is not None:
            sizes["controller"] = self.controller.kp.size
        for part, size in sizes.items():
            if size != self.n_joints:
                raise ShapeError(
                    f"robot {self.name!r} has {self.n_joints} joints, but the {part} is for {size}."
                )

    @property
    def floating_base(self) -> bool:
        """Whether the robot floats: the first six velocities are those of its base."""
        return self.layout.floating_base

    @property
    def n_joints(self) -> int:
        return self.layout.n_joints

    @property
    def nq(self) -> int:
        """Length of q: 7 for a floating base (position, quaternion xyzw), 1 per joint."""
        return int(self.model.nq)

    @property
    def nv(self) -> int:
        """Length of v: 6 for a floating base (linear first, in base coordinates), 1 per joint."""
        return int(self.model.nv)

    @property
    def joint_names(self) -> tuple[str, ...]:
        return self.layout.joint_names

    @property
    def link_names(self) -> tuple[str, ...]:
        return self.layout.link_names

    @property
    def position_limits(self) -> tuple[Array, Array]:
        """Lower and upper limits of the joints, (n_joints,) each, infinite where there are none."""
        return joint_limits(self.model, self.n_joints)[:2]

    @property
    def position_range(self) -> tuple[Array, Array]:
        """What the joints are known to do: limits, infinite also where lower is not below upper.

        Robot files leave limits out, which URDF reads as 0.
        """
        lower, upper = self.position_limits
        return np.where(lower < upper, lower, -np.inf), np.where(lower < upper, upper, np.inf)

    @property
    def velocity_limit(self) -> Array:
        """(n_joints,) infinite where unknown."""
        return joint_limits(self.model, self.n_joints)[2]

    @property
    def effort_limit(self) -> Array:
        """(n_joints,) infinite where unknown."""
        return joint_limits(self.model, self.n_joints)[3]

    @cached_property
    def tree(self) -> Tree:
        """The robot's geometry, friction law and couplings as plain arrays for the kernels."""
        return kernel_tree(self.model, self.friction, self.actuators)

    @property
    def joint_types(self) -> tuple[str, ...]:
        """``revolute`` or ``prismatic``, joint by joint."""
        return tuple("prismatic" if slides else "revolute" for slides in self.tree.prismatic)

    @property
    def origin(self) -> dict[str, object]:
        """Name, file, digest and locked joints, for provenance."""
        source = {} if self.source is None else self.source.origin
        locked = {} if self.locked is None else {"locked": dict(self.locked.positions)}
        return {"name": self.name, **source, **locked}

    def __repr__(self) -> str:
        return f"<Robot {self.summary()}>"

    def summary(self) -> str:
        mass = sum(self.pi(k)[0] for k in range(self.layout.n_links))
        return (
            f"{self.name}: {self.n_joints} joints, {'floating' if self.floating_base else 'fixed'} "
            f"base, {mass:.4g} kg, {self.layout.size} parameters, "
            f"friction {self.friction.model.name!r}"
        )

    def pi(self, link: int | str) -> Array:
        """(10,) inertial parameters of a link, by position or name."""
        return self.theta[self.layout.link(link)]

    def parameter(self, name: str) -> float:
        """One parameter by name, e.g. ``robot.parameter("ZZ1")``."""
        return float(self.theta[self.layout.index(name)])

    def with_parameters(self, theta: ArrayLike) -> Robot:
        """Return the same robot with other parameters, consistent or not.

        Raises:
            ShapeError: wrong length, NaN, or a massless link with a first moment, which no
                rigid-body library can represent (the kernels can: give them theta itself).
        """
        values = as_array(theta, (self.layout.size,), "theta")
        model = self.model.copy()
        for k, name in enumerate(self.link_names):
            model.inertias[k + 1] = link_inertia(name, values[self.layout.link(k)])
        armature = np.zeros(self.nv)
        armature[self.nv - self.n_joints :] = values[self.layout.rotor]
        model.armature = armature
        robot = replace(self, model=model, theta=read_only(values))
        if "tree" in self.__dict__:  # geometry does not depend on parameters: keep what is cached
            robot.__dict__["tree"] = self.tree
        return robot

    def with_parameter_values(self, values: Mapping[str, float]) -> Robot:
        """Return the same robot with some parameters changed by name: ``{"Fv6": 0.5}``.

        All others stay, among them first moments and inertias about the link's origin: to change
        the mass of a link and keep its centre, use `with_link`.
        """
        theta = self.theta.copy()
        for name, value in values.items():
            theta[self.layout.index(name)] = value
        return self.with_parameters(theta)

    def with_link(
        self,
        link: int | str,
        *,
        mass: float | None = None,
        com: ArrayLike | None = None,
        inertia: ArrayLike | None = None,
    ) -> Robot:
        """Return the same robot with another mass, centre of mass or inertia of one link.

        What is not given stays, the inertia about the centre of mass included; compare
        `with_parameter_values`.

        Args:
            link: position or name.
            mass: [kg].
            com: (3,) centre of mass in the link's frame [m].
            inertia: (3, 3) about the centre of mass, in the link's axes [kg·m²].
        """
        pi = self.pi(link)
        if pi[0] == 0.0 and (mass is None or com is None or inertia is None):
            raise ShapeError(f"link {link!r} is massless: give mass, com and inertia together.")
        new = pi_from_mass_com_inertia(
            pi[0] if mass is None else mass,
            pi[1:4] / pi[0] if com is None else com,
            inertia_at_com(pi) if inertia is None else inertia,
        )
        theta = self.theta.copy()
        theta[self.layout.link(link)] = new
        return self.with_parameters(theta)

    def with_friction(
        self,
        name: str | FrictionModel,
        *,
        coefficients: Mapping[str, ArrayLike] | None = None,
        **shape: ArrayLike,
    ) -> Robot:
        """Return the same robot with another friction law.

        Args:
            name: of the law, or the law itself.
            coefficients: by term, one number or one per joint; terms that are not given keep their
                present value, or zero if the present law does not have them.
            shape: shape parameters of the law; those that are not given keep their present value
                if the present law has them, or the law's default.
        """
        model = friction_model(name) if isinstance(name, str) else name
        kept = {
            parameter: self.friction.shape[:, k]
            for k, parameter in enumerate(self.friction.model.shape)
            if parameter in model.shape
        }
        friction = Friction.from_model(model, self.n_joints, **{**kept, **shape})
        return self.with_drives(friction=friction, coefficients=coefficients)

    def with_actuators(
        self, actuators: Actuators, coefficients: Mapping[str, ArrayLike] | None = None
    ) -> Robot:
        """Return the same robot with other drives; `coefficients` sets "Ia", "Fvm", …."""
        return self.with_drives(actuators=actuators, coefficients=coefficients)

    def with_controller(self, controller: Controller) -> Robot:
        """Return the same robot with another joint controller."""
        return replace(self, controller=controller)

    def with_sensors(self, sensors: Iterable[Sensor]) -> Robot:
        """Return the same robot with these sensors on it, in place of those it has."""
        return replace(self, sensors=check_sensors(self, sensors))

    def with_drives(
        self,
        *,
        friction: Friction | None = None,
        coefficients: Mapping[str, ArrayLike] | None = None,
        actuators: Actuators | None = None,
        controller: Controller | None = None,
        acceleration_limit: ArrayLike | None = None,
    ) -> Robot:
        """Return the same robot with other drives, friction and control; what is not given stays.

        The arguments are those of `from_pinocchio`.
        """
        friction, actuators = friction or self.friction, actuators or self.actuators
        prefixes = [term for term in friction.model.terms if term in self.layout.friction_terms]
        if actuators.coupled == self.layout.coupled:
            prefixes += {prefix for prefix, _ in actuators.coupled}
        kept = {prefix: self.theta[self.layout.places(prefix)] for prefix in prefixes}
        limit = self.acceleration_limit if acceleration_limit is None else acceleration_limit
        robot = Robot.from_pinocchio(
            self.model,
            friction=friction,
            coefficients={**kept, **(coefficients or {})},
            actuators=actuators,
            controller=controller or self.controller,
            acceleration_limit=limit,
            source=self.source,
            notes=self.notes,
            allow_inconsistent=True,
        )
        # Once more, for Pinocchio's centre of mass and back rounds, without limit for small masses.
        n = self.layout.n_inertial
        theta = np.concatenate([self.theta[:n], robot.theta[n:]])
        return replace(robot, sensors=self.sensors, locked=self.locked).with_parameters(theta)

    def with_locked_joints(self, positions: Mapping[str, float | None]) -> Robot:
        """Return the robot without joints that stand still; see `bodysense.robot.locking.lock`."""
        from bodysense.robot import locking  # which builds robots

        return locking.lock(self, positions)

    def unlocked(self) -> Robot:
        """Return the robot with all joints; see `bodysense.robot.locking.unlock`."""
        return self if self.locked is None else self.locked.free(self)

    def consistency(self) -> tuple[PhysicalConsistency, ...]:
        """Physical consistency of every link, with its margin."""
        return tuple(physical_consistency(self.pi(k)) for k in range(self.layout.n_links))

    def structural(self) -> tuple[bool, ...]:
        """Which links only connect joints: without any inertia, and carrying others."""
        carries = {int(parent) for parent in self.model.parents[1:]}
        return tuple(not self.pi(k).any() and k + 1 in carries for k in range(self.layout.n_links))


def require_robot(robot: object) -> None:
    """Raise `ShapeError` if a name or a file is given where a `Robot` is expected."""
    file = isinstance(robot, str | PathLike)
    remedy = "load it first, load_robot(…)" if file else "load_robot gives one"
    require_type(robot, Robot, "a Robot", remedy)
