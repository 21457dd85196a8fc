import pytest

from bodysense.errors import FileReadError
from bodysense.schema import parse_yaml


def test_aliases_are_refused_before_they_grow():
    levels = [f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 9)}]" for k in range(1, 40)]
    bomb = "\n".join(["a0: &a0 [1]", *levels])
    with pytest.raises(FileReadError, match=r"robot\.yaml, line 2: the alias \*a0 is not"):
        parse_yaml(bomb.encode(), "robot.yaml", FileReadError)


def test_plain_mappings_pass():
    assert parse_yaml(b"a: 1\nb: [2, 3]", "x.yaml", FileReadError) == {"a": 1, "b": [2, 3]}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b" \n", "is empty"),
        (b"- 1", "holds a list"),
        (b"1: 2", "names as keys"),
        (b"a: 1\na: 2", "line 2: the key 'a' occurs twice"),
        (b"a: [1", "line 1, column 6: not valid YAML"),
        (b"a: !!python/object:os.system {}", "not valid YAML"),
        (b"\xff\xfe\x00", "not valid YAML"),
    ],
)
def test_what_is_no_plain_mapping_is_named(data, message):
    with pytest.raises(FileReadError, match=message):
        parse_yaml(data, "x.yaml", FileReadError)
