"""`Sensor`: where it is mounted, what it measures, its covariance.

    reading = prediction + bias + noise,   noise ~ N(0, covariance),  bias ~ N(0, bias_sigma²)

The prediction is a `Measurement`: constants that multiply the motion and the wrenches of one link
and one joint,

    y = A a + W w + X fx + t tau + d a_joint + vᵀ Q v + L v + p q + r q̇ + friction(q̇) + noise

a, v: proper spatial acceleration and twist of the link, in its frame, linear first; w: wrench on
the link through the joint, in the link's frame about its origin; fx: external wrench on the link,
likewise; tau, a_joint, q, q̇: torque, acceleration, position and velocity of the joint. All the
coefficients are constant: what a reading owes to the motion is a polynomial of the link's own
twist, which estimators differentiate without knowing any sensor. Readings come from channels of a
log; what is known without measuring it, such as the absence of contact, is a constant reading with
a variance.

A `Mount` transforms motions and forces of the link to the sensor's frame, linear first:

    v_sensor = X v_link,    X  = [Rᵀ  -Rᵀ S(p)]      f_sensor = X* f_link,   X* = [ Rᵀ       0 ]
                                 [0    Rᵀ     ],                                  [-Rᵀ S(p)  Rᵀ],

R = R_link_sensor, p = p_link_sensor the sensor's origin in the link's frame.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
import pinocchio as pin
from numpy.typing import ArrayLike

from bodysense.errors import ShapeError
from bodysense.spatial.arrays import Array, as_array, one_each, read_only
from bodysense.spatial.se3 import require_rotation

if TYPE_CHECKING:
    from bodysense.robot.robot import Robot

_ROUNDING = 1e-10  # of a covariance: asymmetry, negative eigenvalue over its largest entry


_WIDTHS: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(("acceleration", "transmitted", "external", "linear"), (6,)),
    **dict.fromkeys(("torque", "joint_acceleration", "position", "velocity"), ()),
    "quadratic": (6, 6),
}
_EMPTY = np.zeros(0)


@dataclass(frozen=True, eq=False)
class Measurement:
    """Coefficients of the m readings of a sensor; those that are not given are zero.

    Attributes:
        size: m.
        link: the link whose motion or external wrench is read, or `None`.
        joint: the joint whose torque, motion or transmitted wrench is read, or `None`; with a
            transmitted wrench, `link` is one of the two that it connects.
        acceleration: (m, 6) A.
        transmitted: (m, 6) W.
        external: (m, 6) X.
        torque: (m,) t.
        joint_acceleration: (m,) d.
        quadratic: (m, 6, 6) Q, symmetric.
        linear: (m, 6) L.
        position: (m,) p.
        velocity: (m,) r.
        friction: whether the friction of the joint's drive is in the reading.
        rotation: (3, 3) R_link_sensor if the reading is the sensor's orientation in the world, of
            which the residual is the rotation vector from the predicted to the read one, in the
            sensor's frame; else `None`.
    """

    size: int
    link: str | None = None
    joint: str | None = None
    acceleration: Array = field(default_factory=lambda: _EMPTY)
    transmitted: Array = field(default_factory=lambda: _EMPTY)
    external: Array = field(default_factory=lambda: _EMPTY)
    torque: Array = field(default_factory=lambda: _EMPTY)
    joint_acceleration: Array = field(default_factory=lambda: _EMPTY)
    quadratic: Array = field(default_factory=lambda: _EMPTY)
    linear: Array = field(default_factory=lambda: _EMPTY)
    position: Array = field(default_factory=lambda: _EMPTY)
    velocity: Array = field(default_factory=lambda: _EMPTY)
    friction: bool = False
    rotation: Array | None = None

    def __post_init__(self) -> None:
        for name, width in _WIDTHS.items():
            value = np.asarray(getattr(self, name), dtype=np.float64)
            shape = (self.size, *width)
            if value.size == 0:
                value = np.zeros(shape)
            if value.shape != shape:
                raise ShapeError(f"{name} has shape {value.shape}, expected {shape}.")
            object.__setattr__(self, name, value)


class LinkPlacement(NamedTuple):
    """A place on a link of one robot: the link, R_link_sensor (3, 3) and p_link_sensor (3,)."""

    link: str
    R: Array
    p: Array

    @property
    def motion(self) -> Array:
        """(6, 6) X, which maps twists and accelerations of the link to the sensor's frame."""
        return np.asarray(pin.SE3(self.R, self.p).toActionMatrixInverse())

    @property
    def force(self) -> Array:
        """(6, 6) X*, which maps wrenches on the link to the sensor's frame."""
        return np.asarray(pin.SE3(self.R, self.p).inverse().toDualActionMatrix())


