"""The list of methods: complete, readable in a pipe, and true to the registry behind it."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass, replace

import pytest

from bodysense.cli.identify import SETTINGS
from bodysense.cli.main import EXIT_ERROR, main
from bodysense.cli.methods import _plain
from bodysense.identification.identifier import Method, _documented_attributes, settings_of
from bodysense.identification.linear.least_squares import LeastSquares
from bodysense.identification.linear.method import LinearMethod
from bodysense.identification.methods import DEFAULT, IDENTIFIERS, identifier


@pytest.fixture
def printed(capsys):
    """Run the command, expect success, and return what it printed."""

    def run(*words: str) -> str:
        assert main(["methods", *words]) == 0
        out, err = capsys.readouterr()
        assert err == ""
        return out

    return run


_CLASS = re.compile(r"\b[A-Z]+[a-z]+[A-Z]\w*")
_PYTHON = re.compile(r"\b\w+_\w+\b|\bsee \w+|\bas in \w+")


def test_texts_of_every_method_stand_alone():
    """No class, function or attribute of Python, and nothing that leans on a line elsewhere."""
    for name, method in IDENTIFIERS.items():
        for text in (method.about, method.needs, method.cost, method.when):
            assert text, name
            assert "\n" not in text, name
            assert not text.endswith("."), name
            assert text == " ".join(text.split()), name
        about = method.description
        assert about, name
        assert about.endswith("."), name
        assert not _CLASS.search(about), about
        assert " as in " not in about, about
        assert "`" not in about, about


def test_settings_of_every_method_are_documented():
    for name, method in IDENTIFIERS.items():
        assert set(method.settings) == set(settings_of(method.default))
        for setting in method.settings.values():
            words = setting.about
            assert words, f"{name} does not say what {setting.name} is"
            assert not _CLASS.search(words), f"{name}, {setting.name}: {words}"
            found = set(_PYTHON.findall(words.replace("q_des", "")))
            assert found <= set(method.settings), f"{name}, {setting.name}: {found}"
            assert len(words.split()) >= 4, f"{setting.name} says next to nothing: {words}"
            assert not words.startswith(("at most", "of each link", "its ")), words


def test_the_tables_hold_every_method_in_its_group(printed):
    lines = printed().splitlines()
    first = [line.split()[0] for line in lines if line.strip()]
    positions = {name: first.index(name) for name in IDENTIFIERS}
    assert positions["ols"] < first.index("Consistent:") < positions["pc-ols"]
    (marked,) = [line for line in lines if line.startswith(f" {DEFAULT} *")]
    assert marked.split()[2] == "yes"
    assert "bodysense identify chooses one" in " ".join(lines)


def test_piped_output_fits_in_100_columns_without_colours(printed):
    for words in ((), (DEFAULT,), ("irls",)):
        lines = printed(*words).splitlines()
        assert lines[0]
        assert all(len(line) <= 100 for line in lines)
        assert not any("\x1b" in line or line != line.rstrip() for line in lines)


def test_a_terminal_gets_colours(printed, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[" in printed()


def test_one_method_in_full(printed):
    for name, method in IDENTIFIERS.items():
        text = " ".join(printed(name).split())
        assert text.startswith(f"{name}: ")
        assert f"--method {name}" in text
        assert f"bodysense.identification.identifier('{name}')" in text
        assert method.when in text
        for setting in method.settings:
            assert setting in text
            if setting in SETTINGS:
                assert "--" + SETTINGS[setting].replace("_", "-") in text


def test_settings_come_with_defaults_options_and_meaning(printed):
    table = {row["name"]: row for row in json.loads(printed("pc-irls", "--json"))["settings"]}
    assert set(table) == {
        "weighting",
        "tolerance",
        "iterations",
        "relaxation",
        "relaxation_weight",
        "trusted",
    }
    assert table["weighting"]["default"] == "huber"
    assert table["weighting"]["option"] == "--weighting"
    assert table["relaxation_weight"]["option"] == "--relax-weight"
    assert table["iterations"]["option"] is None
    assert table["tolerance"]["default"] == identifier("pc-irls").weights.tolerance
    assert table["trusted"]["default"] is True
    # Of the solver and of the weights.
    assert table["relaxation"]["about"].startswith("distance to the robot file")
    assert table["weighting"]["about"].startswith("huber (")
    assert "auto" in table["relaxation_weight"]["about"]


def test_robust_methods_are_found_by_the_name_of_their_cost(printed):
    assert "Huber" in printed("irls").splitlines()[0]
    whole = " ".join(printed().split())
    for name, following in (("irls", "tls"), ("pc-irls", "pc-sqp-ols")):
        assert "Huber" in whole.partition(f" {name} ")[2].partition(f" {following} ")[0]


def test_json_tells_the_same_of_all(printed):
    listed = json.loads(printed("--json"))
    assert [method["name"] for method in listed] == list(IDENTIFIERS)
    assert [method["name"] for method in listed if method["default"]] == [DEFAULT]
    for method in listed:
        row = IDENTIFIERS[method["name"]]
        assert method["consistent"] is row.consistent
        for key in ("group", "about", "needs", "cost", "when", "description"):
            assert method[key] == getattr(row, key)
    alone = json.loads(printed("ols", "--json"))
    assert alone == listed[0]
    assert alone["settings"] == []


@pytest.mark.parametrize(("name", "like"), [("lms", "wls"), ("pc-lms", "pc-wls")])
def test_a_row_without_parts_is_not_taken_for_wls(name, like):
    with pytest.raises(NotImplementedError, match="lms has no weights and solver: add a case"):
        replace(IDENTIFIERS[like], name=name).identifier()


def test_an_unknown_method_is_refused_with_the_closest(capsys):
    assert main(["methods", "pcwls"]) == EXIT_ERROR
    out, err = capsys.readouterr()
    assert out == ""
    assert "unknown method 'pcwls': did you mean 'pc-wls'" in err


def test_auto_is_explained(capsys):
    assert main(["methods", "auto"]) == EXIT_ERROR
    assert "`bodysense identify` chooses one" in capsys.readouterr().err


@dataclass(frozen=True)
class Elsewhere(LeastSquares):
    """Not among the groups.

    Attributes:
        first: told in
            two lines.

        second: after a gap.

    Note:
        third: none of them.
    """

    first: float = float("inf")
    second: tuple[int, ...] = (1, 2)


def test_a_method_from_elsewhere_is_shown_as_well(printed, monkeypatch):
    row = Method(
        "elsewhere",
        "another",
        group="other",
        compose=lambda name: LinearMethod(name, solver=Elsewhere(), fixed=("weights",)),
        cost="none",
        when="never",
        description="One.",
    )
    monkeypatch.setattr("bodysense.identification.methods.IDENTIFIERS", {"elsewhere": row})
    assert printed().startswith("Other\n")
    (row,) = json.loads(printed("--json"))
    assert row["group"] == "other"
    assert [setting["default"] for setting in row["settings"]] == ["inf", "(1, 2)"]


def test_docstrings_are_read_by_entries():
    assert _documented_attributes(Elsewhere) == {
        "first": "told in two lines.",
        "second": "after a gap.",
    }
    assert _documented_attributes(LeastSquares) == {}
    assert _documented_attributes(object) == {}


@pytest.mark.parametrize("value", [True, 3, 0.5, "huber", None])
def test_plain_defaults_stay_what_they_are(value):
    assert _plain(value) is value
