"""What IV and DIDIM share: simulate with an estimate, estimate with the simulation, and again."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace

import numpy as np

from bodysense.identification.consistent.projection import consistent_least_squares
from bodysense.identification.identification import Iteration
from bodysense.identification.linear.least_squares import Solver, Weighing
from bodysense.identification.prior import Prior
from bodysense.identification.regression import Regression
from bodysense.identification.simulated.closed_loop import ClosedLoop
from bodysense.identification.simulated.simulating import MORE_GAIN, Simulating
from bodysense.spatial.arrays import Array

_SHORTER = (0.5, 0.25, 0.1)
"""Shares of a step that are simulated together, where the whole step leads astray."""

_SWINGING = 0.8
"""Share of the step before that a step must not exceed, if the iteration is to settle."""

_FINEST = 1e-8
"""Relative change of predictions that is none, whatever the noise."""


@dataclass(frozen=True)
class Refined(Simulating):
    """Base of methods that solve a linear problem with simulated motions, again and again.

    What is simulated can always exist as a robot: the consistent estimate of the same rows. Where
    the rows leave directions open, or noise pushes links beyond what can exist, a simulation of
    the estimate itself would be lost. Steps that lead astray are shortened.
    """

    @abstractmethod
    def refit(
        self, problem: Regression, prior: Prior, simulated: Regression, theta: Array, solve: Solver
    ) -> Weighing:
        """Estimate once more.

        Args:
            problem: the recordings.
            prior: what was known before.
            simulated: the same with simulated motions.
            theta: (p,) with which they were simulated.
            solve: the solver of reduced problems.
        """

    def weigh(self, problem: Regression, prior: Prior, solve: Solver) -> Weighing:
        """Simulate and solve until nothing moves."""
        loop = self.loop(problem)
        plain, theta, simulated = self.start(loop, prior, solve)
        if simulated is None:
            return self.astray(plain, [])
        found, last = plain, theta
        trace: list[Iteration] = []
        settled, share = False, 1.0
        for _ in range(self.iterations):
            found = self.refit(problem, prior, simulated, theta, solve)
            if found.solution.failure:  # of rows that the simulation has made, not of the recording
                return self.astray(plain, trace)
            step = found.solution.theta - last
            last = found.solution.theta
            change = _change(found, prior, step)
            trace.append(Iteration(found.stack.rest, change))
            settled = change < self.tolerance or _relative_change(found, prior, step) < _FINEST
            if settled:
                break
            if len(trace) > 1 and change > _SWINGING * trace[-2].change:
                share *= 0.5  # two estimates may lead to each other and back
            theta, simulated = _step(loop, theta, share * (_possible(found, prior) - theta))
            if simulated is None:
                return self.astray(plain, trace)
        moved = None
        if not loop.gains_known:
            moved = self._with_more_gain(loop, prior, found, solve)
        return replace(
            found, trace=tuple(trace), converged=settled, note=self.notes(loop, plain, moved)
        )

    def _with_more_gain(
        self, loop: ClosedLoop, prior: Prior, found: Weighing, solve: Solver
    ) -> float | None:
        """How far predictions move with higher gains; `None` if they cannot be simulated."""
        theta = _possible(found, prior)
        other = loop.with_gains(MORE_GAIN).simulated(theta[None])[0]
        if other is None:
            return None
        again = self.refit(loop.problem, prior, other, theta, solve)
        return _change(found, prior, again.solution.theta - found.solution.theta)


def _possible(found: Weighing, prior: Prior) -> Array:
    """(p,) the consistent estimate of the same rows; the estimate itself if there is none."""
    consistent = consistent_least_squares(prior, found.stack)
    return found.solution.theta if consistent.failure else consistent.theta


def _step(loop: ClosedLoop, theta: Array, step: Array) -> tuple[Array, Regression | None]:
    """As far along a step as the simulation follows the recorded motion."""
    whole = loop.simulated((theta + step)[None])[0]
    if whole is not None:
        return theta + step, whole
    shorter = [theta + share * step for share in _SHORTER]
    for candidate, run in zip(shorter, loop.simulated(np.stack(shorter)), strict=True):
        if run is not None:
            return candidate, run
    return theta, None


def _change(found: Weighing, prior: Prior, step: Array) -> float:
    """How far predictions move with a step of theta, in standard deviations of the residual."""
    moved = np.linalg.norm(found.stack.A @ prior.to_base(step))
    return float(moved / np.sqrt(max(found.stack.rows, 1)))


def _relative_change(found: Weighing, prior: Prior, step: Array) -> float:
    """The same, relative to the predictions themselves."""
    whole = float(np.linalg.norm(found.stack.A @ prior.to_base(found.solution.theta)))
    return float(np.linalg.norm(found.stack.A @ prior.to_base(step))) / max(whole, 1e-300)
