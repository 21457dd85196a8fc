"""What a designed motion promises, in a sentence and a few numbers."""

from __future__ import annotations

from dataclasses import dataclass

from bodysense.excitation.design import Design
from bodysense.report.rendering import NOTHING, count, number, percent
from bodysense.report.sections.limit_use import QUANTITIES
from bodysense.report.sections.predicted_precision import LABELS, precision_labels
from bodysense.report.sections.verdict import Tile
from bodysense.robot.robot import Robot
from bodysense.robot.shapes.collisions import Collisions

_ENDS = {
    "time": "until its time was used up",
    "interrupted": "until it was interrupted",
    "enough": "until its steps were used up",
    "violated": "no motion keeps all limits",
}
"""What ended a search."""


@dataclass(frozen=True)
class ExcitationSummary:
    """Grade, sentence, advice, key numbers, and what went in.

    Attributes:
        grade: ``good`` where every base parameter comes out better than a guess, ``fair`` where
            two thirds do, else ``poor``; ``failed`` where a limit is broken.
        sentence: in words.
        advice: what to do next.
        notes: what was decided.
        tiles: key numbers.
        facts: what went in, by name.
    """

    grade: str
    sentence: str
    advice: str
    notes: tuple[str, ...]
    tiles: tuple[Tile, ...]
    facts: tuple[tuple[str, str], ...]

    @classmethod
    def of(
        cls, design: Design, robot: Robot, collisions: Collisions | None = None
    ) -> ExcitationSummary:
        """The summary of a design, and what was decided about shapes."""
        about = (*(collisions.notes if collisions is not None else ()), *design.notes)
        labels = precision_labels(design)
        well, poorly, lost = (labels.count(label) for label in LABELS)
        sentence = (
            f"{well + poorly} of {len(labels)} base parameters come out better than they could be "
            f"guessed, {well} of them at least four times better."
        )
        return cls(
            grade=_grade(design, lost, len(labels)),
            sentence=sentence,
            advice=design.advice,
            notes=tuple(note[:1].upper() + note[1:] for note in about),
            tiles=_tiles(design, well, lost),
            facts=_facts(design, robot),
        )


def _grade(design: Design, lost: int, size: int) -> str:
    if design.status == "violated":
        return "failed"
    if lost == 0:
        return "good"
    return "fair" if 3 * lost <= size else "poor"


def _tiles(design: Design, well: int, lost: int) -> tuple[Tile, ...]:
    tightest = max(QUANTITIES, key=lambda what: design.use(what).ratio)
    use = design.use(tightest)
    closest = design.closest
    return (
        Tile("Condition number", number(design.condition, 4), "cond(W) of the base regressor"),
        Tile(
            "Criterion",
            number(design.value, 4),
            f"{design.criterion}; {number(design.start_value, 3)} for random motions",
        ),
        Tile("Well identified", f"{well} of {design.base.size}", "base parameters"),
        Tile("Not identifiable", str(lost), "base parameters, σ above their plausible size"),
        Tile("Tightest limit", percent(use.ratio), f"{use.quantity} of {use.joint}"),
        Tile(
            "Clearance",
            NOTHING if closest is None else f"{number(1e3 * closest.distance, 3)} mm",
            "not looked at" if closest is None else " and ".join(closest.pair),
        ),
    )


def _facts(design: Design, robot: Robot) -> tuple[tuple[str, str], ...]:
    held = [name for name in robot.joint_names if name not in design.joints]
    friction = robot.friction.model
    motions = count(len(design.trajectories), "motion")
    return (
        ("Robot", robot.summary()),
        ("Moves", ", ".join(design.joints)),
        ("Holds", ", ".join(held) or NOTHING),
        ("Motion", f"{motions} of {number(design.trajectories[0].duration, 3)} s"),
        ("Friction law", f"{friction.name} ({', '.join(friction.terms) or 'none'})"),
        ("Torque noise assumed", _noise(design, robot)),
        ("Search", f"{number(design.seconds, 3)} s, {_ENDS.get(design.status, design.status)}"),
        ("Checked at", f"{number(design.rate, 4)} Hz"),
    )


def _noise(design: Design, robot: Robot) -> str:
    """Standard deviations of the torques of joints that move, on which every σ depends."""
    deviations = [
        f"{number(design.noise[j], 3)} {'N' if kind == 'prismatic' else 'N·m'}"
        for j, (name, kind) in enumerate(zip(robot.joint_names, robot.joint_types, strict=True))
        if name in design.joints
    ]
    return f"{', '.join(deviations)}, white"
