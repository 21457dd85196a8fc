"""Only what can be identified from: a diagnosis, or an error that says what is wrong with a log."""

from __future__ import annotations

from bodysense.errors import UnusableLogError
from bodysense.identification.doctor.diagnosis import Diagnosis
from bodysense.identification.doctor.examine import examine
from bodysense.robot.robot import Robot
from bodysense.signals.log import Log
from bodysense.signals.raw_log import RawLog


def usable(robot: Robot, log: Log | RawLog, *, allow_unusable: bool = False) -> Diagnosis:
    """Examine a log.

    Args:
        robot: whose log it is.
        log: the recording.
        allow_unusable: go on in spite of errors, if anything of the log is left.

    Raises:
        UnusableLogError: the doctor has found errors.
    """
    diagnosis = examine(robot, log if isinstance(log, RawLog) else RawLog.of(log))
    if not diagnosis.usable and not (allow_unusable and diagnosis.segments):
        errors = [f for f in diagnosis.findings if f.severity == "error"]
        what = "; ".join(f"{f.kind}, {f.where}: {f.message}; {f.action}" for f in errors[:3])
        more = f" (and {len(errors) - 3} more)" if len(errors) > 3 else ""
        raise UnusableLogError(
            f"{diagnosis.source} cannot be identified from: "
            f"{what or 'nothing of it is left'}{more}. "
            "See `bodysense doctor` for all findings."
        )
    return diagnosis
