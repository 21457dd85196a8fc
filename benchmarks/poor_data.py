"""Five seconds of a real recording: what a prior is worth when the data are poor."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from benchmarks import ur10e
from benchmarks.result import Result
from bodysense import Robot, base_parameters
from bodysense.identification import (
    Identifier,
    Preprocessing,
    Regression,
    examine,
    identifier,
    motions,
)
from bodysense.identification.scores import predict, score
from bodysense.logs.log import Log
from bodysense.spatial.arrays import Array

SECONDS = 5.0
STARTS = (0.0, 10.0, 20.0, 30.0, 40.0)  # s, of the windows that are identified from
CUTOFF = 6.0  # Hz
KINDS = ("auto", "euclidean", "pullback", "entropic")


def run(repeat: int, *, starts: tuple[float, ...] = STARTS) -> tuple[Result, ...]:
    """Errors on another recording, median over windows; the weight is chosen within each window."""
    robot = ur10e.robot().with_friction("offset", width=0.02)
    settings = Preprocessing(cutoff=CUTOFF).settled(robot, CUTOFF)
    base = base_parameters(robot)
    (whole,) = examine(robot, ur10e.read(ur10e.TRAINING)).segments
    unseen = examine(robot, ur10e.read(ur10e.VALIDATION[0])).segments
    held_out = motions(robot, [unseen], settings)

    def error(theta: Array) -> tuple[float, float]:
        """Mean relative error of moving joints [%], of these parameters and of the prior."""
        pieces = [
            predict(robot, m, settings, [theta], source="", kind="validation") for m in held_out
        ]
        found = score(pieces)
        return tuple(100.0 * s.moving.mean_relative_error for s in (found.identified, found.prior))  # type: ignore[return-value]

    errors: dict[str, list[float]] = {name: [] for name in ("ols", *KINDS)}
    before = 0.0
    for start in starts:
        problem = Regression.of(
            robot, motions(robot, [(_window(whole, start),)], settings), settings, base
        )
        for name, method in _methods(robot).items():
            mine, before = error(method.theta(problem))
            errors[name].append(mine)
    ols, prior = float(np.median(errors["ols"])), before
    return tuple(
        Result.judged(
            "poor-data",
            f"UR10e, {SECONDS:g} s: held-out torque error, {kind} relaxation, peer: OLS",
            unit="%",
            ours=float(np.median(errors[kind])),
            peer=ols,
            ours_below=min(prior, ols),
            notes=f"median over windows that begin at {_listed(starts)} s, from "
            f"{min(errors[kind]):.1f} to {max(errors[kind]):.1f} %; the prior alone has "
            f"{prior:.1f} %; weight chosen within each window",
        )
        for kind in KINDS
    )


def _listed(numbers: tuple[float, ...]) -> str:
    return ", ".join(f"{number:g}" for number in numbers)


def _methods(robot: Robot) -> dict[str, Identifier]:
    relaxed = {
        kind: identifier("pc-wls", relaxation=kind, relaxation_weight=None) for kind in KINDS
    }
    return {"ols": identifier("ols"), **relaxed}


def _window(log: Log, start: float) -> Log:
    t = log.t - log.t[0]
    kept = (t >= start) & (t < start + SECONDS)
    return replace(log, t=log.t[kept], channels={name: x[kept] for name, x in log.channels.items()})
