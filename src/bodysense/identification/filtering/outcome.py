"""What a filter came to, and whether that can be used."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bodysense.identification.identification import Status
from bodysense.identification.prior import Prior
from bodysense.identification.regression import Regression
from bodysense.spatial.arrays import Array

_WORSE = 1.1
"""Times the prior's torque error from which on a filter has gone astray."""

SURPRISED = 25.0
"""Mean square of innovations, in variances, from which on something is wrong."""


@dataclass(frozen=True, eq=False)
class FilterOutcome:
    """Scaled parameters p after all samples, theta_base = prior + size p.

    Attributes:
        mean: (b,) of p.
        root: (b, b) lower-triangular root of its covariance.
        path: (n_t, b) means of p after each sample, NaN from where the filter ended.
        innovations: (n_t, n) measurements less their prediction, NaN where there are none.
        nis: (n_t,) normalised innovations squared.
        status: how it ended.
    """

    mean: Array
    root: Array
    path: Array
    innovations: Array
    nis: Array
    status: Status

    @property
    def surprise(self) -> float:
        """Mean square of innovations in variances: one, if noise and model are as told."""
        n = self.innovations.shape[1]
        seen = self.nis[np.isfinite(self.nis)]
        return float(seen.mean()) / n if seen.size else 0.0


def judged(
    outcome: FilterOutcome, problem: Regression, prior: Prior, start: Array
) -> FilterOutcome:
    """The outcome with a status that tells whether it can be used; the prior's where it cannot.

    Args:
        outcome: as the filter ended.
        problem: whose torques the parameters must explain no worse than the prior.
        prior: what was known before.
        start: (b, b) root of the covariance that the filter started from.
    """
    before = torque_error(problem, prior.theta_base)
    after = np.inf
    if np.isfinite(outcome.mean).all() and np.isfinite(outcome.root).all():
        after = torque_error(problem, prior.theta_base + prior.size_base * outcome.mean)
    most = _WORSE * before if outcome.status.ok else before
    if after > most or not np.isfinite(after):
        reason = outcome.status.message if not outcome.status.ok else "The filter diverged."
        return replace(
            outcome,
            mean=np.zeros_like(outcome.mean),
            root=start,
            status=Status(
                False,
                f"{reason} What it found explains the torques worse than the prior, which is kept: "
                "check signs and units of the torques, start closer to the truth, or use wls.",
            ),
        )
    if not outcome.status.ok:
        return outcome
    if outcome.surprise > SURPRISED:
        return replace(
            outcome,
            status=Status(
                True,
                f"Positions were missed by {np.sqrt(outcome.surprise):.0f} times what the noise "
                "explains: the model lacks something, such as friction at standstill. Intervals "
                "are widened accordingly; a higher rate or more substeps may help.",
            ),
        )
    said = f"All samples were filtered. {outcome.status.message}".strip()
    return replace(outcome, status=Status(True, said))


def torque_error(problem: Regression, theta_base: Array) -> float:
    """Root mean square over the joints of the torque's relative error."""
    squares, rows = problem.squares(theta_base)
    size = np.where(problem.torque_size > 0.0, problem.torque_size, 1.0)
    share = squares.sum(axis=0) / np.maximum(rows.sum(axis=0), 1.0) / size**2
    return float(np.sqrt(share.mean()))


def sentence(message: str) -> str:
    """What a filter says of its end, as a sentence."""
    if message.startswith("stopped"):
        return f"The filter {message}"
    return message[:1].upper() + message[1:]
