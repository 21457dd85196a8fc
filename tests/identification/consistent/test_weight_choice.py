"""Does the weight follow the prior when the prior is right, and the data when they are?"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bodysense.identification import identifier
from bodysense.identification.consistent.solvers import _choose_weight
from bodysense.identification.prior import Prior
from bodysense.identification.solution import Solution

KINDS = pytest.mark.parametrize("kind", ["euclidean", "pullback", "entropic"])


def weight_of(simulated, kind) -> float:
    return _choose_weight(simulated.problem, Prior.of(simulated.problem), kind)


@KINDS
def test_noise_that_drowns_the_data_gives_a_large_weight(kind, simulate):
    assert weight_of(simulate(20.0, n_t=120, off=0.0), kind) >= 1e4


@KINDS
def test_good_data_and_a_wrong_prior_give_a_small_weight(kind, simulate):
    assert weight_of(simulate(1.0, n_t=150, off=0.7), kind) <= 10.0


@KINDS
def test_what_is_held_out_never_enters(kind, simulate):
    """Whatever the torques of the held-out fold are, the weight is the same."""
    simulated = simulate(1.0, n_t=150)
    motion = simulated.problem.motions[0]
    inside = simulated.problem.folds(motion) == 1
    tau = np.where(inside[:, None], 1e6, motion.tau)
    spoilt = replace(
        simulated.problem,
        motions=(replace(motion, tau=tau, tau_raw=tau),),
    )
    weights = [
        _choose_weight(p.without(1), Prior.of(simulated.problem), kind)
        for p in (simulated.problem, spoilt)
    ]
    assert weights[0] == weights[1]
    # It does matter where it is not held out.
    open_ = Prior.of(simulated.problem)
    assert _choose_weight(spoilt, open_, kind) != weights[0]


def test_the_chosen_weight_is_told_and_used(simulate):
    problem = simulate(5.0, n_t=120, off=0.0).problem
    weight = _choose_weight(problem, Prior.of(problem), "euclidean")
    chosen = identifier("pc-wls", relaxation_weight=None).fit(problem)
    given = identifier("pc-wls", relaxation_weight=weight).fit(problem)
    np.testing.assert_array_equal(chosen.theta, given.theta)
    # A weight that was chosen says how to predict, not how sure the prior is.
    honest = identifier("pc-wls", relaxation_weight=weight, trusted=False).fit(problem)
    np.testing.assert_array_equal(chosen.covariance, honest.covariance)
    assert (honest.sigma_base > given.sigma_base).all()
    assert f"weight {weight:.3g}" in chosen.status.message
    np.testing.assert_array_equal(
        identifier("pc-wls", relaxation_weight=None).theta(problem), given.theta
    )


def test_without_any_solution_the_weight_is_the_default(simulate, monkeypatch):
    import bodysense.identification.consistent.solvers as module

    problem = simulate(5.0, n_t=120, off=0.0).problem
    failed = Solution(problem.robot.theta, failure="no")
    monkeypatch.setattr(module, "consistent_least_squares", lambda *given: failed)
    assert _choose_weight(problem, Prior.of(problem), "euclidean") == 1.0
