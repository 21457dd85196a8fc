import numpy as np
import pytest

from bodysense.errors import MismatchError, ShapeError
from bodysense.excitation import FourierTrajectory
from bodysense.robot import load_robot, mass_matrix, suggested_controller
from bodysense.simulation import rollout


@pytest.mark.parametrize("name", ["rv2sq", "example:panda", "example:ur5", "example:tiago"])
def test_it_keeps_a_robot_on_its_reference(name):
    robot = load_robot(name)
    motion = FourierTrajectory.for_robot(
        robot, duration=2.0, harmonics=5, rng=np.random.default_rng(0)
    )
    run = rollout(robot, motion, controller=suggested_controller(robot), sampling_rate=100.0)
    assert run.ok
    q_d, _, _ = motion(run.t)
    assert np.abs(run.q[0] - q_d).max() < 0.4  # rad or m; light wrists sag under gravity
    assert np.median(np.abs(run.q[0] - q_d)) < 0.02


def test_no_mode_is_faster_than_the_control_rate():
    robot = load_robot("example:panda")
    controller = suggested_controller(robot, bandwidth=40.0, rate=800.0)
    damping = robot.actuators.drive_gain * controller.kd
    q = np.random.default_rng(1).uniform(-1.0, 1.0, (20, robot.nq))
    for M in mass_matrix(robot, q):
        fastest = np.linalg.eigvals(np.linalg.solve(M, np.diag(damping))).real.max()
        assert fastest < 1.2 * controller.rate  # the bound is exact on the sampled postures only


def test_one_joint_is_critically_damped():
    robot = load_robot("example:ur5")
    controller = suggested_controller(robot, bandwidth=1.0, rate=10_000.0)
    np.testing.assert_allclose(
        controller.kd**2 / (4.0 * controller.kp), controller.kd / (4 * np.pi)
    )


def test_bad_input():
    with pytest.raises(ShapeError, match=r"bandwidth of 300 Hz .* at most a twentieth"):
        suggested_controller(load_robot("tx40"), bandwidth=300.0)
    with pytest.raises(MismatchError, match="floating_base=False"):
        suggested_controller(load_robot("example:go1"))
