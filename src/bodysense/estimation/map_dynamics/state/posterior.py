"""`StatePosterior`: estimates of the state, of nuisances and of d together, with uncertainty.

    Cov(d) = Cov(d | x) + C Cov(x) Cᵀ,   C = ∂d/∂x

Marginal: what is said of d knows that the state is not certain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np

from bodysense.estimation._kernels.solve import Found
from bodysense.estimation.map_dynamics.solution import joined, posterior_of
from bodysense.estimation.map_dynamics.state.gauss_newton import Ending, is_implausible
from bodysense.estimation.map_dynamics.state.layout import StateLayout
from bodysense.estimation.map_dynamics.state.linearisation import Linearisation, SampleInputs
from bodysense.estimation.map_dynamics.state.prior import StatePrior
from bodysense.estimation.posterior import Posterior, count_absent
from bodysense.kalman.model import CovarianceState
from bodysense.spatial.arrays import Array
from bodysense.spatial.se3 import exp_so3, left_jacobian, log_so3

# Columns of (a, joint acceleration, f) among the 20 numbers of a body.
_JOINT = np.array([*range(6), 19, *range(6, 12)])
_NOWHERE = Ending(False, 0, "")


@dataclass(frozen=True, eq=False, repr=False)
class StatePosterior(Posterior):
    """A posterior with ``q.<joint>``, ``dq.<joint>``, ``bias.<sensor>`` among its variables.

    A floating root has ``omega.<link>``, its angular velocity in its own frame, and
    ``rotation.<link>`` where orientations are read: the rotation vector of R_world_link, whose
    covariance is that of a small turn in the frame of the link.

    Attributes:
        cost: chi-square at the estimate: of readings, priors and prior.
        ending: how the iterations ended, with advice.
        state: the posterior of the joints as a prior for what follows; of the last sample.
    """

    cost: float = 0.0
    ending: Ending = _NOWHERE
    state: StatePrior | None = None

    @property
    def converged(self) -> bool:
        return self.ending.converged

    @property
    def status(self) -> str:
        return self.ending.message

    def summary(self) -> str:
        """What it holds, in a line."""
        ended = f"{self.ending.iterations} iterations, chi-square {self.cost:.4g}"
        return f"{super().summary()} ({ended})"


def widened(found: Found, slope: Array, factor: Array) -> Found:
    """The posterior of d of a sample, from that given x; C (n, 20, p), S (p, k), Cov(x) = S Sᵀ."""
    C = slope @ factor
    moved, external, joint = C[:, _JOINT], C[:, 13:19], found.joint.copy()
    joint[0, :, :13, :13] += moved @ moved.swapaxes(1, 2)
    return found._replace(
        variance=found.variance + (C**2).sum(axis=2)[None],
        joint=joint,
        external=found.external + (external @ external.swapaxes(1, 2))[None],
    )


def assembled(
    linearisation: Linearisation,
    samples: Sequence[SampleInputs],
    states: Sequence[CovarianceState],
    founds: Sequence[Found],
    *,
    cost: float,
    ending: Ending,
    single: bool,
) -> StatePosterior:
    """Name what was found at T samples."""
    problem, layout = linearisation.problem, linearisation.layout
    whole = joined(founds)
    plain = posterior_of(problem.tree, problem.layout, problem.variables, whole, single)
    extra, places = linearisation.extra, linearisation.places
    turned = [_turned(linearisation, m, s) for m, s in zip(samples, states, strict=True)]
    mean = np.stack([state.mean[places] for state in turned])
    covariance = np.stack([state.covariance[np.ix_(places, places)] for state in turned])
    blocks = {name: covariance[:, where, where] for name, where in extra.slices.items()}
    residual = dict(plain.residual)
    absent = dict(plain.absent)
    if linearisation.orientations.sensors:
        pairs = zip(states, samples, strict=True)
        raw = np.stack([linearisation.orientation_rows(s.mean, m)[2] for s, m in pairs])
        for sensor in linearisation.orientations.sensors:
            rows = raw[:, problem.layout.slices[sensor.name]]
            absent[sensor.name] = count_absent(rows)
            residual[sensor.name] = rows[0] if single else rows
    variance = np.maximum(np.diagonal(covariance, axis1=1, axis2=2), 0.0)
    if single:
        mean, variance = mean[0], variance[0]
        blocks = {name: block[0] for name, block in blocks.items()}
    kept = {f.name: getattr(plain, f.name) for f in fields(Posterior)}
    kept |= {
        "variables": linearisation.variables,
        "mean": np.concatenate([plain.mean, mean], axis=-1),
        "variance": np.concatenate([plain.variance, variance], axis=-1),
        "blocks": {**plain.blocks, **blocks},
        "residual": residual,
        "absent": absent,
        "log_likelihood": None,  # that of d alone would not count the state
        "notes": (*plain.notes, *_notes(linearisation, whole, residual, cost, ending)),
    }
    return StatePosterior(**kept, cost=cost, ending=ending, state=joint_prior(layout, states[-1]))


def _notes(
    linearisation: Linearisation,
    found: Found,
    residual: Mapping[str, Array],
    cost: float,
    ending: Ending,
) -> tuple[str, ...]:
    if not ending.converged:
        return (ending.message,)
    sizes = np.diff(linearisation.problem.layout.arrays.first)
    m = int((found.present * sizes).sum())
    m += sum(int(np.isfinite(residual[s.name]).sum()) for s in linearisation.orientations.sensors)
    if not is_implausible(cost, m):
        return ()
    return (
        f"chi-square is {cost:.4g} for {m} readings and priors: a sensor, a covariance or the "
        "model is wrong, or the prior about the state too far off to find the way. Look at the "
        "residuals, or start closer.",
    )


def _turned(
    linearisation: Linearisation, sample: SampleInputs, state: CovarianceState
) -> CovarianceState:
    """The root's turn as its orientation, with the covariance of a small turn in its frame."""
    layout = linearisation.layout
    if not layout.turned:
        return state
    here = slice(layout.columns, layout.local)
    phi = state.mean[here]
    mean, small = state.mean.copy(), np.eye(state.mean.size)
    mean[here] = log_so3(sample.R_reference @ exp_so3(phi))
    small[here, here] = left_jacobian(-phi)
    return CovarianceState(mean, small @ state.covariance @ small.T)


def joint_prior(layout: StateLayout, state: CovarianceState) -> StatePrior:
    """The distribution of the joints, as a prior for what follows."""
    k = layout.joints
    spread = state.covariance[:k, :k]
    return StatePrior(state.mean[:k].reshape(layout.order, -1), 0.5 * (spread + spread.T))
