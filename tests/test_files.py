from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from bodysense.files import FileWriteError, write_atomically


@pytest.mark.parametrize("data", [b"\x00\xff\r\n", "Größe\r\n", "", b""])
def test_writes_exactly_the_data(tmp_path: Path, data: bytes | str) -> None:
    path = tmp_path / "x"
    assert write_atomically(path, data) == path.resolve()
    assert path.read_bytes() == (data.encode() if isinstance(data, str) else data)
    assert os.listdir(tmp_path) == ["x"]


def test_replaces_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("much longer than the new one")
    write_atomically(str(path), "new")
    assert path.read_text() == "new"
    assert os.listdir(tmp_path) == ["x"]


def test_a_failure_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x"
    path.write_text("old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(FileWriteError, match=r"No space left on device.*write elsewhere"):
        write_atomically(path, "new")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["x"]


def test_an_interrupt_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(source: object, target: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(tmp_path / "x", "new")
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(os.name != "posix", reason="modes are a POSIX notion")
def test_modes(tmp_path: Path) -> None:
    plain, fresh, kept = tmp_path / "plain", tmp_path / "fresh", tmp_path / "kept"
    plain.write_text("")
    write_atomically(fresh, "")
    assert fresh.stat().st_mode == plain.stat().st_mode
    kept.write_text("")
    kept.chmod(0o640)
    write_atomically(kept, "new")
    assert stat.S_IMODE(kept.stat().st_mode) == 0o640


@pytest.mark.skipif(os.name != "posix", reason="links need rights elsewhere")
def test_a_link_stays_a_link(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    assert write_atomically(link, "new") == target.resolve()
    assert link.is_symlink()
    assert target.read_text() == "new"


def test_a_name_of_the_greatest_length(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 255)
    write_atomically(path, "x")
    assert path.read_text() == "x"


def test_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(FileWriteError, match="does not exist; create it first"):
        write_atomically(tmp_path / "no" / "x", "x")


def test_a_folder_is_not_a_file(tmp_path: Path) -> None:
    with pytest.raises(FileWriteError, match="is a folder; add a file name"):
        write_atomically(tmp_path, "x")
    assert os.listdir(tmp_path) == []
