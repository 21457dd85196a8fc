"""Errors per recording and joint, moving and still apart, beside the prior's and the noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bodysense.identification.run import IdentificationRun
from bodysense.identification.scores import DataScores, Score
from bodysense.report.rendering import effort_unit, number, percent
from bodysense.report.sections.torques import KINDS

_FULL = 0.25  # relative error at which a bar is full: what the verdict calls poor


@dataclass(frozen=True)
class JointRow:
    """Errors of one joint; `bar` is the share of a full bar, in per cent."""

    joint: str
    moving: str
    bar: float
    still: str
    all: str
    raw: str
    rms: str
    floor: str
    prior_moving: str
    prior_all: str
    share: str


@dataclass(frozen=True)
class RecordingScores:
    """Errors on one recording.

    Attributes:
        kind: of data, in words.
        source: name of the recording.
        open: whether its joints are shown at once.
        moving: mean over moving joints, and the same of the prior, of all samples, of still ones.
        d_tau: against filtered and against raw torque, the noise's share, and the prior's.
        rows: joint by joint.
    """

    kind: str
    source: str
    open: bool
    moving: str
    bar: float
    prior: str
    all: str
    still: str
    d_tau: str
    d_tau_raw: str
    floor: str
    d_tau_prior: str
    rows: tuple[JointRow, ...]


def score_tables(run: IdentificationRun) -> tuple[RecordingScores, ...]:
    """Tables of all recordings, the most telling kind of data first."""
    ordered = sorted(run.scores, key=lambda s: list(KINDS).index(s.kind))
    prior = run.identification.prior
    units = [effort_unit(kind) for kind in prior.joint_types]
    return tuple(
        _recording(scores, prior.joint_names, units, k == 0) for k, scores in enumerate(ordered)
    )


def _recording(
    scores: DataScores, joints: tuple[str, ...], units: list[str], first: bool
) -> RecordingScores:
    result, before = scores.identified, scores.prior
    return RecordingScores(
        kind=KINDS[scores.kind],
        source=scores.source,
        open=first,
        moving=percent(result.moving.mean_relative_error),
        bar=_bar(result.moving.mean_relative_error),
        prior=percent(before.moving.mean_relative_error),
        all=percent(result.all.mean_relative_error),
        still=percent(result.still.mean_relative_error),
        d_tau=percent(result.all.d_tau),
        d_tau_raw=percent(result.all.d_tau_raw),
        floor=percent(scores.noise_floor_d_tau),
        d_tau_prior=percent(before.all.d_tau),
        rows=tuple(
            JointRow(
                joint=joint,
                moving=percent(result.moving.relative_error[j]),
                bar=_bar(result.moving.relative_error[j]),
                still=percent(result.still.relative_error[j]),
                all=percent(result.all.relative_error[j]),
                raw=percent(result.all.relative_error_raw[j]),
                rms=f"{number(result.all.rms_error[j], 3)} {units[j]}",
                floor=percent(scores.noise_floor[j]),
                prior_moving=percent(before.moving.relative_error[j]),
                prior_all=percent(before.all.relative_error[j]),
                share=_moving_share(result.moving, result.all, j),
            )
            for j, joint in enumerate(joints)
        ),
    )


def _bar(error: float) -> float:
    return round(100.0 * min(1.0, error / _FULL), 1) if np.isfinite(error) else 0.0


def _moving_share(moving: Score, everywhere: Score, joint: int) -> str:
    total = everywhere.samples[joint]
    return f"{moving.samples[joint] / total:.0%}".replace("%", " %") if total else percent(np.nan)
