from __future__ import annotations

import _thread
import json
import signal
import threading
from dataclasses import fields
from types import SimpleNamespace

import numpy as np
import pinocchio as pin
import pytest

from bodysense.errors import FileReadError, ShapeError, TrajectoryError, UnknownNameError
from bodysense.excitation import (
    ConditionNumber,
    Design,
    FourierTrajectory,
    MotionLimits,
    Precision,
    Progress,
    SplineTrajectory,
    design_motion,
)
from bodysense.excitation import design as design_module
from bodysense.excitation.criterion import criterion_of
from bodysense.excitation.design import _advice
from bodysense.excitation.limits import limit_breaches
from bodysense.excitation.search import Search
from bodysense.robot import (
    Collisions,
    Robot,
    Workspace,
    inverse_dynamics,
    link_hulls,
    torque_regressor,
)

QUICK = {"duration": 4.0, "harmonics": 5, "iterations": 60, "threads": 1, "seconds": 60.0}
PANDA_START = [0.0, -0.7, 0.0, -2.3, 0.0, 1.57, 0.78, 0.02, 0.02]


def designed(robot: Robot, **changes) -> Design:
    return design_motion(robot, rng=np.random.default_rng(0), **{**QUICK, **changes})


@pytest.fixture(scope="module")
def panda(robot_of) -> Robot:
    return robot_of("example:panda")


@pytest.fixture(scope="module")
def design(panda) -> Design:
    return designed(panda, criterion="condition", iterations=200)


def stacked(robot: Robot, design: Design, rate: float = 1000.0):
    """Rows of moving joints, divided by noise of 1 % of the effort, sampled at `rate`."""
    robot = robot.with_friction("coulomb", width=0.02)
    rows = [robot.joint_names.index(name) for name in design.joints]
    parts = []
    for motion in design.trajectories:
        _, q, v, a = motion.sample(rate)
        Y = torque_regressor(robot, q, v, a, columns=design.base.independent)
        parts.append((Y / (0.01 * robot.effort_limit)[:, np.newaxis])[:, rows])
    W = np.concatenate(parts).reshape(-1, design.base.size)
    return np.asarray(W)


def test_it_is_far_better_than_random_motions(design, panda):
    assert design.value < 0.2 * design.start_value
    rng = np.random.default_rng(1)
    for _ in range(5):
        motion = FourierTrajectory.for_robot(panda, rng=rng, duration=4.0, harmonics=5)
        rows = stacked(panda, _with(design, motion))
        assert np.linalg.cond(rows) > 1.5 * design.condition


def _with(design: Design, motion) -> Design:
    """The design with another motion in it, to measure that in the same way."""
    from dataclasses import replace

    return replace(design, trajectories=(motion,))


def test_no_limit_is_broken_at_one_kilohertz(design, panda):
    (motion,) = design.trajectories
    assert limit_breaches(panda, motion, 1000.0) == ()
    _, q, v, a = motion.sample(1000.0)
    assert (np.abs(a) <= 10.0 * (1.0 + 1e-9)).all()  # no limit of its own
    tau = inverse_dynamics(panda, q, v, a)
    assert (np.abs(tau) <= panda.effort_limit).all()
    assert 0.9 < design.peak_use <= 1.0 + 1e-9
    assert design.use("torque").ratio == pytest.approx((np.abs(tau) / panda.effort_limit).max())


def test_it_starts_and_ends_at_rest(design):
    (motion,) = design.trajectories
    q, v, a = motion(np.array([0.0, 4.0]))
    np.testing.assert_allclose(q[0], q[1], atol=1e-12)
    np.testing.assert_allclose(v, 0.0, atol=1e-10)
    np.testing.assert_allclose(a, 0.0, atol=1e-9)


def test_light_joints_hold_and_are_told_of(design):
    assert design.joints == tuple(f"panda_joint{k}" for k in range(1, 8))
    _, q, _, _ = design.trajectories[0].sample(50.0)
    np.testing.assert_array_equal(q[:, 7:], 0.02)
    assert any("panda_finger_joint1" in note for note in design.notes)


