"""What one comparison found."""

from __future__ import annotations

from dataclasses import dataclass


class NotMeasuredError(Exception):
    """A benchmark that cannot run here, and what it lacks."""


@dataclass(frozen=True)
class Result:
    """One line of the table.

    Attributes:
        name: of the benchmark.
        what: is measured, in words.
        unit: of `ours` and `peer`.
        ours: best time of bodysense.
        peer: best time of what it is compared with; None if there is nothing.
        ratio: peer over ours, how many times faster bodysense is; None without a peer.
        paired_ratio: the same as the median over rounds, for a look at the noise.
        target: what is wanted, in words; empty where nothing is promised.
        reached: whether all of it is; None without a target.
        agreement: largest difference between the results of both sides; None if none is compared.
        notes: anything a reader should know.
    """

    name: str
    what: str
    unit: str
    ours: float
    peer: float | None
    ratio: float | None
    paired_ratio: float | None
    target: str
    reached: bool | None
    agreement: float | None
    notes: str

    @classmethod
    def judged(
        cls,
        name: str,
        what: str,
        *,
        unit: str,
        ours: float,
        peer: float | None = None,
        paired_ratio: float | None = None,
        agreement: float | None = None,
        ratio_at_least: float | None = None,
        ours_below: float | None = None,
        agreement_within: float | None = None,
        compiled: int | None = None,
        notes: str = "",
    ) -> Result:
        """Hold the figures against their targets; those that are not given are not asked for.

        Args:
            name: of the benchmark.
            what: is measured.
            unit: of the figures.
            ours: figure of bodysense.
            peer: figure of the peer.
            paired_ratio: from `Timings`.
            agreement: largest difference between both sides' results.
            ratio_at_least: the least peer / ours.
            ours_below: the limit of `ours` itself.
            agreement_within: the largest difference that is accepted.
            compiled: how many functions were compiled where none should be.
            notes: for the reader.
        """
        ratio = None if peer is None else peer / ours
        checks: list[tuple[str, bool]] = []
        if ratio_at_least is not None:
            met = ratio is not None and ratio >= ratio_at_least
            checks.append((f"ratio ≥ {ratio_at_least:g}", met))
        if ours_below is not None:
            checks.append((f"< {ours_below:g} {unit}", ours < ours_below))
        if agreement_within is not None:
            met = agreement is not None and agreement <= agreement_within
            checks.append((f"agreement ≤ {agreement_within:g}", met))
        if compiled is not None:
            checks.append(("nothing compiled", compiled == 0))
        return cls(
            name=name,
            what=what,
            unit=unit,
            ours=ours,
            peer=peer,
            ratio=ratio,
            paired_ratio=paired_ratio,
            target=", ".join(text for text, _ in checks),
            reached=all(met for _, met in checks) if checks else None,
            agreement=agreement,
            notes=notes,
        )
