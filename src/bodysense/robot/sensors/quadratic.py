"""Products of a link's twist with itself, as the constant arrays of a `Measurement`."""

from __future__ import annotations

import numpy as np

from bodysense.spatial.arrays import Array
from bodysense.spatial.se3 import skew


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
