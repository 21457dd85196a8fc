"""Stacks of small arrays: many bodies, many rotations, along any number of leading axes."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from bodysense.errors import ShapeError
from bodysense.spatial.arrays import Array, as_array


def as_stack(value: ArrayLike, item: tuple[int, ...], name: str) -> Array:
    """Return `value` as a finite float64 array of shape (..., *item), any leading axes.

    Raises:
        ShapeError: the last axes are not `item`, or the values are not finite numbers.
    """
    try:
        leading = max(np.ndim(value) - len(item), 0)
    except ValueError:  # ragged nesting has no dimension: as_array words the message
        leading = 0
    return as_array(value, (None,) * leading + item, name)


def require_same_stack(**leading: tuple[int, ...]) -> None:
    """Check that leading axes, by name of the array, broadcast against each other.

    Raises:
        ShapeError: names each array with its leading axes.
    """
    try:
        np.broadcast_shapes(*leading.values())
    except ValueError as error:
        shapes = ", ".join(f"{name} {axes}" for name, axes in leading.items())
        raise ShapeError(
            f"the leading axes do not match: {shapes}. Give stacks of the same length, or one "
            "item for all."
        ) from error
