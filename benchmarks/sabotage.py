"""Damaged recordings: is what is wrong called GOOD, and is its cause named?

    error = mean over joints of ‖tau - prediction‖ / ‖tau‖,   of a noise-free new motion

of the robot that was recorded, so that no parameters are compared. A result is wrong where its
error exceeds three times that of the clean recording of the same robot and seed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from time import process_time

import numpy as np

from benchmarks.damages import DAMAGES, Damage
from benchmarks.result import Result
from benchmarks.sabotage_subjects import DURATION, RATE, ROBOTS, Subject, clean, true_error
from bodysense.doctor import examine
from bodysense.errors import BodysenseError
from bodysense.files import write_atomically
from bodysense.identification import identify
from bodysense.identification.defects import find_defects
from bodysense.identification.plausibility import bursts, implausibilities
from bodysense.identification.verdict import judge

WRONG = 3.0  # times the clean error, from which a result is wrong
MOST_FLATTERED, LEAST_NAMED, MOST_DOUBTED = 2.0, 80.0, 2.0  # %
CLEAN_SEEDS = 12  # recordings of each robot that are left as they are
RECORD = Path(__file__).parent / "sabotage.json"
PAGE = Path(__file__).parent.parent / "docs" / "verdict.md"
NONE = "none"  # the damage of a recording that has none
GRADES = ("good", "fair", "poor", "refused")
BEGIN, END = "<!-- sabotage: begin -->", "<!-- sabotage: end -->"


@dataclass(frozen=True)
class Outcome:
    """What came of one damaged recording.

    Attributes:
        damage: what was done to it; "none" if nothing.
        robot: its name.
        seed: of the recording.
        grade: of the verdict, or ``refused`` where the recording was.
        error: on a new motion, as a fraction; NaN where there is no result.
        clean: the same of the undamaged recording.
        named: whether the cause was named.
        sentences: what was said.
    """

    damage: str
    robot: str
    seed: int
    grade: str
    error: float
    clean: float
    named: bool
    sentences: tuple[str, ...] = ()

    @property
    def case(self) -> tuple[str, str, int]:
        return self.damage, self.robot, self.seed

    @property
    def wrong(self) -> bool:
        """Whether the numbers are wrong; also where there are none."""
        return not self.error <= WRONG * self.clean

    @property
    def flattered(self) -> bool:
        return self.grade == "good" and self.wrong


def run(
    repeat: int,
    *,
    only: str = "",
    robots: Sequence[str] = ROBOTS,
    seeds: int = 3,
    clean_seeds: int = CLEAN_SEEDS,
    record: Path | None = RECORD,
) -> tuple[Result, ...]:
    """Damage recordings, identify, and count.

    Args:
        repeat: rounds of the comparison of times; counts do not vary.
        only: damages whose name holds this, and no clean recordings unless it is "none".
        robots: to be recorded.
        seeds: recordings of each robot that are damaged.
        clean_seeds: recordings of each robot that are left as they are.
        record: where outcomes are kept; those of before that are not tried now stay.
    """
    names = [name for name in (*(d.name for d in DAMAGES), NONE) if only in name]
    outcomes = {} if record is None or not only else {o.case: o for o in load(record)}
    for robot in robots:
        for name in names:
            for seed in range(clean_seeds if name == NONE else seeds):
                o = outcome(name, robot, seed)
                outcomes[o.case] = o
    ordered = tuple(outcomes.values())
    if record is not None:
        save(record, ordered)
        page = PAGE.read_text(encoding="utf-8")
        write_atomically(PAGE, page_with_table(page, ordered))
    return (*totals(ordered), _cost(robots, repeat))


def outcome(name: str, robot: str, seed: int) -> Outcome:
    """Identify from a recording with the damage of this name, or with none."""
    subject = clean(robot, seed)
    if name == NONE:
        return _identified(subject, Damage(NONE, lambda s: s, ()))
    damage = next(damage for damage in DAMAGES if damage.name == name)
    return _identified(damage.apply(subject), damage)


@cache
def _clean_error(robot: str, seed: int) -> float:
    subject = clean(robot, seed)
    return true_error(identify(subject.given, subject.log).robot, subject)


def _identified(subject: Subject, damage: Damage) -> Outcome:
    grade, error = "refused", np.nan
    sentences = _findings(subject)
    with np.errstate(all="ignore"):
        try:
            run = identify(subject.given, subject.log, knowledge=subject.knowledge)
        except BodysenseError as refusal:
            sentences.append(str(refusal))
        else:
            grade, error = run.verdict.grade, true_error(run.robot, subject)
            sentences += [run.verdict.summary, *run.verdict.advice]
    named = any(
        re.search(words.replace("{joint}", rf"\b{re.escape(subject.joint)}\b"), sentence, re.I)
        for words in damage.words
        for sentence in sentences
    )
    reference = _clean_error(subject.name, subject.seed)
    return Outcome(
        damage.name, subject.name, subject.seed, grade, error, reference, named, tuple(sentences)
    )


def _findings(subject: Subject) -> list[str]:
    return [str(finding) for finding in examine(subject.given, subject.log).findings]


# The totals, and the table by damage.


def totals(outcomes: Sequence[Outcome]) -> tuple[Result, ...]:
    """The three figures that are promised."""
    damaged = [o for o in outcomes if o.damage != NONE]
    undamaged = [o for o in outcomes if o.damage == NONE]
    wrong, unnamed = [o for o in damaged if o.wrong], [o for o in damaged if not o.named]
    kinds = f"{len({o.damage for o in damaged})} damages"
    every = f"of all damaged recordings {len(unnamed)} of {len(damaged)}"
    lines = (
        ("GOOD with wrong numbers", damaged, [o for o in damaged if o.flattered], kinds),
        ("numbers wrong, cause not named", wrong, [o for o in wrong if not o.named], every),
        ("clean recordings doubted", undamaged, [o for o in undamaged if o.grade != "good"], ""),
    )
    limits = (MOST_FLATTERED, 100.0 - LEAST_NAMED, MOST_DOUBTED)
    return tuple(
        Result.judged(
            "sabotage",
            what,
            unit="%",
            ours=100.0 * len(counted) / len(among),
            ours_below=limit,
            notes=f"{len(counted)} of {len(among)}{'; ' * bool(note)}{note}",
        )
        for (what, among, counted, note), limit in zip(lines, limits, strict=True)
        if among
    )


def markdown_table(outcomes: Sequence[Outcome]) -> str:
    """By damage: grades, how often numbers are wrong, and how often the cause is named."""
    lines = [
        "| damage | good | fair | poor | refused | wrong | good and wrong | cause named |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name in dict.fromkeys(o.damage for o in outcomes):
        mine = [o for o in outcomes if o.damage == name]
        counts = [sum(o.grade == grade for o in mine) for grade in GRADES]
        counts += [sum(o.wrong for o in mine), sum(o.flattered for o in mine)]
        named = "" if name == NONE else f"{sum(o.named for o in mine)} of {len(mine)}"
        lines.append(f"| {name} | {' | '.join(str(n or '') for n in counts)} | {named} |")
    notes = [
        f"- {r.what}: {r.ours:.1f} % ({r.notes}); asked: {r.target}." for r in totals(outcomes)
    ]
    return "\n".join([*lines, "", *notes])


def page_with_table(page: str, outcomes: Sequence[Outcome]) -> str:
    """The text of the documentation's page with its table replaced."""
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n\n{markdown_table(outcomes)}\n\n{END}{after}"


