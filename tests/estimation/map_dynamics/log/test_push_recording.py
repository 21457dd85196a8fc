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
START = 0.1  # s that the filter leaves out at the beginning
REST = ((0.2, 1.5), (3.6, 4.1), (6.8, 7.9), (10.0, 11.4), (14.0, 18.2))  # s
PUSHES = (
    (5.0, 5.5),
    (8.75, 9.1),
    (12.2, 12.7),
)  # a fourth, at 2.2 s, is within what friction hides
LINKS = ("wrist_3_link", "forearm_link", "forearm_link")


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
    found, t = estimate.posterior(), estimate.t - estimate.recording.t[0] + START
    for link in ("forearm_link", "wrist_3_link"):
        inside = np.abs(found[f"fx.{link}"]) < 1.96 * found.sigma(f"fx.{link}")
        assert (inside[within(t, REST)].mean(axis=0) > 0.92).all()


def test_contacts_are_pushes(estimate):
    """Three, where they were, and on the link whose joints answer."""
    totals = LogTotals(estimate)
    for chunk in estimate.chunks(detail="blocks", judge=True):
        totals.add(chunk)
    found = totals.contacts()
    start = float(estimate.t[0]) - START
    assert [contact.link for contact in found] == list(LINKS)
    for contact, (begin, end) in zip(found, PUSHES, strict=True):
        assert abs(contact.start - start - begin) < 0.5
        assert abs(contact.end - start - end) < 0.5
        assert 40.0 < contact.force < 200.0
        assert contact.probability > 0.9
    assert estimate.notes == ()
