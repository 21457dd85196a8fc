"""Energy of a robot as a row times theta, compiled."""

from __future__ import annotations

from numba import prange

from bodysense.compiled.jit import entry, inlined
from bodysense.robot._kernels.regressor import rotate_back
from bodysense.robot._kernels.tree import DYNAMICS_WIDTH, POS, TWIST, make_scratch, move, place


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


@entry
def energy_batch(tree, q, v, g, height, out):
    """Rows (n_t, layout.size) of the total energy; `out` must come zeroed.

    height (n_t,) is -g · (position of the base), in m²/s².
    """
    n_t, n = q.shape
    base = 6 * tree.floating
    start = 10 * (n + tree.floating)
    chunks = min(n_t, 64)
    for chunk in prange(chunks):
        w = make_scratch(n, tree.floating, tree.term.size, DYNAMICS_WIDTH)
        for t in range(chunk * n_t // chunks, (chunk + 1) * n_t // chunks):
            place(tree, q[t], w)
            move(tree, v[t], v[t], False, g[t], w.body)
            for i in range(n + tree.floating):
                c = 0 if i == n else 10 * (i + tree.floating)
                _energy_row(tree, g[t], w.body, i, height[t], out[t], c)
            for j in range(n):
                out[t, start + j] = 0.5 * v[t, base + j] ** 2
            for k in range(tree.coupled_term.size):
                if tree.coupled_term[k] == 0:
                    total, own = 0.0, 0.0
                    for j in range(n):
                        speed = tree.coupling[k, j] * v[t, base + j]
                        total += speed
                        own += speed * speed
                    place_k = start + n * (1 + tree.term.size) + k
                    out[t, place_k] = 0.5 * (total * total - own)
