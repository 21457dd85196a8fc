"""Filters that find state and parameters together: Kalman filters of six forms, and particles."""

from bodysense.identification.filtering.filters import CDKF, EKF, PF, SRCDKF, SREKF, SRUKF, UKF

__all__ = ["CDKF", "EKF", "PF", "SRCDKF", "SREKF", "SRUKF", "UKF"]