def test_its_figures_are_those_of_the_stacked_regressor(design, panda):
    W = stacked(panda, design)
    assert design.condition == pytest.approx(np.linalg.cond(W), rel=1e-6)
    least = np.linalg.svd(W, compute_uv=False)[-1]
    assert design.value == pytest.approx(np.linalg.cond(W) ** 2 + 100.0 / least, rel=1e-6)
    sigma = np.sqrt(np.diag(np.linalg.inv(W.T @ W)))
    np.testing.assert_allclose(design.sigma, sigma, rtol=1e-5)
    R = design.information
    np.testing.assert_allclose(np.tril(R, -1), 0.0, atol=1e-9 * np.abs(R).max())
    np.testing.assert_allclose(R.T @ R, W.T @ W, atol=1e-9 * np.abs(R).max() ** 2)


def test_base_parameters_explain_the_torques_of_moving_joints(design, panda):
    smooth = panda.with_friction("coulomb", width=0.02)
    _, q, v, a = design.trajectories[0].sample(20.0)
    Y = torque_regressor(smooth, q, v, a, columns=design.base.independent)[:, :7]
    tau = inverse_dynamics(smooth, q, v, a)[:, :7]
    np.testing.assert_allclose(Y @ design.theta_base, tau, atol=1e-4 * np.abs(tau).max())


def test_what_stays_uncertain_is_named(design):
    rows = zip(design.base.names, design.sigma, design.sizes, strict=True)
    poor = [name for name, sigma, size in rows if not sigma < size]
    assert design.unidentifiable == tuple(poor)


def test_summary_history_and_status(design):
    values = [value for _, value in design.history]
    assert values == sorted(values, reverse=True)
    assert design.status == "enough"
    text = design.summary()
    assert f"7 joints; cond(W) = {design.condition:.4g}; " in text
    assert "random motions within the same limits" in text
    assert "checked at 1000 Hz" in text
    assert design.advice in text
    assert "panda" in repr(design)
    with pytest.raises(UnknownNameError, match="speed"):
        design.use("sped")


def test_the_same_seed_gives_the_same_motion(robot_of):
    one, other = (designed(robot_of("tx40"), iterations=30) for _ in range(2))
    t = np.linspace(0.0, 4.0, 9)
    np.testing.assert_array_equal(one.trajectories[0](t)[0], other.trajectories[0](t)[0])


def test_a_start_pose(panda):
    design = designed(panda, start=PANDA_START)
    q, v, _ = design.trajectories[0](np.array([0.0, 4.0]))
    np.testing.assert_allclose(q, [PANDA_START, PANDA_START], atol=1e-12)
    np.testing.assert_allclose(v, 0.0, atol=1e-10)


def test_a_spline(panda):
    design = designed(panda, criterion="condition", family="spline", knots=10)
    (motion,) = design.trajectories
    assert isinstance(motion, SplineTrajectory)
    assert limit_breaches(panda, motion, 1000.0) == ()
    assert design.value < 0.5 * design.start_value


@pytest.mark.parametrize(
    "criterion",
    ["d-optimal", "precision", Precision({"ZZ3": 0.01}), ConditionNumber(scaled=True)],
    ids=["d-optimal", "precision", "one parameter", "scaled"],
)
def test_other_criteria(criterion, robot_of):
    design = designed(robot_of("tx40"), criterion=criterion)
    assert design.value < design.start_value
    if isinstance(criterion, Precision):
        place = [design.base.layout.names[k] for k in design.base.independent].index("ZZ3")
        assert design.value == pytest.approx(design.sigma[place] / 0.01)


def test_collisions_and_workspace_are_kept(panda):
    collisions = Collisions.from_robot(panda)
    workspace = Workspace(lower=(-np.inf, -np.inf, 0.05))
    design = designed(panda, collisions=collisions, workspace=workspace)
    _, q, _, _ = design.trajectories[0].sample(500.0)
    assert not collisions.in_collision(q).any()
    assert (workspace.around(panda, link_hulls(panda)).margins(q) >= 0.0).all()
    closest = collisions.closest(design.trajectories[0].sample(1000.0)[1])
    assert design.closest is not None
    assert design.closest.distance == pytest.approx(closest.distance)
    assert design.closest.pair == closest.pair
    assert design.workspace_margin >= 0.0
    assert "Clearance" in design.summary()


