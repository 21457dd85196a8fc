"""The files of a load and of drive gains: the result, the loaded robot, how to do it again."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import yaml

from bodysense.errors import BodysenseError
from bodysense.files import write_atomically
from bodysense.identification.payload.drive_gains import DriveGains
from bodysense.identification.payload.payload import Payload
from bodysense.robot.io.mjcf_writer import write_mjcf
from bodysense.robot.io.urdf_writer import write_urdf
from bodysense.robot.robot import Robot

PAYLOAD_FILES = (
    "config.yaml",
    "loaded.urdf",
    "loaded.xml",
    "payload.json",
    "payload.npz",
    "report.html",
)
"""Everything that the identification of a load can write."""

GAIN_FILES = ("config.yaml", "drive_gains.json", "drive_gains.npz", "report.html")
"""Everything that the identification of drive gains can write."""


def write_payload(
    folder: str | PathLike[str],
    payload: Payload,
    robot: Robot,
    configuration: Mapping[str, Any] | None = None,
) -> tuple[str, ...]:
    """Write everything but the report into an existing folder.

    Args:
        folder: where to.
        payload: the load.
        robot: that holds it, as its file describes it; written with the load.
        configuration: what `bodysense identify --config` needs to do it again; without it there is
            no ``config.yaml``.

    Returns:
        Notes on files that could not be written.
    """
    target, notes = Path(folder), []
    if not payload.status.ok:
        notes.append("loaded.urdf and loaded.xml are not written: no load was identified.")
    files = (("loaded.urdf", write_urdf), ("loaded.xml", write_mjcf)) if payload.status.ok else ()
    for name, write in files:
        try:
            write(payload.held_by(robot), target / name)
        except BodysenseError as error:
            notes.append(f"{name} is not written: {error}")
    payload.save(target)
    _configure(target, configuration)
    return tuple(notes)


def write_drive_gains(
    folder: str | PathLike[str],
    gains: DriveGains,
    configuration: Mapping[str, Any] | None = None,
) -> None:
    """Write everything but the report into an existing folder; see `write_payload`."""
    gains.save(folder)
    _configure(Path(folder), configuration)


def _configure(target: Path, configuration: Mapping[str, Any] | None) -> None:
    if configuration is None:
        return
    text = yaml.safe_dump(dict(configuration), sort_keys=False, allow_unicode=True)
    write_atomically(
        target / "config.yaml",
        f"# Do it again: bodysense identify --config config.yaml -o ANOTHER_FOLDER\n{text}",
    )
