"""Biases over a log, against one dense Gaussian of all readings of all samples."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pytest
from dense_oracle import dense_readings, sensor_noise
from scipy.linalg import block_diag
from scipy.stats import multivariate_normal
from sensor_sets import all_sensors
from simulated_logs import simulated

from bodysense.estimation import (
    Assumptions,
    GaussianPrior,
    MapDynamics,
    SensorConsistency,
    consistency,
    estimate_covariances,
)
from bodysense.estimation.map_dynamics import noise as noise_module
from bodysense.estimation.map_dynamics.em.information import expected, information, with_covariances
from bodysense.estimation.map_dynamics.em.variances import Coordinates, chosen_sources
from bodysense.estimation.map_dynamics.equations import Equations
from bodysense.estimation.map_dynamics.noise import Biases, bias_note, looks, presence, thinned

T = 6
KINDS = ("accelerometer", "joint_torque", "force_torque", "joint_acceleration")


@dataclass(frozen=True)
class Whole:
    """All readings as one normal vector: mean c, covariance S, and where each sensor is in it."""

    y: np.ndarray
    c: np.ndarray
    S: np.ndarray
    noise: np.ndarray  # (m, m) of the sensors' noise alone
    fx: np.ndarray  # (6 T, m) covariance of the pushes and the readings
    rows: dict[str, list[np.ndarray]]

    def of_noise(self, name, t, Sigma):
        """Mean and covariance of a sensor's noise at a sample, after all readings."""
        at = self.rows[name][t]
        gain = self.noise[at] @ self.inverse
        return gain @ (self.y - self.c), Sigma - gain @ self.noise[:, at]

    @cached_property
    def inverse(self):
        return np.linalg.inv(self.S)


def equations_of(problem, samples):
    at = zip(samples.q, samples.dq, strict=True)
    return [Equations.at(problem.tree, problem.sensors, q, dq) for q, dq in at]


def read_before(problem, equations):
    noise = sensor_noise(problem.sensors)
    return [dense_readings(each, noise, problem.assumptions) for each in equations]


def dense(problem, samples, link):
    layout, m = problem.layout, problem.layout.size
    sigma = np.concatenate(
        [np.zeros(s.size) if s.bias_sigma is None else s.bias_sigma for s in problem.sensors]
    )
    readings = np.empty_like(samples.y)
    readings[:, layout.order] = samples.y
    equations = equations_of(problem, samples)
    before = read_before(problem, equations)
    pushes = [one.of_unknowns[equations[0].variables[f"fx.{link}"]] for one in before]
    shared = np.tile(np.diag(sigma**2), (samples.size, samples.size))
    rows = {
        name: [t * m + np.arange(at.start, at.stop) for t in range(samples.size)]
        for name, at in layout.slices.items()
    }
    noise = block_diag(*[sensor_noise(problem.sensors)] * samples.size)
    c = np.concatenate([one.mean for one in before])
    S = block_diag(*[one.covariance for one in before]) + shared
    return Whole(readings.ravel(), c, S, noise, block_diag(*pushes), rows)


def present_only(whole):
    """Without the readings that are absent; the rows of a sensor that is not there are empty."""
    here = np.isfinite(whole.y)
    number = np.where(here, np.cumsum(here) - 1, -1)
    rows = {
        name: [number[at][number[at] >= 0] for at in places] for name, places in whole.rows.items()
    }
    S, noise = (matrix[np.ix_(here, here)] for matrix in (whole.S, whole.noise))
    return Whole(whole.y[here], whole.c[here], S, noise, whole.fx[:, here], rows)


@pytest.fixture(scope="module")
def biased(tree_named):
    """A chain with all kinds of sensors, some with biases of several times their noise."""
    rng = np.random.default_rng(11)
    tree = tree_named("chain")
    sensors = []
    for sensor in all_sensors(tree, rng):
        if sensor.kind not in KINDS or rng.uniform() > 0.6 or "above" in sensor.name:
            continue
        root = rng.normal(scale=0.3, size=(sensor.size, sensor.size))
        bias = rng.uniform(0.0, 2.0, sensor.size) if rng.uniform() < 0.5 else None
        sensors.append(replace(sensor, covariance=root @ root.T + 0.01, bias_sigma=bias))
    last = tree.names[-1]
    priors = Assumptions(
        wrench=GaussianPrior.zero(6, 0.5),
        wrenches={last: GaussianPrior.zero(6, 5.0)},
        joint_acceleration=GaussianPrior.zero(1, 10.0),
    )
    sensors = [replace(s, covariance=s.covariance + 0.01 * np.eye(s.size)) for s in sensors]
    problem = MapDynamics(tree.robot, sensors, priors)
    samples = simulated(problem, rng, T)[0]
    return problem, samples, last, dense(problem, samples, last)


