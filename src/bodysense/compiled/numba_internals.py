"""All that bodysense takes from inside numba, imported here and nowhere else.

numba promises nothing about these names from one version to the next: `linking` and `jit` change
how it compiles and caches, `views` and `lanes` add types to it, friction calls laws of users, and
the command line says when it compiles. Before a new version is let in, here and in pyproject.toml,
`tests/compiled` has to pass with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import __version__, _dynfunc, extending  # type: ignore[attr-defined]
from numba.core import cgutils, errors, event, typed_passes, untyped_passes
from numba.core.caching import FunctionCache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import register_pass
from numba.core.registry import CPUDispatcher
from numba.core.typeconv.castgraph import Conversion
from numba.core.typing.templates import (
    AbstractTemplate,
    AttributeTemplate,
    infer_getattr,
    infer_global,
    signature,
)
from numba.extending import models, register_model
from numba.np.numpy_support import carray

__all__ = [
    "AbstractTemplate",
    "AttributeTemplate",
    "CPUDispatcher",
    "CompilerBase",
    "Conversion",
    "DefaultPassBuilder",
    "FunctionCache",
    "JITCodeLibrary",
    "_dynfunc",
    "carray",
    "cgutils",
    "errors",
    "event",
    "infer_getattr",
    "infer_global",
    "intrinsic",
    "lower_builtin",
    "lower_cast",
    "lower_getattr",
    "lower_getattr_generic",
    "models",
    "register_model",
    "register_pass",
    "signature",
    "typed_passes",
    "untyped_passes",
]

_OLDEST, _BEFORE = (0, 62), (0, 70)
"""The versions of pyproject.toml."""


def _check_version(version: str) -> None:
    major, minor, *_ = version.split(".")
    if not _OLDEST <= (int(major), int(minor)) < _BEFORE:
        oldest, before = (".".join(map(str, release)) for release in (_OLDEST, _BEFORE))
        raise ImportError(
            f"numba {version} is not one that kernels are compiled with: install "
            f"'numba>={oldest},<{before}'."
        )


_check_version(__version__)

# Decorators without types, which mypy would take to change what they decorate.
intrinsic: Callable[[Any], Any] = extending.intrinsic
lower_builtin: Callable[..., Callable[[Any], Any]] = extending.lower_builtin
lower_cast: Callable[..., Callable[[Any], Any]] = extending.lower_cast
lower_getattr: Callable[..., Callable[[Any], Any]] = extending.lower_getattr
lower_getattr_generic: Callable[..., Callable[[Any], Any]] = extending.lower_getattr_generic
