from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bodysense.errors import (
    BodysenseError,
    InconsistentInertiaError,
    RobotFileError,
    UnsupportedJointError,
)
from bodysense.robot.io.urdf import load_urdf, urdf_bytes

INERTIAL = """
    <inertial>
      <origin xyz="0.1 -0.02 0.3" rpy="0.1 0.2 0.3"/>
      <mass value="2.5"/>
      <inertia ixx="0.03" ixy="0.001" ixz="-0.002" iyy="0.04" iyz="0.003" izz="0.05"/>
    </inertial>"""

ARM = f"""<?xml version="1.0"?>
<robot name="arm">
  <link name="world"/>
  <link name="upper">{INERTIAL}
    <visual><geometry><mesh filename="package://nowhere/upper.stl"/></geometry></visual>
  </link>
  <link name="lower">{INERTIAL}
  </link>
  <link name="tool">{INERTIAL}
  </link>
  <joint name="shoulder" type="revolute">
    <origin xyz="0 0 0.5" rpy="0.3 0 0"/>
    <parent link="world"/>
    <child link="upper"/>
    <axis xyz="0 0 1"/>
    <limit lower="-1" upper="2" effort="30" velocity="4"/>
    <dynamics damping="0.7" friction="0.3" armature="0.05" offset="-0.1" static_friction="0.4"/>
  </joint>
  <joint name="slide" type="prismatic">
    <origin xyz="0.4 0 0"/>
    <parent link="upper"/>
    <child link="lower"/>
    <axis xyz="1 2 0"/>
    <limit lower="0" upper="0.3" effort="100" velocity="1"/>
  </joint>
  <joint name="grip" type="fixed">
    <origin xyz="0 0.1 0.2" rpy="0 0 1.2"/>
    <parent link="lower"/>
    <child link="tool"/>
  </joint>
</robot>
"""


def load(tmp_path: Path, text: str | bytes, **options):
    path = tmp_path / "arm.urdf"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return load_urdf(path, **options)


@pytest.mark.parametrize("floating", [False, True])
def test_the_model_is_the_one_that_pinocchio_reads(floating, tmp_path: Path):
    robot = load(tmp_path, ARM, floating_base=floating)
    root = (pin.JointModelFreeFlyer(),) if floating else ()
    plain = pin.buildModelFromXML(ARM, *root)
    assert list(robot.model.names) == list(plain.names)
    data, plain_data = robot.model.createData(), plain.createData()
    rng = np.random.default_rng(0)
    q = pin.integrate(plain, pin.neutral(plain), rng.normal(size=plain.nv))
    v, a = rng.normal(size=(2, plain.nv))
    armature = np.zeros(plain.nv)
    armature[-2] = 0.05
    expected = pin.rnea(plain, plain_data, q, v, a) + armature * a
    found = pin.rnea(robot.model, data, q, v, a)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


def test_dynamics_become_coefficients(tmp_path: Path):
    robot = load(tmp_path, ARM, friction="stribeck-offset")
    found = {name: robot.parameter(name) for name in ("Fv1", "Fc1", "Ia1", "Fo1", "Fs1", "Fv2")}
    assert found == {"Fv1": 0.7, "Fc1": 0.3, "Ia1": 0.05, "Fo1": -0.1, "Fs1": 0.4, "Fv2": 0.0}


def test_limits_and_source_are_kept(tmp_path: Path):
    robot = load(tmp_path, ARM)
    lower, upper = robot.position_limits
    assert lower.tolist() == [-1, 0]
    assert upper.tolist() == [2, 0.3]
    assert robot.velocity_limit.tolist() == [4, 1]
    assert robot.effort_limit.tolist() == [30, 100]
    assert robot.source is not None
    assert robot.source.data == ARM.encode()
    assert robot.source.format == "urdf"


def test_notes_say_what_was_decided(tmp_path: Path):
    text = ARM.replace('<axis xyz="1 2 0"/>', '<axis xyz="1 2 0"/><mimic joint="shoulder"/>')
    notes = " | ".join(load(tmp_path, text).notes)
    assert "1 link on fixed joints merged" in notes
    assert "mimic joints are treated as independent: slide" in notes
    assert "'coulomb' has no place for the file's static_friction (Fs), offset (Fo)" in notes
    massless = ARM.replace(INERTIAL, "", 1)
    notes = " | ".join(load(tmp_path, massless).notes)
    assert "moving links without mass: upper" in notes


