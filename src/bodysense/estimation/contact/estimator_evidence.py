"""`EstimatorContacts`: contacts beside an `EstimatorStream`, from all sensors that it has.

Once per period the samples since the last one are averaged, as they come out of the stream's gate
and low-pass, and solved again with hardly any variance of the tested links: then each link's own
evidence comes out, as in logs (see `log.contacts`). Behind a low-pass the last sample stands for
the period, half a period of the cut-off long, whose noise is nearly independent of the one before:
of two first-order filters at a = 2π f_1 the noise is correlated as (1 + a τ) exp(-a τ).

A drive that stands, or reverses, may hold any torque up to its static friction. That is no noise:
what the motion leaves of its torque, up to that bound, is taken out, and what is beyond it counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bodysense.errors import MismatchError, unknown_name
from bodysense.estimation.contact.detector import WINDOWS, DetectionSettings
from bodysense.estimation.contact.ongoing import ContactState
from bodysense.estimation.contact.online import LEARNING, MEMORY, ContactDetector
from bodysense.estimation.contact.window_sums import count_tests
from bodysense.estimation.friction_spread import coulomb_friction
from bodysense.estimation.map_dynamics.estimator import MapDynamics
from bodysense.estimation.map_dynamics.priors import GaussianPrior
from bodysense.estimation.map_dynamics.solution import Samples
from bodysense.estimation.map_dynamics.stream import EstimatorStream
from bodysense.sensors import JointTorque
from bodysense.spatial.arrays import Array

PERIOD = 0.025
"""s between two judgements of a stream that passes no low-pass."""

_SHARE = 1e-7  # of a prior's variance that links have while each is looked at by itself, as in logs
_SETTLED = 5.0  # delays of the low-pass after which its beginning is forgotten
_PAUSE = 4.0  # periods without a sample after which all begins anew
_SLOW = 0.012  # rad/s or m/s, six times that of creeping, below which a drive may reverse or stand
_BOUND = 1.2  # static friction over that which the model knows, as in logs
_HELD = 0.2  # of a static friction: by how much more it may be than is known
_MIDDLE = 8  # periods whose mean has the noise of a friction that lasts
_ASIDE = 1e-6  # weight of readings that only are to be predicted
_FRESH = 4  # periods after which covariances are computed anew: a joint at 2 rad/s turns by 0.2 rad
_CHANGED = 0.2  # share by which a weight of readings has changed, after which they are, too
_WRENCH = slice(13, 19)  # of what is estimated per link


class EstimatorContacts:
    """Tells contacts after each step of a stream.

    Attributes:
        detector: that judges the evidence.
    """

    def __init__(
        self,
        stream: EstimatorStream,
        links: Sequence[str] | None = None,
        *,
        settings: DetectionSettings | None = None,
        lasting: Sequence[str] = (),
        period: float | None = None,
        learning: float = LEARNING,
        memory: float = MEMORY,
        inflation: Mapping[str, float] | Mapping[tuple[str, int], float] | None = None,
    ) -> None:
        """Lay out, and compile.

        Args:
            stream: that is stepped before.
            links: that are tested; by default all whose wrench is not assumed to be known, but for
                lasting ones.
            settings: what makes a contact; see `ContactDetector`, as for all that follows.
            lasting: links that are in contact all the time, as feet are that stand: their wrenches
                stay open while others are tested.
            period: between two judgements [s]; by default half a period of the stream's low-pass,
                0.025 s without one.
            learning: time at the beginning that is taken for free of contact [s].
            memory: over which noise is followed while nothing touches [s].
            inflation: as learned before.

        Raises:
            MismatchError: no link is tested.
            UnknownNameError: a link whose wrench the estimator does not have.
        """
        problem, cutoff = stream.problem, stream.cutoff
        every = problem.open_links
        tested = [x for x in (every if links is None else links) if x not in lasting]
        for name in (*tested, *lasting):
            if name not in every:
                raise unknown_name("link whose external wrench is open", name, every)
        if not tested:
            raise MismatchError(
                "the external wrench of no link is open: say `external_wrenches:` in the sensors "
                "file, or give priors of wrenches."
            )
        self.stream, self._links = stream, tuple(tested)
        priors = {link: problem.assumptions.wrench_of(link) for link in tested}
        self._own = _looking(problem, priors, tuple(lasting))
        if period is None:
            period = PERIOD if cutoff is None else 0.5 / cutoff
        self.detector = ContactDetector(
            {link: prior.covariance for link, prior in priors.items()},
            period=period,
            settings=settings,
            delay=stream.delay,
            learning=learning,
            memory=memory,
            inflation=inflation,
            correlation=1.0 if cutoff is None else _correlation(stream.delay, period),
            tests=count_tests(self._links, problem.tree.names, problem.tree.parent),
        )
        self._averages = cutoff is None
        self._mean = np.stack([prior.mean for prior in priors.values()])
        exact = np.abs(self.detector.units).max(axis=2) == 0.0
        self._exact = np.eye(6) * exact[:, None, :]
        self._rows = np.array([problem.tree.names.index(link) for link in tested])
        samples = stream.taken
        self._samples = samples.part(slice(None))
        self._sums = [np.zeros_like(x) for x in samples[:3]]
        self._y, self._squares = np.zeros_like(samples.y), np.zeros_like(samples.weight)
        self._there = np.zeros(samples.y.shape, dtype=np.int64)
        self._found = self._own.solve(self._samples, "blocks")
        self._means = self._own.solve(self._samples, "means")
        self._pattern, self._weight = np.isfinite(self._samples.y), self._samples.weight.copy()
        self._age = _FRESH
        self._G, self._A = self._information()
        self._drives = _Drives(self._own, self._samples)
        self._first = problem.layout.arrays.first
        self._count, self._t, self._due, self._from = 0, -np.inf, np.nan, np.nan

    @property
    def state(self) -> ContactState:
        """After the last sample."""
        return self.detector.state

    def step(self, t: float) -> ContactState:
        """What touches, after the stream has taken the sample of this time."""
        if not (t > self._t or t < self._t - 1.0):
            return self.state
        period = self.detector.period
        if not abs(t - self._t) < _PAUSE * period:
            self._begin(t)
        self._t = t
        if t < self._from:
            return self.state
        if self._averages:
            self._add(self.stream.taken)
        if t - self._due < period * (1.0 - 1e-9):
            return self.state
        self._due = t if t - self._due > 1.5 * period else self._due + period
        return self._judge(t)

    def _begin(self, t: float) -> None:
        self._from = t + _SETTLED * self.stream.delay
        self._due = self._from
        self._clear()
        self.detector.begin(t)

    def _clear(self) -> None:
        self._count = 0
        for x in (*self._sums, self._y, self._squares, self._there):
            x[:] = 0

    def _add(self, samples: Samples) -> None:
        """Add a sample to the means of the period."""
        for total, x in zip(self._sums, samples[:3], strict=True):
            total += x
        there = np.isfinite(samples.y)
        np.add(self._y, samples.y, out=self._y, where=there)
        self._there += there
        self._drives.take_speed(samples.dq)
        self._squares += samples.weight**2
        self._count += 1

    def _judge(self, t: float) -> ContactState:
        """Judge the period that ends now."""
        x, n = self._samples, max(1, self._count)
        if self._averages:
            for mean, total in zip(x[:3], self._sums, strict=True):
                np.divide(total, n, out=mean)
            with np.errstate(invalid="ignore"):
                np.divide(self._y, self._there, out=x.y)
            share = np.minimum.reduceat(self._there, self._first[:-1], axis=1) / n
            x.weight[:] = np.sqrt(self._squares / n * np.maximum(share, 1e-12))
            x.a0[:] = self.stream.taken.a0
            self._clear()
        else:
            for own, theirs in zip(x[:6], self.stream.taken[:6], strict=True):
                own[:] = theirs
            self._drives.take_speed(x.dq)
        hidden = self._drives.take_friction(n)
        score, information = self._evidence_now()
        return self.detector.take(t, n * score, n * information, hidden)

    def _evidence_now(self) -> tuple[Array, Array]:
        """(L, 6) and (L, 6, 6) of a single sample in units of the prior.

        See `Evidence.from_posteriors`. Covariances change as the robot moves, or as readings come
        and go: they are computed now and then, or when that happens, and always in a contact.
        """
        x = self._samples
        there, weight = np.isfinite(x.y), x.weight
        self._age += 1
        changed = (there != self._pattern).any() or (
            np.abs(weight - self._weight) > _CHANGED * self._weight
        ).any()
        if self._age >= _FRESH or changed or self.state.contacts:
            self._own.solve_into(x, self._found)
            self._age, self._pattern, self._weight = 0, there, weight.copy()
            d = self._found.d
            self._G, self._A = self._information()
        else:
            self._own.solve_into(x, self._means)
            d = self._means.d
        mean = d[0, self._rows, _WRENCH] - self._mean
        return np.matmul(self._G, mean[:, :, None])[:, :, 0], self._A

    def _information(self) -> tuple[Array, Array]:
        """(L, 6, 6) of scores by means, and information, from the covariances."""
        U = self.detector.units
        inner = self._found.external[0, self._rows]
        C = U @ inner @ U.swapaxes(1, 2) / _SHARE + self._exact
        if not np.isfinite(C).all():
            return np.full(C.shape, np.nan), np.zeros(C.shape)
        G = np.linalg.inv(C)
        return G @ U / _SHARE, (G - np.eye(6)) / _SHARE


class _Drives:
    """Friction of drives that stand."""

    def __init__(self, own: MapDynamics, samples: Samples) -> None:
        """Find the sensors whose readings hold it."""
        robot, layout = own.robot, own.layout
        friction = coulomb_friction(robot)
        sensors = [
            s
            for s in own.sensors
            if isinstance(s, JointTorque) and s.side == "drive" and friction[s.joint_index(robot)]
        ]
        if own.tree.floating:
            sensors = []
        self._own, self._samples, self._layout = own, samples, layout
        self.joints = np.array([s.joint_index(robot) for s in sensors], dtype=np.int64)
        place = np.argsort(layout.order)
        self._rows = place[[layout.slices[s.name].start for s in sensors]] if sensors else None
        self._blocks = np.array([layout.block_of[s.name] for s in sensors], dtype=np.int64)
        self._bound = _BOUND * friction[self.joints]
        self._held = _HELD * self._bound
        self._stated = np.array([np.sqrt(s.covariance[0, 0]) for s in sensors])
        self._found = own.solve(samples, "means") if sensors else None
        self._low, self._high = (np.full(robot.n_joints, x) for x in (np.inf, -np.inf))

    def take_speed(self, dq: Array) -> None:
        """Note velocities (1, n) of a sample of the period."""
        if self._rows is not None:
            np.minimum(self._low, dq[0], out=self._low)
            np.maximum(self._high, dq[0], out=self._high)

    def take_friction(self, n: int) -> float:
        """Take out of the readings what friction may be, in the means of n samples.

        Returns how much it may have hidden, in standard deviations of the means.
        """
        x, rows, found = self._samples, self._rows, self._found
        if rows is None or found is None:
            return 0.0
        stands: NDArray[np.bool_] = ((self._low < _SLOW) & (self._high > -_SLOW))[self.joints]
        self._low[:], self._high[:] = np.inf, -np.inf
        if not stands.any():
            return 0.0
        some, rows = self._blocks[stands], rows[stands]
        x.dq[0, self.joints[stands]] = 0.0  # where friction has no sign
        weight = x.weight[0, some].copy()
        x.weight[0, some] *= _ASIDE
        self._own.solve_into(x, found)
        bound, held = self._bound[stands], self._held[stands]
        x.y[0, rows] -= np.clip(found.residual[0, rows], -bound, bound)
        more = held / self._stated[stands] * np.sqrt(_MIDDLE * n)
        weight /= np.sqrt(1.0 + (weight * more) ** 2)
        x.weight[0, some] = weight
        return float(np.linalg.norm(bound / self._stated[stands] * weight) * np.sqrt(n))


def _looking(
    problem: MapDynamics, priors: Mapping[str, GaussianPrior], lasting: tuple[str, ...]
) -> MapDynamics:
    """The estimator with hardly any variance of what is tested, and none of other wrenches."""
    nothing = GaussianPrior.zero(6)
    wrenches = dict.fromkeys(problem.open_links, nothing)
    wrenches |= {link: problem.assumptions.wrench_of(link) for link in lasting}
    for link, prior in priors.items():
        wrenches[link] = GaussianPrior(prior.mean, _SHARE * prior.covariance)
    return problem.with_assumptions(replace(problem.assumptions, wrench=nothing, wrenches=wrenches))


def _correlation(delay: float, period: float) -> Array:
    """(W,) variance of sums over windows, over that of independent periods."""
    tau = period * np.arange(WINDOWS[-1]) * 2.0 / max(delay, 1e-12)
    rho = (1.0 + tau) * np.exp(-tau)
    return np.array([1.0 + 2.0 * sum((1.0 - k / w) * rho[k] for k in range(1, w)) for w in WINDOWS])
