"""`identify`, from robot and logs to a judged result."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from bodysense.errors import (
    BodysenseError,
    MismatchError,
    ShapeError,
    UnknownNameError,
    UnusableLogError,
)
from bodysense.excitation import FourierTrajectory
from bodysense.identification import (
    IDENTIFIERS,
    Identification,
    IdentificationRun,
    Knowledge,
    Preprocessing,
    identifier,
    identify,
    motions,
    write_run,
)
from bodysense.identification.given_friction import RICHEST
from bodysense.logs.log import Log
from bodysense.robot import Robot, base_parameters, inverse_dynamics, load_robot
from bodysense.simulation import rollout
from bodysense.spatial import Array

GIVEN = Preprocessing(cutoff=20.0)


@cache
def truth() -> Robot:
    return load_robot("rv2sq")


def prior(seed: int = 0) -> Robot:
    """Masses, inertias and friction 15 % off."""
    robot = truth()
    factor = np.exp(0.15 * np.random.default_rng(seed).normal(size=robot.layout.size))
    for link in map(robot.layout.link, range(robot.layout.n_links)):
        factor[link] = factor[link][0]
    return robot.with_parameters(robot.theta * factor)


@cache
def recorded(
    seed: int = 0, *, rate: float = 140.0, noise: float = 0.05, sigma_q: float = np.deg2rad(1e-4)
) -> Log:
    """Ten seconds of a random motion."""
    rng = np.random.default_rng(seed)
    run = rollout(
        truth(),
        FourierTrajectory.for_robot(truth(), duration=10.0, rng=rng),
        sampling_rate=rate,
        integrator="rk4",
        position_noise=sigma_q,
        torque_noise=noise,
        rng=rng,
    )
    assert run.ok
    return run.log()


def changed(log: Log, **factors: float) -> Log:
    """Channels of one quantity multiplied, e.g. ``q=57.3``."""
    channels = {
        name: values * factors.get(name.partition(".")[0], 1.0)
        for name, values in log.channels.items()
    }
    return Log.of(log.t, channels)


def without(log: Log, *names: str) -> Log:
    return Log.of(log.t, {k: x for k, x in log.channels.items() if k not in names})


def still() -> Log:
    """Ten seconds of standing, with noise."""
    rng = np.random.default_rng(0)
    t = np.arange(1400) / 140.0
    channels: dict[str, Array] = {}
    for joint in truth().joint_names:
        channels[f"q.{joint}"] = 0.3 + 1e-6 * rng.normal(size=t.size)
        channels[f"tau.{joint}"] = 1.0 + 0.05 * rng.normal(size=t.size)
    return Log.of(t, channels)


@cache
def usual() -> IdentificationRun:
    """With everything chosen by the data."""
    return identify(prior(), [recorded(0)], validate=[recorded(1)], seed=7)


# -- from end to end --------------------------------------------------------------------------


def test_the_truth_lies_in_the_intervals():
    found = usual().identification
    true = base_parameters(truth()).to_base(truth().theta)
    lower, upper = found.interval()
    assert ((lower <= true) & (true <= upper)).mean() > 0.85
    # And the intervals are worth having: much nearer than the prior was.
    before = np.linalg.norm(found.base.to_base(prior().theta) - true)
    assert np.linalg.norm(found.theta_base - true) < 0.05 * before
    assert found.consistent


@pytest.mark.parametrize("noise", [1e-5, 1e-3])
@pytest.mark.parametrize("friction", ["own", "choose"])
def test_a_joint_that_stands_in_noise_keeps_its_prior(noise, friction):
    """Velocity that is noise alone must not be taken for motion."""
    rng = np.random.default_rng(0)
    robot = truth()
    t = np.arange(0.0, 12.0, 0.004)
    phase, speed = rng.uniform(0.0, 6.0, 6), np.array([1.1, 1.7, 2.3, 2.9, 3.4, 4.1])
    q = 0.6 * np.sin(np.outer(t, speed) + phase)
    v = 0.6 * speed * np.cos(np.outer(t, speed) + phase)
    a = -(speed**2) * q
    q[:, 3], v[:, 3], a[:, 3] = 0.4, 0.0, 0.0
    tau = inverse_dynamics(robot, q, v, a) + 0.1 * rng.normal(size=q.shape)
    names = robot.joint_names
    channels = {f"q.{n}": q[:, k] + noise * rng.normal(size=t.size) for k, n in enumerate(names)}
    channels |= {f"tau.{n}": tau[:, k] for k, n in enumerate(names)}
    found = identify(robot, [Log.of(t, channels)], friction=friction)
    layout, result = found.problem.robot.layout, found.identification
    for name in ("Fv4", "Fc4"):
        k = layout.index(name)
        assert result.labels[k] == "not identifiable"
        assert result.theta[k] == pytest.approx(result.prior.theta[k], rel=1e-6)
    assert result.labels[layout.index("Ia4")] != "identified"
    assert any("joint4 never moved" in sentence for sentence in found.verdict.advice)


def test_a_law_that_the_data_chose_is_put_back_on_the_robot(tmp_path):
    """What was identified with a chosen friction law loads with the robot's own file."""
    robot = truth().with_friction("coulomb", coefficients={"Fv": 0.0, "Fc": 0.0})
    found = identify(robot, [recorded(0)], preprocessing=GIVEN)
    assert found.friction is not None
    found.identification.save(tmp_path)
    again = Identification.load(tmp_path, robot)
    np.testing.assert_array_equal(again.theta, found.identification.theta)
    assert again.prior.friction.model is found.problem.robot.friction.model


