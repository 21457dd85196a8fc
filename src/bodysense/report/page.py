"""The page builder: one HTML file per report, complete in itself.

Style, script and data are in the file. Its content security policy names the digests of its own
style and script: nothing else can run in it, and nothing can be fetched. A report is a template
beside `page.html.j2`, a script, and sections: plain data that functions make of a result.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import os
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from bodysense.doctor import SEVERITIES, Diagnosis
from bodysense.files import write_atomically
from bodysense.robot.robot import Robot

# Numbers and units as a reader wants to see them.

NOTHING = "\N{EN DASH}"
"""Stands where there is no number."""


def number(value: float, digits: int = 4) -> str:
    """A number with a few significant digits; powers of ten only where they are needed."""
    if not math.isfinite(value):
        return NOTHING
    if value == 0.0:
        return "0"
    exponent = math.floor(math.log10(abs(value)))
    if -4 <= exponent < 6:
        text = f"{value:.{max(0, digits - 1 - exponent)}f}"
        # Trailing zeros stay: they say how many digits are known.
        return text.replace("-", "\N{MINUS SIGN}")
    mantissa, power = f"{value:.{digits - 1}e}".split("e")
    return f"{mantissa}e{int(power)}".replace("-", "\N{MINUS SIGN}")


def percent(fraction: float) -> str:
    """A fraction in per cent, e.g. ``4.7 %``; three digits are as many as errors deserve."""
    if not math.isfinite(fraction):
        return NOTHING
    value = 100.0 * fraction
    if abs(value) >= 1e5:
        return f"{value:.0e} %".replace("e+0", "e").replace("e+", "e")
    digits = 0 if abs(value) >= 99.95 else 1 if abs(value) >= 0.995 else 2
    return f"{value:.{digits}f} %".replace("-", "\N{MINUS SIGN}")


def count(n: int, noun: str) -> str:
    """``1 log``, ``3 logs``."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def _sort_key(value: float) -> float | str:
    """The number by which a table sorts; empty for what goes to the end."""
    return float(f"{value:.6g}") if math.isfinite(value) else ""


def _bar_width(value: float, full: float) -> float:
    """How much of a bar is filled, in per cent, where `full` fills it."""
    return round(100.0 * min(1.0, max(value, 0.0) / full), 1) if math.isfinite(value) else 0.0


Section = dict[str, Any]
"""What a template shows of a result: texts, and numbers of drawings."""

_FINDINGS = 100
"""Findings of one log that are shown: a page is no place for more."""


def write_page(
    path: str | os.PathLike[str],
    report: str,
    *,
    title: str,
    kicker: str,
    sections: Mapping[str, str],
    data: Mapping[str, object] | None = None,
    style: str = "",
    **content: object,
) -> Path:
    """Write a report and return its path.

    Args:
        path: the HTML file to write; its folder must exist.
        report: name of its template, script and style sheet, e.g. ``identification``.
        title: heading of the page.
        kicker: kind of the report, above the heading.
        sections: title of each section by its name, in the order of the page; each is a block of
            the report's template or of `page.html.j2`.
        data: for the page's script.
        style: rules of this page alone.
        content: what the sections show, by name.

    Raises:
        FileWriteError: the file cannot be written.
    """
    styles = _asset("page.css") + _asset(f"{report}.css") + style
    scripts = _asset("figures.js") + _asset(f"{report}.js") + _asset("page.js")
    script = f'"use strict";\n(() => {{\n{scripts}}})();\n'
    template = _environment().get_template(f"{report}.html.j2")
    page = template.render(
        title=title,
        kicker=kicker,
        style=Markup(styles),
        script=Markup(script),
        style_digest=_source_digest(styles),
        script_digest=_source_digest(script),
        sections=sections,
        data=_ready_for_json(data or {}),
        **content,
    )
    # Lone surrogates, which no UTF-8 file can hold, become question marks.
    return write_atomically(path, page.encode("utf-8", "replace"))


