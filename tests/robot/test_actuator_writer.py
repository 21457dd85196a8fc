from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
import yaml
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from bodysense.errors import InconsistentInertiaError, ShapeError, UnknownNameError
from bodysense.robot import friction as friction_module
from bodysense.robot.actuators import COUPLED_TERMS, Actuators, Controller
from bodysense.robot.friction import Friction, friction_models, register_friction_model
from bodysense.robot.io.actuator_writer import actuator_text, write_actuators
from bodysense.robot.io.load import load_robot
from bodysense.robot.io.urdf import write_urdf
from bodysense.robot.robot import Robot

LAWS = sorted(name for name, law in friction_models().items() if law.custom is None)
ARM = Path(__file__).parents[2] / "examples" / "robots" / "arm.urdf"
BALL = pin.Inertia(1.0, np.array([0.1, 0.0, 0.0]), 0.01 * np.eye(3))

NUMBERS = st.floats(-1e30, 1e30)
POSITIVE = st.floats(1e-300, 1e30)
NOT_ZERO = NUMBERS.filter(lambda value: value != 0.0)


def chain(names, prismatic=(), **options) -> Robot:
    """A chain of joints with these names, some of which slide."""
    model = pin.Model()
    for k, name in enumerate(names):
        joint = pin.JointModelPX() if k in prismatic else pin.JointModelRY()
        i = model.addJoint(k, joint, pin.SE3.Identity(), name)
        model.appendBodyToJoint(i, BALL, pin.SE3.Identity())
    return Robot.from_pinocchio(model, **options)


def written_and_read(robot: Robot, folder: Path) -> Robot:
    urdf = write_urdf(robot, folder / "robot.urdf")
    return load_robot(urdf, actuators=write_actuators(robot, folder / "drives.yaml"))


def require_same_drives(found: Robot, expected: Robot) -> None:
    """To the last bit."""
    assert found.layout == expected.layout
    start = expected.layout.n_inertial
    np.testing.assert_array_equal(found.theta[start:], expected.theta[start:])
    assert found.friction.model == expected.friction.model
    np.testing.assert_array_equal(found.friction.shape, expected.friction.shape)
    for key in ("gear_ratio", "drive_gain", "coupling", "coupled_terms"):
        np.testing.assert_array_equal(
            getattr(found.actuators, key), getattr(expected.actuators, key)
        )
    assert (found.controller is None) == (expected.controller is None)
    if found.controller is not None and expected.controller is not None:
        for key in ("kp", "kd", "ki", "rate"):
            np.testing.assert_array_equal(
                getattr(found.controller, key), getattr(expected.controller, key)
            )
    np.testing.assert_array_equal(found.acceleration_limit, expected.acceleration_limit)


@st.composite
def random_robots(draw, law: str) -> Robot:
    """Three joints with drives, friction and control of all sizes."""
    n = 3

    def each(numbers):
        alike = numbers.map(lambda value: [value] * n)
        return draw(alike | st.lists(numbers, min_size=n, max_size=n))

    model = friction_models()[law]
    coupling = np.eye(n)
    for motor, joint in draw(st.sets(st.sampled_from([(1, 0), (2, 0), (2, 1)]))):
        coupling[motor, joint] = draw(NOT_ZERO)
    actuators = Actuators.from_values(
        n,
        gear_ratio=each(NOT_ZERO),
        drive_gain=each(st.just(1.0) | NOT_ZERO),
        coupling=coupling,
        coupled_terms=tuple(draw(st.sets(st.sampled_from(COUPLED_TERMS)))),
    )
    coefficients = {"Ia": each(st.just(0.0) | POSITIVE)}
    coefficients |= {term: each(NUMBERS) for term in model.terms}
    for prefix in {prefix for prefix, _ in actuators.coupled}:
        m = len(actuators.coupled_motors)
        coefficients[prefix] = draw(st.lists(NUMBERS, min_size=m, max_size=m))
    controller = None
    if draw(st.booleans()):
        gains = {key: each(NUMBERS) for key in ("kp", "kd", "ki")}
        controller = Controller.from_gains(n, rate=draw(POSITIVE), **gains)
    return chain(
        draw(st.permutations(["shoulder", "elbow", "1e3"])),
        friction=Friction.from_model(law, n, **{key: each(POSITIVE) for key in model.shape}),
        coefficients=coefficients,
        actuators=actuators,
        controller=controller,
        acceleration_limit=each(st.just(np.inf) | POSITIVE),
    )


@pytest.mark.parametrize("law", LAWS)
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_drives_come_back_to_the_last_bit(law, data, tmp_path: Path):
    robot = data.draw(random_robots(law))
    require_same_drives(written_and_read(robot, tmp_path), robot)


@pytest.mark.parametrize(
    "name", ["tx40", "tx40-coupled", "tx40-three", "rv2sq", "serial", "branched"]
)
def test_known_robots_come_back(name, robot_of, tmp_path: Path):
    require_same_drives(written_and_read(robot_of(name), tmp_path), robot_of(name))