def test_one_log_needs_no_list():
    one = identify(prior(), recorded(0), preprocessing=GIVEN)
    listed = identify(prior(), [recorded(0)], preprocessing=GIVEN)
    np.testing.assert_array_equal(one.identification.theta, listed.identification.theta)


def test_a_law_can_be_named():
    found = identify(prior(), recorded(0), preprocessing=GIVEN, friction="offset")
    law = found.problem.robot.friction
    assert (law.model.name, law.shape[:, 0].tolist()) == ("offset", [0.02] * 6)
    assert found.friction is None
    with pytest.raises(UnknownNameError, match=r"unknown friction 'ofset': did you mean 'offset'"):
        identify(prior(), recorded(0), friction="ofset")


def test_a_cutoff_beyond_half_the_rate_is_refused():
    with pytest.raises(ShapeError, match=r"below half the sampling rate, 70 Hz"):
        identify(prior(), recorded(0), preprocessing=Preprocessing(cutoff=80.0))


def test_standing_recordings_do_not_choose_the_cutoff():
    alone = identify(prior(), [recorded(0)])
    beside = identify(prior(), [recorded(0), still()], allow_unusable=True)
    assert beside.settings.cutoff == alone.settings.cutoff


def test_parameters_without_effect_stay_as_they_were_to_the_bit():
    found = usual().identification
    layout = found.prior.layout
    for name in found.base.unidentifiable:
        k = layout.index(name)
        assert (
            found.theta[k] == found.prior.theta[k]
            or abs(found.theta[k] - found.prior.theta[k]) > 1e-9
        )


def test_the_training_recording_is_not_a_validation():
    raw = replace(recorded(0), digest="ab", source="day.csv")
    found = identify(prior(), raw, validate=raw, preprocessing=GIVEN)
    assert found.verdict.grade == "fair"
    assert "day.csv was also used for fitting: its score" in found.verdict.advice[0]


def test_parts_of_a_recording_that_overlap_are_no_two_recordings():
    """Each is held out while the other is fitted to."""
    log = replace(recorded(0), source="day.csv", digest="a")
    parts = [log.between(0.0, 6.0), log.between(4.0, 10.0)]
    run = identify(prior(), parts, preprocessing=GIVEN)
    assert run.verdict.advice[0].startswith("day.csv@0:6 and day.csv@4:10 share samples")
    assert (run.verdict.grade, run.verdict.intervals_hold) == ("fair", False)
    apart = identify(prior(), [log.between(0.0, 5.0), log.between(5.1, 10.0)], preprocessing=GIVEN)
    assert not any("share samples" in advice for advice in apart.verdict.advice)


