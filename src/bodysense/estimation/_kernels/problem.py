"""What the kernels of MAP dynamics take: bodies, readings and priors as plain arrays.

Bodies are numbered from the root, 0, parents first. Body i hangs on its parent by one joint; its
unknowns are alpha_i = (a_i, joint acceleration), the wrench on it by its parent with the slack of
the joint's torque, f_i = (wrench, slack), and the external wrench fx_i. A fixed root has none.

What is uncertain is written as sources of noise: a vector with covariance RᵀR is Rᵀ u, where u are
independent unit normals, a row of R each (see `reflections`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bodysense.compiled.jit import allocating
from bodysense.estimation._kernels.reflections import TAIL
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
        on_wrench: (m, 7) of f_i; on the parent's side of the wrench on the parent through the
            joint. A torque reads Sᵀ wrench + slack.
        on_external: (m, 6) of fx_i.
        quadratic: (m, 6, 6) by the twist of the mover.
        linear: (m, 6) by its twist.
        position: (m,) by the joint's position.
        velocity: (m,) by the joint's velocity.
        friction: (m,) joint whose friction is in the reading, or -1.
        joint: (m,) joint whose position and velocity are read, or -1.
        root: (m, largest block) rows of the upper triangle R, RᵀR the covariance of the block.
        white: (m, largest block) rows of W, W covariance Wᵀ = 1.
        log_scale: (n_blocks,) log |det W|.
    """

    begin: NDArray[np.int64]
    first: NDArray[np.int64]
    mover: NDArray[np.int64]
    on_alpha: Array
    on_wrench: Array
    on_external: Array
    quadratic: Array
    linear: Array
    position: Array
    velocity: Array
    friction: NDArray[np.int64]
    joint: NDArray[np.int64]
    root: Array
    white: Array
    log_scale: Array


class Priors(NamedTuple):
    """What is believed before any reading, and how far the equations themselves are trusted.

    Attributes:
        wrench_mean: (n, 6) of external wrenches.
        wrench: (n, 6, 6) sources of their noise.
        joint_mean: (n,) of joint accelerations.
        motion: (n, 7, 7) sources of the noise of alpha_i given the parent's acceleration: the
            joint's acceleration, and the slack of a_i = X a_p + S a_joint + c. Of the root: that
            of its believed acceleration.
        slack: (n, 6, 6) sources of the slack of the wrench balance.
        torque: (n,) standard deviation of the slack of tau = Sᵀ f.
        n_wrench: (n,) number of sources that are there: 6, or 0 where there is no doubt.
        n_motion: (n,) 7; 1 where the acceleration equation has no slack; 6 for the root.
        n_slack: (n,) 6 or 0.
    """

    wrench_mean: Array
    wrench: Array
    joint_mean: Array
    motion: Array
    slack: Array
    torque: Array
    n_wrench: NDArray[np.int64]
    n_motion: NDArray[np.int64]
    n_slack: NDArray[np.int64]


MOST = 14
"""Sources that a body hands to its parent at most: 7 of its motion, 7 of its wrench."""


