from __future__ import annotations

import io
import os
import shutil
import sys

import pytest

from bodysense.cli.tables import Page


def filled(*rows: tuple[str, ...], title: str = "Title") -> str:
    page = Page()
    page.table(title, ("name", "value"), rows)
    return page.text()


class Stream(io.StringIO):
    """Standard output of some kind."""

    def __init__(self, encoding: str, *, terminal: bool) -> None:
        super().__init__()
        self._encoding, self._terminal = encoding, terminal

    @property
    def encoding(self) -> str:
        return self._encoding

    def isatty(self) -> bool:
        return self._terminal


def test_a_page_is_what_was_put_on_it():
    page = Page()
    page.line("first")
    page.line("second")
    assert page.text() == "first\nsecond\n"


def test_an_empty_page():
    assert Page().text() == ""


def test_nothing_is_printed_before_it_is_asked_for(capsys):
    page = Page()
    page.line("x")
    page.table("t", ("a",), [])
    page.text()
    assert capsys.readouterr() == ("", "")


def test_text_is_on_the_left_and_numbers_on_the_right():
    lines = filled(("a", "1"), ("long name", "1000")).splitlines()
    assert lines[:2] == ["", "Title"]
    a, b = (line for line in lines if line.endswith(("1", "1000")))
    assert (a.split(), b.split()) == (["a", "1"], ["long", "name", "1000"])
    assert a.index("a") == b.index("long")
    assert len(a) == len(b)  # nothing follows the numbers


def test_a_table_without_a_title():
    lines = filled(("a", "1"), title="").splitlines()
    assert next(line for line in lines if line.strip()).split() == ["name", "value"]


def test_lines_are_wrapped_at_100_columns_in_a_pipe():
    page = Page()
    page.line("word " * 60)
    lines = page.text().splitlines()
    assert len(lines) > 1
    assert max(map(len, lines)) <= 100
    page = Page()
    page.line("word " * 60, wrap=False)
    assert page.text().splitlines() == [("word " * 60).rstrip()]


def test_wide_text_is_folded_and_not_lost():
    name = "n" * 250
    text = filled((name, "1"))
    assert max(map(len, text.splitlines())) <= 100
    assert text.count("n") - "name".count("n") == 250


@pytest.mark.parametrize(
    "name", ["[red]", "[/]", "[link=http://x]", ":smile:", "{x}", "<b>", "\\[bold]"]
)
def test_names_are_not_markup(name):
    assert name in filled((name, "1"))
    page = Page()
    page.line(name)
    assert page.text() == f"{name}\n"


def test_no_blanks_at_line_ends():
    assert all(line == line.rstrip() for line in filled(("a", ""), ("b", "2")).splitlines())


def test_a_terminal_gets_colours_and_its_own_width(monkeypatch):
    monkeypatch.setattr(sys, "stdout", Stream("utf-8", terminal=True))
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(shutil, "get_terminal_size", lambda *_, **__: os.terminal_size((130, 40)))
    page = Page()
    page.line("word " * 60, style="bold")
    text = page.text()
    assert "\x1b[1m" in text
    assert 100 < max(len(line) for line in text.splitlines()) <= 130 + len("\x1b[1m\x1b[0m")


def test_a_narrow_terminal_still_gets_80_columns(monkeypatch):
    monkeypatch.setattr(sys, "stdout", Stream("utf-8", terminal=True))
    monkeypatch.setattr(shutil, "get_terminal_size", lambda *_, **__: os.terminal_size((20, 40)))
    page = Page()
    page.line("x" * 80)
    assert page.text().count("\n") == 1


def test_a_pipe_gets_no_colours(monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    page = Page()
    page.line("x", style="bold red")
    assert page.text() == "x\n"


def test_characters_that_the_terminal_does_not_know(monkeypatch):
    monkeypatch.setattr(sys, "stdout", Stream("ascii", terminal=False))
    page = Page()
    page.line("N·m of Größe")
    assert page.text() == "N?m of Gr??e\n"
    filled(("ü", "1")).encode("ascii")