def test_an_actuator_file_counts_before_the_urdf(tmp_path: Path):
    drives = tmp_path / "drives.yaml"
    drives.write_text(
        "gear_ratio: {slide: 7}\nrotor_inertia: {slide: 0.5}\n"
        "friction: {model: offset, coefficients: {Fc: {slide: 3}}}\nacceleration_limit: 9\n"
    )
    robot = load(tmp_path, ARM, actuators=drives)
    assert robot.actuators.gear_ratio.tolist() == [1, 7]
    assert robot.theta[robot.layout.rotor].tolist() == [0.05, 0.5]
    assert robot.theta[robot.layout.friction("Fc")].tolist() == [0.3, 3]
    assert robot.theta[robot.layout.friction("Fo")].tolist() == [-0.1, 0]
    assert robot.acceleration_limit.tolist() == [9, 9]


def test_the_files_own_floating_joint_is_the_base(tmp_path: Path):
    text = ARM.replace('"shoulder" type="revolute"', '"shoulder" type="floating"')
    for floating in (None, True):
        robot = load(tmp_path, text, floating_base=floating)
        assert robot.floating_base
        assert robot.joint_names == ("slide",)
        assert robot.link_names == ("upper", "lower")
        assert any("'shoulder' is the floating base" in note for note in robot.notes)


def test_a_mobile_base_on_a_planar_joint_is_held(tmp_path: Path):
    text = ARM.replace('"shoulder" type="revolute"', '"shoulder" type="planar"')
    held = load(tmp_path, text)
    fixed = load(tmp_path, text.replace("planar", "fixed"))
    np.testing.assert_array_equal(held.theta, fixed.theta)
    assert held.joint_names == fixed.joint_names
    assert "planar joints are taken as fixed where the file puts them: shoulder" in held.notes
    assert urdf_bytes(held) == text.encode()


def test_the_files_own_floating_joint_can_be_held(tmp_path: Path):
    text = ARM.replace('"shoulder" type="revolute"', '"shoulder" type="floating"')
    held = load(tmp_path, text, floating_base=False)
    fixed = load(tmp_path, text.replace("floating", "fixed"))
    assert not held.floating_base
    assert held.joint_names == ("slide",)
    np.testing.assert_array_equal(held.theta, fixed.theta)
    assert any("'shoulder' is held" in note for note in held.notes)
    assert urdf_bytes(held) == text.encode()


def test_a_joint_may_have_the_name_of_pinocchios_root(tmp_path: Path):
    text = ARM.replace('"shoulder"', '"root_joint"')
    robot = load(tmp_path, text, floating_base=True)
    assert robot.joint_names == ("root_joint", "slide")
    assert robot.model.names[1] != "root_joint"


@pytest.mark.parametrize(
    ("encoding", "declared"),
    [("utf-8-sig", "utf-8"), ("utf-16", "utf-16"), ("latin-1", "ISO-8859-1"), ("cp1252", "cp1252")],
)
def test_any_encoding_is_read(encoding, declared, tmp_path: Path):
    text = ARM.replace('version="1.0"', f'version="1.0" encoding="{declared}"')
    text = text.replace("shoulder", "épaule &amp; &lt;bras&gt;")
    robot = load(tmp_path, text.encode(encoding))
    assert robot.joint_names == ("épaule & <bras>", "slide")


def test_nothing_is_written_to_the_terminal(tmp_path: Path, capfd):
    load(tmp_path, ARM)
    out, err = capfd.readouterr()
    assert (out, err) == ("", "")


def changed(old: str, new: str) -> str:
    assert old in ARM
    return ARM.replace(old, new, 1)


