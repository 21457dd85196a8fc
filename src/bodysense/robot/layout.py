"""Names and positions of all parameters of a robot: the full vector theta.

theta = [ pi of every link | Ia of every joint | friction, term by term | coupled motors ]

- Per link ten inertial parameters in Pinocchio's order, inertia about the link's origin:
  ``M, MX, MY, MZ, XX, XY, YY, XZ, YZ, ZZ``. Link ``i`` is the one that joint ``i`` moves,
  counted from 1; link 0 is the floating base.
- Per joint the inertia of the rotor reflected to the joint, ``Ia`` [kg·m² or kg].
- Per joint one coefficient for each term of the friction model, e.g. ``Fv``, ``Fc``.
- Per motor that moves more than one joint: ``Iam``, ``Fvm``, ``Fcm`` (see `actuators`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bodysense.errors import MismatchError, listing, unknown_name

INERTIAL_TERMS = ("M", "MX", "MY", "MZ", "XX", "XY", "YY", "XZ", "YZ", "ZZ")
"""Prefix of the names of a link's ten inertial parameters, in the order of `pi`."""


def position_unit(joint_type: str) -> str:
    """Unit of a joint's position, by its type."""
    return "m" if joint_type == "prismatic" else "rad"


def effort_unit(joint_type: str) -> str:
    """Unit of a joint's torque, or force where it slides."""
    return "N" if joint_type == "prismatic" else "N·m"


@dataclass(frozen=True)
class ParameterLayout:
    """Where each named parameter stands in theta.

    Attributes:
        link_names: links with inertia, the floating base first if there is one.
        joint_names: one-axis joints, in the order of the model.
        friction_terms: prefixes of the friction coefficients, e.g. ``("Fv", "Fc")``.
        coupled: for each coupling parameter its prefix and the motor it belongs to (0-based).
        floating_base: whether the first link is a floating base.
    """

    link_names: tuple[str, ...]
    joint_names: tuple[str, ...]
    friction_terms: tuple[str, ...] = ()
    coupled: tuple[tuple[str, int], ...] = ()
    floating_base: bool = False

    @property
    def n_links(self) -> int:
        return len(self.link_names)

    @property
    def n_joints(self) -> int:
        return len(self.joint_names)

    @property
    def n_inertial(self) -> int:
        return 10 * self.n_links

    @property
    def size(self) -> int:
        return self.n_inertial + self.n_joints * (1 + len(self.friction_terms)) + len(self.coupled)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The name of every parameter, in the order of theta."""
        first = 0 if self.floating_base else 1
        joints = range(1, self.n_joints + 1)
        names = [f"{term}{first + i}" for i in range(self.n_links) for term in INERTIAL_TERMS]
        names += [f"Ia{j}" for j in joints]
        names += [f"{term}{j}" for term in self.friction_terms for j in joints]
        names += [f"{prefix}{motor + 1}" for prefix, motor in self.coupled]
        return tuple(names)

    @cached_property
    def _index(self) -> dict[str, int]:
        return {name: k for k, name in enumerate(self.names)}

    def index(self, name: str) -> int:
        """Position of a parameter in theta, e.g. ``index("ZZ1")``."""
        try:
            return self._index[name]
        except KeyError:
            raise unknown_name("parameter", name, self.names) from None

    def link(self, link: int | str) -> slice:
        """The ten inertial parameters of a link, by position or name."""
        if isinstance(link, str):
            if link not in self.link_names:
                raise unknown_name("link", link, self.link_names)
            link = self.link_names.index(link)
        if not 0 <= link < self.n_links:
            raise unknown_name("link", str(link), (f"0 to {self.n_links - 1}", *self.link_names))
        return slice(10 * link, 10 * link + 10)

    @property
    def inertial(self) -> slice:
        return slice(0, self.n_inertial)

    @property
    def rotor(self) -> slice:
        """The reflected rotor inertias, one per joint."""
        return slice(self.n_inertial, self.n_inertial + self.n_joints)

    def friction(self, term: str) -> slice:
        """The coefficients of one friction term, one per joint, e.g. ``friction("Fv")``."""
        if term not in self.friction_terms:
            raise unknown_name("friction term", term, self.friction_terms)
        start = self.n_inertial + self.n_joints * (1 + self.friction_terms.index(term))
        return slice(start, start + self.n_joints)

    @property
    def coupling(self) -> slice:
        """The parameters of motors that move more than one joint."""
        return slice(self.size - len(self.coupled), self.size)

    def places(self, prefix: str) -> NDArray[np.int64]:
        """Places in theta of all drive parameters with a prefix: ``Ia``, ``Fv``, ``Fvm``, …."""
        everywhere = np.arange(self.size, dtype=np.int64)
        if prefix == "Ia":
            return everywhere[self.rotor]
        if prefix in self.friction_terms:
            return everywhere[self.friction(prefix)]
        coupled = [term for term, _ in self.coupled]
        if prefix not in coupled:
            valid = ("Ia", *self.friction_terms, *sorted(set(coupled)))
            raise unknown_name("coefficient", prefix, valid)
        return everywhere[self.coupling][[term == prefix for term in coupled]]

    def describe(self, name: str) -> str:
        """A parameter in words, e.g. ``ZZ of link forearm``."""
        k = self.index(name)
        if k < self.n_inertial:
            return f"{INERTIAL_TERMS[k % 10]} of link {self.link_names[k // 10]}"
        k -= self.n_inertial
        if k < self.n_joints * (1 + len(self.friction_terms)):
            term = ("Ia", *self.friction_terms)[k // self.n_joints]
            return f"{term} of joint {self.joint_names[k % self.n_joints]}"
        prefix, motor = self.coupled[k - self.n_joints * (1 + len(self.friction_terms))]
        return f"{prefix} of the motor of joint {self.joint_names[motor]}"

    def require_same(self, other: ParameterLayout, what: str) -> None:
        """Raise `MismatchError` unless `other` lays its parameters out in the same way."""
        if self != other:
            raise MismatchError(
                f"{what} belongs to another robot: it has {other.size} parameters over links "
                f"{listing(other.link_names, 4)}, this robot has {self.size} over links "
                f"{listing(self.link_names, 4)}. Build both from the same description with "
                "the same friction model and couplings."
            )