def _environment() -> Environment:
    """Templates of this package: all values escaped, unknown names and NaN in JSON are errors."""
    made = Environment(
        loader=PackageLoader("bodysense.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {f.__name__.lstrip("_"): f for f in (number, percent, _sort_key, _bar_width)}
    made.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    return made


def _source_digest(text: str) -> str:
    """What a content security policy calls an inline script or style, e.g. ``'sha256-…'``."""
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


def _ready_for_json(value: object) -> object:
    """The same of plain types: what is not a number becomes null, what is unknown its text."""
    if isinstance(value, Mapping):
        return {str(key): _ready_for_json(item) for key, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return _ready_for_json(value.tolist())
    if isinstance(value, list | tuple | set | frozenset):
        return [_ready_for_json(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def _asset(name: str) -> str:
    """A file beside the templates, word for word; nothing if a report has none of its kind."""
    file = resources.files("bodysense.report") / "templates" / name
    return file.read_text(encoding="utf-8") if file.is_file() else ""


# Sections that several reports have.


def tile(title: str, value: str, remark: str, tone: str = "") -> Section:
    """One key number: what it is, its value, and what it refers to; tone ``bad`` or ``fine``."""
    return {"title": title, "value": value, "remark": remark, "tone": tone}


def setup_facts(
    robot: Robot, diagnoses: Sequence[Diagnosis] = (), cutoff: float | None = None
) -> list[tuple[str, Sequence[str]]]:
    """Robot and friction law; of recordings how much is used, and the cut-off of their filter."""
    friction = robot.friction.model
    facts: list[tuple[str, Sequence[str]]] = [
        ("Robot", (robot.summary(),)),
        ("Friction law", (f"{friction.name} ({', '.join(friction.terms) or 'none'})",)),
    ]
    if robot.locked is not None:
        facts.append(("Locked joints", (robot.locked.summary(),)))
    if diagnoses:
        seconds = number(sum(diagnosis.duration for diagnosis in diagnoses), 3)
        low_pass = f"{number(math.nan if cutoff is None else cutoff, 3)} Hz"
        low_pass = "none" if cutoff == math.inf else low_pass
        facts.append(("Data", (f"{seconds} s used, low-pass {low_pass}",)))
    return facts


def findings_section(diagnoses: Mapping[str, Sequence[Diagnosis]]) -> list[Section]:
    """What the doctor found in logs, by what they were for."""
    return [_findings(diagnosis, role) for role, logs in diagnoses.items() for diagnosis in logs]


def _findings(diagnosis: Diagnosis, role: str) -> Section:
    return {
        "source": diagnosis.source,
        "role": role,
        "state": f"{diagnosis.n_kept:,} of {diagnosis.n_samples:,} samples kept, "
        f"{number(diagnosis.duration, 4)} s in {count(len(diagnosis.segments), 'segment')}, "
        f"{number(diagnosis.rate, 4)} Hz",
        "tally": [(s, len(diagnosis.of(s))) for s in SEVERITIES if diagnosis.of(s)],
        "findings": diagnosis.findings[:_FINDINGS],
        "more": max(0, len(diagnosis.findings) - _FINDINGS),
    }


def provenance_section(
    provenance: Mapping[str, Any], command: str | None, roles: Mapping[str, str]
) -> Section:
    """Where a result comes from: command, inputs with digests, versions, and all of it as JSON.

    Args:
        provenance: of the result; callers may have added to it, or left parts out.
        command: that led to the page, if it was one.
        roles: keys of the provenance's logs, by what they were for.
    """
    inputs = [_input("robot", provenance.get("robot"), ("file", "name"))]
    for role, key in roles.items():
        entries = provenance.get(key)
        if isinstance(entries, Sequence) and not isinstance(entries, str):
            inputs += [_input(role, entry, ("source",)) for entry in entries]
    versions, seed = provenance.get("versions"), provenance.get("seed")
    return {
        "command": command,
        "inputs": [entry for entry in inputs if entry is not None],
        "versions": list(versions.items()) if isinstance(versions, Mapping) else [],
        "seed": "" if seed is None else str(seed),
        "configuration": json.dumps(
            _ready_for_json(provenance), indent=2, ensure_ascii=False, allow_nan=False
        ),
    }


def _input(role: str, entry: object, names: Sequence[str]) -> tuple[str, str, str] | None:
    if not isinstance(entry, Mapping):
        return None
    name = next((str(entry[key]) for key in names if key in entry), "")
    return role, name, str(entry.get("sha256", ""))