def test_weak_motors_keep_their_torque_limits(robot_of):
    robot = robot_of("tx40")
    strong = designed(robot)
    _, q, v, a = strong.trajectories[0].sample(1000.0)
    limits = MotionLimits.from_robot(
        robot, effort=0.8 * np.abs(inverse_dynamics(robot, q, v, a)).max(axis=0)
    )
    weak = designed(robot, limits=limits)
    _, q, v, a = weak.trajectories[0].sample(1000.0)
    assert (np.abs(inverse_dynamics(robot, q, v, a)) <= limits.effort * (1 + 1e-9)).all()
    assert weak.use("torque").ratio > 0.5


def test_several_motions_are_better_than_one(robot_of):
    one = designed(robot_of("tx40"), criterion="d-optimal")
    two = designed(robot_of("tx40"), criterion="d-optimal", trajectories=2)
    assert len(two.trajectories) == 2
    # Twice the same motion would add b log 2; two that differ add more.
    assert two.value < one.value - 0.9 * one.base.size * np.log(2.0)


def test_what_is_known_counts(robot_of):
    robot = robot_of("tx40")
    first = designed(robot, criterion="d-optimal", iterations=20)
    second = designed(robot, criterion="d-optimal", known=first.information)
    rows = second.information
    alone = rows.T @ rows - first.information.T @ first.information
    assert np.linalg.eigvalsh(alone).min() > -1e-6 * np.abs(alone).max()
    assert second.value < first.value
    assert (second.sigma <= first.sigma * (1 + 1e-9)).all()


def test_some_joints_alone(robot_of):
    names = robot_of("tx40").joint_names
    design = designed(robot_of("tx40"), joints=[names[4], names[5]])
    assert design.joints == (names[4], names[5])
    _, q, _, _ = design.trajectories[0].sample(20.0)
    assert np.ptp(q[:, :4], axis=0).max() == 0.0
    kept = {design.base.layout.names[k] for k in design.base.independent}
    assert not kept & {"ZZ1", "MX2", "Fv1", "Fc3"}


def test_another_friction_law(robot_of):
    design = designed(robot_of("tx40"), friction="offset", iterations=10)
    assert any(name.startswith("Fo") for name in design.base.names)


def test_progress_is_told(robot_of):
    told: list[Progress] = []
    designed(robot_of("tx40"), progress=told.append)
    assert told[-1].value < np.inf
    assert told[-1].starts >= 1


def test_an_interruption_returns_the_best_so_far(robot_of):
    def interrupt(progress: Progress) -> None:
        if progress.value < np.inf:
            raise KeyboardInterrupt

    design = designed(robot_of("tx40"), iterations=None, progress=interrupt)
    assert design.status == "interrupted"
    assert "Interrupted" in design.summary()
    assert limit_breaches(robot_of("tx40"), design.trajectories[0], 1000.0) == ()


@pytest.mark.usefixtures("listening_to_ctrl_c")
def test_an_interruption_by_a_signal(robot_of):
    begun = threading.Event()
    threading.Timer(0.8, lambda: begun.wait(10.0) and _thread.interrupt_main()).start()

    def tell(progress: Progress) -> None:
        if progress.value < np.inf:
            begun.set()

    design = designed(robot_of("tx40"), iterations=None, threads=2, progress=tell)
    assert design.status == "interrupted"


def test_an_interruption_before_there_is_anything(robot_of):
    def interrupt(progress: Progress) -> None:
        raise KeyboardInterrupt

    robot = robot_of("example:panda")
    limits = MotionLimits.from_robot(robot)
    with pytest.raises(KeyboardInterrupt):
        # Collisions and many harmonics: the first motion takes longer than the first call.
        design_motion(
            robot,
            limits=limits,
            duration=40.0,
            harmonics=80,
            trajectories=3,
            collisions=Collisions.from_robot(robot),
            progress=interrupt,
            threads=1,
        )


