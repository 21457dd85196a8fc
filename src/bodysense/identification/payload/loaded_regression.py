"""One arm, with and without a load: torques as a linear function of both.

    tau = Y (theta_base + B pi)          B pi in loaded logs alone

B maps the load's ten parameters onto the base parameters: they add to those of the link that holds
it. Gears of robot arms lose several per cent of what they carry. If friction did not depend on the
load, the load's parameters would have to explain this loss, wrongly: so the arm may have a law of
load-dependent friction, whose columns in Y hold the torque without friction of the fit before, in
loaded logs with the load.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from bodysense.identification.preprocessing import Motion, Preprocessing
from bodysense.identification.prior import Prior
from bodysense.identification.reduced import Constraints
from bodysense.identification.regression import Regression
from bodysense.robot.base_parameters import BaseParameters, base_parameters
from bodysense.robot.dynamics import regressor_pattern
from bodysense.robot.robot import Robot
from bodysense.spatial.arrays import Array

_LOAD_MASS = 0.2  # plausible mass of a load, as a share of the robot's


@dataclass(frozen=True, eq=False)
class LoadedRegression(Regression):
    """A regression over x = (theta_base, pi): base parameters, losses Fl among them, and the load.

    Attributes:
        loaded: logs in which the load is held.
        held: (10 n_links, 10) map of the load's parameters onto those of all links.
        load_pi: (10,) the load's parameters that losses follow from, beside `load_theta`.
    """

    loaded: frozenset[int] = frozenset()
    held: Array = field(default_factory=lambda: np.zeros((0, 10)))
    load_pi: Array = field(default_factory=lambda: np.zeros(10))

    finest: ClassVar[float] = 1e-5
    """No torque is more accurate; without noise, errors of a gain or of the arm's file would be
    explained at any price."""

    @classmethod
    def of_logs(
        cls,
        robot: Robot,
        motions: Sequence[Motion],
        settings: Preprocessing,
        *,
        loaded: frozenset[int],
        load_to_link: Array,
        link: int,
        base: BaseParameters | None = None,
    ) -> LoadedRegression:
        """Set the problem up; where the robot's law has losses, with those of no load yet.

        `loaded` are the logs in which the load is held by a link, a position; load_to_link (10, 10)
        takes the load's parameters from its frame to the link's.
        """
        law = robot.friction.model
        rigid = robot.with_friction(law.without_load) if law.depends_on_load else robot
        plain = Regression.of(rigid, motions, settings, base if rigid is robot else None)
        held = np.zeros((robot.layout.n_inertial, 10))
        held[robot.layout.link(link)] = load_to_link
        problem = cls(
            rigid, plain.base, plain.motions, settings, plain.n_logs, loaded=loaded, held=held
        )
        return problem if rigid is robot else problem.with_losses(np.zeros(problem.size))

    @property
    def n_losses(self) -> int:
        """Number of coefficients Fl: one per joint, or none."""
        return self.n_joints if self.robot.friction.model.depends_on_load else 0

    @property
    def size(self) -> int:
        return self.base.size + 10

    @property
    def losses(self) -> slice:
        """Places of Fl in x."""
        if not self.n_losses:
            return slice(0, 0)
        first = np.searchsorted(self.base.independent, self.robot.layout.friction("Fl").start)
        return slice(int(first), int(first) + self.n_losses)

    @property
    def load(self) -> slice:
        """Places of pi in x."""
        return slice(self.base.size, self.base.size + 10)

    @property
    def B(self) -> Array:
        """(b, 10) what the load's parameters add to the base parameters."""
        added: Array = self.base.mapping[:, : len(self.held)] @ self.held
        return added

    @cached_property
    def columns(self) -> tuple[NDArray[np.int64], ...]:
        """For each joint the places in x that its torque can depend on."""
        pattern = regressor_pattern(self.robot)[:, self.base.independent]
        made = []
        for row in pattern:
            held = self.load.start + np.flatnonzero(self.B[row].any(axis=0))
            made.append(np.append(np.flatnonzero(row), held).astype(np.int64))
        return tuple(made)

    def load_theta_of(self, log: int) -> Array | None:
        if self.load_theta is None or log not in self.loaded:
            return self.load_theta
        theta = self.load_theta.copy()
        theta[: len(self.held)] += self.held @ self.load_pi
        return theta

    def widened(self, Y: Array, v: Array, log: int) -> Array:
        if log in self.loaded:
            return np.concatenate([Y, Y @ self.B], axis=2)
        return np.concatenate([Y, np.zeros((*Y.shape[:2], 10))], axis=2)

    def with_losses(self, x: Array) -> LoadedRegression:
        """The same with losses, where torques without friction are those of an estimate x.

        Of an arm with a law of friction that has a form with load.
        """
        robot, base, theta = self.robot, self.base, self.base.join(x[: self.base.size])
        law = robot.friction.model.with_load
        if law is not None and not self.n_losses:
            robot = robot.with_friction(law)
            base = base_parameters(robot)
            theta = np.insert(theta, robot.layout.friction("Fl").start, np.zeros(self.n_joints))
        return replace(self, robot=robot, base=base, load_theta=theta, load_pi=x[self.load])

    def without_losses(self) -> LoadedRegression:
        """The same, where friction does not depend on the load."""
        if not self.n_losses:
            return self
        robot = self.robot.with_friction(self.robot.friction.model.without_load)
        return replace(self, robot=robot, base=base_parameters(robot), load_theta=None)

    def prior(self, *, arm: float = 1.0, pi: Array | None = None) -> Prior:
        """The robot's prior, with a load of about pi (10,), if known.

        The arm's inertial parameters have the standard deviation `arm`, in units of their sizes.
        """
        own = Prior.of(self)
        p, b = own.theta.size, self.base.size
        size = own.size.copy()
        size[self.robot.layout.inertial] *= arm
        mass = _LOAD_MASS * float(own.link_mass.sum()) if pi is None else float(pi[0])
        length = float(own.link_length.max())
        held = mass * length ** np.array([0, 1, 1, 1, 2, 2, 2, 2, 2, 2])
        mapping = np.zeros((b + 10, p + 10))
        mapping[:b, :p] = own.mapping
        mapping[b:, p:] = np.eye(10)
        return Prior(
            theta=np.append(own.theta, np.zeros(10)),
            size=np.append(size, held),
            mapping=mapping,
            base_names=(*own.base_names, *(f"{name} of the load" for name in _PI)),
            links=(*own.links, slice(p, p + 10)),
            link_names=(*own.link_names, "the load"),
            link_mass=np.append(own.link_mass, mass),
            link_length=np.append(own.link_length, length),
            positive=own.positive,
            constraints=own.constraints.padded(10),
        )


