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
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import maximum_filter1d

from bodysense.estimation.contact.detector import (
    WINDOWS,
    Detected,
    Detection,
    DetectionSettings,
    Scales,
    detect_contacts,
    detectable_force,
)
from bodysense.estimation.contact.evidence import Evidence
from bodysense.estimation.contact.load import CarriedLoad, fit_load, is_load
from bodysense.estimation.friction_spread import coulomb_friction
from bodysense.estimation.map_dynamics.body_tree import WORLD
from bodysense.estimation.map_dynamics.estimator import MapDynamics
from bodysense.estimation.map_dynamics.log.model_error import fitted_variance, reversal
from bodysense.estimation.map_dynamics.log.recording import Recording
from bodysense.estimation.map_dynamics.log.signals import ReadingNoise
from bodysense.estimation.map_dynamics.log.torque_noise import innovations, torque_sensors
from bodysense.estimation.map_dynamics.priors import GaussianPrior
from bodysense.robot.dynamics import inverse_dynamics, mass_matrix
from bodysense.sensors.link_motion import LinkMotion
from bodysense.sensors.motion_sensors import JointAcceleration, JointTorque
from bodysense.spatial.arrays import Array

_SHARE = 1e-7  # of a prior's variance that links have while each is looked at by itself
_LOOKS = 60  # samples at which it is seen which links are in contact most of the time
_EDGE = 0.1  # of its median force, from which on a contact has begun
_HELD = 0.2  # of a static friction: by how much more it may be than is known
_MOST_LOOKS = 500  # samples that a load is fitted to
_MOST = 0.5  # share of samples from which a link is in contact most of the time
_CERTAIN = 7.0  # surprise of a sample that counts for that: one of a thousand without contact
_PERIOD = 0.025  # s: between samples at which estimates of the state are looked at
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
    grid = _Grid.of(problem, recording, gravity)
    lasting = _lasting(grid, links)
    load = _load(grid, lasting)
    if load is not None:  # what else there is, on a robot that carries it
        grid = replace(grid, problem=_carrying(problem, load))
        lasting = _lasting(grid, links)
    noise, quiet = recording.noise, np.ones(grid.rows.size, dtype=bool)
    for _ in range(_ROUNDS):
        if not lasting:
            noise = recording.noise.with_lasting(grid.model_error(recording.noise, quiet))
        found = {
            tested: detect_contacts(
                grid.scales(tested, lasting, noise, beyond_friction=True),
                settings,
                grid.scales(tested, lasting, noise),
            )
            for tested in _groups(links, lasting)
        }
        quiet = ~np.any([d.covered for d in found.values()], axis=0)
    return _collected(grid, found, lasting, load, noise)


def open_links(problem: MapDynamics) -> tuple[str, ...]:
    """Links whose external wrench is not assumed to be known."""
    links = [problem.tree.names[i] for i in problem.tree.with_unknowns]
    return tuple(x for x in links if problem.assumptions.wrench_of(x).covariance.any())


def _load(grid: _Grid, lasting: tuple[str, ...]) -> CarriedLoad | None:
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


