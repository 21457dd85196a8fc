"""Regressors: the equations of motion as a matrix times theta, compiled.

    tau = Y(q, v, a) theta

The wrench of link i about its own origin, in its own axes, is linear in pi_i:

    f = m a + ([α]× + [ω]×²) h
    n = h × a + I α + ω × I ω

with a the acceleration of the origin minus gravity. The row of a joint above link i is the power
of that wrench on the joint's unit twist, seen from link i.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

from bodysense.compiled.jit import inlined, threaded
from bodysense.compiled.views import Integers, flat, reader
from bodysense.robot._kernels.friction import friction_basis, smooth_sign
from bodysense.robot._kernels.tree import (
    ACC,
    AXIS,
    POS,
    ROT,
    TWIST,
    move,
    place,
    scratch_at,
    tree_at,
)
from bodysense.spatial.arrays import Array


@inlined
def rotate_back(b, j, x, y, z):
    """R_jᵀ (x, y, z): base coordinates to those of body j."""
    return (
        b[j, ROT] * x + b[j, ROT + 3] * y + b[j, ROT + 6] * z,
        b[j, ROT + 1] * x + b[j, ROT + 4] * y + b[j, ROT + 7] * z,
        b[j, ROT + 2] * x + b[j, ROT + 5] * y + b[j, ROT + 8] * z,
    )


@inlined
def _local_motion(b, i, m):
    """Write ω, α and the acceleration of body i's origin, in its own axes, into m (9,)."""
    x, y, z = b[i, POS], b[i, POS + 1], b[i, POS + 2]
    w0, w1, w2 = b[i, TWIST + 3], b[i, TWIST + 4], b[i, TWIST + 5]
    # velocity and spatial acceleration at the body's origin instead of the base's
    v0 = b[i, TWIST] + w1 * z - w2 * y
    v1 = b[i, TWIST + 1] + w2 * x - w0 * z
    v2 = b[i, TWIST + 2] + w0 * y - w1 * x
    a0 = b[i, ACC] + b[i, ACC + 4] * z - b[i, ACC + 5] * y + w1 * v2 - w2 * v1
    a1 = b[i, ACC + 1] + b[i, ACC + 5] * x - b[i, ACC + 3] * z + w2 * v0 - w0 * v2
    a2 = b[i, ACC + 2] + b[i, ACC + 3] * y - b[i, ACC + 4] * x + w0 * v1 - w1 * v0
    m[0], m[1], m[2] = rotate_back(b, i, w0, w1, w2)
    m[3], m[4], m[5] = rotate_back(b, i, b[i, ACC + 3], b[i, ACC + 4], b[i, ACC + 5])
    m[6], m[7], m[8] = rotate_back(b, i, a0, a1, a2)


@inlined
def _wrench_row(b, i, j, m, Y, r, c):
    """Write ten entries of row r, from column c: power of link i's wrench on the twist of axis j.

    `m` holds ω, α, a of the link (see `_local_motion`).
    """
    x, y, z = b[i, POS], b[i, POS + 1], b[i, POS + 2]
    k0, k1, k2 = b[j, AXIS + 3], b[j, AXIS + 4], b[j, AXIS + 5]
    l0 = b[j, AXIS] + k1 * z - k2 * y  # the twist at the link's origin
    l1 = b[j, AXIS + 1] + k2 * x - k0 * z
    l2 = b[j, AXIS + 2] + k0 * y - k1 * x
    s0, s1, s2 = rotate_back(b, i, l0, l1, l2)
    s3, s4, s5 = rotate_back(b, i, k0, k1, k2)
    w0, w1, w2 = m[0], m[1], m[2]
    b0, b1, b2 = m[3], m[4], m[5]
    a0, a1, a2 = m[6], m[7], m[8]
    Y[r, c] = s0 * a0 + s1 * a1 + s2 * a2
    # sᵀ([α]× + [ω]×²) and the moment h × a · s_angular = h · (a × s_angular)
    ww = w0 * w0 + w1 * w1 + w2 * w2
    sw = s0 * w0 + s1 * w1 + s2 * w2
    Y[r, c + 1] = s1 * b2 - s2 * b1 + sw * w0 - ww * s0 + a1 * s5 - a2 * s4
    Y[r, c + 2] = s2 * b0 - s0 * b2 + sw * w1 - ww * s1 + a2 * s3 - a0 * s5
    Y[r, c + 3] = s0 * b1 - s1 * b0 + sw * w2 - ww * s2 + a0 * s4 - a1 * s3
    # s_angular · (I α + ω × I ω) = s · I α + (s × ω) · I ω
    u0 = s4 * w2 - s5 * w1
    u1 = s5 * w0 - s3 * w2
    u2 = s3 * w1 - s4 * w0
    Y[r, c + 4] = s3 * b0 + u0 * w0
    Y[r, c + 5] = s3 * b1 + s4 * b0 + u0 * w1 + u1 * w0
    Y[r, c + 6] = s4 * b1 + u1 * w1
    Y[r, c + 7] = s3 * b2 + s5 * b0 + u0 * w2 + u2 * w0
    Y[r, c + 8] = s4 * b2 + s5 * b1 + u1 * w2 + u2 * w1
    Y[r, c + 9] = s5 * b2 + u2 * w2


