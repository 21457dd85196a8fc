"""The detector in white noise and in pushes: rates of alarms, times, links, forces, settings."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import chi2, ncx2
from white_noise import PERIOD, PRIOR, readings, scales_of

from bodysense.errors import ShapeError
from bodysense.estimation.contact.detector import (
    WINDOWS,
    DetectionSettings,
    Scales,
    chi_square_of,
    detect_contacts,
    detectable_force,
    inflation_of,
)
from bodysense.estimation.contact.evidence import surprise

EFFECTS = np.random.default_rng(3).normal(size=(8, 6))
"""(m, 6) what readings with unit noise show of a wrench."""

FORCE = np.diag([1.0, 1.0, 1.0, 0.0, 0.0, 0.0])  # of a prior: pure forces


def pushed(
    T: int, first: int, last: int, wrench: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """(T, m) readings with a wrench from sample `first` to sample `last`."""
    y = readings(EFFECTS, T, rng)
    y[first : last + 1] += EFFECTS @ wrench
    return y


@pytest.mark.parametrize("prior", [PRIOR, PRIOR @ FORCE], ids=["wrench", "force"])
def test_false_alarms_are_as_many_as_asked_for(rng, prior):
    T, asked = 40_000, 1000.0
    scales = scales_of({"l": EFFECTS}, readings(EFFECTS, T, rng), prior=prior)
    settings = DetectionSettings(false_alarms=asked, minimum_duration=0.0, separation=0.1)
    found = detect_contacts(scales, settings)
    rate = len(found.contacts) / (T * PERIOD / 3600.0)
    assert asked / 1.5 < rate < asked * 1.5


def test_two_links_share_the_false_alarms(rng):
    T, asked = 20_000, 1000.0
    other = rng.normal(size=EFFECTS.shape)
    scales = scales_of({"a": EFFECTS, "b": other}, readings(EFFECTS, T, rng))
    settings = DetectionSettings(false_alarms=asked, minimum_duration=0.0, separation=0.1)
    rate = len(detect_contacts(scales, settings).contacts) / (T * PERIOD / 3600.0)
    assert asked / 1.6 < rate < asked * 1.5


def test_white_noise_is_no_contact_by_default(rng):
    found = detect_contacts(
        scales_of({"l": EFFECTS}, readings(EFFECTS, 8000, rng)), DetectionSettings()
    )
    assert found.contacts == ()
    assert not found.covered.any()
    assert max(found.inflation.values()) < 1.3


@pytest.mark.parametrize(("size", "late"), [(20.0, 1), (3.0, 2), (0.9, 8)])
def test_a_push_is_found_when_it_was(rng, size, late):
    wrench = size * np.array([1.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    scales = scales_of({"l": EFFECTS}, pushed(800, 300, 420, wrench, rng))
    (contact,) = detect_contacts(scales, DetectionSettings()).contacts
    assert abs(contact.first - 300) <= late
    assert abs(contact.last - 420) <= max(late, 8)  # a window that ends after it still holds it
    assert contact.probability == 1.0


def test_noise_that_is_larger_than_stated_is_seen_and_no_contact(rng):
    y = readings(EFFECTS, 4000, rng, scale=3.0)
    found = detect_contacts(scales_of({"l": EFFECTS}, y), DetectionSettings())
    assert found.contacts == ()
    assert found.inflation["l", 1] == pytest.approx(9.0, rel=0.1)
    y[1000:1100] += EFFECTS @ np.array([30.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    found = detect_contacts(scales_of({"l": EFFECTS}, y), DetectionSettings())
    assert len(found.contacts) == 1
    assert found.inflation["l", 1] == pytest.approx(9.0, rel=0.1)


def test_a_contact_that_weakens_is_one_and_others_are_two(rng):
    wrench = np.array([0.0, 6.0, 0.0, 0.0, 0.0, 0.0])
    y = pushed(800, 300, 340, wrench, rng)
    y[330:336] -= 0.5 * EFFECTS @ wrench  # half as strong for a while
    settings = DetectionSettings(separation=0.0)
    assert len(detect_contacts(scales_of({"l": EFFECTS}, y), settings).contacts) == 1
    y[360:400] += EFFECTS @ wrench
    scales = scales_of({"l": EFFECTS}, y)
    assert len(detect_contacts(scales, settings).contacts) == 2
    near = DetectionSettings(separation=1.0)
    assert len(detect_contacts(scales, near).contacts) == 1


def test_contacts_end_where_pieces_do(rng):
    wrench = np.array([0.0, 0.0, 8.0, 0.0, 0.0, 0.0])
    y = pushed(600, 280, 320, wrench, rng)
    settings = DetectionSettings(separation=0.0)
    found = detect_contacts(scales_of({"l": EFFECTS}, y, starts=(0, 300)), settings).contacts
    assert [c.last for c in found] == [299, pytest.approx(320, abs=8)]
    assert found[0].first == pytest.approx(280, abs=2)
    assert found[1].first == 300


def test_short_and_weak_contacts_can_be_left_out(rng):
    wrench = np.array([4.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    scales = scales_of({"l": EFFECTS}, pushed(600, 300, 319, wrench, rng))
    assert len(detect_contacts(scales, DetectionSettings()).contacts) == 1
    assert not detect_contacts(scales, DetectionSettings(minimum_duration=1.0)).contacts
    assert not detect_contacts(scales, DetectionSettings(minimum_force=8.0)).contacts
    assert len(detect_contacts(scales, DetectionSettings(minimum_force=2.0)).contacts) == 1


def test_link_is_the_one_that_explains_readings(rng):
    effects = {"other": rng.normal(size=(20, 6)), "l": rng.normal(size=(20, 6))}
    y = rng.standard_normal((800, 20))
    y[300:401] += effects["l"] @ np.array([1.0, 1.0, 0.0, 0.0, 0.0, 0.0])
    (contact,) = detect_contacts(scales_of(effects, y), DetectionSettings()).contacts
    assert contact.link == "l"
    assert contact.probability > 0.999


def test_links_that_readings_cannot_tell_are_as_probable(rng):
    y = pushed(800, 300, 400, np.array([2.0, 1.0, 0.0, 0.0, 0.0, 0.0]), rng)
    found = detect_contacts(scales_of({"a": EFFECTS, "b": EFFECTS}, y), DetectionSettings())
    assert found.contacts[0].probability == pytest.approx(0.5)


def test_the_force_that_is_stated_is_found_in_most_cases(rng):
    """Pushes along the axes that show best and worst, as long as a window, in many trials."""
    settings, trials, every = DetectionSettings(minimum_duration=0.0), 100, 200
    scales = scales_of({"l": EFFECTS}, readings(EFFECTS, 4000, rng))
    quiet = detect_contacts(scales, settings)
    stated = detectable_force(scales, quiet, "l")
    J = scales.one.force_information("l")[0]
    axes = np.linalg.eigh(J)[1]
    for window in (2, 16):
        for force, axis in zip(stated[window], (axes[:, 2], axes[:, 0]), strict=True):
            y = readings(EFFECTS, trials * every, rng)
            effect = EFFECTS[:, :3] @ (force * axis)
            for k in range(trials):
                y[k * every + 40 : k * every + 40 + window] += effect
            found = detect_contacts(scales_of({"l": EFFECTS}, y), settings).covered
            hit = [found[k * every + 40 : k * every + 40 + window].any() for k in range(trials)]
            assert np.mean(hit) > 0.9
    sizes = [stated[window][0] for window in WINDOWS]
    assert sizes == sorted(sizes, reverse=True)


def test_samples_that_tell_less_count_in_what_is_stated(rng):
    """A tenth of them tell a hundredth: against the noncentral chi² distribution."""
    scales = scales_of({"l": EFFECTS}, readings(EFFECTS, 1000, rng))
    found = detect_contacts(scales, DetectionSettings())
    alike = detectable_force(scales, found, "l")[4]
    less = np.where(np.arange(1000) % 10 == 0, 0.01, 1.0)
    evidence = {
        w: replace(e, information={"l": e.information["l"] * less[:, None, None]})
        for w, e in scales.evidence.items()
    }
    mixed = detectable_force(Scales(evidence, scales.starts, PERIOD), found, "l")[4]
    assert mixed[0] > 3.0 * alike[0]
    limit = chi_square_of(found.threshold, 6.0)
    J = np.linalg.eigvalsh(scales.evidence[4].force_information("l")[0])
    for force, information in zip(mixed, J[[2, 0]], strict=True):
        share = ncx2.sf(limit, 6.0, force**2 * information * np.array([1.0, 0.01])) @ [0.9, 0.1]
        assert 0.94 < share < 0.98


def test_nothing_is_promised_where_readings_say_nothing(rng):
    scales = scales_of({"l": 1e-9 * EFFECTS}, readings(EFFECTS, 400, rng))
    found = detect_contacts(scales, DetectionSettings())
    assert found.contacts == ()
    assert detectable_force(scales, found, "l")[2] == (np.inf, np.inf)


@pytest.mark.parametrize("tail", [False, True])
def test_inflation_is_that_of_the_variance(rng, tail):
    square, freedom = 4.0 * rng.chisquare(6, 20_000), np.full(20_000, 6.0)
    assert inflation_of(square, freedom, tail=tail) == pytest.approx(4.0, rel=0.1)
    square[:2000] += 1e3  # contacts, which a low quantile does not see
    assert inflation_of(square, freedom) == pytest.approx(4.0, rel=0.25)
    assert inflation_of(0.1 * square, freedom, tail=False) == 1.0
    assert inflation_of(square[:5], freedom[:5]) == 1.0


@pytest.mark.parametrize("freedom", [1.0, 3.0, 6.0])
@pytest.mark.parametrize("level", [0.1, 3.0, 13.0, 400.0])
def test_chi_square_of_a_surprise_is_its_inverse(freedom, level):
    square = chi_square_of(level, freedom)
    assert surprise(np.array([square]), np.array([freedom]))[0] == pytest.approx(level, rel=1e-6)
    if level < 20.0:
        assert square == pytest.approx(chi2(freedom).isf(np.exp(-level)), rel=1e-6)


def test_threshold_grows_with_links_and_falls_with_alarms():
    few, many = DetectionSettings(false_alarms=1.0), DetectionSettings(false_alarms=10.0)
    assert few.threshold(0.02, 1) - many.threshold(0.02, 1) == pytest.approx(np.log(10.0))
    assert few.threshold(0.02, 3) - few.threshold(0.02, 1) == pytest.approx(np.log(3.0))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"false_alarms": 0.0}, "false alarms per hour are 0"),
        ({"false_alarms": 4000.0}, "below 3600"),
        ({"false_alarms": np.nan}, "false alarms"),
        ({"minimum_force": -1.0}, "minimum_force is -1"),
        ({"minimum_duration": np.inf}, "minimum_duration is inf"),
        ({"separation": np.nan}, "separation is nan"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(ShapeError, match=message):
        DetectionSettings(**settings)
