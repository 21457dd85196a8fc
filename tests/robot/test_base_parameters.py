"""Base parameters: published counts, closed forms by hand, and what makes them base parameters."""

from __future__ import annotations

import re
from functools import cache

import numpy as np
import pinocchio as pin
import pytest
from scipy.linalg import qr, subspace_angles

from bodysense.errors import ShapeError, UnknownNameError
from bodysense.robot import (
    BaseParameters,
    Robot,
    base_parameters,
    load_robot,
    torque_regressor,
)
from bodysense.robot.base_parameters import base_parameters_from_regressor
from bodysense.spatial import random_pi

# name: all, inertial, rotor, friction. Floating robots have 7 combinations a revolute joint and
# the 10 of the base.
COUNTS = {
    "tx40": (52, 36, 4, 12),
    "tx40-coupled": (54, 36, 4, 14),
    "rv2sq": (52, 36, 4, 12),
    "example:panda": (76, 51, 7, 18),
    "example:talos": (7 * 32 + 10 + 3 * 32, 234, 32, 64),
    "example:icub": (7 * 32 + 10 + 3 * 32, 234, 32, 64),
    "example:go1": (7 * 12 + 10 + 3 * 12, 94, 12, 24),
    "example:anymal": (7 * 12 + 10 + 3 * 12, 94, 12, 24),
    "example:hector": (10, 10, 0, 0),
}


@cache
def base_of(robot: Robot) -> BaseParameters:
    return base_parameters(robot)


EVERY = [*COUNTS, "tx40-three", "serial", "branched", "floating", "example:tiago"]


@pytest.mark.parametrize("name", COUNTS)
def test_published_and_counted_numbers(name, robot_of):
    base = base_of(robot_of(name))
    assert (base.size, base.n_inertial, base.n_rotor, base.n_friction) == COUNTS[name]


def test_a_floating_tree_with_prismatic_joints(robot_of):
    robot = robot_of("floating")
    sliding = int(robot.tree.prismatic.sum())
    assert sliding > 3
    assert base_parameters(robot).n_inertial == 10 + 7 * (12 - sliding) + 4 * sliding


@pytest.mark.parametrize("name", ["serial", "branched", "rv2sq", "example:panda"])
def test_rank_of_pinocchios_regressor(name, robot_of, states_of, rng):
    """The same count from another regressor and another decomposition."""
    robot = robot_of(name).with_friction("none", coefficients={})
    q, v, a = states_of(robot, rng, 90)
    data = robot.model.createData()
    rows = []
    for state in zip(q, v, a, strict=True):
        Y = pin.computeJointTorqueRegressor(robot.model, data, *state)
        rows.append(np.hstack([Y, np.diag(state[2])]))
    singular = np.linalg.svd(np.vstack(rows), compute_uv=False)
    base = base_of(robot)
    rank = int((singular > 1e-9 * singular[0]).sum())
    assert rank == base.n_inertial + base.n_rotor


@pytest.mark.parametrize("name", EVERY)
def test_the_rank_is_clear(name, robot_of):
    assert base_of(robot_of(name)).gap > 1e6


def test_scaling_all_columns_first_would_count_rounding_errors(robot_of, states_of, rng):
    """Two columns of the TX40 are zero but for rounding; scaled to one they pass for parameters."""
    robot = robot_of("tx40")
    Y = torque_regressor(robot, *states_of(robot, rng, 60)).reshape(-1, robot.layout.size)
    size = np.linalg.norm(Y, axis=0)
    naive = np.abs(np.diag(qr(Y / np.where(size > 0.0, size, 1.0), mode="r", pivoting=True)[0]))
    assert (naive > 1e-9 * naive[0]).sum() > 52
    assert base_parameters(robot).size == 52


@pytest.mark.parametrize("name", EVERY)
def test_they_say_all_that_the_torques_say(name, robot_of, states_of, rng):
    robot = robot_of(name)
    base = base_of(robot)
    Y = torque_regressor(robot, *states_of(robot, rng, 6))
    kept = torque_regressor(robot, *states_of(robot, np.random.default_rng(1), 6))
    theta = rng.normal(size=robot.layout.size)
    tau = Y @ theta
    reduced = Y[:, :, base.independent] @ base.to_base(theta)
    np.testing.assert_allclose(reduced, tau, rtol=0, atol=1e-9 * np.abs(tau).max())
    # and no combination can be spared: the columns are independent
    Y_base = kept[:, :, base.independent].reshape(-1, base.size)
    if Y_base.shape[0] >= base.size:
        singular = np.linalg.svd(Y_base / np.linalg.norm(Y_base, axis=0), compute_uv=False)
        assert singular[-1] > 1e-9


