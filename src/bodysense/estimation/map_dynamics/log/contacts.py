"""When was a link touched? Samples whose external wrench is told apart from zero.

A wrench with the prior N(0, P) has the posterior N(m, C). Along the axes of P^(-1/2) C P^(-1/2),
whose eigenvalues s are what is left of the prior's variance, only those with s < 1/2 tell anything;
over these

    chi² = Σ z² / s,   z: P^(-1/2) m along the axis,

is compared with the quantile of as many degrees of freedom. Without contact z² is on average
s (1 - s): fewer samples than stated are called touched, not more.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri

from bodysense.estimation.map_dynamics.priors import GaussianPrior
from bodysense.sensors.joint_sensors import JointTorque
from bodysense.spatial.arrays import Array

if TYPE_CHECKING:
    from bodysense.estimation.map_dynamics.log.estimate import LogEstimate


_TOLD = 0.5  # share of the prior's variance below which an axis tells something
_APART = 0.3  # s: contacts that are closer together are one, and so are samples one after the other
_LEAST = 2  # samples of a contact: one alone is noise
LEVEL = 0.999
"""Of a sample that counts as touched: of 1000 without a contact, at most one is taken for it."""


class ContactInterval(NamedTuple):
    """A stretch of time in which a link was touched.

    Attributes:
        link: its name.
        start: first sample [s].
        end: last sample [s].
        force: largest force in it that is certain [N]: of which most is left when twice its
            standard deviation is taken off.
        sigma: standard deviation of that force, along itself [N].
        at: when [s].
        usual: median force [N].
    """

    link: str
    start: float
    end: float
    force: float
    sigma: float
    at: float
    usual: float


def felt(
    prior: GaussianPrior, mean: Array, covariance: Array, level: float = LEVEL
) -> NDArray[np.bool_]:
    """(T,) whether wrenches (T, 6) with covariances (T, 6, 6) differ from the prior's mean."""
    open_ = np.diag(prior.covariance) > 0.0
    T = mean.shape[0]
    if not open_.any() or not T:
        return np.zeros(T, dtype=bool)
    values, vectors = np.linalg.eigh(prior.covariance[np.ix_(open_, open_)])
    some = values > 1e-12 * values.max()
    W = (vectors[:, some] / np.sqrt(values[some])).T
    share, axes = np.linalg.eigh(W @ covariance[:, open_][:, :, open_] @ W.T)
    z = np.einsum("tij,ti->tj", axes, (mean - prior.mean)[:, open_] @ W.T)
    told = share < _TOLD
    square = np.where(told, z**2 / np.maximum(share, 1e-300), 0.0).sum(axis=1)
    freedom = told.sum(axis=1)
    beyond: NDArray[np.bool_] = (freedom > 0) & (
        square > chdtri(np.maximum(freedom, 1), 1.0 - level)
    )
    return beyond


def forces(prior: GaussianPrior, mean: Array, covariance: Array) -> tuple[Array, Array, Array]:
    """Forces of wrenches (T, 6) that are not believed: how large, and how certain.

    Returns:
        (T,) norms less the prior's mean [N]; (T,) standard deviations along them; (T, 2) standard
        deviations of a force along the direction that is told best and along the one told worst.
    """
    force, C = mean[:, :3] - prior.mean[:3], covariance[:, :3, :3]
    size = np.linalg.norm(force, axis=1)
    along = force / np.maximum(size, 1e-300)[:, None]
    sigma = np.sqrt(np.maximum(np.einsum("ti,tij,tj->t", along, C, along), 0.0))
    values = np.linalg.eigvalsh(C)
    return size, sigma, np.sqrt(np.maximum(values[:, [0, 2]], 0.0))


def contacts(
    link: str, t: Array, mask: NDArray[np.bool_], force: Array, sigma: Array
) -> tuple[ContactInterval, ...]:
    """Stretches of samples t (T,) that are felt, with the largest force of each that is certain."""
    places = np.flatnonzero(mask)
    if not places.size:
        return ()
    apart = max(_APART, 1.5 * float(np.median(np.diff(t)))) if t.size > 1 else _APART
    cuts = np.flatnonzero(np.diff(t[places]) > apart) + 1
    result = []
    for part in np.split(places, cuts):
        if part.size < _LEAST:
            continue
        peak = int(part[np.argmax(force[part] - 2.0 * sigma[part])])
        result.append(
            ContactInterval(
                link,
                float(t[part[0]]),
                float(t[part[-1]]),
                float(force[peak]),
                float(sigma[peak]),
                float(t[peak]),
                float(np.median(force[part])),
            )
        )
    return tuple(result)


# Which forces fall on a reversal of a joint, where friction is told least.
#
# The torque of a drive holds the joint's friction, which jumps from one side to the other when the
# joint reverses. Taken from a velocity that is nearly zero, it may be wrong by all of it for a few
# samples, and what is left over looks like a push.

_BESIDE = 0.02  # s about a reversal
_SPIKE = 2.0  # times the median force: what friction makes is short beside a push


def reversing(estimate: LogEstimate, contacts: Iterable[ContactInterval]) -> tuple[str, ...]:
    """A sentence for each contact whose largest force is a spike that falls on a reversal."""
    problem, t, dq = estimate.problem, estimate.t, estimate.recording.dq
    friction = np.abs(problem.drive).sum(axis=1) > 0.0
    drives = {
        sensor.joint_index(problem.robot)
        for sensor in problem.sensors
        if isinstance(sensor, JointTorque) and sensor.side == "drive"
    }
    result = []
    for contact in contacts:
        if contact.force < _SPIKE * contact.usual:
            continue
        here = np.abs(t - contact.at) <= _BESIDE
        names = [
            problem.robot.joint_names[j]
            for j in sorted(drives)
            if friction[j] and dq[here, j].min() <= 0.0 <= dq[here, j].max()
        ]
        if names:
            result.append(
                f"the largest force on {contact.link}, at {contact.at:.2f} s, falls on a reversal "
                f"of {', '.join(names)}: friction jumps there and is hardly known; go by the "
                "median, or give the torques of drives a larger std"
            )
    return tuple(result)