def test_second_moments_and_density_equal_a_dense_solve(biased):
    problem, samples, last, whole = biased
    sources = chosen_sources(problem, "full", None, None, [last], ())
    start = {source.name: source.covariance for source in sources}
    found, density, note = expected(problem, samples, sources, start)
    assert note == ""
    assert density == pytest.approx(multivariate_normal.logpdf(whole.y, whole.c, whole.S), rel=1e-8)
    for sensor in problem.sensors:
        wanted = np.zeros_like(sensor.covariance)
        for t in range(T):
            mean, covariance = whole.of_noise(sensor.name, t, sensor.covariance)
            wanted += np.outer(mean, mean) + covariance
        scale = np.abs(wanted).max()
        np.testing.assert_allclose(found[sensor.name].sum, wanted, atol=1e-5 * scale)
    gain = whole.fx @ whole.inverse
    mean, explained = gain @ (whole.y - whole.c), gain @ whole.fx.T
    wanted = np.zeros((6, 6))
    for t in range(T):
        at = slice(6 * t, 6 * t + 6)
        wanted += 25.0 * np.eye(6) - explained[at, at] + np.outer(mean[at], mean[at])
    got = found[f"prior.fx.{last}"].sum
    np.testing.assert_allclose(got, wanted, atol=1e-5 * np.abs(wanted).max())


def test_consistency_equals_a_dense_solve(biased):
    problem, samples, _, whole = biased
    judged = consistency(problem, samples)
    for sensor in problem.sensors:
        for t in range(T):
            mean, covariance = whole.of_noise(sensor.name, t, sensor.covariance)
            left = np.diag(sensor.covariance - covariance)
            seen = left > 0.01 * np.diag(sensor.covariance)
            got = judged.normalised[sensor.name][t]
            np.testing.assert_allclose(got[seen], (mean / np.sqrt(left))[seen], rtol=1e-3)


@pytest.mark.parametrize("structure", ["type", "axis", "full"])
def test_slope_and_information(biased, structure):
    """The slope against differences of the density; F against traces of dense matrices."""
    problem, samples, last, _ = biased
    sources = chosen_sources(problem, structure, None, None, [last], ())
    coordinates = Coordinates.of(sources)
    start = {source.name: source.covariance for source in sources}
    problem = with_covariances(problem, start)
    slope = coordinates.slope(start, expected(problem, samples, sources, start)[0]).readings
    rng = np.random.default_rng(4)
    some = rng.choice(coordinates.size, min(6, coordinates.size), replace=False)
    fixed = problem.with_sensors([replace(s, bias_sigma=None) for s in problem.sensors])
    F = information(fixed, samples, coordinates, start)
    equations = equations_of(fixed, samples)
    inverses = [np.linalg.inv(one.covariance) for one in read_before(fixed, equations)]
    step, changes = 1e-4, []
    for k in some:
        u = step * np.eye(coordinates.size)[k]
        ends = []
        for sign in (1.0, -1.0):
            moved = coordinates.moved(start, sign * u)
            there = with_covariances(problem, moved)
            ends.append(
                (
                    expected(there, samples, sources, moved)[1],
                    fixed.changed(
                        [replace(s, bias_sigma=None) for s in there.sensors], there.assumptions
                    ),
                )
            )
        got = (ends[0][0] - ends[1][0]) / (2.0 * step)
        assert slope[k] == pytest.approx(got, rel=1e-4, abs=1e-3)
        one, other = (read_before(end[1], equations) for end in ends)
        difference = [x.covariance - y.covariance for x, y in zip(one, other, strict=True)]
        changes.append(np.stack(inverses) @ np.stack(difference) / (2.0 * step))
    for a, k in enumerate(some):
        for b, l in enumerate(some):  # samples are independent without biases
            wanted = 0.5 * np.einsum("tij,tji->", changes[a], changes[b])
            assert F[k, l] == pytest.approx(wanted, rel=1e-4, abs=1e-5)


