import math

import pytest

from bodysense.errors import UnknownNameError
from bodysense.logs.channels import find_unit, parse_unit, units_of


@pytest.mark.parametrize(
    ("value", "unit", "si", "expected"),
    [
        (180.0, "deg", "rad", math.pi),
        (180.0, "°", "rad", math.pi),
        (0.25, "rev", "rad", math.pi / 2),
        (30.0, "rpm", "rad/s", math.pi),
        (90.0, "deg/s", "rad/s", math.pi / 2),
        (90.0, "deg/s^2", "rad/s²", math.pi / 2),
        (1.0, "g", "m/s²", 9.80665),
        (250.0, "mN·m", "N·m", 0.25),
        (250.0, "mNm", "N·m", 0.25),
        (2.0, "N m", "N·m", 2.0),
        (2.0, "N*m", "N·m", 2.0),
        (2.0, " Nm ", "N·m", 2.0),
        (3.0, "kN", "N", 3000.0),
        (1500.0, "mA", "A", 1.5),
        (7.0, "mm", "m", 0.007),
        (5.0, "µs", "s", 5e-6),
        (5.0, "us", "s", 5e-6),
        (5.0, "ns", "s", 5e-9),
    ],
)
def test_units_turn_into_si(value, unit, si, expected):
    found = parse_unit(unit, "here")
    assert found[0] == si
    assert value * found[1] == pytest.approx(expected, rel=1e-15)


def test_an_unknown_unit_is_refused_with_what_is_close():
    assert find_unit("parsec") is None
    with pytest.raises(UnknownNameError, match=r"unknown unit 'degs/s'.*'deg/s'.*\(here\)"):
        parse_unit("degs/s", "here")


@pytest.mark.parametrize(
    ("channel", "units"),
    [
        ("q.elbow", ("rad", "m")),
        ("tau.arm.elbow", ("N·m", "N")),
        ("i.elbow", ("A",)),
        ("q_des.elbow", ("rad", "m")),
        ("wrench.tool0.fx", ("N",)),
        ("wrench.tool0.mz", ("N·m",)),
        ("acc.imu.left.z", ("m/s²",)),
        ("quat.imu.w", ("",)),
        ("q", ()),
        ("q.", ()),
        ("wrench.fx", ()),
        ("wrench.tool0.x", ()),
        ("temperature", ()),
        ("quality.elbow", ()),
    ],
)
def test_channels_know_their_units(channel, units):
    assert units_of(channel) == units
