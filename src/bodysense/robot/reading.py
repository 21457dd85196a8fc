"""Reading the bytes of a robot's file, with an answer for everything that can go wrong."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from bodysense.errors import RobotFileError

_LARGEST_FILE = 2**25  # bytes; the largest humanoids take less than one million


def read_robot_file(path: str | PathLike[str]) -> bytes:
    """Return the content of a file.

    Raises:
        RobotFileError: there is no such file, it is a folder, may not be read, or is too large.
    """
    try:
        if Path(path).is_dir():
            raise RobotFileError(f"{path} is a folder: give the path of a file in it.")
        with Path(path).open("rb") as stream:
            data = stream.read(_LARGEST_FILE + 1)
    except (OSError, ValueError) as error:  # ValueError: a null character in the path
        reason = error.strerror if isinstance(error, OSError) else error
        raise RobotFileError(f"cannot read {path}: {reason}; check the path.") from error
    if len(data) > _LARGEST_FILE:
        raise RobotFileError(
            f"{path} is larger than {_LARGEST_FILE} bytes, which no robot description is: check "
            "the path."
        )
    return data
