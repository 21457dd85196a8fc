"""What a rollout hands back: samples, losses, files; and what it refuses."""

from __future__ import annotations

import json
import math
import shutil

import numpy as np
import pinocchio as pin
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bodysense.errors import BodysenseError, MismatchError, ShapeError, UnknownNameError
from bodysense.excitation import HoldTrajectory
from bodysense.files import FileReadError
from bodysense.robot import Controller, Robot
from bodysense.simulation import Rollout, rollout

ARRAYS = ("q", "v", "a", "tau", "q_measured", "tau_measured")
REST = ("t", "lost_at", "effort_limit", "reference")


def pendulum(mass: float = 1.0) -> Robot:
    model = pin.Model()
    model.name = "pendulum"
    joint = model.addJoint(0, pin.JointModelRX(), pin.SE3.Identity(), "hinge")
    inertia = pin.Inertia(mass, np.array([0.0, 0.0, -0.5]), 0.1 * np.eye(3))
    model.appendBodyToJoint(joint, inertia, pin.SE3.Identity())
    return Robot.from_pinocchio(model, coefficients={"Fv": 0.1})


# -- samples -------------------------------------------------------------------------------


@pytest.mark.parametrize(("rate", "count"), [(1000.0, 301), (140.0, 43), (5000.0, 1501), (3.0, 1)])
def test_decimated_samples_are_those_of_the_full_run(rate, count, robot_of, wave_of):
    robot, motion = robot_of("tx40"), wave_of(6)  # 0.3 s
    settings = {"position_noise": 1e-5, "rng": None}
    full, few = (
        rollout(
            robot,
            motion,
            **{**settings, "rng": np.random.default_rng(1)},
            sampling_rate=sampling_rate,
        )
        for sampling_rate in (None, rate)
    )
    assert few.t.shape == (count,)
    steps = [round(k * 5000.0 / rate) for k in range(count)]
    np.testing.assert_array_equal(few.t, full.t[steps])
    np.testing.assert_array_equal(few.reference, full.reference[steps])
    assert np.abs(few.t - np.arange(count) / rate).max() <= 0.5 / 5000.0
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(few, name), getattr(full, name)[:, steps])


@given(
    control=st.sampled_from([100.0, 300.0, 997.0]),
    fraction=st.floats(0.01, 1.0),
    duration=st.floats(0.02, 0.5),
)
@settings(max_examples=60)
def test_samples_of_any_rate(control, fraction, duration):
    robot, rate = pendulum(), control * fraction
    result = rollout(
        robot,
        HoldTrajectory([0.1], duration),
        controller=Controller.from_gains(1, kp=1.0, kd=1.0, rate=control),
        sampling_rate=rate,
    )
    n = result.t.size
    assert np.abs(result.t - np.arange(n) / rate).max() <= 0.5 / control * (1.0 + 1e-9)
    assert (np.diff(result.t) > 0.0).all()
    last = math.floor(duration * control * (1.0 + 1e-12) + 1e-12) / control
    assert result.t[-1] <= last + 1e-12
    assert n / rate > last - 1e-9  # one more would lie behind the end
    assert np.isfinite(result.q).all()


def test_what_the_controller_was_told_is_kept_and_logged(robot_of, wave_of):
    robot, motion = robot_of("tx40"), wave_of(6)
    result = rollout(robot, motion, sampling_rate=140.0, runs=2, start=(np.ones(6), np.zeros(6)))
    told, _, _ = motion(result.t)
    np.testing.assert_allclose(result.reference, told, atol=1e-12)
    for run in range(2):
        log = result.log(run)
        np.testing.assert_array_equal(log.joints("q_des", robot.joint_names), result.reference)
        assert all(log.units[f"q_des.{name}"] == "rad" for name in robot.joint_names)
        assert list(log.channels)[:6] == [f"q.{name}" for name in robot.joint_names]


# -- loss ----------------------------------------------------------------------------------

WILD = {"kp": 0.0, "kd": 600.0, "rate": 500.0}  # the velocity is overcompensated at each step


