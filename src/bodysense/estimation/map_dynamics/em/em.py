"""`estimate_covariances`: covariances of sensors and model from a log (paper 003, problem 3).

Expectation maximisation. Hidden are the noises of the sensors and the slacks of the equations;
each round takes their second moments given all readings at the present covariances. To make these
the covariances of the next round never makes the density of the readings smaller, but is slow.
The same samples are its slope: a round tries the step that this and Fisher's information suggest,
and takes that of EM where the density does not grow by it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from bodysense.errors import MismatchError, ShapeError, unknown_name
from bodysense.estimation.map_dynamics.em.expectation import SLACKS, expected, with_covariances
from bodysense.estimation.map_dynamics.em.information import (
    ScoringStep,
    covariance,
    in_words,
    information,
    learned,
    scored,
    vague_sources,
)
from bodysense.estimation.map_dynamics.em.result import CovarianceFit
from bodysense.estimation.map_dynamics.em.variances import (
    STRUCTURES,
    Coordinates,
    InverseWishart,
    NoiseSource,
    Structure,
    maximised,
)
from bodysense.estimation.map_dynamics.found import Samples
from bodysense.estimation.map_dynamics.subsampling import thinned
from bodysense.sensors.inertial_sensors import Orientation
from bodysense.sensors.wrench_sensors import ExternalWrench
from bodysense.spatial.arrays import Array

if TYPE_CHECKING:
    from bodysense.estimation.map_dynamics.estimator import MapDynamics


# Which covariances to estimate, each with its structure and its prior, by names and kinds.

_WRENCH_UNITS = ExternalWrench.units
_MOTION_UNITS = ("m/s²",) * 3 + ("rad/s²",) * 3


def chosen_sources(
    problem: MapDynamics,
    structure: Structure | Mapping[str, Structure],
    prior: InverseWishart | Mapping[str, InverseWishart] | None,
    sensors: Sequence[str] | None,
    wrenches: Sequence[str],
    slacks: Sequence[str],
) -> tuple[NoiseSource, ...]:
    """Everything whose covariance is to be estimated; for the arguments see `em`.

    What is exact, and orientations, which are no part of the problem, are left out.
    """
    by_name = {sensor.name: sensor for sensor in problem.sensors}
    wanted: list[tuple[str, str, Array, Sequence[str]]] = []
    for name in by_name if sensors is None else sensors:
        if name not in by_name:
            raise unknown_name("sensor", name, by_name)
        sensor = by_name[name]
        if sensor.kind != Orientation.kind:
            units = tuple(sensor.units[k % len(sensor.units)] for k in range(sensor.size))
            wanted.append((name, sensor.kind, sensor.covariance, units))
    priors, links = problem.assumptions, problem.tree
    for link in wrenches:
        if link not in [links.names[i] for i in links.with_unknowns]:
            raise unknown_name("link with an external wrench", link, links.names)
        wrench = priors.wrenches.get(link, priors.wrench)
        wanted.append((f"prior.fx.{link}", "fx", wrench.covariance, _WRENCH_UNITS))
    for slack in slacks:
        if slack not in SLACKS:
            raise unknown_name("slack", slack, SLACKS)
        name = f"slack.{slack}"
        Sigma = getattr(priors, f"{slack}_slack").covariance
        units = {"wrench": _WRENCH_UNITS, "torque": ("N·m",)}.get(slack, _MOTION_UNITS)
        wanted.append((name, name, Sigma, units))
    names = [name for name, *_ in wanted]
    for name in names:
        if names.count(name) > 1:
            raise MismatchError(f"{name!r} is asked for twice, or a sensor has that name: rename.")
    return tuple(
        NoiseSource.of(
            name,
            kind,
            Sigma,
            units,
            _structure(structure, name, kind),
            _prior(prior, name, kind),
        )
        for name, kind, Sigma, units in wanted
        if Sigma.any()
    )


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


_FARTHEST = 2.0
"""Most change of the logarithm of a variance in a step of scoring."""

_AT_REST = "The covariances came to rest."
_NOTHING = "There was nothing to estimate: all covariances asked for are zero."
_INTERRUPTED = (
    "Interrupted: the covariances are those of the last round, start from these to go on."
)
_NOT_YET = (
    "The covariances had not come to rest after {} rounds: raise iterations, or start from these."
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
        structure: of the covariances: "type" (one factor for all sensors of a kind, one a unit),
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
    if most_samples < 1 or iterations < 1 or not tolerance > 0.0:
        raise ShapeError("most_samples, iterations and tolerance must be positive.")
    if samples.size == 0:
        raise ShapeError("there are no samples to estimate covariances from: give some.")
    samples = thinned(problem, samples, most_samples)
    chosen = chosen_sources(problem, structure, prior, sensors, wrenches, slacks)
    coordinates = Coordinates.of(chosen)
    best = {source.name: source.covariance for source in chosen}
    trace: list[float] = []
    note = ""
    ending = _NOT_YET.format(iterations) if chosen else _NOTHING
    tried = safe = best
    step: ScoringStep | None = None
    taken: tuple[tuple[Array, Array], ...] = ()
    F = np.zeros((coordinates.size, coordinates.size))
    reach, refused = _FARTHEST, 0
    try:
        while chosen and len(trace) < iterations:
            present = with_covariances(problem, tried)
            second, density, noted = expected(present, samples, chosen, tried)
            density += sum(source.log_prior(tried[source.name]) for source in chosen)
            slope = coordinates.slope(tried, second)
            if step is not None and refused < 2 and coordinates.steady:
                taken = learned(taken, step, slope)
            if step is not None and not density >= trace[-1]:
                refused += 1
                if refused == 1:  # the step was too long, which its end has shown
                    if not coordinates.steady:  # nothing is learned that would shorten it
                        reach = min(reach, float(np.abs(step.u).max()))
                    reach *= 0.25
                    step = scored(step.slope, F, taken, reach)
                    tried = coordinates.moved(best, step.u)
                elif refused == 2:
                    tried = safe
                else:  # which rounding alone can bring about
                    ending = _ROUNDED
                    break
                continue
            trace.append(density)
            best, note = tried, noted
            if progress is not None:
                progress(len(trace), density)
            if not taken:
                F = information(present, samples, coordinates, best)
            reach, refused = (min(2.0 * reach, _FARTHEST) if refused == 0 else reach), 0
            step = scored(slope, F, taken, reach)
            if step.distance < tolerance:
                ending = _AT_REST
                break
            safe = maximised(chosen, second, best)
            tried = coordinates.moved(best, step.u)
        result = with_covariances(problem, best)
        F = information(result, samples, coordinates, best)
    except KeyboardInterrupt:
        ending = _INTERRUPTED
        result, F = with_covariances(problem, best), np.zeros_like(F)
    C = covariance(F, coordinates.believed(best))
    message = ending
    if ending != _INTERRUPTED:
        message += _left_alone(chosen, best, in_words(vague_sources(F, C, coordinates)))
    message += f" {note}" if note else ""
    return CovarianceFit(
        problem=result,
        covariances=best,
        deviations=coordinates.deviations(best, C),
        trace=np.array(trace),
        samples=samples.size,
        converged=ending in (_AT_REST, _NOTHING),
        message=message,
    )


def _left_alone(chosen: Sequence[NoiseSource], best: Mapping[str, Array], words: str) -> str:
    """What the log cannot tell, in words."""
    gone = [
        source.name
        for source in chosen
        if (np.diag(best[source.name]) < 1e-10 * np.diag(source.covariance)).any()
    ]
    if gone:
        words += (
            f" Variances of {', '.join(gone)} vanish, as if readings were exact: give a prior of "
            "some weight, or more samples."
        )
    return f" {words.strip()}" if words else ""
