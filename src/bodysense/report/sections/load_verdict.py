"""What to think of a load, or of drive gains, and the numbers behind it."""

from __future__ import annotations

import numpy as np

from bodysense.identification.payload.drive_gains import DriveGains
from bodysense.identification.payload.experiment import LoadExperiment
from bodysense.identification.payload.payload import Payload
from bodysense.report.rendering import BAND, NOTHING, number, percent
from bodysense.report.sections.verdict import Tile, VerdictSection
from bodysense.status import Status

_MOSTLY = 2.0  # times the other part, from which one part of an interval decides


def payload_verdict(payload: Payload, experiment: LoadExperiment) -> VerdictSection:
    """The section of a load."""
    low, high = payload.mass_interval()
    advice = _advice(payload.status, experiment)
    if payload.status.ok and payload.sigma_mass_gains > _MOSTLY * payload.sigma_mass_data:
        advice.append(
            "Most of the interval is the drive gains. A load that was weighed once tells them "
            "(--drive-gains); what you know of them goes into --gain-uncertainty."
        )
    return VerdictSection(
        grade=_grade(payload.status, experiment),
        summary=f"{payload.link} holds {payload.mass:.3f} kg; with 95 % certainty between "
        f"{low:.3f} and {high:.3f} kg"
        + ("." if experiment.unloaded else ", with the arm as its file describes it.")
        if payload.status.ok
        else payload.status.failure,
        advice=tuple(advice),
        tiles=_payload_tiles(payload, experiment) if payload.status.ok else (),
        facts=_facts(experiment),
    )


def gains_verdict(gains: DriveGains, experiment: LoadExperiment) -> VerdictSection:
    """The section of drive gains."""
    advice = _advice(gains.status, experiment)
    if gains.status.ok:
        advice.append(
            "Write the gains into the layout file, then identify arm and loads with it. Give "
            f"--gain-uncertainty {gains.gain_uncertainty:.2g} for the loads: noise, and what "
            "losses leave open. It is for the load as given; where its mass may be off, by 1 % "
            "say, add that."
        )
    return VerdictSection(
        grade=_grade(gains.status, experiment),
        summary=f"A load of {gains.load_mass:g} kg looks like {gains.load_before:.3f} kg to the "
        "nominal gains. With these it has its mass."
        if gains.status.ok
        else gains.status.failure,
        advice=tuple(advice),
        tiles=_gains_tiles(gains),
        facts=_facts(experiment),
    )


def _grade(status: Status, experiment: LoadExperiment) -> str:
    if not status.ok:
        return "failed"
    return "fair" if _advice(status, experiment) else "good"


def _advice(status: Status, experiment: LoadExperiment) -> list[str]:
    """What the status notes, and what the doctor warns of."""
    return [*status.notes] + [
        f"{diagnosis.source}, {finding.where}: {finding.message}; {finding.action}."
        for diagnosis in (*experiment.loaded, *experiment.unloaded)
        for severity in ("error", "warning")
        for finding in diagnosis.of(severity)
    ]


def _payload_tiles(payload: Payload, experiment: LoadExperiment) -> tuple[Tile, ...]:
    low, high = payload.mass_interval()
    com, reach = (
        ", ".join(f"{1e3 * x:.0f}".replace("-", "\N{MINUS SIGN}") for x in values)
        for values in (payload.com, BAND * payload.sigma_com)
    )
    lost = experiment.problem.n_losses > 0
    possible = payload.consistency.consistent
    return (
        Tile("Mass", f"{payload.mass:.3f} kg", f"95 %: {low:.3f} to {high:.3f} kg"),
        Tile(
            "From the recordings",
            f"± {BAND * payload.sigma_mass_data:.3f} kg",
            "95 %: their noise, correlated in time",
        ),
        Tile(
            "From the gains",
            f"± {BAND * payload.sigma_mass_gains:.3f} kg",
            f"95 %: gains off by {100.0 * payload.gain_uncertainty:g} %, which no recording shows",
        ),
        Tile("Centre of mass", com, f"mm in {payload.link}; 95 %: ± {reach} mm"),
        Tile(
            "Lost in the gears",
            percent(float(payload.losses.max(initial=0.0))) if lost else "nothing",
            "of the torque at most, as friction that grows with the load"
            if lost
            else "no friction that grows with the load was seen",
        ),
        Tile(
            "Body",
            "can exist" if possible else "cannot exist",
            "mass, centre and inertia belong to a body" if possible else payload.consistency.reason,
            "fine" if possible else "bad",
        ),
    )


def _gains_tiles(gains: DriveGains) -> tuple[Tile, ...]:
    change = gains.factors - 1.0
    most, worst = int(np.argmax(np.abs(change))), int(np.argmax(gains.sigma / gains.factors))
    after = gains.load_after[np.isfinite(gains.load_after)]
    off = float(np.abs(after - gains.load_mass).mean()) if after.size else float("nan")
    return (
        Tile("Load, as weighed", f"{gains.load_mass:g} kg", f"held by {gains.link}"),
        Tile(
            "With nominal gains",
            f"{gains.load_before:.3f} kg",
            f"{_signed(gains.load_before / gains.load_mass - 1.0)} off",
        ),
        Tile(
            "On blocks left out",
            f"{off:.3f} kg" if after.size else NOTHING,
            "off on average, with gains of the other blocks",
        ),
        Tile("Largest change", _signed(float(change[most])), f"of a gain: {gains.joints[most]}"),
        Tile(
            "Least certain",
            f"± {percent(BAND * float(gains.sigma[worst] / gains.factors[worst]))}",
            f"95 %: {gains.joints[worst]}",
        ),
        Tile(
            "Torque error",
            percent(float(gains.errors_after.mean())),
            f"mean of joints on blocks left out; {percent(float(gains.errors_before.mean()))} with "
            "nominal gains",
        ),
    )


def _signed(fraction: float) -> str:
    return ("+" if fraction >= 0.0 else "") + percent(fraction)


def _facts(experiment: LoadExperiment) -> tuple[tuple[str, tuple[str, ...]], ...]:
    friction, cutoff = experiment.robot.friction.model, experiment.problem.settings.cutoff
    seconds = sum(d.duration for d in (*experiment.loaded, *experiment.unloaded))
    return (
        ("Robot", (experiment.robot.summary(),)),
        ("Friction law", (f"{friction.name} ({', '.join(friction.terms) or 'none'})",)),
        ("With the load", tuple(d.source for d in experiment.loaded)),
        (
            "Without it",
            tuple(d.source for d in experiment.unloaded) or ("none: the arm was taken as known",),
        ),
        (
            "Data",
            (
                f"{number(seconds, 3)} s used, low-pass "
                f"{number(cutoff if cutoff is not None else float('nan'), 3)} Hz",
            ),
        ),
    )
