"""The friction law, its shape and its dependence on load that were put into the data are found."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bodysense.errors import MismatchError, UnknownNameError
from bodysense.excitation import FourierTrajectory
from bodysense.identification import Regression, identifier, identify
from bodysense.identification.friction_comparison import (
    _LAWS,
    FrictionChoice,
    choose_friction,
    fit_shape,
)
from bodysense.identification.given_friction import _STRIBECK_SPEED, RICHEST, WIDTH
from bodysense.identification.held_out import Candidate, Comparison
from bodysense.robot import base_parameters, inverse_dynamics, load_robot
from bodysense.simulation import rollout


def true_robot(tx40, law: str):
    """Coefficients as they are found on arms: a breakaway half higher, an offset of a tenth."""
    Fc = tx40.theta[tx40.layout.friction("Fc")]
    values = {"Fs": 1.5 * Fc, "Fo": 0.1 * Fc}
    shape = {} if law == "viscous" else {"width": WIDTH}
    if law.startswith("stribeck"):
        shape["vs"] = _STRIBECK_SPEED
    chosen = tx40.with_friction(law, **shape)
    given = {term: x for term, x in values.items() if term in chosen.layout.friction_terms}
    return tx40.with_friction(law, coefficients=given, **shape)


def errors_of(choice: FrictionChoice) -> list[float]:
    return [trial.error for trial in choice.trials]


@pytest.mark.parametrize("law", _LAWS)
@pytest.mark.parametrize("seed", [0, 1])
def test_the_friction_law_that_was_simulated_is_found(law, seed, tx40, base_of, sines):
    truth = true_robot(tx40, law)
    _, q, v, a = sines(6, seed, 4000, 200.0, slowest=0.1)
    tau = inverse_dynamics(truth, q, v, a)
    tau += 0.3 * np.random.default_rng(seed).normal(size=tau.shape)
    # Of its own friction the prior knows nothing.
    prior = tx40.with_friction(
        RICHEST,
        coefficients=dict.fromkeys(("Fv", "Fc", "Fs", "Fo"), 0.0),
        width=WIDTH,
        vs=_STRIBECK_SPEED,
    )
    problem = Regression.from_samples(prior, q, v, a, tau, rate=200.0, base=base_of(prior))
    choice = choose_friction(problem)
    assert choice.law == law
    assert choice.tried[:5] == ("viscous", "coulomb", "offset", "stribeck", RICHEST)
    assert [trial.coefficients for trial in choice.trials[:5]] == [6, 12, 18, 18, 24]
    # In units of the noise's variance: what is left of the right law is noise alone.
    errors = dict(zip(choice.tried, errors_of(choice), strict=True))
    assert errors[law] == pytest.approx(1.0, abs=0.05)


def test_simpler_laws_are_fitted_as_if_the_robot_had_them(tx40, base_of, sines):
    """Held-out errors against a regression of the robot that has the simpler law."""
    truth = true_robot(tx40, "stribeck-offset")
    _, q, v, a = sines(6, 3, 1500, 100.0, slowest=0.1)
    tau = inverse_dynamics(truth, q, v, a)
    tau += 0.3 * np.random.default_rng(1).normal(size=tau.shape)
    problem = Regression.from_samples(truth, q, v, a, tau, rate=100.0, base=base_of(truth))
    choice = choose_friction(problem)
    comparison = Comparison.of(Candidate.of(problem))
    assert not comparison.void
    for law, error in zip(choice.tried[:5], errors_of(choice)[:5], strict=True):
        robot = true_robot(tx40, law)
        own = Regression.from_samples(robot, q, v, a, tau, rate=100.0, base=base_of(robot))
        (errors,) = comparison.errors(Candidate.of(own))
        assert error == pytest.approx(errors.mean, rel=1e-3)  # but for the prior of Fs


# -- the shape --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def steep(tx40, base_of, sines) -> Regression:
    """Curves that come down elsewhere than the prior believes."""
    vs = np.array([0.3, 0.4, 0.2, 0.35, 0.25, 0.3])
    truth = true_robot(tx40, "stribeck").with_friction("stribeck", vs=vs)
    _, q, v, a = sines(6, 0, 4000, 200.0, slowest=0.1)
    tau = inverse_dynamics(truth, q, v, a)
    tau += 0.1 * np.random.default_rng(0).normal(size=tau.shape)
    prior = truth.with_friction(RICHEST, coefficients={"Fo": 0.0}, vs=_STRIBECK_SPEED)
    return Regression.from_samples(prior, q, v, a, tau, rate=200.0, base=base_of(prior))


def test_a_shape_that_is_worth_it_is_taken(steep):
    choice = choose_friction(steep)
    assert choice.law == "stribeck"
    assert choice.name == choice.tried[5] == "stribeck, fitted"
    assert choice.tried[6:] == ("stribeck-load, fitted",)
    assert choice.trials[5].coefficients == 24
    assert errors_of(choice)[5] < 0.9 * errors_of(choice)[3]
    np.testing.assert_allclose(choice.shape["vs"], [0.3, 0.4, 0.2, 0.35, 0.25, 0.3], rtol=0.1)
    robot = choice.applied_to(steep.robot)
    assert robot.friction.model.name == "stribeck"
    np.testing.assert_array_equal(robot.friction.shape[:, 1], choice.shape["vs"])


def test_a_shape_that_is_right_already_is_kept(tx40, base_of, sines):
    truth = true_robot(tx40, "stribeck")
    _, q, v, a = sines(6, 0, 3000, 200.0, slowest=0.1)
    tau = inverse_dynamics(truth, q, v, a)
    tau += 0.3 * np.random.default_rng(0).normal(size=tau.shape)
    prior = truth.with_friction(RICHEST)
    problem = Regression.from_samples(prior, q, v, a, tau, rate=200.0, base=base_of(prior))
    choice = choose_friction(problem)
    assert choice.law == choice.name == "stribeck"
    assert not choice.shape
    assert choice.tried[5:] == ("stribeck, fitted", "stribeck-load")


def test_a_fold_is_judged_by_a_shape_that_has_not_seen_it(steep):
    """Nonsense in one fold: its own error grows, and no shape is fitted to it on the sly."""
    motion = steep.motions[0]
    fold = steep.folds(motion)
    rng = np.random.default_rng(3)
    tau = np.where(fold[:, None] == 1, motion.tau + 5.0 * rng.normal(size=(4000, 6)), motion.tau)
    spoiled = Regression.of(steep.robot, (replace(motion, tau=tau),), steep.settings, steep.base)
    comparison = replace(Comparison.of(Candidate.of(steep)), sigma=np.full(6, 0.1))
    clean, bad = (fit_shape(problem, comparison).trials[1].error for problem in (steep, spoiled))
    assert clean == pytest.approx(1.0, abs=0.1)
    # A third of the rows with 50 sigma, and next to nothing else.
    assert bad == pytest.approx(2500.0 / 3.0, rel=0.15)


# -- load -------------------------------------------------------------------------------------


LOAD = np.array([0.08, 0.05, 0.08, 0.1, 0.05, 0.1])


@pytest.mark.parametrize("law", ["coulomb", "stribeck"])
def test_friction_that_grows_with_the_load_is_chosen(law, tx40, base_of, sines):
    truth = true_robot(tx40, law).with_friction(f"{law}-load", coefficients={"Fl": LOAD})
    _, q, v, a = sines(6, 1, 4000, 200.0, slowest=0.1)
    tau = inverse_dynamics(truth, q, v, a)
    tau += 0.1 * np.random.default_rng(0).normal(size=tau.shape)
    prior = tx40.with_friction(RICHEST, width=WIDTH, vs=_STRIBECK_SPEED)
    problem = Regression.from_samples(prior, q, v, a, tau, rate=200.0, base=base_of(prior))
    choice = choose_friction(problem)
    assert choice.law == f"{law}-load"
    assert choice.trials[-1].coefficients == 6 * len(truth.friction.model.terms)
    errors = dict(zip(choice.tried, errors_of(choice), strict=True))
    assert errors[f"{law}-load"] < 0.8 * errors[law]
    settled = Regression.of(choice.applied_to(prior), problem.motions, problem.settings)
    result = identifier("wls").fit(settled)
    places = [result.base.names.index(f"Fl{j + 1}") for j in range(6)]
    sigma = result.sigma_base[places]
    assert (np.abs(result.theta_base[places] - LOAD) < 3.0 * sigma).all()
    assert (sigma[:3] < 0.01).all()  # wrists carry next to nothing
    assert {
        f"Fl{j + 1}": result.labels[result.base.layout.index(f"Fl{j + 1}")] for j in range(3)
    } == {f"Fl{j + 1}": "identified" for j in range(3)}


def test_a_law_without_load_is_kept_where_friction_has_none(tx40, base_of, sines):
    truth = true_robot(tx40, "coulomb")
    _, q, v, a = sines(6, 1, 3000, 200.0, slowest=0.1)
    tau = inverse_dynamics(truth, q, v, a)
    tau += 0.3 * np.random.default_rng(0).normal(size=tau.shape)
    prior = truth.with_friction(RICHEST, vs=_STRIBECK_SPEED)
    problem = Regression.from_samples(prior, q, v, a, tau, rate=200.0, base=base_of(prior))
    choice = choose_friction(problem)
    assert choice.law == "coulomb"
    assert choice.tried[-1] == "coulomb-load"


def test_the_load_is_that_of_the_estimate_itself(simulate):
    """Without noise the fixed point is the truth, whatever the prior's masses are."""
    simulated = simulate(0.0)
    motion, robot = simulated.problem.motions[0], simulated.problem.robot
    Fl = np.array([0.1, 0.05, 0.2])
    loaded = robot.with_friction("coulomb-load", coefficients={"Fl": Fl})
    base = base_parameters(loaded)
    truth = base.join(np.append(simulated.truth, Fl))
    tau = inverse_dynamics(loaded, motion.q, motion.v, motion.a, theta=truth)
    problem = Regression.from_samples(loaded, motion.q, motion.v, motion.a, tau, base=base)
    estimate = base.to_base(identifier("wls").theta(problem))
    np.testing.assert_allclose(estimate, base.to_base(truth), rtol=0, atol=1e-6)


