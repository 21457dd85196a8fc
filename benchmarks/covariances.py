"""Covariances from a log of an iCub, held against those that made it.

How far the fitted variances are from the true ones, where the log tells them and for one factor a
kind, and how often their 95 % intervals hold the truth: in parts of the log, each fitted alone.
"""

from __future__ import annotations

from time import perf_counter

import numpy as np

from benchmarks.covariance_subject import (
    RATE,
    Subject,
    covariance_subject,
    wrong_by_factors,
    wrong_by_kind,
)
from benchmarks.result import Result
from bodysense.estimation import CovarianceFit, MapDynamics, estimate_covariances
from bodysense.estimation.map_dynamics.em.em import WELL
from bodysense.spatial import Array

ERROR = 0.2  # of a variance
MINUTES = 600.0  # s, for a log of two
LEVEL = 0.95


def run(
    repeat: int, *, samples: int = 12_000, parts: int = 6, within: float = 0.03
) -> tuple[Result, ...]:
    """Fit one long log by axis and by kind, and its parts by axis."""
    rng = np.random.default_rng(1)
    subject = covariance_subject(samples)
    problem, log = subject
    begin = perf_counter()
    fit = estimate_covariances(wrong_by_factors(problem, rng), log)
    seconds = perf_counter() - begin
    ratio, relative = _ratios(problem, fit), _relative(fit)
    well = relative <= WELL
    kind = estimate_covariances(wrong_by_kind(problem, rng), log, structure="type")
    of_kind = _ratios(problem, kind)
    held, z = _held(subject, parts, rng)
    what = f"iCub, {problem.layout.size} variances from {samples / RATE:g} s"
    return (
        Result.judged(
            "covariances",
            f"{what}: largest error of those told to {WELL:.0%}",
            unit="of the variance",
            ours=float(np.abs(ratio - 1.0)[well].max(initial=1e-9)),
            ours_below=ERROR,
            notes=(
                f"{well.sum()} of them; the others, known to {relative[~well].min(initial=9):.0%} "
                f"at best, are {ratio[~well].min(initial=9):.2g} to "
                f"{ratio[~well].max(initial=0):.2g} times the truth"
            ),
        ),
        Result.judged(
            "covariances",
            f"{what}: largest error, one factor a kind and unit",
            unit="of the variance",
            ours=float(np.abs(of_kind - 1.0).max()),
            ours_below=ERROR,
            notes=f"{kind.trace.size} rounds; known to {_relative(kind).max():.1%} at worst",
        ),
        Result.judged(
            "covariances",
            f"iCub, intervals of the variances that hold the truth, of {LEVEL:.0%}",
            unit="of all",
            ours=float(held.mean()),
            agreement=abs(float(held.mean()) - LEVEL),
            agreement_within=within,
            notes=(
                f"{held.size} intervals from {parts} parts of the log; of those not told to "
                f"{WELL:.0%}, {held[z > WELL].mean() if (z > WELL).any() else 1.0:.1%}"
            ),
        ),
        Result.judged(
            "covariances",
            f"{what}: time by axis",
            unit="s",
            ours=seconds,
            ours_below=MINUTES,
            notes=f"{fit.trace.size} rounds; converged: {fit.converged and kind.converged}",
        ),
    )


def _ratios(problem: MapDynamics, fit: CovarianceFit) -> Array:
    """Fitted over true variances."""
    found = [np.diag(fit.covariances[s.name]) / np.diag(s.covariance) for s in problem.sensors]
    return np.concatenate(found)


def _relative(fit: CovarianceFit) -> Array:
    return np.concatenate([fit.relative(name) for name in fit.covariances])


def _held(subject: Subject, parts: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Whether intervals hold the truth, and the relative standard deviation of each variance."""
    problem, log = subject
    held, relative = [], []
    ends = np.linspace(0, log.size, parts + 1).astype(int)
    for k in range(parts):
        part = log.part(slice(int(ends[k]), int(ends[k + 1])))
        fit = estimate_covariances(wrong_by_factors(problem, rng), part)
        relative.append(_relative(fit))
        for sensor in problem.sensors:
            sigma, between = np.sqrt(np.diag(sensor.covariance)), fit.interval(sensor.name, LEVEL)
            held.append((between[:, 0] <= sigma) & (sigma <= between[:, 1]))
    return np.concatenate(held).astype(np.float64), np.concatenate(relative)
