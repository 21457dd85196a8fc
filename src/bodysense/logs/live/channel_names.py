"""`ChannelNames`: what a source calls the channels, and how its values become SI units."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bodysense.errors import MismatchError, listing
from bodysense.logs.layout import LogLayout
from bodysense.spatial.arrays import Array

_ALIASES = {"dq": "v", "ddq": "a"}
"""What velocities and accelerations are called by estimates and by logs."""


class ChannelNames:
    """Where values go by their names in the source: value = factor · (gain · x + offset).

    Attributes:
        places: place of a channel by its name in the source.
        time: names that the time may have.
    """

    def __init__(self, channels: Sequence[str], layout: LogLayout | None = None) -> None:
        """Lay out channels, named as they are or as a layout says.

        Raises:
            MismatchError: a layout that a stream cannot have.
        """
        self.places: dict[str, int] = {}
        self.time: tuple[str, ...] = ("t", "time")
        self._scale, self._offset = np.ones(len(channels)), np.zeros(len(channels))
        self._time = (1.0, 0.0)
        self._copies: list[tuple[int, int]] = []
        layout = LogLayout() if layout is None else layout
        _require_names(layout)
        for k, channel in enumerate(channels):
            self._place(k, channel, layout)
        times = [entry for entry in layout.named if entry.channel == "t"]
        for entry in [layout.time] if layout.time else times[:1]:
            self.time = (str(entry.column),) if entry.column else self.time
            self._time = (entry.factor * entry.gain, entry.factor * entry.offset)
        self._plain = bool((self._scale == 1.0).all() and (self._offset == 0.0).all())

    def _place(self, k: int, channel: str, layout: LogLayout) -> None:
        listed = [entry for entry in layout.channels if entry.channel == channel]
        stated = listed or [entry for entry in layout.named if entry.fits(channel)]
        for entry in stated[:1]:
            self._scale[k] = entry.factor * entry.gain
            self._offset[k] = entry.factor * entry.offset
        if listed:  # two channels may come from one value: a current, and the torque made of it
            first = self.places.setdefault(str(listed[0].column), k)
            self._copies += [(first, k)] if first != k else []
        elif stated or not layout.channels:
            self.places[channel] = k
            for other, start in _ALIASES.items():
                if channel.startswith(f"{start}."):
                    self.places.setdefault(other + channel[len(start) :], k)

    def seconds(self, value: float) -> float:
        """Time [s] from that of the source."""
        return self._time[0] * value + self._time[1]

    def convert(self, row: Array) -> None:
        """Turn values (n,) of the source into SI units, in place."""
        for source, target in self._copies:
            row[target] = row[source]
        if not self._plain:
            row *= self._scale
            row += self._offset


def _require_names(layout: LogLayout) -> None:
    """Refuse what a stream cannot have: columns by number, files beside it, motors."""
    entries = [*layout.channels, *layout.named, *([layout.time] if layout.time else [])]
    numbered = [entry.channel for entry in entries if isinstance(entry.column, int)]
    if numbered:
        raise MismatchError(
            f"{layout.source}: {listing(numbered)} by number: values of a stream have names; give "
            "these, e.g. columns: [q1, q2]."
        )
    if any(entry.file for entry in entries):
        raise MismatchError(f"{layout.source}: a stream has no files beside it; leave file out.")
    if layout.motors is not None or layout.rate is not None:
        raise MismatchError(
            f"{layout.source}: motors and rate are for recordings; let the source send values of "
            "joints and the time of each sample."
        )
