"""Readings of orientations, which tell about positions alone: whitened rows outside the kernels.

    r = Log(R_predᵀ R_read) - bias,    R_pred = R_world_root R_root_link R_link_sensor
    ∂r/∂q = -Jl(r)⁻¹ R_link_sensorᵀ J_link

with Jl the left Jacobian and J_link the angular Jacobian of the link in its own frame. A reading is
the rotation vector of R_world_sensor. Where the root is not bolted to the world its orientation is
unknown, and a first guess comes from the first reading.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bodysense.estimation._kernels.elimination import EXACT
from bodysense.estimation.map_dynamics.body_tree import WORLD, BodyTree
from bodysense.estimation.map_dynamics.estimator import MapDynamics
from bodysense.sensors.inertial_sensors import Orientation
from bodysense.spatial.arrays import Array
from bodysense.spatial.se3 import exp_so3, left_jacobian_inverse, log_so3, right_jacobian


@dataclass(frozen=True, eq=False)
class OrientationRows:
    """The orientation sensors of a problem."""

    problem: MapDynamics

    @cached_property
    def sensors(self) -> tuple[Orientation, ...]:
        """Those that read orientations."""
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

    def at(self, q: Array, R_reference: Array, phi: Array, y: Array, bias: Array) -> ResidualRows:
        """Residuals of readings y (m,), given biases alike in the user's order."""
        n, m = q.size, self.problem.layout.size
        turn = phi if phi.size else np.zeros(3)
        R_root, J_root = rotations(self.problem.tree, q)
        R_world_root = R_reference @ exp_so3(turn)
        raw = np.full(m, np.nan)
        parts: list[tuple[Array, Array, Array, Array]] = []
        for sensor, R_link_sensor, body in self._places:
            where = self.problem.layout.slices[sensor.name]
            if not np.isfinite(y[where]).all():
                continue
            R_root_sensor = R_root[body] @ R_link_sensor
            r = log_so3((R_world_root @ R_root_sensor).T @ exp_so3(y[where]))
            W = _whitener(sensor.covariance)
            back = -W @ left_jacobian_inverse(r)
            by_phi = back @ R_root_sensor.T @ right_jacobian(turn)
            by_bias = np.zeros((3, m))
            by_bias[:, where] = -W
            by_q = back @ R_root_sensor.T @ J_root[body]
            raw[where] = r - bias[where]
            parts.append((W @ raw[where], by_q, by_phi[:, : phi.size], by_bias))
        empty = (np.zeros(0), np.zeros((0, n)), np.zeros((0, phi.size)), np.zeros((0, m)))
        r, by_q, by_phi, by_bias = (np.concatenate(b) for b in zip(empty, *parts, strict=True))
        return ResidualRows(r, by_q, by_phi, by_bias, raw)

    @cached_property
    def _places(self) -> list[tuple[Orientation, Array, int]]:
        places = []
        for sensor in self.sensors:
            e = sensor.measurement(self.problem.robot)
            if e.link is not None and e.rotation is not None:
                places.append((sensor, e.rotation, self.problem.tree.body(e.link)))
        return places


@dataclass(frozen=True, eq=False)
class ResidualRows:
    """Rows of all orientations that were read.

    Attributes:
        residual: (k,) whitened.
        by_q: (k, n) derivatives by positions.
        by_phi: (k, 0 or 3) by the turn of the root.
        by_bias: (k, m) by the user's biases.
        raw: (m,) residuals as they are [rad], in the user's order, NaN elsewhere.
    """

    residual: Array
    by_q: Array
    by_phi: Array
    by_bias: Array
    raw: Array


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
