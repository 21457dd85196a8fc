from __future__ import annotations

import pytest

from bodysense.report.page import _bar_width, _sort_key, count, number, percent
from bodysense.report.parameters import parameter_units
from bodysense.robot.layout import ParameterLayout, effort_unit


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (0.0, 4, "0"),
        (12.3456, 4, "12.35"),
        (-0.001234, 2, "−0.0012"),
        (123456.7, 3, "123457"),
        (1.5e-9, 2, "1.5e−9"),
        (-2.5e7, 2, "−2.5e7"),
        (float("nan"), 4, "–"),
        (float("inf"), 4, "–"),
    ],
)
def test_numbers(value: float, digits: int, text: str) -> None:
    assert number(value, digits) == text


@pytest.mark.parametrize(
    ("fraction", "text"),
    [
        (0.0471, "4.7 %"),
        (0.00123, "0.12 %"),
        (7.55, "755 %"),
        (0.9997, "100 %"),
        (0.0099999, "1.0 %"),
        (1e9, "1e11 %"),
        (1e5, "1e7 %"),
        (float("nan"), "–"),
    ],
)
def test_percent(fraction: float, text: str) -> None:
    assert percent(fraction) == text


def test_counts() -> None:
    assert count(1, "log") == "1 log"
    assert count(1200, "row") == "1\N{NARROW NO-BREAK SPACE}200 rows"


def test_what_tables_sort_by() -> None:
    assert _sort_key(1 / 3) == 0.333333
    assert _sort_key(float("nan")) == ""


def test_bars() -> None:
    assert [_bar_width(x, 0.5) for x in (-1.0, 0.1, 9.0)] == [0.0, 20.0, 100.0]
    assert _bar_width(float("nan"), 1.0) == 0.0


def test_units_of_effort() -> None:
    assert (effort_unit("revolute"), effort_unit("prismatic")) == ("N·m", "N")


def test_units_of_turning_and_sliding_joints() -> None:
    layout = ParameterLayout(
        link_names=("a", "b"),
        joint_names=("turn", "slide"),
        friction_terms=("Fv", "Fc", "Own"),
        coupled=(("Fvm", 1),),
    )
    units = dict(zip(layout.names, parameter_units(layout, ("revolute", "prismatic")), strict=True))
    assert [units[f"{term}1"] for term in ("M", "MX", "ZZ")] == ["kg", "kg·m", "kg·m²"]
    assert (units["Ia1"], units["Ia2"]) == ("kg·m²", "kg")
    assert (units["Fv1"], units["Fv2"], units["Fvm2"]) == ("N·m·s/rad", "N·s/m", "N·s/m")
    assert (units["Fc1"], units["Fc2"]) == ("N·m", "N")
    assert units["Own1"] == ""
