"""`GaussianPrior`: a mean and a covariance, for what is known before any reading.

Priors about external wrenches may be given in any frame fixed to a link; those that say that
nothing is known are as wide as is plausible for the robot (see `plausible_sizes`). Both are settled
where the robot is known, by `Assumptions.on`, which `MapDynamics` calls.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pinocchio as pin
from numpy.typing import ArrayLike

from bodysense.errors import ShapeError, unknown_name
from bodysense.estimation._kernels.elimination import EXACT
from bodysense.estimation._kernels.problem import Priors
from bodysense.estimation.map_dynamics.body_tree import WORLD, BodyTree
from bodysense.estimation.map_dynamics.plausible_sizes import PlausibleSizes
from bodysense.robot.frames import moving_frame
from bodysense.robot.robot import Robot
from bodysense.sensors.sensor import check_covariance
from bodysense.spatial.arrays import Array, as_array, one_each, read_only

UNKNOWN = 1e3
"""Standard deviation of what is unknown, in SI units, as long as no robot is known."""

_SHORTEST = 1e-9  # length of a vector that gives a direction


@dataclass(frozen=True, eq=False)
class GaussianPrior:
    """A Gaussian prior about k numbers.

    Attributes:
        mean: (k,).
        covariance: (k, k), zero where it is exact.
        is_unknown: whether nothing is known: the covariance holds until a robot says how large
            such numbers can be.
    """

    mean: Array
    covariance: Array
    is_unknown: bool = False

    def __post_init__(self) -> None:
        mean = as_array(self.mean, (None,), "the mean of a prior")
        covariance = check_covariance(self.covariance, mean.size, "the covariance of a prior")
        object.__setattr__(self, "mean", read_only(mean))
        object.__setattr__(self, "covariance", covariance)

    @classmethod
    def of(cls, mean: ArrayLike, std: ArrayLike) -> GaussianPrior:
        """Independent numbers: means (k,) and standard deviations, one or (k,)."""
        centre = as_array(mean, (None,), "mean")
        sigma = np.broadcast_to(np.asarray(std, dtype=np.float64), centre.shape)
        if (sigma < 0.0).any():
            raise ShapeError(f"std of a prior is {sigma.min():g}: give numbers from zero up.")
        return cls(centre, np.diag(sigma**2))

    @classmethod
    def zero(cls, k: int, std: ArrayLike = 0.0) -> GaussianPrior:
        """Zero, up to a standard deviation."""
        return cls.of(np.zeros(k), std)

    @classmethod
    def unknown(cls, k: int) -> GaussianPrior:
        """Anything that is plausible for the robot."""
        return replace(cls.of(np.zeros(k), UNKNOWN), is_unknown=True)

    @classmethod
    def force(
        cls,
        std: ArrayLike,
        *,
        mean: ArrayLike = 0.0,
        direction: ArrayLike | None = None,
        moment_std: ArrayLike = 0.0,
    ) -> GaussianPrior:
        """An external wrench (6) that is a force at the frame's origin, without moment about it.

        Args:
            std: of the force [N], one number or (3,); along the direction if there is one.
            mean: likewise.
            direction: (3,) of a force of known direction in the frame's axes; of any length but
                zero.
            moment_std: of the moment about the origin [N·m], one number or (3,).
        """
        axes = np.eye(3)
        if direction is not None:
            line = as_array(direction, (3,), "direction")
            length = float(np.linalg.norm(line))
            if length < _SHORTEST:
                raise ShapeError("the direction of a force has no length: give [0, 0, 1], say.")
            axes = line[:, None] / length
        k = axes.shape[1]
        along = cls.of(one_each(mean, k, "mean"), one_each(std, k, "std"))
        moment = cls.zero(3, one_each(moment_std, 3, "moment_std"))
        covariance = np.zeros((6, 6))
        covariance[:3, :3] = axes @ along.covariance @ axes.T
        covariance[3:, 3:] = moment.covariance
        return cls(np.concatenate([axes @ along.mean, np.zeros(3)]), covariance)

    def within(self, sizes: ArrayLike) -> GaussianPrior:
        """The prior with these standard deviations (k,), if it is unknown; else as it is."""
        return GaussianPrior.of(self.mean, sizes) if self.is_unknown else self

    def moved(self, T_link_frame: pin.SE3) -> GaussianPrior:
        """An external wrench (6) in a frame as one in the link's frame, about its origin."""
        if T_link_frame.isIdentity(0.0):
            return self
        X = T_link_frame.toDualActionMatrix()
        return GaussianPrior(X @ self.mean, X @ self.covariance @ X.T)

    def __add__(self, other: GaussianPrior) -> GaussianPrior:
        """The sum of independent numbers, such as wrenches at two places of a link."""
        return GaussianPrior(self.mean + other.mean, self.covariance + other.covariance)