@pytest.mark.parametrize("name", EVERY)
def test_bijection(name, robot_of, rng):
    base = base_of(robot_of(name))
    p, b = base.layout.size, base.size
    # a partition of the places, both in ascending order
    places = np.concatenate([base.independent, base.dependent])
    np.testing.assert_array_equal(np.sort(places), np.arange(p))
    assert (np.diff(base.independent) > 0).all()
    assert (np.diff(base.dependent) > 0).all()
    assert base.K.shape == (b, p - b)
    theta = rng.normal(size=(3, p))
    theta_base, theta_dep = base.split(theta)
    # eq (9) by hand
    expected = theta[:, base.independent] + theta[:, base.dependent] @ base.K.T
    np.testing.assert_array_equal(theta_dep, theta[:, base.dependent])
    np.testing.assert_allclose(theta_base, expected, rtol=1e-14, atol=1e-14)
    np.testing.assert_allclose(theta @ base.mapping.T, expected, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(base.to_base(theta), theta_base)
    # eqs (10) and (11) undo each other
    scale = 1.0 + np.abs(base.K).sum(axis=1).max(initial=0.0)
    back = base.join(theta_base, theta_dep)
    np.testing.assert_allclose(back, theta, rtol=0, atol=1e-15 * scale)
    np.testing.assert_array_equal(back[:, base.dependent], theta[:, base.dependent])
    # a single vector is treated alike
    np.testing.assert_allclose(base.to_base(theta[1]), theta_base[1], rtol=0, atol=1e-14 * scale)
    plain = base.join(theta_base[0])
    np.testing.assert_array_equal(plain[base.dependent], 0.0)
    np.testing.assert_array_equal(plain[base.independent], theta_base[0])
    np.testing.assert_array_equal(base.to_base(plain), theta_base[0])


TERM = re.compile(r"([+-]) (?:([\d.e+-]+) )?([A-Za-z]\w*)")


@pytest.mark.parametrize("name", EVERY)
def test_names_say_what_the_mapping_does(name, robot_of):
    base = base_of(robot_of(name))
    assert len(base.names) == base.size
    for row, text in zip(base.mapping, base.names, strict=True):
        written = np.zeros(base.layout.size)
        rest = f"+ {text}"
        assert TERM.sub("", rest).strip() == ""
        for sign, size, parameter in TERM.findall(rest):
            written[base.layout.index(parameter)] = float(f"{sign}{size or 1}")
        shown = written != 0.0
        np.testing.assert_array_equal(shown, np.abs(row) > 1e-5)
        np.testing.assert_allclose(written[shown], row[shown], rtol=5.001e-3)
        assert text.split()[0] == base.layout.names[base.independent[base.names.index(text)]]


@pytest.mark.parametrize("name", EVERY)
def test_every_parameter_has_one_fate(name, robot_of):
    base = base_of(robot_of(name))
    kept = [base.layout.names[k] for k in base.independent]
    assert sorted([*kept, *base.regrouped, *base.unidentifiable]) == sorted(base.layout.names)
    assert set(base.alone) == {text for text in base.names if " " not in text}


def test_what_cannot_be_identified_has_no_effect(robot_of, states_of, rng):
    for name in ("tx40", "serial", "example:tiago"):
        robot = robot_of(name)
        base = base_of(robot)
        assert base.unidentifiable
        Y = torque_regressor(robot, *states_of(robot, rng, 20)).reshape(-1, robot.layout.size)
        silent = [robot.layout.index(parameter) for parameter in base.unidentifiable]
        assert np.abs(Y[:, silent]).max() < 1e-10 * np.abs(Y).max()


def test_the_result_is_always_the_same(robot_of, rng):
    robot = robot_of("branched")
    theta = rng.normal(size=robot.layout.size)
    one = base_parameters(robot)
    for other in (base_parameters(robot), base_parameters(robot.with_parameters(theta))):
        np.testing.assert_array_equal(one.independent, other.independent)
        np.testing.assert_array_equal(one.K, other.K)
        assert one.names == other.names
        assert one.gap == other.gap


# -- by hand ---------------------------------------------------------------------------------


def chain(*joints, gravity) -> Robot:
    """Build a chain from (joint, position) pairs."""
    model = pin.Model()
    model.name = "chain"
    model.gravity.linear = 9.81 * np.array(gravity, dtype=float)
    for k, (joint, position) in enumerate(joints):
        placement = pin.SE3(np.eye(3), np.array(position, dtype=float))
        i = model.addJoint(k, joint, placement, f"joint{k + 1}")
        pi = random_pi(np.random.default_rng(k), 1)[0]
        model.appendBodyToJoint(i, pin.Inertia.FromDynamicParameters(pi), pin.SE3.Identity())
    return Robot.from_pinocchio(model)


DRIVES = {n: tuple(f"F{kind}{j}" for kind in "vc" for j in range(1, n + 1)) for n in (1, 2)}


def test_pendulum():
    """tau = (YY + Ia) a + g (MZ sin q - MX cos q) + friction, for an axis along y."""
    base = base_parameters(chain((pin.JointModelRY(), (0.1, 0.2, 0.3)), gravity=(0, 0, -1)))
    assert base.names == ("MX1", "MZ1", "YY1 + Ia1", *DRIVES[1])
    assert base.unidentifiable == ("M1", "MY1", "XX1", "XY1", "XZ1", "YZ1", "ZZ1")
    assert base.regrouped == ("Ia1",)
    assert base.alone == ("MX1", "MZ1", *DRIVES[1])


def test_pendulum_about_the_vertical():
    base = base_parameters(chain((pin.JointModelRZ(), (0.1, 0.2, 0.3)), gravity=(0, 0, -1)))
    assert base.names == ("ZZ1 + Ia1", *DRIVES[1])
    assert base.unidentifiable == ("M1", "MX1", "MY1", "MZ1", "XX1", "XY1", "YY1", "XZ1", "YZ1")


PLANAR = (pin.JointModelRZ(), (0, 0, 0)), (pin.JointModelRZ(), (0.5, 0, 0))


def test_planar_arm_in_a_vertical_plane():
    """Khalil and Dombre's 2R arm: ZZ1 and MX1 take up the mass of the second link."""
    base = base_parameters(chain(*PLANAR, gravity=(0, -1, 0)))
    inertial = ("MX1 + 0.5 M2", "MY1", "ZZ1 + 0.25 M2 + Ia1", "MX2", "MY2", "ZZ2")
    assert base.names == (*inertial, "Ia2", *DRIVES[2])
    assert base.regrouped == ("M2", "Ia1")
    assert base.alone == ("MY1", "MX2", "MY2", "ZZ2", "Ia2", *DRIVES[2])
    silent = ["M1", "MZ1", "XX1", "XY1", "YY1", "XZ1", "YZ1", "MZ2"]
    assert list(base.unidentifiable) == [*silent, "XX2", "XY2", "YY2", "XZ2", "YZ2"]
    assert (base.n_inertial, base.n_rotor, base.n_friction) == (6, 1, 4)


def test_planar_arm_in_a_horizontal_plane():
    base = base_parameters(chain(*PLANAR, gravity=(0, 0, -1)))
    inertial = ("ZZ1 + 0.25 M2 + Ia1", "MX2", "MY2", "ZZ2")
    assert base.names == (*inertial, "Ia2", *DRIVES[2])
    assert base.regrouped == ("M2", "Ia1")


@pytest.mark.parametrize(
    ("gravity", "names"),
    [((-1, 0, 0), ("M1", "Ia1")), ((0, 0, -1), ("Ia1 + M1",))],
    ids=["vertical", "horizontal"],
)
def test_slide(gravity, names):
    """tau = (M + Ia) a + M g along the axis: apart only where the weight is felt."""
    base = base_parameters(chain((pin.JointModelPX(), (0.1, 0.2, 0.3)), gravity=gravity))
    expected = {frozenset(text.split(" + ")) for text in (*names, *DRIVES[1])}
    assert {frozenset(text.split(" + ")) for text in base.names} == expected
    assert len(base.unidentifiable) == 9


def test_slide_that_carries_a_pendulum():
    """The pendulum's mass adds to the slide's; its first moments couple and stay alone."""
    robot = chain(
        (pin.JointModelPX(), (0, 0, 0)), (pin.JointModelRZ(), (0, 0.3, 0)), gravity=(0, 0, -1)
    )
    base = base_of(robot)
    combinations = {
        frozenset(text.split(" + ")) for text in base.names[: base.n_inertial + base.n_rotor]
    }
    assert combinations == {
        frozenset({"Ia1", "M1", "M2"}),
        frozenset({"MX2"}),
        frozenset({"MY2"}),
        frozenset({"ZZ2", "Ia2"}),
    }


def test_an_offset_hides_the_weight_on_a_slide():
    """tau = M (a + g) + Ia a + Fo + …: a constant weight and an offset are one number."""
    robot = chain((pin.JointModelPX(), (0, 0, 0)), gravity=(-1, 0, 0))
    base = base_parameters(robot.with_friction("offset", coefficients={}))
    assert base.names == ("Ia1 + M1", "Fv1", "Fc1", "Fo1 + 9.81 M1")


# -- floating bases --------------------------------------------------------------------------


def space(base):
    """Orthonormal basis of the identifiable directions."""
    return np.linalg.qr(base.mapping.T)[0]


@pytest.mark.parametrize("name", ["floating", "example:go1"])
def test_base_wrench_and_joint_torques(name, robot_of):
    robot = robot_of(name)
    everything, wrench, torques = (
        base_parameters(robot, rows=rows) for rows in ("all", "base", "joints")
    )
    # Ayusawa et al.: the base wrench tells all inertial combinations, the joint torques fewer.
    assert wrench.size == wrench.n_inertial == everything.n_inertial
    assert torques.n_inertial == everything.n_inertial - 10
    n = robot.layout.n_inertial
    inertial = np.linalg.qr(everything.mapping[: wrench.size, :n].T)[0]
    assert subspace_angles(inertial, space(wrench)[:n]).max() < 1e-7
    of_torques = np.linalg.qr(torques.mapping[: torques.n_inertial, :n].T)[0]
    left_over = of_torques - inertial @ (inertial.T @ of_torques)
    assert np.abs(left_over).max() < 1e-9
    # drives do not show in the wrench
    assert set(robot.layout.names[robot.layout.n_inertial :]) <= set(wrench.unidentifiable)


def test_the_base_link_does_not_matter(robot_of, states_of, rng):
    robot = robot_of("floating")
    own = base_parameters(robot, rows="base")
    motion = states_of(robot, rng, 200)
    for link in robot.link_names[1::4]:
        Y = torque_regressor(robot, *motion, base_link=link)[:, :6]
        rows = Y.reshape(-1, robot.layout.size)
        other = base_parameters_from_regressor(robot, rows, tolerance=1e-5)
        np.testing.assert_array_equal(own.independent, other.independent)
        np.testing.assert_allclose(own.K, other.K, rtol=0, atol=1e-9)


def test_the_floating_base_stands_for_the_total_mass(robot_of):
    base = base_parameters(robot_of("example:go1"))
    assert base.names[0] == " + ".join(f"M{k}" for k in range(13))


def test_a_body_without_joints_has_no_joint_rows(robot_of):
    base = base_parameters(robot_of("example:hector"), rows="joints")
    assert base.size == 0
    assert len(base.unidentifiable) == 10
    assert base.to_base(np.ones(10)).shape == (0,)
    np.testing.assert_array_equal(base.join(np.zeros(0), np.arange(10.0)), np.arange(10.0))


# -- bad input -------------------------------------------------------------------------------


def test_bad_rows(robot_of):
    with pytest.raises(UnknownNameError, match="choice of rows 'wrench': valid: all, base, joints"):
        base_parameters(robot_of("floating"), rows="wrench")
    with pytest.raises(UnknownNameError, match=r"'base'.*floating_base=True"):
        base_parameters(robot_of("tx40"), rows="base")


def test_bad_vectors(robot_of):
    base = base_parameters(robot_of("tx40"))
    with pytest.raises(ShapeError, match=r"theta has shape \(77,\), expected \(78"):
        base.to_base(np.zeros(77))
    with pytest.raises(ShapeError, match="theta holds nan"):
        base.split(np.full(78, np.nan))
    with pytest.raises(ShapeError, match=r"theta_base has shape \(2, 51\)"):
        base.join(np.zeros((2, 51)))
    with pytest.raises(ShapeError, match=r"theta_dep has shape \(26,\), expected \(2, 26\)"):
        base.join(np.zeros((2, 52)), np.zeros(26))
    with pytest.raises(ShapeError, match="theta has shape"):
        base.to_base(1.0)


RIGHT_ANGLES = ("1.5708", "1.570796", "1.5707963", "1.57079632679")


@pytest.mark.parametrize("angle", RIGHT_ANGLES)
def test_a_rounded_right_angle_makes_no_parameter(angle, tmp_path):
    links = "".join(
        f"""<link name="l{k}"><inertial><origin xyz="0.1 0 0"/><mass value="1"/>
        <inertia ixx="0.01" ixy="0" ixz="0" iyy="0.01" iyz="0" izz="0.01"/></inertial></link>"""
        for k in range(4)
    )
    joints = "".join(
        f"""<joint name="j{k}" type="continuous"><origin xyz="0.3 0 0" rpy="{rpy} 0 0"/>
        <parent link="l{k}"/><child link="l{k + 1}"/><axis xyz="0 0 1"/></joint>"""
        for k, rpy in enumerate(("0", angle, "0"))
    )
    path = tmp_path / "arm.urdf"
    path.write_text(f'<robot name="arm">{links}{joints}</robot>')
    robot = load_robot(path)
    exact = path.with_name("exact.urdf")
    exact.write_text(path.read_text().replace(angle, repr(np.pi / 2)))
    assert base_parameters(robot).names == base_parameters(load_robot(exact)).names
    assert not base_parameters(robot).weak


def test_the_tolerance_is_the_callers(robot_of):
    robot = robot_of("example:xarm7")  # its file writes 1.5708
    assert base_parameters(robot).size == 62
    strict = base_parameters(robot, tolerance=1e-9)
    assert strict.size > 62
    assert strict.weak
    with pytest.raises(ShapeError, match="tolerance is 0"):
        base_parameters(robot, tolerance=0.0)
