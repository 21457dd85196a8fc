"""Numbers of several samples side by side: a number of the kernels that holds `LANES` of them.

A processor multiplies two, four or eight numbers as fast as one. Rows of small matrices are too
short for that, but the same step at eight samples is eight times the same arithmetic. So a kernel
that takes its numbers as they come, floats or lanes, is compiled for both from one source:

    arrays of floats (…, LANES)  --lanes_of-->  arrays of lanes (…)

Lanes know the arithmetic of the kernels, mixed with floats, and the functions below, which floats
know as well. A comparison would have eight answers: what branches does so for all lanes alike.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.core.imputils import impl_ret_borrowed
from numba.core.typeconv.castgraph import Conversion
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import (
    intrinsic,
    lower_builtin,
    lower_cast,
    models,
    overload,
    register_model,
)
from numba.np.arrayobj import make_array
from numpy.typing import NDArray

from bodysense.compiled.jit import Kernel

LANES = 8
"""As many doubles as the widest registers hold; narrower ones take them in turns."""

# numba has no types for mypy
_intrinsic: Callable[[Kernel], Kernel] = intrinsic
_lower_builtin: Callable[..., Callable[[Kernel], Kernel]] = lower_builtin
_lower_cast: Callable[..., Callable[[Kernel], Kernel]] = lower_cast

_FLOAT = ir.DoubleType()
_VECTOR = ir.VectorType(_FLOAT, LANES)
_FIRST = ir.Constant(ir.IntType(32), 0)


class _Lanes(types.Type):
    def __init__(self) -> None:
        super().__init__(name=f"lanes{LANES}")

    def unify(self, context: Any, other: types.Type) -> types.Type | None:
        """A float may become lanes, ``x = 0.0`` before a loop that adds lanes to it."""
        return self if isinstance(other, types.Float | _Lanes) else None

    def can_convert_from(self, context: Any, other: types.Type) -> Any:
        return Conversion.safe if isinstance(other, types.Float) else None


lanes = _Lanes()


@register_model(_Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: types.Type) -> None:
        super().__init__(manager, kind, _VECTOR)


@_lower_cast(types.Float, _Lanes)
def _broadcast(context: Any, builder: Any, source: Any, target: Any, value: Any) -> Any:
    if source != types.float64:
        value = context.cast(builder, value, source, types.float64)
    one = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), value, _FIRST)
    everywhere = ir.Constant(ir.VectorType(ir.IntType(32), LANES), None)
    return builder.shuffle_vector(one, ir.Constant(_VECTOR, ir.Undefined), everywhere)


def _is_number(kind: types.Type) -> bool:
    return isinstance(kind, types.Float | _Lanes)


def _define_operator(function: Any, instruction: str) -> None:
    @infer_global(function)
    class _Operator(AbstractTemplate):
        def generic(self, arguments: Any, keywords: Any) -> Any:
            if lanes in arguments and all(_is_number(kind) for kind in arguments):
                return signature(lanes, *[lanes] * len(arguments))
            return None

    @_lower_builtin(function, *[_Lanes] * (1 if function is operator.neg else 2))
    def _lower(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        return getattr(builder, instruction)(*values)


for _function, _instruction in (
    (operator.add, "fadd"),
    (operator.iadd, "fadd"),
    (operator.sub, "fsub"),
    (operator.isub, "fsub"),
    (operator.mul, "fmul"),
    (operator.imul, "fmul"),
    (operator.truediv, "fdiv"),
    (operator.neg, "fneg"),
):
    _define_operator(_function, _instruction)


def _intrinsic_of_llvm(name: str, arity: int) -> Callable[..., Any]:
    def lower(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        kind = ir.FunctionType(_VECTOR, [_VECTOR] * arity)
        function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.{name}.v{LANES}f64")
        return builder.call(function, values)

    if arity == 1:

        @_intrinsic
        def one(context, x):
            return lanes(lanes), lower

        return one

    @_intrinsic
    def two(context, x, y):
        return lanes(lanes, lanes), lower

    return two


_sqrt = _intrinsic_of_llvm("sqrt", 1)
_abs = _intrinsic_of_llvm("fabs", 1)
_copysign = _intrinsic_of_llvm("copysign", 2)


@_intrinsic
def _lane(context, x, k):
    def lower(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        return builder.extract_element(*values)

    return types.float64(lanes, types.intp), lower


@_intrinsic
def _with_lane(context, x, k, value):
    def lower(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        x, k, value = values
        return builder.insert_element(x, value, k)

    return lanes(lanes, types.intp, types.float64), lower


@_intrinsic
def _all_are_zero(context, x):
    def lower(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        differs = builder.fcmp_unordered("!=", values[0], ir.Constant(_VECTOR, None))
        bits = builder.bitcast(differs, ir.IntType(LANES))
        return builder.icmp_unsigned("==", bits, ir.Constant(ir.IntType(LANES), 0))

    return types.boolean(lanes), lower


@_intrinsic
def _inverse(context, x):
    def lower(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        zero = builder.fcmp_ordered("==", values[0], ir.Constant(_VECTOR, None))
        ones = ir.Constant(_VECTOR, [1.0] * LANES)
        inverse = builder.fdiv(ones, builder.select(zero, ones, values[0]))
        return builder.select(zero, ir.Constant(_VECTOR, None), inverse)

    return lanes(lanes), lower


@overload(math.sqrt)
def _sqrt_of_lanes(x):
    if isinstance(x, _Lanes):
        return lambda x: _sqrt(x)
    return None


@overload(abs)
def _abs_of_lanes(x):
    if isinstance(x, _Lanes):
        return lambda x: _abs(x)
    return None


def _lane_by_lane(function: Callable[[float], float]) -> None:
    @overload(function)
    def of_lanes(x):
        if not isinstance(x, _Lanes):
            return None

        def apply(x):
            y = x
            for k in range(LANES):
                y = _with_lane(y, k, function(_lane(x, k)))
            return y

        return apply


for _called in (math.sin, math.cos, math.log):
    _lane_by_lane(_called)


def lanes_in(x: Any) -> int:
    """How many lanes a number has: one, if it is a float."""
    return 1


@overload(lanes_in)
def _lanes_in(x):
    count = LANES if isinstance(x, _Lanes) else 1
    return lambda x: count


def lane(x: Any, k: int) -> float:
    """Lane k of a number."""
    return float(x)


@overload(lane)
def _lane_of(x, k):
    if isinstance(x, _Lanes):
        return lambda x, k: _lane(x, k)
    return lambda x, k: x


def with_lane(x: Any, k: int, value: float) -> Any:
    """A number with another lane k."""
    return value


@overload(with_lane)
def _with_lane_of(x, k, value):
    if isinstance(x, _Lanes):
        return lambda x, k, value: _with_lane(x, k, value)
    return lambda x, k, value: value


def is_zero(x: Any) -> bool:
    """Whether a number is zero, in all lanes."""
    return bool(x == 0.0)


@overload(is_zero)
def _is_zero(x):
    if isinstance(x, _Lanes):
        return lambda x: _all_are_zero(x)
    return lambda x: x == 0.0


def away_from(size: Any, x: Any) -> Any:
    """Give a size the sign that x does not have: x minus that loses no digits.

    Beside a zero either sign will do.
    """
    return -size if x > 0.0 else size


@overload(away_from)
def _away_from(size, x):
    if isinstance(x, _Lanes):
        return lambda size, x: _copysign(size, -x)
    return lambda size, x: -size if x > 0.0 else size


def inverse(x: Any) -> Any:
    """1 / x, or zero in the lanes where x is zero; a float must not be."""
    return 1.0 / x


@overload(inverse)
def _inverse_of(x):
    if isinstance(x, _Lanes):
        return lambda x: _inverse(x)
    return lambda x: 1.0 / x


def _view(array: types.Type) -> types.Type:
    """The type of an array of floats (…, LANES) when seen as one of lanes."""
    if not (isinstance(array, types.Array) and array.dtype == types.float64):
        return array
    if array.ndim == 0 or array.layout != "C" or not array.mutable:
        raise TypingError(f"lanes are behind the axes of a writable C array, not of {array}")
    # Said to be unaligned, it may begin anywhere; `lanes_of_zeros` aligns it for speed alone.
    return types.Array(lanes, array.ndim - 1, "C", aligned=False)


def _as_lanes(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    view = _view(kind)
    if view is kind:
        return value
    floats, seen = make_array(kind)(context, builder, value), make_array(view)(context, builder)
    shape = cgutils.unpack_tuple(builder, floats.shape, kind.ndim)
    strides = cgutils.unpack_tuple(builder, floats.strides, kind.ndim)
    seen.meminfo, seen.parent = floats.meminfo, floats.parent
    seen.nitems = builder.udiv(floats.nitems, context.get_constant(types.intp, LANES))
    seen.itemsize = context.get_constant(types.intp, 8 * LANES)
    seen.data = builder.bitcast(floats.data, context.get_data_type(lanes).as_pointer())
    seen.shape = cgutils.pack_array(builder, shape[:-1], ty=ir.IntType(64))
    seen.strides = cgutils.pack_array(builder, strides[:-1], ty=ir.IntType(64))
    return seen._getvalue()


@_intrinsic
def lanes_of(context, arrays):
    """A named tuple with its arrays of floats (…, LANES) seen as arrays of lanes (…).

    That the last axis has `LANES` numbers is not checked: take arrays of `lanes_of_zeros`.
    """
    views = types.NamedTuple(tuple(_view(kind) for kind in arrays.types), arrays.instance_class)

    def lower(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        parts = cgutils.unpack_tuple(builder, values[0], len(arrays.types))
        seen = [
            _as_lanes(context, builder, kind, part)
            for kind, part in zip(arrays.types, parts, strict=True)
        ]
        views = context.make_tuple(builder, sig.return_type, seen)
        return impl_ret_borrowed(context, builder, sig.return_type, views)

    return views(arrays), lower


def lanes_of_zeros(shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Allocate (*shape, LANES) floats, aligned so that lanes do not straddle cache lines."""
    size = LANES * math.prod(shape)
    room = np.zeros(size + LANES)
    first = (-room.ctypes.data // 8) % LANES
    return room[first : first + size].reshape(*shape, LANES)
