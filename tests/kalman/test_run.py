"""Runs that cannot go on end with advice; things that do not fit are refused."""

from __future__ import annotations

import numpy as np
import pytest

from bodysense.errors import ShapeError, UnknownNameError
from bodysense.kalman import FILTERS, run_filter, state_filter
from bodysense.kalman import run as module
from bodysense.kalman.model import plain


@pytest.fixture(params=sorted(FILTERS))
def method(request):
    return state_filter(request.param)


@pytest.fixture
def system(linear, rng):
    model = linear(rng, 2, 2, 2)
    return model, np.zeros(4), np.eye(4), rng.normal(size=(20, 2))


class Broken:
    """A linear model with one of its answers replaced."""

    def __init__(self, model, **changes):
        self._model, self._changes = model, changes

    def __getattr__(self, name):
        return self._changes.get(name) or getattr(self._model, name)


def test_unknown_filters_are_refused_with_the_valid_ones():
    with pytest.raises(UnknownNameError, match="srukf"):
        state_filter("sruk")
    assert set(FILTERS) == {"ekf", "srekf", "ukf", "srukf", "cdkf", "srcdkf"}
    assert all(kind.square_root == name.startswith("sr") for name, kind in FILTERS.items())


def test_dynamics_that_are_not_finite_end_the_run(method, system):
    model, mean, S, y = system
    broken = Broken(
        model,
        advance=lambda k, X: model.advance(k, X) * (np.nan if k == 7 else 1.0),
        tangent=lambda k, x: (model.tangent(k, x)[0] * (np.nan if k == 7 else 1.0), model.F),
    )
    run = run_filter(method, broken, mean, S, y, keep_history=True)
    whole = run_filter(method, model, mean, S, y[:8])
    assert not run.ok
    assert run.steps == 8
    assert "sample 8: the model's dynamics gave values that are not finite" in run.message
    assert "Start with a smaller covariance" in run.message
    np.testing.assert_array_equal(run.state.mean, whole.state.mean)
    assert run.state.failure == ""
    assert run.log_likelihood == whole.log_likelihood
    assert np.isnan(run.nis[8:]).all()
    assert len(run.history.corrected) == 8
    assert run.message in run.summary()


def test_noise_that_is_not_finite_ends_the_run(method, system):
    model, *rest = system
    broken = Broken(model, noise=lambda k, x: np.full((2, 1), np.nan if k == 3 else 0.1))
    run = run_filter(method, broken, *rest)
    assert not run.ok
    assert run.steps == 4
    assert "not finite" in run.message


def test_a_runaway_state_ends_the_run(method, system):
    model, mean, S, y = system
    model.F = model.F * 1e3
    run = run_filter(method, model, mean + 1.0, S, np.full_like(y, np.nan))
    assert not run.ok
    assert "the moving part left ±1e+09" in run.message
    assert np.abs(run.state.mean).max() < 1e9


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"advance": lambda k, X: X}, "advance returned shape"),
        ({"noise": lambda k, x: np.zeros(2)}, "noise returned shape"),
        ({"noise": lambda k, x: np.zeros((3, 2))}, "noise returned shape"),
        ({"tangent": lambda k, x: (x, np.eye(4))}, "tangent returned shape"),
        ({"parameter_noise": lambda k: np.zeros(4)}, "parameter_noise returned shape"),
        ({"H": [[1.0]]}, "H of the model"),
        ({"sigma": [1.0]}, "sigma of the model"),
        ({"sigma": [1.0, -1.0]}, "sigma of measurement 1 is -1"),
        ({"n_parameters": -1}, "-1 parameters"),
    ],
)
def test_models_that_do_not_fit_are_refused(change, word, method, system):
    model, *rest = system
    if "tangent" in change and "ekf" not in method.name:
        return
    if "advance" in change and "ekf" in method.name:
        return
    with pytest.raises(ShapeError, match=word):
        run_filter(method, Broken(model, **change), *rest)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"mean": np.zeros(3)}, "mean has shape"),
        ({"mean": np.full(4, np.nan)}, "mean holds nan"),
        ({"factor": np.eye(3)}, "factor has shape"),
        ({"factor": np.ones((4, 4))}, "above its diagonal"),
        ({"y": np.zeros((5, 3))}, "y has shape"),
        ({"y": np.zeros((0, 2))}, "y has shape"),
        ({"y": "text"}, "y must be"),
        ({"y": np.full((5, 2), np.inf)}, "infinite value at"),
        ({"restarts": {0: (np.zeros(2), np.eye(2))}}, "samples from 1 to 19"),
        ({"restarts": {20: (np.zeros(2), np.eye(2))}}, "samples from 1 to 19"),
        ({"restarts": {3: (np.zeros(3), np.eye(2))}}, "mean of the restart at sample 3"),
        ({"restarts": {3: (np.zeros(2), np.ones((2, 2)))}}, "not lower triangular"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(change, word, system):
    model, mean, factor, y = system
    given = {"mean": mean, "factor": factor, "y": y} | change
    with pytest.raises(ShapeError, match=word):
        run_filter(state_filter("srukf"), model, **given)


def test_an_update_with_another_number_of_measurements_is_refused(method, system):
    model, mean, S, _ = system
    with pytest.raises(ShapeError, match="do not fit a state of 4"):
        method.update(model, 0, method.start(mean, S), np.zeros(3))


def test_a_history_beyond_two_gibibytes_is_refused(method, system, monkeypatch):
    assert module._MOST_BYTES == 2 * 1024**3
    monkeypatch.setattr(module, "_MOST_BYTES", 1000)
    with pytest.raises(ShapeError, match=r"would take \d+ MB: smooth a shorter stretch"):
        run_filter(method, *system, keep_history=True)


def test_read_only_and_strided_arrays_are_taken_as_they_are(method, system):
    model, mean, S, y = system
    expected = run_filter(method, model, mean, S, y).state.mean
    for name in ("H", "sigma", "E", "F"):
        value = np.asfortranarray(getattr(model, name))
        value.flags.writeable = False
        setattr(model, name, value)
    for array in (mean, S, y):
        array.flags.writeable = False
    run = run_filter(method, model, mean, S, y)
    np.testing.assert_allclose(run.state.mean, expected, atol=1e-12)
    assert plain(np.eye(2, dtype=np.float32)).dtype == np.float64


@pytest.mark.parametrize("name", ["srekf", "srukf", "srcdkf"])
def test_states_known_for_sure_stay_put_in_square_root_forms(name, system):
    model, mean, S, y = system
    S[0, 0] = 0.0
    run = run_filter(state_filter(name), model, mean + 1.0, S, y)
    assert run.ok, run.message
    assert run.state.mean[0] == 1.0
    assert run.state.sigma[0] == 0.0


def test_factors_and_covariances_of_states_belong_together(method, system):
    model, mean, S, y = system
    state = run_filter(method, model, mean, S, y).state
    np.testing.assert_allclose(state.factor @ state.factor.T, state.covariance, atol=1e-12)
    np.testing.assert_array_equal(np.triu(state.factor, 1), 0.0)
    np.testing.assert_allclose(state.sigma**2, np.diag(state.covariance))
