"""`--set`: any setting of a method from the command line."""

from __future__ import annotations

import argparse
import re

import pytest

from bodysense.cli.fit import _setting_pairs
from bodysense.cli.identify import IdentifyOptions, add_arguments
from bodysense.cli.main import main
from bodysense.errors import BodysenseError, MismatchError, UnknownNameError
from bodysense.identification import identifier
from bodysense.identification.methods import DEFAULT


def options(method: str, **settings: str) -> IdentifyOptions:
    return IdentifyOptions(robot="tx40", logs=("log.csv",), method=method, settings=settings)


def test_settings_are_of_the_kind_of_their_defaults():
    made = options("cloe", integrator="rk4", iterations="3", tolerance="1e-3", differentiate="no")
    found = made.identifier()
    assert (found.simulation.integrator, found.iterations, found.tolerance) == ("rk4", 3, 1e-3)
    assert found.simulation.differentiate is False


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ({"iterations": "3.5"}, "whole number"),
        ({"tolerance": "small"}, "a number"),
        ({"differentiate": "perhaps"}, "true or false"),
    ],
)
def test_values_of_another_kind_are_refused(given, word):
    with pytest.raises(BodysenseError, match=word):
        options("didim", **given).identifier()


def test_unknown_settings_are_named_with_those_that_there_are():
    with pytest.raises(UnknownNameError, match="integrator"):
        options("didim", integrater="rk4").identifier()


def parsed(*words: str) -> IdentifyOptions:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return IdentifyOptions.from_arguments(parser.parse_args(["tx40", "log.csv", *words]))


@pytest.mark.parametrize(
    ("former", "setting"),
    [
        (["--method", "irls", "--weighting", "window"], ["--method", "irls", "weighting=window"]),
        (["--method", "ridge", "--spread", "0.5"], ["--method", "ridge", "spread=0.5"]),
        (["--method", "rls", "--forgetting", "0.99"], ["--method", "rls", "forgetting=0.99"]),
        (["--relax", "entropic"], ["relaxation=entropic"]),
        (["--relax-weight", "auto"], ["relaxation_weight=auto"]),
        (["--relax-weight", "2"], ["relaxation-weight=2"]),
        (["--order", "2"], ["order=2"]),
        (["--band", "40"], ["band=40"]),
        (["--border", "0.2"], ["border=0.2"]),
        (["--still-speed", "0.1"], ["still-speed=0.1"]),
        (["--no-decimation"], ["decimate=false"]),
    ],
)
def test_former_options_are_settings(former, setting):
    *words, last = setting
    new = parsed(*words, "--set", last)
    assert new == parsed(*former)
    assert new != parsed(*words)
    with pytest.raises(MismatchError, match="is given twice"):
        parsed(*former, "--set", last)


@pytest.mark.parametrize("given", [{"robot": "tx40"}, {"logs": ("log.csv",)}])
def test_options_need_robot_and_logs(given):
    with pytest.raises(TypeError, match="missing 1 required keyword-only argument"):
        IdentifyOptions(**given)


def test_help_shows_what_is_often_used_only():
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    text = parser.format_help()
    assert "--payload" not in text
    assert "--weighting" not in text
    assert 18 <= sum(1 for word in set(re.findall(r"--[a-z-]+", text)) if word != "--help") <= 26


def test_settings_without_a_method_are_those_of_the_usual_one():
    """A choice would not know what to do with them."""
    assert options("auto").identifier() == "auto"
    assert parsed("--relax", "pullback").identifier() == identifier(DEFAULT, relaxation="pullback")
    with pytest.raises(UnknownNameError, match="integrator"):
        options("auto", integrator="rk4").identifier()


@pytest.mark.parametrize("text", ["iterations", "=3", "iterations="])
def test_pairs_are_asked_for(text, capsys):
    assert main(["identify", "tx40", "log.csv", "--method", "iv", "--set", text]) == 2
    assert "NAME=VALUE" in capsys.readouterr().err


def test_a_setting_that_is_given_twice_is_refused(capsys):
    words = ["--method", "iv", "--set", "iterations=3", "--set", "iterations=5"]
    assert main(["identify", "tx40", "log.csv", *words]) == 2
    assert "--set iterations is given twice, as 3 and as 5: give it once" in capsys.readouterr().err
    with pytest.raises(MismatchError, match="mass_spread is given twice"):
        _setting_pairs(["mass-spread=0.1", "mass_spread=0.1"])
    assert _setting_pairs(["rate=200", "drift=0.1"]) == {"rate": "200", "drift": "0.1"}


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["--method", "magic"], "unknown method 'magic'"),
        (["--method", "iv", "--set", "magic=1"], "unknown setting of iv 'magic'"),
        (["--method", "iv", "--set", "iterations=many"], "give a whole number"),
        (["--method", "iv", "--set", "iterations=0"], "iterations is 0"),
        (["--method", "ols", "--weighting", "huber"], "weighting is not a setting of ols"),
        (["--set", "integrator=rk4"], "setting of pc-wls"),
        (["--cutoff", "-1"], "cutoff is -1"),
    ],
)
def test_invalid_settings_are_refused_before_any_file_is_read(words, part, capsys, monkeypatch):
    """Neither robot nor recording nor folder is looked at."""

    def busy(*args, **kwargs):
        raise AssertionError("work was begun")

    for work in ("logs.read.read_log", "robot.load_robot", "folders.require_free"):
        monkeypatch.setattr(f"bodysense.{work}", busy)
    assert main(["identify", "nowhere.urdf", "nowhere.csv", "-o", "out", *words]) == 2
    assert part in capsys.readouterr().err
