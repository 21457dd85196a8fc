"""Search for the best motion from many starts, on all cores, within a time.

Random motions are scaled into the limits and improved a little, and the best of them, one per
thread, to the end. After that the best one is perturbed and improved again, three times out of
four, or a new random one is tried, until the time is over. A perturbation changes some joints and
begins with a strong barrier as any start does; on a Panda such changes found something better, by
up to 6 %, in 39 of 40 cases. Random ones that are not among the best third after as many steps
are given up (asynchronous successive halving: Li et al., MLSys 2020).

Each search is one of interior points: for a sequence of mu that falls, F = f + mu b is lowered by
steps

    d = -(B + mu b'')⁻¹ (f' + mu b')

where b'' is known (linear limits exactly) and B is the BFGS estimate of f'' alone, so that it stays
good when mu changes. Steps stay inside the limits, so that every iterate can be used. The order of
the smooth criterion rises as mu falls: at first all small eigenvalues count, at the end the
smallest. Nocedal and Wright, "Numerical Optimization", chapters 6 and 19.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from threadpoolctl import threadpool_limits

from bodysense.errors import TrajectoryError
from bodysense.excitation.motion_problem import Evaluation, MotionProblem
from bodysense.spatial.arrays import Array

_STARTS = 6  # random motions that are improved a little at first
_RUNGS = (40, 100, 200)  # steps after which a start is compared with all others
_TRIES = 60  # random motions per start, to find one within the limits

# Tuning, chosen on random motions of a Panda.
_FIRST_MU, _LAST_MU = 0.03, 1e-5  # weight of the barrier, first and last
_MU_FACTOR = 0.5  # from one weight to the next
_ORDERS = (1.0, 100.0)  # of the smooth criterion, at the first and the last weight
_MAX_STEPS = 20  # per weight
_STEP_FRACTION = 0.97  # of the way to a linear limit
_MIN_GAIN = 3e-5  # expected gain of a step below which the weight is lowered


class _BarrierSearch:
    """The state of one search. `step` until `done`; `best` and `best_value` are always usable."""

    def __init__(self, problem: MotionProblem, x: Array) -> None:
        """Start at x, which must keep all limits."""
        self._problem = problem
        self._mu = _FIRST_MU
        self._B: Array | None = None
        self._steps = 0
        self._x = x
        self._now = problem.evaluate(x, self._order)
        self.iterations = 0
        self.done = not np.isfinite(self._now.barrier)
        self.best, self.best_value = x, self._now.value

    @property
    def _order(self) -> float:
        """From the first to the last of `_ORDERS` as mu falls, geometrically."""
        share = np.log(_FIRST_MU / self._mu) / np.log(_FIRST_MU / _LAST_MU)
        return float(_ORDERS[0] * (_ORDERS[1] / _ORDERS[0]) ** min(1.0, share))

    def step(self) -> None:
        """Take one step, or lower mu where no more is to be gained."""
        now, mu = self._now, self._mu
        self.iterations += 1
        g = now.gradient + mu * now.barrier_gradient
        d, slope = self._direction(now, g)
        self._steps += 1
        result = self._search(d, slope) if slope < 0.0 else None
        if result is not None:
            x, new = result
            self._update(x - self._x, new.gradient - now.gradient, now)
            self._x, self._now = x, new
            if new.value < self.best_value:
                self.best, self.best_value = x, new.value
        elif self._B is not None and slope < 0.0:
            self._B = None  # the BFGS estimate misleads: start it anew
            return
        if result is None or -slope < _MIN_GAIN + 0.1 * mu or self._steps >= _MAX_STEPS:
            self._lower()

    def _lower(self) -> None:
        if self._mu <= _LAST_MU:
            self.done = self._steps < _MAX_STEPS
            self._steps = 0
            return
        self._mu = max(_MU_FACTOR * self._mu, _LAST_MU)
        self._steps = 0
        self._now = self._problem.evaluate(self._x, self._order)

    def _direction(self, now: Evaluation, g: Array) -> tuple[Array, float]:
        H = self._mu * now.barrier_curvature
        if self._B is None:
            # The barrier's own metric, such that the first step is a modest one in it.
            size = np.sqrt(float(now.gradient @ now.gradient) / g.size)
            H = H + np.diag(np.full(g.size, 10.0 * size + 1e-12))
        else:
            H = H + self._B
        # Both parts are positive (semi)definite; a small regularisation guards against rounding.
        H = H + (1e-10 * np.trace(H) / g.size) * np.eye(g.size)
        d = -np.linalg.solve(H, g)
        return d.reshape(self._x.shape), float(g @ d)

    def _search(self, d: Array, slope: float) -> tuple[Array, Evaluation] | None:
        F = self._now.smooth + self._mu * self._now.barrier
        step = min(1.0, _STEP_FRACTION * self._problem.longest_step(self._x, d))
        for _ in range(12):
            x = self._x + step * d
            new = self._problem.evaluate(x, self._order)
            value = new.smooth + self._mu * new.barrier
            if value <= F + 1e-4 * step * slope:
                return x, new
            # The minimum of the parabola through both values and the slope, not too far off.
            if np.isfinite(value):
                bend = value - F - step * slope
                step = float(np.clip(-0.5 * slope * step**2 / bend, 0.1 * step, 0.5 * step))
            else:
                step *= 0.4
        return None

    def _update(self, s: Array, y: Array, now: Evaluation) -> None:
        """BFGS, damped as by Powell so that B stays positive definite."""
        move = s.ravel()
        if self._B is None:
            scale = float(y @ y) / max(abs(float(y @ move)), 1e-300)
            floor = float(np.sqrt(now.gradient @ now.gradient / move.size))
            self._B = np.diag(np.full(move.size, float(np.clip(scale, floor, 100.0 * floor))))
        Bs = self._B @ move
        sBs, sy = float(move @ Bs), float(move @ y)
        if sBs <= 0.0:
            return
        if sy < 0.2 * sBs:
            share = 0.8 * sBs / (sBs - sy)
            y = share * y + (1.0 - share) * Bs
            sy = float(move @ y)
        self._B = self._B - np.outer(Bs, Bs) / sBs + np.outer(y, y) / sy


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
        iterations: steps of all starts together to stop after, None for no such end.
        best: coefficients of the best motion so far, None at first.
        best_value: its criterion.
        starts: criteria of the random motions that were tried.
        history: seconds and value of every improvement.
        status: ``time``, ``interrupted``, ``enough`` (its iterations are used up), ``failed`` (an
            error ended it, after a first motion was found).
        elapsed: how long it took [s], without compilation.
        notes: what went wrong without ending the search in vain, in words.
    """

    problem: MotionProblem
    rng: np.random.Generator
    seconds: float
    iterations: int | None = None
    best: Array | None = None
    best_value: float = np.inf
    starts: list[float] = field(default_factory=list)
    history: list[tuple[float, float]] = field(default_factory=list)
    status: str = "time"
    elapsed: float = 0.0
    notes: list[str] = field(default_factory=list)
    _threads: int = 1
    _begun: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stop: threading.Event = field(default_factory=threading.Event)
    _paused: list[_BarrierSearch] = field(default_factory=list)
    _rungs: dict[int, list[float]] = field(default_factory=dict)
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
        # Before the clock starts: the first time that takes longer than a short search.
        self.problem.compile()
        self._begun = time.monotonic()
        self._threads = threads
        workers = [threading.Thread(target=self._work, daemon=True) for _ in range(threads)]
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
            self.elapsed = self._elapsed()
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

    @property
    def compared(self) -> bool:
        """Whether all first starts are done; each thread was at work on another one at the end."""
        return self._begun_starts - self._threads >= _STARTS

    @property
    def start_value(self) -> float:
        """Criterion of the median of the random motions that were tried."""
        return float(np.median(self.starts)) if self.starts else float("inf")

    def _elapsed(self) -> float:
        return time.monotonic() - self._begun

    def _work(self) -> None:
        try:
            while self._is_running():
                self._run_next_start()
        except BaseException as error:
            self._failure = error
            self._stop.set()

    def _is_running(self) -> bool:
        if self.iterations is not None and self._steps >= self.iterations:
            self.status = "enough"
            return False
        return not self._stop.is_set() and self._elapsed() < self.seconds

    def _run_next_start(self) -> None:
        """Run what is next: a new start, a good one to its end, or the best, perturbed."""
        with self._lock:
            number = self._begun_starts
            self._begun_starts += 1
            rng = np.random.default_rng(self.rng.integers(2**63))
            resumed = None
            if number >= _STARTS and self._paused:
                self._paused.sort(key=lambda descent: descent.best_value)
                resumed = self._paused.pop(0)
                del self._paused[self._threads - 1 :]
        if resumed is not None:
            self._improve(resumed, None, to_the_end=True)
            return
        perturbed = number >= _STARTS and number % 4 != 0 and self.best is not None
        x = self._perturbed(rng) if perturbed else self._random(rng)
        if x is None:
            return
        descent = _BarrierSearch(self.problem, x)
        if not perturbed:
            with self._lock:
                self.starts.append(descent.best_value)
        steps = _RUNGS[0] if number < _STARTS else None
        self._improve(descent, steps, to_the_end=perturbed)
        if number < _STARTS and not descent.done:
            with self._lock:
                self._paused.append(descent)

    def _improve(self, descent: _BarrierSearch, steps: int | None, *, to_the_end: bool) -> None:
        while not descent.done and self._is_running():
            descent.step()
            with self._lock:
                self._steps += 1
                if descent.best_value < self.best_value:
                    self.best, self.best_value = descent.best, descent.best_value
                    self.history.append((self._elapsed(), descent.best_value))
            dominated = self._is_dominated(descent)
            if descent.iterations == steps or (dominated and not to_the_end):
                return

    def _is_dominated(self, descent: _BarrierSearch) -> bool:
        """Whether a search is not among the best third of those after as many steps."""
        if descent.iterations not in _RUNGS:
            return False
        with self._lock:
            others = self._rungs.setdefault(descent.iterations, [])
            others.append(descent.best_value)
            return descent.best_value > sorted(others)[(len(others) - 1) // 3]

    def _random(self, rng: np.random.Generator) -> Array | None:
        """A random motion about a random centre, scaled until it keeps all limits."""
        problem = self.problem
        for _ in range(_TRIES):
            x = rng.standard_normal(problem.shape)
            if not problem.family.anchored:
                centre = problem.centres[rng.integers(problem.centres.shape[0])]
                x[:, :, 0] = (centre - problem.anchor)[problem.moving]
            x = self._scaled_into_limits(x, rng.uniform(0.4, 0.8))
            for _ in range(12):
                if problem.feasible(x):
                    return x
                x = problem.family.scaled(x, 0.75)
            if self._stop.is_set() or self._elapsed() > self.seconds:
                return None
        if self.best is None:
            raise TrajectoryError(
                "no motion was found that keeps all limits, not even a small one: give a start "
                "pose that is free to all sides, or widen the limits."
            )
        self._note("some random starts found no motion that keeps all limits")
        return None

    def _scaled_into_limits(self, x: Array, fraction: float) -> Array:
        """Scale the motion about its centre to a fraction of what the linear limits allow."""
        problem = self.problem
        low, high = np.zeros(x.shape[:2]), np.full(x.shape[:2], 1e3)
        for _ in range(40):
            middle = 0.5 * (low + high)
            use = problem.linear_use(problem.family.scaled(x, middle)).reshape(middle.shape)
            low, high = np.where(use < 1.0, middle, low), np.where(use < 1.0, high, middle)
        return problem.family.scaled(x, fraction * low)

    def _perturbed(self, rng: np.random.Generator) -> Array | None:
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
            x: Array = self.problem.family.scaled(best, 0.9) + change
            if self.problem.feasible(x):
                return x
            change *= 0.6
        return None
