"""Sweeps over a robot's tree on plain arrays, compiled: kinematics, inertias and forces.

Everything is expressed in the frame of the base (the world, for a fixed base) about its origin,
so that sweeps over the tree add instead of transform: composite inertias and forces of a subtree
are plain sums. Spatial vectors are linear first. Functions allocate nothing: the caller owns the
scratch (`Scratch`), so that the same source can run one thread a run on any target. Parameters
enter linearly as theta, physical or not: no division by a mass anywhere.

The inertia of body j in base coordinates is ten numbers: m, h (3), I (xx, xy, yy, xz, yz, zz).
"""

from __future__ import annotations

import math
import threading
from typing import Annotated, NamedTuple

import numpy as np

from bodysense.compiled.jit import Kernel, allocating, in_threads, inlined
from bodysense.compiled.views import Integers, Table, reader, zeros_of
from bodysense.spatial.arrays import Array

# Columns of a row of `Scratch.body`. One array for all of it, so that the compiler can tell apart
# what it writes from what it reads.
ROT = 0  # (9) R_base_body, row-major
POS = 9  # (3) origin
AXIS = 12  # (6) the joint's axis as a twist
TWIST = 18  # (6)
ACC = 24  # (6) spatial acceleration minus gravity
INERTIA = 30  # (10) of the body, then of its subtree
FORCE = 40  # (6) on the body, then on its subtree
DYNAMICS_WIDTH = 46
DTWIST = 46  # (6) change of the twist by q_j, for the bodies from j on
DACC_Q = 52  # (6) change of the acceleration by q_j
DACC_V = 58  # (6) change of the acceleration by v_j
DFORCE_Q = 64  # (6) change of the subtree's force by q_j
DFORCE_V = 70  # (6) change of the subtree's force by v_j
RATE = 76  # (36) rate of the inertia of the body, then of its subtree, row-major
DERIVATIVES_WIDTH = 112


class Tree(NamedTuple):
    """A robot's geometry, friction law and couplings, of arrays and integers alone.

    Joints are in the order of the model; body j is the link that joint j moves.

    Attributes:
        floating: 1 with a floating base, else 0.
        parent: (n,) parent body of each body, -1 for the base; parents come first.
        prismatic: (n,) 1 for a sliding joint, 0 for a turning one.
        rotation: (n, 3, 9) R_parent_body(q) = row 0 + cos(q) row 1 + sin(q) row 2, row-major.
        position: (n, 3) joint's origin in the parent's frame.
        axis: (n, 3) unit axis in the body's frame.
        gravity: (3,) in the base's parent frame [m/s²].
        term: (n_terms,) code of each friction term.
        custom: address of a custom friction law's compiled basis, 0 for the built-in ones.
        bristles: 1 if the friction law has a state a joint (LuGre), else 0.
        shape: (n, 5) width, vs, delta, sigma0, sigma1 of each joint; a custom law's own
            parameters otherwise.
        coupling: (n_coupled, n) row of C for each coupling parameter.
        coupled_term: (n_coupled,) 0 inertia, 1 viscous, 2 Coulomb.
        coupled_width: (n_coupled,) smoothing width of each coupled motor's Coulomb friction.
        dof_parent: (nv,) elimination tree of the mass matrix, -1 at its root.
    """

    floating: int
    parent: Annotated[Integers, "n"]
    prismatic: Annotated[Integers, "n"]
    rotation: Annotated[Array, "n", 3, 9]
    position: Annotated[Array, "n", 3]
    axis: Annotated[Array, "n", 3]
    gravity: Annotated[Array, 3]
    term: Annotated[Integers, "terms"]
    custom: int
    bristles: int
    shape: Annotated[Array, "n", "parameters"]
    coupling: Annotated[Array, "coupled", "n"]
    coupled_term: Annotated[Integers, "coupled"]
    coupled_width: Annotated[Array, "coupled"]
    dof_parent: Annotated[Integers, "nv"]


tree_at = reader(Tree)


