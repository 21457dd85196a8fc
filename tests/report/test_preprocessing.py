from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bodysense.report.preprocessing import autocorrelation, preprocessing_section, spectrum


def test_autocorrelation_against_its_definition(rng: np.random.Generator) -> None:
    e = np.cumsum(rng.normal(size=(400, 2)), axis=0)
    lags, rho = autocorrelation(e, 0.01, 0.5)
    centred = e - e.mean(axis=0)
    for lag, values in zip(lags, rho, strict=True):
        k = round(lag / 0.01)
        products = (centred[k:] * centred[: len(e) - k]).sum(axis=0)
        np.testing.assert_allclose(values, products / (centred**2).sum(axis=0), atol=1e-10)
    assert lags[0] == 0.0
    assert lags[-1] == pytest.approx(0.49)


def test_a_constant_has_no_autocorrelation() -> None:
    _, rho = autocorrelation(np.ones((50, 1)), 0.01, 1.0)
    assert np.isnan(rho).all()


def test_spectrum_of_white_noise_is_flat(rng: np.random.Generator) -> None:
    rate, sigma = 200.0, 3.0
    f, density = spectrum(sigma * rng.normal(size=(60_000, 1)), rate)
    assert (np.diff(f) > 0).all()
    assert f[-1] <= rate / 2
    # All of the variance lies evenly between 0 and half the rate.
    expected = sigma / np.sqrt(rate / 2)
    middle = density[(f > 2) & (f < 90), 0]
    assert np.sqrt((middle**2).mean()) == pytest.approx(expected, rel=0.03)


@pytest.mark.parametrize("n_t", [8, 20, 65])
def test_short_signals(n_t: int, rng: np.random.Generator) -> None:
    f, density = spectrum(rng.normal(size=(n_t, 2)), 10.0)
    assert f.shape[0] == density.shape[0] > 1
    lags, rho = autocorrelation(rng.normal(size=(n_t, 2)), 0.1, np.nan)
    assert lags.size == rho.shape[0] >= 2


def test_friction_laws_that_were_compared(make_run) -> None:
    facts = dict(preprocessing_section(make_run(["one", "two"]))["facts"])
    assert facts["Friction law"].startswith("coulomb.")
    assert (
        "coulomb 1.100 (12 coefficients), offset 1.200 (18 coefficients)" in facts["Friction laws"]
    )
    assert not any(name.startswith("Fitted") for name in facts)


def test_a_fitted_shape_is_told(make_run) -> None:
    run = make_run(["one", "two"])
    choice = replace(run.friction, law="stribeck", shape={"vs": (0.1, 0.25), "width": (0.02, 0.02)})
    facts = dict(preprocessing_section(replace(run, friction=choice))["facts"])
    assert facts["Friction law"].startswith("stribeck, fitted.")
    assert facts["Fitted vs"] == "0.100, 0.250"
    assert "Fitted width" not in facts
