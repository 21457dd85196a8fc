"""What a robot felt during a recording, in a sentence and a few numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bodysense.estimation import LogEstimate, LogTotals, Observability, StateLogEstimate
from bodysense.estimation.map_dynamics.log.totals import SensorScore
from bodysense.report.rendering import BAND, count, number, percent
from bodysense.report.sections.verdict import Tile


@dataclass(frozen=True)
class EstimationSummary:
    """Grade, sentence, advice, key numbers, and what went in.

    Attributes:
        grade: ``good`` where sensors agree, ``fair`` where some contradict the others or readings
            tell nothing of a link that may be touched, ``poor`` where most do, or of all.
        sentence: in words.
        advice: what to do about it.
        notes: what was seen or decided on the way.
        tiles: key numbers.
        facts: what went in, by name.
    """

    grade: str
    sentence: str
    advice: tuple[str, ...]
    notes: tuple[str, ...]
    tiles: tuple[Tile, ...]
    facts: tuple[tuple[str, str], ...]

    @classmethod
    def of(
        cls,
        estimate: LogEstimate,
        totals: LogTotals,
        seen: Observability,
        source: str,
        notes: Sequence[str],
    ) -> EstimationSummary:
        """The summary of a log."""
        scores, contacts, r = totals.scores(), totals.contacts(), estimate.recording
        loud = [score for score in scores if score.disagrees]
        judged = [s for s in scores if math.isfinite(s.ratio) or s.contradicted]
        grade = "good" if not loud else "fair" if 2 * len(loud) <= len(judged) else "poor"
        blind = totals.unobservable_links()
        if blind and grade != "poor":
            grade = "poor" if len(blind) == len(totals.links) else "fair"
        absent = sum(score.absent for score in scores)
        labels = [label for label in seen.labels if label != "assumed"]
        seen_share = labels.count("observable") / len(labels) if labels else 1.0
        t = r.t[: totals.samples]
        span = float(t[-1] - t[0]) if t.size else 0.0
        return cls(
            grade=grade,
            sentence=_sentence(totals, loud, judged),
            advice=_advice(estimate, totals, loud, seen),
            notes=tuple(notes),
            tiles=(
                Tile("contacts", str(len(contacts)), _strongest(totals)),
                Tile(
                    "sensors that disagree",
                    f"{len(loud)} of {len(judged)}",
                    f"{count(len(scores) - len(judged), 'sensor')} that nothing can contradict",
                ),
                Tile("seen", percent(seen_share), "of what is estimated, by readings alone"),
                Tile(
                    "absent readings",
                    f"{absent:,}".replace(",", "\N{NARROW NO-BREAK SPACE}"),
                    r.left_out or "no row of the recording left out",
                ),
            ),
            facts=(
                ("robot", estimate.problem.robot.summary()),
                ("recording", f"{source}: {count(t.size, 'sample')} over {number(span, 4)} s"),
                (
                    "sensors",
                    f"{len(scores)} with {count(estimate.problem.layout.size, 'reading')}",
                ),
                (
                    "robot's parameters",
                    "taken as exact"
                    if not estimate.considers_parameters
                    else "with the covariance of their identification",
                ),
                ("positions", _positions(estimate)),
            ),
        )


def _positions(estimate: LogEstimate) -> str:
    if not isinstance(estimate, StateLogEstimate):
        return "as recorded, taken as exact"
    bare = _names(estimate.unmeasured)
    return f"estimated; {bare} without encoders" if bare else "estimated from encoders"


def _sentence(totals: LogTotals, loud: list[SensorScore], judged: list[SensorScore]) -> str:
    contacts = totals.contacts()
    if not totals.links:
        felt = "No link was allowed to be touched (external_wrenches of the sensors file)"
    elif not contacts:
        free = [link for link in totals.links if link not in totals.unobservable_links()]
        felt = f"Nothing is seen to have touched {_names(free)}" if free else ""
    else:
        links = dict.fromkeys(contact.link for contact in contacts)
        felt = f"{count(len(contacts), 'contact').replace('touchs', 'contacts')} on {_names(links)}"
    if totals.links and totals.unobservable_links():
        unknown = (
            f"it cannot be told whether anything touched {_names(totals.unobservable_links())}"
        )
        felt = f"{felt}; {unknown}" if felt else unknown[0].upper() + unknown[1:]
    if not judged:
        return f"{felt}; no sensor can be held against others."
    if not loud:
        return f"{felt}; all sensors agree as well as they were said to."
    named = _names(score.name for score in loud)
    return f"{felt}; {named} {'contradicts' if len(loud) == 1 else 'contradict'} the others."


def _advice(
    estimate: LogEstimate, totals: LogTotals, loud: list[SensorScore], seen: Observability
) -> tuple[str, ...]:
    advice = []
    kinds = {sensor.kind for sensor in estimate.problem.sensors}
    moves = "joint_acceleration" in kinds or isinstance(estimate, StateLogEstimate)
    if totals.links and not moves:
        advice.append(
            "Say how joints accelerate, or torques are hardly told from motion: add "
            "motion: {kind: joint_acceleration, joint: all, std: 0.5} to the sensors file; it "
            "needs no channel."
        )
    advice += [
        f"{score.name}: residuals are {number(score.ratio, 3)} times what its std says; raise it, "
        "or look for a wrong mount, sign or unit, or for a contact that is not allowed for."
        for score in [score for score in loud if not score.contradicted][:5]
    ]
    advice += [f"{words[0].upper()}{words[1:]}." for words in totals.reversals()[:3]]
    untrue = totals.inconsistent_exact_readings()
    if untrue:
        advice.append(f"{untrue[0].upper()}{untrue[1:]}.")
    if not seen.complete and seen.help:
        advice.append(f"To see more: {seen.help[0]}.")
    return tuple(advice)


def _strongest(totals: LogTotals) -> str:
    contacts = totals.contacts()
    if not contacts:
        return "no external wrench differs from zero"
    most = max(contacts, key=lambda contact: contact.force - 2.0 * contact.sigma)
    return (
        f"the strongest {number(most.force, 3)} ± {number(BAND * most.sigma, 2)} N on {most.link}, "
        f"at {most.at:.2f} s"
    )


def _names(names: Iterable[object], most: int = 3) -> str:
    listed = [str(name) for name in names]
    more = f" and {len(listed) - most} more" if len(listed) > most else ""
    return ", ".join(listed[:most]) + more
