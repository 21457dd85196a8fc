"""`Evidence`: what readings say about the external wrench on each of some links.

With a wrench w on one link, readings are y = y0 + H w + noise, noise ~ N(0, S). All that they say
about w is in the score and the information,

    eta = Hᵀ S⁻¹ (y - y0),     J = Hᵀ S⁻¹ H,     without contact: eta ~ N(0, J).

Every estimator of external wrenches has them: one with the prior w ~ N(0, P), P = R Rᵀ, whose
posterior is N(m, C), by eta = C⁻¹ m and J = C⁻¹ - P⁻¹. Means over time of scores have the
covariance of a score whose noise is that of means.

In units of the prior, b = Rᵀ eta ~ N(0, A) with A = Rᵀ J R. Along the axes of A whose information
is at least that of the prior, z = b / √λ is unit normal, and

    chi² = Σ z²,     surprise = -log P(a larger chi² without contact).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincc, gammaln

from bodysense.spatial.arrays import Array

_INFORMED = 1.0  # information along an axis, in units of the prior's, from which it counts
_SINGULAR = 1e-12  # of the largest variance of a prior: below it an axis is exact


@dataclass(frozen=True, eq=False)
class Evidence:
    """Of some links at T samples.

    Attributes:
        t: (T,) times [s].
        root: by link, (6, k) R of the prior's covariance R Rᵀ of its wrench; k axes are open.
        score: by link, (T, k) b in units of the prior.
        information: by link, (T, k, k) A.
    """

    t: Array
    root: Mapping[str, Array]
    score: Mapping[str, Array]
    information: Mapping[str, Array]

    @classmethod
    def from_posteriors(
        cls,
        t: Array,
        prior: Mapping[str, Array],
        mean: Mapping[str, Array],
        covariance: Mapping[str, Array],
        *,
        share: float = 1.0,
    ) -> Evidence:
        """From posteriors of estimates whose prior covariances are `share` of those (6, 6) given.

        A small share leaves the other links free of contact: it is each link's own evidence.
        """
        root = {link: prior_root(P) for link, P in prior.items()}
        score, information = {}, {}
        for link, R in root.items():
            inverse = np.linalg.pinv(R) if R.size else R.T
            m = mean[link] @ inverse.T / share
            C = inverse @ covariance[link] @ inverse.T / share
            G = np.linalg.inv(C)
            score[link] = np.einsum("tij,tj->ti", G, m)
            information[link] = (G - np.eye(R.shape[1])) / share
        return cls(t, root, score, information)

    @property
    def links(self) -> tuple[str, ...]:
        return tuple(self.root)

    def of(self, *links: str) -> Evidence:
        """Of some of the links."""
        parts = ({link: of[link] for link in links} for of in (self.root, self.score))
        root, score = parts
        return Evidence(self.t, root, score, {link: self.information[link] for link in links})

    def part(self, which: slice | NDArray[np.int64]) -> Evidence:
        """At some of the samples."""
        score = {link: b[which] for link, b in self.score.items()}
        information = {link: A[which] for link, A in self.information.items()}
        return replace(self, t=self.t[which], score=score, information=information)

    def averaged(self, starts: NDArray[np.int64], window: int) -> Evidence:
        """Means over the last `window` samples, fewer where a piece begins; see `starts`."""
        score = {k: trailing_mean(x, starts, window) for k, x in self.score.items()}
        information = {k: trailing_mean(x, starts, window) for k, x in self.information.items()}
        return replace(self, score=score, information=information)

    def scaled(self, n: float) -> Evidence:
        """Evidence of `n` samples whose mean this is, if their noise is independent."""
        score = {link: n * b for link, b in self.score.items()}
        information = {link: n * A for link, A in self.information.items()}
        return replace(self, score=score, information=information)

    def surprise(self, link: str, inflation: float = 1.0) -> Array:
        """(T,) surprise, if the variance of scores is so many times as large as it is said."""
        square, freedom = self.chi_square(link)
        return surprise(square / inflation, freedom)

    def chi_square(self, link: str) -> tuple[Array, Array]:
        """(T,) chi² and its degrees of freedom."""
        values, axes = np.linalg.eigh(self.information[link])
        counts = values > _INFORMED
        b = np.einsum("tij,ti->tj", axes, self.score[link])
        square = np.where(counts, b**2 / np.maximum(values, _INFORMED), 0.0).sum(axis=1)
        return square, counts.sum(axis=1).astype(np.float64)

    def log_odds(self, link: str, inflation: float = 1.0) -> Array:
        """(T,) log of how much more likely the readings are with a wrench of the prior's size.

        log N(b; 0, A + A²) - log N(b; 0, A) = ½ bᵀ (1 + A)⁻¹ b - ½ log det(1 + A)
        """
        A, b = self.information[link] / inflation, self.score[link] / inflation
        with_prior = A + np.eye(A.shape[1])
        square = np.einsum("ti,ti->t", b, np.linalg.solve(with_prior, b[:, :, None])[:, :, 0])
        odds: Array = 0.5 * square - 0.5 * np.linalg.slogdet(with_prior)[1]
        return odds

    def wrench(self, link: str) -> tuple[Array, Array]:
        """(T, 6) means and (T, 6, 6) covariances of the wrench, if this link alone is touched."""
        R, A = self.root[link], self.information[link]
        C = np.linalg.inv(A + np.eye(A.shape[1]))
        mean = np.einsum("ij,tj->ti", R, np.einsum("tij,tj->ti", C, self.score[link]))
        return mean, R @ C @ R.T

    def force_information(self, link: str) -> Array:
        """(T, 3, 3) information about a force at the link's origin."""
        inverse = np.linalg.pinv(self.root[link])[:, :3]
        information: Array = inverse.T @ self.information[link] @ inverse
        return information


def prior_root(covariance: Array) -> Array:
    """(6, k) R with R Rᵀ = covariance, of the axes that are not exact."""
    values, vectors = np.linalg.eigh(covariance)
    some = values > _SINGULAR * values.max(initial=0.0)
    root: Array = vectors[:, some] * np.sqrt(values[some])
    return root


def surprise(square: Array, freedom: Array) -> Array:
    """(T,) -log P(chi² > square) with so many degrees of freedom; 0 where there are none."""
    half, x = 0.5 * np.maximum(freedom, 1.0), 0.5 * np.asarray(square)
    share = gammaincc(half, x)
    with np.errstate(divide="ignore", invalid="ignore"):
        # far out Γ(a, x) = x^(a-1) e^-x (1 + (a-1)/x + …): the share itself is zero in numbers
        far = x - (half - 1.0) * np.log(x) + gammaln(half) - np.log1p((half - 1.0) / x)
        near = -np.log(share)
    result: Array = np.where(share > 1e-280, near, far)
    return np.where(freedom > 0.0, result, 0.0)


def trailing_mean(x: Array, starts: NDArray[np.int64], window: int) -> Array:
    """Means over the last `window` of rows (T, …), not across pieces that begin at `starts`."""
    if window == 1:
        return x
    result = np.empty_like(x)
    ends = [*starts[1:], len(x)]
    for first, last in zip(starts, ends, strict=True):
        part = np.concatenate([np.zeros((1, *x.shape[1:])), np.cumsum(x[first:last], axis=0)])
        n = np.minimum(np.arange(1, last - first + 1), window)
        total = part[1:] - part[np.arange(1, last - first + 1) - n]
        result[first:last] = total / n.reshape(-1, *[1] * (x.ndim - 1))
    return result
