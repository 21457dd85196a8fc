"""Every sentence of the verdict, from scores that are made up for it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bodysense.identification import DataScores, Identification, Score, Status, Verdict
from bodysense.identification.scores import ModelScores, Prediction
from bodysense.identification.verdict import judge
from bodysense.robot import base_parameters, load_robot
from bodysense.spatial import Array

JOINTS = 6
KINDS = ("training", "held-out")


def score(errors: float | list[float], samples: int | list[int] = 100) -> Score:
    values = tuple(np.broadcast_to(errors, JOINTS).astype(float).tolist())
    counts = tuple(np.broadcast_to(samples, JOINTS).tolist())
    return Score(counts, values, values, values, values[0], values[0])


def scores(
    kind: str = "held-out",
    error: float | list[float] = 0.05,
    *,
    before: float | list[float] = 0.5,
    noise: float | list[float] = 0.0,
    samples: int | list[int] = 100,
    source: str = "run.csv",
) -> DataScores:
    def of(errors: float | list[float]) -> ModelScores:
        return ModelScores(score(errors, samples), score(errors, samples), score(errors, samples))

    floor = tuple(np.broadcast_to(noise, JOINTS).tolist())
    return DataScores(source, kind, 10.0, floor, floor[0], floor, of(error), of(before))


@pytest.fixture(scope="module")
def found() -> Identification:
    """A result without fault."""
    robot = load_robot("tx40")
    base = base_parameters(robot)
    p, b = robot.layout.size, base.size
    return Identification(
        method="pc-wls",
        prior=robot,
        base=base,
        theta=robot.theta,
        covariance=np.eye(b),
        sigma=np.ones(p),
        resolution=np.ones(p),
        base_resolution=np.ones(b),
        noise=np.ones((1, JOINTS)),
        correlation_time=np.ones(1),
        status=Status(True, "Solved."),
    )


def judged(found: Identification, *more: DataScores, fit: float = 0.05) -> Verdict:
    return judge(found, [scores("training", fit), *more])


# -- grades -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "grade"),
    [(0.001, "good"), (0.09, "good"), (0.11, "fair"), (0.24, "fair"), (0.3, "poor")],
)
def test_the_grade_is_that_of_unseen_data(found, error, grade):
    verdict = judge(found, [scores("training", error), scores("held-out", error, before=0.9)])
    assert verdict.grade == grade
    assert "held-out blocks" in verdict.summary
    assert f"{100 * error:.1f} %" in verdict.summary
    assert "the robot's file alone to 90.0 %" in verdict.summary


def test_noise_is_that_of_the_data_judged(found):
    fit = [scores("training", noise=0.042), scores("held-out", noise=0.042)]
    assert "4.2 % of the raw torque is above the bandwidth" in judge(found, fit).summary
    others = [scores("validation", noise=0.034), scores("validation", noise=0.036)]
    assert "3.5 % of the raw torque is above the bandwidth" in judge(found, [*fit, *others]).summary


def test_good_results_need_no_advice(found):
    verdict = judged(found, scores("held-out", 0.05))
    assert (verdict.grade, verdict.advice, verdict.caution) == ("good", (), "")
    assert str(verdict).startswith("GOOD: on held-out blocks")


def test_validation_counts_before_held_out_blocks(found):
    verdict = judged(found, scores("held-out", 0.2), scores("validation", 0.05), fit=0.2)
    assert verdict.grade == "good"
    assert "on validation recordings" in verdict.summary


def test_several_validation_recordings_are_averaged(found):
    verdict = judged(found, scores("held-out", 0.2), *(scores("validation", e) for e in (0.1, 0.2)))
    assert "15.0 %" in verdict.summary
    assert verdict.grade == "fair"


def test_without_unseen_data_the_fit_is_judged_and_it_says_so(found):
    """It is never good, for nothing shows that it predicts."""
    verdict = judged(found)
    assert verdict.grade == "fair"
    assert not verdict.intervals_hold
    assert "on the training data" in verdict.summary
    assert "held-out" not in verdict.summary
    assert "too little data to hold any out" in only(verdict)


def test_joints_whose_torque_is_mostly_noise_are_not_held_against_the_model(found):
    errors, noise = [0.04, 0.06, 0.04, 0.06, 0.05, 0.9], [0.1, 0.0, 0.0, 0.0, 0.0, 0.88]
    verdict = judge(found, [scores(kind, errors, noise=noise) for kind in ("training", "held-out")])
    assert verdict.grade == "good"
    assert "to 5.0 % on average" in verdict.summary
    assert "10.0 % of the raw torque is above the bandwidth" in verdict.summary


def test_where_all_is_noise_all_joints_count(found):
    verdict = judge(found, [scores(kind, 0.9, noise=0.8) for kind in ("training", "held-out")])
    assert verdict.grade == "poor"
    assert "to 90.0 % on average" in verdict.summary


def test_joints_that_never_move_are_left_out_of_the_average(found):
    nan = float("nan")
    part = [0.1, nan, 0.1, nan, 0.1, 0.1]
    before = [0.5, nan, 0.5, nan, 0.5, 0.5]
    verdict = judge(found, [scores(kind, part, before=before) for kind in ("training", "held-out")])
    assert verdict.grade == "good"
    assert "10.0 %" in verdict.summary


@pytest.mark.parametrize("kind", ["held-out", "validation"])
def test_unseen_data_that_never_move_tell_nothing(found, kind):
    nan = float("nan")
    verdict = judged(found, scores(kind, nan, before=nan))
    assert verdict.grade == "poor"
    assert "no joint moves" in verdict.summary
    assert "nan" not in str(verdict).lower()


def test_one_still_validation_recording_does_not_spoil_the_others(found):
    nan = float("nan")
    verdict = judged(
        found, scores(), scores("validation", nan, before=nan), scores("validation", 0.07)
    )
    assert verdict.grade == "good"
    assert "7.0 %" in verdict.summary


def test_a_failure_is_told_as_it_is(found):
    failed = replace(found, status=Status(False, "The solver failed; check the log."))
    verdict = judged(failed, scores())
    assert (verdict.grade, verdict.advice) == ("failed", ())
    assert verdict.summary == "The solver failed; check the log."
    assert not verdict.intervals_hold


@pytest.mark.parametrize(("worst", "grade"), [(0.19, "good"), (0.22, "fair"), (0.55, "poor")])
def test_the_worst_joint_decides(found, worst, grade):
    errors = [0.01, 0.01, worst, 0.01, 0.01, 0.01]
    verdict = judge(found, [scores(kind, errors, before=0.9) for kind in ("training", "held-out")])
    assert verdict.grade == grade
    assert f"to {100 * worst:.1f} % at worst (joint3)" in verdict.summary
    assert (verdict.worst, verdict.worst_joint) == (worst, "joint3")
    assert verdict.error == pytest.approx(np.mean(errors))


def test_joints_that_do_not_count_are_said_in_the_first_line(found):
    errors, noise = [0.04, 0.06, float("nan"), 0.06, 0.05, 0.9], [0.0] * 5 + [0.88]
    before = [0.5, 0.5, float("nan"), 0.5, 0.5, 0.5]
    verdict = judge(found, [scores(k, errors, before=before, noise=noise) for k in KINDS])
    assert "Not counted, still, moved only once or mostly noise: joint3, joint6." in verdict.summary
    assert verdict.worst_joint == "joint2"


def test_joints_that_moved_once_are_not_judged_and_said(found):
    nan = float("nan")
    held_out = scores(error=[0.05, nan, 0.05, 0.05, 0.05, 0.05], samples=[90, 0, 90, 90, 90, 90])
    verdict = judged(found, held_out)
    assert verdict.grade == "fair"
    assert any("joint2 moved only once" in sentence for sentence in verdict.advice)
    assert judged(found, held_out, scores("validation")).grade == "good"


def prediction(torque: Array, error: Array) -> Prediction:
    """Of held-out blocks, for all joints alike; (n_t,) each."""
    tau, wrong = (np.tile(x[:, None], (1, JOINTS)) for x in (torque, error))
    t, moving = np.arange(tau.shape[0]) / 100.0, np.ones(tau.shape, dtype=bool)
    made = tau + wrong
    return Prediction(
        "a.csv", "held-out", 0, t, tau, tau, made, made, made, made, moving, moving, 0.1, 10.0
    )


@pytest.mark.parametrize(("error", "grade"), [(0.2, "good"), (0.97, "fair")])
def test_a_torque_that_a_constant_predicts_as_well_is_not_called_good(found, error, grade):
    """Its mean is most of it, so that the relative error is small all the same."""
    wave = np.sin(0.1 * np.arange(1000.0))
    verdict = judge(
        found,
        [scores(kind, 0.05) for kind in KINDS],
        predictions=[prediction(20.0 + wave, error * wave)],
    )
    assert verdict.grade == grade
    assert verdict.intervals_hold == (grade == "good")
    if grade == "fair":
        assert only(verdict).startswith("Torque of joint1, joint2")
        assert "no better than by a constant" in only(verdict)


@pytest.mark.parametrize("against", [{"concerns": ["x."]}, {"warnings": ["x."]}])
def test_intervals_are_not_trusted_where_something_speaks_against_the_recording(found, against):
    verdict = judge(found, [scores(kind) for kind in KINDS], **against)
    assert verdict.grade == "fair"
    assert not verdict.intervals_hold
    assert "cannot be trusted" in verdict.caution


def test_short_recordings_and_joints_that_hardly_moved_leave_the_intervals(found):
    seen = [scores(kind, samples=[1000, 1000, 5, 1000, 1000, 1000]) for kind in KINDS]
    seen[0] = replace(
        seen[0], identified=replace(seen[0].identified, all=score(0.05, [1000] * JOINTS))
    )
    verdict = judge(found, seen, duration=2.0)
    assert verdict.grade == "fair"
    assert verdict.intervals_hold
    assert verdict.advice[-1].startswith("joint3 hardly moved")


# -- advice -----------------------------------------------------------------------------------


def only(verdict: Verdict) -> str:
    (sentence,) = verdict.advice
    return sentence


@pytest.mark.parametrize(
    ("error", "before", "grade"),
    [
        (0.05, 0.03, "poor"),
        (0.24, 0.18, "poor"),
        (0.08, 0.07, "fair"),
        (0.2, 0.18, "fair"),
        (0.5, 0.45, "poor"),
    ],
)
def test_worse_than_the_file(found, error, before, grade):
    """Never good, however near to the file's; poor by more than a quarter, however small."""
    seen = [scores(kind, error, before=before) for kind in ("training", "held-out")]
    verdict = judge(found, seen)
    assert verdict.grade == grade
    assert verdict.intervals_hold == (grade == "fair")
    assert verdict.advice[0].startswith(
        f"It predicts worse than the robot's file alone ({100 * error:.1f} % against "
        f"{100 * before:.1f} % on held-out blocks): keep the file for now"
    )


