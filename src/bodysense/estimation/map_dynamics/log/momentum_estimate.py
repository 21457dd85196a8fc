"""`MomentumLogEstimate`: external torques and wrenches during a recording, by momentum.

The second estimator of a log (``--method momentum``). It takes torques of the drives, positions and
velocities, filtered alike (`signals`), and no accelerations. The filter leaves the density of their
noise below its cut-off as it was, so the observer counts on what they have before it. Scores of its
estimates (`MomentumEstimate.scores`) are evidence for the same detector of contacts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from bodysense.errors import MismatchError, listing
from bodysense.estimation.contact.detector import (
    WINDOWS,
    Detection,
    DetectionSettings,
    Scales,
    detect_contacts,
)
from bodysense.estimation.contact.evidence import Evidence, prior_root
from bodysense.estimation.map_dynamics.estimator import Detail, MapDynamics
from bodysense.estimation.map_dynamics.log.contacts import (
    LogContacts,
    collected_contacts,
    find_contacts,
    prior_means,
)
from bodysense.estimation.map_dynamics.log.estimate import LogChunk, LogEstimate
from bodysense.estimation.map_dynamics.log.evidence_grid import open_links
from bodysense.estimation.map_dynamics.log.recording import Recording
from bodysense.estimation.map_dynamics.setup import EstimationSetup
from bodysense.estimation.momentum.estimate import AssumedContact, MomentumEstimate
from bodysense.estimation.momentum.observer import MomentumObserver
from bodysense.estimation.posterior import NamedSlices, Posterior
from bodysense.sensors.motion_sensors import JointTorque
from bodysense.spatial.arrays import Array

_LEAST_STD = 1e-9  # N·m and rad/s: of torques and velocities without noise


@dataclass(frozen=True, eq=False, repr=False)
class MomentumLogEstimate(LogEstimate):
    """The estimates of a log by momentum; computed as a whole, given out chunk by chunk.

    Attributes:
        momentum: external torques, piece by piece of the recording.
        method: of the estimate.
    """

    momentum: tuple[MomentumEstimate, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        used = {s.name for s in torques_of_all_joints(self.problem)}
        kinds = {s.kind for s in self.problem.sensors if s.name not in used}
        unused = [f"not used by the momentum observer: {listing(sorted(kinds))}"] if kinds else []
        return (*super().notes, *unused)

    @property
    def variables(self) -> NamedSlices:
        observer = self.momentum[0].observer
        wrenches = [(f"fx.{link}", 6) for link in open_links(self.problem)]
        sizes = [*observer.variables.sizes, *wrenches]
        return NamedSlices.from_sizes("quantity", sizes)

    def chunks(
        self, samples: int = 1000, *, detail: Detail = "variances", judge: bool = False
    ) -> Iterator[LogChunk]:
        """All samples, so many at a time; there is no sensor to hold against another."""
        contacts = self._contacts
        starts = [*self.recording.starts, self.t.size]
        for part, (begin, end) in zip(self.momentum, pairwise(starts), strict=True):
            whole = part.posterior(contacts)
            for first in range(begin, end, samples):
                where = slice(first, min(first + samples, end))
                given = self._inputs(where)
                inner = slice(where.start - begin, where.stop - begin)
                yield LogChunk(
                    first, self.t[where], given["q"], given["dq"], None, whole.part(inner), None
                )

    def posterior(self, *, detail: Detail = "variances") -> Posterior:
        """All samples at once."""
        return Posterior.joined([part.posterior(self._contacts) for part in self.momentum])

    @property
    def _contacts(self) -> list[AssumedContact]:
        known = self.problem.assumptions
        links = open_links(self.problem)
        return [AssumedContact(link, prior=known.wrench_of(link)) for link in links]


def torques_of_all_joints(problem: MapDynamics) -> tuple[JointTorque, ...]:
    """One sensor of the torque of each joint, in the order of the joints.

    Raises:
        MismatchError: a joint has none.
    """
    by_joint = {s.joint: s for s in problem.sensors if isinstance(s, JointTorque) and s.channels}
    missing = [joint for joint in problem.robot.joint_names if joint not in by_joint]
    if missing:
        raise MismatchError(
            f"the momentum observer needs the torque of every joint, and the sensors file has none "
            f"of {listing(missing)}: add motors: {{kind: joint_torque, joint: all, side: drive, "
            "std: ...}, lock joints that stand still (--lock), or use --method map."
        )
    return tuple(by_joint[joint] for joint in problem.robot.joint_names)


def prepare_momentum(
    setup: EstimationSetup,
    problem: MapDynamics,
    recording: Recording,
    settings: DetectionSettings,
) -> MomentumLogEstimate:
    """Estimate external torques of a recording and find contacts; see `MomentumObserver`.

    Raises:
        MismatchError: a base that floats, or joints without a torque.
    """
    if problem.robot.floating_base:
        raise MismatchError(
            f"--method momentum needs a robot that is bolted down, and the base of "
            f"{problem.robot.name} floats: use --method map, --fixed, or MomentumObserver from "
            "Python with the motion of the base."
        )
    sensors = torques_of_all_joints(problem)
    learned = find_contacts(problem, recording, setup.gravity, settings).noise
    noise = recording.noise if learned is None else learned
    assert noise is not None  # which every recording with positions has
    q, dq, tau = recording.q, recording.dq, _without_friction(problem, recording, sensors)
    torque_std = [
        max(_LEAST_STD, max(1.0, noise.white[s.name]) * float(np.sqrt(s.covariance[0, 0])))
        for s in sensors
    ]
    velocity_std = np.maximum(_LEAST_STD, noise.sigma_q * noise.rate / np.sqrt(2.0))
    observer = MomentumObserver(
        problem.robot.with_friction("none"),
        torque_std=torque_std,
        velocity_std=velocity_std,
        bandwidth=noise.cutoff,
        side=[s.side for s in sensors],
    )
    lasting = np.stack(
        [noise.lasting[s.name] * float(np.sqrt(s.covariance[0, 0])) for s in sensors], axis=1
    )
    parts = tuple(
        _with_lasting(
            observer.estimate(recording.t[a:b], q[a:b], dq[a:b], tau[a:b], gravity=setup.gravity),
            lasting[a:b],
        )
        for a, b in pairwise([*recording.starts, recording.t.size])
    )
    found = _found(problem, recording, parts, settings)
    return MomentumLogEstimate(setup, problem, recording, None, settings, found, parts)


def _without_friction(
    problem: MapDynamics, recording: Recording, sensors: tuple[JointTorque, ...]
) -> Array:
    """(T, n) torques less the friction that was put back after the filter (see `signals`)."""
    robot, net = problem.robot, recording.readings.copy()
    problem.take_load_friction(recording.dq, net)
    tau = np.empty_like(recording.dq)
    for j, sensor in enumerate(sensors):
        tau[:, j] = net[:, problem.layout.slices[sensor.name].start]
        if sensor.side == "drive":
            law = robot.friction.model
            phi, _ = law.basis(recording.dq[:, j], robot.friction.shape[j])
            tau[:, j] -= phi @ problem.drive[j]
    return tau


def _with_lasting(estimate: MomentumEstimate, std: Array) -> MomentumEstimate:
    """External torques that are not known better than errors (T, n) that last, as of friction."""
    covariance = estimate.covariance.copy()
    n = np.arange(std.shape[1])
    covariance[:, n, n] += std**2
    return replace(estimate, covariance=covariance)


def _found(
    problem: MapDynamics,
    recording: Recording,
    parts: tuple[MomentumEstimate, ...],
    settings: DetectionSettings,
) -> LogContacts:
    links, noise = open_links(problem), recording.noise
    if not links or noise is None:
        return LogContacts((), (), None, None, {}, {})
    step = max(1, round(noise.rate / (2.0 * noise.cutoff)))
    root = {link: prior_root(problem.assumptions.wrench_of(link).covariance) for link in links}
    score: dict[str, list[Array]] = {link: [] for link in links}
    information: dict[str, list[Array]] = {link: [] for link in links}
    times: list[Array] = []
    means = prior_means(problem)
    starts, count = [], 0
    for part in parts:
        told, at = part.scores(links), slice(step - 1, None, step)
        times.append(part.t[at])
        starts.append(count)
        count += times[-1].size
        for link in links:
            R, J = root[link], told.information[link][at]
            score[link].append((told.score[link][at] - J @ means[link]) @ R)
            information[link].append(R.T @ J @ R)
    if not count:
        return LogContacts((), (), None, None, {}, {})
    one = Evidence(
        np.concatenate(times),
        root,
        {link: np.concatenate(x) for link, x in score.items()},
        {link: np.concatenate(x) for link, x in information.items()},
    )
    begin = np.array(starts, dtype=np.int64)
    windows = [1, *(w for w in WINDOWS if w * 4 <= one.t.size)]
    # What friction hides lasts: a mean over time is not known better than its samples.
    evidence = {w: one.averaged(begin, w) for w in windows}
    scales = Scales(evidence, begin, step / noise.rate)
    detection: Detection = detect_contacts(scales, settings)
    return collected_contacts({links: detection}, {links: scales}, prior_means(problem))
