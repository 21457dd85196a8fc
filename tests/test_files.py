from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from bodysense.files import (
    FileReadError,
    FileWriteError,
    filled_together,
    read_arrays,
    read_json,
    require_free,
    require_room,
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


# -- folders that are filled in one go -----------------------------------------------------


def fill(target: Path, *names: str, trouble: BaseException | None = None) -> None:
    """Put files into a folder, whatever is in it, with trouble before the end."""
    with filled_together(target, replace=True) as draft:
        for name in names:
            (draft / name).write_text("new")
        if trouble is not None:
            raise trouble


def test_a_new_or_empty_folder_is_free(tmp_path):
    assert require_free(tmp_path) == tmp_path
    assert require_free(str(tmp_path / "new")) == tmp_path / "new"
    assert not (tmp_path / "new").exists()


def test_a_folder_with_something_in_it_is_not_free(tmp_path):
    (tmp_path / ".hidden").write_text("")
    with pytest.raises(FileWriteError, match=r"exists and is not empty: .*--force to"):
        require_free(tmp_path)
    assert require_free(tmp_path, replace=True) == tmp_path


@pytest.mark.parametrize("replace", [False, True])
def test_a_file_is_no_folder(tmp_path, replace):
    (tmp_path / "x").write_text("kept")
    with pytest.raises(FileWriteError, match="it is a file; name a folder"):
        require_free(tmp_path / "x", replace=replace)
    with (
        pytest.raises(FileWriteError, match="it is a file"),
        filled_together(tmp_path / "x", replace=replace),
    ):
        pass
    assert (tmp_path / "x").read_text() == "kept"
    assert os.listdir(tmp_path) == ["x"]


@pytest.mark.parametrize("folder", ["out", "deep/er/out"])
def test_files_appear_together_at_the_end(tmp_path, folder):
    target = tmp_path / folder
    with filled_together(target) as draft:
        assert os.listdir(draft) == []
        (draft / "a").write_text("1")
        (draft / "b").write_text("2")
        assert not target.exists()
    assert sorted(os.listdir(target)) == ["a", "b"]
    assert (target / "b").read_text() == "2"
    assert os.listdir(target.parent) == ["out"]  # the draft is gone


def test_only_files_of_the_same_names_are_replaced(tmp_path):
    target = tmp_path / "out"
    target.mkdir()
    (target / "a").write_text("old")
    (target / "notes.txt").write_text("mine")
    (target / "sub").mkdir()
    with pytest.raises(FileWriteError, match="not empty"), filled_together(target):
        pass
    with filled_together(target, replace=True) as draft:
        (draft / "a").write_text("new")
        (draft / "b").write_text("new")
        assert (target / "a").read_text() == "old"
    assert sorted(os.listdir(target)) == ["a", "b", "notes.txt", "sub"]
    assert (target / "a").read_text() == "new"
    assert (target / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("trouble", [KeyboardInterrupt, ValueError, FileWriteError])
@pytest.mark.parametrize("there", [False, True])
def test_trouble_leaves_the_folder_as_it_was(tmp_path, trouble, there):
    target = tmp_path / "out"
    if there:
        target.mkdir()
        (target / "a").write_text("old")
    with pytest.raises(trouble):
        fill(target, "a", trouble=trouble())
    assert os.listdir(tmp_path) == (["out"] if there else [])
    if there:
        assert os.listdir(target) == ["a"]
        assert (target / "a").read_text() == "old"


def test_trouble_leaves_no_parents_behind(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        fill(tmp_path / "deep" / "er" / "out", "a", trouble=KeyboardInterrupt())
    assert os.listdir(tmp_path) == []


def test_what_cannot_be_put_in_place_is_said_before_anything_is(tmp_path):
    target = tmp_path / "out"
    (target / "b").mkdir(parents=True)
    with pytest.raises(FileWriteError, match=r"b.* is a folder"):
        fill(target, "a", "b")
    assert os.listdir(target) == ["b"]
    assert os.listdir(tmp_path) == ["out"]


def test_a_full_disk_is_an_error_of_ours(tmp_path):
    with pytest.raises(FileWriteError, match=r"No space left on device.*write elsewhere"):
        fill(tmp_path / "out", "a", trouble=OSError(28, "No space left on device"))
    assert os.listdir(tmp_path) == []


def test_a_folder_elsewhere_behind_a_link(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "disk")
    with filled_together(tmp_path / "link") as draft:
        assert draft.parent == tmp_path.resolve()  # on the disk that the files end up on
        (draft / "a").write_text("new")
    assert os.listdir(tmp_path / "disk") == ["a"]
    assert (tmp_path / "link").is_symlink()


KILLED = """
import os, sys
from pathlib import Path
from bodysense.files import filled_together
target, steps = Path(sys.argv[1]), int(sys.argv[2])
def counted(step):
    def instead(*args, **kwargs):
        global steps
        steps -= 1
        if steps < 0:
            os._exit(9)  # as kill -9: nothing is tidied up
        return step(*args, **kwargs)
    return instead
for name in ("rename", "replace", "unlink"):
    setattr(os, name, counted(getattr(os, name)))
with filled_together(target, replace=True, names=["a", "b", "c"]) as draft:
    (draft / "a").write_text("new")
    (draft / "b").write_text("new")
"""


@pytest.mark.parametrize("inside", [False, True])
def test_a_killed_process_leaves_no_mixture(tmp_path, inside):
    for steps in range(6):
        target = tmp_path / f"out{steps}"
        target.mkdir()
        for name in ("a", "c", "notes.txt"):
            (target / name).write_text("old")
        words = [sys.executable, "-c", KILLED, str(target), str(steps)]
        process = subprocess.run(words, cwd=target if inside else tmp_path, check=False)
        there = (
            {p.name: p.read_text() for p in target.iterdir() if p.is_file()}
            if (target.exists())
            else {}
        )
        results = {name: text for name, text in there.items() if name != "notes.txt"}
        assert len(set(results.values())) <= 1, f"killed after {steps} steps: {results}"
        if process.returncode == 0:
            assert results == {"a": "new", "b": "new"}
            assert there["notes.txt"] == "old"
            return
    pytest.fail("it never came to its end")


def test_an_unwritable_folder_is_noticed_before_the_work():
    with pytest.raises(FileWriteError, match="cannot write into /proc/out"):
        require_free("/proc/out")
    with pytest.raises(FileWriteError, match="cannot write into /proc/sys"):
        require_room(Path("/proc/sys"))