def test_the_time_is_kept(robot_of):
    design = designed(robot_of("tx40"), iterations=None, seconds=0.5)
    assert design.status == "time"
    assert design.history[-1][0] < 1.0


def test_held_joints_without_speed_use_no_limit(robot_of):
    robot = robot_of("tx40")
    velocity = np.array([0.0, 0.0, 0.0, 2.0, 2.0, 2.0])
    limits = MotionLimits.from_robot(robot, velocity=velocity, acceleration=10.0 * (velocity > 0.0))
    design = designed(robot, joints=robot.joint_names[3:], limits=limits)
    assert design.status == "enough"
    assert all(np.isfinite(use.ratio) for use in design.uses)
    assert {use.ratio for use in design.uses if use.joint == "joint1"} >= {0.0}


def test_iterations_that_are_used_up_are_not_rest(robot_of):
    design = designed(robot_of("tx40"), iterations=10)
    assert design.advice.startswith("The iterations are used up")


@pytest.mark.parametrize(
    ("criterion", "starts", "early", "late", "words"),
    [
        ("d-optimal", 20, -695.0, -700.0, "Still improving"),  # standard deviations: 5 % smaller
        ("d-optimal", 20, -695.0, -695.1, "The search converged"),
        ("d-optimal", 3, -695.0, -695.1, "Still improving"),  # not all first starts are done
        ("precision", 20, 1.2, 1.0, "Still improving"),
        ("precision", 20, 1.005, 1.0, "The search converged"),
    ],
)
def test_a_search_converged_if_little_was_gained_late(criterion, starts, early, late, words):
    """Of a logarithm the difference counts, and not its share of a number without meaning."""
    problem = SimpleNamespace(regressor=SimpleNamespace(base=SimpleNamespace(size=52)))
    search = Search(problem, np.random.default_rng(0), 3.0)
    search.history, search.best_value = [(0.5, early + 50.0), (1.9, early), (2.8, late)], late
    search.elapsed, search._begun_starts, search._threads = 3.0, starts, 2
    advice = _advice(search, SimpleNamespace(kept=True), criterion_of(criterion))
    assert advice.startswith(words)


def test_what_is_violated_is_named(robot_of, monkeypatch):
    monkeypatch.setattr("bodysense.excitation.limits._SPARE", 2.0)
    monkeypatch.setattr("bodysense.excitation.design._REPAIRS", 2)
    design = designed(robot_of("tx40"), iterations=5)
    assert design.status == "violated"
    assert "position of joint1" in design.advice
    assert "do not run it" in design.advice


@pytest.mark.usefixtures("listening_to_ctrl_c")
def test_an_interruption_of_the_final_check_loses_nothing(robot_of, monkeypatch):
    whole = design_module.repair_motions

    def interrupted(*args):
        signal.raise_signal(signal.SIGINT)
        return whole(*args)

    monkeypatch.setattr(design_module, "repair_motions", interrupted)
    design = designed(robot_of("tx40"), iterations=10)
    assert limit_breaches(robot_of("tx40"), design.trajectories[0], 1000.0) == ()


@pytest.mark.parametrize("family", ["fourier", "spline"])
def test_it_can_be_saved_and_loaded(family, robot_of, tmp_path):
    robot = robot_of("example:ur5")
    changes = {"harmonics": None, "knots": 8} if family == "spline" else {}
    design = designed(
        robot,
        family=family,
        trajectories=2,
        iterations=8,
        collisions=Collisions.from_robot(robot),
        **changes,
    )
    design.save(tmp_path / "new")
    again = Design.load(tmp_path / "new")
    assert {path.name for path in (tmp_path / "new").iterdir()} == {"design.json", "design.npz"}
    assert again.summary() == design.summary()
    t = np.linspace(0.0, 4.0, 7)
    for one, other in zip(design.trajectories, again.trajectories, strict=True):
        assert type(one) is type(other)
        for ours, theirs in zip(one(t), other(t), strict=True):
            np.testing.assert_array_equal(ours, theirs)
    for part in fields(Design):
        one, other = getattr(design, part.name), getattr(again, part.name)
        if isinstance(one, np.ndarray):
            np.testing.assert_array_equal(one, other)
        elif part.name not in ("trajectories", "base"):
            assert one == other, part.name
    assert again.base.names == design.base.names
    np.testing.assert_array_equal(again.base.mapping, design.base.mapping)


