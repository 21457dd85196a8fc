"""The prior: parameters of the robot's file, and their plausible errors.

A file seldom states its uncertainty. So each parameter gets a plausible size, by which it may well
be off: a link's own mass, mass times length, and mass times length squared for its ten inertial
parameters; for drives what would by itself explain the torque that was measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr

from bodysense.identification.identification import positive_parameters
from bodysense.identification.preprocessing import Motion
from bodysense.identification.reduced import Constraints, Stack
from bodysense.identification.regression import Regression
from bodysense.robot.robot import Robot
from bodysense.spatial.arrays import Array

_MIN_MASS = 0.01  # of a link, as a share of the robot's: files may neglect a link's mass
LOAD_FRICTION = 0.1  # plausible friction per load (Fl): gears of arms lose several per cent
_MIN_LENGTH = 0.1  # plausible radius of gyration at least, as a share of the longest link's


@dataclass(frozen=True, eq=False)
class Prior:
    """The parameters before the data, and their plausible sizes.

    Attributes:
        theta: (p,) values.
        size: (p,) by how much each may well be off, all positive.
        mapping: (b, p) of base parameters.
        base_names: of the base parameters.
        links: places of each link's ten parameters.
        link_names: one per link.
        link_mass: (n_links,) plausible mass of each link [kg].
        link_length: (n_links,) plausible radius of gyration about the link's origin [m].
        positive: places of drive parameters that cannot be negative.
        constraints: what is known for certain.
    """

    theta: Array
    size: Array
    mapping: Array
    base_names: tuple[str, ...]
    links: tuple[slice, ...]
    link_names: tuple[str, ...]
    link_mass: Array
    link_length: Array
    positive: NDArray[np.int64]
    constraints: Constraints

    @classmethod
    def of(cls, problem: Regression) -> Prior:
        mass, length = _links(problem.robot)
        layout = problem.robot.layout
        size = np.empty(layout.size)
        for k in range(layout.n_links):
            powers = np.array([0, 1, 1, 1, 2, 2, 2, 2, 2, 2])
            size[layout.link(k)] = mass[k] * length[k] ** powers
        tau, v, a = _sizes(problem.motions, problem.n_joints)
        for prefix in ("Ia", *layout.friction_terms):
            size[layout.places(prefix)] = _drive_size(prefix, tau, v, a)
        for k, (prefix, motor) in zip(_places(layout.coupling), layout.coupled, strict=True):
            size[k] = _drive_size(prefix, tau, v, a)[motor]
        return cls(
            theta=problem.robot.theta,
            size=size,
            mapping=problem.base.mapping,
            base_names=problem.base.names,
            links=tuple(layout.link(k) for k in range(layout.n_links)),
            link_names=layout.link_names,
            link_mass=mass,
            link_length=length,
            positive=np.array(positive_parameters(problem.robot), dtype=np.int64),
            constraints=problem.knowledge.constraints(problem.robot),
        )

    def to_base(self, theta: Array) -> Array:
        """(b,) base parameters of theta (p,)."""
        base: Array = self.mapping @ theta
        return base

    @cached_property
    def theta_base(self) -> Array:
        """(b,) base parameters before the data."""
        return self.to_base(self.theta)

    @cached_property
    def size_base(self) -> Array:
        """(b,) plausible sizes of the base parameters."""
        size: Array = np.sqrt(((self.mapping * self.size) ** 2).sum(axis=1))
        return size

    @cached_property
    def base_factor(self) -> Array:
        """(b, b) L with L Lᵀ the covariance of the base parameters before the data."""
        scaled = self.mapping * self.size
        # By a triangle of the transpose: the product itself would lose half of the digits.
        R = qr(scaled.T, mode="r")[0][: scaled.shape[0]]
        return np.ascontiguousarray(R.T, dtype=np.float64)

    def constrained_factor(self, D: Array) -> Array:
        """(b, k) L with L Lᵀ the covariance of the base parameters of theta + D x, x ~ N(0, 1).

        It is zero along directions that the equalities fix.
        """
        _, free = self.constraints.free_directions(self.theta, D)
        unit = self.size_base[:, None]
        U, s, _ = np.linalg.svd(self.mapping @ free / unit, full_matrices=False)
        kept = s > 1e-12 * s.max(initial=0.0)
        factor: Array = unit * U[:, kept] * s[kept]
        return factor

    def least_squares(self, stack: Stack, factor: Array) -> Array:
        """(b,) base parameters of a reduced problem beside the prior N(theta_base, L Lᵀ)."""
        k = factor.shape[1]
        A = np.vstack([stack.A @ factor, np.eye(k)])
        rest = np.append(stack.z - stack.A @ self.theta_base, np.zeros(k))
        x: Array = self.theta_base + factor @ np.linalg.lstsq(A, rest, rcond=None)[0]
        return x

    @cached_property
    def _back(self) -> Array:
        """(p, b) matrix: the most likely change of theta for a change of theta_base."""
        scaled = self.mapping * self.size**2
        back = np.linalg.solve(scaled @ self.mapping.T, scaled).T
        return np.ascontiguousarray(back, dtype=np.float64)

    def untouched(self, theta: Array) -> Array:
        """(p,) theta with parameters that have no effect at the prior's value, if they are there.

        A solver leaves rounding on them, which would appear as changes in files.
        """
        silent = ~self.mapping.any(axis=0) & (np.abs(theta - self.theta) < 1e-6 * self.size)
        return np.where(silent, self.theta, theta)

    def complete(self, theta_base: Array) -> Array:
        """(p,) theta with these base parameters that is closest to the prior, measured in sizes."""
        theta: Array = self.theta + self._back @ (theta_base - self.theta_base)
        return theta


def _drive_size(prefix: str, tau: Array, v: Array, a: Array) -> Array:
    """(n,) sizes of a drive's coefficients that would explain all of its joint's torque, but Fl."""
    if prefix == "Fl":
        return np.full(tau.size, LOAD_FRICTION)
    if prefix in ("Ia", "Iam"):
        return tau / a
    return tau / v if prefix in ("Fv", "Fvm") else tau


def _places(where: slice) -> range:
    return range(where.start, where.stop)


def _links(robot: Robot) -> tuple[Array, Array]:
    """Plausible mass [kg] and radius of gyration about the origin [m] of each link."""
    pi = np.array([robot.pi(k) for k in range(robot.layout.n_links)])
    total = np.abs(pi[:, 0]).sum()
    mass = np.maximum(np.abs(pi[:, 0]), _MIN_MASS * total if total > 0.0 else 1.0)
    # Half the trace of the inertia is the mass times the squared radius of gyration.
    length = np.sqrt(np.abs(pi[:, [4, 6, 9]].sum(axis=1)) / 2.0 / mass)
    longest = float(length.max())
    return mass, np.maximum(length, _MIN_LENGTH * longest if longest > 0.0 else 0.1)


def _sizes(motions: Sequence[Motion], n: int) -> tuple[Array, Array, Array]:
    """Root mean squares (n,) of torque, velocity and acceleration; 1 where a joint never moves."""

    def rms(name: str) -> Array:
        squares = sum((np.square(getattr(m, name)).sum(axis=0) for m in motions), np.zeros(n))
        size: Array = np.sqrt(squares / sum(m.t.size for m in motions))
        return np.where(size > 0.0, size, 1.0)

    return rms("tau"), rms("v"), rms("a")