def save(path: Path, outcomes: Sequence[Outcome]) -> None:
    """One line for each outcome, without what was said."""
    rows = [
        json.dumps([*o.case, o.grade, _rounded(o.error), _rounded(o.clean), o.named])
        for o in outcomes
    ]
    write_atomically(path, "[\n" + ",\n".join(rows) + "\n]\n")


def load(path: Path) -> tuple[Outcome, ...]:
    """Read what `save` wrote."""
    if not path.exists():
        return ()
    return tuple(
        Outcome(damage, robot, seed, grade, np.nan if error is None else error, clean, named)
        for damage, robot, seed, grade, error, clean, named in json.loads(path.read_text())
    )


def _rounded(value: float) -> float | None:
    return float(f"{value:.4g}") if np.isfinite(value) else None


# What judging costs, against the doctor.


def _cost(robots: Sequence[str], rounds: int) -> Result:
    """Processor time on clean recordings of all robots, the best of the rounds."""
    subjects = [clean(robot, 0) for robot in robots]
    runs = [identify(subject.given, subject.log) for subject in subjects]

    def examine_all() -> None:
        for subject in subjects:
            examine(subject.given, subject.log)

    def judge_all() -> None:
        for subject, done in zip(subjects, runs, strict=True):
            find_defects(done.problem)
            implausibilities(done.problem, done.identification)
            training = [p for p in done.predictions if p.kind == "training"]
            bursts(done.problem.robot.joint_names, training, [subject.log])
            judge(done.identification, done.scores, predictions=done.predictions)

    ours, peer = (min(_seconds(side) for _ in range(rounds)) for side in (judge_all, examine_all))
    return Result.judged(
        "sabotage",
        "judging results on clean recordings, peer: the doctor",
        unit="s CPU",
        ours=ours,
        peer=peer,
        ratio_at_least=0.5,
        notes=f"recordings of {len(robots)} robots, {DURATION * RATE:.0f} samples each",
    )


def _seconds(side: Callable[[], None]) -> float:
    start = process_time()
    side()
    return process_time() - start
