"""YAML as plain data, with errors that say where.

Only plain data is ever built (`yaml.SafeLoader`). What YAML would silently accept is refused: a
key that occurs twice, and aliases, a few of which can stand for gigabytes.
"""

from __future__ import annotations

import yaml

from bodysense.errors import BodysenseError


def parse_yaml(data: bytes, where: str, error: type[BodysenseError]) -> dict[str, object]:
    """Parse the bytes of a file whose top level is a mapping with names as keys.

    Args:
        data: content of the file.
        where: its name, for messages.
        error: what to raise if it is empty, not YAML or no mapping, has an alias or a key twice.
    """
    if not data.strip():
        raise error(f"{where} is empty: it must hold a YAML mapping, `key: value`.")
    try:
        for event in yaml.parse(data, Loader=yaml.SafeLoader):
            if isinstance(event, yaml.AliasEvent):
                mark = event.start_mark
                line = 0 if mark is None else mark.line + 1
                raise error(
                    f"{where}, line {line}: the alias *{event.anchor} is not supported: write the "
                    "value out."
                )
        node = yaml.compose(data, Loader=yaml.SafeLoader)
        if node is not None:
            _refuse_repeated_keys(node, where, error)
        content = yaml.safe_load(data)
    except yaml.MarkedYAMLError as problem:
        mark = problem.problem_mark
        place = f", line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
        raise error(f"{where}{place}: not valid YAML: {problem.problem}.") from problem
    except (yaml.YAMLError, ValueError, RecursionError) as problem:
        raise error(f"{where} is not valid YAML: {problem}.") from problem
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        raise error(
            f"{where} holds a {type(content).__name__}: it must be a YAML mapping, `key: value`, "
            "with names as keys."
        )
    return content


def _refuse_repeated_keys(root: yaml.Node, where: str, error: type[BodysenseError]) -> None:
    nodes, seen = [root], set[int]()
    while nodes:
        node = nodes.pop()
        if id(node) in seen:  # aliases share nodes, and may form a loop
            continue
        seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            nodes.extend(node.value)
        elif isinstance(node, yaml.MappingNode):
            keys = set[str]()
            for key, value in node.value:
                nodes += [key, value]
                if isinstance(key, yaml.ScalarNode):
                    if key.value in keys:
                        raise error(
                            f"{where}, line {key.start_mark.line + 1}: the key {key.value!r} "
                            "occurs twice in one mapping; remove one of them."
                        )
                    keys.add(key.value)
