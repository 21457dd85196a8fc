"""What a cloud of particles can do: one joint well, two with an honest word.

Its documented limit: a rough result, intervals that are too short, and a robot file that is nearly
right. One joint of the TX40 has 3 base parameters, two have 12.
"""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from bodysense.identification import Identification, Regression, identifier
from bodysense.identification.prior import Prior

# What these files share lies beside them, and is no part of a package.
sys.path.insert(0, str(Path(__file__).parent))

from identifier_subjects import held_tx40, require_sound, same, states
from recorded_subjects import controlled_problem


@cache
def problem(n: int, seed: int, *, n_t: int = 300, noise: float = 0.3) -> Regression:
    """Three seconds of a gentle motion of n joints, and a prior that is 5 % off."""
    rng, robot = np.random.default_rng(seed), held_tx40(n)
    q, _, _ = states(n_t, rng, n=n, fastest=1.0)
    return controlled_problem(robot, 0.5 * q, noise, rng, spread=0.05)


@cache
def found(n: int, seed: int, chance: int = 0) -> Identification:
    return identifier("pf").fit(problem(n, seed), rng=np.random.default_rng(chance))


def errors(result: Identification, given: Regression) -> np.ndarray:
    """(b,) errors of base parameters, in plausible sizes."""
    truth = given.base.to_base(held_tx40(given.n_joints).theta)
    return np.abs(result.theta_base - truth) / Prior.of(given).size_base


@pytest.mark.parametrize("seed", range(3))
def test_one_joint_comes_near_the_truth(seed):
    result, given = found(1, seed), problem(1, seed)
    require_sound(result)
    assert result.status.ok
    assert set(result.base_labels) == {"identified"}
    truth = given.base.to_base(held_tx40(1).theta)
    before = np.abs(given.base.to_base(given.robot.theta) - truth) / Prior.of(given).size_base
    assert errors(result, given).max() < 0.02
    assert errors(result, given).max() < 0.5 * before.max()


@pytest.mark.parametrize("seed", range(3))
def test_two_joints_are_no_worse_than_before_and_it_says_so(seed):
    result, given = found(2, seed), problem(2, seed)
    require_sound(result)
    prior = Prior.of(given)
    # Torques are explained no worse than by the prior, whatever came out.
    before = given.squares(prior.theta_base)[0].sum()
    assert given.squares(result.theta_base)[0].sum() <= 1.25 * before
    if result.status.ok:
        assert errors(result, given).max() < 0.5
        return
    assert any(word in result.status.message for word in ("srekf", "ore particles"))
    np.testing.assert_allclose(result.theta, given.robot.theta, rtol=1e-9, atol=1e-12)
    assert "identified" not in result.base_labels


@pytest.mark.parametrize("n", [1, 2])
def test_the_same_seed_gives_the_same_bits(n):
    again = identifier("pf").fit(problem(n, 0), rng=np.random.default_rng(0))
    assert same(found(n, 0), again)
    if again.status.ok:  # otherwise the start is kept, which is no matter of chance
        assert not same(found(n, 0), found(n, 0, chance=1))


def test_other_seeds_end_nearby():
    one, other = found(1, 0), found(1, 0, chance=1)
    size = Prior.of(problem(1, 0)).size_base
    assert (np.abs(one.theta_base - other.theta_base) < 0.03 * size).all()


def test_without_a_generator_the_setting_is_the_seed():
    given = problem(1, 0)
    assert same(
        identifier("pf", seed=3).fit(given),
        identifier("pf", seed=3).fit(given, rng=np.random.default_rng(3)),
    )


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("n_t", [6, 20])
def test_few_rows_are_no_reason_to_fail(n, n_t):
    given = problem(n, 0, n_t=n_t)
    result = identifier("pf").fit(given, rng=np.random.default_rng(0))
    require_sound(result)
    before = given.squares(Prior.of(given).theta_base)[0].sum()
    assert given.squares(result.theta_base)[0].sum() <= 1.5 * before
    if n == 2:
        assert set(result.base_labels) != {"identified"}


def test_six_joints_are_too_many_and_it_says_so():
    rng = np.random.default_rng(0)
    q, _, _ = states(200, rng)
    given = controlled_problem(held_tx40(6), 0.5 * q, 0.3, rng)
    result = identifier("pf").fit(given, rng=rng)
    require_sound(result)
    assert not result.status.ok
    assert "particles" in result.status.message
    assert "identified" not in result.base_labels


def test_exact_data_are_too_sharp_for_a_cloud_and_it_says_so():
    """Without noise next to no particle agrees with an encoder, however much it is blurred."""
    given = problem(1, 0, noise=0.0)
    result = identifier("pf").fit(given, rng=np.random.default_rng(0))
    require_sound(result)
    if not result.status.ok:
        assert "particles" in result.status.message
    assert errors(result, given).max() <= 0.1
