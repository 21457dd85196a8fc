"""Which rotation, reflection and scale takes what a vector sensor should read to what it reads.

    y = k G u + b + noise,        k > 0,  G (3, 3) orthogonal,  b constant

u is what the model expects in the axes that the sensors file states, y the reading. For a given G
the best k and b follow from sums over the samples,

    H = Σ y uᵀ (less the means),     k = tr(Gᵀ H) / Σ|u|²,
    unexplained = 1 - tr(Gᵀ H)² / (Σ|u|² Σ|y|²),

so that all 48 ways to name and sign three axes, and the best rotation of all (Kabsch 1976), cost
next to nothing. A reversed sensor is G = -1. The simplest explanation counts: the stated axes, the
sign, a turn by right angles, mirrored axes, then any turn.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from bodysense.doctor.samples import Mask
from bodysense.spatial.arrays import Array
from bodysense.spatial.se3 import log_so3

ALLOWED = 0.002
"""Share of the power of a reading that a good model leaves unexplained: directions off by 2.5°."""
_BETTER = 4.0
"""How many times more the stated axes must leave unexplained than others may."""
_ALIKE = 2.0
"""Explanations that leave less than this times the best are as good."""
_LEAST_TURN = np.deg2rad(5.0)
"""Smaller turns of a mount are those of real bolts."""
_FLAT = 0.05
"""Second singular value of u over its first, below which a turn about the first is not seen."""
_TRIALS, _PIECES, _PIECE = 60, 4, 0.04
"""Fits to a few short pieces of the recording, and the share of it that each piece is: with two
fifths of it in contact, one in eight sees none of the contacts."""
_THINNED = 150  # samples on which these fits are compared
_REFITS = 5  # with the samples that agree with the last fit
_OUTLIER = 3.0
"""Robust standard deviations of the root mean square of a sample's residuals."""


def _signed_axes() -> Array:
    """(48, 3, 3) all ways to name and sign axes: identity, reversed, turns, mirrored."""
    every = [
        np.array(signs)[:, None] * np.eye(3)[list(order)]
        for order in itertools.permutations(range(3))
        for signs in itertools.product((1.0, -1.0), repeat=3)
    ]
    turns = [G for G in every if np.linalg.det(G) > 0.0 and np.trace(G) < 3.0]
    return np.stack([np.eye(3), -np.eye(3), *turns, *(-G for G in turns)])


SIGNED_AXES = _signed_axes()


@dataclass(frozen=True, eq=False)
class VectorPair:
    """Sums of a reading y and what is expected of it, u, over n samples.

    Attributes:
        H: (3, 3) Σ y uᵀ.
        U: (3, 3) Σ u uᵀ.
        power: Σ |y|².
        n: samples.
        mean_y: (3,) what has been subtracted from the readings, zero if they have no bias.
        mean_u: (3,) likewise.
    """

    H: Array
    U: Array
    power: float
    n: int
    mean_y: Array
    mean_u: Array

    @classmethod
    def of(cls, y: Array, u: Array, *, biased: bool) -> VectorPair:
        """Of (T, 3) each; `biased` readings may have any constant part."""
        zero = np.zeros(3)
        mean_y, mean_u = (y.mean(axis=0), u.mean(axis=0)) if biased else (zero, zero)
        y, u = y - mean_y, u - mean_u
        return cls(y.T @ u, u.T @ u, float(np.sum(y * y)), len(y), mean_y, mean_u)

    @property
    def size(self) -> float:
        """Root mean square of |u|."""
        return float(np.sqrt(np.trace(self.U) / self.n))

    @property
    def flat(self) -> bool:
        """Whether u stays along one line, about which any turn looks the same."""
        values = np.linalg.eigvalsh(self.U)
        return bool(values[1] < _FLAT**2 * values[2])

    def scale(self, G: Array) -> float:
        """Return k of this G, of any sign."""
        return float(np.sum(G * self.H) / np.trace(self.U))

    def bias(self, G: Array, scale: float | None = None) -> Array:
        """(3,) b of this G."""
        k = self.scale(G) if scale is None else scale
        return np.asarray(self.mean_y - k * G @ self.mean_u)

    def unexplained(self, G: Array) -> Array:
        """(…) share of the power of y that is left by G (…, 3, 3) with its best k > 0."""
        along = np.maximum(np.sum(G * self.H, axis=(-2, -1)), 0.0)
        return np.asarray(np.maximum(1.0 - along**2 / (np.trace(self.U) * self.power), 0.0))

    @property
    def noise(self) -> float:
        """Share of the power of y that no linear function of u explains."""
        explained = float(np.sum((self.H @ np.linalg.pinv(self.U, rcond=1e-6)) * self.H))
        return float(np.clip(1.0 - explained / self.power, 0.0, 1.0))

    def closest(self, handedness: float) -> Array:
        """(3, 3) rotation (1) or reflection (-1) that explains y best."""
        left, _, right = np.linalg.svd(self.H)
        sign = np.sign(np.linalg.det(left @ right)) * handedness
        return np.asarray(left @ np.diag([1.0, 1.0, sign]) @ right)


