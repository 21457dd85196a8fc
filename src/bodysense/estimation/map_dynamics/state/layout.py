"""`StateLayout`: what is estimated beside d, and where it stands in the vector of all of it.

    x = ( q  q̇  [q̈]  [omega of a floating root]  [phi] | biases  parameters )

What is behind the bar is the same at all samples. phi turns the root where sensors read
orientations in a world that the root is not bolted to: R_world_root = R_reference Exp(phi).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bodysense.estimation._kernels.elimination import EXACT
from bodysense.estimation.map_dynamics.body_tree import WORLD, BodyTree
from bodysense.estimation.map_dynamics.estimator import MapDynamics
from bodysense.estimation.posterior import NamedSlices
from bodysense.sensors.motion_sensors import Orientation
from bodysense.sensors.sensor import Sensor
from bodysense.spatial.arrays import Array
from bodysense.spatial.se3 import exp_so3, left_jacobian, left_jacobian_inverse, log_so3


@dataclass(frozen=True)
class StateLayout:
    """Sizes and slices.

    Attributes:
        n: number of joints.
        order: 2, or 3 with joint accelerations.
        floating: whether the root has an angular velocity.
        turned: whether the root has an unknown orientation.
        constants: numbers that are the same at all samples.
    """

    n: int
    order: int
    floating: bool
    turned: bool
    constants: int

    @property
    def joints(self) -> int:
        """Length of the part about joints, which comes first."""
        return self.order * self.n

    @property
    def columns(self) -> int:
        """Length of the part that the kernel differentiates by: joints and angular velocity."""
        return self.joints + 3 * self.floating

    @property
    def local(self) -> int:
        """Length of the part that belongs to one sample."""
        return self.columns + 3 * self.turned

    @property
    def size(self) -> int:
        return self.local + self.constants

    def q(self, x: Array) -> Array:
        return x[..., : self.n]

    def dq(self, x: Array) -> Array:
        return x[..., self.n : 2 * self.n]

    def ddq(self, x: Array) -> Array:
        """Accelerations; empty where they are not in the state."""
        return x[..., 2 * self.n : self.joints]

    def omega(self, x: Array) -> Array:
        """Angular velocity of the root; empty where it is known."""
        return x[..., self.joints : self.columns]

    def phi(self, x: Array) -> Array:
        """Turn of the root; empty where its orientation is known or of no interest."""
        return x[..., self.columns : self.local]

    def constant(self, x: Array) -> Array:
        return x[..., self.local :]

    def named(
        self, tree: BodyTree, biased: Sequence[Sensor]
    ) -> tuple[NamedSlices, NDArray[np.int64]]:
        """Names of what is reported beside d, and the places in x that they report.

        Accelerations are in d already, and coordinates of parameters mean nothing to a user.
        """
        joints, root = tree.robot.joint_names, tree.names[0]
        sizes = [(f"{what}.{joint}", 1) for what in ("q", "dq") for joint in joints]
        places = list(range(2 * self.n))
        if self.floating:
            sizes.append((f"omega.{root}", 3))
            places += range(self.joints, self.columns)
        if self.turned:
            sizes.append((f"rotation.{root}", 3))
            places += range(self.columns, self.local)
        at = self.local
        for sensor in biased:
            sizes.append((f"bias.{sensor.name}", sensor.size))
            places += range(at, at + sensor.size)
            at += sensor.size
        return NamedSlices.from_sizes("quantity", sizes), np.array(places, dtype=np.int64)


# Readings of orientations, which tell about positions alone: whitened rows outside the kernels.
#
#     r = Log(R_predᵀ R_read) - bias,    R_pred = R_world_root R_root_link R_link_sensor
#     ∂r/∂q = -Jl(r)⁻¹ R_link_sensorᵀ J_link
#
# with Jl the left Jacobian and J_link the angular Jacobian of the link in its own frame. A reading
# is the rotation vector of R_world_sensor. Where the root is not bolted to the world its
# orientation is unknown, and a first guess comes from the first reading.


@dataclass(frozen=True, eq=False)
class OrientationRows:
    """The orientation sensors of a problem."""

    problem: MapDynamics

    @cached_property
    def sensors(self) -> tuple[Orientation, ...]:
        return tuple(s for s in self.problem.sensors if isinstance(s, Orientation))

    @property
    def turned(self) -> bool:
        """Whether the orientation of the root is among the unknowns."""
        return bool(self.sensors) and self.problem.tree.names[0] != WORLD

    def reference(self, q: Array, y: Array) -> Array:
        """R_world_root at which the root's turn is zero: what the first reading says."""
        if self.turned:
            R_root, _ = rotations(self.problem.tree, q)
            for sensor, R_link_sensor, body in self._places:
                reading = y[self.problem.layout.slices[sensor.name]]
                if np.isfinite(reading).all():
                    R: Array = exp_so3(reading) @ (R_root[body] @ R_link_sensor).T
                    return R
        return np.eye(3)

    def at(
        self, layout: StateLayout, x: Array, R_reference: Array, y: Array, bias: Array
    ) -> tuple[Array, Array, Array, Array]:
        """Residuals of readings y (m,) at x, given biases alike in the user's order.

        Returns:
            (k,) whitened residuals of the orientations that were read; (k, size) their derivatives
            by x, without biases; (k, m) by the user's biases; (m,) residuals as they are [rad],
            NaN elsewhere.
        """
        q, phi, m = layout.q(x), layout.phi(x), self.problem.layout.size
        turn = phi if phi.size else np.zeros(3)
        R_root, J_root = rotations(self.problem.tree, q)
        R_world_root = R_reference @ exp_so3(turn)
        raw = np.full(m, np.nan)
        parts = [(np.zeros(0), np.zeros((0, layout.size)), np.zeros((0, m)))]
        for sensor, R_link_sensor, body in self._places:
            where = self.problem.layout.slices[sensor.name]
            if not np.isfinite(y[where]).all():
                continue
            R_root_sensor = R_root[body] @ R_link_sensor
            r = log_so3((R_world_root @ R_root_sensor).T @ exp_so3(y[where]))
            W = _whitener(sensor.covariance)
            back = -W @ left_jacobian_inverse(r) @ R_root_sensor.T
            by_x, by_bias = np.zeros((3, layout.size)), np.zeros((3, m))
            by_x[:, : layout.n] = back @ J_root[body]
            by_x[:, layout.columns : layout.local] = (back @ left_jacobian(-turn))[:, : phi.size]
            by_bias[:, where] = -W
            raw[where] = r - bias[where]
            parts.append((W @ raw[where], by_x, by_bias))
        residual, by_x, by_bias = (np.concatenate(part) for part in zip(*parts, strict=True))
        return residual, by_x, by_bias, raw

    @cached_property
    def _places(self) -> list[tuple[Orientation, Array, int]]:
        places = []
        for sensor in self.sensors:
            e = sensor.measurement(self.problem.robot)
            if e.link is not None and e.rotation is not None:
                places.append((sensor, e.rotation, self.problem.tree.body(e.link)))
        return places


def rotations(tree: BodyTree, q: Array) -> tuple[Array, Array]:
    """R_root_link (n, 3, 3) of all bodies, and their angular Jacobians (n, 3, n_joints) there."""
    bodies = tree.arrays
    R, J = np.zeros((tree.n, 3, 3)), np.zeros((tree.n, 3, q.size))
    R[0] = np.eye(3)
    for i in range(1, tree.n):
        p, j = bodies.parent[i], bodies.joint[i]
        angle = 0.0 if bodies.prismatic[i] else q[j]
        weights = np.array([1.0, np.cos(angle), np.sin(angle)])
        step = (weights @ bodies.rotation[i]).reshape(3, 3)
        R[i] = R[p] @ (step.T if bodies.against[i] else step)
        J[i] = J[p]
        J[i, :, j] += R[i] @ bodies.S[i, 3:]
    return R, J


def _whitener(covariance: Array) -> Array:
    values, vectors = np.linalg.eigh(covariance)
    W: Array = vectors.T / np.sqrt(np.maximum(values, EXACT**2))[:, None]
    return W
