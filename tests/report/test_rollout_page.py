import numpy as np
import pinocchio as pin
import pytest

from bodysense.errors import MismatchError, ShapeError
from bodysense.excitation import FourierTrajectory, HoldTrajectory
from bodysense.report import write_rollout_page
from bodysense.report.figures import stick_figure
from bodysense.robot import Controller, load_robot, suggested_controller
from bodysense.simulation import rollout


def test_the_page_shows_the_run_and_its_reference(tmp_path):
    robot = load_robot("tx40")
    motion = FourierTrajectory.for_robot(
        robot, duration=0.5, harmonics=5, rng=np.random.default_rng(0)
    )
    run = rollout(robot, motion, sampling_rate=500.0)
    page = write_rollout_page(tmp_path / "run.html", robot, run, motion, facts={"who": "<me>"})
    text = page.read_text(encoding="utf-8")
    for part in ("TX40 in closed loop", "position [rad]", "torque [N·m]", "&lt;me&gt;", "all comp"):
        assert part in text


def test_a_lost_run_still_gets_its_page(tmp_path):
    robot = load_robot("tx40").with_controller(
        Controller.from_gains(6, kp=0.0, kd=-1e3, rate=1000.0)
    )
    motion = HoldTrajectory(np.full(6, 0.1), 1.0)
    run = rollout(robot, motion)
    assert not run.ok
    text = write_rollout_page(tmp_path / "lost.html", robot, run, motion).read_text("utf-8")
    assert "the loop is unstable" in text


def test_sliding_joints_have_their_units(tmp_path):
    model = pin.Model()
    joint = model.addJoint(0, pin.JointModelPZ(), pin.SE3.Identity(), "lift")
    model.appendBodyToJoint(joint, pin.Inertia.FromSphere(2.0, 0.1), pin.SE3.Identity())
    from bodysense.robot import Robot

    robot = Robot.from_pinocchio(model)
    assert robot.joint_types == ("prismatic",)
    motion = HoldTrajectory(np.zeros(1), 0.1)
    run = rollout(robot, motion, controller=suggested_controller(robot))
    text = write_rollout_page(tmp_path / "lift.html", robot, run, motion).read_text("utf-8")
    assert "velocity [rad/s, m/s]" in text
    assert "torque [N·m, N]" in text


def test_the_figure_stands_where_the_joints_are():
    robot = load_robot("rv2sq")
    q = np.array([[0.1, -0.2, 0.3, 0.4, -0.5, 0.6]])
    points, parents = stick_figure(robot, q)
    data = robot.model.createData()
    pin.forwardKinematics(robot.model, data, q[0])
    for joint in range(7):
        np.testing.assert_allclose(points[0, joint], data.oMi[joint].translation, atol=1e-12)
    assert parents == [-1, 0, 1, 2, 3, 4, 5, 6]


def test_the_figure_of_a_lost_run_stands_still_where_it_was_lost(tmp_path, monkeypatch):
    drawn = {}
    monkeypatch.setattr(
        "bodysense.report.motion_page.write_motion_page",
        lambda path, **given: drawn.update(given),
    )
    robot = load_robot("tx40").with_controller(
        Controller.from_gains(6, kp=0.0, kd=-1e3, rate=1000.0)
    )
    motion = HoldTrajectory(np.full(6, 0.1), 1.0)
    run = rollout(robot, motion)
    write_rollout_page(tmp_path / "lost.html", robot, run, motion)
    last = int(np.isfinite(run.q[0]).all(axis=1).sum()) - 1
    times = np.linspace(run.t[0], run.t[-1], len(drawn["bodies"]))
    after = times > run.t[last]
    expected, _ = stick_figure(robot, run.q[0, last : last + 1])
    assert after.any()
    np.testing.assert_array_equal(drawn["bodies"][after], np.repeat(expected, after.sum(), axis=0))


def test_a_run_of_another_robot_is_refused(tmp_path):
    robot = load_robot("tx40")
    motion = HoldTrajectory(np.zeros(6), 0.1)
    run = rollout(robot, motion)
    with pytest.raises(MismatchError, match="another robot than 'ur5'"):
        write_rollout_page(tmp_path / "x.html", load_robot("example:ur5"), run, motion)
    with pytest.raises(ShapeError, match="run is 3: there are 1"):
        write_rollout_page(tmp_path / "x.html", robot, run, motion, run=3)
