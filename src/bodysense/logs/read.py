"""Reading logs: one function for all formats."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path

from bodysense.errors import FileReadError
from bodysense.logs.assembly import assemble
from bodysense.logs.csv_source import CsvSource
from bodysense.logs.layout import LogLayout
from bodysense.logs.layout_file import read_layout
from bodysense.logs.log import RawLog
from bodysense.logs.parquet_source import ParquetSource
from bodysense.logs.source import LogFile

_SUFFIXES = {
    ".csv": "text",
    ".tsv": "text",
    ".txt": "text",
    ".dat": "text",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".mcap": "mcap",
    ".db3": "bag",
}
_SIGNATURES = {b"PAR1": "parquet", b"\x89MCAP0\r\n": "mcap", b"SQLite format 3\0": "bag"}


def read_log(
    path: str | PathLike[str], layout: LogLayout | str | PathLike[str] | None = None
) -> RawLog:
    """Read a recording as it is, with all its faults.

    Args:
        path: CSV or other text table (.csv, .tsv, .txt, .dat), Parquet (.parquet, .pq), MCAP
            (.mcap), or a ROS 2 bag (its folder, or .db3); other suffixes are told by their content.
        layout: where the channels are, or the path of a layout file that says so. Without one the
            columns name the channels: ``t``, ``q.<joint>``, ``tau.<joint>``, …, and may end with a
            unit, ``q.elbow [deg]``.

    Raises:
        FileReadError: the file cannot be read, or holds nothing that can be used.
        UnknownNameError: a column that is not there.
        MissingDependencyError: the format needs a package that is not installed.
    """
    path = Path(path)
    if layout is None:
        layout = LogLayout(source="no layout")
    elif not isinstance(layout, LogLayout):
        layout = read_layout(layout)
    kind = _kind(path)
    source: LogFile
    files: list[Path]
    if kind in ("mcap", "bag"):
        from bodysense.logs.ros_source import open_recording

        source, files = open_recording(path, layout.topic)
    else:
        source, files = _open_table(path, kind, layout), [path]
    beside = sorted({entry.file for entry in layout.channels} - {""})
    files = [*files, *(path.parent / name for name in beside)]
    return assemble(source, layout, _opener(path.parent, layout), _digest(files))


def _opener(folder: Path, layout: LogLayout) -> Callable[[str], LogFile]:
    def open_beside(name: str) -> LogFile:
        return _open_table(folder / name, _kind(folder / name), layout)

    return open_beside


def _open_table(path: Path, kind: str, layout: LogLayout) -> LogFile:
    if kind == "parquet":
        return ParquetSource.open(path)
    if kind != "text":
        raise FileReadError(f"{path} is no table: tables beside a log are text or Parquet.")
    return CsvSource.open(
        path, separator=layout.separator, decimal=layout.decimal, header=layout.header
    )


def _kind(path: Path) -> str:
    try:
        if path.is_dir():
            if (path / "metadata.yaml").is_file():
                return "bag"
            raise FileReadError(
                f"{path} is a folder and no ROS 2 bag, as it has no metadata.yaml: give the path "
                "of a file in it."
            )
        if path.suffix.lower() == ".bag":
            raise FileReadError(
                f"{path} is a bag of ROS 1: turn it into one of ROS 2 with `rosbags-convert`."
            )
        with path.open("rb") as stream:
            start = stream.read(16)
    except (OSError, ValueError) as error:  # ValueError: a null character in the path
        reason = error.strerror if isinstance(error, OSError) else error
        raise FileReadError(f"cannot read {path}: {reason}; check the path.") from error
    stated = _SUFFIXES.get(path.suffix.lower())
    if stated is not None:
        return stated
    return next((kind for sign, kind in _SIGNATURES.items() if start.startswith(sign)), "text")


def _digest(files: Sequence[Path]) -> str:
    """SHA-256 of a file; of several, the SHA-256 of their digests, one per line."""
    digests = []
    for path in files:
        try:
            with path.open("rb") as stream:
                digests.append(hashlib.file_digest(stream, "sha256").hexdigest())
        except OSError as error:
            raise FileReadError(
                f"cannot read {path}: {error.strerror}; check the path, and `file:` of the layout."
            ) from error
    if len(digests) == 1:
        return digests[0]
    return hashlib.sha256("".join(f"{digest}\n" for digest in digests).encode()).hexdigest()
