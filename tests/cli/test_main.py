"""The dispatch of commands, tested with a table of invented ones."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from importlib.metadata import version
from importlib.util import find_spec
from types import ModuleType

import pytest

from bodysense.cli.main import COMMANDS, main
from bodysense.errors import BodysenseError, RobotFileError

TABLE = {
    "greet": "say hello",
    "explode": "always fails",
}


def fake(monkeypatch: pytest.MonkeyPatch, name: str, run) -> None:
    """Put a command module of that name where `import_module` finds it."""
    module = ModuleType(name)

    def add_arguments(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("who")
        parser.add_argument("--times", type=int, default=1)

    module.add_arguments = add_arguments
    module.run = run
    monkeypatch.setitem(sys.modules, f"bodysense.cli.{name}", module)


def fake_failing(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def run(args: argparse.Namespace) -> int:
        raise error

    fake(monkeypatch, "explode", run)


def test_runs_the_chosen_command_with_its_arguments(monkeypatch, capsys):
    def run(args: argparse.Namespace) -> int:
        print("hello " * args.times + args.who)
        return 7

    fake(monkeypatch, "greet", run)
    assert main(["greet", "you", "--times", "2"], commands=TABLE) == 7
    assert capsys.readouterr().out == "hello hello you\n"


def test_arguments_come_from_the_process_if_not_given(monkeypatch):
    fake(monkeypatch, "greet", lambda args: len(args.who))
    monkeypatch.setattr(sys, "argv", ["bodysense", "greet", "four"])
    assert main(commands=TABLE) == 4


def test_imports_only_the_chosen_command(monkeypatch):
    # explode does not exist: importing it would raise.
    fake(monkeypatch, "greet", lambda args: 0)
    assert main(["greet", "you"], commands=TABLE) == 0
    with pytest.raises(ModuleNotFoundError):
        main(["explode", "now"], commands=TABLE)


def test_help_lists_every_command_without_importing_one(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["--help"], commands=TABLE)
    assert stop.value.code == 0
    out = capsys.readouterr().out
    for name, purpose in TABLE.items():
        assert name in out
        assert purpose in out


def test_help_of_a_command_shows_its_arguments(monkeypatch, capsys):
    fake(monkeypatch, "greet", lambda args: 0)
    with pytest.raises(SystemExit) as stop:
        main(["greet", "--help"], commands=TABLE)
    assert stop.value.code == 0
    out = capsys.readouterr().out
    assert "usage: bodysense greet" in out
    assert "--times" in out
    assert "say hello" in out


def test_no_command_shows_the_help_and_fails(capsys):
    assert main([], commands=TABLE) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "greet" in captured.err


def test_unknown_command_is_one_line_with_a_suggestion(capsys):
    assert main(["gret", "you"], commands=TABLE) == 2
    err = capsys.readouterr().err
    assert err.startswith("bodysense: error: unknown command 'gret': did you mean 'greet'?")
    assert err.count("\n") == 1


def test_bad_argument_exits_with_usage(monkeypatch, capsys):
    fake(monkeypatch, "greet", lambda args: 0)
    with pytest.raises(SystemExit) as stop:
        main(["greet", "you", "--times", "many"], commands=TABLE)
    assert stop.value.code == 2
    assert "--times" in capsys.readouterr().err


@pytest.mark.parametrize("error", [BodysenseError("bad thing"), RobotFileError("bad\n   thing")])
def test_error_is_one_readable_line(monkeypatch, capsys, error):
    fake_failing(monkeypatch, error)
    assert main(["explode", "now"], commands=TABLE) == 2
    captured = capsys.readouterr()
    assert captured.err == "bodysense: error: bad thing\n"
    assert captured.out == ""


def test_unforeseen_error_is_not_hidden(monkeypatch):
    fake_failing(monkeypatch, ZeroDivisionError("a bug"))
    with pytest.raises(ZeroDivisionError, match="a bug"):
        main(["explode", "now"], commands=TABLE)


def test_interruption_from_the_keyboard(monkeypatch, capsys):
    fake_failing(monkeypatch, KeyboardInterrupt())
    assert main(["explode", "now"], commands=TABLE) == 130
    assert capsys.readouterr().err == "bodysense: interrupted; nothing written\n"


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"bodysense {version('bodysense')}\n"


def test_commands_live_in_the_file_of_their_name():
    for name in COMMANDS:
        assert find_spec(f"bodysense.cli.{name}") is not None


def python(*words: str, **options) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, timeout=60, **options
    )


def test_module_and_console_script_are_the_same_program():
    process = python("-m", "bodysense", "--version")
    assert process.returncode == 0, process.stderr
    assert process.stdout == f"bodysense {version('bodysense')}\n"


def test_help_does_not_import_the_engines():
    code = (
        "import sys\n"
        "from bodysense.cli.main import main\n"
        "try:\n"
        "    main(['--help'])\n"
        "except SystemExit:\n"
        "    pass\n"
        "print(sorted({'numba', 'pinocchio', 'numpy', 'scipy'} & set(sys.modules)))\n"
    )
    process = python("-c", code)
    assert process.returncode == 0, process.stderr
    assert process.stdout.splitlines()[-1] == "[]"


def test_reader_that_goes_away_is_no_error():
    # A child whose output pipe is closed before it writes, as in `bodysense … | head -0`.
    code = (
        "import sys, types\n"
        "from bodysense.cli.main import main\n"
        "module = types.ModuleType('flood')\n"
        "module.add_arguments = lambda parser: None\n"
        "module.run = lambda args: print('x' * 1_000_000) or 0\n"
        "sys.modules['bodysense.cli.flood'] = module\n"
        "sys.stdin.read()\n"
        "sys.exit(main(['flood'], commands={'flood': 'write a lot'}))\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        process.stdout.close()
        process.stdin.close()
        err = process.stderr.read()
        assert process.wait(timeout=60) == 141
    assert err == ""


@pytest.mark.parametrize(
    ("command", "group", "options"),
    [
        ("estimate", "robot", ["--actuators", "--fixed", "--floating"]),
        ("identify", "data and method", ["--cutoff", "--set"]),
        ("payload", "data and method", ["--cutoff", "--set"]),
        ("gains", "data and method", ["--cutoff", "--set"]),
    ],
)
def test_help_of_runs_is_grouped_and_starts_with_the_output(capsys, command, group, options):
    with pytest.raises(SystemExit):
        main([command, "--help"])
    usage, *sections = capsys.readouterr().out.split("\n\n")
    (section,) = (text for text in sections if text.startswith(f"{group}:"))
    assert all(f"  {option}" in section for option in options)
    for early in ("[-o DIR]", "[--config FILE]"):
        assert usage.index(early) < usage.index("[--actuators FILE]")


def test_an_output_that_knows_ascii_alone_is_no_error(tmp_path):
    """Dots and units are replaced: results are written by then."""
    process = subprocess.run(
        [sys.executable, "-m", "bodysense", "inspect", "--help"],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    assert b"Traceback" not in process.stderr


def test_a_home_that_cannot_be_written_leaves_one_folder_for_all_runs(tmp_path):
    show = "import bodysense.compiled.jit as jit; jit.os.access = lambda *_: False; "
    show += "print(jit._cache_folder())"
    places = {
        subprocess.run(
            [sys.executable, "-c", show],
            env={**os.environ, "TMPDIR": str(tmp_path), "NUMBA_CACHE_DIR": ""},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for _ in range(2)
    }
    assert len(places) == 1
    (folder,) = tmp_path.iterdir()
    assert folder.stat().st_mode & 0o077 == 0
    folder.chmod(0o777)  # anybody could put code there
    words = [sys.executable, "-c", show]
    environment = {**os.environ, "TMPDIR": str(tmp_path), "NUMBA_CACHE_DIR": ""}
    other = subprocess.run(
        words, env=environment, capture_output=True, text=True, check=True
    ).stdout
    assert str(folder) + os.sep not in other
    assert list(tmp_path.iterdir()) == [folder]  # its own is gone
