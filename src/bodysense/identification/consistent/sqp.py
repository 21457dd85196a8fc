"""The physically consistent estimate by sequential quadratic programming, thesis eqs (174)-(176).

    minimise |K (theta(ρ) - theta_free)|² (+ λ excess, if entropic)    over factors and drives ρ
    subject to  diagonals of the factors ≥ ε,  drives ≥ 0,  what else is known of the links,

the problem of `projection` in the coordinates of `_SquareRootChart`, in which links exist by
construction. It has the same minimum. Each step is a quadratic program between bounds, with

    Hessian = Jᵀ ∂²f/∂theta² J + second derivatives of theta(ρ), their positive part,

accepted by the reduction that it brings and predicts, in a trust region that follows from these
and is annealed by eq (193).

Where a diagonal entry is zero, the derivative by it is zero too: one that has come to the bound of
eq (194) too early does not come back. So -2 μ Σ log C_kk is added, with a μ that is annealed as
well. What is known of the links enters as such a logarithm if it is an inequality, as a penalty
with multipliers (augmented Lagrangian) if it is an equality.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bodysense.identification.consistent.projection import (
    checked,
    inside,
    is_consistent,
    solve_box,
    unconstrained,
    unsolved_message,
)
from bodysense.identification.consistent.relaxation import (
    MARGIN,
    EntropicExcess,
    LinkMatrices,
    Relaxation,
)
from bodysense.identification.prior import Prior
from bodysense.identification.reduced import Stack
from bodysense.identification.solution import Solution
from bodysense.spatial.arrays import Array

# All parameters by square roots: links as C Cᵀ + ε 1, drives as they are; thesis eqs (168)-(173).
#
# A step multiplies the factor of a link, C ← C (1 + M) with a lower triangular M, so that
#
#     P = C (1 + M)(1 + M)ᵀ Cᵀ + ε 1 = P_0 + C (M + Mᵀ) Cᵀ + C M Mᵀ Cᵀ.
#
# theta is quadratic in the factors. Eq (175) holds one of the two and solves for the other, which
# is no linearisation: of a square it has half the derivative (x² = y by x ← y / x goes to and fro
# for ever), of a product one of its two terms. Only steps that are made to shrink, eq (193), end
# it. Here steps are taken along the derivative, C (M + Mᵀ) Cᵀ.
#
# The relative step M is also what the trust region of eq (176) bounds, ϖ |ρ|, except that entries
# which are zero may move.

_ROWS, _COLUMNS = np.tril_indices(4)
_DIAGONAL = np.flatnonzero(_ROWS == _COLUMNS)
_STEPS = np.zeros((10, 4, 4))
_STEPS[np.arange(10), _ROWS, _COLUMNS] = 1.0
_BOTH = _STEPS + np.swapaxes(_STEPS, 1, 2)

_LEAST_SHARE = 0.1  # what of (1 + M)(1 + M)ᵀ a correction leaves at least in any direction


@dataclass(frozen=True, eq=False)
class _Point:
    """Where an iteration is.

    Attributes:
        C: (n_links, 4, 4) lower triangular, positive diagonals, in units of mass and length.
        x: (n_drives,) the other parameters in units of their sizes.
        theta: (p,) all parameters.
    """

    C: Array
    x: Array
    theta: Array

    @property
    def diagonal(self) -> Array:
        """(n_links, 4) of C."""
        return np.diagonal(self.C, axis1=1, axis2=2)


class _SquareRootChart:
    """Points and steps (10 n_links + n_drives,) of a robot.

    Args:
        prior: sizes and links.
        lmi: matrices of the links.
        epsilon: in units of mass and length.
        least: smallest diagonal entry of C, eq (194), in the same units.
    """

    def __init__(self, prior: Prior, lmi: LinkMatrices, epsilon: float, least: float) -> None:
        self.epsilon, self.least, self.lmi = epsilon, least, lmi
        self.n = len(lmi.links)
        self.places = np.array([np.arange(link.start, link.stop) for link in lmi.links])
        others = np.setdiff1d(np.arange(prior.size.size), self.places)
        self.others: NDArray[np.int64] = others
        self.size = prior.size[others]
        self.positive = np.isin(others, prior.positive)
        self.diagonals = (10 * np.arange(self.n)[:, None] + _DIAGONAL).ravel()
        # A symmetric matrix from ten numbers and back.
        self.back = np.array([np.linalg.pinv(P.reshape(16, 10)) for P in lmi.maps])

    def near(self, theta: Array, clip: float) -> _Point:
        """The point of a theta (p,), its links moved inside by eigenvalues of `clip` at least."""
        P = np.array(self.lmi.of(theta)) - self.epsilon * np.eye(4)
        values, V = np.linalg.eigh(P)
        C = np.linalg.cholesky((V * np.maximum(values, clip)[:, None]) @ np.swapaxes(V, 1, 2))
        return self._point(C, theta[self.others] / self.size)

    def _point(self, C: Array, x: Array) -> _Point:
        x = np.where(self.positive, np.maximum(x, 0.0), x)
        P = C @ np.swapaxes(C, 1, 2) + self.epsilon * np.eye(4)
        theta = np.empty(self.places.size + self.others.size)
        theta[self.places] = (self.back @ P.reshape(-1, 16, 1))[:, :, 0]
        theta[self.others] = x * self.size
        return _Point(C, x, theta)

    def jacobian(self, at: _Point) -> Array:
        """(p, k) of theta by a step, at none."""
        change = at.C[:, None] @ _BOTH @ np.swapaxes(at.C, 1, 2)[:, None]
        of_links = self.back @ np.swapaxes(change.reshape(-1, 10, 16), 1, 2)
        J = np.zeros((self.places.size + self.others.size,) * 2)
        for k, (places, block) in enumerate(zip(self.places, of_links, strict=True)):
            J[places[0] : places[-1] + 1, 10 * k : 10 * k + 10] = block
        J[self.others, np.arange(10 * self.n, J.shape[1])] = self.size
        return J

    def pulled(self, at: _Point, gradient: Array) -> Array:
        """(n_links, 4, 4) Z with the gradient (p,) times a link's change = <Z, change of CᵀPC>."""
        Z = np.swapaxes(self.back, 1, 2) @ gradient[self.places][:, :, None]
        Z = Z.reshape(-1, 4, 4)
        pulled: Array = np.swapaxes(at.C, 1, 2) @ (0.5 * (Z + np.swapaxes(Z, 1, 2))) @ at.C
        return pulled

    def stepped(self, at: _Point, step: Array) -> _Point:
        """The point after a step, with the quadratic part taken out again as far as it can be.

        (1 + M)(1 + M)ᵀ - M Mᵀ is the linear part alone, along which strong data lie in straight
        lines. Where it is not positive, a tenth of the first stays.
        """
        M = np.zeros((self.n, 4, 4))
        M[:, _ROWS, _COLUMNS] = step[: 10 * self.n].reshape(self.n, 10)
        ahead = np.eye(4) + M
        U, s, _ = np.linalg.svd(np.linalg.solve(ahead, M))
        left = np.sqrt(np.maximum(1.0 - s**2, _LEAST_SHARE))
        factor = at.C @ ahead @ (U * left[:, None])
        C = np.swapaxes(np.linalg.qr(np.swapaxes(factor, 1, 2), mode="r"), 1, 2)
        diagonal = np.diagonal(C, axis1=1, axis2=2)
        C = C * np.where(diagonal < 0.0, -1.0, 1.0)[:, None]
        k = np.arange(4)
        C[:, k, k] = np.maximum(C[:, k, k], self.least)
        return self._point(C, at.x + step[10 * self.n :])


