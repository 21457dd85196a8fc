"""What the kernels of MAP dynamics take: bodies, readings and priors as plain arrays.

Bodies are numbered from the root, 0, parents first. Body i hangs on its parent by one joint; its
unknowns are alpha_i = (a_i, joint acceleration), the wrench on it by its parent with the slack of
the joint's torque, f_i = (wrench, slack), and the external wrench fx_i. A fixed root has none.

What is uncertain is written as sources of noise: a vector with covariance RᵀR is Rᵀ u, where u are
independent unit normals, a row of R each (see `conditioning`).
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from bodysense.compiled.views import Integers, zeros_of
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
        parent: -1 for the root.
        joint: the robot's joint above each body, -1 for the root.
        against: 1 where the joint is passed from its child to its parent.
        prismatic: 1 for a sliding joint.
        rotation: of the joint in the robot's own direction, as in the robot's tree.
        position: likewise.
        axis: of the joint, in the frame of its child in the robot's own direction.
        S: twist of a unit joint velocity, in the body's frame.
        inertia: spatial inertia, in the body's frame about its origin.
    """

    floating: int
    parent: Annotated[Integers, "n"]
    joint: Annotated[Integers, "n"]
    against: Annotated[Integers, "n"]
    prismatic: Annotated[Integers, "n"]
    rotation: Annotated[Array, "n", 3, 9]
    position: Annotated[Array, "n", 3]
    axis: Annotated[Array, "n", 3]
    S: Annotated[Array, "n", 6]
    inertia: Annotated[Array, "n", 6, 6]


class Readings(NamedTuple):
    """Blocks of readings with a covariance each, sorted by body and group.

    Attributes:
        begin: first block of each body and group.
        first: first row of each block.
        mover: body whose motion is read.
        on_alpha: coefficients of alpha_i, of the parent's acceleration on its side.
        on_wrench: of f_i; on the parent's side of the wrench on the parent through the
            joint. A torque reads Sᵀ wrench + slack.
        on_external: of fx_i.
        quadratic: by the twist of the mover.
        linear: by its twist.
        position: by the joint's position.
        velocity: by the joint's velocity.
        friction: joint whose friction is in the reading, or -1.
        joint: joint whose position and velocity are read, or -1.
        root: rows of the upper triangle R, RᵀR the covariance of the block.
        white: rows of W, W covariance Wᵀ = 1.
        log_scale: log |det W|.
    """

    begin: Annotated[Integers, "n", GROUPS + 1]
    first: Annotated[Integers, "blocks + 1"]
    mover: Annotated[Integers, "blocks"]
    on_alpha: Annotated[Array, "m", 7]
    on_wrench: Annotated[Array, "m", 7]
    on_external: Annotated[Array, "m", 6]
    quadratic: Annotated[Array, "m", 6, 6]
    linear: Annotated[Array, "m", 6]
    position: Annotated[Array, "m"]
    velocity: Annotated[Array, "m"]
    friction: Annotated[Integers, "m"]
    joint: Annotated[Integers, "m"]
    root: Annotated[Array, "m", "largest"]
    white: Annotated[Array, "m", "largest"]
    log_scale: Annotated[Array, "blocks"]


class Priors(NamedTuple):
    """Priors, and slacks of the equations.

    Attributes:
        wrench_mean: of external wrenches.
        wrench: sources of their noise.
        joint_mean: of joint accelerations.
        motion: sources of the noise of alpha_i given the parent's acceleration: the
            joint's acceleration, and the slack of a_i = X a_p + S a_joint + c. Of the root: that
            of the prior of its acceleration.
        slack: sources of the slack of the wrench balance.
        torque: standard deviation of the slack of tau = Sᵀ f.
        n_wrench: number of sources that are there: 6, or 0 where there is no doubt.
        n_motion: 7; 1 where the acceleration equation has no slack; 6 for the root.
        n_slack: 6 or 0.
    """

    wrench_mean: Annotated[Array, "n", 6]
    wrench: Annotated[Array, "n", 6, 6]
    joint_mean: Annotated[Array, "n"]
    motion: Annotated[Array, "n", 7, 7]
    slack: Annotated[Array, "n", 6, 6]
    torque: Annotated[Array, "n"]
    n_wrench: Annotated[Integers, "n"]
    n_motion: Annotated[Integers, "n"]
    n_slack: Annotated[Integers, "n"]


MOST = 14
"""Sources that a body hands to its parent at most: 7 of its motion, 7 of its wrench."""


ROOM = 24
"""Whitened rows that wait for the triangle of a body, at least: children bring 7 each."""


