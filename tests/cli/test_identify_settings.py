"""`--set`: any setting of a method from the command line."""

from __future__ import annotations

import pytest

from bodysense.cli.identify_options import Options, method_settings
from bodysense.cli.main import main
from bodysense.errors import BodysenseError, MismatchError, UnknownNameError
from bodysense.identification import IDENTIFIERS


def options(method: str, **settings: str) -> Options:
    return Options("tx40", ("log.csv",), method=method, settings=settings)


def test_settings_are_of_the_kind_of_their_defaults():
    made = options("cloe", integrator="rk4", iterations="3", tolerance="1e-3", differentiate="no")
    found = made.identifier()
    assert (found.integrator, found.iterations, found.tolerance) == ("rk4", 3, 1e-3)
    assert found.differentiate is False


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
        method_settings(IDENTIFIERS["didim"], given)


def test_unknown_settings_are_named_with_those_that_there_are():
    with pytest.raises(UnknownNameError, match="integrator"):
        options("didim", integrater="rk4").identifier()


def test_settings_with_an_option_of_their_own_have_it():
    with pytest.raises(MismatchError, match="--weighting"):
        options("irls", weighting="huber").identifier()


def test_auto_chooses_its_settings_itself():
    with pytest.raises(MismatchError, match="--set does not go with --method auto"):
        options("auto", iterations="3").identifier()


@pytest.mark.parametrize("text", ["iterations", "=3", "iterations="])
def test_pairs_are_asked_for(text, capsys):
    assert main(["identify", "tx40", "log.csv", "--method", "iv", "--set", text]) == 2
    assert "NAME=VALUE" in capsys.readouterr().err
