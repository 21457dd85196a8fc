"""chi² of the evidence that windows have about links: compiled, see `..contact.online`.

With a score b ~ N(0, A) in units of the prior, A = L D Lᵀ with the largest pivot first. Where a
pivot is below that of the prior, it and all that are left say nothing; of the others

    z = D^(-1/2) L⁻¹ b,      chi² = Σ z²,      as many degrees of freedom as there are pivots.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

from bodysense.compiled.jit import called, threaded
from bodysense.compiled.views import Integers, reader
from bodysense.spatial.arrays import Array

_INFORMED = 1.0
"""Information in units of the prior's from which it counts, as in `..contact.evidence`."""


class WindowScores(NamedTuple):
    """Of K windows of links, and what comes out; A and b are working memory."""

    score: Annotated[Array, "K", 6]
    information: Annotated[Array, "K", 6, 6]
    square: Annotated[Array, "K"]
    freedom: Annotated[Integers, "K"]
    A: Annotated[Array, 6, 6]
    b: Annotated[Array, 6]


_evidence_at = reader(WindowScores)


@called
def _swap(A, b, i, j):
    b[i], b[j] = b[j], b[i]
    for e in range(6):
        A[i, e], A[j, e] = A[j, e], A[i, e]
    for e in range(6):
        A[e, i], A[e, j] = A[e, j], A[e, i]


@called
def _chi_square(A, b):
    """chi² and degrees of freedom; A and b are written to."""
    square = 0.0
    for i in range(6):
        best = i
        for j in range(i + 1, 6):
            if A[j, j] > A[best, best]:
                best = j
        if not A[best, best] > _INFORMED:
            return square, i
        if best != i:
            _swap(A, b, i, best)
        square += b[i] * b[i] / A[i, i]
        for j in range(i + 1, 6):
            x = A[j, i] / A[i, i]
            b[j] -= x * b[i]
            for e in range(i + 1, 6):
                A[j, e] -= x * A[i, e]
    return square, 6


@threaded
def chi_squares(first, last, evidence):
    """Of windows first … last - 1; evidence is the address of a table."""
    e = _evidence_at(evidence)
    for k in range(first, last):
        for i in range(6):
            e.b[i] = e.score[k, i]
            for j in range(6):
                e.A[i, j] = e.information[k, i, j]
        square, freedom = _chi_square(e.A, e.b)
        finite = 0.0 <= square < 1e300
        e.square[k], e.freedom[k] = square if finite else 0.0, freedom if finite else 0