@inlined
def regressor(tree, v, a, w, Y):
    """Write the entries of Y (nv, layout.size) that are not zero by structure.

    These are the same in every sample, so zeroing Y once is the caller's job. Needs
    `place` and `move` with accelerations before.
    """
    b, m = w.body, w.motion
    n = tree.parent.size
    base = 6 * tree.floating
    for i in range(n + tree.floating):
        c = 10 * (i + tree.floating)
        if i == n:  # the base is the first link, and its coordinates are its own
            c = 0
        _local_motion(b, i, m)
        j = i if i < n else -1
        while j >= 0:
            _wrench_row(b, i, j, m, Y, base + j, c)
            j = tree.parent[j]
        for e in range(base):
            _wrench_row(b, i, n + e, m, Y, e, c)
    _drive_columns(tree, v, a, w, Y)


@inlined
def _drive_columns(tree, v, a, w, Y):
    """Write the columns of rotors, friction and coupled motors (the rest of their rows is 0)."""
    n = tree.parent.size
    base = 6 * tree.floating
    n_terms = tree.term.size
    start = 10 * (n + tree.floating)
    for j in range(n):
        Y[base + j, start + j] = a[base + j]
        friction_basis(tree, j, v[base + j], w.phi, w.dphi)
        for k in range(n_terms):
            Y[base + j, start + n * (1 + k) + j] = w.phi[k]
    start += n * (1 + n_terms)
    for k in range(tree.coupled_term.size):
        code = tree.coupled_term[k]
        total = 0.0
        for j in range(n):
            total += tree.coupling[k, j] * (a[base + j] if code == 0 else v[base + j])
        if code == 2:
            total, _ = smooth_sign(total, tree.coupled_width[k])
        for j in range(n):
            c = tree.coupling[k, j]
            own = 0.0
            if code == 0:
                own = c * a[base + j]
            elif code == 1:
                own = c * v[base + j]
            Y[base + j, start + k] = c * (total - own)


class Regressors(NamedTuple):
    """Samples, and where the entries of their regressors go.

    Entry e of Y at (rows[e], columns[e]) goes to out[:, rows[e], places[e]]; without any, all
    of Y is written. `out` comes zeroed unless `clear` is 1.
    """

    q: Annotated[Array, "T", "n"]
    v: Annotated[Array, "T", "nv"]
    a: Annotated[Array, "T", "nv"]
    g: Annotated[Array, "T", 3]
    rows: Annotated[Integers, "entries"]
    columns: Annotated[Integers, "entries"]
    places: Annotated[Integers, "entries"]
    clear: int
    out: Annotated[Array, "T", "nv", "size"]


class Full(NamedTuple):
    """All columns of a sample, of which some are wanted; zero where nothing is ever written."""

    Y: Annotated[Array, "nv", "p"]


_regressors_at, _full_at = reader(Regressors), reader(Full)