@dataclass(frozen=True, eq=False)
class AxisFit:
    """The explanation of a reading that is preferred.

    Attributes:
        kind: "stated", "reversed", "turned", "rotated" (by any angle) or "mirrored"; or "unclear"
            where none explains the reading.
        G: (3, 3) of the explanation.
        stated: share of power that the stated axes leave unexplained.
        left: share that G leaves.
        others: that explain the reading as well.
        flat: whether a turn about one line cannot be told.
    """

    kind: str
    G: Array
    stated: float
    left: float
    others: tuple[Array, ...] = ()
    flat: bool = False

    @property
    def wrong(self) -> bool:
        """Whether the stated axes are wrong."""
        return self.kind not in ("stated", "unclear")

    @property
    def turn(self) -> float:
        """Angle of the rotation [rad], of what is left of it after the sign."""
        return float(np.linalg.norm(log_so3(self.rotation)))

    @property
    def rotation(self) -> Array:
        """(3, 3) G, or -G where that is the rotation."""
        return self.G if np.linalg.det(self.G) > 0.0 else -self.G


def fit_axes(pair: VectorPair, allowed: float = ALLOWED) -> AxisFit:
    """Choose the simplest explanation of a reading that is about as good as the best."""
    stated, flat = float(pair.unexplained(np.eye(3))), pair.flat
    enough = pair.noise + allowed
    if stated <= _BETTER * enough:
        kind = "stated" if stated < 1.0 - 1.0 / _BETTER else "unclear"
        return AxisFit(kind, np.eye(3), stated, stated, flat=flat)
    left = pair.unexplained(SIGNED_AXES)
    candidates = (
        ("reversed", SIGNED_AXES[1:2], left[1:2]),
        ("turned", SIGNED_AXES[2:25], left[2:25]),
        ("mirrored", SIGNED_AXES[25:], left[25:]),
        ("rotated", *_free(pair, 1.0)),
        ("mirrored", *_free(pair, -1.0)),
    )
    for kind, Gs, shares in candidates:
        best = int(np.argmin(shares))
        if shares[best] > _ALIKE * enough:
            continue
        G, least = Gs[best], float(shares[best])
        small = kind == "rotated" and np.linalg.norm(log_so3(G)) < _LEAST_TURN
        if small or stated < _BETTER * max(least, enough):
            return AxisFit("stated", np.eye(3), stated, stated, flat=flat)
        alike = shares <= max(_ALIKE * least, enough)
        alike[best] = False
        others = tuple(Gs[alike])
        if kind == "reversed":  # half a turn may look the same
            others = tuple(SIGNED_AXES[2:25][left[2:25] <= max(_ALIKE * least, enough)])
        return AxisFit(kind, G, stated, least, others, flat)
    return AxisFit("unclear", np.eye(3), stated, stated, flat=flat)


def _free(pair: VectorPair, handedness: float) -> tuple[Array, Array]:
    G = pair.closest(handedness)[None]
    return G, pair.unexplained(G)


def usual_samples(Z: Array, Y: Array) -> Mask:
    """(T,) samples at which readings Y (T, m) are the linear function of Z (T, k) of most others.

    Any sign, rotation, scale, bias and load is such a function, and a contact for some time is
    none: what is compared afterwards is not about contacts.
    """
    tiny = 1e-9 * (np.std(Y, axis=0) + np.abs(np.mean(Y, axis=0))) + np.finfo(float).tiny
    use = np.ones(len(Y), dtype=bool)
    B = _start(Z, Y / np.maximum(np.std(Y, axis=0), tiny))
    B *= np.maximum(np.std(Y, axis=0), tiny)
    for _ in range(_REFITS):
        r = Y - Z @ B
        half = np.abs(r[_best_half(r / (np.median(np.abs(r), axis=0) + tiny))])
        spread = _whole_over_half(Y.shape[1]) * np.sqrt(np.mean(half**2, axis=0)) + tiny
        use = np.sqrt(np.mean((r / spread) ** 2, axis=1)) < _OUTLIER
        if use.sum() <= Z.shape[1]:
            return np.zeros(len(Y), dtype=bool)
        B = np.linalg.lstsq(Z[use], Y[use], rcond=1e-10)[0]
    return use


def _best_half(r: Array) -> Mask:
    """(T,) the half of the samples with the smallest residuals r (T, m)."""
    d = np.sum(r * r, axis=1)
    return np.asarray(d <= np.median(d))


def _whole_over_half(m: int) -> float:
    """Standard deviation over that of the half with the smallest of m residuals, normal ones."""
    from scipy.special import gammainc, gammaincinv

    median = float(gammaincinv(0.5 * m, 0.5))
    return float(np.sqrt(0.5 / gammainc(0.5 * m + 1.0, median)))


def _start(Z: Array, Y: Array) -> Array:
    """(k, m) the fit to a few pieces of the samples that agrees best with half of all of them."""
    T = len(Y)
    piece = np.arange(max(3, round(_PIECE * T)))
    rng = np.random.default_rng(0)  # the same pieces every time
    thin = np.linspace(0, T - 1, min(T, _THINNED)).astype(int)
    first = rng.integers(0, max(1, T - piece.size), (_TRIALS, _PIECES))
    rows = (first[:, :, None] + piece).reshape(_TRIALS, -1) % T
    z, y = Z[rows], Y[rows]
    gram = np.linalg.pinv(z.swapaxes(1, 2) @ z, rcond=1e-12, hermitian=True)
    B = gram @ (z.swapaxes(1, 2) @ y)
    cost = np.median(np.sum((Y[thin] - Z[thin] @ B) ** 2, axis=2), axis=1)
    return np.asarray(B[int(np.argmin(cost))])


def words_of_axes(G: Array) -> str:
    """What a sensor's x, y, z read, of the axes stated: ``(y, -x, z)``."""
    names = []
    for row in G:
        i = int(np.argmax(np.abs(row)))
        names.append(("-" if row[i] < 0.0 else "") + "xyz"[i])
    return f"({', '.join(names)})"
