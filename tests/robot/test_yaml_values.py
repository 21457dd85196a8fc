import pytest

from bodysense.errors import RobotFileError
from bodysense.robot.yaml_values import parse_yaml


def test_aliases_are_refused_before_they_grow():
    levels = [f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 9)}]" for k in range(1, 40)]
    bomb = "\n".join(["a0: &a0 [1]", *levels])
    with pytest.raises(RobotFileError, match=r"robot\.yaml, line 2: the alias \*a0 is not"):
        parse_yaml(bomb.encode(), "robot.yaml")


def test_plain_mappings_pass():
    assert parse_yaml(b"a: 1\nb: [2, 3]", "robot.yaml") == {"a": 1, "b": [2, 3]}
