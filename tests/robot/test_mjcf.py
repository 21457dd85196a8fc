from __future__ import annotations

import sys

import numpy as np
import pinocchio as pin
import pytest

from bodysense.errors import (
    MissingDependencyError,
    RobotFileError,
    UnknownNameError,
    UnsupportedJointError,
)
from bodysense.robot.io.mjcf import load_mjcf

mujoco = pytest.importorskip("mujoco")

ARM = """
<mujoco model="arm">
  <compiler angle="degree" eulerseq="zyx"/>
  <option gravity="1 2 -9.7"/>
  <default>
    <joint armature="0.1" damping="0.2"/>
    <default class="rough"><joint frictionloss="0.3" damping="0.5"/></default>
    <geom density="500"/>
  </default>
  <worldbody>
    <geom type="plane" size="1 1 1"/>
    <body name="pedestal" pos="0.5 0 0.2" euler="10 20 30">
      <geom type="box" size="0.1 0.1 0.1"/>
      <site name="corner" pos="0.1 0.1 0.1"/>
      <body name="shoulder" pos="0 0.1 1" quat="1 2 3 4">
        <joint name="pan" axis="1 1 0" pos="0.1 0.2 0.3" range="-90 45" ref="30" class="rough"/>
        <geom type="box" size=".1 .2 .3" pos="0.1 0 0" euler="10 0 0"/>
        <body name="cover" pos="0.1 0.3 0" euler="0 40 0">
          <geom type="sphere" size="0.1"/>
          <body name="slider" pos="0 0 0.2">
            <joint name="push" type="slide" axis="0 2 1" pos="0.3 0 0" ref="0.2" range="-1 2"/>
            <inertial pos="0.1 0.2 0.3" mass="2" fullinertia="0.3 0.4 0.5 0.01 0.02 0.03"/>
            <site name="tool" pos="0 0 0.1" euler="90 0 0"/>
          </body>
        </body>
        <body name="wrist" pos="0.2 0 0">
          <joint name="x" axis="1 0 0" pos="0 0 0.1"/>
          <joint name="y" axis="0 1 0" ref="-20"/>
          <joint name="along" type="slide" axis="0 0 1" pos="1 1 1"/>
          <geom type="capsule" size="0.05 0.1" mass="0.7"/>
        </body>
      </body>
    </body>
  </worldbody>
</mujoco>
"""

DOG = """
<mujoco model="dog">
  <worldbody>
    <body name="trunk" pos="0 0 2" quat="1 1 0 0">
      <freejoint name="root"/>
      <inertial pos="0.1 0.02 0.3" mass="9" fullinertia="0.3 0.4 0.5 0.01 0.02 0.03"/>
      <body name="leg" pos="0.2 0.1 0">
        <joint name="hip" axis="1 0 0"/>
        <geom type="capsule" fromto="0 0 0 0.1 0 -0.3" size="0.03"/>
      </body>
      <body name="tail" pos="-0.3 0 0" quat="0.5 0.1 0.2 0.3">
        <joint name="wag" axis="0 0 1"/>
        <geom type="box" size="0.01 0.02 0.2" pos="0 0 0.1"/>
      </body>
    </body>
  </worldbody>
</mujoco>
"""


def _load(text, folder, **options):
    path = folder / "robot.xml"
    path.write_text(text)
    return load_mjcf(path, **options)


def _random_mjcf(rng, floating):
    """A tree of eight bodies with 0 to 3 joints each, everything in general position."""

    def vector(n=3):
        return " ".join(repr(float(x)) for x in rng.normal(size=n))

    names = {0: "world"}
    inner = {k: [] for k in range(9)}
    parent = {k: 0 if k == 1 else int(rng.integers(1 if floating else 0, k)) for k in range(1, 9)}
    for k in range(1, 9):
        names[k] = f"b{k}"
        lines = inner[k]
        if k == 1 and floating:
            lines.append("<freejoint/>")
        else:
            for j in range(int(rng.integers(1 if k < 3 else 0, 4))):
                kind = rng.choice(["hinge", "slide"])
                ref = rng.normal()
                lines.append(
                    f'<joint name="b{k}j{j}" type="{kind}" axis="{vector()}" pos="{vector()}" '
                    f'ref="{ref}" armature="{rng.random()}"/>'
                )
        moments = rng.uniform(1.0, 1.9, 3)
        lines.append(
            f'<inertial pos="{vector()}" quat="{vector(4)}" mass="{rng.uniform(0.1, 3.0)}" '
            f'diaginertia="{" ".join(map(repr, moments.tolist()))}"/>'
        )
    for k in range(8, 0, -1):
        text = "".join(inner[k])
        body = f'<body name="b{k}" pos="{vector()}" quat="{vector(4)}">{text}</body>'
        inner[parent[k]].append(body)
    return (
        f'<mujoco model="random"><compiler angle="radian"/><option gravity="{vector()}"/>'
        f"<worldbody>{''.join(inner[0])}</worldbody></mujoco>"
    )


