"""Sizes of defects beside the model, with standard deviations that hold the model's error.

    y = Y theta_base + F f + D x + noise

theta_base and what friction laws lack, f, are free at the same time, so that x is what neither of
them explains: a zero of the last joint, which turns the parameters of its link and nothing else,
has next to no information, and no interval that could accuse it. One triangle of [Y F D y] for each
block of the recording is all that it takes: an estimate with one block left out (the delete-a-group
jackknife, Tukey 1958) is a stack of the others, and

    var x = (g - 1) / g  Σ_k (x_k - mean x)²,

which holds the error of the model, as that differs between blocks, and not noise alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import stdtrit

from bodysense.identification.defects.columns import DefectCandidate, PredictedTorques
from bodysense.identification.linear.least_squares import Ridge
from bodysense.identification.linear.method import LinearMethod
from bodysense.identification.preprocessing import Motion, Plan
from bodysense.identification.prior import Prior
from bodysense.identification.reduced import joined, triangle
from bodysense.identification.regression import Regression
from bodysense.identification.solution import noise_levels, rounding_levels
from bodysense.spatial.arrays import Array

_BLOCKS = 18  # that are left out in turn
_MIN_BLOCK = 0.5  # duration of a block [s]
_FEWEST_BLOCKS = 6  # with fewer, standard deviations mean nothing
_ROWS_PER_COLUMN = 2.0  # that are needed, or leaving any out changes all
_MOST_SAMPLES = 2000  # of the problem; more are thinned
_CHUNK = 20_000  # samples of a motion whose columns are computed at a time
_FILTERED_ABOVE, _RESOLVED = 0.5, 0.05  # of the cut-off, and of the rate
_ENDS = 8  # samples at the ends of a chunk, where differences are of a lower order
_HELD = 1e-2  # weight of the prior, and of zero for x and f: for what the data do not show at all
_LEAST_OWN = 0.05  # of a constant torque, that nothing else explains, or it tells no offset
_NORMAL_QUANTILE = 0.99865  # of three standard deviations


@dataclass(frozen=True, eq=False)
class Estimates:
    """Sizes of some candidates.

    Attributes:
        candidates: what was estimated.
        sizes: (k,) estimates.
        std: (k,) their standard deviations.
        errors: (k,) mean logarithm, over joints, of the relative squared error of held-out blocks
            with each; or of one with all together.
        error: the same without any.
        noise: (n_logs, n) standard deviations of residuals of the model alone.
        offsets: (n,) constant parts of the joints' torques, zero where they do not show.
        offsets_std: (n,) their standard deviations.
    """

    candidates: tuple[DefectCandidate, ...]
    sizes: Array
    std: Array
    errors: Array
    error: float
    noise: Array
    offsets: Array
    offsets_std: Array

    @property
    def gains(self) -> Array:
        """(k,) share of the held-out squared error that each candidate explains."""
        gains: Array = 1.0 - np.exp(np.minimum(self.errors - self.error, 0.0))
        return gains


def estimate_defects(
    problem: Regression,
    candidates: Sequence[DefectCandidate],
    *,
    beside: Sequence[DefectCandidate] = (),
    together: bool = False,
    theta: Array | None = None,
) -> Estimates | None:
    """Estimate each candidate alone beside the model, or all of them together.

    Those of `beside` are free at the same time, in either case. Columns are taken at theta (p,), by
    default those of `ridge_theta`.

    Returns `None` where the recordings are too short to leave anything out.
    """
    theta = ridge_theta(problem) if theta is None else theta
    rows = block_rows(problem, (*beside, *candidates), theta)
    if sum(r.count for r in rows) < _ROWS_PER_COLUMN * (problem.size + 2 * problem.n_joints):
        return None
    made = _estimates(problem, tuple(candidates), rows, together, theta)
    finite = all(np.isfinite(x).all() for x in (made.sizes, made.std, made.errors))
    return made if finite else None


def ridge_theta(problem: Regression) -> Array:
    """(p,) parameters near the prior's where the data do not tell."""
    return LinearMethod("ridge", solver=Ridge(spread=1.0)).theta(problem)


@dataclass(frozen=True, eq=False)
class BlockRows:
    """[Y F D y] of one block of the recording, one log and one joint, or its triangle.

    Attributes:
        block: which one.
        log: of which log.
        joint: of which joint.
        begin: time of the first of them [s].
        R: (≤ c, c) with c = b + 2 n + k + 1.
        count: how many rows it stands for.
    """

    block: int
    log: int
    joint: int
    begin: float
    R: Array
    count: int