@pytest.mark.parametrize(
    ("cutoff", "words"),
    [(0.5, "takes away what the motion tells"), (np.inf, "into the accelerations"), (10.0, "")],
)
def test_a_cutoff_that_was_given_is_judged(cutoff, words):
    settings = Preprocessing(cutoff=cutoff)
    run = identify(prior(), recorded(0, sigma_q=1e-4), method="pc-wls", preprocessing=settings)
    said = [advice for advice in run.verdict.advice if "cut-off" in advice]
    assert bool(said) == bool(words)
    if words:
        assert words in said[0]
        assert run.verdict.grade != "good"


def test_masses_unlike_those_of_the_file_are_questioned():
    link, own = prior().link_names[2], float(prior().pi(2)[0])
    for factor, questioned in ((0.7, False), (0.02, True)):
        known = Knowledge(masses={link: factor * own})
        advice = identify(prior(), recorded(0), preprocessing=GIVEN, knowledge=known).verdict.advice
        assert any(f"robot's file: {link} (" in text for text in advice) is questioned


def test_the_verdict_is_good_and_the_scores_say_why():
    run = usual()
    assert run.verdict.grade == "good"
    assert [(s.kind, s.source) for s in run.scores] == [
        ("training", "log"),
        ("held-out", "log"),
        ("validation", "log"),
    ]
    for scores in run.scores:
        moving, before = scores.identified.moving, scores.prior.moving
        assert moving.mean_relative_error < 0.06
        assert moving.mean_relative_error < 0.3 * before.mean_relative_error
        assert scores.identified.all.d_tau < scores.prior.all.d_tau
    assert run.summary().startswith("pc-wls on RV2SQ: ")
    assert "GOOD" in run.summary()
    assert "GOOD" in repr(run)


def test_scores_are_what_the_identified_robot_predicts():
    """Against the torques of the robot that comes out, by hand."""
    run = usual()
    pieces = [diagnosis.segments for diagnosis in run.diagnoses]
    (motion,) = motions(run.robot, pieces, run.settings.for_scores())
    tau = inverse_dynamics(run.robot, motion.q, motion.v, motion.a)
    scores = next(s for s in run.scores if s.kind == "training")
    expected = np.linalg.norm(motion.tau_raw - tau, axis=0) / np.linalg.norm(motion.tau_raw, axis=0)
    np.testing.assert_allclose(scores.identified.all.relative_error_raw, expected, rtol=1e-9)
    training = next(p for p in run.predictions if p.kind == "training")
    np.testing.assert_allclose(training.identified, tau, rtol=0, atol=1e-9)
    held_out = next(p for p in run.predictions if p.kind == "held-out")
    assert not np.allclose(held_out.identified, tau, rtol=0, atol=1e-6)


def test_no_cutoff_flatters_the_scores():
    """Whatever the fit passes, the same torques are compared, below the same bandwidth."""
    runs = [
        usual(),
        *(identify(prior(), [recorded(0)], preprocessing=Preprocessing(cutoff=c)) for c in (2, 20)),
    ]
    scores = [next(s for s in run.scores if s.kind == "held-out") for run in runs]
    assert len({run.settings.cutoff for run in runs}) == 3
    assert len({s.bandwidth for s in scores}) == 1
    assert len({s.noise_floor for s in scores}) == 1
    assert len({s.prior for s in scores}) == 1
    assert len({s.identified for s in scores}) == 3


def test_what_was_chosen_is_told():
    run = usual()
    assert run.cutoff is not None
    assert run.settings.cutoff == run.cutoff.cutoff
    assert run.cutoff.cutoff in run.cutoff.tried
    assert run.friction is None  # the robot knows its friction
    assert None not in (run.settings.band, run.settings.border, run.settings.still_speed)
    given = identify(prior(), [recorded(0)], preprocessing=GIVEN)
    assert given.cutoff is None
    assert given.settings.cutoff == 20.0


def test_the_same_call_gives_the_same_bits():
    one, two = (identify(prior(), [recorded(0)], preprocessing=GIVEN) for _ in range(2))
    assert one.identification.theta.tobytes() == two.identification.theta.tobytes()
    assert one.identification.sigma.tobytes() == two.identification.sigma.tobytes()
    assert one.scores == two.scores
    assert one.verdict == two.verdict


