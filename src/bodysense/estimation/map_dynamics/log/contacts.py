"""`find_contacts`: contacts in a log, from the evidence that its readings have about each link.

Evidence is computed at samples half a period of the cut-off apart, whose noise is nearly
independent, with hardly any prior variance of the links: then each link's own evidence comes out,
as if no other were touched (see `Evidence.from_posteriors`). Links that are in contact most of the
time, as feet are that stand, are found first, and their wrenches are left open when others are
tested.

Where nothing touches, torques are what the model says to within the noise that the estimate counts
on, or the bands of all that is estimated are widened by what they are off.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bodysense.estimation.contact.detector import (
    Detected,
    Detection,
    DetectionSettings,
    Scales,
    detect_contacts,
    detectable_force,
)
from bodysense.estimation.contact.evidence import Evidence
from bodysense.estimation.contact.load import CarriedLoad, fit_load, is_load, steady_share
from bodysense.estimation.map_dynamics.body_tree import WORLD
from bodysense.estimation.map_dynamics.estimator import MapDynamics
from bodysense.estimation.map_dynamics.log.evidence_grid import EvidenceGrid, open_links
from bodysense.estimation.map_dynamics.log.reading_noise import ReadingNoise
from bodysense.estimation.map_dynamics.log.recording import Recording
from bodysense.estimation.map_dynamics.log.torque_noise import torque_sensors
from bodysense.sensors.link_motion import LinkMotion
from bodysense.spatial.arrays import Array

_LOOKS = 60  # samples at which it is seen which links are in contact most of the time
_EDGE = 0.1  # of its median force, from which on a contact has begun
_MOST_LOOKS = 500  # samples that a load is fitted to
_MOST = 0.5  # share of samples from which a link is in contact most of the time
_CERTAIN = 7.0  # surprise of a sample that counts for that: one of a thousand without contact
_KEPT = 0.35  # share of samples that noise is learned from, if most may be contacts
_MANY = 0.15  # share of samples in contact from which noise may have been learned from contacts
_LONG = 1.0  # s: duration of a contact that is certainly one; errors of a model are short
_STEADY = 0.85  # share of a lasting contact that a steady wrench must explain
_ROUNDS = 3  # of what the model leaves and of detection


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
        probability: that it is this link, of those whose wrench is not known.
    """

    link: str
    start: float
    end: float
    force: float
    sigma: float
    at: float
    usual: float
    probability: float


@dataclass(frozen=True, eq=False)
class LogContacts:
    """Contacts in a log.

    Attributes:
        contacts: in order of time.
        lasting: links that are in contact most of the time.
        load: that the robot seems to carry, which explains one of these; or `None`.
        noise: of the readings, with what the model leaves where nothing touches; `None`: as it was.
        detectable: by link and duration [s], forces that are found in 95 % of cases [N]: along the
            direction that shows best, and the worst one.
        inflation: by link, that of the variance of single samples.
    """

    contacts: tuple[ContactInterval, ...]
    lasting: tuple[str, ...]
    load: CarriedLoad | None
    noise: ReadingNoise | None
    detectable: Mapping[str, Mapping[float, tuple[float, float]]]
    inflation: Mapping[str, float]


def find_contacts(
    problem: MapDynamics,
    recording: Recording,
    gravity: Array | None,
    settings: DetectionSettings,
) -> LogContacts:
    """Find contacts of all links whose external wrench is not assumed to be known."""
    links = open_links(problem)
    if not links or recording.noise is None:
        return LogContacts((), (), None, None, {}, {})
    grid = EvidenceGrid.of(problem, recording, gravity)
    lasting = _lasting(grid, links)
    load = _load(grid, lasting)
    if load is not None:  # what else there is, on a robot that carries it
        grid = replace(grid, problem=_carrying(problem, load))
        lasting = _lasting(grid, links)
    if torque_sensors(problem):  # what is neither a load nor steady is an error of the model
        lasting = tuple(link for link in lasting if _is_steady(grid, link, lasting))
    best = _search(grid, links, lasting, settings, kept=1.0)
    if not lasting and torque_sensors(problem):
        # Noise may have been learned from contacts, if there are many: learn it from quiet samples.
        other = _search(grid, links, lasting, settings, kept=_KEPT)
        best = other if _is_more_contact(best, other, grid) else best
    return _collected(grid, best.found, lasting, load, best.noise)


