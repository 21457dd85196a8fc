"""Messages of errors stay readable, whatever file they quote."""

from __future__ import annotations

import copy

import pytest

from bodysense.errors import BodysenseError, RobotFileError
from bodysense.robot import load_robot


def test_long_messages_keep_their_ends():
    text = f"bad.urdf, line 7: {'x' * 100_000}; correct it."
    shown = str(RobotFileError(text))
    assert len(shown) < 4100
    assert shown.startswith("bad.urdf, line 7: xxx")
    assert shown.endswith("xxx; correct it.")
    assert f"({len(text) - 4000} characters left out)" in shown
    assert str(RobotFileError("short")) == "short"


def test_a_file_of_long_names_gives_a_short_message(tmp_path):
    name = "y" * 200_000
    path = tmp_path / "long.urdf"
    path.write_text(f'<robot name="r"><link name="{name}"/><link name="{name}"/></robot>')
    with pytest.raises(BodysenseError) as caught:
        load_robot(path)
    assert len(str(caught.value)) < 4100


def test_copies_say_the_same():
    error = copy.copy(RobotFileError("z" * 9000))
    assert str(error) == str(RobotFileError("z" * 9000))
