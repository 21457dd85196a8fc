"""Measured against predicted torques, joint by joint and recording by recording."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bodysense.identification.run import IdentificationRun
from bodysense.identification.scores import Prediction, score
from bodysense.report.rendering import effort_unit, percent
from bodysense.report.traces import Stretches, TracePool, float_bytes, runs

_POINTS_PER_TRACE = 2000
_POINTS_IN_ALL = 1_200_000  # 2.7 bytes each in the page
_FEWEST_POINTS = 100
_TRACES = ("raw", "measured", "identified", "prior", "residual")

KINDS = {
    "validation": "Validation",
    "held-out": "Blocks left out in turn",
    "training": "Training fit",
}
"""Kinds of data in words, the most telling first."""


@dataclass(frozen=True)
class TorqueSection:
    """What can be chosen, and the curves.

    Attributes:
        recordings: label of each recording.
        joints: names.
        data: for the page's script.
    """

    recordings: tuple[str, ...]
    joints: tuple[str, ...]
    data: dict[str, object]

    @classmethod
    def of(cls, run: IdentificationRun) -> TorqueSection:
        """The section of a run."""
        robot = run.identification.prior
        groups = recordings_of(run.predictions)
        n_traces = max(1, len(groups) * robot.n_joints * len(_TRACES))
        most = max(_FEWEST_POINTS, min(_POINTS_PER_TRACE, _POINTS_IN_ALL // n_traces))
        pool = TracePool()
        recordings = [_recording(label, pieces, most, pool) for label, pieces in groups]
        return cls(
            recordings=tuple(label for label, _ in groups),
            joints=robot.joint_names,
            data={
                "joints": list(robot.joint_names),
                "units": [effort_unit(kind) for kind in robot.joint_types],
                "recordings": recordings,
                "traces": pool.traces,
            },
        )


def recordings_of(predictions: Sequence[Prediction]) -> list[tuple[str, list[Prediction]]]:
    """Pieces of the same recording together with a label, validation first.

    Two recordings of the same name are told apart by their times, which must ascend.
    """
    groups: list[list[Prediction]] = []
    for p in predictions:
        last = groups[-1][-1] if groups else None
        follows = last is not None and (last.kind, last.source) == (p.kind, p.source)
        if follows and last is not None and p.t[0] > last.t[-1]:
            groups[-1].append(p)
        else:
            groups.append([p])
    groups.sort(key=lambda pieces: list(KINDS).index(pieces[0].kind))
    labels: list[str] = []
    for pieces in groups:
        label = f"{KINDS[pieces[0].kind]}: {pieces[0].source}"
        same = sum(other == label or other.startswith(f"{label} (") for other in labels)
        labels.append(f"{label} ({same + 1})" if same else label)
    return list(zip(labels, groups, strict=True))


def _recording(
    label: str, pieces: Sequence[Prediction], most: int, pool: TracePool
) -> dict[str, object]:
    stretches = Stretches.of([p.t.size for p in pieces], most)
    start = float(pieces[0].t[0])
    with np.errstate(all="ignore"):  # of a prediction that diverged
        residuals = [p.filtered - p.identified_filtered for p in pieces]
        scores = score(pieces)
    curves = {
        "raw": [p.raw for p in pieces],
        "measured": [p.filtered for p in pieces],
        "identified": [p.identified_filtered for p in pieces],
        "prior": [p.prior_filtered for p in pieces],
        "residual": residuals,
    }
    points = {name: stretches.values(values) for name, values in curves.items()}
    still = ~stretches.any([p.moving for p in pieces])
    errors = scores.identified.moving.relative_error, scores.identified.all.relative_error
    return {
        "label": label,
        "start": start,
        "time": float_bytes(stretches.times([p.t - start for p in pieces])),
        "pieces": stretches.starts,
        "joints": [
            {name: pool.add(points[name][:, j]) for name in _TRACES}
            | {
                "still": runs(still[:, j], stretches.starts),
                "error": _error(*(e[j] for e in errors)),
            }
            for j in range(still.shape[1])
        ],
    }


def _error(moving: float, everywhere: float) -> str:
    if np.isfinite(moving):
        return percent(moving)
    return f"{percent(everywhere)}, still"