_LEAST_DIAGONAL = 1e-5  # ε of eq (194), in units of plausible mass and length

# name                 value    meaning
_MOST_STEPS = 150  #            steps
_LARGEST_RADIUS = 0.9  #        trust region: relative change of a factor
_ANNEALING = 0.02  #            μ of eq (193): shrinkage of the trust region unless it is widened
_ACCURACY = 1e-6  #             of the cost, in units of its value and the noise
_BARRIER_FACTOR = 0.05  #       on the logarithms' weight, once converged
_START_EIGENVALUE = 0.05  #     smallest eigenvalue of a start
_KEPT_BARRIER = 0.03  #         logarithms' weight at which a point is kept for similar problems
_LARGEST_PRECISION = 1e6  #     information of the data, in units of the prior's, that counts
_STIFFNESS = 1e6  #             of penalties, in units of the data's information
_EQUALITY_TOLERANCE = 1e-6  #   error of equalities, in the same units
_REGULARISATION = 1e-6  #       curvature added, so that what has no effect has no step


@dataclass(frozen=True, eq=False)
class Centred:
    """Where to begin with a similar problem: well inside, for one at the border does not get away.

    Attributes:
        at: the point.
        mu: weight of the logarithms that it is the minimum for.
    """

    at: _Point
    mu: float


