"""Information of the readings about covariances (Fisher's).

The readings are a sum of independent columns, y = c + B s, s ~ N(0, 1). With P = Bᵀ S⁻¹ B,
S = B Bᵀ, the information of one sample about directions E and E' (see `Coordinates`) is

    F = ½ tr(P E P E')

A source with F near zero leaves no trace; two whose rows are parallel leave the same one: only a
combination of their variances shows. No unbiased estimate has a smaller covariance than the
inverse of F, summed over samples (Cramér and Rao), and the most likely one comes close to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from bodysense.estimation._kernels.solve import Found
from bodysense.estimation.map_dynamics.dense_roots import DenseRoots, root_of
from bodysense.estimation.map_dynamics.em.variances import (
    SLACKS,
    Coordinates,
    NoiseSource,
    SecondMoment,
    Slope,
    columns_of,
)
from bodysense.estimation.map_dynamics.estimator import MapDynamics
from bodysense.estimation.map_dynamics.noise import (
    Biases,
    Noise,
    bias_note,
    chunks,
    dense_roots,
    looks,
    noises,
)
from bodysense.estimation.map_dynamics.priors import GaussianPrior
from bodysense.estimation.map_dynamics.solution import Samples, log_density
from bodysense.spatial.arrays import Array


def information(
    problem: MapDynamics,
    samples: Samples,
    coordinates: Coordinates,
    covariances: Mapping[str, Array],
) -> Array:
    """(k, k) F of all samples, computed at some of them; the others are taken to be alike.

    The problem has the present covariances, which `covariances` holds by source.
    """
    turns = {
        s.name: np.linalg.pinv(root_of(covariances[s.name])) @ s.root(covariances[s.name])
        for s in coordinates.sources
    }
    F = np.zeros((coordinates.size, coordinates.size))
    for t, weight in looks(problem, samples):
        F += weight * _of_sample(dense_roots(problem, samples, t), coordinates, turns)
    return F


def _of_sample(roots: DenseRoots, coordinates: Coordinates, turns: Mapping[str, Array]) -> Array:
    """F of one sample; turns lead from the roots of the sources to those of the coordinates."""
    Q = roots.observed()
    parts: list[Array] = []
    i: list[int] = []
    j: list[int] = []
    u: list[int] = []
    for source, directions in zip(coordinates.sources, coordinates.directions, strict=True):
        for name in columns_of(source, roots.sources):
            at = sum(len(part) for part in parts)
            parts.append(turns[source.name].T @ Q[roots.sources[name]])
            i += [at + d.i for d in directions]
            j += [at + d.j for d in directions]
            u += [d.u for d in directions]
    if not parts:
        return np.zeros((coordinates.size, coordinates.size))
    mine = np.concatenate(parts)
    P = mine @ mine.T
    half = np.where(np.equal(i, j), 0.5, 1.0)
    F = P[np.ix_(i, j)] * P[np.ix_(j, i)] + P[np.ix_(i, i)] * P[np.ix_(j, j)]
    belongs = csr_array((half, (u, np.arange(len(u)))), shape=(coordinates.size, len(u)))
    information: Array = belongs @ (belongs @ F).T
    return information


# A step of Fisher scoring: as far as the slope leads by what the readings are expected to tell.
#
# EM is slow where readings say little about a noise of their own: it steps as if every noise had
# been seen. Scoring steps by what was seen,
#
#     u = D⁻¹ g,   D = F + bend of the prior + max(-g of the readings, 0),   distance² = gᵀ D⁻¹ g
#
# and comes to the maximum in a few steps. F is that of some samples; how the slope really changed
# with the last small steps corrects D (BFGS), s the step and -y the change of g: D s = y holds for
# the last of them, for those before about. That takes coordinates that stay the same: axes of a
# full covariance turn with every step, and nothing is learned where there is one. The distance is
# in standard deviations of what is estimated: below one tenth, no more can be found out. Far from
# the maximum a step may be too long; whether it helped is for the caller to see.

_LEAST_INFORMATION = 1e-9
"""Added to all, so that what leaves no trace has a large variance, not infinity."""

_SMALL_STEP = 0.5
"""Largest change of a logarithm in a step from which the curvature at the maximum is learned."""


class ScoringStep(NamedTuple):
    """A step (k,), the slope where it begins, and how many deviations from the maximum."""

    u: Array
    slope: Slope
    distance: float


def scored(
    slope: Slope, F: Array, taken: Sequence[tuple[Array, Array]], reach: float
) -> ScoringStep:
    """The next step, no longer than `reach`, knowing (s, y) of small steps `taken` before."""
    g = slope.readings + slope.prior
    # A falling slope bends the logarithm too: the derivative of v l' is v² l'' + v l'.
    bend = slope.bend + np.maximum(-slope.readings, 0.0) + _LEAST_INFORMATION
    shares = []
    rest = g
    for s, y in reversed(taken):
        shares.append(float(s @ rest) / float(s @ y))
        rest = rest - shares[-1] * y
    u: Array = np.asarray(np.linalg.solve(F + np.diag(bend), rest), dtype=np.float64)
    for s, y in taken:
        u = u + s * (shares.pop() - float(y @ u) / float(s @ y))
    distance = np.sqrt(max(float(g @ u), 0.0))
    return ScoringStep(u.clip(-reach, reach), slope, float(distance))


def learned(
    taken: Sequence[tuple[Array, Array]], step: ScoringStep, slope: Slope
) -> tuple[tuple[Array, Array], ...]:
    """(s, y) of small steps in a row, with one more and the slope at its end; none if large."""
    if np.abs(step.u).max(initial=0.0) > _SMALL_STEP:
        return ()
    y = step.slope.readings + step.slope.prior - slope.readings - slope.prior
    return (*taken, (step.u, y))[-10:] if step.u @ y > 0.0 else tuple(taken)


def inverse_information(F: Array, prior: Array) -> Array:
    """(k, k) of the coordinates at the maximum, from the information of readings and prior."""
    return np.asarray(np.linalg.inv(F + np.diag(prior + _LEAST_INFORMATION)), dtype=np.float64)


# Which covariances are not identifiable, alone or apart from each other, in words.

_UNKNOWN = 0.7
"""Standard deviation of the logarithm of a variance from which it is not known: a factor of two."""

_NAMED = 6  # sources in a sentence


def describe_unidentified(F: Array, C: Array, coordinates: Coordinates) -> str:
    """Sources of which a variance is known to less than a factor of two or so, and the remedy.

    From the information F (k, k) of the readings and the covariance C (k, k) of the coordinates. Of
    a full covariance principal axes are listed, of one that is scaled units.
    """
    sigma = np.sqrt(np.diag(C))
    correlation = np.abs(C / np.outer(sigma, sigma))
    titles = np.array(coordinates.titles)
    variance = np.array([i == j for i, j in coordinates.axes])
    pairs: list[set[str]] = []
    single = []
    for title in dict.fromkeys(coordinates.titles):
        vague = np.flatnonzero((titles == title) & variance & (sigma > _UNKNOWN))
        if not vague.size:
            continue
        worst = vague[sigma[vague].argmax()]
        strength = np.where(titles == title, 0.0, correlation[worst])
        partner = int(strength.argmax())
        if F[worst, worst] > 1.0 / _UNKNOWN**2 and strength[partner] > 0.5:
            pair = {title, coordinates.titles[partner]}
            pairs += [pair] if pair not in pairs else []
        else:  # it leaves no trace of its own
            single.append(f"{title}[{', '.join(str(coordinates.axes[k][0]) for k in vague)}]")
    text = [
        f"The covariances of {' and '.join(sorted(pair))} cannot be separated by these readings, "
        "only a combination is identifiable: keep one of them fixed (sensors=, wrenches=, "
        "slacks=), or give it a prior of more weight."
        for pair in pairs[:3]
    ]
    if single:
        more = f" and {len(single) - _NAMED} more" if len(single) > _NAMED else ""
        text.append(
            f"The log hardly identifies the covariance of {', '.join(single[:_NAMED])}{more}: add "
            "a sensor that measures the same, give more samples, let all of a kind share one "
            'factor (structure="type"), or leave it out of the estimation.'
        )
    return " ".join(text)


# The step of EM that expects: second moments of all noises, given the readings.
#
# For the noise n of a sensor, an external wrench less its prior mean, or the slack of an equation
#
#     E[n nᵀ | y] = n̂ n̂ᵀ + Cov[n | y]
#
# from the marginal posterior of each alone, summed over samples, and over bodies where they share a
# covariance. The same sweep gives the log density of all rows at the present covariances. Biases of
# sensors are hidden too: both are taken at their means, and changed by what their uncertainty adds.


class Expectation(NamedTuple):
    """Second moments by source, log density of all samples, and what is amiss with biases."""

    second: dict[str, SecondMoment]
    density: float
    note: str


def expected(
    problem: MapDynamics,
    samples: Samples,
    sources: Sequence[NoiseSource],
    covariances: Mapping[str, Array],
) -> Expectation:
    """Expectation at the present covariances, which the problem has too."""
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
        density += float(log_density(problem.layout, result, part.weight).sum())
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
    for _, weight, spread in biases.spreads(problem, samples):
        for source in sources:
            for name in columns_of(source, spread):
                sums[source.name] += weight * spread[name]
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
            mean = priors.wrench_of(link).mean
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
        i, prior = tree.body(link), priors.wrench_of(link)
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


# The step of EM that maximises, see `variances` for the equations.


def maximised(
    sources: Sequence[NoiseSource], expected: Mapping[str, SecondMoment], last: Mapping[str, Array]
) -> dict[str, Array]:
    """New covariances by name; those of sources that never occurred stay as they were."""
    factors = _factors(sources, expected)
    covariances = {}
    for source in sources:
        seen = expected[source.name]
        count = seen.count + source.weight
        total = seen.sum + source.weight * source.mode
        if source.structure == "type":
            Sigma = source.covariance.copy()
            for g, group in enumerate(source.groups):
                Sigma[np.ix_(group, group)] *= factors.get((source.kind, g), 1.0)
        elif count == 0.0:
            Sigma = last[source.name]
        else:
            Sigma = (total + total.T) / (2.0 * count)
            Sigma = np.diag(np.diag(Sigma)) if source.structure == "axis" else Sigma
        covariances[source.name] = Sigma
    return covariances


def _factors(
    sources: Sequence[NoiseSource], expected: Mapping[str, SecondMoment]
) -> dict[tuple[str, int], float]:
    """Factor of each kind and group of components."""
    above: dict[tuple[str, int], float] = {}
    below: dict[tuple[str, int], float] = {}
    for source in sources:
        if source.structure != "type":
            continue
        seen = expected[source.name]
        total = seen.sum + source.weight * source.mode
        for g, group in enumerate(source.groups):
            at, key = np.ix_(group, group), (source.kind, g)
            inverse = np.linalg.pinv(source.covariance[at], hermitian=True)
            rank = float(np.trace(inverse @ source.covariance[at]))
            above[key] = above.get(key, 0.0) + float(np.trace(inverse @ total[at]))
            below[key] = below.get(key, 0.0) + (seen.count + source.weight) * rank
    return {key: above[key] / below[key] for key in above if below[key] > 0.0}
