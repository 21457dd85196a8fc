"""The identifiers by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from bodysense.errors import unknown_name
from bodysense.identification.consistent.pc_closest import ClosestConsistent
from bodysense.identification.consistent.pc_didim import ConsistentDIDIM
from bodysense.identification.consistent.pc_irls import ConsistentIRLS
from bodysense.identification.consistent.pc_iv import ConsistentIV
from bodysense.identification.consistent.pc_ols import ConsistentOLS
from bodysense.identification.consistent.pc_points import PointMasses
from bodysense.identification.consistent.pc_sqp_irls import ConsistentSQPIRLS
from bodysense.identification.consistent.pc_sqp_ols import ConsistentSQPOLS
from bodysense.identification.consistent.pc_sqp_wls import ConsistentSQPWLS
from bodysense.identification.consistent.pc_wls import ConsistentWLS
from bodysense.identification.filtering.cdkf import CDKF
from bodysense.identification.filtering.ekf import EKF
from bodysense.identification.filtering.pf import PF
from bodysense.identification.filtering.srcdkf import SRCDKF
from bodysense.identification.filtering.srekf import SREKF
from bodysense.identification.filtering.srukf import SRUKF
from bodysense.identification.filtering.ukf import UKF
from bodysense.identification.identifier import Identifier
from bodysense.identification.linear.energy import Energy
from bodysense.identification.linear.irls import IRLS
from bodysense.identification.linear.ml import ML
from bodysense.identification.linear.ols import OLS
from bodysense.identification.linear.ridge import Ridge
from bodysense.identification.linear.rls import RLS
from bodysense.identification.linear.tls import TLS
from bodysense.identification.linear.wls import WLS
from bodysense.identification.neural.adaline import Adaline
from bodysense.identification.neural.hopfield import Hopfield
from bodysense.identification.simulated.clie import CLIE
from bodysense.identification.simulated.cloe import CLOE
from bodysense.identification.simulated.didim import DIDIM
from bodysense.identification.simulated.iv import IV

IDENTIFIERS: Mapping[str, type[Identifier]] = MappingProxyType(
    {
        method.name: method
        for method in (
            OLS,
            WLS,
            IRLS,
            TLS,
            Ridge,
            RLS,
            Energy,
            ML,
            ConsistentOLS,
            ConsistentWLS,
            ConsistentIRLS,
            ConsistentSQPOLS,
            ConsistentSQPWLS,
            ConsistentSQPIRLS,
            PointMasses,
            ClosestConsistent,
            ConsistentIV,
            ConsistentDIDIM,
            IV,
            DIDIM,
            CLOE,
            CLIE,
            EKF,
            SREKF,
            UKF,
            SRUKF,
            CDKF,
            SRCDKF,
            PF,
            Adaline,
            Hopfield,
        )
    }
)
"""Every identifier by the name that the command line knows it by."""

DEFAULT = ConsistentWLS.name


_ALTERNATIVES = {IV.name: ConsistentIV.name, DIDIM.name: ConsistentDIDIM.name}
"""Methods whose own form over physical robots keeps what they were chosen for."""


def consistent_alternative(name: str) -> str:
    """The method to advise where that one found a robot that cannot exist."""
    return _ALTERNATIVES.get(name, DEFAULT)


def identifier(name: str = DEFAULT) -> Identifier:
    """The identifier of that name, with its default settings."""
    if name not in IDENTIFIERS:
        raise unknown_name("method", name, IDENTIFIERS)
    return IDENTIFIERS[name]()
