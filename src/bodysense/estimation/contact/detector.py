"""`detect_contacts`: when and where it is a contact, at a stated rate of false alarms.

A contact lasts, noise does not. Scores are averaged over windows that double from one sample to
about a second, and each mean is tested for a wrench (a generalised likelihood ratio test over all
beginnings in powers of two). An alarm is a surprise above

    s = log(c N / (rate Δ)),    rate: false alarms per second, Δ: time between samples, N links,

where c allows for the windows, which are tests of their own (see `_TESTS`).

Whether scores vary as much as they are said to is seen in the log itself: most of it is no contact,
or nothing can be said. The quantile of chi² that few contacts reach is compared with that of the
distribution, window by window; what it is larger by, the *inflation*, divides chi². Contacts that
are found are left out, and it is done again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import maximum_filter1d
from scipy.optimize import brentq
from scipy.special import chdtri, ndtr

from bodysense.errors import ShapeError
from bodysense.estimation.contact.evidence import Evidence, surprise
from bodysense.spatial.arrays import Array

WINDOWS = (2, 4, 8, 16, 32)
"""Samples of the detector, 1 / (2 cut-off) apart, over which scores are averaged. A single sample
is no contact: drives kick, and time stamps err, for that long."""

_TESTS = 2.7
"""Independent tests per sample that all windows together amount to: alarms counted in white noise
of three and six degrees of freedom at levels from 1e-3 to 1e-5 (tests/estimation/contact)."""

_BULK = 0.3  # quantile of chi² that contacts hardly reach
_TAIL = 0.99  # and one that they do, of samples that are left once contacts are found
_LEAST_TAIL = 300  # samples from which the tail can be told
_ROUNDS = 3  # of inflation and detection
_MOST_INFLATION = 1e6
_RELEASE = 3.0  # surprise below which a contact is over: one of twenty samples without any
_MARGIN = 2  # samples beside a contact that tell nothing about noise
_LEAST_SAMPLES = 20  # from which an inflation can be told
_POWER = 0.95  # share of cases in which a detectable push is found
_CASES = 2000  # samples that stand for a log
_ROOM = 1e6  # times the force of the median sample: what needs more is not found


@dataclass(frozen=True)
class DetectionSettings:
    """When a contact is one.

    Attributes:
        false_alarms: per hour.
        minimum_force: median force of a contact [N].
        minimum_duration: of a contact [s].
        separation: contacts of a link closer than this are one [s].
    """

    false_alarms: float = 1.0
    minimum_force: float = 0.0
    minimum_duration: float = 0.1
    separation: float = 0.3

    def __post_init__(self) -> None:
        if not (0.0 < self.false_alarms < 3600.0 and np.isfinite(self.false_alarms)):
            raise ShapeError(
                f"false alarms per hour are {self.false_alarms:g}: give a number above 0 and below "
                "3600, e.g. 1."
            )
        for name in ("minimum_force", "minimum_duration", "separation"):
            value = getattr(self, name)
            if not (value >= 0.0 and np.isfinite(value)):
                raise ShapeError(f"{name} is {value:g}: give a number from 0 up.")

    def threshold(self, period: float, links: int) -> float:
        """Surprise of an alarm, for samples this far apart [s]."""
        tests = _TESTS * max(1, links) * 3600.0 / period
        return float(np.log(max(2.0, tests / self.false_alarms)))


class Detected(NamedTuple):
    """A contact: the link, first and last sample, and log odds of every link in it."""

    link: str
    first: int
    last: int
    log_odds: dict[str, float]

    @property
    def probability(self) -> float:
        """That it is this link, of those that were compared."""
        values = np.array(list(self.log_odds.values()))
        return float(1.0 / np.exp(values - self.log_odds[self.link]).sum())


@dataclass(frozen=True, eq=False)
class Detection:
    """What a detector found in samples.

    Attributes:
        contacts: in order of time.
        inflation: by link and window, how many times as large as stated the variance of scores is
            where nothing touches.
        threshold: surprise of an alarm.
        period: between samples [s].
        covered: (T,) samples in a contact.
    """

    contacts: tuple[Detected, ...]
    inflation: Mapping[tuple[str, int], float]
    threshold: float
    period: float
    covered: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Scales:
    """Evidence of all windows: means over so many samples, with the noise of such means.

    Attributes:
        evidence: by window, and of single samples, by 1.
        starts: where pieces begin.
        period: between samples [s].
    """

    evidence: Mapping[int, Evidence]
    starts: NDArray[np.int64]
    period: float
    _valid: dict[int, NDArray[np.bool_]] = field(default_factory=dict, repr=False)
    _squares: dict[tuple[str, int], tuple[Array, Array]] = field(default_factory=dict, repr=False)

    @property
    def one(self) -> Evidence:
        """Of single samples."""
        return self.evidence[1]

    @property
    def windows(self) -> tuple[int, ...]:
        """Of the detector."""
        return tuple(window for window in self.evidence if window > 1)

    def chi_square(self, link: str, window: int) -> tuple[Array, Array]:
        """(T,) chi² of a window and its degrees of freedom."""
        if (link, window) not in self._squares:
            self._squares[link, window] = self.evidence[window].chi_square(link)
        return self._squares[link, window]

    def clear(self, window: int, quiet: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """(T,) samples with a whole window in their piece of which every sample is quiet."""
        loud = np.concatenate([[0], np.cumsum(~quiet)])
        k = np.arange(quiet.size)
        result: NDArray[np.bool_] = self.valid(window) & (
            loud[k + 1] == loud[np.maximum(k + 1 - window, 0)]
        )
        return result

    def valid(self, window: int) -> NDArray[np.bool_]:
        """(T,) samples with a whole window in their piece."""
        if window not in self._valid:
            size = self.one.t.size
            since = np.arange(size)
            for first in self.starts:
                since[first:] = np.arange(size - first)
            self._valid[window] = since >= window - 1
        return self._valid[window]


def detect_contacts(
    scales: Scales, settings: DetectionSettings, judged: Scales | None = None
) -> Detection:
    """Find contacts of all links of the evidence: one link at a time touches, or none.

    Which link it is, and how hard, is told by the evidence of `judged`, by default the same.
    """
    T = scales.one.t.size
    threshold = settings.threshold(scales.period, len(scales.one.links))
    covered = np.zeros(T, dtype=bool)
    contacts: tuple[Detected, ...] = ()
    inflation: dict[tuple[str, int], float] = {}
    for k in range(_ROUNDS):
        quiet = ~_widened(covered, _MARGIN)
        inflation = _inflation(scales, quiet, tail=k > 0)
        found = _contacts(scales, judged or scales, inflation, threshold, settings)
        contacts, before = found, covered
        covered = np.zeros(T, dtype=bool)
        for contact in contacts:
            covered[contact.first : contact.last + 1] = True
        if (covered == before).all():
            break
    return Detection(tuple(contacts), inflation, threshold, scales.period, covered)


def _inflation(
    scales: Scales, quiet: NDArray[np.bool_], *, tail: bool
) -> dict[tuple[str, int], float]:
    result = {}
    for window, evidence in scales.evidence.items():
        clear = scales.clear(window, quiet if quiet.any() else ~quiet)
        for link in evidence.links:
            square, freedom = scales.chi_square(link, window)
            here = clear & (freedom > 0.0)
            result[link, window] = inflation_of(square[here], freedom[here], window, tail=tail)
    return result


def inflation_of(square: Array, freedom: Array, window: int = 1, *, tail: bool = False) -> float:
    """How many times as large as it should be chi² is, at least 1.

    Judged by a low quantile, which contacts do not reach, and by a high one if none is left.
    """
    if square.size < _LEAST_SAMPLES * window:
        return 1.0
    quantiles = [_BULK, *([_TAIL] if tail and square.size >= _LEAST_TAIL * window else [])]
    ratios = [np.quantile(square / chdtri(freedom, 1.0 - x), x) for x in quantiles]
    return float(np.clip(max(ratios), 1.0, _MOST_INFLATION))


def _contacts(
    scales: Scales,
    judged: Scales,
    inflation: Mapping[tuple[str, int], float],
    threshold: float,
    settings: DetectionSettings,
) -> tuple[Detected, ...]:
    one, links = scales.one, scales.one.links
    if not one.t.size or not links:
        return ()
    by_link = {
        link: _covered(scales, link, inflation, threshold, settings.separation) for link in links
    }
    anywhere = np.any(list(by_link.values()), axis=0)
    result = []
    for first, last in _runs(_bridged(anywhere, one.t, settings.separation), scales.starts):
        odds = {link: _odds(judged, link, inflation, first, last) for link in links}
        link = max(odds, key=lambda name: odds[name])
        here = judged.one.of(link).part(slice(first, last + 1))
        force = np.linalg.norm(here.wrench(link)[0][:, :3], axis=1)
        long = one.t[last] - one.t[first] + scales.period >= settings.minimum_duration
        if long and float(np.median(force)) >= settings.minimum_force:
            result.append(Detected(link, first, last, odds))
    return tuple(result)


def _covered(
    scales: Scales,
    link: str,
    inflation: Mapping[tuple[str, int], float],
    threshold: float,
    separation: float,
) -> NDArray[np.bool_]:
    """(T,) samples in a contact of a link: short windows first, which tell best when it is."""
    T = scales.one.t.size
    covered = np.zeros(T, dtype=bool)
    for window in scales.windows:
        square, freedom = scales.chi_square(link, window)
        s = surprise(square / inflation[link, window], freedom) * scales.valid(window)
        busy = np.concatenate([[0], np.cumsum(_widened(covered, 1))])
        k = np.arange(T)
        taken = busy[k + 1] - busy[np.maximum(k + 1 - window, 0)] > 0
        alarm = (s > threshold) & ~taken
        held = _hysteresis(alarm, (s > _RELEASE) & ~taken)
        for first, last in _runs(held, scales.starts):
            covered[max(0, first - window + 1) : last + 1] = True
    return covered


def _odds(
    scales: Scales,
    link: str,
    inflation: Mapping[tuple[str, int], float],
    first: int,
    last: int,
) -> float:
    """Log odds of a link over a contact, from windows one behind the other."""
    length = last - first + 1
    window = max(w for w in scales.evidence if w <= length)
    ends = np.arange(first + window - 1, last + 1, window)
    evidence = scales.evidence[window]
    some = evidence.of(link).part(ends)
    return float(some.log_odds(link, inflation[link, window]).sum())


def _hysteresis(on: NDArray[np.bool_], stay: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Runs of `stay` that hold an `on`."""
    edges = np.flatnonzero(np.diff(np.r_[0, stay | on, 0]))
    count = np.concatenate([[0], np.cumsum(on)])
    result = np.zeros_like(on)
    for first, last in zip(edges[::2], edges[1::2], strict=True):
        result[first:last] = count[last] > count[first]
    return result


