"""The step of EM that expects: second moments of all noises, given the readings.

For the noise n of a sensor, an external wrench less its prior mean, or the slack of an equation

    E[n nᵀ | y] = n̂ n̂ᵀ + Cov[n | y]

from the marginal posterior of each alone, summed over samples, and over bodies where they share a
covariance. The same sweep gives the log density of all rows at the present covariances. Biases of
sensors are hidden too: both are taken at their means, and changed by what their uncertainty adds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bodysense.estimation._kernels.solve import Found
from bodysense.estimation.map_dynamics.biases import Biases, bias_note
from bodysense.estimation.map_dynamics.consistency import log_density
from bodysense.estimation.map_dynamics.em.variances import NoiseSource, SecondMoment, columns_of
from bodysense.estimation.map_dynamics.equations import root_of
from bodysense.estimation.map_dynamics.noise import Noise, chunks, noises
from bodysense.estimation.map_dynamics.priors import GaussianPrior
from bodysense.estimation.map_dynamics.solution import Samples
from bodysense.spatial.arrays import Array

if TYPE_CHECKING:
    from bodysense.estimation.map_dynamics.estimator import MapDynamics

SLACKS = ("acceleration", "wrench", "torque")


class Expectation(NamedTuple):
    """At the present covariances.

    Attributes:
        second: second moments by source.
        density: of all rows at all samples, its logarithm.
        note: what is amiss with biases, in words.
    """

    second: dict[str, SecondMoment]
    density: float
    note: str


def expected(
    problem: MapDynamics,
    samples: Samples,
    sources: Sequence[NoiseSource],
    covariances: Mapping[str, Array],
) -> Expectation:
    """Second moments by source, and the log density of all rows at all samples.

    Args:
        problem: with the present covariances.
        samples: of `problem.samples`.
        sources: whose second moments to take.
        covariances: the present ones, by source.
    """
    sums = {source.name: np.zeros_like(source.covariance) for source in sources}
    counts = dict.fromkeys(sums, 0)
    density = 0.0
    biases = Biases.of(problem, samples)
    if biases is not None:
        density += biases.log_share
        for name, total in _of_biases(biases, problem, samples, sources, covariances).items():
            sums[name] += total
        samples = biases.taken_out(samples)
    slacks = any(source.kind.startswith("slack.") for source in sources)
    for which in chunks(problem, samples.size):
        part = samples.part(which)
        result = problem.solve(part, "slacks" if slacks else "blocks")
        density += float(log_density(problem, result).sum())
        of_sensors = noises(problem, part, result)
        for source in sources:
            noise = of_sensors.get(source.name) or _prior_noise(problem, result, source)
            total, count = _second_moment(noise)
            sums[source.name] += total
            counts[source.name] += count
    second = {name: SecondMoment(sums[name], counts[name]) for name in sums}
    return Expectation(second, density, bias_note(problem, biases))


def _of_biases(
    biases: Biases,
    problem: MapDynamics,
    samples: Samples,
    sources: Sequence[NoiseSource],
    covariances: Mapping[str, Array],
) -> dict[str, Array]:
    """What the uncertainty of biases adds to the second moments of all samples."""
    sums = {source.name: np.zeros_like(source.covariance) for source in sources}
    for look, spread in biases.spreads(problem, samples):
        for source in sources:
            for name in columns_of(source, spread):
                sums[source.name] += look.weight * spread[name]
    added = {}
    for source in sources:
        R = root_of(covariances[source.name])
        added[source.name] = R @ sums[source.name] @ R.T
    return added


def with_covariances(problem: MapDynamics, covariances: Mapping[str, Array]) -> MapDynamics:
    """The problem with other covariances, by the names of their sources."""
    sensors = [
        replace(sensor, covariance=covariances[sensor.name])
        if sensor.name in covariances
        else sensor
        for sensor in problem.sensors
    ]
    priors = problem.assumptions
    wrenches = dict(priors.wrenches)
    for link in problem.tree.names:
        if f"prior.fx.{link}" in covariances:
            mean = wrenches.get(link, priors.wrench).mean
            wrenches[link] = GaussianPrior(mean, covariances[f"prior.fx.{link}"])
    fields: dict[str, Any] = {"wrenches": wrenches}
    for slack in SLACKS:
        if f"slack.{slack}" in covariances:
            Sigma = covariances[f"slack.{slack}"]
            fields[f"{slack}_slack"] = GaussianPrior(np.zeros(len(Sigma)), Sigma)
    return problem.changed(sensors, replace(priors, **fields))


def _second_moment(noise: Noise) -> tuple[Array, int]:
    present = ~np.isnan(noise.mean).any(axis=1)
    mean = noise.mean[present]
    total: Array = mean.T @ mean + noise.covariance[present].sum(axis=0)
    return total, int(present.sum())


def _prior_noise(problem: MapDynamics, found: Found, source: NoiseSource) -> Noise:
    """An external wrench less its mean, or the slacks of all bodies one after the other."""
    tree, priors = problem.tree, problem.assumptions
    if source.kind == "fx":
        link = source.name.removeprefix("prior.fx.")
        i, prior = tree.body(link), priors.wrenches.get(link, priors.wrench)
        return Noise(found.d[:, i, 13:19] - prior.mean, found.external[:, i])
    below = slice(1, tree.n)
    if source.kind == "slack.torque":
        slack = found.slack_torque[:, below].reshape(-1, 2)
        return Noise(slack[:, :1], slack[:, 1:, None])
    if source.kind == "slack.wrench":
        bodies = slice(tree.with_unknowns.start, tree.n)
        mean, covariance = found.slack[:, bodies, 6:], found.slack_wrench[:, bodies]
    else:
        mean, covariance = found.slack[:, below, :6], found.slack_acceleration[:, below]
    return Noise(mean.reshape(-1, 6), covariance.reshape(-1, 6, 6))
