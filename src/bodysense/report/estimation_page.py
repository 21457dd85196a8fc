"""The report of estimates from a log: contacts, their uncertainty, and sensors that disagree."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bodysense.estimation import (
    EstimatedCurves,
    LogEstimate,
    LogTotals,
    Observability,
    StateLogEstimate,
    StateTotals,
)
from bodysense.estimation.map_dynamics.log.totals import SensorScore
from bodysense.files import versions
from bodysense.report.figures import TracePool, float_bytes
from bodysense.report.page import Section, provenance_section, tile, write_page
from bodysense.report.rendering import BAND, count, number, percent, place
from bodysense.robot.io.source import robot_origin

_SECTIONS = {
    "summary": "Summary",
    "wrenches": "Wrenches",
    "torques": "Torques",
    "positions": "Positions",
    "sensors": "Sensors",
    "observability": "Observability",
    "provenance": "Provenance",
}
_FULL_BAR = 3.0  # ratio of residuals to their stated size at which a bar is full
_TABLE_ROWS = 200
_P_VALUE = 0.05  # readings that are more probable than this are not worth a look


def write_estimation_page(
    path: str | os.PathLike[str],
    estimate: LogEstimate,
    totals: LogTotals,
    curves: EstimatedCurves,
    seen: Observability,
    *,
    state: StateTotals | None = None,
    notes: Sequence[str] | None = None,
    source: str = "log",
    title: str | None = None,
    command: str | None = None,
    provenance: Mapping[str, Any] | None = None,
) -> Path:
    """Write the report of a log and return its path.

    Args:
        path: the HTML file to write; its folder must exist.
        estimate: what `estimate_log` returned.
        totals: of all its chunks.
        curves: of all its chunks.
        seen: what the sensors can observe at its positions.
        state: of all its chunks, where positions are estimated.
        notes: what the user should know; by default those of the estimate.
        source: name of the recording.
        title: heading of the page; by default the robot's name.
        command: by which it can be repeated, to be shown and copied.
        provenance: digests and settings, beside versions and the robot.

    Raises:
        FileWriteError: the file cannot be written.
    """
    robot = estimate.problem.robot
    stretches: dict[str, list[list[float]]] = {}
    for contact in totals.contacts():
        stretches.setdefault(contact.link, []).append([contact.start, contact.end])
    origin = {"versions": versions(), "robot": robot_origin(robot), **(provenance or {})}
    return write_page(
        path,
        "estimation",
        title=title if title is not None else f"Estimates of {robot.name}",
        kicker="Estimation report",
        sections={k: v for k, v in _SECTIONS.items() if state or k != "positions"},
        verdict=_summary(
            estimate, totals, seen, source, estimate.notes if notes is None else notes
        ),
        state=None if state is None else _state(state),
        positions=curves.positions,
        links=curves.links,
        joints=curves.joints,
        contacts=_contacts(totals),
        sensors=[_sensor(score) for score in totals.scores()],
        worst=_worst(totals),
        contradiction=_capitalised(totals.inconsistent_exact_readings()),
        observability=_observability(seen),
        provenance=provenance_section(origin, command, {"log": "logs", "sensors": "sensors"}),
        data={"estimates": _curve_data(curves, stretches)},
    )


# Grade, sentence, advice and key numbers.


def _summary(
    estimate: LogEstimate,
    totals: LogTotals,
    seen: Observability,
    source: str,
    notes: Sequence[str],
) -> Section:
    scores, recording = totals.scores(), estimate.recording
    contradicting = [score for score in scores if score.disagrees]
    judged = [s for s in scores if math.isfinite(s.ratio) or s.contradicted]
    absent = sum(score.absent for score in scores)
    labels = [label for label in seen.labels if label != "assumed"]
    t = recording.t[: totals.samples]
    span = float(t[-1] - t[0]) if t.size else 0.0
    parameters = "with the covariance of their identification"
    return {
        "grade": _grade(totals, contradicting, judged),
        "sentence": _sentence(totals, contradicting, judged),
        "advice": _advice(estimate, totals, contradicting, seen),
        "notes": notes,
        "tiles": (
            tile("contacts", str(len(totals.contacts())), _strongest(totals)),
            tile(
                "sensors that disagree",
                f"{len(contradicting)} of {len(judged)}",
                f"{count(len(scores) - len(judged), 'sensor')} that nothing can contradict",
            ),
            tile(
                "observable",
                percent(labels.count("seen") / len(labels) if labels else 1.0),
                "of what is estimated, by readings alone",
            ),
            tile(
                "absent readings",
                f"{absent:,}".replace(",", "\N{NARROW NO-BREAK SPACE}"),
                recording.left_out or "no row of the recording left out",
            ),
        ),
        "facts": [
            ("robot", [estimate.problem.robot.summary()]),
            ("recording", [f"{source}: {count(t.size, 'sample')} over {number(span, 4)} s"]),
            (
                "sensors",
                [f"{len(scores)} with {count(estimate.problem.layout.size, 'reading')}"],
            ),
            (
                "robot's parameters",
                [parameters if estimate.considers_parameters else "taken as exact"],
            ),
            ("positions", [_positions(estimate)]),
        ],
    }


def _grade(totals: LogTotals, contradicting: list[SensorScore], judged: list[SensorScore]) -> str:
    """``good`` where sensors agree, ``fair`` where some contradict the others, else ``poor``.

    At most ``fair`` where contacts of a link are unobservable, ``poor`` where those of all are.
    """
    unobservable = totals.unobservable_links()
    if 2 * len(contradicting) > len(judged) or (
        unobservable and len(unobservable) == len(totals.links)
    ):
        return "poor"
    return "fair" if contradicting or unobservable else "good"


def _positions(estimate: LogEstimate) -> str:
    if not isinstance(estimate, StateLogEstimate):
        return "as recorded, taken as exact"
    unmeasured = _names(estimate.unmeasured)
    return f"estimated; {unmeasured} without encoders" if unmeasured else "estimated from encoders"


def _sentence(
    totals: LogTotals, contradicting: list[SensorScore], judged: list[SensorScore]
) -> str:
    contacts, unobservable = totals.contacts(), totals.unobservable_links()
    if not totals.links:
        what = "No link may be in contact (external_wrenches of the sensors file)"
    elif not contacts:
        free = [link for link in totals.links if link not in unobservable]
        what = f"No contact on {_names(free)}" if free else ""
    else:
        links = dict.fromkeys(contact.link for contact in contacts)
        what = f"{count(len(contacts), 'contact')} on {_names(links)}"
    if totals.links and unobservable:
        unknown = f"contacts on {_names(unobservable)} are unobservable"
        what = f"{what}; {unknown}" if what else _capitalised(unknown)
    if not judged:
        return f"{what}; no sensor can be checked against others."
    if not contradicting:
        return f"{what}; all sensors agree within their stated standard deviations."
    named = _names(score.name for score in contradicting)
    return (
        f"{what}; {named} {'contradicts' if len(contradicting) == 1 else 'contradict'} the others."
    )


def _advice(
    estimate: LogEstimate, totals: LogTotals, contradicting: list[SensorScore], seen: Observability
) -> tuple[str, ...]:
    advice = []
    kinds = {sensor.kind for sensor in estimate.problem.sensors}
    moves = "joint_acceleration" in kinds or isinstance(estimate, StateLogEstimate)
    if totals.links and not moves:
        advice.append(
            "State how much joints accelerate, or torques can hardly be separated from motion: add "
            "motion: {kind: joint_acceleration, joint: all, std: 0.5} to the sensors file; it "
            "needs no channel."
        )
    advice += [
        f"{score.name}: residuals are {number(score.ratio, 3)} times what its std predicts; raise "
        "it, or look for a wrong mount, sign or unit, or for a contact that is not modelled."
        for score in [score for score in contradicting if not score.contradicted][:5]
    ]
    advice += [f"{_capitalised(words)}." for words in totals.reversals()[:3]]
    untrue = totals.inconsistent_exact_readings()
    if untrue:
        advice.append(f"{_capitalised(untrue)}.")
    if not seen.complete and seen.help:
        advice.append(f"To observe more: {seen.help[0]}.")
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


def _capitalised(words: str) -> str:
    return words[:1].upper() + words[1:]


# Tables: contacts, positions and biases, agreement of sensors, observability.


def _contacts(totals: LogTotals) -> list[tuple[str, ...]]:
    """Link, start, end, median force, largest certain force, its 95 % band and its time."""
    return [
        (
            contact.link,
            f"{contact.start:.2f}",
            f"{contact.end:.2f}",
            number(contact.usual, 3),
            number(contact.force, 3),
            number(BAND * contact.sigma, 2),
            f"{contact.at:.2f}",
        )
        for contact in totals.contacts()[:_TABLE_ROWS]
    ]


def _state(totals: StateTotals) -> Section:
    """How well estimated positions are known, joints without encoders first, and biases."""
    smooth = totals.estimate.state.method == "smooth"
    return {
        "method": "all readings of a window around it" if smooth else "the readings up to it",
        "joints": [
            (
                s.joint,
                s.measured,
                number(s.lowest, 3),
                number(s.highest, 3),
                number(BAND * s.std, 2),
                number(BAND * s.worst, 2),
                s.unit,
            )
            for s in sorted(totals.joints(), key=lambda s: s.measured)
        ],
        "biases": [
            (s.name, number(s.mean, 3), number(BAND * s.std, 2), s.unit) for s in totals.biases()
        ],
    }


def _sensor(s: SensorScore) -> Section:
    bar = 100.0 * min(1.0, s.ratio / _FULL_BAR) if math.isfinite(s.ratio) else 0.0
    return {
        "name": s.name,
        "kind": s.kind.replace("_", " "),
        "where": s.place,
        "unit": s.unit,
        "rms": number(s.rms, 3),
        "stated": number(s.stated, 3),
        "ratio": (number(s.ratio, 3), place(s.ratio)),
        "bar": round(bar, 1),
        "beyond": (percent(s.beyond), place(s.beyond)),
        "contradicts": s.disagrees,
        "samples": s.samples,
        "absent": s.absent,
    }


def _worst(totals: LogTotals) -> list[tuple[str, str, str, int, str]]:
    """Sensor, time, chi², degrees of freedom and p-value of the least probable readings."""
    return [
        (
            w.sensor,
            f"{w.t:.2f}",
            number(w.chi_square, 3),
            w.freedom,
            number(w.p_value, 2) if w.p_value >= 1e-12 else "< 1e\N{MINUS SIGN}12",
        )
        for w in totals.worst_residuals
        if w.p_value < _P_VALUE
    ]


def _observability(seen: Observability) -> Section:
    """Quantities that readings alone do not determine, and sensors that would."""
    named = {"unobservable": seen.named("not seen"), "partly observable": seen.named("partly")}
    rows = [
        {
            "name": name,
            "components": ", ".join(part for part in parts if part),
            "label": label,
            "before": number(float(seen.before[seen.variables[name]].max()), 3),
            "after": number(float(seen.after[seen.variables[name]].max()), 3),
        }
        for label, quantities in named.items()
        for name, parts in quantities.items()
    ]
    return {"rows": rows[:_TABLE_ROWS], "summary": seen.summary(), "help": seen.help}


# Curves, for the page's script.


def _curve_data(
    curves: EstimatedCurves, contacts: dict[str, list[list[float]]]
) -> dict[str, object]:
    """For the page's script; `contacts` are stretches of time by link.

    Times are those of the log; of the curves after `start`, so that few digits do.
    """
    points = curves.points
    pool = TracePool()
    traces = [[pool.add(points[:, k, j]) for j in range(3)] for k in range(points.shape[1])]
    n = 6 * len(curves.links)
    m = n + len(curves.joints)
    return {
        "start": curves.start,
        "time": float_bytes(curves.t),
        "pieces": curves.pieces,
        "links": list(curves.links),
        "wrenches": [traces[6 * k : 6 * k + 6] for k in range(len(curves.links))],
        "contacts": [contacts.get(link, []) for link in curves.links],
        "joints": list(curves.joints),
        "units": list(curves.effort_units),
        "torques": traces[n:m],
        "positions": {
            "joints": list(curves.positions),
            "units": list(curves.position_units),
            "curves": [traces[m + 2 * k : m + 2 * k + 2] for k in range(len(curves.positions))],
        },
        "traces": pool.traces,
    }