def test_the_file_counts_before_the_urdf(tmp_path: Path):
    """Friction that is zero now must not come back from the file of the robot as it was."""
    robot = load_robot(ARM).with_parameter_values({"Fv1": 0.0, "Fc2": 0.0, "Ia3": 0.0})
    drives = write_actuators(robot, tmp_path / "drives.yaml")
    require_same_drives(load_robot(ARM, actuators=drives), robot)


def test_a_law_of_your_own_is_written_by_name(tmp_path: Path, monkeypatch):
    built_in = friction_models()
    monkeypatch.setattr(friction_module, "_REGISTRY", dict(built_in))

    def cubic(v, shape, phi, dphi):
        phi[0], dphi[0] = v**3 / shape[0], 3.0 * v**2 / shape[0]

    law = register_friction_model("cubic: mine", cubic, terms=("F-cubed",), shape={"scale": 2.0})
    robot = chain(["a", "b"], friction=Friction.from_model(law, 2, scale=[1.0, 3.0]))
    robot = robot.with_parameter_values({"F-cubed2": -0.125})
    text = actuator_text(robot)
    assert "register_friction_model before this file is read" in text
    assert "Negative" not in text
    require_same_drives(written_and_read(robot, tmp_path), robot)
    monkeypatch.setattr(friction_module, "_REGISTRY", built_in)
    with pytest.raises(UnknownNameError, match="cubic: mine"):
        load_robot(tmp_path / "robot.urdf", actuators=tmp_path / "drives.yaml")


def test_what_is_default_is_left_out():
    content = yaml.safe_load(actuator_text(chain(["a", "b"])))
    assert content == {
        "rotor_inertia": 0.0,
        "friction": {
            "model": "coulomb",
            "coefficients": {"Fv": 0.0, "Fc": 0.0},
            "shape": {"width": 0.0},
        },
    }


def test_the_text_of_a_coupled_robot(robot_of):
    text = actuator_text(robot_of("tx40-coupled"))
    for line in (
        "# Drives, friction and control of 'TX40 with coupled wrist', written by bodysense.",
        "# motor turns per joint turn",
        "- {motor: joint6, joint: joint5, ratio: 1.0}",
        "  Fvm: 0.8  # viscous, N·m·s/rad",
        "    # Coulomb, N·m",
        "acceleration_limit: 50.0  # rad/s²",
    ):
        assert f"{line}\n" in text
    assert max(map(len, text.splitlines())) <= 96


def test_units_of_sliding_joints():
    assert "rotor_inertia: 0.0  # reflected to the joint, kg\n" in actuator_text(chain(["a"], [0]))
    both = actuator_text(chain(["a", "b"], [0]))
    assert "Fc: 0.0  # Coulomb, N·m (N where a joint slides)\n" in both


@given(values=st.lists(st.floats(0.0, 1e300), min_size=3, max_size=3))
def test_any_reader_of_yaml_gets_numbers(values):
    """Not words, which 1e-05 is without a point."""
    text = actuator_text(chain(["a", "b", "c"], coefficients={"Ia": values}))
    found = yaml.safe_load(text)["rotor_inertia"]
    found = [found] * 3 if isinstance(found, float) else list(found.values())
    assert found == values


@settings(max_examples=200)
@given(names=st.lists(st.text(min_size=1, max_size=30), min_size=2, max_size=12, unique=True))
def test_any_name_of_a_joint_comes_back(names):
    assume("universe" not in names)  # Pinocchio's own
    robot = chain(names, coefficients={"Ia": np.arange(len(names)) + 0.5})
    table = yaml.safe_load(actuator_text(robot))
    assert table["rotor_inertia"] == {name: k + 0.5 for k, name in enumerate(names)}


def test_negative_friction_is_written_with_a_comment(robot_of, tmp_path: Path):
    robot = robot_of("tx40-coupled").with_parameter_values({"Fc2": -0.5, "Fvm6": -0.1})
    text = actuator_text(robot)
    assert (
        "# Negative, which is not physical: Fc of 'joint2', Fvm of 'joint6'. A consistent" in text
    )
    require_same_drives(written_and_read(robot, tmp_path), robot)


def test_an_offset_may_be_negative():
    robot = chain(["a"], friction=Friction.from_model("offset", 1), coefficients={"Fo": -1.0})
    assert "Negative" not in actuator_text(robot)


def test_a_negative_rotor_inertia_is_refused_with_a_remedy(robot_of, tmp_path: Path):
    robot = robot_of("tx40").with_parameter_values({"Ia4": -0.25})
    with pytest.raises(InconsistentInertiaError, match=r"'joint4' is -0.25.*\(pc-wls\)"):
        write_actuators(robot, tmp_path / "drives.yaml")
    assert not list(tmp_path.iterdir())


def test_an_acceleration_limit_that_no_reader_takes_is_refused():
    robot = chain(["a", "b"], acceleration_limit=[math.inf, 0.0])
    with pytest.raises(ShapeError, match="acceleration limit of joint 'b' is 0"):
        actuator_text(robot)
