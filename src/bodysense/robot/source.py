"""Where a robot came from."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Source:
    """The file that a robot was read from, kept so that it can be written back.

    Attributes:
        format: ``urdf``, ``mjcf`` or ``dh``.
        path: where it was found, for messages.
        data: its bytes.
    """

    format: str
    path: str
    data: bytes = field(repr=False)