class Scratch(NamedTuple):
    """Working memory of one thread for one robot."""

    body: Annotated[Array, "n + 6", "width"]  # bodies, then the base, also its unit twists
    cosine: Annotated[Array, "n"]  # of the joint angles
    sine: Annotated[Array, "n"]
    M: Annotated[Array, "nv", "nv"]  # mass matrix, lower triangle, then its factors
    bias: Annotated[Array, "nv"]
    phi: Annotated[Array, "terms"]  # friction terms of one joint
    dphi: Annotated[Array, "terms"]  # their derivatives
    motion: Annotated[Array, 9]  # angular velocity, angular acceleration, acceleration of one body


scratch_at = reader(Scratch)


def scratch_of(tree: Tree, width: int) -> Scratch:
    """Allocate what `make_scratch` does, for kernels that take it as a table."""
    n, floating = tree.parent.size, int(tree.floating)
    sizes = {"n": n, "nv": n + 6 * floating, "terms": max(1, tree.term.size), "width": width}
    scratch: Scratch = zeros_of(Scratch, **sizes)
    scratch.body[n : n + 6, AXIS : AXIS + 6] = np.eye(6)
    scratch.body[n, ROT : ROT + 9 : 4] = 1.0
    return scratch


@allocating
def make_scratch(n, floating, n_terms, width):
    """Allocate the working memory of one thread."""
    nv = n + 6 * floating
    body = np.zeros((n + 6, width))
    for e in range(6):
        body[n + e, AXIS + e] = 1.0
    for e in range(3):
        body[n, ROT + 4 * e] = 1.0
    n_terms = max(1, n_terms)
    return Scratch(
        body,
        np.zeros(n),
        np.zeros(n),
        np.zeros((nv, nv)),
        np.zeros(nv),
        np.zeros(n_terms),
        np.zeros(n_terms),
        np.zeros(9),
    )


_FEW = 256
"""Samples that take less time than handing work to a thread does."""


class _Latest(threading.local):
    """The robot of this thread's latest batch, as kernels take it: often that of the next, too."""

    tree: Tree | None = None
    tables: tuple[Table, ...] = ()

    def addresses(self, tree: Tree) -> list[int]:
        """Of the tree and of the thread's scratch."""
        if self.tree is not tree:
            self.tables = Table(tree), Table(scratch_of(tree, DYNAMICS_WIDTH))
            self.tree = tree
        return [table.address for table in self.tables]


_latest = _Latest()


def in_shares(
    kernel: Kernel,
    samples: int,
    tree: Tree,
    batch: tuple[object, ...],
    *,
    compiled: Kernel | None = None,
) -> None:
    """Call a kernel for samples of a batch, on several threads if there are many.

    Args:
        kernel: takes the first and the one behind the last, and addresses of tables.
        samples: how many.
        tree: the robot.
        batch: a bundle.
        compiled: the kernel that a function of Python calls.
    """
    table = Table(batch)

    def share(first: int, last: int) -> None:
        kernel(first, last, *_latest.addresses(tree), table.address)

    if samples < _FEW:
        share(0, samples)
    else:
        in_threads(share, samples, compiled=compiled or kernel)


_PER_TURN = 2.0 / math.pi
# π/2 in parts of 33, 33 and 53 bits.
_PART_1 = 1.5707963267341256
_PART_2 = 6.077100506303966e-11
_PART_3 = 2.0222662487959506e-21
_FARTHEST = 1e6
"""Up to here the multiple has so few bits that its products with the parts are exact."""