def test_worse_than_the_file_on_blocks_left_out_is_poor_whatever_another_recording_says(found):
    verdict = judged(
        found, scores("held-out", 0.2, before=0.15), scores("validation", 0.09, before=0.5), fit=0.2
    )
    assert verdict.grade == "poor"
    assert "20.0 % against 15.0 % on held-out blocks)" in only(verdict)


def test_worse_than_the_file_on_validation_alone_says_why(found):
    verdict = judged(found, scores(), scores("validation", 0.06, before=0.03))
    assert verdict.grade == "poor"
    assert "(6.0 % against 3.0 % on validation recordings)" in only(verdict)


def test_worse_than_the_file_on_all_that_there_is(found):
    verdict = judge(found, [scores("training", 0.2, before=0.1)])
    assert verdict.grade == "poor"
    assert "too little data to hold any out" in verdict.advice[0]
    assert "20.0 % against 10.0 % on the training data)" in verdict.advice[1]


def test_a_file_that_was_right_already_is_no_fault(found):
    verdict = judge(found, [scores(kind, 0.03, before=0.029) for kind in ("training", "held-out")])
    assert (verdict.grade, verdict.advice, verdict.caution) == ("good", (), "")


def test_overfitted(found):
    sentence = only(judged(found, scores("held-out", 0.09), fit=0.05))
    assert sentence.startswith("It is overfitted: 5.0 % on the training data, 9.0 % on held-out")


