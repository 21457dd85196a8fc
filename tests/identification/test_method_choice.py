"""Which method is chosen, when, and what is said about it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bodysense.errors import MismatchError
from bodysense.identification import Regression, identify
from bodysense.identification.knowledge import Knowledge
from bodysense.identification.method_choice import choose_method
from bodysense.identification.preprocessing import Preprocessing
from bodysense.logs.log import Log
from bodysense.robot import inverse_dynamics


@pytest.fixture(scope="module")
def problem_of(small_arm, base_of, sines):
    """Problems of a small arm with noise (n,) of each joint, and some outliers."""

    def made(noise, *, outliers=0.0, n_t=2000, slowest=0.2, scale=1.0, rate=200.0):
        rng = np.random.default_rng(0)
        _, q, v, a = (scale * x for x in sines(3, 1, n_t, rate, slowest=slowest))
        tau = inverse_dynamics(small_arm, q, v, a) + np.asarray(noise) * rng.normal(size=q.shape)
        hit = rng.random(tau.shape) < outliers
        tau = tau + np.where(hit, 30.0 * np.asarray(noise) * rng.normal(size=q.shape), 0.0)
        return Regression.from_samples(small_arm, q, v, a, tau, rate=rate, base=base_of(small_arm))

    return made


def test_equal_noise_needs_no_weights(problem_of):
    choice = choose_method(problem_of([0.05, 0.05, 0.05]))
    assert choice.identifier.name == "pc-ols"
    assert "alike" in choice.summary()


def test_unequal_noise_is_weighted(problem_of):
    choice = choose_method(problem_of([0.02, 0.2, 0.02]))
    assert choice.identifier.name == "pc-wls"
    assert "10." in choice.summary() or "9." in choice.summary()  # times


def test_outliers_get_robust_weights(problem_of):
    choice = choose_method(problem_of([0.05, 0.05, 0.05], outliers=0.01))
    assert choice.identifier.name == "pc-irls"
    assert "beyond 4 standard deviations" in choice.summary()


def test_poor_excitation_leans_on_the_prior(problem_of):
    problem = problem_of([0.5, 0.5, 0.5], n_t=300, slowest=0.01, scale=0.05)
    result = choose_method(problem).identifier.fit(problem)
    assert "leaves" in result.status.message


def test_few_rows_cannot_be_weighted(problem_of):
    choice = choose_method(problem_of([0.05, 0.05, 0.05], n_t=30))
    assert choice.identifier.name == "pc-ols"
    assert "too few rows" in choice.summary()


def _beginning(motion, n_t=40, **changes):
    """The first samples of a motion alone."""
    arrays = {k: x[:n_t] for k, x in vars(motion).items() if isinstance(x, np.ndarray)}
    return replace(motion, **arrays, **changes)


def test_what_is_known_of_the_controller_is_said(problem_of, small_arm):
    problem = problem_of([0.05, 0.05, 0.05])
    assert "controller is not known" in choose_method(problem).reasons[0]
    from bodysense.robot.actuators import suggested_controller

    driven = replace(problem, robot=small_arm.with_controller(suggested_controller(small_arm)))
    assert "reference motion is not known" in choose_method(driven).reasons[0]
    told = replace(driven, motions=tuple(replace(m, reference=m.q) for m in driven.motions))
    assert "could be simulated" in choose_method(told).reasons[0]
    assert choose_method(told).identifier.name != "pc-iv"
    slow = replace(told, motions=tuple(_beginning(m, rate=20.0) for m in told.motions))
    chosen = choose_method(slow)
    assert chosen.identifier.name == "pc-iv"
    assert "needs no differences" in chosen.reasons[-1]


def test_a_low_rate_is_said(problem_of):
    problem = problem_of([0.05, 0.05, 0.05])
    slow = [replace(m, rate=40.0) for m in problem.motions]
    settings = replace(problem.settings, cutoff=10.0)
    choice = choose_method(replace(problem, motions=tuple(slow), settings=settings))
    assert "differences are inexact" in choice.reasons[1]


def test_in_one_call(small_arm, sines):
    t, q, v, a = sines(3, 1, 2000, 200.0)
    tau = inverse_dynamics(small_arm, q, v, a)
    tau += 0.05 * np.random.default_rng(0).normal(size=tau.shape)
    names = small_arm.joint_names
    log = Log.of(
        t,
        {f"q.{n}": q[:, k] for k, n in enumerate(names)}
        | {f"tau.{n}": tau[:, k] for k, n in enumerate(names)},
        {"q.joint2": "m", "tau.joint2": "N"},
    )
    run = identify(small_arm, log, method="auto", preprocessing=Preprocessing(cutoff=20.0))
    assert run.method_choice is not None
    assert run.identification.method == run.method_choice.identifier.name
    assert run.identification.consistent
    with pytest.raises(MismatchError, match=r"ols cannot use .*1\.5 kg.*pc-wls"):
        identify(small_arm, log, method="ols", knowledge=Knowledge(total_mass=1.5))
    with pytest.raises(MismatchError, match=r"iv cannot use .*1\.5 kg.*pc-iv"):
        identify(small_arm, log, method="iv", knowledge=Knowledge(total_mass=1.5))
    total = sum(small_arm.pi(k)[0] for k in range(3))
    known = identify(small_arm, log, knowledge=Knowledge(total_mass=total))
    masses = [known.identification.theta[small_arm.layout.link(k)][0] for k in range(3)]
    assert sum(masses) == pytest.approx(total, rel=1e-9)
    assert "kg" in known.identification.provenance["knowledge"]


def test_what_is_known_is_labelled_and_wrong_knowledge_is_named(small_arm, sines):
    t, q, v, a = sines(3, 1, 2000, 200.0)
    tau = inverse_dynamics(small_arm, q, v, a)
    tau += 0.05 * np.random.default_rng(0).normal(size=tau.shape)
    names = small_arm.joint_names
    log = Log.of(
        t,
        {f"q.{n}": q[:, k] for k, n in enumerate(names)}
        | {f"tau.{n}": tau[:, k] for k, n in enumerate(names)},
        {"q.joint2": "m", "tau.joint2": "N"},
    )
    mass = float(small_arm.pi(2)[0])
    settings = Preprocessing(cutoff=20.0)
    right = identify(
        small_arm, log, preprocessing=settings, knowledge=Knowledge(masses={"link3": mass})
    )
    place = small_arm.layout.index("M3")
    assert right.identification.labels[place] == "known"
    assert right.identification.sigma[place] == 0.0
    assert right.identification.theta[place] == pytest.approx(mass, rel=1e-9)
    assert right.verdict.grade == "good"
    # No mass, and the centre is nowhere: the data object.
    wrong = identify(
        small_arm, log, preprocessing=settings, knowledge=Knowledge(masses={"link3": 0.01 * mass})
    )
    assert wrong.verdict.grade != "good"
    assert "times as large: check it" in wrong.verdict.advice[0]
    heavy = identify(small_arm, log, preprocessing=settings, knowledge=Knowledge(total_mass=1000.0))
    assert any("1000 kg" in sentence for sentence in heavy.verdict.advice)