class Memory(NamedTuple):
    """Working memory of one thread for r right-hand sides.

    Given the parent's acceleration a_p, and sources n_i = (omega_i, u_i) of unit noise,

        alpha_i = A a_p + mean + Nᵀ omega_i,     f_i = F alpha_i + phi + Uᵀ u_i.
    """

    X: Array  # (n, 6, 6) motion vectors of the parent's frame in the body's
    twist: Array  # (n, 6)
    balance: Array  # (n, 6, r) what the wrench balance owes to the motion
    offset: Array  # (n, 7, r) what alpha owes to the motion, given a_p
    A0: Array  # (7, r) alpha of the root: known, or believed
    Y: Array  # (m, r) readings minus what they owe to the motion
    present: NDArray[np.int64]  # (n_blocks,)
    external: Array  # (n, 6, r) external wrench after its own readings
    external_noise: Array  # (n, 6, 6) its sources
    F: Array  # (n, 7, 7)
    phi: Array  # (n, 7, r)
    U: Array  # (n, 7, 7)
    T: Array  # (n, 7, 7 + r) what is read of alpha: triangle and right-hand sides
    A: Array  # (n, 7, 6)
    mean: Array  # (n, 7, r)
    N: Array  # (n, 7, 7)
    told: Array  # (n, 7, 6) what alpha's triangle says about a_p, whitened,
    told_right: Array  # (n, 7, r) and its right-hand sides
    E: Array  # (m, 7) what readings say about alpha, or a_p on the parent's side, whitened,
    e: Array  # (m, r) and their right-hand sides
    root_e: Array  # (6, r) that of a floating root's balance
    of_reading: Array  # (m, TAIL + MOST) reflections of each step
    of_motion: Array  # (n, 7, TAIL + 7)
    of_external: Array  # (n, 6, TAIL + 6)
    of_slack: Array  # (n, 6, TAIL + 6)
    of_body: Array  # (n, 6, TAIL + MOST) into the parent
    of_root: Array  # (6, TAIL + MOST)
    alpha: Array  # (n, 7, r) found
    wrench: Array  # (n, 7, r) found: wrench and slack of the torque
    fx: Array  # (n, 6, r) found
    tau: Array  # (n, r) found
    slack: Array  # (n, 6, r) of the balance, found
    u: Array  # (n, 7, r) sources, found
    nothing: Array  # (7, 7) slope of what depends on nothing
    exact: Array  # (6, 6) sources of what is known without doubt
    triangle: Array  # (k, k + 7) a triangle in the making; k = max(7, largest block)
    new: Array  # (max(MOST, k), k + 7 + r) rows on their way into a triangle
    H: Array  # (k, 7) coefficients on their way
    noise: Array  # (MOST, 7) sources on their way to the parent
    noise_on_parent: Array  # (MOST, 6)
    work: Array  # (7, 7)
    phi_above: Array  # (7, r)
    F_above: Array  # (7, 7)
    n: Array  # (MOST, r)
    eps: Array  # (k, r)
    scratch: Array  # (7, TAIL + max(MOST, k)) reflections that nobody goes back
    left: Array  # (rows, r) whitened residuals that depend on nothing more
    kept: NDArray[np.int64]  # (1,) of them
    score: Array  # (2,) log determinant, squares


@allocating
def make_memory(n, m, blocks, largest, r, rows):
    """Allocate for n bodies, m readings in blocks, r right-hand sides; rows kept of residuals."""
    k = max(7, largest)
    most = max(MOST, k)
    return Memory(
        np.zeros((n, 6, 6)),
        np.zeros((n, 6)),
        np.zeros((n, 6, r)),
        np.zeros((n, 7, r)),
        np.zeros((7, r)),
        np.zeros((m, r)),
        np.zeros(blocks, np.int64),
        np.zeros((n, 6, r)),
        np.zeros((n, 6, 6)),
        np.zeros((n, 7, 7)),
        np.zeros((n, 7, r)),
        np.zeros((n, 7, 7)),
        np.zeros((n, 7, 7 + r)),
        np.zeros((n, 7, 6)),
        np.zeros((n, 7, r)),
        np.zeros((n, 7, 7)),
        np.zeros((n, 7, 6)),
        np.zeros((n, 7, r)),
        np.zeros((m, 7)),
        np.zeros((m, r)),
        np.zeros((6, r)),
        np.zeros((m, TAIL + MOST)),
        np.zeros((n, 7, TAIL + 7)),
        np.zeros((n, 6, TAIL + 6)),
        np.zeros((n, 6, TAIL + 6)),
        np.zeros((n, 6, TAIL + MOST)),
        np.zeros((6, TAIL + MOST)),
        np.zeros((n, 7, r)),
        np.zeros((n, 7, r)),
        np.zeros((n, 6, r)),
        np.zeros((n, r)),
        np.zeros((n, 6, r)),
        np.zeros((n, 7, r)),
        np.zeros((7, 7)),
        np.zeros((6, 6)),
        np.zeros((k, k + 7)),
        np.zeros((most, k + 7 + r)),
        np.zeros((k, 7)),
        np.zeros((MOST, 7)),
        np.zeros((MOST, 6)),
        np.zeros((7, 7)),
        np.zeros((7, r)),
        np.zeros((7, 7)),
        np.zeros((MOST, r)),
        np.zeros((k, r)),
        np.zeros((7, TAIL + most)),
        np.zeros((rows, r)),
        np.zeros(1, np.int64),
        np.zeros(2),
    )
