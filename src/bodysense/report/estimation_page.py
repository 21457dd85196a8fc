"""The report of estimates from a log: contacts, their uncertainty, and sensors that disagree."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bodysense.estimation import (
    EstimationRun,
    LogEstimate,
    LogTotals,
    Observability,
    StateLogEstimate,
    StateTotals,
)
from bodysense.estimation.contact.load import CarriedLoad
from bodysense.estimation.map_dynamics.log.reading_noise import ReadingNoise
from bodysense.estimation.map_dynamics.log.totals import SensorScore
from bodysense.files import versions
from bodysense.report.figures import TracePool, float_bytes
from bodysense.report.page import (
    NOTHING,
    Section,
    count,
    number,
    provenance_section,
    tile,
    write_page,
)
from bodysense.status import BAND

_SECTIONS = {
    "summary": "Summary",
    "wrenches": "Wrenches",
    "torques": "Torques",
    "positions": "Positions",
    "sensors": "Sensors",
    "observability": "Observability",
    "provenance": "Provenance",
}
_TABLE_ROWS = 200
_P_VALUE = 0.05  # readings that are more probable than this are not worth a look
_SOON = 0.09  # s: a duration of pushes whose detectable force is a key number
_MOST_FORCE = 1e4  # N: what takes more to be found is not detectable


def write_estimation_page(
    path: str | os.PathLike[str],
    run: EstimationRun,
    *,
    title: str | None = None,
    command: str | None = None,
    provenance: Mapping[str, Any] | None = None,
) -> Path:
    """Write the report of a log and return its path.

    Args:
        path: the HTML file to write; its folder must exist.
        run: what `estimate_log` or `solve_log` returned.
        title: heading of the page; by default the robot's name.
        command: by which it can be repeated, to be shown and copied.
        provenance: digests and settings, beside versions and the robot.
    """
    robot, totals = run.estimate.problem.robot, run.totals
    origin = {"versions": versions(), "robot": robot.origin, **(provenance or {})}
    return write_page(
        path,
        "estimation",
        title=title or f"Estimates of {robot.name}",
        kicker="Estimation report",
        sections={k: v for k, v in _SECTIONS.items() if run.state or k != "positions"},
        verdict=_summary(run),
        band=BAND,
        state=None if run.state is None else _state(run.state),
        positions=run.curves.positions,
        links=run.curves.links,
        joints=run.curves.joints,
        contacts=run.contacts[:_TABLE_ROWS],
        detectable=_detectable(totals),
        false_alarms=run.estimate.detection.false_alarms,
        noise=_noise(run) is not None,
        sensors=[(score, score.disagrees, _noise_of(run, score)) for score in run.sensors],
        worst=[reading for reading in totals.worst_residuals if reading.p_value < _P_VALUE],
        contradiction=_capitalised(totals.inconsistent_exact_readings()),
        observability=_observability(run.observability),
        provenance=provenance_section(origin, command, {"log": "logs", "sensors": "sensors"}),
        data={"estimates": _curve_data(run)},
    )


def _state(totals: StateTotals) -> Section:
    """Estimated positions, those of joints without encoders first, and biases."""
    smooth = totals.estimate.state.method == "smooth"
    return {
        "method": "all readings of a window around it" if smooth else "the readings up to it",
        "joints": sorted(totals.joints(), key=lambda s: s.measured),
        "biases": totals.biases(),
    }


# Grade, sentence, advice and key numbers.


def _summary(run: EstimationRun) -> Section:
    contradicting = [score for score in run.sensors if score.disagrees]
    judged = [s for s in run.sensors if math.isfinite(s.ratio) or s.contradicted]
    return {
        "grade": _grade(run.totals, contradicting, judged),
        "sentence": _sentence(run.totals, contradicting, judged),
        "advice": _advice(run, contradicting),
        "notes": run.notes,
        "tiles": _tiles(run, len(contradicting), len(judged)),
        "facts": _facts(run),
    }


def _tiles(run: EstimationRun, contradicting: int, judged: int) -> tuple[Section, ...]:
    labels = run.observability.labels
    return (
        tile("contacts", str(len(run.contacts)), _strongest(run)),
        _detectable_tile(run),
        tile(
            "sensors that disagree",
            f"{contradicting} of {judged}",
            f"{count(len(run.sensors) - judged, 'sensor')} that nothing can contradict",
        ),
        tile(
            "observable",
            f"{labels.count('observable')} of {len(labels)}",
            f"estimated quantities: {run.observability.counts()}",
        ),
    )


def _detectable_tile(run: EstimationRun) -> Section:
    """The smallest of the forces that are found soon, of all links."""
    title = "detectable force"
    soon = {}
    for link, forces in run.totals.found.detectable.items():
        within = min((w for w in forces if w >= _SOON), default=max(forces, default=None))
        if within is not None and forces[within][0] < _MOST_FORCE:
            soon[link] = within, *forces[within]
    if not soon:
        return tile(title, NOTHING, "no contact is detectable with these sensors")
    link = min(soon, key=lambda name: soon[name][1])
    within, best, worst = soon[link]
    most = f"; {number(worst, 2)} N in any direction" if worst < _MOST_FORCE else ""
    about = f"on {link}, if it lasts {1e3 * within:.0f} ms{most}"
    return tile(title, f"{number(best, 2)} N", about)


def _facts(run: EstimationRun) -> list[tuple[str, list[str]]]:
    estimate = run.estimate
    t = estimate.recording.t[: run.totals.samples]
    span = float(t[-1] - t[0]) if t.size else 0.0
    readings = count(estimate.problem.layout.size, "reading")
    missing = count(sum(score.absent for score in run.sensors), "reading")
    left = estimate.recording.left_out
    parameters = "taken as exact"
    if estimate.considers_parameters:
        parameters = "with the covariance of their identification"
    noise, detection = _noise(run), estimate.detection
    log = [f"{run.source}: {count(t.size, 'sample')} over {number(span, 4)} s"]
    low_pass = [] if noise is None else [f"{noise.cutoff:.3g} Hz, positions and readings alike"]
    accepted = f"{detection.minimum_force:g} N for {detection.minimum_duration:g} s"
    rate = f"{detection.false_alarms:g} per hour"
    log += [f"left out: {left}"] if left else []
    facts = [
        ("robot", [estimate.problem.robot.summary()]),
        ("recording", log),
        ("sensors", [f"{len(run.sensors)} with {readings}; {missing} missing"]),
        ("low-pass", low_pass),
        ("robot's parameters", [parameters]),
        ("positions", [_positions(estimate)]),
        ("contacts", [f"at least {accepted}; false alarms: {rate}"]),
    ]
    return [(name, lines) for name, lines in facts if lines]


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
        return "as recorded; errors that last are not counted"
    unmeasured = _names(estimate.unmeasured)
    return f"estimated; {unmeasured} without encoders" if unmeasured else "estimated from encoders"


def _sentence(
    totals: LogTotals, contradicting: list[SensorScore], judged: list[SensorScore]
) -> str:
    contacts = _capitalised(_contacts(totals))
    if not judged:
        return f"{contacts}; no sensor can be checked against others."
    if not contradicting:
        return f"{contacts}; all sensors agree within their noise."
    named = _names(score.name for score in contradicting)
    verb = "contradicts" if len(contradicting) == 1 else "contradict"
    return f"{contacts}; {named} {verb} the others."


def _contacts(totals: LogTotals) -> str:
    contacts, load = totals.contacts(), totals.found.load
    if not totals.links:
        return "no link may be in contact (external_wrenches of the sensors file)"
    parts, beside = [], ""
    if load is not None:
        parts.append(f"a load of {number(load.mass, 3)} kg on {load.link}")
        beside = " beside it"
    hidden = [link for link in totals.unobservable_links() if not _detects(totals, link)]
    free = [link for link in totals.links if link not in hidden]
    if contacts:
        links = dict.fromkeys(contact.link for contact in contacts)
        parts.append(f"{count(len(contacts), 'contact')}{beside} on {_names(links)}")
    elif free:
        parts.append(f"no contact{beside or f' on {_names(free)}'}")
    if hidden:
        parts.append(f"contacts on {_names(hidden)} are unobservable")
    return "; ".join(parts)


def _detects(totals: LogTotals, link: str) -> bool:
    """Whether a contact of this link, if it is the only one, would be found."""
    forces = totals.found.detectable.get(link, {})
    return any(best < _MOST_FORCE for best, _ in forces.values())


def _advice(run: EstimationRun, contradicting: list[SensorScore]) -> list[str]:
    estimate, totals, observable = run.estimate, run.totals, run.observability
    advice = []
    kinds = {sensor.kind for sensor in estimate.problem.sensors}
    moves = "joint_acceleration" in kinds or isinstance(estimate, StateLogEstimate)
    if totals.links and not moves:
        advice.append(
            "State that joints accelerate, or torques can hardly be separated from motion: add "
            "motion: {kind: joint_acceleration, joint: all} to the sensors file; it needs no "
            "channel."
        )
    advice += [
        f"{score.name}: residuals are {number(score.ratio, 3)} times what its std predicts; raise "
        "it, or look for a wrong mount, sign or unit, or for a contact that is not modelled."
        for score in [score for score in contradicting if not score.contradicted][:5]
    ]
    if totals.found.load is not None:
        advice += _about_load(totals.found.load)
    shared = [link for link in totals.unobservable_links() if _detects(totals, link)]
    if shared:
        advice.append(
            f"The bands of {_names(shared)} are for contacts on several links at once, which these "
            "sensors do not tell apart. Contacts are found for one link at a time."
        )
    contradiction = totals.inconsistent_exact_readings()
    if contradiction:
        advice.append(f"{_capitalised(contradiction)}.")
    if not observable.complete and observable.help:
        advice.append(f"To observe more: {observable.help[0]}.")
    return advice


def _about_load(load: CarriedLoad) -> list[str]:
    com = ", ".join(f"{x:.3f}" for x in load.com)
    what = f"attached: [{{link: {load.link}, mass: {load.mass:.3f}, com: [{com}]}}]"
    remedy = (
        f"To estimate external wrenches beside it, add {what} to the sensors file."
        if load.told
        else "Record a second posture, in which a load pulls elsewhere and a push does not."
    )
    return [f"{_capitalised(load.summary())}. {remedy}"]


def _strongest(run: EstimationRun) -> str:
    if not run.contacts:
        return "no external wrench beyond what noise brings about"
    most = max(run.contacts, key=lambda contact: contact.force - 2.0 * contact.sigma)
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


def _observability(observable: Observability) -> Section:
    """Quantities that readings alone do not determine, and sensors that would."""
    named = {
        "unobservable": observable.named("unobservable"),
        "partly observable": observable.named("partly"),
    }
    rows = [
        {
            "name": name,
            "components": ", ".join(part for part in parts if part),
            "label": label,
            "before": float(observable.before[observable.variables[name]].max()),
            "after": float(observable.after[observable.variables[name]].max()),
        }
        for label, quantities in named.items()
        for name, parts in quantities.items()
    ]
    return {"rows": rows[:_TABLE_ROWS], "summary": observable.summary(), "help": observable.help}


# Noise: what was stated, what the log shows, and what counts.


def _noise(run: EstimationRun) -> ReadingNoise | None:
    """Of the readings, with what the model leaves of them; `None` where it is taken as stated."""
    seen = run.totals.found.noise
    return run.estimate.recording.noise if seen is None else seen


def _noise_of(run: EstimationRun, score: SensorScore) -> Section:
    """Standard deviations of one sensor: white noise before the filter, and what counts behind."""
    noise = _noise(run)
    if noise is None or score.name not in noise.white:
        return {"white": math.nan, "unit": "", "counted": math.nan}
    return {
        "white": noise.white[score.name] * score.stated,
        "unit": score.unit.removesuffix("/s²") if score.name in noise.second else "",
        "counted": float(np.median(noise.scale()[score.name])) * score.stated,
    }


def _detectable(totals: LogTotals) -> Section:
    """Forces that are found, for each link and duration, where there are any."""
    forces = {link: f for link, f in totals.found.detectable.items() if _detects(totals, link)}
    return {
        "durations": [f"{1e3 * within:.0f} ms" for within in next(iter(forces.values()), {})],
        "rows": [
            (link, [_range(best, worst) for best, worst in of_link.values()])
            for link, of_link in forces.items()
        ],
    }


def _range(best: float, worst: float) -> str:
    most = f" to {number(worst, 2)}" if worst < _MOST_FORCE else " or more"
    return f"{number(best, 2)}{most}" if best < _MOST_FORCE else NOTHING


# Curves, for the page's script.


def _curve_data(run: EstimationRun) -> Section:
    """For the page's script.

    Times are those of the log; of the curves after `start`, so that few digits do.
    """
    curves, pool = run.curves, TracePool()
    points = curves.points
    traces = [[pool.add(points[:, k, j]) for j in range(3)] for k in range(points.shape[1])]
    n = 6 * len(curves.links)
    m = n + len(curves.joints)
    return {
        "start": curves.start,
        "time": float_bytes(curves.t),
        "pieces": curves.pieces,
        "links": list(curves.links),
        "wrenches": [traces[6 * k : 6 * k + 6] for k in range(len(curves.links))],
        "contacts": [
            [[contact.start, contact.end] for contact in run.contacts if contact.link == link]
            for link in curves.links
        ],
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
