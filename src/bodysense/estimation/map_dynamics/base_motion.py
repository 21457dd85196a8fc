"""`root_twist`: how the root of a floating robot moves, from gyroscopes and from feet that stand.

Wherever a gyroscope sits, joint velocities lead from its link L to the root; and a foot that stands
has no velocity, or none of one point (all in one set of axes, x a point of the link):

    omega_L = omega_root + J_omega(q) dq                            what the gyroscope reads
    v_L(x)  = v_root + omega_root × (x - p_root) + J_v(q) dq = 0    at a foot, omega_L = 0 if flat

The estimate weighs all of them by their covariances. Errors of the joint velocities are common to
all and count with them, so that a gyroscope counts for the more the nearer to the root it is. Only
the angular velocity changes forces: a linear one that nothing tells stays zero, and wide.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bodysense.errors import MismatchError
from bodysense.robot.frames import LinkPoses, moving_frame, supporting_joints
from bodysense.robot.robot import Robot
from bodysense.sensors.motion_sensors import Gyroscope
from bodysense.spatial.arrays import Array, as_array
from bodysense.spatial.se3 import skew

if TYPE_CHECKING:
    from bodysense.estimation.map_dynamics.estimator import MapDynamics

VELOCITY_STD = 0.02
"""rad/s or m/s: of joint velocities, as differences of encoders have it."""
_SLIP = (0.02, 0.05)
"""m/s and rad/s: how much a foot that stands may slide and tilt."""
_WIDE = (10.0, 100.0)
"""m/s and rad/s: standard deviations of the root's twist before anything is measured."""
_KNOWN = 0.1  # share of that standard deviation below which an angular velocity is known
_EXACT = 1e-5  # m/s and rad/s: of readings without noise, which could not be weighed otherwise
_CHUNK = 4096  # samples at once: memory stays bounded


@dataclass(frozen=True)
class StandingFeet:
    """Links, or frames fixed to them, that stand on the ground while the root floats.

    Attributes:
        flat: that neither slide nor tilt, such as soles.
        points: whose origin does not slide, such as the tips of a quadruped's legs.
    """

    flat: tuple[str, ...] = ()
    points: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.flat or self.points)


class RootTwist(NamedTuple):
    """The twist of a floating root in its own frame at T samples, linear first.

    Attributes:
        mean: (T, 6).
        covariance: (T, 6, 6).
        known: (T,) whether the angular velocity is known there.
        sources: gyroscopes and feet that it comes from.
    """

    mean: Array
    covariance: Array
    known: NDArray[np.bool_]
    sources: tuple[str, ...]

    @property
    def held(self) -> Array:
        """(T, 6) the mean, and where it is not known the last one before, or the first."""
        last = np.maximum.accumulate(np.where(self.known, np.arange(self.known.size), -1))
        first = int(np.argmax(self.known))
        return np.asarray(self.mean[np.where(last >= 0, last, first)])


class _Source(NamedTuple):
    """A gyroscope (readings not None) or a foot, on a link at R_link and p_link."""

    name: str
    body: int  # row of `LinkPoses`
    R: Array
    p: Array
    angular: bool
    linear: bool
    readings: slice | None
    covariance: Array  # (3, 3) of the gyroscope


def root_twist(
    problem: MapDynamics,
    q: ArrayLike,
    dq: ArrayLike,
    readings: ArrayLike,
    *,
    feet: StandingFeet | None = None,
    velocity_std: float = VELOCITY_STD,
) -> RootTwist:
    """Estimate the twist of a floating root from gyroscopes and standing feet.

    Args:
        problem: the estimator, whose gyroscopes are used wherever they sit.
        q: (T, n_joints) positions.
        dq: (T, n_joints) velocities; NaN where they are missing.
        readings: (T, m) in the order of its sensors; NaN where there is none.
        feet: that stand at all of these samples.
        velocity_std: of dq [rad/s or m/s].

    Raises:
        MismatchError: a robot whose root does not float.
        UnknownNameError: a foot that the robot does not have.
    """
    tree, n = problem.tree, problem.robot.n_joints
    if not tree.floating:
        raise MismatchError(f"{tree.names[0]!r} is held still: its twist is zero.")
    q, dq = as_array(q, (None, n), "q"), np.array(dq, dtype=np.float64, ndmin=2)
    y = np.array(readings, dtype=np.float64, ndmin=2)
    sources = [*_gyroscopes(problem), *_feet(problem.robot, feet or StandingFeet())]
    chunks = (slice(k, k + _CHUNK) for k in range(0, len(q), _CHUNK))
    parts = [_solved(problem, sources, q[c], dq[c], y[c], velocity_std) for c in chunks]
    mean = np.concatenate([np.zeros((0, 6)), *(part[0] for part in parts)])
    covariance = np.concatenate([np.zeros((0, 6, 6)), *(part[1] for part in parts)])
    spread = np.linalg.eigvalsh(covariance[:, 3:, 3:]).max(axis=1, initial=0.0)
    known = np.sqrt(spread) < _KNOWN * _WIDE[1]
    return RootTwist(mean, covariance, known, tuple(source.name for source in sources))


def require_root_twist(problem: MapDynamics, q: Array, dq: Array, readings: Array) -> Array:
    """(T, 6) twist of a floating root from the gyroscopes among its sensors.

    Raises:
        MismatchError: there is none, or it never reads anything.
    """
    result = root_twist(problem, q, dq, readings)
    if not result.known.any() and len(q):
        what = "none of its gyroscopes reads" if result.sources else "no gyroscope measures"
        raise MismatchError(
            f"{problem.tree.names[0]!r} floats, and {what} its angular velocity: give base_twist, "
            "linear velocity first, then angular, in its frame; np.zeros(6) if it is at rest."
        )
    return result.held