class _Found(NamedTuple):
    """What is found with the noise that was learned."""

    found: dict[tuple[str, ...], Detection]
    noise: ReadingNoise

    def covered(self, longer: int = 0) -> NDArray[np.bool_]:
        """(T,) samples in contacts of more than so many samples."""
        some = next(iter(self.found.values()))
        inside = np.zeros(some.covered.size, dtype=bool)
        for detection in self.found.values():
            for contact in detection.contacts:
                if contact.last - contact.first >= longer:
                    inside[contact.first : contact.last + 1] = True
        return inside


def _search(
    grid: EvidenceGrid,
    links: tuple[str, ...],
    lasting: tuple[str, ...],
    settings: DetectionSettings,
    *,
    kept: float,
) -> _Found:
    """Learn what the model leaves and search, by turns; first from a share `kept` of samples."""
    noise, quiet = grid.noise, np.ones(grid.rows.size, dtype=bool)
    found: dict[tuple[str, ...], Detection] = {}
    for k in range(_ROUNDS):
        if not lasting:
            share = 1.0 if k else kept
            noise = grid.noise.with_lasting(grid.model_error(grid.noise, quiet, share))
        found = {
            tested: detect_contacts(
                grid.scales(tested, lasting, noise, beyond_friction=True),
                settings,
                grid.scales(tested, lasting, noise),
            )
            for tested in _groups(links, lasting)
        }
        # What is short may be an error of the model, which is to be learned.
        longer = int(_LONG / grid.period) if kept < 1.0 else 0
        quiet = ~_Found(found, noise).covered(longer)
    return _Found(found, noise)


def _is_more_contact(usual: _Found, other: _Found, grid: EvidenceGrid) -> bool:
    """Whether noise was learned from contacts: the other way there are more that last long."""
    longer = int(_LONG / grid.period)
    share = float(other.covered(longer).mean())
    return share > _MANY and share > 1.5 * float(usual.covered(longer).mean())


def _is_steady(grid: EvidenceGrid, link: str, lasting: tuple[str, ...]) -> bool:
    at = grid.rows[np.linspace(0, grid.rows.size - 1, min(_MOST_LOOKS, grid.rows.size)).astype(int)]
    others = tuple(other for other in lasting if other != link)
    readings, scale = grid.recording.readings[at], grid.noise.part(at).scale()
    return steady_share(grid.evidence((link,), others, readings, scale, at), link) > _STEADY


def _load(grid: EvidenceGrid, lasting: tuple[str, ...]) -> CarriedLoad | None:
    """The load that explains best what the surest of the lasting contacts is, if one does."""
    problem, r = grid.problem, grid.recording
    if not lasting or problem.tree.floating:
        return None
    at = grid.rows[np.linspace(0, grid.rows.size - 1, min(_MOST_LOOKS, grid.rows.size)).astype(int)]
    at = np.unique(at)
    evidence = grid.evidence(
        lasting[:1], lasting[1:], r.readings[at], grid.noise.part(at).scale(), at
    )
    ddq = np.gradient(r.dq, r.t, axis=0)[at]
    root = None if problem.tree.names[0] == WORLD else problem.tree.names[0]
    motion = LinkMotion.of(problem.robot, r.q[at], r.dq[at], ddq, root=root, gravity=grid.gravity)
    k = problem.robot.link_names.index(lasting[0])
    load = fit_load(evidence, lasting[0], motion.acceleration[k], motion.twist[k])
    return load if is_load(load) else None


def _carrying(problem: MapDynamics, load: CarriedLoad) -> MapDynamics:
    """The estimator of the robot with a load."""
    robot = problem.robot
    theta = robot.theta.copy()
    theta[robot.layout.link(load.link)] += load.pi
    root = problem.tree.names[0]
    base = None if root == WORLD else root
    return MapDynamics(
        robot.with_parameters(theta),
        problem.sensors,
        problem.assumptions,
        base=base,
        fixed=None if base is None else not problem.tree.floating,
    )


