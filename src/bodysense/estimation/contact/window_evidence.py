"""`WindowEvidence`: what all windows that end now say about a wrench on each link, one at a time.

In units of the prior, as `evidence` has it for logs: chi² for the test, log odds for which link it
is, the wrench itself, and the forces that a test would find.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from bodysense.compiled.views import Table
from bodysense.estimation._kernels.contact_windows import WindowScores, chi_squares
from bodysense.estimation.contact.detector import WINDOWS
from bodysense.estimation.contact.evidence import prior_root
from bodysense.spatial.arrays import Array

_POWER = 1.64  # standard deviations by which a detectable push exceeds the threshold: 95 %
_SIZES = 10.0 ** np.arange(0.0, -5.1, -1.0)
"""Variances of a contact's wrench in those of its prior: a strong push to 1/300 of it."""
_INCREDIBLE = 6.0  # standard deviations of its prior beyond which a force is not detectable


class WindowEvidence:
    """Of W windows of L links.

    Attributes:
        score: (W, L, 6) in units of the prior, to be filled in.
        information: (W, L, 6, 6) likewise.
        units: (L, 6, 6) that bring wrenches to units of their priors.
        square: (W, L) chi² after `test`.
        freedom: (W, L) its degrees of freedom.
    """

    def __init__(self, priors: Mapping[str, Array]) -> None:
        """Allocate; `priors` are covariances (6, 6) of the wrench by link."""
        W, L = len(WINDOWS), len(priors)
        self._root = np.stack([square_root(P) for P in priors.values()])
        self.units: Array = np.asarray(np.linalg.pinv(self._root), dtype=np.float64)
        scores = WindowScores(
            np.zeros((W * L, 6)),
            np.zeros((W * L, 6, 6)),
            np.zeros(W * L),
            np.zeros(W * L, dtype=np.int64),
            np.zeros((6, 6)),
            np.zeros(6),
        )
        self._table = Table(scores)
        self.score = scores.score.reshape(W, L, 6)
        self.information = scores.information.reshape(W, L, 6, 6)
        self.square: Array = scores.square.reshape(W, L)
        self.freedom: NDArray[np.int64] = scores.freedom.reshape(W, L)

    def in_units(self, score: Array, information: Array) -> tuple[Array, Array]:
        """Scores (…, L, 6) and information (…, L, 6, 6) about wrenches, in units of the prior."""
        R = self._root
        return np.matmul(score[..., None, :], R)[..., 0, :], R.swapaxes(1, 2) @ information @ R

    def test(self) -> None:
        """Compute chi² of what was filled in."""
        chi_squares(0, self.square.size, self._table.address)

    def log_odds(self, w: int, inflation: Array) -> Array:
        """(L,) as `Evidence.log_odds`, in the mean over sizes that a contact may have.

        With one size, that of the strongest push, a weak one would always be on a link that few
        joints feel: there are fewer wrenches there that it might have been and was not.
        """
        s = inflation[:, None]
        b, A = self.score[w] / s, self.information[w] / s[:, None]
        with_prior = _SIZES[:, None, None, None] * A + np.eye(6)
        scaled = _SIZES[:, None, None] * b
        x = np.linalg.solve(with_prior, scaled[..., None])[..., 0]
        odds = 0.5 * (b * x).sum(axis=-1) - 0.5 * np.linalg.slogdet(with_prior)[1]
        return np.asarray(np.logaddexp.reduce(odds, axis=0) - np.log(_SIZES.size))

    def wrench(self, w: int, k: int, inflation: float) -> tuple[Array, Array]:
        """Mean (6,) and covariance (6, 6) of the wrench on a link in a window."""
        R = self._root[k]
        C = np.linalg.inv(self.information[w, k] / inflation + np.eye(6))
        return R @ (C @ self.score[w, k]) / inflation, R @ C @ R.T

    def detectable(
        self, w: int, k: int, limit: float, hidden: float, direction: Array | None = None
    ) -> tuple[float, float]:
        """Forces that exceed a limit of chi² in 95 % of cases [N], infinite if none does.

        In the direction that shows best and in the worst one, or both in a given one (3,).
        `hidden` are standard deviations of signal that friction may have taken out.
        """
        if self.freedom[w, k] == 0 or not limit < np.inf:
            return np.inf, np.inf
        U = self.units[k][:, :3]
        J = U.T @ self.information[w, k] @ U
        if direction is None:
            most_and_least = np.linalg.eigvalsh(J)[[2, 0]]
        else:
            most_and_least = np.full(2, direction @ J @ direction)
        with np.errstate(divide="ignore"):
            forces = (np.sqrt(limit) + hidden) / np.sqrt(np.maximum(most_and_least, 0.0))
        credible = _INCREDIBLE * np.sqrt(np.square(self._root[k][:3]).sum(axis=1).max())
        best, worst = np.where(forces < credible, forces, np.inf)
        return float(best), float(worst)


def power_limit(limit: float, inflation: float) -> float:
    """What chi² of a push is without noise, if 95 % of them exceed a limit of chi² / inflation."""
    return float(inflation * (np.sqrt(limit) + _POWER) ** 2)


def square_root(covariance: Array) -> Array:
    """(6, 6) R with R Rᵀ = covariance; columns of exact axes are zero."""
    root = prior_root(covariance)
    return np.concatenate([root, np.zeros((6, 6 - root.shape[1]))], axis=1)
