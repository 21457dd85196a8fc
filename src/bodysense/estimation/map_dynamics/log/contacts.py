"""Contacts: samples whose external wrench differs significantly from its prior.

A wrench with the prior N(0, P) has the posterior N(m, C). Along the axes of P^(-1/2) C P^(-1/2),
whose eigenvalues s are what is left of the prior's variance, only those with s < 1/2 are
observable; over these

    chi² = Σ z² / s,   z: P^(-1/2) m along the axis,

is compared with the quantile of as many degrees of freedom. Without contact z² is on average
s (1 - s): fewer samples than stated are called contacts, not more.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri

from bodysense.estimation.map_dynamics.priors import GaussianPrior
from bodysense.sensors.motion_sensors import JointTorque
from bodysense.spatial.arrays import Array

if TYPE_CHECKING:
    from bodysense.estimation.map_dynamics.log.estimate import LogEstimate


_OBSERVABLE = 0.5  # share of the prior's variance below which an axis is observable
_SEPARATION = 0.3  # s: contacts that are closer together are one, and so are neighbouring samples
_LEAST_SAMPLES = 2  # of a contact: one alone is noise
_LEVEL = 0.999  # significance: of 1000 samples without a contact, at most one is taken for one
_REVERSAL = 0.02  # s about the largest force in which a joint that reverses may explain it
_SPIKE = 2.0  # largest over median force, from which on friction may explain it: a push lasts


class ContactInterval(NamedTuple):
    """A stretch of time [s] in which a link was in contact.

    Attributes:
        link: its name.
        start: first sample.
        end: last sample.
        force: largest force in it that is certain [N]: of which most is left when twice its
            standard deviation is taken off.
        sigma: standard deviation of that force, along itself [N].
        at: when it was that large.
        usual: median force [N].
    """

    link: str
    start: float
    end: float
    force: float
    sigma: float
    at: float
    usual: float


def detect_contacts(prior: GaussianPrior, mean: Array, covariance: Array) -> NDArray[np.bool_]:
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
    observable = share < _OBSERVABLE
    square = np.where(observable, z**2 / np.maximum(share, 1e-300), 0.0).sum(axis=1)
    freedom = observable.sum(axis=1)
    beyond: NDArray[np.bool_] = (freedom > 0) & (
        square > chdtri(np.maximum(freedom, 1), 1.0 - _LEVEL)
    )
    return beyond


def contact_forces(
    prior: GaussianPrior, mean: Array, covariance: Array
) -> tuple[Array, Array, Array]:
    """Forces of wrenches (T, 6) beyond their prior's mean.

    (T,) norms [N], (T,) standard deviations along them, (T, 2) those along the best and the worst
    observable direction.
    """
    force, C = mean[:, :3] - prior.mean[:3], covariance[:, :3, :3]
    size = np.linalg.norm(force, axis=1)
    along = force / np.maximum(size, 1e-300)[:, None]
    sigma = np.sqrt(np.maximum(np.einsum("ti,tij,tj->t", along, C, along), 0.0))
    values = np.linalg.eigvalsh(C)
    return size, sigma, np.sqrt(np.maximum(values[:, [0, 2]], 0.0))


def contact_intervals(
    link: str, t: Array, mask: NDArray[np.bool_], force: Array, sigma: Array
) -> tuple[ContactInterval, ...]:
    """Contacts at samples t (T,), with the largest force of each that is certain."""
    places = np.flatnonzero(mask)
    if not places.size:
        return ()
    apart = max(_SEPARATION, 1.5 * float(np.median(np.diff(t)))) if t.size > 1 else _SEPARATION
    cuts = np.flatnonzero(np.diff(t[places]) > apart) + 1
    result = []
    for part in np.split(places, cuts):
        if part.size < _LEAST_SAMPLES:
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


# Largest forces at the reversal of a joint, where friction is least known.
#
# The torque of a drive holds the joint's friction, which jumps from one side to the other when the
# joint reverses. Taken from a velocity that is nearly zero, it may be wrong by all of it for a few
# samples, and what is left over looks like a push.


def reversal_notes(estimate: LogEstimate, contacts: Iterable[ContactInterval]) -> tuple[str, ...]:
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
        here = np.abs(t - contact.at) <= _REVERSAL
        names = [
            problem.robot.joint_names[j]
            for j in sorted(drives)
            if friction[j] and dq[here, j].min() <= 0.0 <= dq[here, j].max()
        ]
        if names:
            result.append(
                f"the largest force on {contact.link}, at {contact.at:.2f} s, falls on a reversal "
                f"of {', '.join(names)}, where friction jumps and is hardly known; use the "
                "median, or give the torques of drives a larger std"
            )
    return tuple(result)
