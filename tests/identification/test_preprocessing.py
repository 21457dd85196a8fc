"""From logs to motions: known derivatives, borders, and settings that make no sense."""

from __future__ import annotations

import numpy as np
import pytest

from bodysense.errors import MismatchError, ShapeError
from bodysense.identification.identifier import require_arguments
from bodysense.identification.preprocessing import Preprocessing, as_logs, motions
from bodysense.logs import Log
from bodysense.logs.filtering import lowpass, standing
from bodysense.robot import load_robot

RATE = 500.0


def log_of(robot, t, q, tau) -> Log:
    names = robot.joint_names
    channels = {f"q.{name}": q[:, k] for k, name in enumerate(names)}
    return Log.of(t, channels | {f"tau.{name}": tau[:, k] for k, name in enumerate(names)})


@pytest.fixture
def settings(small_arm) -> Preprocessing:
    return Preprocessing(cutoff=25.0).settled(small_arm, 25.0)


def test_smooth_motion_comes_with_its_true_derivatives(small_arm, settings, sines, rng):
    t, q, v, a = sines(3, 1, 5000, RATE, slowest=0.2)
    tau = rng.normal(size=q.shape)
    (motion,) = motions(small_arm, [[log_of(small_arm, t, q, tau)]], settings)
    inside = np.searchsorted(t, motion.t)
    # The filter takes next to nothing of 1 Hz: 1 / (1 + (1/25)^8).
    np.testing.assert_allclose(motion.q, q[inside], atol=2e-4)
    middle = slice(200, -200)  # its ends are not that good
    for found, wanted in ((motion.q, q), (motion.v, v), (motion.a, a)):
        error = (found - wanted[inside])[middle]
        assert np.abs(error).max() < 1e-7 * np.abs(wanted).max()
    np.testing.assert_array_equal(motion.tau_raw, tau[inside])
    np.testing.assert_allclose(motion.tau, lowpass(tau, motion.rate, 25.0)[inside], atol=1e-12)
    assert motion.rate == pytest.approx(RATE)


def test_borders_are_cut_on_both_sides(small_arm, settings, sines):
    t, q, _, _ = sines(3, 1, 2000, RATE)
    (motion,) = motions(small_arm, [[log_of(small_arm, t, q, q)]], settings)
    cut = int(np.ceil(RATE / 25.0))  # one period of the cut-off
    np.testing.assert_array_equal(motion.t, t[cut:-cut])
    whole = Preprocessing(cutoff=25.0, border=0.0).settled(small_arm, 25.0)
    (motion,) = motions(small_arm, [[log_of(small_arm, t, q, q)]], whole)
    assert motion.t.size == t.size


def test_uneven_times_do_not_spoil_the_derivatives(small_arm, settings, sines, rng):
    t, _, _, _ = sines(3, 1, 4000, RATE)
    t = t + rng.uniform(-0.3, 0.3, t.size) / RATE
    w = 2.0 * np.pi
    q = np.sin(w * t)[:, None] * [1.0, 0.5, 2.0]
    (motion,) = motions(small_arm, [[log_of(small_arm, t, q, q)]], settings)
    wanted = -(w**2) * np.sin(w * motion.t)[:, None] * [1.0, 0.5, 2.0]
    assert np.abs(motion.a - wanted)[200:-200].max() < 1e-3 * w**2


def test_pieces_know_their_log_and_short_ones_are_left_out(small_arm, settings, sines):
    t, q, _, _ = sines(3, 1, 1000, RATE)
    log = log_of(small_arm, t, q, q)
    short = log_of(small_arm, t[:30], q[:30], q[:30])
    made = motions(small_arm, [[log, short], [short], [log, log]], settings)
    assert [motion.log for motion in made] == [0, 2, 2]
    with pytest.raises(MismatchError, match="no piece of the log is longer than its borders"):
        motions(small_arm, [[short]], settings)


def test_slow_logs_are_filtered_below_half_their_rate(small_arm, sines):
    t, q, _, _ = sines(3, 1, 400, 40.0, slowest=0.1)
    settled = Preprocessing().settled(small_arm, 100.0)
    (motion,) = motions(small_arm, [[log_of(small_arm, t, q, q)]], settled)
    assert np.isfinite(motion.a).all()


@pytest.mark.parametrize(
    ("law", "width", "still", "share"),
    [
        ("coulomb", 0.02, 0.02, 0.25),
        ("coulomb", 0.0, 0.02, 0.005),
        ("viscous", None, 0.0, 0.25),
        ("offset", 0.0, 0.02, 0.005),
    ],
)
def test_rows_of_standing_joints_count_where_nothing_sticks(small_arm, law, width, still, share):
    shape = {} if width is None else {"width": width}
    robot = small_arm.with_friction(law, **shape)
    settled = Preprocessing().settled(robot, 10.0)
    assert (settled.still_speed, settled.still_share) == (still, share)
    assert Preprocessing(still_speed=0.1).settled(robot, 10.0).still_speed == 0.1


