"""The registry of methods: each row is composed of rows, weights and a solver, or of a filter."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from bodysense.errors import unknown_name
from bodysense.identification.consistent.point_masses import PointMasses
from bodysense.identification.consistent.solvers import SQP, ClosestRobot, Conic
from bodysense.identification.filtering.method import FilterMethod, KalmanEngine, ParticleEngine
from bodysense.identification.identifier import Identifier, Method
from bodysense.identification.linear.energy import EnergyWeights
from bodysense.identification.linear.least_squares import Ridge, TotalLeastSquares
from bodysense.identification.linear.likelihood import LikelihoodWeights
from bodysense.identification.linear.method import LinearMethod
from bodysense.identification.linear.weights import EqualWeights, RobustWeights
from bodysense.identification.neural import Adaline, Hopfield
from bodysense.identification.online import RecursivePass
from bodysense.identification.simulated.iv import SimulatedWeights
from bodysense.identification.simulated.output_error import OutputError
from bodysense.kalman import (
    CentralDifferences,
    CovarianceFilter,
    Extended,
    RootFilter,
    StateFilter,
    Unscented,
)


def _kalman(name: str, state_filter: StateFilter[Any]) -> FilterMethod:
    return FilterMethod(name, engine=KalmanEngine(filter=state_filter))


_METHODS = (
    Method(
        LinearMethod("ols", weights=EqualWeights()),
        "linear",
        "ordinary least squares",
        needs="no extra input",
        cost="one regression",
        when="a first look, or joints of equal noise",
        description="Minimise Σ (y - Y theta_base)² over all rows, thesis eq (16) with Σ = σ² I.",
    ),
    Method(
        LinearMethod("wls"),
        "linear",
        "least squares weighted by the noise of each log and joint",
        needs="noise levels: taken from the log",
        cost="one regression, weighted a few times",
        when="torques are all that matters: links may not be physically consistent",
        description="Minimise Σ ((y - Y theta_base) / σ)² with σ of each log and joint, thesis "
        "eqs (16)-(17).",
    ),
    Method(
        LinearMethod("irls", weights=RobustWeights()),
        "linear",
        "robust least squares: rows that do not fit lose weight",
        needs="noise levels: taken from the log",
        cost="one regression, a pass over all rows per iteration",
        when="recordings with outliers: knocks, contacts, wrong samples",
        description="Weighted least squares whose rows carry another weight υ(residual), thesis "
        "eqs (18)-(20).",
    ),
    Method(
        LinearMethod("tls", weights=EqualWeights(), solver=TotalLeastSquares()),
        "linear",
        "total least squares: noise in the regressor too",
        needs="no extra input",
        cost="one regression",
        when="for comparison: it takes every column of the regressor to be equally noisy",
        description="Smallest change of [Y y] that makes it singular: its last right singular "
        "vector.",
    ),
    Method(
        LinearMethod("ridge", solver=Ridge(), fixed=("rows", "weights")),
        "linear",
        "weighted least squares that stays near the prior where data are poor",
        needs="a robot file that is roughly right; noise levels: taken from the log",
        cost="one regression, weighted a few times",
        when="motions that leave parameters unexcited",
        description="Minimise Σ ((y - Y theta) / σ)² + Σ ((theta - theta_prior) / (spread · "
        "size))².",
    ),
    Method(
        LinearMethod("rls", solver=RecursivePass(), fixed=("rows", "weights")),
        "linear",
        "recursive least squares, which can forget (for robots that change)",
        needs="a robot file that is roughly right; noise levels: taken from the log",
        cost="one regression, then row by row",
        when="robots that change while they are recorded: with forgetting below 1",
        description="Least squares row by row in the order of time, with rows weighted as by wls.",
    ),
    Method(
        LinearMethod("energy", weights=EnergyWeights(), solver=Ridge(spread=1.0), rows="energy"),
        "linear",
        "work and energy between samples, no accelerations",
        needs="a robot file that is roughly right; noise levels: taken from the log",
        cost="one regression, a pass over all rows per iteration",
        when="accelerations that cannot be trusted, and several times the usual motion",
        description="Minimise Σ ((work - energy gained - work of friction) / σ)² over windows of "
        "time.",
    ),
    Method(
        LinearMethod("ml", weights=LikelihoodWeights()),
        "linear",
        "maximum likelihood: noise of positions counts beside that of torques",
        needs="no extra input",
        cost="one regression, whitened a few times",
        when="positions are noisy, so that accelerations are noise to a good part",
        description="Minimise Σ_k epsilon_kᵀ (G_k Sigma_s G_kᵀ + Sigma_tau)⁻¹ epsilon_k, thesis "
        "eq (32).",
    ),
    Method(
        LinearMethod("pc-ols", weights=EqualWeights(), solver=Conic()),
        "consistent",
        "ordinary least squares over physically consistent robots",
        needs="no extra input",
        cost="one regression, one semidefinite program",
        when="joints of equal noise, or too few rows to tell their noise apart",
        description="Rows weighted as by ols, solved over physically consistent robots.",
    ),
    Method(
        LinearMethod("pc-wls", solver=Conic()),
        "consistent",
        "weighted least squares over physically consistent robots (the default)",
        needs="noise levels: taken from the log",
        cost="one regression, one semidefinite program",
        when="nearly always: links are physically consistent, also where the motion is poor",
        description="Rows weighted as by wls, solved over physically consistent robots.",
    ),
    Method(
        LinearMethod("pc-irls", weights=RobustWeights(), solver=Conic()),
        "consistent",
        "robust least squares over physically consistent robots",
        needs="noise levels: taken from the log",
        cost="one regression, one semidefinite program per iteration",
        when="recordings with outliers: knocks, contacts, wrong samples",
        description="Rows weighted as by irls, solved over physically consistent robots.",
    ),
    Method(
        LinearMethod("pc-sqp-ols", weights=EqualWeights(), solver=SQP()),
        "consistent",
        "ordinary least squares over consistent robots, by quadratic programs",
        needs="no extra input",
        cost="one regression, a few quadratic programs",
        when="as pc-ols, of which it is an independent check",
        description="Rows weighted as by ols, solved over square roots of physically consistent "
        "robots.",
    ),
    Method(
        LinearMethod("pc-sqp-wls", solver=SQP()),
        "consistent",
        "weighted least squares over consistent robots, by quadratic programs",
        needs="noise levels: taken from the log",
        cost="one regression, a few quadratic programs",
        when="as pc-wls, of which it is an independent check",
        description="Rows weighted as by wls, solved over square roots of physically consistent "
        "robots.",
    ),
    Method(
        LinearMethod("pc-sqp-irls", weights=RobustWeights(), solver=SQP()),
        "consistent",
        "robust least squares over consistent robots, by quadratic programs",
        needs="noise levels: taken from the log",
        cost="one regression, a few quadratic programs per iteration",
        when="as pc-irls, of which it is an independent check",
        description="Rows weighted as by irls, solved over square roots of physically consistent "
        "robots.",
    ),
    Method(
        LinearMethod("pc-points", solver=PointMasses()),
        "consistent",
        "weighted least squares over point masses inside the links' shapes",
        needs="shapes of the links, from the robot file, or boxes; noise levels: taken from the "
        "log",
        cost="one regression, one quadratic program with hundreds of unknowns per link",
        when="links must fit inside their shapes, and these are known",
        description="Rows weighted as by wls; links are non-negative masses at points inside "
        "their shape.",
    ),
    Method(
        LinearMethod("pc-closest", weights=EqualWeights(), solver=ClosestRobot()),
        "consistent",
        "least squares, then the closest consistent robot (eq 62)",
        needs="no extra input",
        cost="one regression, one semidefinite program",
        when="for comparison, or (in Python) estimates whose data are not at hand",
        description="Ordinary least squares first, then the closest consistent robot, thesis eq "
        "(62).",
    ),
    Method(
        LinearMethod("pc-iv", weights=SimulatedWeights("instruments"), solver=Conic()),
        "simulated",
        "instrumental variables over physically consistent robots",
        needs="controller and reference trajectory (falls back to the measured motion)",
        cost="one simulation and one semidefinite program per iteration",
        when="as iv, where the result is to be simulated or controlled with",
        description="iv with a semidefinite program per iteration, thesis eqs (66)-(67).",
    ),
    Method(
        LinearMethod("pc-didim", weights=SimulatedWeights("regressor"), solver=Conic()),
        "simulated",
        "DIDIM over physically consistent robots",
        needs="controller and reference trajectory (falls back to the measured motion)",
        cost="one simulation and one semidefinite program per iteration",
        when="as didim, where the result is to be simulated or controlled with",
        description="didim with a semidefinite program per iteration, thesis eq (65).",
    ),
    Method(
        LinearMethod("iv", weights=SimulatedWeights("instruments")),
        "simulated",
        "instrumental variables from the simulated motion",
        needs="controller and reference trajectory (falls back to the measured motion)",
        cost="one simulation and one regression per iteration, about three of them",
        when="noisy positions: no bias from noise, and little from a wrong simulation",
        description="Zᵀ (y - Y theta_base) = 0 with the regressor Z of the simulated motion, eqs "
        "(26), (30).",
    ),
    Method(
        LinearMethod("didim", weights=SimulatedWeights("regressor")),
        "simulated",
        "least squares with the regressor of the simulated motion",
        needs="controller and reference trajectory (falls back to the measured motion)",
        cost="one simulation and one regression per iteration, three or four of them",
        when="noisy or slowly sampled positions and a controller that is well known",
        description="Direct and inverse dynamic identification model, thesis eqs (41)-(42).",
    ),
    Method(
        OutputError("cloe", "q"),
        "simulated",
        "closed-loop output error: simulated against recorded positions",
        needs="controller and reference trajectory (falls back to the measured motion)",
        cost="one simulation with derivatives per iteration, about four of them",
        when="torques are poor, positions and the controller good",
        description="Fit simulated positions to recorded ones, thesis eqs (33)-(37).",
    ),
    Method(
        OutputError("clie", "tau"),
        "simulated",
        "closed-loop input error: simulated against recorded torques",
        needs="controller and reference trajectory (falls back to the measured motion)",
        cost="one simulation with derivatives per iteration, about four of them",
        when="as didim, with the exact derivative",
        description="Fit the simulated controller's torques to recorded ones, thesis eqs "
        "(38)-(40).",
    ),
    Method(
        _kalman("ekf", CovarianceFilter(Extended())),
        "filtering",
        "joint state and parameter filter along the tangent of the dynamics",
        needs="a robot file that is roughly right",
        cost="one tangent and one update per sample, about as long as a regression",
        when="a quick second opinion that computes no accelerations",
        description="Extended Kalman filter: the dynamics are replaced by their tangent, thesis "
        "C.1.",
    ),
    Method(
        _kalman("srekf", RootFilter(Extended())),
        "filtering",
        "extended Kalman filter in square-root form",
        needs="a robot file that is roughly right",
        cost="as ekf",
        when="as ekf, where that one loses its covariance",
        description="Extended Kalman filter that carries the covariance's root: it cannot lose "
        "its sign.",
    ),
    Method(
        _kalman("ukf", CovarianceFilter(Unscented(alpha=1e-2))),
        "filtering",
        "joint state and parameter filter by sigma points",
        needs="a robot file that is roughly right",
        cost="two simulations per parameter and sample, several times ekf",
        when="priors that are further off than a tangent reaches",
        description="Unscented Kalman filter: 2 n + 1 points are sent through the dynamics, "
        "thesis C.3.",
    ),
    Method(
        _kalman("srukf", RootFilter(Unscented(alpha=1e-2))),
        "filtering",
        "unscented Kalman filter in square-root form",
        needs="a robot file that is roughly right",
        cost="as ukf",
        when="as ukf, where that one loses its covariance",
        description="Unscented Kalman filter that carries the covariance's root.",
    ),
    Method(
        _kalman("cdkf", CovarianceFilter(CentralDifferences())),
        "filtering",
        "joint state and parameter filter by central differences",
        needs="a robot file that is roughly right",
        cost="as ukf",
        when="as ukf, with one setting less",
        description="Central difference Kalman filter: points further out than those of ukf, "
        "thesis C.5.",
    ),
    Method(
        _kalman("srcdkf", RootFilter(CentralDifferences())),
        "filtering",
        "central difference Kalman filter in square-root form",
        needs="a robot file that is roughly right",
        cost="as ukf",
        when="as cdkf, where that one loses its covariance",
        description="Central difference Kalman filter that carries the covariance's root.",
    ),
    Method(
        FilterMethod("pf", rate=100.0, spread=0.1, engine=ParticleEngine()),
        "filtering",
        "joint state and parameter filter by particles; rough",
        needs="a robot file that is nearly right",
        cost="a simulation for each of a thousand particles",
        when="one joint, or to see that particles do not do for more",
        description="Bootstrap particle filter, thesis section 2.2.8.",
    ),
    Method(
        LinearMethod("adaline", solver=Adaline(), fixed=("rows", "weights")),
        "neural",
        "Adaline: a linear neuron that learns row by row",
        needs="no extra input",
        cost="one regression, gone through some hundred times",
        when="as a reference for learning rules; wls gives the same, and exactly",
        description="A single linear neuron that learns to predict torques, thesis eqs (45)-(46).",
    ),
    Method(
        LinearMethod("hopfield", solver=Hopfield(), fixed=("rows", "weights")),
        "neural",
        "Hopfield-Tank network: least squares within bounds about the prior",
        needs="a prior within the bounds",
        cost="one regression, and some tens of small steps",
        when="each base parameter is known to lie within bounds about the prior",
        description="The network of thesis eqs (47)-(51), in Abe's form, whose energy is the "
        "squared error.",
    ),
)

IDENTIFIERS: Mapping[str, Method] = MappingProxyType({row.name: row for row in _METHODS})
"""Every method by the name that the command line knows it by."""

DEFAULT = "pc-wls"

_CONSISTENT_FORMS = {"iv": "pc-iv", "didim": "pc-didim"}
"""Methods with a consistent form of their own, which keeps what they were chosen for."""


def consistent_alternative(name: str) -> str:
    """The method to advise where that one led to links that are not physically consistent."""
    return _CONSISTENT_FORMS.get(name, DEFAULT)


def identifier(name: str = DEFAULT, **settings: Any) -> Identifier:
    """The identifier of that name, with other settings than its defaults if given.

    Raises:
        UnknownNameError: a method, or a setting of it, that does not exist.
    """
    if name not in IDENTIFIERS:
        raise unknown_name("method", name, IDENTIFIERS)
    return IDENTIFIERS[name].identifier(**settings)
