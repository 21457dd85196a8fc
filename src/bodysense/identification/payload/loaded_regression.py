"""One arm, with and without a load: torques as a linear function of both.

    tau_j = Y_j (theta_base + B pi)  +  Fl_j |tau_link_j| s(v_j)          B pi in loaded logs alone

B maps the load's ten parameters onto the base parameters: they add to those of the link that holds
it. The last term is friction that grows with the torque through the gears, Fl its coefficient; the
torque at the link, without friction and rotors, comes from the fit before. Gears of robot arms lose
several per cent of what they carry. If friction did not depend on the load, the load's parameters
would have to explain this loss, wrongly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from bodysense.identification.friction_comparison import at_the_links, loss_columns
from bodysense.identification.preprocessing import Motion, Preprocessing
from bodysense.identification.prior import Prior
from bodysense.identification.reduced import Constraints
from bodysense.identification.regression import Regression
from bodysense.robot.base_parameters import BaseParameters, base_parameters
from bodysense.robot.dynamics import regressor_pattern
from bodysense.robot.robot import Robot
from bodysense.spatial.arrays import Array

_LOAD_MASS = 0.2  # plausible mass of a load, as a share of the robot's
_LOSS_SIZE = 0.1  # plausible coefficient of load-dependent friction


@dataclass(frozen=True, eq=False)
class LoadedRegression(Regression):
    """A regression over x = (theta_base, Fl, pi): base parameters, losses, the load.

    Attributes:
        loaded: logs in which the load is held.
        load_map: (b, 10) B.
        link_theta: (2, b) parameters of the torque at the links, without and with the load; `None`
            leaves Fl out.
    """

    loaded: frozenset[int] = frozenset()
    load_map: Array | None = None
    link_theta: Array | None = None

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
        """Set the problem up, without losses.

        `loaded` are the logs in which the load is held by a link, a position; load_to_link (10, 10)
        takes the load's parameters from its frame to the link's.
        """
        base = base_parameters(robot) if base is None else base
        plain = Regression.of(robot, motions, settings, base)
        return cls(
            plain.robot,
            base,
            plain.motions,
            settings,
            plain.n_logs,
            loaded=loaded,
            load_map=base.mapping[:, robot.layout.link(link)] @ load_to_link,
        )

    @property
    def n_losses(self) -> int:
        """Number of coefficients Fl: one per joint, or none."""
        return 0 if self.link_theta is None else self.n_joints

    @property
    def size(self) -> int:
        return self.base.size + self.n_losses + 10

    @property
    def losses(self) -> slice:
        """Places of Fl in x."""
        return slice(self.base.size, self.base.size + self.n_losses)

    @property
    def load(self) -> slice:
        """Places of pi in x."""
        return slice(self.losses.stop, self.losses.stop + 10)

    @property
    def B(self) -> Array:
        """(b, 10) what the load's parameters add to the base parameters."""
        return np.zeros((self.base.size, 10)) if self.load_map is None else self.load_map

    @cached_property
    def columns(self) -> tuple[NDArray[np.int64], ...]:
        """For each joint the places in x that its torque can depend on."""
        pattern = regressor_pattern(self.robot)[:, self.base.independent]
        made = []
        for j, row in enumerate(pattern):
            losses = [self.losses.start + j] if self.n_losses else []
            held = self.load.start + np.flatnonzero(self.B[row].any(axis=0))
            made.append(np.concatenate([np.flatnonzero(row), losses, held]).astype(np.int64))
        return tuple(made)

    def widened(self, Y: Array, v: Array, log: int) -> Array:
        m, n, b = Y.shape
        wide = np.zeros((m, n, self.load.stop))
        wide[:, :, :b] = Y
        if self.link_theta is not None:
            link_theta = self.link_theta[int(log in self.loaded)]
            wide[:, :, self.losses] = loss_columns(self.robot, Y, v, link_theta)
        if log in self.loaded:
            wide[:, :, self.load] = Y @ self.B
        return wide

    def with_losses(self, x: Array) -> LoadedRegression:
        """The same with losses, where torques at the links are those of an estimate x."""
        empty, full = x[: self.base.size], x[: self.base.size] + self.B @ x[self.load]
        link_theta = np.stack([at_the_links(self.base, theta) for theta in (empty, full)])
        return replace(self, link_theta=link_theta)

    def prior(self, *, arm: float = 1.0, pi: Array | None = None) -> Prior:
        """The robot's prior, with losses of about zero and a load of about pi (10,), if known.

        The arm's inertial parameters have the standard deviation `arm`, in units of their sizes.
        """
        own = Prior.of(self)
        p, extra, b = own.theta.size, self.n_losses + 10, self.base.size
        size = own.size.copy()
        size[self.robot.layout.inertial] *= arm
        mass = _LOAD_MASS * float(own.link_mass.sum()) if pi is None else float(pi[0])
        length = float(own.link_length.max())
        held = mass * length ** np.array([0, 1, 1, 1, 2, 2, 2, 2, 2, 2])
        mapping = np.zeros((b + extra, p + extra))
        mapping[:b, :p] = own.mapping
        mapping[b:, p:] = np.eye(extra)
        losses = np.arange(p, p + self.n_losses)
        return Prior(
            theta=np.concatenate([own.theta, np.zeros(extra)]),
            size=np.concatenate([size, np.full(self.n_losses, _LOSS_SIZE), held]),
            mapping=mapping,
            base_names=(
                *own.base_names,
                *(f"Fl{j + 1}" for j in range(self.n_losses)),
                *(f"{name} of the load" for name in _PI),
            ),
            links=(*own.links, slice(p + self.n_losses, p + extra)),
            link_names=(*own.link_names, "the load"),
            link_mass=np.append(own.link_mass, mass),
            link_length=np.append(own.link_length, length),
            positive=np.concatenate([own.positive, losses]).astype(np.int64),
            constraints=own.constraints.padded(extra),
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
        x: x⁰ = (theta_base, Fl, pi).
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
