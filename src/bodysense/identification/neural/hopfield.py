"""Least squares as the rest of a Hopfield-Tank network."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from bodysense.errors import ShapeError
from bodysense.identification.factors import Stack
from bodysense.identification.identification import Identification, Iteration
from bodysense.identification.linear.least_squares import (
    LinearIdentifier,
    Solution,
    Solver,
    Weighing,
    least_squares,
    weighted,
)
from bodysense.identification.prior import Prior
from bodysense.identification.regression import Regression
from bodysense.spatial.arrays import Array, read_only

_LARGEST_STATE = 12.0
"""Where a neuron's output has come within 1e-10 of its bound: further there is only rounding."""

_AT_BOUND = 0.999
_HELD = 0.5
"""Resolution of a base parameter at its bound, at most: that of one driven by the prior."""

_SINGULAR = 1e-9
"""Directions whose effect is this much smaller than the strongest one's keep the prior's value: the
time step ends where they would begin to move."""

_GROWTH = 10.0
_SHORTEST_STEP = 1e-12
_QUIET = 3
"""Steps in a row that move next to nothing, each longer than the one before: then it rests."""

_ROUNDING = 1e-14
"""Share of the first residual below which changes of it are rounding."""


@dataclass(frozen=True)
class Hopfield(LinearIdentifier):
    """The network of thesis eqs (47)-(51), in Abe's form, whose energy is the squared error.

    One neuron a base parameter, with the state u and the output

        theta_base = centre + alpha tanh(u),      E = ½ ‖A theta_base - z‖²,      du/dt = -∂E/∂x

    by x = tanh(u), so that the energy falls along every path: dE/dt = -Σ (1 - x²) (∂E/∂x)² <= 0.
    Rows are weighed as by `WLS`, whose estimate is the rest unless it lies outside the bounds.

    Two things differ from the print. The energy (50) with the weights (51) is the squared error,
    but (47) and (49) add the bias kappa where the energy's slope has -kappa: as printed the network
    goes to minus the estimate. And outputs there lie about zero, within 1.5 times the largest
    initial parameter, whatever the units of each one; here they lie about the prior, within `bound`
    times the plausible size of each.

    The network's equation is stiff: the explicit steps (49) must be as short as the strongest
    direction asks for, and the weakest then takes as many of them as the square of the condition
    number. Linearly implicit steps of Euler's have the same rest and no such limit, so that they
    grow tenfold from one to the next; one that would raise the energy is taken again, shorter.

    Attributes:
        bound: range of each base parameter to both sides of the robot file's value, in plausible
            sizes.
        tolerance: change of predictions in a step, in standard deviations of the residual, at
            which the network rests.
        steps: steps of the network until it rests, at most.
    """

    bound: float = 3.0
    tolerance: float = 1e-6
    steps: int = 200

    name: ClassVar[str] = "hopfield"
    about: ClassVar[str] = "Hopfield-Tank network: least squares within bounds about the prior"
    needs: ClassVar[str] = "a prior within the bounds"
    cost: ClassVar[str] = "one regression, and some tens of small steps"
    when: ClassVar[str] = "each base parameter is known to lie within bounds about the prior"

    def __post_init__(self) -> None:
        for name in ("bound", "tolerance"):
            value = getattr(self, name)
            if not (np.isfinite(value) and value > 0.0):
                raise ShapeError(f"{name} is {value:g}: give a positive number.")
        if self.steps < 1:
            raise ShapeError(f"steps is {self.steps}: give a whole number from 1.")

    def fit(self, problem: Regression, *, rng: np.random.Generator | None = None) -> Identification:
        """Identify; the data push a parameter to its bound, but it is the prior that holds it."""
        result, prior = super().fit(problem, rng=rng), Prior.of(problem)
        x = (result.theta_base - prior.theta_base) / (self.bound * prior.size_base)
        stuck = np.abs(x) > _AT_BOUND
        if not stuck.any():
            return result
        part = prior.mapping[stuck].any(axis=0)
        held = np.where(stuck, np.minimum(result.base_resolution, _HELD), result.base_resolution)
        parts = np.where(part, np.minimum(result.resolution, _HELD), result.resolution)
        return replace(result, base_resolution=read_only(held), resolution=read_only(parts))

    def weigh(self, problem: Regression, prior: Prior, solve: Solver) -> Weighing:
        """Weigh as weighted least squares; then let the network come to rest."""
        start = weighted(
            problem, prior, lambda s: least_squares(problem, prior, s), tolerance=1e-3, most=20
        )
        rest = self._rest(prior, start.stack)
        theta_base = prior.theta_base + self.bound * prior.size_base * rest.x
        theta = prior.untouched(prior.complete(theta_base))
        return replace(
            start,
            solution=Solution(theta, start.solution.unseen),
            trace=rest.trace,
            converged=start.converged and rest.settled,
            note=start.note or self._note(prior, rest),
        )

    def _note(self, prior: Prior, rest: _Rest) -> str:
        stuck = np.flatnonzero(np.abs(rest.x) > _AT_BOUND)
        if stuck.size == 0:
            return ""
        names = "; ".join(prior.base_names[k] for k in stuck[:4]) + (
            "; …" if stuck.size > 4 else ""
        )
        return (
            f"{stuck.size} base parameter(s) lie at their bounds, {self.bound:g} plausible sizes "
            f"from the prior: {names}. Raise bound, or check the units of the log and the prior."
        )

    def _rest(self, prior: Prior, stack: Stack) -> _Rest:
        """Steps until the energy settles, of B x = r in units of the bounds.

        With D = 1 - x² an implicit step is (1 + h Bᵀ B D) Δu = h Bᵀ e, e = r - B x, and with the
        singular values of B D^½ = U s Vᵀ it is D^½ Δu = V s / (s² + 1 / h) Uᵀ e, for any h.
        """
        B = stack.A * (self.bound * prior.size_base)
        r = stack.z - stack.A @ prior.theta_base
        strongest = float(np.linalg.norm(B, 2))
        u, x = np.zeros((2, r.size))
        if not strongest > 0.0:
            return _Rest(x, (), True)
        e, unit = r, np.sqrt(max(stack.rows, 1))
        least = max(unit * self.tolerance, _ROUNDING * float(np.linalg.norm(r)))
        h, longest = 1.0 / strongest**2, 1.0 / (_SINGULAR * strongest) ** 2
        trace: list[Iteration] = []
        quiet = 0
        for _ in range(self.steps):
            root = np.sqrt(1.0 - x**2)
            U, s, Vt = np.linalg.svd(B * root)
            new, e_new = u, e
            while h * strongest**2 > _SHORTEST_STEP:
                step = Vt.T @ (s / (s**2 + 1.0 / h) * (U.T @ e))
                new = np.clip(u + step / root, -_LARGEST_STATE, _LARGEST_STATE)
                e_new = r - B @ np.tanh(new)
                if e_new @ e_new <= e @ e:
                    break
                new, e_new = u, e
                h /= _GROWTH
            moved = float(np.linalg.norm(e_new - e))
            u, x, e = new, np.tanh(new), e_new
            trace.append(Iteration(float(e @ e) + stack.rest, moved / unit))
            quiet = quiet + 1 if moved <= least else 0
            if quiet == _QUIET:
                return _Rest(x, tuple(trace), True)
            h = min(h * _GROWTH, longest)
        return _Rest(x, tuple(trace), False)


@dataclass(frozen=True, eq=False)
class _Rest:
    """Where a network has come to: outputs x in units of the bounds, its path, whether it rests."""

    x: Array
    trace: tuple[Iteration, ...]
    settled: bool
