"""What the posterior says about the noise of each sensor, at many samples.

The noise of a sensor's readings is what the prediction leaves, n = y - H x, where x are the
accelerations and wrenches that it reads. After all readings

    E[n | y] = y - H x̂ = r,     Cov[n | y] = H C Hᵀ,     Cov[r] = Sigma - H C Hᵀ

with C the posterior covariance of x.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bodysense.estimation._kernels.problem import EXTERNAL, GROUPS, PARENT_SIDE
from bodysense.estimation._kernels.solve import Found
from bodysense.estimation.map_dynamics.body_tree import BodyTree
from bodysense.estimation.map_dynamics.solution import Samples
from bodysense.spatial.arrays import Array

if TYPE_CHECKING:
    from bodysense.estimation.map_dynamics.estimator import MapDynamics

_AT_ONCE = 2e7
"""Numbers of covariances that are held at a time: 160 MB."""


class Noise(NamedTuple):
    """The noise of a sensor at T samples.

    Attributes:
        mean: (T, m), NaN where there is no reading.
        covariance: (T, m, m) after all readings.
    """

    mean: Array
    covariance: Array


def chunks(problem: MapDynamics, T: int) -> Iterator[slice]:
    """Samples to solve at a time, so that covariances of long logs fit into memory."""
    size = max(2, int(_AT_ONCE / (500 * problem.tree.n)))
    return (slice(at, min(at + size, T)) for at in range(0, T, size))


def noises(problem: MapDynamics, samples: Samples, found: Found) -> dict[str, Noise]:
    """Noise of every sensor, by its name.

    Args:
        problem: the estimator.
        samples: of `problem.samples`.
        found: what `problem.solve` made of them, with covariances (detail "blocks" or "slacks").
    """
    layout, rows = problem.layout, problem.layout.arrays
    result = {}
    for sensor in problem.sensors:
        block = layout.block_of[sensor.name]
        here = slice(int(rows.first[block]), int(rows.first[block + 1]))
        spread = _predicted(problem, samples, found, block)
        result[sensor.name] = Noise(found.residual[:, here], spread)
    return result


def _predicted(problem: MapDynamics, samples: Samples, found: Found, block: int) -> Array:
    """(T, m, m) H C Hᵀ of a block of readings."""
    rows = problem.layout.arrays
    here = slice(int(rows.first[block]), int(rows.first[block + 1]))
    body, group = _place(rows.begin, block)
    if group == EXTERNAL:
        H = rows.on_external[here]
        return _congruence(H, found.external[:, body])
    if group == PARENT_SIDE:
        X = transforms(problem.tree, body, samples.q[:, problem.tree.joint[body]])
        T, m = X.shape[0], here.stop - here.start
        across = np.empty((T, m, 12))
        across[:, :, :6] = rows.on_alpha[here, :6]
        across[:, :, 6:] = -rows.on_wrench[here, :6] @ X.transpose(0, 2, 1)
        return _congruence(across, found.between[:, body])
    H = np.concatenate([rows.on_alpha[here], rows.on_wrench[here]], axis=1)
    return _congruence(H, found.joint[:, body])


def _congruence(H: Array, C: Array) -> Array:
    product: Array = H @ C @ np.swapaxes(H, -1, -2)
    return product


def _place(begin: np.ndarray, block: int) -> tuple[int, int]:
    """Body and group of a block."""
    for body in range(begin.shape[0]):
        for group in range(GROUPS):
            if begin[body, group] <= block < begin[body, group + 1]:
                return body, group
    raise IndexError(block)


def transforms(tree: BodyTree, body: int, q: Array) -> Array:
    """(T, 6, 6) motion vectors of the parent's frame in the body's, at positions q (T,)."""
    bodies = tree.arrays
    B, p = bodies.rotation[body].reshape(3, 3, 3), bodies.position[body]
    if bodies.prismatic[body]:
        R = np.array(np.broadcast_to(B[0] + B[1], (q.size, 3, 3)))
        p = p + q[:, None] * (B[0] @ bodies.axis[body])
    else:
        R = B[0] + np.cos(q)[:, None, None] * B[1] + np.sin(q)[:, None, None] * B[2]
        p = np.broadcast_to(p, (q.size, 3))
    lever = np.zeros((q.size, 3, 3))
    lever[:, 2, 1], lever[:, 0, 2], lever[:, 1, 0] = p[:, 0], p[:, 1], p[:, 2]
    lever -= lever.transpose(0, 2, 1)
    X = np.zeros((q.size, 6, 6))
    if tree.against[body]:
        X[:, :3, :3] = X[:, 3:, 3:] = R
        X[:, :3, 3:] = lever @ R
    else:
        X[:, :3, :3] = X[:, 3:, 3:] = R.transpose(0, 2, 1)
        X[:, :3, 3:] = -R.transpose(0, 2, 1) @ lever
    return X
