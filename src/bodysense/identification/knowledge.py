"""`Knowledge`: what is known of a robot's links beside its file, before any data.

Each item is linear in the inertial parameters, exactly:

    total mass          Σ m = M
    mass range          m_low <= m <= m_high
    mirror symmetry     S P Sᵀ = P                  S the reflection at the plane
    equal links         P_a = S P_b Sᵀ              S the identity, or a reflection
    centre in a hull    nᵀ (m c) <= m nᵀ t          for every face, thesis eq (180)

Thesis eq (180) takes the mass on the right from the iteration before; m and m c are both
parameters, so that no iteration is needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike

import numpy as np

from bodysense.errors import FileReadError, MismatchError, ShapeError, unknown_name
from bodysense.identification.reduced import Constraints
from bodysense.robot.robot import Robot
from bodysense.robot.shapes.hull import Hull
from bodysense.robot.shapes.link_shapes import SHAPES, link_hulls
from bodysense.schema import Schema
from bodysense.spatial.arrays import Array
from bodysense.spatial.pseudo_inertia import pi_from_pseudo_inertia, pseudo_inertia_from_pi

_AXES = ("x", "y", "z")


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
        if self.axis not in _AXES:
            raise unknown_name("axis", self.axis, _AXES)
        if not np.isfinite(self.offset):
            raise ShapeError(f"the offset of a mirror plane is {self.offset}: give metres.")

    @property
    def map(self) -> Array:
        """(10, 10): pi of the mirror image of a body with pi."""
        S = np.eye(4)
        k = _AXES.index(self.axis)
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
        total_mass: of all moving links [kg].
        masses: of single links [kg].
        mass_ranges: lowest and highest mass of single links [kg].
        symmetric: mirror planes of links.
        equal: pairs of equal links.
        com_inside: convex bodies that hold the centres of mass, in the links' frames.
        notes: where it comes from, e.g. boxes that stand for missing shapes.
    """

    total_mass: float | None = None
    masses: Mapping[str, float] = field(default_factory=dict)
    mass_ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
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
        for name, (low, high) in self.mass_ranges.items():
            if not (0.0 <= low < high < np.inf):
                raise ShapeError(
                    f"the mass of {name} is known to lie between {low:g} and {high:g} kg: give the "
                    "lower one first, both at least zero; one number where it is known exactly."
                )

    @property
    def any(self) -> bool:
        return bool(
            self.total_mass is not None
            or self.masses
            or self.mass_ranges
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
        for link, (low, high) in self.mass_ranges.items():
            mass_of = layout.link(link).start
            at_most += [(row({mass_of: 1.0}), high), (row({mass_of: -1.0}), -low)]
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
        """What is known, in a line; empty if nothing."""
        parts = []
        if self.total_mass is not None:
            parts.append(f"all links together have {self.total_mass:g} kg")
        parts += [f"{link} has {mass:g} kg" for link, mass in self.masses.items()]
        parts += [f"{link} has {a:g} to {b:g} kg" for link, (a, b) in self.mass_ranges.items()]
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


# The knowledge file: a YAML mapping with what is known of a robot's links for certain.
#
#     total_mass: 28.9                            # of all links that move [kg]
#     masses: {forearm: 4.1, hand: [0.5, 0.8]}    # of single links [kg], or their range
#     symmetric:                                  # mirror planes of links, by their normal
#       forearm: [y, {axis: z, offset: 0.1}]      # offset: where the plane cuts that axis [m]
#     equal:                                      # links of the same make
#       - [wrist_1, wrist_2]
#       - {first: left_arm, second: right_arm, mirror: y}
#     com_inside: collision                       # hulls that hold the centres of mass: collision,
#                                                 # visual, boxes, auto; or link by link [m]:
#     # com_inside:
#     #   forearm: {lower: [-0.1, -0.1, 0.0], upper: [0.1, 0.1, 0.4]}
#     #   hand: [[0, 0, 0], [0.1, 0, 0], [0, 0.1, 0], [0, 0, 0.1]]    # points, such as skin cells
#
# Every key may be left out. Frames are those of the links.

_VALUES = Schema(kind="a knowledge file")
_KEYS = ("total_mass", "masses", "symmetric", "equal", "com_inside")


def read_knowledge(path: str | PathLike[str], robot: Robot) -> Knowledge:
    """Read a knowledge file about the robot's links.

    Raises:
        FileReadError: the file or a value in it cannot be understood.
        UnknownNameError: an unknown key, link, axis or kind of shape.
        RobotFileError: the robot's file has no such shapes.
    """
    return _parse_knowledge(_VALUES.read(path), robot, str(path))


def _parse_knowledge(
    content: Mapping[str, object], robot: Robot, where: str = "knowledge"
) -> Knowledge:
    """Check the content of a knowledge file; see `read_knowledge`."""
    table = _VALUES.mapping(content, where, _KEYS)
    given = {key: value for key, value in table.items() if value is not None}
    total = given.get("total_mass")
    equal = given.get("equal", [])
    if not isinstance(equal, list):
        raise FileReadError(f"{where}, equal: {equal!r:.60} is no list of pairs, e.g. [[a, b]].")
    masses, ranges = _masses(given.get("masses", {}), robot, f"{where}, masses")
    return Knowledge(
        total_mass=None if total is None else _VALUES.number(total, f"{where}, total_mass"),
        masses=masses,
        mass_ranges=ranges,
        symmetric={
            link: _mirrors(planes, f"{where}, symmetric, {link}")
            for link, planes in _by_link(
                given.get("symmetric", {}), robot, f"{where}, symmetric"
            ).items()
        },
        equal=tuple(
            _pair(pair, robot, f"{where}, equal, entry {k + 1}") for k, pair in enumerate(equal)
        ),
        com_inside=_hulls(given.get("com_inside", {}), robot, f"{where}, com_inside"),
    )


def with_shortcuts(
    knowledge: Knowledge,
    robot: Robot,
    *,
    total_mass: float | None = None,
    masses: Mapping[str, Sequence[float]] | None = None,
    com_inside: str | None = None,
) -> Knowledge:
    """The same with more of it, which counts before what it has.

    Args:
        knowledge: so far.
        robot: that it is of.
        total_mass: of all moving links [kg].
        masses: of single links [kg]: one number each, or the lowest and the highest.
        com_inside: where the shapes come from that hold the centres of mass.

    Raises:
        MismatchError: single links would be heavier than all of them together.
    """
    if total_mass is not None:
        knowledge = replace(knowledge, total_mass=total_mass)
    if masses:
        given = {link: m[0] if len(m) == 1 else list(m) for link, m in masses.items()}
        exact, ranges = _masses(given, robot, "masses")
        knowledge = replace(
            knowledge,
            masses={k: x for k, x in knowledge.masses.items() if k not in given} | exact,
            mass_ranges={k: x for k, x in knowledge.mass_ranges.items() if k not in given} | ranges,
        )
    if com_inside is not None:
        hulls = link_hulls(robot, com_inside)
        knowledge = replace(knowledge, com_inside=dict(hulls), notes=hulls.notes)
    least = {**knowledge.masses, **{k: low for k, (low, _) in knowledge.mass_ranges.items()}}
    single, total = sum(least.values()), knowledge.total_mass
    if total is not None and single > total * (1.0 + 1e-9):
        raise MismatchError(
            f"what is known contradicts itself: the known masses of {', '.join(least)} "
            f"sum up to {single:g} kg, and all links together have {total:g} kg. Correct one of "
            "them."
        )
    return knowledge


def _masses(
    value: object, robot: Robot, where: str
) -> tuple[dict[str, float], dict[str, tuple[float, float]]]:
    """Masses that are known, and those of which a range is known, ``[low, high]``."""
    exact, ranges = dict[str, float](), dict[str, tuple[float, float]]()
    for link, mass in _by_link(value, robot, where).items():
        place = f"{where}, {link}"
        if isinstance(mass, list):
            low, high = _VALUES.number_list(mass, 2, place)
            ranges[link] = (float(low), float(high))
        else:
            exact[link] = _VALUES.number(mass, place)
    return exact, ranges


def _by_link(value: object, robot: Robot, where: str) -> dict[str, object]:
    return {_link(link, robot, where): x for link, x in _VALUES.mapping(value, where).items()}


def _link(name: object, robot: Robot, where: str) -> str:
    if name not in robot.link_names:
        raise unknown_name("link", str(name), robot.link_names, f"({where})")
    return str(name)


def _mirrors(value: object, where: str) -> tuple[Mirror, ...]:
    planes = value if isinstance(value, list) else [value]
    return tuple(_mirror(plane, where) for plane in planes)


def _mirror(value: object, where: str) -> Mirror:
    """``y`` or ``{axis: y, offset: 0.1}``."""
    if isinstance(value, str):
        return Mirror(value)
    if isinstance(value, Mapping) and set(value) <= {"axis", "offset"} and "axis" in value:
        offset = _VALUES.number(value.get("offset", 0.0), f"{where}, offset")
        return replace(_mirror(value["axis"], where), offset=offset)
    raise FileReadError(
        f"{where}: {value!r:.60} is no mirror plane; write its normal, x, y or z, or "
        "{axis: y, offset: 0.1}."
    )


def _pair(value: object, robot: Robot, where: str) -> EqualLinks:
    mirror = None
    if isinstance(value, Mapping) and {"first", "second"} <= set(value) <= {
        "first",
        "second",
        "mirror",
    }:
        names = [value["first"], value["second"]]
        if value.get("mirror") is not None:
            mirror = _mirror(value["mirror"], f"{where}, mirror")
    elif isinstance(value, list) and len(value) == 2:
        names = value
    else:
        raise FileReadError(
            f"{where}: {value!r:.60} is no pair of links; write [a, b] or "
            "{first: a, second: b, mirror: y}."
        )
    first, second = (_link(name, robot, where) for name in names)
    if first == second:
        raise FileReadError(f"{where}: {first!r} is always equal to itself; name two links.")
    return EqualLinks(first, second, mirror)


def _hulls(value: object, robot: Robot, where: str) -> dict[str, Hull]:
    if isinstance(value, str):
        if value not in SHAPES:
            raise unknown_name("shapes", value, SHAPES, f"({where})")
        return dict(link_hulls(robot, value))
    return {
        link: _hull(shape, f"{where}, {link}")
        for link, shape in _by_link(value, robot, where).items()
    }


def _hull(value: object, where: str) -> Hull:
    """A box ``{lower: […], upper: […]}``, or the hull of points."""
    try:
        if isinstance(value, Mapping) and set(value) == {"lower", "upper"}:
            return Hull.from_box(value["lower"], value["upper"])
        if isinstance(value, list):
            return Hull.from_points(value)
    except (ShapeError, TypeError, ValueError) as error:
        raise FileReadError(f"{where}: {error}") from error
    raise FileReadError(
        f"{where}: {value!r:.60} is neither a box, {{lower: [x, y, z], upper: [x, y, z]}}, nor a "
        "list of points."
    )