@threaded
def regressor_batch(first, last, tree, w, batch, full):
    """Y of the samples first … last; all others are addresses of tables."""
    tree, w, x, Y = tree_at(tree), scratch_at(w), _regressors_at(batch), _full_at(full).Y
    rows, columns, places = x.rows, x.columns, x.places
    for t in range(first, last):
        v, a, out = x.v[t], x.a[t], x.out[t]
        place(tree, x.q[t], w)
        move(tree, v, a, True, x.g[t], w.body)
        if x.clear == 1:  # here, where it stays in the cache for what is written next
            entries = flat(out)
            for e in range(entries.size):
                entries[e] = 0.0
        if columns.size == 0:
            regressor(tree, v, a, w, out)
        else:
            regressor(tree, v, a, w, Y)
            for e in range(columns.size):
                out[rows[e], places[e]] = Y[rows[e], columns[e]]


# Energy of a robot as a row times theta, compiled.


@inlined
def _energy_row(tree, g, b, i, height, row, c):
    """Write ten entries from column c: kinetic plus potential energy of body i.

    E = m v²/2 + v · (ω × h) + ω · I ω / 2 - m g · o - g · R h, with v, ω and h in its own axes;
    `height` is the base's own -g · o.
    """
    x, y, z = b[i, POS], b[i, POS + 1], b[i, POS + 2]
    a0, a1, a2 = b[i, TWIST + 3], b[i, TWIST + 4], b[i, TWIST + 5]
    v0, v1, v2 = rotate_back(
        b,
        i,
        b[i, TWIST] + a1 * z - a2 * y,
        b[i, TWIST + 1] + a2 * x - a0 * z,
        b[i, TWIST + 2] + a0 * y - a1 * x,
    )
    w0, w1, w2 = rotate_back(b, i, a0, a1, a2)
    g0, g1, g2 = rotate_back(b, i, g[0], g[1], g[2])
    row[c] = 0.5 * (v0 * v0 + v1 * v1 + v2 * v2) + height - g[0] * x - g[1] * y - g[2] * z
    row[c + 1] = v1 * w2 - v2 * w1 - g0
    row[c + 2] = v2 * w0 - v0 * w2 - g1
    row[c + 3] = v0 * w1 - v1 * w0 - g2
    row[c + 4] = 0.5 * w0 * w0
    row[c + 5] = w0 * w1
    row[c + 6] = 0.5 * w1 * w1
    row[c + 7] = w0 * w2
    row[c + 8] = w1 * w2
    row[c + 9] = 0.5 * w2 * w2


class Energies(NamedTuple):
    """Samples, and the rows of their total energy, which come zeroed."""

    q: Annotated[Array, "T", "n"]
    v: Annotated[Array, "T", "nv"]
    g: Annotated[Array, "T", 3]
    height: Annotated[Array, "T"]  # -g · (position of the base), in m²/s²
    out: Annotated[Array, "T", "p"]


_energies_at = reader(Energies)


@threaded
def energy_batch(first, last, tree, w, batch):
    """Rows of the samples first … last; all others are addresses of tables."""
    tree, w, x = tree_at(tree), scratch_at(w), _energies_at(batch)
    for t in range(first, last):
        v, g, row = x.v[t], x.g[t], x.out[t]
        place(tree, x.q[t], w)
        move(tree, v, v, False, g, w.body)
        _energy_rows(tree, v, g, x.height[t], w.body, row)


@inlined
def _energy_rows(tree, v, g, height, b, row):
    """Write the entries of links, rotors and coupled motors; friction keeps no energy."""
    n = tree.parent.size
    base = 6 * tree.floating
    start = 10 * (n + tree.floating)
    for i in range(n + tree.floating):
        c = 0 if i == n else 10 * (i + tree.floating)
        _energy_row(tree, g, b, i, height, row, c)
    for j in range(n):
        row[start + j] = 0.5 * v[base + j] ** 2
    for k in range(tree.coupled_term.size):
        if tree.coupled_term[k] == 0:
            total, own = 0.0, 0.0
            for j in range(n):
                speed = tree.coupling[k, j] * v[base + j]
                total += speed
                own += speed * speed
            row[start + n * (1 + tree.term.size) + k] = 0.5 * (total * total - own)