def _parity(robot, path, rng):
    """Largest differences of mass matrix and bias forces, relative to their largest entry.

    MuJoCo's linear velocity of a free joint is in world coordinates: v = J v_mujoco, and its
    derivative adds -w x v to the linear acceleration in base coordinates.
    """
    compiled = mujoco.MjModel.from_xml_path(str(path))
    state = mujoco.MjData(compiled)
    nv, first = robot.nv, robot.nq - robot.n_joints
    q, v = rng.uniform(-2.0, 2.0, robot.nq), rng.normal(size=nv)
    J, a, qpos, qvel = np.eye(nv), np.zeros(nv), q.copy(), v.copy()
    if robot.floating_base:
        q[3:7] /= np.linalg.norm(q[3:7])
        R = pin.Quaternion(q[6], q[3], q[4], q[5]).matrix()
        J[:3, :3] = R.T
        a[:3] = -np.cross(v[3:6], v[:3])
        qpos[3:7], qvel[:3] = q[[6, 3, 4, 5]], R @ v[:3]
    assert first in (0, 7)
    state.qpos, state.qvel = qpos, qvel
    mujoco.mj_forward(compiled, state)
    M_mujoco = np.empty((nv, nv))
    for k in range(nv):
        column = np.zeros(nv)
        mujoco.mj_mulM(compiled, state, column, np.eye(nv)[k])
        M_mujoco[:, k] = column
    data = robot.model.createData()
    M = pin.crba(robot.model, data, q)
    M = J.T @ (np.triu(M) + np.triu(M, 1).T) @ J
    bias = J.T @ pin.rnea(robot.model, data, q, v, a)
    return (
        np.abs(M - M_mujoco).max() / np.abs(M).max(),
        np.abs(bias - state.qfrc_bias).max() / np.abs(bias).max(),
    )


# -- parity with MuJoCo ------------------------------------------------------------------------


@pytest.mark.parametrize("text", [ARM, DOG], ids=["arm", "dog"])
def test_dynamics_are_those_of_mujoco(tmp_path, text):
    rng = np.random.default_rng(1)
    robot = _load(text, tmp_path)
    for _ in range(5):
        assert max(_parity(robot, tmp_path / "robot.xml", rng)) < 1e-12