@pytest.mark.parametrize("method", sorted(IDENTIFIERS))
def test_every_method_goes_through(method):
    few = identifier("pf", particles=200) if method == "pf" else method  # a fifth of the time
    run = identify(prior(), [recorded(0)], method=few, preprocessing=GIVEN)
    assert run.identification.method == method
    if method == "pf":  # too many parameters for particles, which it says, and keeps the prior
        assert "particles" in run.identification.status.message
        return
    assert run.identification.status.ok
    # One row per sample for all joints: ten seconds are little for energy.
    assert run.verdict.grade == ("fair" if method == "energy" else "good")


def test_a_method_with_settings_of_its_own():
    run = identify(
        prior(), [recorded(0)], method=identifier("wls", iterations=1), preprocessing=GIVEN
    )
    assert run.identification.provenance["method"] == {
        "name": "wls",
        "tolerance": 1e-3,
        "iterations": 1,
    }
    assert len(run.identification.trace) == 1


# -- several logs -----------------------------------------------------------------------------


def test_logs_with_their_own_rates_and_noise():
    logs = [recorded(0, noise=0.3, sigma_q=0.0), recorded(1, rate=500.0, noise=3.0, sigma_q=0.0)]
    run = identify(prior(), logs, preprocessing=GIVEN)
    found = run.identification
    assert found.noise.shape == (2, 6)
    # At the same bandwidth: white noise has as much less power as its rate is higher.
    ratio = found.noise[1] / found.noise[0]
    expected = 10.0 * np.sqrt(140.0 / 500.0)
    np.testing.assert_allclose(ratio, expected, rtol=0.25)
    true = found.base.to_base(truth().theta)
    lower, upper = found.interval()
    assert ((lower <= true) & (true <= upper)).mean() > 0.85
    assert len(run.diagnoses) == 2
    assert [d.rate for d in run.diagnoses] == pytest.approx([140.0, 500.0], rel=0.03)
    assert len(run.predictions) == 4
    assert len(run.scores) == 2


def test_more_data_narrow_the_intervals():
    one = identify(prior(), [recorded(0)], preprocessing=GIVEN).identification
    three = identify(prior(), [recorded(k) for k in range(3)], preprocessing=GIVEN).identification
    assert np.median(three.sigma_base / one.sigma_base) < 0.75


def test_each_validation_log_has_scores_of_its_own():
    named = [replace(recorded(k), source=f"run {k}") for k in (1, 2)]
    run = identify(prior(), [recorded(0)], validate=named, preprocessing=GIVEN)
    assert [s.source for s in run.scores if s.kind == "validation"] == ["run 1", "run 2"]
    assert "validation recordings" in run.verdict.summary


def test_validation_does_not_touch_the_result():
    alone = identify(prior(), [recorded(0)], preprocessing=GIVEN).identification
    seen = identify(prior(), [recorded(0)], validate=[recorded(1)], preprocessing=GIVEN)
    assert alone.theta.tobytes() == seen.identification.theta.tobytes()


def test_a_log_too_short_to_leave_anything_out_has_no_held_out_scores():
    run = identify(prior(), [recorded(0)], preprocessing=GIVEN)
    assert "held-out" in {s.kind for s in run.scores}
    log = recorded(0)
    few = Log.of(log.t[:300], {name: values[:300] for name, values in log.channels.items()})
    short = identify(prior(), [few], preprocessing=Preprocessing(cutoff=5.0))
    assert {s.kind for s in short.scores} == {"training"}


# -- friction ---------------------------------------------------------------------------------