# Covariances as sources of unit noise: rows R with RᵀR the covariance (see `_kernels`).

_ROUNDING = 1e-15  # of the largest variance: below it an eigenvalue is zero


def sources(covariance: Array) -> Array:
    """(…, k, k) R with RᵀR = covariance; rows of zero where it is exact."""
    diagonal = np.einsum("...ii->...i", covariance)
    k = covariance.shape[-1]
    if not (covariance * (1.0 - np.eye(k))).any():
        return np.asarray(np.sqrt(diagonal)[..., None] * np.eye(k))
    values, vectors = np.linalg.eigh(covariance)
    values = np.where(values > _ROUNDING * values.max(axis=-1, keepdims=True), values, 0.0)
    # Rows behind each other like those above: for another layout the kernels would compile anew.
    return np.ascontiguousarray(np.sqrt(values)[..., None] * vectors.swapaxes(-1, -2))


def reading_triangle(covariance: Array) -> Array:
    """(m, m) upper R with RᵀR = covariance; exact readings are given a tiny variance."""
    m = len(covariance)
    if not (covariance * (1.0 - np.eye(m))).any():
        return np.diag(np.maximum(np.sqrt(np.diag(covariance)), EXACT))
    values, vectors = np.linalg.eigh(covariance)
    rows = np.sqrt(np.maximum(values, EXACT**2))[:, None] * vectors.T
    return np.asarray(np.linalg.qr(rows).R, dtype=np.float64)


def whitener(triangle: Array) -> tuple[Array, float]:
    """W with W covariance Wᵀ = 1 from the triangle of a covariance, and log |det W|."""
    W = np.asarray(np.linalg.inv(triangle.T), dtype=np.float64)
    return W, float(-np.log(np.abs(np.diag(triangle))).sum())


# `Assumptions`: priors, and how exact the equations are.
#
# Independent of one another a priori are the external wrenches, the joint accelerations and, for a
# floating root, its acceleration: all else follows from these by the equations of motion,
#
#     a_i = X_i a_p + S_i q̈_i + c_i + slack,   f_i = I_i a_i + p_i - fx_i + Σ Xᵀ f_j + slack,
#     tau_i = S_iᵀ f_i + slack,
#
# whose slacks are Gaussian and by default zero. Further priors about accelerations, transmitted
# wrenches and torques act as readings (the prior of paper 000, eq (7)).

_SHARP = GaussianPrior.zero(6)
"""An equation without slack."""