@pytest.mark.parametrize(
    ("method", "settings", "remedy"),
    [
        ("pc-wls", {"relaxation_weight": 1.0}, "or try --relax auto --relax-weight auto."),
        ("pc-wls", {"relaxation_weight": None}, "Record for longer."),
        ("ridge", {}, "or try --method pc-wls --relax auto --relax-weight auto."),
        ("iv", {}, "or try --method pc-iv --relax auto --relax-weight auto."),
        ("pc-points", {}, "or try --method pc-wls --relax auto --relax-weight auto."),
    ],
)
def test_overfitting_is_cured_by_a_relaxation_that_is_not_there_yet(
    found, method, settings, remedy
):
    relaxed = {"relaxation": "pullback", **settings} if settings else {}
    overfitted = replace(found, method=method, provenance={"method": relaxed})
    sentence = only(judged(overfitted, scores("held-out", 0.09), fit=0.05))
    assert sentence.endswith(remedy)


def test_does_not_generalise(found):
    verdict = judged(found, scores(), scores("validation", 0.09, source="warm [1].csv"))
    assert only(verdict).startswith("It does not generalise to warm [1].csv (9.0 % against 5.0 %)")


def test_joints_that_are_predicted_poorly(found):
    errors = [0.01, 0.4, 0.01, 0.01, 0.26, 0.01]
    verdict = judge(found, [scores(kind, errors) for kind in ("training", "held-out")])
    assert only(verdict).startswith(
        "Torque is predicted poorly for joint2 (40.0 %), joint5 (26.0 %): are drives coupled"
    )


