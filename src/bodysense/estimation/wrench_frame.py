"""`wrench_in`: an estimated external wrench about another point, in other axes.

Posteriors hold the wrench on a link in the link's frame about its origin. About a point P of the
link, in axes A,

    f_A = R_A_link f,    m_A = R_A_link (m - p_link_P × f),

or w_A = X w with a covariance of X Cov(w) Xᵀ. Axes of the world and of other links depend on the
positions of the joints.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pinocchio as pin
from numpy.typing import ArrayLike

from bodysense.errors import MismatchError, ShapeError
from bodysense.estimation.posterior import Posterior
from bodysense.robot.frames import LinkPoses, moving_frame
from bodysense.robot.robot import Robot, require_robot
from bodysense.spatial.arrays import Array, as_array
from bodysense.spatial.se3 import skew

WORLD_AXES = "world"
"""The axes of the world: z points up."""


class FrameWrench(NamedTuple):
    """A wrench, linear first [N, N·m].

    Attributes:
        mean: (T, 6), or (6,) of a single sample.
        covariance: (T, 6, 6) or (6, 6); `None` if the posterior has no covariances.
    """

    mean: Array
    covariance: Array | None

    @property
    def sigma(self) -> Array:
        """Standard deviations, shaped as the mean; `ShapeError` if there are none."""
        if self.covariance is None:
            raise ShapeError("no covariances were computed: ask for them (detail='blocks').")
        variance = np.einsum("...ii->...i", self.covariance)
        return np.asarray(np.sqrt(np.maximum(variance, 0.0)))


def wrench_in(
    robot: Robot,
    posterior: Posterior,
    frame: str,
    *,
    at: ArrayLike = (0.0, 0.0, 0.0),
    axes: str | None = None,
    q: ArrayLike | None = None,
) -> FrameWrench:
    """Express the external wrench on a link in a frame that a user asks for.

    Args:
        robot: whose estimate it is.
        posterior: of `MapDynamics` or of a log.
        frame: a link, or a frame fixed to one, such as a tool flange: the wrench on its link.
        at: (3,) point in this frame about which moments are [m]; by default its origin.
        axes: ``world``, or a link or any frame; by default those of `frame`.
        q: (T, n_joints) or (n_joints,) positions, for axes of another link or of the world; of a
            robot that floats, those of the world need (T, nq), with the pose of its base first.

    Raises:
        UnknownNameError: a link or frame that the robot does not have.
        MismatchError: axes that depend on positions that are not given, or a link without estimate.
    """
    require_robot(robot)
    place = moving_frame(robot, frame, "the wrench")
    link = robot.link_names[place.parentJoint - 1]
    name = f"fx.{link}"
    if name not in posterior.variables:
        raise MismatchError(
            f"there is no external wrench on {link!r} among the estimates: it is held still."
        )
    point = place.placement.act(as_array(at, (3,), "at"))
    R = _rotation(robot, place, axes, q, posterior)  # R_axes_link
    X = np.zeros((*R.shape[:-2], 6, 6))
    X[..., :3, :3] = X[..., 3:, 3:] = R
    X[..., 3:, :3] = -R @ skew(point)
    mean = (X @ posterior[name][..., None])[..., 0]
    if name not in posterior.blocks:
        return FrameWrench(mean, None)
    return FrameWrench(mean, X @ posterior.covariance(name) @ np.swapaxes(X, -1, -2))


def _rotation(
    robot: Robot, place: pin.Frame, axes: str | None, q: ArrayLike | None, posterior: Posterior
) -> Array:
    """(3, 3) or (T, 3, 3) R_axes_link."""
    world = axes == WORLD_AXES
    other = place if axes is None or world else _axes_frame(robot, axes)
    if not world and other.parentJoint == place.parentJoint:
        return np.asarray(other.placement.rotation.T)
    if q is None:
        raise MismatchError(
            f"axes of {axes!r} turn against {place.name!r} with the joints: give positions q."
        )
    full, single = _positions(robot, q, world), np.ndim(q) == 1
    T = 1 if posterior.single else len(posterior.mean)
    if len(full) not in (1, T) or (posterior.single and not single):
        raise ShapeError(f"q has {len(full)} rows for {T} samples: give one, or one per sample.")
    poses, first = LinkPoses.from_robot(robot, full), int(not robot.floating_base)
    # R_base_link: rows of links follow the base's
    R: Array = poses.R[place.parentJoint - 1 + first]
    if world:
        R = _base_rotations(robot, full) @ R
    else:
        row = max(other.parentJoint - 1 + first, 0)  # frames of the ground: those of the base
        R_axes = poses.R[row] @ other.placement.rotation
        R = R_axes.transpose(0, 2, 1) @ R
    return R[0] if posterior.single else R


def _axes_frame(robot: Robot, name: str) -> pin.Frame:
    """A frame of this name, which may be part of the ground as well."""
    if name not in robot.link_names:
        for frame in robot.model.frames:
            if frame.name == name and frame.parentJoint == 0:
                ground: pin.Frame = frame
                return ground
    return moving_frame(robot, name, "axes of the wrench")


def _positions(robot: Robot, q: ArrayLike, world: bool) -> Array:
    """(T, nq) positions; where the base is does not matter to axes of links."""
    given = np.array(q, dtype=np.float64, ndmin=2)
    n, nq = robot.n_joints, robot.nq
    if robot.floating_base and given.shape[-1] == n:
        if world:
            raise MismatchError(
                f"{robot.name} floats, so that axes of the world need the pose of its base: give q "
                f"of {nq} numbers, position and quaternion (x, y, z, w) of the base first."
            )
        base = np.tile([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0], (len(given), 1))
        given = np.concatenate([base, given], axis=1)
    return as_array(given, (None, nq), "q")


def _base_rotations(robot: Robot, full: Array) -> Array:
    """(T, 3, 3) R_world_base."""
    if not robot.floating_base:
        return np.eye(3)[None]
    lengths = np.linalg.norm(full[:, 3:7], axis=1)
    if np.abs(lengths - 1.0).max(initial=0.0) > 1e-3:
        raise ShapeError(
            "the orientation of the base in q is no rotation: give a unit quaternion x, y, z, w."
        )
    matrices = [pin.Quaternion(*x[[3, 0, 1, 2]]).matrix() for x in full[:, 3:7]]
    return np.asarray(np.stack(matrices), dtype=np.float64)
