"""`estimate_covariances`: covariances of sensors and model from a log (paper 003, problem 3).

Expectation maximisation. Hidden are the noises of the sensors and the slacks of the equations;
each round takes their second moments given all readings at the present covariances, and makes
these the covariances of the next round. The density of the readings grows with every round, up to
a maximum of it. Between rounds it leaps ahead where that makes the density larger still.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from bodysense.errors import ShapeError
from bodysense.estimation.map_dynamics.em.choice import chosen_sources
from bodysense.estimation.map_dynamics.em.expectation import expected, with_covariances
from bodysense.estimation.map_dynamics.em.identifiability import in_words, vague_sources
from bodysense.estimation.map_dynamics.em.leap import leap, way_to_go
from bodysense.estimation.map_dynamics.em.result import CovarianceFit
from bodysense.estimation.map_dynamics.em.sources import (
    InverseWishart,
    Source,
    Structure,
    maximised,
)
from bodysense.estimation.map_dynamics.found import Moments
from bodysense.spatial.arrays import Array

if TYPE_CHECKING:
    from bodysense.estimation.map_dynamics.estimator import MapDynamics

_NO_GAIN = 1e-2
"""Of the log density in a round, all moments together: what is left is far below what any change
of a covariance by its own uncertainty makes, about one half."""

_AT_REST = "The covariances came to rest."
_NOTHING = "There was nothing to estimate: all covariances asked for are zero."
_INTERRUPTED = (
    "Interrupted: the covariances are those of the last round, start from these to go on."
)
_NOT_YET = (
    "The covariances had not come to rest after {} rounds: raise iterations, or start from these."
)
_ROUNDED = (
    "It ended where rounding hides what a round brings: narrow beliefs that are wider than 1e4, "
    "or whose standard deviations are millions of times those of the sensors."
)


def estimate_covariances(
    problem: MapDynamics,
    moments: Moments,
    *,
    structure: Structure | Mapping[str, Structure] = "axis",
    prior: InverseWishart | Mapping[str, InverseWishart] | None = None,
    sensors: Sequence[str] | None = None,
    wrenches: Sequence[str] = (),
    slacks: Sequence[str] = (),
    most_moments: int = 2000,
    tolerance: float = 5e-3,
    iterations: int = 200,
    progress: Callable[[int, float], None] | None = None,
) -> CovarianceFit:
    """Estimate covariances from a log.

    Covariances that are zero, of exact readings and sharp equations, stay zero.

    Args:
        problem: the estimator; its covariances are the start.
        moments: of `problem.moments`; a Ctrl-C returns the covariances found so far.
        structure: of the covariances: "type" (one factor for all sensors of a kind, one a unit),
            "axis" (independent components) or "full"; one for all, or by the name of a source or
            its kind, "axis" for the others.
        prior: one for all, or by the name or the kind of a source; by default worth one moment at
            the start.
        sensors: names of those to estimate; by default all.
        wrenches: links whose belief about the external wrench is estimated too.
        slacks: of the equations, "acceleration", "wrench", "torque", each one for all bodies.
        most_moments: a longer log is thinned out evenly to this many.
        tolerance: it ends when no standard deviation seems to be farther from rest, relatively,
            and the density does not grow any more.
        iterations: most rounds.
        progress: called with the round and the log density after each.

    Raises:
        UnknownNameError: a sensor, link, slack or structure that does not exist.
        ShapeError: no moments, or settings that make no sense.
    """
    if most_moments < 1 or iterations < 1 or not tolerance > 0.0:
        raise ShapeError("most_moments, iterations and tolerance must be positive.")
    if moments.size == 0:
        raise ShapeError("there are no moments to estimate covariances from: give some.")
    every = -(-moments.size // most_moments)
    moments = moments.part(slice(None, None, every))
    chosen = chosen_sources(problem, structure, prior, sensors, wrenches, slacks)
    best = {source.name: source.covariance for source in chosen}
    trace: list[float] = []
    steps: list[dict[str, Array]] = []
    tried = best
    ending, leapt = _NOT_YET.format(iterations) if chosen else _NOTHING, False
    try:
        while chosen and len(trace) < iterations:
            second, density = expected(with_covariances(problem, tried), moments, chosen)
            density += sum(source.log_prior(tried[source.name]) for source in chosen)
            if leapt and not density >= trace[-1]:  # back to where EM itself had come
                tried, leapt, steps = steps[-1], False, []
                continue
            if trace and not density >= trace[-1]:  # which rounding alone can bring about
                ending = _AT_REST if way_to_go(steps[-3:]) < tolerance else _ROUNDED
                break
            trace.append(density)
            best = tried
            if progress is not None:
                progress(len(trace), density)
            new = maximised(chosen, second, best)
            steps = [best, new] if not steps or leapt else [*steps, new]
            gain = trace[-1] - trace[-2] if len(trace) > 1 else np.inf
            if way_to_go(steps[-3:]) < tolerance and gain < _NO_GAIN:
                best, ending = new, _AT_REST
                break
            ahead = leap(steps[-3:]) if len(steps) >= 3 else None
            tried, leapt = (new, False) if ahead is None else (ahead, True)
    except KeyboardInterrupt:
        ending = _INTERRUPTED
    untold = chosen and ending != _INTERRUPTED
    message = ending + (_left_alone(chosen, best, problem, moments) if untold else "")
    return CovarianceFit(
        problem=with_covariances(problem, best),
        covariances=best,
        trace=np.array(trace),
        moments=moments.size,
        converged=ending in (_AT_REST, _NOTHING),
        message=message,
    )


def _left_alone(
    chosen: Sequence[Source],
    best: Mapping[str, Array],
    problem: MapDynamics,
    moments: Moments,
) -> str:
    """What the log cannot tell, in words."""
    words = in_words(vague_sources(with_covariances(problem, best), moments, chosen))
    gone = [
        source.name
        for source in chosen
        if (np.diag(best[source.name]) < 1e-10 * np.diag(source.covariance)).any()
    ]
    if gone:
        words += (
            f" Variances of {', '.join(gone)} vanish, as if readings were exact: give a prior of "
            "some weight, or more moments."
        )
    return f" {words.strip()}" if words else ""
