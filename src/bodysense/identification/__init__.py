"""Identification: what a robot is made of, from what it did."""

from bodysense.doctor import Diagnosis, Finding, examine
from bodysense.identification.identification import Identification, Identifier, Iteration, Status
from bodysense.identification.knowledge import EqualLinks, Knowledge, Mirror
from bodysense.identification.methods import IDENTIFIERS, MethodChoice, choose_method, identifier
from bodysense.identification.output import write_run
from bodysense.identification.preprocessing import Motion, Preprocessing, motions
from bodysense.identification.regression import Regression
from bodysense.identification.run import IdentificationRun, identify
from bodysense.identification.scores import DataScores, Prediction, Score
from bodysense.identification.verdict import Verdict

__all__ = [
    "IDENTIFIERS",
    "DataScores",
    "Diagnosis",
    "EqualLinks",
    "Finding",
    "Identification",
    "IdentificationRun",
    "Identifier",
    "Iteration",
    "Knowledge",
    "MethodChoice",
    "Mirror",
    "Motion",
    "Prediction",
    "Preprocessing",
    "Regression",
    "Score",
    "Status",
    "Verdict",
    "choose_method",
    "examine",
    "identifier",
    "identify",
    "motions",
    "write_run",
]
