"""Backends return what rollouts and sensitivities would, to the last bit."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from bodysense.errors import MismatchError, UnknownNameError
from bodysense.excitation import HoldTrajectory
from bodysense.robot import base_parameters, inverse_dynamics
from bodysense.simulation import rollout, sensitivities
from bodysense.simulation.rollout import Experiment
from bodysense.simulation.sensitivities import BACKENDS, Backend, backend

every_backend = pytest.mark.parametrize("name", sorted(BACKENDS))


@pytest.fixture(scope="module")
def tx40(robot_of):
    return robot_of("tx40").with_friction("coulomb", coefficients={}, width=0.05)


@pytest.fixture(params=["plain", "all"])
def experiment(request, tx40, wave_of) -> Experiment:
    motion = wave_of(6, 0.1)
    if request.param == "plain":
        return Experiment(tx40, motion, tx40.controller, 500.0)
    _, q, v, a = motion.sample(5000.0)
    return Experiment(
        tx40,
        motion,
        tx40.controller,
        140.0,
        "rk4",
        start=(q[0] + 0.001, v[0] - 0.1),
        feed_forward=inverse_dynamics(tx40, q, v, a),
        differentiate=True,
    )


def settings_of(experiment: Experiment) -> dict[str, object]:
    """As `rollout` and `sensitivities` take them."""
    names = {f.name for f in fields(experiment)} - {"robot", "trajectory"}
    return {name: getattr(experiment, name) for name in names}


def rows_of(robot, runs: int):
    return robot.theta * np.random.default_rng(0).uniform(0.98, 1.02, (runs, robot.layout.size))


@every_backend
@pytest.mark.parametrize("runs", [1, 5])
def test_rollouts_to_the_last_bit(name, runs, experiment):
    theta = rows_of(experiment.robot, runs)
    run = backend(name).rollouts(experiment, theta)
    assert run.n_runs == runs
    expected = rollout(
        experiment.robot, experiment.trajectory, theta=theta, **settings_of(experiment)
    )
    for key in ("t", "q", "v", "a", "tau", "lost_at", "reference"):
        np.testing.assert_array_equal(getattr(run, key), getattr(expected, key))


@every_backend
@pytest.mark.parametrize("runs", [1, 3])
def test_sensitivities_to_the_last_bit(name, runs, experiment):
    theta, base = rows_of(experiment.robot, runs), base_parameters(experiment.robot)
    run = backend(name).sensitivities(experiment, theta, base)
    settings = settings_of(experiment)
    expected = sensitivities(
        experiment.robot, experiment.trajectory, theta=theta, base=base, **settings
    )
    assert run.parameters == base.names
    assert run.dq.shape == (runs, run.t.size, 6, base.size)
    for key in ("t", "q", "tau", "dq", "dtau", "lost_at"):
        np.testing.assert_array_equal(getattr(run, key), getattr(expected, key))


@every_backend
def test_a_batch_is_its_runs(name, experiment):
    theta = rows_of(experiment.robot, 4)
    together = backend(name).rollouts(experiment, theta)
    for r in (0, 3):
        alone = backend(name).rollouts(experiment, theta[r : r + 1])
        np.testing.assert_array_equal(alone.q[0], together.q[r])
        np.testing.assert_array_equal(alone.tau[0], together.tau[r])


@every_backend
def test_lost_runs_leave_the_others_alone(name, tx40):
    theta = np.stack([tx40.theta, tx40.theta])
    theta[0, tx40.layout.index("Ia1")] = -2.0  # pushed one way, it goes the other
    hold = HoldTrajectory(np.zeros(6), 0.6)
    start = (np.full(6, 0.01), np.zeros(6))
    experiment = Experiment(tx40, hold, tx40.controller, 500.0, start=start)
    run = backend(name).rollouts(experiment, theta)
    np.testing.assert_array_equal(np.isfinite(run.lost_at), [True, False])
    assert np.isfinite(run.q[1]).all()
    assert not backend(name).sensitivities(experiment, theta, base_parameters(tx40)).ok


@every_backend
def test_bad_experiments_are_refused_in_the_same_words(name, tx40, wave_of):
    with pytest.raises(MismatchError, match="another robot"):
        backend(name).rollouts(
            Experiment(tx40, wave_of(3), tx40.controller, 500.0), tx40.theta[None]
        )


def test_backends_are_found_by_name():
    assert BACKENDS["threads"] is backend("threads")
    for place in BACKENDS.values():
        assert isinstance(place, Backend)
    with pytest.raises(UnknownNameError, match=r"unknown backend 'thread'.*threads"):
        backend("thread")
    with pytest.raises(TypeError):
        BACKENDS["mine"] = Backend()
