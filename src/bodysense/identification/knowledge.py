"""`Knowledge`: what is known of a robot's links beside its file, before any data.

Each item is linear in the inertial parameters, exactly:

    total mass          Σ m = M
    mirror symmetry     S P Sᵀ = P                  S the reflection at the plane
    equal links         P_a = S P_b Sᵀ              S the identity, or a reflection
    centre in a hull    nᵀ (m c) <= m nᵀ t          for every face, thesis eq (180)

Thesis eq (180) takes the mass on the right from the iteration before; m and m c are both
parameters, so that nothing has to be taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from bodysense.errors import ShapeError, unknown_name
from bodysense.identification.constraints import Constraints
from bodysense.robot.hull import Hull
from bodysense.robot.robot import Robot
from bodysense.spatial.arrays import Array
from bodysense.spatial.pseudo_inertia import pi_from_pseudo_inertia, pseudo_inertia_from_pi

AXES = ("x", "y", "z")


@dataclass(frozen=True)
class Mirror:
    """A plane in a link's frame, normal to one of its axes.

    Attributes:
        axis: ``x``, ``y`` or ``z``: the normal.
        offset: where the plane cuts that axis [m].
    """

    axis: str
    offset: float = 0.0

    def __post_init__(self) -> None:
        if self.axis not in AXES:
            raise unknown_name("axis", self.axis, AXES)
        if not np.isfinite(self.offset):
            raise ShapeError(f"the offset of a mirror plane is {self.offset}: give metres.")

    @property
    def map(self) -> Array:
        """(10, 10): pi of the mirror image of a body with pi."""
        S = np.eye(4)
        k = AXES.index(self.axis)
        S[k, k], S[k, 3] = -1.0, 2.0 * self.offset
        return _congruence(S)


@dataclass(frozen=True)
class EqualLinks:
    """Two links of the same make: the same parameters in their own frames, or mirrored ones."""

    first: str
    second: str
    mirror: Mirror | None = None


@dataclass(frozen=True)
class Knowledge:
    """What is known for certain.

    Attributes:
        total_mass: of all links that move [kg].
        masses: of single links [kg].
        symmetric: mirror planes of links.
        equal: pairs of equal links.
        com_inside: convex bodies that hold the centres of mass, in the links' frames.
        notes: where it comes from, in words, e.g. boxes that stand for missing shapes.
    """

    total_mass: float | None = None
    masses: Mapping[str, float] = field(default_factory=dict)
    symmetric: Mapping[str, tuple[Mirror, ...]] = field(default_factory=dict)
    equal: tuple[EqualLinks, ...] = ()
    com_inside: Mapping[str, Hull] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        given = dict(self.masses)
        if self.total_mass is not None:
            given["all links"] = self.total_mass
        for name, mass in given.items():
            if not (np.isfinite(mass) and mass > 0.0):
                raise ShapeError(f"the known mass of {name} is {mass:g} kg: give a positive one.")

    @property
    def any(self) -> bool:
        """Whether anything is known."""
        return bool(
            self.total_mass is not None
            or self.masses
            or self.symmetric
            or self.equal
            or self.com_inside
        )

    def constraints(self, robot: Robot) -> Constraints:
        """As linear constraints on theta.

        Raises:
            UnknownNameError: the robot has no link of that name.
        """
        layout = robot.layout
        equal: list[tuple[Array, float]] = []
        at_most: list[tuple[Array, float]] = []

        def row(values: Mapping[int, float]) -> Array:
            made = np.zeros(layout.size)
            made[list(values)] = list(values.values())
            return made

        if self.total_mass is not None:
            masses = [layout.link(k).start for k in range(layout.n_links)]
            equal.append((row(dict.fromkeys(masses, 1.0)), self.total_mass))
        for link, mass in self.masses.items():
            equal.append((row({layout.link(link).start: 1.0}), mass))
        for link, mirrors in self.symmetric.items():
            for mirror in mirrors:
                equal += _rows(layout.size, layout.link(link), mirror.map - np.eye(10))
        for pair in self.equal:
            image = np.eye(10) if pair.mirror is None else pair.mirror.map
            wide = np.zeros((10, layout.size))
            wide[:, layout.link(pair.first)] += np.eye(10)
            wide[:, layout.link(pair.second)] -= image
            equal += [(line, 0.0) for line in wide]
        for link, hull in self.com_inside.items():
            faces = np.zeros((hull.offsets.size, 10))
            faces[:, 0], faces[:, 1:4] = -hull.offsets, hull.normals
            at_most += _rows(layout.size, layout.link(link), faces)
        return Constraints.of(layout.size, equal, at_most)

    def summary(self) -> str:
        """What is known, in words; empty if nothing."""
        parts = []
        if self.total_mass is not None:
            parts.append(f"all links together have {self.total_mass:g} kg")
        parts += [f"{link} has {mass:g} kg" for link, mass in self.masses.items()]
        parts += [
            f"{link} is symmetric in {' and '.join(mirror.axis for mirror in mirrors)}"
            for link, mirrors in self.symmetric.items()
        ]
        parts += [
            f"{pair.first} is {'equal to' if pair.mirror is None else 'the mirror image of'} "
            f"{pair.second}"
            for pair in self.equal
        ]
        if self.com_inside:
            parts.append(f"centres of mass inside the shapes of {', '.join(self.com_inside)}")
        return "; ".join(parts)


def _rows(size: int, where: slice, block: Array) -> list[tuple[Array, float]]:
    """Homogeneous rows over theta from rows over one link; those without effect left out."""
    wide = np.zeros((block.shape[0], size))
    wide[:, where] = block
    return [(line, 0.0) for line in wide if line.any()]


def _congruence(S: Array) -> Array:
    """(10, 10) matrix of pi -> pi of S P Sᵀ."""
    P = pseudo_inertia_from_pi(np.eye(10))
    return np.ascontiguousarray(pi_from_pseudo_inertia(S @ P @ S.T).T)
