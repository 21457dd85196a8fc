"""What turns a linear identifier into one over robots that can physically exist."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from bodysense.identification.consistent.projection import consistent_least_squares
from bodysense.identification.consistent.relaxation import Relaxation
from bodysense.identification.consistent.weight_choice import choose_weight
from bodysense.identification.factors import Stack
from bodysense.identification.identification import Identification, Status
from bodysense.identification.linear.least_squares import LinearIdentifier, Solution, Weighing
from bodysense.identification.prior import Prior
from bodysense.identification.regression import Regression
from bodysense.spatial.arrays import Array


@dataclass(frozen=True)
class Physical(LinearIdentifier):
    """Solves over links that can exist and drives that dissipate, thesis eqs (62)-(64).

    Attributes:
        relaxation: distance to the robot file that is added to the squared error: ``euclidean``
            (in plausible sizes of the parameters), ``pullback`` (of links, whatever their units
            and frames) or ``entropic`` (the same, and no link becomes a plate, a rod or a point).
        relaxation_weight: weight of the distance to the robot file: with 1 the file counts like
            one measurement that is off by a plausible size; ``auto`` (`None` in Python) chooses it
            on blocks left out of the fit.
        trusted: whether intervals take the weight of the relaxation for how sure the robot file
            is. With a weight that was chosen they never do: a file that helps to predict may still
            be off by a plausible size.
    """

    relaxation: str = "euclidean"
    relaxation_weight: float | None = 1.0
    trusted: bool = True

    consistent: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self._relaxation()  # refuses what it does not know
        others = getattr(super(), "__post_init__", None)
        if others is not None:  # of the method whose weights are used
            others()

    def _relaxation(self) -> Relaxation:
        weight = self.relaxation_weight
        return Relaxation(self.relaxation, 1.0 if weight is None else weight)

    @property
    def prior_spread(self) -> float:
        """That of the relaxation."""
        return float(1.0 / np.sqrt(self._relaxation().weight))

    def prior_factor(self, prior: Prior) -> Array | None:
        """That of the relaxation, without spread where constraints hold parameters."""
        relaxation = self._relaxation()
        if relaxation.kind == "euclidean" and not prior.constraints.e.size and self.trusted:
            return None
        if relaxation.kind == "entropic":  # which to second order is the pullback
            relaxation = replace(relaxation, kind="pullback")
        return prior.constrained_factor(relaxation.factor(prior))

    def prior_doubt(self, prior: Prior) -> Array | None:
        """Plausible sizes, where the weight was chosen."""
        return None if self.trusted else prior.constrained_factor(np.diag(prior.size))

    def settled(self, problem: Regression, prior: Prior) -> Physical:
        """The same with its weight chosen."""
        if self.relaxation_weight is not None:
            return self
        weight = choose_weight(problem, prior, self.relaxation)
        return replace(self, relaxation_weight=weight, trusted=False)

    def estimate(
        self, problem: Regression, prior: Prior, rng: np.random.Generator | None = None
    ) -> Weighing:
        """Choose the weight if it is open; then weigh and solve."""
        if self.relaxation_weight is None:
            return self.settled(problem, prior).estimate(problem, prior, rng)
        return super().estimate(problem, prior, rng)

    def fit(self, problem: Regression, *, rng: np.random.Generator | None = None) -> Identification:
        """Identify, with the weight chosen if it is open."""
        if self.relaxation_weight is not None:
            return super().fit(problem, rng=rng)
        chosen = self.settled(self.rows(problem), Prior.of(problem))
        found = chosen.fit(problem, rng=rng)
        note = f"Relaxation weight {chosen.relaxation_weight:.3g}, chosen on blocks left out."
        return replace(found, status=Status(found.status.ok, f"{note} {found.status.message}"))

    def solve(self, problem: Regression, prior: Prior, stack: Stack) -> Solution:
        """By a semidefinite program."""
        return consistent_least_squares(prior, stack, self._relaxation())
