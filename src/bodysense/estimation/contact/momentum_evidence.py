"""`MomentumContacts`: contacts in a control loop, from positions, velocities and joint torques.

Over any window the momentum balance (see `MomentumObserver`) says what external torques were in the
mean, without accelerations and without the lag of a filter,

    ∫ tau_ext dt = p(t1) - p(t0) - ∫ u dt,      u = tau - friction + Cᵀ v - g,

with noise of torques, which adds up, and of velocities at both ends, which does not:

    Sigma = Σ Sigma_tau h² + M Sigma_v M (t0) + M Sigma_v M (t1)

and a wrench f on a link brings ∫ Jᵀ dt f, so that score and information about it are exact for each
window, whatever the robot does meanwhile.

A drive that stands may hold any torque up to its static friction. That is no noise: what a period
leaves of the balance, up to that bound, is taken out, and only what is beyond it counts; a drive
of which nothing is left says nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bodysense.compiled.views import Table, zeros_of
from bodysense.errors import MismatchError
from bodysense.estimation._kernels.link_scores import Residuals, ScoreMemory, link_scores
from bodysense.estimation._kernels.momentum_filter import BEGAN, NO_VELOCITY, TIME
from bodysense.estimation.contact.detector import WINDOWS, DetectionSettings
from bodysense.estimation.contact.ongoing import ContactState
from bodysense.estimation.contact.online import (
    LEARNING,
    MEMORY,
    ContactDetector,
)
from bodysense.estimation.contact.window_sums import WindowSums, count_tests
from bodysense.estimation.friction_spread import coulomb_friction
from bodysense.estimation.map_dynamics.body_tree import BodyTree
from bodysense.estimation.map_dynamics.priors import GaussianPrior
from bodysense.estimation.momentum.estimate import FORCE_STD, MOMENT_STD, places_of
from bodysense.estimation.momentum.observer import MomentumObserver
from bodysense.estimation.posterior import Posterior
from bodysense.robot._kernels.tree import DYNAMICS_WIDTH, scratch_of
from bodysense.spatial.arrays import Array

PERIOD = 0.02
"""s between two judgements: a push of a hand takes some 50 ms to rise."""

_BOUND = 1.5
"""Static friction over the mean standard deviation of friction of either direction: 4/π while the
sign of a measured velocity is that of its noise, and a fifth more, as in logs."""

_HELD = 0.2  # of a static friction: by how much more it may be than is known
_PATIENCE = 1.5  # periods for which velocities that are missing at the end of one are waited for
_UNKNOWN_SPEED = 1.0  # rad/s or m/s, standard deviation of one that does not come
_NOTHING = 1e9  # times the largest variance: that of a drive whose friction hides all
_ANY_WRENCH = np.diag([FORCE_STD**2] * 3 + [MOMENT_STD**2] * 3)


class MomentumContacts:
    """A momentum observer in a control loop that tells contacts too.

    Attributes:
        stream: the observer with its memory.
        detector: that judges the evidence.
        posterior: of the external torques after the last sample.
    """

    def __init__(
        self,
        observer: MomentumObserver,
        priors: Mapping[str, GaussianPrior | None],
        *,
        period: float = PERIOD,
        settings: DetectionSettings | None = None,
        lasting: Mapping[str, GaussianPrior | None] | None = None,
        learning: float = LEARNING,
        memory: float = MEMORY,
        inflation: Mapping[str, float] | Mapping[tuple[str, int], float] | None = None,
    ) -> None:
        """Lay out, and compile.

        Args:
            observer: of the robot.
            priors: of the external wrench (6) on each link that is tested; `None`: anything that a
                person does to a robot.
            period: between two judgements [s].
            settings: what makes a contact; see `ContactDetector`, as for all that follows.
            lasting: links that are in contact all the time, as feet are that stand: what they carry
                is left open.
            learning: time at the beginning that is taken for free of contact [s].
            memory: over which noise is followed while nothing touches [s].
            inflation: as learned before.
        """
        open_links = {} if lasting is None else lasting
        both = sorted(set(priors) & set(open_links))
        if both:
            raise MismatchError(f"{', '.join(both)}: give each link as tested or as lasting.")
        self.stream, tree = observer.stream(), BodyTree.of(observer.robot)
        tested = {link: _covariance(prior) for link, prior in priors.items()}
        self.detector = ContactDetector(
            tested,
            period=period,
            settings=settings,
            learning=learning,
            memory=memory,
            inflation=inflation,
            tests=count_tests(tuple(tested), tree.names, tree.parent),
        )
        self.posterior: Posterior | None = None
        frames, nv = (*priors, *open_links), observer.robot.nv
        self._open = [_covariance(prior) for prior in open_links.values()]
        self._jacobians = _Jacobians(observer, frames)
        self._ends = np.zeros((WINDOWS[-1] + 1, nv, nv))
        self._end = 0
        self._coulomb = np.zeros(nv)
        behind = np.array([side == "joint" for side in observer.sides])
        friction = np.where(behind, 0.0, coulomb_friction(observer.robot))
        self._coulomb[nv - friction.size :] = friction
        L = len(frames)
        self._sums = [WindowSums(shape) for shape in ((nv,), (nv,), (nv,), (nv,), (L, nv, 6))]
        W = len(WINDOWS)
        self._told = [np.zeros((W, *shape)) for shape in ((nv,), (nv,), (nv,), (nv,), (L, nv, 6))]
        self._windows = np.array(WINDOWS)[:, None]
        self._impulse, self._noise, self._held = np.zeros((3, nv))
        self._drift, self._spread = np.zeros((2, nv))
        self._p, self._J = np.zeros(nv), np.zeros((L, nv, 6))
        self._t, self._span = np.nan, 0.0

    @property
    def state(self) -> ContactState:
        """After the last sample."""
        return self.detector.state

    def step(
        self,
        t: float,
        q: ArrayLike,
        dq: ArrayLike,
        tau: ArrayLike,
        base_twist: ArrayLike | None = None,
        gravity: ArrayLike | None = None,
    ) -> ContactState:
        """What touches after one more sample; arguments are those of `MomentumStream.step`."""
        stream = self.stream
        self.posterior = stream.step(t, q, dq, tau, base_twist, gravity)
        memory = stream.memory
        now = float(memory.clock[TIME])
        if memory.clock[BEGAN] == now:
            self._restart(now)
            return self.state
        h = now - self._t
        if not h > 0.0:
            return self.state
        self._t = now
        self._span += h
        self._impulse += (0.5 * h) * (self._drift + memory.drift)
        self._noise += (h * h) * memory.noise
        self._held += h * np.sqrt(memory.between)
        lacking = memory.lacking == NO_VELOCITY
        if lacking.any():  # a velocity that is predicted does not tell when a joint sticks
            self._held[lacking] += h * self._coulomb[lacking]
        self._drift[:] = memory.drift
        period = self.detector.period
        if self._span < period * (1.0 - 1e-9) or not stream.updated:
            return self.state
        if lacking.any() and self._span < _PATIENCE * period:
            return self.state
        return self._close(now, lacking)

    def _restart(self, t: float) -> None:
        memory = self.stream.memory
        self._t, self._span = t, 0.0
        self._impulse[:] = self._noise[:] = self._held[:] = 0.0
        self._drift[:] = memory.drift
        M = self.stream.mass_matrix
        self._p = M @ memory.v
        self._ends[:] = (M * memory.spread) @ M
        self._J = self._jacobians.at(memory.q)
        self.detector.begin(t)

    def _close(self, t: float, lacking: NDArray[np.bool_]) -> ContactState:
        """Judge the period that ends now."""
        memory, M = self.stream.memory, self.stream.mass_matrix
        p, J = M @ memory.v, self._jacobians.at(memory.q)
        bound = _BOUND * self._held
        left = p - self._p - self._impulse
        left -= np.clip(left, -bound, bound)
        H, silent = self._span, (left == 0.0).astype(np.float64)
        pushed = left, self._noise, bound, silent, (0.5 * H) * (J + self._J)
        for sums, x, told in zip(self._sums, pushed, self._told, strict=True):
            sums.push(x, 1.0, told)
        self._p, self._J, self._span = p, J, 0.0
        self._impulse[:] = self._noise[:] = self._held[:] = 0.0
        left, noise, bound, silent, jacobian = self._told
        self._end = (self._end + 1) % len(self._ends)
        self._ends[self._end] = (M * np.where(lacking, _UNKNOWN_SPEED**2, memory.spread)) @ M
        before = (self._end - self._windows[:, 0]) % len(self._ends)
        Sigma = self._ends[self._end] + self._ends[before]
        nothing = np.where(silent >= self._windows, _NOTHING * Sigma.max(), 0.0)
        np.einsum("wii->wi", Sigma)[:] += noise + (_HELD * bound) ** 2 + nothing
        L = len(self.detector.links)
        for k, P in enumerate(self._open):
            Sigma += jacobian[:, L + k] @ P @ jacobian[:, L + k].swapaxes(1, 2)
        G = np.linalg.inv(Sigma)
        J_t = jacobian[:, :L].swapaxes(2, 3)
        white = J_t @ G[:, None]
        score = (white @ left[:, None, :, None])[..., 0]
        hidden = np.sqrt(np.einsum("wi,wij,wj->w", bound, G, bound))
        return self.detector.judge(t, score, white @ jacobian[:, :L], hidden)


class _Jacobians:
    """Jacobians (L, nv, 6) of frames, transposed."""

    def __init__(self, observer: MomentumObserver, frames: tuple[str, ...]) -> None:
        robot, L = observer.robot, len(frames)
        nv = robot.nv
        one = np.eye(nv)[None]
        self._x = Residuals(
            np.zeros((1, robot.n_joints)),
            one,
            one.copy(),
            np.zeros((1, L, nv, 6)),
            np.zeros((1, L, 1, 6, 6)),
        )
        self._tables = (
            observer.tables[0],
            Table(scratch_of(robot.tree, DYNAMICS_WIDTH)),
            Table(places_of(observer, frames, np.ones(nv))),
            Table(zeros_of(ScoreMemory, nv=nv, L=L)),
            Table(self._x),
        )
        self._addresses = tuple(table.address for table in self._tables)

    def at(self, q: Array) -> Array:
        self._x.q[0] = q
        link_scores(0, 1, *self._addresses)
        jacobians: Array = self._x.score[0].copy()
        return jacobians


def _covariance(prior: GaussianPrior | None) -> Array:
    return _ANY_WRENCH if prior is None else prior.covariance
