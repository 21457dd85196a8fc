"""The built-in robots against their published constants, typed a second time."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest

from bodysense.errors import UnknownNameError
from bodysense.robot.io.load import builtin_names, load_robot

HALF_TURN = np.pi
QUARTER = np.pi / 2


def _rows(text):
    return np.array([[float(word) for word in row.split()] for row in text.strip().split("\n")])


# One row per link: theta, d, a, alpha.
TX40_DH = np.array(
    [
        [0, 0, 0, 0],
        [-QUARTER, 0, 0, -QUARTER],
        [QUARTER, 0.035, 0.225, 0],
        [0, 0.225, 0, QUARTER],
        [0, 0, 0, -QUARTER],
        [HALF_TURN, 0, 0, QUARTER],
    ]
)
RV2SQ_DH = np.array(
    [
        [0, 0.295, 0, 0],
        [-QUARTER, 0, 0, -QUARTER],
        [QUARTER, 0, 0.23, 0],
        [0, 0.27, -0.05, QUARTER],
        [0, 0, 0, -QUARTER],
        [0, 0.07, 0, QUARTER],
    ]
)
# m, first moments, XX, XY, XZ, YY, YZ, ZZ about the link frame.
TX40_LINKS = _rows("""
8.61 0 0 -0.4305            0.424 0 0 0.424 0 0.352
4.85 0.392 -0.0072 0.162    0.0163 0.000785 -0.0157 0.0881 0.000324 0.0828
4.07 0.0326 0.0244 0.265    0.0223 -0.000195 -0.00116 0.0224 -0.00222 0.00441
3.62 0.0145 -0.00724 -0.586 0.109 0.000029 0.00135 0.108 -0.00117 0.00407
1.02 0 -0.00306 -0.00102    0.00101 0 0 0.00100 -0.00000306 0.00101
0.2  0 0 0.0084             0.00353 0 0 0.00353 0 0.000353
""")
# m, centre of mass, XX, XY, XZ, YY, YZ, ZZ about it.
RV2SQ_LINKS = _rows("""
4   0 0 -0.05            0.0424 0 0 0.0424 0 0.0152
5.3 0.06 -0.0076 0       0.45 0.00203 -0.000203 0.5 -0.00556 0.85
4.1 0 -0.045 0           0.177 -0.017 0.001 0.105 0.006 0.239
2.8 0.01 0 -0.13         0.0492 -0.0013 0.0042 0.0424 0.0003 0.0457
0.8 -0.001 -0.001 0.001  0.0676 0.0001 0 0.0274 0 0.0718
0.7 0.001 0 0.0005       0.02 0 0 0.02 0 0.01
""")
# One row each: Ia, viscous, Coulomb, Ktau, Kp, Kd.
TX40_JOINTS = _rows("""
0.362 0.507 0.0829 0.0341 0.0361 0.0114
7.9379 5.6948 1.9804 1.1141 1.60 0.6894
6.9822 7.8301 6.1939 2.4063 3.4092 1.8313
35.24 32.04 23.94 9.05 15.5 6.56
455.8254 500 253.7919 200.2182 244.3226 478.4783
2.5361 4.1174 1.1793 0.5462 0.5714 0.1954
""") * np.array([[1], [1], [1], [1], [0.75], [1]])
RV2SQ_JOINTS = _rows("""
0.01 0.5 0.3253 0.0416 0.0939 0.0317
4.7618 13.4593 4.1019 1.3165 1.4242 0.9244
2.8503 7.7407 3.3459 1.6581 2.7170 2.0284
0.0347 0.0845 0.0412 0.0165 0.0173 0.0145
5 10 9 8 5 5
5 10 9 8 5 5
""") * np.array([[1], [1], [1], [1], [1e5], [1e2]])
# Lower and upper [degree], speed [degree/s].
TX40_LIMITS = _rows("""
-180 -125 -138 -270 -120 -270
180 125 138 270 133.5 270
287 287 430 410 320 700
""")
RV2SQ_LIMITS = _rows("""
-240 -120 0 -200 -90 -360
240 120 160 200 90 360
225 150 275 412 450 720
""")

ROBOTS = {
    "tx40": (TX40_DH, 0.32, TX40_JOINTS, TX40_LIMITS),
    "tx40-coupled": (TX40_DH, 0.32, TX40_JOINTS, TX40_LIMITS),
    "rv2sq": (RV2SQ_DH, 0.0, RV2SQ_JOINTS, RV2SQ_LIMITS),
}


def test_all_built_ins_are_tested_here():
    assert builtin_names() == tuple(sorted(ROBOTS))


@pytest.mark.parametrize("name", ROBOTS)
def test_geometry(name):
    table, height, _, limits = ROBOTS[name]
    robot = load_robot(name)
    for j, (theta, d, a, alpha) in enumerate(table):
        ct, st, ca, sa = np.cos(theta), np.sin(theta), np.cos(alpha), np.sin(alpha)
        T = np.array(
            [
                [ct, -st, 0, a],
                [st * ca, ct * ca, -sa, -sa * d],
                [st * sa, ct * sa, ca, ca * d + (height if j == 0 else 0.0)],
                [0, 0, 0, 1],
            ]
        )
        placement = robot.model.jointPlacements[j + 1]
        np.testing.assert_allclose(placement.homogeneous, T, rtol=0, atol=1e-15)
        assert robot.model.joints[j + 1].shortname() == "JointModelRZ"
    np.testing.assert_array_equal(robot.model.gravity.linear, [0, 0, -9.81])
    np.testing.assert_allclose(robot.position_limits, np.deg2rad(limits[:2]), rtol=1e-15)
    np.testing.assert_allclose(robot.velocity_limit, np.deg2rad(limits[2]), rtol=1e-15)
    np.testing.assert_array_equal(robot.acceleration_limit, np.full(6, 50.0))


@pytest.mark.parametrize("name", ["tx40", "tx40-coupled"])
def test_tx40_inertias(name):
    order = [0, 1, 2, 3, 4, 5, 7, 6, 8, 9]  # YY and XZ change places
    pi = load_robot(name).theta[:60].reshape(6, 10)
    np.testing.assert_array_equal(pi, TX40_LINKS[:, order])


def test_rv2sq_inertias():
    robot = load_robot("rv2sq")
    for k, (m, x, y, z, xx, xy, xz, yy, yz, zz) in enumerate(RV2SQ_LINKS):
        tensor = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
        expected = pin.Inertia(m, np.array([x, y, z]), tensor).toDynamicParameters()
        np.testing.assert_allclose(robot.pi(k), expected, rtol=1e-14, atol=1e-16)


@pytest.mark.parametrize("name", ROBOTS)
def test_joints_and_control(name):
    robot = load_robot(name)
    Ia, Fv, Fc, gain, kp, kd = ROBOTS[name][2]
    np.testing.assert_array_equal(robot.theta[robot.layout.rotor], Ia)
    np.testing.assert_array_equal(robot.theta[robot.layout.friction("Fv")], Fv)
    np.testing.assert_array_equal(robot.theta[robot.layout.friction("Fc")], Fc)
    np.testing.assert_array_equal(robot.actuators.drive_gain, gain)
    assert robot.controller is not None
    np.testing.assert_allclose(robot.controller.kp, kp, rtol=1e-15)
    np.testing.assert_allclose(robot.controller.kd, kd, rtol=1e-15)
    np.testing.assert_array_equal(robot.controller.ki, np.zeros(6))
    assert robot.controller.rate == 5000.0


@pytest.mark.parametrize("name", ROBOTS)
def test_published_links_are_physical_bodies(name):
    assert all(check.consistent for check in load_robot(name).consistency())


@pytest.mark.parametrize("name", ROBOTS)
def test_default_friction_has_a_sharp_sign(name):
    friction = load_robot(name).friction
    assert friction.model.name == "coulomb"
    np.testing.assert_array_equal(friction.shape, np.zeros((6, 1)))


@pytest.mark.parametrize("law", ["stribeck", "lugre"])
@pytest.mark.parametrize("name", ["tx40", "tx40-coupled"])
def test_tx40_stribeck_curve(name, law):
    robot = load_robot(name, friction=law)
    assert robot.friction.model.name == law
    assert robot.notes == ()
    Fs = robot.theta[robot.layout.friction("Fs")]
    np.testing.assert_array_equal(Fs, [4.78, 7.97, 5.81, 2.15, 0.0, 0.0])
    columns = dict(zip(robot.friction.model.shape, robot.friction.shape.T, strict=True))
    np.testing.assert_array_equal(columns["vs"], [0.025, 0.05, 0.05, 0.05, 0.05, 0.05])
    np.testing.assert_array_equal(columns["delta"], [2.09, 2.78, 2.72, 1.60, 2.0, 2.0])
    np.testing.assert_array_equal(columns["width"], np.zeros(6))
    if law == "lugre":
        np.testing.assert_array_equal(columns["sigma0"], np.full(6, 0.1))
        np.testing.assert_array_equal(columns["sigma1"], np.full(6, 0.1))


def test_wrist_coupling():
    robot = load_robot("tx40-coupled")
    R = np.diag([32.0, 32.0, 45.0, -48.0, 45.0, 32.0])
    R[5, 4] = 32.0
    np.testing.assert_array_equal(robot.actuators.motor_from_joint, R)
    assert robot.parameter("Fvm6") == 0.8
    assert robot.parameter("Fcm6") == 1.6
    assert robot.layout.coupled == (("Fvm", 5), ("Fcm", 5))
    assert load_robot("tx40").layout.coupled == ()


def test_what_is_not_published_is_noted():
    assert load_robot("rv2sq").notes == ()
    (note,) = load_robot("rv2sq", friction="stribeck").notes
    assert "Fs not given" in note


def test_unknown_names():
    with pytest.raises(UnknownNameError, match="did you mean 'tx40'"):
        load_robot("tx4")
    with pytest.raises(UnknownNameError, match="unknown friction model"):
        load_robot("tx40", friction="magic")
