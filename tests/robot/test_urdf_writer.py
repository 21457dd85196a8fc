from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bodysense.errors import InconsistentInertiaError, RobotFileError
from bodysense.robot.io.urdf import load_urdf, urdf_bytes, write_urdf
from bodysense.robot.robot import Robot
from bodysense.spatial.pseudo_inertia import physical_consistency, random_pi

# Every way to write things: both quotes, spaces in odd places, ">" in a value, comments.
FULL = b"""<?xml version='1.0' encoding="UTF-8"?>
<!-- \xc3\xa9 -->
<robot name = "odd"  xmlns:xacro="http://example.org/a>b">
\t<link name='base'><inertial><mass value="1"/>
<inertia ixx='1' ixy='0' ixz='0' iyy='1' iyz='0' izz='1' /></inertial></link>
\t<link name='upper' >
\t\t<inertial><!-- measured -->
\t\t\t<origin rpy='0.1 0.2 0.3'   xyz="0.1 0 0.05"/><mass value = "3" /> <!-- kg -->
\t\t\t<inertia izz="0.05"
\t\t\t  ixx="0.03" ixy="0" ixz="0" iyy="0.04" iyz="0" note="a > b &amp; c"></inertia>
\t\t</inertial>
\t\t<visual><geometry><box size="1 1 1"/></geometry></visual>
\t</link>
\t<link name="tool"><inertial><mass value="0.5"/>
\t  <inertia ixx="0.001" ixy="0" ixz="0" iyy="0.001" iyz="0" izz="0.001"/></inertial></link>
\t<joint name="a" type="revolute"><parent link="base"/><child link="upper"/>
\t\t<axis xyz="0 1 0"/><limit effort="1" velocity="1" lower="-1" upper="1"/>
\t\t<dynamics   friction='0.2' tag="kept"/>
\t</joint>
\t<joint name="d" type="fixed"><origin xyz="0 0.1 0.2" rpy="0.3 0 0"/>
\t\t<parent link="upper"/><child link="tool"/></joint>
</robot>
<!-- the end -->"""

SPARSE = """<robot name="sparse">
  <link name="base"/>
  <link name="first">
    <visual/>
  </link>
  <link name="second"></link>
  <link name="third">
  </link>
  <joint name="a" type="continuous"><parent link="base"/><child link="first"/></joint>
  <joint name="b" type="continuous">
    <parent link="first"/>
    <child link="second"/>
  </joint>
  <joint name="c" type="continuous">
    <parent link="second"/>
    <child link="third"/>
  </joint>
</robot>
"""

TAGS = re.compile(rb"<inertial\b.*?</inertial>|<dynamics\b[^>]*>", re.DOTALL)


def saved(folder: Path, data: bytes | str) -> Path:
    path = folder / "robot.urdf"
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def random_robot(robot: Robot, seed: int) -> Robot:
    """The robot with random physical links, rotors and friction."""
    rng = np.random.default_rng(seed)
    theta = rng.uniform(0.0, 1.0, robot.layout.size)
    theta[robot.layout.inertial] = random_pi(rng, robot.layout.n_links).ravel()
    return robot.with_parameters(theta)


def require_same_theta(found: Robot, expected: Robot) -> None:
    """1e-12 of the size of a link's mass, first moment and inertia; all else to the last bit."""
    for k in range(expected.layout.n_links):
        for part in (slice(0, 1), slice(1, 4), slice(4, 10)):
            wanted = expected.pi(k)[part]
            size = np.abs(wanted).max()
            np.testing.assert_allclose(found.pi(k)[part], wanted, rtol=0, atol=1e-12 * size)
    start = expected.layout.n_inertial
    np.testing.assert_array_equal(found.theta[start:], expected.theta[start:])


def require_same_dynamics(model: pin.Model, robot: Robot, rng: np.random.Generator) -> None:
    """Mass matrix, gravity and nonlinear effects of a plain model against the robot's."""
    model.armature = robot.model.armature  # Pinocchio does not read it from a URDF
    data, own = model.createData(), robot.model.createData()
    v, dq = rng.normal(size=(2, model.nv))
    q = pin.integrate(robot.model, pin.neutral(robot.model), dq)
    q_plain = pin.integrate(model, pin.neutral(model), dq)  # cosine and sine where continuous
    for function, arguments in (
        (pin.crba, ()),
        (pin.computeGeneralizedGravity, ()),
        (pin.nonLinearEffects, (v,)),
    ):
        found = np.array(function(model, data, q_plain, *arguments))
        wanted = np.array(function(robot.model, own, q, *arguments))
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-12 * np.abs(wanted).max())


@pytest.mark.parametrize("floating", [False, True])
@pytest.mark.parametrize("source", [FULL, SPARSE], ids=["full", "sparse"])
def test_plain_pinocchio_reads_the_same_dynamics(source, floating, tmp_path: Path):
    path = saved(tmp_path, source)
    robot = random_robot(load_urdf(path, floating_base=floating), 0)
    root = (pin.JointModelFreeFlyer(),) if floating else ()
    model = pin.buildModelFromUrdf(str(write_urdf(robot, path)), *root)
    require_same_dynamics(model, robot, np.random.default_rng(0))