_PI = ("M", "MX", "MY", "MZ", "XX", "XY", "YY", "XZ", "YZ", "ZZ")


# Drive gains beside all other unknowns, linearised.
#
# A log's torques are nominal: current times a gain that may be off. Joint j measures
#
#     tau_j = g_j Y_j x,            true gain = nominal gain / g_j
#
# and only tau_j is noisy. So this is total least squares in which the measured columns alone carry
# noise; solved for what is exact, not for what is noisy, it needs no correction for bias, which
# K i = Y x with unknown K would (noise in i makes every K too small). About g⁰ and x⁰
#
#     tau_j ≈ g⁰_j Y_j x + dg_j Y_j x⁰.
#
# Without a load of known mass, (g, x) and (g / c, c x) explain the same torques: the mass decides.

_LARGEST_STEP = 0.5  # share of itself by which a gain may fall in one step: it never reaches zero


@dataclass(frozen=True, eq=False)
class GainRegression(LoadedRegression):
    """A regression over (x, dg) about gains g⁰ and an estimate x⁰.

    Attributes:
        gains: (n,) g⁰.
        x: x⁰ = (theta_base, pi).
    """

    gains: Array | None = None
    x: Array | None = None

    @property
    def size(self) -> int:
        return int(self.load.stop) + self.n_joints

    @property
    def steps(self) -> slice:
        """Places of dg."""
        return slice(self.load.stop, self.size)

    @cached_property
    def columns(self) -> tuple[NDArray[np.int64], ...]:
        """For each joint the places that its torque can depend on."""
        own = enumerate(super().columns)
        return tuple(np.append(where, self.steps.start + j) for j, where in own)

    def widened(self, Y: Array, v: Array, log: int) -> Array:
        wide = super().widened(Y, v, log)
        if self.gains is None or self.x is None:
            return wide
        n = self.n_joints
        change = np.zeros((len(wide), n, n))
        joints = np.arange(n)
        change[:, joints, joints] = wide @ self.x
        return np.concatenate([wide * self.gains[:, None], change], axis=2)

    def gain_prior(self, mass: float, com: Array | None) -> Prior:
        """The prior with a load of known mass [kg], and with gains that may be anything above zero.

        Its centre of mass (3,) in the load's frame [m] may be known as well.
        """
        pi = np.zeros(10)
        pi[0] = mass
        own = super().prior(pi=pi)
        n, p = self.n_joints, own.theta.size
        gains = np.ones(n) if self.gains is None else self.gains
        load = own.links[-1].start
        known = {load: mass}
        if com is not None:
            known |= {load + 1 + k: mass * com[k] for k in range(3)}
        unit = np.eye(p + n)
        constraints = own.constraints.padded(n) + Constraints.of(
            p + n,
            equal=[(unit[place], value) for place, value in known.items()],
            at_most=[(-unit[p + j], _LARGEST_STEP * gains[j]) for j in range(n)],
        )
        mapping = np.zeros((self.size, p + n))
        mapping[: own.mapping.shape[0], :p] = own.mapping
        mapping[self.steps, p:] = np.eye(n)
        return replace(
            own,
            theta=np.append(own.theta, np.zeros(n)),
            size=np.append(own.size, gains),
            mapping=mapping,
            base_names=(*own.base_names, *(f"g{j + 1}" for j in range(n))),
            constraints=constraints,
        )