@dataclass(frozen=True, eq=False)
class _Grid:
    """Samples of a recording that are as far apart as its filter remembers."""

    problem: MapDynamics
    recording: Recording
    noise: ReadingNoise
    gravity: Array | None
    rows: NDArray[np.int64]
    starts: NDArray[np.int64]
    step: int

    @classmethod
    def of(cls, problem: MapDynamics, recording: Recording, gravity: Array | None) -> _Grid:
        noise = recording.noise
        assert noise is not None  # which the caller has asked for
        step = max(1, round(noise.rate / (2.0 * noise.cutoff)))
        ends = [*recording.starts[1:], recording.t.size]
        parts = [np.arange(a, b, step) for a, b in zip(recording.starts, ends, strict=True)]
        starts = np.cumsum([0, *(part.size for part in parts[:-1])])
        rows = np.concatenate(parts)
        return cls(problem, recording, noise, gravity, rows, starts, step)

    @property
    def period(self) -> float:
        """Between samples [s]."""
        return self.step / self.noise.rate

    def scales(
        self,
        tested: tuple[str, ...],
        lasting: tuple[str, ...],
        noise: ReadingNoise,
        *,
        beyond_friction: bool = False,
    ) -> Scales:
        """Evidence of all windows about the tested links, while others that last are open."""
        readings = self.recording.readings[self.rows]
        windows = [1, *(w for w in WINDOWS if w * 4 <= self.rows.size)]
        at = self.rows
        evidence = {
            w: self.evidence(
                tested,
                lasting,
                *(
                    self._beyond_friction(readings, noise.part(at).scale(w, self.step), at)
                    if beyond_friction
                    else (readings, noise.part(at).scale(w, self.step))
                ),
                at,
            ).averaged(self.starts, w)
            for w in windows
        }
        return Scales(evidence, self.starts, self.period)

    def evidence(
        self,
        tested: tuple[str, ...],
        lasting: tuple[str, ...],
        readings: Array,
        scale: Mapping[str, Array],
        at: NDArray[np.int64],
    ) -> Evidence:
        """Of single samples."""
        assumptions, r = self.problem.assumptions, self.recording
        nothing = GaussianPrior.zero(6)
        wrenches = dict.fromkeys(open_links(self.problem), nothing)
        for link in lasting:
            wrenches[link] = assumptions.wrench_of(link)
        for link in tested:
            prior = assumptions.wrench_of(link)
            wrenches[link] = GaussianPrior(prior.mean, _SHARE * prior.covariance)
        known = replace(assumptions, wrench=nothing, wrenches=wrenches)
        result = self.problem.with_assumptions(known).estimate(
            r.q[at],
            r.dq[at],
            readings,
            base_twist=None if r.base_twist is None else r.base_twist[at],
            gravity=self.gravity,
            noise_scale=scale,
            detail="blocks",
        )
        priors = {link: assumptions.wrench_of(link) for link in tested}
        return Evidence.from_posteriors(
            r.t[at],
            {link: prior.covariance for link, prior in priors.items()},
            {link: result[f"fx.{link}"] - prior.mean for link, prior in priors.items()},
            {link: result.covariance(f"fx.{link}") for link in tested},
            share=_SHARE,
        )

    def _beyond_friction(
        self, readings: Array, scale: Mapping[str, Array], at: NDArray[np.int64]
    ) -> tuple[Array, dict[str, Array]]:
        """Readings and noise scales without what friction may hold of joints that stand.

        Whatever the innovation of a drive is up to its static friction, friction may be all of it;
        what is beyond is none. For a Gaussian the one would be as little surprising as the other.
        """
        sensors = [s for s in torque_sensors(self.problem) if s.side == "drive"]
        robot, result, adjusted = self.problem.robot, dict(scale), readings.copy()
        standing = {s.name: self.noise.standing[at, s.joint_index(robot)] for s in sensors}
        if not any(mask.any() for mask in standing.values()):
            return readings, result
        r = self.recording
        inn = innovations(self.problem, r.q[at], r.dq[at], readings, self.gravity)
        names = [s.name for s in torque_sensors(self.problem)]
        for sensor in sensors:
            mask = standing[sensor.name].astype(bool)
            stated = float(np.sqrt(sensor.covariance[0, 0]))
            held = np.sqrt(3.0) * stated * self.noise.lasting[sensor.name][at]
            excess = np.clip(inn[:, names.index(sensor.name)], -held, held)
            place = self.problem.layout.slices[sensor.name].start
            adjusted[mask, place] -= excess[mask]
            known = (1.0 - 3.0 * _HELD**2) * self.noise.lasting[sensor.name][at] ** 2
            left = np.sqrt(np.maximum(scale[sensor.name] ** 2 - known, 0.0))
            result[sensor.name] = np.where(mask, left, scale[sensor.name])
        return adjusted, result

    def model_error(self, noise: ReadingNoise, quiet: NDArray[np.bool_]) -> dict[str, Array]:
        """By torque sensor, (T,) standard deviation at all samples of what the model leaves.

        In stated deviations; as seen at quiet samples of the grid.
        """
        sensors = torque_sensors(self.problem)
        if not sensors or quiet.sum() < _LOOKS:
            return {}
        r, at = self.recording, self.rows[quiet]
        squares = innovations(self.problem, r.q[at], r.dq[at], r.readings[at], self.gravity) ** 2
        own = self._expected(sensors, noise.part(at).scale(), at)
        result = {}
        for k, sensor in enumerate(sensors):
            features = self._features(sensor)
            moves = ~noise.standing[at, sensor.joint_index(self.problem.robot)].astype(bool)
            c = fitted_variance(squares[moves, k], own[moves, k], features[at][moves])
            stated = float(np.sqrt(sensor.covariance[0, 0]))
            if c.any() and stated:
                result[sensor.name] = np.sqrt(features @ c) / stated
        return result

    @cached_property
    def _torques(self) -> tuple[Array, Array, Array]:
        """(T, n) torques without acceleration, those of acceleration, and how fast both change.

        Of the latter two the largest sizes within the memory of the filter.
        """
        robot, r = self.problem.robot, self.recording
        load = inverse_dynamics(robot, r.q, r.dq, np.zeros_like(r.dq))
        inertial, rate = np.zeros_like(load), np.zeros_like(load)
        for first, last in pairwise([*r.starts, r.t.size]):
            part = slice(first, last)
            a = np.gradient(r.dq[part], r.t[part], axis=0)
            torque = inverse_dynamics(robot, r.q[part], r.dq[part], a) - load[part]
            change = np.gradient(torque + load[part], r.t[part], axis=0)
            reach = 2 * self.step + 1
            inertial[part] = maximum_filter1d(np.abs(torque), reach, axis=0)
            rate[part] = maximum_filter1d(np.abs(change), reach, axis=0)
        return load, inertial, rate

    def _features(self, sensor: JointTorque) -> Array:
        """(T, k) of all samples: see `model_error`."""
        robot, r = self.problem.robot, self.recording
        j = sensor.joint_index(robot)
        v = r.dq[:, j]
        load, inertial, rate = (torques[:, j] for torques in self._torques)
        friction = coulomb_friction(robot)[j] if sensor.side == "drive" else 0.0
        near = np.where(r.noise.standing[:, j], 0.0, reversal(v, friction)) if r.noise else v
        columns = [np.ones_like(v), v, load, inertial, rate, near]
        return np.stack(columns, axis=1) ** 2

    def _expected(
        self, sensors: tuple[JointTorque, ...], scale: Mapping[str, Array], at: NDArray[np.int64]
    ) -> Array:
        """(T, k) variances of innovations: of the sensors, and of accelerations by the masses."""
        robot = self.problem.robot
        M2 = mass_matrix(robot, self.recording.q[at]) ** 2
        S = np.zeros((at.size, robot.n_joints))
        for sensor in self.problem.sensors:
            if isinstance(sensor, JointAcceleration):
                S[:, sensor.joint_index(robot)] = sensor.covariance[0, 0] * scale[sensor.name] ** 2
        own = np.stack([s.covariance[0, 0] * scale[s.name] ** 2 for s in sensors], axis=1)
        joints = [sensor.joint_index(robot) for sensor in sensors]
        variances: Array = own + np.einsum("tjk,tk->tj", M2[:, joints], S)
        return variances


