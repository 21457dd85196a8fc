"""`ContactDetector`: contacts in a stream, by the test that finds them in logs, sample by sample.

Evidence (see `evidence`) is summed over a period, and over windows of 2 to 32 periods, in rings of
constant size. An alarm of a window begins a contact; the shortest window that gave one tells when
it is over, and windows that reach into a contact that is over say nothing. Which link it is follows
from the log odds of all links since the contact began; how hard, from the window that tells when it
is over. What noise does is learned in the first seconds, which are taken for free of contact, and
followed slowly after that, see `inflation`.

A push that lasts as long as a window is found when a whole one is in it,

    delay = (w + 1) period + delay of the estimates,

in 95 % of cases if it is as large as the detectable force of that window.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from bodysense.errors import MismatchError, ShapeError, unknown_name
from bodysense.estimation.contact.detector import WINDOWS, DetectionSettings
from bodysense.estimation.contact.inflation import LearnedInflation
from bodysense.estimation.contact.ongoing import ContactState, OngoingContact
from bodysense.estimation.contact.window_evidence import WindowEvidence, power_limit
from bodysense.estimation.contact.window_sums import WindowSums
from bodysense.spatial.arrays import Array, as_array

LEARNING = 5.0
"""s at the beginning that are taken for free of contact: three of the longest windows at 20 Hz."""

MEMORY = 60.0
"""s over which noise is followed while nothing touches: a joint warms up in minutes."""

_RELEASE = 3.0  # surprise below which a contact is over, as in logs
_PAUSE = 4.0  # periods without a sample after which windows begin anew
_SET_BACK = 1.0  # s by which a sample is earlier than the last if the clock was set back
_TINY, _HUGE = 1e-300, 1e100
_SOME = 1e-9  # share of a period that rounding of times takes


@dataclass(eq=False)
class _Contact:
    """A contact while it lasts: the shortest window that gave an alarm, log odds of links so far.

    `before` are those of `periods` ago.
    """

    since: float
    hold: int
    odds: Array
    before: Array
    over: float = np.inf
    periods: int = 0
    largest: float = 0.0
    certain: float = -np.inf
    told: OngoingContact | None = None


class ContactDetector:
    """Contacts of some links of which at most one is touched at a time, as in logs.

    Attributes:
        links: that are tested.
        period: between two judgements [s].
        state: after the last sample.
    """

    def __init__(
        self,
        priors: Mapping[str, ArrayLike],
        *,
        period: float,
        settings: DetectionSettings | None = None,
        delay: float = 0.0,
        learning: float = LEARNING,
        memory: float = MEMORY,
        inflation: Mapping[str, float] | Mapping[tuple[str, int], float] | None = None,
        correlation: ArrayLike = 1.0,
        tests: float | None = None,
    ) -> None:
        """Lay out.

        Args:
            priors: covariances (6, 6) of the external wrench on each link that is tested.
            period: between two judgements [s]; of estimates that pass a low-pass half a period of
                its cut-off.
            settings: false alarms per hour, and what else makes a contact; by default one an hour,
                however short it is.
            delay: of the estimates behind the samples [s], which is stated with that of windows.
            learning: time at the beginning that is taken for free of contact [s].
            memory: over which noise is followed while nothing touches [s].
            inflation: as learned before, e.g. `LogContacts.inflation` of a log: nothing is learned
                at the beginning then.
            correlation: variance of a sum over windows of 2 … 32 periods (5,), over what it were if
                periods were independent of each other.
            tests: independent ones that tests of all links amount to, see `count_tests`; by default
                as many as there are links.
        """
        if not priors:
            raise MismatchError("no link is given whose contacts are to be found: name some.")
        for name, value in (("period", period), ("memory", memory)):
            if not (value > 0.0 and np.isfinite(value)):
                raise ShapeError(f"{name} is {value:g} s: give a positive number.")
        for name, value in (("learning", learning), ("delay", delay)):
            if not (value >= 0.0 and np.isfinite(value)):
                raise ShapeError(f"{name} is {value:g} s: give a number from 0 up.")
        self.links, self.period = tuple(priors), period
        self.settings = DetectionSettings(minimum_duration=0.0) if settings is None else settings
        self._delay = delay
        covariances = {x: as_array(P, (6, 6), f"the prior of {x}") for x, P in priors.items()}
        self._evidence = WindowEvidence(covariances)
        W, L = len(WINDOWS), len(self.links)
        tests = float(L) if tests is None else tests
        surprises = self.settings.threshold(period, 1) + float(np.log(tests)), _RELEASE
        known = {} if inflation is None and learning == 0.0 else inflation
        self.noise = LearnedInflation(self.links, surprises, memory / period, known)
        self._untold = 0.0 if known is not None else learning
        self._sums = WindowSums((L, 6)), WindowSums((L, 6, 6))
        self._now = np.zeros((L, 6)), np.zeros((L, 6, 6))
        self._windows = np.array(WINDOWS)
        self._share = 1.0 / np.broadcast_to(np.asarray(correlation, dtype=np.float64), (W,))
        self._hidden = np.zeros(W)
        self._times: deque[float] = deque(maxlen=WINDOWS[-1] + 1)
        self._t = -np.inf
        self._contact: _Contact | None = None
        self._last: _Contact | None = None
        self._gone: tuple[OngoingContact, ...] = ()
        self.state = ContactState(-np.inf, learning=self._untold > 0.0)

    @property
    def units(self) -> Array:
        """(L, 6, 6) that bring wrenches to units of their priors."""
        return self._evidence.units

    def learn(self, seconds: float = LEARNING) -> None:
        """Learn the noise anew, while nothing touches."""
        self.noise.forget()
        self._untold = seconds
        self.begin(self._t)

    def begin(self, t: float) -> None:
        """Let windows begin anew with this time, as after a gap; a contact ends with it."""
        if self._contact is not None and self._contact.told is not None:
            self._gone = (self._contact.told,)
        self._contact = self._last = None
        self._times.clear()
        self._times.append(t)
        self._t = t
        for part in self._now:
            part[:] = 0.0

    def step(self, t: float, score: ArrayLike, information: ArrayLike) -> ContactState:
        """Take what one more sample says about the wrench on each link, independent of others.

        Args:
            t: time [s].
            score: (L, 6) with the mean information · wrench, and information as its covariance.
            information: (L, 6, 6); samples with anything that is not finite count as missing.
        """
        if not self._is_next(t, t):
            return self.state
        eta, J = np.asarray(score, dtype=np.float64), np.asarray(information, dtype=np.float64)
        if eta.shape != self._now[0].shape or J.shape != self._now[1].shape:
            raise ShapeError(
                f"score {eta.shape} and information {J.shape}: give {self._now[0].shape} and "
                f"{self._now[1].shape}, for the links {', '.join(self.links)}."
            )
        if _is_plausible(eta) and _is_plausible(J):
            self._now[0][:] += eta
            self._now[1][:] += J
        if t - self._times[-1] < self.period * (1.0 - _SOME):
            return self.state
        b, A = self._evidence.in_units(*self._now)
        for part in self._now:
            part[:] = 0.0
        return self._taken(t, b, A)

    def take(self, t: float, score: Array, information: Array, hidden: float = 0.0) -> ContactState:
        """Take what a whole period that ends at a time says.

        Args:
            t: time [s].
            score: (L, 6) as in `step`, in units of the prior, see `units`.
            information: (L, 6, 6) likewise.
            hidden: standard deviations of signal that friction may have taken out of it.
        """
        if not self._is_next(t, t - self.period):
            return self.state
        if not (_is_plausible(score) and _is_plausible(information)):
            score, information = np.zeros_like(score), np.zeros_like(information)
        self._hidden[:] = hidden * np.sqrt(self._windows * self._share)
        return self._taken(t, score, information)

    def _taken(self, t: float, b: Array, A: Array) -> ContactState:
        e = self._evidence
        self._sums[0].push(b, self._share, e.score)
        self._sums[1].push(A, self._share, e.information)
        return self._judged(t)

    def judge(
        self, t: float, score: Array, information: Array, hidden: ArrayLike = 0.0
    ) -> ContactState:
        """Take what windows of 2 … 32 periods that end at a time say, once per period.

        Args:
            t: time [s].
            score: (W, L, 6) as in `step`, of whole windows.
            information: (W, L, 6, 6).
            hidden: (W,) standard deviations of signal that friction may have taken out of it.
        """
        if not self._is_next(t, t - self.period):
            return self.state
        if not (_is_plausible(score) and _is_plausible(information)):
            score, information = np.zeros_like(score), np.zeros_like(information)
        self._hidden[:] = hidden
        e = self._evidence
        e.score[:], e.information[:] = e.in_units(score, information)
        return self._judged(t)

    def _is_next(self, t: float, begin: float) -> bool:
        """Whether a sample is later than the last; after a gap windows begin anew."""
        if not (t > self._t or t < self._t - _SET_BACK):
            return False
        if not abs(t - self._t) < _PAUSE * self.period:
            self.begin(begin)
        self._t = t
        return True

    def _judged(self, t: float) -> ContactState:
        """Judge the evidence of windows that end now."""
        noise, e = self.noise, self._evidence
        self._times.append(t)
        whole = self._windows < len(self._times)
        e.test()
        square, freedom = e.square, e.freedom
        ended, self._gone = self._gone, ()
        if self._untold > 0.0:
            noise.take(square, freedom, whole)
            self._untold -= t - self._times[-2]
            self.state = ContactState(t, (), ended, learning=self._untold > _SOME)
            return self.state
        ratio, rows = square / noise.inflation, np.arange(len(WINDOWS))[:, None]
        usable = (whole & noise.ready)[:, None]
        alarm = ((ratio > noise.limit[rows, freedom]) & usable).any(axis=1)
        if self._contact is None and alarm.any():
            self._alarmed(int(np.argmax(alarm)))
        elif self._contact is None:
            noise.take(square, freedom, whole)
        else:
            if alarm.any():
                self._contact.hold = min(self._contact.hold, int(np.argmax(alarm)))
            hold = self._contact.hold
            if not (ratio[hold] > noise.release[hold, freedom[hold]]).any():
                return self._ended(t)
            self._compare(self._contact)
        told = () if self._contact is None else self._told(t, self._contact)
        self.state = ContactState(t, told, ended)
        return self.state

    def _alarmed(self, w: int) -> None:
        """An alarm of window w begins a contact, or goes on with the one before."""
        since, last = self._times[-1 - WINDOWS[w]], self._last
        if last is not None and since - last.over <= self.settings.separation:
            last.before, last.hold, self._contact = last.odds, w, last
        else:
            none = np.zeros(len(self.links))
            self._contact = _Contact(since, w, none, none)
        self._contact.periods = WINDOWS[w] - 1
        self._compare(self._contact)

    def _compare(self, contact: _Contact) -> None:
        """Compare links by windows that double, and one behind the other at last."""
        contact.periods += 1
        if contact.periods in WINDOWS:
            w = WINDOWS.index(contact.periods)
            contact.odds = contact.before + self._evidence.log_odds(w, self.noise.inflation[w])
            if w == len(WINDOWS) - 1:
                contact.before, contact.periods = contact.odds, 0

    def _ended(self, t: float) -> ContactState:
        """The contact is over; windows begin anew behind it."""
        last = self._contact
        assert last is not None  # which only a contact asks for
        last.over, self._last, self._contact = t, last, None
        self._times.clear()
        self._times.append(t)
        self.state = ContactState(t, (), () if last.told is None else (last.told,))
        return self.state

    def _told(self, t: float, contact: _Contact) -> tuple[OngoingContact, ...]:
        """The contact as it is now, if it is long and strong enough to be one."""
        k, w, settings = int(np.argmax(contact.odds)), contact.hold, self.settings
        wrench, covariance = self._evidence.wrench(w, k, self.noise.inflation[w, k])
        force = float(np.linalg.norm(wrench[:3]))
        if contact.told is None and (
            t - contact.since < settings.minimum_duration * (1.0 - _SOME)
            or force < settings.minimum_force
        ):
            return ()
        along = wrench[:3] / max(force, _TINY)
        sigma = float(np.sqrt(max(0.0, float(along @ covariance[:3, :3] @ along))))
        before = contact.told
        if before is None or force - 2.0 * sigma >= contact.certain:
            contact.largest, contact.certain = force, force - 2.0 * sigma
        contact.told = OngoingContact(
            link=self.links[k],
            probability=float(1.0 / np.exp(contact.odds - contact.odds[k]).sum()),
            since=contact.since,
            found=t if before is None else before.found,
            force=force,
            sigma=sigma,
            largest=contact.largest,
            wrench=wrench,
            detectable=self._detectable(w, k)[1],
        )
        return (contact.told,)

    def _detectable(self, w: int, k: int, direction: Array | None = None) -> tuple[float, float]:
        """See `WindowEvidence.detectable`."""
        e, noise = self._evidence, self.noise
        if not noise.ready[w]:
            return np.inf, np.inf
        limit = power_limit(noise.limit[w, e.freedom[w, k]], noise.inflation[w, k])
        return e.detectable(w, k, limit, self._hidden[w], direction)

    def delay(self, window: int) -> float:
        """Time within which a window of so many periods finds a push [s]."""
        return (window + 1) * self.period + self._delay

    def detectable(
        self, link: str, direction: ArrayLike | None = None
    ) -> dict[float, tuple[float, float]]:
        """By delay [s], forces at a link's origin that are found within it in 95 % of cases [N].

        In the direction that shows best and in the worst one, or twice that in a given direction
        (3,) in the axes of the link; where the robot is now, and as far as noise is known by now.
        """
        if link not in self.links:
            raise unknown_name("link", link, self.links)
        k, u = self.links.index(link), None
        if direction is not None:
            u = as_array(direction, (3,), "direction")
            u = u / max(float(np.linalg.norm(u)), _TINY)
        return {self.delay(n): self._detectable(w, k, u) for w, n in enumerate(WINDOWS)}

    def describe(self, link: str) -> str:
        """What would be found, by delay and depending on its direction, in words."""
        if self.state.learning:
            return f"{link}: noise is still learned"
        told = [
            (f"{best:.2g} to {worst:.2g} N" if worst < np.inf else f"{best:.2g} N or more")
            + f" within {1e3 * delay:.3g} ms"
            for delay, (best, worst) in self.detectable(link).items()
            if best < np.inf
        ]
        return f"{link}: a push of " + (", ".join(told) or "any size may be missed")


def _is_plausible(x: Array) -> bool:
    """Whether all numbers are finite, and so are products of them."""
    return bool((np.abs(x) < _HUGE).all())
