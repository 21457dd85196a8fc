"""Arrays as kernels see them: a pointer and a shape; many of them under names, behind one address.

An array of numba's is seven values and more, a function with twenty of them takes longer to
compile than what it computes, and Python unpacks each at every call. What a kernel needs of an
array is where its numbers begin and how many there are along each axis. So arrays that belong
together are declared once, as a named tuple with their shapes,

    class Memory(NamedTuple):
        X: Annotated[Array, "n", 6, 6]
        parent: Annotated[Integers, "n"]

and Python hands a kernel the address of a `Table` of them. There ``memory_at(address).X`` is a
`view`, which is indexed, cut and measured as an array: ``X[i]``, ``X[i, 2, 3]``, ``X[a:b]``,
``X.shape``, ``X.size``. Indices are not checked and count from the front.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Hashable, Sequence
from functools import cache
from typing import Any, NamedTuple, cast, get_type_hints

import numpy as np
from llvmlite import ir
from numba import types
from numpy.typing import NDArray

from bodysense.compiled.numba_internals import (
    AbstractTemplate,
    AttributeTemplate,
    cgutils,
    infer_getattr,
    infer_global,
    intrinsic,
    lower_builtin,
    lower_getattr,
    lower_getattr_generic,
    models,
    register_model,
    signature,
)

Integers = NDArray[np.int64]

_WORD = ir.IntType(64)


class _View(types.Type):
    """The type of an array without gaps, of `ndim` axes; `number` is what it holds."""

    def __init__(self, number: types.Type, ndim: int) -> None:
        self.number, self.ndim = number, ndim
        super().__init__(name=f"view({number}, {ndim})")


@register_model(_View)
class _ViewModel(models.StructModel):
    def __init__(self, manager: Any, kind: _View) -> None:
        members: list[tuple[str, Any]] = [("data", types.CPointer(kind.number))]
        members += [(f"n{axis}", types.intp) for axis in range(kind.ndim)]
        super().__init__(manager, kind, members)


def _part(kind: _View, axes: int) -> types.Type:
    """What is left of a view behind its first axes."""
    return kind.number if axes == kind.ndim else _View(kind.number, kind.ndim - axes)


def _is_place(index: Any) -> bool:
    is_tuple = isinstance(index, types.BaseTuple)
    return is_tuple and all(isinstance(kind, types.Integer) for kind in index)


@infer_global(operator.getitem)
class _GetItem(AbstractTemplate):
    def generic(self, arguments: Any, keywords: Any) -> Any:
        array, index = arguments
        if not isinstance(array, _View):
            return None
        if isinstance(index, types.Integer):
            return signature(_part(array, 1), array, types.intp)
        if isinstance(index, types.SliceType):
            return signature(array, array, index)
        if _is_place(index) and len(index) <= array.ndim:
            axes = len(index)
            return signature(_part(array, axes), array, types.UniTuple(types.intp, axes))
        return None


@infer_global(operator.setitem)
class _SetItem(AbstractTemplate):
    def generic(self, arguments: Any, keywords: Any) -> Any:
        array, index, _ = arguments
        if not isinstance(array, _View):
            return None
        if isinstance(index, types.Integer) and array.ndim == 1:
            return signature(types.none, array, types.intp, array.number)
        if _is_place(index) and len(index) == array.ndim:
            place = types.UniTuple(types.intp, array.ndim)
            return signature(types.none, array, place, array.number)
        return None


def _unpacked(builder: Any, kind: _View, view: Any) -> tuple[Any, list[Any]]:
    """Where the numbers of a view begin, and its shape."""
    data, *shape = [builder.extract_value(view, k) for k in range(1 + kind.ndim)]
    return data, shape


def _pointer(context: Any, builder: Any, sig: Any, values: Any) -> tuple[Any, list[Any]]:
    """Where an index leads, and the shape of what is there."""
    kind, index = sig.args[0], values[1]
    data, shape = _unpacked(builder, kind, values[0])
    single = isinstance(sig.args[1], types.Integer)
    indices = [index] if single else cgutils.unpack_tuple(builder, index)
    offset = indices[0]
    for axis in range(1, kind.ndim):
        offset = builder.mul(offset, shape[axis], flags=("nsw",))
        if axis < len(indices):
            offset = builder.add(offset, indices[axis], flags=("nsw",))
    return builder.gep(data, [offset], inbounds=True), shape[len(indices) :]


def _made(context: Any, builder: Any, kind: _View, data: Any, shape: Sequence[Any]) -> Any:
    view = ir.Constant(context.get_value_type(kind), ir.Undefined)
    for k, member in enumerate((data, *shape)):
        view = builder.insert_value(view, member, k)
    return view


@lower_builtin(operator.getitem, _View, types.Integer)
@lower_builtin(operator.getitem, _View, types.BaseTuple)
def _get(context: Any, builder: Any, sig: Any, values: Any) -> Any:
    data, shape = _pointer(context, builder, sig, values)
    if isinstance(sig.return_type, _View):
        return _made(context, builder, sig.return_type, data, shape)
    return builder.load(data, align=8)


@lower_builtin(operator.setitem, _View, types.Integer, types.Any)
@lower_builtin(operator.setitem, _View, types.BaseTuple, types.Any)
def _set(context: Any, builder: Any, sig: Any, values: Any) -> Any:
    data, _ = _pointer(context, builder, sig, values)
    builder.store(values[2], data, align=8)
    return context.get_dummy_value()


@lower_builtin(operator.getitem, _View, types.SliceType)
def _cut(context: Any, builder: Any, sig: Any, values: Any) -> Any:
    kind = sig.args[0]
    data, shape = _unpacked(builder, kind, values[0])
    part = context.make_helper(builder, sig.args[1], values[1])
    beyond = builder.icmp_signed(">", part.stop, shape[0])
    stop = builder.select(beyond, shape[0], part.stop)
    offset = part.start
    for count in shape[1:]:
        offset = builder.mul(offset, count, flags=("nsw",))
    data = builder.gep(data, [offset], inbounds=True)
    return _made(context, builder, kind, data, [builder.sub(stop, part.start), *shape[1:]])


@infer_getattr
class _ViewAttributes(AttributeTemplate):
    key = _View

    def resolve_shape(self, kind: _View) -> types.Type:
        return types.UniTuple(types.intp, kind.ndim)

    def resolve_size(self, kind: _View) -> types.Type:
        return types.intp


@lower_getattr(_View, "shape")
def _shape_of(context: Any, builder: Any, kind: _View, value: Any) -> Any:
    _, shape = _unpacked(builder, kind, value)
    return cgutils.pack_array(builder, shape, ty=_WORD)


@lower_getattr(_View, "size")
def _size_of(context: Any, builder: Any, kind: _View, value: Any) -> Any:
    _, (size, *others) = _unpacked(builder, kind, value)
    for count in others:
        size = builder.mul(size, count, flags=("nsw",))
    return size


@intrinsic
def flat(context, view):
    """All numbers of a view, along one axis."""

    def lower(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        kind = sig.args[0]
        data, _ = _unpacked(builder, kind, values[0])
        size = _size_of(context, builder, kind, values[0])
        return _made(context, builder, sig.return_type, data, [size])

    return _View(view.number, 1)(view), lower


@intrinsic
def rows_of(context, view):
    """The same numbers along two axes, of which the first is that of the view."""

    def lower(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        kind = sig.args[0]
        data, (rows, columns, *others) = _unpacked(builder, kind, values[0])
        for count in others:
            columns = builder.mul(columns, count, flags=("nsw",))
        return _made(context, builder, sig.return_type, data, [rows, columns])

    return _View(view.number, 2)(view), lower


class _Field(NamedTuple):
    """A name of a bundle.

    Attributes:
        dtype: of its numbers.
        shape: its axes: numbers, names of sizes, sums of these; None for what is no array.
        place: of its address, or its value, in the table; its shape stands behind.
    """

    dtype: np.dtype[Any]
    shape: tuple[int | str, ...] | None
    place: int


@cache
def _fields_of(bundle: type) -> dict[str, _Field]:
    """What a named tuple declares, in the order of its table."""
    fields: dict[str, _Field] = {}
    place = 0
    for name, hint in get_type_hints(bundle, include_extras=True).items():
        shape = getattr(hint, "__metadata__", None)
        if shape is None:
            fields[name] = _Field(np.dtype(hint), None, place)
            place += 1
        else:
            _, scalar = hint.__origin__.__args__
            fields[name] = _Field(np.dtype(scalar.__args__[0]), shape, place)
            place += 1 + len(shape)
    return fields


_NUMBERS = {
    np.dtype(np.int64): types.int64,
    np.dtype(np.uint64): types.uint64,
    np.dtype(np.float64): types.float64,
}


class _Bundle(types.Type):
    """The type of a table of named arrays, floats of which may be lanes."""

    def __init__(self, bundle: type, number: types.Type) -> None:
        self.fields, self.number = _fields_of(bundle), number
        super().__init__(name=f"{bundle.__module__}.{bundle.__qualname__}({number})")

    def type_of(self, name: str) -> types.Type | None:
        field = self.fields.get(name)
        if field is None:
            return None
        number = _NUMBERS[field.dtype]
        if field.shape is None:
            return number
        return _View(self.number if number == types.float64 else number, len(field.shape))


@register_model(_Bundle)
class _BundleModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: _Bundle) -> None:
        super().__init__(manager, kind, _WORD.as_pointer())


@infer_getattr
class _BundleAttributes(AttributeTemplate):
    key = _Bundle

    def generic_resolve(self, kind: Any, name: Any) -> Any:  # type: ignore[override]
        return kind.type_of(name)


@lower_getattr_generic(_Bundle)
def _named(context: Any, builder: Any, kind: _Bundle, table: Any, name: str) -> Any:
    field, result = kind.fields[name], cast(Any, kind.type_of(name))

    def word(place: int) -> Any:
        """A word of the table, which nobody changes while a kernel runs."""
        value = builder.load(builder.gep(table, [ir.Constant(_WORD, place)], inbounds=True))
        value.set_metadata("invariant.load", builder.module.add_metadata([]))
        return value

    if field.shape is None:
        value = word(field.place)
        return value if result == types.int64 else builder.bitcast(value, ir.DoubleType())
    data = builder.inttoptr(word(field.place), context.get_data_type(result.number).as_pointer())
    shape = [word(field.place + 1 + axis) for axis in range(result.ndim)]
    return _made(context, builder, result, data, shape)


def reader(bundle: type, number: types.Type = types.float64) -> Any:
    """A function of kernels: the bundle whose table is at an address, floats seen as `number`."""

    @intrinsic
    def bundle_at(context, address):
        def lower(context: Any, builder: Any, sig: Any, values: Any) -> Any:
            return builder.inttoptr(values[0], _WORD.as_pointer())

        return _Bundle(bundle, number)(types.int64), lower

    return bundle_at


class Table:
    """Addresses and shapes of the arrays of a bundle; it keeps them alive.

    Attributes:
        arrays: the named tuple.
        address: what a kernel takes.
    """

    __slots__ = ("_words", "address", "arrays")

    def __init__(self, arrays: Any, *, lanes: bool = False) -> None:
        """Lay the table out.

        Args:
            arrays: a named tuple that declares its shapes, C-contiguous and of the declared types.
            lanes: whether floats have a last axis of lanes, which kernels see as one number.
        """
        words: list[int] = []
        fields = _fields_of(cast(Hashable, type(arrays)))
        for (name, field), value in zip(fields.items(), arrays, strict=True):
            if field.shape is None:
                words.append(_word(value, field.dtype))
                continue
            facts = value.__array_interface__
            shape = facts["shape"]
            if lanes and field.dtype == np.float64:
                shape = shape[:-1]
            if value.dtype != field.dtype or facts["strides"] or len(shape) != len(field.shape):
                raise TypeError(
                    f"{name} has {value.dtype} {value.shape}: give {field.dtype} {field.shape}, "
                    "contiguous."
                )
            words.append(facts["data"][0])
            words.extend(shape)
        self._words = np.array(words, dtype=np.int64)
        self.address = int(self._words.__array_interface__["data"][0])
        self.arrays = arrays


def _word(value: float, dtype: np.dtype[Any]) -> int:
    """A number as it stands in a table: integers as they are, floats by their bits."""
    return int(value) if dtype == np.int64 else int(np.float64(value).view(np.int64))


def zeros_of(bundle: Any, *, lanes: int = 0, **sizes: int) -> Any:
    """Allocate a bundle, all zero; its floats lie behind one another.

    Args:
        bundle: the named tuple.
        lanes: of every float, behind its axes; 0 for plain floats.
        sizes: the names in the declared shapes.
    """
    behind = (lanes,) if lanes else ()
    shapes = [
        (field.dtype == np.float64, tuple(_count(axis, sizes) for axis in field.shape or ()))
        for field in _fields_of(bundle).values()
    ]
    sizes_of_floats = [math.prod(shape + behind) for floats, shape in shapes if floats]
    room, last = _aligned_zeros(sum(sizes_of_floats)), 0
    arrays: list[NDArray[Any]] = []
    for floats, shape in shapes:
        if floats:
            shape += behind
            first, last = last, last + math.prod(shape)
            arrays.append(room[first:last].reshape(shape))
        else:
            arrays.append(np.zeros(shape, np.int64))
    return bundle._make(arrays)


def _count(axis: int | str, sizes: dict[str, int]) -> int:
    """The length of a declared axis: a number, the name of a size, or a sum of these."""
    if isinstance(axis, int):
        return axis
    if axis in sizes:
        return sizes[axis]
    terms = [term.strip() for term in axis.split("+")]
    return sum(int(term) if term.isdigit() else sizes[term] for term in terms)


def _aligned_zeros(size: int) -> NDArray[np.float64]:
    """Floats that begin with a cache line, so that eight of them do not lie in two."""
    room = np.zeros(size + 8)
    first = (-room.__array_interface__["data"][0] // 8) % 8
    return room[first : first + size]