@pytest.mark.parametrize("name", ["talos", "panda", "tiago_pro", "ur5", "go2", "anymal_kinova"])
def test_robots_with_many_merged_links_come_back(name, tmp_path: Path):
    from bodysense.robot.io.load import load_robot

    robot = load_robot(f"example:{name}")
    assert robot.source is not None
    assert urdf_bytes(robot) == robot.source.data
    rng = np.random.default_rng(0)
    theta = robot.theta.copy()
    for k in range(robot.layout.n_links):
        theta[robot.layout.link(k)] *= rng.uniform(0.5, 2.0)
    new = robot.with_parameters(theta)
    path = write_urdf(new, tmp_path / "new.urdf")
    require_same_theta(load_urdf(path, floating_base=robot.floating_base), new)
    root = (pin.JointModelFreeFlyer(),) if robot.floating_base else ()
    require_same_dynamics(pin.buildModelFromUrdf(str(path), *root), new, rng)


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 2**32),
    floating=st.booleans(),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "latin-1"]),
    crlf=st.booleans(),
    change=st.lists(st.booleans(), min_size=4, max_size=4),
)
def test_every_byte_outside_the_two_tags_stays(
    tmp_path: Path, seed, floating, encoding, crlf, change
):
    text = FULL.decode().replace('"UTF-8"', f'"{encoding.removesuffix("-sig")}"')
    source = (text.replace("\n", "\r\n") if crlf else text).encode(encoding)
    path = saved(tmp_path, source)
    options = {"floating_base": floating, "friction": "stribeck-offset"}
    robot = load_urdf(path, **options)
    new, layout = random_robot(robot, seed), robot.layout
    theta = robot.theta.copy()
    for k in range(layout.n_links):
        if change[k]:
            theta[layout.link(k)] = new.pi(k)
    for part, wanted in zip((layout.rotor, layout.friction("Fs")), change[2:], strict=True):
        if wanted:
            theta[part] = new.theta[part]
    new = robot.with_parameters(theta)
    written = urdf_bytes(new)
    assert outside(written, encoding) == outside(source, encoding)
    if not any(change):
        assert written == source
    again = load_urdf(saved(tmp_path, written), **options)
    require_same_theta(again, new)
    assert urdf_bytes(again) == written


def outside(data: bytes, encoding: str) -> bytes:
    """The text without the two tags; a byte order mark must decode away for this to be equal."""
    return TAGS.sub(b"", data.decode(encoding).encode())


def test_comments_and_foreign_attributes_inside_the_tags_stay(tmp_path: Path):
    robot = load_urdf(saved(tmp_path, FULL))
    written = urdf_bytes(robot.with_parameter_values({"M1": 3.75, "Fc1": 0.5, "Ia1": 0.25}))
    assert b"<inertial><!-- measured -->" in written
    assert b'<mass value = "3.25" /> <!-- kg -->' in written
    assert b'note="a > b &amp; c"></inertia>' in written
    assert b'<dynamics   friction=\'0.5\' tag="kept" armature="0.25"/>' in written


def test_missing_elements_are_put_where_they_belong(tmp_path: Path):
    robot = load_urdf(saved(tmp_path, SPARSE))
    theta = robot.theta.copy()
    for k in range(3):
        theta[robot.layout.link(k)] = [2, 0, 0, 0, 1, 0, 1, 0, 0, 1]
    theta[robot.layout.rotor] = [0, 0.5, 0]
    theta[robot.layout.friction("Fc")] = [0.25, 0, 0]
    inertial = """\
{0}<inertial>
{0}  <origin xyz="0.0 0.0 0.0" rpy="0 0 0"/>
{0}  <mass value="2.0"/>
{0}  <inertia ixx="1.0" ixy="0.0" ixz="0.0" iyy="1.0" iyz="0.0" izz="1.0"/>
{0}</inertial>
""".format("    ")
    expected = SPARSE.replace("    <visual/>\n", inertial + "    <visual/>\n")
    expected = expected.replace('"second"></link>', f'"second">\n{inertial}  </link>')
    expected = expected.replace('"third">\n', f'"third">\n{inertial}')
    expected = expected.replace(
        '"first"/></joint>', '"first"/>\n  <dynamics friction="0.25"/>\n  </joint>'
    )
    expected = expected.replace(
        '<child link="second"/>\n',
        '<child link="second"/>\n    <dynamics damping="0.0" armature="0.5"/>\n',
    )
    assert urdf_bytes(robot.with_parameters(theta)).decode() == expected


def test_merged_links_stay_if_the_rest_can_exist(tmp_path: Path):
    robot = load_urdf(saved(tmp_path, FULL))
    written = urdf_bytes(robot.with_parameter_values({"M1": 3.75}))
    assert b'<mass value="0.5"/>' in written
    assert written.count(b"<inertial") == 3


