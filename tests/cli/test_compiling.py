"""A word while kernels are compiled: once, on a terminal, and only if they are."""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time
from types import SimpleNamespace

import pytest

from bodysense.cli import main as compiling
from bodysense.cli.main import _WORDS, announce_compilation, main
from bodysense.compiled.numba_internals import event

MODULE = """
from numba import njit

@njit(cache=True)
def kernel(x):
    return x + 1.0

@njit
def other(x):
    return x - 1.0
"""


@pytest.fixture
def terminal(monkeypatch):
    """As if stderr were a terminal, and a compilation long at once."""
    monkeypatch.setattr(compiling, "_terminal", lambda: True)
    monkeypatch.setattr(compiling, "_AFTER", 0.0)


@pytest.fixture
def fresh(tmp_path, monkeypatch):
    """Import kernels anew, with what was compiled before on disk."""
    path = tmp_path / "kernels_of_a_test.py"
    path.write_text(MODULE)
    monkeypatch.setattr("numba.config.CACHE_DIR", str(tmp_path / "cache"))

    def load():
        spec = importlib.util.spec_from_file_location("kernels_of_a_test", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load


def test_it_is_said_once_and_only_where_something_is_compiled(terminal, fresh, capsys):
    kernels = fresh()
    with announce_compilation():
        kernels.kernel(1.0)
        kernels.other(1.0)
    assert capsys.readouterr().err == f"{_WORDS}\n"
    again = fresh()
    with announce_compilation():
        again.kernel(1.0)  # from the disk
    assert sum(again.kernel.stats.cache_hits.values()) == 1
    assert capsys.readouterr().err == ""


def test_a_short_one_is_not_worth_a_word(terminal, monkeypatch, fresh, capsys):
    monkeypatch.setattr(compiling, "_AFTER", 30.0)
    with announce_compilation():
        fresh().kernel(1.0)
    assert capsys.readouterr().err == ""


def test_a_pipe_gets_none(fresh, capsys, monkeypatch):
    monkeypatch.setattr(compiling, "_AFTER", 0.0)
    with announce_compilation():
        fresh().kernel(1.0)
    assert capsys.readouterr().err == ""


def test_every_command_says_it(terminal, monkeypatch, capsys):
    def wait(args: argparse.Namespace) -> int:
        with event.trigger_event("numba:compile"):
            time.sleep(0.2)
        return 3

    command = SimpleNamespace(add_arguments=lambda parser: None, run=wait)
    monkeypatch.setitem(sys.modules, "bodysense.cli.wait", command)
    assert main(["wait"], commands={"wait": "waits"}) == 3
    assert capsys.readouterr().err == f"{_WORDS}\n"