def test_a_damaged_file_is_refused(robot_of, tmp_path):
    designed(robot_of("tx40"), iterations=5).save(tmp_path)
    path = tmp_path / "design.json"
    about = json.loads(path.read_text("utf-8"))
    path.write_text(json.dumps({**about, "families": ["sines"]}), encoding="utf-8")
    with pytest.raises(FileReadError, match="save the result again"):
        Design.load(tmp_path)
    path.write_text(json.dumps({**about, "closest_time": []}), encoding="utf-8")
    with pytest.raises(FileReadError, match="damaged"):
        Design.load(tmp_path)
    with pytest.raises(FileReadError, match=r"design\.json"):
        Design.load(tmp_path / "nowhere")


# -- bad input -----------------------------------------------------------------------------


def bad(robot: Robot, **changes) -> Design:
    return designed(robot, iterations=1, **changes)


def test_a_floating_base(robot_of):
    with pytest.raises(TrajectoryError, match="floating_base=False"):
        bad(robot_of("floating"))


def test_an_unknown_joint(panda):
    with pytest.raises(UnknownNameError, match="panda_joint1"):
        bad(panda, joints=["panda_joint_1"])


def test_no_joint(panda):
    with pytest.raises(TrajectoryError, match="nothing moves"):
        bad(panda, joints=[])


def test_an_unknown_family(panda):
    with pytest.raises(UnknownNameError, match="spline"):
        bad(panda, family="splines")


def test_an_unknown_criterion(panda):
    with pytest.raises(UnknownNameError, match="condition"):
        bad(panda, criterion="cond")


def test_a_start_outside_the_range(panda):
    with pytest.raises(TrajectoryError, match="panda_joint4 at 0"):
        bad(panda, start=np.zeros(9))


def test_a_start_at_the_end_of_the_range(panda):
    start = np.array(PANDA_START)
    start[0] = panda.position_limits[1][0]
    with pytest.raises(TrajectoryError, match="inside"):
        bad(panda, start=start)


def test_a_start_in_collision(panda):
    start = [0.0, 1.7, 0.0, -3.0, 0.0, 0.5, 0.0, 0.02, 0.02]
    collisions = Collisions.from_robot(panda)
    assert collisions.in_collision([start])[0]
    with pytest.raises(TrajectoryError, match="choose a pose that is free"):
        bad(panda, start=start, collisions=collisions)


def test_a_start_outside_the_workspace(panda):
    with pytest.raises(TrajectoryError, match="workspace"):
        bad(panda, start=PANDA_START, workspace=Workspace(lower=(-np.inf, -np.inf, 2.0)))


def test_a_start_of_the_wrong_length(panda):
    with pytest.raises(ShapeError, match="start has shape"):
        bad(panda, start=np.zeros(7))


def test_a_start_that_is_no_number(panda):
    with pytest.raises(ShapeError, match="nan"):
        bad(panda, start=np.full(9, np.nan))


def test_a_start_that_cannot_be_held(panda):
    with pytest.raises(TrajectoryError, match="hold the start pose"):
        bad(panda, start=PANDA_START, limits=MotionLimits.from_robot(panda, effort=1.0))


def test_a_workspace_without_room(panda):
    with pytest.raises(TrajectoryError, match="most often outside x >= 5"):
        bad(panda, workspace=Workspace(lower=(5.0, 5.0, 5.0)))


def test_limits_that_allow_no_motion(panda):
    with pytest.raises(TrajectoryError, match="cannot move"):
        bad(panda, limits=MotionLimits.from_robot(panda, velocity=0.0))