@pytest.mark.parametrize("law", ["coulomb", "offset"])
def test_friction_is_chosen_where_the_robot_knows_none(law):
    """And it is the one that the recording was made with."""
    true = truth().with_friction(law, width=0.02)
    if law == "offset":
        true = true.with_friction(law, coefficients={"Fo": [1.0, -2.0, 1.0, 0.5, -0.5, 0.3]})
    rng = np.random.default_rng(0)
    motion = FourierTrajectory.for_robot(true, duration=10.0, rng=rng)
    log = rollout(true, motion, sampling_rate=500.0, torque_noise=0.1, rng=rng).log()
    zero = {term: 0.0 for term in ("Fv", "Fc")}
    unknown = truth().with_friction("coulomb", coefficients=zero)
    run = identify(unknown, [log], preprocessing=GIVEN)
    assert run.friction is not None
    assert set(run.friction.tried) >= {"coulomb", "offset", "stribeck", RICHEST}
    assert run.friction.law == run.robot.friction.model.name == law
    layout = run.robot.layout
    for term in layout.friction_terms:
        found, expected = (r.theta[layout.friction(term)] for r in (run.robot, true))
        np.testing.assert_allclose(found, expected, rtol=0.05, atol=0.02)


def test_friction_is_kept_where_the_robot_knows_it():
    run = identify(prior().with_friction("stribeck"), [recorded(0)], preprocessing=GIVEN)
    assert run.friction is None
    assert run.robot.friction.model.name == "stribeck"


def test_friction_is_kept_when_told():
    unknown = truth().with_friction("coulomb", coefficients={"Fv": 0.0, "Fc": 0.0})
    run = identify(unknown, [recorded(0)], friction="own", preprocessing=GIVEN)
    assert run.friction is None
    assert run.robot.friction.model.name == "coulomb"


def test_friction_is_chosen_when_told():
    run = identify(prior(), [recorded(0)], friction="choose", preprocessing=GIVEN)
    assert run.friction is not None
    assert run.robot.friction.model.name == run.friction.law


def test_an_unknown_choice_of_friction():
    with pytest.raises(UnknownNameError, match="valid: auto, own, choose"):
        identify(prior(), [recorded(0)], friction="guess")


# -- bad input --------------------------------------------------------------------------------


def test_a_log_that_misses_a_joint():
    joint = truth().joint_names[2]
    log = replace(without(recorded(0), f"tau.{joint}"), source="run.csv")
    with pytest.raises(UnusableLogError, match=rf"run\.csv cannot be .*{joint}"):
        identify(prior(), [log])


def test_a_log_of_another_robot():
    with pytest.raises(UnusableLogError, match="missing-joint"):
        identify(load_robot("example:ur5"), [recorded(0)])


def test_a_log_of_standstill():
    with pytest.raises(UnusableLogError, match="all-still"):
        identify(prior(), [still()])


def test_a_log_that_is_too_short():
    log = recorded(0)
    few = Log.of(log.t[:25], {name: values[:25] for name, values in log.channels.items()})
    with pytest.raises(UnusableLogError, match="too-short"):
        identify(prior(), [few])


def test_a_log_in_degrees():
    with pytest.raises(UnusableLogError, match=r"degrees.*unit: deg"):
        identify(prior(), [changed(recorded(0), q=np.rad2deg(1.0))])


def test_a_validation_log_is_examined_too():
    with pytest.raises(UnusableLogError, match="all-still"):
        identify(prior(), [recorded(0)], validate=[still()], preprocessing=GIVEN)


def test_the_second_log_is_named():
    bad = replace(changed(recorded(1), tau=-1.0), source="second.csv")
    with pytest.raises(UnusableLogError, match=r"second\.csv.*torque-sign.*bodysense doctor"):
        identify(prior(), [recorded(0), bad])


def test_unusable_logs_can_be_forced():
    bad = changed(recorded(0), tau=-1.0)
    run = identify(prior(), [bad], preprocessing=GIVEN, allow_unusable=True)
    assert not run.diagnoses[0].usable
    assert run.identification.consistent  # whatever the data say
    assert run.verdict.grade in ("poor", "failed")


def test_standstill_can_be_forced():
    run = identify(prior(), [still()], preprocessing=GIVEN, allow_unusable=True)
    assert run.verdict.grade in ("poor", "failed")
    assert "nan" not in str(run.verdict).lower()
    assert any("never moved" in sentence for sentence in run.verdict.advice)
    layout = run.robot.layout
    assert set(run.identification.labels[layout.rotor.stop :]) == {"not identifiable"}


