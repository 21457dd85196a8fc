"""Choice of the method by what the recordings show: the decisions of thesis figure 43.

    Are controller and reference known?       then the closed loop can be simulated; otherwise
                                              inverse dynamics
    Does noise of positions drown directions  if it does, or the rate is too low for differences,
    of inverse dynamics?                      and the loop can be simulated: closed-loop output
                                              error, if its simulation bears it out
    Is the noise of the joints alike?         ordinary or weighted least squares
    Are there outliers?                       robust weights

Accelerations are second differences: noise of positions grows with the square of the frequency, it
drowns what moves little, and being in the regressor, it biases what is left (thesis section 2.2).
A simulation has no such noise. But it leans on the controller: so the loop is simulated with both
results, and output error is taken only if positions come out nearer to the recorded ones, and the
controller's torques as large as recorded. A controller with gains that are wrong fails the second.

How far to lean on the prior where the motion excites too little is no question of the method: all
consistent ones relax towards it as far as the data ask for (see `evidence`). Physically consistent
links are always asked for: where data are good it costs nothing, where they are poor it decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from bodysense.identification.consistent.evidence import excitation_of
from bodysense.identification.identifier import Identifier
from bodysense.identification.linear.method import few_rows, fit_noise_weights
from bodysense.identification.methods import identifier
from bodysense.identification.prior import Prior
from bodysense.identification.regression import Regression
from bodysense.identification.simulated.closed_loop import ClosedLoop, LoopSimulation
from bodysense.identification.solution import WeightedSolution
from bodysense.logs.filtering import lowpass, usable_cutoff
from bodysense.spatial.arrays import Array

_OUTPUT_ERROR = "pc-cloe"
_SCALE_ERROR = 0.05  # of simulated torques at most: gains of drives are known to some per cent
_SCALE_UNKNOWN = 0.1  # standard deviation of that from which recorded torques bear nothing out
_NEARER = 0.9  # times the distance of inverse dynamics' positions, that those simulated must have
_STILL = 1e-3  # share of the most that any joint moves, or pulls, below which others count less
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
    if known:
        data = excitation_of(problem, prior, always=False)
        weak = 0 if data is None else data.weak
        if weak or too_slow:
            taken, compared = _by_simulation(problem, name, weak)
            reasons.append(compared)
            if taken:
                return MethodChoice(identifier(_OUTPUT_ERROR), tuple(reasons))
    return MethodChoice(identifier(name), (*reasons, reason))


def _by_simulation(problem: Regression, name: str, weak: int) -> tuple[bool, str]:
    """Whether output error is better than a method by that name, and why."""
    drowned = f"Inverse dynamics leaves {weak} of {problem.size} directions to the prior. "
    results = [identifier(method).fit(problem) for method in (_OUTPUT_ERROR, name)]
    if not results[0].status.ok:
        return False, f"Output error failed: {results[0].status.message}"
    loop = LoopSimulation().loop(problem)
    theta = np.stack([result.theta for result in results])
    q, q_other = (_distance(pair) for pair in _simulated(loop, "q", theta))
    scale, sigma = _scale(_simulated(loop, "tau", theta[:1])[0], problem)
    borne_out = sigma < _SCALE_UNKNOWN and abs(scale - 1.0) < max(_SCALE_ERROR, 3.0 * sigma)
    verdict = (
        "output error."
        if borne_out and q < _NEARER * q_other
        else "not output error, is the controller right?"
        if not borne_out
        else "output error is no better."
    )
    return borne_out and q < _NEARER * q_other, (
        f"{drowned if weak else ''}Simulated under the controller, positions of {_OUTPUT_ERROR} "
        f"are {100.0 * q:.2g} % off those recorded, those of {name} {100.0 * q_other:.2g} %, and "
        f"recorded torques are {scale:.3f} ± {sigma:.3f} times its own: {verdict}"
    )


_Pair = tuple[Array, Array]  # recorded and simulated values, both (m, n)


def _simulated(loop: ClosedLoop, quantity: Literal["q", "tau"], theta: Array) -> list[_Pair | None]:
    """Recorded and simulated values for each theta (runs, p); `None` where a run is lost.

    Both filtered by the cut-off, for a controller answers the noise of its encoders with torque.
    """
    problem = loop.problem
    made: list[_Pair | None] = []
    for run in loop.runs(theta, quantity, [1] * len(problem.motions)):
        if run is None:
            made.append(None)
            continue
        recorded, smooth = [], []
        for leg, values in zip(loop.legs, run, strict=True):
            motion = problem.motions[leg.motion]
            limit = usable_cutoff(problem.settings.cutoff or motion.rate, motion.rate)
            recorded.append(getattr(motion, quantity)[leg.span])
            smooth.append(lowpass(values, motion.rate, limit, order=problem.settings.order))
        made.append((np.concatenate(recorded), np.concatenate(smooth)))
    return made


def _distance(pair: _Pair | None) -> float:
    """Of simulated from recorded values, in shares of the joints' motion; infinite if lost."""
    if pair is None:
        return np.inf
    recorded, simulated = pair
    size = recorded.std(axis=0)
    size = np.maximum(size, _STILL * size.max())
    return float(np.sqrt(np.mean(np.square((recorded - simulated) / size))))


def _scale(pair: _Pair | None, problem: Regression) -> tuple[float, float]:
    """Recorded over simulated torques, mean of the joints, and its standard deviation.

    With gains that are off by a factor, links and friction are off by it as well, and move as
    recorded all the same: only recorded torques tell.
    """
    if pair is None:
        return np.inf, 0.0
    recorded, simulated = pair
    power = np.square(simulated).sum(axis=0)
    power = np.maximum(power, _STILL * power.max())
    scale = (recorded * simulated).sum(axis=0) / power
    noise = np.square(recorded - scale * simulated).sum(axis=0) / power
    rate = problem.motions[0].rate
    independent = min(1.0, 2.0 * (problem.settings.cutoff or rate) / rate) * len(recorded)
    weight = 1.0 / np.maximum(noise, 1e-12)
    sigma = 1.0 / np.sqrt(independent * weight.sum())
    return float(np.average(scale, weights=weight)), float(sigma)


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
    levels = first.sigma[problem.present]
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
        "Controller and reference are known, so that the loop could be simulated (pc-cloe, pc-iv)."
    )


def _rate(problem: Regression) -> tuple[bool, str]:
    """Whether the rate is too low for differences of positions, and that in words."""
    rate = min(motion.rate for motion in problem.motions)
    cutoff = min(problem.settings.cutoff or rate, 0.5 * rate)
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
