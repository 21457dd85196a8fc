"""What the error of a joint's torque follows: its velocity, load, position, or another joint.

A sound model leaves residuals that nothing recorded explains. Where it is wrong, they follow what
it lacks: columns of each possible cause, fitted to one half of the blocks, explain the share

    1 - ‖e - X x‖² / ‖e‖²

of the squared residuals e of the other half. The cause that explains most is worth a word.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bodysense.identification.preprocessing import Motion
from bodysense.identification.scores import Prediction
from bodysense.logs.filtering import lowpass
from bodysense.spatial.arrays import Array

_LEAST_SHARE = 0.5  # of the squared residuals that a cause must explain
_BLOCK = 0.5  # duration of blocks of which every other one is held out [s]
_REVERSAL, _CURVE = 0.02, 0.1  # rad/s: over which friction reverses, and a Stribeck curve falls
_LEAST_ROWS = 10  # per column, in either half


@dataclass(frozen=True)
class ResidualCause:
    """What the residuals of a joint follow.

    Attributes:
        follows: in words.
        remedy: what to do about it.
        share: of the squared residuals of unseen blocks that it explains.
    """

    follows: str
    remedy: str
    share: float


_FRICTION = "try another friction law (--friction)"
_LOAD = "try a friction law with load (--friction coulomb-load)"
_POSITION = "springs, cables or gears whose torque depends on the position are not in the model"
_INERTIA = "check that its torques and positions are of the same time, and its gear"
_COUPLED = "are their drives coupled (actuator file), or channels mixed?"


def residual_causes(
    names: Sequence[str], predictions: Sequence[Prediction], of: Iterable[str]
) -> Mapping[str, ResidualCause]:
    """What most of the residuals of some joints follow while they move, where anything is.

    Predictions are those of unseen data, with their motions.
    """
    made: dict[str, ResidualCause] = {}
    for name in of if predictions else ():
        j = names.index(name)
        best = max(_shares(names, predictions, j), key=lambda cause: cause.share, default=None)
        if best is not None and best.share > _LEAST_SHARE:
            made[name] = best
    return made


def _shares(
    names: Sequence[str], predictions: Sequence[Prediction], j: int
) -> Iterator[ResidualCause]:
    rows = np.concatenate([p.moving[:, j] for p in predictions])
    e = np.concatenate([(p.filtered - p.identified_filtered)[:, j] for p in predictions])[rows]
    odd = np.concatenate([((p.t - p.t[0]) / _BLOCK).astype(int) % 2 == 1 for p in predictions])
    parts = [dict(_columns(names, p, j)) for p in predictions]
    for follows, remedy in parts[0]:
        X = np.concatenate([part[follows, remedy] for part in parts])[rows]
        yield ResidualCause(follows, remedy, _share(X, e, odd[rows]))


def _columns(
    names: Sequence[str], p: Prediction, j: int
) -> Iterator[tuple[tuple[str, str], Array]]:
    """Of each cause its columns (n_t, k), filtered as the torques are."""
    motion = p.motion
    if motion is None:
        return
    q, v, a, tau = (x[:, j] for x in (motion.q, motion.v, motion.a, motion.tau))
    s = np.tanh(motion.v / _REVERSAL)
    own = s[:, j]
    each: list[tuple[tuple[str, str], list[Array]]] = [
        (("its velocity", _FRICTION), [v, np.abs(v) * v, own, own * np.exp(-((v / _CURVE) ** 2))]),
        (("its load", _LOAD), [np.abs(tau) * own]),
        (("its position", _POSITION), [q, np.sin(q), np.cos(q)]),
        (("its acceleration", _INERTIA), [a]),
    ]
    for k, name in enumerate(names):
        if k != j:
            others = (motion.v[:, k], s[:, k], motion.a[:, k], motion.tau[:, k])
            each.append(((f"the motion of {name}", _COUPLED), list(others)))
    for cause, columns in each:
        yield cause, _filtered(np.column_stack(columns), p, motion)


def _filtered(columns: Array, p: Prediction, motion: Motion) -> Array:
    return lowpass(columns, motion.rate, p.bandwidth) if p.passed < 1.0 else columns


def _share(X: Array, e: Array, odd: NDArray[np.bool_]) -> float:
    """Share of squared residuals e (m,) that columns X (m, k) explain, each half by the other."""
    left, total = 0.0, float(e @ e)
    for half in (odd, ~odd):
        if half.sum() < _LEAST_ROWS * X.shape[1] or not total > 0.0:
            return 0.0
        size = np.maximum(np.linalg.norm(X[~half], axis=0), np.finfo(float).tiny)
        x = np.linalg.lstsq(X[~half] / size, e[~half], rcond=None)[0] / size
        left += float(np.square(e[half] - X[half] @ x).sum())
    return 1.0 - left / total
