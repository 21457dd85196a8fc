"""A small share of the damaged files of `make fuzz`; see `fuzzer.py`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import fuzzer

SHARE = 15  # inputs per reader


@pytest.mark.filterwarnings("ignore")  # numpy's, about numbers that overflow
@pytest.mark.parametrize("name", fuzzer.subjects())
def test_damaged_files_are_read_or_refused(name, tmp_path):
    names = list(fuzzer.subjects())
    place = names.index(name)
    for k in range(SHARE):
        failure = fuzzer.tried(place + k * len(names), tmp_path)
        assert failure is None, f"python tests/fuzz/fuzzer.py --number {failure.number}"


@pytest.mark.parametrize("name", fuzzer.subjects())
def test_files_without_damage_are_read(name, tmp_path):
    subject = fuzzer.subjects()[name]
    for beside, content in subject.beside:
        (tmp_path / beside).write_bytes(content)
    (tmp_path / subject.file).write_bytes(subject.content)
    subject.read(tmp_path / subject.file)


def test_damage_is_the_same_in_every_run():
    content = fuzzer.subjects()["urdf"].content
    first, again = (fuzzer.damaged(content, fuzzer.random.Random(5)) for _ in range(2))
    assert first == again != content