def _lasting(grid: _Grid, links: tuple[str, ...]) -> tuple[str, ...]:
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
    grid: _Grid,
    found: Mapping[tuple[str, ...], Detection],
    lasting: tuple[str, ...],
    load: CarriedLoad | None,
    noise: ReadingNoise,
) -> LogContacts:
    scales = {tested: grid.scales(tested, lasting, noise) for tested in found}
    return replace(collected_contacts(found, scales), lasting=lasting, load=load, noise=noise)


def collected_contacts(
    found: Mapping[tuple[str, ...], Detection], scales: Mapping[tuple[str, ...], Scales]
) -> LogContacts:
    """Contacts with their forces, and what can be detected, of groups of links."""
    contacts: list[ContactInterval] = []
    detectable: dict[str, dict[float, tuple[float, float]]] = {}
    inflation: dict[str, float] = {}
    for tested, detection in found.items():
        of = scales[tested]
        for link in tested:
            forces = detectable_force(of, detection, link)
            detectable[link] = {w * of.period: pair for w, pair in forces.items()}
            inflation[link] = detection.inflation[link, 1]
        contacts += [_interval(of.one, c, inflation[c.link]) for c in detection.contacts]
    ordered = tuple(sorted(contacts, key=lambda contact: contact.start))
    return LogContacts(ordered, (), None, None, detectable, inflation)


