"""What the kernels of MAP dynamics take: bodies, readings and beliefs as plain arrays.

Bodies are numbered from the root, 0, parents first. Body i hangs on its parent by one joint; its
unknowns are alpha_i = (a_i, joint acceleration), the wrench f_i on it by its parent, the external
wrench fx_i and the joint torque. A root that is fixed has none.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bodysense.robot._kernels.jit import allocating
from bodysense.spatial.arrays import Array

# Groups of blocks of readings, by what they depend on.
OWN_MOTION = 0  # alpha_i alone, or nothing but the state
OWN_WRENCH = 1  # f_i and alpha_i
EXTERNAL = 2  # fx_i alone
PARENT_SIDE = 3  # f_i and the parent's acceleration
GROUPS = 4


class Bodies(NamedTuple):
    """The tree, seen from its root.

    Attributes:
        floating: 1 if the root is a free body, 0 if its motion is known.
        parent: (n,) -1 for the root.
        joint: (n,) the robot's joint above each body, -1 for the root.
        against: (n,) 1 where the joint is passed from its child to its parent.
        prismatic: (n,) 1 for a sliding joint.
        rotation: (n, 3, 9) of the joint in the robot's own direction, as in the robot's tree.
        position: (n, 3) likewise.
        axis: (n, 3) of the joint, in the frame of its child in the robot's own direction.
        S: (n, 6) twist of a unit joint velocity, in the body's frame.
        inertia: (n, 6, 6) spatial inertia, in the body's frame about its origin.
    """

    floating: int
    parent: NDArray[np.int64]
    joint: NDArray[np.int64]
    against: NDArray[np.int64]
    prismatic: NDArray[np.int64]
    rotation: Array
    position: Array
    axis: Array
    S: Array
    inertia: Array


class Readings(NamedTuple):
    """Blocks of readings with a covariance each, sorted by body and group.

    Attributes:
        begin: (n, GROUPS + 1) first block of each body and group.
        first: (n_blocks + 1,) first row of each block.
        mover: (n_blocks,) body whose motion is read.
        on_alpha: (m, 7) coefficients of alpha_i, of the parent's acceleration on its side.
        on_wrench: (m, 6) of f_i; on the parent's side of the wrench on the parent through the
            joint.
        on_external: (m, 6) of fx_i.
        on_torque: (m,) of the joint torque, which is in `on_wrench` too.
        quadratic: (m, 6, 6) by the twist of the mover.
        linear: (m, 6) by its twist.
        position: (m,) by the joint's position.
        velocity: (m,) by the joint's velocity.
        friction: (m,) joint whose friction is in the reading, or -1.
        joint: (m,) joint whose position and velocity are read, or -1.
        covariance: (m, largest block) rows of the covariance of the block.
        white: (m, largest block) rows of W, W covariance Wᵀ = 1.
        log_scale: (n_blocks,) log |det W|.
    """

    begin: NDArray[np.int64]
    first: NDArray[np.int64]
    mover: NDArray[np.int64]
    on_alpha: Array
    on_wrench: Array
    on_external: Array
    on_torque: Array
    quadratic: Array
    linear: Array
    position: Array
    velocity: Array
    friction: NDArray[np.int64]
    joint: NDArray[np.int64]
    covariance: Array
    white: Array
    log_scale: Array


class Beliefs(NamedTuple):
    """What is believed before any reading, and how far the equations themselves are trusted.

    Attributes:
        wrench_mean: (n, 6) of external wrenches.
        wrench: (n, 6, 6) their covariances.
        joint_mean: (n,) of joint accelerations.
        joint: (n,) their variances.
        base_mean: (6,) acceleration of the root.
        base: (6, 6) its covariance.
        soft: (n,) 1 where the acceleration equation has slack.
        slack_acceleration: (n, 6, 6) covariance of the slack of a_i = X a_p + S a_joint + c.
        slack_wrench: (n, 6, 6) of the slack of the wrench balance.
        slack_torque: (n,) variance of the slack of tau = Sᵀ f.
    """

    wrench_mean: Array
    wrench: Array
    joint_mean: Array
    joint: Array
    base_mean: Array
    base: Array
    soft: NDArray[np.int64]
    slack_acceleration: Array
    slack_wrench: Array
    slack_torque: Array


# Matrices (6, 6) of a body in `Memory.M`. f = SLOPE alpha + OFFSET + noise(COV), where BEFORE means
# before the readings of f, ABOVE given alpha of the parent instead, and AFTER that and after the
# readings on the parent's side.
TRANSFORM = 0  # motion vectors of the parent's frame in the body's
EXTERNAL_COV = 1  # of the external wrench after its own readings
COV_BEFORE = 2
COV = 3
COV_ABOVE = 4
COV_AFTER = 5
COV_ON_PARENT = 6  # COV_AFTER as that of a wrench on the parent
MATRICES = 7
# Matrices (6, 7) in `Memory.G`.
SLOPE_BEFORE = 0
SLOPE = 1
SLOPE_ABOVE = 2
SLOPE_AFTER = 3
SLOPES = 4
# Wrenches (6, r) in `Memory.V`.
BALANCE = 0  # what the wrench balance owes to the motion
EXTERNAL_MEAN = 1  # believed external wrench
EXTERNAL_FORCE = 2  # after its own readings
OFFSET_BEFORE = 3
OFFSET = 4
OFFSET_ABOVE = 5
OFFSET_AFTER = 6
MULTIPLIER = 7  # of the wrench balance
WRENCH_FOUND = 8
EXTERNAL_FOUND = 9
WRENCHES = 10
# Accelerations (7, r) in `Memory.Z`.
ALPHA_OFFSET = 0  # given the parent's acceleration
ALPHA_MEAN = 1  # alpha = A alpha_parent + ALPHA_MEAN + noise(Q)
ALPHA_FOUND = 2


class Memory(NamedTuple):
    """Working memory of one thread for r right-hand sides."""

    M: Array  # (n, MATRICES, 6, 6)
    G: Array  # (n, SLOPES, 6, 7)
    V: Array  # (n, WRENCHES, 6, r)
    Z: Array  # (n, 3, 7, r)
    T: Array  # (n, 7, 7 + r) what is known of alpha: triangle and right-hand sides
    A: Array  # (n, 7, 7)
    Q: Array  # (n, 7, 7)
    twist: Array  # (n, 6)
    d_tau: Array  # (n, r)
    A0: Array  # (7, r) alpha of the root: known, or believed
    present: NDArray[np.int64]  # (n_blocks,)
    Y: Array  # (m, r) readings minus what they owe to the motion
    H: Array  # (m, 6) coefficients of f
    K: Array  # (m, 6) gains, transposed
    L: Array  # (m, largest block) factors of innovations
    E: Array  # (m, 7) innovations: coefficients of alpha, whitened
    e: Array  # (m, r) their right-hand sides
    eta: Array  # (m, r) multipliers of readings
    gain: Array  # (m, 1) of the slack of a torque
    new: Array  # (., 7 + r) rows on their way into a triangle
    root_L: Array  # (6, 6) factor of the wrench balance of a floating root
    root_E: Array  # (6, 7) that balance, whitened
    root_e: Array  # (6, r)
    nothing: Array  # (6, 7) zeros
    z: Array  # (7, r)
    work6: Array  # (3, 6, 6)
    work67: Array  # (6, 7)
    work7: Array  # (5, 7, 7)
    work_m: Array  # (., 6)
    left: Array  # (rows, r) whitened residuals that depend on nothing more
    kept: NDArray[np.int64]  # (1,) of them
    score: Array  # (2,) log determinant, squares


@allocating
def make_memory(n, m, blocks, largest, r, rows):
    """Allocate for n bodies, m readings in blocks, r right-hand sides; rows kept of residuals."""
    k = max(7, largest)
    return Memory(
        np.zeros((n, MATRICES, 6, 6)),
        np.zeros((n, SLOPES, 6, 7)),
        np.zeros((n, WRENCHES, 6, r)),
        np.zeros((n, 3, 7, r)),
        np.zeros((n, 7, 7 + r)),
        np.zeros((n, 7, 7)),
        np.zeros((n, 7, 7)),
        np.zeros((n, 6)),
        np.zeros((n, r)),
        np.zeros((7, r)),
        np.zeros(blocks, np.int64),
        np.zeros((m, r)),
        np.zeros((m, 6)),
        np.zeros((m, 6)),
        np.zeros((m, largest)),
        np.zeros((m, 7)),
        np.zeros((m, r)),
        np.zeros((m, r)),
        np.zeros((m, 1)),
        np.zeros((k, 7 + r)),
        np.zeros((6, 6)),
        np.zeros((6, 7)),
        np.zeros((6, r)),
        np.zeros((6, 7)),
        np.zeros((7, r)),
        np.zeros((3, 6, 6)),
        np.zeros((6, 7)),
        np.zeros((5, 7, 7)),
        np.zeros((k, 6)),
        np.zeros((rows, r)),
        np.zeros(1, np.int64),
        np.zeros(2),
    )
