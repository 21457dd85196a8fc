"""Folders of results: filled in one go, so that files of two results never lie side by side."""

from __future__ import annotations

import contextlib
import ctypes
import os
import secrets
import shutil
import sys
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from bodysense.errors import FileWriteError

_HERE, _SWAP = -100, 2  # of the C library: AT_FDCWD; RENAME_EXCHANGE and RENAME_SWAP


def require_free(folder: str | os.PathLike[str], *, replace: bool = False) -> Path:
    """The path of a folder that may be written to: new, empty, or with `replace` any.

    Raises:
        FileWriteError: something is there already, or the system lets nothing be made there.
    """
    target = Path(folder)
    require_room(target)
    if not replace and target.is_dir() and any(target.iterdir()):
        raise FileWriteError(
            f"the folder {target} exists and is not empty: name another one, or pass --force "
            "to replace the files of the same names in it."
        )
    return target


def require_room(folder: Path) -> None:
    """Raise `FileWriteError` where a folder cannot be made, by making it: before any work."""
    whole = folder.absolute()
    with explained(folder):
        home = next(place for place in (whole, *whole.parents) if place.exists())
        if not home.is_dir():
            raise FileWriteError(f"cannot write into {folder}: {home} is a file; name a folder.")
        probe = home / f".{secrets.token_hex(8)}.part"
        try:
            (probe / whole.relative_to(home)).mkdir(parents=True)
        finally:
            shutil.rmtree(probe, ignore_errors=True)


@contextlib.contextmanager
def explained(target: Path) -> Iterator[None]:
    """Raise what the system refuses as a `FileWriteError`."""
    try:
        yield
    except OSError as error:
        raise FileWriteError(
            f"cannot write into {target}: {error.strerror or error}; check that it may be written "
            "to and that the disk has room, or write elsewhere."
        ) from error


@contextlib.contextmanager
def filled_together(
    folder: str | os.PathLike[str], *, replace: bool = False, names: Sequence[str] = ()
) -> Iterator[Path]:
    """Fill a folder in one go: yields an empty one beside it, which takes its place at the end.

    If anything goes wrong or is interrupted before that, the folder is as it was. With `replace` it
    may hold files already; those of the same names are replaced. Files `names` that belong to the
    same result and are not written this time are removed: whenever the process is stopped, files
    of an earlier result never lie beside those of this one.
    """
    target = Path(os.path.realpath(require_free(folder, replace=replace)))
    # Beside it, unless it is a disk of its own, somebody works in it, or its parent is closed.
    inside = target.is_dir() and (
        os.path.ismount(target)
        or target in (here := Path.cwd(), *here.parents)
        or not os.access(target.parent, os.W_OK)
    )
    home = target if inside else target.parent
    made = [place for place in (home, *home.parents) if not place.exists()]
    draft = home / f".{secrets.token_hex(8)}.part"
    try:
        with explained(target):
            draft.mkdir(parents=True)
            yield draft
            for file in draft.iterdir():
                if (target / file.name).is_dir():
                    raise FileWriteError(
                        f"cannot write {target / file.name}: it is a folder; move it away, or "
                        "write elsewhere."
                    )
            ours = {*names, *(file.name for file in draft.iterdir())}
            if inside or (target.is_dir() and any(p.name not in ours for p in target.iterdir())):
                _move_into(draft, target, ours)
            else:
                _swap(draft, target, ours)
            made = []
    finally:
        shutil.rmtree(_replaced(draft), ignore_errors=True)
        shutil.rmtree(draft, ignore_errors=True)
        for place in made:
            with contextlib.suppress(OSError):
                place.rmdir()


def _move_into(draft: Path, target: Path, ours: Collection[str]) -> None:
    """Move files one by one, once all those of an earlier result are gone; others stay untouched.

    Where that is stopped half way, the files that were not moved yet are kept beside the folder.
    """
    try:
        for name in sorted(ours):
            (target / name).unlink(missing_ok=True)
        for file in sorted(draft.iterdir()):
            os.replace(file, target / file.name)
    except BaseException as error:
        kept = draft.with_name(f"{target.name}.unfinished-{secrets.token_hex(4)}")
        os.rename(draft, kept)
        raise FileWriteError(
            f"{target} is half written ({type(error).__name__}); the files that were not "
            f"moved there yet are in {kept}: move them yourself, or run the command again."
        ) from error


def _replaced(draft: Path) -> Path:
    """Where the folder of an earlier result is until the draft has taken its place."""
    return draft.with_name(f"{draft.name}.old")


def _swap(draft: Path, target: Path, ours: Collection[str]) -> None:
    """Put a folder into the place of another one, all of whose files are of an earlier result."""
    if not target.exists():
        os.rename(draft, target)
        return
    shutil.copymode(target, draft)
    old = _replaced(draft)
    try:
        if _exchange(draft, target):
            os.rename(draft, old)
        else:  # stopped between these two, the earlier result stays under another name
            os.rename(target, old)
            os.rename(draft, target)
        for file in old.iterdir():  # made by somebody in the meantime
            if file.name not in ours:
                os.replace(file, target / file.name)
    finally:
        if not target.exists() and old.exists():
            os.rename(old, target)


def _exchange(one: Path, other: Path) -> bool:
    """Give two folders each other's names in one step; false where the system cannot."""
    names, libc = (os.fsencode(one), os.fsencode(other)), ctypes.CDLL(None)
    try:
        if sys.platform == "darwin":
            return bool(libc.renamex_np(*names, _SWAP) == 0)
        return bool(libc.renameat2(_HERE, names[0], _HERE, names[1], _SWAP) == 0)
    except AttributeError:  # an older C library
        return False
