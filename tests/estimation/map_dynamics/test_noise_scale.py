"""Noise that is larger at some samples than a sensor's covariance says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bodysense.errors import ShapeError, UnknownNameError
from bodysense.estimation import Assumptions, GaussianPrior, MapDynamics
from bodysense.estimation.map_dynamics.consistency import consistency
from bodysense.estimation.map_dynamics.noise import Biases
from bodysense.robot import load_robot
from bodysense.sensors import (
    Accelerometer,
    ExternalWrench,
    ForceTorque,
    JointAcceleration,
    JointTorque,
    Mount,
    Sensor,
    variances,
)

_SCALES = {"tau.joint2": 3.0, "tau.joint5": 0.5, "ft": 4.0, "acc": 2.0, "hand": 7.0, "side": 1.5}


@pytest.fixture(scope="module")
def problem() -> MapDynamics:
    """A sensor of every group of the kernels: own motion, own wrench, external, parent's side."""
    robot = load_robot("tx40")
    sensors: list[Sensor] = [
        *(
            JointTorque(name=f"tau.{j}", joint=j, covariance=variances(0.3, 1), side="drive")
            for j in robot.joint_names
        ),
        *(
            JointAcceleration(name=f"ddq.{j}", joint=j, covariance=variances(0.5, 1))
            for j in robot.joint_names
        ),
        ForceTorque(name="ft", joint="joint4", covariance=variances(0.7, 6), bias_sigma=np.ones(6)),
        ForceTorque(
            name="side", joint="joint5", mount=Mount("link4"), sign=-1, covariance=variances(0.6, 6)
        ),
        Accelerometer(name="acc", mount=Mount("link5"), covariance=variances(0.2, 3)),
        ExternalWrench(name="hand", mount=Mount("link6"), covariance=variances(2.0, 6)),
    ]
    pushed = Assumptions(wrenches={"link6": GaussianPrior.zero(6, std=20.0)})
    return MapDynamics(robot, sensors, pushed)


def _scaled(problem: MapDynamics) -> MapDynamics:
    return problem.with_sensors(
        [
            replace(s, covariance=_SCALES.get(s.name, 1.0) ** 2 * s.covariance)
            for s in problem.sensors
        ]
    )


def _drawn(problem: MapDynamics, T: int = 20) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(3)
    return (
        *rng.uniform(-1, 1, (2, T, problem.robot.n_joints)),
        3.0 * rng.normal(size=(T, problem.layout.size)),
    )


def test_a_scale_is_a_larger_covariance(problem: MapDynamics) -> None:
    given = _drawn(problem)
    found = problem.estimate(*given, noise_scale=_SCALES, detail="blocks", likelihood=True)
    wanted = _scaled(problem).estimate(*given, detail="blocks", likelihood=True)
    np.testing.assert_allclose(found.mean, wanted.mean, rtol=0, atol=1e-8)
    np.testing.assert_allclose(found.variance, wanted.variance, rtol=1e-8, atol=1e-10)
    for name, block in wanted.blocks.items():
        np.testing.assert_allclose(found.blocks[name], block, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(found.log_likelihood, wanted.log_likelihood, rtol=1e-10)


def test_a_scale_counts_at_its_samples_alone(problem: MapDynamics) -> None:
    given = _drawn(problem)
    scale = np.ones(20)
    scale[7] = 5.0
    found = problem.estimate(*given, noise_scale={"ft": scale})
    plain = problem.estimate(*given)
    others = np.arange(20) != 7
    np.testing.assert_allclose(found.mean[others], plain.mean[others], rtol=0, atol=1e-9)
    assert np.abs(found.mean[7] - plain.mean[7]).max() > 1e-2
    assert (found.sigma("fx.link6")[7] >= plain.sigma("fx.link6")[7]).all()


def test_consistency_and_biases_count_it(problem: MapDynamics) -> None:
    given, other = _drawn(problem), _scaled(problem)
    samples = problem.samples(*given, noise_scale=_SCALES)
    found, wanted = consistency(problem, samples), consistency(other, other.samples(*given))
    for sensor, square in wanted.chi_square.items():
        np.testing.assert_allclose(found.chi_square[sensor], square, rtol=1e-6, atol=1e-9)
    biases, reference = Biases.of(problem, samples), Biases.of(other, other.samples(*given))
    assert biases is not None
    assert reference is not None
    np.testing.assert_allclose(biases.beta, reference.beta, rtol=0, atol=1e-5)
    np.testing.assert_allclose(biases.N, reference.N, rtol=1e-6, atol=1e-8)


def test_wrong_scales_are_named(problem: MapDynamics) -> None:
    given = _drawn(problem)
    with pytest.raises(UnknownNameError, match=r"tau\.joint2"):
        problem.estimate(*given, noise_scale={"tau.joint": 2.0})
    for scale in (0.0, -1.0, np.full(20, np.nan), np.ones(3)):
        with pytest.raises(ShapeError, match="noise scale of ft"):
            problem.estimate(*given, noise_scale={"ft": scale})