def test_a_still_validation_log_can_be_forced():
    run = identify(
        prior(), [recorded(0)], validate=[still()], preprocessing=GIVEN, allow_unusable=True
    )
    assert "nan" not in str(run.verdict).lower()


def test_what_has_nothing_left_cannot_be_forced():
    empty = Log.of([], {name: [] for name in recorded(0).channels})
    with pytest.raises(UnusableLogError):
        identify(prior(), [empty], allow_unusable=True)


def test_no_logs_at_all():
    with pytest.raises(BodysenseError, match=r"no (log|recording)"):
        identify(prior(), [])


def test_a_floating_base():
    with pytest.raises(MismatchError, match="floats"):
        identify(load_robot("example:go1"), [recorded(0)])


def test_an_unknown_method_is_refused_before_any_work():
    steps: list[str] = []
    with pytest.raises(UnknownNameError, match=r"unknown method 'pcwls'.*pc-wls"):
        identify(prior(), [recorded(0)], method="pcwls", progress=steps.append)
    assert not steps


def test_defects_of_a_log_come_first_in_the_verdict(tmp_path):
    log = recorded(0)
    shifted = {**log.channels, "q.joint2": log.channels["q.joint2"] + 0.5}
    run = identify(prior(), [Log.of(log.t, shifted, log.units)], preprocessing=GIVEN)
    assert [(defect.kind, defect.joint) for defect in run.defects] == [("zero", "joint2")]
    assert abs(run.defects[0].estimate - 0.5) < 3.0 * run.defects[0].std
    assert run.verdict.advice[0] == str(run.defects[0])
    assert run.verdict.grade != "good"
    assert identify(prior(), [log], preprocessing=GIVEN).defects == ()
    write_run(tmp_path, run)
    table = json.loads((tmp_path / "scores.json").read_text(encoding="utf-8"))
    assert table["defects"][0]["message"].startswith("joint2's zero is off by ")


# -- progress and provenance ------------------------------------------------------------------


def test_progress_is_told_step_by_step():
    steps: list[str] = []
    identify(prior(), [recorded(0)], friction="choose", progress=steps.append)
    words = (
        "examining",
        "cut-off",
        "friction",
        "method",
        "identifying with",
        "held-out",
        "defects",
    )
    assert len(steps) == len(words)
    for step, word in zip(steps, words, strict=True):
        assert word in step


def test_the_provenance_is_complete():
    run = usual()
    origin = run.identification.provenance
    json.dumps(origin, allow_nan=False)
    assert set(origin) == {
        "versions",
        "robot",
        "logs",
        "validation",
        "method",
        "preprocessing",
        "friction",
        "knowledge",
        "seed",
    }
    assert origin["seed"] == 7
    assert origin["method"]["name"] == "pc-wls"
    assert origin["robot"]["name"] == "RV2SQ"
    assert origin["logs"] == [{"source": "log", "sha256": ""}]
    assert len(origin["validation"]) == 1
    assert origin["preprocessing"]["cutoff"] == run.settings.cutoff
    assert None not in origin["preprocessing"].values()
    assert origin["friction"]["model"] == "coulomb"
    assert len(origin["friction"]["shape"]["width"]) == 6


def test_the_provenance_repeats_the_run():
    """What it says of the filters is enough to get the same numbers."""
    run = usual()
    settings = Preprocessing(**run.identification.provenance["preprocessing"])
    again = identify(prior(), [recorded(0)], preprocessing=settings, seed=7)
    assert again.identification.theta.tobytes() == run.identification.theta.tobytes()


def test_validation_logs_of_the_same_name_are_scored_apart():
    """As logs that were never in a file are, or of files that differ in their folder alone."""
    logs = [recorded(1), recorded(2)]
    run = identify(prior(), [recorded()], validate=logs, preprocessing=GIVEN)
    scored = [s for s in run.scores if s.kind == "validation"]
    assert [s.source for s in scored] == ["log", "log"]
    alone = identify(prior(), [recorded()], validate=logs[1:], preprocessing=GIVEN)
    assert scored[1] == next(s for s in alone.scores if s.kind == "validation")
    assert scored[0] != scored[1]