def square_root_least_squares(
    prior: Prior,
    stack: Stack,
    relaxation: Relaxation | None = None,
    start: Centred | None = None,
) -> tuple[Solution, Centred | None]:
    """Solve the reduced problem over consistent parameters; relaxed by default as the projection.

    Takes where to begin from a similar problem of the same prior, and returns it for the next.
    """
    chosen = relaxation if relaxation is not None else Relaxation()
    known, lmi = prior.constraints, LinkMatrices(prior)
    factor = chosen.factor(prior)
    if not chosen.entropic:
        theta_0, D = known.free_directions(prior.theta, factor)
        theta_free, L = unconstrained(prior, stack, theta_0, D)
        if is_consistent(prior, lmi, theta_free):
            return Solution(theta_free), start
    theta_free, L = unconstrained(prior, stack, prior.theta, factor, most=_LARGEST_PRECISION)
    chart = _SquareRootChart(prior, lmi, 0.0 if chosen.entropic else MARGIN, _LEAST_DIAGONAL)
    excess = EntropicExcess(prior, lmi, chosen.weight) if chosen.entropic else None
    cost = _Cost(prior, chart, theta_free, L, excess)
    if start is None or known.any:
        begin = inside(prior, chosen, stack) if known.any else prior.theta
        if begin is None:
            failure = unsolved_message(prior, "nothing lies inside")
            return Solution(theta_free, failure=failure), None
        at = chart.near(begin, _START_EIGENVALUE)
        start = Centred(at, max(1.0, 0.1 * cost.value(at) / cost.terms))
    at, centred, converged = _iterate(cost, start)
    solution = checked(prior, lmi, at.theta, theta_free, 0.0)
    if not converged and not solution.failure:
        failure = (
            f"The iteration had not converged after {_MOST_STEPS} steps; the estimate is "
            "consistent, but not the best. Use a method without `sqp` in its name."
        )
        solution = replace(solution, failure=failure)
    return solution, centred


