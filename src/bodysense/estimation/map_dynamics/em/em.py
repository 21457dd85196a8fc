"""`estimate_covariances`: covariances of sensors and model from a log (paper 003, problem 3).

Expectation maximisation. Hidden are the noises of the sensors and the slacks of the equations;
each round takes their second moments given all readings at the present covariances. To make these
the covariances of the next round never makes the density of the readings smaller, but is slow.
The same samples are its slope: a round tries the step that this and Fisher's information suggest,
and takes that of EM where the density does not grow by it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike

import numpy as np
from scipy.special import ndtri

from bodysense.errors import FileReadError, ShapeError
from bodysense.estimation.map_dynamics.em.information import (
    Expectation,
    ScoringStep,
    describe_unidentified,
    expected,
    information,
    inverse_information,
    learned,
    maximised,
    scored,
    with_covariances,
)
from bodysense.estimation.map_dynamics.em.variances import (
    Coordinates,
    InverseWishart,
    NoiseSource,
    Slope,
    Structure,
    chosen_sources,
)
from bodysense.estimation.map_dynamics.estimator import MapDynamics
from bodysense.estimation.map_dynamics.noise import thinned
from bodysense.estimation.map_dynamics.priors import Assumptions
from bodysense.estimation.map_dynamics.solution import Samples
from bodysense.files import load_result, save_result
from bodysense.sensors.sensor import Sensor
from bodysense.spatial.arrays import Array

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
    chosen = chosen_sources(problem, structure, prior, sensors, wrenches, slacks)
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


WELL, ROUGHLY = 0.07, 0.35
"""Relative standard deviations of a variance up to which it is called so."""


@dataclass(frozen=True, eq=False, repr=False)
class CovarianceFit:
    """The result of `estimate_covariances`.

    Attributes:
        problem: the estimator with the covariances that were found.
        covariances: (m, m) by source: names of sensors, ``prior.fx.<link>``,
            ``slack.acceleration``, ``slack.wrench``, ``slack.torque``.
        deviations: (m,) by source, standard deviations of the variances: what the readings leave
            open (Cramér and Rao's bound, with the prior), and the most likely value with them.
        trace: (k,) log posterior density of the covariances that were tried and taken, one after
            the other: log density of all readings, further priors and balances, and the prior;
            it never decreases.
        samples: how many were used.
        converged: whether the covariances converged.
        message: how it ended, what is not identifiable, and what to do about it.
    """

    problem: MapDynamics
    covariances: Mapping[str, Array]
    deviations: Mapping[str, Array]
    trace: Array
    samples: int
    converged: bool
    message: str

    def __repr__(self) -> str:
        return f"<CovarianceFit: {self.summary()}>"

    @property
    def sensors(self) -> tuple[Sensor, ...]:
        return self.problem.sensors

    @property
    def assumptions(self) -> Assumptions:
        return self.problem.assumptions

    def sigma(self, name: str) -> Array:
        """(m,) standard deviations of a source."""
        deviations: Array = np.sqrt(np.diag(self.covariances[name]))
        return deviations

    def relative(self, name: str) -> Array:
        """(m,) standard deviations of the variances of a source over these; of exact ones zero."""
        v = np.diag(self.covariances[name])
        share: Array = np.divide(self.deviations[name], v, out=np.zeros_like(v), where=v > 0.0)
        return share

    def interval(self, name: str, level: float = 0.95) -> Array:
        """(m, 2) between which standard deviations those of a source are, at this level.

        From v ± z s of the variance, which may be as small as zero.
        """
        if not 0.0 < level < 1.0:
            raise ShapeError(f"level is {level:g}: give a share between 0 and 1, e.g. 0.95.")
        half = float(ndtri(0.5 + 0.5 * level)) * self.deviations[name]
        v = np.diag(self.covariances[name])
        ends: Array = np.sqrt(np.maximum(np.stack([v - half, v + half], axis=1), 0.0))
        return ends

    def identified(self, name: str) -> tuple[str, ...]:
        """(m,) how well the variance of each component is identified: "well", "roughly", "not".

        Well is a relative standard deviation of 7 %, so that 20 % are three of them; roughly is
        one of 35 %.
        """
        return tuple(
            "well" if share <= WELL else "roughly" if share <= ROUGHLY else "not"
            for share in self.relative(name)
        )

    def summary(self) -> str:
        """What was found, in a line."""
        return (
            f"{len(self.covariances)} covariances from {self.samples} samples in "
            f"{self.trace.size} steps{self._identified_words()}. {self.message}"
        )

    def _identified_words(self) -> str:
        """How many variances are identified, in words."""
        words = [word for name in self.covariances for word in self.identified(name)]
        if not words:
            return ""
        return (
            f"; of {len(words)} variances {words.count('well')} are known to {WELL:.0%} or better, "
            f"{words.count('roughly')} to {ROUGHLY:.0%}"
        )

    def save(self, folder: str | PathLike[str]) -> None:
        """Write ``covariances.npz`` and ``covariances.json`` into a folder."""
        save_result(self, folder, "covariances", without=("problem",))

    @classmethod
    def load(cls, folder: str | PathLike[str], problem: MapDynamics) -> CovarianceFit:
        """Read what `save` wrote, for the estimator that the covariances belong to.

        Raises:
            FileReadError: the files are damaged, or belong to other sensors.
        """
        fit = load_result(cls, folder, "covariances", problem=lambda stored: problem)
        sizes = {sensor.name: sensor.size for sensor in problem.sensors}
        sizes |= {f"prior.fx.{link}": 6 for link in problem.tree.names}
        sizes |= {"slack.acceleration": 6, "slack.wrench": 6, "slack.torque": 1}
        for name, Sigma in fit.covariances.items():
            if name not in sizes or Sigma.shape != (sizes[name], sizes[name]):
                raise FileReadError(
                    f"covariances.json in {folder} has a covariance {Sigma.shape} of {name!r}, "
                    "which this robot's sensors and priors have not: load it with the sensors "
                    "that it was estimated for."
                )
        return replace(fit, problem=with_covariances(problem, fit.covariances))