@inlined
def cosines_and_sines(q, cosine, sine):
    """Write cos q_j and sin q_j of every joint.

    The compiler turns this loop into vector instructions, which a library function a joint would
    prevent: a tenth of a simulation step is spent here. The angle is reduced to within a quarter
    turn of a multiple of a right angle, in three parts so that products with the multiple are
    exact, and Taylor's series do the rest: on ±π/4 their next terms are below 1e-17.
    """
    for j in range(q.size):
        multiple = math.floor(q[j] * _PER_TURN + 0.5)
        x = ((q[j] - multiple * _PART_1) - multiple * _PART_2) - multiple * _PART_3
        y = x * x
        s = 1.0 / 6227020800.0 + y * (-1.0 / 1307674368000.0 + y / 355687428096000.0)
        s = 1.0 / 362880.0 + y * (-1.0 / 39916800.0 + y * s)
        s = x + x * y * (-1.0 / 6.0 + y * (1.0 / 120.0 + y * (-1.0 / 5040.0 + y * s)))
        c = 1.0 / 479001600.0 + y * (-1.0 / 87178291200.0 + y / 20922789888000.0)
        c = -1.0 / 720.0 + y * (1.0 / 40320.0 + y * (-1.0 / 3628800.0 + y * c))
        c = 1.0 - 0.5 * y + y * y * (1.0 / 24.0 + y * c)
        # Quadrants 0 … 3: (c, s), (-s, c), (-c, -s), (s, -c).
        quadrant = multiple - 4.0 * math.floor(0.25 * multiple)
        swapped = quadrant == 1.0 or quadrant == 3.0
        a = s if swapped else c
        b = c if swapped else s
        cosine[j] = -a if quadrant == 1.0 or quadrant == 2.0 else a
        sine[j] = -b if quadrant >= 2.0 else b
    for j in range(q.size):
        if not abs(q[j]) < _FARTHEST:
            cosine[j] = math.cos(q[j])
            sine[j] = math.sin(q[j])


@inlined
def place(tree, q, w):
    """Pose and axis of every body from the joint coordinates q (n,)."""
    b = w.body
    cosines_and_sines(q, w.cosine, w.sine)
    # The pose of the body before is kept in registers: most parents are just before their
    # children, and memory that was just written is slow to read.
    r0, r1, r2, r3, r4, r5, r6, r7, r8 = 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0
    x, y, z = 0.0, 0.0, 0.0
    for j in range(tree.parent.size):
        p = tree.parent[j]
        if p < 0:
            r0, r1, r2, r3, r4, r5, r6, r7, r8 = 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0
            x, y, z = 0.0, 0.0, 0.0
        elif p != j - 1:
            r0, r1, r2 = b[p, ROT], b[p, ROT + 1], b[p, ROT + 2]
            r3, r4, r5 = b[p, ROT + 3], b[p, ROT + 4], b[p, ROT + 5]
            r6, r7, r8 = b[p, ROT + 6], b[p, ROT + 7], b[p, ROT + 8]
            x, y, z = b[p, POS], b[p, POS + 1], b[p, POS + 2]
        B = tree.rotation
        k0, k1, k2 = tree.axis[j, 0], tree.axis[j, 1], tree.axis[j, 2]
        d0, d1, d2 = tree.position[j, 0], tree.position[j, 1], tree.position[j, 2]
        c, s = 1.0, 0.0
        if tree.prismatic[j] == 0:
            c, s = w.cosine[j], w.sine[j]
        else:  # slide along the axis
            d0 += (B[j, 0, 0] * k0 + B[j, 0, 1] * k1 + B[j, 0, 2] * k2) * q[j]
            d1 += (B[j, 0, 3] * k0 + B[j, 0, 4] * k1 + B[j, 0, 5] * k2) * q[j]
            d2 += (B[j, 0, 6] * k0 + B[j, 0, 7] * k1 + B[j, 0, 8] * k2) * q[j]
        l0 = B[j, 0, 0] + c * B[j, 1, 0] + s * B[j, 2, 0]
        l1 = B[j, 0, 1] + c * B[j, 1, 1] + s * B[j, 2, 1]
        l2 = B[j, 0, 2] + c * B[j, 1, 2] + s * B[j, 2, 2]
        l3 = B[j, 0, 3] + c * B[j, 1, 3] + s * B[j, 2, 3]
        l4 = B[j, 0, 4] + c * B[j, 1, 4] + s * B[j, 2, 4]
        l5 = B[j, 0, 5] + c * B[j, 1, 5] + s * B[j, 2, 5]
        l6 = B[j, 0, 6] + c * B[j, 1, 6] + s * B[j, 2, 6]
        l7 = B[j, 0, 7] + c * B[j, 1, 7] + s * B[j, 2, 7]
        l8 = B[j, 0, 8] + c * B[j, 1, 8] + s * B[j, 2, 8]
        x += r0 * d0 + r1 * d1 + r2 * d2
        y += r3 * d0 + r4 * d1 + r5 * d2
        z += r6 * d0 + r7 * d1 + r8 * d2
        r0, r1, r2 = (
            r0 * l0 + r1 * l3 + r2 * l6,
            r0 * l1 + r1 * l4 + r2 * l7,
            r0 * l2 + r1 * l5 + r2 * l8,
        )
        r3, r4, r5 = (
            r3 * l0 + r4 * l3 + r5 * l6,
            r3 * l1 + r4 * l4 + r5 * l7,
            r3 * l2 + r4 * l5 + r5 * l8,
        )
        r6, r7, r8 = (
            r6 * l0 + r7 * l3 + r8 * l6,
            r6 * l1 + r7 * l4 + r8 * l7,
            r6 * l2 + r7 * l5 + r8 * l8,
        )
        b[j, ROT], b[j, ROT + 1], b[j, ROT + 2] = r0, r1, r2
        b[j, ROT + 3], b[j, ROT + 4], b[j, ROT + 5] = r3, r4, r5
        b[j, ROT + 6], b[j, ROT + 7], b[j, ROT + 8] = r6, r7, r8
        b[j, POS], b[j, POS + 1], b[j, POS + 2] = x, y, z
        a0 = r0 * k0 + r1 * k1 + r2 * k2
        a1 = r3 * k0 + r4 * k1 + r5 * k2
        a2 = r6 * k0 + r7 * k1 + r8 * k2
        if tree.prismatic[j] == 0:  # velocity at the base's origin: o × k
            b[j, AXIS] = y * a2 - z * a1
            b[j, AXIS + 1] = z * a0 - x * a2
            b[j, AXIS + 2] = x * a1 - y * a0
            b[j, AXIS + 3], b[j, AXIS + 4], b[j, AXIS + 5] = a0, a1, a2
        else:
            b[j, AXIS], b[j, AXIS + 1], b[j, AXIS + 2] = a0, a1, a2
            b[j, AXIS + 3], b[j, AXIS + 4], b[j, AXIS + 5] = 0.0, 0.0, 0.0


