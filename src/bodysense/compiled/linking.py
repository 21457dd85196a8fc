"""Kernels in parts: every part is optimised once, in the entry that it becomes a part of.

numba optimises a compiled function when it is done, and then once more in each of its callers, into
which its code is copied, and in theirs: a step at the bottom of a kernel is optimised as often as
it has callers above. Python never calls such a step. So the code of a part is left as it was
written down, and handed to its callers with that of the parts that it calls; what Python calls, an
entry, links it all and optimises it, once.

    typed and written down:     part  part  part  part     entry
    linked, optimised, stored:  -------------------------> entry
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import llvmlite.binding as llvm
from numba import types

from bodysense.compiled.numba_internals import (
    CompilerBase,
    CPUDispatcher,
    DefaultPassBuilder,
    JITCodeLibrary,
    _dynfunc,
    errors,
    register_pass,
    typed_passes,
    untyped_passes,
)

_SMALL = 15
"""Instructions up to which a part that is not said to be inlined is so nevertheless.

LLVM's own 250 take half as long again to compile, and are no faster."""

_SPEED_LEVEL = 2
"""Of LLVM's optimisation: 3 unrolls more loops, which takes a tenth longer and is no faster."""


class _PartLibrary(JITCodeLibrary):  # numba is untyped
    """Code that is not optimised, nor loaded, but only linked into that of a caller."""

    def _ensure_finalized(self) -> None:
        pass

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def _get_module_for_linking(self) -> Any:
        """The part with all parts that it calls, once each however often they are linked."""
        if self._shared_module is None:
            module = self._final_module
            for library in dict.fromkeys(self._linking_libraries):
                self._reload_init.update(library._reload_init)
                module.link_in(library._get_module_for_linking(), preserve=True)
            for function in module.functions:
                if not function.is_declaration and function.linkage == llvm.Linkage.external:
                    function.linkage = "linkonce_odr"
            self._shared_module = module
        return self._shared_module


class _EntryLibrary(JITCodeLibrary):
    """Code that is optimised with all its parts, once: numba would do so twice, for references."""

    def _optimize_final_module(self) -> None:
        options = llvm.create_pipeline_tuning_options(speed_level=_SPEED_LEVEL)
        options.inlining_threshold = _SMALL
        options.loop_vectorization = options.slp_vectorization = True
        builder = llvm.create_pass_builder(self._codegen._tm, options)
        builder.getModulePassManager().run(self._final_module, builder)


@register_pass(mutates_CFG=True, analysis_only=False)
class _EntryLowering(typed_passes.NativeLowering):
    _name = "entry_lowering"

    def run_pass(self, state: Any) -> bool:
        state.library = _EntryLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        return bool(super().run_pass(state))


@register_pass(mutates_CFG=True, analysis_only=False)
class _PartLowering(typed_passes.NativeLowering):
    """Write a part down in a library of its own kind, and make nothing to be called of it."""

    _name = "part_lowering"

    def run_pass(self, state: Any) -> bool:
        state.library = _PartLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.targetctx.get_executable = _placeholder  # of this compilation alone: it is a copy
        return bool(super().run_pass(state))


def _placeholder(library: Any, fndesc: Any, env: Any) -> Any:
    """What numba knows a compiled function by; it is never called."""
    name = fndesc.qualname.rsplit(".", 1)[-1]
    return _dynfunc.make_function(fndesc.lookup_module(), name, name, 0, env, (library,))


# Parts have neither closures nor array expressions, nor do they branch on constants; looking for
# these is an eighth of the time that a part takes.
_NEEDLESS = (
    untyped_passes.WithLifting,
    untyped_passes.InlineClosureLikes,
    untyped_passes.RewriteSemanticConstants,
    untyped_passes.DeadBranchPrune,
    untyped_passes.MakeFunctionToJitFunction,
    untyped_passes.InlineInlinables,
    untyped_passes.FindLiterallyCalls,
    untyped_passes.LiteralUnroll,
    untyped_passes.LiteralPropagationSubPipelinePass,
    typed_passes.InlineOverloads,
    typed_passes.NopythonRewrites,
)


class _Compiler(CompilerBase):
    lowering: Any

    def define_pipelines(self) -> list[Any]:
        """The passes of numba, with a lowering of ours."""
        pipeline = DefaultPassBuilder.define_nopython_pipeline(self.state)
        lowering = self.lowering
        pipeline.passes = [
            (lowering if step is typed_passes.NativeLowering else step, about)
            for step, about in pipeline.passes
            if step not in _NEEDLESS
        ]
        pipeline._finalized = False
        pipeline.finalize()
        return [pipeline]


class _PartCompiler(_Compiler):
    lowering = _PartLowering


class EntryCompiler(_Compiler):
    """The pipeline of what Python calls."""

    lowering = _EntryLowering

    def compile_extra(self, func: Any) -> Any:
        """Compile, without what takes time and is of no use here."""
        with _without_garbage_collection(), _without_colours():
            return super().compile_extra(func)


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Numba makes a million small objects: looking through them is an eighth of its time."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


@contextmanager
def _without_colours() -> Iterator[None]:
    """Numba tries types by raising and catching errors, and sets the text of each in bold."""
    scheme: Any = errors.termcolor()
    scheme._markup = lambda message, *style: message
    try:
        yield
    finally:
        vars(scheme).pop("_markup", None)


class _Part(CPUDispatcher):
    """A kernel that other kernels call, and Python does not."""

    def get_call_template(self, arguments: Any, keywords: Any) -> Any:
        """Compile for types alone: not once more for every number that stands in a call."""
        return super().get_call_template([types.unliteral(kind) for kind in arguments], keywords)

    def __call__(self, *arguments: object) -> None:
        """Refuse: there is nothing loaded that could be called."""
        raise TypeError(
            f"{self.py_func.__name__} is a part of kernels: call it in a compiled function."
        )


def part(function: Any, **options: Any) -> Any:
    """Compile a function as a part of those that call it; options as those of `numba.njit`."""
    settings = {
        "nopython": True,
        "boundscheck": None,
        "no_cpython_wrapper": True,
        "no_cfunc_wrapper": True,
        **options,
    }
    return _Part(function, targetoptions=settings, pipeline_class=_PartCompiler)
