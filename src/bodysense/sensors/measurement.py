"""`Measurement`: what a mounted sensor reads, as constants of an equation.

    y = A a + W w + X fx + t tau + d a_joint + vᵀ Q v + L v + p q + r q̇ + friction(q̇) + noise

a, v: proper spatial acceleration and twist of the link, in its frame, linear first; w: wrench on
the link through the joint, in the link's frame about its origin; fx: external wrench on the link,
likewise; tau, a_joint, q, q̇: torque, acceleration, position and velocity of the joint. All the
coefficients are constant: what a reading owes to the motion is a polynomial of the link's own
twist, which estimators differentiate without knowing any sensor.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from bodysense.errors import ShapeError
from bodysense.spatial.arrays import Array
from bodysense.spatial.se3 import skew

_WIDTHS: dict[str, tuple[int, ...]] = {
    "acceleration": (6,),
    "transmitted": (6,),
    "external": (6,),
    "torque": (),
    "joint_acceleration": (),
    "quadratic": (6, 6),
    "linear": (6,),
    "position": (),
    "velocity": (),
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


def centripetal(R: Array, p: Array) -> Array:
    """(3, 6, 6) Q with vᵀ Q v = Rᵀ (omega × (v_linear + omega × p)), symmetric."""
    product = np.zeros((3, 6, 6))  # of the twist on the left and that on the right
    crosses = skew(np.eye(3))  # e_i ×
    for i in range(3):
        product[:, 3 + i, :3] = R.T @ crosses[i]
        product[:, 3 + i, 3:] = -R.T @ crosses[i] @ skew(p)
    return _symmetric(product)


def gyroscopic(I: Array) -> Array:
    """(6, 6, 6) Q with vᵀ Q v = v ×* (I v), symmetric, of a spatial inertia I (6, 6)."""
    product = np.zeros((6, 6, 6))
    crosses = skew(np.eye(3))
    for i in range(3):
        product[3:, i, :] = crosses[i] @ I[:3]
        product[:3, 3 + i, :] = crosses[i] @ I[:3]
        product[3:, 3 + i, :] = crosses[i] @ I[3:]
    return _symmetric(product)


def _symmetric(product: Array) -> Array:
    symmetric: Array = 0.5 * (product + product.swapaxes(-1, -2))
    return symmetric
