"""Sensors of forces and moments: force/torque, external wrench, skin, contact of known direction.

| kind             | reads, in the sensor's axes                                                 |
|------------------|-----------------------------------------------------------------------------|
| force_torque     | y = ± X* (w - I_sub a - v ×* (I_sub v)), w the wrench through a joint        |
| external_wrench  | y = X* fx, fx the external wrench on the link                               |
| skin_patch       | y = n · f, f the force of X* fx and n the mean normal of the cells          |
| directed_contact | 0 = t1 · f, 0 = t2 · f, 0 = m (and s = n · f), with (f, m) = X* fx           |

Wrenches are given in the link's frame about its origin; X* transforms them to the sensor's frame.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from bodysense.errors import MismatchError, ShapeError
from bodysense.sensors.motion_sensors import LinkSensor, joint_index
from bodysense.sensors.sensor import LinkPlacement, Measurement, Mount, Sensor
from bodysense.spatial.arrays import Array, as_array, read_only
from bodysense.spatial.pseudo_inertia import spatial_inertia
from bodysense.spatial.se3 import skew

if TYPE_CHECKING:
    from bodysense.robot.robot import Robot

_WRENCH = ("fx", "fy", "fz", "mx", "my", "mz")
_WRENCH_UNITS = ("N",) * 3 + ("N·m",) * 3
_SMALLEST_COSINE = 0.5  # between a cell's normal and the mean; below, the patch is not flat enough
_SHORTEST = 1e-9  # length of a vector that gives a direction


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ForceTorque(Sensor):
    """A six-axis force/torque sensor at a joint or inside a link; joint or mount must be given.

    At the joint itself I_sub = 0. Inside a link, I_sub is the part of the link between joint and
    sensor, which w has accelerated before it arrives (paper 003); the external wrench of the link
    and its other joints lie beyond the sensor.

    Attributes:
        joint: through which the wrench comes; by default the one that moves the mount's link.
        mount: on one of the two links that the joint connects; by default the frame of the link
            that the joint moves.
        sign: 1 if it reads the wrench on the mount's link (on the rest of it, beyond the sensor),
            -1 if it reads the opposite one.
        sub_link: (10,) inertial parameters, about the link's origin in its axes, of the part of
            the link between the joint and the sensor; `None`: the sensor sits at the joint.
    """

    kind, components, units = "force_torque", _WRENCH, _WRENCH_UNITS

    joint: str | None = None
    mount: Mount | None = None
    sign: int = 1
    sub_link: Array | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.joint is None and self.mount is None:
            raise ShapeError(f"{self.who} is nowhere: give the joint, or the link it is inside of.")
        if self.sign not in (-1, 1):
            raise ShapeError(
                f"the sign of {self.who} is {self.sign}: give 1 for the wrench on the link, -1 for "
                "its opposite."
            )
        object.__setattr__(self, "sign", int(self.sign))
        if self.sub_link is not None:
            pi = as_array(self.sub_link, (10,), f"sub_link of {self.who}")
            object.__setattr__(self, "sub_link", read_only(pi))

    @property
    def place(self) -> str:
        places = [] if self.joint is None else [f"joint {self.joint}"]
        return ", ".join(places + ([] if self.mount is None else [f"frame {self.mount.frame}"]))

    def measurement(self, robot: Robot) -> Measurement:
        joint, place = self._connection(robot)
        X = self.sign * place.force
        if self.sub_link is None:
            return Measurement(6, link=place.link, joint=joint, transmitted=X)
        I = spatial_inertia(self.sub_link)
        return Measurement(
            6,
            link=place.link,
            joint=joint,
            transmitted=X,
            acceleration=-X @ I,
            quadratic=-np.einsum("kl,lij->kij", X, gyroscopic(I)),
        )

    def _connection(self, robot: Robot) -> tuple[str, LinkPlacement]:
        model, links = robot.model, robot.link_names
        first = model.njoints - robot.n_joints  # of the joints with one axis
        if self.joint is None:
            place = self._mount(links[0]).locate(robot, self.who)
            child = links.index(place.link) + 1
            if child < first:
                raise MismatchError(
                    f"{self.who} is inside link {place.link!r}, the floating base, which no joint "
                    "moves: give the joint whose wrench it reads."
                )
            return str(model.names[child]), place
        child = first + joint_index(robot, self.joint, self.who)
        place = self._mount(links[child - 1]).locate(robot, self.who)
        ends = [links[i - 1] for i in (int(model.parents[child]), child) if i > 0]
        if place.link not in ends:
            raise MismatchError(
                f"{self.who} is mounted on link {place.link!r}, which joint {self.joint!r} does "
                f"not connect: mount it on {' or '.join(map(repr, ends))}."
            )
        return self.joint, place

    def _mount(self, default: str) -> Mount:
        return Mount(default) if self.mount is None else self.mount


class ExternalWrench(LinkSensor):
    """Net force [N] and moment [N·m] of the environment about the mount's origin, in its axes.

    Measured, for instance by a force plate under the foot, or known: no contact is the constant
    zero, with a variance if that is a prior rather than a fact.
    """

    kind, components, units = "external_wrench", _WRENCH, _WRENCH_UNITS

    def measurement(self, robot: Robot) -> Measurement:
        place = self.placement(robot)
        return Measurement(6, link=place.link, external=place.force)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class SkinPatch(LinkSensor):
    """The total normal force on cells of an artificial skin [N], positive when pressed.

        y = n · f,   n = sum n_i / |sum n_i|

    n_i is the normal of cell i: the direction in which the cell is pushed, into the link. The sum
    of the cells' readings is n · f exactly where all normals are equal; split a curved patch into
    patches that are nearly flat.

    Attributes:
        normals: (n_cells, 3) into the link, in the mount's frame; of any length but zero.
        points: (n_cells, 3) where the cells are, in the mount's frame [m]; by default its origin.
    """

    kind, components, units = "skin_patch", ("normal",), ("N",)

    normals: Array
    points: Array = field(default_factory=lambda: np.zeros((0, 3)))

    def __post_init__(self) -> None:
        super().__post_init__()
        normals = as_array(self.normals, (None, 3), f"normals of {self.who}")
        points = as_array(self.points, (None, 3), f"points of {self.who}")
        points = points if points.size else np.zeros_like(normals)
        lengths = np.linalg.norm(normals, axis=1)
        if not normals.size or points.shape != normals.shape:
            raise ShapeError(
                f"{self.who} has {len(normals)} normals and {len(points)} points: give one of each "
                "per cell, and at least one cell."
            )
        if (lengths < _SHORTEST).any():
            raise ShapeError(
                f"normal {int(np.argmin(lengths)) + 1} of {self.who} has no length: give a "
                "direction into the link, e.g. [0, 0, -1]."
            )
        unit = normals / lengths[:, np.newaxis]
        mean = unit.mean(axis=0)
        if (unit @ mean < _SMALLEST_COSINE * np.linalg.norm(mean)).any() or not mean.any():
            raise ShapeError(
                f"the cells of {self.who} face too many ways for one normal force (more than 60° "
                "from their mean): split it into flatter patches."
            )
        object.__setattr__(self, "normals", read_only(unit))
        object.__setattr__(self, "points", read_only(points))

    @property
    def normal(self) -> Array:
        """(3,) unit mean of the normals, in the mount's frame."""
        mean = self.normals.mean(axis=0)
        unit: Array = mean / np.linalg.norm(mean)
        return unit

    def measurement(self, robot: Robot) -> Measurement:
        place = self.placement(robot)
        return Measurement(1, link=place.link, external=self.normal[np.newaxis] @ place.force[:3])


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class DirectedContact(LinkSensor):
    """A contact at the mount's origin that pushes along one direction: a force of unknown size.

        0 = t1 · f,   0 = t2 · f,   0 = m      (and, if its size is measured,  s = n · f)

    (t1, t2, n) is a right-handed triad and (f, m) the external wrench, all in the mount's frame.
    The variances say how far the contact may be from this line: sliding friction, an extended
    patch, a point known roughly. Without channels it has five readings, all constant zero; with one
    channel, that of the force's size, six.

    Attributes:
        direction: (3,) of the force on the link, in the mount's frame; of any length but zero.
    """

    kind = "directed_contact"
    components = ("t1", "t2", "mx", "my", "mz", "n")
    units = ("N", "N", "N·m", "N·m", "N·m", "N")

    direction: Array

    def __post_init__(self) -> None:
        direction = as_array(self.direction, (3,), f"direction of {self.who}")
        length = float(np.linalg.norm(direction))
        if length < _SHORTEST:
            raise ShapeError(
                f"the direction of {self.who} has no length: give that of the force on the link, "
                "e.g. [0, 0, 1]."
            )
        object.__setattr__(self, "direction", read_only(direction / length))
        if self.constant is None:
            zero = np.zeros(len(self.labels))
            zero[5:] = np.nan
            object.__setattr__(self, "constant", zero)
        super().__post_init__()

    @property
    def labels(self) -> tuple[str, ...]:
        return self.components[: self.size]

    @classmethod
    def readings(cls, n_channels: int) -> int:
        """Five that are zero, and the size of the force if there is a channel for it."""
        return 6 if n_channels else 5

    def measurement(self, robot: Robot) -> Measurement:
        place = self.placement(robot)
        t1, t2 = _tangents(self.direction)
        rows = np.zeros((6, 6))
        rows[0, :3], rows[1, :3], rows[5, :3] = t1, t2, self.direction
        rows[2:5, 3:] = np.eye(3)
        return Measurement(self.size, link=place.link, external=rows[: self.size] @ place.force)


def _tangents(n: Array) -> tuple[Array, Array]:
    """Two unit vectors that make a right-handed triad with n."""
    t1 = np.cross(np.eye(3)[int(np.argmin(np.abs(n)))], n)
    t1 /= np.linalg.norm(t1)
    return t1, np.cross(n, t1)


def gyroscopic(I: Array) -> Array:
    """(6, 6, 6) Q with vᵀ Q v = v ×* (I v), symmetric, of a spatial inertia I (6, 6)."""
    product = np.zeros((6, 6, 6))
    crosses = skew(np.eye(3))
    for i in range(3):
        product[3:, i, :] = crosses[i] @ I[:3]
        product[:3, 3 + i, :] = crosses[i] @ I[:3]
        product[3:, 3 + i, :] = crosses[i] @ I[3:]
    return np.asarray(0.5 * (product + product.swapaxes(1, 2)))
