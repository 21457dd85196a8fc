"""What the doctor found in the logs, and what was done about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bodysense.doctor.diagnosis import SEVERITIES, Diagnosis, Finding
from bodysense.identification.run import IdentificationRun
from bodysense.report.rendering import count, number

_MOST = 100
"""Findings of one log that are shown: a page is no place for more."""


@dataclass(frozen=True)
class LogFindings:
    """One log: what it was for, its state in words, and its findings.

    Attributes:
        source: name of the log.
        role: what it was for, e.g. ``identification`` or ``validation``.
        state: what was kept of it.
        tally: severity and number of its findings, from bad to harmless.
        findings: the first hundred, errors first.
        more: how many are not shown.
    """

    source: str
    role: str
    state: str
    tally: tuple[tuple[str, int], ...]
    findings: tuple[Finding, ...]
    more: int


def log_findings(run: IdentificationRun) -> tuple[LogFindings, ...]:
    """The findings of all logs of a run, in their order."""
    return findings_of({"identification": run.diagnoses, "validation": run.validation})


def findings_of(diagnoses: Mapping[str, Sequence[Diagnosis]]) -> tuple[LogFindings, ...]:
    """The findings of logs, by what they were for."""
    return tuple(_of(diagnosis, role) for role, logs in diagnoses.items() for diagnosis in logs)


def _of(diagnosis: Diagnosis, role: str) -> LogFindings:
    return LogFindings(
        source=diagnosis.source,
        role=role,
        state=(
            f"{diagnosis.n_kept:,} of {diagnosis.n_samples:,} samples kept, "
            f"{number(diagnosis.duration, 4)} s in {count(len(diagnosis.segments), 'segment')}, "
            f"{number(diagnosis.rate, 4)} Hz"
        ),
        tally=tuple((s, len(diagnosis.of(s))) for s in SEVERITIES if diagnosis.of(s)),
        findings=diagnosis.findings[:_MOST],
        more=max(0, len(diagnosis.findings) - _MOST),
    )