def test_a_joint_whose_torque_is_noise_is_not_called_poor(found):
    verdict = judge(found, [scores(kind, 0.3, noise=0.29) for kind in ("training", "held-out")])
    assert only(verdict).startswith("Torque of joint1 (30.0 %), joint2")
    assert "is mostly noise and does not count" in only(verdict)


def test_a_short_recording_is_not_called_good_without_another_one(found):
    seen = [scores(kind, 0.05) for kind in ("training", "held-out")]
    verdict = judge(found, seen, duration=2.0)
    assert verdict.grade == "fair"
    assert only(verdict).startswith("Blocks of a recording of 2 s resemble each other too much")
    validated = judge(found, [*seen, scores("validation", 0.05)], duration=2.0)
    assert validated.grade == "fair"
    assert only(validated) == (
        "Validation recordings of 2 s are too short to judge by: give longer ones."
    )


def test_the_worst_recording_of_a_joint_decides(found):
    poor = scores("validation", [0.04, 0.04, 0.04, 0.04, 0.04, 0.22])
    verdict = judged(found, scores(), poor, scores("validation", 0.02), scores("validation", 0.02))
    assert (verdict.grade, verdict.worst, verdict.worst_joint) == ("fair", 0.22, "joint6")


@pytest.mark.parametrize("kind", ["held-out", "validation"])
def test_what_is_overfitted_is_not_called_good(kind, found):
    """Its intervals do not hold, so that they cannot stand beside that word."""
    verdict = judged(
        found,
        scores(error=0.095 if kind == "held-out" else 0.01),
        *([scores(kind, 0.095)] if kind == "validation" else []),
        fit=0.01,
    )
    assert (verdict.grade, verdict.intervals_hold) == ("fair", False)


def test_what_the_doctor_warns_of_is_not_called_good(found):
    seen = [scores(kind, 0.05) for kind in ("training", "held-out")]
    verdict = judge(found, seen, warnings=["a.csv, i: no gains; give them."])
    assert verdict.grade == "fair"
    assert only(verdict) == "The doctor warns: a.csv, i: no gains; give them."


def test_joints_that_never_moved(found):
    samples = [100, 0, 100, 100, 100, 0]
    verdict = judge(found, [scores(kind, samples=samples) for kind in ("training", "held-out")])
    assert only(verdict).startswith("joint2, joint6 never moved")


def test_infeasible_links(found):
    theta = found.theta.copy()
    theta[found.prior.layout.link(2)] *= -1.0
    verdict = judged(replace(found, theta=theta), scores())
    link = found.prior.link_names[2]
    assert only(verdict).startswith(f"Not physically consistent: inertia of {link} is infeasible.")
    assert "use a consistent method (pc-wls)" in only(verdict)