@inlined
def move(tree, v, a, with_acceleration, g, b):
    """Twist and acceleration of every body and the base; needs `place`.

    V_j = V_p + S_j v_j,   A_j = A_p + V_p × S_j v_j + S_j a_j

    Gravity g, in base coordinates, is subtracted from the base's acceleration. Without
    acceleration the terms in `a` are left out, which gives the bias of the equations of motion.
    """
    n = tree.parent.size
    base = 6 * tree.floating
    for e in range(6):
        b[n, TWIST + e] = v[e] if base > 0 else 0.0
        b[n, ACC + e] = a[e] if base > 0 and with_acceleration else 0.0
    for e in range(3):
        b[n, ACC + e] -= g[e]
    v0 = v1 = v2 = v3 = v4 = v5 = 0.0
    a0 = a1 = a2 = a3 = a4 = a5 = 0.0
    for j in range(n):
        p = tree.parent[j] if tree.parent[j] >= 0 else n
        if p != j - 1:  # otherwise the parent's motion is still in registers
            v0, v1, v2 = b[p, TWIST], b[p, TWIST + 1], b[p, TWIST + 2]
            v3, v4, v5 = b[p, TWIST + 3], b[p, TWIST + 4], b[p, TWIST + 5]
            a0, a1, a2 = b[p, ACC], b[p, ACC + 1], b[p, ACC + 2]
            a3, a4, a5 = b[p, ACC + 3], b[p, ACC + 4], b[p, ACC + 5]
        u = v[base + j]
        s0, s1, s2 = b[j, AXIS] * u, b[j, AXIS + 1] * u, b[j, AXIS + 2] * u
        s3, s4, s5 = b[j, AXIS + 3] * u, b[j, AXIS + 4] * u, b[j, AXIS + 5] * u
        a0 += v4 * s2 - v5 * s1 + v1 * s5 - v2 * s4
        a1 += v5 * s0 - v3 * s2 + v2 * s3 - v0 * s5
        a2 += v3 * s1 - v4 * s0 + v0 * s4 - v1 * s3
        a3 += v4 * s5 - v5 * s4
        a4 += v5 * s3 - v3 * s5
        a5 += v3 * s4 - v4 * s3
        if with_acceleration:
            u = a[base + j]
            a0 += b[j, AXIS] * u
            a1 += b[j, AXIS + 1] * u
            a2 += b[j, AXIS + 2] * u
            a3 += b[j, AXIS + 3] * u
            a4 += b[j, AXIS + 4] * u
            a5 += b[j, AXIS + 5] * u
        v0, v1, v2, v3, v4, v5 = v0 + s0, v1 + s1, v2 + s2, v3 + s3, v4 + s4, v5 + s5
        b[j, TWIST], b[j, TWIST + 1], b[j, TWIST + 2] = v0, v1, v2
        b[j, TWIST + 3], b[j, TWIST + 4], b[j, TWIST + 5] = v3, v4, v5
        b[j, ACC], b[j, ACC + 1], b[j, ACC + 2] = a0, a1, a2
        b[j, ACC + 3], b[j, ACC + 4], b[j, ACC + 5] = a3, a4, a5


