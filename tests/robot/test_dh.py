from __future__ import annotations

import copy
import time
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
import yaml

from bodysense.errors import (
    InconsistentInertiaError,
    MismatchError,
    RobotFileError,
    UnknownNameError,
)
from bodysense.robot.io.dh import load_dh

# -- the oracle: homogeneous transforms multiplied out, derivatives by complex steps ------------


def _rotation(axis, angle):
    c, s = np.cos(angle), np.sin(angle)
    one = np.ones_like(c)
    zero = np.zeros_like(c)
    if axis == "x":
        rows = [[one, zero, zero, zero], [zero, c, -s, zero], [zero, s, c, zero]]
    elif axis == "y":
        rows = [[c, zero, s, zero], [zero, one, zero, zero], [-s, zero, c, zero]]
    else:
        rows = [[c, -s, zero, zero], [s, c, zero, zero], [zero, zero, one, zero]]
    return np.array([*rows, [zero, zero, zero, one]])


def _translation(x, y, z):
    T = np.eye(4, dtype=np.result_type(x, y, z, float))
    T[:3, 3] = x, y, z
    return T


def _poses(table, q):
    """T_world_link of every link, by the textbook products of each convention."""
    base = table["base"]
    roll, pitch, yaw = base["rpy"]
    T = (
        _translation(*base["xyz"])
        @ _rotation("z", np.float64(yaw))
        @ _rotation("y", np.float64(pitch))
        @ _rotation("x", np.float64(roll))
    )
    poses = []
    for joint, value in zip(table["joints"], q, strict=True):
        slides = joint["type"] == "prismatic"
        theta = joint["theta"] + (0.0 if slides else value)
        d = joint["d"] + (value if slides else 0.0)
        about_z = _rotation("z", theta) @ _translation(0.0, 0.0, d)
        about_x = _rotation("x", np.float64(joint["alpha"])) @ _translation(joint["a"], 0.0, 0.0)
        T = T @ (about_x @ about_z if table["convention"] == "modified" else about_z @ about_x)
        poses.append(T)
    return poses


def _moments(link):
    """4x4 second moments of a link about its DH frame, from the definition."""
    m, c = link["mass"], np.array(link["com"])
    six = link["inertia"]
    I = np.array(
        [
            [six["xx"], six["xy"], six["xz"]],
            [six["xy"], six["yy"], six["yz"]],
            [six["xz"], six["yz"], six["zz"]],
        ]
    )
    P = np.zeros((4, 4))
    P[:3, :3] = 0.5 * np.trace(I) * np.eye(3) - I + m * np.outer(c, c)
    P[:3, 3] = P[3, :3] = m * c
    P[3, 3] = m
    return P


def _pose_derivatives(table, q):
    """dT_world_link / dq_j by complex steps, [j][link]."""
    derivatives = []
    for j in range(len(q)):
        step = np.asarray(q, dtype=complex)
        step[j] += 1e-30j
        derivatives.append([T.imag / 1e-30 for T in _poses(table, step)])
    return derivatives


def _mass_matrix(table, q):
    """M_jk with kinetic energy sum over links of tr(Tdot P Tdotᵀ) / 2 = vᵀ M v / 2."""
    n = len(q)
    dT = _pose_derivatives(table, q)
    P = [_moments(link) for link in table["links"]]
    return np.array(
        [
            [sum(np.trace(dT[j][i] @ P[i] @ dT[k][i].T) for i in range(n)) for k in range(n)]
            for j in range(n)
        ]
    )


def _gravity_torques(table, q):
    """dU/dq of U = -sum of m g · p_com."""
    g = np.array([*table["gravity"], 0.0])
    dT = _pose_derivatives(table, q)
    return np.array(
        [
            -sum(
                g @ row[i] @ np.array([*link["com"], 1.0]) * link["mass"]
                for i, link in enumerate(table["links"])
            )
            for row in dT
        ]
    )


# -- tables ----------------------------------------------------------------------------------


