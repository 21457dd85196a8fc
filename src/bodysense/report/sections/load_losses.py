"""Friction that grows with the load, joint by joint, and what it is worth."""

from __future__ import annotations

from dataclasses import dataclass

from bodysense.identification.payload.experiment import LoadExperiment
from bodysense.report.rendering import NOTHING, number, percent
from bodysense.spatial.arrays import Array


@dataclass(frozen=True)
class LossRow:
    """One joint: share of the torque that is lost, and held-out errors without and with it."""

    joint: str
    share: str
    bar: float
    without: str
    with_: str


@dataclass(frozen=True)
class LossSection:
    """All joints, and whether the losses were kept."""

    kept: bool
    rows: tuple[LossRow, ...]
    all: tuple[str, str]

    @classmethod
    def of(cls, experiment: LoadExperiment, losses: Array) -> LossSection:
        """The section of an experiment with losses (n,)."""
        kept = experiment.problem.n_losses > 0
        most = float(losses.max(initial=0.0)) or 1.0
        without, with_ = experiment.errors
        return cls(
            kept=kept,
            rows=tuple(
                LossRow(
                    joint=joint,
                    share=percent(losses[j]) if kept else NOTHING,
                    bar=round(100.0 * max(float(losses[j]), 0.0) / most, 1),
                    without=number(experiment.joint_errors[0, j], 3),
                    with_=number(experiment.joint_errors[1, j], 3),
                )
                for j, joint in enumerate(experiment.robot.joint_names)
            ),
            all=(number(without, 3), number(with_, 3)),
        )
