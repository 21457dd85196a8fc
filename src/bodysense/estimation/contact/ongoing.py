"""What touches now, as a stream tells it: `ContactState` with its contacts."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bodysense.spatial.arrays import Array


class OngoingContact(NamedTuple):
    """A contact as it is known so far.

    Attributes:
        link: its name.
        probability: that it is this link, of those that are compared.
        since: when it began, to within the window that found it [s].
        found: when it was found [s].
        force: its size of late [N].
        sigma: standard deviation of that, along the force [N].
        largest: its largest size so far that is certain [N]: of which most is left when twice its
            standard deviation is taken off.
        wrench: (6,) of late on the link, in its axes about its origin.
        detectable: force that would have been found as fast, in any direction [N].
    """

    link: str
    probability: float
    since: float
    found: float
    force: float
    sigma: float
    largest: float
    wrench: Array
    detectable: float

    def to_dict(self) -> dict[str, Any]:
        """Numbers alone, ready for JSON; null where a force is not known."""
        keys = "link", "probability", "since", "found", "force", "sigma", "largest", "detectable"
        table = {key: getattr(self, key) for key in keys}
        return {k: None if x == np.inf else x for k, x in table.items()}


class ContactState(NamedTuple):
    """What touches, after a sample.

    Attributes:
        t: of the last sample that was judged [s].
        contacts: at present.
        ended: that have ended with this sample.
        learning: whether noise is still learned, and no contact is told.
    """

    t: float
    contacts: tuple[OngoingContact, ...] = ()
    ended: tuple[OngoingContact, ...] = ()
    learning: bool = False