def test_motors_that_cannot_carry_the_robot(panda):
    with pytest.raises(TrajectoryError, match="gravity alone"):
        bad(panda, limits=MotionLimits.from_robot(panda, effort=1e-3))


def test_a_duration_too_short(panda):
    with pytest.raises(TrajectoryError, match="too short"):
        bad(panda, duration=0.01)


@pytest.mark.parametrize("duration", [np.nan, -1.0, 0.0])
def test_a_duration_that_is_none(panda, duration):
    with pytest.raises(TrajectoryError, match="duration"):
        bad(panda, duration=duration)


@pytest.mark.parametrize("seconds", [np.nan, 0.0])
def test_a_time_that_is_none(panda, seconds):
    with pytest.raises(TrajectoryError, match="seconds"):
        bad(panda, seconds=seconds)


def test_no_trajectory(panda):
    with pytest.raises(TrajectoryError, match="trajectories is 0"):
        bad(panda, trajectories=0)


def test_too_few_harmonics(panda):
    with pytest.raises(TrajectoryError, match="harmonics is 2"):
        bad(panda, harmonics=2)


def test_known_of_another_size(panda):
    with pytest.raises(ShapeError, match="known has shape"):
        bad(panda, known=np.eye(3))


def test_known_that_is_no_number(panda, design):
    with pytest.raises(ShapeError, match="nan"):
        bad(panda, known=np.full((design.base.size,) * 2, np.nan))


def test_noise_of_zero(panda):
    with pytest.raises(TrajectoryError, match="noise"):
        bad(panda, noise=0.0)


def test_a_robot_without_joints():
    with pytest.raises(TrajectoryError, match="no joint"):
        bad(Robot.from_pinocchio(pin.Model()))


@pytest.mark.parametrize("name", ["threads", "iterations"])
def test_counts_below_one(panda, name):
    with pytest.raises(TrajectoryError, match=f"{name} is 0: give 1 at least"):
        designed(panda, **{name: 0})


# -- defaults and what is told -----------------------------------------------------------------


def test_by_default_the_uncertainty_of_all_parameters_is_made_small(robot_of):
    robot = robot_of("tx40")
    default = designed(robot)
    assert default.criterion == "d-optimal"
    sign, size = np.linalg.slogdet(default.information.T @ default.information)
    assert sign == 1.0
    assert default.value == pytest.approx(-size)
    conditioned = designed(robot, criterion="condition")
    assert np.median(default.sigma / conditioned.sigma) < 0.7


def test_the_noise_that_was_assumed(robot_of):
    robot = robot_of("example:ur5")
    one = designed(robot, iterations=5)
    np.testing.assert_allclose(one.noise, 0.01 * robot.effort_limit)
    twice = designed(robot, iterations=5, noise=2.0 * one.noise)
    np.testing.assert_allclose(twice.noise, 2.0 * one.noise)
    # d-optimal takes the same way: the noise only adds a constant.
    np.testing.assert_allclose(twice.sigma, 2.0 * one.sigma, rtol=1e-3)


def test_boxes_that_hold_the_motion_back_are_told(robot_of):
    robot = robot_of("tx40")
    boxed = designed(robot, collisions=Collisions.from_robot(robot))
    (note,) = [note for note in boxed.notes if note.startswith("boxes from inertia")]
    assert "--collisions off" in note
    assert boxed.closest.pair[0] in note
    assert boxed.closest.pair[1] in note


def test_shapes_of_the_file_are_not_blamed(panda):
    design = designed(panda, collisions=Collisions.from_robot(panda))
    assert design.closest.room < 0.005
    assert not [note for note in design.notes if note.startswith("boxes")]


def test_a_robot_whose_bodies_cannot_collide(robot_of):
    robot = robot_of("tx40")
    names = robot.link_names
    pairs = [(a, b) for a in names for b in names if a != b] + [("base", b) for b in names]
    free = designed(robot, collisions=Collisions.from_robot(robot, ignore=pairs), iterations=5)
    assert any("no pair of bodies is left" in note for note in free.notes)
