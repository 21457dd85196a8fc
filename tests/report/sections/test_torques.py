from __future__ import annotations

from dataclasses import replace

from bodysense.identification.run import IdentificationRun
from bodysense.report.sections.torques import recordings_of


def test_pieces_of_a_recording_belong_together(run: IdentificationRun) -> None:
    first = run.predictions[0]
    second = replace(first, t=first.t + 100.0)
    validation = run.predictions[2]
    groups = recordings_of([first, second, validation])
    assert [(label, len(pieces)) for label, pieces in groups] == [
        ("Validation: other run.csv", 1),
        ("Training fit: run.csv", 2),
    ]


def test_recordings_of_the_same_name_are_told_apart(run: IdentificationRun) -> None:
    first = run.predictions[0]
    groups = recordings_of([first, first, first])
    assert [label for label, _ in groups] == [
        "Training fit: run.csv",
        "Training fit: run.csv (2)",
        "Training fit: run.csv (3)",
    ]
