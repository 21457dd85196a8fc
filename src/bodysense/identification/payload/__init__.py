"""Payload and drive gains, from recordings with and without a load."""

from bodysense.identification.payload.drive_gains import DriveGains, write_drive_gains
from bodysense.identification.payload.experiment import LoadExperiment, LoadSettings, prepare
from bodysense.identification.payload.identify_drive_gains import (
    drive_gains_of,
    identify_drive_gains,
)
from bodysense.identification.payload.identify_payload import identify_payload, payload_of
from bodysense.identification.payload.parts import LoadPart
from bodysense.identification.payload.payload import Payload, write_payload

__all__ = [
    "DriveGains",
    "LoadExperiment",
    "LoadPart",
    "LoadSettings",
    "Payload",
    "drive_gains_of",
    "identify_drive_gains",
    "identify_payload",
    "payload_of",
    "prepare",
    "write_drive_gains",
    "write_payload",
]
