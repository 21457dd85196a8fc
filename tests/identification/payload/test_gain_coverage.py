"""Do the uncertainties of drive gains hold what they promise, and do gains help to weigh?"""

from __future__ import annotations

import numpy as np
import pytest

from bodysense.identification.payload.drive_gains import DriveGains
from bodysense.identification.payload.identify_drive_gains import drive_gains_of
from bodysense.identification.payload.identify_payload import payload_of

SEEDS = range(8)
SPREAD = 0.03  # of the logged gains about the true ones


@pytest.fixture(scope="module")
def runs(make_case) -> list[tuple[np.ndarray, DriveGains]]:
    """Logged over true torques (n,) of each seed, and the gains that were identified."""
    made = []
    for seed in SEEDS:
        logged = np.exp(SPREAD * np.random.default_rng(seed).normal(size=4))
        case = make_case(gains=logged, noise=0.1, n_t=400, seed=seed)
        made.append((logged, drive_gains_of(case.experiment, load=2.0)))
    return made


def test_intervals_of_gains_hold_the_truth(runs):
    """32 intervals of 95 %: fewer than 27 inside are four standard deviations below."""
    inside = [np.abs(g.factors * logged - 1.0) < 1.96 * g.sigma * logged for logged, g in runs]
    assert np.sum(inside) >= 27


def test_the_stated_uncertainty_is_that_of_the_errors(runs):
    """Neither half of what the gains are off by nor three times as much, on average."""
    errors = np.sqrt(np.mean([np.mean((g.factors * logged - 1.0) ** 2) for logged, g in runs]))
    stated = np.sqrt(np.mean([g.gain_uncertainty**2 for _, g in runs]))
    assert max(errors, 0.01) / 2.0 < stated < 3.0 * max(errors, 0.01)


def test_gains_help_to_weigh_another_load(runs, make_case):
    """Another motion with the same drives, weighed with nominal and with identified gains."""
    errors, widths, inside = [], [], []
    for seed, (logged, gains) in zip(SEEDS, runs, strict=True):
        weighed = [
            payload_of(
                make_case(gains=left, noise=0.1, n_t=400, seed=seed + 500).experiment,
                gain_uncertainty=uncertainty,
            )
            for left, uncertainty in (
                (logged, SPREAD),
                (logged * gains.factors, gains.gain_uncertainty),
            )
        ]
        errors.append([abs(load.mass - 2.0) for load in weighed])
        intervals = [load.mass_interval() for load in weighed]
        widths.append([high - low for low, high in intervals])
        inside.append(intervals[1][0] < 2.0 < intervals[1][1])
    before, after = np.mean(errors, axis=0)
    assert after < 0.7 * before
    wide, narrow = np.mean(widths, axis=0)
    assert narrow < wide
    assert np.sum(inside) >= len(inside) - 1
