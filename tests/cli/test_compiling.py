"""A word while kernels are compiled: once, on a terminal, and only if they are."""

from __future__ import annotations

import importlib.util
import time
from pathlib import Path

import pytest
from numba.core import event

from bodysense.cli import main as compiling
from bodysense.cli.main import WORDS, Command, announce_compilation, main

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
    assert capsys.readouterr().err == f"{WORDS}\n"
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


def test_every_command_says_it(terminal, tmp_path, monkeypatch, capsys):
    Path(tmp_path, "compiling_command.py").write_text(
        "def add_arguments(parser): pass\ndef run(args): return wait()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    import compiling_command

    def wait() -> int:
        with event.trigger_event("numba:compile"):
            time.sleep(0.2)
        return 3

    compiling_command.wait = wait
    table = {"wait": Command("compiling_command", "waits")}
    assert main(["wait"], commands=table) == 3
    assert capsys.readouterr().err == f"{WORDS}\n"
