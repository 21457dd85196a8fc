"""Evidence of white noise, and of pushes in it, as an estimator of a still robot would have it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from bodysense.estimation.contact.detector import WINDOWS, Scales
from bodysense.estimation.contact.evidence import Evidence
from bodysense.spatial.arrays import Array

PERIOD = 0.025  # s between samples
PRIOR = np.diag([50.0, 50.0, 50.0, 5.0, 5.0, 5.0]) ** 2


def readings(H: Array, T: int, rng: np.random.Generator, scale: float = 1.0) -> Array:
    """(T, m) noise of standard deviation `scale`, for effects (m, 6) of a wrench."""
    return scale * rng.standard_normal((T, len(H)))


def scales_of(
    effects: Mapping[str, Array],
    y: Array,
    starts: tuple[int, ...] = (0,),
    prior: Array = PRIOR,
) -> Scales:
    """Evidence of readings y = H w + unit noise by link, for all windows of the detector."""
    T, pieces = len(y), np.array(starts)
    root = np.linalg.cholesky(prior) if np.linalg.matrix_rank(prior) == 6 else prior_columns(prior)
    roots = dict.fromkeys(effects, root)
    score = {link: y @ H @ root for link, H in effects.items()}
    A = {link: root.T @ H.T @ H @ root for link, H in effects.items()}
    information = {link: np.broadcast_to(a, (T, *a.shape)) for link, a in A.items()}
    one = Evidence(PERIOD * np.arange(T), roots, score, information)
    evidence = {w: one.averaged(pieces, w).scaled(w) for w in (1, *WINDOWS)}
    return Scales(evidence, pieces, PERIOD)


def prior_columns(prior: Array) -> Array:
    """(6, k) root of a diagonal prior of lower rank."""
    sigma = np.sqrt(np.diag(prior))
    return np.diag(sigma)[:, sigma > 0.0]