@pytest.mark.parametrize("sampling_rate", [None, 70.0])
@pytest.mark.parametrize("integrator", ["euler", "rk4"])
def test_an_unstable_loop_is_lost(integrator, sampling_rate, plainly):
    robot, motion = pendulum(), HoldTrajectory([0.0], 1.0)
    start = (np.array([0.5]), np.array([0.0]))
    settings = {
        "controller": Controller.from_gains(1, **WILD),
        "integrator": integrator,
        "start": start,
    }
    with np.errstate(all="ignore"):
        expected = plainly(robot, motion, **settings)
    sane = (np.abs(expected.q) < 1e9) & (np.abs(expected.v) < 1e9)
    first = int(np.argmin(sane))
    result = rollout(robot, motion, sampling_rate=sampling_rate, **settings)
    assert result.lost_at.shape == (1,)
    assert result.lost_at[0] == pytest.approx(first / 500.0, abs=1e-12)
    assert 0.0 < result.lost_at[0] < 1.0
    before = result.t < result.lost_at[0]
    for name in ARRAYS:
        assert np.isfinite(getattr(result, name)[0, before]).all()
        assert np.isnan(getattr(result, name)[0, ~before]).all()
    assert not result.ok
    text = result.summary()
    assert f"1 lost, the first (run 0) at {result.lost_at[0]:g} s" in text
    for advice in ("unstable", "Lower the gains", "control rate", "substeps", "rk4", "positive"):
        assert advice in text


def test_a_lost_run_leaves_the_others_alone(wave_of):
    robot, motion = pendulum(), HoldTrajectory([0.2], 0.5)
    controller = Controller.from_gains(1, kp=20.0, kd=30.0, rate=500.0)
    theta = np.tile(robot.theta, (3, 1))
    theta[1, robot.layout.inertial] *= 0.01  # too light for these gains
    settings = {"controller": controller, "start": ([0.0], [0.0]), "torque_noise": 0.1}
    rng = np.random.default_rng(2)
    result = rollout(robot, motion, theta=theta, rng=rng, **settings)
    np.testing.assert_array_equal(np.isnan(result.lost_at), [True, False, True])
    alone = rollout(robot, motion, controller=controller, start=([0.0], [0.0]))
    for run in (0, 2):
        for name in ("q", "v", "a", "tau", "q_measured"):
            np.testing.assert_array_equal(getattr(result, name)[run], getattr(alone, name)[0])
        assert np.isfinite(result.tau_measured[run]).all()
    assert np.isnan(result.tau_measured[1, -1]).all()
    assert "1 lost, the first (run 1)" in result.summary()
    assert alone.summary() == "1 run(s) of 1 joints, 251 samples over 0.5 s, all completed."


@pytest.mark.parametrize("integrator", ["euler", "rk2", "rk4"])
def test_without_inertia_nothing_can_be_simulated(integrator):
    robot = pendulum()
    result = rollout(
        robot,
        HoldTrajectory([0.2], 0.1),
        theta=np.zeros(robot.layout.size),
        controller=Controller.from_gains(1, kp=1.0, kd=1.0, rate=100.0),
        start=([0.1], [0.0]),
        integrator=integrator,
    )
    assert result.lost_at[0] == 0.0
    for name in ARRAYS:
        assert np.isnan(getattr(result, name)).all()


# -- what is refused -----------------------------------------------------------------------