@dataclass(frozen=True, eq=False)
class Mount:
    """A placement in a named frame: a link, or anything fixed to one, such as a tool flange.

    Attributes:
        frame: of the robot.
        R: (3, 3) R_frame_sensor.
        p: (3,) the sensor's origin in that frame [m].
    """

    frame: str
    R: Array = field(default_factory=lambda: np.eye(3))
    p: Array = field(default_factory=lambda: np.zeros(3))

    def __post_init__(self) -> None:
        R = require_rotation(as_array(self.R, (3, 3), "R"), f"R of the mount in {self.frame!r}")
        object.__setattr__(self, "R", read_only(R))
        p = as_array(self.p, (3,), f"p of the mount in {self.frame!r}")
        object.__setattr__(self, "p", read_only(p))

    @classmethod
    def from_xyz_rpy(
        cls, frame: str, xyz: ArrayLike = (0, 0, 0), rpy: ArrayLike = (0, 0, 0)
    ) -> Mount:
        """Build it from a translation [m] and the roll, pitch and yaw of URDF files [rad]."""
        angles = as_array(rpy, (3,), "rpy")
        return cls(frame, pin.rpy.rpyToMatrix(*angles), as_array(xyz, (3,), "xyz"))

    def locate(self, robot: Robot, who: str) -> LinkPlacement:
        """Find the place on a robot, whose frame must move; `who` names the sensor in messages."""
        from bodysense.robot.frames import moving_frame  # which needs the robot, as this does not

        frame = moving_frame(robot, self.frame, who)
        T_link_frame = frame.placement
        return LinkPlacement(
            robot.link_names[frame.parentJoint - 1],
            T_link_frame.rotation @ self.R,
            T_link_frame.rotation @ self.p + T_link_frame.translation,
        )


def variances(std: ArrayLike, m: int, name: str = "std") -> Array:
    """(m, m) covariance of readings that err independently of each other.

    `std` are standard deviations in SI units, one number for all or `m` of them; zero is exact.
    `name` is what the caller calls them, for messages.
    """
    return np.diag(deviations(std, m, name) ** 2)


def deviations(std: ArrayLike, m: int, name: str) -> Array:
    """(m,) standard deviations, from one number or `m` of them."""
    values = one_each(std, m, name)
    if (values < 0.0).any():
        raise ShapeError(
            f"{name} holds {values.min():g}: a standard deviation is zero (exact) or positive."
        )
    return values


