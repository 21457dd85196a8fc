"""What pages have in common: templates that escape everything, JSON without NaN, digests."""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Mapping
from importlib import resources

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined


def environment() -> Environment:
    """Templates of this package: all values escaped, unknown names and NaN in JSON are errors."""
    made = Environment(
        loader=PackageLoader("bodysense.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    return made


def template_text(*names: str) -> str:
    """Files beside the templates, one after the other, word for word."""
    folder = resources.files("bodysense.report") / "templates"
    return "".join((folder / name).read_text(encoding="utf-8") for name in names)


def source_digest(text: str) -> str:
    """What a content security policy calls an inline script or style, e.g. ``'sha256-…'``."""
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


def ready_for_json(value: object) -> object:
    """The same of plain types: what is not a number becomes null, what is unknown its text."""
    if isinstance(value, Mapping):
        return {str(key): ready_for_json(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return ready_for_json(value.tolist())
    if isinstance(value, list | tuple | set | frozenset):
        return [ready_for_json(item) for item in value]
    if isinstance(value, np.generic):
        return ready_for_json(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)