def _random_table(rng, convention, types="RRPRP"):
    n = len(types)
    joints = [
        {
            "name": f"j{k}",
            "type": "revolute" if types[k] == "R" else "prismatic",
            **{key: float(rng.uniform(-1.5, 1.5)) for key in ("theta", "d", "a", "alpha")},
        }
        for k in range(n)
    ]
    links = []
    for k in range(n):
        A = rng.normal(size=(3, 3))
        Sigma = A @ A.T * 0.01
        I = np.trace(Sigma) * np.eye(3) - Sigma
        links.append(
            {
                "name": f"l{k}",
                "mass": float(rng.uniform(0.5, 5.0)),
                "com": rng.uniform(-0.3, 0.3, 3).tolist(),
                "inertia_about": "com",
                "inertia": {
                    "xx": float(I[0, 0]),
                    "xy": float(I[0, 1]),
                    "xz": float(I[0, 2]),
                    "yy": float(I[1, 1]),
                    "yz": float(I[1, 2]),
                    "zz": float(I[2, 2]),
                },
            }
        )
    return {
        "name": "random",
        "convention": convention,
        "base": {"xyz": rng.normal(size=3).tolist(), "rpy": rng.normal(size=3).tolist()},
        "gravity": rng.normal(size=3).tolist(),
        "joints": joints,
        "links": links,
    }


def _save(table, folder: Path, name="robot.yaml"):
    path = folder / name
    path.write_text(yaml.safe_dump(table))
    return path


@pytest.fixture
def table():
    return _random_table(np.random.default_rng(7), "modified", "RP")


# -- kinematics and dynamics -----------------------------------------------------------------


@pytest.mark.parametrize("convention", ["modified", "standard"])
@pytest.mark.parametrize("seed", range(4))
def test_link_poses_are_the_products_of_the_table(tmp_path, convention, seed):
    rng = np.random.default_rng(seed)
    table = _random_table(rng, convention)
    robot = load_dh(_save(table, tmp_path))
    q = rng.uniform(-2.0, 2.0, robot.nq)
    data = robot.model.createData()
    pin.framesForwardKinematics(robot.model, data, q)
    for link, T in zip(table["links"], _poses(table, q), strict=True):
        frame = robot.model.getFrameId(link["name"], pin.FrameType.BODY)
        np.testing.assert_allclose(data.oMf[frame].homogeneous, T, rtol=0, atol=1e-13)


@pytest.mark.parametrize("convention", ["modified", "standard"])
@pytest.mark.parametrize("seed", range(4))
def test_mass_matrix_and_gravity_follow_from_the_energies(tmp_path, convention, seed):
    rng = np.random.default_rng(seed)
    table = _random_table(rng, convention)
    robot = load_dh(_save(table, tmp_path))
    q = rng.uniform(-2.0, 2.0, robot.nq)
    data = robot.model.createData()
    M = pin.crba(robot.model, data, q)
    M = np.triu(M) + np.triu(M, 1).T
    np.testing.assert_allclose(M, _mass_matrix(table, q), rtol=1e-12, atol=1e-12)
    g = pin.computeGeneralizedGravity(robot.model, data, q)
    np.testing.assert_allclose(g, _gravity_torques(table, q), rtol=1e-12, atol=1e-12)


def test_degrees_scale_angles_and_turning_speeds_alone(tmp_path, table):
    for joint in table["joints"]:
        joint.update(lower=-1.0, upper=2.0, velocity=3.0, effort=4.0)
    in_radians = load_dh(_save(table, tmp_path))
    scaled = copy.deepcopy(table)
    scaled["degrees"] = True
    scaled["base"]["rpy"] = np.rad2deg(table["base"]["rpy"]).tolist()
    for joint in scaled["joints"]:
        angles = ["theta", "alpha"]
        angles += ["lower", "upper", "velocity"] if joint["type"] == "revolute" else []
        joint.update({key: float(np.rad2deg(joint[key])) for key in angles})
    in_degrees = load_dh(_save(scaled, tmp_path, "degrees.yaml"))
    for i in (1, 2):
        np.testing.assert_allclose(
            in_degrees.model.jointPlacements[i].homogeneous,
            in_radians.model.jointPlacements[i].homogeneous,
            rtol=0,
            atol=1e-15,
        )
    np.testing.assert_allclose(in_degrees.position_limits, in_radians.position_limits, rtol=1e-15)
    np.testing.assert_allclose(in_degrees.velocity_limit, [3.0, 3.0], rtol=1e-15)
    np.testing.assert_array_equal(in_degrees.effort_limit, [4.0, 4.0])