@pytest.fixture(scope="module")
def sparse(biased):
    """A robot that stands still for 42 samples, two sensors with biases that read rarely."""
    sensors = sorted(biased[0].sensors, key=lambda s: s.bias_sigma is None)[:8]
    problem = biased[0].with_sensors(sensors)
    with_bias = [s.name for s in sensors[:2]]
    samples = simulated(problem, np.random.default_rng(5), 42)[0]
    q, dq = np.tile(samples.q[:1], (42, 1)), np.tile(samples.dq[:1], (42, 1))
    y = samples.y.copy()
    place, at = np.argsort(problem.layout.order), np.arange(42)
    for name, there in zip(with_bias, (at % 4 == 3, at % 10 == 7), strict=True):
        y[np.ix_(~there, place[problem.layout.slices[name]])] = np.nan
    samples = samples._replace(q=q, dq=dq, y=y)
    return problem, samples, with_bias


def test_looks_stand_for_samples_with_the_same_sensors(sparse, monkeypatch):
    """Where a robot stands still, looks are exact: as good as all samples."""
    problem, samples, names = sparse
    some = looks(problem, samples)
    assert len(some) < 42
    present = presence(problem, samples)
    weights = np.array([weight for _, weight in some])
    counted = weights @ present[[t for t, _ in some]]
    np.testing.assert_allclose(counted, present.sum(axis=0), rtol=1e-12)
    sources = chosen_sources(problem, "axis", None, None, (), ())
    coordinates = Coordinates.of(sources)
    start = {source.name: source.covariance for source in sources}
    there = with_covariances(problem, start)
    F, N = information(there, samples, coordinates, start), Biases.of(there, samples).N
    monkeypatch.setattr(noise_module, "_LOOKS", 1000)
    assert len(looks(problem, samples)) == 42
    np.testing.assert_allclose(F, information(there, samples, coordinates, start), rtol=1e-9)
    np.testing.assert_allclose(N, Biases.of(there, samples).N, rtol=1e-9, atol=1e-9)
    rows = [k for k, title in enumerate(coordinates.titles) if title in names]
    assert (np.diag(F)[rows] > 0.0).all()


def test_sparse_sensors_equal_a_dense_solve(sparse, biased):
    problem, samples, names = sparse
    whole = present_only(dense(problem, samples, biased[2]))
    sources = chosen_sources(problem, "full", None, None, (), ())
    start = {source.name: source.covariance for source in sources}
    found, density, _ = expected(problem, samples, sources, start)
    assert density == pytest.approx(multivariate_normal.logpdf(whole.y, whole.c, whole.S), rel=1e-8)
    judged = consistency(problem, samples)
    solved = np.linalg.solve(whole.S, np.column_stack([whole.y - whole.c, whole.noise]))
    for sensor in problem.sensors:
        wanted = np.zeros_like(sensor.covariance)
        for t, at in enumerate(whole.rows[sensor.name]):
            if not at.size:
                assert sensor.name in names
                assert np.isnan(judged.chi_square[sensor.name][t])
                continue
            mean = whole.noise[at] @ solved[:, 0]
            explained = whole.noise[at] @ solved[:, 1 + at]
            wanted += np.outer(mean, mean) + sensor.covariance - explained
            left = np.diag(explained)
            seen = left > 0.01 * np.diag(sensor.covariance)
            got = judged.normalised[sensor.name][t]
            np.testing.assert_allclose(got[seen], (mean / np.sqrt(left))[seen], rtol=1e-3)
        scale = np.abs(wanted).max()
        np.testing.assert_allclose(found[sensor.name].sum, wanted, atol=1e-5 * scale)


