"""Search for the best motion from many starts, on all cores, within a time.

Random motions are scaled into the limits and improved a little, and the best of them, one a
thread, to the end. After that the best one is shaken and improved again, three times out of four,
or a new random one is tried, until the time is over. Shaking changes some joints and begins with a
strong barrier as any start does; on a Panda such changes found something better, by up to 6 %, in
39 of 40 cases. Random ones that fall behind the best third of all others after as many steps are
given up (asynchronous successive halving: Li et al., MLSys 2020).

Every motion on the way keeps the limits at the samples, so that the search can be interrupted at
any moment.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType

import numpy as np
from threadpoolctl import threadpool_limits

from bodysense.errors import TrajectoryError
from bodysense.excitation.climb import Climb
from bodysense.excitation.motion_problem import MotionProblem
from bodysense.spatial.arrays import Array

_STARTS = 6
_LOOKS = (40, 100, 200)
"""Steps after which a search is compared with all others."""
_TRIES = 60


@dataclass(frozen=True)
class Progress:
    """Where a search stands.

    Attributes:
        seconds: since its start.
        value: best criterion so far; infinite while there is none.
        starts: motions begun so far.
        condition: cond(W) of the best so far; infinite while there is none.
    """

    seconds: float
    value: float
    starts: int
    condition: float = np.inf


@dataclass
class Search:
    """The shared state of all threads of one search; `run` it once.

    Attributes:
        problem: what to minimise.
        rng: source of the starts.
        seconds: time to stop after.
        centres: (n, n_joints) poses to start around, free of collisions and holdable.
        iterations: steps of all starts together to stop after, None for no such end.
        best: coefficients of the best motion so far, None at first.
        best_value: its criterion.
        starts: criteria of the random motions that were tried.
        history: seconds and value of every improvement.
        status: ``time``, ``interrupted``, ``enough`` (its iterations are used up), ``failed`` (an
            error ended it, after a first motion was found).
        notes: what went wrong without ending the search in vain, in words.
    """

    problem: MotionProblem
    rng: np.random.Generator
    seconds: float
    centres: Array
    iterations: int | None = None
    best: Array | None = None
    best_value: float = np.inf
    starts: list[float] = field(default_factory=list)
    history: list[tuple[float, float]] = field(default_factory=list)
    status: str = "time"
    notes: list[str] = field(default_factory=list)
    _threads: int = 1
    _begun: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stop: threading.Event = field(default_factory=threading.Event)
    _paused: list[Climb] = field(default_factory=list)
    _looks: dict[int, list[float]] = field(default_factory=dict)
    _begun_starts: int = 0
    _steps: int = 0
    _failure: BaseException | None = None
    _shown: tuple[Array | None, float] = (None, np.inf)

    def run(self, threads: int, progress: Callable[[Progress], None] | None) -> None:
        """Search on so many threads; `progress` is called here, a few times per second.

        Raises:
            TrajectoryError: no motion was found that keeps all limits.
            KeyboardInterrupt: before a first motion was found.
        """
        # Matrices are small: threads of the linear algebra would only wait for each other.
        with threadpool_limits(limits=1, user_api="blas"):
            self._run(threads, progress)

    def _run(self, threads: int, progress: Callable[[Progress], None] | None) -> None:
        # Compiled before the clock starts: the first time that takes longer than a short search.
        self.problem.evaluate(self._faint(), 1.0)
        self._begun = time.monotonic()
        self._threads = threads
        workers = [threading.Thread(target=self._guarded, daemon=True) for _ in range(threads)]
        for worker in workers:
            worker.start()
        try:
            while any(worker.is_alive() for worker in workers):
                for worker in workers:
                    worker.join(0.1 / threads)
                if progress is not None:
                    progress(self._progress())
        except KeyboardInterrupt:
            self.status = "interrupted"
            if self.best is None:
                raise
        finally:
            self._stop.set()
            for worker in workers:
                worker.join()
        if self._failure is not None:
            if self.best is None:
                raise self._failure
            self.status = "failed"
            self._note(f"the search ended early: {self._failure!r}")

    def _progress(self) -> Progress:
        with self._lock:
            best, value = self.best, self.best_value
        if best is not None and best is not self._shown[0]:
            self._shown = best, self.problem.condition(best)
        return Progress(self._elapsed(), value, self._begun_starts, self._shown[1])

    def _note(self, words: str) -> None:
        if words not in self.notes:
            self.notes.append(words)

    def _faint(self) -> Array:
        """Coefficients of next to no motion about the first centre."""
        problem = self.problem
        x = 1e-3 * np.random.default_rng(0).standard_normal(problem.shape)
        if not problem.family.anchored:
            x[:, :, 0] = (self.centres[0] - problem.anchor)[problem.moving]
        return x

    @property
    def start_value(self) -> float:
        """Criterion of the median of the random motions that were tried."""
        return float(np.median(self.starts)) if self.starts else float("inf")

    def _elapsed(self) -> float:
        return time.monotonic() - self._begun

    def _guarded(self) -> None:
        try:
            while self._going():
                self._one()
        except BaseException as error:
            self._failure = error
            self._stop.set()

    def _going(self) -> bool:
        if self.iterations is not None and self._steps >= self.iterations:
            self.status = "enough"
            return False
        return not self._stop.is_set() and self._elapsed() < self.seconds

    def _one(self) -> None:
        """Take what is next: a look at a start, a good one to its end, or the best, shaken."""
        with self._lock:
            number = self._begun_starts
            self._begun_starts += 1
            rng = np.random.default_rng(self.rng.integers(2**63))
            resumed = None
            if number >= _STARTS and self._paused:
                self._paused.sort(key=lambda climb: climb.best_value)
                resumed = self._paused.pop(0)
                del self._paused[self._threads - 1 :]
        if resumed is not None:
            self._climb(resumed, None, to_the_end=True)
            return
        shaken = number >= _STARTS and number % 4 != 0 and self.best is not None
        x = self._shaken(rng) if shaken else self._random(rng)
        if x is None:
            return
        climb = Climb(self.problem, x)
        if not shaken:
            with self._lock:
                self.starts.append(climb.best_value)
        steps = _LOOKS[0] if number < _STARTS else None
        self._climb(climb, steps, to_the_end=shaken)
        if number < _STARTS and not climb.done:
            with self._lock:
                self._paused.append(climb)

    def _climb(self, climb: Climb, steps: int | None, *, to_the_end: bool) -> None:
        while not climb.done and self._going():
            climb.step()
            with self._lock:
                self._steps += 1
                if climb.best_value < self.best_value:
                    self.best, self.best_value = climb.best, climb.best_value
                    self.history.append((self._elapsed(), climb.best_value))
            behind = self._behind(climb)
            if climb.iterations == steps or (behind and not to_the_end):
                return

    def _behind(self, climb: Climb) -> bool:
        """Whether a search is not among the best third of those after as many steps."""
        if climb.iterations not in _LOOKS:
            return False
        with self._lock:
            others = self._looks.setdefault(climb.iterations, [])
            others.append(climb.best_value)
            return climb.best_value > sorted(others)[(len(others) - 1) // 3]

    def _random(self, rng: np.random.Generator) -> Array | None:
        """A random motion about a random centre, scaled until it keeps all limits."""
        problem = self.problem
        for _ in range(_TRIES):
            x = rng.standard_normal(problem.shape)
            if not problem.family.anchored:
                centre = self.centres[rng.integers(self.centres.shape[0])]
                x[:, :, 0] = (centre - problem.anchor)[problem.moving]
            x = self._scaled(x, rng.uniform(0.4, 0.8))
            for _ in range(12):
                if problem.feasible(x):
                    return x
                x = self._scaled(x, 0.75, relative=True)
            if self._stop.is_set() or self._elapsed() > self.seconds:
                return None
        if self.best is None:
            raise TrajectoryError(
                "no motion was found that keeps all limits, not even a small one: give a start "
                "pose that is free to all sides, or widen the limits."
            )
        self._note("some random starts found no motion that keeps all limits")
        return None

    def _scaled(self, x: Array, fraction: float, *, relative: bool = False) -> Array:
        """Scale the motion about its centre to a fraction of what the linear limits allow."""
        moved = x.copy()
        first = int(not self.problem.family.anchored)
        if relative:
            moved[:, :, first:] *= fraction
            return moved
        low, high = np.zeros(x.shape[:2]), np.full(x.shape[:2], 1e3)
        for _ in range(40):
            middle = 0.5 * (low + high)
            moved[:, :, first:] = x[:, :, first:] * middle[:, :, np.newaxis]
            use = self.problem.linear_use(moved).reshape(middle.shape)
            low, high = np.where(use < 1.0, middle, low), np.where(use < 1.0, high, middle)
        moved[:, :, first:] = x[:, :, first:] * (fraction * low)[:, :, np.newaxis]
        return moved

    def _shaken(self, rng: np.random.Generator) -> Array | None:
        """The best motion, shrunk a little and changed by a random one until it keeps limits."""
        with self._lock:
            best = self.best
        if best is None:
            return None
        spread = np.sqrt((best**2).mean(axis=2, keepdims=True))
        change = spread * rng.standard_normal(best.shape)
        # Few joints by much, or all by a little: both find better motions.
        changed = rng.permutation(best.shape[1]) < rng.integers(1, best.shape[1] + 1)
        change *= changed[:, np.newaxis] * rng.uniform(0.1, 0.6) / np.sqrt(changed.sum())
        if not self.problem.family.anchored:
            change[:, :, 0] *= 0.3
        for _ in range(12):
            x: Array = self._scaled(best, 0.9, relative=True) + change
            if self.problem.feasible(x):
                return x
            change *= 0.6
        return None


# Work that Ctrl-C must not lose.


@contextmanager
def first_interruption_ignored() -> Iterator[None]:
    """Let the first Ctrl-C pass without effect; the next one raises `KeyboardInterrupt`.

    Outside the main thread there is nothing to do, for no interruption arrives there.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)

    def ignore(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, ignore)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
