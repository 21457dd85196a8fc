"""Does the relaxation follow the prior when the prior is right, and the data when they are?"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from bodysense.identification import identifier
from bodysense.identification.consistent.evidence import (
    Excitation,
    _log_evidence,
    choose_relaxation,
    excitation_of,
    possible_kinds,
)
from bodysense.identification.consistent.relaxation import Relaxation
from bodysense.identification.prior import Prior
from bodysense.spatial import pi_from_mass_com_inertia

KINDS = pytest.mark.parametrize("kind", ["euclidean", "pullback", "entropic"])


def weight_of(problem, kind, prior=None) -> float:
    prior = Prior.of(problem) if prior is None else prior
    data = excitation_of(problem, prior, always=True)
    return choose_relaxation(prior, data, (kind,), None).weight


@KINDS
@pytest.mark.parametrize("seed", range(3))
def test_the_further_off_the_file_the_smaller_the_weight(kind, seed, simulate):
    right, wrong = (
        weight_of(simulate(0.3, n_t=300, off=off, seed=seed).problem, kind) for off in (0.0, 0.5)
    )
    assert wrong < 0.2 * right


@pytest.mark.parametrize("margin", [1e-10, 1e-7, 1e-3])
def test_a_file_with_a_plate_in_it_is_followed_by_its_parameters(margin, small_arm, simulate):
    """Digits of a file may leave a body on the border, where distances of bodies break down.

    As in a file of a mobile manipulator, one of whose links has a margin of 3e-10.
    """
    theta, link = small_arm.theta.copy(), small_arm.layout.link(1)
    mass, com = theta[link][0], theta[link][1:4] / theta[link][0]
    second = np.diag([1e-3, 2e-3, margin * 1.5e-3])  # moments: a plate normal to z
    theta[link] = pi_from_mass_com_inertia(mass, com, np.trace(second) * np.eye(3) - second)
    robot = small_arm.with_parameters(theta)
    assert robot.consistency()[1].margin == pytest.approx(margin, rel=0.6)
    problem = simulate(20.0, robot=robot, off=0.0, n_t=150).problem
    kinds = possible_kinds(Prior.of(problem))
    assert ("pullback" in kinds) == (margin > 1e-6)
    assert identifier("pc-wls").fit(problem).status.ok


@KINDS
def test_noise_that_drowns_the_data_leaves_the_weight_open(kind, simulate):
    """Then the file counts for what it is taken for: off by its sizes, or by less."""
    assert weight_of(simulate(100.0, n_t=120, off=0.0).problem, kind) > 0.3


@KINDS
def test_what_is_held_out_never_enters(kind, simulate):
    """Whatever the torques of the held-out fold are, the weight is the same."""
    simulated = simulate(1.0, n_t=150)
    prior, motion = Prior.of(simulated.problem), simulated.problem.motions[0]
    inside = simulated.problem.folds(motion) == 1
    tau = np.where(inside[:, None], 1e6, motion.tau)
    spoilt = replace(
        simulated.problem,
        motions=(replace(motion, tau=tau, tau_raw=tau),),
    )
    one, other = (weight_of(p.without(1), kind, prior) for p in (simulated.problem, spoilt))
    assert one == other
    # It does matter where it is not held out.
    assert weight_of(spoilt, kind, prior) != one


@pytest.mark.parametrize("kind", ["euclidean", "pullback"])
def test_evidence_is_the_density_of_the_data(kind, simulate):
    """Against scipy, in the directions that tell, up to what does not depend on the relaxation."""
    problem = simulate(1.0, n_t=150).problem
    prior = Prior.of(problem)
    data = excitation_of(problem, prior, always=True)
    told = data.U[:, data.informative].T
    assert 0 < len(told) < problem.size

    def density(weight: float) -> float:
        D = Relaxation(kind, weight).factor(prior)
        F = data.A @ prior.mapping @ D
        C = F @ F.T + data.U @ np.diag(data.noise) @ data.U.T
        mean = told @ data.A @ prior.theta_base
        return float(multivariate_normal(mean, told @ C @ told.T).logpdf(told @ data.z))

    mine = [_log_evidence(prior, data, Relaxation(kind, w)) for w in (0.1, 10.0)]
    assert mine[1] - mine[0] == pytest.approx(density(10.0) - density(0.1), rel=1e-6)


def test_the_choice_is_told_and_used(simulate):
    problem = simulate(20.0, n_t=120, off=0.0).problem
    prior = Prior.of(problem)
    method = identifier("pc-wls")
    solver, remark = method.solver.chosen(problem, prior)
    weight = solver.relaxation_weight
    chosen = method.fit(problem)
    given = identifier("pc-wls", relaxation=solver.relaxation, relaxation_weight=weight)
    np.testing.assert_array_equal(chosen.theta, given.theta(problem))
    np.testing.assert_array_equal(chosen.theta, method.theta(problem))
    # A weight that was chosen says how to predict, not how sure the prior is.
    honest = replace(given, solver=replace(given.solver, trusted=False)).fit(problem)
    np.testing.assert_array_equal(chosen.covariance, honest.covariance)
    assert (honest.sigma_base > given.fit(problem).sigma_base).all()
    weak = excitation_of(problem, prior, always=True).weak
    assert weak > 0
    assert f"leaves {weak} of {problem.size} directions to the prior" in chosen.status.message
    assert f"weight {weight:.3g}, chosen by the data" in remark


def test_a_motion_that_excites_everything_needs_no_relaxation(simulate):
    """To the last bit the result of the weak Euclidean distance, and nothing is said."""
    problem = simulate(1e-3, n_t=2000).problem
    free = identifier("pc-wls").fit(problem)
    weak = identifier("pc-wls", relaxation="euclidean", relaxation_weight=1.0).fit(problem)
    np.testing.assert_array_equal(free.theta, weak.theta)
    np.testing.assert_array_equal(free.covariance, weak.covariance)
    assert free.status.message == "Solved."
    # With a kind that is given the weight is still chosen, and said.
    assert "Relaxed" in identifier("pc-wls", relaxation="pullback").fit(problem).status.message


def test_files_of_zeros_do_not_pull(simulate):
    """Nothing is known: kind and weight are near to those that leave all to the data."""
    problem = simulate(5.0, n_t=150, off=0.0).problem
    empty = replace(problem, robot=problem.robot.with_parameters(0.0 * problem.robot.theta))
    solver, _ = identifier("pc-wls").solver.chosen(empty, Prior.of(empty))
    assert solver.relaxation == "euclidean"
    assert solver.relaxation_weight <= 10.0


def test_a_weight_may_be_given_alone(simulate):
    problem = simulate(20.0, n_t=120, off=0.0).problem
    method = identifier("pc-wls", relaxation_weight=5.0)
    solver, remark = method.solver.chosen(problem, Prior.of(problem))
    assert solver.relaxation_weight == 5.0
    assert solver.trusted
    assert "chosen" not in remark


def test_directions_count_by_the_noise_as_it_is():
    eye = np.eye(3)
    data = Excitation(eye, np.array([10.0, 5.0, 2.0]), np.array([1.0, 4.0, 1.0]), eye, np.ones(3))
    assert data.weak == 2
    assert data.level == 1.0
