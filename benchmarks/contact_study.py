"""One simulated log: what its estimate makes of it, untouched and pushed."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from benchmarks.contact_subjects import PRIOR, Condition, Subject, untouched
from bodysense.estimation import DetectionSettings, LogEstimate, prepare_log
from bodysense.estimation.map_dynamics.log.contacts import find_contacts
from bodysense.logs.filtering import lowpass
from bodysense.spatial import Array

SETTINGS = DetectionSettings()

_LOOKS = 5000  # samples of a log at which bands are looked at
_TOLD = 0.5  # of the prior's standard deviation: a component with less is told by readings
_SPACING, _MARGIN = 4.0, 2.0  # s between pushes and from the ends
_TWICE = 2.0
_MOST_FORCE = _TWICE * PRIOR[0]  # N: a prior that says less is wrong


@dataclass
class Count:
    """Of samples inside their bands."""

    held: int = 0
    all: int = 0

    def add(self, inside: NDArray[np.bool_]) -> None:
        self.held += int(inside.sum())
        self.all += int(inside.size)

    def __add__(self, other: Count) -> Count:
        return Count(self.held + other.held, self.all + other.all)

    @property
    def share(self) -> float:
        """In %."""
        return 100.0 * self.held / self.all if self.all else math.nan


@dataclass
class Study:
    """What one log showed.

    Attributes:
        condition: of the log.
        hours: that the estimate covers.
        alarms: contacts where there was none.
        bands, near: of components that readings tell, everywhere and beside reversals.
        raw: of all components.
        pushes, found: how many there were, and were found.
        pushed, pushed_near: bands in pushes, and beside reversals in them.
        seconds: of preparing and solving, and of the detector among them.
    """

    condition: Condition
    hours: float = 0.0
    alarms: int = 0
    bands: Count = field(default_factory=Count)
    near: Count = field(default_factory=Count)
    raw: Count = field(default_factory=Count)
    pushes: int = 0
    found: int = 0
    pushed: Count = field(default_factory=Count)
    pushed_near: Count = field(default_factory=Count)
    seconds: tuple[float, float] = (0.0, 0.0)


def study(condition: Condition, seconds: float, seed: int, pushes: int) -> Study:
    """Simulate a log, estimate it, and push it if this is asked for."""
    rng = np.random.default_rng(seed)
    subject = untouched(condition, seconds, rng)
    result = Study(condition)
    began = time.perf_counter()
    estimate = prepare_log(subject.setup, subject.robot, subject.log)
    prepared = time.perf_counter() - began
    inside, told, near = _looks(subject, estimate, np.zeros((estimate.t.size, 6)), result)
    result.bands.add(inside[told])
    result.near.add(inside[near][told[near]])
    result.raw.add(inside)
    found = estimate.found
    result.alarms = 0 if found is None else len(found.contacts) + len(found.lasting)
    result.hours = float(estimate.t[-1] - estimate.t[0]) / 3600.0
    began = time.perf_counter()
    find_contacts(estimate.problem, estimate.recording, subject.setup.gravity, SETTINGS)
    result.seconds = (prepared + result.seconds[0], time.perf_counter() - began)
    if pushes:
        _push(subject, estimate, pushes, rng, result)
    return result


def _looks(
    subject: Subject, estimate: LogEstimate, truth: Array, result: Study
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
    """Whether bands hold the truth (T, 6), readings tell a component, and a reversal is near.

    At some samples; adds to the time of solving what all would take.
    """
    r = estimate.recording
    step = max(1, r.t.size // _LOOKS)
    here = slice(0, r.t.size, step)
    began = time.perf_counter()
    mean, sigma = wrench_of(estimate, subject.link, here)
    result.seconds = (step * (time.perf_counter() - began), 0.0)
    places = np.searchsorted(subject.run.t, r.t[here] - 1e-9)
    inside = np.abs(mean - truth[here]) < 1.96 * sigma
    return inside, sigma < _TOLD * np.asarray(PRIOR), subject.reversal[places]


def wrench_of(estimate: LogEstimate, link: str, here: slice) -> tuple[Array, Array]:
    """(T, 6) means and standard deviations of the wrench on the link."""
    r = estimate.recording
    noise = r.noise if estimate.found is None else estimate.found.noise or r.noise
    posterior = estimate.problem.estimate(
        r.q[here],
        r.dq[here],
        r.readings[here],
        gravity=estimate.setup.gravity,
        noise_scale=None if noise is None else noise.part(here).scale(),
    )
    return posterior[f"fx.{link}"], posterior.sigma(f"fx.{link}")


def _push(
    subject: Subject, quiet: LogEstimate, count: int, rng: np.random.Generator, result: Study
) -> None:
    """Push a subject as hard as its estimate says is twice what can be found."""
    assert quiet.found is not None
    axes = _axes(quiet, subject.link)
    stated = [
        (duration, force, axis)
        for duration, pair in quiet.found.detectable[subject.link].items()
        for force, axis in zip(pair, axes, strict=True)
        if duration >= SETTINGS.minimum_duration and _TWICE * force <= _MOST_FORCE
    ]
    room = subject.run.t[-1] - 2.0 * _MARGIN
    count = min(count, int(room / _SPACING))
    if not stated or count < 1:
        return
    wrench, intervals = np.zeros((subject.run.t.size, 6)), []
    for k in range(count):
        duration, force, axis = stated[int(rng.integers(len(stated)))]
        begin = _MARGIN + k * _SPACING + rng.uniform(0.0, 1.0)
        during = (subject.run.t >= begin) & (subject.run.t < begin + duration)
        wrench[during, :3] = rng.choice([-1.0, 1.0]) * _TWICE * force * axis
        intervals.append((begin, begin + duration))
    pushed = subject.pushed(wrench)
    estimate = prepare_log(pushed.setup, pushed.robot, pushed.log)
    assert estimate.found is not None
    noise = estimate.recording.noise
    assert noise is not None
    contacts = [(c.start, c.end) for c in estimate.found.contacts]
    period = 0.5 / noise.cutoff
    result.pushes = len(intervals)
    result.found = sum(
        any(a <= end + period and b >= begin - period for a, b in contacts)
        for begin, end in intervals
    )
    true = lowpass(wrench, subject.condition.rate, noise.cutoff)
    true = true[np.searchsorted(subject.run.t, estimate.t - 1e-9)]
    spent = result.seconds
    inside, told, near = _looks(pushed, estimate, true, result)
    result.seconds = spent
    t = estimate.t[:: max(1, estimate.t.size // _LOOKS)]
    during = np.any([(t >= a) & (t < b) for a, b in intervals], axis=0)
    result.pushed.add(inside[during][told[during]])
    result.pushed_near.add(inside[during & near][told[during & near]])


def _axes(estimate: LogEstimate, link: str) -> tuple[Array, Array]:
    """(3,) directions of a force on the link that show best and worst, medians over the log."""
    r = estimate.recording
    here = slice(0, r.t.size, max(1, r.t.size // 200))
    noise = r.noise if estimate.found is None else estimate.found.noise or r.noise
    posterior = estimate.problem.estimate(
        r.q[here],
        r.dq[here],
        r.readings[here],
        noise_scale=None if noise is None else noise.part(here).scale(),
        detail="blocks",
    )
    C = posterior.covariance(f"fx.{link}")
    J = np.linalg.inv(C) - np.diag(np.asarray(PRIOR) ** -2.0)
    _, axes = np.linalg.eigh(np.median(J[:, :3, :3], axis=0))
    return axes[:, 2], axes[:, 0]
