"""The identifiers by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from bodysense.errors import unknown_name
from bodysense.identification.consistent.pc_closest import ClosestConsistent
from bodysense.identification.consistent.pc_points import PointMasses
from bodysense.identification.consistent.physical import (
    ConsistentIRLS,
    ConsistentOLS,
    ConsistentSQPIRLS,
    ConsistentSQPOLS,
    ConsistentSQPWLS,
    ConsistentWLS,
)
from bodysense.identification.filtering.filters import CDKF, EKF, PF, SRCDKF, SREKF, SRUKF, UKF
from bodysense.identification.identification import Identifier
from bodysense.identification.linear.energy import Energy
from bodysense.identification.linear.irls import IRLS
from bodysense.identification.linear.least_squares import OLS, TLS, WLS, few_rows
from bodysense.identification.linear.ml import ML
from bodysense.identification.linear.ridge import Ridge
from bodysense.identification.linear.rls import RLS
from bodysense.identification.neural.adaline import Adaline
from bodysense.identification.neural.hopfield import Hopfield
from bodysense.identification.prior import Prior
from bodysense.identification.regression import Regression
from bodysense.identification.simulated.iv import DIDIM, IV, ConsistentDIDIM, ConsistentIV
from bodysense.identification.simulated.output_error import CLIE, CLOE
from bodysense.spatial.pseudo_inertia import physical_consistency

IDENTIFIERS: Mapping[str, type[Identifier]] = MappingProxyType(
    {
        method.name: method
        for method in (
            OLS,
            WLS,
            IRLS,
            TLS,
            Ridge,
            RLS,
            Energy,
            ML,
            ConsistentOLS,
            ConsistentWLS,
            ConsistentIRLS,
            ConsistentSQPOLS,
            ConsistentSQPWLS,
            ConsistentSQPIRLS,
            PointMasses,
            ClosestConsistent,
            ConsistentIV,
            ConsistentDIDIM,
            IV,
            DIDIM,
            CLOE,
            CLIE,
            EKF,
            SREKF,
            UKF,
            SRUKF,
            CDKF,
            SRCDKF,
            PF,
            Adaline,
            Hopfield,
        )
    }
)
"""Every identifier by the name that the command line knows it by."""

DEFAULT = ConsistentWLS.name


_ALTERNATIVES = {IV.name: ConsistentIV.name, DIDIM.name: ConsistentDIDIM.name}
"""Methods whose own form over physical robots keeps what they were chosen for."""


def consistent_alternative(name: str) -> str:
    """The method to advise where that one found a robot that cannot exist."""
    return _ALTERNATIVES.get(name, DEFAULT)


def identifier(name: str = DEFAULT) -> Identifier:
    """The identifier of that name, with its default settings."""
    if name not in IDENTIFIERS:
        raise unknown_name("method", name, IDENTIFIERS)
    return IDENTIFIERS[name]()


# Which method to take: the decisions of thesis figure 43, made by what the recordings show.
#
#     Is the controller known, and what it was told?   then the closed loop could be simulated (IV,
# DIDIM, output error); otherwise inverse models     Is the rate high enough for differences?
# if not, and the loop can be simulated: IV     Is the noise of the joints alike?
# ordinary or weighted least squares     Are there outliers?                              robust
# weights     Does the motion excite all parameters?           otherwise lean on the prior, as
# strongly as                                                      predicts best what the fit has
# not seen
#
# Links that can exist are always asked for: where the data are good it costs nothing, where they
# are poor it decides.

AUTO = "auto"
"""By which the command line asks for a choice."""

_LOW_RATE = 100.0  # Hz, below which the thesis advises against plain differences
_SAMPLES_A_PERIOD = 8.0  # of the cut-off, from which central differences are good to a per cent
_ALIKE = 1.5  # ratio of noise levels up to which joints count alike
_FAR = 4.0  # standard deviations; a normal distribution has 6e-5 beyond
_OUTLIERS = 2e-3  # share beyond, from which robust weights are worth their cost
_RELIABLE = 3.0  # information in units of the prior's below which a direction is poorly excited


@dataclass(frozen=True)
class MethodChoice:
    """A method and why it was chosen.

    Attributes:
        identifier: the method with its settings.
        reasons: in the order of the decisions, in words.
    """

    identifier: Identifier
    reasons: tuple[str, ...]

    def summary(self) -> str:
        """The choice in a sentence."""
        return f"{self.identifier.name}: {' '.join(self.reasons)}"


def choose_method(problem: Regression) -> MethodChoice:
    """Choose a method for a problem, its recordings filtered."""
    known, controller = _controller(problem)
    unsure, rate = _rate(problem)
    reasons = [controller, rate]
    prior = Prior.of(problem)
    first = WLS().estimate(problem, prior)
    weak = _weak_directions(problem, prior, first.sigma)
    relaxation = "euclidean"
    weight: float | None = 1.0
    if weak:
        possible = all(physical_consistency(prior.theta[link]).consistent for link in prior.links)
        relaxation, weight = ("pullback" if possible else "euclidean"), None
        reasons.append(
            f"The motion leaves {weak} of {problem.size} directions to the prior: relaxed towards "
            f"it ({relaxation}), as strongly as predicts blocks best that are left out."
        )
    else:
        reasons.append("The motion excites every direction: the prior is not needed.")
    if known and unsure:
        reasons.append("The simulated motion needs no differences: instrumental variables.")
        return MethodChoice(
            ConsistentIV(relaxation=relaxation, relaxation_weight=weight), tuple(reasons)
        )
    if few_rows(problem):
        reasons.append("There are too few rows to tell the noise of the joints apart.")
        return MethodChoice(
            ConsistentOLS(relaxation=relaxation, relaxation_weight=weight), tuple(reasons)
        )
    far = _far_share(problem, prior.to_base(first.solution.theta), first.sigma)
    if far > _OUTLIERS:
        reasons.append(
            f"{100.0 * far:.1f} % of the residuals lie beyond {_FAR:g} standard deviations: robust "
            "weights."
        )
        return MethodChoice(
            ConsistentIRLS(relaxation=relaxation, relaxation_weight=weight), tuple(reasons)
        )
    levels = first.sigma[first.sigma > 0.0]
    ratio = float(levels.max() / levels.min())
    if ratio > _ALIKE:
        reasons.append(f"The noise of the joints differs by {ratio:.1f} times: weighted rows.")
        return MethodChoice(
            ConsistentWLS(relaxation=relaxation, relaxation_weight=weight), tuple(reasons)
        )
    reasons.append("The noise of all joints is alike: all rows count alike.")
    return MethodChoice(
        ConsistentOLS(relaxation=relaxation, relaxation_weight=weight), tuple(reasons)
    )


def _controller(problem: Regression) -> tuple[bool, str]:
    """Whether the loop can be simulated as it was, and that in words."""
    told = all(motion.reference is not None for motion in problem.motions)
    if problem.robot.controller is None or not told:
        missing = "its controller" if problem.robot.controller is None else "the reference motion"
        return False, f"{missing[0].upper()}{missing[1:]} is not known: inverse dynamics."
    return True, (
        "Controller and reference are known, so that the loop could be simulated (iv, didim, cloe)."
    )


def _rate(problem: Regression) -> tuple[bool, str]:
    """Whether differences of positions are unsure, and that in words."""
    rate = min(motion.rate for motion in problem.motions)
    cutoff = problem.settings.cutoff or rate
    if rate >= _LOW_RATE or rate >= _SAMPLES_A_PERIOD * cutoff:
        return False, f"{rate:.4g} Hz are enough for differences below {cutoff:.3g} Hz."
    return True, (
        f"At {rate:.4g} Hz differences are unsure up to the cut-off of {cutoff:.3g} Hz: record "
        "faster, or lower it."
    )


def _weak_directions(
    problem: Regression, prior: Prior, sigma: np.ndarray[tuple[int, int], np.dtype[np.float64]]
) -> int:
    """How many directions the data know less than a few times better than the prior."""
    stack = problem.stack(sigma)
    s = np.linalg.svd(stack.A @ prior.base_factor, compute_uv=False)
    return int((s < _RELIABLE).sum())


def _far_share(
    problem: Regression,
    theta_base: np.ndarray[tuple[int], np.dtype[np.float64]],
    sigma: np.ndarray[tuple[int, int], np.dtype[np.float64]],
) -> float:
    far = rows = 0.0
    for block in problem.blocks():
        u = np.abs(block.y - block.Y @ theta_base) / sigma[block.log]
        far += float((block.use * (u > _FAR)).sum())
        rows += float(block.use.sum())
    return far / max(rows, 1.0)