class Memory(NamedTuple):
    """Working memory of one thread for r right-hand sides.

    Given the parent's acceleration a_p, and sources n_i = (omega_i, u_i) of unit noise,

        alpha_i = A a_p + mean + Nᵀ omega_i,     f_i = F alpha_i + phi + Uᵀ u_i.
    """

    X: Annotated[Array, "n", 6, 6]  # motion vectors of the parent's frame in the body's
    twist: Annotated[Array, "n", 6]
    balance: Annotated[Array, "n", 6, "r"]  # what the wrench balance owes to the motion
    offset: Annotated[Array, "n", 7, "r"]  # what alpha owes to the motion, given a_p
    A0: Annotated[Array, 7, "r"]  # alpha of the root: known, or its prior
    waiting: Annotated[Array, "n", "room", "7 + r"]  # rows on their way into T
    waiting_count: Annotated[Integers, "n"]
    Y: Annotated[Array, "m", "r"]  # readings minus what they owe to the motion
    present: Annotated[Integers, "blocks"]
    weight: Annotated[Array, "blocks"]  # 1 / s where the noise of a block is s times as large
    external: Annotated[Array, "n", 6, "r"]  # external wrench after its own readings
    keep: Annotated[
        Integers, 1
    ]  # 1: own sources stay while readings and weights do, see own_wrench
    own_known: Annotated[Integers, "n"]  # 1 where the following are
    own_weight: Annotated[Array, "blocks"]  # that they were worked out with, 0 for absent ones
    own_U: Annotated[Array, "n", 6, 6]  # sources of the body itself
    own_rows: Annotated[Array, "m", "k + 7"]  # triangles of readings of external wrenches
    own_score: Annotated[Array, "n", 1]  # log determinants
    external_slope: Annotated[Array, "n", 6, 6]  # of the external wrench by u
    external_noise: Annotated[Array, "n", 6, 6]  # covariance besides
    slack_slope: Annotated[Array, "n", 6, 6]  # of the slack by u
    slack_noise: Annotated[Array, "n", 6, 6]  # covariance besides
    own_u: Annotated[Array, 6, 18]
    own_n: Annotated[Array, 6, 18]
    own_out: Annotated[Array, 6, 18]
    F: Annotated[Array, "n", 7, 7]
    phi: Annotated[Array, "n", 7, "r"]
    U: Annotated[Array, "n", 7, 7]
    T: Annotated[Array, "n", 7, "7 + r"]  # what is read of alpha: triangle and right-hand sides
    A: Annotated[Array, "n", 7, 6]
    mean: Annotated[Array, "n", 7, "r"]
    N: Annotated[Array, "n", 7, 7]
    told: Annotated[Array, "n", 7, 6]  # what alpha's triangle says about a_p, whitened,
    told_right: Annotated[Array, "n", 7, "r"]  # and its right-hand sides
    E: Annotated[Array, "m", 7]  # what readings say about alpha, or a_p of the parent, whitened,
    e: Annotated[Array, "m", "r"]  # and their right-hand sides
    root_e: Annotated[Array, 6, "r"]  # that of a floating root's balance
    of_reading: Annotated[Array, "m", TAIL + MOST]  # reflections of each step
    of_motion: Annotated[Array, "n", 7, TAIL + 7]
    of_external: Annotated[Array, 6, TAIL + 6]
    of_slack: Annotated[Array, 6, TAIL + 6]
    of_body: Annotated[Array, "n", 6, TAIL + MOST]  # into the parent
    of_root: Annotated[Array, 6, TAIL + MOST]
    alpha: Annotated[Array, "n", 7, "r"]  # solution
    wrench: Annotated[Array, "n", 7, "r"]  # solution: wrench and slack of the torque
    fx: Annotated[Array, "n", 6, "r"]  # solution
    tau: Annotated[Array, "n", "r"]  # solution
    slack: Annotated[Array, "n", 6, "r"]  # of the balance, solution
    u: Annotated[Array, "n", 7, "r"]  # sources, solution
    nothing: Annotated[Array, 7, 7]  # slope of what depends on nothing
    exact: Annotated[Array, 6, 6]  # sources of what is known without doubt
    triangle: Annotated[Array, "k", "k + 7"]  # a triangle in the making
    new: Annotated[Array, "most", "k + 7 + r"]  # rows on their way into a triangle
    H: Annotated[Array, "k", 7]  # coefficients on their way
    noise: Annotated[Array, MOST, 7]  # sources on their way to the parent
    noise_on_parent: Annotated[Array, MOST, 6]
    work: Annotated[Array, 7, 7]
    phi_above: Annotated[Array, 7, "r"]
    F_above: Annotated[Array, 7, 7]
    n: Annotated[Array, MOST, "r"]
    eps: Annotated[Array, "k", "r"]
    scratch: Annotated[Array, 7, f"{TAIL} + room"]  # reflections that nobody goes back
    left: Annotated[Array, "rows", "r"]  # whitened residuals that depend on nothing more
    kept: Annotated[Integers, 1]  # of them
    score: Annotated[Array, 2]  # log determinant, squares


class FrictionArrays(NamedTuple):
    """Friction in the torques that are read, and the memory of one thread to compute it."""

    drive: Annotated[Array, "joints", "terms"]  # coefficients
    phi: Annotated[Array, "terms"]  # terms of one joint
    dphi: Annotated[Array, "terms"]  # their derivatives by its velocity

    @classmethod
    def of(cls, drive: Array) -> FrictionArrays:
        """With memory for the terms of these coefficients."""
        return cls(drive, *np.zeros((2, drive.shape[1])))


def make_memory(
    n: int,
    m: int,
    blocks: int,
    largest: int,
    r: int,
    rows: int,
    *,
    keep: bool = False,
    lanes: int = 0,
) -> Memory:
    """Allocate working memory.

    Args:
        n: bodies.
        m: readings.
        blocks: of readings.
        largest: readings of the largest block.
        r: right-hand sides.
        rows: of residuals that are kept.
        keep: whether readings and priors stay the same from call to call.
        lanes: of every number, 0 for plain floats.
    """
    k = max(7, largest)
    sizes = {"n": n, "m": m, "blocks": blocks, "k": k, "most": max(MOST, k), "r": r, "rows": rows}
    sizes["room"] = max(ROOM, k)
    memory: Memory = zeros_of(Memory, lanes=lanes, **sizes)
    memory.keep[0] = keep
    return memory