@pytest.mark.parametrize("floating", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_dynamics_of_random_trees(tmp_path, seed, floating):
    rng = np.random.default_rng(seed)
    robot = _load(_random_mjcf(rng, floating), tmp_path)
    assert robot.floating_base == floating
    for _ in range(3):
        assert max(_parity(robot, tmp_path / "robot.xml", rng)) < 1e-12


@pytest.mark.parametrize("text", [ARM, DOG], ids=["arm", "dog"])
def test_frames_are_where_mujoco_has_bodies_and_sites(tmp_path, text):
    robot = _load(text, tmp_path)
    compiled = mujoco.MjModel.from_xml_path(str(tmp_path / "robot.xml"))
    state = mujoco.MjData(compiled)
    rng = np.random.default_rng(2)
    q = rng.normal(size=robot.nq)
    state.qpos = q
    if robot.floating_base:
        q[3:7] /= np.linalg.norm(q[3:7])
        state.qpos[3:7] = q[[6, 3, 4, 5]]
    mujoco.mj_forward(compiled, state)
    data = robot.model.createData()
    pin.framesForwardKinematics(robot.model, data, q)
    found = [
        (compiled.body(b).name, state.xpos[b], state.xmat[b]) for b in range(1, compiled.nbody)
    ]
    found += [
        (compiled.site(s).name, state.site_xpos[s], state.site_xmat[s])
        for s in range(compiled.nsite)
    ]
    for name, position, rotation in found:
        pose = data.oMf[robot.model.getFrameId(name)]
        np.testing.assert_allclose(pose.translation, position, rtol=0, atol=1e-13)
        np.testing.assert_allclose(pose.rotation, rotation.reshape(3, 3), rtol=0, atol=1e-13)


# -- what is read ------------------------------------------------------------------------------


def test_joints_of_the_arm(tmp_path):
    robot = _load(ARM, tmp_path)
    assert robot.name == "arm"
    assert robot.joint_names == ("pan", "push", "x", "y", "along")
    assert robot.link_names == ("shoulder", "slider", "x", "y", "wrist")
    np.testing.assert_array_equal(robot.model.gravity.linear, [1.0, 2.0, -9.7])
    np.testing.assert_array_equal(robot.theta[robot.layout.rotor], np.full(5, 0.1))
    np.testing.assert_array_equal(
        robot.theta[robot.layout.friction("Fv")], [0.5, 0.2, 0.2, 0.2, 0.2]
    )
    np.testing.assert_array_equal(robot.theta[robot.layout.friction("Fc")], [0.3, 0, 0, 0, 0])
    lower, upper = robot.position_limits
    np.testing.assert_allclose(lower, [-np.pi / 2, -1.0, -np.inf, -np.inf, -np.inf], rtol=1e-15)
    np.testing.assert_allclose(upper, [np.pi / 4, 2.0, np.inf, np.inf, np.inf], rtol=1e-15)
    np.testing.assert_array_equal(robot.velocity_limit, np.full(5, np.inf))
    assert robot.notes == ("bodies with several joints have massless links: x, y",)
    assert not robot.pi("x").any()
    assert robot.source is not None
    assert robot.source.format == "mjcf"
    assert robot.source.data.decode() == ARM


def test_friction_laws(tmp_path):
    robot = _load(ARM, tmp_path, friction="stribeck")
    assert robot.parameter("Fc1") == 0.3
    assert robot.parameter("Fs1") == 0.0
    robot = _load(ARM, tmp_path, friction="viscous")
    assert robot.parameter("Fv1") == 0.5
    assert "joint frictionloss dropped: friction 'viscous' has no such term" in robot.notes
    robot = _load(ARM, tmp_path, friction="none")
    assert robot.layout.friction_terms == ()
    assert len(robot.notes) == 3
    with pytest.raises(UnknownNameError, match="unknown friction model 'magic'"):
        _load(ARM, tmp_path, friction="magic")


ACTUATED = """
<mujoco><worldbody><body name="a">
  <joint name="{0}" armature="1" damping="1" actuatorfrcrange="{1}"/>
  <inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/></body></worldbody>
  <actuator>{2}</actuator></mujoco>
"""


@pytest.mark.parametrize(
    ("of_joint", "actuators", "limit"),
    [
        ("0 0", '<motor joint="j"/>', np.inf),
        ("0 0", '<motor joint="j" gear="-3" ctrlrange="-2 2"/>', 6.0),
        ("0 0", '<motor joint="j" gear="3" ctrlrange="-2 1" forcerange="-0.5 0.5"/>', 1.5),
        ("0 0", '<position joint="j" kp="7" ctrlrange="-2 2"/>', np.inf),
        ("0 0", '<position joint="j" kp="7" forcerange="-4 4"/>', 4.0),
        ("0 0", '<general joint="j" gainprm="5" ctrlrange="-1 2"/>', 10.0),
        ("0 0", '<motor joint="j" ctrlrange="-2 2"/><motor joint="j" ctrlrange="-3 3"/>', 5.0),
        ("-1 1", '<motor joint="j" ctrlrange="-2 2"/>', 1.0),
        ("-1 1", "", 1.0),
        ("0 0", "", np.inf),
        ("0 0", '<motor joint="j" gear="0"/>', np.inf),
    ],
)
def test_effort_limits(tmp_path, of_joint, actuators, limit):
    robot = _load(ACTUATED.format("j", of_joint, actuators), tmp_path)
    np.testing.assert_array_equal(robot.effort_limit, [limit])


def test_inertia_and_damping_of_actuators(tmp_path):
    if not hasattr(mujoco.MjModel, "actuator_armature"):
        pytest.skip("this MuJoCo has no armature of actuators")
    text = ACTUATED.format("j", "0 0", '<motor joint="j" gear="3" armature="2" damping="4"/>')
    robot = _load(text, tmp_path)
    assert robot.parameter("Ia1") == 1.0 + 9.0 * 2.0
    assert robot.parameter("Fv1") == 1.0 + 9.0 * 4.0
    compiled = mujoco.MjModel.from_xml_string(text)
    state = mujoco.MjData(compiled)
    state.qvel[:] = 1.0
    mujoco.mj_forward(compiled, state)
    assert state.qfrc_passive[0] == -37.0  # MuJoCo's own sum of damping


def test_names_that_are_left_out(tmp_path):
    text = DOG.replace(' name="leg"', "").replace(' name="hip"', "").replace(' name="root"', "")
    robot = _load(text, tmp_path)
    assert robot.link_names == ("trunk", "body2", "tail")
    assert robot.joint_names == ("body2_joint1", "wag")
    assert robot.model.names[1] == "trunk_joint1"
    with pytest.raises(RobotFileError, match="'body2' occurs twice"):
        _load(text.replace('"tail"', '"body2"'), tmp_path)


def test_notes_on_what_is_left_out(tmp_path):
    text = DOG.replace('name="wag"', 'name="wag" stiffness="3"').replace(
        "</worldbody>",
        '</worldbody><equality><joint joint1="hip" joint2="wag"/></equality>'
        '<tendon><fixed><joint joint="hip" coef="1"/></fixed></tendon>',
    )
    text = text.replace('name="leg"', 'name="leg" gravcomp="1"')
    text = text.replace("<worldbody>", '<option density="1.2"/><worldbody>')
    text = text.replace('<freejoint name="root"/>', '<joint type="free" name="root" damping="1"/>')
    notes = "\n".join(_load(text, tmp_path).notes)
    for words in (
        "joint springs left out: wag",
        "1 equality constraint(s)",
        "1 tendon(s)",
        "gravity compensation of bodies",
        "surrounding medium",
        "of the free joint left out",
    ):
        assert words in notes
    assert _load(DOG, tmp_path).notes == ()


def test_gravity_can_be_switched_off(tmp_path):
    text = DOG.replace("<worldbody>", '<option><flag gravity="disable"/></option><worldbody>')
    np.testing.assert_array_equal(_load(text, tmp_path).model.gravity.linear, np.zeros(3))


# -- floating base -----------------------------------------------------------------------------


def test_the_free_joint_can_be_fixed(tmp_path):
    robot = _load(DOG, tmp_path, floating_base=False)
    assert not robot.floating_base
    assert robot.link_names == ("leg", "tail")
    assert "free joint left out: the base is fixed where the file puts it" in robot.notes
    fixed = tmp_path / "fixed.xml"
    fixed.write_text(DOG.replace('<freejoint name="root"/>', ""))
    assert max(_parity(robot, fixed, np.random.default_rng(3))) < 1e-12


def test_a_fixed_base_can_be_freed(tmp_path):
    robot = _load(DOG.replace('<freejoint name="root"/>', ""), tmp_path, floating_base=True)
    assert robot.floating_base
    assert robot.model.names[1] == "root_joint"
    np.testing.assert_allclose(robot.theta, _load(DOG, tmp_path).theta, rtol=1e-15)
    with pytest.raises(RobotFileError, match="floating_base=True needs one body"):
        _load(_random_mjcf(np.random.default_rng(0), False), tmp_path, floating_base=True)


STONE = """
<mujoco><worldbody>
  <body name="stone"><freejoint/><geom size="0.1"/></body>
</worldbody></mujoco>
"""


@pytest.mark.parametrize("text", [STONE, STONE.replace("<freejoint/>", "")])
def test_a_single_floating_body(tmp_path, text):
    robot = _load(text, tmp_path, floating_base=True)
    assert robot.link_names == ("stone",)
    assert robot.joint_names == ()
    np.testing.assert_allclose(robot.pi(0)[0], 1000.0 * 4.0 / 3.0 * np.pi * 0.1**3, rtol=1e-14)


def test_scenes_with_more_than_the_robot(tmp_path):
    ball = '<body name="toy"><freejoint/><geom size="0.1"/></body></worldbody>'
    with pytest.raises(UnsupportedJointError, match=r"several bodies float \(trunk, toy\)"):
        _load(DOG.replace("</worldbody>", ball), tmp_path)
    door = '<body><joint name="hinge"/><geom size="0.1"/></body></worldbody>'
    with pytest.raises(UnsupportedJointError, match=r"'hinge' does not belong to .* 'trunk'"):
        _load(DOG.replace("</worldbody>", door), tmp_path)


# -- bad input ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "error", "message"),
    [
        (
            '<joint name="hip" axis="1 0 0"/>',
            '<joint name="hip" type="ball"/>',
            UnsupportedJointError,
            "joint 'hip' of body 'leg' is a ball joint: .* three hinges",
        ),
        ("</worldbody>", "", RobotFileError, "robot.xml: MuJoCo cannot compile it: XML parse"),
        ('name="hip"', 'nome="hip"', RobotFileError, "unrecognized attribute: 'nome'.*line 8"),
        ('mass="9"', 'mass="0"', RobotFileError, "mass and inertia of moving bodies"),
        ('"0.3 0.4 0.5 0.01', '"0.3 0.4 9.0 0.01', RobotFileError, "A \\+ B >= C"),
        ('name="hip"', 'name="wag"', RobotFileError, "repeated name 'wag'"),
        ('name="hip"', 'name="universe"', RobotFileError, "'universe' occurs twice"),
        (
            "<worldbody>",
            '<extension><plugin plugin="mujoco.pid"/></extension><worldbody>',
            RobotFileError,
            "does not run: remove <plugin>",
        ),
        ("<worldbody>", '<include file="a.xml"/><worldbody>', RobotFileError, "a.xml"),
        (
            "<worldbody>",
            '<include\n file = "../a.xml"/><worldbody>',
            RobotFileError,
            r"includes '\.\./a\.xml', which lies outside",
        ),
        (
            "<worldbody>",
            "<include file='/etc/hostname'/><worldbody>",
            RobotFileError,
            "includes '/etc/hostname', which lies outside",
        ),
    ],
)
def test_bad_files(tmp_path, old, new, error, message):
    assert old in DOG
    with pytest.raises(error, match=message):
        _load(DOG.replace(old, new), tmp_path)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("0.2 0.1 0", "0.2 nan 0"),
        ('mass="9"', 'mass="nan"'),
        ('name="wag"', 'name="wag" ref="inf"'),
        ('name="wag"', 'name="wag" damping="inf"'),
    ],
)
def test_numbers_that_are_not_finite(tmp_path, monkeypatch, old, new):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RobotFileError, match=r"not finite|cannot compile"):
        _load(DOG.replace(old, new), tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["robot.xml"]  # no log of MuJoCo's


def test_the_callers_warning_handler_is_kept(tmp_path):
    before = mujoco.get_mju_user_warning()

    def mine(text):
        raise RuntimeError(text)

    mujoco.set_mju_user_warning(mine)
    try:
        _load(DOG, tmp_path)
        assert mujoco.get_mju_user_warning() is mine
    finally:
        mujoco.set_mju_user_warning(before)


def test_what_mujoco_remarks_becomes_a_note(tmp_path):
    robot = _load(DOG.replace("<worldbody>", '<worldbody><light diffuse="nan 1 1"/>'), tmp_path)
    assert robot.notes == ("MuJoCo warns: XML contains a 'NaN'. Please check it carefully.",)


def test_a_world_in_which_nothing_moves(tmp_path):
    with pytest.raises(RobotFileError, match="nothing in it moves"):
        _load("<mujoco><worldbody><body/></worldbody></mujoco>", tmp_path)
    with pytest.raises(RobotFileError, match="nothing in it moves"):
        _load(STONE, tmp_path, floating_base=False)


def test_includes_are_searched_for_plugins(tmp_path):
    (tmp_path / "inner.xml").write_text(
        '<mujoco><extension><plugin plugin="x"/></extension></mujoco>'
    )
    text = DOG.replace("<worldbody>", '<include file="inner.xml"/><worldbody>')
    with pytest.raises(RobotFileError, match=r"inner\.xml uses a MuJoCo plugin"):
        _load(text, tmp_path)


def test_includes_in_the_folder_are_read(tmp_path):
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "gravity.xml").write_text('<mujoco><include file="moon.xml"/></mujoco>')
    (tmp_path / "parts" / "moon.xml").write_text('<mujoco><option gravity="0 0 -1"/></mujoco>')
    text = DOG.replace(
        "<worldbody>",
        '<!-- <include file="../old.xml"/> <plugin/> -->'
        '<include file="parts/gravity.xml"/><worldbody>',
    )
    np.testing.assert_array_equal(_load(text, tmp_path).model.gravity.linear, [0.0, 0.0, -1.0])
    (tmp_path / "parts" / "moon.xml").write_text(
        "<mujoco><extension><plugin/></extension></mujoco>"
    )
    with pytest.raises(RobotFileError, match=r"moon\.xml uses a MuJoCo plugin"):
        _load(text, tmp_path)


def test_missing_file_and_folder(tmp_path):
    with pytest.raises(RobotFileError, match=r"cannot read .*none\.xml: No such file"):
        load_mjcf(tmp_path / "none.xml")
    with pytest.raises(RobotFileError, match="is a folder"):
        load_mjcf(tmp_path)


def test_without_mujoco(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "mujoco", None)
    with pytest.raises(MissingDependencyError, match=r'pip install "bodysense\[mujoco\]"'):
        _load(DOG, tmp_path)


def test_bodies_without_volume(tmp_path):
    plate = ARM.replace('"0.3 0.4 0.5 0.01 0.02 0.03"', '"0.3 0.4 0.7 0 0 0"')  # MuJoCo takes it
    robot = _load(plate, tmp_path)
    assert robot.consistency()[robot.link_names.index("slider")].margin == 0.0
    assert max(_parity(robot, tmp_path / "robot.xml", np.random.default_rng(4))) < 1e-12
