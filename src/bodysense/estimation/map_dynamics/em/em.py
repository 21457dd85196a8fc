"""`estimate_covariances`: covariances of sensors and model from a log (paper 003, problem 3).

Expectation maximisation. Hidden are the noises of the sensors and the slacks of the equations;
each round takes their second moments given all readings at the present covariances. To make these
the covariances of the next round never makes the density of the readings smaller, but is slow.
The same samples are its slope: a round tries the step that this and Fisher's information suggest,
and takes that of EM where the density does not grow by it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from bodysense.errors import MismatchError, ShapeError, unknown_name
from bodysense.estimation.map_dynamics.em.information import (
    SLACKS,
    Expectation,
    ScoringStep,
    describe_unidentified,
    expected,
    information,
    inverse_information,
    learned,
    scored,
    with_covariances,
)
from bodysense.estimation.map_dynamics.em.result import CovarianceFit
from bodysense.estimation.map_dynamics.em.variances import (
    STRUCTURES,
    Coordinates,
    InverseWishart,
    NoiseSource,
    Slope,
    Structure,
    maximised,
)
from bodysense.estimation.map_dynamics.estimator import MapDynamics
from bodysense.estimation.map_dynamics.noise import thinned
from bodysense.estimation.map_dynamics.solution import Samples
from bodysense.sensors.motion_sensors import Orientation
from bodysense.sensors.wrench_sensors import ExternalWrench
from bodysense.spatial.arrays import Array

# Which covariances to estimate, each with its structure and its prior, by names and kinds.

_WRENCH_UNITS = ExternalWrench.units
_MOTION_UNITS = ("m/s²",) * 3 + ("rad/s²",) * 3
_Source = tuple[str, str, Array, Sequence[str]]  # name, kind, covariance at the start, units


def _chosen_sources(
    problem: MapDynamics,
    structure: Structure | Mapping[str, Structure],
    prior: InverseWishart | Mapping[str, InverseWishart] | None,
    sensors: Sequence[str] | None,
    wrenches: Sequence[str],
    slacks: Sequence[str],
) -> tuple[NoiseSource, ...]:
    """Everything whose covariance is to be estimated; see `estimate_covariances`.

    What is exact, and orientations, which are no part of the problem, are left out.
    """
    wanted = [
        *_sensor_sources(problem, sensors),
        *(_wrench_source(problem, link) for link in wrenches),
        *(_slack_source(problem, slack) for slack in slacks),
    ]
    names = [name for name, *_ in wanted]
    for name in names:
        if names.count(name) > 1:
            raise MismatchError(f"{name!r} is asked for twice, or a sensor has that name: rename.")
    return tuple(
        NoiseSource.of(
            name, kind, Sigma, units, _structure(structure, name, kind), _prior(prior, name, kind)
        )
        for name, kind, Sigma, units in wanted
        if Sigma.any()
    )


def _sensor_sources(problem: MapDynamics, names: Sequence[str] | None) -> Iterator[_Source]:
    by_name = {sensor.name: sensor for sensor in problem.sensors}
    for name in by_name if names is None else names:
        if name not in by_name:
            raise unknown_name("sensor", name, by_name)
        sensor = by_name[name]
        if sensor.kind != Orientation.kind:
            units = tuple(sensor.units[k % len(sensor.units)] for k in range(sensor.size))
            yield name, sensor.kind, sensor.covariance, units


def _wrench_source(problem: MapDynamics, link: str) -> _Source:
    priors, tree = problem.assumptions, problem.tree
    if link not in [tree.names[i] for i in tree.with_unknowns]:
        raise unknown_name("link with an external wrench", link, tree.names)
    wrench = priors.wrenches.get(link, priors.wrench)
    return f"prior.fx.{link}", "fx", wrench.covariance, _WRENCH_UNITS


def _slack_source(problem: MapDynamics, slack: str) -> _Source:
    if slack not in SLACKS:
        raise unknown_name("slack", slack, SLACKS)
    name = f"slack.{slack}"
    Sigma = getattr(problem.assumptions, f"{slack}_slack").covariance
    units = {"wrench": _WRENCH_UNITS, "torque": ("N·m",)}.get(slack, _MOTION_UNITS)
    return name, name, Sigma, units


def _structure(structure: Structure | Mapping[str, Structure], name: str, kind: str) -> Structure:
    if isinstance(structure, Mapping):
        structure = structure.get(name, structure.get(kind, "axis"))
    if structure not in STRUCTURES:
        raise unknown_name("structure", structure, STRUCTURES)
    return structure


def _prior(
    prior: InverseWishart | Mapping[str, InverseWishart] | None, name: str, kind: str
) -> InverseWishart:
    if isinstance(prior, Mapping):
        return prior.get(name, prior.get(kind, InverseWishart()))
    return InverseWishart() if prior is None else prior


_LONGEST_STEP = 2.0  # change of the logarithm of a variance in a step of scoring
_SHORTER = 0.25  # factor of the step's length after one that made the density smaller
_VANISHED = 1e-10  # share of its start below which a variance is taken for zero

_CONVERGED = "The covariances converged."
_NOTHING = "There was nothing to estimate: all covariances asked for are zero."
_INTERRUPTED = (
    "Interrupted: the covariances are those of the last round, start from these to go on."
)
_NOT_YET = (
    "The covariances had not converged after {} rounds: raise iterations, or start from these."
)
_ROUNDED = (
    "It ended where rounding hides what a round brings: narrow priors that are wider than 1e4, "
    "or whose standard deviations are millions of times those of the sensors."
)


def estimate_covariances(
    problem: MapDynamics,
    samples: Samples,
    *,
    structure: Structure | Mapping[str, Structure] = "axis",
    prior: InverseWishart | Mapping[str, InverseWishart] | None = None,
    sensors: Sequence[str] | None = None,
    wrenches: Sequence[str] = (),
    slacks: Sequence[str] = (),
    most_samples: int = 20_000,
    tolerance: float = 0.1,
    iterations: int = 100,
    progress: Callable[[int, float], None] | None = None,
) -> CovarianceFit:
    """Estimate covariances from a log.

    Covariances that are zero, of exact readings and sharp equations, stay zero. Biases of sensors
    that have any (`bias_sigma`) are taken to stay the same over the log: they are estimated in
    every round, and their own uncertainty counts.

    Args:
        problem: the estimator; its covariances are the start.
        samples: of `problem.samples`; a Ctrl-C returns the covariances found so far.
        structure: of the covariances: "type" (one factor per unit for all sensors of a kind),
            "axis" (independent components) or "full"; one for all, or by the name of a source or
            its kind, "axis" for the others.
        prior: one for all, or by the name or the kind of a source; by default worth one sample at
            the start.
        sensors: names of those to estimate; by default all.
        wrenches: links whose prior about the external wrench is estimated too.
        slacks: of the equations, "acceleration", "wrench", "torque", each one for all bodies.
        most_samples: a longer log is thinned out evenly to this many; sensors of different rates
            keep their shares.
        tolerance: it ends when the covariances are no farther from the maximum, in standard
            deviations of what the log can tell of them.
        iterations: most rounds.
        progress: called with the round and the log density after each.

    Raises:
        UnknownNameError: a sensor, link, slack or structure that does not exist.
        ShapeError: no samples, or settings that make no sense.
    """
    if min(most_samples, iterations) < 1 or not tolerance > 0.0:
        raise ShapeError("most_samples, iterations and tolerance must be positive.")
    if samples.size == 0:
        raise ShapeError("there are no samples to estimate covariances from: give some.")
    samples = thinned(problem, samples, most_samples)
    chosen = _chosen_sources(problem, structure, prior, sensors, wrenches, slacks)
    search = _Search(problem, samples, chosen, tolerance)
    ending = _NOT_YET.format(iterations) if chosen else _NOTHING
    F = np.zeros((search.coordinates.size,) * 2)
    try:
        if chosen:
            ending = search.run(iterations, progress) or ending
        result = with_covariances(problem, search.best)
        F = information(result, samples, search.coordinates, search.best)
    except KeyboardInterrupt:
        ending, result = _INTERRUPTED, with_covariances(problem, search.best)
    C = inverse_information(F, search.coordinates.prior_information(search.best))
    message = ending
    if ending != _INTERRUPTED:
        vague = describe_unidentified(F, C, search.coordinates)
        message += _unidentifiable(chosen, search.best, vague)
    message += f" {search.note}" if search.note else ""
    return CovarianceFit(
        problem=result,
        covariances=search.best,
        deviations=search.coordinates.deviations(search.best, C),
        trace=np.array(search.trace),
        samples=samples.size,
        converged=ending in (_CONVERGED, _NOTHING),
        message=message,
    )


class _Search:
    """The rounds of EM and scoring.

    A round takes the density and its slope at the covariances that are `tried`. If the density is
    no smaller than before they are the `best`, and the next step of scoring is tried from there;
    else a shorter step, and after it that of EM.
    """

    def __init__(
        self,
        problem: MapDynamics,
        samples: Samples,
        sources: tuple[NoiseSource, ...],
        tolerance: float,
    ) -> None:
        self.coordinates = Coordinates.of(sources)
        self.best = {source.name: source.covariance for source in sources}
        self.trace: list[float] = []
        self.note = ""
        self._problem, self._samples, self._sources = problem, samples, sources
        self._tolerance = tolerance
        self._tried = self._em_step = self.best
        self._step: ScoringStep | None = None
        self._taken: tuple[tuple[Array, Array], ...] = ()
        self._F = np.zeros((self.coordinates.size, self.coordinates.size))
        self._reach, self._refused = _LONGEST_STEP, 0

    def run(self, iterations: int, progress: Callable[[int, float], None] | None) -> str:
        """Search for so many rounds; returns how it ended, nothing if it has not."""
        ending = ""
        while not ending and len(self.trace) < iterations:
            present = with_covariances(self._problem, self._tried)
            expectation = expected(present, self._samples, self._sources, self._tried)
            density = expectation.density + self._log_prior()
            slope = self.coordinates.slope(self._tried, expectation.second)
            step = self._step
            if step is not None and self._refused < 2 and self.coordinates.steady:
                self._taken = learned(self._taken, step, slope)
            if step is not None and not density >= self.trace[-1]:
                ending = self._refuse(step)
                continue
            self.trace.append(density)
            self.best, self.note = self._tried, expectation.note
            if progress is not None:
                progress(len(self.trace), density)
            ending = self._advance(present, expectation, slope)
        return ending

    def _log_prior(self) -> float:
        return sum(source.log_prior(self._tried[source.name]) for source in self._sources)

    def _refuse(self, step: ScoringStep) -> str:
        """Try something shorter."""
        self._refused += 1
        if self._refused == 1:  # the step was too long, which its end has shown
            if not self.coordinates.steady:  # nothing is learned that would shorten it
                self._reach = min(self._reach, float(np.abs(step.u).max()))
            self._reach *= _SHORTER
            self._try(scored(step.slope, self._F, self._taken, self._reach))
        elif self._refused == 2:
            self._tried = self._em_step
        else:  # which rounding alone can bring about
            return _ROUNDED
        return ""

    def _advance(self, present: MapDynamics, expectation: Expectation, slope: Slope) -> str:
        """Take the covariances that were tried, and try the next step of scoring."""
        if not self._taken:
            self._F = information(present, self._samples, self.coordinates, self.best)
        if self._refused == 0:
            self._reach = min(2.0 * self._reach, _LONGEST_STEP)
        self._refused = 0
        step = scored(slope, self._F, self._taken, self._reach)
        if step.distance < self._tolerance:
            return _CONVERGED
        self._em_step = maximised(self._sources, expectation.second, self.best)
        self._try(step)
        return ""

    def _try(self, step: ScoringStep) -> None:
        self._step, self._tried = step, self.coordinates.moved(self.best, step.u)


def _unidentifiable(chosen: Sequence[NoiseSource], best: Mapping[str, Array], words: str) -> str:
    """Which covariances cannot be identified from the log, in words."""
    gone = [
        source.name
        for source in chosen
        if (np.diag(best[source.name]) < _VANISHED * np.diag(source.covariance)).any()
    ]
    if gone:
        words += (
            f" Variances of {', '.join(gone)} vanish, as if readings were exact: give a prior of "
            "some weight, or more samples."
        )
    return f" {words.strip()}" if words else ""
