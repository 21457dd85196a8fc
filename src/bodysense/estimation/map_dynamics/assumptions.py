"""`Assumptions`: what is believed before any reading, and how far the equations are trusted.

Independent of one another a priori are the external wrenches, the joint accelerations and, for a
floating root, its acceleration: all else follows from these by the equations of motion,

    a_i = X_i a_p + S_i q̈_i + c_i + slack,   f_i = I_i a_i + p_i - fx_i + Σ Xᵀ f_j + slack,
    tau_i = S_iᵀ f_i + slack,

whose slacks are Gaussian and by default zero. Further beliefs about accelerations, transmitted
wrenches and torques act as readings (the prior of paper 000, eq (7)).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from bodysense.errors import ShapeError, unknown_name
from bodysense.estimation._kernels.problem import Beliefs
from bodysense.estimation.map_dynamics.belief import Belief
from bodysense.estimation.map_dynamics.body_tree import BodyTree, require_link
from bodysense.estimation.map_dynamics.noise_sources import sources

SHARP = Belief.zero(6)
"""An equation without slack."""


@dataclass(frozen=True, eq=False)
class Assumptions:
    """Beliefs by name.

    Attributes:
        wrench: belief about the external wrench of a link that `wrenches` does not name; zero
            without doubt by default.
        wrenches: beliefs (6) about external wrenches by link, in the link's frame about its
            origin.
        joint_acceleration: belief (1) about the acceleration of each joint.
        base_acceleration: belief (6) about the proper acceleration of a floating root.
        acceleration_slack: (6) of the acceleration equation; its mean counts for nothing.
        wrench_slack: (6) of the wrench balance.
        torque_slack: (1) of tau = Sᵀ f.
        others: more beliefs by quantity: ``a.<link>`` (6), ``f.<joint>`` (6), ``tau.<joint>`` (1),
            ``ddq.<joint>`` (1).
    """

    wrench: Belief = field(default_factory=lambda: Belief.zero(6))
    wrenches: Mapping[str, Belief] = field(default_factory=dict)
    joint_acceleration: Belief = field(default_factory=lambda: Belief.unknown(1))
    base_acceleration: Belief = field(default_factory=lambda: Belief.unknown(6))
    acceleration_slack: Belief = SHARP
    wrench_slack: Belief = SHARP
    torque_slack: Belief = field(default_factory=lambda: Belief.zero(1))
    others: Mapping[str, Belief] = field(default_factory=dict)

    def __post_init__(self) -> None:
        sizes = {"joint_acceleration": 1, "torque_slack": 1}
        for name in ("wrench", "base_acceleration", "acceleration_slack", "wrench_slack", *sizes):
            _require_size(getattr(self, name), sizes.get(name, 6), name)
        for link, belief in self.wrenches.items():
            _require_size(belief, 6, f"the external wrench of {link}")
        for name, belief in self.others.items():
            quantity = name.partition(".")[0]
            if quantity not in ("a", "f", "tau", "ddq"):
                raise unknown_name("quantity", name, ("a.<link>", "f.<joint>", "tau.<joint>"))
            _require_size(belief, 6 if quantity in ("a", "f") else 1, name)

    def arrays(self, tree: BodyTree) -> Beliefs:
        """As plain arrays for the kernels."""
        unknown = [link for link in self.wrenches if link not in tree.names]
        if unknown:
            require_link(tree.robot, unknown[0], "external wrenches")
            raise unknown_name("link with an external wrench", unknown[0], tree.names)
        wrenches = [self.wrenches.get(name, self.wrench) for name in tree.names]
        wrench = sources(np.stack([belief.covariance for belief in wrenches]))
        slack = sources(np.stack([self.wrench_slack.covariance] * tree.n))
        soft = bool(self.acceleration_slack.covariance.any())
        motion = np.zeros((tree.n, 7, 7))
        motion[:, 0, :6], motion[:, 0, 6] = tree.arrays.S, 1.0
        motion[:, 0] *= float(np.sqrt(self.joint_acceleration.covariance[0, 0]))
        motion[:, 1:, :6] = sources(self.acceleration_slack.covariance)
        motion[0] = 0.0
        motion[0, :6, :6] = sources(self.base_acceleration.covariance)
        return Beliefs(
            wrench_mean=np.stack([belief.mean for belief in wrenches]),
            wrench=wrench,
            joint_mean=np.full(tree.n, self.joint_acceleration.mean[0]),
            motion=motion,
            slack=slack,
            torque=np.full(tree.n, float(np.sqrt(self.torque_slack.covariance[0, 0]))),
            n_wrench=np.where(wrench.any(axis=(1, 2)), 6, 0),
            n_motion=np.array([6, *[7 if soft else 1] * (tree.n - 1)], dtype=np.int64),
            n_slack=np.where(slack.any(axis=(1, 2)), 6, 0),
        )


def _require_size(belief: Belief, size: int, name: str) -> None:
    if belief.mean.size != size:
        raise ShapeError(f"{name} has {belief.mean.size} numbers, expected {size}.")
