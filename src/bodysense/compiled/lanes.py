"""Numbers of several samples side by side: a number of the kernels that holds `LANES` of them.

A processor multiplies two, four or eight numbers as fast as one. Rows of small matrices are too
short for that, but the same step at eight samples is eight times the same arithmetic. So a kernel
that takes its numbers as they come, floats or lanes, is compiled for both from one source. In
memory the lanes of a number are the last axis of an array (see `views`).

Lanes know the arithmetic of the kernels, mixed with floats, and the functions below, which floats
know as well. A comparison would have eight answers: what branches does so for all lanes alike.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types

from bodysense.compiled.numba_internals import (
    AbstractTemplate,
    Conversion,
    cgutils,
    infer_global,
    intrinsic,
    lower_builtin,
    lower_cast,
    models,
    register_model,
    signature,
)

LANES = 8
"""As many doubles as the widest registers hold; narrower ones take them in turns."""

_FLOAT = ir.DoubleType()
_VECTOR = ir.VectorType(_FLOAT, LANES)
_INDEX = ir.IntType(32)


class _Lanes(types.Type):
    def __init__(self) -> None:
        super().__init__(name=f"lanes{LANES}")

    def unify(self, context: Any, other: types.Type) -> types.Type | None:
        """A float may become lanes, ``x = 0.0`` before a loop that adds lanes to it."""
        return self if _is_number(other) else None

    def can_convert_from(self, context: Any, other: types.Type) -> Any:
        return Conversion.safe if isinstance(other, types.Float) else None


lanes = _Lanes()


@register_model(_Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: types.Type) -> None:
        super().__init__(manager, kind, _VECTOR)


@lower_cast(types.Float, _Lanes)
def _broadcast(context: Any, builder: Any, source: Any, target: Any, value: Any) -> Any:
    if source != types.float64:
        value = context.cast(builder, value, source, types.float64)
    undefined = ir.Constant(_VECTOR, ir.Undefined)
    one = builder.insert_element(undefined, value, ir.Constant(_INDEX, 0))
    return builder.shuffle_vector(one, undefined, ir.Constant(ir.VectorType(_INDEX, LANES), None))


def _is_number(kind: types.Type) -> bool:
    return isinstance(kind, types.Float | _Lanes)


def _define(function: Any, arity: int, lower: Callable[..., Any]) -> None:
    """Let a function of Python take lanes, mixed with floats."""

    @infer_global(function)
    class _Function(AbstractTemplate):
        def generic(self, arguments: Any, keywords: Any) -> Any:
            if lanes in arguments and all(_is_number(kind) for kind in arguments):
                return signature(lanes, *[lanes] * arity)
            return None

    @lower_builtin(function, *[_Lanes] * arity)
    def _lower(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        return lower(context, builder, values)


def _instruction(name: str) -> Callable[..., Any]:
    return lambda context, builder, values: getattr(builder, name)(*values)


def _at_once(name: str) -> Callable[..., Any]:
    """A function that LLVM has for vectors."""

    def lower(context: Any, builder: Any, values: Any) -> Any:
        kind = ir.FunctionType(_VECTOR, [_VECTOR] * len(values))
        function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.{name}.v{LANES}f64")
        return builder.call(function, values)

    return lower


def _lane_by_lane(function: Callable[[float], float]) -> Callable[..., Any]:
    def lower(context: Any, builder: Any, values: Any) -> Any:
        of_float = context.get_function(function, types.float64(types.float64))
        result = values[0]
        for k in range(LANES):
            place = ir.Constant(_INDEX, k)
            value = of_float(builder, [builder.extract_element(values[0], place)])
            result = builder.insert_element(result, value, place)
        return result

    return lower


for _function, _name in (
    (operator.add, "fadd"),
    (operator.iadd, "fadd"),
    (operator.sub, "fsub"),
    (operator.isub, "fsub"),
    (operator.mul, "fmul"),
    (operator.imul, "fmul"),
    (operator.truediv, "fdiv"),
):
    _define(_function, 2, _instruction(_name))
_define(operator.neg, 1, _instruction("fneg"))
_define(math.sqrt, 1, _at_once("sqrt"))
_define(abs, 1, _at_once("fabs"))
for _called in (math.sin, math.cos, math.log):
    _define(_called, 1, _lane_by_lane(_called))


@intrinsic
def lanes_in(context, x):
    """How many lanes a number has: one, if it is a float."""

    def lower(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        return context.get_constant(types.intp, LANES if x is lanes else 1)

    return types.intp(x), lower


@intrinsic
def lane(context, x, k):
    """Lane k of a number."""

    def lower(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        return builder.extract_element(*values) if x is lanes else values[0]

    return types.float64(x, types.intp), lower


@intrinsic
def with_lane(context, x, k, value):
    """A number with another lane k."""

    def lower(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        number, place, lane = values
        return builder.insert_element(number, lane, place) if x is lanes else lane

    return x(x, types.intp, types.float64), lower


@intrinsic
def is_zero(context, x):
    """Whether a number is zero, in all lanes."""

    def lower(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        if x is not lanes:
            return builder.fcmp_ordered("==", values[0], ir.Constant(_FLOAT, 0.0))
        differs = builder.fcmp_unordered("!=", values[0], ir.Constant(_VECTOR, None))
        bits = builder.bitcast(differs, ir.IntType(LANES))
        return builder.icmp_unsigned("==", bits, ir.Constant(ir.IntType(LANES), 0))

    return types.boolean(x), lower


@intrinsic
def away_from(context, size, x):
    """Give a size the sign that x does not have: x minus that loses no digits.

    Beside a zero either sign will do.
    """

    def lower(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        size, number = values
        if x is lanes:
            return _at_once("copysign")(context, builder, [size, builder.fneg(number)])
        positive = builder.fcmp_ordered(">", number, ir.Constant(_FLOAT, 0.0))
        return builder.select(positive, builder.fneg(size), size)

    return x(x, x), lower


@intrinsic
def inverse(context, x):
    """1 / x, or zero in the lanes where x is zero; a float must not be."""

    def lower(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        if x is not lanes:
            return builder.fdiv(ir.Constant(_FLOAT, 1.0), values[0])
        zero = builder.fcmp_ordered("==", values[0], ir.Constant(_VECTOR, None))
        ones = ir.Constant(_VECTOR, [1.0] * LANES)
        quotient = builder.fdiv(ones, builder.select(zero, ones, values[0]))
        return builder.select(zero, ir.Constant(_VECTOR, None), quotient)

    return x(x), lower
