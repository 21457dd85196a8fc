"""`MarginalContacts`: contacts from the estimates of a log themselves, beside all other links."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from bodysense.estimation.contact.detector import (
    WINDOWS,
    DetectionSettings,
    Scales,
    detect_contacts,
)
from bodysense.estimation.contact.evidence import Evidence
from bodysense.estimation.map_dynamics.log.contacts import LogContacts, collected_contacts
from bodysense.estimation.map_dynamics.log.recording import Recording
from bodysense.estimation.map_dynamics.priors import GaussianPrior
from bodysense.spatial.arrays import Array

_PERIOD = 0.025  # s: between samples at which estimates of the state are looked at


class MarginalContacts:
    """Contacts from posteriors of a whole log, chunk by chunk, where the state is estimated too.

    Evidence of a link is that beside all others, whose wrenches keep their priors.
    """

    def __init__(
        self,
        recording: Recording,
        priors: Mapping[str, GaussianPrior],
        settings: DetectionSettings,
    ) -> None:
        t = recording.t
        rate = 1.0 / float(np.median(np.diff(t))) if t.size > 1 else 1.0
        self._step = max(1, round(rate * _PERIOD))
        ends = [*recording.starts[1:], t.size]
        parts = [np.arange(a, b, self._step) for a, b in zip(recording.starts, ends, strict=True)]
        self._rows = np.concatenate(parts)
        self._starts = np.cumsum([0, *(part.size for part in parts[:-1])])
        self._t, self._priors, self._settings = t, priors, settings
        self._period = self._step / rate
        self._parts: dict[str, list[tuple[Array, Array]]] = {link: [] for link in priors}

    def add(self, first: int, link: str, mean: Array, covariance: Array) -> None:
        """Take means (T, 6), less those of the prior, and covariances (T, 6, 6) of a chunk."""
        here = self._rows[(self._rows >= first) & (self._rows < first + len(mean))] - first
        self._parts[link].append((mean[here].copy(), covariance[here].copy()))

    def found(self) -> LogContacts:
        """Contacts in all chunks so far."""
        known = {link: parts for link, parts in self._parts.items() if parts}
        if not known:
            return LogContacts((), (), None, None, {}, {})
        joined = {
            link: [np.concatenate(x) for x in zip(*parts, strict=True)]
            for link, parts in known.items()
        }
        size = len(next(iter(joined.values()))[0])
        rows, starts = self._rows[:size], self._starts[self._starts < max(size, 1)]
        one = Evidence.from_posteriors(
            self._t[rows],
            {link: self._priors[link].covariance for link in known},
            {link: mean for link, (mean, _) in joined.items()},
            {link: C for link, (_, C) in joined.items()},
        )
        windows = [1, *(w for w in WINDOWS if w * 4 <= size)]
        scales = Scales(
            {w: one.averaged(starts, w).scaled(w) for w in windows}, starts, self._period
        )
        links = tuple(known)
        detection = detect_contacts(scales, self._settings)
        return collected_contacts(
            {links: detection}, {links: scales}, {k: p.mean for k, p in self._priors.items()}
        )
