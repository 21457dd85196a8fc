"""Filters that find state and parameters together: Kalman filters of six forms, and particles."""

from bodysense.identification.filtering.cdkf import CDKF
from bodysense.identification.filtering.ekf import EKF
from bodysense.identification.filtering.pf import PF
from bodysense.identification.filtering.srcdkf import SRCDKF
from bodysense.identification.filtering.srekf import SREKF
from bodysense.identification.filtering.srukf import SRUKF
from bodysense.identification.filtering.ukf import UKF

__all__ = ["CDKF", "EKF", "PF", "SRCDKF", "SREKF", "SRUKF", "UKF"]