@pytest.mark.parametrize(
    ("method", "better"),
    [("iv", "pc-iv"), ("didim", "pc-didim"), ("cloe", "pc-cloe"), ("ols", "pc-wls")],
)
def test_the_consistent_method_that_is_advised_is_of_the_same_kind(found, method, better):
    theta = found.theta.copy()
    theta[found.prior.layout.link(2)] *= -1.0
    verdict = judged(replace(found, method=method, theta=theta), scores())
    assert only(verdict).endswith(f"use a consistent method ({better}).")


def test_negative_drives(found):
    names, theta = found.prior.layout.names, found.theta.copy()
    theta[names.index("Fv2")] = theta[names.index("Ia4")] = -0.1
    sentence = only(judged(replace(found, theta=theta), scores()))
    assert sentence.startswith("Not physically consistent: Ia4, Fv2 negative.")


def test_infeasible_links_and_negative_drives(found):
    names, theta = found.prior.layout.names, found.theta.copy()
    theta[names.index("Fc1")], theta[names.index("M1")] = -0.1, -1.0
    sentence = only(judged(replace(found, theta=theta), scores()))
    assert "is infeasible and Fc1 negative" in sentence


def test_links_at_the_border(found):
    """A plate with hardly any thickness."""
    theta = found.theta.copy()
    thin = 1e-5
    theta[found.prior.layout.link(4)] = [1.0, 0, 0, 0, 1.0 + thin, 0, 1.0 + thin, 0, 0, 2.0]
    sentence = only(judged(replace(found, theta=theta), scores()))
    assert sentence.startswith(f"{found.prior.link_names[4]} came out at the border")


def test_parameters_that_are_not_identified(found):
    shares = found.base_resolution.copy()
    shares[:3] = 0.2, 0.5, 0.0
    sentence = only(judged(replace(found, base_resolution=shares), scores()))
    assert sentence.startswith(
        "Of 52 base parameters 2 are driven by the prior, 1 not identifiable (see"
    )


def test_the_most_important_advice_comes_first(found):
    shares = np.zeros_like(found.base_resolution)
    verdict = judge(
        replace(found, base_resolution=shares),
        [
            scores("training", 0.2, before=0.4, samples=[0, 1, 1, 1, 1, 1]),
            scores("held-out", 0.6, before=0.4),
            scores("validation", 1.5, before=0.4),
        ],
    )
    starts = ["It predicts", "It is over", "It does not", "Torque", "joint1 never", "Of 52"]
    assert len(verdict.advice) == len(starts)
    for sentence, start in zip(verdict.advice, starts, strict=True):
        assert sentence.startswith(start)


def test_one_clear_joint_does_not_speak_for_five_of_noise(found):
    errors, noise = [0.04, 0.9, 0.9, 0.9, 0.9, 0.9], [0.1, 0.8, 0.8, 0.8, 0.8, 0.8]
    verdict = judge(found, [scores(kind, errors, noise=noise) for kind in ("training", "held-out")])
    assert verdict.grade == "poor"
    assert any("too few joints to judge by" in sentence for sentence in verdict.advice)


def test_validation_with_what_was_fitted_is_not_good_and_leaves_intervals(found):
    data = [scores(kind, 0.04) for kind in ("training", "held-out")]
    verdict = judge(found, data, overlaps=["log.csv was also used for fitting."])
    assert verdict.grade == "fair"
    assert verdict.intervals_hold
    assert "log.csv was also used for fitting." in verdict.advice


def test_rows_that_were_left_out_do_not_speak_against_intervals(found):
    fit = [scores("training"), scores("held-out")]
    verdict = judge(found, fit, left_out=["a.csv, t: a gap; the recording is split there."])
    assert (verdict.grade, verdict.intervals_hold) == ("fair", True)
    assert verdict.advice[0].startswith("The doctor warns: a.csv, t: a gap")
    assert not judge(found, fit, warnings=["a.csv, t: jitter; resampled."]).intervals_hold


def test_a_joint_whose_error_is_its_noise_is_not_held_against_the_model(found):
    errors = [0.02, 0.02, 0.02, 0.02, 0.02, 0.23]
    for level, grade in ((0.22, "good"), (0.1, "fair")):
        noise = [0.01] * 5 + [level]
        verdict = judge(found, [scores(k, errors, noise=noise) for k in ("training", "held-out")])
        assert verdict.grade == grade
        assert any("predicted poorly" in text for text in verdict.advice) is (grade == "fair")
