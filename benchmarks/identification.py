"""Identification of a recorded TX40, against figaroh on the same files in the same run."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

import numpy as np

from benchmarks import recording
from benchmarks.figaroh_process import VERSION, Figaroh
from benchmarks.result import Result
from benchmarks.timing import Timings, all_threads, interleaved, on_threads
from bodysense import Log
from bodysense.identification import (
    Identification,
    IdentificationRun,
    Preprocessing,
    Regression,
    identifier,
    identify,
    motions,
)
from bodysense.robot.dynamics import inverse_dynamics
from bodysense.spatial import Array

CUTOFF = 50.0  # Hz, on both sides
BORDER = 0.004  # s, on both sides
MOST_ROUNDS = 3  # figaroh takes some ten seconds a round


def every_sample(rows: int | None = None) -> tuple[Regression, Identification]:
    """From the files to WLS of every sample: the work that figaroh does."""
    # Every row counts, sign(v) of standing joints included, as it does there.
    return _fitted(Preprocessing(CUTOFF, border=BORDER, still_speed=0.0, decimate=False), rows)


def decimated(rows: int | None = None) -> tuple[Regression, Identification]:
    """The same with the parallel filter and decimation, and standing joints left out."""
    return _fitted(Preprocessing(CUTOFF), rows)


def _fitted(settings: Preprocessing, rows: int | None) -> tuple[Regression, Identification]:
    robot = recording.robot().with_friction("offset")
    raw = recording.read(rows)
    log = Log.of(raw.t, raw.channels, raw.units)
    settled = settings.settled(robot, CUTOFF)
    problem = Regression.of(robot, motions(robot, [[log]], settled), settled)
    return problem, identifier("wls").fit(problem)


def whole(rows: int | None = None) -> IdentificationRun:
    """From the files to the verdict, with every choice made by the data."""
    return identify(recording.robot(), [recording.read(rows)])


def run(repeat: int, *, rows: int | None = None) -> tuple[Result, ...]:
    """Compare; with only the first rows of the recording there is no peer."""
    recording.folder()  # before anything is installed
    repeat, threads = min(repeat, MOST_ROUNDS), all_threads()
    problem, estimate = every_sample(rows)
    sides: dict[str, Callable[[], object]] = {
        "one": on_threads(1, partial(every_sample, rows)),
        "all": on_threads(threads, partial(every_sample, rows)),
        "decimated": on_threads(threads, partial(decimated, rows)),
        "whole": on_threads(threads, partial(whole, rows)),
    }
    if rows is not None:
        return _lines(problem, interleaved(sides, repeat), None)
    with ExitStack() as stack:
        single = stack.enter_context(Figaroh(recording.folder(), 1))
        several = stack.enter_context(Figaroh(recording.folder(), threads))
        sides["peer one"] = single.identify
        sides["peer all"] = several.identify
        sides["peer decimated"] = partial(single.identify, decimate=True)
        results = _lines(
            problem, interleaved(sides, repeat), _difference(problem, estimate, single)
        )
        return (*results, _first(problem, min(single.first_seconds, several.first_seconds)))


def _difference(problem: Regression, estimate: Identification, peer: Figaroh) -> float:
    """Torques that both estimates predict for the same motion: RMS difference over RMS."""
    motion, robot = problem.motions[0], problem.robot

    def torque(theta: Array) -> Array:
        return inverse_dynamics(robot, motion.q, motion.v, motion.a, theta=theta)

    tau = torque(estimate.theta)
    return float(np.linalg.norm(torque(peer.first.theta(robot.layout)) - tau) / np.linalg.norm(tau))


def _lines(problem: Regression, timings: Timings, difference: float | None) -> tuple[Result, ...]:
    threads, compared = all_threads(), difference is not None
    # Threads of the linear algebra that wait for each other can take longer than one alone.
    faster = min(("peer one", "peer all"), key=timings.best) if compared else ""
    size = f"{problem.n_samples} samples, {problem.size} base parameters"

    def line(
        what: str, ours: str, peer: str, notes: str, target: float | None = None, same: bool = False
    ) -> Result:
        return Result.judged(
            "identification",
            f"TX40 recording, {what}",
            unit="s",
            ours=timings.best(ours),
            peer=timings.best(peer) if compared else None,
            paired_ratio=timings.paired_ratio(peer, ours) if compared else None,
            ratio_at_least=target,
            agreement=difference if same else None,
            agreement_within=0.02 if same and compared else None,
            notes=notes,
        )

    both = (
        f"both read the two CSV files, filter at {CUTOFF:g} Hz, differentiate, build the regressor "
        f"of every sample, find base parameters and solve WLS with standard deviations; peer: "
        f"figaroh {VERSION}, without its validation and report"
    )
    best = f", its linear algebra on one or {threads} threads, whichever is faster"
    same = "; agreement: RMS difference of the predicted torques over their RMS"
    return (
        line(f"{size}: WLS, one thread each", "one", "peer one", both + same, 5.0, True),
        line(f"{size}: WLS, {threads} threads", "all", faster, both + best + same, 5.0, True),
        line(
            "decimated, each in its way: WLS",
            "decimated",
            "peer decimated",
            "filter and cut-off as above; figaroh decimates to 500 Hz after it has built the "
            "regressor of every sample, as its example does; ours to 2.5 times the filter's band, "
            "and only builds what that needs",
            5.0,
        ),
        line(
            "identify(), peer: WLS of every sample",
            "whole",
            faster,
            "ours reads, examines the log, chooses cut-off and friction law, solves PC-WLS, and "
            "scores it on blocks left out; figaroh as above, on the threads that suit it best",
        ),
    )


def _first(problem: Regression, peer: float) -> Result:
    """A fresh process each, imports included."""
    for _ in range(2):  # the first of them may have to compile
        start = time.perf_counter()
        subprocess.run(
            [sys.executable, "-c", "from benchmarks.identification import *; every_sample()"],
            cwd=recording.ROOT,
            check=True,
        )
    return Result.judged(
        "identification",
        f"TX40 recording, {problem.n_samples} samples: WLS, first in a fresh process",
        unit="s",
        ours=time.perf_counter() - start,
        peer=peer,
        notes="one run: interpreter, imports and the same work; compiled kernels from the cache",
    )