class _Cost:
    """f of a point, with logarithms of weight μ, its slope and its curvature."""

    def __init__(
        self,
        prior: Prior,
        chart: _SquareRootChart,
        theta_free: Array,
        L: Array,
        excess: EntropicExcess | None,
    ) -> None:
        self.chart, self.excess, known = chart, excess, prior.constraints
        K = np.linalg.inv(L)
        E, e = known.balanced(L)
        self.K = np.vstack([K, np.sqrt(_STIFFNESS) * E])
        self.target = np.append(K @ theta_free, np.sqrt(_STIFFNESS) * e)
        self.equal = slice(K.shape[0], self.K.shape[0])
        self.shift = np.zeros(e.size)
        unit = np.linalg.norm(known.G * prior.size, axis=1)
        self.G, self.g = known.G / unit[:, None], known.g / unit
        self.terms = 4 * chart.n + self.g.size
        self.mu = 0.0

    def value(self, at: _Point) -> float:
        theta = at.theta
        slack = self.g - self.G @ theta
        if (slack <= 0.0).any():
            return np.inf
        logs = float(2.0 * np.log(at.diagonal).sum() + np.log(slack).sum())
        cost = float(np.sum(self.residual(theta) ** 2)) - self.mu * logs
        return cost + (self.excess.value(theta) if self.excess is not None else 0.0)

    def residual(self, theta: Array) -> Array:
        r: Array = self.K @ theta - self.target
        r[self.equal] += self.shift
        return r

    def missed(self, at: _Point) -> float:
        """By how much equalities are missed, in units of what the data say."""
        return float(np.abs(self.residual(at.theta)[self.equal] - self.shift).max(initial=0.0))

    def update_multipliers(self, at: _Point) -> None:
        self.shift = self.residual(at.theta)[self.equal]

    def model(self, at: _Point) -> tuple[Array, Array]:
        """Gradient (k,) and Hessian (k, k) by a step."""
        chart, n, theta = self.chart, self.chart.n, at.theta
        J = chart.jacobian(at)
        slack = self.g - self.G @ theta
        pull = 2.0 * (self.K.T @ self.residual(theta)) + self.G.T @ (self.mu / slack)
        Q = np.vstack([np.sqrt(2.0) * self.K, self.G * (np.sqrt(self.mu) / slack)[:, None]]) @ J
        H: Array = Q.T @ Q
        second = np.zeros((n, 10, 10))
        if self.excess is not None:
            more, curvature = self.excess.derivatives(theta)
            pull = pull + more
            for k, link in enumerate(chart.lmi.links):
                block = J[link, 10 * k : 10 * k + 10]
                second[k] = block.T @ curvature[k] @ block
        gradient = J.T @ pull
        gradient[chart.diagonals] -= 2.0 * self.mu
        values, V = np.linalg.eigh(chart.pulled(at, pull))
        Z = (V * np.maximum(values, 0.0)[:, None]) @ np.swapaxes(V, 1, 2)
        second += 2.0 * Z[:, _ROWS[:, None], _ROWS] * (_COLUMNS[:, None] == _COLUMNS)
        second += 2.0 * self.mu * np.diag(1.0 + (_ROWS == _COLUMNS))
        for k in range(n):
            H[10 * k : 10 * k + 10, 10 * k : 10 * k + 10] += second[k]
        H[np.diag_indices_from(H)] += _REGULARISATION
        return gradient, H


def _iterate(cost: _Cost, start: Centred) -> tuple[_Point, Centred, bool]:
    """Steps until the reduction that they promise is none, and whether it came to that.

    Also a point on the way for problems that are alike.
    """
    chart, at, radius, centred = cost.chart, start.at, _LARGEST_RADIUS, start
    links = 10 * chart.n
    guess = np.zeros(links + at.x.size)
    cost.mu = start.mu
    for _ in range(_MOST_STEPS):
        now = cost.value(at)
        g, H = cost.model(at)
        lower, upper = np.full(g.size, -radius), np.full(g.size, radius)
        room = np.minimum(chart.least / at.diagonal - 1.0, 0.0)
        lower[chart.diagonals] = np.maximum(lower[chart.diagonals], room.ravel())
        lower[links:] = np.where(chart.positive, -at.x, -np.inf)
        upper[links:] = np.inf
        step = solve_box(H, g, lower, upper, guess)
        # Steps of links are free to change; which drives are at zero seldom does.
        guess[links:] = np.where(step[links:] <= lower[links:], -1.0, 0.0)
        promised = -float(g @ step + 0.5 * step @ H @ step)
        after = chart.stepped(at, step)
        reached = now - cost.value(after)
        if reached > 0.05 * promised:
            at = after
        share = reached / max(promised, 1e-300)
        factor = 2.0 if share > 0.5 else 1.0 if share > 0.1 else 0.25
        radius = min(radius * factor * np.exp(-_ANNEALING), _LARGEST_RADIUS)
        exact = _ACCURACY * max(1.0, abs(now))
        if promised <= max(0.02 * cost.mu * cost.terms, 1e-3 * exact):
            last = cost.mu * cost.terms <= exact
            if last and cost.missed(at) <= _EQUALITY_TOLERANCE:
                return at, centred, True
            if cost.mu >= _KEPT_BARRIER:
                centred = Centred(at, cost.mu)
            # Equalities first: with less weight of the logarithms, links would go to the border to
            # avoid what the multipliers do not yet ask for.
            if not last and cost.missed(at) <= max(_EQUALITY_TOLERANCE, cost.mu):
                cost.mu *= _BARRIER_FACTOR
            cost.update_multipliers(at)
    return at, centred, False
