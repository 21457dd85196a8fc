"""The array type of all signatures, and the checks of arrays that callers pass in."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bodysense.errors import ShapeError

Array = NDArray[np.float64]


def as_array(value: ArrayLike, shape: tuple[int | None, ...], name: str) -> Array:
    """Return `value` as a finite, writable, C-contiguous float64 array of the given shape.

    Read-only arrays are copied: to numba they are another type, for which it would compile anew.

    Args:
        value: anything numpy can turn into an array.
        shape: the wanted shape; `None` accepts any length along that axis.
        name: what the caller calls this array, for the message.

    Raises:
        ShapeError: wrong number of axes, wrong lengths, not numeric, NaN or infinite.
    """
    try:
        array = np.ascontiguousarray(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ShapeError(f"{name} must be an array of numbers: {error}") from error
    if not array.flags.writeable:
        array = array.copy()
    if not shape:  # ascontiguousarray turns scalars into one-element vectors
        array = array.reshape(()) if array.size == 1 else array
    _require_shape(array, shape, name)
    if not np.isfinite(array).all():
        first = tuple(int(k) for k in np.argwhere(~np.isfinite(array))[0])
        raise ShapeError(
            f"{name} holds {array[first]} at index {first}: remove or interpolate values that "
            "are not finite before calling."
        )
    return array


def _require_shape(array: Array, shape: tuple[int | None, ...], name: str) -> None:
    lengths = zip(shape, array.shape, strict=False)
    if array.ndim != len(shape) or any(n not in (None, length) for n, length in lengths):
        expected = "(" + ", ".join("any" if n is None else str(n) for n in shape) + ")"
        single = array.ndim == len(shape) - 1 and shape[0] is None
        hint = " Give a single sample a first axis: x[None]." if single else ""
        raise ShapeError(f"{name} has shape {array.shape}, expected {expected}.{hint}")


def one_each(value: ArrayLike, n: int, name: str, *, infinite: bool = False) -> Array:
    """Return a number, or one number each, as a new array (n,).

    Args:
        value: one number for all, or `n` of them.
        n: how many are needed.
        name: what the caller calls this value, for the message.
        infinite: whether infinity is allowed, as for limits; NaN never is.

    Raises:
        ShapeError: another number of values, not numeric, NaN, or infinite where not allowed.
    """
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ShapeError(f"{name} must be a number or an array of numbers: {error}") from error
    if array.shape not in ((), (n,)):
        raise ShapeError(f"{name} has shape {array.shape}: give one number, or {n}, one each.")
    bad = np.isnan(array) if infinite else ~np.isfinite(array)
    if bad.any():
        allowed = "numbers, or inf where there is no limit" if infinite else "finite numbers"
        raise ShapeError(f"{name} holds {array[bad].flat[0]}: give {allowed}.")
    return np.array(np.broadcast_to(array, (n,)))


def read_only(array: Array) -> Array:
    """Return a copy that cannot be written to: what frozen objects hold and hand out."""
    copy = np.array(array, dtype=np.float64)
    copy.flags.writeable = False
    return copy


def as_stack(value: ArrayLike, item: tuple[int, ...], name: str) -> Array:
    """Return `value` as a finite float64 array of shape (..., *item), any leading axes.

    Raises `ShapeError` as `as_array` does.
    """
    try:
        leading = max(np.ndim(value) - len(item), 0)
    except ValueError:  # ragged nesting has no dimension: as_array words the message
        leading = 0
    return as_array(value, (None,) * leading + item, name)


def require_same_stack(**leading: tuple[int, ...]) -> None:
    """Raise `ShapeError` unless leading axes, by name of array, broadcast against each other."""
    try:
        np.broadcast_shapes(*leading.values())
    except ValueError as error:
        shapes = ", ".join(f"{name} {axes}" for name, axes in leading.items())
        raise ShapeError(
            f"the leading axes do not match: {shapes}. Give stacks of the same length, or one "
            "item for all."
        ) from error
