from __future__ import annotations

from bodysense.report.sections.parameters import parameter_units
from bodysense.robot.layout import ParameterLayout


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
