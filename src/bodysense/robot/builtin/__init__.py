"""Robots that come with bodysense: published models to learn on, test with and compare against."""

from __future__ import annotations

from importlib.resources import as_file, files

from bodysense.errors import unknown_name
from bodysense.robot.io.dh import load_dh
from bodysense.robot.robot import Robot

_SUFFIX = ".yaml"


def builtin_names() -> tuple[str, ...]:
    """Names of the built-in robots, sorted."""
    entries = (entry.name for entry in files(__name__).iterdir())
    return tuple(sorted(name.removesuffix(_SUFFIX) for name in entries if name.endswith(_SUFFIX)))


def load_builtin(name: str, *, friction: str | None = None) -> Robot:
    """Load a built-in robot by name, e.g. ``load_builtin("tx40")``.

    Args:
        name: out of `builtin_names`.
        friction: the friction law, by default viscous and Coulomb with a sharp sign
            (``coulomb``). Coefficients are the published ones; those that the publication does
            not have are zero, and a note says so.
    """
    if name not in builtin_names():
        raise unknown_name("built-in robot", name, builtin_names())
    with as_file(files(__name__)) as folder:
        return load_dh(folder / f"{name}{_SUFFIX}", friction=friction or "coulomb")
