"""A UR10e that stands and is pushed by hand: its identified model feels the push, and nothing else.

Four times somebody pushes the arm, which stands still: its controller answers within a milliradian.
Only motor currents are measured, and friction hides part of what they tell.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bodysense.estimation import LogEstimate, LogTotals, load_estimation, prepare_log
from bodysense.identification import Preprocessing, identify
from bodysense.logs import read_log
from bodysense.robot import load_robot

EXAMPLES = Path(__file__).resolve().parents[4] / "examples"
LAYOUT = EXAMPLES / "layouts" / "ur10e.yaml"
SENSORS = EXAMPLES / "sensors" / "ur10e_push.yaml"
REST = ((0.2, 1.5), (3.6, 4.1), (6.8, 7.9), (10.0, 11.4), (14.0, 18.2))  # s
PUSHES = ((2.2, 2.5), (5.0, 5.5), (8.75, 9.1), (12.2, 12.7))
LAST = "fx.wrist_3_link"


@pytest.fixture(scope="module")
def estimate(recordings) -> LogEstimate:
    folder = recordings / "ur10e"
    training = read_log(folder / "ur-20_02_12-50sec_12harm.csv", LAYOUT)
    run = identify(
        load_robot(folder / "ur10e.urdf"),
        [training],
        method="wls",
        friction="own",
        preprocessing=Preprocessing(cutoff=6.0),
    )
    setup = load_estimation(SENSORS, run.robot)
    log = read_log(folder / "ur-20_01_22-push_pose_1.csv", LAYOUT)
    return prepare_log(setup, run.robot, log)


def within(t: np.ndarray, stretches: tuple[tuple[float, float], ...]) -> np.ndarray:
    return np.any([(t >= a) & (t < b) for a, b in stretches], axis=0)


def test_at_rest_the_band_holds_zero(estimate):
    found, t = estimate.posterior(), estimate.t - estimate.t[0] + 0.1
    inside = np.abs(found[LAST]) < 1.96 * found.sigma(LAST)
    assert (inside[within(t, REST)].mean(axis=0) > 0.95).all()


@pytest.mark.parametrize("push", PUSHES)
def test_in_a_push_it_does_not(estimate, push):
    found, t = estimate.posterior(), estimate.t - estimate.t[0] + 0.1
    here = within(t, (push,))
    beyond = (np.abs(found[LAST]) > 1.96 * found.sigma(LAST)).any(axis=1)
    assert beyond[here].mean() > 0.8


def test_contacts_are_pushes(estimate):
    totals = LogTotals(estimate)
    for chunk in estimate.chunks(detail="blocks", judge=True):
        totals.add(chunk)
    found = totals.contacts()
    start = float(estimate.t[0]) - 0.1
    assert 3 <= len(found) <= 4
    for contact in found:
        middle = 0.5 * (contact.start + contact.end) - start
        assert any(a - 0.5 < middle < b + 0.5 for a, b in PUSHES)
        assert 40.0 < contact.force < 200.0
    assert estimate.notes == ()


def test_the_second_push_is_at_the_wrist(estimate):
    """Hypotheses are told apart by what they make of the currents."""
    from bodysense.estimation import Assumptions, GaussianPrior

    r = estimate.recording
    t = r.t - r.t[0] + 0.1
    scores = {}
    for link in ("upper_arm_link", "forearm_link", "wrist_3_link"):
        prior = GaussianPrior.zero(6, [100, 100, 100, 10, 10, 10])
        problem = estimate.problem.with_assumptions(Assumptions(wrenches={link: prior}))
        for k in (1, 3):
            here = within(t, (PUSHES[k],))
            found = problem.estimate(r.q[here], r.dq[here], r.readings[here], likelihood=True)
            scores[link, k] = float(found.log_likelihood.mean())
    assert scores["wrist_3_link", 1] > scores["forearm_link", 1] > scores["upper_arm_link", 1]
    assert scores["forearm_link", 3] > scores["wrist_3_link", 3]
