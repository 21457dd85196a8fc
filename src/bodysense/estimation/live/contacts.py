"""`LiveContacts`: contacts of a live stream, for its results and its summary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bodysense.estimation.contact.detector import DetectionSettings
from bodysense.estimation.contact.estimator_evidence import EstimatorContacts
from bodysense.estimation.contact.ongoing import ContactState, OngoingContact
from bodysense.estimation.map_dynamics.base_motion import StandingFeet
from bodysense.estimation.map_dynamics.estimator import MapDynamics
from bodysense.estimation.map_dynamics.stream import EstimatorStream
from bodysense.logs.live import StreamFaults
from bodysense.robot.frames import moving_frame

_KEPT = 1000  # contacts that a summary lists at most
_REHEARSAL = (0.0, 0.03, 0.06)  # s: a judgement and what comes before it


class LiveContacts:
    """Contacts of one stream, or none where no external wrench is open.

    Attributes:
        count: of contacts so far.
        ended: the last of them, ready for JSON, with `until` [s].
    """

    def __init__(
        self,
        problem: MapDynamics,
        standing: StandingFeet,
        settings: DetectionSettings | None,
        learning: float,
        faults: StreamFaults,
    ) -> None:
        """Prepare; links that stand are in contact all the time."""
        self._settings, self._learning, self._faults = settings, learning, faults
        links = problem.robot.link_names
        feet = [moving_frame(problem.robot, x, "a standing foot") for x in _names(standing)]
        stands = {links[frame.parentJoint - 1] for frame in feet}
        every = problem.open_links
        self._lasting = [link for link in every if link in stands]
        self._tested = [link for link in every if link not in stands]
        self._contacts: EstimatorContacts | None = None
        self._now: dict[str, Any] | None = None
        self._said = False
        self.count, self.ended = 0, list[dict[str, Any]]()

    def begin(self, stream: EstimatorStream) -> None:
        """Follow a stream from its first sample on."""
        if self._tested:
            self._contacts = EstimatorContacts(
                stream,
                self._tested,
                lasting=self._lasting,
                settings=self._settings,
                learning=self._learning,
            )

    def rehearse(self, stream: EstimatorStream) -> None:
        """Do once what samples need, so that nothing is compiled or loaded later."""
        self.begin(stream)
        if self._contacts is not None:
            for t in _REHEARSAL:
                self._contacts.step(t)
            self._contacts = None

    def step(self, t: float) -> tuple[dict[str, Any], ...]:
        """Contacts now, ready for JSON, after the stream has taken the sample of this time."""
        if self._contacts is None:
            return ()
        state = self._contacts.step(t)
        self._announce(state)
        if state.contacts:
            if self._now is None or self._now["since"] != _table(state.contacts[0])["since"]:
                self._close()
            self._now = {**_table(state.contacts[0]), "until": round(t, 6)}
        elif self._now is not None:
            self._close()
        return tuple(_table(contact) for contact in state.contacts)

    def __len__(self) -> int:
        return self.count + (self._now is not None and not self._is_last(self._now))

    def _is_last(self, contact: Mapping[str, Any]) -> bool:
        """Whether a contact goes on with the last one that was over."""
        return bool(self.ended) and self.ended[-1]["since"] == contact["since"]

    def all(self) -> tuple[dict[str, Any], ...]:
        """Contacts so far, with the one that goes on."""
        now = self._now
        if now is None:
            return tuple(self.ended)
        return (*(self.ended[:-1] if self._is_last(now) else self.ended), now)

    def _announce(self, state: ContactState) -> None:
        """Say what would be found, once noise is known."""
        if self._said or state.learning or self._contacts is None:
            return
        self._said, detector = True, self._contacts.detector
        for link in detector.links:
            self._faults.say(detector.describe(link))

    def _close(self) -> None:
        """Keep the contact that is over; one that goes on a little later is the same."""
        now, self._now = self._now, None
        if now is None:
            return
        if self._is_last(now):
            self.ended[-1] = now
            return
        self.count += 1
        self.ended = [*self.ended[-(_KEPT - 1) :], now]


def _table(contact: OngoingContact) -> dict[str, Any]:
    """Ready for JSON, in few digits."""
    table = contact.to_dict()
    for key, x in table.items():
        if isinstance(x, float):
            table[key] = round(x, 6) if key in ("since", "found") else float(f"{x:.4g}")
    return table


def _names(standing: StandingFeet) -> Sequence[str]:
    return (*standing.flat, *standing.points)


def described(contact: Mapping[str, Any]) -> str:
    """A contact of a summary in words."""
    return (
        f"contact on {contact['link']} ({100.0 * contact['probability']:.0f} %) from "
        f"{contact['since']:.2f} to {contact['until']:.2f} s, {contact['largest']:.3g} N at most"
    )