BAD = {
    "empty": (b"  \n", RobotFileError, "is empty"),
    "broken": (ARM[:300], RobotFileError, r"line \d+, column \d+: broken XML"),
    "not closed": (
        changed("</joint>", ""),
        RobotFileError,
        "line 46, column 3: .*mismatched",
    ),
    "bytes": (bytes(range(1, 200)), RobotFileError, "convert it to UTF-8"),
    "unknown encoding": (
        changed('version="1.0"', 'version="1.0" encoding="klingon"'),
        RobotFileError,
        "klingon",
    ),
    "document type": (
        changed("<robot", '<!DOCTYPE robot [<!ENTITY a "b">]>\n<robot'),
        RobotFileError,
        "line 2: a document type",
    ),
    "MJCF": ("<mujoco/>", RobotFileError, "root element is <mujoco>.*load it as MJCF"),
    "SDF": ("<sdf/>", RobotFileError, "convert it to URDF"),
    "HTML": ("<html/>", RobotFileError, "not <robot>; this is no URDF"),
    "xacro macro": (
        changed('<link name="world"/>', '<xacro:macro name="a"/><link name="world"/>'),
        RobotFileError,
        "line 3: <xacro:macro> is a xacro macro.*run `xacro",
    ),
    "xacro number": (changed('value="2.5"', 'value="${m}"'), RobotFileError, "run xacro first"),
    "no name": (changed(' name="arm"', ""), RobotFileError, "line 2, <robot>: .* name is missing"),
    "no links": ('<robot name="a"/>', RobotFileError, "no <link>"),
    "link without name": (changed(' name="world"', ""), RobotFileError, "line 3, <link>"),
    "joint without name": (changed(' name="slide"', ""), RobotFileError, "<joint>: .*name"),
    "link twice": (
        changed('<link name="tool"', '<link name="upper"'),
        RobotFileError,
        "<link name='upper'>: this name is taken by the link of line 4",
    ),
    "joint twice": (
        changed('<joint name="grip"', '<joint name="slide"'),
        RobotFileError,
        "taken by the joint of line 34",
    ),
    "unknown type": (
        changed('"revolute"', '"rotary"'),
        UnsupportedJointError,
        "'rotary'; valid: revolute, continuous, prismatic, fixed",
    ),
    "no type": (changed(' type="fixed"', ""), UnsupportedJointError, "unknown joint type ''"),
    "planar": (changed('"prismatic"', '"planar"'), UnsupportedJointError, "three axes; replace"),
    "floating inside": (
        changed('"prismatic"', '"floating"'),
        UnsupportedJointError,
        "'slide'>: a floating joint has six axes",
    ),
    "no parent": (changed('<parent link="upper"/>', ""), RobotFileError, "<parent> is missing"),
    "no child": (changed('<child link="tool"/>', ""), RobotFileError, "<child> is missing"),
    "parent without link": (
        changed('<parent link="upper"/>', "<parent/>"),
        RobotFileError,
        "attribute link is missing",
    ),
    "unknown link": (
        changed('<child link="tool"/>', '<child link="tol"/>'),
        RobotFileError,
        "child link 'tol' does not exist; links are 'world', 'upper'",
    ),
    "own parent": (
        changed('<child link="tool"/>', '<child link="lower"/>'),
        RobotFileError,
        "same link 'lower'",
    ),
    "two parents": (
        changed('<child link="tool"/>', '<child link="upper"/>'),
        RobotFileError,
        "link 'upper' is the child of joint 'shoulder' too; closed loops",
    ),
    "two roots": (
        changed('<link name="world"/>', '<link name="world"/><link name="moon"/>'),
        RobotFileError,
        "2 links have no parent .'world', 'moon'.*one tree",
    ),
    "loop": (
        changed('<parent link="world"/>', '<parent link="tool"/>'),
        RobotFileError,
        "'upper', 'lower', 'tool' form a loop",
    ),
    "not a number": (changed('value="2.5"', 'value="two"'), RobotFileError, "value='two' is not a"),
    "NaN": (changed('ixx="0.03"', 'ixx="nan"'), RobotFileError, "ixx='nan' is not a finite"),
    "infinite": (
        changed('upper="2"', 'upper="inf"'),
        RobotFileError,
        "upper='inf' is not",
    ),
    "overflow": (changed('upper="2"', 'upper="1e999"'), RobotFileError, "upper='1e999'"),
    "huge": (changed('value="2.5"', 'value="1e99"'), RobotFileError, "too large; check its unit"),
    "underscores": (
        changed('value="2.5"', 'value="2_5"'),
        RobotFileError,
        "is not a finite",
    ),
    "two numbers": (changed('xyz="0 0 0.5"', 'xyz="0 0"'), RobotFileError, "xyz has 2 numbers"),
    "quaternion": (
        changed('rpy="0.3 0 0"', 'quat_xyzw="0 0 0 1"'),
        RobotFileError,
        "write the rotation as rpy",
    ),
    "negative mass": (
        changed('value="2.5"', 'value="-2.5"'),
        InconsistentInertiaError,
        "line 7, <link name='upper'> <mass>: the mass is -2.5 kg",
    ),
    "no mass": (changed('<mass value="2.5"/>', ""), RobotFileError, "<mass> is missing"),
    "no izz": (changed(' izz="0.05"', ""), RobotFileError, "attribute izz is missing"),
    "two inertials": (changed(INERTIAL, INERTIAL * 2), RobotFileError, "<inertial> in line 5 alre"),
    "no axis": (changed('xyz="1 2 0"', 'xyz="0 0 0"'), RobotFileError, "no length; give a direct"),
    "limits swapped": (changed('lower="-1"', 'lower="3"'), RobotFileError, "lower limit 3 exceeds"),
    "no limit": (
        changed('<limit lower="-1" upper="2" effort="30" velocity="4"/>', ""),
        RobotFileError,
        "revolute joint needs <limit.*continuous",
    ),
    "no effort": (changed(' effort="30"', ""), RobotFileError, "effort is missing; URDF requires"),
    "negative armature": (changed('armature="0.05"', 'armature="-1"'), RobotFileError, "armature"),
    "universe": (changed('name="grip"', 'name="universe"'), RobotFileError, "Pinocchio's own"),
    "triangle": (
        changed('izz="0.05"', 'izz="0.5"'),
        InconsistentInertiaError,
        "link 'upper': the principal moments.*allow_inconsistent",
    ),
    "massless": (
        ARM.replace(INERTIAL, "").replace('"upper">', f'"upper">{INERTIAL}'),
        InconsistentInertiaError,
        "link 'lower': .* massless",
    ),
    "zero mass": (
        changed('<mass value="2.5"/>', '<mass value="0"/>'),
        InconsistentInertiaError,
        "link 'upper': the mass is zero but the inertia is not",
    ),
    "nothing moves": ('<robot name="a"><link name="b"/></robot>', RobotFileError, "floating base"),
}


