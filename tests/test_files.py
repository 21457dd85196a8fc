from __future__ import annotations

import json
import math
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bodysense.files import (
    FileReadError,
    FileWriteError,
    load_result,
    read_arrays,
    read_json,
    save_result,
    write_arrays,
    write_atomically,
)
from bodysense.status import Status


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


# -- arrays and results --------------------------------------------------------------------


@pytest.fixture
def arrays() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {
        "q": rng.normal(size=(3, 4)),
        "lost": np.array([np.nan, np.inf, -0.0]),
        "no": rng.random(0),
    }


def test_arrays_come_back_bit_for_bit(tmp_path: Path, arrays: dict[str, np.ndarray]) -> None:
    path = tmp_path / "x.npz"
    assert write_arrays(path, arrays) == path.resolve()
    assert os.listdir(tmp_path) == ["x.npz"]
    with np.load(path, allow_pickle=False) as stored:
        assert sorted(stored) == sorted(arrays)  # nothing else slips in, such as an option
    back = read_arrays(str(path), ("lost", "q", "no"))
    assert list(back) == ["lost", "q", "no"]
    for name, array in back.items():
        assert array.dtype == np.float64
        assert array.shape == arrays[name].shape
        assert array.tobytes() == arrays[name].tobytes()


def test_a_path_is_taken_as_it_is(tmp_path: Path) -> None:
    # numpy would append .npz to a name.
    write_arrays(tmp_path / "data", {"x": np.arange(3)})
    assert os.listdir(tmp_path) == ["data"]
    back = read_arrays(tmp_path / "data", ["x"])["x"]
    assert back.dtype == np.float64
    np.testing.assert_array_equal(back, [0.0, 1.0, 2.0])


def test_objects_are_not_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Object arrays cannot be saved"):
        write_arrays(tmp_path / "x.npz", {"x": np.array([object()])})
    assert os.listdir(tmp_path) == []


def test_arrays_that_are_missing(tmp_path: Path, arrays: dict[str, np.ndarray]) -> None:
    write_arrays(tmp_path / "x.npz", arrays)
    with pytest.raises(FileReadError, match=r"x\.npz lacks tau, v: "):
        read_arrays(tmp_path / "x.npz", ("q", "tau", "v"))


class Trap:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def __reduce__(self) -> tuple[object, tuple[str, str]]:
        return open, (self.path, "w")


def test_pickles_are_refused(tmp_path: Path) -> None:
    sprung, path = tmp_path / "sprung", tmp_path / "x.npz"
    trap = np.array([Trap(sprung)], dtype=object)
    np.savez(path, good=np.ones(2), bad=trap)
    with pytest.raises(FileReadError, match=r"cannot read .*x\.npz.*save the result again"):
        read_arrays(path, ("good", "bad"))
    np.save(tmp_path / "x.npy", trap, allow_pickle=True)
    (tmp_path / "x.npy").rename(path)
    with pytest.raises(FileReadError, match=r"x\.npz"):
        read_arrays(path, ("good",))
    trap.dump(path)
    with pytest.raises(FileReadError, match=r"x\.npz"):
        read_arrays(path, ("good",))
    assert not sprung.exists()


def test_what_is_no_archive_of_numbers(tmp_path: Path, arrays: dict[str, np.ndarray]) -> None:
    path = tmp_path / "x.npz"
    write_arrays(path, {"q": np.random.default_rng(0).normal(size=1000).round(2)})
    whole = path.read_bytes()
    damaged = [whole[:k] + bytes([whole[k] ^ 0x5A]) + whole[k + 1 :] for k in range(70, 1000, 7)]
    for broken in (whole[: len(whole) // 2], whole[:3], b"", b"junk", *damaged):
        path.write_bytes(broken)
        with pytest.raises(FileReadError, match=r"cannot read .*x\.npz.*save the result again"):
            read_arrays(path, ("q",))
    np.save(tmp_path / "x.npy", np.ones(3))  # one array, not an archive of them
    (tmp_path / "x.npy").rename(path)
    with pytest.raises(FileReadError, match=r"x\.npz"):
        read_arrays(path, ("q",))
    np.savez(path, q=np.array(["one", "two"]))
    with pytest.raises(FileReadError, match=r"x\.npz"):
        read_arrays(path, ("q",))
    with pytest.raises(FileReadError, match=r"cannot read .*nowhere\.npz"):
        read_arrays(tmp_path / "nowhere.npz", ("q",))
    with pytest.raises(FileReadError, match="cannot read"):
        read_arrays(tmp_path, ("q",))


def test_json_comes_back(tmp_path: Path) -> None:
    content = {"names": ["Größe", "b"], "n": 3, "more": None}
    write_atomically(tmp_path / "x.json", json.dumps(content, ensure_ascii=False))
    assert read_json(tmp_path / "x.json", ("names", "n")) == content
    assert read_json(str(tmp_path / "x.json"), ()) == content


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"names": []}', r"x\.json lacks n, m: save the result again"),
        ("[1, 2]", r"x\.json lacks names, n, m"),
        ('"names"', r"x\.json lacks names, n, m"),
        ("3", r"x\.json lacks names, n, m"),
        ('{"names": ', r"cannot read .*x\.json.*save the result again"),
        ("", r"cannot read .*x\.json"),
        ("\udcff", r"cannot read .*x\.json"),  # not UTF-8
    ],
)
def test_json_that_is_not_the_wanted_one(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(FileReadError, match=message):
        read_json(path, ("names", "n", "m"))


def test_json_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileReadError, match=r"cannot read .*x\.json"):
        read_json(tmp_path / "x.json", ())


def test_special_files_are_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(FileWriteError, match="no regular file"):
        write_atomically(pipe, "text")
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(FileWriteError, match="cannot make the folder"):
        save_result(Status(), tmp_path / "taken", "x")


@dataclass(frozen=True)
class Figures:
    """A result with numbers that JSON has no name for."""

    best: float
    worst: float
    of_joint: Mapping[str, float]
    provenance: Mapping[str, Any]
    trace: tuple[float, ...]

    def summary(self) -> str:
        return ""


def test_numbers_that_are_not_finite_come_back_from_strict_json(tmp_path):
    settings = {
        "cutoff": math.inf,
        "order": 4,
        "bounds": [-math.inf, 1.0],
        "name": "inf",
        "x": None,
    }
    made = Figures(math.inf, math.nan, {"a": -math.inf, "b": 2.0}, settings, (1.0, math.inf))
    save_result(made, tmp_path, "figures")

    def refuse(name: str) -> None:
        raise ValueError(name)

    json.loads((tmp_path / "figures.json").read_text(), parse_constant=refuse)
    again = load_result(Figures, tmp_path, "figures")
    assert math.isnan(again.worst)
    assert replace(again, worst=0.0) == replace(made, worst=0.0)