@dataclass(frozen=True, eq=False)
class Assumptions:
    """Priors by name.

    Attributes:
        wrench: prior about the external wrench of a link that `wrenches` does not name; exactly
            zero by default.
        wrenches: priors (6) about external wrenches by link, or by a frame fixed to one, in that
            frame about its origin; those on one link act together, and add up.
        joint_acceleration: prior (1) about the acceleration of each joint.
        base_acceleration: prior (6) about the proper acceleration of a floating root.
        acceleration_slack: (6) of the acceleration equation; its mean counts for nothing.
        wrench_slack: (6) of the wrench balance.
        torque_slack: (1) of tau = Sᵀ f.
        others: more priors by quantity: ``a.<link>`` (6), ``f.<joint>`` (6), ``tau.<joint>`` (1),
            ``ddq.<joint>`` (1).
    """

    wrench: GaussianPrior = field(default_factory=lambda: GaussianPrior.zero(6))
    wrenches: Mapping[str, GaussianPrior] = field(default_factory=dict)
    joint_acceleration: GaussianPrior = field(default_factory=lambda: GaussianPrior.unknown(1))
    base_acceleration: GaussianPrior = field(default_factory=lambda: GaussianPrior.unknown(6))
    acceleration_slack: GaussianPrior = _SHARP
    wrench_slack: GaussianPrior = _SHARP
    torque_slack: GaussianPrior = field(default_factory=lambda: GaussianPrior.zero(1))
    others: Mapping[str, GaussianPrior] = field(default_factory=dict)

    def __post_init__(self) -> None:
        sizes = {"joint_acceleration": 1, "torque_slack": 1}
        for name in ("wrench", "base_acceleration", "acceleration_slack", "wrench_slack", *sizes):
            _require_size(getattr(self, name), sizes.get(name, 6), name)
        for link, prior in self.wrenches.items():
            _require_size(prior, 6, f"the external wrench of {link}")
        for name, prior in self.others.items():
            quantity = name.partition(".")[0]
            if quantity not in ("a", "f", "tau", "ddq"):
                raise unknown_name("quantity", name, ("a.<link>", "f.<joint>", "tau.<joint>"))
            _require_size(prior, 6 if quantity in ("a", "f") else 1, name)

    def wrench_of(self, link: str) -> GaussianPrior:
        """Prior about the external wrench of a link."""
        return self.wrenches.get(link, self.wrench)

    def on(self, robot: Robot) -> Assumptions:
        """The same on a robot: wrenches of frames are those of links, unknowns of its own size.

        Raises:
            UnknownNameError: an external wrench on no link or frame.
            MismatchError: one on a frame that is part of the ground.
        """
        names, sizes = robot.link_names, _Sizes(robot)
        wrenches: dict[str, GaussianPrior] = {}
        for name, given in self.wrenches.items():
            prior, link = sizes.settled(f"fx.{name}", given), name
            if name not in names and name != WORLD:
                frame = moving_frame(robot, name, "external wrenches")
                link, prior = names[frame.parentJoint - 1], prior.moved(frame.placement)
            wrenches[link] = wrenches[link] + prior if link in wrenches else prior
        return replace(
            self,
            wrench=sizes.settled("fx.", self.wrench),
            wrenches=wrenches,
            joint_acceleration=sizes.settled("ddq.", self.joint_acceleration),
            base_acceleration=sizes.settled("a.", self.base_acceleration),
            others={name: sizes.settled(name, prior) for name, prior in self.others.items()},
        )

    def arrays(self, tree: BodyTree) -> Priors:
        """As plain arrays for the kernels."""
        unknown = [link for link in self.wrenches if link not in tree.names]
        if unknown:
            raise unknown_name("link with an external wrench", unknown[0], tree.names)
        wrenches = [self.wrench_of(name) for name in tree.names]
        wrench = sources(np.stack([prior.covariance for prior in wrenches]))
        slack = sources(np.stack([self.wrench_slack.covariance] * tree.n))
        soft = bool(self.acceleration_slack.covariance.any())
        motion = np.zeros((tree.n, 7, 7))
        motion[:, 0, :6], motion[:, 0, 6] = tree.arrays.S, 1.0
        motion[:, 0] *= float(np.sqrt(self.joint_acceleration.covariance[0, 0]))
        motion[:, 1:, :6] = sources(self.acceleration_slack.covariance)
        motion[0] = 0.0
        motion[0, :6, :6] = sources(self.base_acceleration.covariance)
        return Priors(
            wrench_mean=np.stack([prior.mean for prior in wrenches]),
            wrench=wrench,
            joint_mean=np.full(tree.n, self.joint_acceleration.mean[0]),
            motion=motion,
            slack=slack,
            torque=np.full(tree.n, float(np.sqrt(self.torque_slack.covariance[0, 0]))),
            n_wrench=np.where(wrench.any(axis=(1, 2)), 6, 0),
            n_motion=np.array([6, *[7 if soft else 1] * (tree.n - 1)], dtype=np.int64),
            n_slack=np.where(slack.any(axis=(1, 2)), 6, 0),
        )


class _Sizes:
    """Plausible sizes of a robot, computed if something is unknown."""

    def __init__(self, robot: Robot) -> None:
        self._robot = robot

    @cached_property
    def _sizes(self) -> PlausibleSizes:
        return PlausibleSizes.of(self._robot)

    def settled(self, name: str, prior: GaussianPrior) -> GaussianPrior:
        """The prior about a quantity of this name, no longer unknown."""
        return prior.within(self._sizes.of_quantity(name)) if prior.is_unknown else prior


def _require_size(prior: GaussianPrior, size: int, name: str) -> None:
    if prior.mean.size != size:
        raise ShapeError(f"{name} has {prior.mean.size} numbers, expected {size}.")
