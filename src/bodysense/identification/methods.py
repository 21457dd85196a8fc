"""The registry of methods: a row of words each, and its parts, imported when it is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from bodysense.errors import unknown_name
from bodysense.identification.identifier import Identifier, Method

if TYPE_CHECKING:
    from bodysense.identification.linear.least_squares import Solver
    from bodysense.identification.linear.method import LinearMethod


def _compose_linear(name: str) -> LinearMethod:
    from bodysense.identification.linear.least_squares import Ridge, TotalLeastSquares
    from bodysense.identification.linear.method import EqualWeights, LinearMethod, RobustWeights

    match name:
        case "ols":
            return LinearMethod(name, weights=EqualWeights())
        case "wls":
            return LinearMethod(name)
        case "irls":
            return LinearMethod(name, weights=RobustWeights())
        case "tls":
            return LinearMethod(name, weights=EqualWeights(), solver=TotalLeastSquares())
        case "ridge":
            return LinearMethod(name, solver=Ridge(), fixed=("weights",))
        case "rls":
            from bodysense.identification.online import RecursivePass

            return LinearMethod(name, solver=RecursivePass(), fixed=("weights",))
        case "energy":
            from bodysense.identification.linear.energy import EnergyWeights

            return LinearMethod(name, weights=EnergyWeights(), solver=Ridge(spread=1.0))
        case "ml":
            from bodysense.identification.linear.likelihood import LikelihoodWeights

            return LinearMethod(name, weights=LikelihoodWeights())
    raise NotImplementedError(f"{name} has no weights and solver: add a case to _compose_linear.")


def _compose_consistent(name: str) -> Identifier:
    from bodysense.identification.consistent.solvers import SQP, ClosestRobot, Conic

    weighted = {"pc-points": "wls", "pc-closest": "ols"}.get(name, name.rpartition("-")[2])
    solver: Solver = SQP() if name.startswith("pc-sqp-") else Conic()
    if name == "pc-points":
        from bodysense.identification.consistent.point_masses import PointMasses

        solver = PointMasses()
    elif name == "pc-closest":
        solver = ClosestRobot()
    return replace(_compose_linear(weighted), name=name, solver=solver)


def _compose_simulated(name: str) -> Identifier:
    from bodysense.identification.consistent.solvers import Conic

    if name in ("cloe", "clie", "pc-cloe"):
        from bodysense.identification.simulated.output_error import OutputError

        plain = OutputError(name, "tau" if name == "clie" else "q")
        return replace(plain, solver=Conic()) if name.startswith("pc-") else plain
    from bodysense.identification.linear.least_squares import LeastSquares
    from bodysense.identification.linear.method import LinearMethod
    from bodysense.identification.simulated.iv import SimulatedWeights

    weights = SimulatedWeights("instruments" if name.endswith("iv") else "regressor")
    solver = Conic() if name.startswith("pc-") else LeastSquares()
    return LinearMethod(name, weights=weights, solver=solver)


def _compose_filtering(name: str) -> Identifier:
    from bodysense.identification.filtering.method import FilterMethod, KalmanEngine, ParticleEngine
    from bodysense.kalman import (
        CentralDifferences,
        CovarianceFilter,
        Extended,
        RootFilter,
        Unscented,
    )

    if name == "pf":
        return FilterMethod(name, rate=100.0, spread=0.1, engine=ParticleEngine())
    kinds: dict[str, Extended | Unscented | CentralDifferences] = {
        "ekf": Extended(),
        "ukf": Unscented(alpha=1e-2),
        "cdkf": CentralDifferences(),
    }
    form = RootFilter if name.startswith("sr") else CovarianceFilter
    return FilterMethod(name, engine=KalmanEngine(filter=form(kinds[name.removeprefix("sr")])))


def _compose_neural(name: str) -> Identifier:
    from bodysense.identification.linear.method import LinearMethod
    from bodysense.identification.neural import Adaline, Hopfield

    solver = Adaline() if name == "adaline" else Hopfield()
    return LinearMethod(name, solver=solver, fixed=("weights",))


_linear = partial(Method, group="linear", compose=_compose_linear)
_consistent = partial(Method, group="consistent", compose=_compose_consistent)
_simulated = partial(Method, group="simulated", compose=_compose_simulated)
_filtering = partial(Method, group="filtering", compose=_compose_filtering)
_neural = partial(Method, group="neural", compose=_compose_neural)

_FILE = "a robot file that is roughly right"
_NOISE = "noise levels: taken from the log"
_LOOP = "controller and reference trajectory (falls back to the measured motion)"

_METHODS = (
    _linear(
        "ols",
        "ordinary least squares",
        cost="one regression",
        when="a first look, or joints of equal noise",
        description="Minimise Σ (y - Y theta_base)² over all rows, thesis eq (16) with Σ = σ² I.",
    ),
    _linear(
        "wls",
        "least squares weighted by the noise of each log and joint",
        needs=_NOISE,
        cost="one regression, weighted a few times",
        when="torques are all that matters: links may not be physically consistent",
        description="Minimise Σ ((y - Y theta_base) / σ)² with σ of each log and joint, thesis "
        "eqs (16)-(17).",
    ),
    _linear(
        "irls",
        "robust least squares (Huber): rows that do not fit lose weight",
        needs=_NOISE,
        cost="one regression, a pass over all rows per iteration",
        when="outliers (knocks, contacts, wrong samples): weighted by Huber's cost",
        description="Weighted least squares, rows weighted by υ(residual) too, eqs (18)-(20).",
    ),
    _linear(
        "tls",
        "total least squares: noise in the regressor too",
        cost="one regression",
        when="for comparison: it takes every column of the regressor to be equally noisy",
        description="Smallest change of [Y y] that makes it singular: its last singular vector.",
    ),
    _linear(
        "ridge",
        "weighted least squares that stays near the prior where data are poor",
        needs=f"{_FILE}; {_NOISE}",
        cost="one regression, weighted a few times",
        when="motions that leave parameters unexcited",
        description="Minimise Σ ((y - Y theta) / σ)² + Σ ((theta - theta_prior) / (spread · "
        "size))².",
    ),
    _linear(
        "rls",
        "recursive least squares, which can forget (for robots that change)",
        needs=f"{_FILE}; {_NOISE}",
        cost="one regression, then row by row",
        when="robots that change while they are recorded: with forgetting below 1",
        description="Least squares row by row in the order of time, with rows weighted as by wls.",
    ),
    _linear(
        "energy",
        "work and energy between samples, no accelerations",
        needs=f"{_FILE}; {_NOISE}",
        cost="one regression, a pass over all rows per iteration",
        when="accelerations that cannot be trusted, and several times the usual motion",
        description="Minimise Σ ((work - energy gained - work of friction) / σ)² over windows of "
        "time.",
    ),
    _linear(
        "ml",
        "maximum likelihood: noise of positions counts beside that of torques",
        cost="one regression, whitened a few times",
        when="positions are noisy, so that accelerations are noise to a good part",
        description="Minimise Σ_k epsilon_kᵀ (G_k Sigma_s G_kᵀ + Sigma_tau)⁻¹ epsilon_k, thesis "
        "eq (32).",
    ),
    _consistent(
        "pc-ols",
        "ordinary least squares over physically consistent robots",
        cost="one regression, one semidefinite program",
        when="joints of equal noise, or too few rows to tell their noise apart",
        description="Rows weighted as by ols, solved over physically consistent robots.",
    ),
    _consistent(
        "pc-wls",
        "weighted least squares over physically consistent robots",
        needs=_NOISE,
        cost="one regression, one semidefinite program",
        when="nearly always: links are physically consistent, also where the motion is poor",
        description="Rows weighted as by wls, solved over physically consistent robots.",
    ),
    _consistent(
        "pc-irls",
        "robust least squares over physically consistent robots",
        needs=_NOISE,
        cost="one regression, one semidefinite program per iteration",
        when="outliers (knocks, contacts, wrong samples): weighted by Huber's cost",
        description="Rows weighted as by irls, solved over physically consistent robots.",
    ),
    _consistent(
        "pc-sqp-ols",
        "ordinary least squares over consistent robots, by quadratic programs",
        cost="one regression, a few quadratic programs",
        when="as pc-ols, of which it is an independent check",
        description="Rows weighted as by ols, solved over square roots of consistent robots.",
    ),
    _consistent(
        "pc-sqp-wls",
        "weighted least squares over consistent robots, by quadratic programs",
        needs=_NOISE,
        cost="one regression, a few quadratic programs",
        when="as pc-wls, of which it is an independent check",
        description="Rows weighted as by wls, solved over square roots of consistent robots.",
    ),
    _consistent(
        "pc-sqp-irls",
        "robust least squares over consistent robots, by quadratic programs",
        needs=_NOISE,
        cost="one regression, a few quadratic programs per iteration",
        when="as pc-irls, of which it is an independent check",
        description="Rows weighted as by irls, solved over square roots of consistent robots.",
    ),
    _consistent(
        "pc-points",
        "weighted least squares over point masses inside the links' shapes",
        needs=f"shapes of the links, from the robot file, or boxes; {_NOISE}",
        cost="one regression, one quadratic program with hundreds of unknowns per link",
        when="links must fit inside their shapes, and these are known",
        description="Rows weighted as by wls; links are non-negative masses at points inside "
        "their shape.",
    ),
    _consistent(
        "pc-closest",
        "least squares, then the closest consistent robot (eq 62)",
        cost="one regression, one semidefinite program",
        when="for comparison, or (in Python) estimates whose data are not at hand",
        description="Ordinary least squares, then the closest consistent robot, thesis eq (62).",
    ),
    _simulated(
        "pc-iv",
        "instrumental variables over physically consistent robots",
        needs=_LOOP,
        cost="one simulation and one semidefinite program per iteration",
        when="as iv, where the result is to be simulated or controlled with",
        description="iv with a semidefinite program per iteration, thesis eqs (66)-(67).",
    ),
    _simulated(
        "pc-didim",
        "DIDIM over physically consistent robots",
        needs=_LOOP,
        cost="one simulation and one semidefinite program per iteration",
        when="as didim, where the result is to be simulated or controlled with",
        description="didim with a semidefinite program per iteration, thesis eq (65).",
    ),
    _simulated(
        "pc-cloe",
        "closed-loop output error over physically consistent robots",
        needs=_LOOP,
        cost="as cloe, and some iterations more, each with a semidefinite program",
        when="noisy encoders, and a controller that is well known",
        description="cloe, whose last steps are semidefinite programs.",
    ),
    _simulated(
        "iv",
        "instrumental variables from the simulated motion",
        needs=_LOOP,
        cost="one simulation and one regression per iteration, about three of them",
        when="noisy positions: no bias from noise, and little from a wrong simulation",
        description="Zᵀ (y - Y theta_base) = 0, Z from the simulated motion, eqs (26), (30).",
    ),
    _simulated(
        "didim",
        "least squares with the regressor of the simulated motion",
        needs=_LOOP,
        cost="one simulation and one regression per iteration, three or four of them",
        when="noisy or slowly sampled positions and a controller that is well known",
        description="Direct and inverse dynamic identification model, thesis eqs (41)-(42).",
    ),
    _simulated(
        "cloe",
        "closed-loop output error: simulated against recorded positions",
        needs=_LOOP,
        cost="one simulation with derivatives per iteration, about four of them",
        when="torques are poor, positions and the controller good",
        description="Fit simulated positions to recorded ones, thesis eqs (33)-(37).",
    ),
    _simulated(
        "clie",
        "closed-loop input error: simulated against recorded torques",
        needs=_LOOP,
        cost="one simulation with derivatives per iteration, about four of them",
        when="as didim, with the exact derivative",
        description="Fit the simulated controller's torques to recorded ones, eqs (38)-(40).",
    ),
    _filtering(
        "ekf",
        "joint state and parameter filter along the tangent of the dynamics",
        needs=_FILE,
        cost="one tangent and one update per sample, about as long as a regression",
        when="a quick second opinion that computes no accelerations",
        description="Extended Kalman filter: the dynamics' tangent takes their place, thesis C.1.",
    ),
    _filtering(
        "srekf",
        "extended Kalman filter in square-root form",
        needs=_FILE,
        cost="as ekf",
        when="as ekf, where that one loses its covariance",
        description="Extended Kalman filter that carries the covariance's root.",
    ),
    _filtering(
        "ukf",
        "joint state and parameter filter by sigma points",
        needs=_FILE,
        cost="two simulations per parameter and sample, several times ekf",
        when="priors that are further off than a tangent reaches",
        description="Unscented Kalman filter: 2 n + 1 points pass the dynamics, thesis C.3.",
    ),
    _filtering(
        "srukf",
        "unscented Kalman filter in square-root form",
        needs=_FILE,
        cost="as ukf",
        when="as ukf, where that one loses its covariance",
        description="Unscented Kalman filter that carries the covariance's root.",
    ),
    _filtering(
        "cdkf",
        "joint state and parameter filter by central differences",
        needs=_FILE,
        cost="as ukf",
        when="as ukf, with one setting less",
        description="Central differences: points further out than those of ukf, thesis C.5.",
    ),
    _filtering(
        "srcdkf",
        "central difference Kalman filter in square-root form",
        needs=_FILE,
        cost="as ukf",
        when="as cdkf, where that one loses its covariance",
        description="Central difference Kalman filter that carries the covariance's root.",
    ),
    _filtering(
        "pf",
        "joint state and parameter filter by particles; rough",
        needs="a robot file that is nearly right",
        cost="a simulation for each of a thousand particles",
        when="one joint, or to see that particles do not do for more",
        description="Bootstrap particle filter, thesis section 2.2.8.",
    ),
    _neural(
        "adaline",
        "Adaline: a linear neuron that learns row by row",
        cost="one regression, gone through some hundred times",
        when="as a reference for learning rules; wls gives the same, and exactly",
        description="A single linear neuron that learns to predict torques, thesis eqs (45)-(46).",
    ),
    _neural(
        "hopfield",
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

AUTO = "auto"
"""Name by which a method is chosen by what the recordings show (see `choose_method`)."""

DEFAULT = "pc-wls"
"""Where nothing is chosen: a single fit, or a method with settings."""

_CONSISTENT_FORMS = {"iv": "pc-iv", "didim": "pc-didim", "cloe": "pc-cloe"}
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
