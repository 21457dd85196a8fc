"""Public functions say what they expect where a name or a file stands for a robot or a log."""

from __future__ import annotations

import importlib
import inspect

import pytest

import bodysense
from bodysense.errors import ShapeError
from bodysense.robot import load_robot

PACKAGES = (
    *("bodysense", "bodysense.robot", "bodysense.sensors", "bodysense.doctor"),
    *("bodysense.excitation", "bodysense.simulation", "bodysense.identification"),
    *("bodysense.estimation", "bodysense.report"),
)
_OTHERS = {"parse_estimation", "parse_sensors", "check_robot"}
"""The first two take what others have read for a robot; the last takes names and files."""


def functions_of(argument: str) -> dict[str, object]:
    """Public functions and constructors `from_…` with an argument of this name, by their name."""
    found = {}
    for package in PACKAGES:
        module = importlib.import_module(package)
        for name in getattr(module, "__all__", None) or dir(module):
            item = getattr(module, name)
            if inspect.isfunction(item) and name not in _OTHERS:
                found[name] = item
            elif inspect.isclass(item) and item.__module__.startswith("bodysense"):
                for key in vars(item):
                    if isinstance(vars(item)[key], classmethod) and not key.startswith("_"):
                        found[f"{name}.{key}"] = getattr(item, key)
    found["MapDynamics"] = bodysense.MapDynamics
    return {
        name: function
        for name, function in found.items()
        if argument in inspect.signature(function).parameters
    }


def called(function, **given):
    """Call a function with some arguments; those that it needs besides are `None`."""
    parameters = inspect.signature(function).parameters.values()
    needed = {
        p.name: None
        for p in parameters
        if p.default is p.empty and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)
    }
    return function(**{**needed, **given})


def test_the_functions_are_found():
    assert len(functions_of("robot")) >= 40
    assert {"identify", "rollout", "Collisions.from_robot"} <= set(functions_of("robot"))


@pytest.mark.parametrize("name", sorted(functions_of("robot")))
def test_a_name_instead_of_a_robot_is_explained(name):
    with pytest.raises(ShapeError, match=r"expected a Robot, got 'tx40': load it first, load_rob"):
        called(functions_of("robot")[name], robot="tx40")


@pytest.mark.parametrize("name", ["identify", "examine", "identify_payload", "write_log"])
def test_a_file_instead_of_a_log_is_explained(name):
    argument = {"identify": "logs", "identify_payload": "loaded"}.get(name, "log")
    given = {argument: "recording.csv"}
    if name != "write_log":
        given["robot"] = load_robot("tx40")
    with pytest.raises(ShapeError, match=r"expected a Log, got 'recording.csv': read it first"):
        called(getattr(bodysense, name), **given)


def test_other_things_are_explained(tmp_path):
    robot = load_robot("tx40")
    with pytest.raises(ShapeError, match=r"expected a Robot, got None: load_robot gives one"):
        bodysense.base_parameters(None)
    with pytest.raises(ShapeError, match=r"expected a name or a path, got <Robot TX40.*: a Robot"):
        load_robot(robot)
    with pytest.raises(ShapeError, match=r"expected an EstimationSetup, got 'sensors.yaml': load_"):
        bodysense.estimate_log("sensors.yaml", robot, "log.csv")
    with pytest.raises(ShapeError, match=r"expected an IdentificationRun, got 'arm': identify"):
        bodysense.write_identification_page(tmp_path / "report.html", "arm")
