"""Base parameters and trajectories as arrays and plain values, for the files of results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from typing import Any

import numpy as np

from bodysense.errors import FileReadError, FileWriteError
from bodysense.excitation.fourier import FourierTrajectory
from bodysense.excitation.spline import SplineTrajectory
from bodysense.excitation.trajectory import Trajectory
from bodysense.robot.base_parameters import BaseParameters
from bodysense.robot.layout import ParameterLayout
from bodysense.spatial.arrays import Array, read_only

BASE_ARRAYS = ("independent", "dependent", "K", "gap", "new")
"""Names of what `base_arrays` gives."""


def base_arrays(base: BaseParameters) -> dict[str, Array]:
    """Base parameters but their names."""
    return {name: np.asarray(getattr(base, name)) for name in BASE_ARRAYS}


def layout_words(layout: ParameterLayout) -> dict[str, Any]:
    """The names of all parameters, ready for JSON."""
    return {
        "links": list(layout.link_names),
        "joints": list(layout.joint_names),
        "friction": list(layout.friction_terms),
        "coupled": [list(pair) for pair in layout.coupled],
        "floating_base": layout.floating_base,
    }


def base_of(words: Mapping[str, Any], arrays: Mapping[str, Array]) -> BaseParameters:
    """Base parameters from what `layout_words` and `base_arrays` made."""
    layout = ParameterLayout(
        tuple(words["links"]),
        tuple(words["joints"]),
        tuple(words["friction"]),
        tuple((str(term), int(motor)) for term, motor in words["coupled"]),
        bool(words["floating_base"]),
    )
    return BaseParameters(
        layout,
        arrays["independent"].astype(np.int64),
        arrays["dependent"].astype(np.int64),
        read_only(arrays["K"]),
        float(arrays["gap"]),
        read_only(arrays["new"]),
    )


def trajectory_arrays(trajectories: Sequence[Trajectory]) -> tuple[dict[str, Array], list[str]]:
    """The coefficients of trajectories by name, and their families.

    Raises:
        FileWriteError: a trajectory that has no coefficients.
    """
    arrays: dict[str, Array] = {}
    families = []
    for k, motion in enumerate(trajectories):
        if isinstance(motion, FourierTrajectory):
            families.append("fourier")
            parts = {"a": motion.a, "b": motion.b, "q0": motion.q0}
        elif isinstance(motion, SplineTrajectory):
            families.append("spline")
            parts = {"points": motion.points}
        else:
            raise FileWriteError(
                f"cannot save a {type(motion).__name__}: Fourier series and splines have "
                "coefficients; write others with write_trajectory."
            )
        parts["duration"] = np.array(motion.duration)
        arrays |= {f"motion{k}_{name}": values for name, values in parts.items()}
    return arrays, families


def trajectory_names(families: Sequence[str]) -> list[str]:
    """Names of the arrays that `trajectory_arrays` makes for such families."""
    parts = {"fourier": ("a", "b", "q0", "duration"), "spline": ("points", "duration")}
    return [f"motion{k}_{name}" for k, family in enumerate(families) for name in parts[family]]


def trajectories_of(families: Sequence[str], arrays: Mapping[str, Array]) -> tuple[Trajectory, ...]:
    """Trajectories from their families and what `trajectory_arrays` made."""
    found: list[Trajectory] = []
    for k, family in enumerate(families):
        duration = float(arrays[f"motion{k}_duration"])
        if family == "fourier":
            a, b, q0 = (arrays[f"motion{k}_{name}"] for name in ("a", "b", "q0"))
            found.append(FourierTrajectory(duration, a, b, q0))
        else:
            found.append(SplineTrajectory(duration, arrays[f"motion{k}_points"]))
    return tuple(found)


def damaged(folder: str | PathLike[str], name: str, error: Exception) -> FileReadError:
    """The error for files that can be read and do not make sense."""
    return FileReadError(
        f"{name}.json and {name}.npz in {fspath(folder)} are damaged or do not belong together "
        f"({error!r}): save the result again."
    )
