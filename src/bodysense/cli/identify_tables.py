"""What `bodysense identify` prints: choices, scores and the verdict."""

from __future__ import annotations

import math
from collections.abc import Sequence

from bodysense.cli.tables import Page
from bodysense.identification.friction_comparison import FrictionChoice
from bodysense.identification.run import IdentificationRun


def rendered(found: IdentificationRun) -> str:
    """The result as text."""
    page = Page()
    page.line(found.identification.summary(), style="bold")
    if found.method_choice is not None:
        page.line(f"method {found.method_choice.identifier.name} (chosen):")
        for reason in found.method_choice.reasons:
            page.line(f"  {reason}")
    if found.problem.knowledge.any:
        page.line(f"known for certain: {found.problem.knowledge.summary()}")
        for note in found.problem.knowledge.notes:
            page.line(f"  {note}")
    for diagnosis in (*found.diagnoses, *found.validation):
        page.line(diagnosis.verdict(), wrap=False)
        for finding in (*diagnosis.of("error"), *diagnosis.of("warning")):
            page.line(f"  {finding}")
    law = _law(found)
    page.line(
        f"cut-off {found.settings.cutoff:.3g} Hz "
        f"({'given' if found.cutoff is None else 'chosen'}), "
        f"friction law {law} ({_origin(found)}), "
        f"{sum(f.rows for f in found.problem.factors.values())} rows"
    )
    if found.friction is not None:
        _friction(page, found.friction)
    _scores(page, found)
    style = {"good": "bold green", "fair": "bold yellow"}.get(found.verdict.grade, "bold red")
    page.line("")
    page.line(f"{found.verdict.grade.upper()}: {found.verdict.summary}", style=style)
    for sentence in found.verdict.advice:
        page.line(f"- {sentence}")
    return page.text()


def _law(found: IdentificationRun) -> str:
    """The friction law with its shape, where that is the same for all joints."""
    friction = found.problem.robot.friction
    shape = [
        f"{name} {values[0]:g}"
        for name, values in zip(friction.model.shape, friction.shape.T, strict=True)
        if (values == values[0]).all()
    ]
    return f"{friction.model.name!r}" + (f" with {', '.join(shape)}" if shape else "")


def _origin(found: IdentificationRun) -> str:
    if found.friction is None:
        return "given"
    return "fitted" if found.friction.shape else "chosen"


def _friction(page: Page, choice: FrictionChoice) -> None:
    """What was compared on blocks left out, and what a dependence on load would bring."""
    table = page.table(
        "Friction laws: squared error on blocks left out, in units of the noise",
        "law",
        "error",
        "coefficients",
        "",
        text=(0, 3),
    )
    for trial in choice.trials:
        chosen = "chosen" if trial.name == choice.name else ""
        table.add_row(trial.name, f"{trial.error:.3f}", str(trial.coefficients), chosen)
    page.show(table)
    if choice.load is not None:
        size = f"{100.0 * abs(choice.load.gain):.1f} %"
        change = f"take {size} off" if choice.load.gain > 0.0 else f"add {size} to"
        Fl = ", ".join(f"{x:.2g}" for x in choice.load.coefficients)
        page.line(
            f"friction that grows with the load would {change} the error of {choice.law} "
            f"(Fl {Fl}); no friction law of a robot holds it"
        )


def _scores(page: Page, found: IdentificationRun) -> None:
    unseen = [data for data in found.scores if data.kind != "training"] or list(found.scores)
    validation = [data.source for data in found.scores if data.kind == "validation"]
    for k, source in enumerate(validation, start=1):
        page.line(f"valid. {k}: {source}", wrap=False)
    columns: list[str] = [data.kind for data in found.scores if data.kind != "validation"]
    columns += [f"valid. {k + 1}" for k in range(len(validation))]
    table = page.table(
        "Error of predicted torque [%]: moving joints, then d_tau over all samples",
        "joint",
        *columns,
        f"prior, {columns[-1]}",
        "noise",
        text=(),
    )
    table.columns[0].justify = "left"
    last = unseen[-1]
    for j, joint in enumerate(found.problem.robot.joint_names):
        table.add_row(
            joint,
            *(_percent(data.identified.moving.relative_error[j]) for data in found.scores),
            _percent(last.prior.moving.relative_error[j]),
            _percent(last.noise_floor[j]),
        )
    rows: Sequence[tuple[str, str, float | None]] = (
        ("d_tau", "d_tau", None),
        ("d_tau, raw torque", "d_tau_raw", last.noise_floor_d_tau),
    )
    for title, name, floor in rows:
        table.add_row(
            title,
            *(_percent(getattr(data.identified.all, name)) for data in found.scores),
            _percent(getattr(last.prior.all, name)),
            "" if floor is None else _percent(floor),
        )
    page.show(table)
    if validation:
        page.line(
            f"Filtered at {found.settings.cutoff:.3g} Hz: compare with runs of other cut-offs by "
            "raw torque alone.",
            style="dim",
        )


def _percent(value: float) -> str:
    return f"{100.0 * value:.1f}" if math.isfinite(value) else "-"