def test_joints_stand_below_a_speed_that_slow_joints_have_less_of():
    turn = np.array([0.0, 0.004, 0.015, 0.021, 1.0, -1.0, -0.015])
    v = np.stack([turn, 0.1 * turn, 1e-4 * turn], axis=1)
    fast, slow, never = standing(v, 0.02).T
    np.testing.assert_array_equal(fast, np.abs(turn) < 0.02)
    # 5 % of its r.m.s. speed, 0.1 sqrt(2 / 7), is less than 0.02.
    np.testing.assert_array_equal(slow, np.abs(0.1 * turn) < 0.05 * 0.1 * np.sqrt(2.0009 / 7.0))
    assert slow.sum() == 5
    assert never.all()


def test_what_is_not_given_follows_from_the_cutoff(small_arm):
    settled = Preprocessing().settled(small_arm, 20.0)
    assert (settled.cutoff, settled.band, settled.border) == (20.0, 16.0, 0.05)
    settled = Preprocessing(cutoff=10.0, band=3.0, border=1.0).settled(small_arm, 20.0)
    assert (settled.cutoff, settled.band, settled.border) == (10.0, 3.0, 1.0)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"cutoff": 0.0}, "cutoff is 0: give a positive frequency"),
        ({"cutoff": np.nan}, "cutoff is nan"),
        ({"band": -1.0}, "band is -1"),
        ({"border": -0.1}, "border is -0.1: give zero or"),
        ({"still_speed": np.inf}, "still_speed is inf"),
        ({"order": 0}, "order is 0: give a whole number from 1"),
    ],
)
def test_settings_without_meaning_are_refused(wrong, message):
    with pytest.raises(ShapeError, match=message):
        Preprocessing(**wrong)


@pytest.mark.parametrize("logs", [None, 5, "run.csv", [None], ["run.csv"]])
def test_what_is_no_log_is_refused(logs):
    with pytest.raises(ShapeError, match="expected a Log, got"):
        as_logs(logs)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"method": None}, "expected an Identifier or its name, got None"),
        ({"friction": None}, "expected the name of a friction law, got None"),
        ({"preprocessing": {"cutoff": 10.0}}, r"expected a Preprocessing, got \{'cutoff': 10.0\}"),
        ({"knowledge": {"total_mass": 20.0}}, "expected a Knowledge, got"),
    ],
)
def test_what_is_of_another_kind_is_refused(wrong, message):
    given = {"method": "auto", "preprocessing": None, "friction": "auto", "knowledge": None}
    require_arguments(**given)
    with pytest.raises(ShapeError, match=message):
        require_arguments(**given | wrong)


def test_settings_must_be_settled_first(small_arm, sines):
    t, q, _, _ = sines(3, 1, 100, RATE)
    with pytest.raises(ShapeError, match="not settled"):
        motions(small_arm, [[log_of(small_arm, t, q, q)]], Preprocessing())


def test_a_floating_robot_is_refused(settings):
    with pytest.raises(MismatchError, match=r"floats.*floating_base=False"):
        motions(load_robot("example:solo8"), [], settings)


def test_a_log_without_a_joints_torque_is_refused(small_arm, settings, sines):
    t, q, _, _ = sines(3, 1, 1000, RATE)
    log = log_of(small_arm, t, q, q)
    channels = {name: x for name, x in log.channels.items() if name != "tau.joint2"}
    with pytest.raises(MismatchError, match="no 'tau' of joints joint2"):
        motions(small_arm, [[Log.of(t, channels)]], settings)


@pytest.mark.parametrize("moves", [True, False])
def test_a_hinge_that_gives_way_in_one_recording_is_held_there(moves, small_arm, settings, sines):
    """Whatever it does in another one; its friction is that of presliding."""
    t, q, _, _ = sines(3, 1, 5000, RATE, slowest=0.2)
    given = np.copy(q)
    given[:, 0] = 0.3 + (1.0 if moves else 0.01) * (q[:, 0] - q[:, 0].mean())
    logs = [log_of(small_arm, t, x, np.zeros_like(q)) for x in (q, given)]
    one, other = motions(small_arm, [[log] for log in logs], settings)
    assert one.still is None
    assert (other.still is None) == moves
    assert moves or other.still[:, 0].all()