def test_merged_links_are_emptied_if_the_rest_cannot_exist(tmp_path: Path):
    robot = load_urdf(saved(tmp_path, FULL))
    pi = np.array([0.4, 0, 0, 0, 0.01, 0, 0.01, 0, 0, 0.01])  # less than the tool alone
    new = robot.with_parameters(np.concatenate([pi, robot.theta[10:]]))
    written = urdf_bytes(new)
    assert b'<link name="tool"></link>' in written
    assert b'<mass value = "0.4" />' in written
    again = load_urdf(saved(tmp_path, written))
    require_same_theta(again, new)
    assert physical_consistency(again.pi(0)).consistent


def test_a_law_that_lacks_a_term_leaves_its_attribute_alone(tmp_path: Path):
    robot = load_urdf(saved(tmp_path, FULL), friction="viscous")
    written = urdf_bytes(robot.with_parameter_values({"Fv1": 0.5}))
    assert b'<dynamics   friction=\'0.2\' tag="kept" damping="0.5"/>' in written


def test_a_robot_that_cannot_exist_is_refused(tmp_path: Path):
    path = saved(tmp_path, FULL)
    robot = load_urdf(path)
    with pytest.raises(InconsistentInertiaError, match="link 'upper': the mass is -1 kg"):
        write_urdf(robot.with_parameter_values({"M1": -1.0}), path)
    with pytest.raises(InconsistentInertiaError, match="rotor inertia of joint 'a' is -1"):
        write_urdf(robot.with_parameter_values({"Ia1": -1.0}), path)
    assert path.read_bytes() == FULL


def test_a_robot_without_urdf_gets_a_new_one(tmp_path: Path):
    model = load_urdf(saved(tmp_path, FULL)).model
    model.name = "no file"
    robot = Robot.from_pinocchio(model)
    path = write_urdf(robot, tmp_path / "new.urdf")
    assert b"Written by bodysense." in path.read_bytes()
    require_same_theta(load_urdf(path), robot)


def test_a_robot_with_other_joints_than_its_file_is_refused(tmp_path: Path):
    robot = load_urdf(saved(tmp_path, FULL))
    other = load_urdf(saved(tmp_path, SPARSE))
    with pytest.raises(RobotFileError, match="other joints than its file"):
        urdf_bytes(replace(robot, source=other.source))


def test_an_interrupted_write_leaves_the_old_file(tmp_path: Path, monkeypatch):
    path = saved(tmp_path, FULL)
    robot = load_urdf(path).with_parameter_values({"M1": 3.75})

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_urdf(robot, path)
    assert path.read_bytes() == FULL
    assert list(tmp_path.iterdir()) == [path]


def test_only_the_entry_that_changed_is_written(tmp_path):
    text = """<robot name="r"><link name="w"/><link name="l"><inertial>
    <origin xyz="0.10 0 0" rpy="0.1 0.2 0.3"/><mass value="1.50"/>
    <inertia ixx="0.010" ixy="0" ixz="0" iyy="0.010" iyz="0" izz="0.010"/></inertial></link>
    <joint name="j" type="continuous"><parent link="w"/><child link="l"/></joint></robot>"""
    path = tmp_path / "r.urdf"
    path.write_text(text)
    robot = load_urdf(path)
    assert urdf_bytes(robot.with_link("l", mass=2.0)).decode() == text.replace("1.50", "2.0")
    moved = urdf_bytes(robot.with_link("l", com=[0.25, 0.0, 0.0])).decode()
    assert moved == text.replace("0.10 0 0", "0.25 0.0 0.0")
    R = pin.rpy.rpyToMatrix(0.1, 0.2, 0.3)
    stiffer = robot.with_link("l", inertia=R @ np.diag([0.01, 0.015, 0.01]) @ R.T)
    written = urdf_bytes(stiffer).decode()
    start, end = text.split('iyy="0.010"')
    assert written.startswith(start)
    assert written.endswith(end)
    path.write_text(written)
    np.testing.assert_allclose(load_urdf(path).theta, stiffer.theta, rtol=1e-13, atol=1e-16)


@pytest.mark.parametrize("declared", ["", ' encoding="UTF-16"'])
@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-16"])
def test_utf_16_with_and_without_a_mark_comes_back(encoding, declared, tmp_path):
    text = (Path(__file__).parents[2] / "examples" / "robots" / "arm.urdf").read_text()
    path = tmp_path / "arm.urdf"
    path.write_bytes(text.replace('"1.0"', f'"1.0"{declared}', 1).encode(encoding))
    robot = load_urdf(path).with_parameter_values({"Fv2": 0.75})
    again = load_urdf(write_urdf(robot, tmp_path / "again.urdf"))
    np.testing.assert_array_equal(again.theta, robot.theta)


@pytest.mark.parametrize("length", [3, 500, 501, 1200, 1203, 2001])
def test_utf_16_that_is_cut_off_is_refused(length, tmp_path):
    text = (Path(__file__).parents[2] / "examples" / "robots" / "arm.urdf").read_text()
    path = tmp_path / "arm.urdf"
    for encoding in ("utf-16-le", "utf-16-be", "utf-32-le"):
        path.write_bytes(text.encode(encoding)[:length])
        with pytest.raises(RobotFileError):
            load_urdf(path)