def test_the_same_link_in_its_four_spellings(tmp_path, table):
    com = load_dh(_save(table, tmp_path)).theta
    m, c = table["links"][0]["mass"], np.array(table["links"][0]["com"])
    P = _moments(table["links"][0])
    I = np.trace(P[:3, :3]) * np.eye(3) - P[:3, :3]  # about the origin
    six = {f"{'xyz'[i]}{'xyz'[j]}": float(I[i, j]) for i in range(3) for j in range(i, 3)}
    pi = [m, *(m * c), I[0, 0], I[0, 1], I[1, 1], I[0, 2], I[1, 2], I[2, 2]]
    moment = (m * c).tolist()
    central = table["links"][0]["inertia"]
    spellings = [
        {"mass": m, "first_moment": moment, "inertia": six, "inertia_about": "origin"},
        {"mass": m, "com": c.tolist(), "inertia": six, "inertia_about": "origin"},
        {"mass": m, "first_moment": moment, "inertia": central, "inertia_about": "com"},
        {"pi": [float(value) for value in pi]},
    ]
    for spelling in spellings:
        table["links"][0] = {"name": "l0", **spelling}
        np.testing.assert_allclose(
            load_dh(_save(table, tmp_path)).theta, com, rtol=1e-13, atol=1e-15
        )
    np.testing.assert_array_equal(load_dh(_save(table, tmp_path)).pi("l0"), pi)  # to the last bit


def test_defaults(tmp_path, table):
    del table["gravity"], table["base"], table["name"]
    robot = load_dh(_save(table, tmp_path, "arm.yaml"))
    assert robot.name == "arm"
    assert robot.link_names == ("l0", "l1")
    assert robot.joint_names == ("j0", "j1")
    np.testing.assert_array_equal(robot.model.gravity.linear, [0.0, 0.0, -9.81])
    np.testing.assert_array_equal(robot.position_limits, [[-np.inf] * 2, [np.inf] * 2])
    np.testing.assert_array_equal(robot.velocity_limit, [np.inf] * 2)
    np.testing.assert_array_equal(robot.effort_limit, [np.inf] * 2)
    assert robot.source is not None
    assert robot.source.format == "dh"
    assert robot.source.data == (tmp_path / "arm.yaml").read_bytes()


def test_actuators_section(tmp_path, table):
    table["actuators"] = {
        "rotor_inertia": [0.1, 0.2],
        "friction": {"model": "stribeck", "coefficients": {"Fv": 1, "Fc": 2, "Fs": 3}},
    }
    robot = load_dh(_save(table, tmp_path))
    assert robot.parameter("Ia2") == 0.2
    assert robot.parameter("Fs1") == 3.0
    assert robot.notes == ()
    robot = load_dh(_save(table, tmp_path), friction="offset")
    assert robot.layout.friction_terms == ("Fv", "Fc", "Fo")
    assert robot.parameter("Fc1") == 2.0
    assert robot.parameter("Fo1") == 0.0
    assert robot.notes == ("friction 'offset': Fo not given, taken as zero",)


# -- extends ---------------------------------------------------------------------------------


def test_extends_merges_mappings_and_replaces_lists(tmp_path, table):
    table["actuators"] = {"rotor_inertia": [0.1, 0.2], "gear_ratio": [5, 6]}
    _save(table, tmp_path, "base.yaml")
    child = {"extends": "base.yaml", "name": "child", "actuators": {"gear_ratio": [7, 8]}}
    robot = load_dh(_save(child, tmp_path, "child.yaml"))
    assert robot.name == "child"
    np.testing.assert_array_equal(robot.actuators.gear_ratio, [7.0, 8.0])
    assert robot.parameter("Ia2") == 0.2