REFUSED = [
    ({"integrator": "rk3"}, UnknownNameError, "unknown integrator 'rk3'.*euler.*rk2.*rk4"),
    ({"integrator": "RK4"}, UnknownNameError, "rk4"),
    ({"substeps": 0}, ShapeError, "substeps is 0: give a whole number, at least one"),
    ({"substeps": -2}, ShapeError, "substeps is -2"),
    ({"substeps": 1.5}, ShapeError, "substeps is 1.5"),
    ({"runs": 0}, ShapeError, "runs is 0: give a whole number, at least one"),
    ({"runs": -1}, ShapeError, "runs is -1"),
    ({"runs": 2.0}, ShapeError, "runs is 2.0"),
    ({"theta": np.full(78, np.nan)}, ShapeError, "theta holds nan"),
    ({"theta": np.ones(77)}, ShapeError, r"theta has shape \(1, 77\), expected \(any, 78\)"),
    ({"theta": np.ones((1, 2, 78))}, ShapeError, "theta has shape"),
    ({"theta": ["heavy"]}, ShapeError, "theta must be an array of numbers"),
    ({"theta": np.ones((0, 78))}, ShapeError, "theta has no rows"),
    ({"theta": np.ones((3, 78)), "runs": 2}, ShapeError, "theta has 3 rows: .* each of the 2"),
    ({"theta": np.ones((2, 78)), "runs": 5}, ShapeError, "theta has 2 rows: .* each of the 5"),
    ({"feed_forward": np.zeros((500, 6))}, ShapeError, r"feed_forward has shape \(500, 6\), .*501"),
    ({"feed_forward": np.zeros((501, 5))}, ShapeError, r"feed_forward has shape \(501, 5\)"),
    ({"feed_forward": np.full((501, 6), np.inf)}, ShapeError, "feed_forward holds inf"),
    ({"start": (np.zeros(5), np.zeros(6))}, ShapeError, r"start position has shape \(5,\)"),
    ({"start": (np.zeros(6), np.zeros(7))}, ShapeError, r"start velocity has shape \(7,\)"),
    ({"start": (np.full(6, np.nan), np.zeros(6))}, ShapeError, "start position holds nan"),
    ({"sampling_rate": 5001.0}, ShapeError, "sampling rate is 5001 Hz.*at most .* 5000 Hz"),
    ({"sampling_rate": 0.0}, ShapeError, "sampling rate is 0 Hz.*above zero"),
    ({"sampling_rate": -1.0}, ShapeError, "sampling rate is -1 Hz"),
    ({"sampling_rate": np.nan}, ShapeError, "sampling rate is nan"),
    ({"position_noise": -1e-5}, ShapeError, "position_noise is -1e-05.*cannot be negative"),
    ({"torque_noise": [1, 1, 1, 1, 1, -2]}, ShapeError, "torque_noise is -2"),
    ({"position_noise": np.ones(5)}, ShapeError, r"position_noise has shape \(5,\)"),
    ({"torque_noise": np.nan}, ShapeError, "torque_noise .*nan"),
    ({"position_noise": "much"}, ShapeError, "position_noise must be a number or an array"),
    ({"position_noise": 1e-5}, BodysenseError, r"noise needs a generator: .*default_rng"),
    ({"torque_noise": 0.1}, BodysenseError, "noise needs a generator"),
    (
        {"controller": Controller.from_gains(7, kp=1.0, kd=1.0, rate=5000.0)},
        MismatchError,
        r"controller is for 7 joints, 'TX40' has 6: .*Controller.from_gains\(6",
    ),
]


@pytest.mark.parametrize(("wrong", "error", "message"), REFUSED)
def test_bad_settings_are_refused(wrong, error, message, robot_of, wave_of):
    with pytest.raises(error, match=message):
        rollout(robot_of("tx40"), wave_of(6, 0.1), **wrong)


def test_robots_that_cannot_be_rolled_out(robot_of, wave_of):
    with pytest.raises(MismatchError, match=r"'random-12' floats.*fixed-base.*floating_base=False"):
        rollout(robot_of("floating"), wave_of(12))
    with pytest.raises(MismatchError, match=r"has no joints.*with joints"):
        rollout(Robot.from_pinocchio(pin.Model()), wave_of(1))
    with pytest.raises(
        MismatchError, match=r"moves 12 axes, 'TX40' has 6 joints \(joint1, .*another robot"
    ):
        rollout(robot_of("tx40"), wave_of(12))
    with pytest.raises(
        MismatchError, match=r"'random-12' comes without a controller.*Controller.from_gains\(12,"
    ):
        rollout(robot_of("serial"), wave_of(12))


