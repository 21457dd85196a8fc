"""Folders of results: filled in one go, so that files of two results never lie side by side."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from bodysense.errors import FileWriteError


def require_free(folder: str | os.PathLike[str], *, replace: bool = False) -> Path:
    """The path of a folder that may be written to: new, empty, or with `replace` any.

    Raises:
        FileWriteError: something is there already, or the system lets nothing be made there.
    """
    target = Path(folder)
    if target.exists() and not target.is_dir():
        raise FileWriteError(f"cannot write into {target}: it is a file; name a folder.")
    if not replace and target.is_dir() and any(target.iterdir()):
        raise FileWriteError(
            f"the folder {target} exists and is not empty: name another one, or pass --force "
            "to replace the files of the same names in it."
        )
    require_room(target)
    return target


def require_room(folder: Path) -> None:
    """Raise `FileWriteError` where nothing can be made, by making something: before any work."""
    home = next(place for place in (folder, *folder.absolute().parents) if place.is_dir())
    probe = home / f".{secrets.token_hex(8)}.part"
    with _explained(folder):
        probe.mkdir()
        probe.rmdir()


@contextlib.contextmanager
def _explained(target: Path) -> Iterator[None]:
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
        with _explained(target):
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
        os.rename(target, old)
        os.rename(draft, target)
        for file in old.iterdir():  # made by somebody in the meantime
            if file.name not in ours:
                os.replace(file, target / file.name)
    finally:
        if not target.exists() and old.exists():
            os.rename(old, target)