# -- in one call ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def recorded():
    """A robot with a wide Stribeck curve, and a run of it."""
    robot = load_robot("rv2sq")
    Fc = robot.theta[robot.layout.friction("Fc")]
    truth = robot.with_friction("stribeck", coefficients={"Fs": 2.0 * Fc}, width=0.02, vs=0.4)
    rng = np.random.default_rng(0)
    motion = FourierTrajectory.for_robot(truth, duration=10.0, rng=rng)
    return truth, rollout(truth, motion, sampling_rate=500.0, torque_noise=0.05, rng=rng).log()


def test_a_shape_is_fitted_when_told(recorded):
    truth, log = recorded
    prior = truth.with_friction("stribeck", vs=0.1)
    fixed, run = (
        identify(prior, [log], friction=friction, method="wls")
        for friction in ("stribeck", "stribeck:fit")
    )
    assert fixed.friction is None
    assert run.friction.name == "stribeck, fitted"
    vs = run.robot.friction.shape[:, 1]
    np.testing.assert_allclose(vs, 0.4, rtol=0.25)
    assert run.identification.provenance["friction"]["shape"]["vs"] == list(vs)
    errors = [r.scores[1].identified.moving.mean_relative_error for r in (fixed, run)]
    assert errors[1] < 0.9 * errors[0]


@pytest.mark.parametrize("friction", ["coulomb:fit", "own:fit"])
def test_a_law_without_a_curve_cannot_be_fitted(recorded, friction):
    truth, log = recorded
    with pytest.raises(MismatchError, match="'coulomb' has no Stribeck curve"):
        identify(truth.with_friction("coulomb"), [log], friction=friction)


def test_a_choice_fits_of_its_own_accord(recorded):
    truth, log = recorded
    with pytest.raises(UnknownNameError, match="'choose:fit'"):
        identify(truth, [log], friction="choose:fit")
