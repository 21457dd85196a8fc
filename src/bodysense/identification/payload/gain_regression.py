"""Drive gains beside all other unknowns, linearised.

A log's torques are nominal: current times a gain that may be off. Joint j measures

    tau_j = g_j Y_j x,            true gain = nominal gain / g_j

and only tau_j is noisy. So this is total least squares in which the measured columns alone carry
noise; solved for what is exact, not for what is noisy, it needs no correction for bias, which
K i = Y x with unknown K would (noise in i makes every K too small). About g⁰ and x⁰

    tau_j ≈ g⁰_j Y_j x + dg_j Y_j x⁰.

Without a load of known mass, (g, x) and (g / c, c x) explain the same torques: the mass decides.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bodysense.identification.constraints import Constraints
from bodysense.identification.payload.loaded_regression import LoadedRegression
from bodysense.identification.prior import Prior
from bodysense.spatial.arrays import Array

_LARGEST_STEP = 0.5
"""Share of itself by which a gain may fall in one step: it never reaches zero."""


@dataclass(frozen=True, eq=False)
class GainRegression(LoadedRegression):
    """A regression over (x, dg) about gains g⁰ and an estimate x⁰.

    Attributes:
        gains: (n,) g⁰.
        x: x⁰ = (theta_base, Fl, pi).
    """

    gains: Array | None = None
    x: Array | None = None

    @classmethod
    def about(cls, problem: LoadedRegression, gains: Array, x: Array) -> GainRegression:
        """Linearise."""
        shared = {f.name: getattr(problem, f.name) for f in fields(LoadedRegression) if f.init}
        return cls(**shared, gains=gains, x=x)

    @property
    def size(self) -> int:
        """Number of unknowns."""
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
        """Columns of all unknowns."""
        wide = super().widened(Y, v, log)
        if self.gains is None or self.x is None:
            return wide
        n = self.n_joints
        change = np.zeros((len(wide), n, n))
        joints = np.arange(n)
        change[:, joints, joints] = wide @ self.x
        return np.concatenate([wide * self.gains[:, None], change], axis=2)

    def gain_prior(self, mass: float, com: Array | None) -> Prior:
        """The prior with a known load, and with gains that may be anything above zero.

        Args:
            mass: of the load [kg].
            com: (3,) its centre of mass in the load's frame [m], if known.
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