# -- files ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A result with a lost run in it, and the folder that it was saved to."""
    robot = pendulum()
    theta = np.tile(robot.theta, (2, 1))
    theta[1, robot.layout.inertial] *= 0.01
    result = rollout(
        robot,
        HoldTrajectory([0.2], 0.1),
        theta=theta,
        controller=Controller.from_gains(1, kp=20.0, kd=30.0, rate=500.0),
        start=([0.0], [0.0]),
        torque_noise=0.1,
        rng=np.random.default_rng(0),
    )
    assert not result.ok
    folder = tmp_path_factory.mktemp("saved") / "deep" / "down"
    result.save(folder)
    return result, folder


@pytest.fixture
def copy(saved, tmp_path):
    return shutil.copytree(saved[1], tmp_path / "copy")


def test_a_result_survives_its_file(saved):
    result, folder = saved
    assert sorted(path.name for path in folder.iterdir()) == ["rollout.json", "rollout.npz"]
    back = Rollout.load(str(folder))
    for name in (*REST, *ARRAYS):
        one, other = getattr(back, name), getattr(result, name)
        np.testing.assert_array_equal(one, other)
        assert one.dtype == np.float64
    assert back.joint_names == result.joint_names == ("hinge",)
    assert back.summary() == result.summary()
    about = json.loads((folder / "rollout.json").read_text(encoding="utf-8"))
    assert about["summary"] == result.summary()


@pytest.mark.parametrize("name", ["rollout.npz", "rollout.json"])
def test_broken_files_are_refused_by_name(name, copy):
    content = (copy / name).read_bytes()
    for broken in (content[: len(content) // 2], b"", b"junk"):
        (copy / name).write_bytes(broken)
        with pytest.raises(FileReadError, match=rf"{name}.*save the result again"):
            Rollout.load(copy)
    (copy / name).unlink()
    with pytest.raises(FileReadError, match=name):
        Rollout.load(copy)


def test_foreign_files_are_refused(copy, saved):
    arrays = {name: getattr(saved[0], name) for name in (*REST, *ARRAYS)}
    np.savez(copy / "rollout.npz", **{**arrays, "q": arrays["q"][:, :-1]})
    with pytest.raises(FileReadError, match=r"do not belong together.*: save the result again"):
        Rollout.load(copy)
    for name, cut in (("q", arrays["q"][0]), ("reference", arrays["reference"][:-1])):
        np.savez(copy / "rollout.npz", **{**arrays, name: cut})
        with pytest.raises(FileReadError, match="do not belong together"):
            Rollout.load(copy)
    np.savez(copy / "rollout.npz", **{k: v for k, v in arrays.items() if k not in ("a", "tau")})
    with pytest.raises(FileReadError, match=r"rollout.npz lacks a, tau"):
        Rollout.load(copy)
    np.savez(copy / "rollout.npz", **arrays)
    assert Rollout.load(copy).n_runs == 2
    for names in (["hinge", "elbow"], "hinge", 1, {"hinge": 0}):
        (copy / "rollout.json").write_text(json.dumps({"joint_names": names}))
        with pytest.raises(FileReadError, match="do not belong together"):
            Rollout.load(copy)
    (copy / "rollout.json").write_text(json.dumps({"summary": "all well"}))
    with pytest.raises(FileReadError, match=r"rollout.json lacks joint_names"):
        Rollout.load(copy)


class Trap:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return open, (self.path, "w")


def test_pickles_are_never_loaded(copy, saved, tmp_path):
    arrays = {name: getattr(saved[0], name) for name in (*REST, *ARRAYS)}
    trap = np.array([Trap(tmp_path / "sprung")], dtype=object)
    np.savez(copy / "rollout.npz", **{**arrays, "q": trap})
    with pytest.raises(FileReadError, match=r"rollout.npz"):
        Rollout.load(copy)
    assert not (tmp_path / "sprung").exists()