@pytest.mark.parametrize("name", ["../base.yaml", "/etc/hostname", "a/b.yaml", "..", "", 5])
def test_extends_stays_in_its_folder(tmp_path, name):
    with pytest.raises(RobotFileError, match="same folder"):
        load_dh(_save({"extends": name}, tmp_path))


def test_extends_in_a_circle(tmp_path):
    _save({"extends": "b.yaml"}, tmp_path, "a.yaml")
    _save({"extends": "a.yaml"}, tmp_path, "b.yaml")
    with pytest.raises(RobotFileError, match="circle"):
        load_dh(tmp_path / "a.yaml")


def test_extends_a_missing_file(tmp_path):
    with pytest.raises(RobotFileError, match=r"cannot read .*nowhere\.yaml"):
        load_dh(_save({"extends": "nowhere.yaml"}, tmp_path))


# -- bad input -------------------------------------------------------------------------------


def test_missing_file_and_folder(tmp_path):
    with pytest.raises(RobotFileError, match=r"cannot read .*none\.yaml: No such file"):
        load_dh(tmp_path / "none.yaml")
    with pytest.raises(RobotFileError, match="is a folder"):
        load_dh(tmp_path)


def test_oversized_file(tmp_path):
    path = tmp_path / "large.yaml"
    path.write_bytes(b"#" * (2**20 + 1))
    with pytest.raises(RobotFileError, match="too large for a DH table"):
        load_dh(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty"),
        ("- 1\n- 2\n", "must be a YAML mapping"),
        ("name: a\njoints: [1, 2\nlinks: 3\n", r"line 3, column \d+: not valid YAML"),
        ("name: !!python/object/apply:os.system [ls]", "not valid YAML"),
        ("convention: modified\nlinks: []\n", "joints: missing"),
        ("name: a\n", "convention missing"),
    ],
)
def test_broken_files(tmp_path, text, message):
    path = tmp_path / "robot.yaml"
    path.write_text(text)
    with pytest.raises(RobotFileError, match=message):
        load_dh(path)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda t: t.update(convention="modifed"), UnknownNameError, "did you mean 'modified'"),
        (lambda t: t.update(gravty=[0, 0, 0]), UnknownNameError, "did you mean 'gravity'"),
        (lambda t: t.update(degrees="yes please"), RobotFileError, "degrees: .* true nor false"),
        (lambda t: t.update(joints={}), RobotFileError, "joints: missing or not a list"),
        (lambda t: t.update(links=[]), RobotFileError, "links: missing or not a list"),
        (lambda t: t["links"].pop(), RobotFileError, "2 joints but 1 links"),
        (lambda t: t.update(name=5), RobotFileError, "name: 5 is not a name"),
        (lambda t: t.update(gravity=[0, 0]), RobotFileError, "gravity: expected a list of 3"),
        (lambda t: t.update(gravity=9.81), RobotFileError, "gravity: expected a list of 3"),
        (lambda t: t["base"].update(xyz="up"), RobotFileError, "base, xyz: expected a list"),
        (lambda t: t["base"].update(rpz=[]), UnknownNameError, "did you mean 'rpy'"),
        (lambda t: t["joints"].insert(0, 3), RobotFileError, "joints, entry 1: expected a mapping"),
        (lambda t: t["joints"][1].pop("alpha"), RobotFileError, r"entry 2 \(j1\): alpha missing"),
        (lambda t: t["joints"][1].update(alhpa=0), UnknownNameError, "did you mean 'alpha'"),
        (lambda t: t["joints"][1].update(type="ball"), UnknownNameError, "revolute, prismatic"),
        (lambda t: t["joints"][1].update(type=["revolute"]), UnknownNameError, "unknown type"),
        (lambda t: t["joints"][1].update(name="j0"), RobotFileError, "'j0' occurs twice"),
        (lambda t: t["links"][1].update(name="l0"), RobotFileError, "'l0' occurs twice"),
        (lambda t: t["joints"][1].update(name="universe"), RobotFileError, "'universe' occurs"),
        (lambda t: t["joints"][0].update(a=float("nan")), RobotFileError, "j0.*a: .* got nan"),
        (lambda t: t["joints"][0].update(d="far"), RobotFileError, "d: expected a finite number"),
        (lambda t: t["joints"][0].update(d=True), RobotFileError, "d: expected a finite number"),
        (lambda t: t["joints"][0].update(lower=2, upper=1), RobotFileError, "lower is above upper"),
        (
            lambda t: t["joints"][0].update(velocity=0),
            RobotFileError,
            "velocity: 0 is not positive",
        ),
        (lambda t: t["joints"][0].update(effort=-1), RobotFileError, "effort: -1 is not positive"),
        (lambda t: t["links"][0].pop("mass"), RobotFileError, r"entry 1 \(l0\): mass missing"),
        (lambda t: t["links"][0].pop("inertia_about"), RobotFileError, "inertia_about missing"),
        (lambda t: t["links"][0].pop("com"), RobotFileError, "either com or first_moment"),
        (
            lambda t: t["links"][0].update(first_moment=[0, 0, 0]),
            RobotFileError,
            "either com or first_moment",
        ),
        (
            lambda t: t["links"][0].update(inertia_about="center"),
            UnknownNameError,
            "origin, com",
        ),
        (lambda t: t["links"][0]["inertia"].pop("zz"), RobotFileError, "inertia: zz missing"),
        (lambda t: t["links"][0]["inertia"].update(zx=0), UnknownNameError, "unknown key 'zx'"),
        (lambda t: t["links"][0].update(pi=[1] * 10), RobotFileError, "pi holds all"),
        (
            lambda t: t["links"].__setitem__(0, {"name": "l0", "pi": [1] * 9}),
            RobotFileError,
            "pi: expected a list of 10",
        ),
        (
            lambda t: t["links"].__setitem__(0, {"name": "l0", "pi": [0, 1] + [0] * 8}),
            RobotFileError,
            "first moment but no mass",
        ),
        (lambda t: t.update(actuators={"gears": 1}), UnknownNameError, "unknown key 'gears'"),
        (lambda t: t.update(actuators={"gear_ratio": [1] * 3}), MismatchError, "3 values for 2"),
        (lambda t: t["links"][0].update(mass=-1), InconsistentInertiaError, "'l0': the mass is -1"),
        (
            lambda t: t["links"][1]["inertia"].update(zz=9.0),
            InconsistentInertiaError,
            "'l1': the principal moments",
        ),
    ],
)
def test_bad_tables(tmp_path, table, change, error, message):
    change(table)
    with pytest.raises(error, match=message):
        load_dh(_save(table, tmp_path), allow_inconsistent=False)


def test_unknown_friction(tmp_path, table):
    with pytest.raises(UnknownNameError, match="did you mean 'stribeck'"):
        load_dh(_save(table, tmp_path), friction="stribek")


@pytest.mark.parametrize(
    "pi", [[-1.0] + [0.0] * 9, [0.0] * 4 + [1.0] * 6, [1, 0, 0, 0, 1, 0, 1, 0, 0, 9]]
)
def test_inconsistent_links_load_unless_they_are_refused(tmp_path, table, pi):
    table["links"][0] = {"name": "l0", "pi": pi}
    path = _save(table, tmp_path)
    with pytest.raises(InconsistentInertiaError, match="'l0'"):
        load_dh(path, allow_inconsistent=False)
    np.testing.assert_array_equal(load_dh(path).pi("l0"), pi)


@pytest.mark.parametrize("text", ["[", "{", "[{a: ", "- ", "? "])
def test_brackets_without_end_are_refused_at_once(text, tmp_path):
    path = tmp_path / "deep.yaml"
    path.write_text("joints: " * (text in "[{") + text * (20_000 // len(text)))
    start = time.process_time()
    with pytest.raises(RobotFileError):
        load_dh(path)
    assert time.process_time() - start < 5.0