def _interval(one: Evidence, contact: Detected, inflation: float) -> ContactInterval:
    mean, covariance = one.of(contact.link).wrench(contact.link)
    all_sizes = np.linalg.norm(mean[contact.first : contact.last + 1, :3], axis=1)
    # The filter spreads what begins at once: what is small at the ends is that.
    large = np.flatnonzero(all_sizes >= _EDGE * np.median(all_sizes))
    first, last = contact.first + int(large[0]), contact.first + int(large[-1])
    here = slice(first, last + 1)
    force, C, size = (
        mean[here, :3],
        inflation * covariance[here, :3, :3],
        all_sizes[large[0] :][: last + 1 - first],
    )
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


class MarginalContacts:
    """Contacts from posteriors of a whole log, chunk by chunk, where the state is estimated too.

    Evidence of a link is that beside all others, whose wrenches keep their priors.
    """

    def __init__(
        self,
        recording: Recording,
        priors: Mapping[str, GaussianPrior],
        settings: DetectionSettings,
    ) -> None:
        t = recording.t
        rate = 1.0 / float(np.median(np.diff(t))) if t.size > 1 else 1.0
        self._step = max(1, round(rate * _PERIOD))
        ends = [*recording.starts[1:], t.size]
        parts = [np.arange(a, b, self._step) for a, b in zip(recording.starts, ends, strict=True)]
        self._rows = np.concatenate(parts)
        self._starts = np.cumsum([0, *(part.size for part in parts[:-1])])
        self._t, self._priors, self._settings = t, priors, settings
        self._period = self._step / rate
        self._parts: dict[str, list[tuple[Array, Array]]] = {link: [] for link in priors}

    def add(self, first: int, link: str, mean: Array, covariance: Array) -> None:
        """Take means (T, 6), less those of the prior, and covariances (T, 6, 6) of a chunk."""
        here = self._rows[(self._rows >= first) & (self._rows < first + len(mean))] - first
        self._parts[link].append((mean[here].copy(), covariance[here].copy()))

    def found(self) -> LogContacts:
        """Contacts in all chunks so far."""
        known = {link: parts for link, parts in self._parts.items() if parts}
        if not known:
            return LogContacts((), (), None, None, {}, {})
        joined = {
            link: [np.concatenate(x) for x in zip(*parts, strict=True)]
            for link, parts in known.items()
        }
        size = len(next(iter(joined.values()))[0])
        rows, starts = self._rows[:size], self._starts[self._starts < max(size, 1)]
        one = Evidence.from_posteriors(
            self._t[rows],
            {link: self._priors[link].covariance for link in known},
            {link: mean for link, (mean, _) in joined.items()},
            {link: C for link, (_, C) in joined.items()},
        )
        windows = [1, *(w for w in WINDOWS if w * 4 <= size)]
        scales = Scales(
            {w: one.averaged(starts, w).scaled(w) for w in windows}, starts, self._period
        )
        links = tuple(known)
        detection = detect_contacts(scales, self._settings)
        return collected_contacts({links: detection}, {links: scales})