def _groups(links: tuple[str, ...], lasting: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Links that are tested against each other: one of lasting contacts by itself."""
    free = tuple(link for link in links if link not in lasting)
    return [group for group in (free, *((link,) for link in lasting)) if group]


def _lasting(grid: EvidenceGrid, links: tuple[str, ...]) -> tuple[str, ...]:
    """Links that are in contact most of the time, the surest first.

    A sample counts for the link that explains it best: pushes elsewhere are none of it.
    """
    at = grid.rows[np.linspace(0, grid.rows.size - 1, min(_LOOKS, grid.rows.size)).astype(int)]
    lasting: tuple[str, ...] = ()
    scale, readings = grid.noise.part(at).scale(), grid.recording.readings[at]
    while len(lasting) < len(links):
        rest = tuple(link for link in links if link not in lasting)
        evidence = grid.evidence(rest, lasting, readings, scale, at)
        certain = np.stack([evidence.surprise(link) > _CERTAIN for link in rest])
        best = np.argmax([evidence.log_odds(link) for link in rest], axis=0)
        share = [float((certain[k] & (best == k)).mean()) for k in range(len(rest))]
        most = int(np.argmax(share))
        if share[most] < _MOST:
            break
        lasting = (*lasting, rest[most])
    return lasting


def _collected(
    grid: EvidenceGrid,
    found: Mapping[tuple[str, ...], Detection],
    lasting: tuple[str, ...],
    load: CarriedLoad | None,
    noise: ReadingNoise,
) -> LogContacts:
    scales = {tested: grid.scales(tested, lasting, noise) for tested in found}
    means = prior_means(grid.problem)
    return replace(
        collected_contacts(found, scales, means), lasting=lasting, load=load, noise=noise
    )


def prior_means(problem: MapDynamics) -> dict[str, Array]:
    """By link whose wrench is not assumed to be known, (6,) what is assumed."""
    return {link: problem.assumptions.wrench_of(link).mean for link in open_links(problem)}


def collected_contacts(
    found: Mapping[tuple[str, ...], Detection],
    scales: Mapping[tuple[str, ...], Scales],
    means: Mapping[str, Array],
) -> LogContacts:
    """Contacts with their forces, and what can be detected, of groups of links.

    A contact is what differs from the prior; `means` are those of the priors by link.
    """
    contacts: list[ContactInterval] = []
    detectable: dict[str, dict[float, tuple[float, float]]] = {}
    inflation: dict[str, float] = {}
    for tested, detection in found.items():
        of = scales[tested]
        for link in tested:
            forces = detectable_force(of, detection, link)
            detectable[link] = {w * of.period: pair for w, pair in forces.items()}
            inflation[link] = detection.inflation[link, 1]
        contacts += [
            _interval(of.one, c, inflation[c.link], means[c.link]) for c in detection.contacts
        ]
    ordered = tuple(sorted(contacts, key=lambda contact: contact.start))
    return LogContacts(ordered, (), None, None, detectable, inflation)


def _interval(
    one: Evidence, contact: Detected, inflation: float, expected: Array
) -> ContactInterval:
    whole = one.of(contact.link).part(slice(contact.first, contact.last + 1))
    mean, covariance = whole.wrench(contact.link)
    mean = mean + expected  # evidence is of what differs from the prior
    sizes = np.linalg.norm(mean[:, :3], axis=1)
    # The filter spreads what begins at once: what is small at the ends is that.
    large = np.flatnonzero(sizes >= _EDGE * np.median(sizes))
    here = slice(int(large[0]), int(large[-1]) + 1)
    first, last = contact.first + here.start, contact.first + here.stop - 1
    force, C, size = mean[here, :3], inflation * covariance[here, :3, :3], sizes[here]
    along = force / np.maximum(size, 1e-300)[:, None]
    sigma = np.sqrt(np.maximum(np.einsum("ti,tij,tj->t", along, C, along), 0.0))
    peak = int(np.argmax(size - 2.0 * sigma))
    return ContactInterval(
        link=contact.link,
        start=float(one.t[first]),
        end=float(one.t[last]),
        force=float(size[peak]),
        sigma=float(sigma[peak]),
        at=float(one.t[first + peak]),
        usual=float(np.median(size)),
        probability=contact.probability,
    )
