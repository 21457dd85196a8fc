"""Folders of results: all of one, or all of another."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from bodysense import folders
from bodysense.errors import FileWriteError
from bodysense.folders import filled_together, require_free, require_room


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
    with pytest.raises(FileWriteError, match="x is a file; name a folder"):
        require_free(tmp_path / "x", replace=replace)
    with (
        pytest.raises(FileWriteError, match="x is a file"),
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


def can_exchange() -> bool:
    """Whether this system swaps two folders in one step, as most of Linux and macOS do."""
    with tempfile.TemporaryDirectory() as name:
        one, other = Path(name) / "one", Path(name) / "other"
        one.mkdir()
        other.mkdir()
        return folders._exchange(one, other)


EXCHANGES = can_exchange()


STOPPED = """
import os, sys
from pathlib import Path
from bodysense import folders
from bodysense.folders import filled_together
target, steps, how, late = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4] == "late"
if sys.argv[5] == "renamed":
    folders._exchange = lambda one, other: False
def counted(step):
    def instead(*args, **kwargs):
        global steps
        steps -= 1
        if steps >= 0:
            return step(*args, **kwargs)
        if how == "killed":
            os._exit(9)  # as kill -9: nothing is tidied up
        for name, real in REAL.items():
            setattr(os, name, real)
        if late:  # the signal comes between this call and the next
            step(*args, **kwargs)
        raise KeyboardInterrupt
    return instead
REAL = {name: getattr(os, name) for name in ("rename", "replace", "unlink")}
with filled_together(target, replace=True, names=["a", "b", "c"]) as draft:
    (draft / "a").write_text("new")
    (draft / "b").write_text("new")
    for name, real in REAL.items():
        setattr(os, name, counted(real))
"""


@pytest.mark.parametrize("inside", [False, True], ids=["beside", "inside"])
@pytest.mark.parametrize("foreign", [(), ("notes.txt", "sub/x")], ids=len)
@pytest.mark.parametrize("how", ["killed", "interrupted", "interrupted late"])
@pytest.mark.parametrize("swap", ["exchanged", "renamed"])
def test_a_stopped_process_leaves_no_mixture(tmp_path, how, foreign, inside, swap):
    how, _, late = how.partition(" ")
    for steps in range(9):
        home = tmp_path / str(steps)
        target = home / "out"
        target.mkdir(parents=True)
        for name in ("a", "c"):
            (target / name).write_text("old")
        for name in foreign:
            (target / name).parent.mkdir(exist_ok=True)
            (target / name).write_text("mine")
        words = [sys.executable, "-c", STOPPED, str(target), str(steps), how, late, swap]
        process = subprocess.run(words, cwd=target if inside else home, check=False)
        for name in foreign:
            assert (target / name).read_text() == "mine", f"stopped after {steps} steps"
        results = {x: p.read_text() for x in "abc" if (p := target / x).exists()}
        assert len(set(results.values())) <= 1, f"stopped after {steps} steps: {results}"
        # Wherever it was stopped, one whole result is there, in one folder or in two.
        every = [p for p in home.rglob("*") if p.name in "abc" and p.is_file()]
        old, new = ({p.name for p in every if p.read_text() == x} for x in ("old", "new"))
        assert old == {"a", "c"} or new == {"a", "b"}, f"stopped after {steps} steps"
        if how == "interrupted" and not foreign and not inside:
            # Stopped while the earlier result is deleted, a rest of it stays.
            assert [name for name in os.listdir(home) if not name.endswith(".old")] == ["out"]
            assert results in ({"a": "old", "c": "old"}, {"a": "new", "b": "new"})
        if swap == "exchanged" and EXCHANGES and not foreign and not inside:
            assert results in ({"a": "old", "c": "old"}, {"a": "new", "b": "new"}), how
        if process.returncode == 0:
            assert results == {"a": "new", "b": "new"}
            return
    pytest.fail("it never came to its end")


@pytest.mark.parametrize("swap", ["exchanged", "renamed"])
def test_files_made_in_the_meantime_stay(tmp_path, monkeypatch, swap):
    target = tmp_path / "out"
    target.mkdir()
    (target / "a").write_text("old")
    exchange = folders._exchange

    def slow(one: Path, other: Path) -> bool:
        (target / "notes.txt").write_text("mine")
        return swap == "exchanged" and exchange(one, other)

    monkeypatch.setattr(folders, "_exchange", slow)
    fill(target, "a")
    assert {p.name: p.read_text() for p in target.iterdir()} == {"a": "new", "notes.txt": "mine"}
    assert os.listdir(tmp_path) == ["out"]


def test_an_unwritable_folder_is_noticed_before_the_work():
    with pytest.raises(FileWriteError, match="cannot write into /proc/out"):
        require_free("/proc/out")
    with pytest.raises(FileWriteError, match="cannot write into /proc/sys"):
        require_room(Path("/proc/sys"))


def test_a_folder_below_a_file_is_noticed_before_the_work(tmp_path):
    (tmp_path / "file").write_text("kept")
    for folder in ("file/out", "file/deep/er/out"):
        with pytest.raises(FileWriteError, match="file is a file; name a folder"):
            require_free(tmp_path / folder)


@pytest.mark.parametrize("folder", ["x" * 300, f"new/{'x' * 300}/out"], ids=["here", "below"])
def test_names_that_are_too_long_are_noticed_before_the_work(tmp_path, folder):
    with pytest.raises(FileWriteError, match="File name too long"):
        require_free(tmp_path / folder)
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(not EXCHANGES, reason="this system cannot swap folders in one step")
def test_two_folders_are_swapped_in_one_step(tmp_path):
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).write_text("")
    assert folders._exchange(tmp_path / "one", tmp_path / "other")
    assert os.listdir(tmp_path / "one") == ["other"]
    assert not folders._exchange(tmp_path / "one", tmp_path / "missing")