def _widened(mask: NDArray[np.bool_], by: int) -> NDArray[np.bool_]:
    if not mask.size:
        return mask
    return maximum_filter1d(mask.astype(np.uint8), 2 * by + 1).astype(bool)


def _bridged(mask: NDArray[np.bool_], t: Array, gap: float) -> NDArray[np.bool_]:
    """Contacts that are closer than a gap are one."""
    places = np.flatnonzero(mask)
    result = mask.copy()
    for a, b in pairwise(places):
        if b > a + 1 and t[b] - t[a] <= gap:
            result[a:b] = True
    return result


def _runs(mask: NDArray[np.bool_], starts: Sequence[int] | NDArray[np.int64]) -> list[list[int]]:
    """First and last samples of runs, which end where a piece does."""
    cut = np.zeros(mask.size + 1, dtype=bool)
    cut[np.asarray(starts, dtype=np.int64)] = True
    runs: list[list[int]] = []
    for k in np.flatnonzero(mask):
        if runs and runs[-1][1] == k - 1 and not cut[k]:
            runs[-1][1] = int(k)
        else:
            runs.append([int(k), int(k)])
    return runs


def detectable_force(
    scales: Scales, detection: Detection, link: str
) -> dict[int, tuple[float, float]]:
    """By window, forces at a link's origin that are found in 95 % of cases [N].

    Along the directions u that show best and worst in the median of the samples. A force that lasts
    as long as the window exceeds the threshold, in the mean over samples t and their noise e, with

        P(|F| √(uᵀ J_t u) + e > √chi²(threshold)) = 0.95,     e ~ N(0, 1).

    Samples where joints stand or reverse tell less, and count as they are.
    """
    result = {}
    for window in scales.windows:
        evidence = scales.evidence[window]
        _, freedom = scales.chi_square(link, window)
        k = float(np.median(freedom))
        if k == 0.0:
            result[window] = (np.inf, np.inf)
            continue
        inflation = detection.inflation[link, window]
        limit = np.sqrt(chi_square_of(detection.threshold, k))
        J = evidence.force_information(link)[:: max(1, freedom.size // _CASES)] / inflation
        _, axes = np.linalg.eigh(np.median(J, axis=0))
        size = np.sqrt(np.maximum(np.einsum("ik,tij,jk->tk", axes, J, axes), 0.0))
        result[window] = (_found_in_most(size[:, 2], limit), _found_in_most(size[:, 0], limit))
    return result


def _found_in_most(size: Array, limit: float) -> float:
    """The force that exceeds a limit in most cases, of as many standard deviations per newton."""
    middle = float(np.median(size))
    if middle == 0.0:
        return np.inf

    def missing(force: float) -> float:
        return float(ndtr(force * size - limit).mean()) - _POWER

    top = limit / middle
    while missing(top) < 0.0:
        top *= 2.0
        if top > _ROOM * limit / middle:
            return np.inf
    return float(brentq(missing, 0.0, top))


def chi_square_of(level: float, freedom: float) -> float:
    """The chi² that has this surprise."""

    def excess(x: float) -> float:
        return float(surprise(np.array([x]), np.array([freedom]))[0]) - level

    return float(brentq(excess, 0.0, 2.0 * level + 10.0 * freedom + 100.0))
