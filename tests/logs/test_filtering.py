"""Filters against closed forms: Butterworth's gain, exact differences, numpy's convolution."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bodysense.errors import ShapeError
from bodysense.logs.filtering import decimate, differentiate, fir_lowpass, lowpass

RATE = 200.0


def tone(frequency: float, n_t: int = 4000) -> tuple[np.ndarray, np.ndarray]:
    phase = 2.0 * np.pi * frequency * np.arange(n_t) / RATE
    return np.sin(phase), np.cos(phase)


def in_and_out_of_phase(x: np.ndarray, frequency: float) -> np.ndarray:
    """Amplitudes of sine and cosine in the middle of a signal."""
    sine, cosine = tone(frequency, x.size)
    middle = slice(x.size // 4, -x.size // 4)
    basis = np.stack([sine[middle], cosine[middle]], axis=1)
    return np.linalg.lstsq(basis, x[middle], rcond=None)[0]


@pytest.mark.parametrize("order", [2, 4, 5])
@pytest.mark.parametrize("frequency", [1.0, 10.0, 20.0, 35.0, 60.0])
def test_lowpass_has_butterworths_gain_twice_and_no_phase(order, frequency):
    cutoff = 20.0
    sine, _ = tone(frequency)
    out = lowpass(sine[:, None], RATE, cutoff, order=order)[:, 0]
    # The bilinear transform bends the frequency axis: tan(pi f / rate) stands for f.
    ratio = np.tan(np.pi * frequency / RATE) / np.tan(np.pi * cutoff / RATE)
    np.testing.assert_allclose(
        in_and_out_of_phase(out, frequency), [1.0 / (1.0 + ratio ** (2 * order)), 0.0], atol=1e-9
    )


def test_lowpass_keeps_constants_up_to_the_ends_and_columns_apart(rng):
    x = np.stack([np.full(300, 3.0), rng.normal(size=300)], axis=1)
    out = lowpass(x, RATE, 10.0)
    np.testing.assert_allclose(out[:, 0], 3.0, rtol=1e-9)
    np.testing.assert_allclose(out[:, 1:], lowpass(x[:, 1:], RATE, 10.0), rtol=1e-12)


@pytest.mark.parametrize("n_t", [0, 1, 2, 3, 10, 100])
def test_lowpass_of_few_samples_is_finite(n_t, rng):
    out = lowpass(rng.normal(size=(n_t, 2)), RATE, 1.0)
    assert out.shape == (n_t, 2)
    assert np.isfinite(out).all()


@pytest.mark.parametrize("cutoff", [0.0, -1.0, 100.0, 130.0, np.nan])
def test_lowpass_refuses_cutoffs_without_meaning(cutoff):
    with pytest.raises(ShapeError, match=r"cut-off is .* below half the sampling rate \(100 Hz\)"):
        lowpass(np.zeros((10, 1)), RATE, cutoff)


@pytest.mark.parametrize("function", [lowpass, differentiate])
def test_signals_must_be_tables_of_finite_numbers(function):
    more = (RATE, 10.0) if function is lowpass else (RATE,)
    with pytest.raises(ShapeError, match=r"x has shape \(10,\)"):
        function(np.zeros(10), *more)
    with pytest.raises(ShapeError, match="x holds nan"):
        function(np.full((10, 1), np.nan), *more)


@pytest.mark.parametrize("accuracy", [2, 4, 6])
@given(seed=st.integers(0, 10**6))
def test_differences_are_exact_on_polynomials_up_to_their_accuracy(accuracy, seed):
    coefficients = np.random.default_rng(seed).normal(size=accuracy + 1)
    t = np.arange(40) / 10.0 - 2.0
    x, slope = (np.polyval(c, t) for c in (coefficients, np.polyder(coefficients)))
    found = differentiate(x[:, None], 10.0, accuracy=accuracy)[:, 0]
    inner = slice(accuracy // 2, -accuracy // 2)
    np.testing.assert_allclose(found[inner], slope[inner], atol=1e-10 * np.abs(slope).max())


@pytest.mark.parametrize("accuracy", [2, 4, 6])
def test_differences_at_the_ends_are_of_order_two(accuracy):
    t = np.arange(9) / 10.0
    found = differentiate((3.0 * t**2 - t)[:, None], 10.0, accuracy=accuracy)[:, 0]
    np.testing.assert_allclose(found, 6.0 * t - 1.0, atol=1e-12)


@pytest.mark.parametrize("accuracy", [2, 4, 6])
def test_half_the_period_divides_the_error_by_two_to_the_accuracy(accuracy):
    errors = []
    for rate in (20.0, 40.0):
        t = np.arange(int(4 * rate)) / rate
        found = differentiate(np.sin(5.0 * t)[:, None], rate, accuracy=accuracy)[:, 0]
        errors.append(np.abs(found - 5.0 * np.cos(5.0 * t))[5:-5].max())
    assert np.log2(errors[0] / errors[1]) == pytest.approx(accuracy, abs=0.15)


@pytest.mark.parametrize(("accuracy", "percent"), [(2, 6.5), (4, 0.5), (6, 0.04)])
def test_differences_lose_as_much_as_documented_at_a_tenth_of_the_rate(accuracy, percent):
    sine, _ = tone(RATE / 10.0)
    slope = differentiate(sine[:, None], RATE, accuracy=accuracy)[:, 0]
    sine_part, cosine_part = in_and_out_of_phase(slope, RATE / 10.0) / (2.0 * np.pi * RATE / 10.0)
    assert sine_part == pytest.approx(0.0, abs=1e-12)
    assert 100.0 * (1.0 - cosine_part) == pytest.approx(percent, rel=0.05)


def test_differences_of_few_samples():
    assert differentiate([[4.0]], RATE).tolist() == [[0.0]]
    assert differentiate([[4.0], [5.0]], 10.0).ravel() == pytest.approx([10.0, 10.0])
    assert differentiate([[0.0], [1.0], [4.0]], 1.0, accuracy=6).ravel() == pytest.approx([0, 2, 4])


def test_differences_of_an_unknown_accuracy_are_refused():
    with pytest.raises(ShapeError, match="accuracy is 3: give 2, 4, 6"):
        differentiate(np.zeros((10, 1)), RATE, accuracy=3)


@pytest.mark.parametrize(("rate", "cutoff"), [(200.0, 5.0), (1000.0, 100.0), (100.0, 40.0)])
def test_fir_lowpass_passes_half_the_cutoff_and_stops_above(rate, cutoff):
    taps = fir_lowpass(rate, cutoff)
    assert taps.size % 2 == 1
    assert taps.size / rate == pytest.approx(3.0 / cutoff, abs=3.0 / rate)
    np.testing.assert_allclose(taps, taps[::-1], atol=1e-16)
    assert taps.sum() == pytest.approx(1.0)
    f = np.linspace(0.0, 0.5 * rate, 2001)
    k = np.arange(taps.size) - taps.size // 2
    gain = np.cos(2.0 * np.pi * f[:, None] / rate * k) @ taps
    assert np.interp(cutoff, f, gain) == pytest.approx(0.5, abs=0.02)
    np.testing.assert_allclose(gain[f <= 0.5 * cutoff], 1.0, atol=0.01)
    np.testing.assert_allclose(gain[f >= 1.5 * cutoff], 0.0, atol=0.01)


@given(
    n_t=st.integers(0, 120),
    width=st.integers(1, 30),
    step=st.integers(1, 9),
    seed=st.integers(0, 10**6),
)
def test_decimate_is_a_convolution_of_which_every_nth_sample_is_kept(n_t, width, step, seed):
    rng = np.random.default_rng(seed)
    x, taps = rng.normal(size=(n_t, 2, 3)), rng.normal(size=width)
    out = decimate(x, taps, step)
    if n_t < width:
        assert out.shape == (0, 2, 3)
        return
    for place in np.ndindex(2, 3):
        # numpy turns the taps round
        whole = np.convolve(x[:, *place], taps[::-1], mode="valid")
        np.testing.assert_allclose(out[:, *place], whole[::step], atol=1e-12)
