"""How kernels are compiled, and where the compiled code is kept.

numba keeps compiled code on disk and compiles anew when the file of a function changes. It does
not see that a function it inlined from another file has changed, or a tuple that it takes, and
would go on with the old code. So kernels, and all that they take, live in `compiled` and in folders
`_kernels`, and
the compiled code is kept in a folder named after a digest of these.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import stat
import tempfile
import warnings
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from numba import config as numba_config
from numba import get_num_threads, njit

from bodysense.compiled.linking import EntryCompiler, part
from bodysense.compiled.numba_internals import FunctionCache

# A kernel is typed by numba when it is called, so it is any callable to Python's type checker;
# the functions that call it from Python are typed.
Kernel = Callable[..., Any]
_jit: Callable[..., Callable[[Kernel], Kernel]] = njit
_settings: Any = numba_config

# Multiplications and additions may be contracted, which is faster and more exact. Division by
# zero gives infinity, as in numpy, instead of a check before each division.
_FAST: dict[str, Any] = {"error_model": "numpy", "fastmath": {"contract"}}


def _cache_folder() -> str:
    """Where this version of the kernels is kept: the first place that can be written to."""
    package = Path(__file__).resolve().parents[1]
    digest = hashlib.sha256()
    for source in sorted([*package.glob("compiled/*.py"), *package.glob("*/_kernels/*.py")]):
        digest.update(f"{source.relative_to(package)}\n".encode())
        digest.update(source.read_bytes())
    name = f"bodysense-{digest.hexdigest()[:16]}"
    if _settings.CACHE_DIR:  # the user's choice, NUMBA_CACHE_DIR
        return str(Path(_settings.CACHE_DIR) / name)
    places = [package / "__pycache__", Path("~/.cache/bodysense").expanduser()]
    for place in places:
        try:
            place.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(place, os.W_OK):
            return str(place / name)
    return _private_folder(name)


def _private_folder(name: str) -> str:
    """A folder in the temporary one that stays, and that nobody else can write to.

    Compiled code in it is run. One that is not private is left alone for a folder of this process,
    which is removed at its end.
    """
    user = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "")
    place = Path(tempfile.gettempdir()) / f"bodysense-{user}"
    with suppress(OSError):
        place.mkdir(mode=0o700, exist_ok=True)
        about = place.lstat()
        own = not hasattr(os, "getuid") or about.st_uid == os.getuid()
        if stat.S_ISDIR(about.st_mode) and own and not about.st_mode & 0o022:
            return str(place / name)
    folder = tempfile.mkdtemp(prefix="bodysense-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


_CACHE_FOLDER = _cache_folder()


class DamagedCacheWarning(UserWarning):
    """Compiled code on disk could not be read, and is compiled anew."""


class _Cache(FunctionCache):  # numba is untyped
    """numba's, of which damaged files are thrown away: all that they say can be compiled again."""

    told = False

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # what unpickling cut or foreign bytes leads to is not to be foreseen
            self._throw_away()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except OSError:  # a full disk, or one that is read-only: it is compiled again next time
            self._throw_away()

    def _throw_away(self) -> None:
        if not _Cache.told:
            _Cache.told = True
            warnings.warn(
                f"compiled code in {self.cache_path} is damaged or cannot be written: it is "
                "compiled anew, once.",
                DamagedCacheWarning,
                stacklevel=2,
            )
        with suppress(OSError):
            Path(self._cache_file._index_path).unlink(missing_ok=True)


def _compile(function: Kernel, **options: Any) -> Kernel:
    kernel: Any = _jit(**options)(function)
    chosen = _settings.CACHE_DIR
    _settings.CACHE_DIR = _CACHE_FOLDER  # read when a cache is made, so for ours alone
    try:
        kernel._cache = _Cache(function)
    finally:
        _settings.CACHE_DIR = chosen
    compiled: Kernel = kernel
    return compiled


def inlined(function: Kernel) -> Kernel:
    """Compile a step as a part of its callers (see `linking`), inlined, without reference counting.

    It must not allocate. Counting references to arrays that the caller owns anyway costs more
    than the arithmetic between two counts, and the compiler cannot always remove it.
    """
    kernel: Kernel = part(function, forceinline=True, _nrt=False, **_FAST)
    return kernel


def called(function: Kernel) -> Kernel:
    """Compile a step as a part of its callers that stays a function: for what has loops.

    It must not allocate either.
    """
    kernel: Kernel = part(function, _nrt=False, **_FAST)
    return kernel


def allocating(function: Kernel) -> Kernel:
    """Compile a function that makes the working memory of one thread."""
    return _compile(function)


def uncached(function: Kernel, *, boundscheck: bool = False) -> Kernel:
    """Compile a function of the user's, for this process only."""
    return _jit(boundscheck=boundscheck)(function)


def threaded(function: Kernel) -> Kernel:
    """Compile what Python calls for a range of runs, without its lock: see `in_threads`.

    numba's parallel loop would compile all of it once more, for which users would wait.
    """
    return _compile(
        function, nogil=True, no_cfunc_wrapper=True, pipeline_class=EntryCompiler, **_FAST
    )


def in_threads(
    kernel: Kernel, runs: int, *arguments: object, compiled: Kernel | None = None
) -> None:
    """Call ``kernel(first, last, *arguments)`` for shares of the runs on numba's threads.

    What has to be compiled is so in this thread, on no runs: threads of a pool do not hear Ctrl-C.

    Args:
        kernel: a kernel, or a function of Python that calls one.
        runs: how many.
        arguments: of the kernel.
        compiled: the kernel that a function of Python calls.
    """
    if runs == 0:
        return
    if not getattr(compiled or kernel, "signatures", True):
        kernel(0, 0, *arguments)
    shares = min(runs, get_num_threads())
    if shares == 1:
        kernel(0, runs, *arguments)
        return
    ends = [runs * k // shares for k in range(shares + 1)]
    jobs = [_threads().submit(kernel, a, b, *arguments) for a, b in pairwise(ends[1:])]
    try:
        kernel(0, ends[1], *arguments)
    finally:
        _wait_for(jobs)
    for job in jobs:
        job.result()


def _wait_for(jobs: list[Future[Any]]) -> None:
    """Wait until all are done, through Ctrl-C as well: they write into arrays of the caller."""
    try:
        wait(jobs)
    except KeyboardInterrupt:
        for job in jobs:
            job.cancel()  # what has not begun yet
        _wait_for(jobs)
        raise


@cache
def _threads() -> ThreadPoolExecutor:
    """The threads beside the caller's: kept, as starting them takes as long as a small batch."""
    return ThreadPoolExecutor(max(1, _settings.NUMBA_NUM_THREADS - 1), "bodysense")


if hasattr(os, "register_at_fork"):  # a forked process has none of them
    os.register_at_fork(after_in_child=_threads.cache_clear)
