"""What the doctor found: findings, and the clean pieces of the recording."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bodysense.signals.log import Log

Severity = Literal["note", "warning", "error"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")
"""From bad to harmless."""


@dataclass(frozen=True)
class Finding:
    """One thing that is not as it should be.

    Attributes:
        kind: what it is, a stable word such as ``garbage-rows``.
        severity: ``note`` (dealt with and harmless), ``warning`` (deserves a look) or ``error``
            (the recording cannot be used as it is).
        where: the channel, joint or rows.
        message: what was seen, with numbers.
        action: what bodysense does about it, or what the user should do.
    """

    kind: str
    severity: Severity
    where: str
    message: str
    action: str

    def __str__(self) -> str:
        return f"{self.severity}: {self.kind}: {self.where}: {self.message}; {self.action}"


@dataclass(frozen=True, eq=False, repr=False)
class Diagnosis:
    """The state of a recording, and what can be used of it.

    Attributes:
        source: name of the recording.
        digest: SHA-256 of the files behind it, hexadecimal; empty if there are none.
        joint_names: of the robot it was held against.
        findings: errors first, then warnings and notes.
        segments: clean pieces, in the order of the recording: finite, time ascending, without
            long gaps; each with ``q.<joint>`` and ``tau.<joint>`` of all joints, and with
            ``v.<joint>`` where velocities were recorded and can be trusted. A recording that is
            not usable may still have some, for a look at them.
        moving: for each segment, (n_t, n_joints), where a joint moves.
        n_samples: samples of the recording, rows that could not be read included.
        rate: samples a second, on average within segments [Hz], NaN where it cannot be told.
    """

    source: str
    digest: str
    joint_names: tuple[str, ...]
    findings: tuple[Finding, ...]
    segments: tuple[Log, ...]
    moving: tuple[NDArray[np.bool_], ...]
    n_samples: int
    rate: float

    @property
    def usable(self) -> bool:
        """Whether the segments can be identified from: there are some, and nothing is wrong."""
        return bool(self.segments) and not self.of("error")

    @property
    def n_kept(self) -> int:
        """Samples in the segments."""
        return sum(segment.t.size for segment in self.segments)

    @property
    def duration(self) -> float:
        """Length of the segments together [s]."""
        return float(sum(segment.t[-1] - segment.t[0] for segment in self.segments))

    @property
    def moving_fraction(self) -> dict[str, float]:
        """Part of the kept samples in which each joint moves, 0 to 1."""
        if not self.n_kept:
            return dict.fromkeys(self.joint_names, 0.0)
        share = sum(mask.sum(axis=0) for mask in self.moving) / self.n_kept
        return {name: float(x) for name, x in zip(self.joint_names, share, strict=True)}

    def of(self, severity: Severity) -> tuple[Finding, ...]:
        """The findings of one severity."""
        return tuple(finding for finding in self.findings if finding.severity == severity)

    def __repr__(self) -> str:
        return f"<Diagnosis: {self.verdict()}>"

    def verdict(self) -> str:
        """The result in a line."""
        counts = [count(len(self.of(s)), s) for s in SEVERITIES if self.of(s)]
        text = ", ".join(counts) or "nothing found"
        if not self.usable:
            return f"{self.source}: NOT usable ({text})"
        rate = f" at {self.rate:.4g} Hz" if math.isfinite(self.rate) else ""
        return (
            f"{self.source}: usable ({text}): {self.n_kept} of {self.n_samples} samples{rate}, "
            f"{self.duration:.4g} s in {count(len(self.segments), 'segment')}"
        )

    def summary(self) -> str:
        """The result in words, a line a finding."""
        return "\n".join([self.verdict(), *(f"  {finding}" for finding in self.findings)])

    def to_dict(self) -> dict[str, object]:
        """The result for JSON, without the samples themselves."""
        return {
            "source": self.source,
            "digest": self.digest,
            "usable": self.usable,
            "n_samples": self.n_samples,
            "n_kept": self.n_kept,
            "rate": self.rate if math.isfinite(self.rate) else None,
            "duration": self.duration,
            "moving_fraction": self.moving_fraction,
            "segments": [
                {
                    "start": float(segment.t[0]),
                    "end": float(segment.t[-1]),
                    "n_samples": int(segment.t.size),
                    "channels": list(segment.channels),
                }
                for segment in self.segments
            ],
            "findings": [asdict(finding) for finding in self.findings],
        }


def count(n: int, noun: str) -> str:
    """A number with its noun: ``1 row``, ``2 rows``."""
    return f"{n} {noun}" + ("" if n == 1 else "s")