def block_rows(
    problem: Regression, candidates: Sequence[DefectCandidate], theta: Array
) -> list[BlockRows]:
    """Rows of all blocks, in the order of time; none if there are too few blocks."""
    spans = np.array([motion.t[-1] - motion.t[0] for motion in problem.motions])
    wanted = min(_BLOCKS, int(spans.sum() / _MIN_BLOCK))
    counts = np.maximum(np.rint(wanted * spans / max(spans.sum(), 1e-300)), 1.0).astype(int)
    if wanted < _FEWEST_BLOCKS:
        return []
    thin = -(-problem.n_samples // _MOST_SAMPLES)
    columns = [_columns(problem, piece, theta, candidates, thin) for piece in range(spans.size)]
    n_out = [Plan.of(motion, problem.settings).n_out for motion in problem.motions]
    first = np.concatenate([[0], np.cumsum(counts)])
    parts: dict[tuple[int, int, int], list[Array]] = {}
    begin: dict[int, float] = {}
    at = np.zeros(spans.size, dtype=int)
    for rows in problem.blocks():
        piece, m = rows.piece, rows.t.size
        place = at[piece] + np.arange(m)
        at[piece] += m
        D = columns[piece]
        block = first[piece] + place * counts[piece] // max(n_out[piece], 1)
        for k, row in zip(*np.unique(block, return_index=True), strict=True):
            begin.setdefault(int(k), float(rows.t[row]))
            for j in range(problem.n_joints):
                use = (block == k) & (rows.use[:, j] > 0.0) & (place % thin == 0)
                if use.any():
                    own = D[place[use] // thin, j]
                    tall = np.column_stack([rows.Y[use, j], own, rows.y[use, j]])
                    parts.setdefault((int(k), rows.log, j), []).append(tall)
    made = []
    for key, pieces in sorted(parts.items()):
        tall = np.concatenate(pieces)
        R = triangle(tall) if tall.shape[0] > tall.shape[1] else tall
        made.append(BlockRows(*key, begin[key[0]], R, tall.shape[0]))
    return made


def _columns(
    problem: Regression, piece: int, theta: Array, candidates: Sequence[DefectCandidate], thin: int
) -> Array:
    """(m, n, 2 n + k) columns F and D of a motion, filtered like its rows, of every thin-th row."""
    motion = problem.motions[piece]
    plan = Plan.of(motion, problem.settings)
    q, v, a = (np.ascontiguousarray(x[:: plan.stride]) for x in (motion.q, motion.v, motion.a))
    s = through_the_log(problem, motion)[:: plan.stride]
    rate, size = motion.rate / plan.stride, problem.torque_size
    parts = []
    rows = max(1, _CHUNK // (plan.step * thin)) * thin
    for row in range(0, plan.n_out, rows):  # not all at once, for memory
        # The samples of these rows, and of differences at their ends.
        begin = row * plan.step
        end = min(begin + (rows - 1) * plan.step + plan.taps.size, len(q))
        ahead = min(begin, _ENDS)
        part = slice(begin - ahead, min(end + _ENDS, len(q)))
        motion_of = (q[part], v[part], a[part])
        torques = PredictedTorques(
            problem.robot, theta, *motion_of, rate, s[part], size, low_pass_corner(problem, rate)
        )
        made = [
            *torques.friction_columns(),
            *(torques.column(candidate) for candidate in candidates),
        ]
        table = np.stack(made, axis=2)[ahead : ahead + end - begin]
        parts.append(plan.filtered(table)[:rows:thin])
    return np.concatenate(parts)


def low_pass_corner(problem: Regression, rate: float) -> float:
    """Frequency [Hz] above which torques are said to be filtered, where they show at all."""
    cutoff = problem.settings.cutoff or np.inf
    return float(min(_FILTERED_ABOVE * cutoff, _RESOLVED * rate))


def through_the_log(problem: Regression, motion: Motion) -> Array:
    """(n_t,) time from -1/2 to 1/2 through all pieces of the log that a motion is a piece of."""
    pieces = [other.t for other in problem.motions if other.log == motion.log]
    first, last = min(t[0] for t in pieces), max(t[-1] for t in pieces)
    return np.asarray((motion.t - first) / max(last - first, 1e-300) - 0.5)


def _offset_places(problem: Regression) -> list[int]:
    """For each joint the column of its constant torque, -1 where it has none."""
    n, layout = problem.n_joints, problem.base.layout
    if "Fo" not in problem.robot.friction.model.terms:
        return list(range(problem.size + 2 * n, problem.size + 3 * n))
    # With the weight of a vertical slide in it, it is no offset.
    place = {int(k): at for at, k in enumerate(problem.base.independent)}
    return [
        place[int(k)] if layout.names[k] in problem.base.alone else -1
        for k in np.arange(layout.size)[layout.places("Fo")]
    ]


def _estimates(
    problem: Regression,
    candidates: tuple[DefectCandidate, ...],
    rows: list[BlockRows],
    together: bool,
    theta: Array,
) -> Estimates:
    k, b = len(candidates), problem.size
    held = held_rows(problem, rows[0].R.shape[1])
    sigma = noise_levels(problem, problem.base.to_base(theta))
    blocks = sorted({r.block for r in rows})
    weighted = [
        triangle(np.concatenate([r.R / sigma[r.log, r.joint] for r in rows if r.block == block]))
        for block in blocks
    ]
    T, without_each = _triangles(held, weighted)
    whole = _solved(T, b, k, together)
    sizes = whole[-k - 1 : -1, 1:].diagonal() if not together else whole[-k - 1 : -1, 1]
    places = _offset_places(problem)
    # As the constant torque of a vertical slide, which is its weight.
    own = np.abs(T.diagonal()[places]) > _LEAST_OWN * np.linalg.norm(T[:, places], axis=0)
    shown = np.logical_and(np.array(places) >= 0, own)
    left, squares = [], np.zeros((problem.n_logs, problem.n_joints, whole.shape[1]))
    counts = np.zeros((problem.n_logs, problem.n_joints))
    for block, others in zip(blocks, without_each, strict=True):
        X = _solved(others, b, k, together)
        of_candidates = X[-k - 1 : -1, 1:].diagonal() if not together else X[-k - 1 : -1, 1]
        left.append(np.append(of_candidates, X[places, -1 if together else 0]))
        for r in rows:
            if r.block == block:
                squares[r.log, r.joint] += np.square(r.R @ X).sum(axis=0)
                counts[r.log, r.joint] += r.count
    floor = np.square(rounding_levels(problem))[None, :, None] * counts[:, :, None]
    mean = np.maximum(squares, np.maximum(floor, 1e-300)) / np.maximum(counts, 1.0)[:, :, None]
    mean = mean / np.square(np.maximum(problem.torque_size, 1e-150))[:, None]
    error = (np.log(mean) * counts[:, :, None]).sum(axis=(0, 1)) / counts.sum()
    g = len(blocks)
    spread = np.square(left - np.mean(left, axis=0)).sum(axis=0)
    widening = float(stdtrit(g - 1, _NORMAL_QUANTILE)) / 3.0
    std = widening * np.sqrt((g - 1) / g * spread)
    return Estimates(
        candidates,
        np.array(sizes),
        std[:k],
        error[1:],
        float(error[0]),
        sigma,
        np.where(shown, whole[places, -1 if together else 0], 0.0),
        np.where(shown, std[k:], 0.0),
    )


def held_rows(problem: Regression, width: int) -> Array:
    """Rows that hold what the data do not show: theta_base at the prior's, f and x at zero."""
    prior, b = Prior.of(problem), problem.size
    held = _HELD * np.eye(width - 1, width)
    held[:b, :b] = _HELD * solve_triangular(prior.base_factor, np.eye(b), lower=True)
    held[:b, -1] = held[:b, :b] @ prior.theta_base
    return held


def _triangles(held: Array, blocks: Sequence[Array]) -> tuple[Array, list[Array]]:
    """The triangle of all blocks, and those without each in turn: of those before and behind it."""
    before, behind = [held], [held[:0]]
    for block in blocks:
        before.append(joined(before[-1], block))
    for block in reversed(blocks[1:]):
        behind.append(joined(block, behind[-1]))
    pairs = zip(before, reversed(behind), strict=False)  # before the first to before the last
    return before[-1], [joined(one, other) for one, other in pairs]


def _solved(T: Array, b: int, k: int, together: bool) -> Array:
    """Solutions (c, 1 + k) of a triangle over [Y F D y]: (theta_base, f, x, -1) in the columns.

    The first without any candidate, the others with one each; or a second one with all together.
    """
    m = T.shape[1] - 1 - k
    H, t = T[m:, m:-1], T[m:, -1]
    if together:
        x = np.linalg.lstsq(H, t, rcond=None)[0][:, None]
    else:
        x = np.diag((H.T @ t) / np.maximum(np.square(H).sum(axis=0), 1e-300))
    x = np.column_stack([np.zeros(k), x])
    inner = solve_triangular(T[:m, :m], T[:m, -1:] - T[:m, m:-1] @ x)
    return np.concatenate([inner, x, -np.ones((1, x.shape[1]))])
