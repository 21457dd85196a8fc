from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from jinja2 import UndefinedError

from bodysense.report.page import _environment, _ready_for_json, _source_digest


def test_values_become_plain() -> None:
    value = {
        1: np.array([1.0, np.nan]),
        "path": Path("a"),
        "set": {2},
        "number": np.float64("inf"),
        "whole": np.int64(3),
        "flag": np.bool_(True),
        "none": None,
    }
    assert _ready_for_json(value) == {
        "1": [1.0, None],
        "path": "a",
        "set": [2],
        "number": None,
        "whole": 3,
        "flag": True,
        "none": None,
    }
    json.dumps(_ready_for_json(value), allow_nan=False)


def test_templates_escape_and_refuse() -> None:
    made = _environment()
    assert made.from_string("{{ x }}").render(x="<b>'") == "&lt;b&gt;&#39;"
    with pytest.raises(UndefinedError):
        made.from_string("{{ x }}").render()
    with pytest.raises(ValueError, match="not JSON compliant"):
        made.from_string("{{ x|tojson }}").render(x=float("nan"))


def test_digest_of_a_known_text() -> None:
    # Example of the Content Security Policy recommendation: alert('Hello, world.');
    digest = "'sha256-qznLcsROx4GACP2dm0UCKCzCG+HiZ1guq6ZZDob/Tng='"
    assert _source_digest("alert('Hello, world.');") == digest
