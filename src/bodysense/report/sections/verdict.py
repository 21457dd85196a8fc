"""The verdict, and the numbers behind it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bodysense.identification.run import IdentificationRun
from bodysense.identification.scores import DataScores
from bodysense.report.rendering import NOTHING, count, number, percent
from bodysense.report.sections.links import link_states


@dataclass(frozen=True)
class Tile:
    """One key number: what it is, its value, and what it refers to."""

    title: str
    value: str
    remark: str
    tone: str = ""


@dataclass(frozen=True)
class VerdictSection:
    """Grade, sentence, advice, key numbers, and what went in.

    Attributes:
        grade: ``good``, ``fair``, ``poor`` or ``failed``.
        summary: the verdict's sentence.
        advice: what to do, most important first.
        tiles: key numbers.
        facts: what went in, by name; several lines where there are several.
    """

    grade: str
    summary: str
    advice: tuple[str, ...]
    tiles: tuple[Tile, ...]
    facts: tuple[tuple[str, tuple[str, ...]], ...]

    @classmethod
    def of(cls, run: IdentificationRun) -> VerdictSection:
        """The section of a run."""
        summary = run.verdict.summary
        return cls(
            grade=run.verdict.grade,
            summary=summary[:1].upper() + summary[1:],
            advice=run.verdict.advice,
            tiles=(*_errors(run), _reach(run), _physics(run)),
            facts=_facts(run),
        )


def _errors(run: IdentificationRun) -> tuple[Tile, ...]:
    held_out = [s for s in run.scores if s.kind == "held-out"]
    validation = [s for s in run.scores if s.kind == "validation"]
    judged = validation or held_out or list(run.scores)
    floor = (held_out or judged)[0].noise_floor_d_tau if judged else float("nan")
    return (
        Tile(
            "Held-out error",
            percent(_mean(held_out)),
            "of moving joints, on blocks left out of the fit"
            if held_out
            else "the recordings are too short to leave blocks out",
        ),
        Tile(
            "Validation error",
            percent(_mean(validation)),
            f"of moving joints, on {count(len(validation), 'recording')} never fitted"
            if validation
            else "no recording was kept for validation",
        ),
        Tile("Error before", percent(_mean(judged, prior=True)), "of the robot's file, same data"),
        Tile("Noise floor", percent(floor), "of the raw torque, which no model predicts"),
    )


def _mean(scores: list[DataScores], *, prior: bool = False) -> float:
    errors = [(s.prior if prior else s.identified).moving.mean_relative_error for s in scores]
    finite = [error for error in errors if np.isfinite(error)]
    return float(np.mean(finite)) if finite else float("nan")


def _reach(run: IdentificationRun) -> Tile:
    labels = run.identification.base_labels
    return Tile(
        "Identified",
        f"{labels.count('identified')} of {len(labels)}",
        f"base parameters; {labels.count('driven by the prior')} are driven by the prior, "
        f"{labels.count('not identifiable')} not identifiable",
    )


def _physics(run: IdentificationRun) -> Tile:
    states = link_states(run.identification)
    impossible = states.count("impossible")
    drives = len(run.identification.negative_drives)
    if not run.identification.consistent:
        parts = [count(impossible, "impossible link")] if impossible else []
        parts += [count(drives, "negative drive parameter")] if drives else []
        return Tile("Physics", "not consistent", ", ".join(parts) or "see the links", "bad")
    border = states.count("border")
    remark = f"{count(border, 'link')} at the border" if border else "every link can exist"
    return Tile("Physics", "consistent", remark, "fine")


def _known(run: IdentificationRun) -> tuple[tuple[str, tuple[str, ...]], ...]:
    knowledge = run.problem.knowledge
    lines = (knowledge.summary(), *knowledge.notes)
    return (("Known for certain", lines),) if knowledge.any else ()


def _method(run: IdentificationRun) -> tuple[str, ...]:
    result = run.identification
    reasons = () if run.method_choice is None else run.method_choice.reasons
    return (f"{result.method}. {result.status.message}", *reasons)


def _facts(run: IdentificationRun) -> tuple[tuple[str, tuple[str, ...]], ...]:
    identification, cutoff = run.identification, run.settings.cutoff
    friction = identification.prior.friction.model
    seconds = sum(d.duration for d in run.diagnoses)
    return (
        ("Robot", (identification.prior.summary(),)),
        ("Method", _method(run)),
        ("Friction law", (f"{friction.name} ({', '.join(friction.terms) or 'none'})",)),
        *_known(run),
        ("Identified from", tuple(d.source for d in run.diagnoses) or (NOTHING,)),
        ("Validated on", tuple(d.source for d in run.validation) or (NOTHING,)),
        (
            "Data",
            (
                f"{number(seconds, 3)} s used, low-pass "
                f"{number(cutoff if cutoff is not None else float('nan'), 3)} Hz",
            ),
        ),
    )