@inlined
def weigh(tree, theta, b):
    """Inertia of every body and the base, in base coordinates about the base's origin.

    Needs `place`. A fixed base weighs nothing: what it is made of does not matter.
    """
    n = tree.parent.size
    for e in range(10):
        b[n, INERTIA + e] = theta[e] if tree.floating == 1 else 0.0
    for j in range(n):
        t = 10 * (tree.floating + j)
        r0, r1, r2 = b[j, ROT], b[j, ROT + 1], b[j, ROT + 2]
        r3, r4, r5 = b[j, ROT + 3], b[j, ROT + 4], b[j, ROT + 5]
        r6, r7, r8 = b[j, ROT + 6], b[j, ROT + 7], b[j, ROT + 8]
        x, y, z = b[j, POS], b[j, POS + 1], b[j, POS + 2]
        m = theta[t]
        h0 = r0 * theta[t + 1] + r1 * theta[t + 2] + r2 * theta[t + 3]
        h1 = r3 * theta[t + 1] + r4 * theta[t + 2] + r5 * theta[t + 3]
        h2 = r6 * theta[t + 1] + r7 * theta[t + 2] + r8 * theta[t + 3]
        xx, xy, yy = theta[t + 4], theta[t + 5], theta[t + 6]
        xz, yz, zz = theta[t + 7], theta[t + 8], theta[t + 9]
        # rows of R I
        i00, i01, i02 = (
            r0 * xx + r1 * xy + r2 * xz,
            r0 * xy + r1 * yy + r2 * yz,
            r0 * xz + r1 * yz + r2 * zz,
        )
        i10, i11, i12 = (
            r3 * xx + r4 * xy + r5 * xz,
            r3 * xy + r4 * yy + r5 * yz,
            r3 * xz + r4 * yz + r5 * zz,
        )
        i20, i21, i22 = (
            r6 * xx + r7 * xy + r8 * xz,
            r6 * xy + r7 * yy + r8 * yz,
            r6 * xz + r7 * yz + r8 * zz,
        )
        # parallel axes with h about the body's origin: 2(o·h) + m o² on the diagonal,
        # minus (o hᵀ + h oᵀ + m o oᵀ)
        dot = 2.0 * (x * h0 + y * h1 + z * h2) + m * (x * x + y * y + z * z)
        u0, u1, u2 = h0 + m * x, h1 + m * y, h2 + m * z
        b[j, INERTIA] = m
        b[j, INERTIA + 1], b[j, INERTIA + 2], b[j, INERTIA + 3] = u0, u1, u2
        b[j, INERTIA + 4] = i00 * r0 + i01 * r1 + i02 * r2 + dot - x * h0 - u0 * x
        b[j, INERTIA + 5] = i00 * r3 + i01 * r4 + i02 * r5 - x * h1 - u0 * y
        b[j, INERTIA + 6] = i10 * r3 + i11 * r4 + i12 * r5 + dot - y * h1 - u1 * y
        b[j, INERTIA + 7] = i00 * r6 + i01 * r7 + i02 * r8 - x * h2 - u0 * z
        b[j, INERTIA + 8] = i10 * r6 + i11 * r7 + i12 * r8 - y * h2 - u1 * z
        b[j, INERTIA + 9] = i20 * r6 + i21 * r7 + i22 * r8 + dot - z * h2 - u2 * z
