"""Identification: what a robot is made of, from what it did."""

from bodysense.doctor import Diagnosis, Finding, examine
from bodysense.identification.defects import Defect
from bodysense.identification.identification import Identification, Iteration, Status
from bodysense.identification.identifier import Identifier, Method
from bodysense.identification.knowledge import EqualLinks, Knowledge, Mirror
from bodysense.identification.method_choice import MethodChoice, choose_method
from bodysense.identification.methods import IDENTIFIERS, identifier
from bodysense.identification.output import write_run
from bodysense.identification.preprocessing import Motion, Preprocessing, motions
from bodysense.identification.regression import Regression
from bodysense.identification.run import IdentificationRun, identify
from bodysense.identification.scores import DataScores, Prediction, Score
from bodysense.identification.verdict import Verdict

__all__ = [
    "IDENTIFIERS",
    "DataScores",
    "Defect",
    "Diagnosis",
    "EqualLinks",
    "Finding",
    "Identification",
    "IdentificationRun",
    "Identifier",
    "Iteration",
    "Knowledge",
    "Method",
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
