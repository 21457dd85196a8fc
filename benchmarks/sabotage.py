"""Damaged recordings: is what is wrong called GOOD, and is its cause named?

    error = mean over joints of ‖tau - prediction‖ / ‖tau‖,   of a noise-free new motion

of the robot that was recorded, so that no parameters are compared. A result is wrong where its
error exceeds three times that of the clean recording of the same robot and seed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from time import process_time

import numpy as np

from benchmarks.damages import DAMAGES, Damage
from benchmarks.result import Result
from benchmarks.sabotage_subjects import DURATION, RATE, ROBOTS, Subject, clean, covered, true_error
from bodysense.doctor import examine
from bodysense.errors import BodysenseError
from bodysense.files import write_atomically
from bodysense.identification import identify
from bodysense.identification.methods import identifier
from bodysense.identification.objections import objections_to
from bodysense.identification.verdict import judge

WRONG = 3.0  # times the clean error, from which a result is wrong
MOST_FLATTERED, LEAST_NAMED, MOST_DOUBTED = 2.0, 80.0, 2.0  # %
MOST_TRUSTED, LEAST_COVERED = 5.0, 0.8  # %; share of intervals
NEAR = 2.0  # percentage points, of intervals around their 95 %
CLEAN_SEEDS = 25  # recordings of each robot that are left as they are
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
        covered: share of the base parameters whose 95 % interval holds the truth; NaN where the
            robot that was recorded has other ones.
        trusted: whether the result says that intervals hold.
        sentences: what was said.
    """

    damage: str
    robot: str
    seed: int
    grade: str
    error: float
    clean: float
    named: bool
    covered: float = np.nan
    trusted: bool = False
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
    made: dict[tuple[str, str, int], Outcome] = {}
    subjects = [(r, k) for r in robots for k in range(max(seeds, clean_seeds))]
    cases = [
        [(name, r, k) for name in names if k < (clean_seeds if name == NONE else seeds)]
        for r, k in subjects
    ]
    # Threads of kernels do not survive a fork.
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        for some in pool.map(_outcomes, cases):
            made |= {o.case: o for o in some}
    for robot in robots:
        for name in names:
            outcomes |= {case: o for case, o in made.items() if case[:2] == (name, robot)}
    ordered = tuple(outcomes.values())
    if record is not None:
        save(record, ordered)
        page = PAGE.read_text(encoding="utf-8")
        write_atomically(PAGE, page_with_table(page, ordered))
    return (*totals(ordered), _cost(robots, repeat))


def _outcomes(cases: Sequence[tuple[str, str, int]]) -> list[Outcome]:
    return [outcome(*case) for case in cases]


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
    grade, error, hits, trusted = "refused", np.nan, np.nan, False
    sentences = _findings(subject)
    with np.errstate(all="ignore"):
        try:
            run = identify(subject.given, subject.log, knowledge=subject.knowledge)
        except BodysenseError as refusal:
            sentences.append(str(refusal))
        else:
            grade, error = run.verdict.grade, true_error(run.robot, subject)
            hits, trusted = covered(run.identification, subject), run.verdict.intervals_hold
            sentences += [run.verdict.summary, *run.verdict.advice]
    named = any(
        re.search(words.replace("{joint}", rf"\b{re.escape(subject.joint)}\b"), sentence, re.I)
        for words in damage.words
        for sentence in sentences
    )
    reference = _clean_error(subject.name, subject.seed)
    case = damage.name, subject.name, subject.seed
    return Outcome(*case, grade, error, reference, named, hits, trusted, tuple(sentences))


def _findings(subject: Subject) -> list[str]:
    return [str(finding) for finding in examine(subject.given, subject.log).findings]


# The totals, and the table by damage.


def totals(outcomes: Sequence[Outcome]) -> tuple[Result, ...]:
    """The figures that are promised."""
    damaged = [o for o in outcomes if o.damage != NONE]
    undamaged = [o for o in outcomes if o.damage == NONE]
    missed = [o for o in damaged if o.covered < LEAST_COVERED]
    wrong, unnamed = [o for o in damaged if o.wrong], [o for o in damaged if not o.named]
    kinds = f"{len({o.damage for o in damaged})} damages"
    every = f"of all damaged recordings {len(unnamed)} of {len(damaged)}"
    lines = (
        ("GOOD with wrong numbers", damaged, [o for o in damaged if o.flattered], kinds),
        ("numbers wrong, cause not named", wrong, [o for o in wrong if not o.named], every),
        ("clean recordings doubted", undamaged, [o for o in undamaged if o.grade != "good"], ""),
        (
            "95 % intervals that miss the truth, called trustworthy",
            missed,
            [o for o in missed if o.trusted],
            f"of damaged recordings, where less than {100.0 * LEAST_COVERED:.0f} % of them hold it",
        ),
    )
    limits = (MOST_FLATTERED, 100.0 - LEAST_NAMED, MOST_DOUBTED, MOST_TRUSTED)
    held = [o.covered for o in undamaged]
    counts = tuple(
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
    if not held:
        return counts
    share = 100.0 * float(np.mean(held))
    intervals = Result.judged(
        "sabotage",
        "truth in the 95 % interval, clean recordings",
        unit="%",
        ours=share,
        agreement=abs(share - 95.0),
        agreement_within=NEAR,
        notes=f"{len(held)} recordings, simulated by MuJoCo",
    )
    return *counts, intervals


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
        json.dumps(
            [
                *(*o.case, o.grade, _rounded(o.error), _rounded(o.clean), o.named),
                *(_rounded(o.covered), o.trusted),
            ]
        )
        for o in outcomes
    ]
    write_atomically(path, "[\n" + ",\n".join(rows) + "\n]\n")


def load(path: Path) -> tuple[Outcome, ...]:
    """Read what `save` wrote."""
    if not path.exists():
        return ()
    rows = json.loads(path.read_text(encoding="utf-8"))
    return tuple(Outcome(*(np.nan if x is None else x for x in row)) for row in rows)


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
            result, logs = done.identification, [subject.log]
            method = identifier(result.method)
            training = [p for p in done.predictions if p.kind == "training"]
            objections_to(result, method, done.problem, done.diagnoses, logs, training)
            judge(result, done.scores, predictions=done.predictions)

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