def test_many_patterns_are_looked_at_together(sparse):
    problem, samples, names = sparse
    rng = np.random.default_rng(1)
    T, m = 400, samples.y.shape[1]
    y = np.where(rng.uniform(size=(T, m)) < 0.2, np.nan, 1.0)
    place = np.argsort(problem.layout.order)
    y[1:, place[problem.layout.slices[names[0]]]] = np.inf  # no reading either
    y[0] = 1.0
    many = samples._replace(q=np.zeros((T, samples.q.shape[1])), y=y)
    some = looks(problem, many)
    assert len(some) < 100
    assert sum(weight for _, weight in some) == pytest.approx(T)
    present = presence(problem, many)
    assert len(np.unique(present, axis=0)) > 40
    assert present[[t for t, _ in some]].any(axis=0).all()
    assert looks(problem, many._replace(q=many.q[:0], y=y[:0])) == ()


def test_thinning_keeps_the_share_of_every_sensor(sparse):
    problem, samples, names = sparse
    few = thinned(problem, samples, 10)
    assert few.size == 10
    before, after = presence(problem, samples), presence(problem, few)
    np.testing.assert_allclose(after.mean(axis=0), before.mean(axis=0), atol=0.1)
    assert after[:, [s.name in names for s in problem.sensors]].any(axis=0).all()
    assert thinned(problem, samples, 42) is samples


def test_says_what_is_amiss_with_biases(biased, monkeypatch, tmp_path):
    problem, samples, _, _ = biased
    name = next(s.name for s in problem.sensors if s.bias_sigma is not None and s.size > 1)
    exact = problem.with_sensors(
        [
            replace(s, covariance=np.diag([0.0] + [0.1] * (s.size - 1))) if s.name == name else s
            for s in problem.sensors
        ]
    )
    judged = consistency(exact, samples)
    assert f"Biases of {name} are not estimated" in judged.summary()
    judged.save(tmp_path)
    assert SensorConsistency.load(tmp_path).summary() == judged.summary()
    other = next(s.name for s in problem.sensors if s.name != name)
    fit = estimate_covariances(exact, samples, sensors=[other], iterations=1)
    assert f"Biases of {name} are not estimated" in fit.message
    assert Biases.of(problem, samples).converged
    monkeypatch.setattr(noise_module, "_STEPS", 1)
    hasty = Biases.of(problem, samples._replace(y=samples.y + 1.0))
    if hasty.converged:  # the looks are all samples: one step does
        hasty = replace(hasty, converged=False)
    assert "did not converge" in bias_note(problem, hasty)


def test_a_bias_is_no_noise(tree_named):
    """EM and consistency find the noise that is there, whatever the biases; none: as ever."""
    rng = np.random.default_rng(3)
    tree = tree_named("chain")
    kept = [s for s in all_sensors(tree, rng) if s.kind in KINDS and "ft." not in s.name]
    kept += [s for s in all_sensors(tree, rng) if s.name.startswith("ft.below")]
    priors = Assumptions(
        wrench=GaussianPrior.zero(6, 0.5), joint_acceleration=GaussianPrior.zero(1, 10.0)
    )
    problem = MapDynamics(tree.robot, kept, priors)
    assert Biases.of(problem, simulated(problem, rng, 3)[0]) is None
    samples = simulated(problem, rng, 250)[0]
    honest = problem.with_sensors(
        [
            replace(s, bias_sigma=np.full(s.size, 3.0)) if s.kind == "accelerometer" else s
            for s in kept
        ]
    )
    b = Biases.of(honest, samples)
    offset = rng.normal(scale=3.0, size=b.rows.size)
    y = samples.y.copy()
    y[:, b.rows] += offset
    off = samples._replace(y=y)
    found = Biases.of(honest, off)
    sigma = found.sigma * np.sqrt(np.diag(np.linalg.inv(found.N)))
    error = found.sigma * found.beta - offset
    assert (np.abs(error) < 4.0 * sigma).all()
    assert (error / sigma).std() == pytest.approx(1.0, abs=0.4)
    names = [s.name for s in kept if s.kind == "accelerometer"]
    fit = estimate_covariances(honest, off, sensors=names)
    blind = estimate_covariances(problem, off, sensors=names, iterations=5)
    for name in names:
        np.testing.assert_allclose(fit.sigma(name), 0.1, rtol=0.2)
    assert max(blind.sigma(name).max() for name in names) > 0.5
    ratio = consistency(honest, off).ratio
    wrong = consistency(problem, off).ratio
    assert all(ratio[name] == pytest.approx(1.0, abs=0.1) for name in names)
    assert max(wrong[name] for name in names) > 3.0
