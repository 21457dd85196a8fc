"""Choice of the method by what the recordings show: the decisions of thesis figure 43.

    Are controller and reference known?       then the closed loop could be simulated (IV, DIDIM,
                                              output error); otherwise inverse models
    Is the rate high enough for differences?  if not, and the loop can be simulated: IV
    Is the noise of the joints alike?         ordinary or weighted least squares
    Are there outliers?                       robust weights

How far to lean on the prior where the motion excites too little is no question of the method: all
consistent ones relax towards it as far as the data ask for (see `evidence`).
Physically consistent links are always asked for: where the data are good it costs nothing, where
they are poor it decides.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bodysense.identification.identifier import Identifier
from bodysense.identification.linear.method import few_rows, fit_noise_weights
from bodysense.identification.methods import identifier
from bodysense.identification.prior import Prior
from bodysense.identification.regression import Regression
from bodysense.identification.solution import WeightedSolution
from bodysense.spatial.arrays import Array

AUTO = "auto"
"""Name by which the command line asks for a choice."""

_LOW_RATE = 100.0  # sampling rate [Hz] below which the thesis advises against plain differences
_SAMPLES_PER_PERIOD = 8.0  # of the cut-off, for differences good to a per cent
_NOISE_RATIO = 1.5  # ratio of the joints' noise levels up to which all rows count alike
_OUTLIER = 4.0  # residual in standard deviations; a normal distribution has 6e-5 beyond
_OUTLIER_SHARE = 2e-3  # share of outliers from which on robust weights are worth their cost


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
        return f"{self.identifier.name}: {' '.join(self.reasons)}"


def choose_method(problem: Regression) -> MethodChoice:
    """Choose a method for a problem, its recordings filtered."""
    prior = Prior.of(problem)
    first = fit_noise_weights(problem, prior)
    known, controller = _controller(problem)
    too_slow, rate = _rate(problem)
    reasons = [controller, rate]
    if known and too_slow:
        name, reason = "pc-iv", "The simulated motion needs no differences: instrumental variables."
    else:
        name, reason = _weighting(problem, prior, first)
    return MethodChoice(identifier(name), (*reasons, reason))


def _weighting(problem: Regression, prior: Prior, first: WeightedSolution) -> tuple[str, str]:
    """The method by how its rows are weighted, and why."""
    if few_rows(problem):
        return "pc-ols", "There are too few rows to tell the noise of the joints apart."
    far = _outlier_share(problem, prior.to_base(first.theta), first.sigma)
    if far > _OUTLIER_SHARE:
        return "pc-irls", (
            f"{100.0 * far:.1f} % of the residuals lie beyond {_OUTLIER:g} standard deviations: "
            "robust weights."
        )
    levels = first.sigma[first.sigma > 0.0]
    ratio = float(levels.max() / levels.min())
    if ratio > _NOISE_RATIO:
        return "pc-wls", f"The noise of the joints differs by {ratio:.1f} times: weighted rows."
    return "pc-ols", "The noise of all joints is alike: all rows count alike."


def _controller(problem: Regression) -> tuple[bool, str]:
    """Whether the loop can be simulated as it was, and that in words."""
    referenced = all(motion.reference is not None for motion in problem.motions)
    if problem.robot.controller is None or not referenced:
        missing = "its controller" if problem.robot.controller is None else "the reference motion"
        return False, f"{missing[0].upper()}{missing[1:]} is not known: inverse dynamics."
    return True, (
        "Controller and reference are known, so that the loop could be simulated (iv, didim, cloe)."
    )


def _rate(problem: Regression) -> tuple[bool, str]:
    """Whether the rate is too low for differences of positions, and that in words."""
    rate = min(motion.rate for motion in problem.motions)
    cutoff = problem.settings.cutoff or rate
    if rate >= _LOW_RATE or rate >= _SAMPLES_PER_PERIOD * cutoff:
        return False, f"{rate:.4g} Hz are enough for differences below {cutoff:.3g} Hz."
    return True, (
        f"At {rate:.4g} Hz differences are inexact up to the cut-off of {cutoff:.3g} Hz: record "
        "faster, or lower it."
    )


def _outlier_share(problem: Regression, theta_base: Array, sigma: Array) -> float:
    far = rows = 0.0
    for block in problem.blocks():
        u = np.abs(block.y - block.Y @ theta_base) / sigma[block.log]
        far += float((block.use * (u > _OUTLIER)).sum())
        rows += float(block.use.sum())
    return far / max(rows, 1.0)
