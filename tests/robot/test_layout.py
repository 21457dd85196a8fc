from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bodysense.errors import MismatchError, UnknownNameError
from bodysense.robot import ParameterLayout
from bodysense.robot.layout import INERTIAL_TERMS

ARM = ParameterLayout(
    link_names=("shoulder", "elbow"),
    joint_names=("pan", "tilt"),
    friction_terms=("Fv", "Fc"),
    coupled=(("Fvm", 1), ("Fcm", 1)),
)
HOPPER = ParameterLayout(("trunk", "leg"), ("hip",), ("Fv",), floating_base=True)


def test_names_of_a_fixed_arm():
    assert ARM.names[:11] == (
        *("M1", "MX1", "MY1", "MZ1", "XX1", "XY1", "YY1", "XZ1", "YZ1", "ZZ1"),
        "M2",
    )
    assert ARM.names[20:] == ("Ia1", "Ia2", "Fv1", "Fv2", "Fc1", "Fc2", "Fvm2", "Fcm2")
    assert ARM.size == 28


def test_names_of_a_floating_robot():
    assert HOPPER.names[0] == "M0"  # the base is link 0, so that link 1 hangs on joint 1
    assert HOPPER.names[10] == "M1"
    assert HOPPER.names[20:] == ("Ia1", "Fv1")
    assert HOPPER.describe("ZZ0") == "ZZ of link trunk"
    assert HOPPER.describe("M1") == "M of link leg"
    assert HOPPER.describe("Ia1") == "Ia of joint hip"


def test_words():
    assert ARM.describe("MX2") == "MX of link elbow"
    assert ARM.describe("Ia2") == "Ia of joint tilt"
    assert ARM.describe("Fv1") == "Fv of joint pan"
    assert ARM.describe("Fc2") == "Fc of joint tilt"
    assert ARM.describe("Fcm2") == "Fcm of the motor of joint tilt"


def test_places():
    assert ARM.index("ZZ1") == 9
    assert ARM.index("Fcm2") == 27
    assert ARM.link("elbow") == ARM.link(1) == slice(10, 20)
    assert ARM.link(np.int64(1)) == slice(10, 20)
    assert ARM.names[ARM.rotor] == ("Ia1", "Ia2")
    assert ARM.names[ARM.friction("Fc")] == ("Fc1", "Fc2")
    assert ARM.names[ARM.coupling] == ("Fvm2", "Fcm2")


@given(
    n_joints=st.integers(0, 13),
    floating=st.booleans(),
    terms=st.lists(st.sampled_from(["Fv", "Fc", "Fs", "Fo", "Fq"]), unique=True, max_size=5),
    data=st.data(),
)
def test_slices_part_theta(n_joints, floating, terms, data):
    motors = data.draw(st.lists(st.integers(0, n_joints - 1), unique=True)) if n_joints else []
    layout = ParameterLayout(
        link_names=tuple(f"l{k}" for k in range(n_joints + floating)),
        joint_names=tuple(f"j{k}" for k in range(n_joints)),
        friction_terms=tuple(terms),
        coupled=tuple((term, k) for k in sorted(motors) for term in ("Iam", "Fvm", "Fcm")),
        floating_base=floating,
    )
    assert len(layout.names) == layout.size == len(set(layout.names))
    places = list(range(layout.size))
    parts = [layout.link(k) for k in range(layout.n_links)]
    parts += [layout.rotor, *(layout.friction(term) for term in terms), layout.coupling]
    assert [k for part in parts for k in places[part]] == places
    assert places[layout.inertial] == places[: layout.n_inertial]
    for k, name in enumerate(layout.names):
        assert layout.index(name) == k
        # each name is its prefix and its number, and is described by the same prefix
        prefix = name.rstrip("0123456789")
        number = int(name[len(prefix) :])
        assert layout.describe(name).startswith(f"{prefix} of ")
        if prefix in INERTIAL_TERMS:
            assert layout.describe(name).endswith(layout.link_names[number - (not floating)])
        else:
            assert layout.describe(name).endswith(layout.joint_names[number - 1])


def test_unknown_names():
    with pytest.raises(UnknownNameError, match="unknown parameter 'ZZ3': did you mean 'ZZ"):
        ARM.index("ZZ3")
    with pytest.raises(UnknownNameError, match="unknown parameter"):
        ARM.describe("friction")
    with pytest.raises(UnknownNameError, match="unknown link 'elbo': did you mean 'elbow'"):
        ARM.link("elbo")
    with pytest.raises(UnknownNameError, match=r"unknown friction term 'Fs': .*Fv"):
        ARM.friction("Fs")
    with pytest.raises(UnknownNameError, match="there are none"):
        dataclasses.replace(ARM, friction_terms=()).friction("Fv")


@pytest.mark.parametrize("place", [2, -1, 100])
def test_links_that_do_not_exist(place):
    with pytest.raises(UnknownNameError, match=rf"unknown link '{place}': valid: 0 to 1"):
        ARM.link(place)


def test_same_layout():
    ARM.require_same(dataclasses.replace(ARM), "the log")
    for other in (
        HOPPER,
        dataclasses.replace(ARM, friction_terms=("Fv", "Fs")),
        dataclasses.replace(ARM, joint_names=("pan", "roll")),
        dataclasses.replace(ARM, coupled=()),
    ):
        with pytest.raises(MismatchError, match=r"the log belongs to another robot.* 28 over"):
            ARM.require_same(other, "the log")


def test_layouts_are_values():
    assert dataclasses.replace(ARM) == ARM
    assert hash(ARM) == hash(dataclasses.replace(ARM))
    with pytest.raises(dataclasses.FrozenInstanceError):
        ARM.floating_base = True