@pytest.mark.parametrize(("content", "kind", "message"), BAD.values(), ids=BAD.keys())
def test_bad_files_are_named_with_the_reason(content, kind, message, tmp_path: Path, capfd):
    with pytest.raises(kind, match=message) as caught:
        load(tmp_path, content, allow_inconsistent=False)
    assert "arm.urdf" in str(caught.value)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("case", ["triangle", "massless"])
def test_links_that_cannot_exist_load_unless_they_are_refused(case, tmp_path: Path):
    robot = load(tmp_path, BAD[case][0])
    assert sorted(check.consistent for check in robot.consistency()) == [False, True]


def test_massless_links_that_carry_others_are_accepted(tmp_path: Path):
    robot = load(tmp_path, ARM.replace(INERTIAL, "", 1))
    assert robot.structural() == (True, False)


def test_a_negative_mass_is_refused_even_then(tmp_path: Path):
    with pytest.raises(InconsistentInertiaError, match=r"-2\.5 kg"):
        load(tmp_path, BAD["negative mass"][0])


def test_a_missing_file_and_a_folder_are_named(tmp_path: Path):
    with pytest.raises(RobotFileError, match=r"none\.urdf: No such file"):
        load_urdf(tmp_path / "none.urdf")
    with pytest.raises(RobotFileError, match="is a folder"):
        load_urdf(tmp_path)


mutations = st.lists(
    st.tuples(
        st.integers(0, len(ARM) - 1),
        st.integers(0, 12),
        st.binary(max_size=4)
        | st.sampled_from([b"<", b">", b'"', b"-", b"e9", b"0", b"&", b"nan"]),
    ),
    min_size=1,
    max_size=4,
)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(mutations=mutations, length=st.integers(0, 4 * len(ARM)), floating=st.booleans())
def test_no_mutation_raises_anything_else(tmp_path: Path, mutations, length, floating):
    data = ARM.encode()
    for place, removed, added in mutations:
        data = data[:place] + added + data[place + removed :]
    with contextlib.suppress(BodysenseError):
        load(tmp_path, data[:length], floating_base=floating)


numbers = st.sampled_from(["0", "-0", "1e-320", "-1e30", "1e30", "1e-30", "3", "-7", "1e15", ".5"])


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_number_raises_anything_else(tmp_path: Path, data):
    text = ARM
    for old in ("2.5", "0.03", "0.05", "0.1 -0.02", "0 0 0.5", "1 2 0", "-1", "0.7", "0.04"):
        if data.draw(st.booleans()):
            new = " ".join(data.draw(numbers) for _ in old.split())
            text = text.replace(f'"{old}', f'"{new}')
    with contextlib.suppress(BodysenseError):
        load(tmp_path, text)