def _gyroscopes(problem: MapDynamics) -> list[_Source]:
    robot, result = problem.robot, []
    for sensor in problem.sensors:
        if isinstance(sensor, Gyroscope):
            place = sensor.placement(robot)
            noise = sensor.covariance
            if sensor.bias_sigma is not None:
                noise = noise + np.diag(sensor.bias_sigma**2)
            where = problem.layout.slices[sensor.name]
            body = robot.link_names.index(place.link)
            result.append(_Source(sensor.name, body, place.R, place.p, True, False, where, noise))
    return result


def _feet(robot: Robot, feet: StandingFeet) -> list[_Source]:
    result = []
    for name in (*feet.flat, *feet.points):
        frame = moving_frame(robot, name, "a standing foot")
        R, p = frame.placement.rotation, frame.placement.translation
        flat = name in feet.flat
        body = frame.parentJoint - 1
        result.append(_Source(name, body, R, p, flat, True, None, _SLIP[1] ** 2 * np.eye(3)))
    return result


def _solved(
    problem: MapDynamics,
    sources: list[_Source],
    q: Array,
    dq: Array,
    y: Array,
    velocity_std: float,
) -> tuple[Array, Array]:
    """Mean (T, 6) and covariance (T, 6, 6): least squares with a wide prior.

    z = H twist + noise,  cov(noise) = blocks + J diag(velocity_std²) Jᵀ
    """
    robot, T = problem.robot, len(q)
    full = np.concatenate([np.zeros((T, robot.nq - robot.n_joints)), q], axis=1)
    poses, moves = LinkPoses.from_robot(robot, full), supporting_joints(robot)
    root = robot.link_names.index(problem.tree.names[0])
    missing = np.isnan(dq)
    speeds, std = np.where(missing, 0.0, dq), np.where(missing, _WIDE[1], velocity_std)
    parts = [_rows(source, poses, moves, root, y) for source in sources]
    m = sum(part[0].shape[1] for part in parts)
    H, J = np.zeros((T, m, 6)), np.zeros((T, m, robot.n_joints))
    z, N, at = np.zeros((T, m)), np.zeros((T, m, m)), 0
    for own_z, own_H, own_J, own_N in parts:
        here = slice(at, at + own_z.shape[1])
        z[:, here], H[:, here], J[:, here], N[:, here, here] = own_z, own_H, own_J, own_N
        at = here.stop
    gone = np.isnan(z)
    z = np.where(gone, 0.0, z - np.einsum("tij,tj->ti", J, speeds))
    H[gone], J[gone] = 0.0, 0.0
    scaled = J * std[:, None]
    N += scaled @ scaled.transpose(0, 2, 1) + _EXACT**2 * np.eye(m)
    weighted = np.linalg.solve(N, np.concatenate([H, z[:, :, None]], axis=2))
    prior = np.diag(np.repeat(np.asarray(_WIDE) ** -2.0, 3))
    information = H.transpose(0, 2, 1) @ weighted[:, :, :6] + prior
    covariance = np.asarray(np.linalg.inv(information), dtype=np.float64)
    mean = covariance @ (H.transpose(0, 2, 1) @ weighted[:, :, 6:])
    return mean[:, :, 0], covariance


def _rows(
    source: _Source, poses: LinkPoses, moves: NDArray[np.bool_], root: int, y: Array
) -> tuple[Array, Array, Array, Array]:
    """Readings z (T, k), H (T, k, 6), J (T, k, n) and noise (T, k, k), in axes of the root.

    NaN in z where there is no reading.
    """
    T = len(y)
    x = poses.p[source.body] + poses.R[source.body] @ source.p
    to_root = poses.R[root].transpose(0, 2, 1)
    signs = moves[source.body].astype(float) - moves[root]
    turning = np.where(poses.prismatic.astype(bool), 0.0, signs)[:, None, None] * poses.axes
    sliding = np.where(poses.prismatic.astype(bool), signs, 0.0)[:, None, None] * poses.axes
    along = np.cross(turning, x - poses.p[1:]) + sliding
    z, H, J, N = [], [], [], []
    if source.linear:
        lever = (to_root @ (x - poses.p[root])[:, :, None])[:, :, 0]
        z.append(np.zeros((T, 3)))
        H.append(np.concatenate([np.tile(np.eye(3), (T, 1, 1)), -skew(lever)], axis=2))
        J.append(to_root @ along.transpose(1, 2, 0))
        N.append(np.tile(_SLIP[0] ** 2 * np.eye(3), (T, 1, 1)))
    if source.angular:
        turned = to_root @ poses.R[source.body] @ source.R
        read = np.zeros((T, 3)) if source.readings is None else y[:, source.readings]
        read = np.where(np.isnan(read).any(axis=1, keepdims=True), np.nan, read)
        z.append((turned @ read[:, :, None])[:, :, 0])
        H.append(np.tile(np.eye(3, 6, 3), (T, 1, 1)))
        J.append(to_root @ turning.transpose(1, 2, 0))
        N.append(turned @ source.covariance @ turned.transpose(0, 2, 1))
    noise = np.zeros((T, 3 * len(N), 3 * len(N)))
    for k, block in enumerate(N):
        noise[:, 3 * k : 3 * k + 3, 3 * k : 3 * k + 3] = block
    return np.concatenate(z, 1), np.concatenate(H, 1), np.concatenate(J, 1), noise
