"""Compiled friction: the terms of a joint's friction law and their derivatives by velocity."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
from llvmlite import ir
from numba import cfunc, types

from bodysense.compiled.jit import Kernel, called, inlined, uncached
from bodysense.compiled.numba_internals import carray, cgutils, intrinsic
from bodysense.errors import BodysenseError
from bodysense.robot.friction import CustomBasis
from bodysense.spatial.arrays import Array

_POINTER = types.CPointer(types.float64)
_SIGNATURE = types.void(types.float64, _POINTER, _POINTER, _POINTER)


def compile_custom_basis(name: str, basis: CustomBasis, n_terms: int, shape: Array) -> CustomBasis:
    """Compile a user's ``basis(v, shape, phi, dphi)`` and try it at a few velocities."""
    compiled: CustomBasis = uncached(basis)
    trial: CustomBasis = uncached(basis, boundscheck=True)  # the kernels do not check
    for v in (-1.0, 0.0, 0.5):
        phi, dphi = np.full((2, n_terms), np.nan)
        try:
            trial(v, shape, phi, dphi)
        except Exception as error:  # numba raises many kinds; all mean the same to the user
            raise BodysenseError(
                f"friction model {name!r}: numba cannot compile or run basis(v, shape, phi, dphi): "
                f"{_gist(error)}. Use arithmetic and math functions only, and write "
                "phi[k], dphi[k]."
            ) from error
        if not (np.isfinite(phi).all() and np.isfinite(dphi).all()):
            raise BodysenseError(
                f"friction model {name!r}: at v = {v:g} basis left terms unset or not finite (phi "
                f"= {phi}, dphi = {dphi}): write phi[k] and dphi[k] for all {n_terms} terms."
            )
    _check_derivatives(name, trial, n_terms, shape)
    return compiled


def _gist(error: Exception) -> str:
    """The line of numba's long message that tells what is wrong."""
    lines = [re.sub(r"\x1b\[\d+m", "", line).strip() for line in str(error).splitlines()]
    telling = [line for line in lines if re.search(r"Untyped global|Unknown|Invalid|out of", line)]
    return (telling or lines or [type(error).__name__])[0].rstrip(".")


def _check_derivatives(name: str, basis: CustomBasis, n_terms: int, shape: Array) -> None:
    """Compare dphi with differences of phi at a few velocities away from zero."""
    step = 1e-5
    for v in (-1.0, 0.37, 2.1):
        low, high, phi, dphi, unused = np.zeros((5, n_terms))
        basis(v - step, shape, low, unused)
        basis(v + step, shape, high, unused)
        basis(v, shape, phi, dphi)
        slope = (high - low) / (2.0 * step)
        if not np.allclose(dphi, slope, rtol=1e-3, atol=1e-4 * (1.0 + np.abs(phi).max())):
            raise BodysenseError(
                f"friction model {name!r}: at v = {v:g} basis writes dphi = {dphi}, but phi "
                f"changes by {slope} a unit of velocity: correct the derivatives."
            )


def wrapped_basis(basis: CustomBasis, n_terms: int, n_shape: int) -> Any:
    """Wrap a compiled basis as a C function, whose address the kernels can call.

    An address in the tree, not an argument of the kernels: these stay cached on disk whatever
    law a user brings, and pay nothing for the possibility.
    """

    @cfunc(_SIGNATURE)
    def pointer(v, shape, phi, dphi):
        basis(v, carray(shape, (n_shape,)), carray(phi, (n_terms,)), carray(dphi, (n_terms,)))

    return pointer


@intrinsic
def _call_basis(typing_context, address, v, shape, phi, dphi):
    """Call the C function at `address` with a velocity and three contiguous vectors."""
    signature = types.void(address, v, shape, phi, dphi)

    def codegen(context, builder, signature, args):
        double = ir.DoubleType()
        pointers = [
            cgutils.create_struct_proxy(kind)(context, builder, value).data
            for kind, value in zip(signature.args[2:], args[2:], strict=True)
        ]
        kind = ir.FunctionType(ir.VoidType(), [double] + [p.type for p in pointers])
        builder.call(builder.inttoptr(args[0], kind.as_pointer()), [args[1], *pointers])
        return context.get_dummy_value()

    return signature, codegen


@inlined
def smooth_sign(v, width):
    """Return s(v) and its derivative: sign for width 0, else tanh(v / width)."""
    if width == 0.0:
        if v > 0.0:
            return 1.0, 0.0
        if v < 0.0:
            return -1.0, 0.0
        return 0.0, 0.0
    s = math.tanh(v / width)
    return s, (1.0 - s * s) / width


@inlined
def stribeck_decay(v, vs, delta):
    """Return e(v) = exp(-|v / vs|^delta) and its derivative."""
    if v == 0.0:
        return 1.0, 0.0
    ratio = abs(v) / vs
    power = ratio**delta
    e = math.exp(-power)
    return e, -e * delta * power / v


_call: Kernel = _call_basis


@called
def _custom_basis(address, shape, j, v, phi, dphi):
    _call(address, v, shape[j], phi, dphi)


@inlined
def friction_basis(tree, j, v, phi, dphi):
    """Write the terms of joint j at velocity v, and their derivatives."""
    n_terms = tree.term.size
    if n_terms == 0:
        return
    if tree.custom != 0:
        _custom_basis(tree.custom, tree.shape, j, v, phi, dphi)
        return
    s, ds = 0.0, 0.0
    if n_terms > 1 or tree.term[0] != 0:  # not for viscous friction alone
        s, ds = smooth_sign(v, tree.shape[j, 0])
    e, de = 0.0, 0.0
    if tree.shape[j, 1] > 0.0:
        e, de = stribeck_decay(v, tree.shape[j, 1], tree.shape[j, 2])
    for k in range(n_terms):
        code = tree.term[k]
        if code == 0:
            phi[k], dphi[k] = v, 1.0
        elif code == 1:
            phi[k], dphi[k] = s * (1.0 - e), ds * (1.0 - e) - s * de
        elif code == 2:
            phi[k], dphi[k] = s * e, ds * e + s * de
        elif code == 3:
            phi[k], dphi[k] = 1.0, 0.0
        else:  # per unit of load
            phi[k], dphi[k] = s, ds


@inlined
def load_term(tree):
    """Place of the load-dependent term among those of the friction law, the last; -1 without."""
    last = tree.term.size - 1
    return last if last >= 0 and tree.term[last] == 4 else -1


@inlined
def load_share(tree, theta, j, v):
    """Fl s(v) of joint j: friction per unit of load, zero without the term."""
    place = load_term(tree)
    if place < 0:
        return 0.0
    n = tree.parent.size
    s, _ = smooth_sign(v, tree.shape[j, 0])
    return theta[10 * (n + tree.floating) + n * (1 + place) + j] * s