def check_covariance(value: ArrayLike, m: int, name: str) -> Array:
    """Return `value` as an (m, m) covariance, symmetric to the last digit and read-only.

    Raises:
        ShapeError: wrong shape, not finite, not symmetric, or with a negative direction.
    """
    try:
        matrix = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ShapeError(f"{name} must be a matrix of numbers: {error}") from error
    if matrix.shape != (m, m):
        raise ShapeError(
            f"{name} has shape {matrix.shape}, expected {(m, m)}: build it from standard "
            f"deviations with variances(std, {m})."
        )
    if not np.isfinite(matrix).all():
        raise ShapeError(
            f"{name} holds {matrix[~np.isfinite(matrix)][0]}: give finite variances, and leave out "
            "a sensor without information."
        )
    size = float(np.abs(matrix).max(initial=0.0))
    asymmetry = float(np.abs(matrix - matrix.T).max(initial=0.0))
    if asymmetry > _ROUNDING * size:
        raise ShapeError(
            f"{name} is not symmetric (by {asymmetry:.3g}): give the full matrix, for example "
            "(A + A.T) / 2."
        )
    Sigma = 0.5 * (matrix + matrix.T)
    least = float(np.linalg.eigvalsh(Sigma).min(initial=0.0))
    if least < -_ROUNDING * size:
        raise ShapeError(
            f"{name} is not positive: its least eigenvalue is {least:.3g}. Variances are squares "
            "of standard deviations, and no correlation exceeds 1."
        )
    return read_only(Sigma)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Sensor(ABC):
    """Base of all sensors.

    Attributes:
        name: of the sensor, distinct on a robot.
        covariance: (size, size) of the noise, SI units; zero where a reading is exact.
        bias_sigma: (size,) prior standard deviation of a constant bias; `None`: there is no bias.
        constant: (len(labels),) readings known without measuring them, NaN where a channel gives
            them; `None`: all come from channels.
        channels: of the log, one per reading that is not constant; by default `<name>.<label>`, or
            the name alone for a sensor with one reading.
    """

    kind: ClassVar[str]
    """The word for it in files."""
    components: ClassVar[tuple[str, ...]]
    """Names of its readings, the ends of its channels' names."""
    units: ClassVar[tuple[str, ...]]
    """SI units of its readings."""

    name: str
    covariance: Array
    bias_sigma: Array | None = None
    constant: Array | None = None
    channels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.name.strip():
            raise ShapeError(f"a sensor is named {self.name!r}: give it a name.")
        Sigma = check_covariance(self.covariance, self.size, f"the covariance of {self.who}")
        object.__setattr__(self, "covariance", Sigma)
        if self.bias_sigma is not None:
            sigma = deviations(self.bias_sigma, self.size, f"bias_sigma of {self.who}")
            object.__setattr__(self, "bias_sigma", read_only(sigma))
        if self.constant is not None:
            constant = np.asarray(self.constant, dtype=np.float64)
            if constant.shape != (len(self.labels),) or np.isinf(constant).any():
                raise ShapeError(
                    f"the constant reading of {self.who} is {self.constant!r:.60}: give "
                    f"{len(self.labels)} numbers ({', '.join(self.labels)}), NaN where a channel "
                    "gives the value."
                )
            object.__setattr__(self, "constant", read_only(constant))
        self._name_channels()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}: {self.place}>"

    @property
    def who(self) -> str:
        return f"sensor {self.name!r} ({self.kind})"

    @property
    def labels(self) -> tuple[str, ...]:
        return self.components

    @property
    def size(self) -> int:
        """m, the number of readings that count: of the covariance and the residual."""
        return self.readings(len(self.channels))

    @classmethod
    def readings(cls, n_channels: int) -> int:
        """Number of readings of a sensor of this kind with so many channels."""
        return len(cls.components)

    @property
    @abstractmethod
    def place(self) -> str:
        """Where it is, in words."""

    @abstractmethod
    def measurement(self, robot: Robot) -> Measurement:
        """Coefficients of the readings on this robot.

        Raises:
            UnknownNameError: the robot has no such joint or frame.
            MismatchError: the sensor cannot sit there.
        """

    @property
    def rows(self) -> tuple[tuple[str, str], ...]:
        """(size,) label and unit of each reading that counts, as residuals have them."""
        return tuple(zip(self.labels, self.units, strict=False))[: self.size]

    def channel_units(self, robot: Robot) -> tuple[str, ...]:
        """Unit of each channel on this robot."""
        units = self.units[: len(self.labels)]
        return tuple(unit for unit, open_ in zip(units, self._open(), strict=True) if open_)

    def reading(self, values: ArrayLike) -> Array:
        """(..., len(labels)) readings from channels (..., len(channels)), constants filled in.

        NaN, which stands for a reading that did not come, stays.
        """
        array = np.asarray(values, dtype=np.float64)
        if array.ndim == 0 or array.shape[-1] != len(self.channels):
            raise ShapeError(
                f"values of {self.who} have shape {array.shape}: the last axis holds its "
                f"{len(self.channels)} channels ({', '.join(self.channels) or 'none'})."
            )
        if self.constant is None:
            return array
        full = np.array(np.broadcast_to(self.constant, (*array.shape[:-1], self.constant.size)))
        full[..., np.isnan(self.constant)] = array
        return full

    def _default_channels(self) -> tuple[str, ...]:
        if len(self.labels) == 1:
            return (self.name,)
        return tuple(f"{self.name}.{label}" for label in self.labels)

    def _open(self) -> tuple[bool, ...]:
        """Which labels are read from channels."""
        if self.constant is None:
            return (True,) * len(self.labels)
        return tuple(bool(missing) for missing in np.isnan(self.constant))

    def _name_channels(self) -> None:
        given, open_ = tuple(self.channels), self._open()
        if not given:
            named = zip(self._default_channels(), open_, strict=True)
            given = tuple(channel for channel, is_open in named if is_open)
        if len(given) != sum(open_) or len(set(given)) != len(given):
            wanted = [label for label, is_open in zip(self.labels, open_, strict=True) if is_open]
            needs = f"{len(wanted)} different ones ({', '.join(wanted)})" if wanted else "none"
            raise ShapeError(
                f"channels of {self.who} are {', '.join(given)}: give {needs}"
                + ("." if wanted else ", for its readings are constant.")
            )
        object.__setattr__(self, "channels", given)
